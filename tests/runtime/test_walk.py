"""The walk of one item: who is called, in what order, and the exact bill."""

from __future__ import annotations

import math
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import AcquirerPool, Acquirers, AcquisitionError, BindError, Bundle, Cascade, Decision, InputError
from emsco_runtime.bundle.manifest import Feature, Stage
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.bundle.rule import accept
from emsco_runtime.decision import Failure
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.strategies import bundles, items, prices
from tests.runtime.test_breaker import decide

CLEAR = {"size": 3.0, "links": 0.0, "reputation": 0.0}
UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1}
LAST_STAGE = {"size": 0.0, "links": 0.0, "reputation": -3.0}


def recording_cascade(*features: Any, **options: Any) -> tuple[Cascade, RecordingAcquirers]:
    """Bind the sample bundle to acquirers that write down their calls."""
    acquirers = RecordingAcquirers(*(features or ("size", "links", "reputation")))
    return Cascade(sample_bundle(), acquirers, **options), acquirers


def test_a_clear_item_leaves_at_the_first_stage() -> None:
    """One acquirer is called, one feature is billed, and nothing of a later stage is touched."""
    cascade, acquirers = recording_cascade()
    decision = cascade.decide(CLEAR)
    assert acquirers.asked == [("size",)]
    assert (decision.status, decision.reason, decision.label, decision.stages, decision.cost) == (
        "accepted",
        "confident",
        "spam",
        1,
        1.0,
    )
    assert decision.confidence == decision.probabilities["spam"] >= 0.9
    assert not decision.degraded
    assert decision.errors == ()
    assert decision.bundle == cascade.manifest.id
    assert decision.elapsed_s > 0


def test_an_unclear_item_walks_all_stages_and_is_rejected() -> None:
    """Stages come in order, each feature is acquired once, the bill holds every feature and the group once."""
    cascade, acquirers = recording_cascade()
    decision = cascade.decide(UNCLEAR)
    assert acquirers.asked == [("size",), ("links",), ("reputation",)]
    assert (decision.status, decision.reason, decision.label, decision.stages, decision.cost) == (
        "rejected",
        "inconclusive",
        None,
        3,
        28.0,
    )
    assert [(record.stage, record.acquired, record.cost) for record in decision.trace] == [
        (1, ("size",), 1.0),
        (2, ("links",), 2.0),
        (3, ("reputation",), 25.0),
    ]
    assert decision.trace[-1].probabilities == decision.probabilities
    assert decision.confidence == max(decision.probabilities.values()) < 0.9


def test_an_acquirer_of_several_features_is_called_once() -> None:
    """It is called when its first feature is needed; the value for a later stage is kept, and billed only there."""
    cascade, acquirers = recording_cascade(("size", "reputation"), "links")
    assert cascade.decide(CLEAR).cost == 1.0
    assert acquirers.asked == [("size", "reputation")]
    acquirers.calls.clear()
    assert cascade.decide(LAST_STAGE).cost == 28.0
    assert acquirers.asked == [("size", "reputation"), ("links",)]


@pytest.mark.parametrize("kind", [dict, list, tuple, np.array])
def test_several_features_come_as_mapping_or_sequence(kind: Any) -> None:
    """A mapping by name, or a list, tuple or array in the order of the names, are the same."""
    acquirers = Acquirers()

    @acquirers.features("reputation", "links", "size")
    def everything(item: Any) -> Any:
        return dict(item) if kind is dict else kind([item["reputation"], item["links"], item["size"]])

    assert Cascade(sample_bundle(), acquirers).decide(LAST_STAGE).label == "ham"


def test_a_batch_acquirer_serves_single_items_too() -> None:
    """`decide` calls a batch acquirer with a list of one item."""
    acquirers = RecordingAcquirers("links", "reputation", batch=["size"])
    assert Cascade(sample_bundle(), acquirers).decide(CLEAR).stages == 1
    assert acquirers.calls == [(("size",), (CLEAR,))]


def test_a_single_acquirer_is_preferred_for_single_items() -> None:
    """With both kinds registered, `decide` uses the one for single items and `decide_many` the batch one."""
    acquirers = RecordingAcquirers("size", "links", "reputation", batch=["size"])
    cascade = Cascade(sample_bundle(), acquirers)
    cascade.decide(CLEAR)
    assert acquirers.calls == [(("size",), CLEAR)]
    acquirers.calls.clear()
    cascade.decide_many([CLEAR, CLEAR])
    assert acquirers.calls == [(("size",), (CLEAR, CLEAR))]


