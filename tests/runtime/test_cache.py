"""Caches of acquirers: hits, bills, what is kept and what is not."""

from __future__ import annotations

import asyncio
import os
import pickle
import weakref
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import Acquirers, BindError, Cascade, InputError
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.sources.cache import AcquirerCache, Charge
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.test_breaker import Clock, decide

UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1, "sender": "a"}
WAYS = ["decide", "many", "async", "many_async"]


def sender(item: Any) -> Any:
    """Return the key of an item; at the top level, so that it can be pickled."""
    return item["sender"]


async def async_sender(item: Any) -> Any:
    """Return a key too late."""
    return item["sender"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"key": 3}, "key: expected a function from item to a hashable value, got 3"),
        ({"key": async_sender}, "key: expected a function from item to a hashable value, got a coroutine function"),
        ({"ttl_s": 0}, "ttl_s: expected a number of seconds above 0, got 0"),
        ({"ttl_s": True}, "ttl_s: expected a number of seconds above 0, got True"),
        ({"size": 0}, "size: expected a whole number of at least 1, got 0"),
        ({"size": 2.0}, "size: expected a whole number of at least 1, got 2.0"),
        ({"charge": "half"}, 'charge: expected "free" or "full", got \'half\''),
    ],
)
def test_invalid_settings(options: dict[str, Any], expected: str) -> None:
    """Settings that could never work are refused at once, with the value got."""
    with pytest.raises(InputError) as caught:
        AcquirerCache(**({"key": sender, "ttl_s": 1.0} | options))
    assert str(caught.value) == expected


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["get", "put"]), st.sampled_from([0.0, 0.4, 1.0])), max_size=40)
)
@settings(deadline=None)
def test_it_is_a_bounded_memory_with_an_age(steps: list[tuple[str, str, float]]) -> None:
    """Any order of gets and puts: what is found is the latest value put, young enough, among the two last used."""
    clock = Clock()
    cache = AcquirerCache(key=sender, ttl_s=1.0, size=2, clock=clock)
    model: list[tuple[str, float, int]] = []
    hits = misses = 0
    for number, (key, what, passed) in enumerate(steps):
        clock.now += passed
        found = next((entry for entry in model if entry[0] == key), None)
        if what == "put":
            # What has expired makes room first.
            model = [entry for entry in model if entry[0] != key and clock.now < entry[1]] + [(key, clock.now + 1.0, number)]
            model = model[-2:]
            cache.put(key, number)
            continue
        if found is None or clock.now >= found[1]:
            misses += 1
            model = [entry for entry in model if entry[0] != key]
            assert cache.get(key) is AcquirerCache.MISS
        else:
            hits += 1
            model = [entry for entry in model if entry[0] != key] + [found]
            assert cache.get(key) == found[2]
        assert cache._entries.keys() == cache._by_expiry.keys()
    assert cache.counts == (hits, misses, sum(clock.now < entry[1] for entry in model))


def test_what_has_expired_is_not_kept() -> None:
    """A value goes when the next one is stored, though it was used after younger ones; reading the counts removes it, too."""
    clock = Clock()
    cache = AcquirerCache(key=sender, ttl_s=10.0, clock=clock)
    values = [Value() for _ in range(3)]
    alive = [weakref.ref(value) for value in values]
    for key in range(3):
        cache.put(key, values[key])
        clock.now += 1.0
    cache.get(0)
    values.clear()
    clock.now = 11.0
    assert [one() is not None for one in alive] == [True, True, True]
    cache.put("next", None)
    assert [one() is not None for one in alive] == [False, False, True]
    assert cache.counts.size == 2
    clock.now = 12.0
    assert cache.counts.size == 1
    assert [one() is not None for one in alive] == [False, False, False]
    cache.put("next", None)
    clock.now = 21.5
    assert cache.counts.size == 1  # its time began again


class Value:
    """A value that can be referred to weakly."""


def test_a_miss_is_no_value() -> None:
    """None may be a value; the sign for "not there" is something else, and says what it is."""
    cache = AcquirerCache(key=sender, ttl_s=1.0)
    cache.put("a", None)
    assert cache.get("a") is None
    assert repr(cache.get("b")) == "MISS"


