"""`emsco-train` checks the table first: what awkward tables look like to their users, and that what it says is what it does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from emsco_runtime import read_bundle
from emsco_train import DataError, EmscoClassifier, FeatureOptions, Shares, TableWarning, write_report
from emsco_train.cli.train import main
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.run_file import RunFile
from emsco_train.runs.source import Columns
from tests.processes import run, run_expecting_error, run_successfully, without_progress
from tests.train.sample_tables import read_rows, write_rows

QUICK = ("--threshold", "0.7", "--folds", "0", "--stages", "straight")


def numbers(rows: int, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return three columns of numbers, rounded as people write them."""
    return np.random.default_rng(seed).normal(size=(rows, 3)).round(4)


def labels(values: np.ndarray[tuple[int, int], np.dtype[np.float64]], seed: int = 1) -> list[str]:
    """Return labels that depend on the numbers."""
    noise = np.random.default_rng(seed).normal(size=len(values))
    return np.where(values.sum(axis=1) + noise > 0, "yes", "no").tolist()  # type: ignore[no-any-return]


def table(path: Path, rows: int = 600, extra: Mapping[str, Sequence[object]] | None = None) -> Path:
    """Write three columns of numbers, others, and a label."""
    values = numbers(rows)
    columns = {f"x{index}": values[:, index].tolist() for index in range(3)} | dict(extra or {}) | {"label": labels(values)}
    return write_rows(path, list(columns), list(zip(*columns.values(), strict=True)))


def look(capsys: pytest.CaptureFixture[str], data: Path, *options: str) -> list[str]:
    """Return the lines of the page that `emsco-train --check` prints."""
    capsys.readouterr()
    assert main(["--data", str(data), "--check", *options]) == 0
    shown = capsys.readouterr()
    assert without_progress(shown.err) == []
    lines = shown.out.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("check "))
    return lines[first : lines.index("", first)]


def record(folder: Path) -> RunFile:
    """Read the record of a run."""
    return RunFile.read((folder / "run.json").read_bytes(), "run.json")


def decide(folder: Path, data: Path, *options: str) -> str:
    """Export a run, decide a table with its bundle, and return the decisions."""
    if not (folder / "bundle").exists():
        run_successfully("emsco-export", folder, "--out", folder / "bundle")
    run_successfully("emsco-run", folder / "bundle", data, "--out", folder / "decisions.csv", *options)
    return (folder / "decisions.csv").read_text(encoding="utf-8")


def test_the_index_of_a_data_frame_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A counter without a name, as pandas writes it, is in nobody's way: trained, exported and decided without a word of it."""
    data = table(tmp_path / "t.csv", extra={"": range(600)})
    assert look(capsys, data)[1:] == [
        "dropped  a column without a name: a row number or another counter: every value is different"
    ]
    run_successfully("emsco-train", "--data", data, "--out", tmp_path / "run", "--generations", "2", *QUICK)
    assert [column.name for column in record(tmp_path / "run").columns] == ["x0", "x1", "x2"]
    assert decide(tmp_path / "run", data).count("\n") == 601


def test_columns_with_the_names_of_arguments_stay_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page and the errors call a column by its name, also where an argument of the library has it."""
    data = table(tmp_path / "t.csv", extra={"sample_weight": [1] * 600, "max_cost": [row * 7919 % 101 for row in range(600)]})
    assert "dropped  sample_weight: always 1" in look(capsys, data)
    prices = [f"{name} = 1" for name in ("x0", "x1", "x2", "max_cost", "sample_weight", "typo")]
    (tmp_path / "costs.toml").write_text("\n".join(["[features]", *prices]), encoding="utf-8")
    message = run_expecting_error(1, "emsco-train", "--data", data, "--check", "--costs", tmp_path / "costs.toml")
    assert "(features: x0, x1, x2, max_cost)" in message


def test_a_clean_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page is two lines: the share of the most common label, and that there is nothing to say; nothing is written."""
    lines = look(capsys, table(tmp_path / "t.csv"))
    assert re.fullmatch(r"check    the most common label is '(yes|no)', in 5\d\.\d\d % of 600 rows", lines[0])
    assert lines[1:] == ["         nothing unusual"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]


