"""Stage models: the one place that fits them, for search, export and verification alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from emsco_runtime._arrays import Floats, Ints, Mask
from emsco_runtime.decision import Label
from emsco_runtime.summary import counted
from emsco_train._numbers import is_number
from emsco_train.errors import DataError, DesignError, FitError
from emsco_train.logistic.fits import LogisticBatch, LogisticModel, LogisticProblem

__all__ = ["ClassWeight", "ClassifierModel", "StageFitter", "StageModel", "StageSettings", "row_weights"]

ClassWeight: TypeAlias = Mapping[Label, float] | Literal["balanced"] | None


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierModel:
    """A fitted scikit-learn classifier; its labels are positions.

    Parameters
    ----------
    estimator
        Anything with `predict_proba`.
    """

    estimator: Any

    @property
    def name(self) -> str:
        """Name of its class."""
        return type(self.estimator).__name__

    def probabilities(self, encoded: Floats) -> Floats:
        """Return what `predict_proba` says; the cascade itself is scored through the graph."""
        return np.asarray(self.estimator.predict_proba(encoded), dtype=np.float64)


StageModel: TypeAlias = LogisticModel | ClassifierModel


@dataclass(frozen=True, slots=True)
class StageSettings:
    """What to fit at every stage.

    Parameters
    ----------
    classifier
        A scikit-learn classifier, cloned per stage; None: logistic regression.
    C
        Inverse strength of the logistic regression's penalty.
    seed
        Given to a classifier whose `random_state` is open, so that a run can be repeated.
    """

    classifier: Any = None
    C: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a penalty or a classifier that cannot work."""
        if not _is_weight(self.C):
            raise DesignError(f"C is {self.C!r}: a finite number above 0 is due")
        if self.classifier is None:
            return
        # scikit-learn's own question raises for anything that is no estimator at all.
        estimator = hasattr(self.classifier, "get_params") and not isinstance(self.classifier, type)
        if not estimator or not is_classifier(self.classifier):
            raise DesignError(f"classifier is {self.classifier!r}: give an instance of a scikit-learn classifier, or None")


class StageFitter:
    """Fits stage models on column sets of one encoded matrix.

    Search and export fit through it alike: a model depends on the matrix and on the set of columns, not on what else was fitted.

    Parameters
    ----------
    encoded
        Training columns [rows, columns] of all features.
    target
        Position of each row's label.
    labels
        How many labels there are; each must occur.
    weights
        One per row, as `row_weights` gives them, or None.
    settings
        Which model.
    choices
        Columns of categorical features, as `BlockEncoder.choices` tells them.
    """

    def __init__(
        self,
        encoded: Floats,
        target: Ints,
        labels: int,
        weights: Floats | None,
        settings: StageSettings,
        choices: Sequence[slice] = (),
    ) -> None:
        self._encoded = encoded
        self._target = target
        self._weights = weights
        self._settings = settings
        self._logistic = (
            LogisticProblem(encoded, target, labels, weights=weights, C=float(settings.C), choices=choices)
            if settings.classifier is None
            else None
        )

    def fit(self, columns: Ints) -> StageModel:
        """Fit the model of one stage, whose inputs are these columns, in this order."""
        if self._logistic is None:
            return _fit_classifier(self._encoded[:, columns], self._target, self._weights, self._settings)
        chosen = np.zeros((1, self._encoded.shape[1]), dtype=np.bool_)
        chosen[0, columns] = True
        return self._logistic.fit(chosen).model(0, columns)

    def fit_batch(self, sets: Mask, workers: int) -> LogisticBatch:
        """Fit the logistic regressions of many column sets [sets, columns]; the same models as `fit` gives one by one."""
        if self._logistic is None:
            raise DesignError(f"{self._settings.classifier!r} is fitted one set at a time")
        return self._logistic.fit(sets, workers=workers)


