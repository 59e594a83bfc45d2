"""The limits that can be promised, each with its own exact test: shares of rows by their counts, the mean cost by betting.

The error among accepted items, the error among items accepted as a label, the recall of a label, and coverage are all shares: of
some rows (those accepted, those accepted as the label, those that have the label, all) at most a given share may be failures
(wrong, wrong, not accepted as it, rejected). The number of failures is binomial, so the binomial test is exact. Rows with weights
are tested by betting, as the cost is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from emsco_runtime.bundle.manifest import Label
from emsco_runtime.bundle.summary import percent_at_least, percent_at_most, pluralize
from emsco_runtime.support.arrays import Mask
from emsco_train.guarantee.betting import BoundedValues
from emsco_train.guarantee.bounds import rows_needed
from emsco_train.guarantee.decision_counts import DecisionCounts
from emsco_train.guarantee.evidence import Evidence
from emsco_train.support.binomial import binomial_cdf, upper_bound

__all__ = ["CostLimit", "Failures", "Limit", "ShareLimit"]

# The rows that we advise show a mean cost as that of the rows at hand with a probability of about 3 in 4.
_ADVISED_POWER_Z = 0.675


class Failures(NamedTuple):
    """How many of some rows are failures."""

    failures: int
    rows: int


@dataclass(frozen=True, slots=True)
class ShareLimit:
    """At most the share `most` of some rows may be failures.

    "error": wrong ones among the accepted. "label": wrong ones among those accepted as `label`. "coverage": rejected ones among
    all, so that a coverage of at least 0.8 is a share of at most 0.2. "recall": those not accepted as `label` among those that
    have it, so that a recall of at least 0.8 is a share of at most 0.2.
    """

    kind: Literal["error", "label", "coverage", "recall"]
    most: float
    label: Label | None = None

    def count(self, counts: DecisionCounts) -> Failures:
        """Return the counts that it is about."""
        if self.kind == "error":
            return Failures(counts.all_wrong, counts.all_accepted)
        if self.kind == "coverage":
            return Failures(counts.rows - counts.all_accepted, counts.rows)
        position = self._position(counts)
        if self.kind == "recall":
            return Failures(counts.true[position] - counts.right[position], counts.true[position])
        return Failures(counts.accepted_wrong[position], counts.accepted[position])

    def passes(self, evidence: Evidence, confidence: float) -> bool:
        """Return whether these rows show that the limit is kept."""
        if evidence.weights is not None:
            return self._weighted(evidence).is_mean_below(self.most, confidence)
        failures, rows = self.count(evidence.counts)
        return binomial_cdf(failures, rows, self.most) <= 1.0 - confidence

    def bound(self, evidence: Evidence, confidence: float) -> float:
        """Return the upper bound on the share of failures."""
        if evidence.weights is not None:
            return self._weighted(evidence).upper_bound(confidence)
        return upper_bound(*self.count(evidence.counts), confidence)

    def masks(self, evidence: Evidence) -> tuple[Mask, Mask]:
        """Return which rows are failures, and among which rows these are counted."""
        accepted = evidence.accepted
        if self.kind == "coverage":
            return ~accepted, accepted | True
        if self.kind == "recall":
            position = self._position(evidence.counts)
            return evidence.label != position, evidence.target == position
        among = accepted if self.kind == "error" else evidence.label == self._position(evidence.counts)
        return evidence.wrong, among

    def name(self) -> str:
        """Return what it limits, in a few words."""
        names = {"label": f"error among rows accepted as {self.label!r}", "recall": f"recall of {self.label!r}"}
        return names.get(self.kind, self.kind)

    def describe(self) -> str:
        """Return what is asked for, in words."""
        if self.kind == "coverage":
            return f"a coverage of at least {percent_at_least(_complement(self.most))}"
        if self.kind == "recall":
            return f"a recall of {self.label!r} of at least {percent_at_least(_complement(self.most))}"
        among = f" among items accepted as {self.label!r}" if self.kind == "label" else ""
        return f"an error of at most {percent_at_most(self.most)}{among}"

    def describe_result(self, evidence: Evidence, confidence: float) -> str:
        """Return what a design did on the certify rows, and how bad it may be."""
        failures, rows = self.count(evidence.counts)
        bound = self.bound(evidence, confidence)
        if self.kind == "coverage":
            text = f"accepted {rows - failures:,} of {pluralize(rows, 'certify row')}, so its coverage may be as low as"
            return f"{text} {percent_at_least(1.0 - bound)}"
        if self.kind == "recall":
            text = f"accepted {rows - failures:,} of {pluralize(rows, 'certify row')} of {self.label!r} as it"
            return f"{text}, so its recall may be as low as {percent_at_least(1.0 - bound)}"
        if self.kind == "error":
            text = f"was wrong in {failures:,} of {pluralize(rows, 'accepted certify row')}, so its error may be as large as"
            return f"{text} {percent_at_most(bound)}"
        text = (
            f"was wrong in {failures:,} of {pluralize(rows, 'certify row')} accepted as {self.label!r}, so its error among these"
        )
        return f"{text} may be as large as {percent_at_most(bound)}"

    def rows_needed(self, confidence: float) -> int:
        """Return about how many of its rows it takes, if the true share of failures is half as large."""
        return rows_needed(self.most, confidence)

    def rows_text(self, confidence: float) -> str:
        """Return a text that says how many of its rows it takes."""
        needed, half = self.rows_needed(confidence), self.most / 2
        if self.kind in ("coverage", "recall"):
            of = f" of {self.label!r}" if self.kind == "recall" else ""
            true = percent_at_least(_complement(half))
            return f"about {pluralize(needed, 'certify row')}{of} if the true {self.kind} is {true}"
        rows = f"{needed:,} rows accepted as {self.label!r}" if self.kind == "label" else pluralize(needed, "accepted row")
        return f"about {rows} if the true error is half as large ({percent_at_most(half)})"

    def remedy(self, evidence: Evidence, confidence: float) -> str:
        """Return what would help a design that failed."""
        rows, needed = self.count(evidence.counts).rows, self.rows_needed(confidence)
        text = f"It takes {self.rows_text(confidence)}"
        if rows >= needed:
            other = "lower" if self.kind in ("coverage", "recall") else "higher"
            return f"{text}, and there are {rows:,}, so it is not for lack of rows: search with {other} thresholds"
        if rows and self.kind != "coverage":
            at = {"error": "at its coverage", "recall": "at the label's share"}.get(self.kind, "at its rate")
            text += f", {pluralize(-(-needed * evidence.rows // rows), 'certify row')} {at}"
        return f"{text}. Give more rows, or search with other thresholds"

    def _weighted(self, evidence: Evidence) -> BoundedValues:
        return evidence.share(*self.masks(evidence))

    def _position(self, counts: DecisionCounts) -> int:
        return next(place for place, label in enumerate(counts.labels) if label == self.label)


@dataclass(frozen=True, slots=True)
class CostLimit:
    """The mean cost of an item is at most `most`; rejected items count too."""

    most: float

    def passes(self, evidence: Evidence, confidence: float) -> bool:
        """Return whether these rows show that the limit is kept."""
        return evidence.costs().is_mean_below(self.most, confidence)

    def describe(self) -> str:
        """Return what is asked for, in words."""
        return f"a mean cost of at most {self.most:g}"

    def describe_result(self, evidence: Evidence, confidence: float) -> str:
        """Return what a design did on the certify rows, and how bad it may be."""
        text = f"cost {evidence.mean_cost:.6g} on average over {pluralize(evidence.rows, 'certify row')}"
        return f"{text}, so its mean cost may be as high as {evidence.costs().upper_bound(confidence):.6g}"

    def rows_needed(self, evidence: Evidence, confidence: float) -> int:
        """Return about how many rows it takes if the true mean and spread are those of these rows; 0 where none would help."""
        gap = self.most - evidence.mean_cost
        if gap <= 0:
            return 0
        return math.ceil(((betting_width(confidence) + _ADVISED_POWER_Z) * float(evidence.cost.std()) / gap) ** 2)

    def remedy(self, evidence: Evidence, confidence: float) -> str:
        """Return what would help a design that failed."""
        needed = self.rows_needed(evidence, confidence)
        if needed <= evidence.rows:
            return "Allow a larger cost, or search for cheaper designs"
        return f"It takes about {pluralize(needed, 'certify row')} if its true mean cost is that of these. Give more rows"


Limit: TypeAlias = ShareLimit | CostLimit


def _complement(share: float) -> float:
    # Without what is lost in the last bits: 1 - 0.8 is below 0.2, and would be shown as 19.9 %.
    return round(1.0 - share, 12)


def betting_width(confidence: float) -> float:
    """Return by about how many standard errors an upper bound by betting lies above the mean."""
    return math.sqrt(-2.0 * math.log1p(-confidence))
