"""The compiled minimiser: guarded Newton steps with few Hessians.

A Hessian costs as much as several slopes, so one is kept while it serves: pairs of step and change of slope correct it (L-BFGS),
and it is built anew where the steps that it would still take cost more than a new one. Where a few rows spoil a step it is
mended (`stiff`). A long step that goes beyond the lowest point on its way goes back to it, which logits alone tell; any step is
halved until the loss falls.

`step` and `build` are kept on disk by themselves: two processes compile them side by side (`compilation`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco_runtime._arrays import Floats, Ints
from emsco_train._compiled import inner
from emsco_train.logistic.algebra import corrected, dot, factored, pack, remember, solve
from emsco_train.logistic.chosen import Chosen
from emsco_train.logistic.curvature import curvatures, room
from emsco_train.logistic.key import KEY
from emsco_train.logistic.passes import Rows, evaluate, loss_rise, slope_along
from emsco_train.logistic.stiff import relieve

__all__ = ["Anchor", "Work", "arrive", "build", "iterate", "prepare", "step", "turn"]

_PAIRS = 10
_MAX_PASSES = 400
_MAX_HALVINGS = 60
# Looks along a move for its lowest point, at most. It need not be met: the next step has a Hessian of its own.
_TRIALS = 8
# A move whose end is beyond its lowest point is good enough if the loss falls by this share of slope times move (half: the most).
_WORTH = 0.2
# A slope at the end of a Newton step, as a share of that at its start, which tells of losses that are no parabolas.
_BENT = 0.25
# Near the optimum the loss is flat to its last digits: a rise within them is no rise.
_SLACK = 1e-13
# A rate at which steps shrink too slowly to wait, and about how many steps a new Hessian needs to the end.
_SLOW = 0.95
_NEWTON_STEPS = 4.0


class Anchor(NamedTuple):
    """What all sets of one problem share: the model without columns, and the loss near the model of all columns.

    Parameters
    ----------
    intercepts
        Of the model without columns, one per logit.
    slope
        Of the loss there [size]; all vectors are flat, logit by logit, each with its intercept first.
    hessian
        Of the loss at the model of all columns [size, size], size = logits * (1 + columns).
    target
        That Hessian times its parameters, less the slope there: on the columns of a set, the right side of the equations for the
        minimum of the second-order approximation.
    """

    intercepts: Floats
    slope: Floats
    hessian: Floats
    target: Floats


class Work(NamedTuple):
    """Where one fit is: parameters, slope and logits there, the move and the trial beyond; the Hessian and its corrections.

    Vectors are flat: logit by logit, each with its intercept first.
    """

    x: Floats
    slope: Floats
    move: Floats
    trial: Floats
    trial_slope: Floats
    before: Floats
    after: Floats
    chances: Floats
    hessian: Floats
    factor: Floats
    steps: Floats
    turns: Floats
    parts: Floats
    coarse: NDArray[np.float32]
    exact: Floats


@inner()
def _work(rows: Rows, labels: int, chosen: Chosen) -> Work:  # pragma: no cover - compiled
    blocks, block, size = len(rows.blocks), rows.blocks.shape[2], labels * chosen.width
    tall, square = room(chosen)
    return Work(
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
        np.empty((_PAIRS, size)),
        np.empty((_PAIRS, size)),
        np.empty((labels * (labels + 1) // 2, square, square)),
        np.zeros((tall, block), dtype=np.float32),
        np.zeros((tall, block)),
    )


@inner()
def _begin(anchor: Anchor, index: Ints, width: int, work: Work) -> None:  # pragma: no cover - compiled
    """Stand at the model without columns."""
    for i in range(len(index)):
        work.slope[i] = anchor.slope[index[i]]
    for label in range(work.before.shape[1]):
        work.x[label * width] = anchor.intercepts[label]
        for k in range(work.before.shape[0]):
            for row in range(work.before.shape[2]):
                work.before[k, label, row] = anchor.intercepts[label]


@inner()
def _aim(anchor: Anchor, index: Ints, work: Work) -> bool:  # pragma: no cover - compiled
    """Take over the anchor's Hessian and aim at the minimum of its approximation on the set's columns."""
    for i in range(len(index)):
        for j in range(i + 1):
            work.hessian[i, j] = anchor.hessian[index[i], index[j]]
    if factored(work.hessian, work.factor) < 0.0:
        return False
    for i in range(len(index)):
        work.move[i] = anchor.target[index[i]]
    solve(work.factor, work.move)
    for i in range(len(index)):
        work.move[i] -= work.x[i]
    return True


@inner()
def prepare(
    rows: Rows,
    anchor: Anchor,
    columns: Ints,
    chosen: Chosen,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    start: Floats,
) -> tuple[Work, float]:  # pragma: no cover - compiled
    """Return a fit that stands at the model without columns and is about to move to the start, and minus the slope along that.

    The start is the one given if `warm`, otherwise what the anchor says.
    """
    labels, width = len(anchor.intercepts), len(columns) + 1
    every = len(anchor.target) // labels
    index = np.empty(labels * width, dtype=np.intp)
    for label in range(labels):
        index[label * width] = label * every
        for j in range(width - 1):
            index[label * width + j + 1] = label * every + columns[j] + 1
    work = _work(rows, labels, chosen)
    _begin(anchor, index, width, work)
    if warm:
        for i in range(len(index)):
            work.move[i] = start[i] - work.x[i]
    aimed = warm or _aim(anchor, index, work)
    fall = -dot(work.move, work.slope, len(index))
    # A start in whose direction the loss rises (or NaN) is none: the model without columns is.
    if not (aimed and 0.0 < fall < np.inf):
        fall = 0.0
        for i in range(len(index)):
            work.move[i] = 0.0
    return work, fall


@inner()
def _lowest(rows: Rows, work: Work, fall: float, end: float) -> float:  # pragma: no cover - compiled
    """Return a share of the move near the lowest point along it; the trial stands at its end, where the slope along it is `end`.

    Only logits are needed for that, no column: it costs less than a pass.
    """
    low, high, at_low, at_high, share = 0.0, 1.0, -fall, end, 0.5
    for _ in range(_TRIALS):
        # Where a straight line between the two slopes crosses zero; but far off slopes are anything but straight.
        share = low + (high - low) * (-at_low / (at_high - at_low) if at_high < 8.0 * -at_low else 0.5)
        slope = slope_along(rows, work.x, work.move, work.before, work.after, share)
        if -0.25 * fall <= slope <= 0.05 * fall:
            break
        if slope < 0.0:
            low, at_low = share, slope
        else:
            high, at_high = share, slope
    return share


@inner(key=KEY)
def step(
    rows: Rows,
    chosen: Chosen,
    work: Work,
    fall: float,
    fresh: bool,  # noqa: FBT001 - compiled functions are called by position
) -> tuple[float, float, int, bool]:  # pragma: no cover - compiled
    """Go the move, or the share of it that goes to the lowest point; halved until the loss falls.

    Returns the share of the move, 0 if there is none; the largest change of log-odds; the passes that it took; whether stiff rows
    bent the move. `fall` is minus the slope along the move, `fresh` tells whether it is the step of a Hessian just built.
    """
    share, passes, shortened, bent = 1.0, 0, 0, False
    while shortened < _MAX_HALVINGS:
        for i in range(len(work.x)):
            work.trial[i] = work.x[i] + share * work.move[i]
        change = evaluate(rows, chosen, work.trial, work.before, work.after, work.chances, work.trial_slope)
        end = dot(work.move, work.trial_slope, len(work.move))
        passes += 1
        # Were the losses the parabolas that the Hessian takes them for, there would be no slope at the end.
        if passes == 1 and fresh and change > 1.0 and abs(end) > _BENT * fall and work.before.shape[1] == 1:
            corrected_fall = relieve(rows, chosen, work.factor, work.slope, work.before, work.after, work.move)
            if corrected_fall > 0.0:
                fall, bent = corrected_fall, True
                continue
        # The loss is convex: with no rise at the end there was none before. And while log-odds change by at most 1, curvature
        # changes by a factor of e at most: then a rise at the end of half the fall at the start is outweighed by it.
        if end <= 0.0 or (change <= 1.0 and end <= 0.5 * fall):
            return share, change, passes, bent
        first = shortened == 0
        rise, loss = loss_rise(rows, work.x, work.trial, work.before, work.after)
        # A long move that goes far beyond the lowest point may end a little lower than it began, and be a poor one.
        if rise <= (-_WORTH * fall if first and change > 1.0 else _SLACK * (1.0 + loss)):
            return share, change, passes, bent
        share = _lowest(rows, work, fall, end) if first else 0.5 * share
        shortened += 1
    return 0.0, np.inf, passes, bent


@inner(key=KEY)
def arrive(work: Work, count: int) -> int:  # pragma: no cover - compiled
    """Make the trial the place where the fit is; return how many pairs are remembered."""
    for i in range(len(work.x)):
        # The old place is of no further use: its vectors hold the differences.
        work.x[i] = work.trial[i] - work.x[i]
        work.slope[i] = work.trial_slope[i] - work.slope[i]
    count = remember(work.x, work.slope, work.steps, work.turns, count)
    for i in range(len(work.x)):
        work.x[i], work.slope[i] = work.trial[i], work.trial_slope[i]
    for k in range(work.before.shape[0]):
        for label in range(work.before.shape[1]):
            for row in range(work.before.shape[2]):
                work.before[k, label, row] = work.after[k, label, row]
    return count


@inner(key=KEY)
def build(rows: Rows, chosen: Chosen, work: Work, precision: int) -> int:  # pragma: no cover - compiled
    """Build and factor the Hessian where the fit is, in this precision (1: single, 2: double) or above.

    Returns the precision that it took, 0 if none is enough.
    """
    while precision <= 2:
        if precision == 1:
            curvatures(rows.coarse, rows, chosen, work.chances, work.coarse, work.parts)
        else:
            curvatures(rows.blocks, rows, chosen, work.chances, work.exact, work.parts)
        pack(work.parts, work.before.shape[1], chosen.width, rows.penalty, rows.weight, work.hessian)
        ridge = factored(work.hessian, work.factor)
        if ridge == 0.0 or (precision == 2 and ridge > 0.0):
            return precision
        precision += 1
    return 0


@inner(key=KEY)
def turn(work: Work, count: int) -> float:  # pragma: no cover - compiled
    """Point the move along the corrected Newton step; return minus the slope along it."""
    corrected(work.factor, work.slope, work.steps, work.turns, count, work.move)
    return -dot(work.move, work.slope, len(work.move))


@inner()
def _worth_building(
    rate: float, change: float, tolerance: float, labels: int, chosen: Chosen
) -> bool:  # pragma: no cover - compiled
    """Return whether a new Hessian costs less than the steps that the old one would still take at this rate."""
    if not rate < _SLOW:
        return True
    left = math.log(tolerance / change) / math.log(rate)
    # Nanoseconds a row, measured: the ratio is what counts.
    numbers = len(chosen.numbers) + 1
    build = 0.5 * (labels + 1) * (numbers * numbers / 27.0 + (0.7 if numbers == chosen.width else 0.9) * numbers)
    return left > build / (0.64 * numbers + 10.0) + _NEWTON_STEPS


@inner()
def _finished(
    share: float,
    change: float,
    rate: float,
    fresh: bool,  # noqa: FBT001
    tolerance: float,
) -> bool:  # pragma: no cover - compiled
    """Return whether one more step, whose slope is at hand, ends the fit."""
    # The step after that would be about change * rate * rate. Where rounding hides the rate, a step by a fresh Hessian tells.
    near = rate <= 0.1 and change * rate * rate <= 0.01 * tolerance
    return share == 1.0 and (near or (change <= tolerance and (fresh or rate <= 0.5)))


@inner(inlined=True)
def iterate(rows: Rows, chosen: Chosen, work: Work, fall: float, tolerance: float) -> int:  # pragma: no cover - compiled
    """Go along the move that is set, then by Newton steps to the end; return the passes, minus them if there was no end."""
    passes, precision, rate = 0, 0, 1.0
    # Not written as 0 and False, for which the functions that take them would be compiled by themselves.
    count, fresh = int(np.int64(0)), passes > 0
    while passes < _MAX_PASSES:
        share, change, took, bent = step(rows, chosen, work, fall, fresh)
        passes += took
        if share == 0.0 and precision > 0:
            break
        count = arrive(work, count)
        if precision > 0:
            after = turn(work, count)
            rate = math.sqrt(after / fall) if share == 1.0 and after > 0.0 and not bent else 1.0
            if _finished(share, change, rate, fresh, tolerance):
                for i in range(len(work.x)):
                    work.x[i] += work.move[i] if after <= fall else 0.0
                return passes
            fall = after
        # Steps that log-odds hardly notice and that still do not converge: single precision is at its end.
        spent = precision == 2 or (fresh and change <= 1.0 and rate > 0.5)
        fresh = _worth_building(rate, change, tolerance, work.before.shape[1], chosen)
        if fresh:
            precision = build(rows, chosen, work, 2 if spent else 1)
            if precision == 0:
                break
            count = int(np.int64(0))
            fall = turn(work, count)
        if fall == 0.0:
            return passes
    return -passes
