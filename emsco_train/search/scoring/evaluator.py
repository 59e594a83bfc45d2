"""`DesignEvaluator`: objectives of whole populations, from counts; `CachedEvaluator` counts packed bits.

`GeneEvaluator` is the same for chromosomes by genes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.costs.units import CostUnits
from emsco_train.designs.chromosome import Population
from emsco_train.designs.genes import Genes
from emsco_train.search.scoring.bit_cache import BitCache, pack_bits, unpack_bits
from emsco_train.search.scoring.chain_splicing import SPLICE_FIGURES, count_splices, most_splices
from emsco_train.search.scoring.exit_counting import count_answers, count_exits
from emsco_train.search.scoring.objectives import Counts, Objectives

__all__ = ["CachedEvaluator", "DesignEvaluator", "ExitCounts", "GeneEvaluator", "cumulative_sets"]

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


class DesignEvaluator(ABC):
    """Objectives of designs, from counts of the items that leave at each stage; where the items are, subclasses know.

    `items` is their number; `rows` is the same, or their units.
    """

    # Designs that are evaluated at a time should take about this many seconds.
    batch_seconds = 0.25

    def __init__(self, units: CostUnits, items: int, rows: int) -> None:
        self.units = units
        self.items = items
        self.n = len(units.features)
        self.rows = rows
        free = bool((units.cost(np.eye(self.n, dtype=np.bool_)) == 0).any())
        full_cost = int(units.cost(np.ones((1, self.n), dtype=np.bool_))[0])
        # Where some feature set costs nothing, one hundredth of the full cost is added to both sides of the cost ratio.
        self.offset = 0.01 * full_cost * self.rows if free else 0.0

    def __call__(self, population: Population) -> Objectives:
        """Return the objectives of compressed chromosomes [designs, features]."""
        exits = self.exits(population)
        accepted = exits.accepted.sum(axis=1)
        cost = (exits.accepted * exits.cost).sum(axis=1) + (self.rows - accepted) * exits.full_cost
        return Objectives(accepted, exits.right.sum(axis=1), cost, self.rows, self.offset, self.units.scale)

    def exits(self, population: Population) -> ExitCounts:
        """Return at which stage the items leave each of these designs."""
        sets, valid = cumulative_sets(population)
        accepted, right = self.count_exits(population)
        cost = np.zeros(valid.shape, dtype=np.int64)
        cost[valid] = self.units.cost(sets[valid])
        return ExitCounts(accepted, right, cost, cost.max(axis=1))

    @abstractmethod
    def count_exits(self, population: Population) -> tuple[Counts, Counts]:
        """Return the items accepted at each stage [designs, stages], and those of them with the right label."""

    @abstractmethod
    def answers(self, population: Population, labels: int) -> Counts:
        """Return how designs answer [designs, 3, labels]: accepted items by their own label, by the one they get, by both."""

    @abstractmethod
    def count_splices(
        self, sets: Mask, chains: Sequence[Ints], max_stages: int, *, keep_all: bool
    ) -> Iterator[tuple[Ints, Counts]]:
        """Yield what can be made of each chain of some sets [sets, features], as `count_splices` says, and its figures."""


class CachedEvaluator(DesignEvaluator):
    """The evaluator of a search, at one of the thresholds of a cache of feature sets, or at two.

    `early` is the position of the threshold for the stages before the last; None: the same. `row_units` are how much each item
    counts, as `row_units` makes them; None: all count 1. `objective_units` are how much each counts in coverage and accuracy,
    where that is not what it counts in the cost; None: the same.
    """

    def __init__(
        self,
        bits: BitCache,
        units: CostUnits,
        threshold: int = 0,
        row_units: Ints | None = None,
        objective_units: Ints | None = None,
        early: int | None = None,
    ) -> None:
        super().__init__(units, bits.items, bits.items if row_units is None else int(row_units.sum()))
        self._bits = bits
        self._threshold = threshold
        self._early = threshold if early is None else early
        self._row_units = row_units
        self._objective_units = objective_units

    def __call__(self, population: Population) -> Objectives:
        """Return the objectives of compressed chromosomes [designs, features]."""
        plain = super().__call__(population)
        if self._objective_units is None:
            return plain
        chains = self._locate(*cumulative_sets(population))
        valued, right = (counts.sum(axis=1) for counts in self._count(chains, self._objective_units))
        total = int(self._objective_units.sum())
        # The mean cost is still per row: the scale makes up for the other total.
        return Objectives(valued, right, plain.cost, total, self.offset, self.units.scale * self.rows / total)

    def count_exits(self, population: Population) -> tuple[Counts, Counts]:
        """Return the items accepted at each stage [designs, stages], and those of them with the right label."""
        return self._count(self._locate(*cumulative_sets(population)), self._row_units)

    def answers(self, population: Population, labels: int) -> Counts:
        """Return how designs answer [designs, 3, labels]: accepted items by their own label, by the one they get, by both."""
        chains = self._locate(*cumulative_sets(population))
        counts = np.zeros((len(chains), 3, labels), dtype=np.int64)
        units = _ALIKE if self._row_units is None else self._row_units
        bits = self._bits.all_confident, self._bits.all_right, self._bits.answers()
        count_answers(chains, *bits, self._bits.target.astype(np.int64, copy=False), units, counts)
        return counts

    def count_splices(
        self, sets: Mask, chains: Sequence[Ints], max_stages: int, *, keep_all: bool
    ) -> Iterator[tuple[Ints, Counts]]:
        """Yield what can be made of each chain of some sets [sets, features], as `count_splices` says, and its figures."""
        yield from self.splices_of_part(sets, chains, max_stages, keep_all=keep_all, whole=True)

    def splices_of_part(
        self, sets: Mask, chains: Sequence[Ints], max_stages: int, *, keep_all: bool, whole: bool
    ) -> Iterator[tuple[Ints, Counts]]:
        """Yield the same; unless `whole`, the items are a part of all, and its figures are to be added to those of others."""
        if self._early != self._threshold:
            raise ValueError("chains are spliced at one threshold for all stages")
        places = self._bits.locate(sets)
        # Copies: the places stay valid until the next call alone.
        confident, right = self._bits.confident(self._threshold)[places], self._bits.right(self._threshold)[places]
        units = _ALIKE if self._row_units is None else self._row_units
        stored = pack_bits(sets), confident, right, self.units.cost(sets), units
        for chain in chains:
            most = most_splices(len(sets), len(chain))
            splices, figures = np.empty((most, 3), dtype=np.int64), np.empty((most, SPLICE_FIGURES), dtype=np.int64)
            count = count_splices(chain, *stored, self.rows, keep_all, whole, max_stages, splices, figures)
            yield splices[:count], figures[:count]

    def _locate(self, sets: Mask, valid: Mask) -> Ints:
        """Return the row of each stage's feature set in all bits [designs, stages]; -1 after the last stage."""
        is_last = valid & ~np.pad(valid[:, 1:], ((0, 0), (0, 1)))
        chains = np.full(valid.shape, -1, dtype=np.int64)
        places = self._bits.locate(sets[valid])
        chains[valid] = self._bits.rows_of(places, np.where(is_last[valid], self._threshold, self._early))
        return chains

    def _count(self, chains: Ints, units: Ints | None) -> tuple[Counts, Counts]:
        """Return the items accepted at each stage, and those of them with the right label; by units, if there are some."""
        accepted, right = np.zeros(chains.shape, dtype=np.int64), np.zeros(chains.shape, dtype=np.int64)
        bits = self._bits.all_confident, self._bits.all_right
        count_exits(chains, *bits, _ALIKE if units is None else units, accepted, right)
        return accepted, right

    def row_exits(self, chromosome: NDArray[np.int8], target: Ints) -> tuple[Ints, Ints]:
        """Return the stage at which one design accepts each item, and the position of the label that it gets.

        Both are -1 for a rejected item. `target` holds the position of each item's own label.
        """
        sets, valid = cumulative_sets(chromosome[None, :])
        rows, items = self._locate(sets, valid)[0], np.arange(self._bits.items)
        confident = unpack_bits(self._bits.all_confident[rows], len(items))
        right = unpack_bits(self._bits.all_right[rows], len(items))
        accepted, first = confident.any(axis=0), confident.argmax(axis=0)
        answers = self._bits.answers()
        planes = [unpack_bits(plane[rows % plane.shape[0]], len(items))[first, items] for plane in answers]
        answer = sum((bits.astype(np.intp) << place for place, bits in enumerate(planes)), np.zeros(len(items), dtype=np.intp))
        if not planes:
            # Of two labels, a wrong one is the other.
            answer = np.where(right[first, items], target, 1 - target)
        return np.where(accepted, first, -1), np.where(accepted, answer, -1)


@dataclass(frozen=True, slots=True)
class GeneEvaluator:
    """The evaluator of a search whose chromosomes have a stage for each gene."""

    evaluator: DesignEvaluator
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
    def batch_seconds(self) -> float:
        """Seconds that the designs evaluated at a time should take."""
        return self.evaluator.batch_seconds

    def __call__(self, population: Population) -> Objectives:
        """Return the objectives of compressed chromosomes [designs, genes]."""
        return self.evaluator(self.genes.expand(population))

    def exits(self, population: Population) -> ExitCounts:
        """Return at which stage the items leave designs [designs, genes]."""
        return self.evaluator.exits(self.genes.expand(population))

    def count_splices(
        self, sets: Mask, chains: Sequence[Ints], max_stages: int, *, keep_all: bool
    ) -> Iterator[tuple[Ints, Counts]]:
        """Yield what the evaluator of features does, for sets of genes [sets, genes]."""
        return self.evaluator.count_splices(self.genes.expand_sets(sets), chains, max_stages, keep_all=keep_all)


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
