"""Vector features: a sequence of numbers under one name, with one price."""

from __future__ import annotations

import array
import asyncio
import math
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import Acquirers, Bundle, BundleError, Cascade, InputError, write_bundle
from emsco_runtime.bundle.encoding import ValueFault, encode_column, make_encoder
from emsco_runtime.bundle.manifest import Feature, Model, needed_version
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.cli.inspect import main as inspect
from emsco_runtime.driving import columns as columns_module
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.testing import RecordingAcquirers, _draw_golden, logistic_model, make_bundle

VECTOR = Feature(name="words", kind="vector", width=3, cost=4.0, fallback=(0.0, 0.0, 1.0))
GAPPY = VECTOR.model_copy(update={"missing": "impute"})
SIZE = Feature(name="size", kind="numeric", cost=1.0, fallback=0.0)
SEEN = ("status", "reason", "label", "stages", "cost")


class Tensor:
    """Stands in for an array of another library."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Become an array."""
        return np.array(self.values)


class Unreadable:
    """A sequence whose entries cannot be read."""

    def __len__(self) -> int:
        """Return three."""
        return 3

    def __getitem__(self, position: int) -> float:
        """Fail."""
        raise RuntimeError


def two_stages(feature: Feature = VECTOR) -> Bundle:
    """Make a bundle: `size`, then the vector; inputs of the second stage are in another order than they are acquired."""
    bundle = make_bundle([["size"], ["words"]], features=[SIZE, feature], threshold=0.9, seed=3)
    second = bundle.manifest.stages[1]
    stages = (bundle.manifest.stages[0], second.model_copy(update={"inputs": ("words", "size")}))
    weights = np.array([[-1.0, -2.0, -3.0, -0.5], [1.0, 2.0, 3.0, 0.5]])
    model = logistic_model(weights, np.zeros(2), imputed=[0.1, 0.2, 0.3, 0.0] if feature.missing == "impute" else None)
    draft = bundle.manifest.model_copy(update={"stages": stages})
    return reseal(draft, (bundle.models[0], model))


def reseal(draft: Any, models: tuple[bytes, ...]) -> Bundle:
    """Return a bundle of a changed manifest, with the models' hashes and a golden item that fits them."""
    stages = tuple(
        stage.model_copy(update={"model": Model.of(number, content, input="features", output="probabilities")})
        for number, (stage, content) in enumerate(zip(draft.stages, models, strict=True), start=1)
    )
    changed = draft.model_copy(update={"stages": stages})
    golden = _draw_golden(changed, models, np.random.default_rng(0))
    return build_bundle(changed.model_copy(update={"golden": (golden,)}), models)


