"""What the training commands print: the data, the columns, the designs worth a look, what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from emsco_runtime.bundle.label_figures import COLUMNS, describe_base_rate, describe_missed_labels, label_rows
from emsco_runtime.bundle.manifest import LabelCounts
from emsco_runtime.bundle.summary import percent, percent_at_least, pluralize
from emsco_runtime.cli.console import format_number, format_table
from emsco_train.data.label_counts import count_positions
from emsco_train.data.problem import Problem
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.knee import least_useful_coverage
from emsco_train.designs.precision import Bounds
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.designs.threshold_text import format_threshold
from emsco_train.runs.curves_file import describe_stages
from emsco_train.runs.front_measurement import MeasuredDesign
from emsco_train.runs.preparation import PreparedRun
from emsco_train.runs.run_file import CountsEntry
from emsco_train.runs.run_record import describe_columns
from emsco_train.runs.training import TrainedRun
from emsco_train.support.binomial import upper_bound

__all__ = [
    "accuracy_floors",
    "calibration_warnings",
    "find_base_rate",
    "format_bounds",
    "format_columns",
    "format_counts",
    "format_data",
    "format_front",
    "format_labels",
    "is_below_bound",
    "minimum_coverage",
]

_MAX_SHOWN_COLUMNS = 60
_MAX_STAGE_CHARACTERS = 100
_FLOOR_COUNT = 4
_MAX_SHOWN_LABELS = 40
# A label is rare if it has less than this share of the rows that it would have if all labels had as many.
_RARE_SHARE = 0.25
# Designs that fewer rows measured owe much of their order to luck.
_ENOUGH_ROWS = 1000
# With fewer, boosted stages gained little (docs/experiments.md).
_ROWS_FOR_TREES = 2000
# With fewer rows for each feature, and none held out, nobody can tell good designs from lucky ones.
_ROWS_OF_A_FEATURE = 2
# Few answers cannot show that few of them differ: so many that differ would be within the share that is asked for.
_SHOWN_DIFFERENCES = 8
# Where a threshold lets fewer rows than this be accepted, a line says so.
_LEAST_ACCEPTED = 0.5


def format_data(prepared: PreparedRun) -> list[str]:
    """Return what was read, and how it was split."""
    problem, source = prepared.problem, prepared.source
    counts = count_positions(np.concatenate([split.target for split in problem.splits()]), len(problem.labels))
    files = ", ".join(Path(file.path).name for file in source.files)
    rows = sum(counts)
    labels = ", ".join(
        f"{label}: {counts[position]} ({percent(counts[position], rows)})" for position, label in enumerate(problem.labels)
    )
    splits = ", ".join(f"{split.name} {len(split)}" for split in problem.splits())
    weights = prepared.request.columns.weight
    stages, directions = describe_stages(problem.settings.kind, problem.curve_strength), problem.settings.directions
    return [
        f"data     {files}: {pluralize(source.table.rows, 'row')}, {pluralize(len(problem.names), 'feature')}",
        f"labels   {labels}",
        f"splits   {splits}",
        *([] if weights is None else [f"weights  column {weights}: fits, figures and certificates count rows by it"]),
        *_describe_folds(problem, by_time=source.time is not None),
        *_describe_sample(prepared),
        f"costs    all features: {format_number(problem.full_cost)} {problem.costs.unit}",
        *([] if stages is None else [f"stages   {stages}"]),
        *([f"shapes   {directions.describe(problem.labels[1])}"] if directions else []),
    ]


def _describe_folds(problem: Problem, *, by_time: bool) -> list[str]:
    """Return how the train rows measure designs, where they do."""
    if not problem.is_cross_fitted:
        return []
    folds, rows, unscored = len(problem.parts), len(problem.validation), len(problem.train) - len(problem.validation)
    if by_time:
        lines = [
            f"folds    {folds}, cross-fitted in order of time: {pluralize(rows, 'train row')}, scored by models of earlier rows"
        ]
        return [*lines, f"         the first {pluralize(unscored, 'train row')} only fit, and are not counted"]
    lines = [f"folds    {folds}, cross-fitted: each train row is scored by models of the other folds"]
    if unscored:
        lines.append(f"         {pluralize(unscored, 'row')} of labels that are too rare only fit, and are not counted")
    return lines


def _describe_sample(prepared: PreparedRun) -> list[str]:
    """Return on how many rows designs will be searched, where that is not all of them."""
    rows, problem = prepared.search_rows, prepared.problem
    parts = (problem.train,) if problem.is_cross_fitted else (problem.train, problem.validation)
    if rows is None or all(len(part) <= rows for part in parts):
        return []
    sample = " and ".join(f"{min(rows, len(part)):,} {part.name}" for part in parts)
    return [
        f"search   on a sample of {sample} rows; what is found is fitted and measured on all (--max-search-rows all: no sample)"
    ]


def format_columns(prepared: PreparedRun) -> str:
    """Return a table of the columns as they were read."""
    problem = prepared.problem
    rows = [
        [
            entry.name,
            entry.kind if entry.kind != "categorical" else f"categorical ({entry.categories})",
            str(entry.gaps or "-"),
            format_number(feature.cost),
            ", ".join(feature.all_groups) or "-",
        ]
        for entry, feature in zip(describe_columns(problem), problem.features, strict=True)
    ]
    more = f"\n... and {len(rows) - _MAX_SHOWN_COLUMNS} more" if len(rows) > _MAX_SHOWN_COLUMNS else ""
    return format_table(["feature", "kind", "missing", "cost", "group"], rows[:_MAX_SHOWN_COLUMNS]) + more


def format_front(trained: TrainedRun) -> list[str]:
    """Return the designs worth a look: the knee, the fittest of each threshold, the cheapest at floors; what to type next."""
    front, path = trained.front, shlex.quote(str(trained.folder.path))
    measured = {one.design.id: one for one in trained.measured}
    has_test_rows = "test" in trained.run.rows
    notable = _notable_designs(trained)
    lines = [[name, *_design_cells(measured[design.id], has_test_rows=has_test_rows)] for name, design in notable]
    lines += _single_stage_rows(trained, has_test_rows=has_test_rows)
    figures = ["coverage", "accuracy", "mean cost"]
    header = [
        "",
        "id",
        *(f"{name} (bound)" for name in figures),
        *([f"test {name}" for name in figures] if has_test_rows else []),
        "lowest recall",
        "stages",
    ]
    where = "cross-fitted" if trained.run.measured.split == "cross-fitted" else "on the validation rows"
    where += f", with bounds at level {DEFAULT_SURE:g} (--sure)" + (", then on the test rows" if has_test_rows else "")
    held_out = "test" if has_test_rows else trained.run.measured.split
    shown = measured[notable[0][1].id]
    by_weight = shown.figures.units is not None
    weighted_rows = shown.figures.rows if by_weight else None
    output = [
        f"{pluralize(len(front), 'design')} on the front; of these, {where}:",
        f"(lowest recall: of the {held_out} rows of a label, the smallest share that is accepted as it)",
        "",
        format_table(header, lines),
        "",
        f"the knee, by label, on the {held_out} rows{' (by weight)' if by_weight else ''}:",
        "",
        *format_labels(shown.labels, weighted_rows=weighted_rows),
        "",
        *(f"caution  {text}" for text in describe_missed_labels(shown.labels, weighted_rows)),
        *(f"caution  {text}" for text in (*_describe_high_thresholds(trained), *_describe_luck(trained))),
    ]
    output += [f"warning  {design.id}: {text}" for _, design in notable[:1] for text in calibration_warnings(measured[design.id])]
    output += _describe_upgrade(trained)
    if trained.interrupted:
        output.append("stopped  interrupted; the front so far is kept. Go on with the same command and --resume")
    return [
        *output,
        f"written  {path} (front.csv holds all designs)",
        f"look     emsco-report {path}",
        *_suggest_match(trained, path),
        f"next     emsco-export {path} --out BUNDLE{_suggest_floors(trained)}",
    ]


def _single_stage_rows(trained: TrainedRun, *, has_test_rows: bool) -> list[list[str]]:
    """Return the baseline at each threshold: all features for every item, in one stage."""
    entries = trained.run.thresholds
    lines = []
    for entry in entries:
        where = format_threshold(entry.thresholds, trained.run.labels) if len(entries) > 1 else "once"
        texts = [text for counts in entry.everything for text in format_counts(counts)]
        lines.append(
            [f"all features at {where}{entry.kind_note}", "-", *(texts if has_test_rows else texts[:3]), "-", "(one stage)"]
        )
    return lines


def _describe_high_thresholds(trained: TrainedRun) -> list[str]:
    """Return a caution for each threshold at which no design can accept many rows: users may not know that it can be lowered."""
    return [
        f"threshold {format_threshold(entry.thresholds, trained.run.labels)}: even with all features, "
        f"{percent(counts.accepted, counts.total)} of the rows are accepted. To accept more, ask for it: emsco-export "
        "with both --min-coverage and --min-accuracy tries lower thresholds, too"
        for entry in trained.run.thresholds
        if (counts := entry.everything[0]).accepted < _LEAST_ACCEPTED * counts.total
    ]


def _describe_luck(trained: TrainedRun) -> list[str]:
    """Return a caution where figures of the front are far from the truth: with many features, designs look good by chance."""
    knee, run = trained.front.knee, trained.run
    tested = _find_test_figures(trained, knee)
    where = f"{pluralize(len(run.columns), 'feature')} on {pluralize(run.measured.rows, 'row')}"
    if tested is None:
        few = run.measured.rows < _ROWS_OF_A_FEATURE * len(run.columns)
        return (
            [f"{where}: designs may only look good by chance, and there are no test rows to show it; give more rows"]
            if few
            else []
        )
    if _has_unequal_rows(trained):
        return []
    bound = knee.bounds(DEFAULT_SURE).accuracy
    if not is_below_bound(knee, tested):
        return []
    shown = f"on the test rows the knee's accuracy is {percent(tested.right, tested.accepted)}"
    reason = f"far below its bound of {percent_at_least(bound)}: with {where}, designs may only look good by chance"
    return [f"{shown}, {reason}. Give more rows, or fewer features"]


def is_below_bound(design: Design, tested: Counts) -> bool:
    """Return whether test rows show that a design is less accurate than its bound says."""
    return upper_bound(tested.right, tested.accepted, DEFAULT_SURE) < design.bounds(DEFAULT_SURE).accuracy


def _has_unequal_rows(trained: TrainedRun) -> bool:
    """Return whether rows come in groups or have weights: they show less than as many that are independent and equal."""
    return trained.run.data.group_column is not None or trained.run.thresholds[0].everything[0].units is not None


def _find_test_figures(trained: TrainedRun, design: Design) -> Counts | None:
    if "test" not in trained.run.rows:
        return None
    return next(one.figures for one in trained.measured if one.design.id == design.id)


def _describe_upgrade(trained: TrainedRun) -> list[str]:
    """Return how many designs have the stages that the run was asked to upgrade to, or why none has; that it can be asked to."""
    upgrade = trained.run.upgrade
    if upgrade is None:
        if trained.run.stages != "boosted" and trained.run.measured.rows >= _ROWS_FOR_TREES:
            return ["more     --upgrade boosted: with this many rows, boosted trees often make designs cheaper and more accurate"]
        return []
    count = sum(design.upgrade == upgrade for design in trained.front)
    if count:
        return [f"upgrade  {count:,} of the designs have {upgrade} stages"]
    limited = any(entry.stopped == "time" for entry in trained.run.thresholds)
    reason = "the time was up before they could be fitted; raise --time-limit" if limited else "they were no better"
    return [f"upgrade  no design has {upgrade} stages: {reason}"]


def calibration_warnings(measured: MeasuredDesign) -> list[str]:
    """Return the warnings about a design's confidences."""
    return [stage.warning for stage in measured.calibration if stage.warning is not None]


