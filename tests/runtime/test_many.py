"""Many items in lockstep, and whole tables: exactly what deciding one by one gives."""

from __future__ import annotations

import asyncio
import math
import traceback
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from emsco_runtime import Acquirers, AcquisitionError, Bundle, Cascade, Decision, InputError
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.numbers import ValueFault
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.bundle.rule import RESCORE_MARGIN
from emsco_runtime.decision import Failure
from emsco_runtime.driving import columns as columns_module
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.strategies import bundles, items, prices

EXACT = ("status", "reason", "label", "stages", "cost", "degraded")
CLEAR = {"size": 3.0, "links": 0.0, "reputation": 0.0}
UNCLEAR = {"size": 0.0, "links": 0.1, "reputation": 0.1}


def as_columns(bundle: Bundle, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Turn items into object columns, which keep every value as it is."""
    columns = {}
    for feature in bundle.manifest.features:
        column = np.empty(len(rows), dtype=object)
        for place, row in enumerate(rows):
            column[place] = row[feature.name]
        columns[feature.name] = column
    return columns


def assert_alike(single: Decision, other: Decision) -> None:
    """Compare two decisions as the contract says under "single and batch"."""
    assert [getattr(single, name) for name in EXACT] == [getattr(other, name) for name in EXACT]
    assert single.errors == other.errors
    assert len(single.trace) == len(other.trace)
    for one, two in zip(single.trace, other.trace, strict=True):
        assert one._replace(probabilities={}) == two._replace(probabilities={})
        assert one.probabilities == pytest.approx(two.probabilities, abs=1e-12)


@pytest.mark.uncounted
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_three_ways_of_deciding_agree(data: st.DataObject) -> None:
    """`decide`, `decide_many` and `decide_columns`, on mixed features with gaps, faults, budgets and both lenient policies."""
    bundle = data.draw(bundles(mixed=True))
    rows = data.draw(st.lists(items(bundle, faults=True), min_size=1, max_size=8))
    cascade = Cascade(bundle, on_failure=data.draw(st.sampled_from(["reject", "default"])))
    budget = data.draw(st.none() | prices)
    single = [cascade.decide(row, budget=budget) for row in rows]
    for one, two in zip(single, cascade.decide_many(rows, budget=budget), strict=True):
        assert_alike(one, two)
    table = cascade.decide_columns(as_columns(bundle, rows), budget=budget)
    assert len(table) == len(rows)
    for index, decision in enumerate(single):
        assert [getattr(table, name)[index] for name in EXACT] == [getattr(decision, name) for name in EXACT]
        confidence = math.nan if decision.confidence is None else decision.confidence
        assert table.confidence[index] == pytest.approx(confidence, abs=1e-12, nan_ok=True)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_rows_that_sit_at_the_threshold(data: st.DataObject) -> None:
    """The threshold is set to the very score of a row, or a bit above or below it: every way of deciding sees the same side."""
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    names = [f"f{index}" for index in range(data.draw(st.integers(1, 12)))]
    plain = make_bundle([names], threshold=0.5, seed=seed)
    matrix = rng.normal(size=(16, len(names)))
    row = matrix[data.draw(st.integers(0, 15))].tolist()
    top = max(Scorer.from_bundle(plain).score(0, row))
    threshold = data.draw(st.sampled_from([top, np.nextafter(top, 0.0), min(1.0, np.nextafter(top, 2.0))]))
    # A bundle keeps its golden item away from the threshold.
    assume(abs(max(plain.manifest.golden[0].probabilities[0]) - threshold) > 2 * RESCORE_MARGIN)
    cascade = Cascade(with_threshold(plain, float(threshold)))
    rows = [dict(zip(names, values, strict=True)) for values in matrix.tolist()]
    single = [cascade.decide(item) for item in rows]
    assert cascade.decide(dict(zip(names, row, strict=True))).status == ("accepted" if top >= threshold else "rejected")
    many = cascade.decide_many(rows)
    table = cascade.decide_columns({name: matrix[:, index] for index, name in enumerate(names)})
    assert [one.status for one in single] == [one.status for one in many] == table.status.tolist()
    assert [one.label for one in single] == [one.label for one in many] == table.label.tolist()


def with_threshold(bundle: Bundle, threshold: float) -> Bundle:
    """Return the bundle with another threshold at every stage, its golden item's decision adapted."""
    manifest = bundle.manifest
    stages = tuple(
        stage.model_copy(update={"thresholds": dict.fromkeys(stage.thresholds, threshold)}) for stage in manifest.stages
    )
    golden = manifest.golden[0]
    top = max(golden.probabilities[0])
    label = manifest.labels[golden.probabilities[0].index(top)] if top >= threshold else None
    status = ("accepted", "confident") if top >= threshold else ("rejected", "inconclusive")
    decision = golden.decision.model_copy(update={"status": status[0], "reason": status[1], "label": label})
    golden = golden.model_copy(update={"decision": decision})
    return build_bundle(manifest.model_copy(update={"stages": stages, "golden": (golden,)}), bundle.models)


def test_ties_are_settled_by_the_single_row_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows whose two best labels are as good as equal get the same label alone, in lockstep and in a table."""
    # Scores that tie on purpose leave no room for a golden item with a margin: let the draw take any.
    monkeypatch.setattr("emsco_runtime.testing.RESCORE_MARGIN", -1.0)
    monkeypatch.setattr("emsco_runtime.bundle.manifest_checks.RESCORE_MARGIN", -1.0)
    weights = [[[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]]
    cascade = Cascade(make_bundle([["a", "b"]], weights=weights, labels=("x", "y", "z"), threshold=0.4, seed=1))
    matrix = np.random.default_rng(0).normal(size=(50, 2)) + 1
    single = [cascade.decide({"a": a, "b": b}) for a, b in matrix.tolist()]
    table = cascade.decide_columns({"a": matrix[:, 0], "b": matrix[:, 1]})
    assert [one.label for one in single] == table.label.tolist()


@pytest.mark.uncounted
@given(st.data())
@settings(max_examples=100, deadline=None)
def test_one_by_one_and_in_step_agree_whatever_the_acquirers(data: st.DataObject) -> None:
    """Acquirers of one, several and many, mixed policies, faults, budgets, and other known values for every item."""
    bundle = data.draw(bundles())
    names = [feature.name for feature in bundle.manifest.features]
    cascade = Cascade(bundle, data.draw(registries(names)))
    rows = data.draw(st.lists(items(bundle, faults=True), min_size=1, max_size=5))
    known = [data.draw(st.none() | st.dictionaries(st.sampled_from(names), st.floats(-3, 3), max_size=3)) for _ in rows]
    budget = data.draw(st.none() | prices)
    many = cascade.decide_many(rows, budget=budget, known=known)
    for row, values, two in zip(rows, known, many, strict=True):
        assert_alike(cascade.decide(row, budget=budget, known=values), two)


@st.composite
def registries(draw: st.DrawFn, names: list[str]) -> Acquirers:
    """Draw acquirers that between them obtain every feature; some features have two, one for many items at once."""
    acquirers = Acquirers()
    pool = list(draw(st.permutations(names)))
    while pool:
        taken = tuple(pool[: draw(st.integers(1, 3))])
        pool = pool[len(taken) :]
        policy = draw(st.sampled_from(["reject", "default"]))
        shape = draw(st.sampled_from(["each", "together", "batch", "both"]))
        if shape in ("batch", "both"):
            acquirers.batch(*taken, on_failure=policy)(_Column(taken))
        if shape == "together":
            acquirers.features(*taken, on_failure=policy)(_Several(taken))
        if shape in ("each", "both"):
            for name in taken:
                acquirers.feature(name, on_failure=policy)(_Several((name,)))
    return acquirers


class _Several:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, item: dict[str, Any]) -> Any:
        return item[self._names[0]] if len(self._names) == 1 else [item[name] for name in self._names]


class _Column:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def __call__(self, rows: list[dict[str, Any]]) -> Any:
        columns = {name: [row[name] for row in rows] for name in self._names}
        return columns[self._names[0]] if len(self._names) == 1 else columns


def test_known_values_of_one_item_do_not_move_those_of_another() -> None:
    """Item 0 knows the first feature of a stage, item 1 does not: item 1's values stay with their features."""
    bundle = make_bundle([["a", "b"]], weights=[[[5.0, 0.0], [0.0, 5.0]]], threshold=0.9)
    cascade = Cascade(bundle, RecordingAcquirers("a", "b"))
    rows = [{"a": 0.0, "b": 0.0}, {"a": 3.0, "b": 0.0}]
    assert cascade.decide_many(rows, known=[{"a": 0.0}, None])[1].label == cascade.decide(rows[1]).label == "ham"


# decide_many


def test_a_batch_acquirer_is_called_once_per_stage_with_the_items_that_need_it() -> None:
    """Items that left are not asked about again; the order of the items is kept."""
    acquirers = RecordingAcquirers("size", batch=["links", "reputation"])
    cascade = Cascade(sample_bundle(), acquirers)
    rows = [UNCLEAR, CLEAR, {**UNCLEAR, "links": 5.0}, UNCLEAR]
    assert [decision.stages for decision in cascade.decide_many(rows)] == [3, 1, 2, 3]
    assert acquirers.calls[:4] == [(("size",), row) for row in rows]
    assert acquirers.calls[4:] == [(("links",), (rows[0], rows[2], rows[3])), (("reputation",), (rows[0], rows[3]))]


def test_no_items_no_calls() -> None:
    """An empty list gives an empty list; a generator is fine too."""
    cascade = Cascade(sample_bundle())
    assert cascade.decide_many([]) == []
    assert len(cascade.decide_many(CLEAR for _ in range(3))) == 3


def test_a_batch_acquirer_of_several_features() -> None:
    """It returns a mapping from name to one value per item; arrays will do."""
    acquirers = RecordingAcquirers("size")

    @acquirers.batch("links", "reputation")
    def both(messages: list[dict[str, float]]) -> dict[str, Any]:
        return {name: np.array([message[name] for message in messages]) for name in ("links", "reputation")}

    cascade = Cascade(sample_bundle(), acquirers)
    (many,) = cascade.decide_many([UNCLEAR])
    assert_alike(cascade.decide(UNCLEAR), many)
    assert many.stages == 3


@pytest.mark.parametrize(
    ("result", "kind", "said"),
    [
        (lambda items: [1.0], "missing_key", "got 1 for 2 items"),
        (lambda items: "ab", "wrong_type", "got str"),
        (lambda items: np.ones((2, 3)), "wrong_type", "expected a number, got array"),
        (lambda items: np.ones((2, 3, 1)), "wrong_type", "got ndarray"),
        (lambda items: {"size": [1.0, 2.0]}, "wrong_type", "got dict"),
        (lambda items: 3.0, "wrong_type", "got float"),
        (lambda items: 1 / 0, "exception", "ZeroDivisionError"),
        (lambda items: [1.0, None], "missing", "missing"),
    ],
    ids=["too few", "text", "matrix", "cube", "mapping", "number", "raises", "one gap"],
)
def test_a_batch_acquirer_that_breaks_its_promise(result: Any, kind: str, said: str) -> None:
    """The items concerned fail by name, under the policy; the others are decided."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.batch("size", on_failure="reject")(result)
    decisions = Cascade(sample_bundle(), acquirers).decide_many([UNCLEAR, UNCLEAR])
    failed = [decision for decision in decisions if decision.reason == "acquisition_failed"]
    assert len(failed) == (1 if kind == "missing" else 2)
    assert failed[0].errors[0].kind == kind
    assert said in failed[0].errors[0].message
    assert failed[0].cost == 1.0


@pytest.mark.parametrize("cause", [None, OSError("down")])
def test_a_failure_that_items_share_does_not_grow(cause: Exception | None) -> None:
    """One fault of a batch is that of all its items: its traceback, which keeps frames alive, is as long as for one item."""
    lengths = []
    for count in (1, 50):
        fault = ValueFault("missing_key", "too few")
        acquirers = Acquirers()

        @acquirers.batch("a")
        def raising(items: list[Any], fault: ValueFault = fault) -> list[float]:
            raise fault from cause

        decisions = Cascade(make_bundle([["a"]]), acquirers, on_failure="reject").decide_many(range(count))
        assert {one.errors[0] for one in decisions} == {Failure("a", 1, "missing_key", "too few")}
        lengths.append(len(traceback.extract_tb(fault.__traceback__)))
        with pytest.raises(AcquisitionError) as caught:
            Cascade(make_bundle([["a"]]), acquirers).decide_many([1])
        assert caught.value.__cause__ is cause
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("form", [dict, list, tuple, np.array])
def test_an_acquirer_may_fill_the_same_object_for_every_item(form: Any) -> None:
    """Its values are taken as they come: one array, list or dict for all items gives each item its own values."""
    shared: Any = {dict: {}, list: [None, None], tuple: None, np.array: np.zeros(2)}[form]

    def look_up(item: float) -> Any:
        if form is tuple:
            return item, item
        for place in ("a", "b") if form is dict else (0, 1):
            shared[place] = item
        return shared

    async def look_up_async(item: float) -> Any:
        return look_up(item)

    bundle = make_bundle([["a", "b"]], weights=[[[-1.0, -1.0], [1.0, 1.0]]], threshold=0.6)
    plain, awaited = Acquirers(), Acquirers()
    plain.features("a", "b")(look_up)
    awaited.features("a", "b")(look_up_async)
    values = [2.0, -2.0, 1.0]
    single = [Cascade(bundle, plain).decide(value).label for value in values]
    assert single == ["spam", "ham", "spam"]
    assert [one.label for one in Cascade(bundle, plain).decide_many(values)] == single
    assert [one.label for one in asyncio.run(Cascade(bundle, awaited).decide_many_async(values))] == single


def test_one_item_or_a_table_is_not_many_items() -> None:
    """A number cannot be gone through, and a data frame would give the names of its columns; whatever gives rows is taken."""

    class Rows(list[Any]):
        """The result of a query."""

        def columns(self) -> tuple[str, ...]:
            """Return names, as those of some libraries do."""
            return tuple(UNCLEAR)

    class Frame(list[str]):
        """A table by columns."""

        columns = ("size",)

    class Labelled(list[Any]):
        """Items by labels, one of which is the name of an attribute, as in a Series."""

        def __init__(self, items: list[Any]) -> None:
            super().__init__(items)
            self.columns = items[0]

    cascade = Cascade(sample_bundle())
    for wrong, kind in ((5, "int"), (None, "NoneType"), (Frame(["size"]), "Frame")):
        with pytest.raises(InputError, match=f"items: expected a sequence of items, got {kind}. One item goes to `decide`"):
            cascade.decide_many(wrong)  # type: ignore[arg-type]
    assert len(cascade.decide_many(Rows([UNCLEAR, CLEAR]))) == 2
    assert len(cascade.decide_many(Labelled([UNCLEAR, CLEAR]))) == 2


def test_a_batch_acquirer_may_empty_its_list() -> None:
    """It takes items out of the list that it gets, in portions as large as its source allows: the list is its own."""

    def look_up(items: list[Any]) -> list[float]:
        found = []
        while items:
            portion, items[:] = items[:2], items[2:]
            found += [item["a"] for item in portion]
        return found

    acquirers = Acquirers()
    acquirers.batch("a")(look_up)
    cascade = Cascade(make_bundle([["a"]]), acquirers)
    rows = [{"a": value} for value in (0.1, 0.2, 3.0)]
    for options in ({}, {"deadline_s": 60.0}):
        assert [decision.errors for decision in cascade.decide_many(rows, **options)] == [()] * 3  # type: ignore[arg-type]
        assert cascade.decide(rows[2], **options).errors == ()  # type: ignore[arg-type]


def test_a_batch_acquirer_of_several_must_return_a_mapping() -> None:
    """A list from an acquirer of two features cannot be read by name; a missing name fails alone."""
    for result, kind in (([1.0, 2.0], "wrong_type"), ({"links": [1.0]}, "missing_key")):
        acquirers = RecordingAcquirers("size")
        acquirers.batch("links", "reputation", on_failure="reject")(lambda items, result=result: result)
        (decision,) = Cascade(sample_bundle(), acquirers).decide_many([UNCLEAR])
        assert decision.errors[-1].kind == kind


def test_an_error_tells_which_item() -> None:
    """`AcquisitionError.index` is the item's position, and the message begins with it; the cause is kept."""
    broken = {**UNCLEAR, "links": ValueError("down")}
    cascade = Cascade(sample_bundle(), RecordingAcquirers("size", "links", "reputation"))
    with pytest.raises(AcquisitionError, match="item 2: feature 'links'") as caught:
        cascade.decide_many([CLEAR, UNCLEAR, broken])
    assert caught.value.index == 2
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_failed_item_is_not_asked_about_again() -> None:
    """In step as alone: after a failure that ends an item, the stage's other acquirers are not called for it."""
    bundle = make_bundle([["a", "b"]], threshold=0.5)
    acquirers = RecordingAcquirers("a", "b", on_failure="reject")
    good, bad = {"a": 1.0, "b": 1.0}, {"a": ValueError("x"), "b": 1.0}
    decisions = Cascade(bundle, acquirers).decide_many([bad, good, bad])
    assert [decision.reason for decision in decisions] == ["acquisition_failed", "confident", "acquisition_failed"]
    assert acquirers.calls == [(("a",), bad), (("a",), good), (("a",), bad), (("b",), good)]
    acquirers.calls.clear()
    Cascade(bundle, acquirers).decide_many([bad])
    assert acquirers.asked == [("a",)]


def test_known_values_per_item() -> None:
    """One mapping or None per item; items with everything known are scored together with the others."""
    acquirers = RecordingAcquirers("size", "links", "reputation")
    cascade = Cascade(sample_bundle(), acquirers)
    everything = dict(UNCLEAR)
    decisions = cascade.decide_many([{}, UNCLEAR, UNCLEAR], known=[everything, None, {"size": 0.0}])
    assert [decision.cost for decision in decisions] == [0.0, 28.0, 27.0]
    assert len({decision.confidence for decision in decisions}) == 1
    for wrong in ([None], {"size": 0.0}, iter([None, None])):
        with pytest.raises(InputError, match="one mapping"):
            cascade.decide_many([UNCLEAR, UNCLEAR], known=wrong)  # type: ignore[arg-type]


# decide_columns


def test_columns_take_frames_lists_and_arrays_of_any_kind() -> None:
    """Anything that numpy makes an array of is a column; columns that no stage needs are ignored."""
    cascade = Cascade(sample_bundle())
    table = cascade.decide_columns({"size": [3, 0], "links": np.float32([0, 0]), "reputation": (0, -3), "other": ["x"] * 9})
    assert table.label.tolist() == ["spam", "ham"]
    assert table.status.tolist() == ["accepted", "accepted"]
    assert table.stages.tolist() == [1, 3]
    assert table.cost.tolist() == [1.0, 28.0]
    assert not table.degraded.any()


def test_no_rows() -> None:
    """An empty table gives empty arrays."""
    assert len(Cascade(sample_bundle()).decide_columns({"size": [], "links": [], "reputation": []})) == 0


def test_a_column_is_only_looked_at_where_it_is_needed() -> None:
    """A broken value in a row that left before its stage is never noticed."""
    table = Cascade(sample_bundle()).decide_columns({"size": [3.0, -3.0], "links": ["?", None], "reputation": [math.inf, "?"]})
    assert table.label.tolist() == ["spam", "ham"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"size": [1.0]}, "2 columns are missing: links, reputation"),
        ({"size": [1.0], "links": [1.0, 2.0], "reputation": [1.0]}, "same length"),
        ({"size": 1.0, "links": 1.0, "reputation": 1.0}, "one dimension"),
        (dict.fromkeys(("size", "links", "reputation"), np.ones((1, 1))), "one dimension"),
        (None, "expected a mapping of arrays or a data frame, got NoneType"),
    ],
)
def test_columns_that_do_not_fit(columns: dict[str, Any], said: str) -> None:
    """Missing columns are all named; shapes that differ are shown."""
    with pytest.raises(InputError) as caught:
        Cascade(sample_bundle()).decide_columns(columns)
    assert said in str(caught.value)


