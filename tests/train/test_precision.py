"""How much rows prove: effective sizes of rows in groups and with weights, and bounds that hold as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.problem import Problem
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import measure_precision, standard_error
from emsco_train.designs.precision import Precision
from emsco_train.errors import DesignError
from emsco_train.search.workbench import Workbench
from emsco_train.support.binomial import lower_bound

SURE = 0.85


@st.composite
def outcomes(draw: st.DrawFn, least: int = 2) -> tuple[Mask, Mask, Floats, Ints]:
    """Return accepted and right rows, costs, and a group for each row."""
    rows = draw(st.integers(least, 60))
    accepted = draw(npst.arrays(np.bool_, rows))
    right = accepted & draw(npst.arrays(np.bool_, rows))
    costs = draw(npst.arrays(np.float64, rows, elements=st.floats(0, 100, width=32)))
    return accepted, right, costs, draw(npst.arrays(np.intp, rows, elements=st.integers(0, 12)))


@given(outcomes())
def test_independent_rows_count_as_they_are(drawn: tuple[Mask, Mask, Floats, Ints]) -> None:
    """Without groups and weights, and with groups of one row and equal weights, effective sizes are the counts."""
    accepted, right, costs, _ = drawn
    rows = len(accepted)
    for groups, weights in ((None, None), (np.arange(rows)[::-1], np.full(rows, 3.0))):
        found = measure_precision(accepted, right, costs, groups, weights)
        assert found.rows == pytest.approx(rows, rel=1e-9)
        assert found.accepted == pytest.approx(accepted.sum(), rel=1e-9)
        assert found.cost_error == pytest.approx(np.std(costs, ddof=1) / math.sqrt(rows), rel=1e-6, abs=1e-9)


@given(outcomes(), st.integers(2, 5))
def test_repeated_rows_add_nothing(drawn: tuple[Mask, Mask, Floats, Ints], times: int) -> None:
    """Every row several times within its group: the same sizes, except where the number of rows was what limited them."""
    accepted, right, costs, groups = drawn
    once = measure_precision(accepted, right, costs, groups)
    again = measure_precision(*(np.repeat(part, times) for part in drawn))
    for size, repeated, most in ((once.rows, again.rows, len(accepted)), (once.accepted, again.accepted, int(accepted.sum()))):
        assert 0 <= size <= most
        assert repeated == pytest.approx(size, rel=1e-6) if size < most else repeated >= size * (1 - 1e-9)
    assert again.cost_error == pytest.approx(once.cost_error, rel=1e-6, abs=1e-9)


@given(outcomes(), st.integers(2, 5))
def test_a_repeated_row_is_a_group_or_a_weight(drawn: tuple[Mask, Mask, Floats, Ints], times: int) -> None:
    """Copies of a row in a group of their own say as much as the row alone with their number as its weight."""
    accepted, right, costs, _ = drawn
    weights = 1.0 + (np.arange(len(accepted)) % times)
    weighted = measure_precision(accepted, right, costs, weights=weights)
    copies = np.repeat(np.arange(len(accepted)), weights.astype(int))
    grouped = measure_precision(accepted[copies], right[copies], costs[copies], groups=copies)
    assert weighted.rows == pytest.approx(min(grouped.rows, len(accepted)), rel=1e-9)
    assert weighted.accepted == pytest.approx(min(grouped.accepted, float(accepted.sum())), rel=1e-9)
    assert weighted.cost_error == pytest.approx(grouped.cost_error, rel=1e-6, abs=1e-9)


def test_hits_in_few_groups_say_as_little_as_none() -> None:
    """One row that differs must not prove more than none: its group may be the only one, or one of many that were not drawn."""
    rows, groups = np.ones(500, dtype=np.bool_), np.repeat(np.arange(20), 25)
    sizes = []
    for count in range(8):
        hits = np.zeros(500, dtype=np.bool_)
        hits[25 * np.arange(count)] = True
        sizes.append(measure_precision(rows, hits, np.ones(500), groups=groups).accepted)
    assert sizes[:5] == pytest.approx([20.0] * 5)
    assert min(sizes[5:]) > 20.0


def test_a_share_without_variance_counts_groups() -> None:
    """All right: as many rows as there are groups, or Kish's number of them; one group counts as one row; no row as none."""
    yes, costs = np.ones(12, dtype=np.bool_), np.repeat([1.0, 4.0], 6)
    assert measure_precision(yes, yes, costs, groups=np.repeat([7, 8, 9], 4)).accepted == pytest.approx(3.0)
    unequal = np.repeat([0, 1, 2], [8, 2, 2])
    assert measure_precision(yes, yes, costs, groups=unequal).accepted == pytest.approx(144 / 72)
    weights = np.array([3.0, *[1.0] * 11])
    assert measure_precision(yes, yes, costs, weights=weights).accepted == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    one = measure_precision(yes, yes, costs, groups=np.zeros(12, dtype=np.intp))
    assert (one.rows, one.accepted, one.cost_error) == (1.0, 1.0, 1.5)
    nothing = measure_precision(~yes, ~yes, costs)
    assert (nothing.accepted, nothing.bounds(0.0, 0.0, 2.5, SURE).accuracy) == (0.0, 0.0)
    even = measure_precision(np.tile([True, False], 6), np.tile([True, False], 6), costs, groups=np.repeat(np.arange(6), 2))
    assert even.rows == 12.0