def cached_cascade(charge: Charge, *features: Any, **cache: Any) -> tuple[Cascade, RecordingAcquirers, AcquirerCache]:
    """Return the sample cascade with one cached acquirer, of `features`, and plain ones for the rest."""
    made = AcquirerCache(**({"key": sender, "ttl_s": 60.0, "charge": charge} | cache))
    acquirers = RecordingAcquirers(*(name for name in ("size", "links", "reputation") if name not in features))
    recorder = RecordingAcquirers(*features) if len(features) == 1 else RecordingAcquirers(features)
    function = recorder.entries[0].function
    register = acquirers.feature if len(features) == 1 else acquirers.features
    register(*features, cache=made)(function)
    acquirers.calls = recorder.calls  # only those of the cached source
    return Cascade(sample_bundle(), acquirers), acquirers, made


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("charge", "bill", "added"), [("free", 3.0, 0.0), ("full", 28.0, 25.0)])
def test_a_hit_is_not_acquired_and_is_billed_as_asked(way: str, charge: Charge, bill: float, added: float) -> None:
    """The second item of a sender: no call; the trace shows the feature as cached; the group goes with its only member."""
    cascade, acquirers, cache = cached_cascade(charge, "reputation")
    first, second = decide(cascade, way, UNCLEAR), decide(cascade, way, UNCLEAR)
    assert (first.cost, second.cost) == (28.0, bill)
    assert first.trace[2][1:5] == (("reputation",), (), (), 25.0)
    assert first.trace[2].cached == ()
    assert second.trace[2][1:5] == ((), (), (), added)
    assert second.trace[2].cached == ("reputation",)
    assert second.probabilities == first.probabilities
    assert second.stages == 3
    assert len(acquirers.calls) == 1
    assert cache.counts == (1, 1, 1)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("charge", "costs"), [("free", (0.0, 2.0, 0.0)), ("full", (1.0, 2.0, 25.0))])
def test_a_hit_of_several_features_serves_later_stages(way: str, charge: Charge, costs: tuple[float, ...]) -> None:
    """One cached acquirer of stages 1 and 3: both features are cached at their own stage, and billed, or not, there."""
    cascade, acquirers, _ = cached_cascade(charge, "size", "reputation")
    decide(cascade, way, UNCLEAR)
    decision = decide(cascade, way, UNCLEAR)
    assert [record.cached for record in decision.trace] == [("size",), (), ("reputation",)]
    assert [record.acquired for record in decision.trace] == [(), ("links",), ()]
    assert tuple(record.cost for record in decision.trace) == costs
    assert decision.cost == sum(costs)
    assert len(acquirers.calls) == 1


def test_a_group_is_paid_by_its_first_member_that_is() -> None:
    """Of two members of a group the first came free: the second pays the group; both free: neither does."""
    bundle = make_bundle([["a"], ["b"]], costs={"a": 1.0, "b": 2.0}, groups={"g": (10.0, ["a", "b"])}, threshold=1.0)
    caches = {name: AcquirerCache(key=str, ttl_s=60.0) for name in "ab"}
    acquirers = Acquirers()
    for name in "ab":
        acquirers.feature(name, cache=caches[name])(lambda item: 0.5)
    cascade = Cascade(bundle, acquirers)
    assert cascade.decide("x").cost == 13.0
    assert cascade.decide("x").cost == 0.0
    caches["b"].reset_after_fork()
    decision = cascade.decide("x")
    assert [record.cost for record in decision.trace] == [0.0, 12.0]
    assert decision.cost == 12.0


