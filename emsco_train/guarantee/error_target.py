"""`ErrorTarget`: the largest error that a user wants to be sure of, and how sure."""

from __future__ import annotations

from dataclasses import dataclass

from emsco_runtime.bundle.summary import percent_at_least, percent_at_most, pluralize
from emsco_train.guarantee.bounds import check_confidence, check_max_error

__all__ = ["ErrorTarget"]


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """Of the items accepted, at most the share `max_error` is wrong.

    Parameters
    ----------
    max_error
        Above 0 and below 1.
    confidence
        How often such promises are kept, at least: from 0.5 to below 1.
    """

    max_error: float
    confidence: float

    def __post_init__(self) -> None:
        """Refuse what no rows could ever show."""
        check_max_error(self.max_error)
        check_confidence(self.confidence)

    def refusal_text(self) -> str:
        """Return how a message begins that says why it cannot be given."""
        confidence = percent_at_least(self.confidence)
        return f"no design can be certified for an error of at most {percent_at_most(self.max_error)} at {confidence} confidence"

    def rows_text(self, needed: int) -> str:
        """Return what to tell about the number of rows that it takes."""
        half = percent_at_most(self.max_error / 2)
        return f"about {pluralize(needed, 'accepted row')} if the true error is half as large ({half})"
