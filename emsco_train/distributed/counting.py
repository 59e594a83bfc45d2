"""`PartitionedEvaluator`: what designs do with the validation rows of partitions; the bits stay there, counts come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.costs.units import CostUnits
from emsco_train.designs.chromosome import Population
from emsco_train.distributed.part_rows import PartRows, SetModels
from emsco_train.distributed.partitions import Partitions, Sums
from emsco_train.search.recombination import distinct_sets
from emsco_train.search.scoring.bit_cache import pack_bits
from emsco_train.search.scoring.chain_splicing import SPLICE_FIGURES, count_splices, most_splices
from emsco_train.search.scoring.evaluator import CachedEvaluator, DesignEvaluator
from emsco_train.search.scoring.objectives import Counts

__all__ = ["PartitionedEvaluator"]

# Largest answer to one message.
_MAX_BYTES = 2**24


@dataclass(frozen=True, slots=True, eq=False)
class _Designs:
    """Designs to count: chromosomes, the models of all their sets, and at which of the thresholds."""

    population: Population
    models: SetModels
    thresholds: tuple[tuple[float, ...], ...]
    threshold: int
    units: CostUnits
    labels: int

    def evaluator(self, part: PartRows) -> CachedEvaluator:
        """Return the evaluator of the rows of one partition."""
        return CachedEvaluator(part.bits(self.models, self.thresholds), self.units, self.threshold)


@dataclass(frozen=True, slots=True, eq=False)
class _PartChains:
    """Chains to splice, of the sets of `designs.models`."""

    designs: _Designs
    chains: tuple[Ints, ...]
    max_stages: int
    keep_all: bool


class PartitionedEvaluator(DesignEvaluator):
    """The evaluator of a search on rows in partitions.

    `fit` returns the models of feature sets [sets, features], which it fits if they are new; `rows` are the validation rows of
    all partitions.
    """

    # Several round trips a batch: more designs at a time wait less often.
    batch_seconds = 10.0

    def __init__(
        self,
        partitions: Partitions[PartRows],
        fit: Callable[[Mask], SetModels],
        units: CostUnits,
        thresholds: tuple[tuple[float, ...], ...],
        threshold: int,
        rows: int,
    ) -> None:
        super().__init__(units, rows, rows)
        self._partitions = partitions
        self._fit = fit
        self._thresholds = thresholds
        self._threshold = threshold

    def count_exits(self, population: Population) -> tuple[Counts, Counts]:
        """Return the items accepted at each stage [designs, stages], and those of them with the right label."""
        accepted, right = self._partitions.total(_count_exits, self._designs(population)).arrays
        return accepted, right

    def answers(self, population: Population, labels: int) -> Counts:
        """Return how designs answer [designs, 3, labels]: accepted items by their own label, by the one they get, by both."""
        return self._partitions.total(_count_answers, self._designs(population, labels)).arrays[0]

    def count_splices(
        self, sets: Mask, chains: Sequence[Ints], max_stages: int, *, keep_all: bool
    ) -> Iterator[tuple[Ints, Counts]]:
        """Yield what can be made of each chain of some sets [sets, features], and its figures; many chains in one message."""
        longest = max(map(len, chains), default=1)
        step = max(1, _MAX_BYTES // (8 * SPLICE_FIGURES * most_splices(len(sets), longest)))
        everything = np.where(sets, 0, -1).astype(np.int8)
        designs = _Designs(everything, self._fit(sets), self._thresholds, self._threshold, self.units, 0)
        for start in range(0, len(chains), step):
            part = tuple(chains[start : start + step])
            figures = self._partitions.total(_count_splices, _PartChains(designs, part, max_stages, keep_all)).arrays[0]
            begin = 0
            for chain in part:
                splices = _list_splices(chain, sets, self.units, max_stages, keep_all=keep_all)
                own = figures[begin : begin + len(splices)]
                begin += len(splices)
                # A new set that accepts nobody adds nothing.
                kept = np.flatnonzero((splices[:, 0] < 0) | (own[:, 3] > 0))
                yield np.ascontiguousarray(splices[kept]), np.ascontiguousarray(own[kept])

    def _designs(self, population: Population, labels: int = 0) -> _Designs:
        models = self._fit(distinct_sets(population))
        return _Designs(population, models, self._thresholds, self._threshold, self.units, labels)


def _count_exits(part: PartRows, designs: _Designs) -> Sums:
    if not len(part.target):
        empty = np.zeros((len(designs.population), int(designs.population.max()) + 1), dtype=np.int64)
        return Sums((empty, empty))
    return Sums(designs.evaluator(part).count_exits(designs.population))


def _count_answers(part: PartRows, designs: _Designs) -> Sums:
    if not len(part.target):
        return Sums((np.zeros((len(designs.population), 3, designs.labels), dtype=np.int64),))
    return Sums((designs.evaluator(part).answers(designs.population, designs.labels),))


def _count_splices(part: PartRows, asked: _PartChains) -> Sums:
    sets, units = asked.designs.models.sets, asked.designs.units
    if not len(part.target):
        counts = [len(_list_splices(chain, sets, units, asked.max_stages, keep_all=asked.keep_all)) for chain in asked.chains]
        return Sums((np.zeros((sum(counts), SPLICE_FIGURES), dtype=np.int64),))
    evaluator = asked.designs.evaluator(part)
    found = evaluator.splices_of_part(sets, asked.chains, asked.max_stages, keep_all=asked.keep_all, whole=False)
    return Sums((np.concatenate([figures for _, figures in found]),))


def _list_splices(chain: Ints, sets: Mask, units: CostUnits, max_stages: int, *, keep_all: bool) -> Ints:
    """Return the chains that `count_splices` counts, which depend on the sets alone: those of no rows."""
    most = most_splices(len(sets), len(chain))
    splices, figures = np.empty((most, 3), dtype=np.int64), np.empty((most, SPLICE_FIGURES), dtype=np.int64)
    nothing = np.zeros((len(sets), 0), dtype=np.uint64)
    alike = np.zeros(0, dtype=np.int64)
    stored, whole = (pack_bits(sets), nothing, nothing, units.cost(sets), alike), False
    count = count_splices(chain, *stored, 0, keep_all, whole, max_stages, splices, figures)
    return splices[:count]
