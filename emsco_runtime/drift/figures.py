"""What a drift monitor watches: figures of a manifest, each as the mean of values between 0 and 1, and how items add to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.drift.evidence import MeanIncreaseTest
from emsco_runtime.errors import InputError
from emsco_runtime.support.arguments import check_count

__all__ = [
    "ExpectedConfidence",
    "Figure",
    "FigureSums",
    "check_expected_confidence",
    "decision_figures",
    "label_figures",
    "weighted_sum",
]

WeightedTotals: TypeAlias = tuple[tuple[int, float], ...]


class ExpectedConfidence(NamedTuple):
    """The mean confidence of decisions on a number of held-out rows; a manifest does not hold it."""

    mean: float
    rows: int


class FigureSums(NamedTuple):
    """How a stream's totals make a figure: for each sum, the places of the totals in it, with their weights.

    Parameters
    ----------
    low, high
        The least and the most that the values can add up to.
    sure, known
        What the values that are known add up to, and how many they are.
    """

    lowest_sum: WeightedTotals
    highest_sum: WeightedTotals
    known_sum: WeightedTotals
    known_count: WeightedTotals


class _FigureDraft(NamedTuple):
    """A figure that has no part of the rates yet: its weights, its unit, and what was counted on the held-out rows."""

    name: str
    sums: FigureSums
    floor: float
    span: float
    sample_sum: float
    rows: int


class Figure(NamedTuple):
    """A watched figure.

    Parameters
    ----------
    name
        As told to the user.
    sums
        How a stream's totals make it.
    floor, span
        What the values 0 and 1 stand for in the user's unit: `floor`, and `floor` + `span`.
    expected, rows
        The expected mean (from 0 to 1), and how many rows it was counted on.
    rise, fall
        The tests for both directions; None where a fall is no matter.
    penalty
        Minus the logarithm of the figure's part of the rates, for one direction.
    """

    name: str
    sums: FigureSums
    floor: float
    span: float
    expected: float
    rows: int
    increase_test: MeanIncreaseTest
    decrease_test: MeanIncreaseTest | None
    penalty: float

    def sum_range(self, totals: Sequence[float], items: int) -> tuple[float, float]:
        """Return the least and the most that the values add up to; rounding must not lead out of what is possible."""
        lowest_sum, highest_sum = weighted_sum(self.sums.lowest_sum, totals), weighted_sum(self.sums.highest_sum, totals)
        return min(max(lowest_sum, 0.0), items), min(max(highest_sum, 0.0), items)

    def to_user_unit(self, mean: float) -> float:
        """Return a mean from 0 to 1 in the user's unit."""
        return self.floor + self.span * mean


def decision_figures(manifest: Manifest, confidence: ExpectedConfidence | None) -> tuple[Figure, ...]:
    """Return the figures that each decision adds to, the reject rate first.

    The totals are: how many items left at stage 1, 2, ...; were inconclusive; were cut short after 0, 1, ... sound stages; then
    the sums of the confidences, at least and at most.
    """
    reject, *others = _rate_figures(manifest)
    others += _cost_figures(manifest)
    if confidence is not None:
        others.append(_confidence_figure(manifest, confidence))
    # Three parts: for the reject rate, for the error, for all others; two, where there are no others.
    parts = 3 if others else 2
    return _make_two_sided(reject, parts), *(_make_two_sided(draft, parts * len(others)) for draft in others)


def label_figures(manifest: Manifest, parts: int) -> tuple[Figure, ...]:
    """Return the figure that true labels add to: the error among the accepted. The totals are: right, wrong.

    Only a rise is drift. With a certificate the error is held against what it promises, otherwise against the expected one.
    """
    certificate, expected = manifest.certificate, manifest.expected
    wrong = _unit_weights([1])
    rows, wrong_count = expected.accepted, expected.accepted - expected.right
    increase_test, error = MeanIncreaseTest(wrong_count, rows), wrong_count / max(rows, 1)
    if certificate is not None:
        error, rows = certificate.max_error, certificate.accepted
        increase_test = MeanIncreaseTest(0, 0, limit=error)
    return (
        Figure(
            "error",
            FigureSums(wrong, wrong, wrong, _unit_weights([0, 1])),
            0.0,
            1.0,
            error,
            rows,
            increase_test,
            None,
            math.log(parts),
        ),
    )


