"""Polish: a local search from the last generation, ours and not the paper's, for the designs that the generations missed.

It goes best first. Every design evaluated waits to be *opened*, that is, to have all its neighbours evaluated; next come those
that the fewest members of the front dominate. So the front itself is opened first, then what is just behind it, then what is
further off: where a step from the front to a missing member leads through designs that are a little worse, the search takes it.
Counting who dominates needs no scale of the objectives. Two rules keep it from digging in one place: of designs that are tied,
the r-th waits as if r - 1 more dominated it (ties by the thousand are plateaus to cross, not to fill), and designs that are
dominated by the same member of the front take turns.

Any design can be reached from any other by steps to neighbours (`neighbours.py`), so without bounds the search is exhaustive.
The tests say what share of exact fronts it finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from emsco_runtime._arrays import Floats
from emsco_train.designs.chromosome import Indices, Population, Space, unique_rows
from emsco_train.genetic.neighbours import neighbour_count, neighbours
from emsco_train.genetic.pace import Cut, OnStep, PacedEvaluator, Step
from emsco_train.genetic.pareto import minima, non_dominated, standing, violations
from emsco_train.genetic.visited import Hashes, Visited, count_in, merged_sorted, row_hashes
from emsco_train.scoring.objectives import Evaluator, Objectives
from emsco_train.settings import Constraints, Settings

__all__ = ["Polish", "PolishEnd", "dominators", "polish_population"]

PolishEnd: TypeAlias = Literal["exhausted", "evaluations", "time", "interrupted"]

# Neighbours made in one round, about: enough to fill the evaluator's batches, few enough for memory and a fresh order.
_NEIGHBOURS = 40_000
# Neighbours made for each evaluation allowed: where most were met before, the search is nearly done and ends.
_AGAIN = 10
# Candidates looked at again in each round, as a multiple of those opened.
_SHORTLIST = 16
# A turn missed weighs as much as this many dominating members of the front; a hundredth of a bound missed as much as one.
_TURN = 0.2
_MISS = 100.0
# Comparisons of a point with a member of the front made at once.
_CELLS = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Polish:
    """What the local search found.

    Parameters
    ----------
    chromosomes
        The front of everything evaluated, fittest first, ties counted as the settings say; none if none is feasible.
    objectives
        Of each of them.
    ties
        How many evaluated chromosomes each stands for.
    evaluations
        Designs evaluated, those of the start included.
    opened
        Designs whose neighbours were all evaluated.
    stopped
        "exhausted" (every allowed design was evaluated), "evaluations" (their bound; or ten times as many neighbours were
        made, most of them met before), "time" or "interrupted".
    elapsed_s
        Seconds that it took.
    """

    chromosomes: Population
    objectives: Objectives
    ties: Indices
    evaluations: int
    opened: int
    stopped: PolishEnd
    elapsed_s: float


class _Pool:
    """Everything evaluated so far, and what of it is still to be opened.

    Parameters
    ----------
    population
        Different compressed chromosomes to begin from.
    objectives
        Of each of them.
    constraints
        What designs must satisfy.
    """

    def __init__(self, population: Population, objectives: Objectives, constraints: Constraints) -> None:
        self.population = population[:0]
        self.objectives = objectives.take(slice(0, 0))
        self.opened = np.zeros(0, dtype=bool)
        self._constraints = constraints
        self._points: Floats = np.zeros((0, 3))
        self._front: Floats = np.zeros((0, 3))
        self._behind: Floats = np.zeros(0)
        self._delay: Floats = np.zeros(0)
        self._seen = Visited.none()
        self._met = np.zeros(0, dtype=np.uint64)
        self.add(self.unseen(population), objectives)

    @property
    def front_size(self) -> int:
        """Number of different vectors that nothing dominates, feasible or not."""
        return len(self._front)

    def unseen(self, population: Population) -> Population:
        """Return the rows not met before, each once, and remember them."""
        kept, self._seen = self._seen.taking(population)
        return kept

    def add(self, population: Population, objectives: Objectives) -> None:
        """Take in designs that were just evaluated."""
        # Rounding of huge costs could mislead the order of the search a little; the result is ranked exactly.
        points = np.column_stack([-objectives.accepted, -objectives.accuracy, objectives.cost]).astype(float)
        behind, _ = dominators(points, self._front)
        candidates = np.concatenate([self._front, points[behind == 0]])
        self._front = candidates[minima(candidates)]
        delay = self._repeats(objectives) + _MISS * violations(objectives, self._constraints)
        # In this order: should Ctrl-C come in between, every design that has objectives is still in its place.
        self.population = np.concatenate([self.population, population])
        self.objectives = self.objectives.join([objectives])
        self.opened = np.concatenate([self.opened, np.zeros(len(population), dtype=bool)])
        self._points = np.concatenate([self._points, points])
        self._behind = np.concatenate([self._behind, behind])
        self._delay = np.concatenate([self._delay, delay])

    def open(self, count: int) -> Population:
        """Return so many designs to be opened next, and mark them so; none when all are."""
        waiting = np.flatnonzero(~self.opened)
        # The front has moved on since most were counted: the likeliest are counted again.
        likely = waiting[_least(self._behind[waiting] + self._delay[waiting], count * _SHORTLIST)]
        self._behind[likely], member = dominators(self._points[likely], self._front)
        urgency = self._behind[likely] + self._delay[likely]
        chosen = likely[_least(urgency + _TURN * _turns(member, urgency), count)]
        self.opened[chosen] = True
        return self.population[chosen]

    def _repeats(self, objectives: Objectives) -> Floats:
        """Return how many designs were met before with the same objective vector as each."""
        codes = row_hashes(objectives.vectors())
        repeats = count_in(self._met, codes) + _turns(codes, np.arange(len(codes)))
        self._met = merged_sorted(self._met, np.sort(codes))
        return repeats


def polish_population(
    evaluator: Evaluator,
    settings: Settings,
    start: Population,
    *,
    seed: int,
    time_limit: float | None = None,
    on_step: OnStep | None = None,
) -> Polish:
    """Search locally from a population, or a front.

    Parameters
    ----------
    evaluator
        Tells the objectives of designs.
    settings
        `polish_evaluations` and `polish_seconds` bound the search; `max_stages`, exclusion, pins and constraints hold.
    start
        Compressed chromosomes to begin from; best the whole last generation.
    seed
        Of the choice among neighbours when the last ones are too many for the bound.
    time_limit
        Seconds for this call, where they are fewer than `polish_seconds`; None for those alone. Looked at several times a second.
    on_step
        Called with a `Step` of the phase "polish", several times a second.

    Notes
    -----
    When time is over, and after Ctrl-C, everything evaluated until then counts. Only Ctrl-C while the start itself is evaluated
    goes on to the caller.
    """
    started = time.monotonic()
    full = settings.resolved(evaluator.n)
    space = Space.of(full, evaluator.n)
    assert full.polish_evaluations is not None  # noqa: S101 - resolved
    limits = [seconds for seconds in (settings.polish_seconds, time_limit) if seconds is not None]
    paced = PacedEvaluator(evaluator, started + min(limits) if limits else None)
    first = start[unique_rows(start)]
    # Not paced: the search has just evaluated it, and a part of it would be worse than no polish.
    pool = _Pool(first, evaluator(first), settings.constraints)
    stopped = _search(paced, full.polish_evaluations, space, pool, np.random.default_rng(seed), on_step)
    return _result(pool, settings, stopped, time.monotonic() - started)


def _search(
    evaluator: PacedEvaluator, most: int, space: Space, pool: _Pool, rng: np.random.Generator, on_step: OnStep | None
) -> PolishEnd:
    """Open designs round by round until there is a reason to end, and return it."""
    count, made = max(1, _NEIGHBOURS // neighbour_count(space)), 0
    try:
        while len(pool.population) < most and made < _AGAIN * most:
            if evaluator.over():
                return "time"
            origins = pool.open(count)
            if not len(origins):
                return "exhausted"
            near = neighbours(origins, space)
            made += len(near)
            fresh = pool.unseen(near)
            room = most - len(pool.population)
            if len(fresh) > room:
                fresh = fresh[np.sort(rng.permutation(len(fresh))[:room])]
            if len(fresh):
                pool.add(fresh, evaluator.told(fresh, _teller(pool, most, on_step)))
    except Cut as cut:
        if cut.objectives is not None:
            pool.add(cut.population, cut.objectives)
        return cut.reason
    except KeyboardInterrupt:
        return "interrupted"
    return "evaluations"


def _teller(pool: _Pool, most: int, on_step: OnStep | None) -> Callable[[int], object] | None:
    """Return what is to be called with the number of designs that a round has evaluated so far."""
    if on_step is None:
        return None
    before, front = len(pool.population), pool.front_size
    return lambda done: on_step(Step("polish", before + done, most, front))


def dominators(points: Floats, front: Floats) -> tuple[Floats, Indices]:
    """Return how many members of the front dominate each point, and which is the first of them.

    Parameters
    ----------
    points
        Rows to be minimised.
    front
        Different rows of which none dominates another.
    """
    counts, first = np.zeros(len(points)), np.zeros(len(points), dtype=np.int64)
    if not len(front):
        return counts, first
    step = max(1, _CELLS // len(front))
    for begin in range(0, len(points), step):
        part = points[begin : begin + step]
        reached = np.logical_and.reduce([front[:, axis] <= part[:, axis, None] for axis in range(part.shape[1])])
        nearest = reached.argmax(axis=1)
        # A point that equals a member is dominated by none: what dominates the point would dominate the member.
        equal = (front[nearest] == part).all(axis=1)
        counts[begin : begin + step] = np.where(equal, 0, reached.sum(axis=1))
        first[begin : begin + step] = nearest
    return counts, first


def _least(values: Floats, count: int) -> Indices:
    """Return where the smallest values are, equal ones in their order."""
    if len(values) > 4 * count:
        within = np.flatnonzero(values <= np.partition(values, count)[count])
        return within[np.argsort(values[within], kind="stable")[:count]]
    return np.argsort(values, kind="stable")[:count].astype(np.int64)


def _turns(groups: Indices | Hashes, urgency: Floats | Indices) -> Floats:
    """Return for each candidate how many of its own group go before it."""
    order = np.lexsort((urgency, groups))
    starts = np.flatnonzero(np.r_[True, groups[order][1:] != groups[order][:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    turns = np.empty(len(groups))
    turns[order] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return turns


def _result(pool: _Pool, settings: Settings, stopped: PolishEnd, elapsed_s: float) -> Polish:
    feasible = np.flatnonzero(violations(pool.objectives, settings.constraints) == 0)
    kept = feasible[non_dominated(pool.objectives.take(feasible))] if len(feasible) else feasible
    population, objectives = pool.population[kept], pool.objectives.take(kept)
    order, ties = kept[:0], kept[:0]
    if len(kept):
        placed = standing(population, objectives, constraints=Constraints(), epsilon=settings.epsilon, distinct=settings.distinct)
        order, ties = placed.order, placed.ties
    return Polish(
        chromosomes=population[order],
        objectives=objectives.take(order),
        ties=ties,
        evaluations=len(pool.population),
        opened=int(np.count_nonzero(pool.opened)),
        stopped=stopped,
        elapsed_s=elapsed_s,
    )
