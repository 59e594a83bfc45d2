"""Rows so near a threshold or a tie that the last bits of a probability decide: the one place where training settles them.

Training's own arithmetic (compiled, or numpy) and onnxruntime's differ in the last bits, and where features have few values,
whole groups of rows lie at exactly one probability. The reference is the graph's score of a single row, as in production: search,
figures, verification and export all take it for the rows that are near, so they all accept the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from emsco_runtime._arrays import Floats, Ints, Mask
from emsco_runtime._rule import accept, accept_rows
from emsco_train.logistic.fits import TopLabels

__all__ = ["CLOSE", "ScoredSet", "needed", "settle_matrix", "settle_top_labels"]

# Float64 scores of one logistic model differ by some 1e-15, whoever computes them.
CLOSE = 1e-9


class ScoredSet(Protocol):
    """The fitted model of a feature set."""

    @property
    def positions(self) -> list[int]:
        """Positions of its features among all columns."""

    def probabilities(self, codes: Floats) -> Floats:
        """Return probabilities [rows, labels] of rows of its own features, by training's arithmetic."""

    def reference(self, codes: Floats) -> Floats:
        """Return the same by the graph, each row alone."""


def needed(thresholds: Floats, label: Ints) -> Floats | float:
    """Return the confidence that each top label needs."""
    # Looking up one number for every row takes longer than all the rest of a comparison.
    return float(thresholds[0]) if (thresholds == thresholds[0]).all() else np.asarray(thresholds.take(label))


def settle_matrix(matrix: Floats, thresholds: Sequence[float], reference: Callable[[Ints], Floats]) -> tuple[Ints, Mask]:
    """Return the top label of each row, and whether it is accepted.

    Parameters
    ----------
    matrix
        Probabilities [rows, labels], by training's arithmetic.
    thresholds
        Confidence that each label needs.
    reference
        Returns the single-row scores of some of the rows, given by position.
    """
    label, _, confident, near = accept_rows(matrix, thresholds, within=CLOSE)
    rows = np.flatnonzero(near)
    if len(rows):
        for row, scores in zip(rows.tolist(), reference(rows).tolist(), strict=True):
            label[row], confident[row] = accept(scores, thresholds)
    return label, confident


def settle_top_labels(top: TopLabels, thresholds: Sequence[Floats], codes: Floats, fitted: Callable[[int], ScoredSet]) -> None:
    """Put the reference score in the place of every score that is near one of several thresholds, or near a tie.

    Comparing what is there afterwards with any of the thresholds gives the answer of the reference.

    Parameters
    ----------
    top
        What the models of several feature sets say about rows; changed in place.
    thresholds
        For each threshold of a sweep, the confidence that each label needs.
    codes
        The rows [rows, features], all features in column order.
    fitted
        Returns the fitted model of one of the sets, given by position.
    """
    labels = len(thresholds[0])
    near = np.zeros(top.label.shape, dtype=np.bool_)
    for threshold in thresholds:
        near |= np.abs(top.confidence - needed(threshold, top.label)) <= CLOSE
    # Two labels can only be tied at 0.5 or below, and that matters where so little is enough to be accepted.
    least = min(float(threshold.min()) for threshold in thresholds) - CLOSE
    tied = (top.confidence >= least) & (top.confidence <= 0.5 + CLOSE) if least <= 0.5 + CLOSE else None
    doubtful = near if tied is None else near | tied
    for index in np.flatnonzero(doubtful.any(axis=1)).tolist():
        stage = fitted(index)
        part = codes[:, stage.positions]
        rows = np.flatnonzero(near[index])
        if tied is not None:
            maybe = np.flatnonzero(tied[index])
            # With two labels, half a probability is a tie already; with more, the second has to be looked at.
            close = maybe if labels == 2 else maybe[_is_tied(stage.probabilities(part[maybe]))]
            rows = np.union1d(rows, close)
        if len(rows):
            scores = stage.reference(part[rows])
            top.label[index, rows] = scores.argmax(axis=1)
            top.confidence[index, rows] = scores.max(axis=1)


def _is_tied(matrix: Floats) -> Mask:
    """Tell for each row whether its second probability is as high as the first, within the last bits."""
    highest = np.partition(matrix, -2, axis=1)
    return np.asarray(highest[:, -1] - highest[:, -2] <= CLOSE)