def test_items_may_be_mappings_without_acquirers() -> None:
    """Without a registry, features are read from the item by name, lazily: a missing key hurts only when it is needed."""
    cascade = Cascade(sample_bundle())
    assert cascade.decide({"size": 3.0}).stages == 1
    with pytest.raises(AcquisitionError, match="no key 'links'"):
        cascade.decide({"size": 0.0})
    with pytest.raises(
        AcquisitionError, match=r"expected an item with the key 'size', got float\. Give mappings, or register acquirers"
    ):
        cascade.decide(3.0)


# Budget


def test_a_stage_that_would_exceed_the_budget_is_not_begun() -> None:
    """The budget is a hard cap: nothing of the refused stage is acquired or billed, and the last score is in the decision."""
    cascade, acquirers = recording_cascade()
    decision = cascade.decide(UNCLEAR, budget=27.99)
    assert acquirers.asked == [("size",), ("links",)]
    assert (decision.status, decision.reason, decision.stages, decision.cost) == ("rejected", "budget", 2, 3.0)
    assert decision.confidence is not None
    assert len(decision.trace) == 2


def test_a_budget_below_the_first_stage_costs_nothing() -> None:
    """No stage scored: confidence is None, probabilities are empty, the bill is zero."""
    cascade, acquirers = recording_cascade()
    decision = cascade.decide(CLEAR, budget=0.5)
    assert (decision.reason, decision.stages, decision.cost, decision.confidence) == ("budget", 0, 0.0, None)
    assert decision.probabilities == {}
    assert decision.trace == ()
    assert acquirers.calls == []


def test_a_budget_that_is_just_met_is_enough() -> None:
    """cost == budget begins the stage; awkward decimals included."""
    names = ["a", "b", "c"]
    bundle = make_bundle([names], costs={"a": 0.1, "b": 0.2, "c": 0.3}, threshold=0.5)
    cascade = Cascade(bundle)
    bill = bundle.manifest.meter().cost(names)
    item = dict.fromkeys(names, 1.0)
    assert cascade.decide(item, budget=bill).cost == bill
    assert cascade.decide(item, budget=np.nextafter(bill, 0.0)).reason == "budget"


def test_a_budget_may_be_any_number() -> None:
    """Infinity, or a whole number that no float can hold, is a budget that is never exceeded."""
    assert Cascade(sample_bundle()).decide(UNCLEAR, budget=math.inf).cost == 28.0
    assert Cascade(sample_bundle()).decide(UNCLEAR, budget=10**400).cost == 28.0


def test_a_budget_of_a_narrow_type_is_compared_as_a_float() -> None:
    """numpy would round the cost to the type of the budget, and the stage would be started."""
    cascade = Cascade(make_bundle([["size"]], costs={"size": 100.03}))
    assert cascade.decide({"size": 1.0}, budget=np.float16(100.0)).reason == "budget"


@pytest.mark.parametrize("budget", [-0.01, math.nan, "10", True])
def test_a_budget_must_be_a_number(budget: Any) -> None:
    """Negative, NaN, text: ValueError with the value got, in every way of deciding."""
    cascade = Cascade(sample_bundle())
    for call in (
        lambda: cascade.decide(CLEAR, budget=budget),
        lambda: cascade.decide_many([CLEAR], budget=budget),
        lambda: cascade.decide_columns({name: [value] for name, value in CLEAR.items()}, budget=budget),
    ):
        with pytest.raises(ValueError, match="budget: expected a number of at least 0") as caught:
            call()
        assert isinstance(caught.value, InputError)


# Known values


def test_a_known_value_is_free_and_not_acquired() -> None:
    """A known feature is used, shown as known, left out of the bill, and its acquirer is not called."""
    cascade, acquirers = recording_cascade()
    decision = cascade.decide({"size": 0.0, "links": 0.1}, known={"reputation": 0.1})
    assert acquirers.asked == [("size",), ("links",)]
    assert decision.stages == 3
    assert decision.cost == 3.0
    assert decision.trace[2].known == ("reputation",)
    assert decision.trace[2].acquired == ()
    assert decision.trace[2].cost == 0.0


def test_known_values_make_room_in_the_budget() -> None:
    """The budget is compared with the bill, which leaves known features out."""
    cascade = Cascade(sample_bundle())
    assert cascade.decide(UNCLEAR, budget=3.0).reason == "budget"
    assert cascade.decide(UNCLEAR, budget=3.0, known={"reputation": 0.1}).reason == "inconclusive"


def test_a_partly_known_acquirer_is_still_called_and_the_known_value_wins() -> None:
    """An acquirer of two features, one known: called for the other; what it says of the known one is not used."""
    cascade, acquirers = recording_cascade(("size", "links"), "reputation")
    known = cascade.decide({"size": 3.0, "links": 0.0, "reputation": 0.0}, known={"size": 0.0})
    assert acquirers.asked == [("size", "links"), ("reputation",)]
    assert known.stages == 3
    assert [record.known for record in known.trace] == [("size",), (), ()]


