"""How far a stage's confidence can be trusted: reliability bins, calibration error, and a warning where it misleads.

A confidence is honest if, of the rows with confidence 0.9, nine in ten are right. Bins hold equal numbers of rows, not equal
widths: top confidences crowd near 1, where the thresholds are, so that bins of equal width would put most rows into one and leave
the others to chance. Rows of one confidence are never parted, so a bin may hold more rows than another, and there may be fewer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.errors import DataError
from emsco_train.guarantee.bounds import is_cdf_below
from emsco_train.models.evaluation import Evaluation

__all__ = [
    "Reliability",
    "ReliabilityBin",
    "StageCalibration",
    "StageScores",
    "calibrate",
    "calibrate_stage",
    "calibrate_stages",
]

BINS = 10
# Of a hundred designs whose confidences are honest at every stage, at most one gets a warning.
_FALSE_ALARM_RATE = 0.01


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Rows of similar confidence.

    Parameters
    ----------
    lowest, highest
        The least and the greatest confidence in it.
    rows
        How many rows it holds.
    right
        How many of them have the right label on top.
    confidence
        Their mean confidence: what the share of right ones should be.
    """

    lowest: float
    highest: float
    rows: int
    right: int
    confidence: float

    @property
    def gap(self) -> float:
        """How far the share of right rows is from the mean confidence."""
        return abs(self.right / self.rows - self.confidence)


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence against what came true, over some rows.

    Parameters
    ----------
    rows
        How many rows.
    right
        How many of them have the right label on top.
    confidence
        Mean confidence; None without rows.
    error
        Expected calibration error: the mean gap between confidence and share of right rows, over the bins, weighted by rows;
        None without rows. Chance alone makes it about 0.3 / sqrt(rows per bin) at 80 % right.
    bins
        By rising confidence, up to 10.
    """

    rows: int
    right: int
    confidence: float | None
    error: float | None
    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def of(cls, confidence: Floats, right: Mask) -> Reliability:
        """Compare confidences with what came true.

        Parameters
        ----------
        confidence
            Top probability of each row.
        right
            Which rows have the right label on top.

        Examples
        --------
        >>> honest = Reliability.of(np.array([0.5, 0.5, 0.9, 1.0]), np.array([True, False, True, True]))
        >>> len(honest.bins), honest.bins[0].gap, round(honest.error, 3)
        (3, 0.0, 0.025)
        """
        rows = len(confidence)
        if not rows:
            return cls(0, 0, None, None, ())
        bins = _bins(confidence, right)
        error = math.fsum(part.rows * part.gap for part in bins) / rows
        return cls(rows, int(right.sum()), _mean(confidence.tolist(), bins[0].lowest, bins[-1].highest), error, bins)


@dataclass(frozen=True, slots=True)
class StageCalibration:
    """How honest one stage's confidence is, on rows that training did not see.

    Parameters
    ----------
    stage
        Its number, counted from 1.
    all_rows
        Over all rows, whether they get there or not.
    reached
        Over the rows that reach the stage: those that production asks it about.
    accepted
        Over the rows that it accepts: those whose confidence is acted on.
    warning
        One sentence where the accepted rows are right less often than their confidence says, by more than chance allows.
    """

    stage: int
    all_rows: Reliability
    reached: Reliability
    accepted: Reliability
    warning: str | None

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class StageScores:
    """What a stage says of held-out rows, whatever design it is part of.

    Parameters
    ----------
    confidence
        Top probability of each row.
    right
        Which rows have the right label on top.
    all_rows
        The one against the other.
    """

    confidence: Floats
    right: Mask
    all_rows: Reliability

    @classmethod
    def of(cls, probabilities: Floats, target: Ints) -> StageScores:
        """Return the scores of a matrix of probabilities [rows, labels], given the positions of the true labels."""
        confidence, right = probabilities.max(axis=1), np.asarray(probabilities.argmax(axis=1) == target)
        return cls(confidence, right, Reliability.of(confidence, right))


def calibrate(evaluation: Evaluation, target: Ints) -> tuple[StageCalibration, ...]:
    """Return the calibration of every stage of a design.

    Parameters
    ----------
    evaluation
        What the design does with some held-out rows.
    target
        Position of each row's true label; -1 for one that training never saw.
    """
    return calibrate_stages([StageScores.of(matrix, target) for matrix in evaluation.probabilities], evaluation)


def calibrate_stages(stages: Sequence[StageScores], evaluation: Evaluation) -> tuple[StageCalibration, ...]:
    """Return the calibration of every stage of a design whose stages are scored already.

    Parameters
    ----------
    stages
        What each stage says of the rows.
    evaluation
        What the design does with them.
    """
    level = _FALSE_ALARM_RATE / len(stages)
    accepted = evaluation.accepted
    return tuple(
        _calibrate(number, scores, evaluation.stage >= number, accepted & (evaluation.stage == number), level)
        for number, scores in enumerate(stages, start=1)
    )


def calibrate_stage(
    stage: int, *, confidence: Floats, right: Mask, reached: Mask, accepted: Mask, level: float = _FALSE_ALARM_RATE
) -> StageCalibration:
    """Return the calibration of one stage.

    The warning rests on an exact binomial test with the mean confidence for the share of right rows. Rows of different
    confidence vary less than that supposes (Hoeffding, 1956), so the test errs on the quiet side, and few rows do not cry wolf.

    Parameters
    ----------
    stage
        Its number, counted from 1.
    confidence
        Top probability of each row at this stage.
    right
        Which rows have the right label on top there.
    reached, accepted
        Which rows get to the stage, and which of them it accepts.
    level
        How often honest confidences may be warned of, at most.

    Examples
    --------
    >>> everyone = np.ones(200, dtype=bool)
    >>> made = calibrate_stage(
    ...     1, confidence=np.full(200, 0.95), right=np.arange(200) < 160, reached=everyone, accepted=everyone
    ... )
    >>> round(made.accepted.error, 3)
    0.15
    >>> print(made.warning)
    stage 1: confidence misleads: 80.00 % of the 200 accepted rows are right, their mean confidence is 95.00 %
    """
    lengths = {len(confidence), len(right), len(reached), len(accepted)}
    if len(lengths) > 1 or not len(confidence) or bool((accepted & ~reached).any()):
        detail = f"{len(confidence)} confidences, {len(right)} outcomes, {len(reached)} and {len(accepted)} marks"
        raise DataError(f"stage {stage}: {detail}: one each for at least 1 row is due, and only rows that got there are accepted")
    scores = StageScores(confidence, right, Reliability.of(confidence, right))
    return _calibrate(stage, scores, reached, accepted, level)


def _calibrate(stage: int, scores: StageScores, reached: Mask, accepted: Mask, level: float) -> StageCalibration:
    over_accepted = Reliability.of(scores.confidence[accepted], scores.right[accepted])
    return StageCalibration(
        stage=stage,
        all_rows=scores.all_rows,
        # All rows reach the first stage.
        reached=scores.all_rows if reached.all() else Reliability.of(scores.confidence[reached], scores.right[reached]),
        accepted=over_accepted,
        warning=_warning(stage, over_accepted, level),
    )


def _warning(stage: int, accepted: Reliability, level: float) -> str | None:
    # The last bit of a probability may lie above 1.
    if accepted.confidence is None or not is_cdf_below(accepted.right, accepted.rows, min(accepted.confidence, 1.0), level):
        return None
    share = f"{percent(accepted.right, accepted.rows)} of the {pluralize(accepted.rows, 'accepted row')} are right"
    return f"stage {stage}: confidence misleads: {share}, their mean confidence is {100 * accepted.confidence:.2f} %"


def _bins(confidence: Floats, right: Mask) -> tuple[ReliabilityBin, ...]:
    order = np.argsort(confidence, kind="stable")
    ranked = confidence[order]
    # A bin that would begin inside a run of equal confidences begins at the start of that run.
    starts = np.unique(np.searchsorted(ranked, ranked[np.arange(BINS) * len(ranked) // BINS], side="left"))
    hits = np.add.reduceat(right[order], starts, dtype=np.int64).tolist()
    values, edges = ranked.tolist(), [*starts.tolist(), len(ranked)]
    return tuple(
        ReliabilityBin(
            values[start], values[stop - 1], stop - start, count, _mean(values[start:stop], values[start], values[stop - 1])
        )
        for start, stop, count in zip(edges[:-1], edges[1:], hits, strict=True)
    )


def _mean(values: Sequence[float], lowest: float, highest: float) -> float:
    # Rounding can put the mean of equal numbers a hair outside them.
    return min(max(math.fsum(values) / len(values), lowest), highest)
