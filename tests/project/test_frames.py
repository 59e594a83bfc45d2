"""Data frames and Arrow tables: accepted wherever columns are, though neither pandas nor pyarrow is imported for it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from emsco_runtime import Cascade
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.testing import make_bundle
from emsco_train import CostModel, DataError, EmscoClassifier, Table
from emsco_train.data.features import encode_table, infer_features

FEATURES = [
    Feature(name="size", kind="numeric", cost=1.0, missing="impute"),
    Feature(name="count", kind="numeric", cost=1.0, missing="impute"),
    Feature(name="flag", kind="boolean", cost=1.0, missing="impute"),
    Feature(name="code", kind="categorical", cost=1.0, categories=("1", "2"), missing="impute"),
    Feature(name="colour", kind="categorical", cost=1.0, categories=("red", "blue"), unknown="ignore", missing="impute"),
]
NAMES = [feature.name for feature in FEATURES]
PLAIN = {
    "size": [0.5, None, -2.0, 3.0],
    "count": [1, 2, None, 4],
    "flag": [True, False, None, True],
    "code": [1, 2, 1, None],
    "colour": ["red", None, "green", "blue"],
}


@pytest.mark.parametrize(
    "dtypes",
    [
        {},
        {"size": "Float64", "count": "Int64", "flag": "boolean", "code": "Int64", "colour": "string"},
        {"colour": "category", "code": "category"},
        {"flag": object, "colour": object, "count": np.float32},
    ],
    ids=["inferred", "nullable", "category", "objects"],
)
def test_frames_of_any_dtype_decide_as_plain_values(dtypes: dict[str, object]) -> None:
    """Gaps as None, NaN or pandas.NA, categories as text, codes or categoricals: the same decisions as plain Python values."""
    cascade = Cascade(make_bundle([NAMES[:2], NAMES[2:]], features=FEATURES, threshold=0.7))
    frame = pd.DataFrame(PLAIN).astype(dtypes)
    table = cascade.decide_columns(frame)
    plain = [cascade.decide({name: PLAIN[name][row] for name in NAMES}) for row in range(4)]
    assert table.label.tolist() == [decision.label for decision in plain]
    assert table.cost.tolist() == [decision.cost for decision in plain]
    assert table.confidence == pytest.approx([decision.confidence for decision in plain], abs=1e-12)
    records = [cascade.decide(record) for record in frame.to_dict("records")]
    assert [decision.probabilities for decision in records] == [decision.probabilities for decision in plain]


@pytest.mark.parametrize("colour", ["String", "Categorical"])
def test_polars_frames_train_and_decide_as_plain_values(colour: str) -> None:
    """Gaps, booleans, codes and categories of a polars frame: the same columns for training, and the same decisions."""
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(PLAIN).with_columns(pl.col("colour").cast(getattr(pl, colour)))
    table, plain = Table.of(frame), Table.of(PLAIN)
    assert table.categorical == ({"colour"} if colour == "Categorical" else set())
    assert np.array_equal(encode_table(FEATURES, table, "train"), encode_table(FEATURES, plain, "train"), equal_nan=True)
    cascade = Cascade(make_bundle([NAMES[:2], NAMES[2:]], features=FEATURES, threshold=0.7))
    decided = cascade.decide_columns(frame)
    expected = [cascade.decide({name: PLAIN[name][row] for name in NAMES}) for row in range(4)]
    assert decided.label.tolist() == [decision.label for decision in expected]
    assert decided.cost.tolist() == [decision.cost for decision in expected]


def test_a_frame_of_results() -> None:
    """The arrays of a table's decisions make a frame as they are."""
    cascade = Cascade(make_bundle([["a"]], threshold=0.9))
    result = cascade.decide_columns(pd.DataFrame({"a": np.linspace(-5, 5, 7)}))
    frame = pd.DataFrame({"label": result.label, "status": result.status, "cost": result.cost, "stages": result.stages})
    assert (frame["status"] == "accepted").sum() == frame["label"].notna().sum()


def arrow_form(form: str) -> pa.Table | pa.RecordBatch:
    """Return `PLAIN`, with text as a dictionary and in two chunks, as an Arrow table or as one batch of it."""
    table = pa.table(PLAIN | {"colour": pa.array(PLAIN["colour"]).dictionary_encode()})
    return table.to_batches()[0] if form == "batch" else pa.concat_tables([table.slice(0, 1), table.slice(1)])


@pytest.mark.parametrize("form", ["table", "batch"])
def test_arrow_tables_train_as_frames_do(form: str) -> None:
    """Names, kinds, categories and gaps of an Arrow table are those of the same values in a data frame."""
    arrow = Table.of(arrow_form(form))
    frame = Table.of(pd.DataFrame(PLAIN).astype({"count": "Int64", "flag": "boolean", "code": "Int64", "colour": "category"}))
    costs = CostModel.of(None, NAMES)
    features = infer_features(arrow, NAMES, costs)
    assert features == infer_features(frame, NAMES, costs)
    assert arrow.categorical == {"colour"}
    codes = encode_table(features, arrow, "train")
    assert np.array_equal(codes, encode_table(features, frame, "train"), equal_nan=True)
    assert np.isnan(codes[1, NAMES.index("colour")])


def test_an_estimator_takes_arrow_tables() -> None:
    """Fitted on a table and labels of Arrow's, it has their names, and decides as one that was fitted on a frame."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    truth = np.where(frame["a"] + frame["b"] > 0, "yes", "no")
    model = EmscoClassifier(threshold=0.7, random_state=0)
    plain = clone(model).fit(frame, truth)
    arrow = clone(model).fit(pa.table(frame), pa.chunked_array([truth.tolist()]))
    assert arrow.feature_names_in_.tolist() == ["a", "b", "c"]
    assert arrow.front_ == plain.front_
    assert arrow.predict(pa.table(frame).select(["c", "a", "b"])).tolist() == plain.predict(frame).tolist()


def test_arrow_tables_with_a_name_twice_are_refused() -> None:
    """As for frames: it is unclear which of the two is meant."""
    with pytest.raises(DataError, match="column names must be unique; more than once: 'a'"):
        Table.of(pa.table([[1], [2]], names=["a", "a"]))


def test_a_frame_may_have_a_column_that_is_called_column_names() -> None:
    """It is a frame nevertheless."""
    assert Table.of(pd.DataFrame({"column_names": [1.0], "b": [2.0]})).names == ("column_names", "b")
