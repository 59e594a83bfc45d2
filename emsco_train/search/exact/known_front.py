"""What the exact search knows so far: the non-dominated vectors met, how many designs tie on each, and the limits they set.

Dominance is exact, on integers: more accepted, a larger fraction right / accepted (0 where none is accepted), less cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from emsco_train.search.exact.enumeration_state import CostLimits
from emsco_train.search.exact.set_bits import SetLayout, Units
from emsco_train.support.compiled import jit_entry

__all__ = ["FoundDesigns", "KnownFront", "Vector", "lower_limits", "undominated_mask"]

Vector: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class FoundDesigns:
    """Designs that one part of the walk found.

    Parameters
    ----------
    vectors
        Accepted, right, cost [finds, 3].
    counts
        Number of designs with this vector, in this part [finds].
    chains
        The cumulative sets of one of them: the one that stands for all [finds, stages].
    """

    vectors: Units
    counts: Units
    chains: Units


@dataclass(slots=True)
class _Tie:
    count: int
    chain: tuple[int, ...]


class KnownFront:
    """The non-dominated vectors met so far.

    Examples
    --------
    >>> table = KnownFront()
    >>> some = np.array([[5, 4, 70], [5, 3, 70], [6, 4, 80]])
    >>> table.merge(FoundDesigns(some, np.array([1, 1, 2]), np.array([[1, 3], [2, 3], [1, 3]])))
    True
    >>> table.vectors().tolist()
    [[5, 4, 70], [6, 4, 80]]
    """

    def __init__(self) -> None:
        self._ties: dict[Vector, _Tie] = {}

    def merge(self, found: FoundDesigns) -> bool:
        """Take in designs not counted before; tell whether the vectors changed."""
        return self._merge(found, counted=True)

    def merge_uncounted(self, found: FoundDesigns) -> bool:
        """Take in designs that will come again: their vectors set limits, and they are not counted yet."""
        return self._merge(found, counted=False)

    def _merge(self, found: FoundDesigns, *, counted: bool) -> bool:
        keep = undominated_mask(found.vectors, self.vectors())
        changed = False
        for vector, count, chain in zip(
            found.vectors[keep].tolist(), found.counts[keep].tolist(), found.chains[keep].tolist(), strict=True
        ):
            tie = self._ties.get(tuple(vector))
            changed |= tie is None
            if tie is None:
                self._ties[tuple(vector)] = _Tie(count * counted, tuple(chain))
                continue
            tie.count += count * counted
            if _precedes(tuple(chain), tie.chain):
                tie.chain = tuple(chain)
        if changed:
            vectors = self._sort_vectors()
            kept = vectors[undominated_mask(vectors, vectors)]
            self._ties = {tuple(vector): self._ties[tuple(vector)] for vector in kept.tolist()}
        return changed

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
        """Return the chain of sets that stands for each vector."""
        return [tie.chain for tie in self._ties.values()]

    def limits(self, layout: SetLayout) -> CostLimits:
        """Return the most that a design may cost, by accepted and wrong items, not to be strictly dominated."""
        height, stride = layout.max_accepted - layout.min_accepted + 1, layout.max_wrong + 1
        max_cost = np.full(height * stride, np.iinfo(np.int64).max)
        lower_limits(max_cost, self.vectors(), layout.min_accepted, stride)
        return CostLimits(max_cost, layout.min_accepted, stride)


def _precedes(chain: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a chain has fewer stages than another, or as many and the lexicographically lesser chromosome."""
    if len(chain) != len(other):
        return len(chain) < len(other)
    apart = 0
    for mine, theirs in zip(chain, other, strict=True):
        apart |= mine ^ theirs
    # All features before the first that is not in the same sets are equal. The more sets have it, the earlier its stage is;
    # a feature in no set is left out: -1, the least.
    bit = apart & -apart
    sets_with = [sum(1 for members in design if members & bit) for design in (chain, other)]
    stages = [len(chain) - count if count else -1 for count in sets_with]
    return stages[0] < stages[1]


@jit_entry()
def undominated_mask(vectors: Units, others: Units) -> Any:  # pragma: no cover - compiled
    """Tell for each vector that none of the others dominates it; an equal one does not."""
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
