"""Rows so near a threshold or a tie that the last bits of a probability decide: the one place where training settles them.

Training's own arithmetic (compiled, or numpy) and onnxruntime's differ in the last bits, and where features have few values,
whole groups of rows have exactly the same probability. The reference is the graph's score of a single row, as in production:
search, figures, verification and export all use it for the rows that are near, so they all accept the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from emsco_runtime.bundle.rule import accept, accept_rows
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.models.logistic.regression import TopLabels

__all__ = ["TOLERANCE", "ScoredSet", "ThresholdLevels", "settle_rows", "settle_top_labels"]

# Float64 scores of one logistic model differ by some 1e-15 between implementations.
TOLERANCE = 1e-9
_BLOCK_SCORES = 2**17


class ScoredSet(Protocol):
    """The fitted model of a feature set."""

    @property
    def positions(self) -> list[int]:
        """Positions of its features among all columns."""

    def probabilities(self, codes: Floats) -> Floats:
        """Return probabilities [rows, labels] of rows of its own features, by training's arithmetic."""

    def reference_scores(self, codes: Floats) -> Floats:
        """Return the same by the graph, each row alone."""


class ThresholdLevels:
    """The confidence that each label needs, as it is compared with many top labels.

    Examples
    --------
    >>> label = np.array([0, 1])
    >>> ThresholdLevels([0.9, 0.9]).required_confidence(label), ThresholdLevels([0.9, 0.8]).required_confidence(label)
    (0.9, array([0.9, 0.8]))
    """

    def __init__(self, thresholds: Sequence[float]) -> None:
        self.lowest = float(min(thresholds))
        self._each = np.asarray(thresholds, dtype=np.float64)
        self._is_one = len(set(thresholds)) == 1

    def required_confidence(self, label: Ints) -> Floats | float:
        """Return the confidence that each of the top labels needs; one number where all need the same."""
        # Looking a number up for every row takes longer than all the rest of a comparison.
        return self.lowest if self._is_one else np.asarray(self._each.take(label))


def settle_rows(matrix: Floats, thresholds: Sequence[float], reference: Callable[[Ints], Floats]) -> tuple[Ints, Mask]:
    """Return the top label of each row of probabilities [rows, labels], and whether it is accepted.

    `reference` returns the single-row scores of some of the rows, given by position.
    """
    label, _, confident, near = accept_rows(matrix, thresholds, within=TOLERANCE)
    rows = np.flatnonzero(near)
    if len(rows):
        for row, scores in zip(rows.tolist(), reference(rows).tolist(), strict=True):
            label[row], confident[row] = accept(scores, thresholds)
    return label, confident


def settle_top_labels(
    top: TopLabels, levels: Sequence[ThresholdLevels], codes: Floats, fitted: Callable[[int], ScoredSet]
) -> None:
    """Replace every score that is near one of several thresholds, or near a tie, by the reference score.

    Afterwards comparing a score with any of the thresholds gives the result of the reference. `top` is changed in place; `codes`
    are the rows [rows, features]; `fitted` returns the fitted model of one of the sets, given by position.
    """
    near, tied = _near_thresholds(top, levels), _maybe_tied(top, levels)
    borderline_masks = [mask for mask in (near, tied) if mask is not None]
    if not borderline_masks:
        return
    for index in np.flatnonzero(np.logical_or.reduce(borderline_masks).any(axis=1)).tolist():
        stage = fitted(index)
        part = codes[:, stage.positions]
        is_borderline = np.zeros(len(codes), dtype=np.bool_) if near is None else near[index]
        if tied is not None:
            tied_rows = np.flatnonzero(tied[index])
            is_borderline[tied_rows] |= _is_tied(stage.probabilities(part[tied_rows]))
        rows = np.flatnonzero(is_borderline)
        if len(rows):
            scores = stage.reference_scores(part[rows])
            top.label[index, rows] = scores.argmax(axis=1)
            top.confidence[index, rows] = scores.max(axis=1)


def _near_thresholds(top: TopLabels, levels: Sequence[ThresholdLevels]) -> Mask | None:
    """Tell which scores are near a threshold; None if none is."""
    near: Mask | None = None
    # In parts that stay in the processor's cache for all levels.
    step = max(1, _BLOCK_SCORES // top.confidence.shape[1])
    for start in range(0, len(top.confidence), step):
        part = slice(start, start + step)
        label, confidence = top.label[part], top.confidence[part]
        for level in levels:
            distance = confidence - level.required_confidence(label)
            np.abs(distance, out=distance)
            # On most tables no score ever is, and the least distance is found quickly.
            if distance.min() <= TOLERANCE:
                near = np.zeros(top.confidence.shape, dtype=np.bool_) if near is None else near
                near[part] |= distance <= TOLERANCE
    return near


def _maybe_tied(top: TopLabels, levels: Sequence[ThresholdLevels]) -> Mask | None:
    """Tell which top labels may be tied and yet accepted; None if none can be."""
    lowest = min(level.lowest for level in levels) - TOLERANCE
    # Two labels are tied at one half or below, or not at all.
    if lowest > 0.5 + TOLERANCE:
        return None
    return np.asarray((top.confidence >= lowest) & (top.confidence <= 0.5 + TOLERANCE))


def _is_tied(matrix: Floats) -> Mask:
    """Tell for each row whether its second probability is as high as the first, within the last bits."""
    highest = np.partition(matrix, -2, axis=1)
    return np.asarray(highest[:, -1] - highest[:, -2] <= TOLERANCE)
