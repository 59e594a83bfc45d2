"""Labels: the user's names of the classes, and their positions.

Inside training a class is its position in the sorted labels; the manifest and every decision carry the label itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Ints
from emsco_runtime.support.missing_values import is_missing
from emsco_train.errors import DataError

__all__ = ["check_label_count", "label_positions", "label_text", "plain_labels", "unique_labels"]

_UNKNOWN_LABEL = -1
# More labels than this, with fewer rows each than that or more than those at all, are numbers or names, not classes.
_FEW_LABELS, _ROWS_PER_LABEL, _MAX_LABELS = 100, 10, 1000
_MAX_INTEGER_LABEL = 2**53  # beyond this, JSON readers that use floats would change an integer label


def plain_labels(values: Any, *, rows: int, where: str) -> list[Label]:
    """Return labels, one per row, as plain strings and integers; booleans become 0 and 1, whole floats integers.

    They may be a list, an array, or a column of a frame or of an Arrow table; errors call them `where`, such as "y".

    Examples
    --------
    >>> plain_labels(np.array([1.0, 0.0]), rows=2, where="y")
    [1, 0]
    """
    array = _as_column(values, where)
    if len(array) != rows:
        raise DataError(f"{where} has {pluralize(len(array), 'label')} for {pluralize(rows, 'row')}: give one per row")
    values, plain = array.tolist(), _LabelConverter(where)
    try:
        return list(map(plain.__getitem__, values))
    except (DataError, TypeError):
        # A faulty label, or one that cannot be a key: one by one, for the row of the first.
        return [_convert_label(value, row, where) for row, value in enumerate(values)]


def unique_labels(labels: Sequence[Label], where: str) -> tuple[Label, ...]:
    """Return the sorted labels, integers before strings.

    Examples
    --------
    >>> unique_labels(["spam", "ham", "spam"], "y")
    ('ham', 'spam')
    """
    found = sorted(set(labels), key=lambda label: (isinstance(label, str), label))
    clash = sorted(text for text, count in Counter(map(str, found)).items() if count > 1)
    if clash:
        raise DataError(f"{where}: labels must be unique as text, but {clash} occur both as numbers and as text: use one form")
    if len(found) < 2:
        raise DataError(f"{where} has only the label {found[0]!r}: at least two different ones are needed to train")
    return tuple(found)


def label_text(label: object) -> str:
    """Return the text by which options name a label; True and False are the labels 1 and 0, as in the rows.

    Examples
    --------
    >>> label_text("spam"), label_text(True), label_text(np.False_)
    ('spam', '1', '0')
    """
    return str(int(label) if isinstance(label, bool | np.bool_) else label)


def check_label_count(labels: int, rows: int, where: str) -> None:
    """Raise if there are so many different labels that they cannot be classes, such as where a number was meant.

    Examples
    --------
    >>> check_label_count(900, 1500, "y")
    Traceback (most recent call last):
        ...
    emsco_train.errors.DataError: y has 900 different labels in 1,500 rows: ...
    """
    if labels > _FEW_LABELS and (labels * _ROWS_PER_LABEL > rows or labels > _MAX_LABELS):
        raise DataError(
            f"{where} has {labels:,} different labels in {pluralize(rows, 'row')}: is it a number, or an id? emsco learns to "
            "tell a few classes apart: give the column of these, or divide the numbers into a few ranges first"
        )


def label_positions(values: Sequence[Label], labels: Sequence[Label]) -> Ints:
    """Return the position of each label; -1 for one that training never saw, which no decision can get right."""
    position = {label: index for index, label in enumerate(labels)}
    try:
        return np.fromiter(map(position.__getitem__, values), dtype=np.intp, count=len(values))
    except KeyError:
        return np.fromiter((position.get(value, _UNKNOWN_LABEL) for value in values), dtype=np.intp, count=len(values))


class _LabelConverter(dict[Any, Label]):
    """Converts each different label once: there are few, and rows may be millions."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def __missing__(self, value: object) -> Label:
        self[value] = label = _convert_label(value, 0, self._where)
        return label


def _as_column(values: Any, where: str) -> Array:
    if hasattr(values, "to_pylist"):
        # A column of an Arrow table, whose elements would be scalars of its own.
        values = values.to_pylist()
    # Objects, so that numpy does not turn [1, "a"] into text; arrays and frame columns keep their type.
    array: Array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(list(values), dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{where} has shape {array.shape}: expected one label per row")
    return array


def _convert_label(value: object, row: int, where: str) -> Label:
    if is_missing(value):
        raise DataError(f"{where}, row {row}: the label is missing ({value!r}); drop the row or give it a label")
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral | np.bool_) or (isinstance(value, float | np.floating) and float(value).is_integer()):
        number = int(value)
        if abs(number) > _MAX_INTEGER_LABEL:
            raise DataError(f"{where}, row {row}: the label {number} is beyond 2**53; use text instead")
        return number
    raise DataError(f"{where}, row {row}: {value!r} ({type(value).__name__}) is not a label: expected text or a whole number")
