"""What the training commands print: the data, the columns, the designs worth a look, a chosen design and its bill."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from emsco_runtime.cli._console import number, table
from emsco_runtime.summary import counted, percent
from emsco_train.designs.design import Design, write_stages
from emsco_train.runs.figures import Figures, Measured
from emsco_train.runs.preparation import Prepared
from emsco_train.runs.record import column_entries
from emsco_train.runs.run_file import ThresholdEntry
from emsco_train.runs.training import Trained

__all__ = ["calibration_warnings", "columns_table", "data_lines", "figure_texts", "floors", "front_lines", "least_coverage"]

_SHOWN_COLUMNS = 60
_SHOWN_STAGES = 100
_FLOORS = 4


def data_lines(prepared: Prepared) -> list[str]:
    """Return what was read, and how it was divided."""
    problem, source = prepared.problem, prepared.source
    counts = dict.fromkeys(problem.labels, 0)
    for split in problem.splits():
        for position in split.target.tolist():
            counts[problem.labels[position]] += 1
    files = ", ".join(Path(file.path).name for file in source.files)
    labels = ", ".join(f"{label}: {count}" for label, count in counts.items())
    splits = ", ".join(f"{split.name} {len(split)}" for split in problem.splits())
    return [
        f"data     {files}: {counted(source.table.rows, 'row')}, {counted(len(problem.names), 'feature')}",
        f"labels   {labels}",
        f"splits   {splits}",
        f"costs    all features: {number(problem.full_cost)} {problem.costs.unit}",
    ]


def columns_table(prepared: Prepared) -> str:
    """Return a table of the columns as they were understood."""
    problem = prepared.problem
    rows = [
        [
            entry.name,
            entry.kind if entry.kind != "categorical" else f"categorical ({entry.categories})",
            str(entry.gaps or "-"),
            number(feature.cost),
            feature.group or "-",
        ]
        for entry, feature in zip(column_entries(problem), problem.features, strict=True)
    ]
    more = f"\n... and {len(rows) - _SHOWN_COLUMNS} more" if len(rows) > _SHOWN_COLUMNS else ""
    return table(["feature", "kind", "gaps", "cost", "group"], rows[:_SHOWN_COLUMNS]) + more


def front_lines(trained: Trained) -> list[str]:
    """Return the designs worth a look: the fittest of each threshold, the cheapest at several floors; and what to type next."""
    front, path = trained.front, shlex.quote(str(trained.folder.path))
    measured = {one.design.id: one for one in trained.measured}
    rows, tested = trained.run.rows, "test" in trained.run.rows
    picked = _picked(trained)
    lines = [[name, *_cells(measured[design.id], rows["validation"], tested=tested)] for name, design in picked]
    lines += _everything(trained, tested=tested)
    figures = ["coverage", "accuracy", "mean cost"]
    header = ["", "id", *figures, *([f"test {name}" for name in figures] if tested else []), "stages"]
    floor = next((name.rpartition(" ")[2] for name, _ in reversed(picked) if ">=" in name), None)
    wish = f" --min-accuracy {floor} --min-coverage {least_coverage(front):g}" if floor else ""
    where = "on the validation rows, then on the test rows" if tested else "on the validation rows"
    told = [f"{counted(len(front), 'design')} on the front; of these, {where}:", "", table(header, lines), ""]
    told += [f"warning  {design.id}: {text}" for _, design in picked[:1] for text in calibration_warnings(measured[design.id])]
    if trained.interrupted:
        told.append("stopped  interrupted; the front so far is kept. Go on with the same command and --resume")
    return [
        *told,
        f"written  {path} (front.csv holds all designs)",
        f"look     emsco-report {path}",
        f"next     emsco-export {path} --out BUNDLE{wish}",
    ]


def _everything(trained: Trained, *, tested: bool) -> list[list[str]]:
    """Return the yardstick: all features for everyone, in one stage."""
    entries = trained.run.thresholds
    names = ["everything at once"] if len(entries) == 1 else [f"everything at {_level(entry)}" for entry in entries]
    lines = []
    for name, entry in zip(names, entries, strict=True):
        texts = [text for figures in entry.everything for text in figure_texts(Figures.of_entry(figures))]
        lines.append([name, "-", *(texts if tested else texts[:3]), "(one stage)"])
    return lines


def _level(entry: ThresholdEntry) -> str:
    return "/".join(f"{number:g}" for number in dict.fromkeys(entry.thresholds))


def calibration_warnings(measured: Measured) -> list[str]:
    """Return the warnings about a design's confidences."""
    return [stage.warning for stage in measured.calibration if stage.warning is not None]


def figure_texts(figures: Figures) -> list[str]:
    """Return coverage, accuracy and mean cost as every command prints them."""
    shares = [percent(figures.accepted, figures.rows), percent(figures.right, figures.accepted)]
    return [*shares, number(figures.cost)]


def _picked(trained: Trained) -> list[tuple[str, Design]]:
    """Return designs with names: the fittest at each threshold, and the cheapest above floors between it and the best."""
    front = trained.front
    levels = list(dict.fromkeys(design.thresholds for design in front))
    best = [next(design for design in front if design.thresholds == level) for level in levels]
    names = ["fittest"] if len(levels) == 1 else [f"fittest at {design.threshold_text}" for design in best]
    # A design that is the cheapest above several floors is shown once, at the highest of them.
    cheapest: dict[str, tuple[str, Design]] = {}
    for floor in floors(front):
        design = front.select(min_accuracy=floor, min_coverage=least_coverage(front))
        cheapest[design.id] = (f"cheapest, accuracy >= {floor:g}", design)
    return [*zip(names, best, strict=True), *cheapest.values()]


def least_coverage(designs: Sequence[Design]) -> float:
    """Return half of the best coverage: an accurate design that answers hardly anything is worth no look."""
    return round(max(design.coverage for design in designs) / 2, 2)


def floors(designs: Sequence[Design]) -> list[float]:
    """Return round floors of accuracy below the best that is worth having.

    Examples
    --------
    >>> from types import SimpleNamespace as Seen
    >>> floors([Seen(accuracy=0.812, coverage=0.9), Seen(accuracy=0.71, coverage=1.0)])
    [0.73, 0.76, 0.78, 0.81]
    """
    least = least_coverage(designs)
    useful = [design.accuracy for design in designs if design.coverage >= least]
    low, high = min(useful), max(useful)
    steps = [int(100 * (low + (high - low) * step / _FLOORS)) / 100 for step in range(1, _FLOORS + 1)]
    return list(dict.fromkeys(steps))


def _cells(measured: Measured, rows: int, *, tested: bool) -> list[str]:
    own = figure_texts(Figures.of_design(measured.design, rows))
    stages = write_stages(measured.design.stages)
    shown = stages if len(stages) <= _SHOWN_STAGES else f"{stages[: _SHOWN_STAGES - 3]}..."
    return [measured.design.id, *own, *(figure_texts(measured.figures) if tested else []), shown]
