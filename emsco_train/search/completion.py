"""Completed designs: the first stages of a design, and after them one stage of all other features.

The last stage decides as one stage of all features does: the two differ only in items that an earlier stage answers. The surer
that has to be, the fewer these are, and the more it costs; so thresholds before the last stage are tried by steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.chromosome import Population, compress, stage_counts, unique_rows
from emsco_train.designs.front import Front
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import make_workbenches, raise_early
from emsco_train.search.recombination import distinct_sets
from emsco_train.search.workbench import Workbench

__all__ = ["complete_designs", "completed_populations"]

# How much higher, in log-odds, thresholds before the last stage are tried. From 0.9: 0.937, 0.961, ..., 0.9997.
_EARLY_STEPS = tuple(step / 2 for step in range(1, 13))


def completed_populations(
    problem: Problem, front: Front, *, jobs: int = 1, fitters: ProblemFitters | None = None
) -> Iterator[tuple[Workbench, int, Population]]:
    """Yield the designs of a front, as they are and completed: a workbench, and the position of thresholds there.

    The last stage has the problem's thresholds, and those before it have the same or higher ones. `fitters` are those of the
    problem, if they were made before.
    """
    fitters = fitters or ProblemFitters(problem)
    raised = (raise_early(problem.thresholds, step) for step in _EARLY_STEPS)
    levels = list(dict.fromkeys([StageThresholds.constant(problem.thresholds), *filter(None, raised)]))
    # No more than the user allows; a front does not know how many that are.
    max_stages = max((len(design.stages) for design in front), default=1)
    for upgrade in dict.fromkeys(design.upgrade for design in front):
        own = np.array([design.chromosome for design in front if design.upgrade == upgrade], dtype=np.int8)
        population = complete_designs(own, max_stages)
        # One stage has none before the last.
        with_early = population[stage_counts(population) > 1]
        kind = fitters.upgraded(upgrade)
        for bench in make_workbenches(kind.problem, levels, len(distinct_sets(population)), jobs, kind):
            for place, level in enumerate(bench.thresholds):
                tried = population if level.early == level.last else with_early
                if len(tried):
                    yield bench, place, tried


def complete_designs(population: Population, max_stages: int) -> Population:
    """Return designs, and their first stages followed by one of all other features; each once, with so many stages at most.

    Examples
    --------
    >>> complete_designs(np.array([[0, -1, 1, -1]], dtype=np.int8), 3).tolist()
    [[0, -1, 1, -1], [0, 1, 1, 1], [0, 2, 1, 2]]
    """
    found = [population]
    for last in range(int(population.max()) + 1):
        chosen = population[stage_counts(population) > last]
        found.append(compress(np.where((chosen < 0) | (chosen > last), np.int8(last + 1), chosen)))
    allowed = np.concatenate(found)
    allowed = allowed[stage_counts(allowed) <= max_stages]
    return allowed[unique_rows(allowed)]
