"""How far a stage's confidence can be trusted: reliability bins, calibration error, and a warning where it misleads.

A stage is calibrated if, of the rows with confidence 0.9, nine in ten are right. Bins hold equal numbers of rows, not equal
widths: top confidences crowd near 1, where the thresholds are, so that bins of equal width would put most rows into one and leave
the others to chance. Rows of the same confidence share a bin, so a bin may hold more rows than another, and there may be fewer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.models.evaluation import Evaluation
from emsco_train.support.binomial import is_cdf_below

__all__ = [
    "RankedScores",
    "Reliability",
    "ReliabilityBin",
    "StageCalibration",
    "add_warning",
    "calibrate",
    "calibrate_ranked",
]

BINS = 10
# Of a hundred designs that are calibrated at every stage, at most one gets a warning.
_FALSE_ALARM_RATE = 0.01


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Rows of similar confidence: its range, how many rows, how many are right, and the mean confidence, which that should be."""

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
    """Confidence compared with the share of right rows, over some rows; without rows, confidence and error are None.

    `error` is the expected calibration error: the mean gap between confidence and share of right rows, over the bins, weighted by
    rows. Chance alone makes it about 0.3 / sqrt(rows per bin) at 80 % right.
    """

    rows: int
    right: int
    confidence: float | None
    error: float | None
    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def of_ranked(cls, confidence: Floats, right: Mask) -> Reliability:
        """Compare the top probabilities of rows, in ascending order, with whether their labels are right.

        Examples
        --------
        >>> calibrated = Reliability.of_ranked(np.array([0.5, 0.5, 0.9, 1.0]), np.array([True, False, True, True]))
        >>> len(calibrated.bins), calibrated.bins[0].gap, round(calibrated.error, 3)
        (3, 0.0, 0.025)
        """
        rows = len(confidence)
        if not rows:
            return cls(0, 0, None, None, ())
        bins = _bins(confidence, right)
        error = math.fsum(part.rows * part.gap for part in bins) / rows
        mean = math.fsum(part.rows * part.confidence for part in bins) / rows
        return cls(rows, int(right.sum()), _between(mean, bins[0].lowest, bins[-1].highest), error, bins)


@dataclass(frozen=True, slots=True)
class StageCalibration:
    """How well one stage, counted from 1, is calibrated on rows that training did not see.

    Over the rows that reach the stage, and over those that it accepts: their confidence is acted on. The warning is one sentence
    where the accepted rows are right less often than their confidence says, by more than chance allows.
    """

    stage: int
    reached: Reliability
    accepted: Reliability
    warning: str | None


@dataclass(frozen=True, slots=True, eq=False)
class RankedScores:
    """Top probability of held-out rows at a stage, whatever design it is part of, in ascending order, and who is right.

    `order` has the position of each; all designs that have the stage share one sort.
    """

    order: Ints
    confidence: Floats
    right: Mask
    all_rows: Reliability

    @classmethod
    def of(cls, confidence: Floats, right: Mask) -> RankedScores:
        """Rank the top probabilities of rows, given whether their labels are right."""
        order = np.argsort(confidence)
        ranked = confidence.take(order), right.take(order)
        return cls(order, *ranked, Reliability.of_ranked(*ranked))

    @classmethod
    def of_matrix(cls, probabilities: Floats, target: Ints) -> RankedScores:
        """Do the same for a matrix of probabilities [rows, labels], given the positions of the true labels."""
        return cls.of(probabilities.max(axis=1), np.asarray(probabilities.argmax(axis=1) == target))

    def reliability(self, chosen: Mask) -> Reliability:
        """Return the reliability over some of the rows, given by a mask in the order of the ranks."""
        # Positions first: looking rows up by a mask costs several times more.
        rows = np.flatnonzero(chosen)
        if len(rows) == len(chosen):
            return self.all_rows
        return Reliability.of_ranked(self.confidence.take(rows), self.right.take(rows))


def calibrate(evaluation: Evaluation, target: Ints) -> tuple[StageCalibration, ...]:
    """Return the calibration of every stage of a design; `target` holds the position of each row's true label, -1 if unknown."""
    accepted, stages = evaluation.accepted, len(evaluation.probabilities)
    return tuple(
        add_warning(
            calibrate_ranked(
                number,
                scores := RankedScores.of_matrix(matrix, target),
                reached=(evaluation.stage >= number).take(scores.order),
                accepted=(accepted & (evaluation.stage == number)).take(scores.order),
            ),
            stages,
        )
        for number, matrix in enumerate(evaluation.probabilities, start=1)
    )


def calibrate_ranked(number: int, scores: RankedScores, *, reached: Mask, accepted: Mask) -> StageCalibration:
    """Return the calibration of one stage, without a warning; the masks are in the order of the ranks."""
    return StageCalibration(number, scores.reliability(reached), scores.reliability(accepted), None)


def add_warning(calibration: StageCalibration, stages: int) -> StageCalibration:
    """Return the calibration of a stage with the warning that it gets in a design of `stages` stages, if any.

    The warning uses an exact binomial test with the mean confidence as the share of right rows. Rows of different confidence vary
    less than that assumes (Hoeffding, 1956), so the test is conservative.

    Examples
    --------
    >>> scores, every = RankedScores.of(np.full(200, 0.95), np.arange(200) < 160), np.ones(200, dtype=bool)
    >>> print(add_warning(calibrate_ranked(1, scores, reached=every, accepted=every), stages=1).warning)
    stage 1: confidence misleads: 80.00 % of the 200 accepted rows are right, their mean confidence is 95.00 %
    """
    return replace(calibration, warning=_warning(calibration.stage, calibration.accepted, _FALSE_ALARM_RATE / stages))


def _warning(stage: int, accepted: Reliability, level: float) -> str | None:
    # The last bit of a probability may lie above 1.
    if accepted.confidence is None or not is_cdf_below(accepted.right, accepted.rows, min(accepted.confidence, 1.0), level):
        return None
    share = f"{percent(accepted.right, accepted.rows)} of the {pluralize(accepted.rows, 'accepted row')} are right"
    return f"stage {stage}: confidence misleads: {share}, their mean confidence is {100 * accepted.confidence:.2f} %"


def _bins(ranked: Floats, right: Mask) -> tuple[ReliabilityBin, ...]:
    # A bin that would start inside a run of equal confidences starts at the beginning of that run.
    starts = np.unique(np.searchsorted(ranked, ranked[np.arange(BINS) * len(ranked) // BINS], side="left"))
    hits = np.add.reduceat(right, starts, dtype=np.int64).tolist()
    stops = np.append(starts[1:], len(ranked))
    lowest, highest = ranked[starts].tolist(), ranked[stops - 1].tolist()
    means = [
        _between(float(ranked[start:stop].mean()), low, high)
        for start, stop, low, high in zip(starts, stops, lowest, highest, strict=True)
    ]
    return tuple(map(ReliabilityBin, lowest, highest, (stops - starts).tolist(), hits, means))


def _between(mean: float, lowest: float, highest: float) -> float:
    # Rounding can put the mean of equal numbers slightly outside them.
    return min(max(mean, lowest), highest)
