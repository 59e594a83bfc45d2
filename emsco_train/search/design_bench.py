"""`DesignBench`: what a search works with: an evaluator, prices in units, and designs with their figures, wherever rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Mask
from emsco_train.costs.total import total_cost
from emsco_train.costs.units import CostUnits
from emsco_train.data.label_counts import join_label_counts
from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import standard_error
from emsco_train.designs.front import Front
from emsco_train.designs.precision import Precision
from emsco_train.search.greedy import GreedyPaths
from emsco_train.search.scoring.evaluator import DesignEvaluator, cumulative_sets
from emsco_train.search.settings import Objective
from emsco_train.support.stop_flag import StopFlag

__all__ = ["DesignBench"]


class DesignBench(ABC):
    """What the genetic search of a problem works with.

    Parameters
    ----------
    problem
        The problem.
    thresholds
        For each threshold of a sweep, the confidence that each label needs at each stage.
    items, rows
        The validation rows, and how much they count: the same, or their units.
    label_rows
        The same by label.
    stop
        Ends the fits under way.
    jobs
        Sets that are fitted at the same time.
    """

    def __init__(
        self,
        problem: Problem,
        thresholds: tuple[StageThresholds, ...],
        *,
        items: int,
        rows: int,
        label_rows: Sequence[int],
        stop: StopFlag,
        jobs: int = 1,
    ) -> None:
        self.problem = problem
        self.thresholds = thresholds
        self.items = items
        self.rows = rows
        self.label_rows = label_rows
        self.stop = stop
        self.jobs = jobs
        self.units = CostUnits.of(problem.meter, problem.names, rows)

    @property
    @abstractmethod
    def fits(self) -> int:
        """Feature sets fitted so far."""

    @abstractmethod
    def evaluator(self, threshold: int = 0, objective: Objective = "plain") -> DesignEvaluator:
        """Return the evaluator of designs at one of the thresholds."""

    @abstractmethod
    def fit_sets(self, sets: Mask) -> None:
        """Fit feature sets [sets, features] that were not fitted before."""

    @abstractmethod
    def greedy_paths(self) -> GreedyPaths:
        """Return the greedy paths of the rows that fit models."""

    def designs(
        self, population: NDArray[np.int8], ties: Iterable[int], threshold: int = 0, *, label_sizes: bool = True
    ) -> list[Design]:
        """Return designs with their figures on the validation rows, priced by the meter and rounded once.

        `label_sizes`: where rows have groups or weights, measure also how much they say about each label, which bounds take.
        """
        if not len(population):
            return []
        evaluator = self.evaluator(threshold)
        exits = evaluator.exits(population)
        answers = evaluator.answers(population, len(self.problem.labels)).tolist()
        all_costs = self._set_costs(population)
        rows = self.rows
        result = []
        for index, (genes, tied) in enumerate(zip(population.tolist(), ties, strict=True)):
            set_costs = all_costs[index]
            leaving = exits.accepted[index, : len(set_costs)].tolist()
            accepted, right = sum(leaving), int(exits.right[index].sum())
            # A rejected row has paid for the last stage.
            leaving[-1] += rows - accepted
            counts = Counts(self.items, accepted, right, total_cost(leaving, set_costs) / rows, self.counted_rows())
            design = Design.from_counts(
                genes,
                self.problem.names,
                self.thresholds[threshold],
                counts,
                ties=int(tied),
                precision=self.precision(population[index], counts, leaving, set_costs, threshold, label_sizes=label_sizes),
                labels=join_label_counts(self.problem.labels, self.label_rows, *answers[index]),
                upgrade=self.problem.upgrade,
            )
            result.append(design)
        return result

    def counted_rows(self) -> int | None:
        """Return how much the validation rows count, where that is not their number."""
        return None

    def precision(
        self,
        chromosome: NDArray[np.int8],  # noqa: ARG002 - for rows that are not independent, or have weights
        counts: Counts,
        leaving: Sequence[int],
        set_costs: Sequence[float],
        threshold: int,  # noqa: ARG002
        *,
        label_sizes: bool,  # noqa: ARG002
    ) -> Precision:
        """Return how much the figures of a design say, given how many rows leave at each stage, the rejected at the last."""
        return Precision.of_counts(counts, standard_error(leaving, set_costs))

    def front(self, designs: Iterable[Design]) -> Front:
        """Return designs as a front of this problem."""
        return Front.of_problem(self.problem, designs)

    def _set_costs(self, population: NDArray[np.int8]) -> list[list[float]]:
        """Return the cost of the cumulative set of each stage, design by design."""
        sets, valid = cumulative_sets(population)
        # Many designs have few sets between them.
        distinct, places = np.unique(sets[valid], axis=0, return_inverse=True)
        costs = np.array([self.problem.meter.cost(compress(self.problem.names, chosen)) for chosen in distinct])
        ends = np.cumsum(valid.sum(axis=1))[:-1]
        return [part.tolist() for part in np.split(costs[places.ravel()], ends)]