def test_a_wholly_known_acquirer_is_not_called() -> None:
    """All of its features known: no call, no charge."""
    cascade, acquirers = recording_cascade(("size", "links"), "reputation")
    decision = cascade.decide({"reputation": 0.0}, known={"size": 0.0, "links": 0.0})
    assert acquirers.asked == [("reputation",)]
    assert decision.cost == 25.0


class Row:
    """A row that is read by name but is not a mapping, like sqlite3.Row or a pandas Series."""

    def __init__(self, values: dict[str, float]) -> None:
        self._values = values

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._values)

    def __getitem__(self, name: str) -> float:
        """Return a value by name."""
        return self._values[name]

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def __iter__(self) -> Any:
        """Iterate over the values, as sqlite3.Row does."""
        return iter(self._values.values())


def test_rows_with_keys_are_read_by_name() -> None:
    """A result with keys is never read by position, whatever the order of its columns."""
    acquirers = RecordingAcquirers("size")
    acquirers.features("links", "reputation")(lambda item: Row({"reputation": item["reputation"], "links": item["links"]}))
    cascade = Cascade(sample_bundle(), acquirers)
    item = {"size": 0.0, "links": 0.2, "reputation": -3.0}
    assert cascade.decide(item).probabilities == Cascade(sample_bundle()).decide(item).probabilities


def test_a_preferred_acquirer_is_used_with_known_values_too() -> None:
    """A feature that two acquirers offer comes from the one for single items, whether or not something is known."""
    acquirers = RecordingAcquirers("size")
    acquirers.batch("links", "reputation")(lambda items: {"links": [0.0] * len(items), "reputation": [9.0] * len(items)})
    acquirers.feature("reputation")(lambda item: item["reputation"])
    cascade = Cascade(sample_bundle(), acquirers)
    item = {"size": 0.0, "reputation": -3.0}
    plain = cascade.decide(item)
    known = cascade.decide(item, known={"size": 0.0})
    assert plain.label == known.label == "ham"
    assert plain.probabilities == known.probabilities


def test_known_values_are_copied() -> None:
    """A mapping that an acquirer fills meanwhile does not change what counts as known."""
    cache: dict[str, object] = {"size": 0.0}
    acquirers = RecordingAcquirers("size")
    acquirers.feature("links")(lambda item: cache.setdefault("links", 0.1))
    acquirers.feature("reputation")(lambda item: cache.setdefault("reputation", 0.1))
    assert Cascade(sample_bundle(), acquirers).decide({}, known=cache).cost == 27.0


@pytest.mark.parametrize("known", [["size"], 5, "size"])
def test_known_must_be_a_mapping(known: Any) -> None:
    """Anything else is refused with its type."""
    with pytest.raises(InputError, match="expected a mapping from feature to value"):
        Cascade(sample_bundle()).decide(CLEAR, known=known)


def test_a_cascade_is_made_of_a_bundle() -> None:
    """A path handed to the class itself is answered with the name of the method that takes one."""
    with pytest.raises(TypeError, match=r"Cascade.load\(path\)"):
        Cascade("bundles/spam")  # type: ignore[arg-type]


class UnprintableError(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        """Fail."""
        raise RuntimeError


def test_an_exception_that_cannot_be_printed_is_a_failure_like_any_other() -> None:
    """Whatever a source raises, the policy holds."""
    cascade, _ = recording_cascade(on_failure="reject")
    decision = cascade.decide({**CLEAR, "size": UnprintableError()})
    assert decision.errors[0].message == "its acquirer raised UnprintableError: (it cannot be printed)"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"sise": 1.0}, "no feature 'sise'; did you mean 'size'?"),
        ({"weather": 1.0}, "no feature 'weather'. Leave it out"),
        ({"size": "big"}, "expected a number, got 'big'"),
        ({"size": None}, "missing"),
        ({"size": math.inf}, "finite"),
    ],
)
def test_known_values_are_checked_at_once(known: dict[str, object], said: str) -> None:
    """A known value is the caller's own: a wrong one is an error of the call, named with the feature, before any work."""
    cascade, acquirers = recording_cascade()
    for call in (lambda: cascade.decide(CLEAR, known=known), lambda: cascade.decide_many([CLEAR], known=[known])):
        with pytest.raises(InputError) as caught:
            call()
        assert said in str(caught.value)
    assert acquirers.calls == []