def test_the_page_is_printed_and_kept(tmp_path: Path) -> None:
    """A run prints the page before the search, and keeps it as check.txt; run.json says what was left out, and why."""
    data = table(tmp_path / "t.csv", extra={"row": range(600), "unit": ["cm"] * 600})
    shown = run_successfully("emsco-train", "--data", data, *QUICK, "--out", tmp_path / "run")
    page = (tmp_path / "run" / "check.txt").read_text(encoding="utf-8")
    assert page in shown
    assert "dropped  row: a row number or another counter: every value is different\n" in page
    assert "         keep it with --kind row=numeric\n" in page
    assert "dropped  unit: always 'cm'\n" in page
    kept = record(tmp_path / "run")
    assert [(entry.column, entry.why) for entry in kept.data.dropped] == [
        ("row", "a row number or another counter: every value is different"),
        ("unit", "always 'cm'"),
    ]
    assert [column.name for column in kept.columns] == ["x0", "x1", "x2"]
    assert "costs    all features: 3 units" in shown
    report = write_report(tmp_path / "run", tmp_path / "report.html").read_text(encoding="utf-8")
    assert """<code title="always 'cm'">unit</code>""" in report.replace("&#x27;", "'").replace("&#39;", "'")
    assert decide(tmp_path / "run", data).count("\n") == 601


def test_three_id_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 rows, 4 labels: the ids are left out with a line each, and the rest is searched; whoever names one keeps it."""
    rng, values = np.random.default_rng(0), numbers(2000)
    columns = {
        "user": [f"{value:08x}" for value in rng.integers(0, 2**32, 2000)],
        "mail": [f"u{value}@example.org" for value in rng.integers(0, 10**9, 2000)],
        "visit": [f"v{value}" for value in rng.integers(0, 900, 2000)],
        "a": values[:, 0].tolist(),
        "b": values[:, 1].tolist(),
        "label": np.digitize(values[:, :2].sum(axis=1) + rng.normal(size=2000), [-1, 0, 1]).tolist(),
    }
    data = write_rows(tmp_path / "t.csv", list(columns), list(zip(*columns.values(), strict=True)))
    lines = look(capsys, data)
    assert [line.partition(":")[0] for line in lines if line.startswith("dropped")] == [
        "dropped  user",
        "dropped  mail",
        "dropped  visit",
    ]
    assert "         keep it with --kind user=categorical" in lines
    run_successfully("emsco-train", "--data", data, *QUICK, "--out", tmp_path / "run")
    assert [column.name for column in record(tmp_path / "run").columns] == ["a", "b"]
    kept = look(capsys, data, "--kind", "visit=categorical")
    assert [line.partition(":")[0] for line in kept if line.startswith("dropped")] == ["dropped  user", "dropped  mail"]
    assert [line[:15] for line in kept[-2:]] == ["note     visit:", "note     column"]


@pytest.mark.parametrize(("word", "share"), [("?", 0.05), ("?", 0.2), ("NA", 0.02), ("n/a", 0.3), ("-", 0.1), ("NULL", 0.15)])
def test_words_for_missing(word: str, share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any share of them leaves a column of numbers one of numbers; the page says how many rows were taken as missing."""
    gaps = np.random.default_rng(3).random(600) < share
    column = [word if gap else str(value) for gap, value in zip(gaps, numbers(600, 5)[:, 0].tolist(), strict=True)]
    data = table(tmp_path / "t.csv", extra={"a": column})
    lines = look(capsys, data)
    assert f"note     {word!r} taken as missing in a ({gaps.sum()} rows)" in lines
    assert "         if one of these words means something, name the others with --missing" in lines
    prepared = prepare(TrainRequest({None: str(data)}, Columns(), (0.8,)))
    assert next(one for one in prepared.problem.features if one.name == "a").kind == "numeric"
    assert int(np.isnan(prepared.source.table.columns["a"]).sum()) == gaps.sum()


