"""From a fitted classifier to its trees: which library's reader serves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emsco_train.errors import ConversionError
from emsco_train.models.trees.hist_gradient_boosting import read_hist_gradient_boosting
from emsco_train.models.trees.lightgbm import read_lightgbm
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.xgboost import read_xgboost

__all__ = ["read_trees"]

# By package and class: neither LightGBM nor XGBoost is imported for this.
_READERS: dict[tuple[str, str], Callable[[Any], TreeClassifier]] = {
    ("lightgbm", "LGBMClassifier"): read_lightgbm,
    ("sklearn", "HistGradientBoostingClassifier"): read_hist_gradient_boosting,
    ("xgboost", "XGBClassifier"): read_xgboost,
}


def read_trees(estimator: Any) -> TreeClassifier | None:
    """Return the trees of a fitted classifier; None for one that is not made of trees, or whose trees are not read here.

    Raises
    ------
    ConversionError
        If its trees cannot be had exactly.
    """
    names = [(each.__module__.partition(".")[0], each.__name__) for each in type(estimator).__mro__]
    reader = next((_READERS[name] for name in names if name in _READERS), None)
    if reader is None:
        return None
    try:
        return reader(estimator)
    except ConversionError as error:
        raise ConversionError(
            f"{type(estimator).__name__} cannot be converted to ONNX with equal probabilities: {error}"
        ) from None
