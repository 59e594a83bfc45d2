"""What the answers of a design are worth by its thresholds: to compare two kinds of stages that answer differently often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from emsco_runtime.bundle.manifest import LabelCounts

__all__ = ["worth_of_answers"]

# A wrong answer costs at most as much as this many right ones are worth.
_MOST_ODDS: Final = 1e4


def worth_of_answers(labels: Sequence[LabelCounts], thresholds: Sequence[float]) -> tuple[bool, float]:
    """Return whether there are answers, and what they are worth: a threshold says how many right ones a wrong one costs.

    Parameters
    ----------
    labels
        Counts of each label.
    thresholds
        Confidence that each label needs, in the same order.

    Examples
    --------
    >>> counts = LabelCounts(label="spam", rows=60, accepted=50, accepted_as=40, right=38)
    >>> worth_of_answers([counts], [0.75])
    (True, 32.0)
    """
    odds = [min(_MOST_ODDS, number / (1.0 - number)) if number < 1.0 else _MOST_ODDS for number in thresholds]
    value = sum(one.right - odd * (one.accepted_as - one.right) for one, odd in zip(labels, odds, strict=True))
    return any(one.accepted_as for one in labels), float(value)
