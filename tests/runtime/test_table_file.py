"""Table files: whoever reads a file, its fields are the same, and mean the same."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import sys
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.cli.table_rows import count_ignored, read_split_rows
from emsco_runtime.errors import InputError
from emsco_runtime.support import arrow_tables, table_file
from emsco_runtime.support.arrow_tables import ArrowColumn, is_plain_csv, read_csv_chunks, to_array
from emsco_runtime.support.csv_file import open_csv
from emsco_runtime.support.table_file import concatenate_columns, is_parquet, open_table
from emsco_runtime.support.text_column import FieldReader, ListColumn, to_objects

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

NUMBERS = st.one_of(
    st.floats().map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map("{:.3e}".format),
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(
        ["1e999", "-1e999", "1e-999", "1_000", " 7", "7 ", "+1", "-0.0", ".5", "5.", "1e5", "0x10", "nan(1)", "٣", "inf"]
    ),
)
TEXTS = st.one_of(NUMBERS, st.text(max_size=4), st.sampled_from(["", " ", "?", "NA", "-", "yes", "No", "t", "0", "1.0", "999"]))
FIELDS = st.text(st.sampled_from('ab",\n\r 1é'), max_size=4)


def arrow_column(texts: Sequence[str]) -> ArrowColumn:
    """Return a column as pyarrow would have read it."""
    return ArrowColumn(pa.array(texts, pa.large_string()))


def is_same(ours: Any, theirs: Any) -> bool:
    """Return whether two values are the same; NaN and None are both gaps."""
    gaps = [value is None or (isinstance(value, float) and math.isnan(value)) for value in (ours, theirs)]
    return gaps == [True, True] or (gaps == [False, False] and type(ours) is type(theirs) and ours == theirs)


@given(
    st.lists(TEXTS, max_size=12),
    st.sampled_from(["numeric", "boolean", "categorical"]),
    st.sampled_from([frozenset(), frozenset({"?", "na"}), frozenset({"999", "-"})]),
)
@example(["1e999", "2"], "numeric", frozenset())
@example(["10_20", "2"], "numeric", frozenset())
@example(["\xa05 ", "\uff12", "2"], "numeric", frozenset())
@example(["999", "999.0", "3"], "numeric", frozenset({"999"}))
def test_a_column_is_read_as_its_fields(texts: list[str], kind: str, words: frozenset[str]) -> None:
    """For any text: both forms of a column give what each field gives by itself, numbers those of `parse_number`."""
    reader = FieldReader(kind, frozenset({"a", "7", "-"}) if kind == "categorical" else frozenset(), words)
    expected = [reader.read(text) for text in texts]
    for column in (ListColumn(texts), arrow_column(texts)):
        found = reader.read_column(column).tolist()
        assert len(column) == len(found) == len(expected)
        assert all(map(is_same, found, expected)), (type(column), found, expected)
        assert column.texts() == texts
        different, codes = column.distinct()
        assert [different[code] for code in codes] == texts
        assert different == list(dict.fromkeys(texts))
        rows = np.arange(len(texts))[::2]
        assert column.take(rows).texts() == texts[::2]
        assert column.blank({"?", "a"}).texts() == ["" if text in ("?", "a") else text for text in texts]
        assert concatenate_columns([column, column]).texts() == texts * 2  # type: ignore[union-attr]


def test_numbers_are_those_of_tables_not_of_source_code() -> None:
    """Python's `float` takes 10_20 for 1020 and digits of all scripts; a range, a date or a version must not become a number."""
    texts = ["10_20", "2023_01", "1_000.5", "\uff12", "\xa05", " 1e3 ", "-.5"]
    expected = ["10_20", "2023_01", "1_000.5", "\uff12", 5.0, 1000.0, -0.5]
    assert [FieldReader("numeric").read(text) for text in texts] == expected
    for column in (ListColumn(texts), arrow_column(texts)):
        assert FieldReader("numeric").read_column(column).tolist() == expected
    assert FieldReader("numeric", missing=frozenset({"99_9"})).read("999") == 999.0


