"""The table check before training: columns that are probably not what a model should learn from.

Each check is a function of one column, and of the labels where it needs them. A finding says what was seen and what to do about
it. `is_useless` marks columns from which no model of ours can learn: ids, free text, dates, constants. The caller decides
whether to leave them out. Of a long table, `MAX_SAMPLE` rows tell enough; what is said of all rows, such as that a column is
constant, is confirmed on all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Floats, Ints
from emsco_runtime.support.missing_values import is_missing
from emsco_train.data.finding import Finding
from emsco_train.data.label_checks import check_codes, check_leak
from emsco_train.data.value_checks import check_alike, check_missing_number, check_numbers, check_texts

__all__ = ["MAX_SAMPLE", "check_columns"]

MAX_SAMPLE = 50_000
# What is said of every row, and so needs a look at every row.
_CONFIRMED = ("constant", "empty")


def check_columns(columns: Mapping[str, Array], labels: Sequence[Label], *, min_category: int = 1) -> tuple[Finding, ...]:
    """Return what is unusual about the columns of a table, in their order: at most one finding each.

    Categories with fewer than `min_category` rows are taken as one, as in `FeatureOptions`.

    Examples
    --------
    >>> sizes = np.random.default_rng(0).normal(size=40)
    >>> columns = {"row": np.arange(40), "size": sizes, "unit": np.array(["cm"] * 40)}
    >>> [(one.kind, one.column) for one in check_columns(columns, [0, 1] * 20)]
    [('id', 'row'), ('constant', 'unit')]
    """
    sample = _sample_rows(len(labels))
    target = _number_values([str(labels[row]) for row in sample.tolist()])
    findings = []
    for name, values in columns.items():
        finding = _check_column(name, values[sample], target, min_category, len(labels))
        if finding is not None and finding.kind in _CONFIRMED and len(sample) < len(labels):
            finding = _check_column(name, values, _number_values(list(map(str, labels))), min_category, len(labels))
        if finding is not None and finding.kind == "missing number" and len(sample) < len(labels):
            # This says something of every row, too, but to repeat all other checks would take long.
            finding = _check_missing_number(name, values)
        if finding is not None:
            findings.append(finding)
    return tuple(findings)


def _sample_rows(rows: int) -> Ints:
    """Return the rows to look at: all, or a sample that is the same every time."""
    if rows <= MAX_SAMPLE:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, MAX_SAMPLE, replace=False))


def _check_column(name: str, values: Array, target: Ints, min_category: int, table_rows: int) -> Finding | None:
    """Look at the values of some rows of a column; the table has `table_rows`."""
    if values.ndim == 2:
        return _check_vectors(name, values)
    texts = _text_values(values)
    if texts is not None:
        finding = check_texts(name, texts, min_category, has_gaps=len(texts) < len(values))
        coded = _number_values(["" if is_missing(value) else value for value in values])
        return finding or check_leak(name, coded, target) or check_alike(name, texts)
    numbers = _to_floats(values)
    if numbers is None:
        return None
    present = numbers[~np.isnan(numbers)]
    finding = check_numbers(name, present, table_rows, has_gaps=len(present) < len(values))
    finding = finding or check_leak(name, numbers, target) or check_missing_number(name, present)
    return finding or check_codes(name, numbers, target)


def _check_missing_number(name: str, values: Array) -> Finding | None:
    numbers = _to_floats(values)
    return None if numbers is None else check_missing_number(name, numbers[~np.isnan(numbers)])


def _check_vectors(name: str, values: Floats) -> Finding | None:
    present = values[~np.isnan(values).all(axis=1)]
    if not len(present):
        return Finding("empty", name, "no value in any row", is_useless=True)
    if (present == present[0]).all():
        return Finding("constant", name, "the same vector in every row that has one", is_useless=True)
    return None


def _number_values(values: Sequence[str]) -> Ints:
    """Return a number 0, 1, 2, ... for each value, equal for equal ones."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return np.array([numbers[value] for value in values], dtype=np.intp)


def _text_values(values: Array) -> list[str] | None:
    """Return the values that are not missing, if they are text."""
    if values.dtype.kind == "U":
        return list(values.tolist())
    if values.dtype.kind != "O":
        return None
    given = values.tolist()
    texts = [value for value in given if isinstance(value, str)]
    others = len(given) - len(texts)
    if not texts or (others and not all(is_missing(value) for value in given if not isinstance(value, str))):
        return None
    return texts


def _to_floats(values: Array) -> Floats | None:
    """Return numbers and booleans as floats, NaN for gaps; None for anything else."""
    if values.dtype.kind in "biuf":
        return np.asarray(values, dtype=np.float64)
    try:
        return np.array([np.nan if is_missing(value) else float(value) for value in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
