"""Columns of text: training reads a field as `emsco-run` does."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import example, given, strategies as st

from emsco_runtime.cli.table_rows import LabelColumn
from emsco_runtime.support.arrow_tables import ArrowColumn
from emsco_runtime.support.csv_file import FALSE_WORDS, TRUE_WORDS
from emsco_runtime.support.text_column import FieldReader, ListColumn, TextColumn
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


def make_arrow_column(texts: list[str]) -> TextColumn:
    """Return a column as Arrow reads it."""
    pa = pytest.importorskip("pyarrow")
    return ArrowColumn(pa.chunked_array([texts]))


def place(row: int) -> str:
    """Return where a row stands, for messages."""
    return f"t.csv line {row + 2}"


@given(st.lists(TEXTS, min_size=1, max_size=12), st.sampled_from(KINDS))
@example(["3.0", "3", "3.00", "03.0"], "categorical")
@example(["²", "Yes "], "boolean")
def test_a_field_is_read_as_in_production(texts: list[str], kind: Literal["numeric", "boolean", "categorical"]) -> None:
    """For any text and kind, training's value is that of `emsco-run`; what it would pass on as wrong is refused here."""
    categories: frozenset[str] = frozenset()
    if kind == "categorical":
        # What training learns from the column is what production then knows.
        categories = frozenset(value for value in parse_column("x", ListColumn(texts), kind, place).tolist() if value is not None)
    # Words that mean a gap are gaps before a column is parsed.
    field = FieldReader(kind, categories, missing=frozenset())
    for text in texts:
        theirs = field.read(text)
        wrong = kind != "categorical" and (isinstance(theirs, str) or (isinstance(theirs, float) and math.isinf(theirs)))
        if wrong:
            with pytest.raises(DataError, match=r"t\.csv line 2: column 'x' holds"):
                parse_column("x", ListColumn([text]), kind, place)
            continue
        ours = parse_column("x", ListColumn([text]), kind, place).tolist()[0]
        if ours is None or ours != ours:
            assert theirs is None or theirs != theirs
        else:
            assert (type(ours), ours) == (type(theirs), theirs)


@given(st.lists(TEXTS, max_size=30))
def test_the_kind_that_is_found_can_be_read(texts: list[str]) -> None:
    """The kind of a column is that of all its values; only if nearly all are numbers, any other value is an error."""
    kind = infer_kind(ListColumn(texts))
    clean = kind != "numeric" or all(_is_finite(text) for text in texts if text.strip())
    with (
        contextlib.nullcontext()
        if clean
        else pytest.raises(DataError, match=r"`kinds=.'x': 'categorical'.`|expected a finite number")
    ):
        assert len(parse_column("x", ListColumn(texts), kind, place)) == len(texts)


def _is_finite(text: str) -> bool:
    try:
        return not math.isinf(float(text))
    except ValueError:
        return False


def test_one_word_among_many_numbers_is_a_mistake_and_many_are_categories() -> None:
    """Up to a tenth of words does not make a column of numbers one of text."""
    assert infer_kind(ListColumn(["1"] * 9 + ["oops"])) == "numeric"
    assert infer_kind(ListColumn(["1"] * 8 + ["oops"] * 2)) == "categorical"
    assert infer_kind(ListColumn(["1", "yes", "no"])) == "boolean"
    assert infer_kind(ListColumn(["", " "])) == "numeric"


@pytest.mark.parametrize("make", [ListColumn, make_arrow_column])
@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["01", "1", "2"], "categorical"),
        (["", "", "", "", "01", "1"], "categorical"),
        (["2"] * 20 + ["x", "1", "01"], "categorical"),
        (["01", "02", "12", ""], "numeric"),
        (["01", "1", "2.5", ""], "numeric"),
    ],
)
def test_codes_beside_their_short_form_are_categories(
    make: Callable[[list[str]], TextColumn], texts: list[str], kind: str
) -> None:
    """As numbers 01 and 1 would be one; gaps and words among them change nothing, whoever has read the file."""
    assert infer_kind(make(texts)) == kind


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=8))
@example(["²", "1"])
@example(["9" * 5000, "1"])
@example(["-0", "1"])
@example([" 1", "0"])
@example(["1.0", "0", "-3"])
def test_labels_are_whole_numbers_or_text_as_it_stands(texts: list[str]) -> None:
    """All labels become integers, or none changes; and `emsco-run` takes the same text for the same label."""
    labels = parse_labels("label", ListColumn(texts), place)
    if all(isinstance(label, int) for label in labels):
        assert [float(text) for text in texts] == labels
    else:
        assert labels == texts
    truth = LabelColumn("label", frozenset(map(str, labels)))
    assert truth.read_labels({"label": ListColumn(texts)}, len(texts)) == [str(label) for label in labels]


def test_a_missing_label_is_an_error_that_names_its_line() -> None:
    """The message names file, line and column, and the remedy."""
    with pytest.raises(DataError, match=r"t\.csv line 3: the label 'y' is missing; give it a label, or drop such rows"):
        parse_labels("y", ListColumn(["a", " "]), place)


def test_an_infinite_number_may_be_left_out_unless_every_field_needs_one() -> None:
    """A weight that is left empty is refused in turn: with advice of its own, a column is not told to do that."""
    for advice, said in ((None, "Cap it, or leave the field empty"), ("Weights are plain numbers", "Cap it")):
        with pytest.raises(DataError, match=f"expected a finite number. {said}$"):
            parse_column("x", ListColumn(["inf"]), "numeric", lambda row: f"line {row + 2}", advice)
