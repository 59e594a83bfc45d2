"""Compiled passes over the rows: logits, probabilities, slope and loss of one feature set.

Rows come in blocks [blocks, columns, places] (`RowBlocks`), so that a block's part of all columns stays in a near cache between
two uses. Parameters are flat: for each logit its intercept, then the coefficients of the set's columns, numbers before choices.
`logits` and `probabilities` are [blocks, logits, places]; two labels have one logit, more have one each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.models.logistic.column_set import ColumnSet, tabulate_kinds
from emsco_train.models.logistic.elementary import exp_negative, sigmoid, softplus
from emsco_train.models.logistic.row_blocks import RowRuns
from emsco_train.support.compiled import jit_entry, jit_inner

__all__ = ["TrainingRows", "block_probabilities", "evaluate_loss", "loss_change", "slope_along"]

# Division by zero raises nothing, and sums may be regrouped: both are what lets loops run on several rows at once.
_FAST = ("arcp", "contract", "nsz", "reassoc")


class TrainingRows(NamedTuple):
    """Training rows as the passes see them (a tuple, since compiled code takes no dataclass)."""

    runs: RowRuns
    # Columns of numbers [blocks, columns, places], and the same in single precision, for Hessians that need no more.
    blocks: Floats
    single_precision: NDArray[np.float32]
    # 1 where the row has that logit's label [blocks, logits, places].
    targets: Floats
    # Of each row [blocks, places], 0 in empty places; then their sum.
    weights: Floats
    weight: float
    # 1 / C.
    penalty: float
    # Not 0 once a fit is to end early [1]: what it returns then means nothing.
    stop: NDArray[np.int64]


@jit_inner(*_FAST)
def _fill_shared_logits(runs: RowRuns, k: int, table: Floats, logits: Floats) -> None:  # pragma: no cover - compiled
    """Fill in the part of block k's logits that the rows of a kind share."""
    for run in range(runs.first[k], runs.first[k + 1]):
        shared = table[runs.kind[run]]
        for row in range(runs.start[run], runs.stop[run]):
            logits[row] = shared


@jit_inner(*_FAST)
def _sum_residuals(runs: RowRuns, k: int, residual: Floats, sums: Floats) -> None:  # pragma: no cover - compiled
    """Add the residuals of block k to the sums of their kinds."""
    for run in range(runs.first[k], runs.first[k + 1]):
        total = 0.0
        for row in range(runs.start[run], runs.stop[run]):
            total += residual[row]
        sums[runs.kind[run]] += total


@jit_inner(*_FAST)
def _add_logits(block: Floats, columns: Ints, parameters: Floats, at: int, logits: Floats) -> None:  # pragma: no cover - compiled
    count = len(columns)
    fours = count - count % 4
    for j in range(0, fours, 4):
        x0, x1, x2, x3 = block[columns[j]], block[columns[j + 1]], block[columns[j + 2]], block[columns[j + 3]]
        b0, b1, b2, b3 = parameters[at + j + 1], parameters[at + j + 2], parameters[at + j + 3], parameters[at + j + 4]
        for row in range(len(logits)):
            logits[row] += (b0 * x0[row] + b1 * x1[row]) + (b2 * x2[row] + b3 * x3[row])
    for j in range(fours, count):
        x0, b0 = block[columns[j]], parameters[at + j + 1]
        for row in range(len(logits)):
            logits[row] += b0 * x0[row]


@jit_inner(*_FAST)
def _add_slope(block: Floats, columns: Ints, residual: Floats, at: int, slope: Floats) -> None:  # pragma: no cover - compiled
    count = len(columns)
    fours = count - count % 4
    for j in range(0, fours, 4):
        x0, x1, x2, x3 = block[columns[j]], block[columns[j + 1]], block[columns[j + 2]], block[columns[j + 3]]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for row in range(len(residual)):
            r = residual[row]
            s0 += r * x0[row]
            s1 += r * x1[row]
            s2 += r * x2[row]
            s3 += r * x3[row]
        slope[at + j + 1] += s0
        slope[at + j + 2] += s1
        slope[at + j + 3] += s2
        slope[at + j + 4] += s3
    for j in range(fours, count):
        x0, s0 = block[columns[j]], 0.0
        for row in range(len(residual)):
            s0 += residual[row] * x0[row]
        slope[at + j + 1] += s0


