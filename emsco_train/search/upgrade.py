"""The upgrade of a front: its designs fitted again with stages that are slow to search with, and the best of both."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from emsco_train.search.genetic.pareto import non_dominated, spread_over_front, violations
from emsco_train.search.pace import BatchedEvaluator, EvaluationInterrupted, OnStep, Step, TimeLimit
from emsco_train.search.searches import Outcome
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

__all__ = ["upgrade_front"]

# Designs that are fitted again, spread over the front: neighbours on it have much the same stages.
_MAX_DESIGNS = 30


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
    """Return the outcome with the designs of its front and the same ones with other stages, without those that others dominate.

    Both workbenches are of the same rows, prices and thresholds; the second has the stages to upgrade to. When the seconds are
    over, or at Ctrl-C, the designs that are fitted by then count, and the outcome says why it ended.
    """
    if not len(outcome.front):
        return outcome
    population = np.array([design.chromosome for design in outcome.front], dtype=np.int8)
    before = searched.evaluator(threshold, settings.objective)(population)
    chosen = population[np.sort(spread_over_front(before, _MAX_DESIGNS))]
    limit, fits = TimeLimit.of(seconds), upgraded.bits.fits
    deadline = None if seconds is None else time.monotonic() + seconds
    evaluate = BatchedEvaluator(upgraded.evaluator(threshold, settings.objective), deadline)

    def report(done: int) -> None:
        if on_step is not None:
            on_step(Step("upgrade", done, len(chosen), len(outcome.front)))

    stopped = outcome.stopped
    try:
        with upgraded.stop.set_after(limit.fit_seconds()):
            after = evaluate(chosen, report)
    except EvaluationInterrupted as cut:
        stopped = cut.reason
        if cut.objectives is None:
            return replace(outcome, stopped=stopped)
        chosen, after = cut.population, cut.objectives
    both = before.join([after])
    feasible = np.flatnonzero(violations(both, settings.constraints) == 0)
    kept = feasible[non_dominated(both.take(feasible))].tolist()
    designs = [outcome.front[place] for place in kept if place < len(population)]
    added = chosen[[place - len(population) for place in kept if place >= len(population)]]
    front = searched.front([*designs, *upgraded.designs(added, [1] * len(added), threshold)])
    return replace(
        outcome,
        front=front,
        stopped=stopped,
        designs=outcome.designs + len(chosen),
        fits=outcome.fits + upgraded.bits.fits - fits,
    )
