"""Compiled: a better step where a few rows spoil a Newton step.

A Newton step takes every row's loss for a parabola. A row with a value hundreds of deviations away has log-odds that change by
hundreds in one step, and its loss is then nothing like the parabola: the step has to be cut short because of some ten rows among
a hundred thousand, again and again. Here these stiff rows keep their true loss, and the others their parabolas; the lowest point
of that sum is found without another pass over the rows.

With the Newton step v, the Hessian H and the stiff rows X, only steps v - H^-1 X^T a need to be considered, so the search is for
one number per row, however many columns there are.
"""

from __future__ import annotations

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.logistic.column_set import ColumnSet
from emsco_train.logistic.elementary import sigmoid, softplus
from emsco_train.logistic.linear_algebra import dot, solve, solve_general, solve_lower
from emsco_train.logistic.loss import TrainingRows
from emsco_train.support.compiled import jit_inner

__all__ = ["correct_step"]

_FAST = ("arcp", "contract", "nsz", "reassoc")
# Stiff rows, at most.
_MAX_STIFF_ROWS = 32
# The step is corrected where the error of their parabolas is at least this share of the decrease that the step predicts.
_MIN_ERROR_SHARE = 0.05
_MAX_STEPS = 30
_MAX_HALVINGS = 30
# The search ends where a step of it would gain about this share of that decrease.
_TOLERANCE = 1e-6


@jit_inner(*_FAST)
def _parabola_error(z: float, change: float) -> float:  # pragma: no cover - compiled
    """Return how far a row's loss lies above its parabola at z, after its log-odds have changed."""
    probability = sigmoid(z)
    return softplus(z + change) - softplus(z) - (probability + 0.5 * probability * (1.0 - probability) * change) * change


