"""`Promise`: the limits that a certificate is asked to state, all at one confidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from emsco_runtime.bundle.manifest import Label, LabelLimit, PromisedLimits, RecallLimit
from emsco_runtime.bundle.summary import percent_at_least
from emsco_train.errors import DesignError
from emsco_train.guarantee.bounds import check_confidence, check_max_error
from emsco_train.guarantee.limits import CostLimit, Limit, ShareLimit
from emsco_train.support.numbers import is_number

__all__ = ["Promise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """Limits that are stated before the certify rows are looked at, and hold all together at the confidence.

    Parameters
    ----------
    max_error
        Of the items accepted, at most this share is wrong.
    max_error_of
        Of the items accepted as a label, at most this share is wrong: label -> share.
    min_coverage
        At least this share of the items is accepted; 0 is no limit.
    min_recall
        Of the items that have a label, at least this share is accepted as it: label -> share.
    max_cost
        An item costs at most this much on average, rejected ones included.
    confidence
        Of the certificate, also where nothing is promised.

    Examples
    --------
    >>> promise = Promise(max_error=0.03, max_error_of={"spam": 0.01}, min_coverage=0.8)
    >>> promise.describe()
    "an error of at most 3 %, an error of at most 1 % among items accepted as 'spam' and a coverage of at least 80 %"
    """

    max_error: float | None = None
    max_error_of: Mapping[Label, float] = field(default_factory=dict)
    min_coverage: float | None = None
    max_cost: float | None = None
    min_recall: Mapping[Label, float] = field(default_factory=dict)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Raise for what no rows could ever show, and for a coverage, a recall or a cost without an error."""
        check_confidence(self.confidence)
        if self.max_error is not None:
            check_max_error(self.max_error)
        for label, share in self.max_error_of.items():
            check_max_error(share, f"`max_error_of` {label!r}")
        for label, share in self.min_recall.items():
            if not is_number(share) or not 0 < share < 1:
                raise DesignError(f"`min_recall` {label!r} is {share!r}: expected a number above 0 and below 1, such as 0.8")
        coverage, cost = self.min_coverage, self.max_cost
        if coverage is not None and not (is_number(coverage) and 0 <= coverage < 1):
            raise DesignError(
                f"min_coverage is {coverage!r}: expected a number from 0 to below 1, since no number of rows can show "
                "that every item is accepted"
            )
        if cost is not None and not (is_number(cost) and cost >= 0):
            raise DesignError(f"max_cost is {cost!r}: expected a finite number of at least 0")
        object.__setattr__(self, "min_coverage", float(coverage) if coverage else None)
        if not self.is_asked and not (self.min_coverage is None and cost is None and not self.min_recall):
            raise DesignError(
                "a coverage, a recall or a cost is promised together with an error: give `max_error` or `max_error_of` too"
            )

    @property
    def is_asked(self) -> bool:
        """Whether anything is to be promised: if not, the certificate states what the rows show of one design."""
        return self.max_error is not None or bool(self.max_error_of)

    def limits(self) -> tuple[Limit, ...]:
        """Return the limits, each with its own test."""
        limits: list[Limit] = []
        if self.max_error is not None:
            limits.append(ShareLimit("error", self.max_error))
        limits += [ShareLimit("label", share, label) for label, share in self.max_error_of.items()]
        limits += [ShareLimit("recall", 1.0 - share, label) for label, share in self.min_recall.items()]
        if self.min_coverage is not None:
            limits.append(ShareLimit("coverage", 1.0 - self.min_coverage))
        if self.max_cost is not None:
            limits.append(CostLimit(self.max_cost))
        return tuple(limits)

    def with_labels(self, labels: Sequence[Label]) -> Promise:
        """Return it with labels as the data has them, in their order: on a command line, the label 1 is the text "1"."""
        by_text = {str(label): label for label in labels}

        def match(given: Mapping[Label, float], name: str) -> dict[Label, float]:
            named = {str(label): share for label, share in given.items()}
            unknown = [label for label in named if label not in by_text]
            if unknown:
                known = ", ".join(by_text)
                raise DesignError(f"`{name}` names {', '.join(map(repr, unknown))}, which is not a label (labels: {known})")
            return {label: named[text] for text, label in by_text.items() if text in named}

        return replace(
            self,
            max_error_of=match(self.max_error_of, "max_error_of"),
            min_recall=match(self.min_recall, "min_recall"),
        )

    def describe(self) -> str:
        """Return everything that is asked for, in words."""
        *first, last = [limit.describe() for limit in self.limits()]
        return f"{', '.join(first)} and {last}" if first else last

    def refusal_text(self) -> str:
        """Return the start of a message that says why it cannot be given."""
        return f"no design can be certified for {self.describe()} at {percent_at_least(self.confidence)} confidence"

    def to_limits(self) -> PromisedLimits:
        """Return the limits as the manifest holds them."""
        return PromisedLimits(
            max_error=self.max_error,
            max_error_of=tuple(LabelLimit(label=label, max_error=share) for label, share in self.max_error_of.items()),
            min_coverage=self.min_coverage,
            max_cost=self.max_cost,
            min_recall=tuple(RecallLimit(label=label, min_recall=share) for label, share in self.min_recall.items()),
        )