def test_the_budget_is_checked_before_the_cache_is_asked() -> None:
    """A stage is started only if its full price fits the budget; what came free in earlier stages makes room."""
    cascade, _, _ = cached_cascade("free", "size", "reputation")
    cascade.decide(UNCLEAR)
    assert cascade.decide(UNCLEAR, budget=0.5).reason == "budget"
    decision = cascade.decide(UNCLEAR, budget=2.5)
    assert (decision.reason, decision.stages, decision.cost) == ("inconclusive", 3, 2.0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", [OSError("down"), None, float("nan"), "text", float("inf")], ids=repr)
def test_failures_are_not_kept(way: str, bad: Any) -> None:
    """An exception, or a value that the feature does not allow, is asked for again."""
    cascade, acquirers, cache = cached_cascade("free", "reputation")
    broken = Cascade(cascade.bundle, acquirers, on_failure="reject")
    for _ in range(2):
        assert decide(broken, way, {**UNCLEAR, "reputation": bad}).reason == "acquisition_failed"
    assert len(acquirers.calls) == 2
    assert cache.counts.size == 0
    assert decide(broken, way, UNCLEAR).reason == "inconclusive"
    assert cache.counts.size == 1


@pytest.mark.parametrize(
    "bad", [{"size": 0.0}, {"size": 0.0, "reputation": None}, [0.0], 3.0], ids=["key", "gap", "short", "no collection"]
)
def test_an_outcome_is_kept_whole_or_not_at_all(bad: Any) -> None:
    """Of an acquirer of several features one value is bad, even that of a later stage: the outcome is not kept."""
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = RecordingAcquirers("links")
    acquirers.features("size", "reputation", cache=cache)(lambda item: bad)
    Cascade(sample_bundle(), acquirers, on_failure="reject").decide(UNCLEAR)
    assert cache.counts.size == 0


def test_gaps_are_kept_where_they_are_values() -> None:
    """None for a feature that may be missing is a value like any other."""
    features = [Feature(name="a", kind="numeric", cost=1.0, missing="impute")]
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = Acquirers()
    acquirers.feature("a", cache=cache)(lambda item: None)
    cascade = Cascade(make_bundle([["a"]], features=features), acquirers)
    cascade.decide("x")
    assert cascade.decide("x").cost == 0.0
    assert cache.counts == (1, 1, 1)


def test_a_value_kept_for_another_bundle_is_checked_again() -> None:
    """A registry outlives bundles: a missing value that only the old one allowed is not a hit, and is acquired again."""
    given = [None, 1.0]
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = Acquirers()
    acquirers.feature("a", cache=cache)(lambda item: given.pop(0))
    lenient = make_bundle([["a"]], features=[Feature(name="a", kind="numeric", cost=1.0, missing="impute")])
    strict = make_bundle([["a"]], features=[Feature(name="a", kind="numeric", cost=1.0)])
    assert Cascade(lenient, acquirers).decide("x").errors == ()
    decision = Cascade(strict, acquirers).decide("x")
    assert (decision.errors, decision.cost) == ((), 1.0)
    assert given == []


@pytest.mark.parametrize("way", WAYS)
def test_items_without_a_key_are_not_cached(way: str) -> None:
    """None as the key: the item is acquired, and not kept."""
    cascade, acquirers, cache = cached_cascade("free", "reputation")
    for _ in range(2):
        assert decide(cascade, way, {**UNCLEAR, "sender": None}).cost == 28.0
    assert len(acquirers.calls) == 2
    assert cache.counts == (0, 0, 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", [lambda item: item["absent"], lambda item: []], ids=["raises", "not hashable"])
def test_a_key_that_fails_is_a_failure_of_the_feature(way: str, key: Any) -> None:
    """The policy of the acquirer holds, and the source is not asked."""
    cascade, acquirers, _ = cached_cascade("free", "reputation", key=key)
    decision = decide(Cascade(cascade.bundle, acquirers, on_failure="reject"), way, UNCLEAR)
    assert decision.errors[0][:3] == ("reputation", 3, "exception")
    assert decision.errors[0].message.startswith("the key function of its cache raised ")
    assert acquirers.calls == []


def test_values_grow_old() -> None:
    """After its time to live a value is acquired, and paid, again."""
    clock = Clock()
    cascade, acquirers, _ = cached_cascade("free", "reputation", clock=clock, ttl_s=5.0)
    costs = []
    for clock.now in (0.0, 4.9, 5.0, 9.9, 10.0):
        costs.append(cascade.decide(UNCLEAR).cost)
    assert costs == [28.0, 3.0, 28.0, 3.0, 28.0]
    assert len(acquirers.calls) == 3


def test_many_items_share_what_the_first_of_them_acquired() -> None:
    """In one `decide_many`, and in one `decide_many_async` of plain acquirers, the second item of a sender is a hit."""
    for run in (
        lambda cascade, rows: cascade.decide_many(rows),
        lambda cascade, rows: asyncio.run(cascade.decide_many_async(rows)),
    ):
        cascade, acquirers, _ = cached_cascade("free", "reputation")
        rows = [UNCLEAR, {**UNCLEAR, "sender": "b"}, UNCLEAR]
        assert [decision.cost for decision in run(cascade, rows)] == [28.0, 28.0, 3.0]
        assert len(acquirers.calls) == 2


@pytest.mark.parametrize("way", ["many, pool", "many, async", "many, async pool"])
def test_many_items_side_by_side_share_one_call(way: str) -> None:
    """Fifty items of one sender in threads, or in tasks: one call and one bill, as without either; `test_flight` has the rest."""
    calls: list[Any] = []

    def plain(item: Any) -> float:
        calls.append(item)
        return 0.1

    async def async_source(item: Any) -> float:
        calls.append(item)
        await asyncio.sleep(0)
        return 0.1

    acquirers = RecordingAcquirers("size", "links")
    cache = AcquirerCache(key=sender, ttl_s=60.0)
    acquirers.feature("reputation", cache=cache)(async_source if way == "many, async" else plain)
    cascade = Cascade(sample_bundle(), acquirers, pool=AcquirerPool(4) if "pool" in way else None)
    rows = [UNCLEAR] * 50
    decisions = cascade.decide_many(rows) if way == "many, pool" else asyncio.run(cascade.decide_many_async(rows))
    assert len(calls) == 1
    assert sorted(decision.cost for decision in decisions) == [3.0] * 49 + [28.0]


def test_a_cached_value_beside_a_known_one() -> None:
    """Known and free features are both left out of the bill, each under its own name in the trace."""
    cascade, _, _ = cached_cascade("free", "reputation")
    cascade.decide(UNCLEAR)
    decision = cascade.decide(UNCLEAR, known={"links": 0.1})
    assert decision.cost == 1.0
    assert [(record.known, record.cached) for record in decision.trace] == [((), ()), (("links",), ()), ((), ("reputation",))]
    assert decision.to_dict()["trace"][2]["cached"] == ["reputation"]


def test_a_batch_acquirer_has_no_cache() -> None:
    """It answers for many items at once; the option does not exist."""
    with pytest.raises(TypeError):
        Acquirers().batch("size", cache=AcquirerCache(key=str, ttl_s=1.0))  # type: ignore[call-arg]


def test_a_pickled_cache_begins_empty() -> None:
    """Settings travel, values stay."""
    cache = AcquirerCache(key=sender, ttl_s=5.0, size=7, charge="full")
    cache.put("a", 1.0)
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.counts == (0, 0, 0)
    assert (copy.charge, copy.key) == ("full", sender)
    assert cache.get("a") == 1.0


def test_a_forked_child_begins_empty_and_unlocked() -> None:
    """A lock held in the parent at the time of the fork does not hang the child."""
    cache = AcquirerCache(key=sender, ttl_s=60.0)
    cache.put("a", 1.0)
    with cache._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if cache.get("a") is AcquirerCache.MISS else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get("a") == 1.0


def test_something_else_in_its_place_is_refused() -> None:
    """A dict is not a cache."""
    acquirers = Acquirers()
    acquirers.feature("size", cache={})(len)  # type: ignore[arg-type]
    with pytest.raises(BindError, match="cache: expected an AcquirerCache, got dict"):
        Cascade(sample_bundle(), acquirers)


def test_a_cache_of_two_acquirers_is_refused() -> None:
    """Its keys do not say whose value it holds; one acquirer of several features may have one."""
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = Acquirers()
    acquirers.features("size", "links", cache=cache)(lambda item: {"size": 0.0, "links": 0.1})
    acquirers.feature("reputation")(lambda item: 0.2)
    Cascade(sample_bundle(), acquirers)
    shared = Acquirers()
    shared.features("size", "links", cache=cache)(lambda item: {"size": 0.0, "links": 0.1})
    shared.feature("reputation", cache=cache)(lambda item: 0.2)
    with pytest.raises(BindError, match=r"they share a cache, .* a cache belongs to one acquirer: make one for each"):
        Cascade(sample_bundle(), shared)