def test_texts_that_differ_only_in_case_or_blanks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels and categories that are probably one are pointed out, and stay as they are."""
    rng = np.random.default_rng(0)
    shops = rng.choice(["north", "North ", "south"], size=600).tolist()
    labels = rng.choice(["good", "Good", "bad"], size=600).tolist()
    rows = list(zip(shops, rng.normal(size=600).tolist(), labels, strict=True))
    lines = look(capsys, write_rows(tmp_path / "t.csv", ["shop", "a", "label"], rows))
    (shop,) = (line for line in lines if line.startswith("note     shop:"))
    assert "differ only in case or blanks" in shop
    assert "'North '" in shop
    assert "note     labels 'Good', 'good' differ only in case or blanks" in lines


def test_numbers_for_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number is found as data frames write it, too; a word that no field holds is pointed out."""
    column = ["-999.0" if row % 5 == 0 else str(value) for row, value in enumerate(numbers(600, 5)[:, 0].tolist())]
    data = table(tmp_path / "t.csv", extra={"a": column})
    lines = look(capsys, data, "--missing=-999,unknown")
    assert "note     '-999.0' taken as missing in a (120 rows)" in lines
    assert "note     'unknown': in no field of a feature" in lines


def test_a_number_that_may_mean_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is pointed out with its rows, and kept; the remedy works. Of nothing unusual was spoken before."""
    column = ["-999" if row % 10 == 0 else str(value) for row, value in enumerate(numbers(600, 5)[:, 0].tolist())]
    data = table(tmp_path / "t.csv", extra={"a": column})
    assert look(capsys, data)[1:] == [
        "note     a: 60 rows are exactly -999, far from all others",
        "         if it means missing, use --missing=-999, with the other words that do",
    ]
    assert look(capsys, data, "--missing", "-999")[1] == "note     '-999' taken as missing in a (60 rows)"
    assert "a" in prepare(TrainRequest({None: str(data)}, Columns(), (0.8,))).problem.names


def test_numbers_that_may_mean_missing_in_a_parquet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whole numbers and others, with gaps or without."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values, rng = numbers(600), np.random.default_rng(0)
    whole, others = rng.integers(0, 50, 600), values[:, 0].copy()
    whole[::5], others[::4] = 999, -9999.0
    made = {"whole": whole, "others": arrow.array(others, mask=rng.random(600) < 0.1), "x": values[:, 1]}
    parquet.write_table(arrow.table({**made, "label": labels(values)}), tmp_path / "t.parquet")
    lines = look(capsys, tmp_path / "t.parquet")
    assert "note     whole: 120 rows are exactly 999, far from all others" in lines
    assert not any("exactly 999" in line for line in look(capsys, tmp_path / "t.parquet", "--kind", "whole=categorical"))
    assert any(re.fullmatch(r"note     others: 1\d\d rows are exactly -9999, far from all others", line) for line in lines)


def test_an_infinite_number_in_a_parquet_file(tmp_path: Path) -> None:
    """The message names the row of the file, counted from 0, whatever its split, and speaks of nothing else."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = numbers(600)
    columns = {f"x{index}": values[:, index].copy() for index in range(3)}
    for row in (3, 234, 599):
        columns["x1"][:] = values[:, 1]
        columns["x1"][row] = np.inf
        parquet.write_table(arrow.table({**columns, "label": labels(values)}), tmp_path / "t.parquet")
        message = run_expecting_error(1, "emsco-train", "--data", tmp_path / "t.parquet", "--check")
        assert f"column 'x1', {tmp_path / 't.parquet'} row {row}: expected a finite number, got inf (float)" in message
        assert "FeatureOptions" not in message


