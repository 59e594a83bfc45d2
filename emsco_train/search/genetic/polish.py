"""Polish: a local search from the last generation, ours and not the paper's, for the designs that the generations missed.

It goes best first. Every design evaluated waits to be *expanded*, that is, to have all its neighbours evaluated; next come those
that the fewest members of the front dominate. So the front itself is expanded first, then what is just behind it, then what is
further off: where a step from the front to a missing member leads through designs that are a little worse, the search takes it.
Counting dominating members needs no scale of the objectives. Two rules keep it from digging in one place: of tied designs, the
r-th waits as if r - 1 more dominated it (ties by the thousand are plateaus to cross, not to fill), and designs that are dominated
by the same member of the front take turns.

Any design can be reached from any other by steps to neighbours (`neighbours.py`), so without bounds the search is exhaustive.
The tests measure what share of exact fronts it finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.designs.chromosome import DesignSpace, Indices, Population, unique_rows
from emsco_train.search.genetic.neighbours import neighbour_count, neighbours
from emsco_train.search.genetic.pareto import first_minima, non_dominated, rank_population, violations
from emsco_train.search.genetic.visited_designs import Hashes, VisitedDesigns, count_occurrences, merge_sorted, row_hashes
from emsco_train.search.pace import BatchedEvaluator, EvaluationInterrupted, OnStep, Step
from emsco_train.search.scoring.objectives import Evaluator, Objectives
from emsco_train.search.settings import Constraints, Settings

__all__ = ["PolishResult", "PolishStopReason", "count_dominators", "polish_population"]

PolishStopReason: TypeAlias = Literal["exhausted", "evaluations", "time", "interrupted"]

# Neighbours made in one round, about: enough to fill the evaluator's batches, few enough for memory and a fresh order.
_NEIGHBOURS_PER_ROUND = 40_000
# Neighbours made for each evaluation allowed: where most were met before, the search is nearly done and stops.
_NEIGHBOURS_PER_EVALUATION = 10
# Candidates looked at again in each round, as a multiple of those expanded.
_SHORTLIST_FACTOR = 16
# A turn missed weighs as much as this many dominating members of the front; a hundredth of a bound missed as much as one.
_TURN_WEIGHT = 0.2
_VIOLATION_WEIGHT = 100.0
# Comparisons of a point with a member of the front made at once.
_MAX_COMPARISONS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PolishResult:
    """What the local search found.

    Parameters
    ----------
    chromosomes, objectives, ties
        The front of everything evaluated, fittest first, none if none is feasible; and how many evaluated chromosomes are tied
        with each, itself included, counted as the settings say.
    evaluations, expanded
        Designs evaluated, those of the start included, and designs whose neighbours were all evaluated.
    stopped
        "exhausted" (every allowed design was evaluated), "evaluations" (their bound; or ten times as many neighbours were
        made, most of them met before), "time" or "interrupted".
    """

    chromosomes: Population
    objectives: Objectives
    ties: Indices
    evaluations: int
    expanded: int
    stopped: PolishStopReason


class _Archive:
    """Everything evaluated so far, and what of it is still to be expanded; starts from different compressed chromosomes."""

    def __init__(self, population: Population, objectives: Objectives, constraints: Constraints) -> None:
        self.population = population[:0]
        self.objectives = objectives.take(slice(0, 0))
        self.expanded = np.zeros(0, dtype=bool)
        self._constraints = constraints
        self._points: Floats = np.zeros((0, 3))
        self._front: Floats = np.zeros((0, 3))
        self._dominator_counts: Floats = np.zeros(0)
        self._penalty: Floats = np.zeros(0)
        self._visited = VisitedDesigns.empty()
        self._vector_hashes = np.zeros(0, dtype=np.uint64)
        self.add(self.take_unseen(population), objectives)

    @property
    def front_size(self) -> int:
        """Number of different vectors that nothing dominates, feasible or not."""
        return len(self._front)

    def take_unseen(self, population: Population) -> Population:
        """Return the rows not met before, each once, and remember them."""
        kept, self._visited = self._visited.take_new(population)
        return kept

    def add(self, population: Population, objectives: Objectives) -> None:
        """Add designs that were just evaluated."""
        # Rounding of huge costs could mislead the order of the search a little; the result is ranked exactly.
        points = np.column_stack([-objectives.accepted, -objectives.accuracy, objectives.cost]).astype(float)
        behind, _ = count_dominators(points, self._front)
        candidates = np.concatenate([self._front, points[behind == 0]])
        self._front = candidates[first_minima(candidates)]
        delay = self._count_repeats(objectives) + _VIOLATION_WEIGHT * violations(objectives, self._constraints)
        # In this order: if Ctrl-C comes in between, every design that has objectives is still in its place.
        self.population = np.concatenate([self.population, population])
        self.objectives = self.objectives.join([objectives])
        self.expanded = np.concatenate([self.expanded, np.zeros(len(population), dtype=bool)])
        self._points = np.concatenate([self._points, points])
        self._dominator_counts = np.concatenate([self._dominator_counts, behind])
        self._penalty = np.concatenate([self._penalty, delay])

    def expand_next(self, count: int) -> Population:
        """Return at most `count` designs to be expanded next, and mark them as expanded; none when all are."""
        waiting = np.flatnonzero(~self.expanded)
        # The front has moved on since most were counted: the likeliest are counted again.
        likely = waiting[_smallest(self._dominator_counts[waiting] + self._penalty[waiting], count * _SHORTLIST_FACTOR)]
        self._dominator_counts[likely], member = count_dominators(self._points[likely], self._front)
        urgency = self._dominator_counts[likely] + self._penalty[likely]
        chosen = likely[_smallest(urgency + _TURN_WEIGHT * _positions_in_group(member, urgency), count)]
        self.expanded[chosen] = True
        return self.population[chosen]

    def _count_repeats(self, objectives: Objectives) -> Floats:
        """Return how many designs were met before with the same objective vector as each."""
        codes = row_hashes(objectives.vectors())
        repeats = count_occurrences(self._vector_hashes, codes) + _positions_in_group(codes, np.arange(len(codes)))
        self._vector_hashes = merge_sorted(self._vector_hashes, np.sort(codes))
        return repeats


def polish_population(
    evaluator: Evaluator,
    settings: Settings,
    start: Population,
    *,
    seed: int,
    time_limit: float | None = None,
    on_step: OnStep | None = None,
) -> PolishResult:
    """Search locally from compressed chromosomes, best the whole last generation.

    The seed decides the choice among neighbours when the last ones are too many for `polish_evaluations`. The shorter of
    `polish_seconds` and `time_limit` (None: no limit) holds. When time is over, and after Ctrl-C, everything evaluated until then
    counts; only Ctrl-C while the start itself is evaluated raises KeyboardInterrupt.
    """
    resolved = settings.resolved(evaluator.n)
    space = resolved.space(evaluator.n)
    assert resolved.polish_evaluations is not None  # noqa: S101 - resolved
    limits = [seconds for seconds in (settings.polish_seconds, time_limit) if seconds is not None]
    batched = BatchedEvaluator(evaluator, time.monotonic() + min(limits) if limits else None)
    first = start[unique_rows(start)]
    # Not in batches: the search has just evaluated it, and a part of it would be worse than no polish.
    archive = _Archive(first, evaluator(first), settings.constraints)
    stopped = _search(batched, resolved.polish_evaluations, space, archive, np.random.default_rng(seed), on_step)
    return _result(archive, settings, stopped)


def _search(
    evaluator: BatchedEvaluator,
    max_evaluations: int,
    space: DesignSpace,
    archive: _Archive,
    rng: np.random.Generator,
    on_step: OnStep | None,
) -> PolishStopReason:
    """Expand designs round by round until there is a reason to stop, and return it."""
    count, made = max(1, _NEIGHBOURS_PER_ROUND // neighbour_count(space)), 0
    try:
        while len(archive.population) < max_evaluations and made < _NEIGHBOURS_PER_EVALUATION * max_evaluations:
            if evaluator.is_out_of_time():
                return "time"
            origins = archive.expand_next(count)
            if not len(origins):
                return "exhausted"
            neighbourhood = neighbours(origins, space)
            made += len(neighbourhood)
            fresh = archive.take_unseen(neighbourhood)
            room = max_evaluations - len(archive.population)
            if len(fresh) > room:
                fresh = fresh[np.sort(rng.permutation(len(fresh))[:room])]
            if len(fresh):
                archive.add(fresh, evaluator(fresh, _progress_callback(archive, max_evaluations, on_step)))
    except EvaluationInterrupted as interruption:
        if interruption.objectives is not None:
            archive.add(interruption.population, interruption.objectives)
        return interruption.reason
    except KeyboardInterrupt:
        return "interrupted"
    return "evaluations"


def _progress_callback(archive: _Archive, max_evaluations: int, on_step: OnStep | None) -> Callable[[int], object] | None:
    """Return the callback for the number of designs that a round has evaluated so far."""
    if on_step is None:
        return None
    before, front = len(archive.population), archive.front_size
    return lambda done: on_step(Step("polish", before + done, max_evaluations, front))


def count_dominators(points: Floats, front: Floats) -> tuple[Floats, Indices]:
    """Return how many members of the front dominate each point, and which is the first of them; rows are to be minimised."""
    counts, first = np.zeros(len(points)), np.zeros(len(points), dtype=np.int64)
    if not len(front):
        return counts, first
    step = max(1, _MAX_COMPARISONS // len(front))
    for begin in range(0, len(points), step):
        part = points[begin : begin + step]
        reached = np.logical_and.reduce([front[:, axis] <= part[:, axis, None] for axis in range(part.shape[1])])
        nearest = reached.argmax(axis=1)
        # A point that equals a member is dominated by none: what dominates the point would dominate the member.
        equal = (front[nearest] == part).all(axis=1)
        counts[begin : begin + step] = np.where(equal, 0, reached.sum(axis=1))
        first[begin : begin + step] = nearest
    return counts, first


def _smallest(values: Floats, count: int) -> Indices:
    """Return where the smallest values are, equal ones in their order."""
    if len(values) > 4 * count:
        within = np.flatnonzero(values <= np.partition(values, count)[count])
        return within[np.argsort(values[within], kind="stable")[:count]]
    return np.argsort(values, kind="stable")[:count].astype(np.int64)


def _positions_in_group(groups: Indices | Hashes, urgency: Floats | Indices) -> Floats:
    """Return for each candidate how many of its own group go before it."""
    order = np.lexsort((urgency, groups))
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    turns = np.empty(len(groups))
    turns[order] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return turns


def _result(archive: _Archive, settings: Settings, stopped: PolishStopReason) -> PolishResult:
    feasible = np.flatnonzero(violations(archive.objectives, settings.constraints) == 0)
    kept = feasible[non_dominated(archive.objectives.take(feasible))] if len(feasible) else feasible
    population, objectives = archive.population[kept], archive.objectives.take(kept)
    order, ties = kept[:0], kept[:0]
    if len(kept):
        ranking = rank_population(
            population, objectives, constraints=Constraints(), epsilon=settings.epsilon, distinct=settings.distinct
        )
        order, ties = ranking.order, ranking.ties
    return PolishResult(
        chromosomes=population[order],
        objectives=objectives.take(order),
        ties=ties,
        evaluations=len(archive.population),
        expanded=int(np.count_nonzero(archive.expanded)),
        stopped=stopped,
    )
