"""Compiled linear algebra of one fit: packed Hessian, Cholesky factor, L-BFGS corrections.

Matrices of 10 to 600 rows, tens of thousands of times: a call of LAPACK costs more than the work for the small ones.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Array, Floats
from emsco_train.support.compiled import jit_inner

__all__ = ["assemble_hessian", "cholesky", "dot", "lbfgs_direction", "push_pair", "solve", "tile_products"]

_FIRST_RIDGE = 1e-12
# Sums may be regrouped: that is what lets loops run on several numbers at once.
_SUMS = ("contract", "nsz", "reassoc")


@jit_inner(*_SUMS)
def dot(a: Floats, b: Floats, count: int) -> float:  # pragma: no cover - compiled
    """Return the inner product of the first `count` elements."""
    total = 0.0
    for i in range(count):
        total += a[i] * b[i]
    return total


@jit_inner()
def assemble_hessian(
    parts: Floats, labels: int, width: int, penalty: float, weight: float, out: Floats
) -> None:  # pragma: no cover - compiled
    """Put the lower triangles of each pair of labels into one matrix [labels * width, labels * width], and add the penalty."""
    # Adding one number to all intercepts changes nothing; curvature in that direction makes the matrix regular, and the slope
    # along it is zero, so that the solution is the same.
    intercept_curvature = weight / labels if labels > 1 else 0.0
    pair = 0
    for one in range(labels):
        for other in range(one + 1):
            for i in range(width):
                for j in range(i + 1):
                    out[one * width + i, other * width + j] = parts[pair, i, j]
                    out[one * width + j, other * width + i] = parts[pair, i, j]
            out[one * width, other * width] += intercept_curvature
            pair += 1
        for i in range(1, width):
            out[one * width + i, one * width + i] += penalty


@jit_inner(*_SUMS)
def tile_products(a: Array, i: int, j: int, count: int, out: Array) -> None:  # pragma: no cover - compiled
    """Fill `out` [4, 2] with the inner products of rows i to i + 3 with rows j and j + 1, of their first `count` elements.

    Each number read is used in several products: more than twice as fast as one product at a time.
    """
    a0, a1, a2, a3, c0, c1 = a[i], a[i + 1], a[i + 2], a[i + 3], a[j], a[j + 1]
    zero = a.dtype.type(0.0)
    s00, s01, s10, s11, s20, s21, s30, s31 = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(count):
        p, q = c0[k], c1[k]
        s00 += a0[k] * p
        s01 += a0[k] * q
        s10 += a1[k] * p
        s11 += a1[k] * q
        s20 += a2[k] * p
        s21 += a2[k] * q
        s30 += a3[k] * p
        s31 += a3[k] * q
    out[0, 0], out[0, 1], out[1, 0], out[1, 1] = s00, s01, s10, s11
    out[2, 0], out[2, 1], out[3, 0], out[3, 1] = s20, s21, s30, s31


@jit_inner()
def _cholesky_row(matrix: Floats, i: int, first: int, ridge: float, factor: Floats) -> bool:  # pragma: no cover - compiled
    """Fill row i from column `first` on; return whether the matrix is positive so far."""
    for j in range(first, i):
        factor[i, j] = (matrix[i, j] - dot(factor[i], factor[j], j)) / factor[j, j]
    square = matrix[i, i] * (1.0 + ridge) - dot(factor[i], factor[i], i)
    if not square > 1e-15 * matrix[i, i]:
        return False
    factor[i, i] = math.sqrt(square)
    return True


@jit_inner()
def _try_cholesky(matrix: Floats, ridge: float, factor: Floats, stop: NDArray[np.int64]) -> bool:  # pragma: no cover - compiled
    sums = np.empty((4, 2))
    fours = len(matrix) - len(matrix) % 4
    for i in range(0, fours, 4):
        if stop[0] != 0:
            return False
        for j in range(0, i, 2):
            tile_products(factor, i, j, j, sums)
            for k in range(4):
                factor[i + k, j] = (matrix[i + k, j] - sums[k, 0]) / factor[j, j]
                rest = matrix[i + k, j + 1] - sums[k, 1] - factor[i + k, j] * factor[j + 1, j]
                factor[i + k, j + 1] = rest / factor[j + 1, j + 1]
        for k in range(i, i + 4):
            if not _cholesky_row(matrix, k, i, ridge, factor):
                return False
    for i in range(fours, len(matrix)):  # noqa: SIM110 - compiled code has no generators
        if not _cholesky_row(matrix, i, int(np.int64(0)), ridge, factor):
            return False
    return True


@jit_inner()
def cholesky(matrix: Floats, factor: Floats, stop: NDArray[np.int64]) -> float:  # pragma: no cover - compiled
    """Fill the Cholesky factor of the lower triangle; return the relative ridge that it needed, or -1 if none helps.

    It takes a minute for some thousand rows, and ends early, with -1, once `stop` is set.
    """
    ridge = 0.0
    while ridge < 1.0:
        if _try_cholesky(matrix, ridge, factor, stop):
            return ridge
        ridge = _FIRST_RIDGE if ridge == 0.0 else ridge * 100.0
    return -1.0


@jit_inner()
def solve(factor: Floats, vector: Floats) -> None:  # pragma: no cover - compiled
    """Replace the vector by the solution of factor factor^T x = vector."""
    for i in range(len(vector)):
        vector[i] = (vector[i] - dot(factor[i], vector, i)) / factor[i, i]
    for i in range(len(vector) - 1, -1, -1):
        vector[i] /= factor[i, i]
        for j in range(i):
            vector[j] -= vector[i] * factor[i, j]


@jit_inner()
def lbfgs_direction(
    factor: Floats, slope: Floats, steps: Floats, slope_changes: Floats, count: int, out: Floats
) -> None:  # pragma: no cover - compiled
    """Fill `out` with minus the inverse Hessian, corrected by `count` pairs of steps and slope changes, times the slope."""
    size = len(out)
    shares = np.empty(count)
    for i in range(size):
        out[i] = -slope[i]
    for k in range(count - 1, -1, -1):
        shares[k] = dot(steps[k], out, size) / dot(steps[k], slope_changes[k], size)
        for i in range(size):
            out[i] -= shares[k] * slope_changes[k, i]
    solve(factor, out)
    for k in range(count):
        share = shares[k] - dot(slope_changes[k], out, size) / dot(steps[k], slope_changes[k], size)
        for i in range(size):
            out[i] += share * steps[k, i]


@jit_inner()
def push_pair(
    step: Floats, slope_change: Floats, steps: Floats, slope_changes: Floats, count: int
) -> int:  # pragma: no cover - compiled
    """Append a pair, dropping the oldest when full; return how many there are. A pair without curvature is skipped."""
    size = len(step)
    if not dot(step, slope_change, size) > 0.0:
        return count
    if count == len(steps):
        for k in range(count - 1):
            for i in range(size):
                steps[k, i], slope_changes[k, i] = steps[k + 1, i], slope_changes[k + 1, i]
        count -= 1
    for i in range(size):
        steps[count, i], slope_changes[count, i] = step[i], slope_change[i]
    return count + 1
