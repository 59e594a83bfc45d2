"""Costs: what is accepted, what is refused, and that the runtime's meter does the pricing."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from emsco_train import CostGroup, CostModel, DesignError


@pytest.mark.parametrize(
    ("costs", "total"),
    [
        (None, 2.0),
        ([3, 4.5], 7.5),
        ({"b": 2, "a": 1}, 3.0),
        (CostModel({"a": 1.0, "b": 0.0}, (CostGroup("g", 5.0, ("b",)),), "EUR"), 6.0),
    ],
)
def test_forms(costs: Any, total: float) -> None:
    """None, a sequence in column order, a mapping and a cost model are all understood."""
    assert CostModel.of(costs, ["a", "b"]).meter().cost(["a", "b"]) == total


def test_costs_with_names_of_their_own_are_taken_by_name() -> None:
    """A pandas Series is a mapping, whatever its order; an array has the order of the columns."""
    series = pd.Series({"b": 2, "a": 1})
    assert dict(CostModel.of(series, ["a", "b"]).features) == {"a": 1, "b": 2}
    assert dict(CostModel.of(np.array([1.0, 2.0]), ["a", "b"]).features) == {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize("costs", [{1.0, 2.0}, frozenset([1, 2]), {"a": 1.0, "b": 2.0}.values()])
def test_costs_without_names_and_without_an_order_are_refused(costs: Any) -> None:
    """What is neither by name nor a list or an array is assigned to no column."""
    with pytest.raises(DesignError, match=r"expected 2 costs in a mapping by name, or a list or an array in column order; got"):
        CostModel.of(costs, ["a", "b"])


def test_costs_by_names_that_are_numbers() -> None:
    """The columns of a frame may have such names, and are called by their text: so are the costs of such columns."""
    for costs in ({0: 1, 1: 2}, pd.Series([1, 2]), {np.int64(0): 1, "1": 2}):
        assert CostModel.of(costs, ["0", "1"]).features == {"0": 1, "1": 2}
    with pytest.raises(DesignError, match="a cost for 2, which is not a feature"):
        CostModel.of({0: 1, 2: 2}, ["0", "1"]).check(["0", "1"], ["0", "1"])
    with pytest.raises(DesignError, match="a cost for 0, which is not a feature"):
        CostModel.of({0: 1, "0": 2}, ["0"]).check(["0"], ["0"])


def test_turneys_discount_is_a_group() -> None:
    """A test of 87.30 that costs 1.00 after another of its group: own cost 1.00 in a group of 86.30."""
    costs = CostModel.from_mapping({"one": 1.0, "two": 1.0}, groups=[CostGroup("lab", 86.3, ("one", "two"))])
    meter = costs.meter()
    assert (meter.cost(["one"]), meter.cost(["one", "two"])) == (87.3, 88.3)
    assert costs.groups_of("one") == ("lab",)
    assert CostModel.of(None, ["one"]).groups_of("one") == ()


@given(st.dictionaries(st.text(min_size=1), st.floats(0.01, 1e9), min_size=1, max_size=8), st.randoms())
def test_price_of_a_set_is_its_exact_sum(costs: dict[str, float], random: Any) -> None:
    """Whatever the order, the meter gives the correctly rounded sum."""
    names = list(costs)
    random.shuffle(names)
    assert CostModel.from_mapping(costs).meter().cost(names) == math.fsum(costs.values())


def test_all_faults_in_one_error() -> None:
    """Wrong numbers and wrong groups are listed together, each with its name and value."""
    groups = [CostGroup("g", -1.0, ("a", "zzz")), CostGroup("g", 1.0, ("a",))]
    wrong: dict[str, Any] = {"a": 1.0, "b": math.nan, "c": -2, "d": "3", "e": True, "f": math.inf}
    with pytest.raises(DesignError) as caught:
        CostModel.from_mapping(wrong, groups=groups)
    text = str(caught.value)
    for part in ("'b' is nan", "'c' is -2", "'d' is '3'", "'e' is True", "'f' is inf", "'g' is -1.0", "'zzz'", "two groups"):
        assert part in text


def test_all_zero_is_refused_unless_a_group_costs() -> None:
    """No cost at all makes every design equally cheap; a group's cost is enough."""
    with pytest.raises(DesignError, match="all costs are 0"):
        CostModel.from_mapping({"a": 0, "b": 0.0})
    CostModel.from_mapping({"a": 0}, groups=[CostGroup("g", 1, ("a",))])


