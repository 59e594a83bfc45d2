"""Tables: every container gives the same columns, and the same items for the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from emsco_train import DataError, Table


def test_containers_agree() -> None:
    """A frame, a mapping and an array of the same numbers make the same table."""
    matrix = np.arange(6.0).reshape(3, 2)
    tables = [
        Table.of(matrix, ["a", "b"]),
        Table.of({"a": matrix[:, 0], "b": matrix[:, 1].tolist()}),
        Table.of(pd.DataFrame(matrix, columns=["a", "b"])),
    ]
    for table in tables:
        assert (table.names, table.rows) == (("a", "b"), 3)
        assert list(table.items()) == [{"a": 0.0, "b": 1.0}, {"a": 2.0, "b": 3.0}, {"a": 4.0, "b": 5.0}]
        assert Table.of(table) is table


def test_items_hold_plain_python_values() -> None:
    """The runtime gets what an application would hand it, not numpy's own types."""
    table = Table.of({"n": np.array([1, 2]), "b": np.array([True, False]), "t": np.array(["x", "y"]), "o": [None, "z"]})
    item = table.item(0)
    assert item == {"n": 1, "b": True, "t": "x", "o": None}
    assert [type(value) for value in item.values()] == [int, bool, str, type(None)]
    assert list(table.items()) == [table.item(0), table.item(1)]


def test_take_and_select() -> None:
    """Rows and columns are chosen without a change of values; declared categories stay declared."""
    frame = pd.DataFrame({"a": [1, 2, 3], "b": pd.Categorical([7, 8, 7])})
    table = Table.of(frame)
    assert table.categorical == {"b"}
    assert table.take([2, 0]).columns["a"].tolist() == [3, 1]
    assert table.take(np.array([True, False, False])).rows == 1
    assert table.select(["b"]).names == ("b",)
    assert table.select(["a"]).categorical == frozenset()


def test_nullable_frame_columns() -> None:
    """A frame's nullable numbers become floats with NaN, its nullable booleans stay True, False and a gap."""
    frame = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean"), 3: [1, 2]})
    table = Table.of(frame)
    assert table.columns["n"].dtype == np.float64
    assert np.isnan(table.columns["n"][1])
    assert table.columns["b"][0] is True
    assert table.names == ("n", "b", "3")


def test_lists_keep_their_values() -> None:
    """A list that mixes text and numbers is not turned into text."""
    assert Table.of({"a": [1, "x"]}).item(0) == {"a": 1}


@pytest.mark.parametrize(
    ("data", "names", "message"),
    [
        ([1, 2, 3], None, r"two dimensions, got list of shape \(3,\)"),
        ([[1, 2]], ["a"], "2 columns but 1 name"),
        ([[1, 2]], ["a", "a"], "more than once: 'a'"),
        ({"a": [1]}, ["b"], "names were given for data that has its own"),
        ({}, None, "at least one column"),
        ({"a": [1], "b": [1, 2]}, None, "different lengths: {'a': 1, 'b': 2}"),
        ({"a": []}, None, "no rows"),
        ({"a": np.ones((2, 2, 2))}, None, r"column 'a' has shape \(2, 2, 2\)"),
        (
            {"a": np.array(["2020-01-01"], dtype="datetime64[D]")},
            None,
            r"column 'a' holds dates \(datetime64\[D\]\), .* days since a date",
        ),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "more than once: 'a'"),
        ({1: [1], "1": [2]}, None, "more than once: '1'"),
    ],
)
def test_bad_tables(data: Any, names: Any, message: str) -> None:
    """Each unusable table gets one error that names the column and the remedy."""
    with pytest.raises(DataError, match=message):
        Table.of(data, names)


def test_select_names_what_is_absent() -> None:
    """A missing column is named together with those there are."""
    with pytest.raises(DataError, match="no column 'z'; the table has: a"):
        Table.of({"a": [1]}).select(["z"])
