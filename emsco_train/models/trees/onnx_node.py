"""The ONNX node of a `TreeEnsemble`: operator ``TreeEnsemble`` of ai.onnx.ml 5, with float64 tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from emsco_runtime.support.arrays import Array, Ints
from emsco_train.models.trees.tree_ensemble import TreeEnsemble

__all__ = ["OPSET_ML", "tree_node"]

# The first version of the operators of ai.onnx.ml with trees in float64, from input to output.
OPSET_ML = 5

_LESS_OR_EQUAL, _SUM = 0, 1


def tree_node(ensemble: TreeEnsemble, source: str, target: str) -> Any:
    """Return the node, a `NodeProto`, that adds up the leaves; the base of the scores is left to the graph.

    `source` is the name of the rows [rows, columns] in float64, `target` that of the sums [rows, targets].
    """
    from onnx import helper  # noqa: PLC0415 - heavy: training writes graphs only where a row is near a threshold, and exports

    trees = _renumber_leaves(ensemble) if len(ensemble.roots) else _zero_tree(len(ensemble.base))
    node = helper.make_node("TreeEnsemble", [source], [target], domain="ai.onnx.ml")
    node.attribute.extend(
        [
            helper.make_attribute("aggregate_function", _SUM),
            _numbers("leaf_targetids", trees.target),
            _tensor("leaf_weights", trees.value),
            helper.make_attribute("n_targets", len(trees.base)),
            _numbers("nodes_falseleafs", trees.right < 0),
            _numbers("nodes_falsenodeids", _position(trees.right)),
            _numbers("nodes_featureids", trees.feature),
            _numbers("nodes_missing_value_tracks_true", trees.gap_left),
            _tensor("nodes_modes", np.full(len(trees.feature), _LESS_OR_EQUAL, dtype=np.uint8)),
            _tensor("nodes_splits", trees.threshold),
            _numbers("nodes_trueleafs", trees.left < 0),
            _numbers("nodes_truenodeids", _position(trees.left)),
            _numbers("tree_roots", trees.roots),
        ]
    )
    return node


def _numbers(name: str, values: Array) -> Any:
    from onnx import helper  # noqa: PLC0415 - as above

    return helper.make_attribute(name, values.astype(np.int64).tolist())


def _tensor(name: str, values: Array) -> Any:
    from onnx import helper, numpy_helper  # noqa: PLC0415 - as above

    return helper.make_attribute(name, numpy_helper.from_array(values, name))


def _position(children: Ints) -> Ints:
    return np.where(children >= 0, children, ~children)


def _renumber_leaves(trees: TreeEnsemble) -> TreeEnsemble:
    """Return the same trees with their leaves numbered so that no root has a leaf and a node of the same number.

    onnxruntime takes such a root for a leaf, up to 1.23 at least: it compares the numbers alone.
    """
    left, right = trees.left[trees.roots], trees.right[trees.roots]
    mixed = (left < 0) != (right < 0)
    leaf, node = ~np.minimum(left, right)[mixed], np.maximum(left, right)[mixed]
    count = len(trees.value)
    taken = set(((node - leaf) % count)[node < count].tolist())
    # There are more leaves than roots, so there is one.
    offset = next(number for number in range(count) if number not in taken)

    def move(children: Ints) -> Ints:
        return np.where(children >= 0, children, ~((~children + offset) % count))

    target, value = np.roll(trees.target, offset), np.roll(trees.value, offset)
    return replace(trees, left=move(trees.left), right=move(trees.right), target=target, value=value)


def _zero_tree(targets: int) -> TreeEnsemble:
    """Return one tree that adds 0: the operator needs one."""
    none, leaf = np.zeros(1, dtype=np.intp), np.full(1, ~0, dtype=np.intp)
    return TreeEnsemble(np.zeros(targets), none, none, np.zeros(1), none.astype(np.bool_), leaf, leaf, none, np.zeros(1))
