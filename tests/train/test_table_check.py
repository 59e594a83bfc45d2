"""The look at a table: what is found in a column, what is not, and what is said about it."""

from __future__ import annotations

import datetime as dt
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.support.arrays import Array
from emsco_train.data import table_check
from emsco_train.data.finding import Finding
from emsco_train.data.label_checks import _rising
from emsco_train.data.table_check import check_columns
from emsco_train.data.value_checks import check_missing_number, check_numbers

ROWS = 400


def column(values: Sequence[object]) -> Array:
    """Return values as a column of objects."""
    made: Array = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def look(values: Any, labels: Sequence[Any] | None = None, name: str = "x", min_category: int = 1) -> Finding | None:
    """Return what is found in one column."""
    array = values if isinstance(values, np.ndarray) else column(values)
    given_labels = np.random.default_rng(9).integers(0, 2, len(array)).tolist() if labels is None else labels
    found = check_columns({name: array}, given_labels, min_category=min_category)
    return found[0] if found else None


def rng(seed: int = 0) -> np.random.Generator:
    """Return a source of random values."""
    return np.random.default_rng(seed)


def days(form: str) -> list[str]:
    """Return dates in a form of writing."""
    first = dt.date(2021, 1, 1)
    return [(first + dt.timedelta(days=int(day))).strftime(form) for day in rng().integers(0, 800, ROWS)]


USELESS = {
    "hexadecimal ids": ([f"{value:08x}" for value in rng().integers(0, 2**32, ROWS)], "id", "nearly every value is different"),
    "ids that repeat": ([f"s{value}" for value in rng().integers(0, 150, ROWS)], "id", "categories in 400 rows, such as 's"),
    "a counter": (np.arange(ROWS), "id", "a row number or another counter"),
    "a shuffled counter with holes": (rng().permutation(700)[:ROWS].astype(float), "id", "a row number or another counter"),
    "free text": ([" ".join(rng(row).choice(list("abcdefgh"), 7)) for row in range(ROWS)], "free text", "free text, such as '"),
    "ISO dates": (days("%Y-%m-%d"), "date", "dates, such as '202"),
    "dates with times": (days("%Y-%m-%dT12:30:00Z"), "date", "dates"),
    "American dates": (days("%m/%d/%Y"), "date", "dates"),
    "German dates": (days("%d.%m.%y"), "date", "dates"),
    "months in words": (days("%d %B %Y"), "date", "dates"),
    "dates as in mail": (days("%a, %d %b %Y"), "date", "dates"),
    "one word": (["x"] * ROWS, "constant", "always 'x'"),
    "one number": (np.full(ROWS, 2.5), "constant", "always 2.5"),
    "one number and gaps": ([3.0, None] * 200, "constant", "always 3 where there is a value"),
    "one truth": (np.ones(ROWS, dtype=bool), "constant", "always 1"),
    "nothing": (np.full(ROWS, np.nan), "empty", "no value in any row"),
    "numbers as text": (
        [f"{value:.3f}" for value in rng().normal(0, 10, ROWS)],
        "mixed",
        "numbers written as text, such as '",
    ),
    "decimal commas": (
        [f"{value:.3f}".replace(".", ",") for value in rng().normal(0, 10, ROWS)],
        "mixed",
        "numbers that are written as '",
    ),
    "amounts of money": (
        [f"$ {value:,}" for value in rng().integers(0, 10**6, ROWS)],
        "mixed",
        "numbers that are written as '$ ",
    ),
    "amounts of which only large ones have groups of digits": (
        ["12.5", *[f"{value:,}" for value in rng().integers(0, 2000, ROWS - 1)]],
        "mixed",
        "numbers that are written as '1,",
    ),
    "words among numbers": (
        ["unknown"] * 60 + [f"{value:.1f}" for value in rng().normal(0, 10, ROWS - 60)],
        "mixed",
        "numbers with words among them, 'unknown' (60 rows), so that each of",
    ),
}


