"""Which designs a search has met: a number of 64 bits for each, in order, so that looking up and adding are quick.

Eight bytes a design is all that it takes: a run of the default size remembers 36,000 of them in less than 300 kB.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Mask
from emsco_train.designs.chromosome import Indices, Population

__all__ = ["Hashes", "VisitedDesigns", "count_occurrences", "merge_sorted", "row_hashes"]

Hashes: TypeAlias = NDArray[np.uint64]
# In files, whatever the machine: least byte first.
_STORED_DTYPE = np.dtype("<u8")


def row_hashes(rows: NDArray[np.signedinteger[Any]]) -> Hashes:
    """Return a 64-bit number for each row: different rows almost never share one, and then one design is skipped."""
    return rows.astype(np.uint64) @ _weights(rows.shape[1])


@cache
def _weights(columns: int) -> Hashes:
    return np.random.default_rng(0).integers(1, 2**64, columns, dtype=np.uint64) | np.uint64(1)


def count_occurrences(ordered: Hashes, wanted: Hashes) -> Indices:
    """Return how often each wanted number occurs among the ordered ones."""
    return np.searchsorted(ordered, wanted, side="right") - np.searchsorted(ordered, wanted, side="left")


def merge_sorted(one: Hashes, two: Hashes) -> Hashes:
    """Return the numbers of two ordered arrays in one."""
    # A stable sort recognises the two runs and merges them.
    return np.sort(np.concatenate([one, two]), kind="stable")


@dataclass(frozen=True, slots=True, eq=False)
class VisitedDesigns:
    """The designs met so far, by their hashes in order.

    Examples
    --------
    >>> met = VisitedDesigns.empty().union(np.array([[0, 1], [1, 0]], dtype=np.int8))
    >>> met.is_new(np.array([[0, 0], [0, 1], [0, 0]], dtype=np.int8)).tolist()
    [True, False, False]
    """

    hashes: Hashes

    @classmethod
    def empty(cls) -> VisitedDesigns:
        """Return the record of a search that has met nothing."""
        return cls(np.zeros(0, dtype=np.uint64))

    @classmethod
    def from_text(cls, text: str) -> VisitedDesigns:
        """Return what `to_text` wrote; raise ValueError for anything else."""
        try:
            stored = np.frombuffer(base64.b64decode(text, validate=True), dtype=_STORED_DTYPE)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"expected 64-bit numbers in base64: {error}") from error
        return cls(np.sort(stored.astype(np.uint64)))

    def to_text(self) -> str:
        """Return it as plain text."""
        return base64.b64encode(self.hashes.astype(_STORED_DTYPE).tobytes()).decode()

    def __len__(self) -> int:
        """Return how many designs were met."""
        return len(self.hashes)

    def is_new(self, population: Population) -> Mask:
        """Return which rows were not met before, and are the first of their kind here."""
        fresh = np.zeros(len(population), dtype=bool)
        fresh[self._find_new(population)[1]] = True
        return fresh

    def union(self, population: Population) -> VisitedDesigns:
        """Return the record with these designs added; those met before are kept once."""
        return self.take_new(population)[1]

    def take_new(self, population: Population) -> tuple[Population, VisitedDesigns]:
        """Return the rows not met before, each once and in their order, and the record with these added."""
        hashes, first = self._find_new(population)
        rows: Population = population[np.sort(first)]
        return rows, VisitedDesigns(merge_sorted(self.hashes, hashes))

    def _find_new(self, population: Population) -> tuple[Hashes, Indices]:
        """Return the hashes not met before, in order, and where each of them comes first."""
        hashes, first = np.unique(row_hashes(population), return_index=True)
        new = count_occurrences(self.hashes, hashes) == 0
        return hashes[new], first[new].astype(np.int64)
