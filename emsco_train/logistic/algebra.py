"""Compiled linear algebra of one fit: packed Hessian, Cholesky factor, L-BFGS corrections.

Matrices of 10 to 600 rows, tens of thousands of times: a call of LAPACK costs more than the work for the small ones.
"""

from __future__ import annotations

import math

import numpy as np

from emsco_runtime._arrays import Array, Floats
from emsco_train._compiled import inner

__all__ = ["corrected", "dot", "eliminate", "factored", "pack", "remember", "solve", "solve_half", "tile"]

_FIRST_RIDGE = 1e-12
# Sums may be regrouped: that is what lets loops run on several numbers at once.
_SUMS = ("contract", "nsz", "reassoc")


@inner(*_SUMS)
def dot(a: Floats, b: Floats, count: int) -> float:  # pragma: no cover - compiled
    """Return the inner product of the first `count` elements."""
    total = 0.0
    for i in range(count):
        total += a[i] * b[i]
    return total


@inner()
def pack(
    parts: Floats, labels: int, width: int, penalty: float, weight: float, out: Floats
) -> None:  # pragma: no cover - compiled
    """Put the lower triangles of each pair of labels into one matrix [labels * width, labels * width], and add the penalty."""
    # Adding one number to all intercepts changes nothing; curvature in that direction makes the matrix regular, and the slope
    # along it is zero, so that the solution is the same.
    tie = weight / labels if labels > 1 else 0.0
    pair = 0
    for one in range(labels):
        for other in range(one + 1):
            for i in range(width):
                for j in range(i + 1):
                    out[one * width + i, other * width + j] = parts[pair, i, j]
                    out[one * width + j, other * width + i] = parts[pair, i, j]
            out[one * width, other * width] += tie
            pair += 1
        for i in range(1, width):
            out[one * width + i, one * width + i] += penalty


@inner(*_SUMS)
def tile(a: Array, i: int, j: int, count: int, out: Array) -> None:  # pragma: no cover - compiled
    """Fill `out` [4, 2] with the inner products of rows i to i + 3 with rows j and j + 1, of their first `count` elements.

    Each number read serves several products: more than twice as quick as one product at a time.
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


@inner()
def _factor_row(matrix: Floats, i: int, first: int, ridge: float, factor: Floats) -> bool:  # pragma: no cover - compiled
    """Fill row i from column `first` on; return whether the matrix is positive so far."""
    for j in range(first, i):
        factor[i, j] = (matrix[i, j] - dot(factor[i], factor[j], j)) / factor[j, j]
    square = matrix[i, i] * (1.0 + ridge) - dot(factor[i], factor[i], i)
    if not square > 1e-15 * matrix[i, i]:
        return False
    factor[i, i] = math.sqrt(square)
    return True


@inner()
def _factor(matrix: Floats, ridge: float, factor: Floats) -> bool:  # pragma: no cover - compiled
    sums = np.empty((4, 2))
    fours = len(matrix) - len(matrix) % 4
    for i in range(0, fours, 4):
        for j in range(0, i, 2):
            tile(factor, i, j, j, sums)
            for k in range(4):
                factor[i + k, j] = (matrix[i + k, j] - sums[k, 0]) / factor[j, j]
                rest = matrix[i + k, j + 1] - sums[k, 1] - factor[i + k, j] * factor[j + 1, j]
                factor[i + k, j + 1] = rest / factor[j + 1, j + 1]
        for k in range(i, i + 4):
            if not _factor_row(matrix, k, i, ridge, factor):
                return False
    for i in range(fours, len(matrix)):  # noqa: SIM110 - compiled code has no generators
        if not _factor_row(matrix, i, int(np.int64(0)), ridge, factor):
            return False
    return True


@inner()
def factored(matrix: Floats, factor: Floats) -> float:  # pragma: no cover - compiled
    """Fill the Cholesky factor of the lower triangle; return the relative ridge that it needed, or -1 if none helps."""
    ridge = 0.0
    while ridge < 1.0:
        if _factor(matrix, ridge, factor):
            return ridge
        ridge = _FIRST_RIDGE if ridge == 0.0 else ridge * 100.0
    return -1.0


@inner()
def solve_half(factor: Floats, vector: Floats) -> None:  # pragma: no cover - compiled
    """Replace the vector by the solution of factor x = vector."""
    for i in range(len(vector)):
        vector[i] = (vector[i] - dot(factor[i], vector, i)) / factor[i, i]


@inner()
def solve(factor: Floats, vector: Floats) -> None:  # pragma: no cover - compiled
    """Replace the vector by the solution of factor factor^T x = vector."""
    solve_half(factor, vector)
    for i in range(len(vector) - 1, -1, -1):
        vector[i] /= factor[i, i]
        for j in range(i):
            vector[j] -= vector[i] * factor[i, j]


@inner()
def eliminate(matrix: Floats, vector: Floats) -> bool:  # pragma: no cover - compiled
    """Replace the vector by the solution of matrix x = vector, and the matrix by its remains; return whether there is one."""
    size = len(vector)
    for k in range(size):
        best = k
        for i in range(k + 1, size):
            if abs(matrix[i, k]) > abs(matrix[best, k]):
                best = i
        if not 0.0 < abs(matrix[best, k]) < np.inf:
            return False
        if best != k:
            vector[k], vector[best] = vector[best], vector[k]
            for j in range(k, size):
                matrix[k, j], matrix[best, j] = matrix[best, j], matrix[k, j]
        for i in range(k + 1, size):
            share = matrix[i, k] / matrix[k, k]
            vector[i] -= share * vector[k]
            for j in range(k + 1, size):
                matrix[i, j] -= share * matrix[k, j]
    for k in range(size - 1, -1, -1):
        for j in range(k + 1, size):
            vector[k] -= matrix[k, j] * vector[j]
        vector[k] /= matrix[k, k]
    return True


@inner()
def corrected(
    factor: Floats, slope: Floats, steps: Floats, turns: Floats, count: int, out: Floats
) -> None:  # pragma: no cover - compiled
    """Fill `out` with minus the inverse Hessian, corrected by `count` pairs of step and turn (L-BFGS), times the slope."""
    size = len(out)
    shares = np.empty(count)
    for i in range(size):
        out[i] = -slope[i]
    for k in range(count - 1, -1, -1):
        shares[k] = dot(steps[k], out, size) / dot(steps[k], turns[k], size)
        for i in range(size):
            out[i] -= shares[k] * turns[k, i]
    solve(factor, out)
    for k in range(count):
        share = shares[k] - dot(turns[k], out, size) / dot(steps[k], turns[k], size)
        for i in range(size):
            out[i] += share * steps[k, i]


@inner()
def remember(step: Floats, turn: Floats, steps: Floats, turns: Floats, count: int) -> int:  # pragma: no cover - compiled
    """Append a pair, dropping the oldest when full; return how many there are. A pair without curvature is no use."""
    size = len(step)
    if not dot(step, turn, size) > 0.0:
        return count
    if count == len(steps):
        for k in range(count - 1):
            for i in range(size):
                steps[k, i], turns[k, i] = steps[k + 1, i], turns[k + 1, i]
        count -= 1
    for i in range(size):
        steps[count, i], turns[count, i] = step[i], turn[i]
    return count + 1
