"""The exact search of a problem: whether it is affordable, the fits of all feature sets, and every design over their bits.

There is no partial result: designs that were not yet visited may dominate those that were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.problem import Problem
from emsco_train.designs.chromosome import Population
from emsco_train.designs.genes import Genes
from emsco_train.errors import DesignError
from emsco_train.search.exact.bit_counting import MAX_ENUMERATED_ROWS
from emsco_train.search.exact.set_bits import SetBits
from emsco_train.search.exact.workload import MAX_FEATURES, Workload, estimate_workload
from emsco_train.search.genetic.pareto import violations
from emsco_train.search.pace import AdaptiveBatches, OnStep, Step, TimeLimit
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

if TYPE_CHECKING:
    from emsco_train.search.exact.exact_front import ExactFront

__all__ = ["MAX_SECONDS", "fits_within", "is_affordable", "search_exactly"]

# "auto" searches exactly what is estimated to take no longer than this on one core, and has no more genes.
_AFFORDABLE_S = 60.0
_AFFORDABLE_GENES = 14
# Without a limit of the user's, an exact search is estimated to take at most this.
MAX_SECONDS = 3600.0
# Memory of bits and tables.
_MAX_BYTES = 2**30
# What a fit takes on one core of a small server: at least, and for each train row and column; with more than two labels, as
# many times more as a third of their number squared.
_PER_FIT_S, _PER_CELL_S = 5e-5, 2.5e-8


def search_exactly(
    bench: Workbench,
    settings: Settings,
    genes: Genes,
    threshold: int,
    *,
    limit: TimeLimit,
    max_seconds: float,
    jobs: int,
    ties: Literal["count", "all"],
    max_designs: int,
    on_progress: OnStep | None,
) -> tuple[Population, list[int], int, Objectives | None]:
    """Search every design of a workbench's problem by genes; what would take over `max_seconds` is refused before any fit.

    Returns the feasible designs of the front by features, how many are tied with each, itself included, the number of designs
    in the space, and, where none is feasible, what those of the front do.
    """
    chosen = settings.for_genes(genes).resolved(genes.n)
    if bench.row_units is not None:
        raise DesignError(
            "the exact search counts rows and cannot count their weights: use `search='evolve'`, or leave the weights out"
        )
    if chosen.objective != "plain":
        raise DesignError(
            "the exact search counts all rows the same: use `search='evolve'` for a balanced objective, or leave that out"
        )
    workers = _affordable_jobs(bench.problem, chosen, genes, jobs)
    work = _estimate_work(bench.problem, chosen, genes, max(workers, 1))
    if workers == 0:
        rows = pluralize(len(bench.problem.validation), f"{bench.problem.validation.name} row")
        detail = f"{rows} would take {work.bytes / 2**20:,.0f} MiB, {_MAX_BYTES / 2**20:,.0f} MiB are allowed"
        remedy = f"Search on a sample of fewer than {MAX_ENUMERATED_ROWS:,} rows (`max_search_rows`), or use `search='evolve'`"
        raise DesignError(f"the exact search is too large: {detail}. {remedy}")
    if work.seconds_estimate > max_seconds:
        designs = pluralize(work.designs, "design")
        detail = f"{designs} would take about {work.seconds_estimate:,.3g} s, {max_seconds:,.3g} s are allowed"
        raise DesignError(
            f"the exact search is too large: {detail}. Lower `max_stages`, raise `time_limit`, or use `search='evolve'`"
        )
    from emsco_train.search.exact.exact_front import enumerate_front  # noqa: PLC0415 - loads compiled code that a genetic search never needs

    on_step = _limited_progress(limit, on_progress)
    exact = enumerate_front(
        _collect_set_bits(bench, genes, threshold, on_step),
        genes.n,
        max_stages=chosen.max_stages or 1,
        allow_exclusion=not chosen.keep_all,
        pinned=sum(1 << position for position in chosen.pinned),
        jobs=workers,
        ties=ties,
        max_designs=max_designs,
        on_progress=on_step,
    )
    offset = bench.evaluator(threshold).offset
    objectives = Objectives(exact.accepted, exact.right, exact.cost, exact.rows, offset, bench.units.scale)
    population, tied = _feasible_designs(exact, objectives, chosen)
    return genes.expand(population), tied, exact.designs, None if len(population) else objectives


def fits_within(problem: Problem, settings: Settings, genes: Genes, seconds: float) -> bool:
    """Return whether an exact search by these genes fits into memory, and is estimated to take no longer, without the fits."""
    if genes.n > MAX_FEATURES:
        return False
    chosen = settings.for_genes(genes).resolved(genes.n)
    return (
        _affordable_jobs(problem, chosen, genes, 1) > 0 and _estimate_work(problem, chosen, genes, 1).seconds_estimate <= seconds
    )


def is_affordable(problem: Problem, settings: Settings, genes: Genes, time_limit: float | None = None) -> bool:
    """Return whether "auto" searches this problem exactly: few genes, and an estimate within a minute and the time limit.

    Rows with weights are never searched exactly, nor for a balanced objective: the bits are counted there, not summed.
    """
    if settings.objective != "plain":
        return False
    # Other classifiers are fitted one by one, and each fit takes far longer than a logistic regression.
    if genes.n > _AFFORDABLE_GENES or not problem.settings.is_logistic or problem.validation.weights is not None:
        return False
    allowed = _AFFORDABLE_S if time_limit is None else min(_AFFORDABLE_S, time_limit)
    # For one core whatever the jobs, so that these do not change which search is made, and so the front.
    return fits_within(problem, settings, genes, allowed - _fit_seconds(problem, genes))


def _estimate_work(problem: Problem, settings: Settings, genes: Genes, jobs: int) -> Workload:
    stages, rows = settings.max_stages or 1, len(problem.validation)
    return estimate_workload(genes.n, stages, rows, allow_exclusion=not settings.keep_all, jobs=jobs)


def _affordable_jobs(problem: Problem, settings: Settings, genes: Genes, jobs: int) -> int:
    """Return how many of `jobs` threads fit into the memory allowed, each with its table of limits; 0 if not even one does."""
    if len(problem.validation) >= MAX_ENUMERATED_ROWS:
        return 0
    fitting = (count for count in range(jobs, 0, -1) if _estimate_work(problem, settings, genes, count).bytes <= _MAX_BYTES)
    return next(fitting, 0)


def _fit_seconds(problem: Problem, genes: Genes) -> float:
    """Return about how long the fits of all sets of genes take on one core, where they are logistic regressions."""
    columns, labels = problem.encoder.width, len(problem.labels)
    per_row = columns * _PER_CELL_S * (1.0 if labels == 2 else labels**2 / 3)
    per_set = sum(_PER_FIT_S + len(part.fitted) * per_row for part in problem.parts)
    return float(2**genes.n * per_set)


def _limited_progress(limit: TimeLimit, on_progress: OnStep | None) -> OnStep:
    """Return a callback for every step: it passes the step on, and raises once the time is over, which ends the search."""

    def on_step(step: Step) -> None:
        if on_progress is not None:
            on_progress(step)
        things, done = ("feature set", "fitted") if step.phase == "fits" else ("design", "visited")
        if limit.remaining() == 0.0 and (step.phase == "fits" or step.done < step.total):
            detail = f"{step.done:,} of {pluralize(step.total, things)} were {done}"
            remedy = "Raise `time_limit`, lower `max_stages`, or use `search='evolve'`, which keeps its front so far"
            raise DesignError(f"the exact search did not finish within `time_limit`, {limit.seconds:.3g} s: {detail}. {remedy}")

    return on_step


def _collect_set_bits(bench: Workbench, genes: Genes, threshold: int, on_step: OnStep) -> SetBits:
    """Fit every set of genes and return the bits by mask."""
    masks = np.arange(1, 2**genes.n)
    sets = genes.expand_sets(((masks[:, None] >> np.arange(genes.n)) & 1).astype(np.bool_))
    for part, _ in AdaptiveBatches(least=bench.jobs).run(len(sets), lambda part: bench.bits.locate(sets[part])):
        on_step(Step("fits", part.stop, len(sets)))
    rows = bench.bits.locate(sets)
    empty = np.zeros((1, bench.bits.words), dtype=np.uint64)
    confident = np.concatenate([empty, bench.bits.confident(bench.bits_of(threshold))[rows]])
    right = np.concatenate([empty, bench.bits.right(bench.bits_of(threshold))[rows]])
    cost = np.concatenate([[0], bench.units.cost(sets)])
    return SetBits(confident, right, cost, rows=bench.bits.items)


def _feasible_designs(exact: ExactFront, objectives: Objectives, settings: Settings) -> tuple[Population, list[int]]:
    """Return the designs of the exact front that satisfy the constraints, with their ties."""
    kept = np.flatnonzero(violations(objectives, settings.constraints) == 0)
    if exact.tied is None:
        return exact.chromosomes[kept], exact.ties[kept].tolist()
    tied = [exact.tied[index] for index in kept.tolist()]
    counts = [len(designs) for designs in tied for _ in range(len(designs))]
    return (np.concatenate(tied) if tied else exact.chromosomes[:0]), counts
