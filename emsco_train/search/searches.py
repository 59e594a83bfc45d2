"""The two searches of a problem, and the choice between them: genetic where it must be, exact where it can be.

A time limit and Ctrl-C follow one rule: the genetic algorithm and its polish keep the front so far, and the outcome says why it
ended. A part of an exact search is not a front, since what was not yet visited may dominate it: a time limit raises an error, and
Ctrl-C KeyboardInterrupt.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from emsco_runtime.support.arrays import Mask
from emsco_train.data.problem import Problem
from emsco_train.designs.chromosome import Indices, Population, unique_rows
from emsco_train.designs.front import Front
from emsco_train.designs.genes import Genes
from emsco_train.errors import DesignError
from emsco_train.search.design_bench import DesignBench
from emsco_train.search.exact_search import MAX_SECONDS, is_affordable, search_exactly
from emsco_train.search.gene_choice import choose_exact_genes, choose_genes
from emsco_train.search.genetic.checkpoint import Checkpoints
from emsco_train.search.genetic.evolution import Evolution, OnGeneration, StopReason, evolve_population
from emsco_train.search.genetic.pareto import non_dominated, representatives, spread_over_front, violations
from emsco_train.search.genetic.polish import PolishResult, PolishStopReason, polish_population
from emsco_train.search.pace import OnStep, TimeLimit
from emsco_train.search.recombination import distinct_sets, drop_idle_stages, recombine_sets
from emsco_train.search.scoring.evaluator import GeneEvaluator
from emsco_train.search.scoring.objectives import Evaluator, Objectives
from emsco_train.search.seeding import fit_start, seed_designs
from emsco_train.search.settings import Constraints, Method, SearchUnits, Settings
from emsco_train.search.workbench import Workbench
from emsco_train.support.numbers import check_seed, check_time_limit, worker_count
from emsco_train.support.stop_flag import FitStopped

__all__ = ["Outcome", "evolve", "exhaustive", "name_time_limit", "run_evolve", "run_exhaustive", "run_search"]

# Sets that are recombined, times items: that many take a second or two.
_MAX_RECOMBINED_BITS = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a search found, and how.

    Parameters
    ----------
    front
        The designs.
    method
        "evolve" or "exhaustive".
    stopped
        Why it ended: "complete" for the exact search, else as in `Evolution`. "time" and "interrupted" also where it was the
        polish that was cut short: the front is then the best so far.
    designs
        Designs evaluated (or covered, by the exact search).
    fits
        Feature sets fitted.
    genes
        What moved from stage to stage: each feature, or units of features that are paid together.
    polished
        How the polish ended, as in `PolishResult`; "skipped" if the generations were cut short before it; None without
        polish.
    missed
        Where no design satisfies the constraints: what those did that do not, of the last generation or the exact front.
    """

    front: Front
    method: Method
    stopped: StopReason | Literal["complete"]
    designs: int
    fits: int
    genes: Genes
    polished: PolishStopReason | Literal["skipped"] | None = None
    missed: Objectives | None = None


def evolve(
    problem: Problem,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    jobs: int | None = None,
) -> Front:
    """Return the front that the genetic algorithm finds; see `run_evolve` for the parameters and for more than the front."""
    return run_evolve(
        problem,
        settings,
        seed=seed,
        jobs=jobs,
        on_generation=on_generation,
        on_progress=on_progress,
        checkpoints=checkpoints,
        time_limit=time_limit,
    ).front


def exhaustive(
    problem: Problem,
    *,
    max_stages: int | None = None,
    keep_all: bool = False,
    units: SearchUnits = "features",
    pinned: tuple[int, ...] = (),
    constraints: Constraints | None = None,
    ties: Literal["count", "all"] = "count",
    max_designs: int = 100_000,
    on_progress: OnStep | None = None,
    time_limit: float | None = None,
    jobs: int | None = None,
) -> Front:
    """Return the complete front: every non-dominated objective vector, its representative design and how many are tied on it.

    Parameters
    ----------
    problem, max_stages, keep_all, units, pinned, constraints
        The problem, and what designs are allowed, as in `Settings`. The front is complete among the designs by features, or
        among those that keep the units together.
    ties
        "count" gives one design per objective vector and the number tied on it; "all" lists every tied design.
    max_designs
        Most designs to list with ties="all"; more are refused.
    on_progress
        Called with a `Step` several times a second, in the calling thread. What it raises ends the search.
    time_limit
        Seconds that it may take, an hour by default: what is estimated to take longer is refused, and what does take longer
        raises an error. There is no partial result: designs not yet visited may dominate what was found.
    jobs
        Threads; None for all cores.

    Raises
    ------
    DesignError
        If the search is too large or runs out of time, or if arguments do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> problem = Problem.of(X, X[:, 0] + X[:, 1] + rng.normal(size=300) > 0, costs=[3, 1, 1], threshold=0.8)
    >>> len(exhaustive(problem, max_stages=1, keep_all=True))
    1
    """
    settings = Settings(
        max_stages=max_stages,
        keep_all=keep_all,
        units=units,
        pinned=pinned,
        constraints=constraints or Constraints(),
    )
    return run_exhaustive(
        problem, settings, ties=ties, max_designs=max_designs, on_progress=on_progress, time_limit=time_limit, jobs=jobs
    ).front