@pytest.mark.parametrize(
    "value",
    [
        [1.0, 2.0, 3.0],
        (1, 2, 3),
        [True, 2, np.float32(3.0)],
        [Decimal(1), 2.0, 3.0],
        np.array([1.0, 2.0, 3.0]),
        np.array([1, 2, 3], dtype=np.uint8),
        np.array([1, 2, 3], dtype=np.float32),
        np.array([1.0, 2, 3], dtype=object),
        np.ma.array([1.0, 2.0, 3.0]),
        array.array("d", [1.0, 2.0, 3.0]),
        Tensor([1.0, 2.0, 3.0]),
        range(1, 4),
    ],
)
def test_sequences_that_are_meant(value: object) -> None:
    """Lists, tuples, arrays of numpy and of other libraries, with numbers of any type."""
    numbers: Any = make_encoder(VECTOR)(value)
    assert numbers.dtype == np.float64
    assert numbers.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (None, "missing", 'training had none here (missing="forbid")'),
        (math.nan, "missing", "the value is missing"),
        ([math.nan, None, math.nan], "missing", "the value is missing"),
        ([1.0, math.nan, 3.0], "missing", "number 1 of the vector, counted from 0, is missing"),
        (np.array([1.0, 2.0, math.nan]), "missing", "number 2 of the vector"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False]), "missing", "number 0 of the vector"),
        ([1.0, 2.0], "wrong_type", "expected a sequence of 3 numbers, as in training, got 2"),
        (np.ones(4), "wrong_type", "expected a sequence of 3 numbers, as in training, got 4"),
        (np.ones((1, 3)), "wrong_type", "got an array of shape (1, 3); give one row of it"),
        (np.array(1.0), "wrong_type", "expected a sequence of 3 numbers, got array(1.) (ndarray)"),
        (1.0, "wrong_type", "expected a sequence of 3 numbers, got 1.0 (float)"),
        ("abc", "wrong_type", "got 'abc' (str)"),
        (b"abc", "wrong_type", "got b'abc' (bytes)"),
        ({1.0, 2.0, 3.0}, "wrong_type", "(set)"),
        ({0: 1.0, 1: 2.0, 2: 3.0}, "wrong_type", "(dict)"),
        ((number for number in (1.0, 2.0, 3.0)), "wrong_type", "(generator)"),
        (Unreadable(), "wrong_type", "(Unreadable)"),
        ([1.0, "2", 3.0], "wrong_type", "number 1 of the vector, counted from 0: expected a number, got '2' (str)"),
        ([1.0, [2.0], 3.0], "wrong_type", "number 1 of the vector"),
        (np.array(["2026-01-01"] * 3, dtype="datetime64[D]"), "wrong_type", "number 0 of the vector"),
        ([1.0, 2.0, math.inf], "infinite", "number 2 of the vector, counted from 0: expected a finite number"),
        (np.array([math.inf, -math.inf, 0.0]), "infinite", "number 0 of the vector"),
        ([10**400, 1, 1], "infinite", "number 0 of the vector"),
    ],
)
def test_values_that_fail(value: object, kind: str, said: str) -> None:
    """The message says what was expected, what was got, and where in the vector."""
    encode = make_encoder(VECTOR)
    with pytest.raises(ValueFault) as caught:
        encode(value)
    assert caught.value.kind == kind
    assert said in caught.value.message


@pytest.mark.parametrize("value", [None, math.nan, [None] * 3, np.full(3, math.nan)])
def test_a_missing_vector_is_missing_as_a_whole(value: object) -> None:
    """None, or nothing but gaps: the graph fills in all numbers. A gap among numbers stays a fault."""
    numbers: Any = make_encoder(GAPPY)(value)
    assert len(numbers) == 3
    assert all(map(math.isnan, numbers))
    with pytest.raises(ValueFault, match="as a whole or not at all"):
        make_encoder(GAPPY)([1.0, None, 2.0])


entries = st.one_of(st.floats(-9, 9), st.integers(-9, 9), st.sampled_from([math.nan, math.inf, None, "x", 10**400]))
vectors = st.lists(entries, min_size=2, max_size=4) | st.none() | st.lists(st.floats(), min_size=3, max_size=3).map(np.array)


@given(st.lists(vectors, max_size=6), st.sampled_from([VECTOR, GAPPY]))
def test_columns_of_objects_are_encoded_as_values_are(values: list[object], feature: Feature) -> None:
    """The vectorised twin gives the same numbers, and leaves exactly the faulty rows to the reference."""
    column = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        column[row] = value
    assert_same_as_values(feature, column)


@given(st.integers(0, 5), st.integers(2, 4), st.sampled_from([VECTOR, GAPPY]), st.data())
def test_matrices_are_encoded_as_values_are(rows: int, width: int, feature: Feature, data: st.DataObject) -> None:
    """An array of two dimensions: a row of nothing but NaN is a missing vector, and another width is a fault of every row."""
    size = rows * width
    flat = data.draw(st.lists(st.floats(-9, 9) | st.sampled_from([math.nan, math.inf, -math.inf]), min_size=size, max_size=size))
    assert_same_as_values(feature, np.array(flat, dtype=np.float64).reshape(rows, width))