def test_a_row_is_counted_in_its_own_file(tmp_path: Path) -> None:
    """Of several files the message names one and the row there, and rows whose label is left out are counted, too."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = numbers(400)
    for name, bad in (("train", None), ("validation", 123)):
        columns = {f"x{index}": values[:, index].copy() for index in range(3)}
        if bad is not None:
            columns["x1"][bad] = np.inf
        names = ["unclear" if row % 10 == 0 else label for row, label in enumerate(labels(values))]
        parquet.write_table(arrow.table({**columns, "label": names}), tmp_path / f"{name}.parquet")
    files = [text for name in ("train", "validation") for text in (f"--{name}", tmp_path / f"{name}.parquet")]
    message = run_expecting_error(1, "emsco-train", *files, "--drop-label", "unclear", "--check")
    assert f"column 'x1', {tmp_path / 'validation.parquet'} row 123: expected a finite number" in message


def test_numbers_for_missing_in_a_parquet_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number that was named as missing is a gap in typed columns, too, of whole numbers and of others; it was kept before."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    whole, others = rng.integers(0, 50, 600), rng.normal(size=600)
    whole[::5], others[::4] = -999, -999
    labels = np.where(rng.normal(size=600) > 0, "yes", "no")
    parquet.write_table(arrow.table({"whole": whole, "others": others, "label": labels}), tmp_path / "t.parquet")
    lines = look(capsys, tmp_path / "t.parquet", "--missing=-999.0,77")
    assert "note     '-999' taken as missing in whole (120 rows), others (150 rows)" in lines
    assert "note     '77': in no field of a feature" in lines


def test_words_for_missing_in_production(tmp_path: Path) -> None:
    """`emsco-run` takes the same words as missing: a table with words is decided as one with empty fields, row by row."""
    rng = np.random.default_rng(0)
    words = ["?", "NA", " n/a ", "null", "-", "NaN", "#N/A", ""]
    number = [str(value) if rng.random() < 0.8 else str(rng.choice(words)) for value in numbers(600, 5)[:, 0].tolist()]
    kind = [str(rng.choice(["a", "b", "c"])) if rng.random() < 0.8 else str(rng.choice(words)) for _ in range(600)]
    flag = [str(rng.choice(["yes", "no"])) if rng.random() < 0.8 else str(rng.choice(words)) for _ in range(600)]
    data = table(tmp_path / "words.csv", extra={"number": number, "kind": kind, "flag": flag})
    blank = {
        name: ["" if text in words else text for text in column]
        for name, column in {"number": number, "kind": kind, "flag": flag}.items()
    }
    empty = table(tmp_path / "empty.csv", extra=blank)
    run_successfully("emsco-train", "--data", data, "--threshold", "0.9", "--folds", "0", "--out", tmp_path / "run")
    entries = {column.name: column for column in record(tmp_path / "run").columns}
    assert [(entries[name].kind, entries[name].categories) for name in blank] == [
        ("numeric", 0),
        ("categorical", 3),
        ("boolean", 0),
    ]
    assert decide(tmp_path / "run", data) == decide(tmp_path / "run", empty)


def test_the_words_of_a_training_are_those_of_its_bundle(tmp_path: Path) -> None:
    """`emsco-run` needs no `--missing` where training had one: -999 was a number before, and gave confident answers."""
    column = numbers(600, 5)[:, 0].tolist()
    rows = [*enumerate(column)]
    data = table(tmp_path / "words.csv", extra={"a": ["-999" if row % 5 == 0 else str(value) for row, value in rows]})
    empty = table(tmp_path / "empty.csv", extra={"a": ["" if row % 5 == 0 else str(value) for row, value in rows]})
    given = ("--data", data, "--missing=-999", "--threshold", "0.9", "--folds", "0")
    run_successfully("emsco-train", *given, "--out", tmp_path / "run")
    assert decide(tmp_path / "run", data) == decide(tmp_path / "run", empty)
    assert read_bundle(tmp_path / "run" / "bundle").manifest.provenance.missing_words == {"-999"}


def test_a_word_that_means_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--missing '' makes every word a word; `emsco-run` knows it as a category of the bundle. Other words may be named."""
    service = np.random.default_rng(2).choice(["-", "dns", "http", "unknown"], 600).tolist()
    data = table(tmp_path / "t.csv", extra={"service": service})
    assert any("'-' taken as missing in service" in line for line in look(capsys, data))
    assert look(capsys, data, "--missing", "")[1:] == ["         nothing unusual"]
    assert any("'unknown' taken as missing in service" in line for line in look(capsys, data, "--missing", "Unknown,nil"))
    run_successfully("emsco-train", "--data", data, *QUICK, "--missing", "", "--pin", "service", "--out", tmp_path / "run")
    decide(tmp_path / "run", data)
    feature = next(one for one in read_bundle(tmp_path / "run" / "bundle").manifest.features if one.name == "service")
    assert feature.categories == ("-", "dns", "http", "unknown")
    assert feature.missing == "forbid"
    assert decide(tmp_path / "run", data) == decide(tmp_path / "run", data, "--missing", "")
    ended = run("emsco-run", tmp_path / "run" / "bundle", data, "--out", tmp_path / "d.csv", "--missing", "dns,http")
    assert ended.returncode == 0, ended.stderr


