"""`BatchDecider`: Arrow and pandas batches, computed columns, and one bundle per process."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import emsco_runtime.mlflow
from emsco_runtime import AcquisitionError, BundleError, Cascade, InputError, write_bundle
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.serving import batches as batches_module
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.strategies import bundles, good_values

pa = pytest.importorskip("pyarrow")

from emsco_runtime.arrow import BatchDecider  # noqa: E402 - it needs pyarrow

ROWS = {"key": ["a", "b", "c"], "size": [2.0, 0.1, -2.0], "links": [1.0, 0.0, 0.5], "reputation": [0.5, 0.5, 0.1]}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Write the sample bundle and return its folder."""
    return write(sample_bundle(), tmp_path / "bundle")


def write(bundle: Bundle, path: Path, *, force: bool = False) -> str:
    """Write a bundle."""
    write_bundle(path, bundle.manifest, bundle.models, force=force)
    return str(path)


def expected_rows(bundle: Bundle, rows: dict[str, list[Any]]) -> list[tuple[object, ...]]:
    """Decide rows one by one."""
    count = len(next(iter(rows.values())))
    items = [{name: values[row] for name, values in rows.items()} for row in range(count)]
    with Cascade(bundle) as cascade:
        return [(one.label, one.status, one.reason, one.stages, one.cost) for one in map(cascade.decide, items)]


def seen_rows(answer: Any) -> list[tuple[object, ...]]:
    """Return what a table of decisions says of each row."""
    names = ("label", "status", "reason", "stages", "cost")
    return [tuple(row[name] for name in names) for row in answer.select(list(names)).to_pylist()]


@given(bundle=bundles(mixed=True), data=st.data())
@settings(max_examples=25)
def test_batches_are_decided_as_items_are(tmp_path_factory: pytest.TempPathFactory, bundle: Bundle, data: st.DataObject) -> None:
    """Record batches and tables, also in pieces, of features of every kind: the decisions of `decide`, in the same form."""
    path = write(bundle, tmp_path_factory.mktemp("batches") / "bundle")
    count = data.draw(st.integers(1, 5))
    plain: dict[str, Any] = {}
    for feature in bundle.manifest.features:
        # A column of Arrow has one type.
        values = st.floats(-5, 5) if feature.kind == "numeric" else good_values[feature.kind]
        one_type = {"boolean": bool, "categorical": str, "vector": lambda vector: [float(number) for number in vector]}
        plain[feature.name] = [one_type.get(feature.kind, float)(data.draw(values)) for _ in range(count)]
        plain[feature.name] = [
            {"3.0": "3"}.get(value, value) if isinstance(value, str) else value for value in plain[feature.name]
        ]
    table = pa.table(plain)
    decider = BatchDecider(path)
    expected = expected_rows(bundle, plain)
    assert seen_rows(decider(table)) == expected
    assert seen_rows(decider(pa.concat_tables([table.slice(0, 1), table.slice(1)]))) == expected
    [batch] = table.to_batches()
    [answer] = decider.map([batch])
    assert isinstance(answer, pa.RecordBatch)
    assert answer.schema == decider.schema()
    assert seen_rows(answer) == expected


def test_frames_of_pandas(path: str) -> None:
    """A DataFrame gives a DataFrame; kept columns come first; what has no value is missing."""
    pd = pytest.importorskip("pandas")
    answer = BatchDecider(path, keep=["key"])(pd.DataFrame(ROWS))
    assert isinstance(answer, pd.DataFrame)
    assert answer.columns.tolist() == ["key", "label", "status", "reason", "confidence", "stages", "cost", "degraded", "error"]
    assert answer["key"].tolist() == ROWS["key"]
    assert answer["cost"].tolist() == [row[-1] for row in expected_rows(sample_bundle(), {**ROWS})]
    assert answer["error"].isna().all()