def test_unit_must_be_named() -> None:
    """An empty unit would leave costs without a meaning; one that no bundle can hold is known before the search."""
    for unit in ("", 3):
        with pytest.raises(DesignError, match=r"unit is .*: name what the costs count, such as 'EUR'"):
            CostModel.from_mapping({"a": 1}, unit=unit)  # type: ignore[arg-type]
    for unit in ("a\nb", "x" * 257):
        with pytest.raises(DesignError, match=r"unit is .*: expected at most 256 characters without control"):
            CostModel.from_mapping({"a": 1}, unit=unit)


def test_a_group_names_each_feature_once() -> None:
    """As in a costs file, which could otherwise not be read back."""
    with pytest.raises(DesignError, match="group 'g' names 'a' twice: once is enough"):
        CostModel.from_mapping({"a": 1, "b": 2}, groups=[CostGroup("g", 1, ("a", "a"))])


@pytest.mark.filterwarnings("error")
def test_prices_of_numpys_narrow_types() -> None:
    """They are added up as Python's numbers, whose range is larger."""
    assert CostModel.of(np.array([1, 5], dtype=np.float32), ["a", "b"]).features == {"a": 1.0, "b": 5.0}


def test_check_lists_missing_and_unknown() -> None:
    """Prices and columns are compared, and all differences are in one message."""
    costs = CostModel.from_mapping({"a": 1, "typo": 2})
    with pytest.raises(DesignError, match=r"no cost for feature 'b': add it, or leave it out; a cost for 'typo'"):
        costs.check(["a", "b"], ["a", "b"])
    with pytest.raises(DesignError, match=r"x19, \.\.\."):
        costs.check([f"x{index}" for index in range(30)], [])
    CostModel.from_mapping({"a": 1}).check(["a", "b"], ["a"])


def test_the_costs_of_another_table_are_an_error_of_readable_length() -> None:
    """Where hundreds of names are wrong, the first of them are named and the others counted, and the features are listed once."""
    costs = CostModel.from_mapping({f"column {place}": 1.0 for place in range(300)})
    names = [f"x{place}" for place in range(300)]
    with pytest.raises(DesignError) as caught:
        costs.check(names, names)
    message = str(caught.value)
    assert "no cost for feature 'x0': add it" in message
    assert "no cost for 290 more features" in message
    assert "a cost for 'column 0', which is not a feature" in message
    assert "290 more costs of what is not a feature (features: x0, x1, " in message
    assert message.count("(features: ") == 1
    assert len(message) < 2000


@pytest.mark.parametrize("costs", ["costs.toml", Path("costs.toml"), "ab"])
def test_a_file_in_place_of_costs(costs: Any) -> None:
    """A path is no sequence of prices, even one with as many letters as features: the message says how a file is read."""
    with pytest.raises(DesignError, match=rf"a file of them is read with `CostModel\.from_file\('{costs}'\)`"):
        CostModel.of(costs, ["a", "b"])


@pytest.mark.parametrize("costs", [[1.0], [1.0, 2.0, 3.0], 7])
def test_sequence_of_another_length(costs: Any) -> None:
    """A sequence is in column order, so its length must fit."""
    with pytest.raises(DesignError, match="expected 2 costs"):
        CostModel.of(costs, ["a", "b"])


@pytest.mark.parametrize(
    "costs",
    [
        CostModel.from_mapping({"a": 1e300}),
        CostModel.from_mapping({"a": 4e299, "b": 1.0}, groups=[CostGroup("g", 5e299, ("a", "b"))]),
    ],
)
def test_large_costs_have_a_finite_sum(costs: CostModel) -> None:
    """Up to 1e300 in all, costs can be summed over features and over as many rows as a search takes."""
    assert math.isfinite(costs.meter().cost(list(costs.features)) * 2**26)


