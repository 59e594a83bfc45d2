"""The upgrade of a front: designs with stages that are slow to search with, and the best of both kinds.

A boosted model takes a hundred times as long to fit as a logistic one, so only some tens of feature sets are fitted: those of
designs spread over the front, and sets that grow by what is most important for its price in the model of all features, up to that
model. The recombination makes the designs of these sets. The growing sets matter: what a front has was chosen for another kind
of model, which may gain nothing from features that trees make use of.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from emsco_runtime.support.arrays import Mask
from emsco_train.designs.chromosome import DesignSpace, Population, unique_rows
from emsco_train.designs.genes import Genes
from emsco_train.models.importance import measure_importance
from emsco_train.search.genetic.pareto import non_dominated, spread_over_front, violations
from emsco_train.search.greedy import LEAST_COST
from emsco_train.search.pace import BatchedEvaluator, EvaluationInterrupted, OnStep, Step, TimeLimit
from emsco_train.search.recombination import distinct_sets, drop_idle_stages, recombine_sets
from emsco_train.search.scoring.evaluator import GeneEvaluator
from emsco_train.search.searches import Outcome
from emsco_train.search.settings import Objective, Settings
from emsco_train.search.workbench import Workbench
from emsco_train.support.stop_flag import FitStopped

__all__ = ["upgrade_front"]

# Designs of the front whose sets are fitted again: neighbours on it have much the same stages.
_MAX_DESIGNS = 10
# What the growing sets cost at most, as shares of the cost of all features.
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)


def upgrade_front(
    outcome: Outcome,
    searched: Workbench,
    upgraded: Workbench,
    settings: Settings,
    threshold: int = 0,
    *,
    seconds: float | None = None,
    on_step: OnStep | None = None,
) -> Outcome:
    """Return the outcome with the designs of its front and others with the upgraded stages, without those that others dominate.

    Both workbenches are of the same rows, prices and thresholds; the second has the stages to upgrade to. When the seconds are
    over, or at Ctrl-C, the sets that are fitted by then count, and the outcome says why it ended.
    """
    if not len(outcome.front):
        return outcome
    population = np.array([design.chromosome for design in outcome.front], dtype=np.int8)
    before = searched.evaluator(threshold, settings.objective)(population)
    spread = population[np.sort(spread_over_front(before, _MAX_DESIGNS))]
    limit, fits, genes = TimeLimit.of(seconds), upgraded.bits.fits, outcome.genes
    space = settings.for_genes(genes).space(genes.n)
    deadline = None if seconds is None else time.monotonic() + seconds
    stopped = outcome.stopped
    try:
        with upgraded.stop.set_after(limit.fit_seconds()):
            sets = _choose_sets(upgraded, genes, spread, space.pinned)
            _fit_sets(upgraded, genes, sets, threshold, deadline, on_step, len(outcome.front))
    except EvaluationInterrupted as cut:
        stopped, sets = cut.reason, sets[: len(cut.population)]
        if not len(sets):
            return replace(outcome, stopped=stopped)
    except (FitStopped, KeyboardInterrupt) as cut:
        return replace(outcome, stopped="interrupted" if isinstance(cut, KeyboardInterrupt) else "time")
    evaluator = GeneEvaluator(upgraded.evaluator(threshold), genes)
    made = genes.expand(_make_designs(evaluator, sets, spread, space, settings.objective, deadline))
    after = upgraded.evaluator(threshold, settings.objective)(made)
    both = before.join([after])
    feasible = np.flatnonzero(violations(both, settings.constraints) == 0)
    kept = feasible[non_dominated(both.take(feasible))]
    # With thousands of rows there are thousands of designs that hardly differ.
    kept = kept[np.sort(spread_over_front(both.take(kept), max(settings.population, len(population))))].tolist()
    designs = [outcome.front[place] for place in kept if place < len(population)]
    added = made[[place - len(population) for place in kept if place >= len(population)]]
    front = searched.front([*designs, *upgraded.designs(added, [1] * len(added), threshold)])
    return replace(
        outcome,
        front=front,
        stopped=stopped,
        designs=outcome.designs + len(made),
        fits=outcome.fits + upgraded.bits.fits - fits,
    )


def _choose_sets(upgraded: Workbench, genes: Genes, spread: Population, pinned: Sequence[int]) -> Mask:
    """Return the sets of genes to fit: that of all, the growing ones, and those of the designs; each once."""
    growing = _grow_sets(upgraded, genes)
    growing[:, list(pinned)] = True
    found = np.concatenate([growing[::-1], genes.cover_sets(distinct_sets(spread))])
    return found[np.sort(np.unique(found, axis=0, return_index=True)[1])]


def _grow_sets(upgraded: Workbench, genes: Genes) -> Mask:
    """Return sets of genes in the order of their importance for their price, as large as each share of the full cost allows."""
    problem = upgraded.problem
    part = problem.parts[0]
    full = upgraded.fitters.parts[0].fit(problem.names)
    importance = np.bincount(
        genes.of_feature, measure_importance(full, part.scored, np.random.default_rng(problem.settings.seed))
    )
    every = np.eye(genes.n, dtype=np.bool_)
    price = upgraded.units.cost(genes.expand_sets(every))
    full_cost = upgraded.units.cost(np.ones((1, len(problem.names)), dtype=np.bool_))[0]
    order = np.argsort(-importance / np.maximum(price, LEAST_COST * full_cost), kind="stable")
    # Row i has the first i + 1 of the order.
    growing = np.zeros((genes.n, genes.n), dtype=np.bool_)
    growing[:, order] = np.tri(genes.n, dtype=np.bool_)
    cost = upgraded.units.cost(genes.expand_sets(growing))
    sizes = np.searchsorted(cost, np.array(_SHARES) * full_cost, side="right")
    return np.asarray(growing[np.unique(np.maximum(sizes, 1)) - 1])


def _fit_sets(
    upgraded: Workbench,
    genes: Genes,
    sets: Mask,
    threshold: int,
    deadline: float | None,
    on_step: OnStep | None,
    front: int,
) -> None:
    """Fit sets, each as a design of one stage; raise `EvaluationInterrupted` with those that are done when time is over."""

    def report(done: int) -> None:
        if on_step is not None:
            on_step(Step("upgrade", done, len(sets), front))

    singles = np.where(genes.expand_sets(sets), 0, -1).astype(np.int8)
    BatchedEvaluator(upgraded.evaluator(threshold), deadline)(singles, report)


def _make_designs(
    evaluator: GeneEvaluator, sets: Mask, spread: Population, space: DesignSpace, objective: Objective, deadline: float | None
) -> Population:
    """Return designs [designs, genes] of sets that are fitted: the front of their chains, and those of the front itself."""
    known, keep_all = {row.tobytes() for row in sets}, not space.allow_exclusion
    same = [
        design
        for design in evaluator.genes.contract(spread)
        if all(one.tobytes() in known for one in distinct_sets(design[None]))
    ]
    designs = drop_idle_stages(np.array(same, dtype=np.int8).reshape(-1, space.n), evaluator, keep_all=keep_all)
    # Chains are made of counts of rows, not of labels that count the same.
    if objective == "plain":
        chains = recombine_sets(evaluator, sets, max_stages=space.max_stages, keep_all=keep_all, deadline=deadline)
        designs = np.concatenate([designs, chains])
    return designs[unique_rows(designs)]
