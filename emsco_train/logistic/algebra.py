"""Compiled linear algebra of one fit: packed Hessian, Cholesky factor, L-BFGS corrections.

Matrices of 10 to 600 rows, tens of thousands of times: a call of LAPACK costs more than the work for the small ones.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from emsco_runtime._arrays import Floats

__all__ = ["corrected", "dot", "factored", "pack", "remember", "solve"]

_FIRST_RIDGE = 1e-12


@njit(nogil=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def dot(a: Floats, b: Floats, count: int) -> float:  # pragma: no cover - compiled
    """Return the inner product of the first `count` elements."""
    total = 0.0
    for i in range(count):
        total += a[i] * b[i]
    return total


@njit(nogil=True, error_model="numpy")
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


@njit(nogil=True, error_model="numpy")
def _factor(matrix: Floats, ridge: float, factor: Floats) -> bool:  # pragma: no cover - compiled
    for i in range(len(matrix)):
        for j in range(i):
            factor[i, j] = (matrix[i, j] - dot(factor[i], factor[j], j)) / factor[j, j]
        square = matrix[i, i] * (1.0 + ridge) - dot(factor[i], factor[i], i)
        if not square > 1e-15 * matrix[i, i]:
            return False
        factor[i, i] = math.sqrt(square)
    return True


@njit(nogil=True, error_model="numpy")
def factored(matrix: Floats, factor: Floats) -> float:  # pragma: no cover - compiled
    """Fill the Cholesky factor of the lower triangle; return the relative ridge that it needed, or -1 if none helps."""
    ridge = 0.0
    while ridge < 1.0:
        if _factor(matrix, ridge, factor):
            return ridge
        ridge = _FIRST_RIDGE if ridge == 0.0 else ridge * 100.0
    return -1.0


@njit(nogil=True, error_model="numpy")
def solve(factor: Floats, vector: Floats) -> None:  # pragma: no cover - compiled
    """Replace the vector by the solution of factor factor^T x = vector."""
    for i in range(len(vector)):
        vector[i] = (vector[i] - dot(factor[i], vector, i)) / factor[i, i]
    for i in range(len(vector) - 1, -1, -1):
        vector[i] /= factor[i, i]
        for j in range(i):
            vector[j] -= vector[i] * factor[i, j]


@njit(nogil=True, error_model="numpy")
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


@njit(nogil=True, error_model="numpy")
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