@jit_inner(*_FAST)
def _fill_sigmoid(logits: Floats, probabilities: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(logits)):
        probabilities[row] = sigmoid(logits[row])


@jit_inner(*_FAST)
def _fill_softmax(logits: Floats, probabilities: Floats, top: Floats, total: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(top)):
        top[row], total[row] = logits[0, row], 0.0
    for label in range(1, len(logits)):
        for row in range(len(top)):
            z = logits[label, row]
            top[row] = z if z > top[row] else top[row]  # noqa: FURB136 - max() minds NaN, and keeps the loop scalar
    for label in range(len(logits)):
        for row in range(len(top)):
            power = exp_negative(logits[label, row] - top[row])
            probabilities[label, row] = power
            total[row] += power
    for label in range(len(logits)):
        for row in range(len(top)):
            probabilities[label, row] /= total[row]


@jit_inner()
def _probabilities(logits: Floats, probabilities: Floats, top: Floats, total: Floats) -> None:  # pragma: no cover - compiled
    if len(logits) == 1:
        _fill_sigmoid(logits[0], probabilities[0])
    else:
        _fill_softmax(logits, probabilities, top, total)


@jit_inner(*_FAST)
def _residual(weights: Floats, probabilities: Floats, targets: Floats, residual: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(residual)):
        residual[row] = weights[row] * (probabilities[row] - targets[row])


@jit_inner(*_FAST)
def _block_change(logits: Floats, before: Floats, high: Floats, low: Floats) -> float:  # pragma: no cover - compiled
    """Return the largest change of log-odds between two labels, in any row."""
    worst = 0.0
    if len(logits) == 1:
        for row in range(len(high)):
            worst = max(worst, abs(logits[0, row] - before[0, row]))
        return worst
    for row in range(len(high)):
        high[row] = low[row] = logits[0, row] - before[0, row]
    for label in range(1, len(logits)):
        for row in range(len(high)):
            change = logits[label, row] - before[label, row]
            high[row] = max(high[row], change)
            low[row] = min(low[row], change)
    for row in range(len(high)):
        worst = max(worst, high[row] - low[row])
    return worst


@jit_inner()
def _add_kind_slopes(
    column_set: ColumnSet, members: Ints, sums: Floats, at: int, slope: Floats
) -> None:  # pragma: no cover - compiled
    """Add the sums of all kinds to the slopes of the intercept and of their choices."""
    for kind in range(len(members)):
        slope[at] += sums[kind]
        for choice in members[kind]:
            if column_set.slots[choice] < column_set.width:
                slope[at + column_set.slots[choice]] += sums[kind]


@jit_inner(cached=True)
def block_probabilities(
    block: Floats,
    runs: RowRuns,
    k: int,
    column_set: ColumnSet,
    parameters: Floats,
    tables: Floats,
    logits: Floats,
    probabilities: Floats,
    top: Floats,
    total: Floats,
) -> None:  # pragma: no cover - compiled
    """Fill logits and probabilities of block k; `tables` are those of `tabulate_kinds`, `top` and `total` [places] scratch."""
    for label in range(len(logits)):
        _fill_shared_logits(runs, k, tables[label], logits[label])
        _add_logits(block, column_set.numbers, parameters, label * column_set.width, logits[label])
    _probabilities(logits, probabilities, top, total)