def test_a_bad_value_in_a_table_raises_with_its_row() -> None:
    """Under "raise" the first bad row is named, as `decide_many` would; under "reject" it is rejected, others go on."""
    columns = {"size": [3.0, math.nan, 0.0, math.nan], "links": [0.0] * 4, "reputation": [0.0] * 4}
    with pytest.raises(AcquisitionError, match="item 1: feature 'size'"):
        Cascade(sample_bundle()).decide_columns(columns)
    table = Cascade(sample_bundle(), on_failure="reject").decide_columns(columns)
    assert table.reason.tolist() == ["confident", "acquisition_failed", "inconclusive", "acquisition_failed"]
    assert table.cost.tolist() == [1.0, 1.0, 28.0, 1.0]
    assert np.isnan(table.confidence[1])
    table = Cascade(sample_bundle(), on_failure="default").decide_columns(columns)
    assert table.degraded.tolist() == [False, True, False, True]


def test_a_table_whose_rows_are_all_bad() -> None:
    """No row is left to score: each is decided by its policy."""
    columns = {"size": [math.inf] * 3, "links": [0.0] * 3, "reputation": [0.0] * 3}
    assert set(Cascade(sample_bundle(), on_failure="reject").decide_columns(columns).reason) == {"acquisition_failed"}


