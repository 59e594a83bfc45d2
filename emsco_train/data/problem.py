"""`Problem`: all inputs of a search, checked once: rows by split, features, costs, thresholds, what to fit.

Kinds, categories, medians and means are learned from the train rows alone. A constant column is kept: it becomes zeros and
changes no model. One that is empty in the train rows is refused. Labels are text, whole numbers, or both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import Feature, manifest_id
from emsco_runtime.bundle.meter import Meter
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel, Costs
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import FeatureOptions
from emsco_train.data.labelled_rows import LabelledRows, Split, check_splits, encode_split, learn_features, stratified_sample
from emsco_train.data.labels import label_positions, unique_labels
from emsco_train.data.problem_warnings import warn_class_weight, warn_low_thresholds, warn_outliers
from emsco_train.data.provenance import fingerprint
from emsco_train.data.splits import SPLITS, Shares, Splits, make_splits
from emsco_train.data.stage_settings import ClassWeight, StageSettings, row_weights
from emsco_train.data.thresholds import Threshold, resolve_thresholds
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import check_seed, is_integer

__all__ = ["Problem"]

_FREE_COST_OFFSET = 0.01  # of the cost of all features, where some feature set costs nothing


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A search problem; make one with `of` (one table) or `from_splits` (ready tables).

    Parameters
    ----------
    names
        The features in column order: the genes of a chromosome.
    features
        Kind, categories and price of each, from the train rows.
    labels
        The labels in order.
    thresholds
        Confidence that each label needs.
    costs
        Prices, as the user gave them.
    meter
        The cost function over them.
    settings
        What to fit at every stage.
    class_weight
        As given; already inside `weights`.
    weights
        One per train row, or None. Objectives count rows, whatever their weight.
    encoder
        The blocks of all features.
    train, validation
        Rows to fit the stage models, and rows to measure designs.
    test, certify
        Rows that the search does not use, or None.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> problem = Problem.of({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}, X[:, 0] > 0, costs={"a": 5, "b": 1, "c": 1})
    >>> problem.names, problem.labels, len(problem.train), len(problem.certify)
    (('a', 'b', 'c'), (0, 1), 40, 20)
    >>> problem.validation.encoded.shape, problem.full_cost
    ((20, 3), 7.0)
    """

    names: tuple[str, ...]
    features: tuple[Feature, ...]
    labels: tuple[Label, ...]
    thresholds: tuple[float, ...]
    costs: CostModel
    meter: Meter
    settings: StageSettings
    class_weight: ClassWeight
    weights: Floats | None
    encoder: BlockEncoder
    train: Split
    validation: Split
    test: Split | None
    certify: Split | None

    @classmethod
    def of(
        cls,
        X: Any,  # noqa: N803 - scikit-learn's name
        y: Any,
        *,
        costs: Costs = None,
        threshold: Threshold = 0.9,
        features: Mapping[str, FeatureOptions] | None = None,
        shares: Shares | None = None,
        splits: Splits | None = None,
        groups: Any = None,
        time: Any = None,
        sample_weight: Any = None,
        class_weight: ClassWeight = None,
        classifier: Any = None,
        C: float = 1.0,  # noqa: N803 - scikit-learn's name
        seed: int = 0,
    ) -> Problem:
        """Divide one table into splits and describe it.

        Parameters
        ----------
        X, y
            Rows (a data frame, a mapping of arrays, or an array) and their labels.
        costs
            A cost model, a mapping, a sequence in column order, or None for 1 each.
        threshold
            Confidence needed to accept: one number above 0 and up to 1, or a mapping label -> number.
        features
            Options by feature name, which override what the train rows say.
        shares
            Share of each split; by default 40 / 20 / 20 / 20 % (`PAPER_SHARES` for the paper's).
        splits
            Ready splits, instead of shares, groups and time.
        groups, time
            See `make_splits`.
        sample_weight
            One number per row of X, or None; those of the train rows weight the fits.
        class_weight, classifier, C
            As in `export_design`.
        seed
            Of the splits, and of classifiers that need one.
        """
        settings = StageSettings(classifier, C, check_seed(seed))
        whole = LabelledRows.of(X, y, "y")
        if splits is None:
            labels, rng = unique_labels(whole.true_labels, "y"), np.random.default_rng(settings.seed)
            target = label_positions(whole.true_labels, labels)
            splits = make_splits(target, shares or Shares(), groups=groups, time=time, rng=rng, labels=labels)
        elif not (shares is groups is time is None):
            raise DesignError("splits were given together with shares, groups or time, which make splits: give one or the other")
        elif splits.rows != whole.table.rows:
            counts = f"splits divide {pluralize(splits.rows, 'row')}, but X has {whole.table.rows}"
            raise DataError(f"{counts}: make them for this table")
        parts = {name: whole.take(rows) for name, rows in splits.items() if len(rows)}
        weights = _train_weights(sample_weight, whole.table.rows, splits.train)
        return _build_problem(parts, costs, threshold, features, weights, class_weight, settings)

    @classmethod
    def from_splits(
        cls,
        *,
        train: tuple[Any, Any],
        validation: tuple[Any, Any],
        test: tuple[Any, Any] | None = None,
        certify: tuple[Any, Any] | None = None,
        costs: Costs = None,
        threshold: Threshold = 0.9,
        features: Mapping[str, FeatureOptions] | None = None,
        sample_weight: Any = None,
        class_weight: ClassWeight = None,
        classifier: Any = None,
        C: float = 1.0,  # noqa: N803 - scikit-learn's name
        seed: int = 0,
    ) -> Problem:
        """Describe ready tables.

        Parameters
        ----------
        train, validation, test, certify
            Pairs (rows, labels), with the same columns in any order.
        sample_weight
            One number per train row, or None.
        costs, threshold, features, class_weight, classifier, C, seed
            As in `of`.
        """
        settings = StageSettings(classifier, C, check_seed(seed))
        given = zip(SPLITS, (train, validation, test, certify), strict=True)
        parts = {name: LabelledRows.from_pair(pair, name) for name, pair in given if pair is not None}
        return _build_problem(parts, costs, threshold, features, sample_weight, class_weight, settings)

    @property
    def full_cost(self) -> float:
        """Cost of acquiring every feature."""
        return self.meter.cost(self.names)

    @property
    def offset(self) -> float:
        """Added to costs before their ratio is taken: 0, or 1 % of the full cost if some feature is free."""
        free = any(self.meter.cost([name]) == 0 for name in self.names)
        return _FREE_COST_OFFSET * self.full_cost if free else 0.0

    @property
    def held_out(self) -> Split:
        """The rows to report results on: the test rows, or, if there are none, the validation rows."""
        return self.validation if self.test is None else self.test

    def splits(self) -> tuple[Split, ...]:
        """Return the splits there are, in the order of `SPLITS`."""
        return tuple(split for split in (self.train, self.validation, self.test, self.certify) if split is not None)

    def with_threshold(self, threshold: Threshold) -> Problem:
        """Return the same problem with another threshold; rows, and so fits, are shared."""
        thresholds = resolve_thresholds(threshold, self.labels)
        warn_low_thresholds(thresholds, self.labels)
        return replace(self, thresholds=thresholds)

    def sampled(self, rows: int, seed: int = 0) -> Problem:
        """Return the problem on a stratified sample of at most `rows` train and `rows` validation rows, for a faster search.

        Every label keeps its share and at least one row. Features, encoder, test and certify rows stay those of the whole
        problem, on which a design that was found is to be fitted and measured again.
        """
        max_rows = _check_sample_size(rows, len(self.labels))
        rng = np.random.default_rng(check_seed(seed))
        # A train row without weight changes no fit, and a sample of such rows alone could not be fitted.
        pool = np.arange(len(self.train)) if self.weights is None else np.flatnonzero(self.weights > 0)
        train_rows = stratified_sample(self.train.target, pool, max_rows, rng)
        validation_rows = stratified_sample(self.validation.target, np.arange(len(self.validation)), max_rows, rng)
        if (len(train_rows), len(validation_rows)) == (len(self.train), len(self.validation)):
            return self
        weights = None if self.weights is None else self.weights[train_rows]
        return replace(self, train=self.train.take(train_rows), validation=self.validation.take(validation_rows), weights=weights)

    def data_digest(self) -> str:
        """Return a hash of all that stage models depend on: the rows and what to fit, not costs and thresholds."""
        # Not the prices and fallbacks of features: they change no model.
        hashed_fields = {"name", "kind", "categories", "missing", "unknown"}
        return manifest_id(
            {
                "features": [feature.model_dump(mode="json", include=hashed_fields) for feature in self.features],
                "labels": list(self.labels),
                "splits": {split.name: self._fingerprint(split) for split in self.splits()},
                "weights": None if self.weights is None else hashlib.sha256(self.weights.astype("<f8").tobytes()).hexdigest(),
                "encoder": repr(self.encoder),
                "settings": _describe_settings(self.settings),
            }
        )

    def digest(self) -> str:
        """Return a hash of the whole problem: `data_digest`, costs and thresholds."""
        groups = sorted((group.name, float(group.cost), sorted(group.features)) for group in self.costs.groups)
        own = {name: float(cost) for name, cost in self.costs.features.items()}
        prices = {"features": own, "groups": groups, "unit": self.costs.unit}
        return manifest_id({"data": self.data_digest(), "costs": prices, "thresholds": list(self.thresholds)})

    def _fingerprint(self, split: Split) -> str:
        row_labels = [self.labels[position] for position in split.target.tolist()]
        return fingerprint(self.features, split.codes, row_labels).sha256