def test_whole_numbers_that_cannot_be_printed() -> None:
    """Python refuses to write 10**5000 as text: as a value it is a failure, as an argument a limit or one clear error."""
    huge = 10**5000
    kinds = [Feature(name="a", kind="categorical", categories=("x", "y"), cost=1.0), Feature(name="b", kind="numeric", cost=1.0)]
    cascade = Cascade(make_bundle([["a"], ["b"]], features=kinds, threshold=1.0), on_failure="reject")
    for item, kind in (({"a": huge, "b": 1.0}, "unknown_category"), ({"a": "x", "b": huge}, "infinite")):
        (failure,) = cascade.decide(item).errors
        assert failure.kind == kind
        assert "a whole number of about 5000 digits (int)" in failure.message
    table = {"a": ["x", huge, "y"], "b": [1.0, 1.0, -huge]}
    assert cascade.decide_columns(table).reason.tolist() == ["inconclusive", "acquisition_failed", "acquisition_failed"]
    item = {"a": "x", "b": 1.0}
    for known, said in (
        ({"a": huge}, "known: feature 'a': unknown category a whole number of about 5000 digits"),
        ({"b": huge}, "known: feature 'b': expected a finite number, got a whole number of about 5000 digits"),
        ({huge: 1.0}, "known: the bundle has no feature a whole number of about 5000 digits. Leave it out"),
    ):
        with pytest.raises(InputError, match=said):
            cascade.decide(item, known=known)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="budget: expected a number of at least 0, got a whole number of about 5000 digits"):
        cascade.decide(item, budget=-huge)
    with pytest.raises(InputError, match="threads: expected a whole number of at least 1, got a whole number of about"):
        AcquirerPool(-huge)
    assert cascade.decide(item, budget=huge, deadline_s=huge).reason == "inconclusive"
    assert cascade.decide(item, deadline_s=-huge).reason == "deadline"
    acquirers = Acquirers()
    acquirers.feature("a", timeout_s=huge)(len)
    with pytest.raises(
        BindError, match="timeout_s: expected a number of seconds above 0, got a whole number of about 5000 digits"
    ):
        Cascade(cascade.bundle, acquirers)


# Failures


FAILURES = [
    pytest.param(TimeoutError("no answer"), "exception", "TimeoutError: no answer", id="exception"),
    pytest.param(None, "missing", "missing", id="None"),
    pytest.param(math.nan, "missing", "missing", id="NaN"),
    pytest.param("12", "wrong_type", "'12' (str)", id="text"),
    pytest.param(math.inf, "infinite", "inf", id="infinity"),
]


@pytest.mark.parametrize(("value", "kind", "said"), FAILURES)
def test_a_failure_raises_by_default(value: Any, kind: str, said: str) -> None:
    """`AcquisitionError` carries feature, stage, kind, the bill with the failed stage, and the trace so far."""
    cascade, _ = recording_cascade()
    with pytest.raises(AcquisitionError) as caught:
        cascade.decide({**UNCLEAR, "links": value})
    error = caught.value
    assert (error.feature, error.stage, error.kind, error.cost, error.index) == ("links", 2, kind, 3.0, None)
    assert str(error).startswith("feature 'links' (stage 2): ")
    assert said in str(error)
    assert [record.stage for record in error.trace] == [1, 2]
    assert error.trace[1].acquired == ()
    assert error.trace[1].probabilities == {}
    if isinstance(value, Exception):
        assert error.__cause__ is value
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.trace, copy.errors) == (str(error), error.trace, error.errors)


@pytest.mark.parametrize("many", [False, True])
def test_an_error_lists_the_failures_before_it(many: bool) -> None:
    """A failure that fell back at an earlier stage is in the error of a later one, as it is in a decision."""
    bundle = sample_bundle()
    unsteady = {**UNCLEAR, "links": OSError("first"), "reputation": OSError("second")}
    decided, raised = (
        Cascade(
            bundle, RecordingAcquirers("size", "links", on_failure="default") | RecordingAcquirers("reputation", on_failure=last)
        )
        for last in ("reject", "raise")
    )
    decision = decided.decide(unsteady)
    with pytest.raises(AcquisitionError) as caught:
        _ = raised.decide_many([unsteady]) if many else raised.decide(unsteady)
    assert [(one.feature, one.stage, one.kind) for one in caught.value.errors] == [
        ("links", 2, "exception"),
        ("reputation", 3, "exception"),
    ]
    assert caught.value.errors == decision.errors
    assert AcquisitionError("down", "links", 2, "exception", 3.0, ()).errors == ()


@pytest.mark.parametrize(("value", "kind", "said"), FAILURES)
def test_a_failure_may_reject_the_item(value: Any, kind: str, said: str) -> None:
    """`on_failure="reject"`: rejected, reason "acquisition_failed", the stage started is charged, the failure is listed."""
    cascade, _ = recording_cascade(on_failure="reject")
    decision = cascade.decide({**UNCLEAR, "links": value})
    assert (decision.status, decision.reason, decision.label) == ("rejected", "acquisition_failed", None)
    assert (decision.stages, decision.cost) == (1, 3.0)
    (failure,) = decision.errors
    assert (failure.feature, failure.stage, failure.kind) == ("links", 2, kind)
    assert said in failure.message
    assert not decision.degraded