def test_numbers_that_mean_missing_in_typed_columns() -> None:
    """In columns of numbers, as Parquet has them, such a number is a gap, but for one that is a category of the bundle."""
    words = frozenset({"?", "-999", "7.0"})
    whole, flags = np.array([1, -999, 7]), np.array([True, False])
    assert FieldReader("numeric", missing=words).read_column(whole).tolist()[0] == 1.0
    assert np.isnan(FieldReader("numeric", missing=words).read_column(whole)[1:]).all()
    known = FieldReader("categorical", frozenset({"1", "7"}), words).read_column(whole)
    assert np.isnan(known).tolist() == [False, True, False]
    assert FieldReader("numeric").read_column(whole) is whole
    assert FieldReader("boolean", missing=words).read_column(flags) is flags
    single = np.array([-99.9, 1.0], dtype=np.float32)
    assert np.isnan(FieldReader("numeric", missing=frozenset({"-99.9"})).read_column(single)).tolist() == [True, False]
    large = np.array([2**53, 2**53 + 1, -999])
    assert FieldReader("categorical", missing=words).read_column(large).tolist() == [2**53, 2**53 + 1, None]
    vectors = np.array([[-999.0, 1.0], [2.0, 3.0]])
    assert FieldReader("vector", missing=words).read_column(vectors) is vectors
    assert FieldReader("categorical", frozenset({"7"}), words).read("7.0") == "7"


def test_text_of_a_typed_column_is_read_as_that_of_a_csv_file() -> None:
    """A bundle from a CSV file decides the same table as Parquet: "no" is a boolean there, and "1.5" a number."""
    flags = to_objects(["yes", "No", "", True, None, "perhaps"])
    assert FieldReader("boolean").read_column(flags).tolist() == [True, False, None, True, None, "perhaps"]
    numbers = to_objects(["1.5", " 2", "NA", 3, "many"])
    assert FieldReader("numeric").read_column(numbers).tolist() == [1.5, 2.0, None, 3, "many"]
    codes = to_objects(["3.0", "3", "x", "?"])
    assert FieldReader("categorical", frozenset({"3", "x"})).read_column(codes).tolist() == ["3.0", "3", "x", None]
    plain = to_objects(["3", "x"])
    assert FieldReader("categorical", frozenset({"3", "x"})).read_column(plain) is plain


def test_columns_of_both_forms_are_joined() -> None:
    """A long and a short CSV file, of which only one was read by pyarrow, are one column."""
    joined = concatenate_columns([ListColumn(["a"]), arrow_column(["b", "a"])])
    assert isinstance(joined, ListColumn)
    assert joined.texts() == ["a", "b", "a"]
    both = concatenate_columns([concatenate_columns([arrow_column(["a"]), arrow_column(["b"])]), arrow_column(["c"])])
    assert isinstance(both, ArrowColumn)
    assert both.texts() == ["a", "b", "c"]
    assert both.distinct()[1].tolist() == [0, 1, 2]
    assert both.parse_numbers()[1].tolist() == [False] * 3


def test_numbers_that_arrow_refuses_are_read_by_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a cast fail for all, each field is read by itself; what was parsed once is not parsed again."""
    import pyarrow.compute as pc

    def refuse(*_: Any) -> Any:
        raise pa.ArrowInvalid("no number")

    known = arrow_column(["1", "2.5"])
    assert known.parse_numbers()[0].tolist() == [1.0, 2.5]
    monkeypatch.setattr(pc, "cast", refuse)
    assert known.parse_numbers()[0].tolist() == [1.0, 2.5]
    column = arrow_column(["1", "2.5", ""])
    assert not column.parse_numbers()[1].any()
    assert FieldReader("numeric").read_column(column).tolist()[:2] == [1.0, 2.5]


def test_splits_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A Parquet file under the name of splits.csv is not taken for one."""
    pa.parquet.write_table(pa.table({"row": [0], "split": ["test"]}), tmp_path / "splits.csv")
    with pytest.raises(InputError, match=r"splits\.csv: expected a CSV file of text"):
        read_split_rows(str(tmp_path), "test")


