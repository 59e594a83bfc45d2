"""`CachedEvaluator`: objectives of whole populations, from packed bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.costs.units import CostUnits
from emsco_train.designs.chromosome import Population
from emsco_train.search.scoring.bit_cache import BitCache, Words, unpack_bits
from emsco_train.search.scoring.exit_counting import count_exits, sum_exits
from emsco_train.search.scoring.objectives import Counts, Objectives

__all__ = ["CachedEvaluator", "ExitCounts", "cumulative_sets"]


@dataclass(frozen=True, slots=True, eq=False)
class ExitCounts:
    """At which stage the validation items leave each design.

    Parameters
    ----------
    accepted, right
        Items accepted at each stage [designs, stages], and those of them with the right label; zero after the last stage. Items
        with weights are counted in units.
    cost
        Cost units of each stage's cumulative set, zero after the last stage.
    full_cost
        Cost units of all that a design acquires: the cost of a rejected item.
    """

    accepted: Counts
    right: Counts
    cost: Counts
    full_cost: Counts


class CachedEvaluator:
    """The evaluator of a search, at one of the thresholds of a cache of feature sets.

    `row_units` are how much each item counts, as `row_units` makes them; None: all count 1.
    """

    def __init__(self, bits: BitCache, units: CostUnits, threshold: int = 0, row_units: Ints | None = None) -> None:
        self._bits = bits
        self._units = units
        self._threshold = threshold
        self._row_units = row_units
        self.n = len(units.features)
        self.rows = bits.items if row_units is None else int(row_units.sum())
        free = bool((units.cost(np.eye(self.n, dtype=np.bool_)) == 0).any())
        full_cost = int(units.cost(np.ones((1, self.n), dtype=np.bool_))[0])
        # Where some feature set costs nothing, one hundredth of the full cost is added to both sides of the cost ratio.
        self.offset = 0.01 * full_cost * self.rows if free else 0.0

    def __call__(self, population: Population) -> Objectives:
        """Return the objectives of compressed chromosomes [designs, features]."""
        exits = self.exits(population)
        accepted = exits.accepted.sum(axis=1)
        cost = (exits.accepted * exits.cost).sum(axis=1) + (self.rows - accepted) * exits.full_cost
        return Objectives(accepted, exits.right.sum(axis=1), cost, self.rows, self.offset, self._units.scale)

    def exits(self, population: Population) -> ExitCounts:
        """Return at which stage the items leave each of these designs."""
        sets, valid = cumulative_sets(population)
        chains = np.full(valid.shape, -1, dtype=np.int64)
        chains[valid] = self._bits.locate(sets[valid])
        accepted, right = np.zeros(valid.shape, dtype=np.int64), np.zeros(valid.shape, dtype=np.int64)
        bits = self._bits.confident(self._threshold), self._bits.right(self._threshold)
        if self._row_units is None:
            count_exits(chains, *bits, accepted, right)
        else:
            sum_exits(chains, *bits, self._row_units, accepted, right)
        cost = np.zeros(valid.shape, dtype=np.int64)
        cost[valid] = self._units.cost(sets[valid])
        return ExitCounts(accepted, right, cost, cost.max(axis=1))

    def stored_sets(self, sets: Mask) -> tuple[Words, Words, Counts, Ints]:
        """Return the bits of sets [sets, features], confident and right, their cost, and the items' units, none if all count 1."""
        places = self._bits.locate(sets)
        units = np.zeros(0, dtype=np.int64) if self._row_units is None else self._row_units
        confident, right = self._bits.confident(self._threshold), self._bits.right(self._threshold)
        return confident[places], right[places], self._units.cost(sets), units

    def row_exits(self, chromosome: NDArray[np.int8]) -> tuple[Ints, Mask]:
        """Return the stage at which one design accepts each item, -1 for a rejected one, and which items it labels rightly."""
        sets, _ = cumulative_sets(chromosome[None, :])
        places = self._bits.locate(sets[0])
        confident = unpack_bits(self._bits.confident(self._threshold)[places], self._bits.items)
        right = unpack_bits(self._bits.right(self._threshold)[places], self._bits.items)
        accepted, first = confident.any(axis=0), confident.argmax(axis=0)
        return np.where(accepted, first, -1), right[first, np.arange(self._bits.items)]


def cumulative_sets(population: Population) -> tuple[Mask, Mask]:
    """Return the cumulative feature set of every stage [designs, stages, features], and which stages there are.

    Examples
    --------
    >>> sets, valid = cumulative_sets(np.array([[0, 1, -1]], dtype=np.int8))
    >>> sets.astype(int).tolist(), valid.tolist()
    ([[[1, 0, 0], [1, 1, 0]]], [[True, True]])
    """
    last = population.max(axis=1)
    stages = np.arange(int(last.max()) + 1, dtype=np.int8)
    sets = (population[:, None, :] <= stages[None, :, None]) & (population >= 0)[:, None, :]
    return sets, stages[None, :] <= last[:, None]
