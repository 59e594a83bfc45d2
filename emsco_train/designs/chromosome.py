"""Chromosomes: a design as one small integer per feature, its stage.

Stages count from 0; -1 leaves a feature out. A chromosome is *compressed* when no stage is empty. Populations are int8 arrays
[designs, features], and every function here works on all rows at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["DesignSpace", "Indices", "Population", "compress", "row_keys", "stage_counts", "unique_rows"]

Population: TypeAlias = NDArray[np.int8]
Indices: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DesignSpace:
    """Which designs of n features are allowed; `pinned` are the positions of the features that stay in the first stage."""

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