def _build_problem(
    parts: Mapping[str, LabelledRows],
    costs: Costs,
    threshold: Threshold,
    options: Mapping[str, FeatureOptions] | None,
    sample_weight: Any,
    class_weight: ClassWeight,
    settings: StageSettings,
) -> Problem:
    names, labels = parts["train"].table.names, check_splits(parts)
    cost_model = CostModel.of(costs, names)
    cost_model.check(names, names)
    thresholds = resolve_thresholds(threshold, labels)
    features, encoder = learn_features(parts["train"], cost_model, options)
    splits = {name: encode_split(name, part, features, labels, encoder) for name, part in parts.items()}
    target = splits["train"].target
    weights = row_weights(target, labels, class_weight=class_weight, sample_weight=sample_weight)
    warn_low_thresholds(thresholds, labels)
    warn_class_weight(target, labels, class_weight)
    warn_outliers(encoder.blocks, splits["train"].codes)
    return Problem(
        names=names,
        features=features,
        labels=labels,
        thresholds=thresholds,
        costs=cost_model,
        meter=cost_model.meter(),
        settings=settings,
        class_weight=class_weight,
        weights=weights,
        encoder=encoder,
        train=splits["train"],
        validation=splits["validation"],
        test=splits.get("test"),
        certify=splits.get("certify"),
    )


def _describe_settings(settings: StageSettings) -> dict[str, Any]:
    kind, options = None, {}
    if settings.classifier is not None:
        kind = f"{type(settings.classifier).__module__}.{type(settings.classifier).__qualname__}"
        # Not repr of the classifier: scikit-learn shortens it.
        options = {name: repr(value) for name, value in settings.classifier.get_params(deep=True).items()}
    return {"classifier": kind, "options": options, "C": float(settings.C), "seed": settings.seed}


def _train_weights(sample_weight: Any, rows: int, train: Ints) -> Any:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.shape != (rows,):
        raise DataError(f"sample_weight has shape {weights.shape} for {pluralize(rows, 'row')}: give one number per row")
    return weights[train]


def _check_sample_size(rows: object, labels: int) -> int:
    if not is_integer(rows) or rows < 2 * labels:
        raise DesignError(f"sample of {rows!r}: expected a whole number of rows, at least two for each of {labels} labels")
    return int(rows)
