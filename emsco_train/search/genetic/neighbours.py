"""Neighbours of a design, for the local search.

One feature moves to another stage, or to a new one anywhere in the order, or (with exclusion) out or in; two adjacent stages
merge; two features swap stages. Any design can be reached from any other.
"""

from __future__ import annotations

import numpy as np

from emsco_train.designs.chromosome import DesignSpace, Population, compress

__all__ = ["neighbour_count", "neighbours"]


def neighbour_count(space: DesignSpace) -> int:
    """Return about how many neighbours are made of one design, repeats included."""
    return space.n * (2 * space.max_stages + 2) + space.n * (space.n - 1) // 2 + space.max_stages - 1


def neighbours(population: Population, space: DesignSpace) -> Population:
    """Return the neighbours of all these designs, one after the other; repeats, and the designs themselves, included.

    Examples
    --------
    >>> near = neighbours(np.array([[0, 0]], dtype=np.int8), DesignSpace(2, 2))
    >>> sorted(set(map(tuple, near.tolist())))
    [(0, 0), (0, 1), (1, 0)]
    """
    found = compress(
        np.concatenate([_move_features(population, space), _merge_stages(population, space), _swap_features(population)])
    )
    last = found.max(axis=1)
    allowed = (last >= 0) & (last < space.max_stages) & (found[:, list(space.pinned)] == 0).all(axis=1)
    kept: Population = found[allowed]
    return kept


def _move_features(population: Population, space: DesignSpace) -> Population:
    # Stage s becomes 2s + 1: odd numbers are the stages there are, even ones new stages before, between and behind them.
    spread = np.where(population < 0, -1, 2 * population + 1).astype(np.int8)
    targets = np.arange(-1 if space.allow_exclusion else 0, 2 * int(population.max()) + 3, dtype=np.int8)
    features = np.arange(population.shape[1])
    moved = np.tile(spread[:, None, None, :], (1, len(targets), len(features), 1))
    moved[:, :, features, features] = targets[None, :, None]
    return moved.reshape(-1, population.shape[1])


def _merge_stages(population: Population, space: DesignSpace) -> Population:
    merges = np.arange(space.max_stages - 1, dtype=np.int8)[:, None]
    merged = population[:, None, :] - (population[:, None, :] > merges)
    return merged.reshape(-1, population.shape[1]).astype(np.int8)


def _swap_features(population: Population) -> Population:
    one, two = np.triu_indices(population.shape[1], 1)
    # Of a thousand features most are left out: swapping two of these changes nothing, and would fill the memory.
    design, pair = np.nonzero(population[:, one] != population[:, two])
    swapped, places = population[design], np.arange(len(design))
    swapped[places, one[pair]], swapped[places, two[pair]] = population[design, two[pair]], population[design, one[pair]]
    return swapped
