"""Deciding a table column-wise: the rule and the encoders, vectorised.

Rows with a faulty value, or with a score near a threshold or a tie, are decided by the walk, one by one, so that every row ends
exactly as `Cascade.decide` would end it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco_runtime.bundle.encoding import encode_column
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.rule import accept_rows
from emsco_runtime.decision import Decision
from emsco_runtime.driving.lazy_columns import Column, LazyColumn, TableRow, cut_column, take_rows
from emsco_runtime.driving.one import drive_one
from emsco_runtime.engine.plan import Plan, StagePlan
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.support.arrays import Array, Floats, Ints, Mask, as_column
from emsco_runtime.support.formatting import pluralize
from emsco_runtime.support.vector_names import column_names

__all__ = ["ColumnDecisions", "decide_columns"]

# Rows handled at a time: enough that numpy's time per call does not matter, few enough to stay in the processor's cache. Of wide
# rows fewer, so that a block takes no more memory than this many numbers.
_BLOCK_ROWS, _MIN_BLOCK_ROWS, _BLOCK_NUMBERS = 65536, 1024, 2**23

_REASONS = ("inconclusive", "confident", "budget", "acquisition_failed")
_STATUS_OF_REASON = ("rejected", "accepted", "rejected", "rejected")
_CONFIDENT, _BUDGET = _REASONS.index("confident"), _REASONS.index("budget")


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDecisions:
    """Decisions of a whole table, as arrays with one entry per row.

    Parameters
    ----------
    label
        The accepted label; None where rejected.
    status
        "accepted" or "rejected".
    reason
        Why, as in `Decision.reason`.
    confidence
        Top probability of the last stage scored; NaN where none was.
    stages
        How many stages were scored.
    cost
        The bill.
    degraded
        Whether a fallback value was used.
    error
        The first failure of the row, as "feature: message"; None where there was none.
    """

    label: Array
    status: Array
    reason: Array
    confidence: Floats
    stages: Ints
    cost: Floats
    degraded: Mask
    error: Array

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.cost)


def decide_columns(plan: Plan, scorer: Scorer, budget: float, columns: Mapping[str, Any]) -> ColumnDecisions:
    """Decide every row of a table given as feature -> array of raw values; the plan reads rows that are mappings."""
    own, count = _check_columns(plan, columns)
    # Labels and reasons as their positions until all rows are decided; the position after the last label is None.
    results: dict[str, Array] = {
        "label": np.full(count, len(plan.labels), dtype=np.intp),
        "reason": np.zeros(count, dtype=np.intp),
        "confidence": np.full(count, np.nan),
        "stages": np.zeros(count, dtype=np.intp),
        "cost": np.zeros(count),
        "degraded": np.zeros(count, dtype=np.bool_),
        "error": np.full(count, None, dtype=object),
    }
    step = _block_rows(plan)
    for start in range(0, count, step):
        block = slice(start, min(start + step, count))
        block_columns = {name: cut_column(column, block) for name, column in own.items()}
        _decide_block(plan, scorer, budget, block_columns, {name: array[block] for name, array in results.items()}, start)
    status = _decode(_STATUS_OF_REASON, results["reason"])
    results["label"] = _decode([*plan.labels, None], results["label"])
    results["reason"] = _decode(_REASONS, results["reason"])
    return ColumnDecisions(status=status, **results)


def _block_rows(plan: Plan) -> int:
    width = sum(feature.description.width for stage in plan.stages for feature in stage.features)
    return max(min(_BLOCK_ROWS, _BLOCK_NUMBERS // width), _MIN_BLOCK_ROWS)


def _check_columns(plan: Plan, columns: Mapping[str, Any]) -> tuple[dict[str, Column], int]:
    """Return the columns that the stages need, and the number of rows."""
    features = [feature.description for stage in plan.stages for feature in stage.features]
    if not hasattr(columns, "__getitem__") or not hasattr(columns, "__contains__"):
        raise InputError(f"columns: expected a mapping of arrays or a data frame, got {type(columns).__name__}")
    missing = [feature.name for feature in features if not _has_columns(feature, columns)]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        listed = f"{pluralize(len(missing), 'column')} {are} missing: {', '.join(missing)}"
        raise InputError(f"{listed}. Each feature that a stage acquires needs one")
    own = {feature.name: _read_column(feature, columns) for feature in features}
    shapes = {name: column.shape for name, column in own.items() if not isinstance(column, LazyColumn)}
    fit = all(1 <= len(shapes[feature.name]) <= _dimensions(feature) for feature in features if feature.name in shapes)
    if not fit or len({shape[0] for shape in shapes.values()}) > 1:
        raise InputError(f"expected columns of one dimension and of the same length, got the shapes {shapes}")
    return own, next(iter(shapes.values()))[0] if shapes else _count_rows(columns)


def _dimensions(feature: Feature) -> int:
    """Return how many dimensions a column may have: of a vector two, rows and numbers."""
    return 2 if feature.kind == "vector" else 1


def _count_rows(columns: Mapping[str, Any]) -> int:
    """Return the number of rows by a column that no stage needs: those that stages need are all functions."""
    for name in columns:
        if not callable(columns[name]):
            return len(columns[name])
    raise InputError("every column is a function: add one with values, such as keys, which says how many rows there are")


def _has_columns(feature: Feature, columns: Mapping[str, Any]) -> bool:
    """Return whether a table has a feature: a column of its name, or one for each number of a vector."""
    if feature.name in columns or feature.kind != "vector":
        return feature.name in columns
    return all(name in columns for name in column_names(feature.name, feature.width))


def _read_column(feature: Feature, columns: Mapping[str, Any]) -> Column:
    if feature.name in columns:
        column = columns[feature.name]
        return LazyColumn(column, _dimensions(feature)) if callable(column) else as_column(column)
    parts = [as_column(columns[name]) for name in column_names(feature.name, feature.width)]
    if len({part.shape for part in parts}) > 1 or parts[0].ndim != 1:
        raise InputError(f"the columns of {feature.name!r} have different lengths, or more than one dimension")
    return np.column_stack(parts)


def _decode(words: Sequence[Any], codes: Ints) -> Array:
    # The codes are ours and in range; "clip" only saves numpy the check.
    return np.array(words, dtype=object).take(codes, mode="clip")


def _decide_block(
    plan: Plan, scorer: Scorer, budget: float, columns: Mapping[str, Column], results: Mapping[str, Array], start: int
) -> None:
    """Decide the rows of one block, stage by stage; each stage sees only the rows still under way."""
    rows = np.arange(len(results["stages"]))
    matrix = np.empty((len(rows), 0))
    single_rows = [rows[:0]]
    for stage in plan.stages:
        if stage.cost > budget:
            results["reason"][rows] = _BUDGET
            break
        if not len(rows):
            break
        matrix, faulty = _add_columns(matrix, stage, columns, rows)
        if faulty is not None:
            single_rows.append(rows[faulty])
            rows, matrix = rows[~faulty], matrix[~faulty]
        continuing, near = _decide_stage(scorer, stage, results, rows, matrix)
        single_rows.append(rows[near])
        kept = np.flatnonzero(continuing)
        rows, matrix = rows.take(kept), matrix.take(kept, axis=0)
    results["cost"][:] = np.array([0.0, *(stage.cost for stage in plan.stages)]).take(results["stages"])
    for row in np.sort(np.concatenate(single_rows)).tolist():
        try:
            decision = drive_one(plan, scorer, TableRow(columns, row), {}, budget)
        except AcquisitionError as error:
            raise error.with_index(start + row) from error.__cause__
        _store_decision(decision, plan, results, row)


def _add_columns(matrix: Floats, stage: StagePlan, columns: Mapping[str, Column], rows: Ints) -> tuple[Floats, Mask | None]:
    """Add the stage's columns to the matrix of all values acquired so far; return which rows hold a faulty value too."""
    stop = matrix.shape[1]
    wider = np.empty((len(rows), stop + sum(feature.description.width for feature in stage.features)))
    wider[:, :stop] = matrix
    faulty: Mask | None = None
    for feature in stage.features:
        values = take_rows(columns[feature.name], rows)
        if values is None:
            # The walk knows what a failed feature means for each row.
            return wider, np.ones(len(rows), dtype=np.bool_)
        encoded, fault = encode_column(feature.description, values)
        start, stop = stop, stop + feature.description.width
        wider[:, start:stop] = encoded.reshape(len(rows), stop - start)
        if fault is not None:
            faulty = fault if faulty is None else faulty | fault
    return wider, faulty


