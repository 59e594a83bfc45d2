"""Genes: what a search moves from stage to stage. A gene is one feature, or several that are paid together and so move as one.

A design's chromosome has a stage for each feature. A search works with a stage for each gene, and what it finds is expanded to
features at its boundary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.meter import Meter
from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.designs.chromosome import Population

__all__ = ["Genes"]


@dataclass(frozen=True, slots=True)
class Genes:
    """The gene of each feature, in column order; genes are numbered by their first feature.

    Examples
    --------
    >>> meter = Meter({"age": 1.0, "glucose": 0.0, "insulin": 0.0}, {"glucose": "blood", "insulin": "blood"}, {"blood": 9.0})
    >>> genes = Genes.of_units(meter, ["glucose", "age", "insulin"])
    >>> genes
    Genes(of_feature=(0, 1, 0))
    >>> genes.expand(np.array([[1, 0]], dtype=np.int8)).tolist()
    [[1, 0, 1]]
    """

    of_feature: tuple[int, ...]

    @classmethod
    def of_features(cls, n: int) -> Genes:
        """Return a gene for each of n features."""
        return cls(tuple(range(n)))

    @classmethod
    def of_units(cls, meter: Meter, names: Sequence[str]) -> Genes:
        """Return one gene for all features that are paid by the same groups and cost nothing themselves; others have their own.

        Once one feature of a unit is paid for, the others are free: a unit that is taken whole costs no more than a part of it.
        """
        found: dict[object, int] = {}
        keys = [name if meter.features[name] > 0 else frozenset(meter.groups_of(name)) for name in names]
        return cls(tuple(found.setdefault(key, len(found)) for key in keys))

    @property
    def n(self) -> int:
        """Number of genes."""
        return max(self.of_feature) + 1

    @property
    def _order(self) -> Ints:
        """Features in the order of their genes."""
        return np.argsort(self.of_feature, kind="stable")

    @property
    def _starts(self) -> Ints:
        """Where the features of each gene begin in that order."""
        return np.searchsorted(np.sort(self.of_feature), np.arange(self.n))

    def expand(self, population: Population) -> Population:
        """Return chromosomes [designs, genes] by features; compressed ones stay compressed."""
        return np.take(population, self.of_feature, axis=1)

    def expand_sets(self, sets: Mask) -> Mask:
        """Return sets of genes [sets, genes] as sets of features."""
        return np.take(sets, self.of_feature, axis=1)

    def cover_sets(self, sets: Mask) -> Mask:
        """Return the genes that have some feature of each set [sets, features]."""
        return np.logical_or.reduceat(sets[:, self._order], self._starts, axis=1)

    def contract(self, population: Population) -> Population:
        """Return chromosomes by features as those by genes: each gene at the first stage that acquires one of its features."""
        last = np.iinfo(np.int8).max
        stages = np.minimum.reduceat(np.where(population < 0, last, population)[:, self._order], self._starts, axis=1)
        return np.where(stages == last, -1, stages).astype(np.int8)

    def positions(self, features: Iterable[int]) -> tuple[int, ...]:
        """Return the genes of some features, each once, in order."""
        return tuple(sorted({self.of_feature[position] for position in features}))
