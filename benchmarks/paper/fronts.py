"""(a) Exact fronts of the three landscapes, and how many of their designs a generation holds, on average over runs.

As in the paper's figure: an optimum counts once it is in the population. Counted are objective vectors: designs that are tied
are one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from _shared_data import LANDSCAPES
from landscapes import vectors

from emsco_train import Problem, Settings, Workbench
from emsco_train.search.compilation import load_search
from emsco_train.search.genetic.generation import GeneticAlgorithm
from emsco_train.search.searches import run_exhaustive
from paper.tasks import Plan, measure_missing

STAGES = (2, 3, 4)
GENERATIONS = (0, 5, 10, 20, 30, 40, 60, 80, 100, 120, 150)
# The division whose landscape is searched, as in docs/experiments.md.
SPLIT = 0


@dataclass(frozen=True, slots=True)
class FrontRow:
    """How much of an exact front one run held at one generation; the time is that of the exact search, fits included."""

    data: str
    stages: int
    run: int
    generation: int
    found: int
    front: int
    designs: int
    exact_s: float


def measure(plan: Plan) -> None:
    """Measure all landscapes."""
    tasks = [(name, stages, run) for name in plan.choose(LANDSCAPES) for stages in STAGES for run in range(plan.runs)]
    measure_missing(plan.folder / "fronts.csv", FrontRow, tasks, measure_run, "fronts")


def measure_run(data: str, stages: int, run: int) -> Iterator[FrontRow]:
    """Run the plain algorithm with the paper's rates for the data set, and count optima."""
    bench, optima, designs, seconds = _exact_front(data, stages)
    settings = replace(LANDSCAPES[data].tuned, keep_all=True, max_stages=stages)
    rows = len(bench.problem.validation)
    algorithm = GeneticAlgorithm.of(bench.evaluator(), settings, run)
    state = algorithm.first_generation()
    while True:
        ended = algorithm.halting_rule(state) is not None
        if state.number in GENERATIONS or ended:
            held = state.objectives
            costs = (held.cost / held.scale / rows).tolist()
            present = {(a, r, round(c, 6)) for a, r, c in zip(held.accepted.tolist(), held.right.tolist(), costs, strict=True)}
            yield FrontRow(data, stages, run, state.number, len(present & optima), len(optima), designs, seconds)
        if ended:
            return
        state = algorithm.next_generation(state)


@cache
def _problem(data: str) -> Workbench:
    return Workbench(_make(data), jobs=2)


def _make(data: str) -> Problem:
    return LANDSCAPES[data].problem(SPLIT)


@cache
def _exact_front(data: str, stages: int) -> tuple[Workbench, frozenset[tuple[int, int, float]], int, float]:
    # Compiled once after an install: no part of the search.
    load_search()
    started, bench = time.perf_counter(), _problem(data)
    exact = run_exhaustive(bench.problem, Settings(max_stages=stages, keep_all=True), workbench=bench, jobs=2).front
    seconds = time.perf_counter() - started
    found = frozenset((a, r, round(c, 6)) for a, r, c in vectors(exact, len(bench.problem.validation)))
    return bench, found, sum(design.ties for design in exact), seconds