def format_counts(counts: Counts | CountsEntry) -> list[str]:
    """Return coverage, accuracy and mean cost as every command prints them."""
    return [percent(counts.accepted, counts.total), percent(counts.right, counts.accepted), format_number(counts.cost)]


def format_bounds(bounds: Bounds) -> list[str]:
    """Return bounds on coverage, accuracy and mean cost as every command prints them."""
    return [percent_at_least(bounds.coverage), percent_at_least(bounds.accuracy), format_number(bounds.cost)]


def _notable_designs(trained: TrainedRun) -> list[tuple[str, Design]]:
    """Return named designs: the knee, the fittest at each threshold, and the cheapest above floors up to the most accurate."""
    front = trained.front
    levels = list(dict.fromkeys(design.thresholds for design in front))
    best = [next(design for design in front if design.thresholds == level) for level in levels]
    labels = trained.run.labels
    names = ["fittest"] if len(levels) == 1 else [f"fittest at {format_threshold(level, labels)}" for level in levels]
    # A design that is the cheapest above several floors is shown once, at the highest of them.
    cheapest: dict[str, tuple[str, Design]] = {}
    # Floors that an export with its default settings satisfies.
    bounds = [design.bounds(_suggestion_level(trained)) for design in front]
    for floor in accuracy_floors(bounds, find_base_rate(front.knee)):
        design = front.select(min_accuracy=floor, min_coverage=minimum_coverage(bounds))
        cheapest[design.id] = (f"cheapest, accuracy >= {floor:g}", design)
    return [("knee", front.knee), *zip(names, best, strict=True), *cheapest.values()]


