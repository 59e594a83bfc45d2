"""Greedy paths: feature sets that grow by the acquisition that gains most for its price.

All acquisitions are ranked by the slope of the loss at the present model, which one matrix product gives for every column; only
the best few are fitted. So a step costs hardly more for a thousand columns than for ten. An acquisition is one feature, or all
features of a group: the first one of these pays for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.costs.units import CostUnits
from emsco_train.data.problem import Problem
from emsco_train.models.fitted_set import SetStages

__all__ = ["LEAST_COST", "LEAST_UNSURE", "GreedyPaths", "PathRule", "PathState", "PathSums", "is_unsure", "score_test"]

# Acquisitions that are fitted in each step.
_FITTED_PER_STEP = 4
# Features that cost nothing count as this share of the cost of all.
LEAST_COST = 1e-3
# Once fewer rows than this share are left, they are noise.
LEAST_UNSURE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class PathState:
    """Where a path is: at a set of features [features], none for the model without columns.

    With thresholds, one per label, the rows that count are those that the model of the set is not confident about, while these
    are more than a tenth: the few that are left later are noise.
    """

    present: Mask
    thresholds: Sequence[float] | None


class PathSums(Protocol):
    """Sums over the rows that fit models, wherever these are, of which greedy paths are made; several paths at a time."""

    def gains(self, states: Sequence[PathState]) -> list[Floats]:
        """Return, for each state, about how much the loss would fall with each column: the score test of the column."""

    def losses(self, states: Sequence[PathState], sets: Sequence[Mask]) -> list[Floats]:
        """Return, for each state, the loss of the present model, then those of its own sets [sets, features]."""


@dataclass(frozen=True, slots=True)
class PathRule:
    """How a path chooses: on which rows, as in `PathState`, and by the gain divided by the price to this power.

    With the power 0, it is a path whatever features cost.
    """

    thresholds: Sequence[float] | None
    price_power: float


class GreedyPaths:
    """Makes paths from sums over rows; `widths` are the numbers of columns of each feature."""

    def __init__(self, widths: Sequence[int], units: CostUnits, sums: PathSums) -> None:
        self._sums = sums
        self._widths = np.array(widths)
        self._feature = np.repeat(np.arange(len(widths)), widths)
        self._units = units
        several = units.members.T[units.members.sum(axis=0) > 1]
        self.acquisitions: Mask = np.unique(np.concatenate([np.eye(len(widths), dtype=np.bool_), several]), axis=0)
        self._least = LEAST_COST * float(units.cost(np.ones((1, len(widths)), dtype=np.bool_))[0])

    @classmethod
    def of(cls, problem: Problem, units: CostUnits, fitter: SetStages) -> GreedyPaths:
        """Return the paths of the rows that fit the first part of a problem; the fitter is one of logistic regressions."""
        return cls(problem.parts[0].fitted.encoder.widths, units, _LocalPathSums(problem, fitter))

    def walk(self, start: Mask, rules: Sequence[PathRule]) -> Iterator[Mask]:
        """Yield the sets of paths from a set of features (none, or the pinned ones) to that of all, side by side.

        With thresholds, what counts is the gain on the rows that the present model is not confident about: those that a next
        stage would see.
        """
        paths = [(rule, PathState(start, rule.thresholds)) for rule in rules if not start.all()]
        while paths:
            sets, prices = [], []
            for (rule, state), gains in zip(paths, self._gains([state for _, state in paths]), strict=True):
                more = self.acquisitions & ~state.present
                more = more[more.any(axis=1)]
                price = self._price(state.present, more) ** rule.price_power
                best = np.argsort(-(more @ gains) / price, kind="stable")[:_FITTED_PER_STEP]
                sets.append(state.present | more[best])
                prices.append(price[best])
            losses = self._sums.losses([state for _, state in paths], sets)
            steps = zip(sets, prices, losses, strict=True)
            chosen = [own[int(np.argmax((loss[0] - loss[1:]) / price))] for own, price, loss in steps]
            yield from chosen
            paths = [
                (rule, PathState(present, rule.thresholds))
                for (rule, _), present in zip(paths, chosen, strict=True)
                if not present.all()
            ]

    def rank_acquisitions(self) -> Mask:
        """Return all single acquisitions, the one that gains most for its price first."""
        none = np.zeros(self.acquisitions.shape[1], dtype=np.bool_)
        gains = self.acquisitions @ self._gains([PathState(none, None)])[0]
        return self.acquisitions[np.argsort(-gains / self._price(none, self.acquisitions), kind="stable")]

    def _price(self, present: Mask, more: Mask) -> Floats:
        extra = self._units.cost(present | more) - self._units.cost(present[None])
        return np.asarray(np.maximum(extra, self._least), dtype=np.float64)

    def _gains(self, states: Sequence[PathState]) -> list[Floats]:
        """Return about how much the loss would fall with each feature, less what chance gains."""
        n = len(self._widths)
        gains = [np.bincount(self._feature, gain, minlength=n) - self._widths for gain in self._sums.gains(states)]
        return [np.asarray(np.maximum(each, 1e-9), dtype=np.float64) for each in gains]


class _LocalPathSums:
    """The sums over rows in this process."""

    def __init__(self, problem: Problem, fitter: SetStages) -> None:
        part = problem.parts[0]
        self._columns = part.fitted.encoded
        self._squares = self._columns**2
        self._target = part.fitted.target
        self._weights = np.ones(len(self._target)) if part.weights is None else part.weights
        self._truth: Floats = np.eye(len(problem.labels))[self._target]
        self._fitter = fitter
        self._feature = part.fitted.encoder.column_owners

    def gains(self, states: Sequence[PathState]) -> list[Floats]:
        """Return the score test of each column."""
        return list(map(self._gain, states))

    def losses(self, states: Sequence[PathState], sets: Sequence[Mask]) -> list[Floats]:
        """Return the losses of the present model and of sets."""
        return list(map(self._loss, states, sets))

    def _gain(self, state: PathState) -> Floats:
        probabilities = self._probabilities(state.present)
        counted = self._counted(probabilities, state.thresholds)
        slope = self._columns.T @ ((self._truth - probabilities) * counted[:, None])
        curvature = self._squares.T @ (probabilities * (1.0 - probabilities) * counted[:, None])
        return score_test(slope, curvature)

    def _loss(self, state: PathState, sets: Mask) -> Floats:
        before = self._probabilities(state.present)
        counted = self._counted(before, state.thresholds)
        return np.array([_log_loss(each, self._target, counted) for each in (before, *self._fitted(sets))])

    def _counted(self, probabilities: Floats, thresholds: Sequence[float] | None) -> Floats:
        if thresholds is None:
            return self._weights
        unsure = is_unsure(probabilities, thresholds)
        return self._weights * unsure if unsure.mean() > LEAST_UNSURE else self._weights

    def _probabilities(self, present: Mask) -> Floats:
        if not present.any():
            return np.tile(self._weights @ self._truth / self._weights.sum(), (len(self._target), 1))
        return next(self._fitted(present[None]))

    def _fitted(self, sets: Mask) -> Iterator[Floats]:
        """Yield the probabilities of each of some sets [sets, features]."""
        batch = self._fitter.fit_batch(sets[:, self._feature], 1)
        for index in range(len(batch)):
            yield batch.model(index).probabilities(self._columns[:, batch.columns[index]])


def is_unsure(probabilities: Floats, thresholds: Sequence[float]) -> Mask:
    """Return which rows of probabilities [rows, labels] no label is confident about."""
    top = probabilities.argmax(axis=1)
    return np.asarray(probabilities.max(axis=1) < np.asarray(thresholds)[top])


def _log_loss(probabilities: Floats, target: Ints, counted: Floats) -> float:
    """Return the log loss of rows that count so much each."""
    right = probabilities[np.arange(len(target)), target]
    return float(-(np.log(np.maximum(right, 1e-300)) * counted).sum())


def score_test(slope: Floats, curvature: Floats) -> Floats:
    """Return about how much the loss falls with each column, given its slope and curvature [columns, labels]."""
    return np.asarray((slope**2 / (curvature + 1.0)).mean(axis=1))
