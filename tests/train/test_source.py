"""Table files: CSV and Parquet, one table or ready splits."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_train.errors import DataError, DesignError
from emsco_train.runs.source import Columns, read_source
from tests.train.sample_tables import write_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def parquet(path: Path, **columns: Any) -> Path:
    """Write a Parquet file."""
    pq.write_table(pa.table(columns), path)
    return path


def test_a_csv_table(tmp_path: Path) -> None:
    """Columns get their kinds, special ones are not features, and the file is described."""
    path = write_rows(
        tmp_path / "t.csv", ["a", "b", "who", "label"], [["1", "x", "7", "1"], ["", "y", "7", "0"], ["3", "", "8", "1"]]
    )
    source = read_source({None: str(path)}, Columns(group="who"))
    assert source.table.names == ("a", "b")
    np.testing.assert_array_equal(source.table.columns["a"], [1.0, np.nan, 3.0])
    assert source.table.columns["b"].tolist() == ["x", "y", None]
    assert source.labels == [1, 0, 1]
    assert source.group is not None
    assert source.group.tolist() == [7.0, 7.0, 8.0]
    assert (source.files[0].path, source.files[0].rows, source.files[0].split) == (str(path), 3, None)
    assert source.splits() is None


@pytest.mark.parametrize("dropped", ["1", "True"])
def test_labels_that_are_true_or_false_have_one_name(tmp_path: Path, dropped: str) -> None:
    """In Parquet they are called as in CSV, False and True; to drop one, 0 and 1 mean the same."""
    path = parquet(tmp_path / "t.parquet", a=[1.0, 2.0, 3.0], label=[True, False, None])
    with pytest.raises(DataError, match="column 'label' holds only the label 'False' after labels were dropped"):
        read_source({None: str(path)}, Columns(drop_labels=(dropped, "")))
    with pytest.raises(DataError, match="no row has the label '2', which was to be dropped; the labels are: , False, True"):
        read_source({None: str(path)}, Columns(drop_labels=("2",)))
    text = write_rows(tmp_path / "t.csv", ["a", "label"], [[1.0, True], [2.0, False], [3.0, ""]])
    sources = [read_source({None: str(one)}, Columns(drop_labels=("",))) for one in (path, text)]
    assert sources[0].labels == sources[1].labels == ["True", "False"]


@pytest.mark.parametrize(
    "labels", [[True, None, False], [1.0, None, 0.0], ["x", None, "y"], ["x", " ", "y"], [1.0, float("nan"), 0.0]]
)
def test_a_missing_label_of_a_parquet_file(tmp_path: Path, labels: list[Any]) -> None:
    """The message is that of a CSV file: it names the file, the row, the column, and how to drop such rows."""
    path = parquet(tmp_path / "t.parquet", a=[1.0, 2.0, 3.0], label=labels)
    message = r"t\.parquet row 1: the label 'label' is missing; give it a label, or drop such rows with `drop_labels=\('',\)`"
    with pytest.raises(DataError, match=message):
        read_source({None: str(path)}, Columns())
    assert len(read_source({None: str(path)}, Columns(drop_labels=("",))).labels) == 2


def test_weights_that_are_no_plain_numbers(tmp_path: Path) -> None:
    """They are no feature: neither words for a gap nor another kind would help."""
    path = write_rows(tmp_path / "t.csv", ["a", "w", "label"], [[1, 2, "x"], [2, "1,000", "y"]])
    message = r"line 3: column 'w' holds '1,000', expected a number\. Weights are plain numbers: write them without units and .*$"
    with pytest.raises(DataError, match=message):
        read_source({None: str(path)}, Columns(weight="w"))


def test_a_gap_in_a_typed_column_of_groups(tmp_path: Path) -> None:
    """The message names the file, the row and the column."""
    path = parquet(tmp_path / "t.parquet", a=[1.0, 2.0], who=["x", None], label=[0, 1])
    with pytest.raises(DataError, match=r"t\.parquet row 1: column 'who': the value is missing; fill it, or drop the row"):
        read_source({None: str(path)}, Columns(group="who"))


def test_ready_splits_come_in_their_own_order(tmp_path: Path) -> None:
    """Whatever the order in which they are named: train, validation, test, certify, one after the other."""
    paths: dict[str | None, str] = {}
    for place, name in enumerate(("certify", "validation", "train")):
        paths[name] = str(write_rows(tmp_path / f"{name}.csv", ["a", "label"], [[place, "x"], [place, "y"]]))
    source = read_source(paths, Columns())
    assert source.table.columns["a"].tolist() == [2.0, 2.0, 1.0, 1.0, 0.0, 0.0]
    splits = source.splits()
    assert splits is not None
    assert splits.names().tolist() == ["train"] * 2 + ["validation"] * 2 + ["certify"] * 2


def test_columns_in_another_order_are_the_same_columns(tmp_path: Path) -> None:
    """Splits are joined by the names of their columns."""
    train = write_rows(tmp_path / "a.csv", ["a", "b", "label"], [[1, 2, "x"]])
    other = write_rows(tmp_path / "b.csv", ["label", "b", "a"], [["y", 20, 10]])
    source = read_source({"train": str(train), "validation": str(other)}, Columns())
    assert source.table.columns["a"].tolist() == [1.0, 10.0]


def test_parquet_columns_keep_their_types(tmp_path: Path) -> None:
    """Missing numbers become NaN, other missing values None; dictionaries are decoded; times stay times."""
    path = parquet(
        tmp_path / "t.parquet",
        number=[1, None, 3],
        flag=[True, None, False],
        word=pa.array(["a", None, "b"]).dictionary_encode(),
        when=[datetime(2024, 1, day) for day in (1, 2, 3)],  # noqa: DTZ001 - as tables have them
        label=["x", "y", "x"],
    )
    source = read_source({None: str(path)}, Columns(time="when"))
    np.testing.assert_array_equal(source.table.columns["number"], [1.0, np.nan, 3.0])
    assert source.table.columns["flag"].tolist() == [True, None, False]
    assert source.table.columns["word"].tolist() == ["a", None, "b"]
    assert source.time is not None
    assert source.time.dtype.kind == "M"
    assert source.labels == ["x", "y", "x"]


def test_empty_text_of_a_parquet_file_is_missing(tmp_path: Path) -> None:
    """As an empty field of a CSV file is, with blanks or without: no bundle holds a category without a name."""
    path = parquet(
        tmp_path / "t.parquet", word=["a", "", "  ", "b", None, "a"], whole=["a", "b", "a", "b", "a", "b"], label=[*"xyxyxy"]
    )
    source = read_source({None: str(path)}, Columns())
    assert source.table.columns["word"].tolist() == ["a", None, None, "b", None, "a"]
    assert source.table.columns["whole"].tolist() == [*"ababab"]
    assert not source.missing_words


def test_groups_that_are_mostly_numbers_may_hold_words(tmp_path: Path) -> None:
    """A column that only divides the rows is not a feature: a word among its numbers is allowed."""
    rows = [[index, str(index), index % 2] for index in range(19)] + [[19, "guest", 1]]
    path = write_rows(tmp_path / "t.csv", ["a", "who", "label"], rows)
    source = read_source({None: str(path)}, Columns(group="who"))
    assert source.group is not None
    assert source.group.tolist()[-2:] == ["18", "guest"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """Each message names the file, what is wrong and what to do."""
    good = write_rows(tmp_path / "good.csv", ["a", "label"], [[1, "x"], [2, "y"]])
    wider = write_rows(tmp_path / "wider.csv", ["a", "b", "label"], [[1, 2, "x"]])
    typed = parquet(tmp_path / "typed.parquet", a=[1.0], label=["x"])
    none = parquet(tmp_path / "none.parquet", a=pa.array([], pa.float64()), label=pa.array([], pa.string()))
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), tmp_path / "twice.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 is not all of it")
    gap = write_rows(tmp_path / "gap.csv", ["a", "who", "label"], [[1, "m", "x"], [2, " ", "y"]])
    cases: list[tuple[dict[str | None, str], Columns, type[Exception], str]] = [
        ({None: str(tmp_path)}, Columns(), DataError, "is a folder: give a CSV or Parquet file"),
        ({None: ""}, Columns(), DataError, "the table does not exist: give"),
        (
            {None: str(good)},
            Columns(kinds={"zz": "numeric"}),
            DataError,
            "good.csv: there is no column 'zz', it has a, label. Check the column name",
        ),
        ({None: str(good)}, Columns(drop=("a",)), DataError, "good.csv: there is no column except label, a: give at least one"),
        ({"train": str(good), "validation": str(wider)}, Columns(), DataError, "differ in columns: b. Give all splits the same"),
        (
            {"train": str(good), "validation": str(typed)},
            Columns(),
            DesignError,
            "a CSV and a Parquet file: give all splits in one",
        ),
        ({None: str(none)}, Columns(), DataError, "none.parquet: there are no rows"),
        ({None: str(tmp_path / "twice.parquet")}, Columns(), DataError, "twice.parquet: a column occurs twice: a. Names must be"),
        ({None: str(tmp_path / "broken.parquet")}, Columns(), DataError, "broken.parquet: not readable as Parquet: "),
        (
            {None: str(gap)},
            Columns(group="who"),
            DataError,
            "gap.csv line 3: column 'who' is empty, and the division needs a value",
        ),
        ({None: str(gap)}, Columns(time="who"), DataError, "gap.csv line 3: column 'who' is empty"),
    ]
    for paths, columns, kind, message in cases:
        with pytest.raises(kind) as caught:
            read_source(paths, columns)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