def test_bounds_hold_for_grouped_rows_and_naive_ones_do_not() -> None:
    """80 groups of 10 rows that go together, 1,500 times: each bound holds about as often as it says; by counts, seldom."""
    rng = np.random.default_rng(5)
    groups, times = np.repeat(np.arange(80), 10), 1500
    true_coverage, true_accuracy, true_cost = 0.8, 0.93, 2.2

    def draw(share: float, alike: float = 0.3) -> Mask:
        by_group = rng.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), 80)
        return rng.random(len(groups)) < by_group[groups]

    held: dict[bool, list[tuple[bool, bool, bool]]] = {True: [], False: []}
    for _ in range(times):
        accepted, costs = draw(true_coverage), np.where(draw(0.3), 5.0, 1.0)
        right = accepted & draw(true_accuracy)
        figures = (accepted.mean(), right.sum() / accepted.sum(), costs.mean())
        for by_group, results in held.items():
            bounds = measure_precision(accepted, right, costs, groups if by_group else None).bounds(*figures, SURE)
            results.append((bounds.coverage <= true_coverage, bounds.accuracy <= true_accuracy, bounds.cost >= true_cost))
    shares, naive = np.mean(held[True], axis=0), np.mean(held[False], axis=0)
    assert (shares > SURE - 0.03).all()
    assert (shares < SURE + 0.07).all()
    assert (naive < 0.76).all()


@given(st.integers(1, 2000), st.data())
def test_bounds_of_counts_are_exact_ones(rows: int, data: st.DataObject) -> None:
    """With independent rows a bound is that of Clopper and Pearson, below the figure; more of the same rows bring it nearer."""
    accepted = data.draw(st.integers(0, rows))
    counts = Counts(rows, accepted, data.draw(st.integers(0, accepted)), 2.0)
    design = Design.from_counts((0, 1), ["a", "b"], (0.9,), counts, precision=Precision.of_counts(counts, 0.3))
    bounds, more = design.bounds(SURE), design.with_more_rows(3).bounds(SURE)
    assert bounds.coverage == pytest.approx(lower_bound(accepted, rows, SURE), rel=1e-9)
    assert bounds.accuracy == pytest.approx(lower_bound(counts.right, accepted, SURE), rel=1e-9)
    assert bounds.cost == pytest.approx(2.0 + 1.0364334 * 0.3)
    assert bounds.coverage <= more.coverage <= counts.coverage
    assert bounds.accuracy <= more.accuracy <= counts.accuracy
    assert 2.0 < more.cost < bounds.cost
    raw = design.bounds(None)
    assert (raw.coverage, raw.accuracy, raw.cost) == (counts.coverage, counts.accuracy, 2.0)


def test_unknown_rows_have_no_bounds() -> None:
    """A design that does not know its rows says so when a bound is needed; impossible precision is refused."""
    design = Design.of((0, 1), ["a", "b"], (0.9,), coverage=0.5, accuracy=0.9, cost=1.0)
    with pytest.raises(DesignError, match=f"design {design.id}: its figures have no bounds, since the number of rows"):
        design.bounds(SURE)
    assert design.with_rows(100).bounds(SURE).coverage == lower_bound(50, 100, SURE)
    assert design.with_more_rows(2.0).precision is None
    known = design.with_rows(100)
    assert known.with_rows(100) is known
    for numbers in ((-1.0, 0.0, 0.0), (1.0, math.inf, 0.0), (1.0, 1.0, math.nan)):
        with pytest.raises(DesignError, match="expected finite numbers of at least 0"):
            Precision(*numbers)


def test_the_search_measures_precision() -> None:
    """Designs of a search have the error of their mean cost, from counts as from rows; with groups, smaller sizes."""
    rng = np.random.default_rng(3)
    table = rng.normal(size=(300, 3))
    y = np.where(table @ [2.0, 1.0, 1.0] + rng.normal(size=300) > 0, "yes", "no")
    bench = Workbench(Problem.of(table, y, costs=[1, 2, 5], threshold=0.8, seed=0))
    population = np.array([[0, 1, 2], [0, 0, 1], [1, 0, -1], [0, 0, 0]], dtype=np.int8)
    plain = bench.designs(population, [1] * 4)
    rows = bench.bits.items
    bench.groups = np.arange(rows)
    by_rows = bench.designs(population, [1] * 4)
    bench.groups = np.arange(rows) // 5
    grouped = bench.designs(population, [1] * 4)
    assert plain == by_rows == grouped
    measured = [[design.precision for design in designs if design.precision] for designs in (plain, by_rows, grouped)]
    for design, one, other, few in zip(plain, *measured, strict=True):
        assert (one.rows, one.accepted) == (design.counts.rows, design.counts.accepted)
        assert (other.rows, other.accepted, other.cost_error) == pytest.approx((one.rows, one.accepted, one.cost_error))
        assert few.rows <= rows
    assert measured[0][0].cost_error > 0
    assert measured[0][3].cost_error == 0
    assert measured[0] != measured[2]


def test_standard_error_of_counts() -> None:
    """The same as from the rows themselves; one row has none."""
    costs = [1.0] * 7 + [2.5] * 4 + [9.0]
    assert standard_error([7, 4, 1], [1.0, 2.5, 9.0]) == pytest.approx(np.std(costs, ddof=1) / math.sqrt(12))
    assert standard_error([1], [4.0]) == 0.0
