"""What to fit at every stage: the model, its penalty and seed, and the weight of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.directions import UNDIRECTED, Directions
from emsco_train.data.labels import label_text
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_number

__all__ = [
    "Calibration",
    "ClassWeight",
    "StageKind",
    "StageSettings",
    "Upgrade",
    "check_sample_weight",
    "check_upgrade",
    "import_sklearn",
    "label_weights",
    "row_weights",
]

ClassWeight: TypeAlias = Mapping[Label, float] | Literal["balanced"] | None
Calibration: TypeAlias = Literal["temperature"]
StageKind: TypeAlias = Literal["straight", "curved", "boosted"]
# The kind of stages that designs are fitted with again, after a search with faster ones.
Upgrade: TypeAlias = Literal["boosted"]
# Of the largest weight: less is lost where the two are added.
_LEAST_SHARE = 1e-15
# Of one row: squares of such weights, and sums of these, are still numbers.
_LARGEST_WEIGHT = 1e150
_EXPECTED_WEIGHT = f"expected {1 / _LARGEST_WEIGHT:g} to {_LARGEST_WEIGHT:g}: bring all weights to a mean of 1"
# By package and class: neither LightGBM nor XGBoost is imported for this.
_DIRECTION_PARAMETERS = {
    ("lightgbm", "LGBMClassifier"): "monotone_constraints",
    ("sklearn", "HistGradientBoostingClassifier"): "monotonic_cst",
    ("xgboost", "XGBClassifier"): "monotone_constraints",
}


@dataclass(frozen=True, slots=True)
class StageSettings:
    """What to fit at every stage: a clone of the scikit-learn classifier, or else what `kind` says.

    A classifier whose `random_state` is None gets the seed, so that a run can be repeated. `calibrate` makes the probabilities of
    logistic regressions mean what they say, from cross-fitted scores: see `TemperatureScaling`. `kind` says what a stage is: a
    logistic regression, with the penalty 1 / C, of the features as they are ("straight") or of a curve of each, where that
    predicts better ("curved": see `Curve`), or boosted trees of scikit-learn ("boosted"). `directions` hold for all of them, and
    for classifiers that accept them.
    """

    classifier: Any = None
    C: float = 1.0
    seed: int = 0
    calibrate: Calibration | None = None
    kind: StageKind = "straight"
    directions: Directions = UNDIRECTED

    def __post_init__(self) -> None:
        """Check the penalty, the calibration, the kind of stages and the classifier."""
        if not _is_positive(self.C):
            raise DesignError(f"C is {self.C!r}: expected a finite number above 0")
        if self.calibrate not in (None, *get_args(Calibration)):
            raise DesignError(f"calibrate is {self.calibrate!r}: expected 'temperature' or None")
        if self.kind not in get_args(StageKind):
            raise DesignError(f"stages is {self.kind!r}: expected {' or '.join(map(repr, get_args(StageKind)))}")
        if self.is_logistic:
            return
        if self.calibrate is not None:
            # Its log-odds are not known, and of probabilities that are 0, as those of trees often are, there are none.
            given = (
                "leave it out with `stages='boosted'`"
                if self.classifier is None
                else "wrap yours in CalibratedClassifierCV instead"
            )
            raise DesignError(f"calibrate is for logistic regression: {given}")
        if self.classifier is None:
            return
        if self.kind != "straight":
            raise DesignError(f"stages is {self.kind!r}, and a classifier was given: give one or the other")
        # scikit-learn's `is_classifier` raises for anything that is not an estimator.
        estimator = hasattr(self.classifier, "get_params") and not isinstance(self.classifier, type)
        if not estimator or not import_sklearn().base.is_classifier(self.classifier):
            raise DesignError(f"classifier is {self.classifier!r}: give an instance of a scikit-learn classifier, or None")
        if self.directions and _direction_parameter(self.classifier) is None:
            raise DesignError(
                f"{type(self.classifier).__name__} takes no directions: leave out `increasing` and `decreasing`, or choose "
                "HistGradientBoostingClassifier, LGBMClassifier or XGBClassifier"
            )

    @property
    def described_classifier(self) -> Any:
        """The classifier of stages that are not logistic, as given or as we make it, for descriptions."""
        return self.make_classifier() if self.classifier is None else self.classifier

    @property
    def is_logistic(self) -> bool:
        """Whether stages are our logistic regressions."""
        return self.classifier is None and self.kind != "boosted"

    def make_classifier(self, signs: Ints | None = None) -> Any:
        """Return a new classifier to fit, with the seed; stages that are not logistic have one.

        `signs` are the directions of its columns, as `BlockEncoder.signs` gives them.
        """
        given = _boosted_trees() if self.classifier is None else import_sklearn().base.clone(self.classifier)
        open_seeds = [
            name
            for name, value in given.get_params(deep=True).items()
            if value is None and (name == "random_state" or name.endswith("__random_state"))
        ]
        parameters: dict[str, Any] = dict.fromkeys(open_seeds, self.seed)
        parameter = _direction_parameter(given)
        if parameter is not None and signs is not None and signs.any():
            # XGBoost takes a tuple, not a list.
            parameters[parameter] = tuple(signs.tolist())
        return given.set_params(**parameters)


def check_upgrade(upgrade: object, settings: StageSettings) -> Upgrade | None:
    """Return the kind of stages to fit after a search with these settings; raise if it is none, or no other one."""
    if upgrade is None:
        return None
    kind: Upgrade | None = next((one for one in get_args(Upgrade) if one == upgrade), None)
    if kind is None:
        raise DesignError(f"upgrade is {upgrade!r}: expected 'boosted' or None")
    if not settings.is_logistic:
        raise DesignError(
            f"upgrade is {upgrade!r}, which is for searches with fast stages: leave it out, or search with `stages='curved'`"
        )
    return kind


def _direction_parameter(classifier: Any) -> str | None:
    """Return the parameter that tells a classifier the direction of each column; None if it has none that we know."""
    names = [(each.__module__.partition(".")[0], each.__name__) for each in type(classifier).__mro__]
    return next((_DIRECTION_PARAMETERS[name] for name in names if name in _DIRECTION_PARAMETERS), None)


def _boosted_trees() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - takes a second; logistic stages never need it

    # Half as many bins as by default are fitted a third faster, and no worse on Spambase. Each split draws from half of the
    # columns, so that trees differ more: better on other rows nearly everywhere (benchmarks/boosted_trees.py). So many trees at
    # most: each fit chooses its own number (`choose_tree_count`). Stopping early would leave out the rows that it keeps back for
    # good.
    return HistGradientBoostingClassifier(
        max_iter=320, learning_rate=0.1, l2_regularization=1.0, max_bins=128, max_features=0.5, early_stopping=False
    )


def import_sklearn() -> Any:
    """Import scikit-learn, which takes a second: logistic stages never need it."""
    import sklearn.base  # noqa: PLC0415
    import sklearn.utils.validation  # noqa: PLC0415

    return sklearn


def row_weights(
    target: Ints, labels: tuple[Label, ...], *, class_weight: ClassWeight, sample_weight: Any | None
) -> Floats | None:
    """Combine class and sample weights into one weight per row; None when there are neither.

    A label without a class weight has 1; "balanced" is rows / (labels * rows of that label), where rows count by sample weight.

    Examples
    --------
    >>> row_weights(np.array([0, 1, 1, 1]), ("a", "b"), class_weight="balanced", sample_weight=None).round(3)
    array([2.   , 0.667, 0.667, 0.667])
    """
    if class_weight is None and sample_weight is None:
        return None
    rows = np.ones(len(target)) if sample_weight is None else _check_train_weights(sample_weight, target, labels)
    if class_weight is None:
        return rows
    by_label = np.bincount(target, weights=rows, minlength=len(labels)).astype(np.float64)
    return np.asarray(label_weights(class_weight, labels, by_label)[target] * rows)


def label_weights(class_weight: ClassWeight, labels: tuple[Label, ...], rows: Floats) -> Floats:
    """Return the class weight of each label, given how many rows each has."""
    if class_weight is None:
        return np.ones(len(labels))
    if class_weight == "balanced":
        return np.asarray(rows.sum() / (len(labels) * rows))
    return _label_weights(class_weight, labels)


def check_sample_weight(sample_weight: Any, count: int) -> Floats:
    """Return weights as numbers; raise unless there is one for each of `count` rows, finite and at least 0."""
    try:
        rows = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("sample_weight must hold one number per row") from None
    if rows.shape != (count,):
        raise DataError(f"sample_weight has shape {rows.shape} for {pluralize(count, 'row')}: give one number per row")
    bad = np.flatnonzero(~(np.isfinite(rows) & (rows >= 0)))
    if len(bad):
        raise DataError(f"`sample_weight`, row {bad[0]}: {rows[bad[0]]} is not a weight: expected a finite number, 0 or more")
    _refuse_extreme_weight(rows)
    return rows


def _refuse_extreme_weight(rows: Floats) -> None:
    """Raise if a weight is so large that all others together vanish beside it, or one that cannot be computed with."""
    if not len(rows):
        return
    far = np.flatnonzero(_is_far_from_1(rows) & (rows > 0))
    if len(far):
        raise DataError(f"`sample_weight`, row {far[0]}: {rows[far[0]]:g} cannot be computed with, {_EXPECTED_WEIGHT}")
    largest = int(rows.argmax())
    if 0 < np.delete(rows, largest).sum() < _LEAST_SHARE * rows[largest]:
        detail = f"all other rows together count for nothing beside {rows[largest]:g}"
        raise DataError(f"`sample_weight`, row {largest}: {detail}: expected weights of comparable size")


def _check_train_weights(sample_weight: Any, target: Ints, labels: tuple[Label, ...]) -> Floats:
    rows = check_sample_weight(sample_weight, len(target))
    empty = [label for position, label in enumerate(labels) if not rows[target == position].any()]
    if empty:
        raise DataError(f"sample_weight is 0 for every row of label {empty[0]!r}: give some of them weight, or drop the label")
    return rows


def _label_weights(class_weight: object, labels: tuple[Label, ...]) -> Floats:
    if not isinstance(class_weight, Mapping):
        raise DesignError(f'class_weight is {class_weight!r}: give a mapping label -> weight, "balanced" or None')
    given = {label_text(label): weight for label, weight in class_weight.items()}
    faults = [f"{name!r} is not a label" for name in given if name not in map(str, labels)]
    faults += [
        f"{weight!r} for label {name!r} is not a number above 0" for name, weight in given.items() if not _is_positive(weight)
    ]
    faults += [
        f"{weight!r} for label {name!r} cannot be computed with, {_EXPECTED_WEIGHT}"
        for name, weight in given.items()
        if _is_positive(weight) and _is_far_from_1(float(weight))
    ]
    if faults:
        raise DesignError("`class_weight`: " + "; ".join(faults) + f" (labels: {', '.join(map(str, labels))})")
    return np.array([float(given.get(str(label), 1.0)) for label in labels])


def _is_far_from_1(weights: Any) -> Any:
    return (weights > _LARGEST_WEIGHT) | (weights < 1 / _LARGEST_WEIGHT)


def _is_positive(weight: object) -> bool:
    return is_number(weight) and weight > 0
