"""The cost function."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, strategies as st

from emsco_runtime import Meter
from tests.runtime.strategies import NAMES, prices

meters = st.builds(
    lambda costs, group_of, groups: Meter(dict(zip(NAMES, costs, strict=True)), group_of, groups),
    st.lists(prices, min_size=len(NAMES), max_size=len(NAMES)),
    # Of three features one is in no group, one in one, and one in several.
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["g0", "g1", ("g0", "g1"), ("g1",), ()])),
    st.fixed_dictionaries({"g0": prices, "g1": prices}),
)
names = st.lists(st.sampled_from(NAMES))


def exact(meter: Meter, chosen: list[str]) -> float:
    """Add the same amounts as exact fractions and round once: an independent cost function."""
    needed = [meter.group_of.get(name, ()) for name in chosen]
    groups = {group for one in needed for group in ([one] if isinstance(one, str) else one)}
    amounts = [meter.features[name] for name in set(chosen)] + [meter.groups[group] for group in groups]
    return float(sum(map(Fraction, amounts), Fraction(0)))


@given(meters, names)
def test_each_feature_and_group_is_charged_once_and_exactly(meter: Meter, chosen: list[str]) -> None:
    """The cost is the correctly rounded sum of distinct features and touched groups, however often a name is given."""
    assert meter.cost(chosen) == meter.cost(chosen * 2) == exact(meter, chosen)


@given(meters, names, st.randoms())
def test_the_order_of_features_does_not_matter(meter: Meter, chosen: list[str], random: object) -> None:
    """Two orders of acquiring the same features cost the same to the last digit."""
    shuffled = list(chosen)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert meter.cost(shuffled) == meter.cost(chosen)


@given(meters, names, names)
def test_an_increment_is_what_was_not_paid_before(meter: Meter, before: list[str], added: list[str]) -> None:
    """`increment` charges new features and newly touched groups only: together with what was paid it makes the whole."""
    whole = exact(meter, before + added)
    assert abs(meter.cost(before) + meter.increment(before, added) - whole) <= 1e-9 * max(1.0, whole)
    assert meter.increment(before + added, added) == 0.0


def test_a_feature_of_several_groups_pays_each_once() -> None:
    """It touches all its groups; what others have paid for is not paid again."""
    meter = Meter({"a": 1.0, "b": 0.5, "c": 0.0}, {"a": ("dns", "body"), "b": "dns", "c": "body"}, {"dns": 8.0, "body": 2.0})
    assert [meter.cost(names) for names in (["a"], ["a", "b"], ["b", "c"], ["a", "b", "c"])] == [11.0, 11.5, 10.5, 11.5]
    assert meter.increment(["b"], ["a"]) == 3.0
    assert meter.increment(["b", "c"], ["a"]) == 1.0
    assert (meter.groups_of("a"), meter.groups_of("b"), Meter({"x": 1.0}, {}, {}).groups_of("x")) == (
        ("dns", "body"),
        ("dns",),
        (),
    )


def test_turneys_discount_is_a_group() -> None:
    """A test that costs 87.30 alone and 1.00 after another of its group: own cost 1.00 in a group of cost 86.30."""
    meter = Meter({"thal": 1.0, "exang": 1.0}, {"thal": "stress", "exang": "stress"}, {"stress": 86.3})
    assert meter.cost(["thal"]) == 87.3
    assert meter.increment(["thal"], ["exang"]) == 1.0


def test_two_orders_of_adding_that_floats_tell_apart() -> None:
    """41.59 and 41.589999999999996 are the same bill: the sum is computed from the set, rounded once."""
    costs = dict(zip(NAMES, [7.27, 1.0, 1.0, 22.78, 7.27, 1.0, 1.27], strict=True))
    meter = Meter(costs, {}, {})
    assert meter.cost(NAMES) == meter.cost(reversed(NAMES)) == float(sum(map(Fraction, costs.values())))
