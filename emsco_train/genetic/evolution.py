"""The genetic algorithm: generation after generation until a halting rule holds, with records, checkpoints and interruptions.

All randomness is drawn in this process, by `Breeder`, so that the evaluator's workers cannot change a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from emsco_train.data.provenance import versions
from emsco_train.designs.chromosome import Indices, Population, compress
from emsco_train.genetic.checkpoint import Checkpoint, CheckpointError, Checkpoints, write_checkpoint
from emsco_train.genetic.generation import Breeder, HaltingRule, State
from emsco_train.genetic.pace import Cut, CutReason, OnStep, PacedEvaluator, Step
from emsco_train.genetic.visited import Visited
from emsco_train.scoring.objectives import Evaluator, Objectives
from emsco_train.settings import Settings, checked_seed, checked_time_limit

__all__ = ["Evolution", "Generation", "OnGeneration", "Stopped", "evolve_population"]

Stopped: TypeAlias = HaltingRule | CutReason | Literal["single"]


@dataclass(frozen=True, slots=True)
class Generation:
    """What is told of each generation.

    Parameters
    ----------
    number
        0 is the first population.
    most
        The last one that the settings allow.
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
    most: int
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
        one design), "time", or "interrupted". The last two keep the last complete generation; where the first one was still
        being evaluated, the designs of it that were.
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
class _Watch:
    """Since when a run has been going, and who is told about it."""

    started: float
    on_generation: OnGeneration | None
    on_step: OnStep | None

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def tell(self, state: State, settings: Settings) -> None:
        if self.on_generation is not None:
            self.on_generation(_record(state, settings, self.elapsed()))


@dataclass(frozen=True, slots=True)
class _ToldEvaluator:
    """The evaluator of the first generation, which tells how far it is."""

    paced: PacedEvaluator
    on_step: OnStep

    @property
    def n(self) -> int:
        return self.paced.n

    @property
    def rows(self) -> int:
        return self.paced.rows

    def __call__(self, population: Population) -> Objectives:
        return self.paced.told(population, lambda done: self.on_step(Step("first", done, len(population))))


@dataclass(frozen=True, slots=True)
class _Journal:
    """The checkpoints of one run; without a place for them, nothing happens."""

    place: Checkpoints | None
    settings: str
    seed: int
    versions: dict[str, str] = field(default_factory=versions)

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
            visited=state.visited.text(),
            elapsed_s=elapsed_s,
            versions=self.versions,
        )
        write_checkpoint(self.place.path, checkpoint)


def evolve_population(
    evaluator: Evaluator,
    settings: Settings,
    *,
    seed: int,
    on_generation: OnGeneration | None = None,
    on_step: OnStep | None = None,
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
    on_step
        Called with a `Step` of the phase "first" while the first generation is evaluated, several times a second.
    checkpoints
        Where to keep the state, and whether to begin from it.
    time_limit
        Seconds for this call, looked at several times a second; the front so far is returned. Some designs are always evaluated.

    Raises
    ------
    DesignError
        If settings do not fit the number of features.
    CheckpointError
        If the checkpoint is unreadable or belongs to another run.
    KeyboardInterrupt
        If Ctrl-C comes before anything was evaluated. Later, it ends the run as a time limit does.

    Notes
    -----
    A generation that is not complete is never kept in a checkpoint: who takes up the run begins with the last complete one.
    """
    started = time.monotonic()
    whole = checked_seed(seed)
    limit = checked_time_limit(time_limit)
    paced = PacedEvaluator(evaluator, None if limit is None else started + limit)
    breeder = Breeder.of(paced, settings, whole)
    if breeder.space.single:
        return _result(replace(breeder, evaluator=evaluator).first(), "single", time.monotonic() - started)
    journal = _Journal(checkpoints, breeder.settings.digest(), whole)
    found = journal.load()
    watch = _Watch(started - (0.0 if found is None else found.elapsed_s), on_generation, on_step)
    try:
        state = _begun(breeder, paced, found, on_step)
    except Cut as cut:
        return _result(_partial(breeder, evaluator, cut, found), cut.reason, watch.elapsed())
    state, stopped = _loop(breeder, paced, state, watch, journal, told=found is not None)
    journal.keep(state, watch.elapsed())
    return _result(state, stopped, watch.elapsed())


def _begun(breeder: Breeder, paced: PacedEvaluator, found: Checkpoint | None, on_step: OnStep | None) -> State:
    """Return the generation to begin with: the first, or that of a checkpoint."""
    beginner = breeder if on_step is None else replace(breeder, evaluator=_ToldEvaluator(paced, on_step))
    return beginner.first() if found is None else _restored(beginner, found)


def _partial(breeder: Breeder, evaluator: Evaluator, cut: Cut, found: Checkpoint | None) -> State:
    """Return the part of a generation that was evaluated before the run was cut short."""
    if cut.objectives is None:
        raise KeyboardInterrupt("the search was interrupted before any design was evaluated: there is no front yet") from cut
    number, count = (0, len(cut.population)) if found is None else (found.generation, found.evaluations)
    # They are evaluated a second time, which takes no new fits.
    ready = replace(breeder, evaluator=evaluator)
    return ready.restored(
        number,
        len(cut.population),
        cut.population,
        breeder.rng.bit_generator.state,
        stale=0,
        evaluations=count,
        visited=Visited.none(),
    )


def _loop(
    breeder: Breeder, paced: PacedEvaluator, state: State, watch: _Watch, journal: _Journal, *, told: bool
) -> tuple[State, Stopped]:
    """Go from generation to generation; return the last one that is complete, and why it is the last."""
    try:
        # A generation taken from a checkpoint was told of before that was written.
        if not told:
            watch.tell(state, breeder.settings)
        while not (rule := breeder.halted(state)):
            if paced.over():
                return state, "time"
            if journal.due(state):
                journal.keep(state, watch.elapsed())
            state = breeder.next(state)
            watch.tell(state, breeder.settings)
    except Cut as cut:
        return state, cut.reason
    except KeyboardInterrupt:
        return state, "interrupted"
    return state, rule


def _restored(breeder: Breeder, found: Checkpoint) -> State:
    population = _population(found, breeder)
    try:
        np.random.default_rng().bit_generator.state = dict(found.random_state)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's random_state is unusable: {error}. Remove the file and begin anew") from error
    try:
        visited = Visited.read(found.visited)
    except ValueError as error:
        raise CheckpointError(f"the checkpoint's visited is damaged: {error}. Remove the file and begin anew") from error
    return breeder.restored(
        found.generation,
        found.size,
        population,
        found.random_state,
        stale=found.stale,
        evaluations=found.evaluations,
        visited=visited,
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


def _record(state: State, settings: Settings, elapsed_s: float) -> Generation:
    top = state.placed.order[0]
    return Generation(
        number=state.number,
        most=settings.generations,
        size=len(state.population),
        front=state.placed.front,
        log_fitness=float(state.placed.log_fitness[top]),
        performance=float(state.objectives.performance()[top]),
        best=tuple(state.best.tolist()),
        evaluations=state.evaluations,
        elapsed_s=elapsed_s,
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
