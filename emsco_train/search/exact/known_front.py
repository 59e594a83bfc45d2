"""What the exact search knows so far: the non-dominated vectors met, how many designs tie on each, and the limits they set.

Dominance is exact, on integers: more accepted, a larger fraction right / accepted (0 where none is accepted), less cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from emsco_train.search.exact.enumeration_state import CostLimits
from emsco_train.search.exact.set_bits import SetLayout, Units
from emsco_train.support.compiled import jit_entry

__all__ = ["KnownFront", "Vector", "chain_genes", "lower_limits", "undominated_mask"]

Vector: TypeAlias = tuple[int, int, int]


@dataclass(slots=True)
class _Tie:
    count: int
    chain: tuple[int, ...]


class KnownFront:
    """The non-dominated vectors met so far, over designs of `features` features.

    Examples
    --------
    >>> table = KnownFront(2)
    >>> some = np.array([[5, 4, 70], [5, 3, 70], [6, 4, 80]])
    >>> table.merge(some, np.array([1, 1, 2]), np.array([[1, 3], [2, 3], [1, 3]]))
    True
    >>> table.vectors().tolist()
    [[5, 4, 70], [6, 4, 80]]
    """

    def __init__(self, features: int) -> None:
        self._features = features
        self._ties: dict[Vector, _Tie] = {}

    def merge(self, vectors: Units, counts: Units, chains: Units) -> bool:
        """Add vectors (accepted, right, cost), each with its number of designs and the chain of sets that represents them.

        Returns whether the known vectors changed. Designs that will be found again are merged with counts of 0: their vectors
        set limits.
        """
        keep = undominated_mask(vectors, self.vectors())
        changed = False
        for vector, count, chain in zip(vectors[keep].tolist(), counts[keep].tolist(), chains[keep].tolist(), strict=True):
            tie = self._ties.get(tuple(vector))
            if tie is None:
                self._ties[tuple(vector)] = _Tie(count, tuple(chain))
                changed = True
                continue
            tie.count += count
            tie.chain = min(tie.chain, tuple(chain), key=self._design_order)
        if changed:
            ordered = self._sort_vectors()
            kept = ordered[undominated_mask(ordered, ordered)]
            self._ties = {tuple(vector): self._ties[tuple(vector)] for vector in kept.tolist()}
        return changed

    def _design_order(self, chain: tuple[int, ...]) -> tuple[int, list[int]]:
        """Return what ties are ordered by: fewer stages first, then the lexicographically lesser chromosome."""
        return len(chain), chain_genes(chain, self._features)

    def _sort_vectors(self) -> Units:
        """Return all vectors by cost, then the better ones first."""
        keys = sorted(self._ties, key=lambda vector: (vector[2], -vector[0], -vector[1]))
        return np.array(keys, dtype=np.int64).reshape(len(keys), 3)

    def vectors(self) -> Units:
        """Return the vectors [vectors, accepted / right / cost], cheapest first."""
        return np.array(list(self._ties), dtype=np.int64).reshape(len(self._ties), 3)

    def counts(self) -> list[int]:
        """Return the number of designs tied on each vector."""
        return [tie.count for tie in self._ties.values()]

    def chains(self) -> list[tuple[int, ...]]:
        """Return the chain of sets that represents each vector."""
        return [tie.chain for tie in self._ties.values()]

    def limits(self, layout: SetLayout) -> CostLimits:
        """Return the most that a design may cost, by accepted and wrong items, not to be strictly dominated."""
        height, stride = layout.max_accepted - layout.min_accepted + 1, layout.max_wrong + 1
        max_cost = np.full(height * stride, np.iinfo(np.int64).max)
        lower_limits(max_cost, self.vectors(), layout.min_accepted, stride)
        return CostLimits(max_cost, layout.min_accepted, stride)


def chain_genes(chain: Sequence[int], features: int) -> list[int]:
    """Return the stage of each feature in a chain of sets, -1 where no set has it."""
    containing = [sum(members >> feature & 1 for members in chain) for feature in range(features)]
    return [len(chain) - count if count else -1 for count in containing]


@jit_entry()
def undominated_mask(vectors: Units, others: Units) -> Any:  # pragma: no cover - compiled
    """Return for each vector whether none of the others dominates it; an equal one does not."""
    keep = np.ones(vectors.shape[0], dtype=np.bool_)
    for row in range(vectors.shape[0]):
        accepted, right, cost = vectors[row]
        for other in range(others.shape[0]):
            more, hits, price = others[other]
            if more < accepted or price > cost or hits * max(accepted, 1) < right * max(more, 1):
                continue
            if more > accepted or price < cost or hits > right:
                keep[row] = False
                break
    return keep


@jit_entry()
def lower_limits(max_cost: Units, vectors: Units, min_accepted: int, stride: int) -> None:  # pragma: no cover - compiled
    """Lower the limits to what the vectors (cheapest first) allow; each cell is written once."""
    height = max_cost.shape[0] // stride
    filled = np.full(height, stride)
    for row in range(vectors.shape[0]):
        accepted, right, cost = vectors[row]
        wrong = accepted - right
        for step in range(min(accepted - min_accepted + 1, height)):
            count = min_accepted + step
            # No larger a fraction right: at least this many wrong ones of `count`.
            least = -(-(count * wrong) // accepted) if accepted else 0
            for cell in range(least, filled[step]):
                # Only an equal vector, at this very cell, may cost as much; others are better in accepted or in accuracy.
                max_cost[step * stride + cell] = cost if count == accepted and cell == wrong else cost - 1
            filled[step] = min(filled[step], least)