def assert_same_as_values(feature: Feature, column: Any) -> None:
    """Compare the encoded column with its values, encoded one by one."""
    numbers, faulty = encode_column(feature, column)
    assert numbers.shape == (len(column), 3)
    encode = make_encoder(feature)
    for row, value in enumerate(column):
        try:
            expected = encode(value)
        except ValueFault:
            assert faulty is not None
            assert faulty[row]
        else:
            assert faulty is None or not faulty[row]
            np.testing.assert_array_equal(numbers[row], expected)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_vector_is_so_many_numbers_of_one_price(data: st.DataObject) -> None:
    """The same probabilities, decisions and bills as a feature per number, in a group that is paid once."""
    width, seed = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 99))
    price = data.draw(st.sampled_from([0.1, 2.675, 7.27]))
    names = [f"w{position}" for position in range(width)]
    parts = [Feature(name=name, kind="numeric", cost=0.0, group="words") for name in names]
    other = [SIZE, Feature(name="age", kind="numeric", cost=0.3)]
    # The stages in both orders: the vector first, or in between.
    order = data.draw(st.sampled_from([("size", "words", "age"), ("words", "age", "size")]))
    rng = np.random.default_rng(seed)
    widths = np.cumsum([width if name == "words" else 1 for name in order])
    weights = [rng.normal(size=(3, total)) for total in widths]
    shared: Any = {"labels": ("x", "y", "z"), "weights": weights, "threshold": 0.6, "seed": seed}
    vector = Feature(name="words", kind="vector", width=width, cost=price)
    whole = Cascade(make_bundle([[name] for name in order], features=[*other, vector], **shared))
    apart_stages = [names if name == "words" else [name] for name in order]
    apart = Cascade(make_bundle(apart_stages, features=[*other, *parts], groups={"words": (price, names)}, **shared))
    matrix = rng.normal(size=(12, width))
    plain = [{"size": float(size), "age": float(age)} for size, age in rng.normal(size=(12, 2))]
    rows = [{**item, "words": words} for item, words in zip(plain, matrix, strict=True)]
    flat = [{**item, **dict(zip(names, words.tolist(), strict=True))} for item, words in zip(plain, matrix, strict=True)]
    budget = data.draw(st.sampled_from([None, 0.35, 3.0]))
    expected = [apart.decide(item, budget=budget) for item in flat]
    columns: dict[str, Any] = {name: [item[name] for item in plain] for name in ("size", "age")}
    ways = [
        [whole.decide(item, budget=budget) for item in rows],
        whole.decide_many(rows, budget=budget),
        asyncio.run(whole.decide_many_async(rows, budget=budget)),
        [whole.decide({**item, "words": item["words"].tolist()}, budget=budget) for item in rows],
    ]
    for decisions in ways:
        for one, two in zip(expected, decisions, strict=True):
            assert [getattr(one, name) for name in SEEN] == [getattr(two, name) for name in SEEN]
            assert one.probabilities == pytest.approx(two.probabilities, abs=1e-12)
            assert [record.cost for record in one.trace] == [record.cost for record in two.trace]
    numbered = {f"words[{position}]": matrix[:, position] for position in range(width)}
    for table in ({**columns, "words": matrix}, {**columns, "words": list(matrix)}, {**columns, **numbered}):
        decided = whole.decide_columns(table, budget=budget)
        for row, one in enumerate(expected):
            assert [getattr(one, name) for name in SEEN] == [getattr(decided, name)[row] for name in SEEN]


def test_inputs_in_another_order_than_they_are_acquired() -> None:
    """The model gets the numbers of a vector together, where the manifest says."""
    cascade = Cascade(two_stages())
    decision = cascade.decide({"size": 0.0, "words": [0.5, -0.25, 0.125]})
    logit = 2 * (1.0 * 0.5 + 2.0 * -0.25 + 3.0 * 0.125)
    assert decision.stages == 2
    assert decision.probabilities["spam"] == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-12)
    assert decision.cost == 5.0


