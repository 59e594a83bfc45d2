"""Registering acquirers, and binding them to a bundle: every fault at once, before the first item."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from emsco_runtime import AcquirerCache, Acquirers, BindError, Bundle, Cascade, CircuitBreaker, InputError
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle


def bind_sample(acquirers: Any, bundle: Bundle | None = None, **options: Any) -> tuple[str, ...]:
    """Bind and return the faults."""
    with pytest.raises(BindError) as caught:
        Cascade(bundle or sample_bundle(), acquirers, **options)
    return caught.value.faults


def test_decorators_leave_the_function_as_it_is() -> None:
    """A decorated function can still be called and tested like any other."""
    acquirers = Acquirers()

    @acquirers.feature("size")
    def size(item: str) -> int:
        return len(item)

    assert size("four") == 4
    assert acquirers.names == ("size",)
    assert [str(entry) for entry in acquirers.entries] == [f"{size.__qualname__}"]


def test_a_decorator_without_a_name_is_refused_at_once() -> None:
    """`@acquirers.feature` without the call is not taken for a name."""
    acquirers = Acquirers()
    with pytest.raises(TypeError, match=r'write @acquirers.feature\("name"\)'):
        acquirers.feature(len)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["timeout", "retries", "ttl"])
def test_options_that_are_not_built_do_not_exist(option: str) -> None:
    """An unknown option is a TypeError, never accepted and ignored."""
    with pytest.raises(TypeError):
        Acquirers().feature("size", **{option: 1.0})


@pytest.mark.parametrize("option", ["deadline", "timeout_s", "cost"])
def test_decide_has_no_options_that_do_nothing(option: str) -> None:
    """`decide` refuses options that it does not have."""
    with pytest.raises(TypeError):
        Cascade(sample_bundle()).decide({"size": 3.0}, **{option: 1.0})


def test_every_missing_feature_is_named_at_once() -> None:
    """One error lists all features without an acquirer, with how to register one."""
    faults = bind_sample(RecordingAcquirers("links"))
    assert len(faults) == 2
    assert "feature 'size': no acquirer is registered for it. Register one with @acquirers.feature(\"size\")" in faults
    assert "'reputation'" in faults[1]


def test_a_misspelt_feature_is_recognised() -> None:
    """A registered name that is close to a missing one is offered."""
    (fault,) = bind_sample(RecordingAcquirers("size", "links", "reputatoin"))
    assert "did you mean it by 'reputatoin'?" in fault


def test_features_of_other_bundles_do_not_disturb() -> None:
    """A registry may serve several bundles: what this one does not need is ignored."""
    acquirers = RecordingAcquirers("size", "links", "reputation", "weather")
    Cascade(sample_bundle(), acquirers).decide({"size": 0.0, "links": 0.0, "reputation": 0.0})
    assert ("weather",) not in acquirers.asked


def test_two_acquirers_for_one_feature_are_refused() -> None:
    """Nobody has to guess which of two callables is called."""
    (fault,) = bind_sample(RecordingAcquirers("size", "links", "reputation", ("size", "weather")))
    assert "'size': 2 acquirers are registered" in fault


async def _asynchronous(item: object) -> float:
    return 1.0


class _AsyncCallable:
    async def __call__(self, item: object) -> float:
        return 1.0


def _generator(item: object) -> Any:
    yield 1.0


async def _async_generator(item: object) -> Any:
    yield 1.0


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: 1.0, "must take one argument, the item"),
        (lambda item, other: 1.0, "must take one argument, the item"),
        (lambda *, item: 1.0, "must take one argument, the item"),
        (_generator, "it uses yield"),
        (_async_generator, "it uses yield"),
        (3.0, "not callable: 3.0"),
    ],
    ids=["no argument", "two arguments", "keyword only", "generator", "async generator", "not callable"],
)
def test_unusable_callables_are_found_when_bound(function: Any, expected: str) -> None:
    """A callable that could never serve an item is refused before the first one comes."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.feature("size")(function)
    (fault,) = bind_sample(acquirers)
    assert expected in fault
    assert "'size'" in fault


