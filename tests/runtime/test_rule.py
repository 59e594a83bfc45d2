"""The acceptance rule and its vectorised twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.bundle.rule import RESCORE_MARGIN, accept, accept_rows, is_distribution

scores = st.integers(2, 5).flatmap(
    lambda labels: st.lists(
        # Few distinct values, so that ties and hits of the threshold are common.
        st.lists(
            st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5 + RESCORE_MARGIN / 2, 0.75, 0.9, 1.0]), min_size=labels, max_size=labels
        ),
        min_size=1,
        max_size=20,
    )
)
limits = st.sampled_from([0.1, 0.25, 0.5, 0.75, 0.9, 1.0])


def test_reaching_the_threshold_is_enough() -> None:
    """p == threshold accepts: the comparison is >=."""
    assert accept([0.1, 0.9], [0.9, 0.9]) == (1, True)
    assert accept([0.1, np.nextafter(0.9, 0.0)], [0.9, 0.9]) == (1, False)


def test_a_saturated_probability_meets_a_threshold_of_one() -> None:
    """p == 1.0 is accepted at the strictest threshold there is."""
    assert accept([0.0, 1.0], [1.0, 1.0]) == (1, True)


def test_ties_go_to_the_first_label() -> None:
    """Equal probabilities: the first label is the most probable one, and its threshold counts."""
    assert accept([0.5, 0.5], [0.6, 0.4]) == (0, False)
    assert accept([0.2, 0.4, 0.4], [0.9, 0.4, 0.9]) == (1, True)


def test_each_label_has_its_own_threshold() -> None:
    """The threshold of the most probable label decides, not the lowest one."""
    assert accept([0.3, 0.7], [0.2, 0.8]) == (1, False)


@given(scores, st.data())
def test_the_vectorised_rule_is_the_rule(rows: list[list[float]], data: st.DataObject) -> None:
    """`accept_rows` gives each row the label and the verdict of `accept`; rows with a tie or at a threshold are marked."""
    thresholds = data.draw(st.lists(limits, min_size=len(rows[0]), max_size=len(rows[0])))
    label, top, accepted, near = accept_rows(np.array(rows), thresholds)
    for index, row in enumerate(rows):
        assert (label[index], accepted[index]) == accept(row, thresholds)
        assert top[index] == max(row)
        first, second = sorted(row, reverse=True)[:2]
        must = (
            not is_distribution(row)
            or first - second <= RESCORE_MARGIN
            or abs(first - thresholds[label[index]]) <= RESCORE_MARGIN
        )
        assert near[index] == must


@pytest.mark.parametrize(
    "row",
    [
        *([np.nan, 0.5], [0.5, np.nan], [np.nan, np.nan], [2.0, 3.0], [0.0, 0.0], [np.inf, 0.0], [np.inf, np.inf]),
        *([1.5, -0.5], [-0.5, 1.5], [0.9, 0.4, -0.3], [1.0, 0.001, -0.001]),
    ],
)
def test_what_is_no_distribution_is_noticed(row: list[float]) -> None:
    """NaN, scores that do not add up to one, or one below zero are never taken for a verdict, alone or in a batch."""
    assert not is_distribution(row)
    sound = [0.0] * (len(row) - 1) + [1.0]
    assert accept_rows(np.array([sound, row, sound]), [0.5] * len(row))[3].tolist() == [False, True, False]


def test_rounding_does_not_make_a_distribution_another_thing() -> None:
    """A float32 model may miss one, or zero, by its rounding."""
    row = [1.0 + 2e-7, -1e-7]
    assert is_distribution(row)
    assert accept_rows(np.array([row]), [0.5, 0.5])[3].tolist() == [False]