@jit_entry()
def evaluate_loss(
    rows: TrainingRows,
    column_set: ColumnSet,
    parameters: Floats,
    before: Floats,
    logits: Floats,
    probabilities: Floats,
    slope: Floats,
) -> float:  # pragma: no cover - compiled
    """Fill logits, probabilities and slope at `parameters`; return the largest change of log-odds from the logits `before`."""
    labels, size, width, runs = logits.shape[1], logits.shape[2], column_set.width, rows.runs
    residual, spare = np.empty(size), np.empty(size)
    tables, sums = np.empty((labels, len(runs.members))), np.zeros((labels, len(runs.members)))
    tabulate_kinds(column_set, runs.members, parameters, tables)
    for i in range(len(slope)):
        slope[i] = rows.penalty * parameters[i] if i % width else 0.0
    worst = 0.0
    for k in range(len(rows.blocks)):
        if rows.stop[0] != 0:
            break
        block_probabilities(rows.blocks[k], runs, k, column_set, parameters, tables, logits[k], probabilities[k], residual, spare)
        worst = max(worst, _block_change(logits[k], before[k], residual, spare))
        for label in range(labels):
            _residual(rows.weights[k], probabilities[k, label], rows.targets[k, label], residual)
            _sum_residuals(runs, k, residual, sums[label])
            _add_slope(rows.blocks[k], column_set.numbers, residual, label * width, slope)
    for label in range(labels):
        _add_kind_slopes(column_set, runs.members, sums[label], label * width, slope)
    return worst


@jit_inner(*_FAST)
def _interpolate(before: Floats, after: Floats, share: float, out: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(out)):
        out[row] = before[row] + share * (after[row] - before[row])


@jit_inner(*_FAST)
def _block_slope_along(
    weights: Floats, probabilities: Floats, targets: Floats, before: Floats, after: Floats
) -> float:  # pragma: no cover - compiled
    total = 0.0
    for row in range(len(weights)):
        total += weights[row] * (probabilities[row] - targets[row]) * (after[row] - before[row])
    return total


@jit_inner(cached=True)
def slope_along(
    rows: TrainingRows, parameters: Floats, direction: Floats, before: Floats, after: Floats, share: float
) -> float:  # pragma: no cover - compiled
    """Return the slope of the loss along a step, at a share of it, from the logits at its two ends alone: no column is read."""
    labels, size = before.shape[1], before.shape[2]
    width = len(parameters) // labels
    logits, probabilities, top, total = np.empty((labels, size)), np.empty((labels, size)), np.empty(size), np.empty(size)
    slope = 0.0
    for i in range(len(parameters)):
        if i % width:
            slope += rows.penalty * (parameters[i] + share * direction[i]) * direction[i]
    for k in range(len(before)):
        for label in range(labels):
            _interpolate(before[k, label], after[k, label], share, logits[label])
        _probabilities(logits, probabilities, top, total)
        for label in range(labels):
            slope += _block_slope_along(
                rows.weights[k], probabilities[label], rows.targets[k, label], before[k, label], after[k, label]
            )
    return slope


@jit_inner(*_FAST)
def _block_loss(logits: Floats, targets: Floats, weights: Floats) -> float:  # pragma: no cover - compiled
    loss = 0.0
    for row in range(len(weights)):
        loss += weights[row] * (softplus(logits[0, row]) - targets[0, row] * logits[0, row])
    return loss


@jit_inner()
def _block_losses(logits: Floats, targets: Floats, weights: Floats) -> float:  # pragma: no cover - compiled
    loss = 0.0
    for row in range(len(weights)):
        top, total, right = logits[0, row], 0.0, 0.0
        for label in range(1, len(logits)):
            top = max(top, logits[label, row])
        for label in range(len(logits)):
            total += math.exp(logits[label, row] - top)
            right += targets[label, row] * logits[label, row]
        loss += weights[row] * (math.log(total) + top - right)
    return loss


@jit_inner(cached=True)
def loss_change(
    rows: TrainingRows, old: Floats, new: Floats, before: Floats, after: Floats
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Return the increase of the loss from parameters `old` to `new`, whose logits are given, and the old loss."""
    width = len(old) // before.shape[1]
    loss, increase = 0.0, 0.0
    for i in range(len(old)):
        if i % width:
            loss += 0.5 * rows.penalty * old[i] * old[i]
            increase += 0.5 * rows.penalty * (new[i] - old[i]) * (new[i] + old[i])
    for k in range(len(rows.weights)):
        for logits, sign in ((before[k], -1.0), (after[k], 1.0)):
            if before.shape[1] == 1:
                part = _block_loss(logits, rows.targets[k], rows.weights[k])
            else:
                part = _block_losses(logits, rows.targets[k], rows.weights[k])
            increase += sign * part
            if sign < 0.0:
                loss += part
    return increase, loss
