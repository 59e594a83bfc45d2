"""What a drift monitor watches: figures of a manifest, each as the mean of values between 0 and 1, and how items add to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from emsco_runtime._arguments import check_count
from emsco_runtime._evidence import Rise
from emsco_runtime.errors import InputError
from emsco_runtime.manifest import Manifest

__all__ = ["ExpectedConfidence", "Figure", "Weights", "checked_confidence", "figures_of_decisions", "figures_of_labels", "total"]

Places: TypeAlias = tuple[tuple[int, float], ...]


class ExpectedConfidence(NamedTuple):
    """The mean confidence of decisions on a number of held-out rows; a manifest does not hold it."""

    mean: float
    rows: int


class Weights(NamedTuple):
    """How a stream's totals make a figure: for each sum, the places of the totals in it, with their weights.

    Parameters
    ----------
    low, high
        The least and the most that the values can add up to.
    sure, known
        What the values that are known add up to, and how many they are.
    """

    low: Places
    high: Places
    sure: Places
    known: Places


class _Draft(NamedTuple):
    """A figure that has no part of the rates yet: its weights, its unit, and what was counted on the held-out rows."""

    name: str
    weights: Weights
    floor: float
    span: float
    hits: float
    rows: int


class Figure(NamedTuple):
    """A watched figure.

    Parameters
    ----------
    name
        As told to the user.
    weights
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
    weights: Weights
    floor: float
    span: float
    expected: float
    rows: int
    rise: Rise
    fall: Rise | None
    penalty: float

    def range_of(self, totals: Sequence[float], items: int) -> tuple[float, float]:
        """Return the least and the most that the values add up to; rounding must not lead out of what is possible."""
        low, high = total(self.weights.low, totals), total(self.weights.high, totals)
        return min(max(low, 0.0), items), min(max(high, 0.0), items)

    def in_unit(self, mean: float) -> float:
        """Return a mean from 0 to 1 in the user's unit."""
        return self.floor + self.span * mean


def figures_of_decisions(manifest: Manifest, confidence: ExpectedConfidence | None) -> tuple[Figure, ...]:
    """Return the figures that each decision adds to, the reject rate first.

    The totals are: how many items left at stage 1, 2, ...; were inconclusive; were cut short after 0, 1, ... sound stages; then
    the sums of the confidences, at least and at most.
    """
    reject, *others = _rates(manifest)
    others += _cost(manifest)
    if confidence is not None:
        others.append(_confidence(manifest, confidence))
    # Three parts: for the reject rate, for the error, for all others; two, where there are no others.
    parts = 3 if others else 2
    return _two_sided(reject, parts), *(_two_sided(draft, parts * len(others)) for draft in others)


def figures_of_labels(manifest: Manifest, parts: int) -> tuple[Figure, ...]:
    """Return the figure that true labels add to: the error among the accepted. The totals are: right, wrong.

    Only a rise is drift. With a certificate the error is held against what it promises, otherwise against the expected one.
    """
    certificate, expected = manifest.certificate, manifest.expected
    wrong = _at([1])
    rows, misses = expected.accepted, expected.accepted - expected.right
    rise, error = Rise(misses, rows), misses / max(rows, 1)
    if certificate is not None:
        error, rows = certificate.max_error, certificate.accepted
        rise = Rise(0, 0, limit=error)
    return (Figure("error", Weights(wrong, wrong, wrong, _at([0, 1])), 0.0, 1.0, error, rows, rise, None, math.log(parts)),)


def checked_confidence(confidence: object) -> ExpectedConfidence:
    """Return an expected confidence whose parts are a mean and a count, or raise `InputError`."""
    if not isinstance(confidence, tuple) or len(confidence) != 2:
        raise InputError(f"confidence: an ExpectedConfidence(mean, rows) is due, got {confidence!r}")
    mean, rows = confidence
    if isinstance(mean, bool) or not isinstance(mean, int | float) or not 0 <= mean <= 1:
        raise InputError(f"confidence: a mean from 0 to 1 is due, got {mean!r}")
    check_count("confidence, rows", rows)
    return ExpectedConfidence(float(mean), rows)


def total(places: Places, totals: Sequence[float]) -> float:
    """Return the sum of the totals at these places, each with its weight."""
    return sum([weight * totals[place] for place, weight in places])


def _two_sided(draft: _Draft, parts: int) -> Figure:
    name, weights, floor, span, hits, rows = draft
    return Figure(name, weights, floor, span, hits / rows, rows, Rise(hits, rows), Rise(rows - hits, rows), math.log(2 * parts))


def _rates(manifest: Manifest) -> Iterator[_Draft]:
    """Yield the reject rate, then the rates of leaving at each stage; with one stage, the first says it all."""
    stages, expected = len(manifest.stages), manifest.expected
    ran, cut = _places(stages)
    yield _rate("reject", stages, cut, ran, expected.rows - expected.accepted, expected.rows)
    for index in range(stages) if stages > 1 else ():
        # One that was cut short after so many stages did not leave at any of them.
        known = [*ran, *cut[index + 1 :]]
        yield _rate(f"exit_{index + 1}", index, cut[: index + 1], known, expected.stages[index].accepted, expected.rows)


def _rate(name: str, place: int, unknown: Iterable[int], known: Iterable[int], hits: int, rows: int) -> _Draft:
    return _Draft(name, Weights(_at([place]), _at([place, *unknown]), _at([place]), _at(known)), 0.0, 1.0, hits, rows)


def _cost(manifest: Manifest) -> Iterator[_Draft]:
    """Yield the mean cost at list price, which follows from how the items ended; nothing where all ends cost the same."""
    stages, expected = len(manifest.stages), manifest.expected
    meter = manifest.meter()
    costs = [meter.cost(names) for names in accumulate(stage.acquire for stage in manifest.stages)]
    floor, span = costs[0], costs[-1] - costs[0]
    if not span > 0:
        return
    exits = [(cost - floor) / span for cost in costs]
    ran, cut = _places(stages)
    sure = tuple(zip(ran, [*exits, 1.0], strict=True))
    # One that was cut short after so many stages would have paid for the next at least, for all at most.
    weights = Weights((*sure, *zip(cut, exits, strict=True)), (*sure, *_at(cut)), sure, _at(ran))
    hits = total(sure, [*(stage.accepted for stage in expected.stages), expected.rows - expected.accepted])
    yield _Draft("cost", weights, floor, span, hits, expected.rows)


def _confidence(manifest: Manifest, confidence: ExpectedConfidence) -> _Draft:
    """Return the mean confidence; its values begin at 1 / labels, since the most probable label is never below."""
    stages, floor = len(manifest.stages), 1.0 / len(manifest.labels)
    if confidence.mean < floor:
        raise InputError(
            f"confidence: the mean of the most probable of {len(manifest.labels)} labels cannot be {confidence.mean!r};"
            f" a number from {floor:.4g} to 1 is due"
        )
    ran, _ = _places(stages)
    low, high = _at([2 * stages + 1]), _at([2 * stages + 2])
    hits = (confidence.mean - floor) / (1.0 - floor) * confidence.rows
    return _Draft("confidence", Weights(low, high, low, _at(ran)), floor, 1.0 - floor, hits, confidence.rows)


def _places(stages: int) -> tuple[range, range]:
    """Return the places of items that ran to their end, and of those cut short."""
    return range(stages + 1), range(stages + 1, 2 * stages + 1)


def _at(places: Iterable[int]) -> Places:
    return tuple((place, 1.0) for place in places)
