"""Compiled passes over the rows: logits, chances, slope and loss of one feature set.

Rows come in blocks [blocks, columns, places] (`RowBlocks`), so that a block's part of all columns stays in a near cache between
two uses. Parameters are flat: for each logit its intercept, then the coefficients of the set's columns, numbers before choices.
`logits` and `chances` are [blocks, logits, places]; two labels have one logit, more have one each.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco_runtime._arrays import Floats, Ints
from emsco_train._compiled import inner
from emsco_train.logistic.chosen import Chosen, tabulate
from emsco_train.logistic.elementary import chance_of, exp_of_negative, softplus
from emsco_train.logistic.key import KEY
from emsco_train.logistic.runs import Runs

__all__ = ["Rows", "block_chances", "evaluate", "loss_rise", "slope_along"]

# Division by zero is no event of its own, and sums may be regrouped: both are what lets loops run on several rows at once.
_FAST = ("arcp", "contract", "nsz", "reassoc")


class Rows(NamedTuple):
    """Training rows as the passes see them (a tuple, since compiled code takes no dataclass).

    Parameters
    ----------
    runs
        Their choices.
    blocks
        Columns of numbers [blocks, columns, places].
    coarse
        The same in single precision, for Hessians that need no more.
    wanted
        1 where the row has that logit's label [blocks, logits, places].
    weights
        Of each row [blocks, places]; 0 in empty places.
    weight
        Their sum.
    penalty
        1 / C.
    """

    runs: Runs
    blocks: Floats
    coarse: NDArray[np.float32]
    wanted: Floats
    weights: Floats
    weight: float
    penalty: float


@inner(*_FAST)
def _share(runs: Runs, k: int, table: Floats, logits: Floats) -> None:  # pragma: no cover - compiled
    """Fill in the part of block k's logits that the rows of a kind share."""
    for run in range(runs.first[k], runs.first[k + 1]):
        shared = table[runs.kind[run]]
        for row in range(runs.start[run], runs.stop[run]):
            logits[row] = shared


@inner(*_FAST)
def _gather(runs: Runs, k: int, residual: Floats, sums: Floats) -> None:  # pragma: no cover - compiled
    """Add the residuals of block k to the sums of their kinds."""
    for run in range(runs.first[k], runs.first[k + 1]):
        total = 0.0
        for row in range(runs.start[run], runs.stop[run]):
            total += residual[row]
        sums[runs.kind[run]] += total


@inner(*_FAST)
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


@inner(*_FAST)
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


@inner(*_FAST)
def _sigmoid(logits: Floats, chances: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(logits)):
        chances[row] = chance_of(logits[row])


@inner(*_FAST)
def _softmax(logits: Floats, chances: Floats, top: Floats, total: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(top)):
        top[row], total[row] = logits[0, row], 0.0
    for label in range(1, len(logits)):
        for row in range(len(top)):
            z = logits[label, row]
            top[row] = z if z > top[row] else top[row]  # noqa: FURB136 - max() minds NaN, and keeps the loop scalar
    for label in range(len(logits)):
        for row in range(len(top)):
            power = exp_of_negative(logits[label, row] - top[row])
            chances[label, row] = power
            total[row] += power
    for label in range(len(logits)):
        for row in range(len(top)):
            chances[label, row] /= total[row]


@inner()
def _chances(logits: Floats, chances: Floats, top: Floats, total: Floats) -> None:  # pragma: no cover - compiled
    if len(logits) == 1:
        _sigmoid(logits[0], chances[0])
    else:
        _softmax(logits, chances, top, total)


@inner(*_FAST)
def _residual(weights: Floats, chances: Floats, wanted: Floats, residual: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(residual)):
        residual[row] = weights[row] * (chances[row] - wanted[row])


@inner(*_FAST)
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


@inner()
def _add_kinds(chosen: Chosen, members: Ints, sums: Floats, at: int, slope: Floats) -> None:  # pragma: no cover - compiled
    """Add the sums of all kinds to the slopes of the intercept and of their choices."""
    for kind in range(len(members)):
        slope[at] += sums[kind]
        for choice in members[kind]:
            if chosen.spots[choice] < chosen.width:
                slope[at + chosen.spots[choice]] += sums[kind]


@inner()
def block_chances(
    block: Floats,
    runs: Runs,
    k: int,
    chosen: Chosen,
    parameters: Floats,
    tables: Floats,
    logits: Floats,
    chances: Floats,
    top: Floats,
    total: Floats,
) -> None:  # pragma: no cover - compiled
    """Fill logits and chances of block k; `tables` are those of `tabulate`, `top` and `total` [places] are scratch."""
    for label in range(len(logits)):
        _share(runs, k, tables[label], logits[label])
        _add_logits(block, chosen.numbers, parameters, label * chosen.width, logits[label])
    _chances(logits, chances, top, total)


