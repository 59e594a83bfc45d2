"""One regression tree whose splits pay for the features that they need: the step of Greedy Miser.

A split is worth the squared error that it removes, as a share of all rows, less `weight` times the price of its feature, as a
share of the price of all features. A feature that was bought before, by this tree or an earlier one, is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.models.trees.tree_ensemble import Tree

__all__ = ["BinnedColumns", "CostTreeGrower", "GrownTree"]

# Gains below this are rounding.
_LEAST_GAIN = 1e-12

Prices = Callable[[Mask], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class BinnedColumns:
    """Columns as bins: a value in bin b is at most the edge b, if there is one. All columns have as many places for bins.

    Examples
    --------
    >>> binned = BinnedColumns.of(np.array([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0]]))
    >>> binned.codes.tolist(), [edges.tolist() for edges in binned.edges]
    ([[0, 0], [1, 0], [2, 0]], [[0.5, 2.5], []])
    """

    codes: Ints
    edges: tuple[Floats, ...]

    @classmethod
    def of(cls, columns: Floats, max_bins: int = 64) -> BinnedColumns:
        """Cut columns [rows, columns] between neighbouring values, or, where there are more than `max_bins`, at quantiles."""
        edges = tuple(_cut(column, max_bins) for column in columns.T)
        codes = np.column_stack(
            [np.searchsorted(edge, column, side="left") for edge, column in zip(edges, columns.T, strict=True)]
        )
        return cls(codes.astype(np.intp), edges)

    @property
    def places(self) -> int:
        """Number of bins of the column that has most."""
        return 1 + max(len(edges) for edges in self.edges)


@dataclass(frozen=True, slots=True, eq=False)
class GrownTree:
    """A tree, what it adds to each of the rows that it was grown on, and the features that are bought once it is used."""

    tree: Tree
    fitted: Floats
    bought: Mask


@dataclass(frozen=True, slots=True, eq=False)
class CostTreeGrower:
    """Grows trees on the same rows.

    Parameters
    ----------
    columns
        The rows.
    owners
        The feature that each column belongs to.
    prices
        From the features bought so far [features] to the price of each, as a share of the price of all: 0 for a bought one.
    weight
        How much a price counts compared with the error.
    depth
        Most splits on the way to a leaf.
    min_rows
        Fewest rows of a leaf.
    """

    columns: BinnedColumns
    owners: Ints
    prices: Prices
    weight: float
    depth: int = 3
    min_rows: int = 5

    def grow(self, residual: Floats, bought: Mask) -> GrownTree:
        """Grow a tree, level by level, on what is left to explain of each row."""
        growth = _Growth(np.zeros(len(residual)), bought.copy())
        levels = [(np.arange(len(residual)), 0, growth.add())]
        while levels:
            rows, depth, place = levels.pop(0)
            split = self._best_split(residual, rows, growth.bought) if depth < self.depth else None
            if split is None:
                growth.value[place] = value = float(residual[rows].mean())
                growth.fitted[rows] = value
                continue
            column, cut = split
            growth.bought[self.owners[column]] = True
            growth.column[place], growth.threshold[place] = column, float(self.columns.edges[column][cut])
            is_left = self.columns.codes[rows, column] <= cut
            growth.left[place], growth.right[place] = growth.add(), growth.add()
            levels.append((rows[is_left], depth + 1, growth.left[place]))
            levels.append((rows[~is_left], depth + 1, growth.right[place]))
        return growth.finish()

    def _best_split(self, residual: Floats, rows: Ints, bought: Mask) -> tuple[int, int] | None:
        """Return the column and the bin up to which rows go left; None where no split is worth its price."""
        columns, places = self.columns.codes.shape[1], self.columns.places
        cells = (self.columns.codes[rows] + places * np.arange(columns)).ravel()
        count = np.bincount(cells, minlength=columns * places).reshape(columns, places).cumsum(axis=1)[:, :-1]
        weights = np.repeat(residual[rows], columns)
        total = np.bincount(cells, weights, minlength=columns * places).reshape(columns, places).cumsum(axis=1)[:, :-1]
        other, rest = len(rows) - count, residual[rows].sum() - total
        allowed = (count >= self.min_rows) & (other >= self.min_rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = 0.5 * (total**2 / count + rest**2 / other - residual[rows].sum() ** 2 / len(rows)) / len(residual)
        worth = np.where(allowed, gain - self.weight * self.prices(bought)[self.owners][:, None], -np.inf)
        if not worth.size or worth.max() <= _LEAST_GAIN:
            return None
        column, cut = np.unravel_index(int(worth.argmax()), worth.shape)
        return int(column), int(cut)


class _Growth:
    """A tree under way: nodes and leaves are numbered together; a leaf has no column."""

    def __init__(self, fitted: Floats, bought: Mask) -> None:
        self.fitted, self.bought = fitted, bought
        self.column: list[int] = []
        self.threshold: list[float] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.value: list[float] = []

    def add(self) -> int:
        """Add a leaf, and return its number."""
        for values, start in ((self.column, -1), (self.left, 0), (self.right, 0)):
            values.append(start)
        self.threshold.append(0.0)
        self.value.append(0.0)
        return len(self.column) - 1

    def finish(self) -> GrownTree:
        """Return the tree."""
        column = np.array(self.column, dtype=np.intp)
        tree = Tree.from_table(
            0,
            is_leaf=column < 0,
            feature=column,
            threshold=np.array(self.threshold),
            gap_left=np.ones(len(column), dtype=np.bool_),
            left=np.array(self.left, dtype=np.intp),
            right=np.array(self.right, dtype=np.intp),
            value=np.array(self.value),
        )
        return GrownTree(tree, self.fitted, self.bought)


def _cut(column: Floats, max_bins: int) -> Floats:
    values = np.unique(column)
    if len(values) > max_bins:
        values = np.unique(np.quantile(column, np.linspace(0.0, 1.0, max_bins), method="inverted_cdf"))
    return np.asarray((values[:-1] + values[1:]) / 2)