@pytest.mark.parametrize(("value", "kind", "said"), FAILURES)
def test_a_failure_may_fall_back(value: Any, kind: str, said: str) -> None:
    """`on_failure="default"`: the manifest's fallback stands in, the decision is degraded and goes on."""
    cascade, acquirers = recording_cascade(on_failure="default")
    decision = cascade.decide({**UNCLEAR, "links": value})
    assert acquirers.asked == [("size",), ("links",), ("reputation",)]
    assert decision.degraded
    assert decision.trace[1].defaulted == ("links",)
    assert decision.trace[1].acquired == ()
    assert [failure.kind for failure in decision.errors] == [kind]
    # The sample's fallback is 0: the same scores as for an item whose value is 0.
    assert decision.probabilities == Cascade(sample_bundle()).decide({**UNCLEAR, "links": 0.0}).probabilities


def test_an_acquirers_own_policy_comes_before_the_cascades() -> None:
    """The policy is chosen per acquirer; the cascade's is for those without one."""
    acquirers = RecordingAcquirers("size", "reputation")
    acquirers.feature("links", on_failure="reject")(lambda item: 1 / 0)
    assert Cascade(sample_bundle(), acquirers, on_failure="raise").decide(UNCLEAR).reason == "acquisition_failed"


def test_a_fatal_failure_stops_the_calls_of_its_stage() -> None:
    """After a failure that ends the item nothing more is acquired; a failure that falls back does not stop the others."""
    bundle = make_bundle([["a", "b", "c"]], threshold=0.5)
    item = {"a": 1.0, "b": ValueError("broken"), "c": 1.0}
    for policy, asked in (("reject", ["a", "b"]), ("default", ["a", "b", "c"])):
        acquirers = RecordingAcquirers("a", "b", "c")
        decision = Cascade(bundle, acquirers, on_failure=policy).decide(item)  # type: ignore[arg-type]
        assert acquirers.asked == [(name,) for name in asked]
        assert decision.cost == 3.0


def test_every_failure_is_listed() -> None:
    """Two broken sources in one stage, with fallbacks: both are named, in the order of the manifest."""
    bundle = make_bundle([["a", "b", "c"]], threshold=0.5)
    item = {"a": ValueError("x"), "b": 1.0, "c": "text"}
    decision = Cascade(bundle, RecordingAcquirers("a", "b", "c"), on_failure="default").decide(item)
    assert [(failure.feature, failure.kind) for failure in decision.errors] == [("a", "exception"), ("c", "wrong_type")]
    assert decision.trace[0].defaulted == ("a", "c")
    assert decision.trace[0].acquired == ("b",)


def test_the_first_of_several_fatal_failures_is_raised() -> None:
    """Two values of a stage are bad: both are listed under "reject", and the first one is the error under "raise"."""
    bundle = make_bundle([["a", "b"]], threshold=0.5)
    item = {"a": "x", "b": None}
    assert [failure.feature for failure in Cascade(bundle, on_failure="reject").decide(item).errors] == ["a", "b"]
    with pytest.raises(AcquisitionError, match="feature 'a'"):
        Cascade(bundle).decide(item)


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        ({"links": 1.0}, "missing_key", "lacks it; got the keys ['links']"),
        ({f"key {number:05}": 1.0 for number in range(9999)}, "missing_key", "'key 00019', ...]"),
        ([1.0], "missing_key", "must return 2 values, for links, reputation; got 1"),
        ("ab", "wrong_type", "got str"),
        ({1.0, 2.0}, "wrong_type", "got set"),
        (np.ones((2, 2)), "wrong_type", "got ndarray"),
        (3.0, "wrong_type", "got float"),
        (None, "wrong_type", "got NoneType"),
    ],
    ids=["missing key", "other keys", "short sequence", "text", "set", "matrix", "number", "None"],
)
def test_an_acquirer_of_several_that_breaks_its_promise(result: Any, kind: str, said: str) -> None:
    """A mapping without one of its keys, a sequence of another length, or neither: the features concerned fail by name."""
    acquirers = RecordingAcquirers("size")
    acquirers.features("links", "reputation")(lambda item: result)
    decision = Cascade(sample_bundle(), acquirers, on_failure="reject").decide(UNCLEAR)
    assert decision.reason == "acquisition_failed"
    assert decision.errors[-1].kind == kind
    assert said in decision.errors[-1].message


def test_messages_of_failures_are_bounded() -> None:
    """Whoever controls a source controls the text of its errors, which audit files keep."""
    acquirers = RecordingAcquirers("size", "links", "reputation")
    decision = Cascade(sample_bundle(), acquirers, on_failure="reject").decide({"size": OSError("x" * 10**6)})
    assert decision.errors[0].message.startswith("its acquirer raised OSError: xxx")
    assert len(decision.errors[0].message) < 1100


