"""The feature sets of the designs that a search has met lately, for the recombination: they are fitted already."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Mask
from emsco_train.designs.chromosome import Population
from emsco_train.search.scoring.evaluator import cumulative_sets

__all__ = ["VisitedSets"]

# The newest are kept: later generations have better ones. A run of the default size meets some 10,000 on 15 features.
_MAX_SETS = 8_192


@dataclass(frozen=True, slots=True, eq=False)
class VisitedSets:
    """Different sets of `genes` genes, eight genes to a byte [sets, bytes], the newest last.

    Examples
    --------
    >>> met = VisitedSets.empty(3).union(np.array([[0, 1, -1], [0, -1, -1]], dtype=np.int8))
    >>> met.to_sets().astype(int).tolist()
    [[1, 0, 0], [1, 1, 0]]
    """

    genes: int
    octets: NDArray[np.uint8]

    @classmethod
    def empty(cls, genes: int) -> VisitedSets:
        """Return the record of a search that has met nothing."""
        return cls(genes, np.zeros((0, -(-genes // 8)), dtype=np.uint8))

    @classmethod
    def from_text(cls, genes: int, text: str) -> VisitedSets:
        """Return what `to_text` wrote for `genes` genes; raise ValueError for anything else."""
        try:
            stored = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
        except binascii.Error as error:
            raise ValueError(f"expected sets of genes in base64: {error}") from error
        if len(stored) % -(-genes // 8):
            raise ValueError(f"expected sets of {genes} genes, got {len(stored)} bytes")
        return cls(genes, stored.reshape(-1, -(-genes // 8)))

    def to_text(self) -> str:
        """Return it as plain text."""
        return base64.b64encode(self.octets.tobytes()).decode()

    def union(self, population: Population) -> VisitedSets:
        """Return the record with the sets of these designs added; a set that was met before keeps its place."""
        sets, valid = cumulative_sets(population)
        joined = np.concatenate([self.octets, np.packbits(sets[valid], axis=1)])
        keys = np.ascontiguousarray(joined).view(f"V{joined.shape[1]}")[:, 0]
        first = np.sort(np.unique(keys, return_index=True)[1])
        return VisitedSets(self.genes, joined[first[-_MAX_SETS:]])

    def to_sets(self) -> Mask:
        """Return the sets [sets, genes], the newest last."""
        return np.unpackbits(self.octets, axis=1, count=self.genes).view(np.bool_)