def test_a_frame_keeps_its_index_and_its_columns(path: str) -> None:
    """The answer fits the frame: the same index, even with repeated entries; kept columns have their types, gaps included."""
    pd = pytest.importorskip("pandas")
    for index in ([1, 3, 5], [7, 7, 7], list("xyz")):
        frame = pd.DataFrame({**ROWS, "number": pd.array([1, None, 3], dtype="Int64")}, index=index)
        answer = BatchDecider(path, keep=["number", "key"])(frame)
        assert answer.index.equals(frame.index)
        assert answer.columns.tolist()[:3] == ["number", "key", "label"]
        pd.testing.assert_frame_equal(answer[["number", "key"]], frame[["number", "key"]])
    with pytest.raises(InputError, match="the column 'id', which is to be kept, is missing; the batch has key, size"):
        BatchDecider(path, keep=["id"])(frame)


def test_of_a_frame_only_the_columns_that_are_needed_are_read(path: str) -> None:
    """Columns of mixed values that no stage uses do not matter; of one that a stage uses, each bad value is one row's."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({**ROWS, "notes": [1, "text", b"bytes"]})
    expected = [row[0] for row in expected_rows(sample_bundle(), {**ROWS})]
    assert BatchDecider(path, keep=["notes"])(frame)["label"].tolist() == expected
    mixed = frame.assign(size=pd.Series([2.0, "large", -2.0], dtype=object))
    answer = BatchDecider(path, on_failure="reject")(mixed)
    assert answer["reason"].tolist() == ["confident", "acquisition_failed", "confident"]


def test_a_function_gets_rows_of_the_frame(path: str) -> None:
    """Rows of a frame come as a frame with their index and types, which the function may change."""
    pd = pytest.importorskip("pandas")
    seen: list[Any] = []

    def look_up(frame: Any) -> Any:
        seen.append(frame)
        frame["twice"] = frame["reputation"] * 2
        return frame["twice"] / 2

    frame = pd.DataFrame(ROWS, index=[5, 6, 7])
    answer = BatchDecider(path, compute={"reputation": look_up})(frame)
    assert answer["label"].tolist() == BatchDecider(path)(frame)["label"].tolist()
    assert [one.index.tolist() for one in seen] == [[6]]
    assert "twice" not in frame


def test_expensive_columns_are_computed_for_the_rows_that_need_them(path: str) -> None:
    """A function gets the rows that reach its feature's stage, in the form of the batch, and may answer in Arrow's own arrays."""
    seen: list[Any] = []

    def look_up(batch: Any) -> Any:
        seen.append(batch)
        return batch.column("reputation_source")

    rows = {name: values for name, values in ROWS.items() if name != "reputation"}
    table = pa.table({**rows, "reputation_source": ROWS["reputation"]})
    plain = BatchDecider(path)(pa.table(ROWS))
    for batch in (table, table.to_batches()[0]):
        answer = BatchDecider(path, keep=["key"], compute={"reputation": look_up})(batch)
        assert seen_rows(answer) == seen_rows(plain)
        last = seen.pop()
        assert type(last) is type(batch)
        assert last.column("key").to_pylist() == ["b"]
        assert not seen


def test_everything_computed(path: str) -> None:
    """Where no feature has a column, the number of rows is that of the batch; an empty batch has no decisions."""
    compute = {
        name: lambda batch, name=name: [ROWS[name][row] for row in batch.column("row").to_pylist()] for name in list(ROWS)[1:]
    }
    decider = BatchDecider(path, compute=compute)
    table = pa.table({"row": [0, 1, 2]})
    assert seen_rows(decider(table)) == expected_rows(sample_bundle(), {**ROWS})
    for empty in (table.slice(0, 0), pa.RecordBatch.from_pylist([], schema=table.schema)):
        assert decider(empty).num_rows == 0
        assert decider(empty).schema == decider.schema()


@pytest.mark.parametrize(("labels", "expected"), [((0, 1), pa.int64()), (("a", "b"), pa.string()), (("a", 1), pa.string())])
def test_labels_have_one_type(tmp_path: Path, labels: tuple[Any, ...], expected: Any) -> None:
    """Labels are whole numbers where all of them are, else text; rejected rows have none."""
    bundle = make_bundle([["size"]], labels=labels, weights=[[[0.0], [1.0]]], threshold=0.9)
    answer = BatchDecider(write(bundle, tmp_path / "bundle"))(pa.table({"size": [9.0, 0.1]}))
    assert answer.schema.field("label").type == expected
    assert [row[0] for row in seen_rows(answer)] == [labels[1] if expected == pa.int64() else str(labels[1]), None]


def test_a_process_loads_a_bundle_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the decider is unpickled and whatever the number of batches, sessions are made once."""
    made: list[Any] = []
    monkeypatch.setattr(batches_module, "Cascade", lambda *args, **options: made.append(0) or Cascade(*args, **options))
    content = pickle.dumps(BatchDecider(path))
    for _ in range(3):
        copy = pickle.loads(content)
        assert [seen_rows(answer) for answer in copy.map([pa.table(ROWS)] * 2)] == [expected_rows(sample_bundle(), {**ROWS})] * 2
    assert len(made) == 1