class Broken(dict[str, float]):
    """A mapping that cannot be read at one place: at a key, or where it is asked for its keys."""

    def __init__(self, place: str) -> None:
        super().__init__(links=0.1, reputation=0.1)
        self.place = place

    def keys(self) -> Any:
        """Return the keys, or raise."""
        if self.place == "keys":
            raise OSError("connection lost")
        return super().keys()

    def __getitem__(self, name: str) -> float:
        """Return a value, or raise."""
        if self.place == name:
            raise OSError("connection lost")
        return super().__getitem__(name)


class BrokenList(list[float]):
    """A sequence that cannot be read to its end."""

    def __iter__(self) -> Any:
        """Give one value, then raise."""
        yield 0.1
        raise OSError("connection lost")


WAYS = ["decide", "many", "async", "many_async"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pooled", [False, True], ids=["here", "pool"])
@pytest.mark.parametrize("cached", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize(
    ("result", "feature", "stage"),
    [
        (Broken("links"), "links", 2),
        (Broken("reputation"), "reputation", 3),
        (Broken("keys"), "links", 2),
        (BrokenList([0.1, 0.1]), "links", 2),
    ],
    ids=["first key", "second key", "keys", "sequence"],
)
def test_a_result_that_raises_when_it_is_read_is_a_failure(
    way: str, pooled: bool, cached: bool, result: Any, feature: str, stage: int
) -> None:
    """The exception is a failure of the feature that was read, by its policy, in every way of deciding; nothing is cached."""
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = RecordingAcquirers("size")
    acquirers.features("links", "reputation", cache=cache if cached else None)(lambda item: result)
    pool = AcquirerPool(2) if pooled else None
    decision = decide(Cascade(sample_bundle(), acquirers, on_failure="reject", pool=pool), way, UNCLEAR)
    assert (decision.reason, decision.stages) == ("acquisition_failed", stage - 1)
    assert decision.errors[0][:3] == (feature, stage, "exception")
    assert decision.errors[0].message.endswith("raised OSError: connection lost")
    assert cache.counts.size == 0
    with pytest.raises(AcquisitionError) as caught:
        decide(Cascade(sample_bundle(), acquirers, pool=pool), way, UNCLEAR)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("names", "result"),
    [(("links",), BrokenList([0.1])), (("links", "reputation"), Broken("links")), (("links", "reputation"), Broken("keys"))],
    ids=["sequence", "column", "keys"],
)
def test_a_batch_result_that_raises_when_it_is_read_is_a_failure(way: str, names: tuple[str, ...], result: Any) -> None:
    """The same for batch acquirers: by the policy, with one item and with many."""
    acquirers = RecordingAcquirers(*(name for name in ("size", "reputation") if name not in names))
    acquirers.batch(*names)(lambda items: result)
    decision = decide(Cascade(sample_bundle(), acquirers, on_failure="reject"), way, UNCLEAR)
    assert decision.errors[0][:3] == ("links", 2, "exception")


class BrokenFloat(float):
    """A number that cannot be compared."""

    def __gt__(self, other: object) -> bool:
        """Raise."""
        raise OSError("connection lost")

    __lt__ = __gt__


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cached", [False, True])
def test_a_value_that_raises_when_it_is_looked_at_is_a_failure(way: str, cached: bool) -> None:
    """A number of a class of the user's that raises: a failure of its feature, by the policy; it is not cached either."""
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = RecordingAcquirers("size", "reputation")
    acquirers.feature("links", cache=cache if cached else None)(lambda item: BrokenFloat(0.1))
    decision = decide(Cascade(sample_bundle(), acquirers, on_failure="reject"), way, UNCLEAR)
    assert decision.errors == (Failure("links", 2, "exception", "reading its value raised OSError: connection lost"),)
    assert cache.counts.size == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_coroutine_from_a_plain_batch_function_is_refused(way: str) -> None:
    """The message says how to write it, and the coroutine is closed: there is no warning that it was never awaited."""

    async def late(items: Any) -> Any:
        return [0.1]

    acquirers = RecordingAcquirers("size", "reputation")
    acquirers.batch("links")(lambda items: late(items))  # noqa: PLW0108 - the point of the test
    decision = decide(Cascade(sample_bundle(), acquirers, on_failure="reject"), way, UNCLEAR)
    assert decision.errors[0].kind == "wrong_type"
    assert "returned a coroutine" in decision.errors[0].message


class CountingName(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared: ClassVar[list[int]] = [0]
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        """Compare, and count."""
        self.compared[0] += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("batch", [False, True])
def test_reading_a_mapping_takes_a_few_look_ups_per_feature(batch: bool) -> None:
    """Four times the features: about four times the comparisons of names, not sixteen times."""
    pluralize = []
    for count in (50, 200):
        names = [f"f{number}" for number in range(count)]
        values = {CountingName(name): [0.1] if batch else 0.1 for name in names}
        acquirers = Acquirers()
        (acquirers.batch if batch else acquirers.features)(*names)(lambda item, values=values: Row(values))
        cascade = Cascade(make_bundle([names], threshold=1.0), acquirers)
        CountingName.compared[0] = 0
        assert cascade.decide(None).errors == ()
        pluralize.append(CountingName.compared[0])
    assert pluralize[0] >= 50
    assert pluralize[1] <= 5 * pluralize[0]


def test_thousands_of_features_are_sorted_into_the_trace() -> None:
    """Known, cached, acquired and defaulted features of one wide stage: each in its own place, in the order of the manifest."""
    names = [f"f{number}" for number in range(400)]
    cache = AcquirerCache(key=str, ttl_s=60.0)
    acquirers = Acquirers()
    acquirers.features(*names[:200], cache=cache)(lambda item: [0.1] * 200)
    acquirers.features(*names[200:])(lambda item: dict.fromkeys(names[200:300], 0.1))
    cascade = Cascade(make_bundle([names], threshold=1.0), acquirers, on_failure="default")
    cascade.decide("x")
    record = cascade.decide("x", known=dict.fromkeys(names[:50], 0.2)).trace[0]
    assert (record.known, record.cached) == (tuple(names[:50]), tuple(names[50:200]))
    assert (record.acquired, record.defaulted) == (tuple(names[200:300]), tuple(names[300:]))
    assert record.cost == 200.0


def test_a_missing_key_fails_only_where_it_is_needed() -> None:
    """A mapping may lack a feature of a later stage: an item that leaves before never notices."""
    acquirers = RecordingAcquirers("reputation")
    acquirers.features("size", "links")(lambda item: {"size": item})
    cascade = Cascade(sample_bundle(), acquirers)
    assert cascade.decide(3.0).errors == ()
    with pytest.raises(AcquisitionError, match=r"feature 'links' \(stage 2\)"):
        cascade.decide(0.0)


def test_a_failed_call_is_not_repeated_for_a_later_stage() -> None:
    """An acquirer of two stages that raised once fails both its features; it is called once, and each falls back."""
    cascade, acquirers = recording_cascade(("size", "reputation"), "links", on_failure="default")
    decision = cascade.decide({"size": ValueError("down"), "links": 0.0, "reputation": 0.0})
    assert acquirers.asked == [("size", "reputation"), ("links",)]
    assert [(failure.feature, failure.stage) for failure in decision.errors] == [("size", 1), ("reputation", 3)]


def test_interrupts_are_not_failures() -> None:
    """KeyboardInterrupt (and a cancelled task, which is not an Exception either) passes through any policy."""
    acquirers = RecordingAcquirers("links", "reputation")

    @acquirers.feature("size")
    def interrupted(item: object) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cascade(sample_bundle(), acquirers, on_failure="default").decide(CLEAR)
    with pytest.raises(KeyboardInterrupt):
        Cascade(sample_bundle(), acquirers, on_failure="default").decide_many([CLEAR])


@pytest.mark.parametrize("many", [False, True])
def test_values_that_overflow_inside_the_model_are_failures(many: bool) -> None:
    """Finite values so large that the model gives NaN are never silently rejected as inconclusive."""
    weights = [[[-2.0, 2.0], [2.0, -2.0]]]
    bundle = make_bundle([["a", "b"]], weights=weights, threshold=0.9)
    item = {"a": 1.0, "b": 1e308}

    def decide(policy: Any) -> Decision:
        cascade = Cascade(bundle, on_failure=policy)
        return cascade.decide_many([item])[0] if many else cascade.decide(item)

    with pytest.raises(AcquisitionError, match="gives no probabilities for these values; the largest value is 1e"):
        decide("raise")
    for policy in ("reject", "default"):
        decision = decide(policy)
        assert (decision.reason, decision.stages, decision.cost) == ("acquisition_failed", 0, 2.0)
        assert decision.errors[0]._replace(message="") == Failure("b", 1, "not_scorable", "")


def test_a_decision_inside_an_acquirer_disturbs_nothing() -> None:
    """Re-entrant decisions share the thread's buffers: the outer one still gets its own scores."""
    inner = Cascade(sample_bundle())
    acquirers = Acquirers()
    for name in ("size", "links", "reputation"):
        acquirers.feature(name)(
            lambda item, name=name: (
                (inner.decide(LAST_STAGE), outer.decide(CLEAR), item[name])[2] if item is LAST_STAGE else item[name]
            )
        )
    outer = Cascade(sample_bundle(), acquirers)
    assert outer.decide(LAST_STAGE).probabilities == inner.decide(LAST_STAGE).probabilities


def test_inputs_in_another_order_than_acquired() -> None:
    """A model may take its inputs in its own order, and leave some out."""
    plain = make_bundle(
        [["a"], ["b", "c"]],
        weights=[[[-1.0], [1.0]], [[-1.0, -2.0, 0.0], [1.0, 2.0, 0.0]]],
        threshold=0.99,
    )
    turned = make_bundle([["a"], ["b", "c"]], weights=[[[-1.0], [1.0]], [[-2.0, 0.0, -1.0], [2.0, 0.0, 1.0]]], threshold=0.99)
    stages = turned.manifest.stages
    second: Stage = stages[1].model_copy(update={"inputs": ("b", "c", "a")})
    golden = plain.manifest.golden
    manifest = turned.manifest.model_copy(update={"stages": (stages[0], second), "golden": golden})
    cascade = Cascade(build_bundle(manifest, turned.models))
    item = {"a": 0.3, "b": -0.2, "c": 9.0}
    assert cascade.decide(item).probabilities == pytest.approx(Cascade(plain).decide(item).probabilities, abs=1e-15)
    many = cascade.decide_columns({name: [value, value] for name, value in item.items()})
    assert many.confidence.tolist() == pytest.approx([cascade.decide(item).confidence] * 2, abs=1e-12)


# Properties


@pytest.mark.uncounted
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_walk_is_what_the_contract_says(data: st.DataObject) -> None:
    """Against a plain re-telling of the contract: calls, bill, stages and outcome agree for any bundle, item, budget, known."""
    bundle = data.draw(bundles())
    item = data.draw(items(bundle))
    names = [feature.name for feature in bundle.manifest.features]
    known = {name: item[name] for name in data.draw(st.sets(st.sampled_from(names), max_size=2))}
    budget = data.draw(st.none() | prices)
    acquirers = RecordingAcquirers(*names)
    decision = Cascade(bundle, acquirers).decide(item, budget=budget, known=known)
    expected = expected_by_walk(bundle, item, budget, known)
    found = (
        decision.status,
        decision.reason,
        decision.label,
        decision.stages,
        decision.cost,
        [name for (name,) in acquirers.asked],
    )
    assert found == expected
    assert math.isclose(sum(record.cost for record in decision.trace), decision.cost, rel_tol=1e-9)


def expected_by_walk(bundle: Bundle, item: dict[str, Any], budget: float | None, known: dict[str, Any]) -> tuple[Any, ...]:
    """Tell the walk again, plainly: the reference for the property above."""
    manifest, scorer = bundle.manifest, Scorer.from_bundle(bundle)
    listed: list[str] = []
    called: list[str] = []
    cost = 0.0
    for index, stage in enumerate(manifest.stages):
        listed += stage.acquire
        expected = manifest.meter().cost([name for name in listed if name not in known])
        if budget is not None and expected > budget:
            return ("rejected", "budget", None, index, cost, called)
        cost = expected
        called += [name for name in stage.acquire if name not in known]
        scores = scorer.score(index, [float(item[name]) for name in listed])
        label, accepted = accept(scores, [stage.thresholds[str(label)] for label in manifest.labels])
        if accepted:
            return ("accepted", "confident", manifest.labels[label], index + 1, cost, called)
    return ("rejected", "inconclusive", None, len(manifest.stages), cost, called)


@pytest.mark.uncounted
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_nothing_is_charged_twice(data: st.DataObject) -> None:
    """With acquirers of several features across stages and groups, the bill is the cost function of the features started."""
    bundle = data.draw(bundles())
    names = [feature.name for feature in bundle.manifest.features]
    cut = data.draw(st.integers(0, len(names)))
    together = (tuple(names[:cut]),) if cut else ()
    acquirers = RecordingAcquirers(*together, *names[cut:])
    decision = Cascade(bundle, acquirers).decide(data.draw(items(bundle)))
    started = [name for record in decision.trace for name in record.acquired]
    assert len(started) == len(set(started))
    assert decision.cost == bundle.manifest.meter().cost(started)
    assert len(acquirers.asked) == len(set(acquirers.asked))


def test_features_that_no_stage_acquires_are_never_asked_for() -> None:
    """A feature that is declared but used by no stage needs no acquirer and costs nothing."""
    features = [Feature(name=name, kind="numeric", cost=1.0) for name in ("a", "spare")]
    cascade = Cascade(make_bundle([["a"]], features=features), RecordingAcquirers("a"))
    assert cascade.decide({"a": 9.0}, known={"spare": 1.0}).cost == 1.0


def test_a_cascade_says_what_it_is() -> None:
    """In a log or a debugger: name, version, stages and the beginning of the bundle's id."""
    cascade = Cascade(sample_bundle())
    assert repr(cascade) == f"<Cascade 'sample' version '1', 3 stages, id {cascade.bundle.manifest.id[:12]}>"