def test_gaps_failures_fallbacks_and_known_values() -> None:
    """A missing vector is imputed; a bad one rejects, raises or falls back as any feature; a known one is free."""
    gappy = Cascade(two_stages(GAPPY))
    missing = gappy.decide({"size": 0.0, "words": None})
    logit = 2 * (1.0 * 0.1 + 2.0 * 0.2 + 3.0 * 0.3)
    assert missing.probabilities["spam"] == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-12)
    table = gappy.decide_columns({"size": [0.0, 0.0], "words": np.ma.array(np.ones((2, 3)), mask=[[True] * 3, [False] * 3])})
    assert table.confidence[0] == pytest.approx(missing.confidence)
    bad = {"size": 0.0, "words": [1.0, "x", 2.0]}
    rejected = Cascade(two_stages(), on_failure="reject").decide(bad)
    assert rejected.errors[0].feature == "words"
    assert "number 1 of the vector" in rejected.errors[0].message
    lenient = Cascade(two_stages(), on_failure="default")
    replaced = lenient.decide(bad)
    assert replaced.trace[1].defaulted == ("words",)
    assert replaced.probabilities == lenient.decide({"size": 0.0, "words": [0.0, 0.0, 1.0]}).probabilities
    acquirers = RecordingAcquirers("size", "words")
    known = Cascade(two_stages(), acquirers).decide({"size": 0.0}, known={"words": [1.0, 2.0, 3.0]})
    assert (known.cost, acquirers.asked) == (1.0, [("size",)])
    with pytest.raises(InputError, match="got 2"):
        lenient.decide({"size": 0.0}, known={"words": [1.0, 2.0]})


def test_a_value_that_overflows_is_blamed_on_its_vector() -> None:
    """A finite number so large that the model gives no probabilities: the failure names the vector it is in."""
    item = {"size": 0.0, "words": [1.0, 1e308, 1e308]}
    failed = Cascade(two_stages(), on_failure="reject").decide(item)
    assert [(error.feature, error.kind) for error in failed.errors] == [("words", "not_scorable")]


@pytest.mark.parametrize("shared", [np.zeros(3), [0.0] * 3], ids=["array", "list"])
def test_an_acquirer_may_fill_the_same_vector_for_every_item(shared: Any) -> None:
    """Many items, and a cache, have the numbers of each item, not those of the last one."""

    def embed(item: Any) -> Any:
        shared[:] = [float(number) for number in item["words"]]
        return shared

    items = [{"size": 0.0, "words": (1.0, 2.0, 3.0)}, {"size": 0.0, "words": (-1.0, -2.0, 0.5)}]
    expected = [Cascade(two_stages()).decide(item).label for item in items]
    assert len(set(expected)) == 2
    cache = AcquirerCache(key=lambda item: item["words"], ttl_s=60.0)
    for kept in (None, cache):
        acquirers = Acquirers()
        acquirers.feature("size")(lambda item: item["size"])
        acquirers.feature("words", cache=kept)(embed)
        cascade = Cascade(two_stages(), acquirers)
        assert [one.label for one in cascade.decide_many([*items, *items])] == 2 * expected
        assert [cascade.decide(item).label for item in (*items, *items)] == 2 * expected


@pytest.mark.parametrize("form", [dict, list, tuple, MappingProxyType], ids=lambda form: form.__name__)
def test_an_acquirer_of_several_features_may_fill_the_same_vector(form: Any) -> None:
    """By name or by position, beside another feature: each item has the numbers that were returned for it."""
    shared = np.zeros(3)

    def look_up(item: Any) -> Any:
        # A mapping of another class is not copied: only its author knows how. It has an array of its own.
        numbers = np.zeros(3) if form is MappingProxyType else shared
        numbers[:] = item["words"]
        return form((item["size"], numbers)) if form in (list, tuple) else form({"size": item["size"], "words": numbers})

    async def look_up_async(item: Any) -> Any:
        return look_up(item)

    items = [{"size": 0.0, "words": (1.0, 2.0, 3.0)}, {"size": 0.0, "words": (-1.0, -2.0, 0.5)}]
    bundle = make_bundle([["size", "words"]], features=[SIZE, VECTOR], threshold=0.6, seed=3)
    expected = [Cascade(bundle).decide(item).confidence for item in items]
    assert abs(expected[0] - expected[1]) > 0.1
    plain, awaited = Acquirers(), Acquirers()
    plain.features("size", "words")(look_up)
    awaited.features("size", "words")(look_up_async)
    assert [one.confidence for one in Cascade(bundle, plain).decide_many(items)] == pytest.approx(expected)
    decided = asyncio.run(Cascade(bundle, awaited).decide_many_async(items))
    assert [one.confidence for one in decided] == pytest.approx(expected)


