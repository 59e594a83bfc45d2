"""The genetic algorithm: generation after generation until a halting rule holds, with records, checkpoints and interruptions.

All randomness is drawn in this process, by `GeneticAlgorithm`, so that the evaluator's workers cannot change a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from emsco_runtime.support.arrays import Mask
from emsco_train.data.provenance import versions
from emsco_train.designs.chromosome import Indices, Population
from emsco_train.search.genetic.checkpoint import Checkpoint, Checkpoints, write_checkpoint
from emsco_train.search.genetic.generation import GenerationState, GeneticAlgorithm, HaltingRule
from emsco_train.search.pace import BatchedEvaluator, EvaluationInterrupted, InterruptReason, OnStep, Step
from emsco_train.search.scoring.objectives import Evaluator, Objectives
from emsco_train.search.settings import Settings
from emsco_train.support.numbers import check_seed, check_time_limit
from emsco_train.support.stop_flag import FitStopped

__all__ = ["Evolution", "Generation", "OnGeneration", "StopReason", "evolve_population"]

StopReason: TypeAlias = HaltingRule | InterruptReason | Literal["single"]


@dataclass(frozen=True, slots=True)
class Generation:
    """What is reported of each generation.

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
        The fittest chromosome: a stage for each gene, which is a feature or a unit of features.
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
    chromosomes, objectives, ties
        The distinct chromosomes of the last generation that nothing dominates, fittest first, none if none is feasible; and how
        many chromosomes of that generation are tied with each, itself included.
    population
        The whole last generation.
    sets
        The newest feature sets of all that was evaluated [sets, genes], the newest last.
    best
        The fittest chromosome, or, where none is feasible, the one nearest to it.
    generations, evaluations
        Generations that ran, and chromosomes evaluated.
    stopped
        Why it ended: a halting rule ("generations", "patience", "elite": nothing but elite is left), "single" (there is only
        one design), "time", or "interrupted". The last two keep the last complete generation; where the first one was still
        being evaluated, the designs of it that were.
    """

    chromosomes: Population
    objectives: Objectives
    ties: Indices
    population: Population
    sets: Mask
    best: Population
    generations: int
    stopped: StopReason
    evaluations: int


def evolve_population(
    evaluator: Evaluator,
    settings: Settings,
    *,
    seed: int,
    on_generation: OnGeneration | None = None,
    on_step: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    make_seeds: Callable[[float | None], Population] | None = None,
) -> Evolution:
    """Search designs with the genetic algorithm; the parameters are those of `run_evolve`.

    `make_seeds` returns designs for the first generation, those that it has at a deadline on `time.monotonic`; a run that is
    resumed does not need them.

    The time limit, in seconds for this call, is checked several times a second; some designs are always evaluated. Ctrl-C ends
    the run as a time limit does, except before anything was evaluated: then KeyboardInterrupt is raised. An incomplete
    generation is never kept in a checkpoint: a resumed run starts with the last complete one.
    """
    started = time.monotonic()
    checked, limit = check_seed(seed), check_time_limit(time_limit)
    algorithm = GeneticAlgorithm.of(evaluator, settings, checked)
    if algorithm.space.is_single:
        return _result(algorithm.first_generation(), "single")
    deadline = None if limit is None else started + limit
    batched = BatchedEvaluator(evaluator, deadline)
    checkpoint = None if checkpoints is None else checkpoints.load(algorithm.settings.digest(), checked)
    before = 0.0 if checkpoint is None else checkpoint.elapsed_s
    run = _Run(replace(algorithm, evaluator=batched), batched, checked, started - before, on_generation, checkpoints, versions())
    seeds = None
    try:
        seeds = make_seeds(deadline) if make_seeds is not None and checkpoint is None else None
        state = _first_state(algorithm, batched, checkpoint, seeds, on_step)
    except EvaluationInterrupted as interruption:
        partial = _partial_state(algorithm, interruption, checkpoint, seeds)
        return _result(partial, interruption.reason)
    state, stopped = run.advance(state, resumed=checkpoint is not None)
    run.save(state)
    return _result(state, stopped)


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """A run under way: generation after generation, reported and kept."""

    algorithm: GeneticAlgorithm
    batched: BatchedEvaluator
    seed: int
    started: float
    on_generation: OnGeneration | None
    checkpoints: Checkpoints | None
    versions: dict[str, str]

    def elapsed_s(self) -> float:
        return time.monotonic() - self.started

    def advance(self, state: GenerationState, *, resumed: bool) -> tuple[GenerationState, StopReason]:
        """Go from generation to generation; return the last one that is complete, and why it is the last."""
        try:
            # A generation taken from a checkpoint was reported before that was written.
            if not resumed:
                self.report(state)
            while not (rule := self.algorithm.halting_rule(state)):
                if self.batched.is_out_of_time():
                    return state, "time"
                if self.checkpoints is not None and state.number % self.checkpoints.every == 0:
                    self.save(state)
                state = self.algorithm.next_generation(state)
                self.report(state)
        except EvaluationInterrupted as interruption:
            return state, interruption.reason
        except KeyboardInterrupt:
            return state, "interrupted"
        return state, rule

    def report(self, state: GenerationState) -> None:
        if self.on_generation is None:
            return
        top = state.ranking.order[0]
        record = Generation(
            number=state.number,
            most=self.algorithm.settings.generations,
            size=len(state.population),
            front=state.ranking.front,
            log_fitness=float(state.ranking.log_fitness[top]),
            performance=float(state.objectives.performance()[top]),
            best=tuple(state.best.tolist()),
            evaluations=state.evaluations,
            elapsed_s=self.elapsed_s(),
        )
        self.on_generation(record)

    def save(self, state: GenerationState) -> None:
        if self.checkpoints is None:
            return
        checkpoint = Checkpoint(
            settings=self.algorithm.settings.digest(),
            problem=self.checkpoints.problem,
            seed=self.seed,
            generation=state.number,
            size=len(state.population),
            population=state.population.tolist(),
            random_state=dict(state.random_state),
            best=state.best.tolist(),
            stale=state.stale,
            evaluations=state.evaluations,
            visited=state.visited.to_text(),
            sets=state.sets.to_text(),
            elapsed_s=self.elapsed_s(),
            versions=self.versions,
        )
        write_checkpoint(self.checkpoints.path, checkpoint)


def _first_state(
    algorithm: GeneticAlgorithm,
    batched: BatchedEvaluator,
    checkpoint: Checkpoint | None,
    seeds: Population | None,
    on_step: OnStep | None,
) -> GenerationState:
    """Return the generation to start from, the first or that of a checkpoint, evaluated in batches that are reported."""

    def evaluate(population: Population) -> Objectives:
        return batched(population, None if on_step is None else lambda done: on_step(Step("first", done, len(population))))

    starting = replace(algorithm, evaluator=evaluate)
    if checkpoint is None:
        return starting.first_generation(seeds)
    population, visited, sets = checkpoint.checked_designs(algorithm.space)
    return starting.restore_generation(
        checkpoint.generation,
        population,
        evaluations=checkpoint.evaluations,
        random_state=checkpoint.random_state,
        stale=checkpoint.stale,
        visited=visited,
        sets=sets,
    )


def _partial_state(
    algorithm: GeneticAlgorithm, interruption: EvaluationInterrupted, checkpoint: Checkpoint | None, seeds: Population | None
) -> GenerationState:
    """Return the part of a generation that was evaluated before the run was cut short, or the seeds, which take no new fits."""
    population = interruption.population
    if interruption.objectives is None and interruption.reason == "time":
        if seeds is None or not len(seeds):
            raise FitStopped from interruption
        population = seeds[: algorithm.settings.population]
    elif interruption.objectives is None:
        raise KeyboardInterrupt(
            "the search was interrupted before any design was evaluated: there is no front yet"
        ) from interruption
    number, count = (0, len(population)) if checkpoint is None else (checkpoint.generation, checkpoint.evaluations)
    # They are evaluated a second time, which takes no new fits.
    return algorithm.restore_generation(number, population, evaluations=count)


def _result(state: GenerationState, stopped: StopReason) -> Evolution:
    ranking = state.ranking
    kept = ranking.order[: ranking.front if ranking.feasible else 0]
    return Evolution(
        chromosomes=state.population[kept],
        objectives=state.objectives.take(kept),
        ties=ranking.ties[: len(kept)],
        population=state.population,
        sets=state.sets.to_sets(),
        best=state.best,
        generations=state.number,
        stopped=stopped,
        evaluations=state.evaluations,
    )
