"""The acceptance rule, and its vectorised twin.

The rule: accept the most probable label when its probability is at least (``>=``) that label's threshold; ties in probability go
to the first label. `accept` is the meaning; `accept_rows` repeats it for a matrix and property tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask

__all__ = ["RESCORE_MARGIN", "accept", "accept_rows", "is_distribution", "margin"]

# onnxruntime's batch and single-row scores differ in the last bits (up to 8e-15 for float64 graphs, 2e-8 was seen for a float32
# one). Rows nearer than this to their threshold, or to a tie, are scored again alone: the single-row score is the reference.
RESCORE_MARGIN = 1e-6

# Probabilities of a float32 graph (tree ensembles) sum to one only within about 1e-6.
_SUM_TOLERANCE = 1e-4
_MIN_SUM, _MAX_SUM = 1.0 - _SUM_TOLERANCE, 1.0 + _SUM_TOLERANCE
# Rounding does not take one of them further below zero than that either.
_MIN_PROBABILITY = -_SUM_TOLERANCE


def accept(probabilities: Sequence[float], thresholds: Sequence[float]) -> tuple[int, bool]:
    """Return the position of the most probable label, and whether it is accepted.

    Examples
    --------
    >>> accept([0.1, 0.9], [0.9, 0.9])
    (1, True)
    >>> accept([0.5, 0.5], [0.6, 0.4])
    (0, False)
    """
    top = max(probabilities)
    label = probabilities.index(top)
    return label, top >= thresholds[label]


def margin(probabilities: Sequence[float], thresholds: Sequence[float]) -> float:
    """Return how far probabilities are from their threshold or from a tie, whichever is nearer."""
    top, second = sorted(probabilities, reverse=True)[:2]
    return min(abs(top - thresholds[probabilities.index(top)]), top - second)


def is_distribution(probabilities: Sequence[float]) -> bool:
    """Return whether the scores are probabilities at all; False if one of them is NaN.

    Examples
    --------
    >>> is_distribution([0.3, 0.7]), is_distribution([1.5, -0.5])
    (True, False)
    """
    # None can be above one: the others would have to be below zero. Mostly there are two, and `min` takes as long as the rest.
    return (
        _MIN_SUM < sum(probabilities) < _MAX_SUM
        and probabilities[0] >= _MIN_PROBABILITY
        and probabilities[-1] >= _MIN_PROBABILITY
        and (len(probabilities) == 2 or min(probabilities) >= _MIN_PROBABILITY)
    )


def accept_rows(
    probabilities: Floats, thresholds: Sequence[float], *, within: float = RESCORE_MARGIN
) -> tuple[Ints, Floats, Mask, Mask]:
    """Apply the rule to every row of a matrix.

    Returns
    -------
    tuple
        Position of the top label, its probability, whether it is accepted, and whether the row must be scored again alone:
        it is `within` that margin of its threshold or of a tie, or its scores are not probabilities.
    """
    # A pass per label over whole columns is several times quicker than argmax over short rows.
    first, *others = np.ascontiguousarray(probabilities.T)
    top = first.copy()
    total = first - 1.0
    label = np.zeros(len(first), dtype=np.intp)
    lead = np.full(len(first), np.inf)
    for position, column in enumerate(others, start=1):
        with np.errstate(invalid="ignore"):
            distance = column - top
        better = distance > 0
        np.abs(distance, out=distance)
        # The lead over the second best: a new best leads by its distance; otherwise the nearest label below counts.
        lead = np.where(better, distance, np.minimum(lead, distance))
        np.maximum(top, column, out=top)
        total += column
        label = np.where(better, position, label)
    needed = thresholds[0] if len(set(thresholds)) == 1 else np.asarray(thresholds).take(label)
    nearest = np.abs(top - needed)
    np.minimum(nearest, lead, out=nearest)
    # Written as "not far" so that NaN counts as near.
    far = nearest > within
    far &= np.abs(total, out=total) < _SUM_TOLERANCE
    # One minimum over all rows is much quicker than one per row, and mostly enough.
    if not probabilities.min(initial=0.0) >= _MIN_PROBABILITY:
        far &= probabilities.min(axis=1) >= _MIN_PROBABILITY
    return label, top, top >= needed, ~far