def test_words_among_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A few are a mistake, refused with the remedies; many would make each number a category, and the page says so."""
    some = ["unknown" if row % 50 == 0 else str(value) for row, value in enumerate(numbers(600, 7)[:, 0].tolist())]
    many = ["unknown" if row % 6 == 0 else str(value) for row, value in enumerate(numbers(600, 7)[:, 0].tolist())]
    few_words = table(tmp_path / "few.csv", extra={"a": some})
    message = run_expecting_error(1, "emsco-train", "--data", few_words, "--check")
    assert message.endswith(
        "column 'a' holds 'unknown', expected a number. Correct it, name it with --missing if it means a missing value, or use "
        "--kind a=categorical"
    )
    assert look(capsys, few_words, "--missing", "unknown")[1].startswith("note     'unknown' taken as missing in a (12 rows)")
    lines = look(capsys, table(tmp_path / "many.csv", extra={"a": many}))
    assert lines[1].startswith("dropped  a: numbers with words among them, 'unknown' (100 rows), so that each of ")
    assert lines[2] == "         name words that mean a missing value with --missing, or correct them"


def test_repeats_constants_ids_and_dates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that repeat those of other splits, a constant, an id and dates: each has its line."""
    values = numbers(300)
    once = [list(map(str, row)) for row in values.tolist()]
    truth = labels(values)
    # The second half of the table repeats the first.
    rows = [
        [str(1000 + number), "2024-03-01" if number % 2 else "2023-12-31", "7", *once[number % 300], truth[number % 300]]
        for number in range(600)
    ]
    data = write_rows(tmp_path / "t.csv", ["number", "day", "seven", "x0", "x1", "x2", "label"], rows)
    lines = look(capsys, data)
    assert "dropped  number: a row number or another counter: every value is different" in lines
    assert "dropped  day: dates, such as '2023-12-31'" in lines
    assert "         make it a number, such as days since a date, or divide the rows by it with --time-column day" in lines
    assert "dropped  seven: always 7" in lines
    repeats = next(line for line in lines if "occur again" in line)
    assert re.match(
        r"note     \d+ of 600 rows occur again, with equal features and label, in another fold or split: models", repeats
    )
    assert repeats.endswith("keep rows of one origin together with --group-column, or drop the repeats")


def test_costs_of_columns_that_are_left_out(tmp_path: Path) -> None:
    """A line of costs has one for every column of the table, left out or not; those of a file are ignored."""
    data = table(tmp_path / "t.csv", extra={"unit": ["cm"] * 600})
    (tmp_path / "costs.txt").write_text("1, 2, 3, 50\n", encoding="utf-8")
    (tmp_path / "costs.toml").write_text("[features]\nx0 = 1\nx1 = 2\nx2 = 3\nunit = 50\n", encoding="utf-8")
    for file in ("costs.txt", "costs.toml"):
        prepared = prepare_quietly(TrainRequest({None: str(data)}, Columns(), (0.8,), costs=str(tmp_path / file)))
        assert prepared == (("x0", "x1", "x2"), 6.0)


def prepare_quietly(request: TrainRequest) -> tuple[tuple[str, ...], float]:
    """Return the features and the cost of all of them; what is left out is warned of."""
    with pytest.warns(TableWarning, match="column 'unit' was left out: always 'cm'"):
        problem = prepare(request).problem
    return problem.names, problem.full_cost


