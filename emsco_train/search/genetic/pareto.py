"""Pareto ranks, constraints and fitness of one generation, and which design represents those that are tied.

Order is exact: accepted counts and costs are integers, and accuracies are fractions that float64 orders exactly (`MAX_UNITS`).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Literal

import moocore
import numpy as np

from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.designs.chromosome import Indices, Population, row_keys, stage_counts, unique_rows
from emsco_train.search.genetic.added_volume import added_volume
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Constraints

__all__ = [
    "Ranking",
    "first_minima",
    "log_fitness",
    "non_dominated",
    "objective_points",
    "pareto_layers",
    "pareto_ranks",
    "rank_population",
    "representatives",
    "spread_over_front",
    "violations",
]


def objective_points(objectives: Objectives) -> Floats:
    """Return one row per design to be minimised; order in each column is exactly that of the objective."""
    # Costs may need more than 53 bits; their positions among the distinct costs never do.
    cost = np.unique(objectives.cost, return_inverse=True)[1]
    return np.column_stack([-objectives.accepted.astype(float), -objectives.accuracy, cost.astype(float)])


def pareto_layers(objectives: Objectives, violation: Floats | None = None) -> Indices:
    """Return the index t of the set E_t that each design is peeled off with; E_0 is not dominated.

    A feasible design (violation 0) beats one that is not, then the smaller violation does.

    Examples
    --------
    >>> three = Objectives(np.array([5, 5, 4]), np.array([5, 5, 4]), np.array([7, 7, 7]), rows=9)
    >>> pareto_layers(three).tolist()
    [0, 0, 1]
    """
    if violation is None or not violation.any():
        return np.asarray(moocore.pareto_rank(objective_points(objectives)), dtype=np.int64)
    layers = np.empty(len(objectives), dtype=np.int64)
    feasible = violation == 0
    layers[feasible] = pareto_layers(objectives.take(feasible)) if feasible.any() else 0
    first = layers[feasible].max(initial=-1) + 1
    layers[~feasible] = first + np.unique(violation[~feasible], return_inverse=True)[1]
    return layers


def pareto_ranks(layers: Indices) -> Indices:
    """Return ranks: t* - t, so that the designs that nothing dominates have the largest."""
    ranks: Indices = layers.max() - layers
    return ranks


def non_dominated(objectives: Objectives) -> Mask:
    """Return which designs no other dominates; equal ones do not dominate each other."""
    return np.asarray(moocore.is_nondominated(objective_points(objectives), keep_weakly=True), dtype=np.bool_)


def first_minima(points: Floats) -> Mask:
    """Return which rows, each to be minimised, no other dominates; of equal rows just the first."""
    return np.asarray(moocore.is_nondominated(points), dtype=np.bool_)


def spread_over_front(objectives: Objectives, count: int) -> Indices:
    """Return at most `count` of some designs, those that together dominate most, in the order in which they add to that.

    The volume is as in `Front.hypervolume`, up to twice the largest cost here: so that those that cover most count, too.
    """
    if len(objectives) <= count:
        return np.arange(len(objectives))
    points = np.column_stack([-objectives.coverage, -objectives.accuracy, objectives.cost / max(1, int(objectives.cost.max()))])
    reference = np.array([0.0, 0.0, 2.0])
    # What a design adds only gets less as others are taken: one whose last measure leads the others' is the next.
    waiting = list(zip((-np.prod(reference - points, axis=1)).tolist(), range(len(points)), strict=True))
    heapq.heapify(waiting)
    taken: list[int] = []
    # By cost, as the volume is summed, and their costs.
    by_cost, costs = np.zeros(0, dtype=np.int64), np.zeros(0)
    while len(taken) < count:
        _, index = heapq.heappop(waiting)
        gain = added_volume(points, by_cost, index, reference)
        if waiting and -gain > waiting[0][0]:
            heapq.heappush(waiting, (-gain, index))
            continue
        taken.append(index)
        place = int(np.searchsorted(costs, points[index, 2]))
        by_cost, costs = np.insert(by_cost, place, index), np.insert(costs, place, points[index, 2])
    return np.array(taken, dtype=np.int64)


def violations(objectives: Objectives, constraints: Constraints) -> Floats:
    """Return by how much each design misses its constraints: the sum of the misses, each by its bound; 0 when feasible."""
    return constraints.violations(objectives.mean_cost, objectives.coverage, objectives.accuracy)


def log_fitness(performance: Floats, ranks: Indices, epsilon: float) -> Floats:
    """Return the logarithm of gamma^rank E, with gamma = max E / min E + epsilon; above 0, a higher rank is always fitter."""
    gamma = performance.max() / performance.min() + epsilon
    fitness: Floats = ranks * np.log(gamma) + np.log(performance)
    return fitness


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """How the chromosomes of one generation compare.

    Parameters
    ----------
    log_fitness
        Of every chromosome of the generation: its share of the roulette wheel.
    order
        Indices of the distinct ones, fittest first; equal fitness in lexicographic order.
    ties
        How many different chromosomes are tied with each of `order`, itself included.
    front
        How many of `order`, from its start, nothing dominates (|E0*|).
    feasible
        Whether these satisfy the constraints.
    """

    log_fitness: Floats
    order: Indices
    ties: Indices
    front: int
    feasible: bool


def rank_population(
    population: Population,
    objectives: Objectives,
    *,
    constraints: Constraints,
    epsilon: float,
    distinct: Literal["objectives", "chromosomes"],
    share_ties: bool = False,
) -> Ranking:
    """Rank a generation, repeats included, and find its distinct chromosomes.

    With distinct="objectives", of tied chromosomes the one with fewest stages, then the lexicographically least, represents all;
    `share_ties` divides their fitness by their number, repeats included.
    """
    violation = violations(objectives, constraints) if constraints.any() else None
    layers = pareto_layers(objectives, violation)
    performance = objectives.performance()
    kept = unique_rows(population)
    ties = np.ones(len(kept), dtype=np.int64)
    if distinct == "objectives":
        kept, ties = representatives(population, objectives, kept)
    # By rank and then E rather than by their product: rounding cannot reverse the two.
    by_fitness = np.lexsort((row_keys(population[kept]), -performance[kept], layers[kept]))
    order = kept[by_fitness]
    fitness = log_fitness(performance, pareto_ranks(layers), epsilon)
    return Ranking(
        log_fitness=fitness - np.log(_tie_counts(objectives)) if share_ties else fitness,
        order=order,
        ties=ties[by_fitness],
        front=int(np.count_nonzero(layers[order] == 0)),
        feasible=violation is None or not violation[order[0]],
    )


def _tie_counts(objectives: Objectives) -> Indices:
    """Return with how many designs each one is tied, itself included."""
    _, inverse, counts = np.unique(objectives.vectors(), axis=0, return_inverse=True, return_counts=True)
    return counts[inverse.reshape(-1)].astype(np.int64)


def representatives(population: Population, objectives: Objectives, index: Indices) -> tuple[Indices, Indices]:
    """Return which chromosome represents each set of tied ones, and how many they are.

    Of the population, those at `index` are looked at: different chromosomes in lexicographic order.
    """
    vectors = objectives.vectors()[index]
    # A stable sort keeps the lexicographic order where vectors and stages are equal.
    by_vector = np.lexsort((stage_counts(population[index]), *vectors.T))
    ordered = vectors[by_vector]
    starts = np.flatnonzero(np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)])
    ties = np.diff(np.r_[starts, len(index)])
    return index[by_vector[starts]], ties.astype(np.int64)
