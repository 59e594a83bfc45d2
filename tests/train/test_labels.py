"""Labels and thresholds: plain forms, order, and refusals."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from emsco_train.data.labels import label_positions, plain_labels, unique_labels
from emsco_train.data.problem_warnings import warn_low_thresholds
from emsco_train.data.thresholds import resolve_thresholds
from emsco_train.errors import DataError, DesignError, ThresholdWarning


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        (["b", "a"], ["b", "a"]),
        (np.array([2, 1]), [2, 1]),
        (np.array([True, False]), [1, 0]),
        ([np.bool_(True), np.int8(4)], [1, 4]),
        (np.array([1.0, 0.0]), [1, 0]),
        (pd.Series(["x", "y"], dtype="category"), ["x", "y"]),
        (pd.DataFrame({"y": [1, 2]}), [1, 2]),
        ([1, "a"], [1, "a"]),
    ],
)
def test_plain_labels(values: Any, plain: list[Any]) -> None:
    """Numpy's and pandas' labels become plain strings and integers; booleans become 0 and 1."""
    found = plain_labels(values if not hasattr(values, "columns") else values.to_numpy(), rows=2, where="y")
    assert found == plain
    assert all(type(label) in (int, str) for label in found)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 1], r"y, row 0: 0.5 \(float\) is not a label"),
        (["a", None], "y, row 1: the label is missing"),
        ([1.0, float("nan")], "y, row 1: the label is missing"),
        ([1, 2, 3], "y has 3 labels for 2 rows"),
        (np.zeros((2, 2)), r"y has shape \(2, 2\)"),
        ([1, 2**60], r"beyond 2\*\*53"),
        ([b"a", "b"], "is not a label"),
    ],
)
def test_bad_labels(values: Any, message: str) -> None:
    """Every unusable label is named with its row and value."""
    with pytest.raises(DataError, match=message):
        plain_labels(values, rows=2, where="y")


def test_unique_labels() -> None:
    """Labels are sorted, integers by value and before text; they must differ as text, and be at least two."""
    assert unique_labels([10, 9, "b", "a", 9], "y") == (9, 10, "a", "b")
    with pytest.raises(DataError, match=r"\['1'\] occur both as numbers and as text"):
        unique_labels([1, "1"], "y")
    with pytest.raises(DataError, match="only the label 'a'"):
        unique_labels(["a", "a"], "y")


def test_positions_of_unseen_labels() -> None:
    """A label that training never saw has no position, so no decision counts as right for it."""
    assert label_positions(["b", "new", "a"], ["a", "b"]).tolist() == [1, -1, 0]


def test_thresholds_per_label() -> None:
    """A mapping may use labels or their text; one number serves all."""
    assert resolve_thresholds({1: 0.6, "0": 1}, [0, 1]) == (1.0, 0.6)
    assert resolve_thresholds(np.float32(0.5), ["a", "b"]) == (0.5, 0.5)


@pytest.mark.parametrize("threshold", [0, -0.1, 1.0001, float("nan"), True, "0.9", None])
def test_bad_threshold(threshold: Any) -> None:
    """Outside (0, 1] there is no confidence; the value got is in the message."""
    with pytest.raises(DesignError, match="expected a number above 0 and up to 1"):
        resolve_thresholds(threshold, ["a", "b"])


def test_threshold_names_must_fit() -> None:
    """Labels without a threshold and thresholds without a label are listed together."""
    with pytest.raises(DesignError, match=r"no threshold for label 'b'.*'c' is not a label \(labels: a, b\)"):
        resolve_thresholds({"a": 0.9, "c": 0.8}, ["a", "b"])


def test_low_threshold_warns_at_the_callers_line() -> None:
    """The warning points at the caller's file; above 1 / labels there is none."""
    with pytest.warns(ThresholdWarning, match=r"\['b'\] is at or below 1 / 2") as caught:
        warn_low_thresholds([0.6, 0.5], ["a", "b"])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_low_thresholds([0.6, 0.51], ["a", "b"])
