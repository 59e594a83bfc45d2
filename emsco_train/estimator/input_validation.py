"""What a scikit-learn estimator is given: rows in any form, labels, a seed; and the value that means a rejection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from emsco_runtime.decision import Label
from emsco_runtime.errors import AcquisitionError
from emsco_runtime.support.arrays import Array
from emsco_train.data.table import Table, is_arrow_table
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_integer, worker_count

__all__ = [
    "check_known_labels",
    "explain_gaps",
    "resolve_reject_label",
    "resolve_seed",
    "resolve_workers",
    "to_label_array",
    "to_one_dimension",
    "unchanged_on_error",
    "validate_fit_rows",
    "validate_labels",
    "validate_predict_rows",
    "validate_weights",
]

_SEED_RANGE = 2**31
_MAX_SHOWN_LABELS = 5


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if the block raises: what it predicts must not be half of one fit and half of another."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def validate_fit_rows(estimator: Any, rows: Any, truth: Any) -> Any:
    """Set names and number of the features on the estimator; return rows that `Problem.of` reads.

    The rows are a data frame, an Arrow table, a mapping of arrays, or an array. Of the labels only their presence is checked.
    """
    if _is_mapping(rows):
        # Also an estimator that was fitted on a frame before.
        validate_data(estimator, X="no_validation", y=truth, reset=True, skip_check_array=True)
        table = Table.of(rows)
        estimator.n_features_in_ = len(table.names)
        estimator.feature_names_in_ = np.array(table.names, dtype=object)
        return table
    if _is_frame(rows):
        return validate_data(estimator, rows, truth, reset=True, skip_check_array=True)[0]
    # scikit-learn's own messages for what is not a matrix; missing values are checked column by column, later.
    return validate_data(estimator, rows, truth, reset=True, dtype=None, ensure_all_finite=False, ensure_min_features=2)[0]


def validate_predict_rows(estimator: Any, rows: Any, names: Sequence[str]) -> Table:
    """Return rows as a table with the columns of the fit, whose names are given in column order.

    A data frame or array must have the columns in that order; a mapping or an Arrow table may have any order.
    """
    if _is_mapping(rows):
        return Table.of(rows).select(names)
    if _is_frame(rows):
        validate_data(estimator, rows, reset=False, skip_check_array=True)
        table = Table.of(rows)
    else:
        matrix = validate_data(estimator, rows, reset=False, dtype=None, ensure_all_finite=False)
        # As the frame of the fit named them: columns such as e[0] and e[1] are one feature.
        table = Table.of(matrix, list(map(str, getattr(estimator, "feature_names_in_", names))))
    return Table(dict(zip(names, table.columns.values(), strict=True)), table.rows)


def validate_labels(truth: Any) -> Any:
    """Return labels in one dimension; scikit-learn's own errors for what is not a class, such as real numbers."""
    column = to_one_dimension(truth, warn=True)
    if column is truth and not isinstance(truth, np.ndarray):
        return truth
    if column.dtype.kind == "f":
        assert_all_finite(column, input_name="y")
        check_classification_targets(column)
    if column.dtype.kind != "O":
        _require_two_classes(column, "y has")
    return column


def to_one_dimension(truth: Any, *, warn: bool = False) -> Any:
    """Return labels as an array of one dimension, also those of a frame of one column; lists and Arrow's columns as they are."""
    # A plain list may mix numbers and text, which an array would turn into text; scikit-learn does not know Arrow's columns.
    if not hasattr(truth, "__array__") or hasattr(truth, "to_pylist"):
        return truth
    return column_or_1d(truth, warn=warn)


def validate_weights(sample_weight: Any, truth: Any) -> Any:
    """Return weights as an array, or None; raise if they leave fewer than two classes of the validated labels."""
    if sample_weight is None:
        return None
    weights: Array = np.asarray(sample_weight)
    if weights.shape == np.shape(truth) and weights.dtype.kind in "biuf":
        if not weights.any():
            raise DataError("sample_weight is zero for every row: give some rows weight, or leave it out")
        labels: Array = np.asarray(truth)
        _require_two_classes(labels[weights != 0], "sample_weight leaves")
    return weights


