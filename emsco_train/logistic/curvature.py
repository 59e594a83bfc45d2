"""Compiled pass over the rows for the Hessian of one feature set: most of the work of a fit of many columns.

Products are taken four rows by two at a time; in single precision where that is enough, at twice the speed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from emsco_runtime._arrays import Array, Floats, Ints
from emsco_train.logistic.algebra import tile

__all__ = ["curvatures"]

_FAST = {"arcp", "contract", "nsz", "reassoc"}


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _roots(
    weights: Floats,
    one: Floats,
    other: Floats,
    same: bool,  # noqa: FBT001 - compiled functions are called by position
    out: Array,
) -> None:  # pragma: no cover - compiled
    """Fill in the root of the size of each row's curvature: +w p (1 - p) of a label with itself, -w p q of two."""
    for row in range(len(out)):
        out[row] = math.sqrt(weights[row] * one[row] * (1.0 - one[row] if same else other[row]))


@njit(nogil=True, error_model="numpy", fastmath=_FAST)
def _scale(block: Array, columns: Ints, roots: Array, out: Array) -> None:  # pragma: no cover - compiled
    for row in range(len(roots)):
        out[0, row] = roots[row]
    for j in range(len(columns)):
        x = block[columns[j]]
        for row in range(len(roots)):
            out[j + 1, row] = x[row] * roots[row]


@njit(nogil=True, error_model="numpy")
def curvatures(
    blocks: Array, weights: Floats, columns: Ints, chances: Floats, scaled: Array, out: Floats
) -> None:  # pragma: no cover - compiled
    """Fill the lower triangle of sum of curvature * x x^T, x = [1, columns], for each pair of labels one >= other.

    The type of `blocks` and `scaled` [width, places] is that of the products. `scaled` and `out` [pairs, width, width] have a
    width that four divides; rows of `scaled` beyond the columns are zero.
    """
    roots, sums = np.empty_like(scaled[0]), np.empty((4, 2))
    for pair in range(len(out)):
        for i in range(out.shape[1]):
            for j in range(out.shape[1]):
                out[pair, i, j] = 0.0
    for k in range(len(blocks)):
        pair = 0
        for one in range(chances.shape[1]):
            for other in range(one + 1):
                _roots(weights[k], chances[k, one], chances[k, other], one == other, roots)
                _scale(blocks[k], columns, roots, scaled)
                sign = 1.0 if one == other else -1.0
                for i in range(0, len(scaled), 4):
                    for j in range(0, i + 4, 2):
                        tile(scaled, i, j, scaled.shape[1], sums)
                        for row in range(4):
                            out[pair, i + row, j] += sign * sums[row, 0]
                            out[pair, i + row, j + 1] += sign * sums[row, 1]
                pair += 1
