"""`Evaluation`: what a model makes of labelled mail, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spam_filter.service.classification import ModelProtocol, classify

if TYPE_CHECKING:
    from spam_filter.training.corpus import LabelledMail

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Counts over labelled mail.

    Parameters
    ----------
    counts
        (label, status) -> messages.
    mean_cost
        Of the messages that were decided or unsure.
    degraded
        Messages for which a source failed.
    """

    counts: Mapping[tuple[str, str], int]
    mean_cost: float
    degraded: int

    def count(self, label: str, *statuses: str) -> int:
        """Return how many messages of a label got one of these statuses; all of them where none is given."""
        return sum(
            number for (truth, status), number in self.counts.items() if truth == label and (not statuses or status in statuses)
        )

    @property
    def messages(self) -> int:
        """Return how many there are."""
        return sum(self.counts.values())

    @property
    def decided(self) -> int:
        """Return how many were called spam or ham."""
        return sum(self.count(label, "spam", "ham") for label in ("spam", "ham"))

    @property
    def wrong(self) -> int:
        """Return how many of these got the other label."""
        return self.count("ham", "spam") + self.count("spam", "ham")


def evaluate(model: ModelProtocol, mails: Iterable[LabelledMail]) -> Evaluation:
    """Decide labelled mail as the service does, and count.

    Parameters
    ----------
    model
        The model.
    mails
        Messages that it was not trained on: others flatter it.
    """
    counts: Counter[tuple[str, str]] = Counter()
    costs: list[float] = []
    degraded = 0
    for mail in mails:
        verdict = classify(model, mail.raw, None, None)
        counts[mail.label, verdict.status] += 1
        degraded += verdict.degraded
        if verdict.cost is not None:
            costs.append(verdict.cost)
    return Evaluation(dict(counts), sum(costs) / len(costs) if costs else 0.0, degraded)
