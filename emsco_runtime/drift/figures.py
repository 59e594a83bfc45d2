"""What a drift monitor watches: figures of a manifest, each as the mean of values between 0 and 1, and how items add to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.drift.evidence import FULL_STREAM_PENALTY, MeanIncreaseTest
from emsco_runtime.errors import InputError
from emsco_runtime.support.arguments import check_count, is_number

__all__ = ["ExpectedConfidence", "Figure", "FigureSums", "check_expected_confidence", "decision_figures", "label_figures"]

_WeightedTotals: TypeAlias = tuple[tuple[int, float], ...]


class ExpectedConfidence(NamedTuple):
    """The mean confidence of decisions on a number of held-out rows; a manifest does not contain it."""

    mean: float
    rows: int


class FigureSums(NamedTuple):
    """How the totals of a stream make a figure: each sum as the indices of totals, with their weights."""

    lowest_sum: _WeightedTotals  # the least that all values can add up to, if those of items cut short are unknown
    highest_sum: _WeightedTotals
    known_sum: _WeightedTotals
    known_count: _WeightedTotals


class Figure(NamedTuple):
    """A watched figure; means are from 0 to 1, where 0 is `floor` and 1 is `floor` + `span` in the user's unit."""

    name: str
    sums: FigureSums
    floor: float
    span: float
    expected: float
    rows: int
    increase_test: MeanIncreaseTest
    decrease_test: MeanIncreaseTest | None  # None if a decrease is not drift
    penalty: float  # minus the logarithm of the figure's part of the rates, for one direction

    def sum_range(self, totals: Sequence[float], items: int) -> tuple[float, float]:
        """Return the least and the most that the values add up to; clipped, since rounding must not exceed what is possible."""
        lowest_sum, highest_sum = _weighted_sum(self.sums.lowest_sum, totals), _weighted_sum(self.sums.highest_sum, totals)
        return min(max(lowest_sum, 0.0), items), min(max(highest_sum, 0.0), items)

    def known_mean(self, totals: Sequence[float]) -> float | None:
        """Return the mean over the items whose value is known, in the user's unit."""
        known = _weighted_sum(self.sums.known_count, totals)
        return self.to_user_unit(_weighted_sum(self.sums.known_sum, totals) / known) if known else None

    def limits(self, items: int, rate: float) -> tuple[float, float]:
        """Return the means over a whole stream of `items` items, in the user's unit, beyond which there is an alarm; slow."""
        target = self.penalty + FULL_STREAM_PENALTY - math.log(rate)
        highest = self.increase_test.critical_total(target, items) if items else None
        lowest = self.decrease_test.critical_total(target, items) if items and self.decrease_test is not None else None
        low, high = 0.0 if lowest is None else 1.0 - lowest / items, 1.0 if highest is None else highest / items
        return self.to_user_unit(low), self.to_user_unit(high)

    def to_user_unit(self, mean: float) -> float:
        """Return a mean from 0 to 1 in the user's unit."""
        return self.floor + self.span * mean


def decision_figures(manifest: Manifest, confidence: ExpectedConfidence | None) -> tuple[Figure, ...]:
    """Return the figures that each decision adds to, the reject rate first.

    The totals are: how many items left at stage 1, 2, ...; were inconclusive; were cut short after 0, 1, ... sound stages; then
    the least and the most that the confidences add up to.
    """
    reject, *others = _rate_figures(manifest)
    others += _cost_figures(manifest)
    if confidence is not None:
        others.append(_confidence_figure(manifest, confidence))
    # Three parts: for the reject rate, for the error, for all others; two, if there are no others. Half for each direction.
    parts = 3 if others else 2
    penalty = math.log(2 * parts * max(len(others), 1))
    return reject._replace(penalty=math.log(2 * parts)), *(one._replace(penalty=penalty) for one in others)


def label_figures(manifest: Manifest, parts: int) -> tuple[Figure, ...]:
    """Return the figure that true labels add to: the error among the accepted. The totals are: right, wrong.

    Only an increase is drift: above what the certificate guarantees, or without one above the expected error.
    """
    certificate, expected = manifest.certificate, manifest.expected
    if certificate is not None:
        error, rows = certificate.max_error, certificate.accepted
        increase_test = MeanIncreaseTest(0, 0, limit=error)
    else:
        rows, wrong_count = expected.accepted, expected.accepted - expected.right
        increase_test, error = MeanIncreaseTest(wrong_count, rows), wrong_count / max(rows, 1)
    wrong = _unit_weights([1])
    sums = FigureSums(wrong, wrong, wrong, _unit_weights([0, 1]))
    return (Figure("error", sums, 0.0, 1.0, error, rows, increase_test, None, math.log(parts)),)


