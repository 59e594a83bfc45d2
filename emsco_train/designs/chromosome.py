"""Chromosomes: a design as one small integer per feature, its stage.

Stages count from 0; -1 leaves a feature out. A chromosome is *compressed* when no stage is empty. Populations are int8 arrays
[designs, features], and every function here works on all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_number

__all__ = [
    "DesignSpace",
    "Indices",
    "Population",
    "compress",
    "decode",
    "design_count",
    "encode",
    "row_keys",
    "stage_counts",
    "unique_rows",
]

Population: TypeAlias = NDArray[np.int8]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DesignSpace:
    """Which designs are allowed.

    Parameters
    ----------
    n
        Number of features.
    max_stages
        Most stages of a design.
    allow_exclusion
        Whether features may be left out.
    pinned
        Positions of the features that stay in the first stage.
    """

    n: int
    max_stages: int
    allow_exclusion: bool = False
    pinned: tuple[int, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether the design with everything in one stage is the only one."""
        free = self.n - len(self.pinned)
        return free == 0 or self.n == 1 or (self.max_stages == 1 and not self.allow_exclusion)

    def repair(self, population: Population) -> Population:
        """Return chromosomes with the pinned features in the first stage, compressed."""
        if self.pinned:
            population = population.copy()
            population[:, self.pinned] = 0
        return compress(population)


def compress(population: Population) -> Population:
    """Close the gaps: the stages in use become 0, 1, 2, ... in their order; -1 stays.

    Examples
    --------
    >>> compress(np.array([[0, 0, 2, 3], [-1, 4, 2, 2]], dtype=np.int8)).tolist()
    [[0, 0, 1, 2], [-1, 1, 0, 0]]
    """
    if population.size == 0:
        return population.copy()
    rows = np.arange(len(population))[:, None]
    used = np.zeros((len(population), int(population.max()) + 2), dtype=bool)
    # Index -1 writes to the last column, which is kept for just that.
    used[rows, population] = True
    renamed = np.cumsum(used, axis=1, dtype=np.int8) - np.int8(1)
    renamed[:, -1] = -1
    return renamed[rows, population]


def stage_counts(population: Population) -> Indices:
    """Return the number of stages of each compressed chromosome."""
    counts: Indices = population.max(axis=1).astype(np.int64) + 1
    return counts


def decode(chromosome: Population) -> tuple[tuple[int, ...], ...]:
    """Return the feature positions of each stage.

    Examples
    --------
    >>> decode(np.array([0, 0, 2, 1, 2], dtype=np.int8))
    ((0, 1), (3,), (2, 4))
    """
    stages = range(int(chromosome.max()) + 1)
    return tuple(tuple(np.flatnonzero(chromosome == stage).tolist()) for stage in stages)


def encode(stages: Sequence[Sequence[int]], n: int) -> Population:
    """Return the chromosome of stages of feature positions; positions not named are left out (-1).

    Examples
    --------
    >>> encode([[0, 1], [3], [4]], 5).tolist()
    [0, 0, -1, 1, 2]
    """
    named = [position for stage in stages for position in stage]
    if len(set(named)) < len(named) or not all(stages) or not stages or not all(0 <= position < n for position in named):
        given = [list(stage) for stage in stages]
        raise DesignError(
            f"stages are {given}: stages that are not empty, each with positions in [0, {n - 1}], none twice, are due"
        )
    chromosome = np.full(n, -1, dtype=np.int8)
    for number, stage in enumerate(stages):
        chromosome[list(stage)] = number
    return chromosome


def row_keys(population: Population) -> NDArray[np.bytes_]:
    """Return one byte string per row, whose order is the rows' lexicographic order (-1 first)."""
    shifted = np.ascontiguousarray(population + np.int8(1), dtype=np.uint8)
    return shifted.view(f"S{population.shape[1]}")[:, 0]


def unique_rows(population: Population) -> Indices:
    """Return the indices of the first of each set of equal rows, in the rows' lexicographic order.

    Examples
    --------
    >>> unique_rows(np.array([[0, 1], [0, 0], [0, 1]], dtype=np.int8)).tolist()
    [1, 0]
    """
    return np.unique(row_keys(population), return_index=True)[1].astype(np.int64)


def design_count(n: int, stages: int, *, exactly: bool = False, exclusion: bool = False) -> int:
    """Return how many designs n features have.

    Parameters
    ----------
    n
        Number of features.
    stages
        Number of stages.
    exactly
        Count the designs with just this number of stages; otherwise those with 1 to this number.
    exclusion
        Whether features may be left out (at least one stays).

    Examples
    --------
    >>> design_count(12, 4, exactly=True)
    14676024
    >>> design_count(12, 4, exclusion=True)
    195926549
    """
    if not all(is_number(value) and value == int(value) and value >= 1 for value in (n, stages)):
        raise DesignError(f"n is {n!r} and stages is {stages!r}: integers of 1 or more are due")
    counts = range(stages if exactly else 1, stages + 1)
    if exclusion:
        # The features left out are one more block, which has no place in the order and may be empty: j! S2(n + 1, j + 1).
        return sum(_surjection_count(n + 1, count + 1) // (count + 1) for count in counts)
    return sum(_surjection_count(n, count) for count in counts)


def _surjection_count(n: int, stages: int) -> int:
    """Return j! S2(n, j): the ways to put n things into j ordered boxes, none empty."""
    signs = ((-1) ** (stages - used) for used in range(stages + 1))
    return sum(sign * math.comb(stages, used) * used**n for used, sign in enumerate(signs))