@pytest.mark.parametrize(
    ("features", "groups"),
    [({"a": 1e308, "b": 1e308, "c": 1.0}, []), ({"a": 1.0}, [CostGroup("g", 1.7e308, ("a",))]), ({"a": 10**301}, [])],
)
def test_costs_whose_sum_is_no_finite_number(features: dict[str, float], groups: list[CostGroup]) -> None:
    """Refused where they are made, with the largest and the remedy; not by an OverflowError in the middle of a search."""
    with pytest.raises(
        DesignError, match=r"all costs together are more than 1e\+300 \(the largest is .*give them in a larger unit"
    ):
        CostModel.from_mapping(features, groups=groups)


def test_a_feature_in_several_groups_needs_them_all() -> None:
    """Each is paid once."""
    groups = [CostGroup("dns", 8.0, ("a", "b")), CostGroup("body", 2.0, ("a", "c"))]
    costs = CostModel.from_mapping({"a": 1, "b": 0, "c": 0}, groups=groups)
    assert (costs.groups_of("a"), costs.groups_of("c")) == (("dns", "body"), ("body",))
    assert [costs.meter().cost(names) for names in (["a"], ["b"], ["a", "b", "c"])] == [11.0, 8.0, 11.0]


NAMES = ("a", "b", "c", "d", "e")


@st.composite
def derived_costs(draw: st.DrawFn) -> tuple[dict[str, float], list[CostGroup], dict[str, list[str]]]:
    """Draw prices of five features, groups that may overlap, and features that are derived from earlier ones."""
    own = {name: draw(st.sampled_from([0.0, 0.5, 1.0, 3.25])) for name in NAMES}
    own["a"] = 2.0
    groups = [
        CostGroup(name, cost, tuple(sorted(draw(st.sets(st.sampled_from(NAMES)))))) for name, cost in (("g", 4.0), ("c", 0.125))
    ]
    sources = {name: draw(st.lists(st.sampled_from(NAMES[:place]), unique=True)) for place, name in enumerate(NAMES) if place}
    return own, groups, {name: given for name, given in sources.items() if given}


@given(derived_costs(), st.lists(st.sampled_from(NAMES)))
def test_a_derived_feature_is_paid_through_what_it_is_derived_from(
    drawn: tuple[dict[str, float], list[CostGroup], dict[str, list[str]]], chosen: list[str]
) -> None:
    """A set costs the own prices and the groups of all its features and of all that these are derived from, each once."""
    own, groups, sources = drawn
    costs = CostModel.from_mapping(own, groups=groups, derived=sources)
    needed = set(chosen)
    for name in reversed(NAMES):
        needed |= set(sources.get(name, ())) if name in needed else set()
    expected = [own[name] for name in needed] + [group.cost for group in groups if needed & set(group.features)]
    assert costs.meter().cost(chosen) == math.fsum(expected)


@pytest.mark.parametrize(
    ("derived", "message"),
    [
        ({"a": ["a"]}, "feature 'a' is derived from itself"),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, "feature 'a' is derived from itself"),
        ({"a": ["z"]}, "feature 'a' is derived from 'z', which has no cost"),
        ({"z": ["a"]}, "feature 'z' is derived from others and has no cost"),
    ],
)
def test_what_cannot_be_derived(derived: dict[str, list[str]], message: str) -> None:
    """Circles and unknown names are refused."""
    with pytest.raises(DesignError, match=message):
        CostModel.from_mapping({"a": 1, "b": 1, "c": 1}, derived=derived)


def test_a_wrong_price_of_a_source_names_its_feature() -> None:
    """It is not moved to a group first."""
    with pytest.raises(DesignError, match="the cost of feature 'a' is 'x'"):
        CostModel.from_mapping({"a": "x", "b": 0}, derived={"b": ["a"]})  # type: ignore[dict-item]
