"""(e) Hypervolume of what each search has found on the three landscapes, with the same fits, evaluations and designs.

EMSCO runs first. NSGA-II and NSGA-III (pymoo, its defaults for whole numbers) and random draws get as many evaluations as it
took, and their volume is noted, too, once they have taken as much processor time as it did. Every feature set is fitted before,
and the volume is that of all non-dominated designs that a search has evaluated. It is given as a share of the exact front's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import moocore
import numpy as np
from _shared_data import LANDSCAPES

from emsco_runtime.support.arrays import Floats
from emsco_train import Settings, Workbench
from emsco_train.designs.chromosome import Population, compress
from emsco_train.search.genetic.generation import GeneticAlgorithm
from emsco_train.search.scoring.evaluator import cumulative_sets
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.searches import run_evolve, run_exhaustive
from paper.tasks import Plan, measure_missing

STAGES = (2, 3, 4)
# EMSCO as in the paper, and as it is by default: seeded along greedy paths, and the sets of the last generation recombined.
SEARCHES = ("EMSCO", "EMSCO, ours", "NSGA-II", "NSGA-III", "random")
SPLIT = 0


@dataclass(frozen=True, slots=True)
class VolumeRow:
    """The volume of one search of one landscape, at EMSCO's number of evaluations, and at its time; shares of the exact one."""

    data: str
    stages: int
    run: int
    search: str
    evaluations: int
    fits: int
    volume: float
    volume_at_time: float
    seconds: float


def measure(plan: Plan) -> None:
    """Measure all landscapes."""
    tasks = [(name, stages, run) for name in plan.choose(LANDSCAPES) for stages in STAGES for run in range(plan.runs)]
    generations, population = (40, 100) if plan.is_quick else (150, 300)

    def measure_one(data: str, stages: int, run: int) -> Iterator[VolumeRow]:
        return measure_run(data, stages, run, generations, population)

    measure_missing(plan.folder / "hypervolume.csv", VolumeRow, tasks, measure_one, "hypervolume")


class Archive:
    """Evaluates designs, keeps the points that none dominates, and notes their volume when time is over.

    Designs beyond `budget` are evaluated, but not kept: pymoo ends with a whole generation.
    """

    def __init__(self, bench: Workbench, budget: int | None = None, budget_s: float | None = None) -> None:
        self._evaluate = bench.evaluator()
        self._full = bench.problem.full_cost
        self._budget, self._budget_s = budget, budget_s
        self._started = time.process_time()
        self._points = np.zeros((0, 3))
        self._sets: set[bytes] = set()
        self.evaluations = 0
        self.volume_at_time: float | None = None

    @property
    def n(self) -> int:
        """Number of features."""
        return self._evaluate.n

    def __call__(self, population: Population) -> Objectives:
        """Evaluate compressed chromosomes."""
        found = self._evaluate(population)
        points = np.column_stack([-found.coverage, -found.accuracy, found.mean_cost / self._full])
        points = points if self._budget is None else points[: self._budget - self.evaluations]
        self.evaluations += len(points)
        sets, is_stage = cumulative_sets(population[: len(points)])
        self._sets.update(one.tobytes() for one in sets[is_stage])
        joined = np.unique(np.concatenate([self._points, points]), axis=0)
        self._points = joined[moocore.is_nondominated(joined)]
        if self.volume_at_time is None and self._budget_s is not None and self.seconds >= self._budget_s:
            self.volume_at_time = self.volume()
        return found

    @property
    def fits(self) -> int:
        """Number of feature sets that its designs need."""
        return len(self._sets)

    @property
    def seconds(self) -> float:
        """Processor time so far."""
        return time.process_time() - self._started

    def minima(self, population: Population) -> Floats:
        """Evaluate, and return objectives to minimise [designs, 3]."""
        found = self(population)
        return np.column_stack([-found.coverage, -found.accuracy, found.mean_cost / self._full])

    def volume(self) -> float:
        """Return the volume that is dominated, as `Front.hypervolume` defines it."""
        return float(moocore.hypervolume(self._points, ref=[0.0, 0.0, 1.0])) if len(self._points) else 0.0


