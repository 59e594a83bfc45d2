"""The compiled minimiser: guarded Newton steps with few Hessians.

A Hessian costs as much as several slopes, so one is kept while it is useful: pairs of step and change of slope correct it
(L-BFGS), and it is built again where the steps that it would still take cost more than a new one. A long step that goes beyond
the lowest point on its way goes back to it, for which logits are enough; any step is halved until the loss falls.

`take_step` and `build_hessian` are kept on disk by themselves: two processes compile them side by side (`compilation`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.models.logistic.column_set import ColumnSet
from emsco_train.models.logistic.hessian import accumulate_hessian, buffer_sizes
from emsco_train.models.logistic.linear_algebra import assemble_hessian, cholesky, dot, lbfgs_direction, push_pair, solve
from emsco_train.models.logistic.loss import TrainingRows, evaluate_loss, loss_change, slope_along
from emsco_train.support.compiled import jit_entry, jit_inner

__all__ = ["Anchor", "FitState", "accept_step", "build_hessian", "newton_direction", "run_newton", "start_fit", "take_step"]

_MAX_PAIRS = 10
_MAX_PASSES = 400
_MAX_HALVINGS = 60
# Evaluations along a step for its lowest point, at most. It need not be exact: the next step has a Hessian of its own.
_MAX_LINE_SEARCH = 8
# A step whose end is beyond its lowest point is good enough if the loss falls by this share of slope times step (half at most).
_SUFFICIENT_DECREASE = 0.2
# Near the optimum the loss is flat to its last digits: an increase within them is ignored.
_SLACK = 1e-13
# A rate at which steps shrink too slowly to wait, and about how many steps a new Hessian needs to the end.
_SLOW = 0.95
_NEWTON_STEPS = 4.0
# While log-odds change by more than this, a new Hessian is soon as old as the one there is: one that costs more than two steps is
# not built while steps still shrink at this rate. With several labels, that saves a fifth of the time.
_FAR, _SHRINKING = 0.5, 0.7


class Anchor(NamedTuple):
    """What all sets of one problem share: the model without columns, and the loss near the model of all columns.

    Vectors are flat: logit by logit, each with its intercept first; size = logits * (1 + columns).
    """

    # Of the model without columns, one per logit, and the slope of the loss there [size].
    intercepts: Floats
    slope: Floats
    # Of the loss at the model of all columns [size, size].
    hessian: Floats
    # That Hessian times its parameters, less the slope there: on the columns of a set, the right side of the equations for the
    # minimum of the second-order approximation.
    target: Floats


class FitState(NamedTuple):
    """The state of one fit: parameters, slope and logits, the next step and its trial; the Hessian and its corrections.

    Vectors are flat: logit by logit, each with its intercept first.
    """

    x: Floats
    slope: Floats
    direction: Floats
    trial: Floats
    trial_slope: Floats
    before: Floats
    after: Floats
    probabilities: Floats
    hessian: Floats
    factor: Floats
    steps: Floats
    slope_changes: Floats
    parts: Floats
    single_precision: NDArray[np.float32]
    double_precision: Floats


@jit_inner()
def _allocate_state(rows: TrainingRows, labels: int, column_set: ColumnSet) -> FitState:  # pragma: no cover - compiled
    blocks, block, size = len(rows.blocks), rows.blocks.shape[2], labels * column_set.width
    padded_rows, square = buffer_sizes(column_set)
    return FitState(
        np.zeros(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty((blocks, labels, block)),
        np.empty((blocks, labels, block)),
        np.empty((blocks, labels, block)),
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty((_MAX_PAIRS, size)),
        np.empty((_MAX_PAIRS, size)),
        np.empty((labels * (labels + 1) // 2, square, square)),
        np.zeros((padded_rows, block), dtype=np.float32),
        np.zeros((padded_rows, block)),
    )


@jit_inner()
def _start_at_intercepts(anchor: Anchor, index: Ints, width: int, state: FitState) -> None:  # pragma: no cover - compiled
    """Start at the model without columns."""
    for i in range(len(index)):
        state.slope[i] = anchor.slope[index[i]]
    for label in range(state.before.shape[1]):
        state.x[label * width] = anchor.intercepts[label]
        for k in range(state.before.shape[0]):
            for row in range(state.before.shape[2]):
                state.before[k, label, row] = anchor.intercepts[label]


@jit_inner()
def start_fit(
    rows: TrainingRows,
    anchor: Anchor,
    columns: Ints,
    column_set: ColumnSet,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    start: Floats,
) -> FitState:  # pragma: no cover - compiled
    """Return a fit at the model without columns, with what its first step needs.

    If `warm`, that step leads to the start given. Otherwise it leads to the minimum of the anchor's approximation on the set's
    columns: the Hessian is the anchor's, and the direction the right side of the equations for that minimum (`aim`).
    """
    labels, width = len(anchor.intercepts), len(columns) + 1
    every = len(anchor.target) // labels
    index = np.empty(labels * width, dtype=np.intp)
    for label in range(labels):
        index[label * width] = label * every
        for j in range(width - 1):
            index[label * width + j + 1] = label * every + columns[j] + 1
    state = _allocate_state(rows, labels, column_set)
    _start_at_intercepts(anchor, index, width, state)
    for i in range(len(index)):
        if warm:
            state.direction[i] = start[i] - state.x[i]
            continue
        state.direction[i] = anchor.target[index[i]]
        for j in range(i + 1):
            state.hessian[i, j] = anchor.hessian[index[i], index[j]]
    return state


@jit_inner(inlined=True)
def _aim(
    rows: TrainingRows,
    column_set: ColumnSet,
    state: FitState,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
) -> float:  # pragma: no cover - compiled
    """Set the first step of a fit that `start_fit` began; return minus the slope along it."""
    aimed = warm
    if not warm and build_hessian(rows, column_set, state, int(np.int64(0))) == 0:
        solve(state.factor, state.direction)
        for i in range(len(state.x)):
            state.direction[i] -= state.x[i]
        aimed = True
    descent = -dot(state.direction, state.slope, len(state.x))
    # A start in whose direction the loss rises (or is NaN) is not used: the fit starts at the model without columns.
    if not (aimed and 0.0 < descent < np.inf):
        descent = 0.0
        for i in range(len(state.x)):
            state.direction[i] = 0.0
    return descent


@jit_inner()
def _line_minimum(rows: TrainingRows, state: FitState, descent: float, end: float) -> float:  # pragma: no cover - compiled
    """Return a share of the step near the lowest point along it; the trial is at its end, where the slope along it is `end`.

    Only logits are needed for that, no columns: it costs less than a pass.
    """
    low, high, at_low, at_high, share = 0.0, 1.0, -descent, end, 0.5
    for _ in range(_MAX_LINE_SEARCH):
        # Where a straight line between the two slopes crosses zero, unless they are too far apart for a straight line.
        share = low + (high - low) * (-at_low / (at_high - at_low) if at_high < 8.0 * -at_low else 0.5)
        slope = slope_along(rows, state.x, state.direction, state.before, state.after, share)
        if -0.25 * descent <= slope <= 0.05 * descent:
            break
        if slope < 0.0:
            low, at_low = share, slope
        else:
            high, at_high = share, slope
    return share


@jit_inner(cached=True)
def take_step(
    rows: TrainingRows, column_set: ColumnSet, state: FitState, descent: float
) -> tuple[float, float, int]:  # pragma: no cover - compiled
    """Take the step, or the share of it that leads to the lowest point; halved until the loss falls.

    Returns the share of the step, 0 if there is none; the largest change of log-odds; the passes that it took. `descent` is
    minus the slope along the step.
    """
    share, passes = 1.0, 0
    while passes < _MAX_HALVINGS:
        for i in range(len(state.x)):
            state.trial[i] = state.x[i] + share * state.direction[i]
        change = evaluate_loss(rows, column_set, state.trial, state.before, state.after, state.probabilities, state.trial_slope)
        end = dot(state.direction, state.trial_slope, len(state.direction))
        passes += 1
        # The loss is convex: if it does not rise at the end, it did not before. And while log-odds change by at most 1, curvature
        # changes by a factor of e at most: then a slope at the end of half that at the start is outweighed by it.
        if end <= 0.0 or (change <= 1.0 and end <= 0.5 * descent):
            return share, change, passes
        increase, loss = loss_change(rows, state.x, state.trial, state.before, state.after)
        # A long step that goes far beyond the lowest point may end a little lower than it began, and be a poor one.
        if increase <= (-_SUFFICIENT_DECREASE * descent if passes == 1 and change > 1.0 else _SLACK * (1.0 + loss)):
            return share, change, passes
        share = _line_minimum(rows, state, descent, end) if passes == 1 else 0.5 * share
    return 0.0, np.inf, passes


@jit_inner(cached=True)
def accept_step(state: FitState, count: int) -> int:  # pragma: no cover - compiled
    """Make the trial the current point; return how many pairs are stored."""
    for i in range(len(state.x)):
        # The old point is not needed any more: its vectors hold the differences.
        state.x[i] = state.trial[i] - state.x[i]
        state.slope[i] = state.trial_slope[i] - state.slope[i]
    count = push_pair(state.x, state.slope, state.steps, state.slope_changes, count)
    for i in range(len(state.x)):
        state.x[i], state.slope[i] = state.trial[i], state.trial_slope[i]
    for k in range(state.before.shape[0]):
        for label in range(state.before.shape[1]):
            for row in range(state.before.shape[2]):
                state.before[k, label, row] = state.after[k, label, row]
    return count


@jit_entry()
def build_hessian(
    rows: TrainingRows, column_set: ColumnSet, state: FitState, precision: int
) -> int:  # pragma: no cover - compiled
    """Build and factor the Hessian at the current point, in this precision (1: single, 2: double) or above.

    0 factors the one that the state has. Returns the precision that it took, -1 if none is enough.
    """
    while precision <= 2:
        if precision == 1:
            accumulate_hessian(rows.single_precision, rows, column_set, state.probabilities, state.single_precision, state.parts)
        if precision == 2:
            accumulate_hessian(rows.blocks, rows, column_set, state.probabilities, state.double_precision, state.parts)
        if precision > 0:
            assemble_hessian(state.parts, state.before.shape[1], column_set.width, rows.penalty, rows.weight, state.hessian)
        ridge = cholesky(state.hessian, state.factor, rows.stop)
        if ridge == 0.0 or (precision != 1 and ridge > 0.0):
            return precision
        precision = 2 if precision == 1 else 3
    return -1


@jit_inner(cached=True)
def newton_direction(state: FitState, count: int) -> float:  # pragma: no cover - compiled
    """Set the direction to the corrected Newton step; return minus the slope along it."""
    lbfgs_direction(state.factor, state.slope, state.steps, state.slope_changes, count, state.direction)
    return -dot(state.direction, state.slope, len(state.direction))


@jit_inner()
def _should_rebuild_hessian(
    rate: float, change: float, tolerance: float, labels: int, column_set: ColumnSet
) -> bool:  # pragma: no cover - compiled
    """Return whether a new Hessian costs less than the steps that the old one would still take at this rate."""
    if not rate < _SLOW:
        return True
    left = math.log(tolerance / change) / math.log(rate)
    # Nanoseconds per row, measured: the ratio is what counts.
    numbers = len(column_set.numbers) + 1
    build_cost = 0.5 * (labels + 1) * (numbers * numbers / 27.0 + (0.7 if numbers == column_set.width else 0.9) * numbers)
    steps = build_cost / (0.64 * numbers + 10.0)
    if change > _FAR and rate < _SHRINKING and steps > 2.0:
        return False
    return left > steps + _NEWTON_STEPS


@jit_inner()
def _is_converged(
    share: float,
    change: float,
    rate: float,
    fresh: bool,  # noqa: FBT001
    tolerance: float,
) -> bool:  # pragma: no cover - compiled
    """Return whether one more step, whose slope is known, ends the fit."""
    # The step after that would be about change * rate * rate. Where rounding hides the rate, a step by a fresh Hessian shows it.
    near = rate <= 0.1 and change * rate * rate <= 0.01 * tolerance
    return share == 1.0 and (near or (change <= tolerance and (fresh or rate <= 0.5)))


@jit_inner(inlined=True)
def run_newton(
    rows: TrainingRows,
    column_set: ColumnSet,
    state: FitState,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    tolerance: float,
) -> int:  # pragma: no cover - compiled
    """Take the step that is set, then Newton steps to convergence; return the passes, negative if the fit did not converge."""
    passes, precision, rate = 0, 0, 1.0
    # Not written as 0 and False, for which the functions that take them would be compiled by themselves.
    count, fresh = int(np.int64(0)), passes > 0
    descent = _aim(rows, column_set, state, warm)
    while passes < _MAX_PASSES and rows.stop[0] == 0:
        share, change, step_passes = take_step(rows, column_set, state, descent)
        passes += step_passes
        if share == 0.0 and precision > 0:
            break
        count = accept_step(state, count)
        if precision > 0:
            after = newton_direction(state, count)
            rate = math.sqrt(after / descent) if share == 1.0 and after > 0.0 else 1.0
            if _is_converged(share, change, rate, fresh, tolerance):
                for i in range(len(state.x)):
                    state.x[i] += state.direction[i] if after <= descent else 0.0
                return passes
            descent = after
        # Steps that hardly change log-odds and still do not converge: single precision is exhausted.
        spent = precision == 2 or (fresh and change <= 1.0 and rate > 0.5)
        fresh = _should_rebuild_hessian(rate, change, tolerance, state.before.shape[1], column_set)
        if fresh:
            precision = build_hessian(rows, column_set, state, 2 if spent else 1)
            if precision < 0:
                break
            count = int(np.int64(0))
            descent = newton_direction(state, count)
        if descent == 0.0:
            return passes
    return -passes
