"""What the exact search knows so far: the non-dominated vectors met, how many designs tie on each, and the limits they set.

Dominance is exact, on integers: more accepted, a larger fraction right / accepted (0 where none is accepted), less cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from emsco_train._compiled import entry_point
from emsco_train.exact.bits import Landscape, Units
from emsco_train.exact.key import KEY
from emsco_train.exact.state import Limits

__all__ = ["Catch", "FrontTable", "Vector", "lower_limits", "not_dominated"]

Vector: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Catch:
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


class FrontTable:
    """The non-dominated vectors met so far.

    Examples
    --------
    >>> table = FrontTable()
    >>> some = np.array([[5, 4, 70], [5, 3, 70], [6, 4, 80]])
    >>> table.merge(Catch(some, np.array([1, 1, 2]), np.array([[1, 3], [2, 3], [1, 3]])))
    True
    >>> table.vectors().tolist()
    [[5, 4, 70], [6, 4, 80]]
    """

    def __init__(self) -> None:
        self._ties: dict[Vector, _Tie] = {}

    def merge(self, catch: Catch) -> bool:
        """Take in designs not counted before; tell whether the vectors changed."""
        return self._merge(catch, counted=True)

    def foresee(self, catch: Catch) -> bool:
        """Take in designs that will come again: their vectors set limits, and they are not counted yet."""
        return self._merge(catch, counted=False)

    def _merge(self, catch: Catch, *, counted: bool) -> bool:
        keep = not_dominated(catch.vectors, self.vectors())
        changed = False
        for vector, count, chain in zip(
            catch.vectors[keep].tolist(), catch.counts[keep].tolist(), catch.chains[keep].tolist(), strict=True
        ):
            tie = self._ties.get(tuple(vector))
            changed |= tie is None
            if tie is None:
                self._ties[tuple(vector)] = _Tie(count * counted, tuple(chain))
                continue
            tie.count += count * counted
            if _stands_before(tuple(chain), tie.chain):
                tie.chain = tuple(chain)
        if changed:
            vectors = self._sorted()
            kept = vectors[not_dominated(vectors, vectors)]
            self._ties = {tuple(vector): self._ties[tuple(vector)] for vector in kept.tolist()}
        return changed

    def _sorted(self) -> Units:
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

    def limits(self, land: Landscape) -> Limits:
        """Return the most that a design may cost, by accepted and wrong items, not to be strictly dominated."""
        height, stride = land.widest - land.fewest + 1, land.wrongest + 1
        most = np.full(height * stride, np.iinfo(np.int64).max)
        lower_limits(most, self.vectors(), land.fewest, stride)
        return Limits(most, land.fewest, stride)


def _stands_before(chain: tuple[int, ...], other: tuple[int, ...]) -> bool:
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


@entry_point(KEY)
def not_dominated(vectors: Units, others: Units) -> Any:  # pragma: no cover - compiled
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


@entry_point(KEY)
def lower_limits(most: Units, vectors: Units, fewest: int, stride: int) -> None:  # pragma: no cover - compiled
    """Lower the limits to what the vectors (cheapest first) allow; each cell is written once."""
    height = most.shape[0] // stride
    filled = np.full(height, stride)
    for row in range(vectors.shape[0]):
        accepted, right, cost = vectors[row]
        wrong = accepted - right
        for step in range(min(accepted - fewest + 1, height)):
            count = fewest + step
            # No larger a fraction right: at least this many wrong ones of `count`.
            least = -(-(count * wrong) // accepted) if accepted else 0
            for cell in range(least, filled[step]):
                # Only an equal vector, at this very cell, may cost as much; others are better in accepted or in accuracy.
                most[step * stride + cell] = cost if count == accepted and cell == wrong else cost - 1
            filled[step] = min(filled[step], least)