def measure_run(data: str, stages: int, run: int, generations: int, population: int) -> Iterator[VolumeRow]:
    """Run all searches with one seed."""
    bench, exact = _landscape(data, stages)
    archive = Archive(bench)
    settings = Settings(max_stages=stages, keep_all=True, generations=generations, population=population)
    _run_emsco(archive, replace(settings, seeded=False, recombine=False), run)
    budget, seconds, volume = archive.evaluations, archive.seconds, archive.volume() / exact
    yield VolumeRow(data, stages, run, "EMSCO", budget, archive.fits, volume, volume, seconds)
    started = time.process_time()
    outcome = run_evolve(bench.problem, settings, seed=run, jobs=1)
    volume, taken = outcome.front.hypervolume() / exact, time.process_time() - started
    yield VolumeRow(data, stages, run, "EMSCO, ours", outcome.designs, outcome.fits, volume, volume, taken)
    for name in SEARCHES[2:]:
        archive = Archive(bench, budget, seconds)
        if name == "random":
            _run_random(archive, stages, budget, run, population)
        else:
            _run_pymoo(name, archive, stages, budget, run, population)
        volume = archive.volume() / exact
        at_time = volume if archive.volume_at_time is None else archive.volume_at_time / exact
        yield VolumeRow(data, stages, run, name, archive.evaluations, archive.fits, volume, at_time, archive.seconds)


def _run_emsco(archive: Archive, settings: Settings, seed: int) -> None:
    algorithm = GeneticAlgorithm.of(archive, settings, seed)
    state = algorithm.first_generation()
    while algorithm.halting_rule(state) is None:
        state = algorithm.next_generation(state)


def _run_random(archive: Archive, stages: int, budget: int, seed: int, population: int) -> None:
    rng = np.random.default_rng(seed)
    while archive.evaluations < budget:
        size = min(population, budget - archive.evaluations)
        archive(compress(rng.integers(0, stages, (size, archive.n)).astype(np.int8)))


def _run_pymoo(name: str, archive: Archive, stages: int, budget: int, seed: int, population: int) -> None:
    from pymoo.algorithms.moo.nsga2 import NSGA2  # noqa: PLC0415 - an extra
    from pymoo.algorithms.moo.nsga3 import NSGA3  # noqa: PLC0415
    from pymoo.core.problem import Problem  # noqa: PLC0415
    from pymoo.operators.crossover.sbx import SBX  # noqa: PLC0415
    from pymoo.operators.mutation.pm import PM  # noqa: PLC0415
    from pymoo.operators.repair.rounding import RoundingRepair  # noqa: PLC0415
    from pymoo.operators.sampling.rnd import IntegerRandomSampling  # noqa: PLC0415
    from pymoo.optimize import minimize  # noqa: PLC0415
    from pymoo.util.ref_dirs import get_reference_directions  # noqa: PLC0415

    class Designs(Problem):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(n_var=archive.n, n_obj=3, xl=0, xu=stages - 1, vtype=int)

        def _evaluate(self, x: Floats, out: dict[str, Floats], *_: object, **__: object) -> None:
            out["F"] = archive.minima(compress(x.astype(np.int8)))

    operators = {
        "sampling": IntegerRandomSampling(),
        "crossover": SBX(vtype=float, repair=RoundingRepair()),
        "mutation": PM(vtype=float, repair=RoundingRepair()),
        "eliminate_duplicates": True,
    }
    if name == "NSGA-II":
        chosen = NSGA2(pop_size=population, **operators)
    else:
        directions = get_reference_directions("das-dennis", 3, n_partitions=12 if population <= 100 else 22)
        chosen = NSGA3(ref_dirs=directions, pop_size=population, **operators)
    minimize(Designs(), chosen, ("n_eval", budget), seed=seed, verbose=False)


@cache
def _bench(data: str) -> Workbench:
    return Workbench(LANDSCAPES[data].problem(SPLIT), jobs=2)


@cache
def _landscape(data: str, stages: int) -> tuple[Workbench, float]:
    bench = _bench(data)
    exact = run_exhaustive(bench.problem, Settings(max_stages=stages, keep_all=True), workbench=bench, jobs=2).front
    return bench, exact.hypervolume()
