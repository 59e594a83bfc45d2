"""Numbers as the page writes them: shares, costs, thresholds, counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from emsco_runtime.decision import Label
from emsco_runtime.summary import percent
from emsco_train.runs.run_file import FiguresEntry

__all__ = ["CostWords", "accuracy_words", "coverage_words", "threshold_words", "time_words"]

_COST_DIGITS = 5
_MOST_DECIMALS = 9


@dataclass(frozen=True, slots=True)
class CostWords:
    """Costs with the same number of decimals everywhere, so that columns of them line up.

    Parameters
    ----------
    full
        Cost of all features: it gets five digits.
    unit
        What costs count.

    Examples
    --------
    >>> words = CostWords(44.29, "CAD")
    >>> words.bare(5.30370), words.of(21.0)
    ('5.304', '21.000 CAD')
    >>> words.short(21.0)
    '21 CAD'
    """

    full: float
    unit: str

    @property
    def decimals(self) -> int:
        """How many decimals a cost has."""
        return min(max(0, _COST_DIGITS - 1 - math.floor(math.log10(self.full))), _MOST_DECIMALS)

    def bare(self, cost: float) -> str:
        """Return a cost without its unit."""
        return f"{cost:,.{self.decimals}f}"

    def of(self, cost: float) -> str:
        """Return a cost with its unit."""
        return f"{self.bare(cost)} {self.unit}"

    def short(self, cost: float) -> str:
        """Return a price with its unit, without zeros that say nothing."""
        return f"{cost:.6g} {self.unit}"


def coverage_words(figures: FiguresEntry) -> str:
    """Return the share of accepted rows."""
    return percent(figures.accepted, figures.rows)


def accuracy_words(figures: FiguresEntry) -> str:
    """Return the share of right ones among accepted rows."""
    return percent(figures.right, figures.accepted)


def threshold_words(thresholds: Sequence[float], labels: Sequence[Label]) -> str:
    """Return a threshold as people write it.

    Examples
    --------
    >>> threshold_words([0.9, 0.9], ["ham", "spam"]), threshold_words([0.9, 0.99], ["ham", "spam"])
    ('0.9', 'ham 0.9, spam 0.99')
    """
    if len(set(thresholds)) == 1:
        return f"{thresholds[0]:g}"
    return ", ".join(f"{label} {number:g}" for label, number in zip(labels, thresholds, strict=True))


def time_words(seconds: float) -> str:
    """Return a stretch of time in the unit that fits it.

    Examples
    --------
    >>> time_words(0.24), time_words(150.0)
    ('0.2 s', '2 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
