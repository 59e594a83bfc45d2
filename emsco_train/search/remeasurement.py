"""A front that was found on a sample of the rows, measured on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from emsco_train.search.genetic.pareto import non_dominated, representatives, violations
from emsco_train.search.searches import Outcome
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

__all__ = ["remeasure_front"]


def remeasure_front(outcome: Outcome, bench: Workbench, settings: Settings, threshold: int = 0) -> Outcome:
    """Fit and measure the designs of a front on all rows; keep those that are feasible and that no other dominates.

    Parameters
    ----------
    outcome
        What a search on a sample found.
    bench
        A workbench of the whole problem.
    settings
        Of the search: its constraints count.
    threshold
        Which of the bench's thresholds the search was at.
    """
    population = np.array([design.chromosome for design in outcome.front], dtype=np.int8)
    if not len(population):
        return outcome
    population = population[np.lexsort(population.T[::-1])]
    before = bench.bits.fits
    objectives = bench.evaluator(threshold)(population)
    kept = np.flatnonzero(violations(objectives, settings.constraints) == 0)
    kept = kept[non_dominated(objectives.take(kept))] if len(kept) else kept
    # How many designs of the whole search are tied on all rows is not known; among these, it is.
    kept_rows, ties = representatives(population, objectives, kept) if len(kept) else (kept, kept)
    front = bench.front(bench.designs(population[kept_rows], ties.tolist(), threshold))
    return replace(outcome, front=front, fits=outcome.fits + bench.bits.fits - before)