def test_a_batch_acquirer_may_return_a_matrix() -> None:
    """One row per item, as embedding models give them; a list of arrays will do, too."""
    matrix = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, 0.5]])
    items = [{"size": 0.0, "row": 0}, {"size": 0.0, "row": 1}]
    cascade = Cascade(two_stages())
    expected = [cascade.decide({"size": 0.0, "words": row}) for row in matrix]
    for answer in (matrix, list(matrix)):
        acquirers = Acquirers()
        acquirers.feature("size")(lambda item: item["size"])
        acquirers.batch("words")(lambda messages, answer=answer: answer)
        decided = Cascade(two_stages(), acquirers).decide_many(items)
        assert [one.label for one in decided] == [one.label for one in expected]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"words[0]": [1.0], "words[1]": [1.0]}, "1 column is missing: words"),
        ({"words": np.ones((1, 3, 1))}, "expected columns of one dimension"),
        ({"words": np.ones((2, 3))}, "same length"),
        ({"words[0]": [1.0], "words[1]": [1.0, 2.0], "words[2]": [1.0]}, "the columns of 'words' have different lengths"),
        ({f"words[{position}]": np.ones((1, 1)) for position in range(3)}, "more than one dimension"),
    ],
)
def test_columns_that_do_not_fit(words: dict[str, Any], said: str) -> None:
    """A vector has a column of its own, or one for each of its numbers."""
    with pytest.raises(InputError) as caught:
        Cascade(two_stages()).decide_columns({"size": [0.0], **words})
    assert said in str(caught.value)


def test_wide_rows_are_decided_in_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of rows at a time depends on their width; the decisions do not."""
    matrix = np.random.default_rng(0).normal(size=(50, 3))
    table = {"size": np.zeros(50), "words": matrix}
    cascade = Cascade(two_stages())
    whole = cascade.decide_columns(table)
    monkeypatch.setattr(columns_module, "_MIN_BLOCK_ROWS", 4)
    monkeypatch.setattr(columns_module, "_BLOCK_NUMBERS", 28)
    pieces = cascade.decide_columns(table)
    assert pieces.confidence == pytest.approx(whole.confidence, abs=1e-12)
    assert pieces.label.tolist() == whole.label.tolist()


def test_only_vectors_need_version_2() -> None:
    """A bundle without vectors is written as before, without a width; one with a vector stores it."""
    assert needed_version([SIZE]) == 1
    assert needed_version([SIZE, VECTOR]) == 2
    assert "width" not in SIZE.model_dump()
    assert VECTOR.model_dump()["width"] == 3
    bundle = two_stages()
    assert bundle.manifest.schema_version == 2
    with pytest.raises(BundleError, match="a vector needs schema version 2"):
        build_bundle(bundle.manifest.model_copy(update={"schema_version": 1}), bundle.models)


def test_a_stage_of_too_many_numbers() -> None:
    """What no honest bundle comes near is refused before memory is taken for it."""
    bundle = two_stages()
    wide = [Feature(name=f"v{index}", kind="vector", width=65_536, cost=1.0, missing="impute") for index in range(16)]
    names = tuple(feature.name for feature in wide)
    stage = bundle.manifest.stages[0].model_copy(update={"acquire": names, "inputs": names})
    with pytest.raises(BundleError, match="1,048,576 numbers, at most 1,000,000 are read"):
        build_bundle(
            bundle.manifest.model_copy(update={"features": tuple(wide), "stages": (stage, bundle.manifest.stages[1])}),
            bundle.models,
        )


def test_inspect_shows_the_width(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The kind with its width, and the fallback, shortened."""
    bundle = two_stages(VECTOR.model_copy(update={"fallback": (0.123456, 1234.5, 99.25)}))
    write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models)
    assert inspect([str(tmp_path / "bundle")]) == 0
    shown = capsys.readouterr().out
    assert "vector (3)" in shown
    assert "0.123456, 1234.5, 99.25" in shown
