"""What `emsco-export` prints: the design, its figures and its cost, the certificate, and what to type next."""

from __future__ import annotations

import shlex

from emsco_runtime.bundle.label_figures import describe_missed_labels
from emsco_runtime.bundle.summary import describe_certificate, describe_likely, percent, percent_at_least, pluralize
from emsco_runtime.cli.console import format_costs, format_number
from emsco_train.cli.training_output import (
    accuracy_floors,
    calibration_warnings,
    find_base_rate,
    format_bounds,
    format_counts,
    format_labels,
    is_below_bound,
    minimum_coverage,
)
from emsco_train.designs.counts import Counts
from emsco_train.designs.precision import Bounds
from emsco_train.designs.selection import Requirements
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.designs.threshold_text import format_stage_thresholds
from emsco_train.runs.exporting import RunExport

__all__ = ["format_export"]


def format_export(exported: RunExport, out: str, requirements: Requirements, sure: float | None) -> list[str]:
    """Return the lines about a bundle that was written to a folder for some requirements, with bounds at the level `sure`."""
    problem, design, expected = exported.opened.problem, exported.choice.design, exported.export.expected
    unit, full, counts = problem.costs.unit, problem.full_cost, Counts.of_expected(expected)
    # Exits and labels are counted by rows; the figures above are not, where rows have weights.
    by_rows = "" if expected.weighted is None else " (by rows, not by weight)"
    exits = [f"stage {place}: {percent(stage.accepted, expected.rows)}" for place, stage in enumerate(expected.stages, start=1)]
    rejected = percent(expected.rows - expected.accepted, expected.rows)
    splits = ", ".join(split.name for split in exported.export.verified)
    lines = [
        f"design       {design.id}: {exported.choice.reason}",
        f"stages       {design.stage_text}",
        f"threshold    {format_stage_thresholds(design.stage_thresholds, problem.labels)}",
    ]
    lines.append(_format_figures(problem.validation.name, design.counts, unit))
    if sure is not None:
        coverage, accuracy, mean = format_bounds(design.bounds(sure))
        bounds = f"coverage >= {coverage}, accuracy >= {accuracy}, mean cost <= {mean} {unit}"
        lines.append(f"{'':<12} bounds at level {sure:g} (--sure): {bounds}")
    # They are the same figures where there are no other rows.
    if expected.split != problem.validation.name:
        lines.append(_format_figures(expected.split, counts, unit))
    if expected.likely is not None:
        lines.append(f"likely       {describe_likely(expected.likely, unit)}")
    everything = f"all features for every item: {format_number(full)} {unit}"
    lines += [
        f"cost         {format_costs(expected.cost)}; {everything}; {100 * counts.cost / full:.1f} % of that is spent",
        f"exits        {', '.join(exits)}, rejected: {rejected}{by_rows}",
        *describe_certificate(exported.choice.certificate, unit),
        f"verified     {pluralize(exported.export.rows, 'row')} of {splits}: label, stage and cost equal in training and runtime",
        f"             probabilities within {exported.export.largest:.0e}",
        *(f"calibrated   stage {place}: {one.describe()}" for place, one in enumerate(exported.measured.scalings, start=1)),
        *(f"warning      {text}" for text in calibration_warnings(exported.measured)),
        *(
            f"caution      {text}"
            for text in (*describe_missed_labels(expected.labels), *_missed(exported, requirements), *_describe_luck(exported))
        ),
        *("", f"by label, on the {expected.split} rows{by_rows}:", ""),
        *(*format_labels(expected.labels, is_comparable=expected.weighted is None), ""),
    ]
    if exported.choice.is_default:
        bounds_of_all = [one.bounds(DEFAULT_SURE) for one in exported.opened.front]
        if floors := ", ".join(f"{floor:g}" for floor in accuracy_floors(bounds_of_all, find_base_rate(design))):
            reach = f"--min-accuracy {floors}, with --min-coverage {minimum_coverage(bounds_of_all):g}"
            lines.append(f"suggestion   floors in reach: {reach}; --min-recall LABEL=R for a label")
    quoted = shlex.quote(out)
    return [
        *lines,
        f"written      {quoted} ({exported.export.bundle.manifest.id[:12]})",
        f"next         emsco-run {quoted} ROWS.csv --out DECISIONS.csv",
    ]


def _missed(exported: RunExport, requirements: Requirements) -> list[str]:
    """Return which requirements are missed by figures that are not optimistic: those on other rows, or the likely ones."""
    expected, likely = exported.export.expected, exported.export.expected.likely
    if likely is not None:
        where, figures, labels = "new", Bounds(likely.coverage, likely.accuracy, likely.cost), []
    elif expected.split != exported.opened.problem.validation.name:
        counts = Counts.of_expected(expected)
        where, figures = f"the {expected.split}", Bounds(counts.coverage, counts.accuracy, counts.cost)
        labels = list(expected.labels)
    else:
        return []
    missed = requirements.describe_misses(figures, labels)
    reason = "it was met on the rows of the search, where the best of many designs looks better than it is"
    remedy = f"{reason}. Ask for more, or give more rows"
    return [f"on {where} rows {', '.join(missed)}; {remedy}"] if missed else []


def _describe_luck(exported: RunExport) -> list[str]:
    """Return a caution where nothing was asked for, and test rows show that the design only looked good; no rows with weights."""
    design, expected, problem = exported.choice.design, exported.export.expected, exported.opened.problem
    is_shown = expected.split != problem.validation.name and expected.weighted is None and problem.train.groups is None
    if not (exported.choice.is_default and is_shown and is_below_bound(design, Counts.of_expected(expected))):
        return []
    bound = percent_at_least(design.bounds(DEFAULT_SURE).accuracy)
    reason = "of many designs, the best looks better than it is"
    remedy = "Ask for floors (--min-accuracy with --min-coverage), which other folds have to show, too, or give more rows"
    return [f"on the {expected.split} rows the accuracy is below its bound of {bound}: {reason}. {remedy}"]


def _format_figures(name: str, counts: Counts, unit: str) -> str:
    coverage, accuracy, mean = format_counts(counts)
    return f"{name:<12} coverage {coverage}, accuracy {accuracy}, mean cost {mean} {unit}"