@jit_inner(*_FAST)
def _fill_parabola_errors(before: Floats, after: Floats, weights: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    """Fill in how far each row's loss after the step is from its parabola."""
    for row in range(len(out)):
        out[row] = weights[row] * abs(_parabola_error(before[row], after[row] - before[row]))


@jit_inner()
def _find_stiff_rows(
    rows: TrainingRows, before: Floats, after: Floats, where: Ints
) -> tuple[int, float]:  # pragma: no cover - compiled
    """Fill in block and place of the rows that are farthest from their parabolas; return how many, and the sum of that."""
    count, least, places = 0, 0, before.shape[2]
    error, each = np.empty(places), np.empty(len(where))
    for k in range(len(before)):
        _fill_parabola_errors(before[k, 0], after[k, 0], rows.weights[k], error)
        for place in range(places):
            if count < len(where):
                at, count = count, count + 1
            elif error[place] > each[least]:
                at = least
            else:
                continue
            where[at, 0], where[at, 1], each[at] = k, place, error[place]
            least = 0
            for i in range(1, count):
                least = i if each[i] < each[least] else least
    total = 0.0
    for i in range(count):
        total += each[i]
    return count, total


@jit_inner()
def _fill_row(
    rows: TrainingRows, column_set: ColumnSet, block: int, place: int, out: Floats
) -> None:  # pragma: no cover - compiled
    """Fill in one row's columns, 1 for the intercept first."""
    for i in range(len(out)):
        out[i] = 0.0
    out[0] = 1.0
    for j in range(len(column_set.numbers)):
        out[j + 1] = rows.blocks[block, column_set.numbers[j], place]
    runs = rows.runs
    run = runs.first[block]
    while runs.stop[run] <= place:
        run += 1
    for choice in runs.members[runs.kind[run]]:
        if column_set.slots[choice] < column_set.width:
            out[column_set.slots[choice]] = 1.0


@jit_inner()
def _leverage(factor: Floats, columns: Floats) -> Floats:  # pragma: no cover - compiled
    """Return X H^-1 X^T [rows, rows] of the rows X [rows, width]."""
    count, width = columns.shape
    halves, out = np.empty((count, width)), np.empty((count, count))
    for row in range(count):
        for i in range(width):
            halves[row, i] = columns[row, i]
        solve_lower(factor, halves[row])
        for other in range(row + 1):
            out[row, other] = out[other, row] = dot(halves[row], halves[other], width)
    return out


# The matrices are small: a call of BLAS costs more than the work, and it would use threads of its own.
@jit_inner()
def _multiply(matrix: Floats, vector: Floats, out: Floats) -> None:  # pragma: no cover - compiled
    for i in range(len(matrix)):
        out[i] = dot(matrix[i], vector, len(vector))


@jit_inner()
def _objective(z: Floats, weights: Floats, change: Floats, at: Floats, along: Floats, share: float) -> float:  # pragma: no cover
    """Return how high the sum of parabolas and true losses is above the lowest point of the parabolas alone.

    `at` and `along` [2, rows] are amounts and the shifts that they cause, and a step of both, of which a share is taken.
    """
    objective = 0.0
    for row in range(len(z)):
        shift = at[1, row] + share * along[1, row]
        objective += 0.5 * (at[0, row] + share * along[0, row]) * shift
        objective += weights[row] * _parabola_error(z[row], change[row] - shift)
    return objective


@jit_inner()
def _newton_step(
    leverage: Floats, z: Floats, weights: Floats, change: Floats, at: Floats, along: Floats
) -> float:  # pragma: no cover - compiled
    """Fill in the Newton step of the amounts, and its shifts; return minus the slope along it, 0 if there is none."""
    count = len(z)
    matrix, wanted = np.empty((count, count)), np.empty(count)
    for i in range(count):
        changed = change[i] - at[1, i]
        old, new = sigmoid(z[i]), sigmoid(z[i] + changed)
        curvature = old * (1.0 - old)
        wanted[i] = along[0, i] = weights[i] * (new - old - curvature * changed) - at[0, i]
        for j in range(count):
            matrix[i, j] = weights[i] * (new * (1.0 - new) - curvature) * leverage[i, j]
        matrix[i, i] += 1.0
    if not solve_general(matrix, along[0]):
        return 0.0
    _multiply(leverage, along[0], along[1])
    return dot(along[1], wanted, count)


@jit_inner()
def _solve_amounts(
    leverage: Floats, z: Floats, weights: Floats, change: Floats, near: float
) -> Floats:  # pragma: no cover - compiled
    """Return each row's amount a of the lowest point, within about `near` of its height.

    `leverage` is X H^-1 X^T: with the amounts a, the log-odds z change by `change`, as in the Newton step, less leverage @ a.
    """
    at, along = np.zeros((2, len(z))), np.zeros((2, len(z)))
    objective = _objective(z, weights, change, at, along, 0.0)
    for _ in range(_MAX_STEPS):
        descent = _newton_step(leverage, z, weights, change, at, along)
        if not descent > near:
            break
        share, lower = 1.0, objective
        for _ in range(_MAX_HALVINGS):
            lower = _objective(z, weights, change, at, along, share)
            if lower <= objective - 1e-4 * share * descent:
                break
            share *= 0.5
        if not lower < objective:
            break
        objective = lower
        for row in range(len(z)):
            at[0, row] += share * along[0, row]
            at[1, row] += share * along[1, row]
    amounts: Floats = at[0]
    return amounts


@jit_inner(cached=True)
def correct_step(
    rows: TrainingRows, column_set: ColumnSet, factor: Floats, slope: Floats, before: Floats, after: Floats, direction: Floats
) -> float:  # pragma: no cover - compiled
    """Correct a Newton step, `direction`, for its stiff rows; return minus the slope along it, 0 if it is left unchanged.

    The rows have two labels; `before` and `after` are the logits [blocks, 1, places] at both ends of the step.
    """
    descent = -dot(direction, slope, len(direction))
    where = np.empty((_MAX_STIFF_ROWS, 2), dtype=np.intp)
    count, error = _find_stiff_rows(rows, before, after, where)
    if not _MIN_ERROR_SHARE * descent < error < np.inf:
        return 0.0
    columns, z, change, weights = np.empty((count, column_set.width)), np.empty(count), np.empty(count), np.empty(count)
    for row in range(count):
        block, place = where[row]
        _fill_row(rows, column_set, block, place, columns[row])
        z[row], weights[row] = before[block, 0, place], rows.weights[block, place]
        change[row] = after[block, 0, place] - z[row]
    amounts = _solve_amounts(_leverage(factor, columns), z, weights, change, _TOLERANCE * descent)
    correction = np.zeros(column_set.width)
    for row in range(count):
        for i in range(column_set.width):
            correction[i] += amounts[row] * columns[row, i]
    solve(factor, correction)
    descent += dot(correction, slope, len(correction))
    if not 0.0 < descent < np.inf:
        return 0.0
    for i in range(len(direction)):
        direction[i] -= correction[i]
    return descent