def check_expected_confidence(confidence: object) -> ExpectedConfidence:
    """Return an expected confidence whose parts are a mean and a count, or raise `InputError`."""
    if not isinstance(confidence, tuple) or len(confidence) != 2:
        raise InputError(f"confidence: an ExpectedConfidence(mean, rows) is due, got {confidence!r}")
    mean, rows = confidence
    if isinstance(mean, bool) or not isinstance(mean, int | float) or not 0 <= mean <= 1:
        raise InputError(f"confidence: a mean from 0 to 1 is due, got {mean!r}")
    check_count("confidence, rows", rows)
    return ExpectedConfidence(float(mean), rows)


def weighted_sum(places: WeightedTotals, totals: Sequence[float]) -> float:
    """Return the sum of the totals at these places, each with its weight."""
    return sum([weight * totals[place] for place, weight in places])


def _make_two_sided(draft: _FigureDraft, parts: int) -> Figure:
    name, sums, floor, span, sample_sum, rows = draft
    return Figure(
        name,
        sums,
        floor,
        span,
        sample_sum / rows,
        rows,
        MeanIncreaseTest(sample_sum, rows),
        MeanIncreaseTest(rows - sample_sum, rows),
        math.log(2 * parts),
    )


def _rate_figures(manifest: Manifest) -> Iterator[_FigureDraft]:
    """Yield the reject rate, then the rates of leaving at each stage; with one stage, the first says it all."""
    stages, expected = len(manifest.stages), manifest.expected
    complete, cut_short = _total_indices(stages)
    yield _rate_figure("reject", stages, cut_short, complete, expected.rows - expected.accepted, expected.rows)
    for index in range(stages) if stages > 1 else ():
        # One that was cut short after so many stages did not leave at any of them.
        known_count = [*complete, *cut_short[index + 1 :]]
        yield _rate_figure(
            f"exit_{index + 1}", index, cut_short[: index + 1], known_count, expected.stages[index].accepted, expected.rows
        )


def _rate_figure(
    name: str, place: int, unknown: Iterable[int], known_count: Iterable[int], sample_sum: int, rows: int
) -> _FigureDraft:
    return _FigureDraft(
        name,
        FigureSums(_unit_weights([place]), _unit_weights([place, *unknown]), _unit_weights([place]), _unit_weights(known_count)),
        0.0,
        1.0,
        sample_sum,
        rows,
    )


def _cost_figures(manifest: Manifest) -> Iterator[_FigureDraft]:
    """Yield the mean cost at list price, which follows from how the items ended; nothing where all ends cost the same."""
    stages, expected = len(manifest.stages), manifest.expected
    costs = [cost.total for cost in manifest.stage_costs()]
    floor, span = costs[0], costs[-1] - costs[0]
    if not span > 0:
        return
    exits = [(cost - floor) / span for cost in costs]
    complete, cut_short = _total_indices(stages)
    known_sum = tuple(zip(complete, [*exits, 1.0], strict=True))
    # One that was cut short after so many stages would have paid for the next at least, for all at most.
    sums = FigureSums(
        (*known_sum, *zip(cut_short, exits, strict=True)),
        (*known_sum, *_unit_weights(cut_short)),
        known_sum,
        _unit_weights(complete),
    )
    sample_sum = weighted_sum(known_sum, [*(stage.accepted for stage in expected.stages), expected.rows - expected.accepted])
    yield _FigureDraft("cost", sums, floor, span, sample_sum, expected.rows)


def _confidence_figure(manifest: Manifest, confidence: ExpectedConfidence) -> _FigureDraft:
    """Return the mean confidence; its values begin at 1 / labels, since the most probable label is never below."""
    stages, floor = len(manifest.stages), 1.0 / len(manifest.labels)
    if confidence.mean < floor:
        raise InputError(
            f"confidence: the mean of the most probable of {len(manifest.labels)} labels cannot be {confidence.mean!r};"
            f" a number from {floor:.4g} to 1 is due"
        )
    complete, _ = _total_indices(stages)
    lowest_sum, highest_sum = _unit_weights([2 * stages + 1]), _unit_weights([2 * stages + 2])
    sample_sum = (confidence.mean - floor) / (1.0 - floor) * confidence.rows
    return _FigureDraft(
        "confidence",
        FigureSums(lowest_sum, highest_sum, lowest_sum, _unit_weights(complete)),
        floor,
        1.0 - floor,
        sample_sum,
        confidence.rows,
    )


def _total_indices(stages: int) -> tuple[range, range]:
    """Return the places of items that ran to their end, and of those cut short."""
    return range(stages + 1), range(stages + 1, 2 * stages + 1)


def _unit_weights(places: Iterable[int]) -> WeightedTotals:
    return tuple((place, 1.0) for place in places)
