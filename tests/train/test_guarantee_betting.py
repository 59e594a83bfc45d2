"""Tests and bounds by betting: valid whatever the distribution, the same in any unit, and far tighter than Hoeffding's bound."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from emsco_train.errors import DesignError
from emsco_train.guarantee.betting import BoundedValues, row_order

# Values as costs have them: few of them, of very different probability.
DISTRIBUTIONS: dict[str, tuple[list[float], list[float]]] = {
    "mostly the first stage": ([1.0, 2.0, 6.0], [0.7, 0.2, 0.1]),
    "two stages": ([1.0, 6.0], [0.6, 0.4]),
    "mostly the last stage": ([1.0, 6.0], [0.05, 0.95]),
    "a rare high bill": ([1.0, 1.2, 6.0], [0.8, 0.19, 0.01]),
    "rare errors": ([0.0, 6.0], [0.97, 0.03]),
}
unit_values = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=40)
confidences = st.sampled_from([0.6, 0.8, 0.95])


def bounded(values: Sequence[float], **options: float) -> BoundedValues:
    """Return values between 0 and 1, unless other bounds are given."""
    return BoundedValues(np.array(values, dtype=np.float64), **{"low": 0.0, "high": 1.0} | options)  # type: ignore[arg-type]


# Validity


@pytest.mark.parametrize("rows", [3, 10])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8, 0.95])
def test_every_sample_of_few_rows(rows: int, share: float) -> None:
    """Of all samples of 0 and 1 whose mean is just the limit, those that pass have at most the stated probability together."""
    for confidence in (0.6, 0.8, 0.95):
        passing = 0.0
        for sample in itertools.product((0.0, 1.0), repeat=rows):
            if bounded(sample).is_mean_below(share, confidence):
                hits = int(sum(sample))
                passing += share**hits * (1 - share) ** (rows - hits)
        assert passing <= 1 - confidence + 1e-12


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_level_of_the_test(name: str, weighted: bool) -> None:
    """If the true mean is just the limit, no more tests pass than stated, within what chance does to this many repeats."""
    values, shares = DISTRIBUTIONS[name]
    repeats, rows, confidence = 800, 150, 0.9
    rng = np.random.default_rng(7)
    drawn = rng.choice(values, p=shares, size=(repeats, rows))
    # High values weigh more: the mean by weight is above that by rows.
    weights = np.where(drawn > 1.1, 3.0, 1.0)
    limit = np.average(values, weights=np.array(shares) * np.where(np.array(values) > 1.1, 3.0, 1.0) if weighted else shares)
    passed = sum(
        BoundedValues(row, low=0.0, high=6.0, weights=weight if weighted else None, max_weight=3.0).is_mean_below(
            float(limit), confidence
        )
        for row, weight in zip(drawn, weights, strict=True)
    )
    assert passed <= stats.binom.ppf(1 - 1e-4, repeats, 1 - confidence)


# Power


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_bounds_are_tighter_than_hoeffdings(name: str) -> None:
    """On average the bound is nearer to the mean than Hoeffding's, and not far from 2.45 standard errors, its optimum at 95 %."""
    values, shares = DISTRIBUTIONS[name]
    rng, rows = np.random.default_rng(8), 1000
    samples = [rng.choice(values, p=shares, size=rows) for _ in range(20)]
    widths = [BoundedValues(row, low=0.0, high=6.0).upper_bound(0.95) - row.mean() for row in samples]
    assert np.mean(widths) < 0.95 * 6.0 * math.sqrt(math.log(20) / (2 * rows))
    assert np.mean(widths) < 1.5 * 2.45 * np.mean([row.std() for row in samples]) / math.sqrt(rows)


def test_more_rows_show_more() -> None:
    """Ten times the rows bring the bound about three times nearer to the mean."""
    few, many = (bounded([0.0, 0.0, 0.0, 1.0] * count).upper_bound(0.95) - 0.25 for count in (25, 250))
    assert 2.5 < few / many < 3.8


# What it means


def plain_capital(values: Sequence[float], weights: Sequence[float], limit: float, confidence: float) -> float:
    """Return the highest capital, by a plain loop: before each row, only the rows before it are used."""
    capital = highest = 1.0
    total = weighted = squares = square_weights = 0.0
    for number, (value, weight) in enumerate(zip(values, weights, strict=True)):
        guess = 0.25 * (square_weights / number if number else 1.0)
        spread = (guess + squares) / (number + 1)
        mean = (0.5 + weighted) / (1.0 + total)
        bet = min(math.sqrt(2 * math.log(1 / (1 - confidence)) / (len(values) * max(spread, 1e-300))), 0.75)
        capital *= 1 + bet * weight * (limit - value)
        highest = max(highest, capital)
        squares += (weight * (value - mean)) ** 2
        total, weighted, square_weights = total + weight, weighted + weight * value, square_weights + weight**2
    return highest


