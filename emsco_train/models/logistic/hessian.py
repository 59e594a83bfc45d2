"""Compiled pass over the rows for the Hessian of one feature set: most of the work of a fit of many columns.

Products are taken four rows by two at a time; in single precision where that is enough, at twice the speed. Choices are not
multiplied: the sums of the numbers of all rows that chose the same are added to what they chose.
"""

from __future__ import annotations

import math

import numpy as np

from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_train.models.logistic.column_set import ColumnSet
from emsco_train.models.logistic.linear_algebra import tile_products
from emsco_train.models.logistic.loss import TrainingRows
from emsco_train.models.logistic.row_blocks import RowRuns
from emsco_train.support.compiled import jit_inner

__all__ = ["accumulate_hessian", "buffer_sizes"]

_FAST = ("arcp", "contract", "nsz", "reassoc")


@jit_inner(*_FAST)
def _curvature_roots(
    weights: Floats,
    one: Floats,
    other: Floats,
    same: bool,  # noqa: FBT001 - compiled functions are called by position
    out: Array,
) -> None:  # pragma: no cover - compiled
    """Fill in the root of the size of each row's curvature: +w p (1 - p) of a label with itself, -w p q of two."""
    for row in range(len(out)):
        out[row] = math.sqrt(weights[row] * one[row] * (1.0 - one[row] if same else other[row]))


@jit_inner(*_FAST)
def _scale_columns(block: Array, columns: Ints, roots: Array, out: Array) -> None:  # pragma: no cover - compiled
    for row in range(len(roots)):
        out[0, row] = roots[row]
    for j in range(len(columns)):
        x = block[columns[j]]
        for row in range(len(roots)):
            out[j + 1, row] = x[row] * roots[row]


@jit_inner(*_FAST)
def _products(
    scaled: Array, roots: Array, start: int, stop: int, sign: float, out: Floats
) -> None:  # pragma: no cover - compiled
    """Fill in the sums of curvature times 1 and times each number, over the rows of one run."""
    for j in range(len(out)):
        x, total = scaled[j], roots.dtype.type(0.0)
        for row in range(start, stop):
            total += x[row] * roots[row]
        out[j] = sign * total


@jit_inner()
def _add_choices(
    runs: RowRuns, k: int, column_set: ColumnSet, scaled: Array, roots: Array, sign: float, sums: Floats, out: Floats
) -> None:  # pragma: no cover - compiled
    """Add the products of choices with 1 and with numbers, and of choices of two groups, in block k."""
    for run in range(runs.first[k], runs.first[k + 1]):
        _products(scaled, roots, runs.start[run], runs.stop[run], sign, sums)
        members = runs.members[runs.kind[run]]
        for one in range(len(members)):
            slot = column_set.slots[members[one]]
            for j in range(len(sums)):
                out[slot, j] += sums[j]
            for other in range(one):
                out[slot, column_set.slots[members[other]]] += sums[0]


@jit_inner()
def buffer_sizes(column_set: ColumnSet) -> tuple[int, int]:  # pragma: no cover - compiled
    """Return the sizes that `accumulate_hessian` needs: of `scaled`, and of `out`."""
    padded_rows = -(-(len(column_set.numbers) + 1) // 4) * 4
    return padded_rows, max(padded_rows, column_set.width + 1)


@jit_inner()
def accumulate_hessian(
    blocks: Array, rows: TrainingRows, column_set: ColumnSet, probabilities: Floats, scaled: Array, out: Floats
) -> None:  # pragma: no cover - compiled
    """Fill the lower triangle of sum of curvature * x x^T, x = [1, columns], for each pair of labels one >= other.

    The type of `blocks`, the rows' numbers, and of `scaled` [padded_rows, places] is that of the products. `buffer_sizes` returns
    the sizes of `scaled` and `out` [pairs, size, size]; `scaled` is zero beyond the set's numbers, and what belongs to no choice
    of the set is put beyond its width in `out`.
    """
    numbers = len(column_set.numbers) + 1
    roots, sums, products = np.empty_like(scaled[0]), np.empty((4, 2)), np.empty(numbers)
    for pair in range(len(out)):
        for i in range(out.shape[1]):
            for j in range(out.shape[1]):
                out[pair, i, j] = 0.0
    for k in range(len(blocks)):
        pair = 0
        for one in range(probabilities.shape[1]):
            for other in range(one + 1):
                if rows.stop[0] != 0:
                    return
                _curvature_roots(rows.weights[k], probabilities[k, one], probabilities[k, other], one == other, roots)
                _scale_columns(blocks[k], column_set.numbers, roots, scaled)
                sign = 1.0 if one == other else -1.0
                for i in range(0, len(scaled), 4):
                    for j in range(0, i + 4, 2):
                        tile_products(scaled, i, j, scaled.shape[1], sums)
                        for row in range(4):
                            out[pair, i + row, j] += sign * sums[row, 0]
                            out[pair, i + row, j + 1] += sign * sums[row, 1]
                if numbers < column_set.width:
                    _add_choices(rows.runs, k, column_set, scaled, roots, sign, products, out[pair])
                pair += 1
    for pair in range(len(out)):
        for slot in range(numbers, column_set.width):
            # A choice is 1 or 0, and its own square; two of one group are never both 1.
            out[pair, slot, slot] = out[pair, slot, 0]
