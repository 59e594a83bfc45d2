"""Columns of text: training reads a field as `emsco-run` does."""

from __future__ import annotations

import contextlib
import math
from typing import Literal

import pytest
from hypothesis import example, given, strategies as st

from emsco_runtime.cli.csv_items import ColumnReader, LabelColumn
from emsco_runtime.support.csv_file import FALSE_WORDS, TRUE_WORDS, CsvRow
from emsco_train.data.text_columns import infer_kind, parse_column, parse_labels
from emsco_train.errors import DataError

KINDS: tuple[Literal["numeric", "boolean", "categorical"], ...] = ("numeric", "boolean", "categorical")
WORDS = st.sampled_from(sorted(TRUE_WORDS | FALSE_WORDS))
NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers().map(str),
    st.integers().map(lambda number: f"{number}.0"),
    st.sampled_from(["1e3", "1_000", " 7", "+1", "-0.0", "nan", "inf", "0x10", "٣", "1.00", "007.0"]),
)
SPACED = st.builds("{}{}{}".format, st.sampled_from(["", " ", "\t"]), WORDS | WORDS.map(str.upper), st.sampled_from(["", " "]))
TEXTS = st.one_of(NUMBERS, SPACED, st.text(max_size=8), st.sampled_from(["", " ", "\t", "\N{NO-BREAK SPACE}"]))


def lines(count: int) -> list[str]:
    """Return places for messages."""
    return [f"t.csv line {number + 2}" for number in range(count)]


@given(st.lists(TEXTS, min_size=1, max_size=12), st.sampled_from(KINDS))
@example(["3.0", "3", "3.00", "03.0"], "categorical")
@example(["²", "Yes "], "boolean")
def test_a_field_is_read_as_in_production(texts: list[str], kind: Literal["numeric", "boolean", "categorical"]) -> None:
    """For any text and kind, training's value is that of `emsco-run`; what it would pass on as wrong is refused here."""
    categories: frozenset[str] = frozenset()
    if kind == "categorical":
        # What training learns from the column is what production then knows.
        categories = frozenset(value for value in parse_column("x", texts, kind, lines(len(texts))).tolist() if value is not None)
    # Words that mean a gap are gaps before a column is parsed.
    field = ColumnReader(0, kind, categories, missing=frozenset())
    for text in texts:
        theirs = field(CsvRow(0, 2, [text]))
        wrong = kind != "categorical" and (isinstance(theirs, str) or (isinstance(theirs, float) and math.isinf(theirs)))
        if wrong:
            with pytest.raises(DataError, match=r"t\.csv line 2: column 'x' holds"):
                parse_column("x", [text], kind, lines(1))
            continue
        ours = parse_column("x", [text], kind, lines(1)).tolist()[0]
        if ours is None or ours != ours:
            assert theirs is None or theirs != theirs
        else:
            assert (type(ours), ours) == (type(theirs), theirs)


@given(st.lists(TEXTS, max_size=30))
def test_the_kind_that_is_found_can_be_read(texts: list[str]) -> None:
    """The kind of a column is that of all its values; only if nearly all are numbers, any other value is an error."""
    kind = infer_kind(texts)
    clean = kind != "numeric" or all(_is_finite(text) for text in texts if text.strip())
    with (
        contextlib.nullcontext()
        if clean
        else pytest.raises(DataError, match=r"`kinds=.'x': 'categorical'.`|expected a finite number")
    ):
        assert len(parse_column("x", texts, kind, lines(len(texts)))) == len(texts)


def _is_finite(text: str) -> bool:
    try:
        return not math.isinf(float(text))
    except ValueError:
        return False


def test_one_word_among_many_numbers_is_a_mistake_and_many_are_categories() -> None:
    """Up to a tenth of words does not make a column of numbers one of text."""
    assert infer_kind(["1"] * 9 + ["oops"]) == "numeric"
    assert infer_kind(["1"] * 8 + ["oops"] * 2) == "categorical"
    assert infer_kind(["1", "yes", "no"]) == "boolean"
    assert infer_kind(["", " "]) == "numeric"


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=8))
@example(["²", "1"])
@example(["9" * 5000, "1"])
@example(["-0", "1"])
@example([" 1", "0"])
@example(["1.0", "0", "-3"])
def test_labels_are_whole_numbers_or_text_as_it_stands(texts: list[str]) -> None:
    """All labels become integers, or none changes; and `emsco-run` takes the same text for the same label."""
    labels = parse_labels("label", texts, lines(len(texts)))
    if all(isinstance(label, int) for label in labels):
        assert [float(text) for text in texts] == labels
    else:
        assert labels == texts
    truth = LabelColumn("label", 0, frozenset(map(str, labels)))
    assert [truth.read_label(CsvRow(0, 2, [text])) for text in texts] == [str(label) for label in labels]


def test_a_missing_label_is_an_error_that_names_its_line() -> None:
    """The message names file, line and column, and the remedy."""
    with pytest.raises(DataError, match=r"t\.csv line 3: the label 'y' is missing; give it a label, or drop such rows"):
        parse_labels("y", ["a", " "], lines(2))
