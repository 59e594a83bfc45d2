"""Columns of text, as in a CSV file, as numbers, booleans or categories.

A value is read here as `emsco-run` reads it, so that training and production cannot differ: an empty field is a gap, numbers are
what Python's `float` accepts, and booleans are words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array
from emsco_runtime.support.csv_file import parse_boolean, strip_decimal_zeros
from emsco_train.data.features import Kind
from emsco_train.errors import DataError
from emsco_train.support.numbers import is_numeric_text

__all__ = ["infer_kind", "parse_column", "parse_labels"]

# A column with at least this share of numbers is numeric: a word in it is a mistake, not a category.
_NUMERIC_SHARE = 0.9
_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}")


def infer_kind(values: Sequence[str]) -> Kind:
    """Return the kind of a column of text.

    Examples
    --------
    >>> infer_kind(["1", "", "2.5"]), infer_kind(["yes", "no", ""]), infer_kind(["tcp", "1"])
    ('numeric', 'boolean', 'categorical')
    """
    present = [value for value in values if value.strip()]
    if not present or sum(map(is_numeric_text, present)) >= _NUMERIC_SHARE * len(present):
        return "numeric"
    return "boolean" if all(parse_boolean(value) is not None for value in present) else "categorical"


def parse_column(name: str, values: Sequence[str], kind: Kind, lines: Sequence[str]) -> Array:
    """Return a column as the values that acquirers would return; errors name the column and its line, "mail.csv line 7".

    Examples
    --------
    >>> parse_column("size", ["1", ""], "numeric", ["line 2", "line 3"])
    array([ 1., nan])
    >>> parse_column("open", ["yes", "no"], "boolean", ["line 2", "line 3"])
    array([True, False], dtype=object)
    """
    if kind == "numeric":
        return np.array([_parse_number(name, value, line) for value, line in zip(values, lines, strict=True)], dtype=np.float64)
    if kind == "boolean":
        given: list[object] = [_parse_boolean(name, value, line) for value, line in zip(values, lines, strict=True)]
    else:
        given = [strip_decimal_zeros(value) if value.strip() else None for value in values]
    column: Array = np.empty(len(given), dtype=object)
    column[:] = given
    return column


def parse_labels(name: str, values: Sequence[str], lines: Sequence[str]) -> list[Label]:
    """Return labels: whole numbers if all of them are, otherwise the text as it is.

    Examples
    --------
    >>> parse_labels("label", ["1", "0.0"], ["line 2", "line 3"]), parse_labels("label", ["1", "x"], ["line 2", "line 3"])
    ([1, 0], ['1', 'x'])
    """
    for value, line in zip(values, lines, strict=True):
        if not value.strip():
            raise DataError(f"{line}: the label {name!r} is missing; give it a label, or drop such rows with `drop_labels=('',)`")
    plain = [strip_decimal_zeros(value) for value in values]
    return [int(value) for value in plain] if all(map(_is_whole, plain)) else list(values)


def _parse_number(name: str, value: str, line: str) -> float:
    if not value.strip():
        return float("nan")
    try:
        number = float(value)
    except ValueError:
        advice = f"Correct it, name it with `missing` if it means a gap, or use `kinds={{{name!r}: 'categorical'}}`"
        raise DataError(f"{line}: column {name!r} holds {value!r}, expected a number. {advice}") from None
    if math.isinf(number):
        advice = "Cap it, or leave the field empty"
        raise DataError(f"{line}: column {name!r} holds {value!r}, expected a finite number. {advice}")
    return number


def _parse_boolean(name: str, value: str, line: str) -> bool | None:
    truth = parse_boolean(value)
    if truth is not None or not value.strip():
        return truth
    detail = f"column {name!r} holds {value!r}, which is neither yes nor no"
    raise DataError(f"{line}: {detail}. Correct it, or give the column another kind with `kinds`")


def _is_whole(value: str) -> bool:
    # A longer number stays text: JSON readers that use floats would change it.
    return _WHOLE_NUMBER.fullmatch(value) is not None
