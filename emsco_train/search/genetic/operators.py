"""The operators of the genetic algorithm: first population, selection, crossover, mutation.

All are pure, work on whole populations of compressed chromosomes, and take the random generator. `space` says which designs are
allowed, `table` is that of `stage_probabilities`. Rounding is half up, in integers.
"""

from __future__ import annotations

import math

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.designs.chromosome import DesignSpace, Indices, Population, stage_counts

__all__ = ["crossover", "initial_population", "mutate", "select", "stage_probabilities"]

# The paper gives no rate for the first population; its authors use this one.
_INITIAL_RATE = 0.5
_MAX_REDRAWS = 200
# Most features of a random design of the first generation, where features may be left out.
_MAX_DRAWN = 64


def stage_probabilities(max_stages: int, beta: float) -> Floats:
    """Return the cumulative chances of mutation's draws, a row per number of stages.

    A uniform number u draws the stage `sum(u >= row)`. Row s holds the beta-binomial on 0..s (alpha = 1); at the most stages
    allowed there is no new one, and the row is renormalised over those that exist.
    """
    table = np.full((max_stages + 1, max_stages), np.inf)
    for stages in range(1, max_stages + 1):
        chances = [beta / (stages + beta)]
        for stage in range(stages):
            chances.append(chances[-1] * (stages - stage) / (stages - stage - 1 + beta))
        kept = np.array(chances[: max_stages if stages == max_stages else None])
        table[stages, : len(kept) - 1] = np.cumsum(kept / kept.sum())[:-1]
    return table


def initial_population(size: int, space: DesignSpace, table: Floats, rng: np.random.Generator) -> Population:
    """Return the first generation of a space of more than one design: single-stage chromosomes, mutated until they have two.

    Where features may be left out, each keeps only some of them: one to all, small sets as often as large ones.
    """
    least = min(2, space.max_stages)
    population = np.zeros((size, space.n), dtype=np.int8)
    waiting = np.arange(size)
    for _ in range(_MAX_REDRAWS):
        population[waiting] = mutate(np.zeros((len(waiting), space.n), dtype=np.int8), space, _INITIAL_RATE, table, rng)
        waiting = waiting[stage_counts(population[waiting]) < least]
        if not len(waiting):
            return _thin_out(population, space, rng)
    # With a large beta a new stage is so rare that, when it comes, it almost surely comes alone: one gene moves.
    free = np.setdiff1d(np.arange(space.n), space.pinned)
    population[waiting] = 0
    population[waiting, rng.choice(free, len(waiting))] = 1
    return _thin_out(population, space, rng)


def _thin_out(population: Population, space: DesignSpace, rng: np.random.Generator) -> Population:
    """Leave features out of each design until a number of them is left that is drawn evenly on a scale of logarithms."""
    if not space.allow_exclusion:
        return population
    # Sets of hundreds of columns take long to fit, and a random one is hardly ever good.
    most = min(space.n, _MAX_DRAWN)
    kept = np.exp(rng.random(len(population)) * math.log(most + 1)).astype(np.int64)
    place = rng.random(population.shape).argsort(axis=1).argsort(axis=1)
    thinned = space.repair(np.where(place < kept[:, None], population, -1).astype(np.int8))
    empty = (thinned < 0).all(axis=1, keepdims=True)
    return np.where(empty, population, thinned)


def select(log_fitness: Floats, count: int, rng: np.random.Generator) -> Indices:
    """Draw `count` parents by the roulette wheel: with replacement, in proportion to fitness.

    Of the logarithms of fitness only differences matter, so nothing overflows.
    """
    wheel = np.cumsum(np.exp(log_fitness - log_fitness.max()))
    drawn: Indices = np.searchsorted(wheel, rng.random(count) * wheel[-1], side="right").astype(np.int64)
    return drawn


def crossover(first: Population, second: Population, space: DesignSpace, rate: float, rng: np.random.Generator) -> Population:
    """Return one child for each pair of parents: by the rate, it mixes them; otherwise it is one of them, by a fair coin."""
    children = space.repair(_crossover_once(first, second, rate, rng))
    while (empty := (children < 0).all(axis=1)).any():
        children[empty] = space.repair(_crossover_once(first[empty], second[empty], rate, rng))
    return children


def mutate(population: Population, space: DesignSpace, rate: float, table: Floats, rng: np.random.Generator) -> Population:
    """Return the chromosomes with each gene redrawn with a chance of `rate`, compressed."""
    mutated = space.repair(_mutate_once(population, space, rate, table, rng))
    while (empty := (mutated < 0).all(axis=1)).any():
        mutated[empty] = space.repair(_mutate_once(population[empty], space, rate, table, rng))
    return mutated


def _crossover_once(first: Population, second: Population, rate: float, rng: np.random.Generator) -> Population:
    one, two = stage_counts(first)[:, None], stage_counts(second)[:, None]
    # Half up: (a + b + 1) // 2 is the middle of a and b.
    options = np.hstack([one, two, (one + two + 1) // 2])
    stages = np.take_along_axis(options, rng.integers(3, size=one.shape), axis=1)
    from_first = rng.random(first.shape) < 0.5
    gene = np.where(from_first, first, second).astype(np.int64)
    parts = np.where(from_first, one, two)
    # Half up of (gene + 1) / parts * stages, in integers, less one.
    scaled = (2 * (gene + 1) * stages + parts) // (2 * parts) - 1
    mixed = np.where(gene < 0, -1, np.maximum(scaled, 0))
    passed = np.where(rng.random(one.shape) < 0.5, first, second)
    return np.where(rng.random(one.shape) < rate, mixed, passed).astype(np.int8)


def _mutate_once(population: Population, space: DesignSpace, rate: float, table: Floats, rng: np.random.Generator) -> Population:
    rows, columns = np.nonzero(rng.random(population.shape) < rate)
    # Stages before any gene of the chromosome is redrawn, so that the published P_incr holds.
    stages = stage_counts(population)[rows]
    drawn = (rng.random(len(rows))[:, None] >= table[stages]).sum(axis=1)
    if space.allow_exclusion:
        drawn[rng.random(len(rows)) < 1 / (stages + 2)] = -1
    mutated = population.copy()
    mutated[rows, columns] = drawn
    return mutated