def _suggest_match(trained: TrainedRun, path: str) -> list[str]:
    """Return how to ask for a design that decides as all features at once do, where there are enough answers to show that."""
    if _has_unequal_rows(trained):
        return []
    answered = trained.run.thresholds[0].everything[0].accepted
    share = next((share for share in (0.01, 0.02, 0.05) if share * answered >= _SHOWN_DIFFERENCES), None)
    if share is None:
        return []
    detail = f"for {100 * (1 - share):g} % of what all features at once decide"
    return [f"match    emsco-export {path} --out BUNDLE --match-everything {share:g} ({detail})"]


def _suggest_floors(trained: TrainedRun) -> str:
    """Return options that ask for about what the knee has, or for itself; none where nothing is known of it.

    The most accurate designs owe more to luck, and the cheapest of those that accept little may never give some answers.
    """
    knee = trained.front.knee
    bounds, tested = knee.bounds(_suggestion_level(trained)), _find_test_figures(trained, knee)
    shares = (1.0, 1.0) if tested is None else (tested.accuracy, tested.coverage)
    # What other rows do not show, the knee owes to luck.
    accuracy, coverage = (int(100 * min(pair)) / 100 for pair in zip((bounds.accuracy, bounds.coverage), shares, strict=True))
    if not (accuracy and coverage):
        return ""
    if accuracy <= find_base_rate(knee):
        # Always giving the most frequent label satisfies such a floor: the cheapest design above it is worth little.
        return " --design knee"
    return f" --min-accuracy {accuracy:g} --min-coverage {coverage:g}{_suggest_recall(trained, accuracy, coverage)}"


