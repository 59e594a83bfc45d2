"""Reads scikit-learn's HistGradientBoostingClassifier, which compares and adds up in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco_train.errors import ConversionError
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.tree_ensemble import Tree, TreeEnsemble

__all__ = ["read_hist_gradient_boosting"]


def read_hist_gradient_boosting(estimator: Any) -> TreeClassifier:
    """Return the trees of a fitted HistGradientBoostingClassifier."""
    if estimator.is_categorical_ is not None and estimator.is_categorical_.any():
        raise ConversionError("it splits by category; categories reach it as columns of 0 and 1: leave out categorical_features")
    # It has no public way to its trees: a list per iteration, of one tree per score.
    trees = [_read_tree(tree.nodes, target) for iteration in estimator._predictors for target, tree in enumerate(iteration)]  # noqa: SLF001
    return TreeClassifier(TreeEnsemble.join(trees, np.ravel(estimator._baseline_prediction).tolist()))  # noqa: SLF001


def _read_tree(nodes: Any, target: int) -> Tree:
    return Tree.from_table(
        target,
        is_leaf=nodes["is_leaf"].astype(np.bool_),
        feature=nodes["feature_idx"].astype(np.intp),
        threshold=nodes["num_threshold"],
        gap_left=nodes["missing_go_to_left"].astype(np.bool_),
        left=nodes["left"].astype(np.intp),
        right=nodes["right"].astype(np.intp),
        value=nodes["value"],
    )