def check_known_labels(truth: Sequence[Label], labels: Sequence[Label]) -> None:
    """Raise if none of the true labels is one of the model's: every answer would be wrong, such as 0 and 1 against words."""
    known, given = set(labels), set(truth)
    if given and not known & given:
        raise DataError(
            f"y has the labels {_list_labels(sorted(given, key=str))}, but the model was fitted with {_list_labels(labels)}: "
            "give the labels in the form that they had in fit"
        )


def _list_labels(labels: Sequence[Label]) -> str:
    more = ", ..." if len(labels) > _MAX_SHOWN_LABELS else ""
    return ", ".join(map(repr, labels[:_MAX_SHOWN_LABELS])) + more


@contextmanager
def explain_gaps() -> Iterator[None]:
    """Let the error about a missing value say what to do about it here: a cascade's own policies cannot be set."""
    try:
        yield
    except AcquisitionError as error:
        if error.kind != "missing":
            raise
        remedy = f"`features={{{error.feature!r}: FeatureOptions(missing='impute')}}`"
        text = (
            f"the value is missing (None or NaN), and no row of the fit had a missing value there: fill it, or fit with {remedy}"
        )
        details = (error.feature, error.stage, error.kind, error.cost, error.trace, error.index, error.key, error.errors)
        raise AcquisitionError(f"feature {error.feature!r} (stage {error.stage}): {text}", *details) from None


def _require_two_classes(labels: Array, who: str) -> None:
    if len(labels) and (labels == labels[0]).all():
        # As Python writes it, not as numpy does: 0.0, not np.float64(0.0).
        (label,) = labels[:1].tolist()
        raise DataError(f"{who} only 1 class, the label {label!r}: at least two different ones are needed to train")


def resolve_seed(random_state: Any) -> int:
    """Return a seed: a whole number is one already, anything else draws one."""
    if isinstance(random_state, Integral):
        if random_state < 0:
            raise DesignError(f"random_state is {random_state!r}: expected a whole number, 0 or more, a RandomState, or None")
        return int(random_state)
    return int(check_random_state(random_state).randint(_SEED_RANGE))


def resolve_workers(n_jobs: object) -> int:
    """Return a number of threads, counted as joblib does: None or -1 for all cores, -2 for all but one, at least 1."""
    if n_jobs is None:
        return worker_count(None)
    if not is_integer(n_jobs) or n_jobs == 0:
        raise DesignError(f"n_jobs is {n_jobs!r}: expected a whole number other than 0, or None for all cores")
    return int(n_jobs) if n_jobs > 0 else max(worker_count(None) + 1 + int(n_jobs), 1)


def resolve_reject_label(reject_label: object, labels: Sequence[Label]) -> Label:
    """Return the value that means a rejection; it must not be a label.

    None: "" for text; -1 for whole numbers, or one below the smallest label where -1 is a label.

    Examples
    --------
    >>> resolve_reject_label(None, (0, 1)), resolve_reject_label(None, (-1, 1)), resolve_reject_label(None, ("ham", "spam"))
    (-1, -2, '')
    >>> resolve_reject_label("unsure", ("ham", "spam"))
    'unsure'
    """
    if reject_label is None:
        numbers = [label for label in labels if isinstance(label, int)]
        chosen: Label = "" if not numbers else -1 if -1 not in numbers else min(numbers) - 1
    elif isinstance(reject_label, str):
        chosen = str(reject_label)
    elif isinstance(reject_label, Integral) and not isinstance(reject_label, bool):
        chosen = int(reject_label)
    else:
        raise DesignError(f"reject_label is {reject_label!r}: expected text, a whole number, or None")
    if chosen in labels:
        raise DesignError(f"reject_label is {chosen!r}, which is also a label: choose a value that is not in {list(labels)}")
    return chosen


def to_label_array(values: Sequence[Label]) -> Array:
    """Return labels as an array of whole numbers or of text; of objects where they are mixed."""
    text = {isinstance(value, str) for value in values}
    return np.array(values, dtype=object if len(text) > 1 else None)


def _is_mapping(rows: Any) -> bool:
    # One of the sparse formats is a dictionary, but of cells. scikit-learn does not know Arrow's tables.
    return is_arrow_table(rows) or (isinstance(rows, Mapping) and not issparse(rows))


def _is_frame(rows: Any) -> bool:
    return hasattr(rows, "columns") and hasattr(rows, "__getitem__")
