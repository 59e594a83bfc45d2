"""`Workbench`: what all searches of a problem in this process share: fitted sets as well as all that a `DesignBench` has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.data.label_counts import count_positions
from emsco_train.data.problem import Problem
from emsco_train.data.row_units import row_units
from emsco_train.data.stage_settings import StageSettings
from emsco_train.data.thresholds import StageThresholds, Threshold, resolve_thresholds
from emsco_train.designs.counts import Counts
from emsco_train.designs.effective_size import measure_label_sizes, measure_precision
from emsco_train.designs.precision import Precision
from emsco_train.models.fitted_set import ProblemFitters, SetStages
from emsco_train.models.stage_model import StageFitter
from emsco_train.search.compilation import compile_search
from emsco_train.search.design_bench import DesignBench
from emsco_train.search.greedy import GreedyPaths
from emsco_train.search.scoring.bit_cache import MIN_SETS, BitCache
from emsco_train.search.scoring.evaluator import CachedEvaluator
from emsco_train.search.scoring.set_scorer import set_scorer
from emsco_train.search.settings import Objective

__all__ = ["Workbench"]


class Workbench(DesignBench):
    """The searches of one problem, at one threshold or at several that share all fits.

    Parameters
    ----------
    problem
        The problem.
    thresholds
        Thresholds of a sweep, some of them perhaps others for early stages; None for the problem's own alone.
    jobs
        Threads for the fits; results do not depend on their number.
    max_bytes
        Most memory for the cache of feature sets.
    min_sets
        Feature sets that there is room for from the start; more than `max_bytes` hold are refused.
    fitters
        Those of the problem, to share its fits; None: its own.
    """

    def __init__(
        self,
        problem: Problem,
        thresholds: Sequence[Threshold | StageThresholds] | None = None,
        *,
        jobs: int = 1,
        max_bytes: int = 2**30,
        min_sets: int = MIN_SETS,
        fitters: ProblemFitters | None = None,
    ) -> None:
        if problem.settings.is_logistic:
            compile_search()
        fitters = fitters or ProblemFitters(problem)
        # How much the rows that designs are counted on count, and as whole units; None: all the same.
        self.weights, self.row_units = problem.validation.weights, problem.validation.units
        items = len(problem.validation)
        super().__init__(
            problem,
            (StageThresholds.constant(problem.thresholds),)
            if thresholds is None
            else tuple(_stage_thresholds(threshold, problem) for threshold in thresholds),
            items=items,
            rows=items if self.row_units is None else int(self.row_units.sum()),
            label_rows=count_positions(problem.validation.target, len(problem.labels), self.row_units),
            stop=fitters.stop,
            jobs=jobs,
        )
        self.fitters = fitters
        # Each once, those of last stages first.
        self._levels = list(dict.fromkeys([one.last for one in self.thresholds] + [one.early for one in self.thresholds]))
        self.bits = BitCache(
            set_scorer(problem, self._levels, jobs, fitters),
            problem.validation.target,
            self._levels,
            max_bytes=max_bytes,
            min_sets=min_sets,
        )
        # Of these rows; None: they are independent.
        self.groups = problem.validation.groups

    @property
    def fits(self) -> int:
        """Feature sets fitted so far."""
        return self.bits.fits

    def fit_sets(self, sets: Mask) -> None:
        """Fit feature sets [sets, features] that were not fitted before."""
        self.bits.locate(sets)

    def greedy_paths(self) -> GreedyPaths:
        """Return the greedy paths of the rows that fit the problem's first part."""
        return GreedyPaths.of(self.problem, self.units, self.stage_fitter())

    def evaluator(self, threshold: int = 0, objective: Objective = "plain") -> CachedEvaluator:
        """Return the evaluator of designs at one of the thresholds."""
        balanced = None if objective == "plain" else self.balanced_units
        early = self._levels.index(self.thresholds[threshold].early)
        return CachedEvaluator(self.bits, self.units, self.bits_of(threshold), self.row_units, balanced, early)

    def bits_of(self, threshold: int) -> int:
        """Return under which threshold of the bits the last stages are, at one of the thresholds."""
        return self._levels.index(self.thresholds[threshold].last)

    @cached_property
    def balanced_units(self) -> Ints:
        """How much each row counts where all labels count the same, in whole units: its share of the rows of its label."""
        validation = self.problem.validation
        weights = np.ones(len(validation)) if self.weights is None else self.weights
        sums = np.bincount(validation.target, weights, minlength=len(self.problem.labels))[validation.target]
        shares = np.divide(weights, sums, out=np.zeros(len(weights)), where=sums > 0)
        return row_units(shares, validation.name)

    def counted_rows(self) -> int | None:
        """Return how much the validation rows count, where that is not their number."""
        return None if self.row_units is None else self.rows

    def precision(
        self,
        chromosome: NDArray[np.int8],
        counts: Counts,
        leaving: Sequence[int],
        set_costs: Sequence[float],
        threshold: int,
        *,
        label_sizes: bool,
    ) -> Precision:
        """Return how much the figures of a design say: less, where rows come in groups or have weights."""
        if self.groups is None and self.weights is None:
            return super().precision(chromosome, counts, leaving, set_costs, threshold, label_sizes=label_sizes)
        target = self.problem.validation.target
        exit_stage, answer = self.evaluator(threshold).row_exits(chromosome, target)
        # A rejected row, at stage -1, has paid for the last stage.
        row_costs = np.array(set_costs)[exit_stage]
        precision = measure_precision(exit_stage >= 0, answer == target, row_costs, self.groups, self.weights)
        if not label_sizes:
            return precision
        sizes = measure_label_sizes(answer, target, len(self.problem.labels), self.groups, self.weights)
        return replace(precision, labels=sizes)

    def stage_fitter(self) -> SetStages:
        """Return a fitter of logistic regressions on the rows that fit the problem's first part, whatever is searched."""
        own = self.fitters.parts[0].stages
        if own.is_logistic:
            return own
        rows, labels = self.problem.parts[0], len(self.problem.labels)
        groups = rows.fitted.encoder.one_hot_groups
        return StageFitter(rows.fitted.encoded, rows.fitted.target, labels, rows.weights, StageSettings(), groups)


def _stage_thresholds(threshold: Threshold | StageThresholds, problem: Problem) -> StageThresholds:
    if isinstance(threshold, StageThresholds):
        return threshold
    return StageThresholds.constant(resolve_thresholds(threshold, problem.labels))