def _suggest_recall(trained: TrainedRun, min_accuracy: float, min_coverage: float) -> str:
    """Return floors on the recall of rare labels, in reach besides those given: by accuracy alone they may never be an answer."""
    level = _suggestion_level(trained)
    bounds = ((design, design.bounds(level)) for design in trained.front)
    fitting = [design for design, own in bounds if own.accuracy >= min_accuracy and own.coverage >= min_coverage]
    counted = fitting[0].labels
    usual = sum(one.rows for one in counted) / max(1, len(counted))
    rare = [one.label for one in counted if one.rows < _RARE_SHARE * usual]
    options = []
    for label in rare:
        # Half of the best: a design that reaches it need not be the most expensive.
        floor = int(50 * max(design.label_bounds(label, level).recall for design in fitting)) / 100
        options += [f" --min-recall {shlex.quote(f'{label}={floor:g}')}"] if floor else []
    return "".join(options)


def _suggestion_level(trained: TrainedRun) -> float:
    """Return the level of the bounds behind suggested floors: where few rows measured designs, of all designs together.

    The best of many designs, measured on a few rows, owes much to luck.
    """
    if trained.run.measured.rows >= _ENOUGH_ROWS:
        return DEFAULT_SURE
    return 1 - (1 - DEFAULT_SURE) / len(trained.front)