def run_evolve(
    problem: Problem,
    settings: Settings | None = None,
    *,
    seed: int = 0,
    jobs: int | None = None,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    workbench: DesignBench | None = None,
    threshold: int = 0,
    start: Population | None = None,
) -> Outcome:
    """Search designs with the genetic algorithm.

    Parameters
    ----------
    problem
        The problem.
    settings
        Of the algorithm; the paper's by default.
    seed
        Same seed, same data, same settings: the same front, whatever the number of jobs.
    jobs
        Threads for the fits; None for all cores.
    on_generation
        Called with a `Generation` after each one.
    on_progress
        Called with a `Step` several times a second, while the first generation is evaluated and during the polish.
    checkpoints
        Where to keep the state, and whether to start from it. A run that is killed and resumed, however often, ends with the
        front of an uninterrupted one.
    time_limit
        Seconds for generations and polish together; the best front so far is returned, and `stopped` is "time".
    workbench, threshold
        A workbench of this problem, to share its fits, and which of its thresholds to search at.
    start
        Chromosomes to begin with, in addition to the others of the first generation: a warm start.

    Raises
    ------
    DesignError
        If settings, seed, jobs or time limit are invalid, or do not fit the problem.
    CheckpointError
        If the checkpoint is unreadable, or belongs to other data, settings or another seed.
    KeyboardInterrupt
        If Ctrl-C comes before any design was evaluated. Later, the best front so far is returned, and `stopped` is "interrupted".

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> problem = Problem.of(X, (X @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=300) > 0), costs=[5, 1, 1, 1], threshold=0.8)
    >>> outcome = run_evolve(problem, Settings(population=30, generations=10, max_stages=3))
    >>> outcome.stopped, outcome.fits <= 15, outcome.front.select().coverage > 0.5
    ('generations', True, True)
    """
    limit, asked = TimeLimit.of(time_limit), settings or Settings()
    genes = choose_genes(problem, asked)
    chosen = asked.for_genes(genes)
    bench: DesignBench = workbench or Workbench(problem, jobs=worker_count(jobs))
    _check_thresholds(bench, threshold)
    evaluator = GeneEvaluator(bench.evaluator(threshold, chosen.objective), genes)
    with name_time_limit(problem, limit), bench.stop.set_after(limit.fit_seconds()):
        found = evolve_population(
            evaluator,
            chosen,
            seed=seed,
            on_generation=on_generation,
            on_step=on_progress,
            checkpoints=None if checkpoints is None else _bind_to_problem(checkpoints, problem, bench, threshold, start),
            time_limit=limit.remaining(),
            make_seeds=lambda deadline: _first_designs(bench, threshold, genes, chosen, start, deadline, on_progress),
        )
        result: Evolution | PolishResult = found
        stopped, polished, designs = found.stopped, None, found.evaluations
        if chosen.polish:
            result, stopped, polished = _polish(found, chosen, evaluator, seed, limit.remaining(), on_progress)
            designs += 0 if result is found else result.evaluations
        population, ties = result.chromosomes, result.ties
        if chosen.recombine and len(population):
            # What was found is kept, should time be over during further fits.
            with suppress(FitStopped):
                population, ties = _recombine(found, result, chosen, evaluator, limit, stopped)
        missed = None
        if not len(population):
            # They were fitted before; only where time is over, and their bits are gone, nothing is known of them.
            with suppress(FitStopped):
                missed = evaluator(found.population)
    front = bench.front(bench.designs(genes.expand(population), ties.tolist(), threshold))
    return Outcome(front, "evolve", stopped, designs, bench.fits, genes, polished, missed)


