"""Compiled loops over feature sets: fit each, score each.

Every set is its own computation, in one thread, in a fixed order of adding: its coefficients and its scores do not depend on the
other sets of a batch, nor on the number of threads.

Compiling takes long, so the result is kept on disk (see `compiled` and `compilation`).
"""

from __future__ import annotations

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.models.logistic.column_set import ColumnSet, make_column_set, tabulate_kinds
from emsco_train.models.logistic.loss import TrainingRows, block_probabilities
from emsco_train.models.logistic.newton import Anchor, FitState, run_newton, start_fit
from emsco_train.models.logistic.row_blocks import RowRuns
from emsco_train.support.compiled import jit_entry, jit_inner

__all__ = ["begin_set", "finish_set", "fit_sets", "score_sets"]


@jit_inner()
def _gather(table: Floats, columns: Ints, out: Floats) -> None:  # pragma: no cover - compiled
    """Take a set's parameters out of a table [logits, 1 + columns]."""
    width = len(columns) + 1
    for label in range(len(table)):
        out[label * width] = table[label, 0]
        for j in range(width - 1):
            out[label * width + j + 1] = table[label, columns[j] + 1]


@jit_inner()
def _scatter(parameters: Floats, columns: Ints, out: Floats) -> None:  # pragma: no cover - compiled
    """Put a set's parameters into a table [logits, 1 + columns], and 0 elsewhere."""
    width = len(columns) + 1
    for label in range(len(out)):
        for j in range(out.shape[1]):
            out[label, j] = 0.0
        out[label, 0] = parameters[label * width]
        for j in range(width - 1):
            out[label, columns[j] + 1] = parameters[label * width + j + 1]


@jit_inner()
def _centre(parameters: Floats, labels: int) -> None:  # pragma: no cover - compiled
    """Make each column's parameters sum to 0 over the labels: so they do at the optimum, and intercepts may by choice."""
    width = len(parameters) // labels
    for j in range(width if labels > 1 else 0):
        total = 0.0
        for label in range(labels):
            total += parameters[label * width + j]
        for label in range(labels):
            parameters[label * width + j] -= total / labels


@jit_entry()
def begin_set(
    rows: TrainingRows,
    anchor: Anchor,
    members: Mask,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    start: Floats,
) -> tuple[Ints, ColumnSet, FitState]:  # pragma: no cover - compiled
    """Return the columns of one set [columns], and its fit before the first step."""
    columns = np.flatnonzero(members)
    parameters = np.empty(len(start) * (len(columns) + 1))
    _gather(start, columns, parameters)
    column_set = make_column_set(columns, rows.blocks.shape[1], rows.runs.n_categories)
    return columns, column_set, start_fit(rows, anchor, columns, column_set, warm, parameters)


@jit_inner(cached=True)
def finish_set(state: FitState, columns: Ints, table: Floats) -> None:  # pragma: no cover - compiled
    """Write the parameters of a fitted set into its table [logits, 1 + columns]."""
    _centre(state.x, len(table))
    _scatter(state.x, columns, table)


@jit_entry()
def fit_sets(
    rows: TrainingRows,
    anchor: Anchor,
    sets: Mask,
    warm: bool,  # noqa: FBT001 - compiled functions are called by position
    tolerance: float,
    table: Floats,
    passes: Ints,
) -> None:  # pragma: no cover - compiled
    """Fit each of the sets [sets, columns].

    `table` [sets, logits, 1 + columns] holds the starts, which are used if `warm`, and then the parameters; `passes` how many
    passes over the rows each took, negative where the fit did not converge. Nothing of it counts once `rows.stop` is set.
    """
    for at in range(len(sets)):
        if rows.stop[0] != 0:
            break
        columns, column_set, state = begin_set(rows, anchor, sets[at], warm, table[at])
        passes[at] = run_newton(rows, column_set, state, warm, tolerance)
        finish_set(state, columns, table[at])


@jit_inner()
def _top_label(probabilities: Floats, place: int) -> tuple[int, float]:  # pragma: no cover - compiled
    """Return the most probable label, the first one of equals, and its probability."""
    if len(probabilities) == 1:
        second = probabilities[0, place]
        return (1, second) if second > 0.5 else (0, 1.0 - second)
    best = 0
    for label in range(1, len(probabilities)):
        best = label if probabilities[label, place] > probabilities[best, place] else best
    return best, probabilities[best, place]


@jit_entry()
def score_sets(
    blocks: Floats, runs: RowRuns, order: Ints, table: Floats, sets: Mask, label: Ints, confidence: Floats
) -> None:  # pragma: no cover - compiled
    """Fill the most probable label and its probability [sets, rows] of rows in blocks; parameters as `fit_sets` leaves them."""
    labels, block = table.shape[1], blocks.shape[2]
    logits, probabilities, scratch = np.empty((labels, block)), np.empty((labels, block)), np.empty((2, block))
    tables = np.empty((labels, len(runs.members)))
    for at in range(len(sets)):
        columns = np.flatnonzero(sets[at])
        parameters = np.empty(labels * (len(columns) + 1))
        _gather(table[at], columns, parameters)
        column_set = make_column_set(columns, blocks.shape[1], runs.n_categories)
        tabulate_kinds(column_set, runs.members, parameters, tables)
        for k in range(len(blocks)):
            block_probabilities(blocks[k], runs, k, column_set, parameters, tables, logits, probabilities, scratch[0], scratch[1])
            for place in range(min(block, len(order) - k * block)):
                row = order[k * block + place]
                label[at, row], confidence[at, row] = _top_label(probabilities, place)