def test_tables_follow_the_policies_of_the_acquirers() -> None:
    """No acquirer is called, but a feature's policy is that of its acquirer."""
    acquirers = RecordingAcquirers("links", "reputation")
    acquirers.feature("size", on_failure="default")(lambda item: 1 / 0)
    table = Cascade(sample_bundle(), acquirers).decide_columns({"size": [None], "links": [5.0], "reputation": [0.0]})
    assert table.degraded.tolist() == [True]
    assert table.label.tolist() == ["spam"]
    assert acquirers.calls == []


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table larger than a block, with faults in several blocks, is decided as in one piece."""
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=100) for name in ("size", "links", "reputation")}
    columns["links"][[3, 50, 97]] = np.nan
    cascade = Cascade(sample_bundle(), on_failure="reject")
    whole = cascade.decide_columns(columns, budget=10.0)
    monkeypatch.setattr(columns_module, "_BLOCK_ROWS", 7)
    parts = cascade.decide_columns(columns, budget=10.0)
    for name in EXACT:
        assert getattr(whole, name).tolist() == getattr(parts, name).tolist()
    assert {"confident", "budget", "acquisition_failed"} == set(whole.reason)


@pytest.mark.parametrize(
    ("column", "plain"),
    [
        (["a", math.nan], ["a", math.nan]),
        ([7.0, "a"], [7.0, "a"]),
        ([True, "a"], [True, "a"]),
        ([2**53 + 1, math.nan], [2**53 + 1, math.nan]),
        ([2**63, -1, 0.5], [2**63, -1, 0.5]),
        (np.ma.array(["a", "7"], mask=[False, True]), ["a", None]),
        (np.array(["a", "nan"]), ["a", "nan"]),
    ],
    ids=["gap among text", "code among text", "boolean among text", "code that no float holds", "larger", "masked", "text"],
)
def test_values_of_a_column_stay_what_they_are(column: Any, plain: list[Any]) -> None:
    """Lists of mixed values, masked arrays and arrays of text are read as `decide` reads each value."""
    codes = ("a", "7", str(2**53 + 1), str(2**63))
    features = [Feature(name="c", kind="categorical", cost=1.0, categories=codes, unknown="ignore", missing="impute")]
    cascade = Cascade(make_bundle([["c"]], features=features, seed=2), on_failure="reject")
    table = cascade.decide_columns({"c": column})
    single = [cascade.decide({"c": value}) for value in plain]
    assert table.reason.tolist() == [one.reason for one in single]
    confidence = [math.nan if one.confidence is None else one.confidence for one in single]
    assert table.confidence == pytest.approx(confidence, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    "column",
    [
        *(["1.5"], np.array(["1.5"]), np.array([b"1.5"]), np.array([1 + 2j])),
        *(np.array(["2026-01-01"], dtype="M8[ns]"), np.array([5], dtype="m8[ns]"), [[1.0, 2.0]], [{}]),
    ],
    ids=["list of text", "text", "bytes", "complex", "dates", "durations", "nested", "mapping"],
)
def test_columns_of_the_wrong_kind_fail_as_values_do(column: Any) -> None:
    """Text, dates, durations and complex numbers are no numbers, alone or in an array."""
    cascade = Cascade(make_bundle([["a"]]), on_failure="reject")
    table = cascade.decide_columns({"a": column})
    assert table.reason.tolist() == [cascade.decide({"a": column[0]}).reason] == ["acquisition_failed"]


def test_gaps_are_vectorised() -> None:
    """NaN where the graph imputes is an ordinary value of a table."""
    features = [Feature(name="a", kind="numeric", cost=1.0, missing="impute")]
    cascade = Cascade(make_bundle([["a"]], features=features, threshold=0.6, weights=[[[-1.0], [1.0]]]))
    table = cascade.decide_columns({"a": np.array([np.nan, 3.0])})
    assert table.reason.tolist() == ["inconclusive", "confident"]
    assert cascade.decide({"a": None}).confidence == 0.5


def test_registry_and_mapping_items_agree() -> None:
    """Binding acquirers or handing in mappings makes no difference to the decision."""
    acquirers = Acquirers()
    for name in ("size", "links", "reputation"):
        acquirers.feature(name)(lambda item, name=name: item[name])
    assert_alike(Cascade(sample_bundle(), acquirers).decide(UNCLEAR), Cascade(sample_bundle()).decide(UNCLEAR))