def check_expected_confidence(confidence: object) -> ExpectedConfidence:
    """Return an expected confidence that consists of a mean and a count, or raise `InputError`."""
    if not isinstance(confidence, tuple) or len(confidence) != 2:
        raise InputError(f"confidence: expected an ExpectedConfidence(mean, rows), got {confidence!r}")
    mean, rows = confidence
    if not is_number(mean, 0, 1):
        raise InputError(f"confidence: expected a mean from 0 to 1, got {mean!r}")
    check_count("confidence, rows", rows)
    return ExpectedConfidence(float(mean), rows)


def _weighted_sum(weights: _WeightedTotals, totals: Sequence[float]) -> float:
    return sum([weight * totals[index] for index, weight in weights])


def _two_sided(name: str, sums: FigureSums, sample_sum: float, rows: int, *, floor: float = 0.0, span: float = 1.0) -> Figure:
    """Return a figure whose increase and decrease are drift; its part of the rates is set later."""
    increase_test, decrease_test = MeanIncreaseTest(sample_sum, rows), MeanIncreaseTest(rows - sample_sum, rows)
    return Figure(name, sums, floor, span, sample_sum / rows, rows, increase_test, decrease_test, 0.0)


def _rate_figures(manifest: Manifest) -> Iterator[Figure]:
    """Yield the reject rate, then the rates of leaving at each stage; with one stage, the first is enough."""
    stages, expected = len(manifest.stages), manifest.expected
    complete, cut_short = _total_indices(stages)
    # Name, index of its total, which of those cut short may add to it, and how many of the held-out rows did.
    rates = [("reject", stages, cut_short, expected.rows - expected.accepted)]
    if stages > 1:
        # An item that was cut short after some stages did not leave at any of them.
        rates += [(f"exit_{i + 1}", i, cut_short[: i + 1], one.accepted) for i, one in enumerate(expected.stages)]
    for name, index, unknown, sample_sum in rates:
        known_sum = _unit_weights([index])
        known_count = _unit_weights([*complete, *cut_short[len(unknown) :]])
        yield _two_sided(
            name, FigureSums(known_sum, known_sum + _unit_weights(unknown), known_sum, known_count), sample_sum, expected.rows
        )


def _cost_figures(manifest: Manifest) -> Iterator[Figure]:
    """Yield the mean cost at list price, which follows from how the items ended; nothing if all ends cost the same."""
    stages, expected = len(manifest.stages), manifest.expected
    costs = [cost.total for cost in manifest.stage_costs()]
    floor, span = costs[0], costs[-1] - costs[0]
    if not span > 0:
        return
    exits = [(cost - floor) / span for cost in costs]
    complete, cut_short = _total_indices(stages)
    known_sum = tuple(zip(complete, [*exits, 1.0], strict=True))
    # An item that was cut short after some stages would have paid at least for the next, at most for all.
    sums = FigureSums(
        (*known_sum, *zip(cut_short, exits, strict=True)),
        (*known_sum, *_unit_weights(cut_short)),
        known_sum,
        _unit_weights(complete),
    )
    sample_sum = _weighted_sum(known_sum, [*(stage.accepted for stage in expected.stages), expected.rows - expected.accepted])
    yield _two_sided("cost", sums, sample_sum, expected.rows, floor=floor, span=span)


def _confidence_figure(manifest: Manifest, confidence: ExpectedConfidence) -> Figure:
    """Return the mean confidence; its values start at 1 / labels, since the most probable label has at least that."""
    stages, floor = len(manifest.stages), 1.0 / len(manifest.labels)
    if confidence.mean < floor:
        raise InputError(
            f"confidence: expected a mean from {floor:.4g} to 1, since there are {len(manifest.labels)} labels,"
            f" got {confidence.mean!r}"
        )
    complete, _ = _total_indices(stages)
    lowest_sum, highest_sum = _unit_weights([2 * stages + 1]), _unit_weights([2 * stages + 2])
    sums = FigureSums(lowest_sum, highest_sum, lowest_sum, _unit_weights(complete))
    sample_sum = (confidence.mean - floor) / (1.0 - floor) * confidence.rows
    return _two_sided("confidence", sums, sample_sum, confidence.rows, floor=floor, span=1.0 - floor)


def _total_indices(stages: int) -> tuple[range, range]:
    """Return the indices of the totals of items that ran to their end, and of those cut short."""
    return range(stages + 1), range(stages + 1, 2 * stages + 1)


def _unit_weights(indices: Iterable[int]) -> _WeightedTotals:
    return tuple((index, 1.0) for index in indices)
