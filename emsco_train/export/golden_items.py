"""Golden items: made-up rows whose outcome the runtime replays at every load.

Made up, because real rows would travel with the bundle. Values come from each feature's own summary, rounded to a few digits;
items near a threshold or a tie are drawn again, since rounding on another machine could flip them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.encoding import make_encoder
from emsco_runtime.bundle.manifest import Feature, Golden, GoldenDecision, RawValue
from emsco_runtime.bundle.rule import accept, margin
from emsco_runtime.support.arrays import Floats
from emsco_train.data.features import first_codes
from emsco_train.errors import ExportError
from emsco_train.models.cascade_model import CascadeModel

__all__ = ["make_golden_items"]

# Tried in this order: wide margins where the models allow, the narrow one where all probabilities crowd at a threshold.
_THRESHOLD_MARGINS = (1e-4, 1e-5)
_MAX_DRAWS = 400
_RARE_SHARE = 0.2
_UNKNOWN = "never seen in training"


@dataclass(frozen=True, slots=True)
class _ValueRange:
    """Where the values of a numeric feature lie, and how many decimals (negative: powers of ten) to keep."""

    low: float
    high: float
    digits: int


def make_golden_items(model: CascadeModel, codes: Floats, *, count: int, rng: np.random.Generator) -> tuple[Golden, ...]:
    """Draw golden items, of as many different outcomes as a bounded number of draws finds.

    Only quantiles of the training codes [rows, codes] are used, and means and deviations of the numbers of vectors.

    Raises
    ------
    ExportError
        If no draw keeps its distance from every threshold.
    """
    drawer = _ItemDrawer(model, codes, rng)
    for least in _THRESHOLD_MARGINS:
        found = drawer.draw_items(count, least)
        if found:
            return tuple(_select_varied(found, count))
    if len(drawer.seen) == 1:
        raise ExportError(
            "no golden item could be made: all items get the same probabilities, since no feature has any weight. Look for "
            "columns that never change, directions (`increasing`, `decreasing`) that contradict the rows, or a penalty that is "
            "too strong (`C`)"
        )
    thresholds = ", ".join(map(str, dict.fromkeys(model.stage_thresholds)))
    raise ExportError(
        f"no golden item could be made: in {_MAX_DRAWS} draws, every one had a probability within "
        f"{_THRESHOLD_MARGINS[-1]:g} of a threshold or of a tie. Change the threshold a little (thresholds: {thresholds})"
    )


class _ItemDrawer:
    """Draws items and decides them; what all draws share is made once."""

    def __init__(self, model: CascadeModel, codes: Floats, rng: np.random.Generator) -> None:
        self._model, self._rng = model, rng
        starts = first_codes(model.features)
        self._ranges = [
            _value_range(codes[:, start]) if feature.kind == "numeric" else None
            for start, feature in zip(starts, model.features, strict=True)
        ]
        self._vector_ranges = {
            feature.name: [_spread(column) for column in codes[:, start : start + feature.width].T]
            for start, feature in zip(starts, model.features, strict=True)
            if feature.kind == "vector"
        }
        self._encoders = [make_encoder(feature) for feature in model.features]
        self._scorer, self._positions, self._costs = model.scorer(), model.input_positions(), model.stage_costs()
        # Of all items drawn, whether they were kept or not.
        self.seen: set[tuple[tuple[float, ...], ...]] = set()

    def draw_items(self, count: int, least: float) -> list[Golden]:
        """Return items that keep this distance from thresholds and ties, until there are enough of all outcomes."""
        possible = len(self._model.stages) + 1  # each stage may accept, the last may also reject
        found: list[Golden] = []
        outcomes: set[tuple[int, str]] = set()
        for _ in range(_MAX_DRAWS):
            item = self._draw_item()
            self.seen.add(item.probabilities)
            if min(map(margin, item.probabilities, self._model.stage_thresholds)) >= least:
                found.append(item)
                outcomes.add(_item_outcome(item))
            if len(found) >= count and len(outcomes) == possible:
                break
        return found

    def _draw_value(self, feature: Feature, where: _ValueRange | None) -> RawValue:
        ranges = self._vector_ranges.get(feature.name)
        return _draw_value(feature, where, self._rng) if ranges is None else _draw_vector(feature, ranges, self._rng)

    def _draw_item(self) -> Golden:
        model = self._model
        values = [self._draw_value(feature, where) for feature, where in zip(model.features, self._ranges, strict=True)]
        codes = np.hstack([encode(value) for encode, value in zip(self._encoders, values, strict=True)])
        scores = [self._scorer.score(index, codes[positions]) for index, positions in enumerate(self._positions)]
        decisions = list(map(accept, scores, model.stage_thresholds))
        number = next((index for index, (_, confident) in enumerate(decisions, start=1) if confident), len(decisions))
        label, confident = decisions[number - 1]
        return Golden(
            values={feature.name: value for feature, value in zip(model.features, values, strict=True)},
            probabilities=tuple(tuple(row) for row in scores),
            decision=GoldenDecision(
                status="accepted" if confident else "rejected",
                reason="confident" if confident else "inconclusive",
                label=model.labels[label] if confident else None,
                stages=number,
                cost=self._costs[number - 1],
            ),
        )


def _select_varied(found: Sequence[Golden], count: int) -> list[Golden]:
    """Return `count` items (or as many as there are), the first of each outcome before any second."""
    firsts = {_item_outcome(item): item for item in reversed(found)}
    others = [item for item in found if item is not firsts[_item_outcome(item)]]
    return [*(firsts[outcome] for outcome in sorted(firsts)), *others][:count]


def _item_outcome(item: Golden) -> tuple[int, str]:
    return item.decision.stages, item.decision.status


def _value_range(column: Floats) -> _ValueRange:
    low, high = (float(bound) for bound in np.nanquantile(column, [0.05, 0.95]))
    span = high - low or abs(low) or 1.0
    present = column[~np.isnan(column)]
    whole = bool((present == np.round(present)).all())
    # Three digits of the span; whole numbers stay whole.
    digits = 2 - math.floor(math.log10(span))
    return _ValueRange(low, high, min(digits, 0) if whole else digits)


def _spread(column: Floats) -> _ValueRange:
    """Return the range of one number of a vector: quantiles would be 0 where most vectors have nothing, as with words."""
    mean, deviation = float(np.nanmean(column)), float(np.nanstd(column))
    span = 2 * deviation or 1.0
    return _ValueRange(mean - deviation, mean + deviation, 2 - math.floor(math.log10(span)))


def _draw_vector(feature: Feature, ranges: Sequence[_ValueRange], rng: np.random.Generator) -> RawValue:
    rare, positions = float(rng.random()), rng.random(feature.width).tolist()
    if feature.missing == "impute" and rare < _RARE_SHARE:
        return None
    drawn = zip(ranges, positions, strict=True)
    return tuple(round(where.low + position * (where.high - where.low), where.digits) for where, position in drawn)


def _draw_value(feature: Feature, where: _ValueRange | None, rng: np.random.Generator) -> RawValue:
    # All are drawn for every feature, so that one option of a feature does not change what the others get.
    rare, position = float(rng.random()), float(rng.random())
    if feature.missing == "impute" and rare < _RARE_SHARE:
        return None
    if feature.unknown == "ignore" and rare > 1 - _RARE_SHARE:
        return _unused_category(feature.categories)
    if where is not None:
        return round(where.low + position * (where.high - where.low), where.digits)
    if feature.kind == "boolean":
        return position < 0.5
    return feature.categories[int(position * len(feature.categories))]


def _unused_category(categories: Sequence[str]) -> str:
    name = _UNKNOWN
    while name in categories:
        name += "?"
    return name