def test_a_label_may_be_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A label with two rows is reported; --drop-label leaves its rows out of everything, and the others keep their numbers."""
    values = numbers(600)
    truth = labels(values)
    truth[3] = truth[77] = "odd"
    data = write_rows(
        tmp_path / "t.csv", ["a", "b", "c", "label"], [[*row, name] for row, name in zip(values.tolist(), truth, strict=True)]
    )
    lines = look(capsys, data)
    assert any(line.startswith("note     label 'odd' has no test and no certify rows") for line in lines)
    assert "         --drop-label leaves the rows of a label out" in lines
    dropped = ["--drop-label", "odd"]
    assert look(capsys, data, *dropped)[1:] == ["         nothing unusual"]
    run_successfully("emsco-train", "--data", data, *QUICK, *dropped, "--out", tmp_path / "run")
    kept = record(tmp_path / "run")
    assert (kept.labels, sum(kept.rows.values()), kept.data.files[0].rows) == (("no", "yes"), 598, 600)
    found = [int(row["row"]) for row in read_rows(tmp_path / "run" / "splits.csv")]
    assert found == [number for number in range(600) if number not in (3, 77)]
    test_rows = decide(tmp_path / "run", data, "--run", str(tmp_path / "run"), "--split", "test")
    assert test_rows.count("\n") == 1 + kept.rows["test"]
    assert "no row has the label 'eve', which was to be dropped; the labels are: no, odd, yes" in run_expecting_error(
        1, "emsco-train", "--data", data, "--check", "--drop-label", "eve"
    )
    assert "holds only the label 'odd' after labels were dropped" in run_expecting_error(
        1, "emsco-train", "--data", data, "--check", "--drop-label", "yes", "--drop-label", "no"
    )
    all_labels = [word for label in ("yes", "no", "odd") for word in ("--drop-label", label)]
    assert "every label was to be dropped" in run_expecting_error(1, "emsco-train", "--data", data, "--check", *all_labels)


def test_rows_without_a_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused with the remedy, which works, also where there are none; a word that may mean so is pointed out."""
    values = numbers(600)
    truth = labels(values)
    rows = [[*row, "" if number < 5 else name] for number, (row, name) in enumerate(zip(values.tolist(), truth, strict=True))]
    data = write_rows(tmp_path / "t.csv", ["a", "b", "c", "label"], rows)
    assert "or drop such rows with --drop-label ''" in run_expecting_error(1, "emsco-train", "--data", data, "--check")
    assert look(capsys, data, "--drop-label", "")[0].endswith("of 595 rows")
    assert look(capsys, table(tmp_path / "clean.csv"), "--drop-label", "")[0].endswith("of 600 rows")
    signs = [[*row[:3], "+" if name == "yes" else "-"] for row, name in zip(rows, truth, strict=True)]
    signs[:60] = [[*row[:3], "?"] for row in signs[:60]]
    lines = look(capsys, write_rows(tmp_path / "signs.csv", ["a", "b", "c", "label"], signs))
    assert lines[1:] == [
        "note     label '?' (60 rows) may mean that there is no label",
        "         if it does, leave these rows out with --drop-label '?'",
    ]


def test_labels_with_few_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page says how many rows of them each split has, the rarest first."""
    values = numbers(600)
    truth = [{0: "rare", 1: "seldom", 2: "seldom"}.get(number % 60, name) for number, name in enumerate(labels(values))]
    data = write_rows(
        tmp_path / "t.csv", ["a", "b", "c", "label"], [[*row, name] for row, name in zip(values.tolist(), truth, strict=True)]
    )
    lines = look(capsys, data)
    assert lines[1] == (
        "note     few rows: label 'rare' has 6 train, 2 test, 2 certify; label 'seldom' has 12 train, 4 test, 4 certify: "
        "figures about so few mean little"
    )
    assert lines[2] == "         give more rows, or join labels, or leave it out with --drop-label rare"


def test_rare_categories_are_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--min-category lists the common ones alone; production decides any other as one of the rare."""
    rng = np.random.default_rng(1)
    town = [f"t{int(value)}" for value in rng.exponential(4, 600)]
    data = table(tmp_path / "t.csv", extra={"town": town})
    options = ["--min-category", "25", "--pin", "town"]
    run_successfully("emsco-train", "--data", data, *QUICK, *options, "--out", tmp_path / "run")
    first = decide(tmp_path / "run", data)
    feature = next(one for one in read_bundle(tmp_path / "run" / "bundle").manifest.features if one.name == "town")
    kept = set(feature.categories)
    assert feature.unknown == "ignore"
    assert 2 <= len(kept) < len(set(town))
    assert feature.fallback in kept
    others = table(tmp_path / "other.csv", extra={"town": [name if name in kept else "elsewhere" for name in town]})
    assert decide(tmp_path / "run", others) == first
    assert "no category has 500 rows, such as 't" in look(capsys, data, "--min-category", "500")[1]
    message = run_expecting_error(2, "emsco-train", "--data", data, "--check", "--min-category", "0")
    assert "--min-category is 0: expected a whole number of rows, 1 or more" in message


