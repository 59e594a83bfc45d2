"""Columns of text, as in a CSV file, as numbers, booleans or categories.

A value is read here as `emsco-run` reads it, so that training and production cannot differ: an empty field is missing, numbers
are what `parse_number` accepts, and booleans are words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Floats, to_objects
from emsco_runtime.support.csv_file import parse_boolean, parse_number, strip_decimal_zeros
from emsco_runtime.support.text_column import TextColumn, find_other_texts
from emsco_train.data.features import Kind
from emsco_train.errors import DataError
from emsco_train.support.numbers import is_numeric_text

__all__ = ["infer_kind", "missing_label", "parse_column", "parse_labels"]

# A column with at least this share of numbers is numeric: a word in it is a mistake, not a category.
_NUMERIC_SHARE = 0.9
# Rows that are looked at for codes: of millions of different numbers, all texts would take seconds.
_MAX_LOOKED_AT = 50_000
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}")


def infer_kind(column: TextColumn) -> Kind:
    """Return the kind of a column of text.

    Examples
    --------
    >>> from emsco_runtime.support.text_column import ListColumn
    >>> infer_kind(ListColumn(["1", "", "2.5"])), infer_kind(ListColumn(["yes", "no", ""])), infer_kind(ListColumn(["tcp", "1"]))
    ('numeric', 'boolean', 'categorical')
    >>> infer_kind(ListColumn(["01", "12", "02"])), infer_kind(ListColumn(["01", "12", "1", ""]))
    ('numeric', 'categorical')
    >>> infer_kind(ListColumn(["10_20", "20_30"]))
    'categorical'
    """
    values, parsed = column.parse_numbers()
    texts, codes = column.take(np.flatnonzero(~parsed)).distinct()
    counts = np.bincount(codes, minlength=len(texts)).tolist()
    others = {text: count for text, count in zip(texts, counts, strict=True) if text.strip()}
    numbers = int(parsed.sum()) + sum(count for text, count in others.items() if is_numeric_text(text))
    present = int(parsed.sum()) + sum(others.values())
    if numbers >= _NUMERIC_SHARE * present and not _holds_padded_codes(column, values[parsed]):
        return "numeric"
    return "boolean" if all(parse_boolean(text) is not None for text in column.distinct()[0] if text.strip()) else "categorical"


def _holds_padded_codes(column: TextColumn, numbers: Floats) -> bool:
    """Return whether there are codes such as 01 beside 1, which would be one number; not where there are fractions.

    `numbers` are those that were parsed, if any: where one of them is a fraction, no text is looked at.
    """
    if not np.array_equal(numbers, np.floor(numbers)):
        return False
    texts = set(column.take(np.arange(min(len(column), _MAX_LOOKED_AT))).distinct()[0])
    padded = [text for text in texts if len(text) > 1 and text.startswith("0") and text.isdecimal()]
    if not any((text.lstrip("0") or "0") in texts for text in padded):
        return False
    return not any(math.isfinite(number) and not number.is_integer() for number in map(float, filter(is_numeric_text, texts)))


def parse_column(
    name: str, column: TextColumn, kind: Kind, place: Callable[[int], str], number_advice: str | None = None
) -> Array:
    """Return a column as the values that acquirers would return.

    Errors name the column and where the first faulty row stands: `place` says that of a row, as "mail.csv line 7". What to do
    about text that is no number is `number_advice`, if the column is no feature.

    Examples
    --------
    >>> from emsco_runtime.support.text_column import ListColumn
    >>> parse_column("size", ListColumn(["1", ""]), "numeric", lambda row: f"line {row + 2}")
    array([ 1., nan])
    >>> parse_column("open", ListColumn(["yes", "no"]), "boolean", lambda row: f"line {row + 2}")
    array([True, False], dtype=object)
    """
    if kind == "numeric":
        numbers, others = find_other_texts(column, frozenset())
        texts, codes = column.take(others).distinct()
        parse = partial(_parse_number, name, number_advice)
        parsed = _read_each(texts, parse, lambda at: place(int(others[np.argmax(codes == at)])))
        numbers[others] = np.array(parsed, dtype=np.float64)[codes]
        return numbers
    texts, codes = column.distinct()
    if kind == "boolean":
        values = _read_each(texts, partial(_parse_boolean, name), lambda at: place(int(np.argmax(codes == at))))
    else:
        values = [strip_decimal_zeros(text) if text.strip() else None for text in texts]
    return to_objects(values).take(codes)


def parse_labels(name: str, column: TextColumn, place: Callable[[int], str]) -> list[Label]:
    """Return labels: whole numbers if all of them are, otherwise the text as it is.

    Examples
    --------
    >>> from emsco_runtime.support.text_column import ListColumn
    >>> place = "line {}".format
    >>> parse_labels("label", ListColumn(["1", "0.0"]), place), parse_labels("label", ListColumn(["1", "x"]), place)
    ([1, 0], ['1', 'x'])
    """
    texts, codes = column.distinct()
    for at, text in enumerate(texts):
        if not text.strip():
            raise missing_label(name, place(int(np.argmax(codes == at))))
    plain = [strip_decimal_zeros(text) for text in texts]
    labels: list[Label] = to_objects([*map(int, plain)] if all(map(_is_whole, plain)) else texts).take(codes).tolist()
    return labels


def missing_label(name: str, place: str) -> DataError:
    """Return the error about a row without a label, in the column of this name."""
    return DataError(f"{place}: the label {name!r} is missing; give it a label, or drop such rows with `drop_labels=('',)`")


def _read_each(texts: Sequence[str], read: Callable[[str, Callable[[], str]], Any], place: Callable[[int], str]) -> list[Any]:
    """Read each text; `place` says where the first field of a text stands, which is asked for in errors alone."""
    return [read(text, partial(place, at)) for at, text in enumerate(texts)]


def _parse_number(name: str, own_advice: str | None, value: str, line: Callable[[], str]) -> float:
    if not value.strip():
        return float("nan")
    try:
        number = parse_number(value)
    except ValueError:
        advice = own_advice or (
            f"Correct it, name it with `missing` if it means a missing value, or use `kinds={{{name!r}: 'categorical'}}`"
        )
        raise DataError(f"{line()}: column {name!r} holds {value!r}, expected a number. {advice}") from None
    if math.isinf(number):
        # Where there is advice of their own, fields must not be empty.
        advice = "Cap it" if own_advice else "Cap it, or leave the field empty"
        raise DataError(f"{line()}: column {name!r} holds {value!r}, expected a finite number. {advice}")
    return number


def _parse_boolean(name: str, value: str, line: Callable[[], str]) -> bool | None:
    truth = parse_boolean(value)
    if truth is not None or not value.strip():
        return truth
    detail = f"column {name!r} holds {value!r}, which is neither yes nor no"
    raise DataError(f"{line()}: {detail}. Correct it, or give the column another kind with `kinds`")


def _is_whole(value: str) -> bool:
    # A longer number stays text: JSON readers that use floats would change it.
    return _WHOLE_NUMBER.fullmatch(value) is not None
