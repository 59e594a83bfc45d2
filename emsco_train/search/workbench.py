"""`Workbench`: what all searches of one problem share: fitted sets, prices in units, and designs with their figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_runtime.support.arrays import Ints
from emsco_train.costs.units import CostUnits
from emsco_train.data.label_counts import count_positions
from emsco_train.data.problem import Problem
from emsco_train.data.row_units import row_units
from emsco_train.data.stage_settings import StageSettings
from emsco_train.data.thresholds import Threshold, resolve_thresholds
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import measure_label_sizes, measure_precision, standard_error
from emsco_train.designs.front import Front
from emsco_train.designs.precision import Precision
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.models.stage_model import StageFitter
from emsco_train.search.compilation import compile_search
from emsco_train.search.scoring.bit_cache import BitCache
from emsco_train.search.scoring.evaluator import CachedEvaluator, cumulative_sets
from emsco_train.search.scoring.set_scorer import set_scorer
from emsco_train.search.settings import Objective

__all__ = ["Workbench"]


class Workbench:
    """The searches of one problem, at one threshold or at several that share all fits.

    Parameters
    ----------
    problem
        The problem.
    thresholds
        Thresholds of a sweep; None for the problem's own alone.
    jobs
        Threads for the fits; results do not depend on their number.
    max_bytes
        Most memory for the cache of feature sets.
    fitters
        Those of the problem, to share its fits; None: its own.
    """

    def __init__(
        self,
        problem: Problem,
        thresholds: Sequence[Threshold] | None = None,
        *,
        jobs: int = 1,
        max_bytes: int = 2**30,
        fitters: ProblemFitters | None = None,
    ) -> None:
        if problem.settings.is_logistic:
            compile_search()
        self.problem = problem
        self.jobs = jobs
        made = fitters or ProblemFitters(problem)
        # Ends the fits under way.
        self.stop = made.stop
        self.thresholds = (
            (problem.thresholds,)
            if thresholds is None
            else tuple(resolve_thresholds(threshold, problem.labels) for threshold in thresholds)
        )
        # How much the rows that designs are counted on count, and as whole units; None: all the same.
        self.weights, self.row_units = problem.validation.weights, problem.validation.units
        self.rows = len(problem.validation) if self.row_units is None else int(self.row_units.sum())
        # By label, in the same units.
        self.label_rows = count_positions(problem.validation.target, len(problem.labels), self.row_units)
        self.units = CostUnits.of(problem.meter, problem.names, self.rows)
        self.fitters = made
        self.bits = BitCache(
            set_scorer(problem, self.thresholds, jobs, made),
            problem.validation.target,
            self.thresholds,
            max_bytes=max_bytes,
        )
        # Of these rows; None: they are independent.
        self.groups = problem.validation.groups

    def evaluator(self, threshold: int = 0, objective: Objective = "plain") -> CachedEvaluator:
        """Return the evaluator of designs at one of the thresholds."""
        balanced = None if objective == "plain" else self.balanced_units
        return CachedEvaluator(self.bits, self.units, threshold, self.row_units, balanced)

    @cached_property
    def balanced_units(self) -> Ints:
        """How much each row counts where all labels count the same, in whole units: its share of the rows of its label."""
        validation = self.problem.validation
        weights = np.ones(len(validation)) if self.weights is None else self.weights
        sums = np.bincount(validation.target, weights, minlength=len(self.problem.labels))[validation.target]
        shares = np.divide(weights, sums, out=np.zeros(len(weights)), where=sums > 0)
        return row_units(shares, validation.name)

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
        answers = evaluator.answers(population, self.problem.validation.target, len(self.problem.labels)).tolist()
        sets, valid = cumulative_sets(population)
        rows = self.rows
        result = []
        for index, (genes, tied) in enumerate(zip(population.tolist(), ties, strict=True)):
            set_costs = [self._set_cost(chosen) for chosen in sets[index][valid[index]]]
            leaving = exits.accepted[index, : len(set_costs)].tolist()
            accepted, right = sum(leaving), int(exits.right[index].sum())
            total = sum((count * Fraction(set_cost) for count, set_cost in zip(leaving, set_costs, strict=True)), Fraction(0))
            cost = float(total + (rows - accepted) * Fraction(set_costs[-1])) / rows
            counts = Counts(self.bits.items, accepted, right, cost, None if self.row_units is None else rows)
            if self.groups is None and self.weights is None:
                leaving[-1] += rows - accepted
                precision = Precision.of_counts(counts, standard_error(leaving, set_costs))
            else:
                target = self.problem.validation.target
                exit_stage, answer = evaluator.row_exits(population[index], target)
                # A rejected row, at stage -1, has paid for the last stage.
                row_costs = np.array(set_costs)[exit_stage]
                precision = measure_precision(exit_stage >= 0, answer == target, row_costs, self.groups, self.weights)
                if label_sizes:
                    sizes = measure_label_sizes(answer, target, len(self.problem.labels), self.groups, self.weights)
                    precision = replace(precision, labels=sizes)
            level = self.thresholds[threshold]
            labels = self._label_counts(answers[index])
            design = Design.from_counts(
                genes,
                self.problem.names,
                level,
                counts,
                ties=int(tied),
                precision=precision,
                labels=labels,
                upgrade=self.problem.upgrade,
            )
            result.append(design)
        return result

    def _label_counts(self, answers: list[list[int]]) -> tuple[LabelCounts, ...]:
        return tuple(
            LabelCounts(label=label, rows=rows, accepted=accepted, accepted_as=accepted_as, right=right)
            for label, rows, accepted, accepted_as, right in zip(self.problem.labels, self.label_rows, *answers, strict=True)
        )

    def stage_fitter(self) -> StageFitter:
        """Return a fitter of logistic regressions on the rows that fit the problem's first part, whatever is searched."""
        own = self.fitters.parts[0].stages
        if own.is_logistic:
            return own
        rows, labels = self.problem.parts[0], len(self.problem.labels)
        groups = rows.fitted.encoder.one_hot_groups
        return StageFitter(rows.fitted.encoded, rows.fitted.target, labels, rows.weights, StageSettings(), groups)

    def front(self, designs: Iterable[Design]) -> Front:
        """Return designs as a front of this problem."""
        return Front.of_problem(self.problem, designs)

    def _set_cost(self, chosen: NDArray[np.bool_]) -> float:
        return self.problem.meter.cost([name for name, taken in zip(self.problem.names, chosen, strict=True) if taken])
