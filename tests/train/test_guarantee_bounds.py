"""Exact bounds: they hold as often as stated for every share, by enumeration; and the numbers of rows that users are given."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from emsco_train.errors import DesignError
from emsco_train.guarantee.bounds import check_confidence, check_max_error, max_wrong_allowed, min_rows, rows_needed
from emsco_train.support.binomial import binomial_cdf, is_cdf_below, lower_bound, upper_bound

SHARES = np.concatenate([np.linspace(0.0, 1.0, 401), [1e-6, 1e-3, 0.0295, 1 - 1e-3, 1 - 1e-6]])


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 20, 61])
def test_bounds_hold_as_often_as_promised(rows: int, confidence: float) -> None:
    """Every possible count, weighed by its exact chance: P(upper >= p) and P(lower <= p) reach the confidence for every p."""
    hits = np.arange(rows + 1)
    upper = np.array([upper_bound(int(hit), rows, confidence) for hit in hits])
    lower = np.array([lower_bound(int(hit), rows, confidence) for hit in hits])
    for share in SHARES:
        chances = stats.binom.pmf(hits, rows, share)
        # Where the share is itself a bound, the last bit decides on which side it lies: give it that.
        assert chances[upper >= share - 1e-12].sum() >= confidence - 1e-12
        assert chances[lower <= share + 1e-12].sum() >= confidence - 1e-12


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_bounds_are_no_wider_than_they_must_be(confidence: float) -> None:
    """Just below each upper bound the count is as unlikely as allowed, so no smaller bound would do: exact, not merely safe."""
    for rows in (5, 40):
        for hits in range(rows):
            bound = upper_bound(hits, rows, confidence)
            assert stats.binom.cdf(hits, rows, bound) == pytest.approx(1 - confidence, abs=1e-10)


@given(st.integers(1, 300), st.integers(0, 300), st.floats(0.5, 0.9999))
def test_upper_and_lower_are_mirror_images(rows: int, hits: int, confidence: float) -> None:
    """The lower bound on hits is one less the upper bound on the rest; the counted share lies between."""
    hits = min(hits, rows)
    lower, upper = lower_bound(hits, rows, confidence), upper_bound(hits, rows, confidence)
    assert lower == pytest.approx(1 - upper_bound(rows - hits, rows, confidence), abs=1e-12)
    assert 0 <= lower <= hits / rows <= upper <= 1


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 99))
def test_chance_is_the_sum_of_the_binomial(rows: int, hits: int, hundredths: int) -> None:
    """The p-value equals the binomial sum computed with exact fractions."""
    hits = min(hits, rows)
    share = Fraction(hundredths, 100)
    exact = sum(math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(hits + 1))
    assert binomial_cdf(hits, rows, hundredths / 100) == pytest.approx(float(exact), rel=1e-9)


@given(st.integers(0, 3000), st.integers(-200, 200), st.floats(0.0, 1.0) | st.sampled_from([0.9, 0.999]), st.floats(0.0001, 0.4))
def test_unlikely_is_a_small_chance(rows: int, away: int, share: float, level: float) -> None:
    """Without the library of special functions, the answer is the one that the exact chance gives, also at the level itself."""
    hits = min(rows, max(0, round(rows * share) + away))
    chance = binomial_cdf(hits, rows, share)
    assert is_cdf_below(hits, rows, share, level) == (chance <= level)
    # Below that, numbers have few digits left.
    if 1e-290 < chance < 0.4:
        assert is_cdf_below(hits, rows, share, chance)
        assert not is_cdf_below(hits, rows, share, chance * (1 - 1e-12))


@given(st.integers(1, 2000), st.integers(0, 200), st.floats(0.001, 0.5), st.floats(0.5, 0.999))
def test_test_and_bound_say_the_same(rows: int, wrong: int, max_error: float, confidence: float) -> None:
    """The test of an error passes exactly where the upper bound is at most it, and up to `max_wrong_allowed` wrong rows."""
    wrong = min(wrong, rows)
    chance = binomial_cdf(wrong, rows, max_error)
    if abs(chance - (1 - confidence)) < 1e-9:
        return  # the last bits may part them here
    passes = chance <= 1 - confidence
    assert passes == (upper_bound(wrong, rows, confidence) <= max_error)
    assert passes == (wrong <= max_wrong_allowed(rows, max_error, confidence))


def test_edges() -> None:
    """No rows show nothing; all wrong is all wrong; huge numbers of rows pin the share down."""
    assert (upper_bound(0, 0, 0.95), lower_bound(0, 0, 0.95), binomial_cdf(0, 0, 0.1)) == (1.0, 0.0, 1.0)
    assert (upper_bound(9, 9, 0.95), lower_bound(0, 9, 0.95), binomial_cdf(9, 9, 0.1)) == (1.0, 0.0, 1.0)
    assert lower_bound(9, 9, 0.95) == pytest.approx(0.05 ** (1 / 9))
    assert (max_wrong_allowed(0, 0.1, 0.95), max_wrong_allowed(28, 0.1, 0.95), max_wrong_allowed(29, 0.1, 0.95)) == (-1, -1, 0)
    rows = 10**9
    sigma = math.sqrt(0.02 * 0.98 / rows)
    assert upper_bound(rows // 50, rows, 0.95) == pytest.approx(0.02 + 1.645 * sigma, abs=0.01 * sigma)
    assert lower_bound(rows // 50, rows, 0.95) == pytest.approx(0.02 - 1.645 * sigma, abs=0.01 * sigma)
    assert upper_bound(0, rows, 0.95) == pytest.approx(-math.log(0.05) / rows, rel=1e-6)


@pytest.mark.parametrize(("hits", "rows"), [(-1, 5), (6, 5), (0, -1)])
def test_impossible_counts(hits: int, rows: int) -> None:
    """Counts that do not belong together are refused by every function of them."""
    for function in (upper_bound, lower_bound, binomial_cdf):
        with pytest.raises(DesignError, match=f"{hits} of {rows} rows"):
            function(hits, rows, 0.95)


@pytest.mark.parametrize(("max_error", "about"), [(0.015, 1300), (0.03, 650), (0.05, 390)])
def test_published_numbers_of_rows(max_error: float, about: int) -> None:
    """At 95 % and half the error, the figures that the documentation gives, to about one in a hundred."""
    assert rows_needed(max_error, 0.95) == pytest.approx(about, rel=0.011)


@pytest.mark.parametrize(("max_error", "confidence"), [(0.03, 0.95), (0.05, 0.9), (0.2, 0.99), (0.5, 0.8), (0.9, 0.5)])
def test_numbers_of_rows_mean_what_they_say(max_error: float, confidence: float) -> None:
    """By brute force: from that number on the test passes 3 times in 4, with one row less it does not; and the least to pass."""
    needed, least = rows_needed(max_error, confidence), min_rows(max_error, confidence)
    chances = {
        rows: stats.binom.cdf(max_wrong_allowed(rows, max_error, confidence), rows, max_error / 2)
        for rows in range(max(needed - 1, 1), 3 * needed + 50)
    }
    assert min(chance for rows, chance in chances.items() if rows >= needed) >= 0.75
    assert needed == 1 or chances[needed - 1] < 0.75
    assert (1 - max_error) ** least <= 1 - confidence < (1 - max_error) ** (least - 1)


@pytest.mark.parametrize("value", [0, 0.49, 1, 1.5, -0.1, True, "0.95", None, math.nan], ids=repr)
def test_bad_confidences(value: object) -> None:
    """A confidence is a number from 0.5 to below 1; anything else is refused with the value and a remedy."""
    with pytest.raises(DesignError, match=r"confidence is .*: expected a number of at least 0.5 and below 1"):
        check_confidence(value)


@pytest.mark.parametrize("value", [0, 1, 1.5, -0.1, True, "0.03", None, math.inf], ids=repr)
def test_bad_largest_errors(value: object) -> None:
    """A largest error is a number above 0 and below 1; anything else is refused with the value and a remedy."""
    with pytest.raises(DesignError, match=r"max_error is .*: expected a number above 0 and below 1"):
        check_max_error(value)
