"""Reads LightGBM's LGBMClassifier, which compares and adds up in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco_runtime.support.arrays import Array, Floats
from emsco_train.errors import ConversionError
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.tree_ensemble import Tree, TreeEnsemble

__all__ = ["read_lightgbm"]

# Before it compares a value, LightGBM takes everything up to this for 0.
_ZERO = float(np.float32(1e-35))
# Bits of a node's `decision_type`.
_BY_CATEGORY, _GAP_LEFT, _ZERO_IS_GAP, _KNOWS_GAPS = 1, 2, 4, 8


def read_lightgbm(estimator: Any) -> TreeClassifier:
    """Return the trees of a fitted LGBMClassifier."""
    # Its text format has all numbers with 17 digits; its JSON has another number for infinity.
    header, *blocks = estimator.booster_.model_to_string().partition("\nend of trees")[0].split("\nTree=")
    lines = header.splitlines()
    objective, _, options = next((line[10:] for line in lines if line.startswith("objective=")), "custom").partition(" ")
    if objective not in ("binary", "multiclass"):
        raise ConversionError(f"its objective is {objective!r}, expected 'binary' or 'multiclass'")
    if "average_output" in lines:
        raise ConversionError("it averages its trees: leave out boosting_type='rf'")
    targets = next(int(line.partition("=")[2]) for line in lines if line.startswith("num_tree_per_iteration="))
    # "sigmoid:1": the score is multiplied by this.
    factor = float(options.partition("sigmoid:")[2]) if objective == "binary" else 1.0
    trees = [_read_tree(block, number % targets, factor) for number, block in enumerate(blocks)]
    return TreeClassifier(TreeEnsemble.join(trees, [0.0] * targets).before_rounding(_flush))


def _read_tree(block: str, target: int, factor: float) -> Tree:
    fields = {name: text for name, _, text in (line.partition("=") for line in block.splitlines())}

    def numbers(name: str, dtype: type) -> Array:
        return np.array(fields[name].split(), dtype=dtype)

    decision = numbers("decision_type", np.intp)
    if (decision & _BY_CATEGORY).any():
        raise ConversionError("it splits by category; categories reach it as columns of 0 and 1: leave out categorical_feature")
    if (decision & _ZERO_IS_GAP).any():
        raise ConversionError("it takes zeros for missing values: leave out zero_as_missing")
    if fields["is_linear"] != "0":
        raise ConversionError("its leaves are linear models: leave out linear_tree")
    threshold = numbers("threshold", np.float64)
    return Tree(
        target,
        numbers("split_feature", np.intp),
        threshold,
        # Where training had no gaps, a gap is taken for 0.
        np.where(decision & _KNOWS_GAPS, (decision & _GAP_LEFT) != 0, threshold >= 0),
        numbers("left_child", np.intp),
        numbers("right_child", np.intp),
        numbers("leaf_value", np.float64) * factor,
    )


def _flush(values: Floats) -> Floats:
    return np.where(np.abs(values) <= _ZERO, 0.0, values)
