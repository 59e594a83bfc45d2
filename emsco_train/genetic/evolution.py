"""The genetic algorithm: generation after generation until a halting rule holds, with records, checkpoints and interruptions.

All randomness is drawn in this process, by `Breeder`, so that the evaluator's workers cannot change a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from emsco_train.designs.chromosome import Indices, Population, compress
from emsco_train.errors import DesignError
from emsco_train.genetic.checkpoint import Checkpoint, CheckpointError, Checkpoints, write_checkpoint
from emsco_train.genetic.generation import Breeder, HaltingRule, State
from emsco_train.scoring.objectives import Evaluator, Objectives
from emsco_train.settings import Settings, is_integer

__all__ = ["Evolution", "Generation", "OnGeneration", "Stopped", "evolve_population"]

Stopped: TypeAlias = HaltingRule | Literal["single", "time", "interrupted"]


@dataclass(frozen=True, slots=True)
class Generation:
    """What is told of each generation.

    Parameters
    ----------
    number
        0 is the first population.
    size
        Chromosomes in it.
    front
        How many distinct ones nothing dominates.
    log_fitness
        Logarithm of the best fitness; comparable only within the generation.
    performance
        E of the fittest chromosome.
    best
        The fittest chromosome.
    evaluations
        Chromosomes evaluated so far.
    elapsed_s
        Seconds so far, those before a resumption included.
    """

    number: int
    size: int
    front: int
    log_fitness: float
    performance: float
    best: tuple[int, ...]
    evaluations: int
    elapsed_s: float


OnGeneration: TypeAlias = Callable[[Generation], object]


@dataclass(frozen=True, slots=True, eq=False)
class Evolution:
    """What a run found.

    Parameters
    ----------
    chromosomes
        The distinct chromosomes of the last generation that nothing dominates, fittest first; none if none is feasible.
    objectives
        Of each of them.
    ties
        How many chromosomes of the last generation each stands for.
    population
        The whole last generation.
    best
        The fittest chromosome, or, where none is feasible, the one nearest to it.
    best_objectives
        Of that one.
    generations
        Generations that ran.
    stopped
        Why it ended: a halting rule ("generations", "patience", "elite": nothing but elite is left), "single" (there is only
        one design), "time", or "interrupted".
    evaluations
        Chromosomes evaluated.
    elapsed_s
        Seconds that it took, those before a resumption included.
    """

    chromosomes: Population
    objectives: Objectives
    ties: Indices
    population: Population
    best: Population
    best_objectives: Objectives
    generations: int
    stopped: Stopped
    evaluations: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class _Clock:
    started: float
    deadline: float | None

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def over(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


@dataclass(frozen=True, slots=True)
class _Journal:
    """The checkpoints of one run; without a place for them, nothing happens."""

    place: Checkpoints | None
    settings: str
    seed: int

    def load(self) -> Checkpoint | None:
        return None if self.place is None else self.place.load(self.settings, self.seed)

    def due(self, state: State) -> bool:
        return self.place is not None and state.number % self.place.every == 0

    def keep(self, state: State, elapsed_s: float) -> None:
        if self.place is None:
            return
        checkpoint = Checkpoint(
            settings=self.settings,
            problem=self.place.problem,
            seed=self.seed,
            generation=state.number,
            size=state.size,
            population=state.population.tolist(),
            random_state=dict(state.random_state),
            best=state.best.tolist(),
            stale=state.stale,
            evaluations=state.evaluations,
            elapsed_s=elapsed_s,
        )
        write_checkpoint(self.place.path, checkpoint)


def evolve_population(
    evaluator: Evaluator,
    settings: Settings,
    *,
    seed: int,
    on_generation: OnGeneration | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
) -> Evolution:
    """Search designs with the genetic algorithm.

    Parameters
    ----------
    evaluator
        Tells the objectives of designs.
    settings
        Of the algorithm.
    seed
        Same seed, same settings, same evaluator: the same result.
    on_generation
        Called with a `Generation` after each one; what it returns is ignored, what it raises ends the run.
    checkpoints
        Where to keep the state, and whether to begin from it.
    time_limit
        Seconds for this call, looked at between generations; the front so far is returned.

    Raises
    ------
    DesignError
        If settings do not fit the number of features.
    CheckpointError
        If the checkpoint is unreadable or belongs to another run.
    """
    started = time.monotonic()
    if not is_integer(seed) or seed < 0:
        raise DesignError(f"seed is {seed!r}: an integer of 0 or more is due")
    breeder = Breeder.of(evaluator, settings, int(seed))
    if breeder.space.single:
        return _result(breeder.first(), "single", time.monotonic() - started)
    journal = _Journal(checkpoints, breeder.settings.digest(), int(seed))
    found = journal.load()
    state = breeder.first() if found is None else _restored(breeder, found)
    before = 0.0 if found is None else found.elapsed_s
    clock = _Clock(started - before, None if time_limit is None else started + time_limit)
    # A generation taken from a checkpoint was told of before that was written.
    if found is None and on_generation is not None:
        on_generation(_record(state, clock))
    state, stopped = _loop(breeder, state, clock, on_generation, journal)
    journal.keep(state, clock.elapsed())
    return _result(state, stopped, clock.elapsed())


def _loop(
    breeder: Breeder, state: State, clock: _Clock, on_generation: OnGeneration | None, journal: _Journal
) -> tuple[State, Stopped]:
    """Go from generation to generation; return the last one that is complete, and why it is the last."""
    try:
        while not (rule := breeder.halted(state)):
            if clock.over():
                return state, "time"
            if journal.due(state):
                journal.keep(state, clock.elapsed())
            state = breeder.next(state)
            if on_generation is not None:
                on_generation(_record(state, clock))
    except KeyboardInterrupt:
        return state, "interrupted"
    return state, rule


def _restored(breeder: Breeder, found: Checkpoint) -> State:
    population = _population(found, breeder)
    try:
        np.random.default_rng().bit_generator.state = dict(found.random_state)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's random_state is unusable: {error}. Remove the file and begin anew") from error
    return breeder.restored(
        found.generation, found.size, population, found.random_state, stale=found.stale, evaluations=found.evaluations
    )


def _population(found: Checkpoint, breeder: Breeder) -> Population:
    space = breeder.space
    population = np.array(found.population, dtype=object)
    least = -1 if space.allow_exclusion else 0
    if population.ndim == 2 and population.shape == (found.size, space.n):
        inside = (population >= least) & (population < space.max_stages)
        genes = np.where(inside, population, 0).astype(np.int8)
        if inside.all() and np.array_equal(compress(genes), genes):
            return genes
    due = f"{found.size} chromosomes of {space.n} genes in [{least}, {space.max_stages - 1}] without empty stages"
    raise CheckpointError(f"the checkpoint's population is damaged: {due} are due. Remove the file and begin anew")


def _record(state: State, clock: _Clock) -> Generation:
    top = state.placed.order[0]
    return Generation(
        number=state.number,
        size=len(state.population),
        front=state.placed.front,
        log_fitness=float(state.placed.log_fitness[top]),
        performance=float(state.objectives.performance()[top]),
        best=tuple(state.best.tolist()),
        evaluations=state.evaluations,
        elapsed_s=clock.elapsed(),
    )


def _result(state: State, stopped: Stopped, elapsed_s: float) -> Evolution:
    placed = state.placed
    kept = placed.order[: placed.front if placed.feasible else 0]
    return Evolution(
        chromosomes=state.population[kept],
        objectives=state.objectives.take(kept),
        ties=placed.ties[: len(kept)],
        population=state.population,
        best=state.best,
        best_objectives=state.objectives.take(placed.order[:1]),
        generations=state.number,
        stopped=stopped,
        evaluations=state.evaluations,
        elapsed_s=elapsed_s,
    )