def test_typed_columns_are_joined() -> None:
    """Numbers with gaps in one part of a file only are floats; one part alone is as it is."""
    whole = np.array([1, 2])
    assert concatenate_columns([whole]) is whole
    assert concatenate_columns([whole, np.array([np.nan])]).tolist()[:2] == [1.0, 2.0]  # type: ignore[union-attr]


def test_ignored_categories_are_counted_in_columns_of_every_form() -> None:
    """Text and typed values alike; neither gaps, nor values of another type, nor what fails are ignored categories."""
    texts = ["a", "b", "?", "7.0", "", "b"]
    reader = FieldReader("categorical", frozenset({"a", "7"}))
    feature = Feature(name="c", kind="categorical", cost=1.0, categories=("a", "7"), missing="impute", unknown="ignore")
    assert count_ignored(feature, reader.read_column(ListColumn(texts))) == 2
    # Text of a typed column is taken as it is: "7.0" is no code there.
    typed = np.array([*texts, 3, None, True], dtype=object)
    assert count_ignored(feature, reader.read_column(typed)) == 4
    assert count_ignored(feature, reader.read_column(np.array([7, 8, 9]))) == 2
    assert count_ignored(feature.model_copy(update={"unknown": "fail"}), typed) == 0
    assert count_ignored(Feature(name="n", kind="numeric", cost=1.0), np.array(["x"], dtype=object)) == 0


