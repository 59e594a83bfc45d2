"""The record of a run: what run.json and splits.csv say of a problem and of its searches."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from emsco_train.data.features import first_codes
from emsco_train.data.problem import Problem
from emsco_train.data.provenance import timestamp, versions
from emsco_train.data.thresholds import resolve_thresholds
from emsco_train.designs.answer_worth import worth_of_answers
from emsco_train.designs.design import Design
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.runs.front_measurement import measure_designs
from emsco_train.runs.preparation import PreparedRun
from emsco_train.runs.run_file import (
    ColumnEntry,
    CountsEntry,
    DataEntry,
    DroppedEntry,
    MeasuredRows,
    RunFile,
    SearchEntry,
    ThresholdEntry,
)
from emsco_train.search.searches import Outcome
from emsco_train.search.settings import Settings

__all__ = ["TimedOutcome", "describe_columns", "format_splits_csv", "make_run_record"]


@dataclass(frozen=True, slots=True, eq=False)
class TimedOutcome:
    """The search of one threshold, and the seconds that it took."""

    outcome: Outcome
    elapsed_s: float


def make_run_record(
    prepared: PreparedRun, settings: Settings, searched: Sequence[TimedOutcome], fitters: ProblemFitters
) -> RunFile:
    """Return the record, without the hashes of the other files.

    `settings` are those that the search used; `searched` has one outcome per threshold, or fewer if the run was cut short.
    """
    request, problem = prepared.request, prepared.problem
    levels = [resolve_thresholds(threshold, problem.labels) for threshold in request.thresholds]
    weights = request.class_weight
    return RunFile(
        created=timestamp(),
        versions=versions(),
        data=DataEntry(
            files=prepared.source.files,
            label=request.columns.label,
            group_column=request.columns.group,
            time_column=request.columns.time,
            weight_column=request.columns.weight,
            drop=request.columns.drop,
            dropped=tuple(
                DroppedEntry(column=finding.column, why=finding.what)
                for finding in prepared.findings
                if finding.is_dropped and finding.column is not None
            ),
            drop_labels=request.columns.drop_labels,
            missing=tuple(sorted(request.columns.missing)),
            min_category=request.min_category,
            folds=problem.folds,
            fingerprint=problem.data_digest(),
        ),
        columns=describe_columns(problem),
        labels=problem.labels,
        C=float(request.C),
        class_weight={str(label): float(weight) for label, weight in weights.items()}
        if isinstance(weights, Mapping)
        else weights,
        calibrate=request.calibrate,
        stages=request.stages,
        upgrade=request.upgrade,
        increasing=problem.settings.directions.increasing,
        decreasing=problem.settings.directions.decreasing,
        search=SearchEntry(
            method=request.method,
            # Through JSON, so that tuples are what they will be when read.
            settings=json.loads(json.dumps(asdict(settings))),
            seed=request.seed,
            max_search_rows=prepared.search_rows,
            time_limit=request.time_limit,
        ),
        thresholds=tuple(
            _make_threshold_entry(problem, level, one, fitters) for level, one in zip(levels, searched, strict=False)
        ),
        rows={split.name: len(split) for split in problem.splits()},
        measured=MeasuredRows(split="cross-fitted" if problem.is_cross_fitted else "validation", rows=len(problem.validation)),
        files={},
        certify_uses=request.certify_uses,
    )


def _make_threshold_entry(
    problem: Problem, level: tuple[float, ...], searched: TimedOutcome, fitters: ProblemFitters
) -> ThresholdEntry:
    """Return how a search went, and the baseline: one stage with all features, measured as designs were, and on the test rows.

    Of an upgraded front, it has the kind of stages whose answers are worth more.
    """
    outcome = searched.outcome
    outline = Design.of([0] * len(problem.names), problem.names, level, coverage=0.0, accuracy=0.0, cost=0.0)
    kinds = [replace(outline, upgrade=upgrade) for upgrade in dict.fromkeys([None, *(one.upgrade for one in outcome.front)])]
    measured = [measure_designs(problem, problem.validation, [kind], fitters)[0] for kind in kinds]
    best = max(measured, key=lambda one: worth_of_answers(one.labels, level))
    tested = [] if problem.test is None else measure_designs(problem, problem.test, [best.design], fitters)
    splits = (problem.validation, problem.test)
    everything = tuple(
        CountsEntry(split=split.name, **asdict(one.figures))
        for split, one in zip(splits, [best, *tested], strict=False)
        if split is not None
    )
    return ThresholdEntry(
        thresholds=level,
        method=outcome.method,
        stopped=outcome.stopped,
        designs=outcome.designs,
        fits=outcome.fits,
        elapsed_s=round(searched.elapsed_s, 3),
        genes=outcome.genes.n,
        everything=everything,
        upgrade=best.design.upgrade,
    )


def format_splits_csv(problem: Problem, numbers: Sequence[int]) -> str:
    """Return the text of splits.csv: the split of each row, whose numbers, counted from 0 in each file, are given.

    Cross-fitted rows have the number of the fold that scores them, from 1; others have none.
    """
    rows = sum(len(split) for split in problem.splits())
    names, folds = np.empty(rows, dtype=object), np.full(rows, "", dtype=object)
    for split in problem.splits():
        names[split.rows] = split.name
    if problem.is_cross_fitted:
        for number, part in enumerate(problem.parts, start=1):
            folds[part.scored.rows] = str(number)
    # Numbers and our own words: nothing needs quotes.
    lines = zip(map(str, numbers), names.tolist(), folds.tolist(), strict=True)
    return "\n".join(["row,split,fold", *map(",".join, lines), ""])


def describe_columns(problem: Problem) -> tuple[ColumnEntry, ...]:
    """Return the columns of a problem as they were understood, with the number of missing values in all splits."""
    # A vector is missing as a whole: its first number tells.
    chosen = first_codes(problem.features)
    gaps = sum((np.isnan(split.codes[:, chosen]).sum(axis=0) for split in problem.splits()), np.zeros(len(chosen), dtype=int))
    return tuple(
        ColumnEntry(
            name=feature.name,
            kind=feature.kind,
            missing=feature.missing,
            unknown=feature.unknown,
            categories=len(feature.categories),
            gaps=int(count),
        )
        for feature, count in zip(problem.features, gaps, strict=True)
    )