def test_a_batch_acquirer_must_take_the_list_of_items() -> None:
    """The message for a batch acquirer speaks of the list of items."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.batch("size")(lambda: [1.0])
    (fault,) = bind_sample(acquirers)
    assert "the list of items" in fault


@pytest.mark.parametrize("function", [_asynchronous, _AsyncCallable()], ids=["function", "object"])
def test_a_batch_acquirer_must_be_plain(function: Any) -> None:
    """An async batch acquirer is refused when bound, with what to do instead."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.batch("size")(function)
    (fault,) = bind_sample(acquirers)
    assert "a batch acquirer must be a plain function" in fault


@pytest.mark.parametrize("function", [_asynchronous, _AsyncCallable()], ids=["function", "object"])
def test_async_acquirers_bind_but_plain_deciding_refuses_them(function: Any) -> None:
    """They are for `decide_async`; `decide` and `decide_many` say so, before anything is called."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.feature("size")(function)
    cascade = Cascade(sample_bundle(), acquirers)
    with pytest.raises(BindError, match=r"decide: the acquirer of 'size' is async\. Use decide_async"):
        cascade.decide({})
    with pytest.raises(BindError, match=r"decide_many: the acquirer of 'size' is async\. Use decide_many_async"):
        cascade.decide_many([{}])
    assert acquirers.calls == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timeout_s": 0}, "timeout_s: expected a number of seconds above 0, got 0"),
        ({"timeout_s": True}, "timeout_s: expected a number of seconds above 0, got True"),
        ({"timeout_s": math.inf}, "timeout_s: expected a number of seconds above 0, got inf"),
        ({"timeout_s": "1"}, "timeout_s: expected a number of seconds above 0, got '1'"),
        ({"breaker": 3}, "breaker: expected a CircuitBreaker, got int"),
        ({"cache": {}}, "cache: expected an AcquirerCache, got dict"),
    ],
)
def test_unusable_options_are_found_when_bound(options: dict[str, Any], expected: str) -> None:
    """An invalid timeout, or something else instead of a breaker or a cache, is reported with the acquirer."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.feature("size", **options)(len)
    (fault,) = bind_sample(acquirers)
    assert expected in fault
    assert "'size'" in fault


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pool": 4}, "pool: expected an AcquirerPool, got int"),
        ({"concurrency": 0}, "concurrency: expected a whole number of at least 1, got 0"),
        ({"observers": [3]}, "observers: 3 cannot be called"),
        ({"listener": 3}, "listener: 3 is not callable"),
    ],
)
def test_unusable_options_of_a_cascade(options: dict[str, Any], expected: str) -> None:
    """Options of the cascade are checked before anything is bound."""
    (fault,) = bind_sample(None, **options)
    assert fault == expected