def test_a_wide_table_is_read_in_proportion_to_its_width(tmp_path: Path) -> None:
    """Thirty thousand columns: looking each of them up among all others would take ten seconds and more."""
    names = [f"column_{number}" for number in range(30_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    started = time.perf_counter()
    with open_table(str(path)) as table:
        [chunk] = table.read(names)
    assert len(chunk.columns) == len(names)
    assert time.perf_counter() - started < 5


def test_typed_values_stay_but_for_words() -> None:
    """Numbers of a Parquet file are as they are; text that means "missing" is a gap, unless it is a known category."""
    numbers = np.array([1.0, 2.0])
    assert FieldReader("numeric").read_column(numbers) is numbers
    texts = np.array(["a", "?", None, 3, [1]], dtype=object)
    assert FieldReader("categorical").read_column(texts).tolist() == ["a", None, None, 3, [1]]
    assert FieldReader("categorical", frozenset({"?"})).read_column(texts) is texts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_both_readers_read_the_same(tmp_path: Path, rows: list[list[str]], ending: str, bom: bool) -> None:
    """Quotes, commas, line ends and blank lines within fields: pyarrow and the csv module give the same rows."""
    text = io.StringIO()
    csv.writer(text, lineterminator=ending).writerows([["x", "y"], *rows])
    path = tmp_path / "t.csv"
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.getvalue().encode())
    compare_readers(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.text(st.sampled_from('ab",\n\r'), max_size=14))
@example('"a"b,c\n')
@example('a"b,c\n')
@example('"a,"b"\n')
@example('""a,b\n')
def test_what_the_csv_module_refuses_is_left_to_it(tmp_path: Path, content: str) -> None:
    """Any text: where pyarrow would be asked at all, both readers give the same rows, or both refuse the file."""
    path = tmp_path / "t.csv"
    path.write_bytes(("x,y\n" + content).encode())
    if is_plain_csv(str(path)):
        compare_readers(path)


def compare_readers(path: Path) -> None:
    """Read a file by both and compare."""
    assert is_plain_csv(str(path))
    try:
        with open_csv(str(path)) as opened:
            ours = [row.fields for row in opened]
    except InputError:
        with pytest.raises(InputError):
            list(read_csv_chunks(str(path), ["x", "y"], ["x", "y"]))
        return
    chunks = list(read_csv_chunks(str(path), ["x", "y"], ["x", "y"])) if ours else []
    theirs = [list(pair) for chunk in chunks for pair in zip(chunk["x"].texts(), chunk["y"].texts(), strict=True)]
    assert theirs == ours


def write_rows(path: Path, count: int) -> Path:
    """Write a table of `count` rows, one of them over two lines."""
    lines = [f'{row},"a\nb"' if row == 3 else f"{row},c" for row in range(count)]
    path.write_text("\n".join(["x,y", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("by_arrow", [False, True])
def test_rows_come_in_chunks_with_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_arrow: bool) -> None:
    """Chunks follow each other, hold the columns that were asked for, and know the line of each of their rows."""
    monkeypatch.setattr(table_file, "_MIN_ARROW_BYTES", 1 if by_arrow else 10**9)
    monkeypatch.setattr(table_file, "_CHUNK_ROWS", 300)
    monkeypatch.setattr(arrow_tables, "_BLOCK_BYTES", 1000)
    with open_table(str(write_rows(tmp_path / "t.csv", 1000))) as table:
        assert table.names == ("x", "y")
        chunks = list(table.read(["y"]))
    assert len(chunks) > 3
    assert [chunk.start for chunk in chunks] == np.cumsum([0, *(chunk.rows for chunk in chunks[:-1])]).tolist()
    assert sum(chunk.rows for chunk in chunks) == 1000
    assert {type(chunk.columns["y"]) for chunk in chunks} == {ArrowColumn if by_arrow else ListColumn}
    assert set(chunks[0].columns) == {"y"}
    assert (chunks[0].place(2), chunks[0].place(4)) == ("line 4", "line 7")
    assert chunks[-1].place(chunks[-1].rows - 1) == "line 1002"
    with open_table(str(tmp_path / "t.csv")) as table:
        assert sum(chunk.rows for chunk in table.read([])) == 1000


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of the csv module, with the line, whoever read the file; also for a header of pyarrow's own."""
    monkeypatch.setattr(table_file, "_MIN_ARROW_BYTES", 1)
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3\n", encoding="utf-8")
    with open_table(str(path)) as table, pytest.raises(InputError, match="line 3: 1 fields, the header has 2"):
        list(table.read(["x"]))
    monkeypatch.setattr(table_file, "read_csv_chunks", lambda *_: iter_error("pyarrow alone refuses it"))
    path.write_text("x,y\n1,2\n", encoding="utf-8")
    with open_table(str(path)) as table, pytest.raises(InputError, match="pyarrow alone refuses it"):
        list(table.read(["x"]))


def iter_error(message: str) -> Any:
    """Raise at the first chunk."""
    raise InputError(message)
    yield


def test_parquet(tmp_path: Path) -> None:
    """Numbers, booleans, text and categories come as arrays, gaps as None or NaN; the form is known by name or content."""
    table = pa.table(
        {
            "whole": pa.array([1, None, 3]),
            "flag": pa.array([True, None, False]),
            "text": pa.array(["a", None, "a"]),
            "code": pa.array(["x", None, "x"]).dictionary_encode(),
        }
    )
    for name in ("t.parquet", "t.PQ", "t"):
        path = tmp_path / name
        pa.parquet.write_table(table, path)
        assert is_parquet(str(path))
        with open_table(str(path)) as opened:
            assert opened.names == ("whole", "flag", "text", "code")
            (chunk,) = opened.read(opened.names)
        assert (chunk.start, chunk.rows, chunk.place(2)) == (0, 3, "row 2")
        columns = {name: column.tolist() for name, column in chunk.columns.items()}  # type: ignore[union-attr]
        assert columns["flag"] == [True, None, False]
        assert columns["text"] == ["a", None, "a"]
        assert columns["code"] == ["x", None, "x"]
        assert is_same(columns["whole"][1], None)
        with open_table(str(path)) as opened:
            assert sum(part.rows for part in opened.read([])) == 3
    assert not is_parquet(str(tmp_path / "nowhere"))


def test_lists_of_a_parquet_file(tmp_path: Path) -> None:
    """Lists of a fixed size are one array, with NaN for a missing list; others an array each."""
    path = tmp_path / "t.parquet"
    rows = [[1.0, 2.0], None, [3.0, 4.0]]
    fixed = pa.list_(pa.float32(), 2)
    table = pa.table({"gaps": pa.array(rows, fixed), "full": pa.array([[1, 2]] * 3, fixed), "any": rows})
    try:
        pa.parquet.write_table(table, path)
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow cannot write missing lists of a fixed size")
    with open_table(str(path)) as opened:
        (chunk,) = opened.read(opened.names)
    columns: Any = chunk.columns
    np.testing.assert_array_equal(columns["gaps"], [[1.0, 2.0], [math.nan] * 2, [3.0, 4.0]])
    np.testing.assert_array_equal(columns["full"], [[1.0, 2.0]] * 3)
    assert columns["any"][1] is None
    assert columns["any"][2].tolist() == [3.0, 4.0]


def test_codes_of_a_parquet_file_keep_their_digits(tmp_path: Path) -> None:
    """Whole numbers beyond 2**53 are not rounded because there are gaps among them; smaller ones are floats with NaN."""
    pa.parquet.write_table(pa.table({"code": [2**53 + 1, None], "small": [2**53, None]}), tmp_path / "t.parquet")
    with open_table(str(tmp_path / "t.parquet")) as opened:
        (chunk,) = opened.read(opened.names)
    columns: Any = chunk.columns
    assert columns["code"].tolist() == [2**53 + 1, None]
    assert columns["small"].dtype == np.float64


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32()])
def test_a_dictionary_may_use_all_of_its_indices(kind: Any) -> None:
    """As many texts as short indices can number, and gaps among them: also of a part of an array."""
    size = 2 ** min(kind.bit_width - (kind == pa.int8()), 8)
    texts = [f"text {number}" for number in range(size)]
    column = pa.DictionaryArray.from_arrays(pa.array([*range(size), None], kind), pa.array(texts))
    assert to_array(column).tolist() == [*texts, None]
    assert to_array(column.slice(size - 1)).tolist() == [texts[-1], None]
    assert to_array(column.slice(0, 0)).tolist() == []


def test_dates_in_lists_are_no_vectors_and_no_crash() -> None:
    """Dates in lists of a fixed size stay dates, which the runtime refuses, where a list is missing, too."""
    day = dt.date(2020, 1, 1)
    dates = to_array(pa.array([[day, day], None], pa.list_(pa.date32(), 2)))
    assert dates.tolist() == [[day, day], [None, None]]


def test_parquet_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged file, a repeated column and a missing pyarrow are one line each, with the remedy."""
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="not readable as Parquet"), open_table(str(path)):
        pass
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pa.parquet.write_table(twice, path)
    with pytest.raises(InputError, match="a column occurs twice: a"), open_table(str(path)):
        pass
    pa.parquet.write_table(pa.table({"a": list(range(100_000))}), path)
    content = bytearray(path.read_bytes())
    content[100:20_000] = bytes(19_900)
    path.write_bytes(content)
    with pytest.raises(InputError, match="not readable as Parquet"), open_table(str(path)) as table:
        list(table.read(["a"]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'emsco\[parquet\]', or give a CSV file"), open_table(str(path)):
        pass


def test_csv_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base install reads CSV files of any length, by the csv module."""
    monkeypatch.setattr(table_file, "_MIN_ARROW_BYTES", 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with open_table(str(write_rows(tmp_path / "t.csv", 10))) as table:
        (chunk,) = table.read(["x"])
    assert isinstance(chunk.columns["x"], ListColumn)


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    """Files are read in the order of their names, those below too; a folder "day=3" is a column; other files are ignored."""
    folder = tmp_path / "rows"
    (folder / "day=3").mkdir(parents=True)
    for number, place in enumerate(("a.parquet", "b.pq", "day=3/a.parquet")):
        pa.parquet.write_table(pa.table({"a": [number * 2, number * 2 + 1], "b": ["x", "y"]}), folder / place)
    for ignored in ("_SUCCESS", ".part.parquet", "notes.txt"):
        (folder / ignored).write_text("no table", encoding="utf-8")
    with open_table(str(folder)) as table:
        assert set(table.names) == {"a", "b", "day"}
        chunks = list(table.read(["a"]))
    assert [value for chunk in chunks for value in np.asarray(chunk.columns["a"]).tolist()] == [0, 1, 2, 3, 4, 5]
    assert [chunk.start for chunk in chunks] == [0, 2, 4]


def test_folders_that_are_no_table(tmp_path: Path) -> None:
    """No Parquet files, or files with other columns than the first, which would pass for missing values: one line each."""
    with pytest.raises(InputError, match=r"this directory has no Parquet files \(.parquet, .pq\)"), open_table(str(tmp_path)):
        pass
    pa.parquet.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table({"a": [1], "c": [1]}), tmp_path / "2.parquet")
    expected = r"2.parquet: has other columns than the first file of the folder \(only one of them has b, c\)"
    with pytest.raises(InputError, match=expected), open_table(str(tmp_path)):
        pass


def test_a_later_file_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    """Its names are those of the first file, and one of the two columns would be read."""
    pa.parquet.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"2.parquet: a column occurs twice: a"), open_table(str(tmp_path)):
        pass