def run_exhaustive(
    problem: Problem,
    settings: Settings | None = None,
    *,
    ties: Literal["count", "all"] = "count",
    max_designs: int = 100_000,
    time_limit: float | None = None,
    jobs: int | None = None,
    on_progress: OnStep | None = None,
    workbench: Workbench | None = None,
    threshold: int = 0,
) -> Outcome:
    """Search designs exactly: every non-dominated one, and how many are tied with it.

    Of the settings, stages, exclusion, pins and constraints are used. For the parameters see `exhaustive`, and for the last two
    `run_evolve`. Ctrl-C raises KeyboardInterrupt at any time: only the fits are kept, in the workbench.
    """
    limit, workers, chosen = TimeLimit.of(time_limit), worker_count(jobs), settings or Settings()
    allowed = MAX_SECONDS if limit.seconds is None else limit.seconds
    genes = choose_exact_genes(problem, chosen, allowed)
    bench = workbench or Workbench(problem, jobs=workers)
    _check_thresholds(bench, threshold)
    with name_time_limit(problem, limit), bench.stop.set_after(limit.fit_seconds()):
        population, tied, designs, missed = search_exactly(
            bench,
            chosen,
            genes,
            threshold,
            limit=limit,
            max_seconds=allowed,
            jobs=workers,
            ties=ties,
            max_designs=max_designs,
            on_progress=on_progress,
        )
    front = bench.front(bench.designs(population, tied, threshold))
    return Outcome(front, "exhaustive", "complete", designs, bench.bits.fits, genes, missed=missed)


def run_search(
    problem: Problem,
    settings: Settings | None = None,
    *,
    method: Method = "auto",
    seed: int = 0,
    jobs: int | None = None,
    on_generation: OnGeneration | None = None,
    on_progress: OnStep | None = None,
    checkpoints: Checkpoints | None = None,
    time_limit: float | None = None,
    workbench: Workbench | None = None,
    threshold: int = 0,
    start: Population | None = None,
) -> Outcome:
    """Search designs, exactly where that is affordable.

    Parameters
    ----------
    method
        "evolve", "exhaustive", or "auto": exact if it is estimated to take under a minute on one core and less than the time
        limit, else genetic; always genetic for rows with weights. The choice depends on problem, settings and time limit alone,
        not on the machine or on the jobs.
    problem, settings, seed, jobs, workbench, threshold, start
        As in `run_evolve`; an exact search needs no start.
    on_generation
        Called with a `Generation` after each one, by the genetic search.
    on_progress
        Called with a `Step` several times a second, by both.
    checkpoints
        As in `run_evolve`. The exact search keeps none and starts over; that of another run is refused here too.
    time_limit
        Seconds. The genetic search returns its front so far, see `run_evolve`; the exact one has none, see `exhaustive`.

    Raises
    ------
    DesignError, CheckpointError, KeyboardInterrupt
        As `run_evolve` and `exhaustive` do.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 4))
    >>> problem = Problem.of(X, (X @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=300) > 0), costs=[5, 1, 1, 1], threshold=0.8)
    >>> phases = []
    >>> outcome = run_search(problem, on_progress=lambda step: phases.append(step.phase))
    >>> outcome.method, outcome.stopped, sorted(set(phases))
    ('exhaustive', 'complete', ['designs', 'fits'])
    """
    if method not in ("auto", "evolve", "exhaustive"):
        raise DesignError(f"search is {method!r}: expected 'auto', 'evolve' or 'exhaustive'")
    chosen, checked = settings or Settings(), check_seed(seed)
    genes = choose_genes(problem, chosen)
    is_exact = method == "auto" and is_affordable(problem, chosen, genes, check_time_limit(time_limit))
    if is_exact or method == "exhaustive":
        by_genes = chosen.for_genes(genes)
        if checkpoints is not None:
            _bind_to_problem(checkpoints, problem, workbench, threshold, start).load(by_genes.resolved(genes.n).digest(), checked)
        return run_exhaustive(
            problem,
            replace(chosen, units=by_genes.units) if is_exact else chosen,
            time_limit=time_limit,
            jobs=jobs,
            on_progress=on_progress,
            workbench=workbench,
            threshold=threshold,
        )
    return run_evolve(
        problem,
        chosen,
        seed=checked,
        jobs=jobs,
        on_generation=on_generation,
        on_progress=on_progress,
        checkpoints=checkpoints,
        time_limit=time_limit,
        workbench=workbench,
        threshold=threshold,
        start=start,
    )


def _first_designs(
    bench: DesignBench,
    threshold: int,
    genes: Genes,
    settings: Settings,
    start: Population | None,
    deadline: float | None,
    on_progress: OnStep | None,
) -> Population:
    """Return the designs of the first generation that are not drawn: those of a warm start, and those along greedy paths."""
    space = settings.space(genes.n)
    given = np.zeros((0, space.n), dtype=np.int8) if start is None else fit_start(genes.contract(start), space)
    if not settings.seeded:
        return given
    seeds = seed_designs(bench, threshold, genes, space, settings.population, deadline=deadline, on_step=on_progress)
    return np.concatenate([given, seeds])


