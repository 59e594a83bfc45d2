"""Compiled loops over feature sets: fit each, score each.

Every set is its own computation, in one thread, in a fixed order of adding: its coefficients and its scores do not depend on the
other sets of a batch, nor on the number of threads.

Compiling takes long, so the result is kept on disk (see `_compiled` and `compilation`).
"""

from __future__ import annotations

import numpy as np

from emsco_runtime._arrays import Floats, Ints, Mask
from emsco_train._compiled import entry_point, inner
from emsco_train.logistic.algebra import pack
from emsco_train.logistic.chosen import Chosen, choose, tabulate
from emsco_train.logistic.curvature import curvatures, room
from emsco_train.logistic.key import KEY
from emsco_train.logistic.newton import Anchor, Work, iterate, prepare
from emsco_train.logistic.passes import Rows, block_chances, evaluate
from emsco_train.logistic.runs import Runs

__all__ = ["begin_set", "expand", "finish_set", "fit_sets", "score_sets"]


@entry_point(KEY)
def expand(rows: Rows, parameters: Floats, slope: Floats, hessian: Floats) -> None:  # pragma: no cover - compiled
    """Fill slope [size] and Hessian [size, size] of the loss on all columns at these parameters [size]."""
    blocks, labels, block = rows.wanted.shape
    numbers = rows.blocks.shape[1]
    chosen = choose(np.arange(numbers + rows.runs.choices), numbers, rows.runs.choices)
    tall, square = room(chosen)
    logits, chances = np.zeros((blocks, labels, block)), np.empty((blocks, labels, block))
    parts, scaled = np.empty((labels * (labels + 1) // 2, square, square)), np.zeros((tall, block))
    evaluate(rows, chosen, parameters, logits, logits, chances, slope)
    curvatures(rows.blocks, rows, chosen, chances, scaled, parts)
    pack(parts, labels, chosen.width, rows.penalty, rows.weight, hessian)
    for i in range(len(hessian)):
        for j in range(i):
            hessian[j, i] = hessian[i, j]


@inner()
def _gather(table: Floats, columns: Ints, out: Floats) -> None:  # pragma: no cover - compiled
    """Take a set's parameters out of a table [logits, 1 + columns]."""
    width = len(columns) + 1
    for label in range(len(table)):
        out[label * width] = table[label, 0]
        for j in range(width - 1):
            out[label * width + j + 1] = table[label, columns[j] + 1]


@inner()
def _scatter(parameters: Floats, columns: Ints, out: Floats) -> None:  # pragma: no cover - compiled
    """Put a set's parameters into a table [logits, 1 + columns], and 0 elsewhere."""
    width = len(columns) + 1
    for label in range(len(out)):
        for j in range(out.shape[1]):
            out[label, j] = 0.0
        out[label, 0] = parameters[label * width]
        for j in range(width - 1):
            out[label, columns[j] + 1] = parameters[label * width + j + 1]


@inner()
def _centre(parameters: Floats, labels: int) -> None:  # pragma: no cover - compiled
    """Make each column's parameters sum to 0 over the labels: so they do at the optimum, and intercepts may by choice."""
    width = len(parameters) // labels
    for j in range(width if labels > 1 else 0):
        total = 0.0
        for label in range(labels):
            total += parameters[label * width + j]
        for label in range(labels):
            parameters[label * width + j] -= total / labels


@inner(key=KEY)
def begin_set(
    rows: Rows,
    anchor: Anchor,
    members: Mask,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    start: Floats,
) -> tuple[Ints, Chosen, Work, float]:  # pragma: no cover - compiled
    """Return the columns of one set [columns], and its fit before the first step with minus the slope along that step."""
    columns = np.flatnonzero(members)
    parameters = np.empty(len(start) * (len(columns) + 1))
    _gather(start, columns, parameters)
    chosen = choose(columns, rows.blocks.shape[1], rows.runs.choices)
    work, fall = prepare(rows, anchor, columns, chosen, warm, parameters)
    return columns, chosen, work, fall


@inner(key=KEY)
def finish_set(work: Work, columns: Ints, table: Floats) -> None:  # pragma: no cover - compiled
    """Write the parameters of a fitted set into its table [logits, 1 + columns]."""
    _centre(work.x, len(table))
    _scatter(work.x, columns, table)


@entry_point(KEY)
def fit_sets(
    rows: Rows,
    anchor: Anchor,
    sets: Mask,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    tolerance: float,
    table: Floats,
    passes: Ints,
) -> None:  # pragma: no cover - compiled
    """Fit each of the sets [sets, columns].

    `table` [sets, logits, 1 + columns] holds the starts, which count if `warm`, and then the parameters; `passes` tells how many
    passes over the rows each took, minus them where the fit did not converge.
    """
    for at in range(len(sets)):
        columns, chosen, work, fall = begin_set(rows, anchor, sets[at], warm, table[at])
        passes[at] = iterate(rows, chosen, work, fall, tolerance)
        finish_set(work, columns, table[at])


@inner()
def _top(chances: Floats, place: int) -> tuple[int, float]:  # pragma: no cover - compiled
    """Return the most probable label, the first one of equals, and its probability."""
    if len(chances) == 1:
        second = chances[0, place]
        return (1, second) if second > 0.5 else (0, 1.0 - second)
    best = 0
    for label in range(1, len(chances)):
        best = label if chances[label, place] > chances[best, place] else best
    return best, chances[best, place]


@entry_point(KEY)
def score_sets(
    blocks: Floats, runs: Runs, order: Ints, table: Floats, sets: Mask, label: Ints, confidence: Floats
) -> None:  # pragma: no cover - compiled
    """Fill the most probable label and its probability [sets, rows] of rows in blocks; parameters as `fit_sets` leaves them."""
    labels, block = table.shape[1], blocks.shape[2]
    logits, chances, scratch = np.empty((labels, block)), np.empty((labels, block)), np.empty((2, block))
    tables = np.empty((labels, len(runs.members)))
    for at in range(len(sets)):
        columns = np.flatnonzero(sets[at])
        parameters = np.empty(labels * (len(columns) + 1))
        _gather(table[at], columns, parameters)
        chosen = choose(columns, blocks.shape[1], runs.choices)
        tabulate(chosen, runs.members, parameters, tables)
        for k in range(len(blocks)):
            block_chances(blocks[k], runs, k, chosen, parameters, tables, logits, chances, scratch[0], scratch[1])
            for place in range(min(block, len(order) - k * block)):
                row = order[k * block + place]
                label[at, row], confidence[at, row] = _top(chances, place)
