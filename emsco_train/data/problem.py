"""`Problem`: everything that a search is given, checked once: rows by split, features, costs, thresholds, what to fit.

What is learnt from data (kinds, categories, medians, means) is learnt from the train rows alone. A constant column is kept: it
becomes zeros and changes no model. One that is empty in the train rows is refused. Labels are text, whole numbers, or both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.meter import Meter
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel, Costs
from emsco_train.data.digest import data_digest, problem_digest
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import FeatureOptions
from emsco_train.data.labelled_rows import LabelledRows, Split, check_splits, encode_split, learn_features, stratified_sample
from emsco_train.data.labels import label_positions, unique_labels
from emsco_train.data.problem_warnings import warn_class_weight, warn_outliers, warn_thresholds
from emsco_train.data.splits import SPLITS, Shares, Splits, make_splits
from emsco_train.data.stage_settings import ClassWeight, StageSettings, row_weights
from emsco_train.data.thresholds import Threshold, resolve_thresholds
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import check_seed

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
        What the train rows say about each.
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
        Rows that fit the stage models, and rows that measure designs.
    test, certify
        Rows that the search never sees, or None.

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
            Options by feature name, where the train rows do not tell all.
        shares
            How much goes where; 40 / 20 / 20 / 20 % unless given (`PAPER_SHARES` for the paper's).
        splits
            Ready splits, in place of shares, groups and time.
        groups, time
            See `make_splits`.
        sample_weight
            One number per row of X, or None; those of the train rows weigh in the fits.
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
            raise DataError(
                f"splits divide {pluralize(splits.rows, 'row')}, but X has {whole.table.rows}: make them for this table"
            )
        return _build_problem(
            {name: whole.take(rows) for name, rows in splits.items() if len(rows)},
            costs=costs,
            threshold=threshold,
            options=features,
            sample_weight=_train_weights(sample_weight, whole.table.rows, splits.train),
            class_weight=class_weight,
            settings=settings,
        )

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
        return _build_problem(
            {name: LabelledRows.from_pair(pair, name) for name, pair in given if pair is not None},
            costs=costs,
            threshold=threshold,
            options=features,
            sample_weight=sample_weight,
            class_weight=class_weight,
            settings=settings,
        )

    @property
    def full_cost(self) -> float:
        """Cost of acquiring every feature."""
        return self.meter.cost(self.names)

    @property
    def offset(self) -> float:
        """What is added to costs before their ratio is taken: 0, or 1 % of the full cost where some feature is free."""
        free = any(self.meter.cost([name]) == 0 for name in self.names)
        return _FREE_COST_OFFSET * self.full_cost if free else 0.0

    @property
    def held_out(self) -> Split:
        """The rows that figures are reported on: the test rows, or, where there are none, the validation rows."""
        return self.validation if self.test is None else self.test

    def splits(self) -> tuple[Split, ...]:
        """Return the splits there are, in the order of `SPLITS`."""
        return tuple(split for split in (self.train, self.validation, self.test, self.certify) if split is not None)

    def with_threshold(self, threshold: Threshold) -> Problem:
        """Return the same problem with another threshold; rows, and so fits, are shared."""
        thresholds = resolve_thresholds(threshold, self.labels)
        warn_thresholds(thresholds, self.labels)
        return replace(self, thresholds=thresholds)

    def sampled(self, rows: int, seed: int = 0) -> Problem:
        """Return the problem on a stratified sample of at most `rows` train and `rows` validation rows, for a quicker search.

        Every label keeps its share and at least one row. Features, encoder, test and certify rows stay those of the whole, on
        which a design that was found is to be fitted and measured again.
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
        return data_digest(self.features, self.labels, self.splits(), self.weights, self.encoder, self.settings)

    def digest(self) -> str:
        """Return a hash of the whole problem: `data_digest`, costs and thresholds."""
        return problem_digest(self.data_digest(), self.costs, self.thresholds)


def _build_problem(
    parts: Mapping[str, LabelledRows],
    *,
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
    warn_thresholds(thresholds, labels)
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


def _train_weights(sample_weight: Any, rows: int, train: Ints) -> Any:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight)
    if weights.shape != (rows,):
        raise DataError(f"sample_weight has shape {weights.shape} for {pluralize(rows, 'row')}: give one number per row")
    return weights[train]


def _check_sample_size(rows: object, labels: int) -> int:
    if not isinstance(rows, int | np.integer) or isinstance(rows, bool) or rows < 2 * labels:
        raise DesignError(f"sample of {rows!r}: a whole number of rows is due, at least two for each of {labels} labels")
    return int(rows)
