"""`profile`: prices of acquirers, with a clock of the tests' own, under which every call takes a given time."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from emsco_runtime import Acquirers
from emsco_train import CostModel, DataError, DesignError
from emsco_train.costs.profiling import Profile, profile, profiler as measuring
from emsco_train.costs.profiling.call_groups import CallGroups, plan_steps
from emsco_train.costs.profiling.clock import CLOCKS, Clock, calibrate_clock
from emsco_train.costs.profiling.cost_profile import CallFigures, GroupFigures
from emsco_train.costs.profiling.timings import Spread

RESOLUTION_S = 1e-8


class FakeClock:
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.now = 0

    def read(self) -> int:
        """Return the nanoseconds so far."""
        return self.now

    def wall(self) -> float:
        """Return the seconds so far: in this time, nothing waits."""
        return self.now * 1e-9

    def advance(self, micros: float) -> None:
        """Advance the clock."""
        self.now += round(micros * 1000)


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Replace both clocks with one of the test's own."""
    made = FakeClock()
    monkeypatch.setattr(measuring, "calibrate_clock", lambda name: Clock(name, made.read, 0.0, RESOLUTION_S, made.wall))
    return made


class Message:
    """An item that keeps the work done on it, as a lazily parsed message does."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight
        self.done: set[str] = set()


def measure(acquirers: Acquirers, samples: list[Any], **options: Any) -> Profile:
    """Profile with a fixed seed."""
    return profile(acquirers, samples, rng=np.random.default_rng(0), **options)


def make_acquirer(fake_clock: FakeClock, own: float, shared: Mapping[str, float] | None = None) -> Callable[[Message], float]:
    """Return an acquirer that takes its own time, and that of shared work unless it was done on the item before."""

    def acquire(message: Message) -> float:
        for name, micros in (shared or {}).items():
            if name not in message.done:
                message.done.add(name)
                fake_clock.advance(micros * message.weight)
        fake_clock.advance(own * message.weight)
        return 1.0

    return acquire


# Prices


def test_separate_acquirers_cost_what_they_take(fake_clock: FakeClock) -> None:
    """The median over the items; the quartiles show how items differ; the unit scales all of it."""
    acquirers = Acquirers()
    acquirers.feature("cheap")(make_acquirer(fake_clock, 2.0))
    acquirers.feature("expensive")(make_acquirer(fake_clock, 300.0))
    found = measure(acquirers, [Message(weight) for weight in (1, 2, 3, 4, 5)], repeats=2)
    assert found.cost_model().features == {"cheap": 6.0, "expensive": 900.0}
    assert found.cost_model("ms").features == {"cheap": 0.006, "expensive": 0.9}
    assert found.cost_model("s").unit == "s of CPU time"
    assert (found.calls[1].own.low, found.calls[1].own.high) == pytest.approx((600e-6, 1200e-6))
    assert found.together is not None
    assert found.together.value == pytest.approx(906e-6)
    assert found.cautions == ()


def test_the_mean_follows_a_heavy_tail(fake_clock: FakeClock) -> None:
    """One huge item among many changes the mean and not the median."""
    acquirers = Acquirers()
    acquirers.feature("parse")(make_acquirer(fake_clock, 1.0))
    samples = [Message(weight) for weight in (1, 1, 1, 1, 96)]
    assert measure(acquirers, samples).cost_model().features == {"parse": 1.0}
    assert measure(acquirers, samples, statistic="mean").cost_model().features == {"parse": 20.0}


@given(
    own=st.lists(st.integers(1, 500), min_size=2, max_size=5),
    shared=st.integers(0, 5000),
    apart=st.integers(1, 500),
    noise=st.integers(0, 9),
    seed=st.integers(0, 99),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_group_and_own_prices_are_recovered(
    fake_clock: FakeClock, own: list[int], shared: int, apart: int, noise: int, seed: int
) -> None:
    """Whatever is shared and whatever each member adds: both are recovered exactly, and costs are those of real calls.

    Every third call is disturbed; the minimum over the repeats is not affected.
    """
    acquirers = Acquirers()
    count = iter(range(10**9))

    def add_noise(acquire: Callable[[Message], float]) -> Callable[[Message], float]:
        def noisy(message: Message) -> float:
            fake_clock.advance(1000.0 * noise * (next(count) % 3 == 0))
            return acquire(message)

        return noisy

    names = [f"member{place}" for place in range(len(own))]
    for name, micros in zip(names, own, strict=True):
        acquirers.feature(name)(add_noise(make_acquirer(fake_clock, micros, {"parse": shared})))
    acquirers.feature("apart")(add_noise(make_acquirer(fake_clock, apart)))
    found = profile(acquirers, [Message()], rng=np.random.default_rng(seed), groups={"html": names}, repeats=40)
    costs = found.cost_model()
    assert costs.features == {**dict(zip(names, map(float, own), strict=True)), "apart": float(apart)}
    assert costs.groups[0].cost == shared
    assert costs.meter().cost(["apart", names[-1]]) == pytest.approx(apart + shared + own[-1])


def test_one_call_for_several_features_is_a_group(fake_clock: FakeClock) -> None:
    """The group is named after the function and costs what the call takes; its features cost nothing beyond it."""
    acquirers = Acquirers()

    @acquirers.features("spf", "dkim")
    def authentication(message: Message) -> dict[str, float]:
        fake_clock.advance(40)
        return {"spf": 1.0, "dkim": 0.0, "other": 2.0}

    acquirers.features("links", "forms")(lambda message: (fake_clock.advance(7), 1))
    acquirers.features("images", "tables")(lambda message: (fake_clock.advance(9), 1))
    found = measure(acquirers, [Message()], groups={"body": ["tables", "images"]})
    costs = found.cost_model()
    assert set(costs.features.values()) == {0.0}
    assert {group.name: (group.cost, group.features) for group in costs.groups} == {
        "authentication": (40.0, ("spf", "dkim")),
        "lambda": (7.0, ("links", "forms")),
        "body": (9.0, ("images", "tables")),
    }
    assert found.cautions == ()


def test_two_calls_of_one_name_are_two_groups(fake_clock: FakeClock) -> None:
    """Functions may have the same name; groups may not."""
    acquirers = Acquirers()
    for pair in (("a", "b"), ("c", "d"), ("e", "f")):
        acquirers.features(*pair)(lambda message: (fake_clock.advance(1), 1))
    assert [group.name for group in measure(acquirers, [1]).groups] == ["lambda", "lambda_2", "lambda_3"]


def test_which_acquirer_serves_a_feature(fake_clock: FakeClock) -> None:
    """One for single items goes before one for many, as in `decide`; one for many gets a list of one."""
    acquirers = Acquirers()
    seen: list[Any] = []

    @acquirers.batch("a", "b")
    def many(messages: list[Any]) -> dict[str, list[int]]:
        seen.append(messages)
        fake_clock.advance(5)
        return {"a": [1], "b": [2]}

    acquirers.feature("a")(lambda message: fake_clock.advance(2))
    acquirers.batch("c")(lambda messages: [fake_clock.advance(3) for _ in messages])
    assert measure(acquirers, ["x"]).cost_model().features == {"b": 5.0, "a": 2.0, "c": 3.0}
    assert all(messages == ["x"] for messages in seen)


def test_async_acquirers_share_one_loop(fake_clock: FakeClock) -> None:
    """They are awaited in one event loop, as a service would; an object with an async call is one too."""
    acquirers, loops = Acquirers(), set()

    class Source:
        async def __call__(self, message: Message) -> float:
            await asyncio.sleep(0)
            loops.add(id(asyncio.get_running_loop()))
            fake_clock.advance(12)
            return 1.0

    acquirers.feature("reputation")(Source())
    assert measure(acquirers, [Message()], clock="wall").cost_model().features == {"reputation": 12.0}
    assert len(loops) == 1


def test_waiting_takes_the_middle_one_of_the_repeats(fake_clock: FakeClock) -> None:
    """The quickest answer of a network is not what an answer takes."""
    acquirers = Acquirers()
    waits = iter([5, 5] + [1, 9, 5] * 20)
    acquirers.feature("lookup")(lambda message: fake_clock.advance(next(waits)))
    found = measure(acquirers, ["x"], clock="wall", repeats=9)
    # Every pass calls it twice, once by itself and once among others.
    assert found.cost_model().features == {"lookup": 5.0}
    assert found.cost_model().unit == "us of wall time"


# Fresh items


def test_every_measurement_has_a_fresh_item(fake_clock: FakeClock) -> None:
    """`make` is called for each, outside of the clock; the samples themselves are never handed out."""
    acquirers, made = Acquirers(), []

    def make(sample: str) -> Message:
        fake_clock.advance(10_000)
        made.append(Message())
        return made[-1]

    acquirers.feature("a")(make_acquirer(fake_clock, 3, {"parse": 50}))
    found = measure(acquirers, ["raw"], make=make, repeats=3)
    assert found.cost_model().features == {"a": 53.0}
    # One step by itself and one among others, in each repeat and in the warm-up.
    assert len(made) == 2 * (3 + 1)


def test_samples_are_copied_by_default(fake_clock: FakeClock) -> None:
    """What an acquirer keeps on an item is not there the next time, nor on the sample."""
    acquirers, sample = Acquirers(), Message()
    acquirers.feature("a")(make_acquirer(fake_clock, 3, {"parse": 50}))
    assert measure(acquirers, [sample]).cost_model().features == {"a": 53.0}
    assert sample.done == set()


def test_an_item_that_cannot_be_made_is_an_error(fake_clock: FakeClock) -> None:
    """The error names the sample and the remedy."""
    acquirers = Acquirers()
    acquirers.feature("a")(len)
    with pytest.raises(DataError, match=r"no item can be made from sample 0: TypeError: .*Give `make` a function"):
        measure(acquirers, [threading.Lock()])


def test_same_seed_same_order() -> None:
    """A pass is a matter of its generator alone, calls each in every role once per item, and mixes the items."""
    sharing = CallGroups({"html": (1, 3, 4)}, {"pair": 2})
    first, again = (plan_steps(4, 5, sharing, np.random.default_rng(7)) for _ in range(2))
    assert first == again != plan_steps(4, 5, sharing, np.random.default_rng(8))
    called = sorted((step.item, position, role) for step in first for position, role in step.calls)
    roles = [*((place, "first") for place in range(5)), *((place, "after") for place in (1, 3, 4))]
    roles += [(place, "mixed") for place in range(5)]
    assert called == sorted((item, *role) for item in range(4) for role in roles)
    assert [step.item for step in first] != sorted(step.item for step in first)
    for step in first:
        assert len({position for position, _ in step.calls}) == len(step.calls)


# Failures


def test_failures_are_counted_and_left_out(fake_clock: FakeClock) -> None:
    """The price comes from the items on which an acquirer succeeds; a caution reports the others."""
    acquirers = Acquirers()

    @acquirers.feature("rate")
    def rate(number: int) -> float:
        fake_clock.advance(4 if number else 900)
        return 1 / number

    found = measure(acquirers, [0, 1, 2, 3], repeats=2)
    assert found.cost_model().features == {"rate": 4.0}
    assert (found.calls[0].calls, found.calls[0].failures) == (16, 4)
    assert found.calls[0].error == "ZeroDivisionError: division by zero"
    message = "rate failed in 4 of 16 calls, which are left out; the first: ZeroDivisionError: division by zero"
    assert found.cautions == (message,)


def _generator(message: Message) -> Iterator[int]:
    yield 1


async def _forgotten(message: Message) -> int:
    return 1


def _return_coroutine(message: Message) -> Any:
    return _forgotten(message)


def _raise_error(message: Message) -> int:
    raise OSError


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_raise_error, "OSError"),
        (_generator, "returned a generator"),
        (_return_coroutine, "returned a coroutine: write it as `async def`"),
        (lambda: 1, "takes 0 positional arguments"),
    ],
)
def test_an_acquirer_that_always_fails_is_an_error(function: Callable[..., Any], message: str) -> None:
    """The error says in one line what is wrong with it, and names its feature."""
    acquirers = Acquirers()
    acquirers.feature("x")(function)
    with pytest.raises(DataError, match=rf"\(x\) failed on every item; the first time: .*{message}"):
        measure(acquirers, [Message()])


@pytest.mark.parametrize(
    ("outcome", "message"),
    [({"a": 1}, "b: .*lacks it"), ((1, 2, 3), "a: .*must return 2 values"), (5, "a: .*mapping, or a sequence")],
)
def test_every_registered_feature_must_be_returned(outcome: object, message: str) -> None:
    """A call that does not return one of its features is a failed call."""
    acquirers = Acquirers()
    acquirers.features("a", "b")(lambda message: outcome)
    with pytest.raises(DataError, match=message):
        measure(acquirers, [1])


def test_a_call_beyond_its_time_out_is_a_failure() -> None:
    """Async ones are cancelled, plain ones fail afterwards; real time, of which there is always more than the limit."""
    acquirers = Acquirers()

    @acquirers.feature("hangs", timeout_s=0.001)
    async def hangs(message: Message) -> float:
        await asyncio.sleep(60)
        return 1.0

    with pytest.raises(DataError, match="TimeoutError"):
        measure(acquirers, [1], repeats=1)
    slow = Acquirers()
    slow.feature("slow", timeout_s=1e-9)(lambda message: sum(range(1000)))
    with pytest.raises(DataError, match="and its timeout_s is 1e-09"):
        measure(slow, [1], repeats=1)


def test_members_that_never_succeed_together(fake_clock: FakeClock) -> None:
    """Without one item on which both work nothing shows what they share."""
    acquirers = Acquirers()
    acquirers.feature("even")(lambda number: 1 / (number % 2 - 1))
    acquirers.feature("odd")(lambda number: 1 / (number % 2))
    with pytest.raises(DataError, match=r"group parity: .* succeed together on no item"):
        measure(acquirers, [0, 1], groups={"parity": ["even", "odd"]})


def test_working_only_after_others_is_not_enough(fake_clock: FakeClock) -> None:
    """An acquirer that works only after another has no price of its own."""
    acquirers = Acquirers()
    acquirers.feature("sets")(lambda message: message.done.add("x"))
    acquirers.feature("needs")(lambda message: message.done.pop())
    with pytest.raises(DataError, match="succeeds on no fresh item"):
        measure(acquirers, [Message()], repeats=20)


def test_an_item_on_which_all_calls_fail_in_turn(fake_clock: FakeClock) -> None:
    """Where no item has all calls succeed, there is no figure for all of them together."""
    acquirers = Acquirers()
    acquirers.feature("even")(lambda number: fake_clock.advance(1) or 1 / (number % 2 - 1))
    acquirers.feature("odd")(lambda number: fake_clock.advance(1) or 1 / (number % 2))
    assert measure(acquirers, [0, 1]).together is None


# Cautions


def test_unnamed_sharing_is_noticed(fake_clock: FakeClock) -> None:
    """Prices that add up to more than the calls take together: the caution names who became cheaper after others."""
    acquirers = Acquirers()
    for name in ("links", "forms"):
        acquirers.feature(name)(make_acquirer(fake_clock, 1, {"parse": 500}))
    acquirers.feature("size")(make_acquirer(fake_clock, 20))
    (message,) = measure(acquirers, [Message()], repeats=20).cautions
    assert message.startswith("all features are priced at 1.02 ms, but take 522 us together on one item; cheaper after others:")
    assert message.endswith("Name what shares work as a group")
    assert measure(acquirers, [Message()], groups={"html": ["links", "forms"]}, repeats=20).cautions == ()


def test_shared_work_of_no_single_acquirer(fake_clock: FakeClock) -> None:
    """Acquirers that share a third of their work with one another: the caution names the sum and no acquirer."""
    acquirers = Acquirers()
    for name in ("a", "b", "c"):
        acquirers.feature(name)(make_acquirer(fake_clock, 60, {"head": 40}))
    (message,) = measure(acquirers, [Message()], repeats=20).cautions
    assert message == "all features are priced at 300 us, but take 220 us together on one item"


def test_a_group_that_shares_nothing(fake_clock: FakeClock) -> None:
    """Its price is 0, and a caution says so."""
    acquirers = Acquirers()
    for name in ("a", "b"):
        acquirers.feature(name)(make_acquirer(fake_clock, 5))
    found = measure(acquirers, [Message()], groups={"g": ["a", "b"]})
    assert found.cost_model().groups[0].cost == 0.0
    assert found.cautions == ("group g: no shared work was found; its features need no group",)


def test_a_group_of_unlike_members(fake_clock: FakeClock) -> None:
    """One member needs the text only, the other two parse it too: flat groups cannot be exact here, and a caution says so."""
    acquirers = Acquirers()
    acquirers.feature("words")(make_acquirer(fake_clock, 1, {"text": 10}))
    for name in ("links", "forms"):
        acquirers.feature(name)(make_acquirer(fake_clock, 1, {"text": 10, "parse": 200}))
    found = measure(acquirers, [Message()], groups={"body": ["words", "links", "forms"]}, repeats=20)
    assert any(text.startswith("group body: its features do not share the same work") for text in found.cautions)
    assert any("words 10 us" in text for text in found.cautions)


def test_calls_too_short_for_the_clock(fake_clock: FakeClock) -> None:
    """No call is free: one too short for the clock is priced at its resolution, so that not all costs are 0."""
    acquirers = Acquirers()
    acquirers.feature("a")(len)
    acquirers.features("b", "c")(lambda message: (1, 2))
    found = measure(acquirers, ["x"])
    costs = found.cost_model()
    assert costs.features == {"a": 0.01, "b": 0.0, "c": 0.0}
    assert costs.groups[0].cost == 0.01
    assert found.cautions[0].startswith("a, b, c: too short")
    assert found.cautions[0].endswith("too short for the clock, and priced at its resolution, 0.01 us")


def test_waiting_is_reported_where_cpu_time_is_counted() -> None:
    """A source that sleeps takes hardly any CPU time; with wall time there is no such caution."""
    acquirers = Acquirers()

    @acquirers.feature("lookup")
    async def lookup(message: str) -> float:
        await asyncio.sleep(0.02)
        return 1.0

    # On a busy machine there may be cautions of other kinds.
    cautions = measure(acquirers, ["x"], repeats=2).cautions
    assert any("mostly waits, which CPU time does not count; wall time would" in text for text in cautions)
    assert not [text for text in measure(acquirers, ["x"], repeats=2, clock="wall").cautions if "waits" in text]


# Wrong use


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"g": ["a"]}, r"'g' is \['a'\]: expected two features or more"),
        ({"g": "ab"}, "'g' is 'ab': expected two features or more"),
        ({"": ["a", "b"]}, "a group has no name"),
        ({"g": ["a", "zz"]}, "'g' holds 'zz', which no acquirer returns"),
        ({"g": ["a", "b"], "h": ["b", "e"]}, "'b' is in 'g' and in 'h'"),
        ({"g": ["a", "c"]}, "'g' holds c and d of one call, .*, which are a group of their own"),
    ],
)
def test_groups_that_cannot_be(groups: Any, message: str) -> None:
    """Each fault is an error before anything is called."""
    acquirers = Acquirers()
    for name in ("a", "b", "e"):
        acquirers.feature(name)(_raise_error)
    acquirers.features("c", "d")(_raise_error)
    with pytest.raises(DesignError, match=message):
        measure(acquirers, [1], groups=groups)


def test_options_that_cannot_be() -> None:
    """All faults are in one error; no samples is an error of the data."""
    acquirers = Acquirers()
    acquirers.feature("a")(len)
    with pytest.raises(DesignError, match=r"repeats is 0: .*; clock is 'sun': expected one of cpu, wall; statistic is 'mode'"):
        measure(acquirers, ["x"], repeats=0, clock="sun", statistic="mode")
    with pytest.raises(DataError, match="there is no sample item"):
        measure(acquirers, [])


def test_registries_that_cannot_be() -> None:
    """Nothing registered, a feature twice, names that are not text, something that is not a function."""
    with pytest.raises(DesignError, match="none is registered"):
        measure(Acquirers(), [1])
    acquirers = Acquirers()
    acquirers.feature("a")(len)
    acquirers.feature("a")(sum)
    acquirers.features(5, "b")(max)  # type: ignore[arg-type]  # on purpose
    acquirers.feature("c")(None)  # type: ignore[type-var]  # on purpose
    with pytest.raises(DesignError) as refused:
        measure(acquirers, [1])
    message = str(refused.value)
    assert "max is registered for (5, 'b'): expected feature names" in message
    assert "what is registered for c is not a function: None" in message
    assert "feature 'a' has 2 acquirers (len, sum): keep one" in message


def test_inside_a_running_loop_plain_acquirers_only(fake_clock: FakeClock) -> None:
    """Async ones need a loop of their own; the error says where to call it."""
    plain, waiting = Acquirers(), Acquirers()
    plain.feature("a")(lambda message: fake_clock.advance(1))
    waiting.feature("a")(_forgotten)

    async def inside(acquirers: Acquirers) -> Profile:
        return measure(acquirers, ["x"])

    assert asyncio.run(inside(plain)).cost_model().features == {"a": 1.0}
    with pytest.raises(DesignError, match="call it in a thread"):
        asyncio.run(inside(waiting))


def test_progress_is_reported_to_its_end(fake_clock: FakeClock) -> None:
    """Counts rise by one up to their total, over all repeats."""
    acquirers, reported = Acquirers(), []
    acquirers.feature("a")(lambda message: 1)
    measure(acquirers, ["x", "y"], repeats=3, on_progress=lambda done, total: reported.append((done, total)))
    assert reported == [(count, 12) for count in range(1, 13)]


# Clocks


@pytest.mark.parametrize("name", CLOCKS)
def test_real_clocks_are_calibrated(name: Any) -> None:
    """Reading takes some time, and no clock has an infinite resolution."""
    clock = calibrate_clock(name)
    assert clock.overhead_s >= 0
    assert clock.resolution_s >= 1e-9
    start = clock.read()
    sum(range(100_000))
    assert clock.seconds(start, clock.read()) > 0


def test_the_resolution_of_a_coarse_clock_is_its_step() -> None:
    """A clock that stands still between steps has the step as its resolution, and costs nothing to read."""
    readings = iter(range(10**9))
    clock = calibrate_clock("cpu", lambda: next(readings) // 50_000 * 10_000_000)
    assert (clock.overhead_s, clock.resolution_s) == (0.0, pytest.approx(0.01))


def test_a_real_profile_prices_everything() -> None:
    """With the clocks of this machine, all calls have a price above 0, whichever clock it is."""
    acquirers = Acquirers()
    acquirers.feature("length")(len)
    acquirers.feature("letters")(lambda text: len(set(text)))
    for clock in ("cpu", "wall"):
        found = measure(acquirers, ["some text"] * 3, clock=clock)
        assert all(cost > 0 for cost in found.cost_model().features.values())


# The file


def make_profile() -> Profile:
    """Return a profile with names that need quotes and a text that needs care."""
    calls = (
        CallFigures(("size, bytes",), None, Spread(1e-6, 5e-7, 2e-6), Spread(1e-6, 5e-7, 2e-6), 10, 0, None),
        CallFigures(("links", "a.b"), "ht ml", Spread(0, 0, 0), Spread(1 / 3, 0.1, 0.5), 10, 3, "ValueError: x"),
    )
    groups = (GroupFigures("ht ml", ("links", "a.b"), Spread(1 / 3, 0.1, 0.5)),)
    when = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    return Profile(calls, groups, 5, 2, "wall", "mean", None, when)


def test_the_costs_file_is_read_back(tmp_path: Path) -> None:
    """Names, prices and unit survive; date, spread and counts are comments."""
    found, path = make_profile(), tmp_path / "costs.toml"
    found.write(path, "ms")
    assert CostModel.from_file(path) == found.cost_model("ms")
    text = path.read_text(encoding="utf-8")
    head, how, unit = text.splitlines()[:3]
    assert head.endswith("on 2030-01-02 03:04 UTC: wall time, 5 items, 2 repeats.")
    assert "the mean over the items of the middle one of the repeats" in how
    assert unit == 'unit = "ms of wall time"'
    assert '"size, bytes" = 0.001  # 0.0005 to 0.002; 10 calls\n' in text
    assert '"a.b" = 0.0  # paid by its group; 10 calls, 3 failed\n' in text
    assert "cost = 333.3  # 100 to 500\n" in text
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file stays complete, and no temporary file remains."""
    path = tmp_path / "costs.toml"
    path.write_text("old", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        make_profile().write(path)
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    """What a link points to is replaced, not the link; a pipe or a device is written to, never replaced."""
    real, link, pipe = tmp_path / "real.toml", tmp_path / "link.toml", tmp_path / "pipe.toml"
    real.write_text("old", encoding="utf-8")
    link.symlink_to(real)
    make_profile().write(link)
    assert link.is_symlink()
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        make_profile().write(pipe)
        assert os.read(reader, 1 << 16).decode() == real.read_text(encoding="utf-8")
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_profile_is_a_value() -> None:
    """It can be copied and compared; a caution changes it."""
    assert copy.deepcopy(make_profile()) == make_profile()