@pytest.mark.parametrize("what", USELESS)
def test_columns_that_no_model_can_learn_from(what: str) -> None:
    """They are found, named and marked as useless, whatever the labels."""
    values, kind, said = USELESS[what]
    finding = look(values)
    assert finding is not None
    assert (finding.kind, finding.column, finding.is_useless, finding.is_dropped) == (kind, "x", True, False)
    assert said in finding.what


def test_numbers_far_apart_are_looked_at_without_warnings() -> None:
    """The range of a column may be beyond all numbers; the commands showed a warning of numpy's, which named no column."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_numbers("x", np.array([-1e308, 1e308] * 50), 100, has_gaps=False) is None


def test_how_a_number_is_written_is_shown_by_one_that_is_written_so() -> None:
    """Not by a plain one beside it, and never as a word that may mean a missing value: with that remedy it would be lost."""
    finding = look(["12.5", *[f"{value:,}" for value in rng().integers(0, 10000, ROWS - 1)]])
    assert finding is not None
    assert re.match(r"numbers that are written as '\d,\d{3}', so", finding.what)
    assert finding.remedy == "write plain numbers, with a decimal point, and without units or groups of digits"
    word = look(["unknown", *[f"{value:.3f}" for value in rng().normal(0, 10, ROWS - 1)]])
    assert word is not None
    assert "'unknown' (1 row), so" in word.what


USEFUL = {
    "real numbers, all different": rng().normal(size=ROWS),
    "amounts in cents, all different": rng().choice(10**7, ROWS, replace=False),
    "whole numbers": rng().poisson(30, ROWS),
    "a few categories": rng().choice(["a", "b", "c"], ROWS),
    "forty categories": [f"c{value}" for value in rng().integers(0, 40, ROWS)],
    "yes and no": rng().random(ROWS) < 0.5,
    "versions": [f"1.{value}.3" for value in rng().integers(0, 20, ROWS)],
    "percentages, few": [f"{value} %" for value in rng().integers(0, 20, ROWS)],
    "addresses": [f"10.0.0.{value}" for value in rng().integers(0, 20, ROWS)],
    "numbers as text, few": [str(value) for value in rng().integers(0, 20, ROWS)],
    "objects of several kinds": [object() for _ in range(ROWS)],
    "text and numbers": ["a", 1] * 200,
    "small, all different": np.arange(20),
}


@pytest.mark.parametrize("what", USEFUL)
def test_ordinary_columns(what: str) -> None:
    """Nothing is said of a column without anything unusual."""
    assert look(USEFUL[what]) is None


@pytest.mark.parametrize(
    ("name", "is_counter"),
    [("Unnamed: 0", True), ("index", True), ("__index_level_0__", True), ("rownames", True), ("", True), ("price index", False)],
)
def test_the_index_of_a_sample(name: str, is_counter: bool) -> None:
    """Of a few rows of a large table the old row numbers are far apart: the name says what they are, where all are different."""
    sampled = rng().choice(10**6, ROWS, replace=False)
    finding = look(sampled, name=name)
    assert (finding is not None) == is_counter
    if finding is not None:
        assert (finding.kind, finding.is_useless, finding.what[:12]) == ("id", True, "a row number")
    assert look(np.repeat(sampled, 2), name=name) is None


@pytest.mark.parametrize(
    ("name", "is_id"), [("id", True), ("user_id", True), ("userId", True), ("Patient ID", True), ("paid", False), ("bid", False)]
)
def test_whole_numbers_with_the_name_of_an_id(name: str, is_id: bool) -> None:
    """Numbers that repeat are an id if they are called so, in a word of its own; then rows of one id belong together."""
    finding = look(rng().integers(0, 10**6, ROWS // 2).repeat(2), name=name)
    assert (finding is not None) == is_id
    if finding is not None:
        assert (
            finding.remedy
            == f"keep it with `kinds={{{name!r}: 'numeric'}}`; keep rows of one id together with `group_column={name!r}`"
        )


def test_whole_numbers_with_the_name_of_a_code() -> None:
    """They are kept, with the advice to try them as categories."""
    finding = look(rng().integers(10_000, 99_999, ROWS), name="zip")
    assert finding is not None
    assert (finding.kind, finding.is_useless) == ("codes", False)
    assert "`min_category=20`" in finding.remedy


def test_whole_numbers_that_are_dates() -> None:
    """They are kept as numbers, with a caution."""
    finding = look(np.array([20_210_100 + value for value in rng().integers(1, 29, ROWS)]))
    assert finding is not None
    assert (finding.kind, finding.is_useless) == ("date", False)
    assert "whole numbers that look like dates, such as 202101" in finding.what


def test_only_dates_that_can_order_rows_are_offered_for_it() -> None:
    """The division by time reads ISO 8601 alone."""
    iso, other = look(days("%Y-%m-%d")), look(days("%d.%m.%Y"))
    assert iso is not None
    assert other is not None
    assert iso.remedy.endswith("or divide the rows by it with `time_column='x'`")
    assert other.remedy == "make it a number, such as days since a date"


def test_many_categories_are_kept_unless_they_are_rare() -> None:
    """The advice is to join the rare ones; when that is done, what is left is looked at."""
    values = [f"c{int(value)}" for value in rng().exponential(60, 4000)]
    finding = look(values)
    assert finding is not None
    assert (finding.kind, finding.is_useless) == ("many categories", False)
    assert look(values, min_category=20) is None
    ids = [f"{value:08x}" for value in rng().integers(0, 2**32, ROWS)]
    joined = look(ids, min_category=20)
    assert joined is not None
    assert joined.what.startswith("no category has 20 rows, such as '")
    assert joined.is_useless


def test_codes_are_whole_numbers_without_a_trend() -> None:
    """A label that goes up and down with a number is better predicted by categories; one that follows it or changes once, not."""
    code = rng(1).integers(1, 8, 2000)
    up_and_down = (np.array([0, 2, -2, 1, -1, 2, -2, 0])[code] + rng(2).normal(size=2000) > 0).tolist()
    finding = look(code, up_and_down)
    assert finding is not None
    assert (finding.kind, finding.remedy) == ("codes", "try `kinds={'x': 'categorical'}`")
    assert look(code, (code + rng(3).normal(0, 3, 2000) > 4).tolist()) is None
    # A count of which only the first one matters: no straight line, but a step.
    count = np.minimum(rng(4).geometric(0.4, 2000) - 1, 12)
    assert look(count, (np.minimum(count, 1) + rng(5).normal(0, 0.7, 2000) > 0.5).tolist()) is None
    assert look(code, rng(6).integers(0, 3, 2000).tolist()) is None
    assert look(code.astype(float), ["a"] * 1999 + ["b"]) is None


def test_a_rise_that_is_no_line_is_a_trend() -> None:
    """Shares of a label that only rise, slowly and then fast, are no sign of codes; the same ones out of order are."""
    shares, draw = [0.15, 0.15, 0.17, 0.2, 0.2, 0.27, 0.27, 0.34, 0.4, 0.9], rng(3)
    numbers = draw.integers(0, 10, 6000)
    for order, is_found in ((shares, False), (shares[::-1], False), (shares[5:] + shares[:5], True)):
        labels = (draw.random(6000) < np.array(order)[numbers]).tolist()
        found = look(numbers.astype(np.float64), labels)
        assert (found is not None and found.kind == "codes") == is_found


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20)), min_size=2, max_size=9))
def test_the_nearest_rising_numbers(pairs: list[tuple[int, int]]) -> None:
    """They are those of scikit-learn's isotonic regression."""
    isotonic = pytest.importorskip("sklearn.isotonic")
    weight, values = (np.array(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    np.testing.assert_allclose(_rising(weight, values), isotonic.isotonic_regression(values, sample_weight=weight), atol=1e-9)


def test_a_gap_or_one_value_that_tells_the_label_is_a_leak() -> None:
    """A date of death is there for the dead alone, and the last week for nearly all who stayed: both tell the label."""
    dead = rng(4).random(2000) < 0.2
    month = np.where(dead, rng(5).integers(1, 13, 2000), np.nan)
    week = np.where(dead & (rng(6).random(2000) < 0.97), rng(7).integers(1, 52, 2000), 52.0)
    for values in (month, week):
        finding = look(values, dead.tolist())
        assert finding is not None
        assert finding.kind == "leak"


@pytest.mark.parametrize("labels", [2, 4])
def test_a_column_that_alone_tells_the_label_is_a_leak(labels: int) -> None:
    """Numbers or text, with gaps or without; it is kept, and what it tells is measured on rows that it was not learned from."""
    truth = rng(1).integers(0, labels, 1000)
    for values in (
        truth * 3 + rng(2).random(1000),
        column([None if label == 2 else f"done {label}" for label in truth.tolist()]),
    ):
        finding = look(values, truth.tolist())
        assert finding is not None
        assert (finding.kind, finding.is_useless) == ("leak", False)
        assert finding.what.startswith("this column alone predicts the label of ")
    noisy = np.where(rng(3).random(1000) < 0.1, rng(4).integers(0, labels, 1000), truth)
    assert look(noisy * 3 + rng(2).random(1000), truth.tolist()) is None
    # Nine rows of a rare label are too few to say so.
    rare = np.where(np.arange(1000) < 9, 1, 0)
    assert look(rare + rng(5).random(1000) / 2, rare.tolist()) is None


@pytest.mark.parametrize("number", [99, -99, 999, -999, 9999, -9999, 99_999, -999_999])
def test_a_number_that_may_mean_missing(number: int) -> None:
    """Nines alone, far from all others: pointed out in columns of each type, and kept."""
    whole = np.where(rng().random(ROWS) < 0.1, number, rng(1).integers(0, 40, ROWS))
    rows = int((whole == number).sum())
    as_objects = column([None if row % 7 == 1 and value != number else value for row, value in enumerate(whole.tolist())])
    for values in (whole, whole.astype(np.float32), np.where(whole == number, number, rng(2).normal(size=ROWS)), as_objects):
        finding = look(values)
        assert finding is not None
        assert (finding.kind, finding.is_useless) == ("missing number", False)
        assert finding.what == f"{rows} rows are exactly {number}, far from all others"
        assert finding.remedy == f"if it means missing, use `missing=('{number}',)`, with the other words that do"


ORDINARY_ENDS = {
    "one row": np.append(rng().normal(size=ROWS - 1), -999.0),
    "less than half a percent of the rows": np.append(rng().normal(size=1998), [-999.0, -999.0]),
    "other digits": np.where(rng().random(ROWS) < 0.1, -998.0, rng(1).normal(size=ROWS)),
    "one nine": np.where(rng().random(ROWS) < 0.1, 9.0, rng(1).random(ROWS)),
    "minus one": np.where(rng().random(ROWS) < 0.1, -1, rng(1).integers(0, 40, ROWS)),
    "not quite": np.where(rng().random(ROWS) < 0.1, 99.5, rng(1).random(ROWS)),
    "neither the smallest nor the largest": np.where(rng().random(ROWS) < 0.1, 99.0, rng(1).choice([0.5, 3.7, 4000.5], ROWS)),
    "others as far apart": np.where(rng().random(ROWS) < 0.1, 99.0, rng(1).uniform(0, 60, ROWS)),
    "percentages that are capped": np.minimum(rng().integers(0, 130, ROWS), 99),
    "two values": np.where(rng().random(ROWS) < 0.1, 99.0, 1.0),
    "a few rows": np.array([1.5, 2.0, 2.5, 99.0, 99.0]),
    "infinite others": np.append(np.where(rng().random(ROWS) < 0.1, -999.0, rng(1).normal(size=ROWS)), np.inf),
}


@pytest.mark.parametrize("what", ORDINARY_ENDS)
def test_ordinary_smallest_and_largest_numbers(what: str) -> None:
    """They are no sign of a number that means missing."""
    assert look(ORDINARY_ENDS[what]) is None


@given(st.integers(0, 2**32), st.sampled_from([50, 400, 3000]))
def test_long_tails_end_in_ordinary_numbers(seed: int, rows: int) -> None:
    """However large: their largest numbers are neither that frequent nor that far away, even if one of them is all nines."""
    draw = rng(seed)
    for values in (draw.lognormal(2, 1.5, rows), draw.geometric(0.03, rows), draw.zipf(1.8, rows), draw.standard_cauchy(rows)):
        numbers = np.round(np.clip(values, -1e9, 1e9))
        numbers[np.argmax(numbers)] = 10.0 ** np.ceil(np.log10(max(numbers.max(), 12))) - 1
        assert check_missing_number("x", numbers.astype(np.float64)) is None


def test_a_number_that_may_mean_missing_is_counted_in_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only in the sample; and what lies between it and the others is found in any row."""
    monkeypatch.setattr(table_check, "MAX_SAMPLE", 300)
    labels = rng(1).integers(0, 2, 3000).tolist()
    values = np.where(np.arange(3000) % 10 == 0, -999.0, rng().normal(size=3000))
    between = values.copy()
    between[int(np.setdiff1d(np.arange(3000), table_check._sample_rows(3000))[0])] = -600.0
    found = check_columns({"values": values, "between": between, "objects": column(values.tolist())}, labels)
    assert [(one.column, one.what.partition(",")[0]) for one in found] == [
        ("values", "300 rows are exactly -999"),
        ("objects", "300 rows are exactly -999"),
    ]


def test_infinite_numbers_are_not_computed_with() -> None:
    """A column that holds one is refused elsewhere, by its row; here it gives no warning, which would be an error."""
    whole = rng().integers(0, 50, ROWS).astype(np.float64)
    for bad in (np.inf, -np.inf):
        assert look(np.where(np.arange(ROWS) == 17, bad, whole)) is None
        assert look(np.where(np.arange(ROWS) == 17, bad, np.arange(ROWS) + 20_240_101.0)) is None


def test_a_long_table_is_sampled_and_constants_are_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings of a sample are those of all rows; only what is said of every row is looked for in every row."""
    monkeypatch.setattr(table_check, "MAX_SAMPLE", 300)
    labels = rng(1).integers(0, 2, 3000).tolist()
    words = column([f"u{value}" for value in rng().integers(0, 10**9, 3000)])
    nearly = np.zeros(3000)
    nearly[17] = 1.0
    columns = {"id": words, "row": np.arange(3000), "nearly": nearly, "always": np.zeros(3000), "size": rng().normal(size=3000)}
    assert [(one.kind, one.column) for one in check_columns(columns, labels)] == [
        ("id", "id"),
        ("id", "row"),
        ("constant", "always"),
    ]


@given(
    st.lists(
        st.one_of(st.none(), st.text(max_size=5), st.floats(), st.integers(), st.booleans(), st.binary(max_size=2)),
        min_size=1,
        max_size=60,
    ),
    st.data(),
)
def test_any_column_can_be_looked_at(values: list[object], data: st.DataObject) -> None:
    """Whatever a column holds, the look ends with at most one finding, the same each time."""
    labels = data.draw(st.lists(st.sampled_from(["a", "b", 3]), min_size=len(values), max_size=len(values)))
    with np.errstate(all="ignore"):
        found = check_columns({"x": column(values)}, labels)
        assert found == check_columns({"x": column(values)}, labels)
    assert len(found) <= 1
