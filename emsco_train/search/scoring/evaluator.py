"""`CachedEvaluator`: objectives of whole populations, from packed bits; `GeneEvaluator`, the same for chromosomes by genes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.costs.units import CostUnits
from emsco_train.designs.chromosome import Population
from emsco_train.designs.genes import Genes
from emsco_train.search.scoring.bit_cache import BitCache, Words, unpack_bits
from emsco_train.search.scoring.exit_counting import count_answers, count_exits
from emsco_train.search.scoring.objectives import Counts, Objectives

__all__ = ["CachedEvaluator", "ExitCounts", "GeneEvaluator", "cumulative_sets"]

# The units of items that all count 1, for compiled code.
_ALIKE = np.zeros(0, dtype=np.int64)


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

    `row_units` are how much each item counts, as `row_units` makes them; None: all count 1. `objective_units` are how much each
    counts in coverage and accuracy, where that is not what it counts in the cost; None: the same.
    """

    def __init__(
        self,
        bits: BitCache,
        units: CostUnits,
        threshold: int = 0,
        row_units: Ints | None = None,
        objective_units: Ints | None = None,
    ) -> None:
        self._bits = bits
        self._units = units
        self._threshold = threshold
        self._row_units = row_units
        self._objective_units = objective_units
        self.n = len(units.features)
        self.items = bits.items
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
        if self._objective_units is None:
            return Objectives(accepted, exits.right.sum(axis=1), cost, self.rows, self.offset, self._units.scale)
        chains = self._locate(*cumulative_sets(population))
        valued, right = (counts.sum(axis=1) for counts in self._count(chains, self._objective_units))
        total = int(self._objective_units.sum())
        # The mean cost is still per row: the scale makes up for the other total.
        return Objectives(valued, right, cost, total, self.offset, self._units.scale * self.rows / total)

    def exits(self, population: Population) -> ExitCounts:
        """Return at which stage the items leave each of these designs."""
        sets, valid = cumulative_sets(population)
        accepted, right = self._count(self._locate(sets, valid), self._row_units)
        cost = np.zeros(valid.shape, dtype=np.int64)
        cost[valid] = self._units.cost(sets[valid])
        return ExitCounts(accepted, right, cost, cost.max(axis=1))

    def stored_sets(self, sets: Mask) -> tuple[Words, Words, Counts, Ints]:
        """Return the confident and right bits of sets [sets, features], their cost, and the items' units (none: all count 1)."""
        places = self._bits.locate(sets)
        units = _ALIKE if self._row_units is None else self._row_units
        confident, right = self._bits.confident(self._threshold), self._bits.right(self._threshold)
        return confident[places], right[places], self._units.cost(sets), units

    def answers(self, population: Population, target: Ints, labels: int) -> Counts:
        """Return how designs answer [designs, 3, labels]: accepted items by their own label, by the one they get, by both.

        `target` holds the position of each item's label.
        """
        chains = self._locate(*cumulative_sets(population))
        counts = np.zeros((len(chains), 3, labels), dtype=np.int64)
        units = np.zeros(0, dtype=np.int64) if self._row_units is None else self._row_units
        bits = self._bits.confident(self._threshold), self._bits.right(self._threshold), self._bits.answers()
        count_answers(chains, *bits, target.astype(np.int64, copy=False), units, counts)
        return counts

    def _locate(self, sets: Mask, valid: Mask) -> Ints:
        """Return the place of each stage's feature set in the bits [designs, stages]; -1 after the last stage."""
        chains = np.full(valid.shape, -1, dtype=np.int64)
        chains[valid] = self._bits.locate(sets[valid])
        return chains

    def _count(self, chains: Ints, units: Ints | None) -> tuple[Counts, Counts]:
        """Return the items accepted at each stage, and those of them with the right label; by units, if there are some."""
        accepted, right = np.zeros(chains.shape, dtype=np.int64), np.zeros(chains.shape, dtype=np.int64)
        bits = self._bits.confident(self._threshold), self._bits.right(self._threshold)
        count_exits(chains, *bits, _ALIKE if units is None else units, accepted, right)
        return accepted, right

    def row_exits(self, chromosome: NDArray[np.int8], target: Ints) -> tuple[Ints, Ints]:
        """Return the stage at which one design accepts each item, and the position of the label that it gets.

        Both are -1 for a rejected item. `target` holds the position of each item's own label.
        """
        sets, _ = cumulative_sets(chromosome[None, :])
        places, items = self._bits.locate(sets[0]), np.arange(self._bits.items)
        confident = unpack_bits(self._bits.confident(self._threshold)[places], len(items))
        right = unpack_bits(self._bits.right(self._threshold)[places], len(items))
        accepted, first = confident.any(axis=0), confident.argmax(axis=0)
        planes = [unpack_bits(plane[places], len(items))[first, items] for plane in self._bits.answers()]
        answer = sum((bits.astype(np.intp) << place for place, bits in enumerate(planes)), np.zeros(len(items), dtype=np.intp))
        if not planes:
            # Of two labels, a wrong one is the other.
            answer = np.where(right[first, items], target, 1 - target)
        return np.where(accepted, first, -1), np.where(accepted, answer, -1)


@dataclass(frozen=True, slots=True)
class GeneEvaluator:
    """The evaluator of a search whose chromosomes have a stage for each gene."""

    evaluator: CachedEvaluator
    genes: Genes

    @property
    def n(self) -> int:
        """Number of genes."""
        return self.genes.n

    @property
    def items(self) -> int:
        """Number of items."""
        return self.evaluator.items

    @property
    def rows(self) -> int:
        """Number of items, or of their units."""
        return self.evaluator.rows

    def __call__(self, population: Population) -> Objectives:
        """Return the objectives of compressed chromosomes [designs, genes]."""
        return self.evaluator(self.genes.expand(population))

    def exits(self, population: Population) -> ExitCounts:
        """Return at which stage the items leave designs [designs, genes]."""
        return self.evaluator.exits(self.genes.expand(population))

    def stored_sets(self, sets: Mask) -> tuple[Words, Words, Counts, Ints]:
        """Return what the evaluator of features does, for sets of genes [sets, genes]."""
        return self.evaluator.stored_sets(self.genes.expand_sets(sets))


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
