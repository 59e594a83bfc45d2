"""Costs in whole units."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.bundle.meter import Meter
from emsco_train.costs.total import total_cost
from emsco_train.costs.units import CostUnits
from emsco_train.data.row_units import MAX_UNITS
from emsco_train.data.stage_settings import StageSettings
from emsco_train.search import workbench

NAMES = ("a", "b", "c", "d")
written = st.decimals(0, 1000, places=3).map(float) | st.sampled_from([0.1, 0.2, 0.3, 86.3, 41.59, 1e-6])
any_price = written | st.floats(1e-9, 1e9)


def meters(prices: st.SearchStrategy[float]) -> st.SearchStrategy[Meter]:
    """Draw meters over four features and two groups."""
    return st.builds(
        lambda own, group_of, groups: Meter(dict(zip(NAMES, own, strict=True)), group_of, groups),
        st.lists(prices, min_size=4, max_size=4).filter(any),
        st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["g", "h", ("g", "h")])),
        st.fixed_dictionaries({"g": prices, "h": prices}),
    )


def all_sets() -> np.ndarray:
    """Return the fifteen sets of four features."""
    return np.array(list(itertools.product([False, True], repeat=4)))[1:]


@given(meters(written))
def test_prices_as_people_write_them_lose_nothing(meter: Meter) -> None:
    """A set's units are its cost exactly: the meter's cost is the units by the scale, rounded once."""
    units = CostUnits.of(meter, NAMES)
    for chosen, cost in zip(all_sets(), units.cost(all_sets()).tolist(), strict=True):
        names = [name for name, taken in zip(NAMES, chosen, strict=True) if taken]
        exact = sum((Fraction(str(meter.features[name])) for name in names), Fraction(0))
        exact += sum(Fraction(str(meter.groups[group])) for group in {group for name in names for group in meter.groups_of(name)})
        assert Fraction(cost) / Fraction(units.scale) == exact


@given(meters(any_price))
def test_any_prices_are_near_and_small_enough_to_add_up(meter: Meter) -> None:
    """Whatever the prices, units are within a trillionth of the whole, and sums over millions of rows fit into 64 bits."""
    units = CostUnits.of(meter, NAMES)
    whole = meter.cost(NAMES)
    for chosen, cost in zip(all_sets(), units.cost(all_sets()).tolist(), strict=True):
        names = [name for name, taken in zip(NAMES, chosen, strict=True) if taken]
        assert abs(cost / units.scale - meter.cost(names)) <= 1e-11 * whole
        assert 0 <= cost <= 2**41


def test_equal_costs_are_equal_whatever_the_order() -> None:
    """0.1 + 0.2 and 0.3 are the same number of units."""
    units = CostUnits.of(Meter({"a": 0.1, "b": 0.2, "c": 0.3}, {}, {}), ("a", "b", "c"))
    assert units.cost(np.array([[True, True, False], [False, False, True]])).tolist() == [3, 3]


@pytest.mark.parametrize("price", [math.pi, 1 / 3, 2.5])
def test_sums_over_as_many_rows_as_are_promised_fit(price: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 67 million rows, of which none is accepted, the summed cost of a design is right and does not overflow."""
    words = MAX_UNITS // 64
    bits = SimpleNamespace(
        items=MAX_UNITS,
        locate=lambda sets: np.zeros(len(sets), dtype=np.int64),
        rows_of=lambda sets, _: sets,
        all_confident=np.zeros((1, words), dtype=np.uint64),
        all_right=np.zeros((1, words), dtype=np.uint64),
    )
    monkeypatch.setattr(workbench, "BitCache", lambda *_, **__: bits)
    monkeypatch.setattr(workbench, "set_scorer", lambda *_: None)
    validation: Any = MagicMock(target=np.zeros(0, dtype=np.intp), units=None, weights=None, groups=None)
    validation.__len__.return_value = MAX_UNITS
    settings = StageSettings()
    problem: Any = SimpleNamespace(
        meter=Meter({"a": price}, {}, {}),
        names=("a",),
        labels=("no", "yes"),
        thresholds=(0.9,),
        validation=validation,
        settings=settings,
    )
    objectives = workbench.Workbench(problem).evaluator()(np.zeros((1, 1), dtype=np.int8))
    assert objectives.mean_cost[0] == pytest.approx(price, rel=1e-10)


@given(st.lists(st.tuples(st.integers(0, 10**7), any_price), max_size=6))
def test_totals_are_exact_until_they_are_rounded_once(paid: list[tuple[int, float]]) -> None:
    """The total of rows times costs is the float nearest to the sum of fractions, in any order."""
    exact = sum((rows * Fraction(cost) for rows, cost in paid), Fraction(0))
    for order in (paid, paid[::-1]):
        assert total_cost([rows for rows, _ in order], [cost for _, cost in order]) == float(exact)
