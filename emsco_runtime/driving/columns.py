"""Deciding a table column-wise: the rule and the encoders, vectorised.

Rows that need a closer look (a faulty value, a score near a threshold or a tie) are left to the walk, one by one, so that every
row ends exactly as `Cascade.decide` would end it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco_runtime.bundle.encoding import encode_column
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.rule import accept_rows
from emsco_runtime.decision import Decision, Label
from emsco_runtime.engine.plan import Plan, StagePlan
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.support.arrays import Array, Floats, Ints, Mask, as_column

__all__ = ["ColumnContext", "ColumnDecisions", "decide_columns"]

# Rows handled at a time: enough that numpy's price per call does not count, few enough to stay near the processor.
_BLOCK_ROWS = 65536

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
    """

    label: Array
    status: Array
    reason: Array
    confidence: Floats
    stages: Ints
    cost: Floats
    degraded: Mask

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.cost)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnContext:
    """What deciding a table needs from a cascade.

    Parameters
    ----------
    plan, features, scorer
        The bound bundle.
    budget
        As in `walk`.
    decide_row
        Decides one row, given as a mapping, through the walk.
    """

    plan: Plan
    features: Mapping[str, Feature]
    scorer: Scorer
    budget: float
    decide_row: Callable[[Mapping[str, Any]], Decision]


def decide_columns(context: ColumnContext, columns: Mapping[str, Any]) -> ColumnDecisions:
    """Decide every row of a table given as feature -> array of raw values."""
    arrays = _check_columns(context.plan, columns)
    count = len(next(iter(arrays.values())))
    codes = _ResultCodes.empty(count, len(context.plan.labels))
    for start in range(0, count, _BLOCK_ROWS):
        block = slice(start, min(start + _BLOCK_ROWS, count))
        _decide_block(context, {name: array[block] for name, array in arrays.items()}, codes.rows_view(block), start)
    return codes.decode(context.plan.labels)


def _check_columns(plan: Plan, columns: Mapping[str, Any]) -> dict[str, Array]:
    names = [name for stage in plan.stages for name in stage.names]
    if not hasattr(columns, "__getitem__") or not hasattr(columns, "__contains__"):
        raise InputError(f"columns: a mapping of arrays or a data frame is due, got {type(columns).__name__}")
    missing = [name for name in names if name not in columns]
    if missing:
        raise InputError(
            f"{len(missing)} columns are missing: {', '.join(missing)}. Every feature that a stage acquires needs one"
        )
    arrays = {name: as_column(columns[name]) for name in names}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
        raise InputError(f"columns of one dimension and of the same length are due, got the shapes {shapes}")
    return arrays


@dataclass(frozen=True, slots=True, eq=False)
class _ResultCodes:
    """Results as they fill up, in numbers: positions of labels (one past the last: none) and of reasons."""

    label: Ints
    reason: Ints
    confidence: Floats
    stages: Ints
    cost: Floats
    degraded: Mask

    @classmethod
    def empty(cls, rows: int, labels: int) -> _ResultCodes:
        return cls(
            label=np.full(rows, labels, dtype=np.intp),
            reason=np.zeros(rows, dtype=np.intp),
            confidence=np.full(rows, np.nan),
            stages=np.zeros(rows, dtype=np.intp),
            cost=np.zeros(rows),
            degraded=np.zeros(rows, dtype=np.bool_),
        )

    def rows_view(self, rows: slice) -> _ResultCodes:
        return _ResultCodes(
            self.label[rows], self.reason[rows], self.confidence[rows], self.stages[rows], self.cost[rows], self.degraded[rows]
        )

    def decode(self, labels: Sequence[Label]) -> ColumnDecisions:
        label = _decode([*labels, None], self.label)
        status, reason = _decode(_STATUS_OF_REASON, self.reason), _decode(_REASONS, self.reason)
        return ColumnDecisions(label, status, reason, self.confidence, self.stages, self.cost, self.degraded)


def _decode(words: Sequence[Any], codes: Ints) -> Array:
    # The codes are ours and in range; "clip" only spares numpy the check.
    return np.array(words, dtype=object).take(codes, mode="clip")


def _decide_block(context: ColumnContext, arrays: Mapping[str, Array], codes: _ResultCodes, start: int) -> None:
    """Decide the rows of one block, stage by stage; each stage sees only the rows still under way."""
    plan = context.plan
    rows = np.arange(len(codes.stages))
    matrix = np.empty((len(rows), 0))
    single_rows = [rows[:0]]
    for stage in plan.stages:
        if stage.cost > context.budget:
            codes.reason[rows] = _BUDGET
            break
        matrix, faulty = _add_columns(context, matrix, stage, arrays, rows)
        if faulty is not None:
            single_rows.append(rows[faulty])
            rows, matrix = rows[~faulty], matrix[~faulty]
        if not len(rows):
            break
        continuing, near = _decide_stage(context, stage, codes, rows, matrix)
        single_rows.append(rows[near])
        kept = np.flatnonzero(continuing)
        rows, matrix = rows.take(kept), matrix.take(kept, axis=0)
    codes.cost[:] = np.array([0.0, *(stage.cost for stage in plan.stages)]).take(codes.stages)
    for row in np.sort(np.concatenate(single_rows)).tolist():
        try:
            decision = context.decide_row({name: array[row] for name, array in arrays.items()})
        except AcquisitionError as error:
            raise error.with_index(start + row) from error.__cause__
        _store_decision(decision, plan, codes, row)


def _add_columns(
    context: ColumnContext, matrix: Floats, stage: StagePlan, arrays: Mapping[str, Array], rows: Ints
) -> tuple[Floats, Mask | None]:
    """Add the stage's columns to the matrix of all values acquired so far; tell which rows hold a faulty value."""
    width = matrix.shape[1]
    wider = np.empty((len(rows), width + len(stage.names)))
    wider[:, :width] = matrix
    faulty: Mask | None = None
    for position, name in enumerate(stage.names, start=width):
        values = arrays[name] if len(rows) == len(arrays[name]) else arrays[name].take(rows)
        wider[:, position], fault = encode_column(context.features[name], values)
        if fault is not None:
            faulty = fault if faulty is None else faulty | fault
    return wider, faulty


def _decide_stage(context: ColumnContext, stage: StagePlan, codes: _ResultCodes, rows: Ints, matrix: Floats) -> tuple[Mask, Mask]:
    """Score and compare; return which rows go on, and which must be decided alone."""
    inputs = matrix if stage.input_positions is None else matrix[:, stage.input_positions]
    scores = context.scorer.score_rows(stage.number - 1, inputs)
    label, top, accepted, near = accept_rows(scores, stage.thresholds)
    # Assigning to a slice is much quicker than to a list of rows, and stage 1 mostly has them all.
    place: Any = slice(None) if len(rows) == len(codes.stages) else rows
    codes.confidence[place] = top
    codes.stages[place] = stage.number
    exits = np.flatnonzero(accepted)
    accepted_rows = rows.take(exits)
    codes.label[accepted_rows] = label.take(exits)
    codes.reason[accepted_rows] = _CONFIDENT
    return ~(accepted | near), near


def _store_decision(decision: Decision, plan: Plan, codes: _ResultCodes, row: int) -> None:
    codes.label[row] = len(plan.labels) if decision.label is None else plan.labels.index(decision.label)
    codes.reason[row] = _REASONS.index(decision.reason)
    codes.confidence[row] = np.nan if decision.confidence is None else decision.confidence
    codes.stages[row] = decision.stages
    codes.cost[row] = decision.cost
    codes.degraded[row] = decision.degraded