def _fit_classifier(encoded: Floats, target: Ints, weights: Floats | None, settings: StageSettings) -> ClassifierModel:
    estimator = _seeded(clone(settings.classifier), settings.seed)
    name = type(estimator).__name__
    if weights is not None and not has_fit_parameter(estimator, "sample_weight"):
        raise DesignError(
            f"{name} takes no sample weights: leave out sample_weight and class_weight, or choose another classifier"
        )
    try:
        if weights is None:
            estimator.fit(encoded, target)
        else:
            estimator.fit(encoded, target, sample_weight=weights)
    except (ArithmeticError, ValueError) as error:
        raise FitError(
            f"{name} failed to fit {counted(encoded.shape[0], 'row')} x {counted(encoded.shape[1], 'column')}: {error}"
        ) from error
    # Some classifiers, such as stacks, know only now whether they can.
    if not hasattr(estimator, "predict_proba"):
        raise DesignError(f"{name} has no predict_proba: wrap it in CalibratedClassifierCV")
    return ClassifierModel(estimator)


def row_weights(
    target: Ints, labels: tuple[Label, ...], *, class_weight: ClassWeight, sample_weight: Any | None
) -> Floats | None:
    """Combine class and sample weights into one weight per row; None when there are neither.

    Parameters
    ----------
    target
        Position of each row's label.
    labels
        The labels in order.
    class_weight
        Label -> weight (1 where left out), or "balanced": rows / (labels * rows of that label), by sample weight.
    sample_weight
        One number per row, or None.

    Examples
    --------
    >>> row_weights(np.array([0, 1, 1, 1]), ("a", "b"), class_weight="balanced", sample_weight=None).round(3)
    array([2.   , 0.667, 0.667, 0.667])
    """
    if class_weight is None and sample_weight is None:
        return None
    rows = np.ones(len(target)) if sample_weight is None else _checked_weights(sample_weight, target, labels)
    if class_weight is None:
        return rows
    if class_weight == "balanced":
        per_label = rows.sum() / (len(labels) * np.bincount(target, weights=rows, minlength=len(labels)))
    else:
        per_label = _per_label(class_weight, labels)
    return np.asarray(rows * per_label[target])


def _checked_weights(sample_weight: Any, target: Ints, labels: tuple[Label, ...]) -> Floats:
    try:
        rows = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("sample_weight must hold one number per row") from None
    if rows.shape != target.shape:
        raise DataError(f"sample_weight has shape {rows.shape} for {counted(len(target), 'row')}: give one number per row")
    bad = np.flatnonzero(~(np.isfinite(rows) & (rows >= 0)))
    if len(bad):
        raise DataError(f"sample_weight, row {bad[0]}: {rows[bad[0]]} is no weight; a finite number, 0 or more, is due")
    empty = [label for position, label in enumerate(labels) if not rows[target == position].any()]
    if empty:
        raise DataError(f"sample_weight is 0 for every row of label {empty[0]!r}: give some of them weight, or drop the label")
    return rows


def _per_label(class_weight: object, labels: tuple[Label, ...]) -> Floats:
    if not isinstance(class_weight, Mapping):
        raise DesignError(f'class_weight is {class_weight!r}: give a mapping label -> weight, "balanced" or None')
    given = {str(label): weight for label, weight in class_weight.items()}
    faults = [f"{name!r} is no label" for name in given if name not in map(str, labels)]
    faults += [f"{weight!r} for label {name!r} is no number above 0" for name, weight in given.items() if not _is_weight(weight)]
    if faults:
        raise DesignError("class_weight: " + "; ".join(faults) + f" (labels: {', '.join(map(str, labels))})")
    return np.array([float(given.get(str(label), 1.0)) for label in labels])


def _is_weight(weight: object) -> bool:
    return is_number(weight) and weight > 0


def _seeded(estimator: Any, seed: int) -> Any:
    open_seeds = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    return estimator.set_params(**dict.fromkeys(open_seeds, seed))
