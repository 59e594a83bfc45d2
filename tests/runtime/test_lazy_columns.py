"""Columns that are functions of the rows: computed for those that reach their stage, and decided as values are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import AcquisitionError, Cascade, InputError
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.driving import columns as columns_module
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.support.arrays import Ints
from emsco_runtime.testing import make_bundle
from tests.runtime.strategies import bundles, good_values

FIELDS = ("label", "status", "reason", "stages", "cost", "degraded", "error")


class CountedColumn:
    """A column as a function of row numbers, which keeps the calls."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.calls: list[list[int]] = []

    def __call__(self, rows: Ints) -> Any:
        """Return the values of rows."""
        self.calls.append(rows.tolist())
        return [self.values[row] for row in rows]


def two_stages(threshold: float = 0.9) -> Bundle:
    """Make a bundle: `size`, then `price`."""
    return make_bundle([["size"], ["price"]], costs={"size": 1.0, "price": 20.0}, threshold=threshold, seed=1)


def assert_same(left: ColumnDecisions, right: ColumnDecisions) -> None:
    """Compare everything that is decided."""
    for name in FIELDS:
        assert getattr(left, name).tolist() == getattr(right, name).tolist()
    np.testing.assert_array_equal(left.confidence, right.confidence)


@given(bundle=bundles(mixed=True), data=st.data())
@settings(max_examples=40)
def test_functions_decide_as_values_do(bundle: Bundle, data: st.DataObject) -> None:
    """Whichever columns are functions: the same decisions, and each row is computed once, if at all."""
    features = bundle.manifest.features
    count = data.draw(st.integers(0, 6))
    plain = {one.name: [data.draw(good_values[one.kind]) for _ in range(count)] for one in features}
    lazy = {one.name: CountedColumn(plain[one.name]) for one in features if data.draw(st.booleans())}
    cascade = Cascade(bundle)
    assert_same(cascade.decide_columns({**plain, **lazy, "key": range(count)}), cascade.decide_columns(plain))
    for column in lazy.values():
        rows = [row for call in column.calls for row in call]
        assert len(rows) == len(set(rows))


def test_only_rows_that_reach_the_stage_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call per block and stage, with the rows still under way; none where all have left or cannot pay."""
    monkeypatch.setattr(columns_module, "_BLOCK_ROWS", 4)
    monkeypatch.setattr(columns_module, "_MIN_BLOCK_ROWS", 4)
    rng = np.random.default_rng(0)
    sizes = np.concatenate([rng.normal(size=20) * 3, np.full(4, 100.0)])
    cascade = Cascade(two_stages())
    first = cascade.decide_columns({"size": sizes, "price": np.zeros(24)})
    price = CountedColumn(np.zeros(24))
    again = cascade.decide_columns({"size": sizes, "price": price})
    assert_same(again, first)
    assert [row for call in price.calls for row in call] == np.flatnonzero(first.stages == 2).tolist()
    assert 1 < len(price.calls) <= 5
    poor = CountedColumn(np.zeros(24))
    cascade.decide_columns({"size": sizes, "price": poor}, budget=5.0)
    assert poor.calls == []


def test_a_row_near_a_threshold_is_computed_on_its_own() -> None:
    """A row that the walk decides, since its score is near a threshold, gets its value by the same function."""
    weights = [np.array([[0.0], [1.0]]), np.array([[0.0, 0.0], [0.0, 1.0]])]
    bundle = make_bundle([["size"], ["price"]], weights=weights, threshold=0.9)
    price = CountedColumn([3.0, 4.0])
    decisions = Cascade(bundle).decide_columns({"size": [0.0, 1.0], "price": price})
    assert decisions.label.tolist() == ["spam", "spam"]
    assert price.calls == [[1], [0]]  # both labels are equally likely in row 0


@pytest.mark.parametrize(
    ("compute", "said"),
    [
        (lambda rows: 1 / 0, "division by zero"),
        (lambda rows: [1.0], r"expected a value for each of 2 rows, got the shape \(1,\)"),
        (lambda rows: np.zeros((len(rows), 3)), r"expected a value for each of 2 rows, got the shape \(2, 3\)"),
        (lambda rows: 7.0, r"expected a value for each of 2 rows, got the shape \(\)"),
    ],
    ids=["raises", "too-few", "too-wide", "no-column"],
)
def test_a_function_that_fails(compute: Any, said: str) -> None:
    """The policy says what a failure does to the rows that need the column: error, rejected, or the bundle's fallback."""
    features = [
        Feature(name="size", kind="numeric", cost=1.0, fallback=0.0),
        Feature(name="price", kind="numeric", cost=20.0, fallback=0.0),
    ]
    bundle = make_bundle([["size"], ["price"]], features=features, threshold=0.9, seed=1)
    columns = {"size": [0.05, 100.0, 0.1], "price": compute}
    with pytest.raises(AcquisitionError, match=said) as caught:
        Cascade(bundle).decide_columns(columns)
    assert caught.value.index == 0
    rejected = Cascade(bundle, on_failure="reject").decide_columns(columns)
    assert rejected.reason.tolist() == ["acquisition_failed", "confident", "acquisition_failed"]
    degraded = Cascade(bundle, on_failure="default").decide_columns(columns)
    assert degraded.degraded.tolist() == [True, False, True]


@pytest.mark.parametrize("error", [KeyError("price"), IndexError("far"), TypeError("text")])
def test_what_a_function_raises_is_no_missing_key(error: Exception) -> None:
    """Whatever a function raises is its failure, of the kind "exception" and with its cause: the row lacks nothing."""

    def compute(rows: Ints) -> Any:
        raise error

    with pytest.raises(AcquisitionError, match="its acquirer raised") as caught:
        Cascade(two_stages()).decide_columns({"size": [0.05], "price": compute})
    assert caught.value.kind == "exception"
    assert caught.value.__cause__ is error


def test_the_number_of_rows_must_be_known() -> None:
    """Functions alone do not say how many rows there are: any column with values does, also one that no stage needs."""
    cascade = Cascade(two_stages())
    columns: dict[str, Any] = {"size": lambda rows: rows * 1.0, "price": lambda rows: rows * 2.0}
    with pytest.raises(InputError, match="every column is a function: add one with values"):
        cascade.decide_columns(columns)
    assert len(cascade.decide_columns({**columns, "key": ["a", "b", "c"]})) == 3