def _recombine(
    found: Evolution,
    result: Evolution | PolishResult,
    settings: Settings,
    evaluator: GeneEvaluator,
    limit: TimeLimit,
    stopped: StopReason,
) -> tuple[Population, Indices]:
    """Return the front of the sets that were met, the polish's among them, and how many designs that were met tie with each.

    Where time is over, or the user pressed Ctrl-C, only stages that accept nothing are dropped.
    """
    space = settings.space(evaluator.n)
    candidates = [result.chromosomes]
    # Chains are made of counts of rows, not of labels that count the same.
    if stopped not in ("interrupted", "time") and settings.objective == "plain":
        left = limit.remaining()
        sets = _sets_to_recombine(found, result, evaluator.items)
        deadline = None if left is None else time.monotonic() + left
        candidates.append(
            recombine_sets(evaluator, sets, max_stages=space.max_stages, keep_all=settings.keep_all, deadline=deadline)
        )
    population = drop_idle_stages(np.concatenate(candidates), evaluator, keep_all=settings.keep_all)
    population = population[unique_rows(population)]
    objectives = evaluator(population)
    feasible = np.flatnonzero(violations(objectives, settings.constraints) == 0)
    kept = feasible[non_dominated(objectives.take(feasible))]
    # With thousands of rows there are thousands of designs that hardly differ.
    most = max(settings.population, len(result.chromosomes))
    kept = kept[np.sort(spread_over_front(objectives.take(kept), most))]
    chosen, ties = representatives(population, objectives, kept) if settings.distinct == "objectives" else (kept, kept * 0 + 1)
    met = dict(zip(map(tuple, result.objectives.vectors().tolist()), result.ties.tolist(), strict=True))
    before = [met.get(tuple(vector), 1) for vector in objectives.vectors()[chosen].tolist()]
    return population[chosen], np.maximum(ties, before)


def _sets_to_recombine(found: Evolution, result: Evolution | PolishResult, items: int) -> Mask:
    """Return the sets of the last generation and of the polish, and the newest of the others that are affordable."""
    last = distinct_sets(np.concatenate([found.population, result.chromosomes]))
    others = found.sets[::-1][: _MAX_RECOMBINED_BITS // items]
    sets = np.concatenate([last, others])
    return sets[np.sort(np.unique(sets, axis=0, return_index=True)[1])]


@contextmanager
def name_time_limit(problem: Problem, limit: TimeLimit) -> Iterator[None]:
    """Raise an error that names the time limit where it ended the fits before there was anything to keep."""
    try:
        yield
    except FitStopped:
        widest, width = max(zip(problem.names, problem.encoder.widths, strict=True), key=lambda entry: entry[1])
        wide = f", of which {widest!r} has {width:,}" if width > 1 else ""
        detail = f"the models of {len(problem.train):,} rows have {problem.encoder.width:,} columns{wide}"
        remedy = "leave out wide columns (`drop`), or pool rare categories (`min_category=10`)"
        if not problem.settings.is_logistic:
            remedy = "or search with logistic stages, which are fitted much faster (`stages='curved'`, with `upgrade='boosted'`)"
        raise DesignError(
            f"time_limit is {limit.seconds:g} s, which was over before there was a front: {detail}. Raise it, {remedy}"
        ) from None


def _check_thresholds(bench: DesignBench, threshold: int) -> None:
    """Raise for thresholds of early stages that differ: searches know one for all stages, choices try others afterwards."""
    asked = bench.thresholds[threshold]
    if asked.early != asked.last:
        detail = f"got {asked.early} for early stages and {asked.last} for the last"
        raise DesignError(f"a search expects the same thresholds for all stages, {detail}. Give one of them")


def _bind_to_problem(
    checkpoints: Checkpoints, problem: Problem, bench: DesignBench | None, threshold: int, start: Population | None
) -> Checkpoints:
    """Return checkpoints that name the problem that they belong to, at the threshold of the search."""
    if checkpoints.problem:
        return checkpoints
    own = problem if bench is None else replace(problem, thresholds=bench.thresholds[threshold].last)
    warm = "" if start is None else hashlib.sha256(start.tobytes()).hexdigest()
    return replace(checkpoints, problem=own.digest() + warm)


def _polish(
    found: Evolution,
    settings: Settings,
    evaluator: Evaluator,
    seed: int,
    remaining: float | None,
    on_progress: OnStep | None,
) -> tuple[Evolution | PolishResult, StopReason, PolishStopReason | Literal["skipped"]]:
    """Return what generations and polish found, never less than the former, why the search ended, and how the polish did."""
    if found.stopped in ("interrupted", "time"):
        return found, found.stopped, "skipped"
    try:
        done = polish_population(evaluator, settings, found.population, seed=seed, time_limit=remaining, on_step=on_progress)
    except KeyboardInterrupt:
        return found, "interrupted", "interrupted"
    except FitStopped:
        return found, "time", "time"
    own = settings.polish_seconds
    # Where only the seconds of the polish's own are over, the search was not cut short.
    if done.stopped == "interrupted" or (done.stopped == "time" and remaining is not None and (own is None or remaining < own)):
        return done, done.stopped, done.stopped
    return done, found.stopped, done.stopped