@given(unit_values, st.data(), st.floats(0.05, 0.95), confidences)
def test_it_is_the_game_that_it_says(values: list[float], data: st.DataObject, limit: float, confidence: float) -> None:
    """It passes just where a gambler who knows earlier rows alone multiplies his capital, and the mean is not above the limit."""
    weights = data.draw(st.lists(st.floats(0.1, 1), min_size=len(values), max_size=len(values)))
    capital = plain_capital(values, weights, limit, confidence)
    made = BoundedValues(np.array(values), low=0.0, high=1.0, weights=np.array(weights))
    enough = capital >= 1 / (1 - confidence)
    if made.mean is not None and abs(made.mean - limit) > 1e-9 and abs(capital * (1 - confidence) - 1) > 1e-9:
        assert made.is_mean_below(limit, confidence) == (enough and made.mean <= limit)


@given(unit_values, st.floats(0.01, 0.98), st.floats(0.001, 0.5), confidences)
def test_a_larger_limit_is_easier(values: list[float], limit: float, more: float, confidence: float) -> None:
    """What shows a mean to be below a limit shows it to be below every larger one."""
    made = bounded(values)
    assert made.is_mean_below(limit + more, confidence) >= made.is_mean_below(limit, confidence)


@given(unit_values, confidences)
def test_the_bound_is_where_the_test_begins_to_pass(values: list[float], confidence: float) -> None:
    """Just above the bound the test passes, just below it fails, and the bound is never below the mean of the rows."""
    made = bounded(values)
    bound = made.upper_bound(confidence)
    assert made.mean is not None
    assert made.mean <= bound <= 1.0
    assert made.is_mean_below(bound + 1e-9, confidence)
    assert not made.is_mean_below(bound - 2e-9, confidence)


@given(unit_values, st.integers(-3, 3), st.sampled_from([0.25, 2.0, 8.0]), confidences)
def test_units_do_not_matter(values: list[float], shift: int, scale: float, confidence: float) -> None:
    """In other units, and counted from elsewhere, the bound is the same one in those units."""
    here = bounded(values).upper_bound(confidence)
    there = BoundedValues(np.array(values) * scale + shift, low=shift, high=shift + scale).upper_bound(confidence)
    assert there == pytest.approx(here * scale + shift, abs=1e-6)


@given(unit_values, st.sampled_from([0.5, 3.0, 64.0]), confidences)
def test_units_of_weights_do_not_matter(values: list[float], scale: float, confidence: float) -> None:
    """Rows that all have the largest weight are rows without weights, whatever that weight is."""
    weights = np.full(len(values), scale)
    weighted = BoundedValues(np.array(values), low=0.0, high=1.0, weights=weights, max_weight=scale)
    assert weighted.upper_bound(confidence) == bounded(values).upper_bound(confidence)


def test_weights_count() -> None:
    """The mean is by weight; a largest weight that is never met costs precision, and promises no less."""
    values, weights = np.tile([0.0, 1.0], 200), np.tile([3.0, 1.0], 200)
    near, far = (BoundedValues(values, low=0.0, high=1.0, weights=weights, max_weight=most) for most in (3.0, 30.0))
    assert [near.mean, far.mean] == pytest.approx([0.25, 0.25])
    assert 0.25 < near.upper_bound(0.95) < 0.33 < far.upper_bound(0.95)


# Edges


def test_nothing_to_bet_on() -> None:
    """No rows, or none of any weight, show nothing; one possible value is known without rows."""
    for empty in (bounded([]), BoundedValues(np.ones(3), low=0.0, high=1.0, weights=np.zeros(3))):
        assert (empty.mean, empty.upper_bound(0.95), empty.is_mean_below(0.9, 0.95)) == (None, 1.0, False)
        assert empty.is_mean_below(1.0, 0.95)
    fixed = bounded([2.0, 2.0], low=2.0, high=2.0)
    assert (fixed.mean, fixed.upper_bound(0.95)) == (2.0, 2.0)
    assert fixed.is_mean_below(2.0, 0.95)
    assert not fixed.is_mean_below(1.9, 0.95)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0.5], {"low": 1.0, "high": 0.0}, "the smaller one first"),
        ([0.5], {"high": math.inf}, "two finite numbers"),
        ([1.5], {}, r"values from 1\.5 to 1\.5: expected none outside 0\.0 to 1\.0"),
        ([math.nan], {}, "expected none outside"),
        ([0.5], {"weights": np.ones(2)}, "2 weights for 1 value"),
        ([0.5], {"weights": np.array([2.0])}, "between 0 and max_weight"),
        ([0.5], {"weights": np.array([-1.0])}, "between 0 and max_weight"),
        ([0.5], {"weights": np.array([math.nan])}, "between 0 and max_weight"),
        ([0.5], {"weights": np.array([1.0]), "max_weight": math.inf}, "max_weight is inf"),
    ],
)
def test_values_outside_their_bounds(values: list[float], options: dict[str, float], message: str) -> None:
    """What is outside the bounds, or is no number, would make the test say something false."""
    with pytest.raises(DesignError, match=message):
        bounded(values, **options)


def test_the_order_is_one_for_all() -> None:
    """Every row is read once, in an order that the seed alone decides."""
    assert sorted(row_order(50).tolist()) == list(range(50))
    assert row_order(50).tolist() == row_order(50).tolist() != list(range(50))
    assert row_order(50, seed=1).tolist() != row_order(50).tolist()
