"""`TreeEnsemble`: regression trees whose leaves are added up, in float64, as flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.support.arrays import Array, Floats, Ints, Mask
from emsco_train.models.trees.float_boundary import largest_at_most

__all__ = ["Tree", "TreeEnsemble"]

# Rows times trees that are followed at a time: few enough for the processor's cache.
_BLOCK_CELLS = 2**17


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One tree: at a node, a row goes left if its value is at most the threshold; a gap (NaN) goes where `gap_left` says.

    Parameters
    ----------
    target
        Position of the score that its leaves are added to.
    feature, threshold, gap_left
        Of each node: the column, the largest value that goes left, and whether a gap does. The root is the first one.
    left, right
        Of each node, its children: the position of a node, or ``~leaf``, which is below 0.
    value
        Of each leaf. A tree without nodes has one leaf.
    """

    target: int
    feature: Ints
    threshold: Floats
    gap_left: Mask
    left: Ints
    right: Ints
    value: Floats

    @classmethod
    def from_table(
        cls,
        target: int,
        *,
        is_leaf: Mask,
        feature: Ints,
        threshold: Floats,
        gap_left: Mask,
        left: Ints,
        right: Ints,
        value: Floats,
    ) -> Tree:
        """Return the tree of a table in which nodes and leaves are numbered together, as libraries keep them; 0 is the root."""
        number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
        node = ~is_leaf
        return cls(
            target, feature[node], threshold[node], gap_left[node], number[left[node]], number[right[node]], value[is_leaf]
        )


@dataclass(frozen=True, slots=True, eq=False)
class TreeEnsemble:
    """The nodes and leaves of all trees, one tree after the other.

    Parameters
    ----------
    base
        What each score starts from.
    roots
        The first node of each tree.
    feature, threshold, gap_left, left, right
        Of each node, as in `Tree`, with positions among the nodes and leaves of all trees.
    target, value
        Of each leaf: the score that it is added to, and what is added.

    Examples
    --------
    >>> leaf, node = np.array([-1.0, 1.0]), np.array([0])
    >>> tree = Tree(0, node, np.array([0.5]), np.array([True]), np.array([~0]), np.array([~1]), leaf)
    >>> TreeEnsemble.join([tree, tree], base=[10.0]).scores(np.array([[0.5], [0.6], [np.nan]]))
    array([[ 8.],
           [12.],
           [ 8.]])
    """

    base: Floats
    roots: Ints
    feature: Ints
    threshold: Floats
    gap_left: Mask
    left: Ints
    right: Ints
    target: Ints
    value: Floats

    @classmethod
    def join(cls, trees: Sequence[Tree], base: Sequence[float]) -> TreeEnsemble:
        """Return the ensemble of some trees; a tree without a node adds its leaf to the base."""
        start = np.array(base, dtype=np.float64)
        for tree in trees:
            if not len(tree.feature):
                start[tree.target] += tree.value[0]
        grown = [tree for tree in trees if len(tree.feature)]
        nodes = _offsets([len(tree.feature) for tree in grown])
        leaves = _offsets([len(tree.value) for tree in grown])
        return cls(
            start,
            np.array(nodes, dtype=np.intp),
            _concatenate([tree.feature for tree in grown], np.intp),
            _concatenate([tree.threshold for tree in grown], np.float64),
            _concatenate([tree.gap_left for tree in grown], np.bool_),
            _concatenate([_shift(tree.left, *at) for tree, *at in zip(grown, nodes, leaves, strict=True)], np.intp),
            _concatenate([_shift(tree.right, *at) for tree, *at in zip(grown, nodes, leaves, strict=True)], np.intp),
            np.repeat(np.array([tree.target for tree in grown], dtype=np.intp), [len(tree.value) for tree in grown]),
            _concatenate([tree.value for tree in grown], np.float64),
        )

    def before_rounding(self, rounding: Callable[[Floats], Array]) -> TreeEnsemble:
        """Return the same trees for values as they are, where these compare values after a rounding, which never decreases."""
        return replace(self, threshold=largest_at_most(rounding, self.threshold))

    def scores(self, columns: Floats) -> Floats:
        """Return the scores [rows, targets] of rows [rows, columns]."""
        result = np.tile(self.base, (len(columns), 1))
        step = max(1, _BLOCK_CELLS // max(1, len(self.roots)))
        for start in range(0, len(columns), step):
            part = slice(start, start + step)
            leaf = self._find_leaves(columns[part])
            for target in range(len(self.base)):
                result[part, target] += np.where(self.target[leaf] == target, self.value[leaf], 0.0).sum(axis=1)
        return result

    def _find_leaves(self, columns: Floats) -> Ints:
        """Return the leaf [rows, trees] that each row reaches in each tree."""
        place = np.tile(self.roots, len(columns))
        row = np.repeat(np.arange(len(columns)), len(self.roots))
        inner = np.arange(len(place))
        while len(inner):
            node = place[inner]
            value = columns[row[inner], self.feature[node]]
            goes_left = np.where(np.isnan(value), self.gap_left[node], value <= self.threshold[node])
            place[inner] = np.where(goes_left, self.left[node], self.right[node])
            inner = inner[place[inner] >= 0]
        return np.asarray(~place.reshape(len(columns), len(self.roots)))


def _offsets(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes).tolist()][: len(sizes)]


def _concatenate(parts: Sequence[Array], dtype: type) -> Array:
    return np.concatenate([np.zeros(0, dtype=dtype), *parts]).astype(dtype)


def _shift(children: Ints, nodes: int, leaves: int) -> Ints:
    """Return children as positions among those of all trees, where `nodes` nodes and `leaves` leaves come before."""
    return np.where(children >= 0, children + nodes, children - leaves)