@inner(key=KEY)
def evaluate(
    rows: Rows, chosen: Chosen, parameters: Floats, before: Floats, logits: Floats, chances: Floats, slope: Floats
) -> float:  # pragma: no cover - compiled
    """Fill logits, chances and slope at `parameters`; return the largest change of log-odds from the logits `before`."""
    labels, size, width, runs = logits.shape[1], logits.shape[2], chosen.width, rows.runs
    residual, spare = np.empty(size), np.empty(size)
    tables, sums = np.empty((labels, len(runs.members))), np.zeros((labels, len(runs.members)))
    tabulate(chosen, runs.members, parameters, tables)
    for i in range(len(slope)):
        slope[i] = rows.penalty * parameters[i] if i % width else 0.0
    worst = 0.0
    for k in range(len(rows.blocks)):
        block_chances(rows.blocks[k], runs, k, chosen, parameters, tables, logits[k], chances[k], residual, spare)
        worst = max(worst, _block_change(logits[k], before[k], residual, spare))
        for label in range(labels):
            _residual(rows.weights[k], chances[k, label], rows.wanted[k, label], residual)
            _gather(runs, k, residual, sums[label])
            _add_slope(rows.blocks[k], chosen.numbers, residual, label * width, slope)
    for label in range(labels):
        _add_kinds(chosen, runs.members, sums[label], label * width, slope)
    return worst


@inner(*_FAST)
def _between(before: Floats, after: Floats, share: float, out: Floats) -> None:  # pragma: no cover - compiled
    for row in range(len(out)):
        out[row] = before[row] + share * (after[row] - before[row])


@inner(*_FAST)
def _block_slope_along(
    weights: Floats, chances: Floats, wanted: Floats, before: Floats, after: Floats
) -> float:  # pragma: no cover - compiled
    total = 0.0
    for row in range(len(weights)):
        total += weights[row] * (chances[row] - wanted[row]) * (after[row] - before[row])
    return total


@inner(key=KEY)
def slope_along(
    rows: Rows, parameters: Floats, move: Floats, before: Floats, after: Floats, share: float
) -> float:  # pragma: no cover - compiled
    """Return the slope of the loss along a move, at a share of it, from the logits at its two ends alone: no column is read."""
    labels, size = before.shape[1], before.shape[2]
    width = len(parameters) // labels
    logits, chances, top, total = np.empty((labels, size)), np.empty((labels, size)), np.empty(size), np.empty(size)
    slope = 0.0
    for i in range(len(parameters)):
        if i % width:
            slope += rows.penalty * (parameters[i] + share * move[i]) * move[i]
    for k in range(len(before)):
        for label in range(labels):
            _between(before[k, label], after[k, label], share, logits[label])
        _chances(logits, chances, top, total)
        for label in range(labels):
            slope += _block_slope_along(rows.weights[k], chances[label], rows.wanted[k, label], before[k, label], after[k, label])
    return slope


@inner(*_FAST)
def _block_loss(logits: Floats, wanted: Floats, weights: Floats) -> float:  # pragma: no cover - compiled
    loss = 0.0
    for row in range(len(weights)):
        loss += weights[row] * (softplus(logits[0, row]) - wanted[0, row] * logits[0, row])
    return loss


@inner()
def _block_losses(logits: Floats, wanted: Floats, weights: Floats) -> float:  # pragma: no cover - compiled
    loss = 0.0
    for row in range(len(weights)):
        top, total, right = logits[0, row], 0.0, 0.0
        for label in range(1, len(logits)):
            top = max(top, logits[label, row])
        for label in range(len(logits)):
            total += math.exp(logits[label, row] - top)
            right += wanted[label, row] * logits[label, row]
        loss += weights[row] * (math.log(total) + top - right)
    return loss


@inner(key=KEY)
def loss_rise(
    rows: Rows, old: Floats, new: Floats, before: Floats, after: Floats
) -> tuple[float, float]:  # pragma: no cover - compiled
    """Return the rise of the loss from parameters `old` to `new`, whose logits are given, and the old loss."""
    width = len(old) // before.shape[1]
    loss, rise = 0.0, 0.0
    for i in range(len(old)):
        if i % width:
            loss += 0.5 * rows.penalty * old[i] * old[i]
            rise += 0.5 * rows.penalty * (new[i] - old[i]) * (new[i] + old[i])
    for k in range(len(rows.weights)):
        for logits, sign in ((before[k], -1.0), (after[k], 1.0)):
            if before.shape[1] == 1:
                part = _block_loss(logits, rows.wanted[k], rows.weights[k])
            else:
                part = _block_losses(logits, rows.wanted[k], rows.weights[k])
            rise += sign * part
            if sign < 0.0:
                loss += part
    return rise, loss
