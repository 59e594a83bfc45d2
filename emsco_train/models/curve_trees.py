"""Curves as trees: a balanced tree over the knots of each feature, whose leaves hold what the stage model makes of the levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.data.curve import Curve
from emsco_train.data.encoder import BlockEncoder
from emsco_train.models.trees.tree_ensemble import Tree, TreeEnsemble

__all__ = ["curve_ensemble"]


def curve_ensemble(encoder: BlockEncoder, positions: Sequence[int], weights: Floats) -> TreeEnsemble:
    """Return the trees of the numbers at these positions, for scores that weigh the encoder's columns [scores, columns]."""
    trees = []
    for position in positions:
        block = encoder.blocks[position]
        if block.curve is None:
            raise ValueError(f"{block.name!r} has no curve")
        levels = weights[:, encoder.block_columns([position])] @ block.curve.column_levels
        trees += [
            _make_tree(position, block.curve, own, target=target, has_gaps=block.impute) for target, own in enumerate(levels)
        ]
    return TreeEnsemble.join(trees, np.zeros(len(weights)).tolist())


def _make_tree(feature: int, curve: Curve, levels: Floats, *, target: int, has_gaps: bool) -> Tree:
    """Return the tree that finds the cell of a value; where there may be gaps, its first node tells these from numbers."""
    # A value at a knot is above it.
    thresholds = np.nextafter(np.array(curve.knots), -np.inf)
    left: list[int] = []
    right: list[int] = []
    chosen: list[float] = []

    def add_node(threshold: float) -> int:
        left.append(0)
        right.append(0)
        chosen.append(threshold)
        return len(chosen) - 1

    def add_cells(first: int, last: int) -> int:
        """Return the node that finds one of these cells, or the leaf of the only one."""
        if first == last:
            return ~first
        middle = (first + last + 1) // 2
        node = add_node(thresholds[middle - 1])
        left[node], right[node] = add_cells(first, middle - 1), add_cells(middle, last)
        return node

    cells = len(thresholds)
    if has_gaps:
        root = add_node(np.inf)
        left[root], right[root] = add_cells(0, cells), ~(cells + 1)
    else:
        add_cells(0, cells)
    return Tree(
        target,
        np.full(len(chosen), feature, dtype=np.intp),
        np.array(chosen, dtype=np.float64),
        np.zeros(len(chosen), dtype=np.bool_),
        np.array(left, dtype=np.intp),
        np.array(right, dtype=np.intp),
        levels,
    )
