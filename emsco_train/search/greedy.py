"""Greedy paths: feature sets that grow by the acquisition that gains most for its price.

All acquisitions are ranked by the slope of the loss at the present model, which one matrix product gives for every column; only
the best few are fitted. So a step costs hardly more for a thousand columns than for ten. An acquisition is one feature, or all
features of a group: the first one of these pays for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.costs.units import CostUnits
from emsco_train.data.problem import Problem
from emsco_train.models.stage_model import StageFitter

__all__ = ["GreedyPaths"]

# Acquisitions that are fitted in each step.
_FITTED_PER_STEP = 4
# Features that cost nothing count as this share of the cost of all.
_LEAST_COST = 1e-3


class GreedyPaths:
    """Makes paths from the rows that fit the first part of a problem; the fitter is one of logistic regressions on these."""

    def __init__(self, problem: Problem, units: CostUnits, fitter: StageFitter) -> None:
        part = problem.parts[0]
        self._columns = part.fitted.encoded
        self._squares = self._columns**2
        self._target = part.fitted.target
        self._weights = np.ones(len(self._target)) if part.weights is None else part.weights
        self._truth: Floats = np.eye(len(problem.labels))[self._target]
        self._fitter = fitter
        widths = part.fitted.encoder.widths
        self._widths = np.array(widths)
        self._feature = np.repeat(np.arange(len(widths)), widths)
        self._units = units
        several = units.members.T[units.members.sum(axis=0) > 1]
        self.acquisitions: Mask = np.unique(np.concatenate([np.eye(len(widths), dtype=np.bool_), several]), axis=0)
        self._least = _LEAST_COST * float(units.cost(np.ones((1, len(widths)), dtype=np.bool_))[0])

    def path(self, start: Mask, thresholds: Sequence[float] | None, price_power: float) -> Iterator[Mask]:
        """Yield the sets of a path from a set of features (none, or the pinned ones) to that of all.

        With thresholds, one per label, what counts is the gain on the rows that the present model is not confident about: those
        that a next stage would see. The gain is divided by the price to the power given: 0 is a path whatever features cost.
        """
        present = start.copy()
        probabilities = self._probabilities(present[None])[0] if present.any() else self._shares()
        while not present.all():
            counted = self._weights
            if thresholds is not None:
                top = probabilities.argmax(axis=1)
                unsure = probabilities.max(axis=1) < np.asarray(thresholds)[top]
                # Once nearly all are accepted, the few that are left are noise.
                counted = counted * unsure if unsure.mean() > 0.1 else counted
            more = self.acquisitions & ~present
            more = more[more.any(axis=1)]
            price = self._price(present, more) ** price_power
            best = np.argsort(-(more @ self._gains(probabilities, counted)) / price, kind="stable")[:_FITTED_PER_STEP]
            fitted = self._probabilities(present | more[best])
            loss = np.array([self._loss(each, counted) for each in fitted])
            chosen = int(np.argmax((self._loss(probabilities, counted) - loss) / price[best]))
            present, probabilities = present | more[best[chosen]], fitted[chosen]
            yield present

    def rank_acquisitions(self) -> Mask:
        """Return all single acquisitions, the one that gains most for its price first."""
        gains = self.acquisitions @ self._gains(self._shares(), self._weights)
        none = np.zeros(self.acquisitions.shape[1], dtype=np.bool_)
        return self.acquisitions[np.argsort(-gains / self._price(none, self.acquisitions), kind="stable")]

    def _price(self, present: Mask, more: Mask) -> Floats:
        extra = self._units.cost(present | more) - self._units.cost(present[None])
        return np.asarray(np.maximum(extra, self._least), dtype=np.float64)

    def _gains(self, probabilities: Floats, counted: Floats) -> Floats:
        """Return about how much the loss would fall with each feature: the score test of its columns, less what chance gains."""
        slope = self._columns.T @ ((self._truth - probabilities) * counted[:, None])
        curvature = self._squares.T @ (probabilities * (1.0 - probabilities) * counted[:, None])
        gain = (slope**2 / (curvature + 1.0)).mean(axis=1)
        gains = np.bincount(self._feature, gain, minlength=len(self._widths)) - self._widths
        return np.asarray(np.maximum(gains, 1e-9), dtype=np.float64)

    def _shares(self) -> Floats:
        share = self._weights @ self._truth / self._weights.sum()
        return np.tile(share, (len(self._target), 1))

    def _probabilities(self, sets: Mask) -> list[Floats]:
        batch = self._fitter.fit_batch(sets[:, self._feature], 1)
        return [batch.model(index).probabilities(self._columns[:, batch.columns[index]]) for index in range(len(batch))]

    def _loss(self, probabilities: Floats, counted: Floats) -> float:
        right = probabilities[np.arange(len(self._target)), self._target]
        return float(-(np.log(np.maximum(right, 1e-300)) * counted).sum())