def test_a_file_of_other_types_than_the_first_is_named(tmp_path: Path) -> None:
    """Where no type fits the values of all files, that of the first is tried: an error says which file, column and types."""
    first = pa.table({"a": [1.0], "b": [1]})
    # A file without rows has types, too.
    pa.parquet.write_table(first.slice(0, 0), tmp_path / "0.parquet")
    pa.parquet.write_table(first, tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table({"a": ["many"], "b": [2]}), tmp_path / "2.parquet")
    with open_table(str(tmp_path)) as table:
        chunks = table.read(["a", "b"])
        assert next(chunks).columns["a"].tolist() == [1.0]  # type: ignore[union-attr]
        with pytest.raises(
            InputError, match=r"2.parquet: other types than in other files.*: a is string, read as double \(.*many"
        ):
            next(chunks)


def test_files_of_a_folder_may_have_types_that_fit(tmp_path: Path) -> None:
    """The first file does not decide alone: its float32 rounds no others, and it may have whole numbers, or gaps only."""
    (tmp_path / "day=3").mkdir()
    parts = [{"a": pa.array([0.5], pa.float32()), "b": [1], "c": pa.nulls(1)}, {"a": [0.1], "b": [2.5], "c": ["x"]}]
    for number, part in enumerate(parts):
        pa.parquet.write_table(pa.table(part), tmp_path / "day=3" / f"{number}.parquet")
    with open_table(str(tmp_path)) as table:
        chunks = list(table.read(["a", "b", "c", "day"]))
    found = [[chunk.columns[name].tolist() for name in ("a", "b", "c", "day")] for chunk in chunks]  # type: ignore[union-attr]
    assert found == [[[0.5], [1.0], [None], [3]], [[0.1], [2.5], ["x"], [3]]]