def test_unknown_categories_are_ignored_with_a_caution(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Held-out rows may have categories that no train row has, as in production; the page names column, value and rows."""
    town = ["new" if number == 599 else "ab"[number % 2] for number in range(600)]
    data = table(
        tmp_path / "t.csv",
        extra={"town": town, "when": [f"{2000 + number // 12}-{number % 12 + 1:02}-01" for number in range(600)]},
    )
    by_time = ["--time-column", "when"]
    assert look(capsys, data, *by_time)[1] == (
        "note     column 'town': 1 certify row with a category that no train row has, such as 'new': models take it as "
        "unknown, as they will in production; --unknown town=fail refuses it"
    )
    message = run_expecting_error(1, "emsco-train", "--data", data, "--check", *by_time, "--unknown", "town=fail")
    assert f"column 'town', {data} row 599: unknown category 'new'" in message
    assert "unknown category 'new'" in run_expecting_error(
        1, "emsco-train", "--data", data, "--check", *by_time, "--unknown", "fail"
    )


def test_a_small_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """155 rows: all but those for a certificate fit and measure, stages are few, and suggested floors hold by bounds."""
    rng = np.random.default_rng(4)
    values = rng.normal(size=(155, 8)).round(2)
    truth = np.where(values[:, :3].sum(axis=1) + rng.normal(size=155) > 1.4, "die", "live")
    rows = [
        [*("?" if rng.random() < 0.08 else str(value) for value in row), name]
        for row, name in zip(values.tolist(), truth, strict=True)
    ]
    data = write_rows(tmp_path / "t.csv", [*(f"lab{index}" for index in range(8)), "label"], rows)
    lines = look(capsys, data)
    said = "a small table: unless you say otherwise, no test rows (--shares) and at most 3 stages (--max-stages)"
    assert f"note     {said}" in lines
    shown = run_successfully(
        "emsco-train", "--data", data, "--threshold", "0.8", "--generations", "3", "--population", "30", "--out", tmp_path / "run"
    )
    assert "splits   train 124, certify 31" in shown
    kept = record(tmp_path / "run")
    assert kept.search.settings["max_stages"] == 3
    assert (kept.measured.split, kept.measured.rows) == ("cross-fitted", 124)
    floor = re.search(r"--min-accuracy (\S+) --min-coverage (\S+)\n", shown)
    assert floor is not None
    assert float(floor[1]) < 1
    wishes = ["--min-accuracy", floor[1], "--min-coverage", floor[2]]
    assert "accuracy" in run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle", *wishes)
    own = look(capsys, data, "--shares", "0.4,0.2,0.2,0.2", "--max-stages", "4")
    assert not any("a small table" in line for line in own)


def test_groups_that_are_too_few_for_all_splits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page says which rows there are none of; a single group is refused."""
    data = table(tmp_path / "t.csv", extra={"site": ["a", "b"] * 300, "one": ["a"] * 600})
    page = look(capsys, data, "--group-column", "site", "--drop", "one")
    what = "2 groups: too few for test and certify rows, of which there are none, since a group stays in one split"
    assert f"note     {what}: give more groups, or give those splits no share with --shares" in page
    message = run_expecting_error(1, "emsco-train", "--data", data, "--check", "--group-column", "one", "--drop", "site")
    assert "all 600 rows are in one group, which is never divided: leave --group-column out, or give a column" in message


def test_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Typed columns are looked at as well: dates and times are left out, and words for missing are gaps in text."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values, rng = numbers(400), np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, 400)
    made = {
        "day": arrow.array(days, mask=rng.random(400) < 0.1),
        "moment": days.astype("datetime64[ns]"),
        "kind": rng.choice(["a", "b", "?"], 400),
        "x0": values[:, 0],
        "x1": values[:, 1],
        "label": labels(values),
    }
    parquet.write_table(arrow.table(made), tmp_path / "t.parquet")
    lines = look(capsys, tmp_path / "t.parquet")
    assert [line.partition(":")[0] for line in lines if line.startswith("dropped")] == ["dropped  day", "dropped  moment"]
    assert any(line.startswith("note     '?' taken as missing in kind (") for line in lines)


def test_many_findings_of_a_kind_are_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Thirty constants are five lines and a list of names."""
    lines = look(capsys, table(tmp_path / "t.csv", extra={f"c{index}": [index] * 600 for index in range(30)}))
    assert lines[1:6] == [f"dropped  c{index}: always {index}" for index in range(5)]
    assert lines[6] == "dropped  and c5, c6, c7, c8, c9, c10, c11, c12 and 17 more columns"


def test_older_runs_are_read_as_they_were_made(tmp_path: Path) -> None:
    """A run.json without the fields of the table check says that no word was a missing value and nothing was dropped."""
    data = table(tmp_path / "t.csv")
    run_successfully("emsco-train", "--data", data, *QUICK, "--out", tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    for name in ("dropped", "drop_labels", "missing", "min_category"):
        del document["data"][name]
    old = RunFile.read(json.dumps(document).encode(), "run.json").data
    assert (old.dropped, old.drop_labels, old.missing, old.min_category) == ((), (), (), 1)


def test_the_estimator_warns_and_uses_every_column() -> None:
    """A fit names the columns that look wrong, once, and keeps them, as scikit-learn would; naming the kind is enough."""
    values = numbers(400)
    columns = {"a": values[:, 0], "b": values[:, 1], "row": np.arange(400), "unit": np.array(["cm"] * 400)}
    model = EmscoClassifier(threshold=0.8, folds=0, search="exhaustive", max_stages=2, random_state=0)
    expected = r"not learn from as they are: 'row': a row number .*; 'unit': always 'cm'\. All are used: leave such columns out"
    with pytest.warns(TableWarning, match=expected) as caught:
        model.fit(columns, labels(values))
    assert len(caught) == 1
    assert model.problem_.names == ("a", "b", "row", "unit")
    options = {"row": FeatureOptions(kind="numeric"), "unit": FeatureOptions(kind="categorical")}
    model.set_params(features=options).fit(columns, labels(values))


def test_the_estimator_warns_of_a_number_that_may_mean_missing() -> None:
    """The warning says what to do about it in Python."""
    values = numbers(400)
    columns = {"a": np.where(np.arange(400) % 8 == 0, -99.0, values[:, 0]), "b": values[:, 1]}
    model = EmscoClassifier(threshold=0.8, folds=0, search="exhaustive", max_stages=2, random_state=0)
    expected = r"'a': 50 rows are exactly -99, far from all others\. All are used: .*; replace numbers that mean missing by None"
    with pytest.warns(TableWarning, match=expected):
        model.fit(columns, labels(values))


def test_the_estimator_refuses_an_infinite_number_with_its_row() -> None:
    """Among whole numbers, too, and without a warning of numpy's."""
    values = numbers(400)
    whole = np.random.default_rng(0).integers(0, 50, 400).astype(np.float64)
    whole[321] = -np.inf
    model = EmscoClassifier(threshold=0.8, folds=0, search="exhaustive", max_stages=2, random_state=0)
    with pytest.raises(DataError, match=r"^column 'whole', row 321 of the table: expected a finite number, got -inf"):
        model.fit({"whole": whole, "b": values[:, 1]}, labels(values))


def test_the_estimator_has_the_defaults_of_small_tables() -> None:
    """Under 300 rows, no row is kept for a test, and a design has at most three stages; who says otherwise gets it."""
    values = np.random.default_rng(0).normal(size=(200, 8))
    truth = labels(values)
    model = EmscoClassifier(threshold=0.8, search="evolve", population=20, generations=2, random_state=0)
    model.fit(values, truth)
    assert model.problem_.test is None
    assert max(len(design.stages) for design in model.front_) <= 3
    model.set_params(max_stages=5, shares=Shares(), population=60).fit(values, truth)
    assert model.problem_.test is not None
    assert max(len(design.stages) for design in model.front_) > 3
