"""Reads XGBoost's XGBClassifier.

XGBoost compares and adds up in float32. Its comparisons are kept as they are; its leaves are added up in float64, so the
probabilities are those that XGBoost rounds.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from emsco_runtime.support.arrays import Array, Floats
from emsco_train.errors import ConversionError
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.tree_ensemble import Tree, TreeEnsemble

__all__ = ["read_xgboost"]


def read_xgboost(estimator: Any) -> TreeClassifier:
    """Return the trees of a fitted XGBClassifier."""
    if not (isinstance(estimator.missing, float) and math.isnan(estimator.missing)):
        raise ConversionError(f"it takes {estimator.missing!r} for missing values: leave out missing")
    booster = estimator.get_booster()
    if hasattr(estimator, "best_iteration"):
        # After early stopping, it predicts with the best iterations alone.
        booster = booster[: estimator.best_iteration + 1]
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    objective, kind = learner["objective"]["name"], learner["gradient_booster"]["name"]
    if objective not in ("binary:logistic", "multi:softprob"):
        raise ConversionError(f"its objective is {objective!r}, expected 'binary:logistic' or 'multi:softprob'")
    if kind != "gbtree":
        raise ConversionError(f"its booster is {kind!r}, expected 'gbtree'")
    model = learner["gradient_booster"]["model"]
    trees = [_read_tree(tree, target) for tree, target in zip(model["trees"], model["tree_info"], strict=True)]
    ensemble = TreeEnsemble.join(trees, _read_base(learner["learner_model_param"], objective))
    return TreeClassifier(ensemble.before_rounding(_round), is_rounded=True)


def _read_base(parameters: Any, objective: str) -> list[float]:
    """Return what the scores start from; older versions write one number for all labels."""
    given = np.array(parameters["base_score"].strip("[]").split(","), dtype=np.float32).astype(np.float64)
    if objective == "binary:logistic":
        return [math.log(given[0] / (1 - given[0]))]
    scores: list[float] = np.broadcast_to(given, int(parameters["num_class"])).tolist()
    return scores


def _read_tree(tree: Any, target: int) -> Tree:
    if tree["categories_nodes"]:
        raise ConversionError("it splits by category; categories reach it as columns of 0 and 1: leave out enable_categorical")
    if int(tree["tree_param"]["size_leaf_vector"]) > 1:
        raise ConversionError("its leaves are vectors: leave out multi_strategy")
    left = np.array(tree["left_children"], dtype=np.intp)
    is_leaf = left == -1
    # A node's limit, or a leaf's value. Values below a limit go left: those up to the float32 before it.
    conditions = np.array(tree["split_conditions"], dtype=np.float32)
    return Tree.from_table(
        target,
        is_leaf=is_leaf,
        feature=np.array(tree["split_indices"], dtype=np.intp),
        threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
        gap_left=np.array(tree["default_left"], dtype=np.bool_),
        left=left,
        right=np.array(tree["right_children"], dtype=np.intp),
        value=conditions.astype(np.float64),
    )


def _round(values: Floats) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
