"""Stage models: the one place that fits them, for search, export and verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.stage_settings import StageSettings, import_sklearn
from emsco_train.errors import DesignError, FitError
from emsco_train.models.fit_cache import FitCache
from emsco_train.models.logistic.regression import LogisticBatch, LogisticModel, LogisticProblem
from emsco_train.models.trees.reading import read_trees
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.tree_count import choose_tree_count
from emsco_train.support.openmp import one_openmp_thread
from emsco_train.support.stop_flag import FitStopped, StopFlag

__all__ = ["ClassifierModel", "StageFitter", "StageModel", "has_exact_graph"]

# Boosted models that a fitter keeps: some hundred kilobytes each.
_KEPT_MODELS = 128


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierModel:
    """A fitted scikit-learn classifier with `predict_proba`; its labels are positions.

    `trees` are those of boosted trees that are read exactly. Such a model has a float64 graph that gives its probabilities.
    """

    estimator: Any
    trees: TreeClassifier | None = None

    @property
    def name(self) -> str:
        """Name of its class."""
        return type(self.estimator).__name__

    def probabilities(self, encoded: Floats) -> Floats:
        """Return the result of `predict_proba`, or what it rounds to float32."""
        if self.trees is not None and self.trees.is_rounded:
            return self.trees.probabilities(encoded)
        return self.predict(encoded)

    def predict(self, encoded: Floats) -> Floats:
        """Return the result of `predict_proba`."""
        with one_openmp_thread():
            return np.asarray(self.estimator.predict_proba(encoded), dtype=np.float64)


StageModel: TypeAlias = LogisticModel | ClassifierModel


def has_exact_graph(model: StageModel) -> bool:
    """Tell whether the graph gives the model's own probabilities to the last bits, on all rows."""
    return isinstance(model, LogisticModel) or model.trees is not None


class StageFitter:
    """Fits stage models on column sets of one encoded matrix.

    Search and export both fit with it: a model depends on the matrix and on the set of columns, not on what else was fitted.
    `encoded` holds the training columns [rows, columns] of all features; the rest is as in `LogisticProblem`.
    """

    def __init__(
        self,
        encoded: Floats,
        target: Ints,
        labels: int,
        weights: Floats | None,
        settings: StageSettings,
        one_hot_groups: Sequence[slice] = (),
        stop: StopFlag | None = None,
        signs: Ints | None = None,
    ) -> None:
        self._encoded = encoded
        self._target = target
        self._weights = weights
        self._settings = settings
        self._stop = stop or StopFlag()
        self._signs = np.zeros(encoded.shape[1], dtype=np.intp) if signs is None else signs
        logistic = (
            LogisticProblem(
                encoded,
                target,
                labels,
                weights=weights,
                C=float(settings.C),
                one_hot_groups=one_hot_groups,
                signs=signs,
                stop=stop,
            )
            if settings.is_logistic
            else None
        )
        self._fits = None if logistic is None else FitCache(logistic)
        self._boosted: dict[bytes, ClassifierModel] = {}

    @property
    def is_logistic(self) -> bool:
        """Whether the models are logistic regressions, which `fit_batch` fits."""
        return self._fits is not None

    def fit(self, columns: Ints) -> StageModel:
        """Fit the model of one stage, whose inputs are these columns, in this order."""
        if self._fits is None:
            return self._fit_once(columns)
        chosen = np.zeros((1, self._encoded.shape[1]), dtype=np.bool_)
        chosen[0, columns] = True
        return self._fits.fit(chosen, workers=1).model(0, columns)

    def fit_batch(self, sets: Mask, workers: int) -> LogisticBatch:
        """Fit the logistic regressions of many column sets [sets, columns]; the same models as `fit` gives one by one."""
        if self._fits is None:
            raise DesignError(f"{self._settings.make_classifier()!r} is fitted one set at a time")
        return self._fits.fit(sets, workers)

    def _fit_once(self, columns: Ints) -> ClassifierModel:
        key = columns.tobytes()
        if key in self._boosted:
            return self._boosted[key]
        if self._stop.array[0]:
            raise FitStopped
        estimator, encoded = self._settings.make_classifier(self._signs[columns]), self._encoded[:, columns]
        if self._settings.classifier is None:
            estimator.set_params(max_iter=choose_tree_count(estimator, encoded, self._target, self._weights, self._stop))
        model = _fit_classifier(estimator, encoded, self._target, self._weights)
        # Designs of a front share their sets. Boosted trees are slow to fit and small; other classifiers may be large.
        if model.trees is not None and len(self._boosted) < _KEPT_MODELS:
            self._boosted[key] = model
        return model


def _fit_classifier(estimator: Any, encoded: Floats, target: Ints, weights: Floats | None) -> ClassifierModel:
    name = type(estimator).__name__
    if weights is not None and not import_sklearn().utils.validation.has_fit_parameter(estimator, "sample_weight"):
        raise DesignError(
            f"{name} takes no sample weights: leave out sample_weight and class_weight, or choose another classifier"
        )
    try:
        with one_openmp_thread():
            if weights is None:
                estimator.fit(encoded, target)
            else:
                estimator.fit(encoded, target, sample_weight=weights)
    except (ArithmeticError, ValueError) as error:
        raise FitError(
            f"{name} failed to fit {pluralize(encoded.shape[0], 'row')} x {pluralize(encoded.shape[1], 'column')}: {error}"
        ) from error
    # Some classifiers, such as stacks, know only after the fit whether they can.
    if not hasattr(estimator, "predict_proba"):
        raise DesignError(f"{name} has no predict_proba: wrap it in CalibratedClassifierCV")
    return ClassifierModel(estimator, read_trees(estimator))
