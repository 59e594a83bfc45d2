"""Calibration: bins that add up, an error that equals a plain computation, and warnings that few rows do not raise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from emsco_train.guarantee.calibration import BINS, RankedScores, Reliability, add_warning, calibrate, calibrate_ranked
from emsco_train.models.evaluation import REJECTED, Evaluation

ROWS = st.lists(st.tuples(st.sampled_from([0.5, 0.6, 0.75, 0.9, 0.99, 1.0]) | st.floats(0.5, 1.0), st.booleans()), min_size=1)


def columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    """Return confidences and outcomes as columns."""
    return np.array([confidence for confidence, _ in rows]), np.array([right for _, right in rows])


def reliability_of(confidence: np.ndarray, right: np.ndarray) -> Reliability:
    """Return the reliability over rows in any order."""
    return RankedScores.of(confidence, right).all_rows


def warning_for(confidence: np.ndarray, right: np.ndarray) -> str | None:
    """Return the warning for rows that are all accepted at the only stage."""
    everyone = np.ones(len(right), dtype=bool)
    made = calibrate_ranked(1, RankedScores.of(confidence, right), reached=everyone, accepted=everyone)
    return add_warning(made, stages=1).warning


@given(ROWS)
def test_bins_part_the_rows(rows: list[tuple[float, bool]]) -> None:
    """Every row is in one bin, bins do not overlap, rows of one confidence stay together, and there are at most ten."""
    confidence, right = columns(rows)
    made = reliability_of(confidence, right)
    assert 1 <= len(made.bins) <= BINS
    assert (sum(part.rows for part in made.bins), sum(part.right for part in made.bins)) == (made.rows, made.right)
    assert (made.rows, made.right) == (len(rows), right.sum())
    for before, after in zip(made.bins, made.bins[1:], strict=False):
        assert before.highest < after.lowest
    for part in made.bins:
        inside = (confidence >= part.lowest) & (confidence <= part.highest)
        assert (inside.sum(), right[inside].sum()) == (part.rows, part.right)
        assert part.lowest <= part.confidence <= part.highest
        assert part.confidence == pytest.approx(confidence[inside].mean())


@given(ROWS)
def test_error_is_the_weighted_gap(rows: list[tuple[float, bool]]) -> None:
    """The calibration error equals its textbook formula over the bins, and lies between 0 and 1."""
    confidence, right = columns(rows)
    made = reliability_of(confidence, right)
    assert made.error is not None
    gaps = [abs(part.right / part.rows - part.confidence) * part.rows for part in made.bins]
    assert made.error == pytest.approx(sum(gaps) / len(rows))
    assert 0 <= made.error <= 1


def test_bins_hold_equal_numbers() -> None:
    """Where confidences differ, ten bins hold a tenth of the rows each, wherever the confidences crowd."""
    confidence = 1 - np.random.default_rng(1).random(1000) ** 4 / 2
    assert [part.rows for part in reliability_of(confidence, confidence > 0.7).bins] == [100] * 10


def test_stage_without_accepted_rows() -> None:
    """A stage that accepts nothing has no error, no mean and no warning."""
    every, none = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)
    made = add_warning(calibrate_ranked(2, RankedScores.of(np.full(4, 0.7), none), reached=every, accepted=none), stages=2)
    assert made.accepted == Reliability(0, 0, None, None, ())
    assert made.warning is None
    assert made.reached.rows == 4


def test_misleading_confidence_is_reported() -> None:
    """Right in 80 of 100 at a confidence of 0.95: the sentence has both figures and the stage."""
    warning = warning_for(np.full(100, 0.95), np.arange(100) < 80)
    assert warning == "stage 1: confidence misleads: 80.00 % of the 100 accepted rows are right, their mean confidence is 95.00 %"


def test_few_rows_raise_no_warning() -> None:
    """The same shares on five rows are chance: there is no warning; nor where confidence is too low."""
    assert warning_for(np.full(5, 0.95), np.arange(5) < 4) is None
    assert warning_for(np.full(1000, 0.7), np.arange(1000) < 950) is None


def test_wrong_certainty_is_reported() -> None:
    """A confidence of 1, or slightly above by rounding, that is wrong once, is misleading; always right, it is not."""
    for sure in (1.0, 1.0 + 2**-52):
        assert warning_for(np.full(50, sure), np.arange(50) > 0) is not None
        assert warning_for(np.full(50, sure), np.ones(50, dtype=bool)) is None


@pytest.mark.parametrize("rows", [10, 60, 400])
def test_calibrated_stages_rarely_get_a_warning(rows: int) -> None:
    """Outcomes drawn at the stated confidences raise a warning no more often than the level allows; overconfident ones often."""
    rng = np.random.default_rng(rows)
    repeats, level = 400, 0.01
    confidence = rng.uniform(0.8, 1.0, size=(repeats, rows))
    calibrated = rng.random((repeats, rows)) < confidence
    alarms = sum(warning_for(*pair) is not None for pair in zip(confidence, calibrated, strict=True))
    assert alarms <= stats.binom.ppf(1 - 1e-4, repeats, level)
    overconfident = rng.random((repeats // 8, rows)) < confidence[: repeats // 8] - 0.4
    caught = sum(warning_for(*pair) is not None for pair in zip(confidence[: repeats // 8], overconfident, strict=True))
    assert caught >= 0.5 * repeats // 8


def evaluation() -> tuple[Evaluation, np.ndarray]:
    """Return four rows in two stages: two leave at once, one later, one never; and their labels."""
    first = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    second = np.array([[0.95, 0.05], [0.1, 0.9], [0.15, 0.85], [0.55, 0.45]])
    made = Evaluation(np.array([0, 1, 1, REJECTED]), np.array([1, 1, 2, 2]), np.array([1.0, 1.0, 3.0, 3.0]), (first, second))
    return made, np.array([0, 0, 1, 1])


def test_stages_of_an_evaluation() -> None:
    """Each stage is judged on the rows that reach it, and on those it accepts; ties go to the first label."""
    first, second = calibrate(*evaluation())
    assert (first.stage, second.stage) == (1, 2)
    assert (first.reached.rows, first.accepted.rows) == (4, 2)
    assert (second.reached.rows, second.accepted.rows) == (2, 1)
    assert (first.accepted.right, second.accepted.right, first.reached.right, second.reached.right) == (1, 1, 1, 1)
    assert first.accepted.confidence == pytest.approx(0.85)