def test_files_with_the_same_types_are_not_joined_column_by_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of files with hundreds of columns, that would take many times as long as to read what they hold."""
    for number in range(3):
        pa.parquet.write_table(pa.table({"a": [number], "b": ["x"]}), tmp_path / f"{number}.parquet")
    monkeypatch.setattr(pa, "unify_schemas", None)
    with open_table(str(tmp_path)) as table:
        assert [chunk.columns["a"].tolist() for chunk in table.read(["a", "b"])] == [[0], [1], [2]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([2**53 + 1, 7], [1.5, None], id="beyond what floats hold"),
        pytest.param(pa.array([2**64 - 1], pa.uint64()), [-1], id="beyond numbers with a sign"),
        pytest.param([Decimal("1234567.25")], pa.array(np.array([0.5], dtype=np.float16)), id="decimals and floats"),
        pytest.param([1, 2], [Decimal("1.25")], id="decimals and whole numbers"),
        pytest.param(["red"], [b"green"], id="text"),
    ],
)
def test_types_of_a_folder_that_hold_every_value(tmp_path: Path, one: Any, other: Any) -> None:
    """In every order of the files: whole numbers beyond a float stay such, decimals become no narrow float, text no bytes."""
    for number, values in enumerate([one, other, one]):
        pa.parquet.write_table(pa.table({"a": values}), tmp_path / f"{number}.parquet")
    with open_table(str(tmp_path)) as table:
        found = [value for chunk in table.read(["a"]) for value in chunk.columns["a"].tolist()]  # type: ignore[union-attr]
    expected = [value for values in (one, other, one) for value in pa.array(values).to_pylist()]
    assert [None if value != value else value for value in found] == [
        value.decode() if isinstance(value, bytes) else value for value in expected
    ]