def test_builtins_without_a_signature_are_accepted() -> None:
    """Some built-in callables have no signature to read: they are accepted."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.feature("size")(math.hypot)
    assert Cascade(sample_bundle(), acquirers).decide(3.0).label == "spam"


@pytest.mark.parametrize("names", [(), (3,), (["a", "b"],), ("size", "size")], ids=["none", "a number", "a list", "twice"])
def test_invalid_names(names: tuple[Any, ...]) -> None:
    """An acquirer needs names of features, each once."""
    acquirers = RecordingAcquirers("size", "links", "reputation")
    acquirers.features(*names)(lambda item: {})
    assert any("named twice" in fault or "as text" in fault for fault in bind_sample(acquirers))
    assert set(acquirers.names) == {"size", "links", "reputation"}


@pytest.mark.parametrize("policy", ["ignore", "RAISE", 3])
def test_unknown_policies_are_refused(policy: Any) -> None:
    """A policy that does not exist is refused, on an acquirer and on the cascade, and both are reported at once."""
    faults = bind_sample(RecordingAcquirers("size", "links", ("reputation",), on_failure=policy), on_failure=policy)
    assert len(faults) == 4
    assert all(f"expected one of raise, reject, default, got {policy!r}" in fault for fault in faults)


def test_the_default_policy_needs_a_fallback() -> None:
    """`on_failure="default"` without a fallback value in the bundle is found when bound, not when the source fails."""
    features = [Feature(name="a", kind="numeric", cost=1.0), Feature(name="b", kind="numeric", cost=1.0, fallback=0.0)]
    bundle = make_bundle([["a"], ["b"]], features=features)
    (fault,) = bind_sample(RecordingAcquirers("a", "b"), bundle, on_failure="default")
    assert "'a'" in fault
    assert "no fallback" in fault
    Cascade(bundle, RecordingAcquirers("a", "b"), on_failure="reject")


def test_acquirers_must_be_a_registry() -> None:
    """A plain mapping of functions is refused with the type got."""
    (fault,) = bind_sample({"size": len})
    assert "expected an emsco_runtime.Acquirers, got dict" in fault


def test_many_faults_make_one_readable_error() -> None:
    """All faults stand in one message, a line each; a single one stays on one line; the error can be pickled."""
    with pytest.raises(BindError) as caught:
        Cascade(sample_bundle(), Acquirers())
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 faults:"
    assert len(lines) == 4
    assert pickle.loads(pickle.dumps(caught.value)).faults == caught.value.faults
    assert "\n" not in str(BindError(["one fault"]))


# Registries put together, and acquirers replaced

UNSURE = {"size": 0.0, "links": 0.0, "reputation": 0.0}


def test_registries_are_put_together() -> None:
    """`|` and `merge` give a new registry with all of both, options included; what is registered later stays out of it."""
    one, other, third = RecordingAcquirers("size"), Acquirers(), RecordingAcquirers("reputation")
    other.feature("links", timeout_s=9.0, on_failure="reject")(lambda item: 0.0)
    both = one | other
    assert type(both) is Acquirers
    assert both.names == ("links", "size")
    assert (one.names, other.names) == (("size",), ("links",))
    merged = Acquirers.merge(one, other, third)
    assert merged.entries == (*one.entries, *other.entries, *third.entries)
    one.feature("later")(len)
    assert "later" not in merged.names
    assert Cascade(sample_bundle(), merged).decide(UNSURE).stages == 3
    assert Acquirers.merge().names == ()


def test_a_feature_in_two_registries_is_refused() -> None:
    """Every feature that two registries have is named with its acquirers; one for batches as well as one for items is fine."""

    def ours(item: Any) -> float:
        return 0.0

    one, other = Acquirers(), Acquirers()
    for registry in (one, other):
        registry.feature("size")(ours)
        registry.features("links", "reputation")(ours)
    with pytest.raises(BindError) as caught:
        _ = one | other
    assert [fault.partition(":")[0] for fault in caught.value.faults] == [
        f"feature {name!r}" for name in ("size", "links", "reputation")
    ]
    assert f"by {ours.__qualname__}, {ours.__qualname__}. Keep one" in caught.value.faults[0]
    assert (RecordingAcquirers("size") | RecordingAcquirers(batch=["size"])).names == ("size",)


def test_only_registries_are_put_together() -> None:
    """A mapping of functions is not a registry, and the message says what is expected."""
    with pytest.raises(InputError, match="merge: expected Acquirers, got dict"):
        _ = Acquirers() | {"size": len}  # type: ignore[operator]


def test_an_acquirer_is_replaced_in_a_copy() -> None:
    """The copy calls the other function and keeps policy and timeout; the registry, and cascades made of it, stay."""
    acquirers = RecordingAcquirers("links", "reputation")
    breaker, cache = CircuitBreaker(), AcquirerCache(key=str, ttl_s=60.0)
    acquirers.feature("size", on_failure="reject", timeout_s=9.0, breaker=breaker, cache=cache)(lambda item: 0.0)
    before = Cascade(sample_bundle(), acquirers)
    tested = acquirers.override("size", lambda item: 3.0)
    (entry,) = [entry for entry in tested.entries if "size" in entry.names]
    # A breaker or a cache of the source that is replaced would refuse, or answer, instead of the new function.
    assert (entry.on_failure, entry.timeout_s, entry.breaker, entry.cache) == ("reject", 9.0, None, None)
    assert Cascade(sample_bundle(), tested).decide(UNSURE).label == "spam"
    assert Cascade(sample_bundle(), acquirers).decide(UNSURE).label is None
    assert before.decide(UNSURE).label is None


def test_options_of_a_replacement_can_be_given() -> None:
    """An option that is given counts, None included."""
    acquirers = Acquirers()
    acquirers.feature("size", on_failure="reject", timeout_s=9.0)(len)
    breaker, cache = CircuitBreaker(), AcquirerCache(key=str, ttl_s=60.0)
    (entry,) = acquirers.override("size", len, on_failure=None, timeout_s=None, breaker=breaker, cache=cache).entries
    assert (entry.on_failure, entry.timeout_s, entry.breaker, entry.cache) == (None, None, breaker, cache)


def test_one_of_several_features_is_replaced() -> None:
    """The others are still taken from the acquirer of several, which is called as before; with all replaced, it goes."""
    acquirers = RecordingAcquirers(("size", "links", "reputation"), on_failure="reject")
    tested = acquirers.override("links", lambda item: 9.0)
    decision = Cascade(sample_bundle(), tested).decide(UNSURE)
    assert (decision.label, decision.stages) == ("spam", 2)
    assert acquirers.asked == [("size", "links", "reputation")]
    for name in ("size", "reputation"):
        tested = tested.override(name, lambda item: 0.0)
    assert [entry.names for entry in tested.entries] == [("links",), ("size",), ("reputation",)]
    assert {entry.on_failure for entry in tested.entries} == {"reject"}
    assert tested.override("size", lambda item: -9.0).names == ("links", "reputation", "size")


def test_a_replacement_stands_in_for_batches_too() -> None:
    """Where a feature has an acquirer for items and one for batches, both are replaced, with the options of the first."""
    acquirers = RecordingAcquirers("links", "reputation", batch=["size"])
    acquirers.feature("size", timeout_s=9.0)(lambda item: 0.0)
    tested = acquirers.override("size", lambda item: 3.0)
    assert [entry.timeout_s for entry in tested.entries if "size" in entry.names] == [9.0]
    cascade = Cascade(sample_bundle(), tested)
    assert [decision.label for decision in cascade.decide_many([UNSURE, UNSURE])] == ["spam", "spam"]
    assert cascade.decide(UNSURE).label == "spam"
    assert acquirers.calls == []


def test_only_what_is_registered_can_be_replaced() -> None:
    """A misspelt name is reported, with the nearest registered name or all of them."""
    acquirers = RecordingAcquirers("size", "links")
    with pytest.raises(InputError, match=r"no acquirer is registered for the feature 'sizes'; did you mean 'size'\?"):
        acquirers.override("sizes", len)
    with pytest.raises(InputError, match=r"for the feature 'colour'\. Registered features: links, size"):
        acquirers.override("colour", len)
    with pytest.raises(InputError, match=r"for the feature 'colour'\. Registered features: none"):
        Acquirers().override("colour", len)


def test_a_replacement_that_cannot_be_called_is_told_at_binding() -> None:
    """It is checked like any acquirer."""
    acquirers = RecordingAcquirers("size", "links", "reputation").override("size", 3.0)  # type: ignore[arg-type]
    assert "not callable: 3.0" in bind_sample(acquirers)[0]