def test_a_replaced_bundle_is_refused(tmp_path: Path) -> None:
    """Workers that come later must not decide with another bundle than those before them."""
    path = write(make_bundle([["size"]], seed=1), tmp_path / "bundle")
    decider = BatchDecider(path)
    write(make_bundle([["size"]], seed=2), tmp_path / "bundle", force=True)
    with pytest.raises(BundleError, match="from which the decider was made"):
        decider(pa.table({"size": [1.0]}))


def test_wrong_use_is_one_clear_line(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch, a feature that is none, a kept column that is missing, a missing feature, no pyarrow."""
    with pytest.raises(InputError, match="expected a pyarrow RecordBatch or Table, or a pandas DataFrame, got list"):
        BatchDecider(path)([1])
    with pytest.raises(InputError, match="compute: 'speed' is not a feature of the bundle; it has size, links, reputation"):
        BatchDecider(path, compute={"speed": len})
    with pytest.raises(InputError, match="the column 'id', which is to be kept, is missing; the batch has key, size"):
        BatchDecider(path, keep=["id"])(pa.table(ROWS))
    with pytest.raises(InputError, match=r"keep: the Arrow schema of the batches is needed, .* the result has key; got NoneType"):
        BatchDecider(path, keep=["key"]).schema()
    union = pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])])
    with pytest.raises(InputError, match=r"the column 'size' of type sparse_union.* cannot be read: .*Cast it first"):
        BatchDecider(path)(pa.table({**ROWS, "size": union}))
    with pytest.raises(InputError, match="1 column is missing: size"):
        BatchDecider(path)(pa.table(ROWS).drop_columns(["size"]))
    with pytest.raises(InputError, match="keep: expected a list of columns, got the text 'key'"):
        BatchDecider(path, keep="key")
    with pytest.raises(InputError, match="compute: expected a function for 'size', got int"):
        BatchDecider(path, compute={"size": 3}, on_failure="reject")  # type: ignore[dict-item]
    with pytest.raises(InputError, match="on_failure: expected one of raise, reject, default, got 'rejct'"):
        BatchDecider(path, on_failure="rejct")  # type: ignore[arg-type]
    twice = pa.table([pa.array([1.0])] * 4, names=["size", "links", "size", "reputation"])
    for batch in (twice, twice.to_pandas()):
        with pytest.raises(InputError, match="the batch has the column 'size' 2 times: leave one"):
            BatchDecider(path)(batch)
        with pytest.raises(InputError, match="the batch has the column 'size', which is to be kept, 2 times: leave one"):
            BatchDecider(path, keep=["size"])(batch)
    monkeypatch.setattr(batches_module, "has_pyarrow", lambda: False)
    with pytest.raises(InputError, match="needs pyarrow"):
        BatchDecider(path)


@pytest.mark.parametrize("form", ["numbers", "dictionary", "Int64", "computed"])
def test_codes_beside_gaps_are_compared_to_the_last_digit(tmp_path: Path, form: str) -> None:
    """A whole number beyond 2**53 is no other category, although another row has a gap: floats would round it to a known one."""
    feature = Feature(name="code", kind="categorical", categories=(str(2**53), "7"), missing="impute", unknown="ignore", cost=1.0)
    bundle = make_bundle([["code"]], features=[feature], weights=[[[-3.0], [3.0]]])
    codes = [2**53, 2**53 + 1, None, 7]
    batch: Any = pa.table({"code": pa.array(codes), "row": range(4)})
    if form == "dictionary":
        batch = pa.table({"code": pa.array(codes).dictionary_encode()})
    if form == "Int64":
        pd = pytest.importorskip("pandas")
        batch = pd.DataFrame({"code": pd.array(codes, dtype="Int64")})
    compute = {"code": lambda rows: rows.column("code")} if form == "computed" else None
    answer = BatchDecider(write(bundle, tmp_path / "bundle"), compute=compute)(batch)
    with Cascade(bundle) as cascade:
        expected = [cascade.decide({"code": code}).label for code in codes]
    assert len(set(expected[:2])) == 2
    labels = answer.column("label").to_pylist() if form != "Int64" else answer["label"].tolist()
    assert [label if isinstance(label, str) else None for label in labels] == expected


def test_columns_of_objects_are_not_given_one_type(path: str) -> None:
    """Each value is what `decide` gets: bytes make no bytes of all text, sets are no vectors, and no value is too large."""
    pd = pytest.importorskip("pandas")
    category = Feature(name="colour", kind="categorical", categories=("red", "3"), cost=1.0)
    vector = Feature(name="words", kind="vector", width=2, cost=1.0)
    bundle = make_bundle([["colour", "words"]], features=[category, vector])
    colours = ["red", b"red", "\ud800", 10**400, "red", "red", 3]
    words = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], {1.0, 2.0}, [1.0, "x"], (1, 2)]
    frame = pd.DataFrame({"colour": pd.Series(colours, dtype=object), "words": pd.Series(words, dtype=object)})
    answer = BatchDecider(write(bundle, Path(path).parent / "objects"), on_failure="reject")(frame)
    failed = "acquisition_failed"
    with Cascade(bundle, on_failure="reject") as cascade:
        decisions = cascade.decide_many(
            [dict(zip(("colour", "words"), row, strict=True)) for row in zip(colours, words, strict=True)]
        )
    assert answer["reason"].tolist() == [one.reason for one in decisions]
    assert [row for row, reason in enumerate(answer["reason"]) if reason == failed] == [1, 2, 3, 4, 5]


def test_periods_of_pandas_are_no_numbers(path: str) -> None:
    """What Arrow stores of a type of pandas' own, such as days since 1970, is not taken for the value of a feature."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS).assign(size=pd.period_range("2020", periods=3, freq="D"))
    with pytest.raises(AcquisitionError, match=r"expected a number, got Period\('2020-01-01', 'D'\)"):
        BatchDecider(path)(frame)


def test_views_of_text_as_polars_hands_them_over(tmp_path: Path) -> None:
    """Text and categories as views, of which pyarrow takes no rows and casts no dictionaries, are as other text."""
    colour = Feature(name="colour", kind="categorical", categories=("red", "green"), missing="impute", cost=1.0)
    shade = Feature(name="shade", kind="categorical", categories=("red", "green"), missing="impute", cost=1.0)
    bundle = make_bundle([["colour"], ["shade"]], features=[colour, shade], threshold=0.99)
    texts = ["red", None, "green"]
    views = pa.array(texts, pa.string_view())
    coded = pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["red", "green"], pa.string_view()))
    table = pa.table({"note": views, "colour": views, "shade": coded})
    answer = BatchDecider(write(bundle, tmp_path / "bundle"), keep=["note"], compute={"shade": lambda rows: rows["shade"]})(table)
    assert answer.schema.field("note").type == pa.string_view()
    assert seen_rows(answer) == expected_rows(bundle, {"colour": texts, "shade": texts})


def test_tables_of_other_libraries_are_refused_by_name(path: str) -> None:
    """A frame of polars is not said to be the DataFrame that was expected, and a Series has no columns."""
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"or a pandas DataFrame, got polars.DataFrame. Give what its to_arrow\(\) returns"):
        BatchDecider(path)(pl.DataFrame(ROWS))
    with pytest.raises(InputError, match=r"or a pandas DataFrame, got pandas.Series$"):
        BatchDecider(path)(pd.Series([1.0]))


def test_what_mlflow_loads(path: str) -> None:
    """MLflow finds the loader by its name; the model decides frames, and rejects a row with a bad value."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({**ROWS, "size": [2.0, float("inf"), -2.0]})
    answer = emsco_runtime.mlflow._load_pyfunc(path).predict(frame, params={})
    assert answer["reason"].tolist() == ["confident", "acquisition_failed", "confident"]