def _decide_stage(
    scorer: Scorer, stage: StagePlan, results: Mapping[str, Array], rows: Ints, matrix: Floats
) -> tuple[Mask, Mask]:
    """Score and compare; return which rows go on, and which must be decided one by one."""
    inputs = matrix if stage.input_positions is None else matrix[:, stage.input_positions]
    scores = scorer.score_rows(stage.number - 1, inputs)
    label, top, accepted, near = accept_rows(scores, stage.thresholds)
    # Assigning to a slice is much faster than to a list of rows, and stage 1 mostly has them all.
    place: Any = slice(None) if len(rows) == len(results["stages"]) else rows
    results["confidence"][place] = top
    results["stages"][place] = stage.number
    exits = np.flatnonzero(accepted)
    accepted_rows = rows.take(exits)
    results["label"][accepted_rows] = label.take(exits)
    results["reason"][accepted_rows] = _CONFIDENT
    return ~(accepted | near), near


def _store_decision(decision: Decision, plan: Plan, results: Mapping[str, Array], row: int) -> None:
    results["label"][row] = len(plan.labels) if decision.label is None else plan.labels.index(decision.label)
    results["reason"][row] = _REASONS.index(decision.reason)
    results["confidence"][row] = np.nan if decision.confidence is None else decision.confidence
    results["stages"][row] = decision.stages
    results["cost"][row] = decision.cost
    results["degraded"][row] = decision.degraded
    if decision.errors:
        results["error"][row] = f"{decision.errors[0].feature}: {decision.errors[0].message}"
