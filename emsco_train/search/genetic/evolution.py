"""The genetic algorithm: generation after generation until a halting rule holds, with records, checkpoints and interruptions.

All randomness is drawn in this process, by `GeneticAlgorithm`, so that the evaluator's workers cannot change a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from emsco_train.data.provenance import versions
from emsco_train.designs.chromosome import Indices, Population, compress
from emsco_train.search.genetic.checkpoint import Checkpoint, CheckpointError, Checkpoints, write_checkpoint
from emsco_train.search.genetic.generation import GenerationState, GeneticAlgorithm, HaltingRule
from emsco_train.search.genetic.visited_designs import VisitedDesigns
from emsco_train.search.pace import BatchedEvaluator, EvaluationInterrupted, InterruptReason, OnStep, Step
from emsco_train.search.scoring.objectives import Evaluator, Objectives
from emsco_train.search.settings import Settings
from emsco_train.support.numbers import check_seed, check_time_limit

__all__ = ["Evolution", "Generation", "OnGeneration", "StopReason", "evolve_population"]

StopReason: TypeAlias = HaltingRule | InterruptReason | Literal["single"]


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
    stopped: StopReason
    evaluations: int
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class _RunMonitor:
    """Since when a run has been going, and who is told about it."""

    started: float
    on_generation: OnGeneration | None
    on_step: OnStep | None

    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def report(self, state: GenerationState, settings: Settings) -> None:
        if self.on_generation is not None:
            self.on_generation(_generation_record(state, settings, self.elapsed()))


@dataclass(frozen=True, slots=True)
class _ReportingEvaluator:
    """The evaluator of the first generation, which tells how far it is."""

    batched: BatchedEvaluator
    on_step: OnStep

    @property
    def n(self) -> int:
        return self.batched.n

    @property
    def rows(self) -> int:
        return self.batched.rows

    def __call__(self, population: Population) -> Objectives:
        return self.batched.evaluate(population, lambda done: self.on_step(Step("first", done, len(population))))


@dataclass(frozen=True, slots=True)
class _CheckpointWriter:
    """The checkpoints of one run; without a place for them, nothing happens."""

    target: Checkpoints | None
    settings: str
    seed: int
    versions: dict[str, str] = field(default_factory=versions)

    def load(self) -> Checkpoint | None:
        return None if self.target is None else self.target.load(self.settings, self.seed)

    def is_due(self, state: GenerationState) -> bool:
        return self.target is not None and state.number % self.target.every == 0

    def save(self, state: GenerationState, elapsed_s: float) -> None:
        if self.target is None:
            return
        checkpoint = Checkpoint(
            settings=self.settings,
            problem=self.target.problem,
            seed=self.seed,
            generation=state.number,
            size=state.size,
            population=state.population.tolist(),
            random_state=dict(state.random_state),
            best=state.best.tolist(),
            stale=state.stale,
            evaluations=state.evaluations,
            visited=state.visited.to_text(),
            elapsed_s=elapsed_s,
            versions=self.versions,
        )
        write_checkpoint(self.target.path, checkpoint)


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
    checked = check_seed(seed)
    limit = check_time_limit(time_limit)
    batched = BatchedEvaluator(evaluator, None if limit is None else started + limit)
    algorithm = GeneticAlgorithm.of(batched, settings, checked)
    if algorithm.space.is_single:
        return _result(replace(algorithm, evaluator=evaluator).first_generation(), "single", time.monotonic() - started)
    writer = _CheckpointWriter(checkpoints, algorithm.settings.digest(), checked)
    checkpoint = writer.load()
    monitor = _RunMonitor(started - (0.0 if checkpoint is None else checkpoint.elapsed_s), on_generation, on_step)
    try:
        state = _first_state(algorithm, batched, checkpoint, on_step)
    except EvaluationInterrupted as interruption:
        return _result(_partial_state(algorithm, evaluator, interruption, checkpoint), interruption.reason, monitor.elapsed())
    state, stopped = _run_generations(algorithm, batched, state, monitor, writer, resumed=checkpoint is not None)
    writer.save(state, monitor.elapsed())
    return _result(state, stopped, monitor.elapsed())


def _first_state(
    algorithm: GeneticAlgorithm, batched: BatchedEvaluator, checkpoint: Checkpoint | None, on_step: OnStep | None
) -> GenerationState:
    """Return the generation to begin with: the first, or that of a checkpoint."""
    starting = algorithm if on_step is None else replace(algorithm, evaluator=_ReportingEvaluator(batched, on_step))
    return starting.first_generation() if checkpoint is None else _restore_state(starting, checkpoint)


def _partial_state(
    algorithm: GeneticAlgorithm, evaluator: Evaluator, interruption: EvaluationInterrupted, checkpoint: Checkpoint | None
) -> GenerationState:
    """Return the part of a generation that was evaluated before the run was cut short."""
    if interruption.objectives is None:
        raise KeyboardInterrupt(
            "the search was interrupted before any design was evaluated: there is no front yet"
        ) from interruption
    number, count = (0, len(interruption.population)) if checkpoint is None else (checkpoint.generation, checkpoint.evaluations)
    # They are evaluated a second time, which takes no new fits.
    ready = replace(algorithm, evaluator=evaluator)
    return ready.restore_generation(
        number,
        len(interruption.population),
        interruption.population,
        algorithm.rng.bit_generator.state,
        stale=0,
        evaluations=count,
        visited=VisitedDesigns.empty(),
    )


def _run_generations(
    algorithm: GeneticAlgorithm,
    batched: BatchedEvaluator,
    state: GenerationState,
    monitor: _RunMonitor,
    writer: _CheckpointWriter,
    *,
    resumed: bool,
) -> tuple[GenerationState, StopReason]:
    """Go from generation to generation; return the last one that is complete, and why it is the last."""
    try:
        # A generation taken from a checkpoint was told of before that was written.
        if not resumed:
            monitor.report(state, algorithm.settings)
        while not (rule := algorithm.halting_rule(state)):
            if batched.is_out_of_time():
                return state, "time"
            if writer.is_due(state):
                writer.save(state, monitor.elapsed())
            state = algorithm.next_generation(state)
            monitor.report(state, algorithm.settings)
    except EvaluationInterrupted as interruption:
        return state, interruption.reason
    except KeyboardInterrupt:
        return state, "interrupted"
    return state, rule


def _restore_state(algorithm: GeneticAlgorithm, checkpoint: Checkpoint) -> GenerationState:
    population = _checked_population(checkpoint, algorithm)
    try:
        np.random.default_rng().bit_generator.state = dict(checkpoint.random_state)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint's random_state is unusable: {error}. Remove the file and begin anew") from error
    try:
        visited = VisitedDesigns.from_text(checkpoint.visited)
    except ValueError as error:
        raise CheckpointError(f"the checkpoint's visited is damaged: {error}. Remove the file and begin anew") from error
    return algorithm.restore_generation(
        checkpoint.generation,
        checkpoint.size,
        population,
        checkpoint.random_state,
        stale=checkpoint.stale,
        evaluations=checkpoint.evaluations,
        visited=visited,
    )


def _checked_population(checkpoint: Checkpoint, algorithm: GeneticAlgorithm) -> Population:
    space = algorithm.space
    population = np.array(checkpoint.population, dtype=object)
    least = -1 if space.allow_exclusion else 0
    if population.ndim == 2 and population.shape == (checkpoint.size, space.n):
        inside = (population >= least) & (population < space.max_stages)
        genes = np.where(inside, population, 0).astype(np.int8)
        if inside.all() and np.array_equal(compress(genes), genes):
            return genes
    expected = f"{checkpoint.size} chromosomes of {space.n} genes in [{least}, {space.max_stages - 1}] without empty stages"
    raise CheckpointError(f"the checkpoint's population is damaged: {expected} are due. Remove the file and begin anew")


def _generation_record(state: GenerationState, settings: Settings, elapsed_s: float) -> Generation:
    top = state.ranking.order[0]
    return Generation(
        number=state.number,
        most=settings.generations,
        size=len(state.population),
        front=state.ranking.front,
        log_fitness=float(state.ranking.log_fitness[top]),
        performance=float(state.objectives.performance()[top]),
        best=tuple(state.best.tolist()),
        evaluations=state.evaluations,
        elapsed_s=elapsed_s,
    )


def _result(state: GenerationState, stopped: StopReason, elapsed_s: float) -> Evolution:
    ranking = state.ranking
    kept = ranking.order[: ranking.front if ranking.feasible else 0]
    return Evolution(
        chromosomes=state.population[kept],
        objectives=state.objectives.take(kept),
        ties=ranking.ties[: len(kept)],
        population=state.population,
        best=state.best,
        best_objectives=state.objectives.take(ranking.order[:1]),
        generations=state.number,
        stopped=stopped,
        evaluations=state.evaluations,
        elapsed_s=elapsed_s,
    )
