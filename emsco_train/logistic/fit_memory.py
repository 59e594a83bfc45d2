"""What the matrices of a fit take in memory: a number for each pair of its columns, times the labels squared."""

from __future__ import annotations

__all__ = ["MAX_FIT_BYTES", "fit_bytes"]

# Beyond this a fit would also take minutes.
MAX_FIT_BYTES = 2**30
# Matrices of one fit: that of all columns, which sets share, its own and its factor.
_MATRICES = 3


def fit_bytes(columns: int, logits: int) -> int:
    """Return about how many bytes the matrices of a fit of `columns` columns take; two labels have one logit, more one each.

    Examples
    --------
    >>> fit_bytes(100, 1), fit_bytes(2400, 4) // 10**9
    (326432, 2)
    """
    size, pairs = logits * (1 + columns), logits * (logits + 1) // 2
    return 8 * (_MATRICES * size**2 + pairs * (1 + columns) ** 2)