def minimum_coverage(bounds: Sequence[Bounds]) -> float:
    """Return the coverage below which a design is not worth a look, to two digits."""
    return round(least_useful_coverage(bounds), 2)


def accuracy_floors(bounds: Sequence[Bounds], base_rate: float) -> list[float]:
    """Return round floors of accuracy above the base rate, up to the best that is worth a look, by the bounds of all designs.

    Examples
    --------
    >>> bounds = [Bounds(coverage=0.9, accuracy=0.812, cost=3.0), Bounds(coverage=1.0, accuracy=0.71, cost=1.0)]
    >>> accuracy_floors(bounds, 0.5), accuracy_floors(bounds, 0.75), accuracy_floors(bounds, 0.9)
    ([0.73, 0.76, 0.78, 0.81], [0.76, 0.78, 0.79, 0.81], [])
    """
    least = minimum_coverage(bounds)
    useful = [one.accuracy for one in bounds if one.coverage >= least]
    # Always giving the most frequent label satisfies a lower one.
    low, high = max(base_rate, min(useful)), max(useful)
    steps = [int(100 * (low + (high - low) * step / _FLOOR_COUNT)) / 100 for step in range(1, _FLOOR_COUNT + 1)]
    return [floor for floor in dict.fromkeys(steps) if floor > base_rate]


def find_base_rate(design: Design) -> float:
    """Return the share of the most frequent label among the rows that measured a design; 0 where it does not know its labels."""
    rows = [counts.rows for counts in design.labels]
    return max(rows, default=0) / max(1, sum(rows))


def _design_cells(measured: MeasuredDesign, *, has_test_rows: bool) -> list[str]:
    design = measured.design
    figures = zip(format_counts(design.counts), format_bounds(design.bounds(DEFAULT_SURE)), strict=True)
    own = [f"{figure} ({bound})" for figure, bound in figures]
    stages = design.stage_text
    shown = stages if len(stages) <= _MAX_STAGE_CHARACTERS else f"{stages[: _MAX_STAGE_CHARACTERS - 3]}..."
    tested = format_counts(measured.figures) if has_test_rows else []
    return [design.id, *own, *tested, _lowest_recall(measured.labels), shown]


def format_labels(labels: Sequence[LabelCounts], *, weighted_rows: int | None = None, is_comparable: bool = True) -> list[str]:
    """Return the figures of each label as every command prints them, and the base rate.

    `weighted_rows` as in `label_rows`. A base rate by rows is not comparable with accuracies by weight.
    """
    table = format_table(COLUMNS, label_rows(labels, weighted_rows)[:_MAX_SHOWN_LABELS])
    more = len(labels) - _MAX_SHOWN_LABELS
    compare = ": compare accuracies with that" if is_comparable else ", by rows"
    return [
        table + (f"\n... and {more} more" if more > 0 else ""),
        "",
        f"base rate  {describe_base_rate(labels)}{compare}",
    ]


def _lowest_recall(labels: Sequence[LabelCounts]) -> str:
    """Return the lowest recall of any label that has rows, and which label."""
    lowest = min((counts for counts in labels if counts.rows), key=lambda counts: counts.recall)
    return f"{percent(lowest.right, lowest.rows)} ({lowest.label})"
