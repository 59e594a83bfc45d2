"""`Problem`: all inputs of a search, checked once: rows by split, features, costs, thresholds, what to fit.

Designs are measured on rows that their models have not seen: on the validation rows, or cross-fitted. Then train and validation
rows are one pool; the models of each fold are fitted on the others and score its rows; what is exported is fitted on all of them.

Kinds, categories, medians and means are learned from the train rows alone. A constant column is kept: it becomes zeros and
changes no model. One that is empty in the train rows is refused. Labels are text, whole numbers, or both.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import Feature, manifest_id
from emsco_runtime.bundle.meter import Meter
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel, Costs
from emsco_train.data.curves.additive_fit import STRAIGHT, CurvePenalties
from emsco_train.data.curves.encoder_learner import EncoderLearner
from emsco_train.data.directions import Directions
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import FeatureOptions
from emsco_train.data.fit_memory import check_fit_memory
from emsco_train.data.folds import Fold, check_folds, make_folds, resolve_folds
from emsco_train.data.labelled_rows import LabelledRows, Split, check_splits, encode_split, learn_features, stratified_sample
from emsco_train.data.labels import check_label_count, label_positions, unique_labels
from emsco_train.data.problem_warnings import (
    warn_class_weight,
    warn_few_groups,
    warn_low_thresholds,
    warn_outliers,
    warn_rare_labels,
    warn_repeated_rows,
    warn_small_weights,
    warn_unknown_categories,
)
from emsco_train.data.provenance import fingerprint
from emsco_train.data.row_error import RowError
from emsco_train.data.split_keys import group_codes, time_codes
from emsco_train.data.splits import SPLITS, Shares, Splits, check_shares, make_splits, refuse_groups_with_time
from emsco_train.data.stage_settings import (
    Calibration,
    ClassWeight,
    StageKind,
    StageSettings,
    Upgrade,
    check_sample_weight,
    row_weights,
)
from emsco_train.data.thresholds import Threshold, resolve_thresholds
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import check_seed, is_integer

__all__ = ["Problem", "ScoredPart"]

# Groups of different sizes, or as many as folds, are divided in the same way every time.
_MAX_FOLD_DRAWS = 30
_FREE_COST_OFFSET = 0.01  # of the cost of all features, where some feature set costs nothing


@dataclass(frozen=True, slots=True, eq=False)
class ScoredPart:
    """Rows that fit models, and rows that these models score, as the columns of their own encoder; no row is both.

    `fold` holds the same rows as positions among the train rows of a cross-fitted problem; None for one validation split.
    """

    fitted: Split
    weights: Floats | None  # of the fits, one per fitted row
    scored: Split
    fold: Fold | None = None


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
        Of the fits: one per train row, or None. Figures count the rows of a split by its own `weights`, without class weights.
    encoder
        The blocks of all features.
    learner
        How encoders are learned, and how strongly curves and vectors are shrunk.
    train, validation
        Rows to fit the stage models that are exported, and rows to measure designs. Cross-fitted, the latter are those of the
        train rows that some fold scores, fold by fold.
    folds
        How many folds the train rows were to be divided into; 0: the validation rows are rows of their own.
    parts
        How the validation rows are scored: by models of the train rows, or fold by fold; in the order of the validation rows.
    test, certify
        Rows that the search does not use, or None.
    upgrade
        "boosted" for a copy made by `upgraded`, whose stages are boosted trees; else None.
    may_repeat
        Whether equal rows in different splits are no fault: rows were divided by groups or by time.

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
    learner: EncoderLearner
    train: Split
    validation: Split
    folds: int
    parts: tuple[ScoredPart, ...]
    test: Split | None
    certify: Split | None
    upgrade: Upgrade | None = None
    may_repeat: bool = False  # rows were divided by groups or by time: a row that occurs in two splits is no fault of that

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
        folds: int | None = 0,
        groups: Any = None,
        time: Any = None,
        sample_weight: Any = None,
        class_weight: ClassWeight = None,
        classifier: Any = None,
        C: float = 1.0,  # noqa: N803 - scikit-learn's name
        calibrate: Calibration | None = None,
        stages: StageKind = "straight",
        increasing: Sequence[str] = (),
        decreasing: Sequence[str] = (),
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
            Share of each split, a `Shares`; by default 40 / 20 / 20 / 20 % (`PAPER_SHARES` for the paper's).
        splits
            Ready splits, instead of shares.
        folds
            How many folds score the train and validation rows, which are then one pool; 0: the validation rows alone measure
            designs, as in the paper. None: `AUTO_FOLDS` for a pool of at most `MAX_AUTO_ROWS` rows, else 0.
        groups, time
            See `make_splits` and `make_folds`.
        sample_weight
            One number per row of X, or None: how much the row counts, in fits, figures and certificates. Equal ones count in fits
            alone.
        class_weight, classifier, C
            As in `export_design`.
        calibrate
            "temperature": scale the confidences of each stage by a temperature from cross-fitted scores, where that lowers
            their log loss; needs folds.
        stages
            "straight": logistic regressions on the features as they are. "curved": on a curve of each feature, learned from the
            rows that fit models; where straight lines predict about as well, these are kept. "boosted": boosted trees, which are
            slower to search with. Instead of a classifier.
        increasing, decreasing
            Names of numbers or booleans that, as they rise, never lower (never raise) the probability of the second of two labels
            at any stage. See docs/stages.md.
        seed
            Of the splits, and of classifiers that need one.
        """
        settings = StageSettings(classifier, C, check_seed(seed), calibrate, stages, Directions.make(increasing, decreasing))
        check_folds(folds)
        check_shares(shares)
        refuse_groups_with_time(groups, time)
        whole = LabelledRows.of(X, y, "y")
        rows = whole.table.rows
        labels = unique_labels(whole.true_labels, "y")
        check_label_count(len(labels), rows, "y")
        has_ready_splits = splits is not None
        codes = None if groups is None else group_codes(groups, rows=rows)
        if splits is None:
            rng = np.random.default_rng(settings.seed)
            target = label_positions(whole.true_labels, labels)
            shares = shares or Shares()
            if codes is not None:
                _refuse_one_group(codes)
            splits = make_splits(target, shares, groups=codes, time=time, rng=rng, labels=labels)
            if codes is not None:
                warn_few_groups(codes, shares, splits)
        elif shares is not None:
            raise DesignError("splits were given together with shares, which make splits: give one or the other")
        elif splits.rows != rows:
            counts = f"splits divide {pluralize(splits.rows, 'row')}, but X has {rows}"
            raise DataError(f"{counts}: make them for this table")
        whole = replace(
            whole,
            groups=codes,
            weights=None if sample_weight is None else check_sample_weight(sample_weight, rows),
        )
        # A row without weight takes no part in anything: features and folds are those of the table without it.
        parts = {name: whole.take(whole.counting(chosen)) for name, chosen in splits.items() if len(chosen)}
        pool = whole.counting(np.sort(np.concatenate([splits.train, splits.validation])))
        count, made = _fold_pool(whole, pool, folds, None if time is None else time_codes(time, rows=rows), settings.seed)
        if count:
            parts = {"train": whole.take(pool)} | {name: part for name, part in parts.items() if name in ("test", "certify")}
        if codes is not None and has_ready_splits:
            _refuse_divided_groups(codes, {name: part.rows for name, part in parts.items()})
        with _rows_of_the_table(has_ready_splits=has_ready_splits):
            problem = _build_problem(parts, costs, threshold, features, class_weight, settings, count, made)
        if groups is not None or time is not None:
            # With groups, the user has said which rows belong together; later rows repeat earlier ones in production, too.
            return replace(problem, may_repeat=True)
        warn_repeated_rows(problem.separate_parts())
        return problem

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
        stages: StageKind = "straight",
        increasing: Sequence[str] = (),
        decreasing: Sequence[str] = (),
        seed: int = 0,
    ) -> Problem:
        """Describe ready tables.

        Parameters
        ----------
        train, validation, test, certify
            Pairs (rows, labels), with the same columns in any order.
        sample_weight
            One number per train row, or None; or a mapping from split to one number for each of its rows. Rows of a split that
            has none count the same.
        costs, threshold, features, class_weight, classifier, C, stages, increasing, decreasing, seed
            As in `of`.
        """
        directions = Directions.make(increasing, decreasing)
        settings = StageSettings(classifier, C, check_seed(seed), kind=stages, directions=directions)
        given = zip(SPLITS, (train, validation, test, certify), strict=True)
        parts = {name: LabelledRows.from_pair(pair, name) for name, pair in given if pair is not None}
        weights = sample_weight if isinstance(sample_weight, Mapping) else {"train": sample_weight}
        for name, numbers in weights.items():
            if name not in parts:
                raise DesignError(f"`sample_weight` names {name!r}: expected some of {', '.join(parts)}, the splits given")
            if numbers is not None:
                part = replace(parts[name], weights=_check_split_weights(numbers, parts[name].table.rows, name))
                parts[name] = part.take(part.counting(part.rows))
        problem = _build_problem(parts, costs, threshold, features, class_weight, settings)
        warn_repeated_rows(problem.separate_parts())
        return problem

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

    @property
    def is_cross_fitted(self) -> bool:
        """Whether the train rows themselves measure designs, each scored by a model that has not seen it."""
        return self.parts[0].fold is not None

    @property
    def has_other_folds(self) -> bool:
        """Whether the rows can be divided into folds in other ways; by time, and of few rows or groups, there is one alone."""
        return self._can_redraw_folds() and self._draw_other_folds(0) is not None

    @property
    def curve_strength(self) -> float:
        """How strongly the steps of curves were shrunk towards lines; infinite without curves."""
        return self.learner.penalties.step

    def splits(self) -> tuple[Split, ...]:
        """Return the splits there are, in the order of `SPLITS`, each row once: cross-fitted rows are train rows."""
        validation = None if self.is_cross_fitted else self.validation
        return tuple(split for split in (self.train, validation, self.test, self.certify) if split is not None)

    def separate_parts(self) -> tuple[Split, ...]:
        """Return the rows that are taken to be independent of each other: those of each fold and of each split."""
        pool = tuple(part.scored for part in self.parts) if self.is_cross_fitted else (self.train, self.validation)
        return (*pool, *(split for split in (self.test, self.certify) if split is not None))

    def with_threshold(self, threshold: Threshold) -> Problem:
        """Return the same problem with another threshold; rows, and so fits, are shared."""
        thresholds = resolve_thresholds(threshold, self.labels)
        warn_low_thresholds(thresholds, self.labels)
        return replace(self, thresholds=thresholds)

    def upgraded(self, upgrade: Upgrade | None) -> Problem:
        """Return the same rows, folds and prices with the stages of an upgraded design; itself for a design that is not."""
        if upgrade is None or upgrade == self.upgrade:
            return self
        settings = replace(self.settings, calibrate=None, kind=upgrade)
        if self.curve_strength == STRAIGHT:
            return replace(self, settings=settings, upgrade=upgrade)
        # Trees find curves by themselves, better from the values than from other curves.
        train, validation = _without_curves(self.train), _without_curves(self.validation)
        parts = tuple(
            replace(part, fitted=_without_curves(part.fitted), scored=_without_curves(part.scored)) for part in self.parts
        )
        return replace(
            self,
            settings=settings,
            upgrade=upgrade,
            encoder=self.encoder.without_curves(),
            learner=replace(self.learner, penalties=CurvePenalties()),
            train=train,
            validation=validation,
            parts=parts if self.is_cross_fitted else (ScoredPart(train, self.weights, validation),),
            test=None if self.test is None else _without_curves(self.test),
            certify=None if self.certify is None else _without_curves(self.certify),
        )

    def with_other_folds(self, number: int = 0, *, finer: bool = False) -> Problem:
        """Return the same problem with another division of its rows into folds; unchanged where `has_other_folds` knows none.

        Each number draws a division; of few rows or groups, two may draw the same (`division_of_folds` tells). A choice
        among many designs favours those that are lucky in their folds. Figures on other folds are free of that part: for the
        same designs on the same rows, they are a little lower, and nearer to the truth. `finer` folds are twice as many, as far
        as there are groups: their models are fitted on nearly all rows, as exported ones are. Raises `DataError` where a number
        draws no different division; 0 always does, if there is one.
        """
        if not self._can_redraw_folds():
            return self
        other = self._draw_other_folds(number, finer=finer)
        if other is None and not self.has_other_folds:
            return self
        if other is None:
            raise DataError(f"division {number}: no different division into folds was found. Use another number")
        validation, parts = _score_folds(self.learner, self.train, self.weights, self.encoder, other)
        return replace(self, validation=replace(validation, name="cross-fitted again"), parts=parts)

    def sampled(self, rows: int, seed: int = 0) -> Problem:
        """Return the problem on a stratified sample of at most `rows` train and `rows` validation rows, for a faster search.

        Every label keeps its share and at least one row. Cross-fitted, it is `rows` of the train rows, in their folds; a fold is
        left out where the others lack a label. Features, encoder, test and certify rows stay those of the whole
        problem, on which a design that was found is to be fitted and measured again.
        """
        max_rows = _check_sample_size(rows, len(self.labels))
        rng = np.random.default_rng(check_seed(seed))
        train_rows = stratified_sample(self.train.target, max_rows, rng)
        weights = None if self.weights is None else self.weights[train_rows]
        train = self.train.take(train_rows)
        if self.is_cross_fitted:
            if len(train_rows) == len(self.train):
                return self
            folds = [_restrict_fold(part.fold, train_rows) for part in self.parts if part.fold is not None]
            # The models of a fold must know every label, which those of a few rows may not.
            folds = [fold for fold in folds if len(fold.scored) and len(set(train.target[fold.fitted])) == len(self.labels)]
            if not folds:
                raise DesignError(f"sample of {max_rows}: no fold has every label in the others: use more rows, or `folds=0`")
            validation, parts = _score_folds(self.learner, train, weights, self.encoder, folds)
            return replace(self, train=train, weights=weights, validation=validation, parts=parts)
        validation_rows = stratified_sample(self.validation.target, max_rows, rng)
        if (len(train_rows), len(validation_rows)) == (len(self.train), len(self.validation)):
            return self
        validation = self.validation.take(validation_rows)
        return replace(self, train=train, weights=weights, validation=validation, parts=(ScoredPart(train, weights, validation),))

    def data_digest(self) -> str:
        """Return a hash of all that stage models depend on: the rows and what to fit, not costs and thresholds."""
        # Not the prices and fallbacks of features: they change no model.
        hashed_fields = {"name", "kind", "width", "categories", "missing", "unknown"}
        return manifest_id(
            {
                "features": [feature.model_dump(mode="json", include=hashed_fields) for feature in self.features],
                "labels": list(self.labels),
                "splits": {split.name: self._fingerprint(split) for split in self.splits()},
                **({"folds": self._fold_hashes()} if self.is_cross_fitted else {}),
                "weights": None if self.weights is None else _hash_weights(self.weights),
                **({"sample_weights": counted} if (counted := self._weight_hashes()) else {}),
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

    def _can_redraw_folds(self) -> bool:
        """Return whether chance dealt the rows to folds."""
        folds = [part.fold for part in self.parts if part.fold is not None]
        # By time, the models of all but the last fold know nothing of later rows; one fold alone may be the last.
        return len(folds) > 1 and all(len(fold.fitted) + len(fold.scored) == len(self.train) for fold in folds)

    def division_of_folds(self, number: int, *, finer: bool = False) -> frozenset[tuple[int, ...]] | None:
        """Return the rows of each fold as `with_other_folds` divides them, equal for the same division; None where it raises."""
        drawn = self._draw_other_folds(number, finer=finer)
        return None if drawn is None else _fold_sets(drawn)

    def _draw_other_folds(self, number: int, *, finer: bool = False) -> tuple[Fold, ...] | None:
        """Return folds that divide the rows in another way than those of this problem; None where none was drawn."""
        groups = None if self.train.groups is None else group_codes(self.train.groups, rows=len(self.train))
        count = len(self.parts)
        if finer:
            count = min(2 * count, len(self.train) if groups is None else int(groups.max()) + 1)
        rng = np.random.default_rng((self.settings.seed, 2, number))
        present = _fold_sets(part.fold for part in self.parts if part.fold is not None)
        for _ in range(_MAX_FOLD_DRAWS):
            # Of few rows or groups, a division may have no fold whose models know every label.
            with suppress(DataError):
                drawn = make_folds(self.train.target, count, groups=groups, rng=rng, labels=self.labels)
                if _fold_sets(drawn) != present:
                    return drawn
        return None

    def _weight_hashes(self) -> dict[str, str]:
        return {split.name: _hash_weights(split.weights) for split in self.splits() if split.weights is not None}

    def _fold_hashes(self) -> list[str]:
        folds = [part.fold for part in self.parts if part.fold is not None]
        return [
            hashlib.sha256(np.concatenate([fold.fitted, [-1], fold.scored]).astype("<i8").tobytes()).hexdigest() for fold in folds
        ]

    def _fingerprint(self, split: Split) -> str:
        row_labels = [self.labels[position] for position in split.target.tolist()]
        return fingerprint(self.features, split.codes, row_labels).sha256


def _build_problem(
    parts: Mapping[str, LabelledRows],
    costs: Costs,
    threshold: Threshold,
    options: Mapping[str, FeatureOptions] | None,
    class_weight: ClassWeight,
    settings: StageSettings,
    count: int = 0,
    folds: Sequence[Fold] = (),
) -> Problem:
    if not folds and "validation" not in parts:
        raise DesignError("there are no validation rows, and no folds: give validation rows a share, or use `folds=5`")
    if settings.calibrate is not None and not folds:
        raise DesignError("`calibrate` needs cross-fitted scores, and there are no folds: use `folds=5`, or leave it out")
    names, labels = parts["train"].table.names, check_splits(parts)
    cost_model = CostModel.of(costs, names)
    cost_model.check(names, names)
    thresholds = resolve_thresholds(threshold, labels)
    features, plain = learn_features(parts["train"], cost_model, options)
    settings.directions.check(features, labels)
    splits = {name: encode_split(name, part, features, labels, plain) for name, part in parts.items()}
    train = splits["train"]
    target = train.target
    sample_weight = train.weights
    weights = row_weights(target, labels, class_weight=class_weight, sample_weight=sample_weight)
    if _have_equal_weights(splits.values()):
        splits = {name: replace(split, weights=None) for name, split in splits.items()}
        train = splits["train"]
    for split in splits.values():
        # Raises where no row has weight: before the search, not after it.
        _ = split.units
    learner = EncoderLearner.choose(
        *(plain, features, train.codes, target), labels=labels, groups=train.groups, weights=weights, settings=settings
    )
    encoder = learner.refine(plain, train.codes, target, weights)
    splits = {name: replace(split, encoder=encoder) for name, split in splits.items()}
    train = splits["train"]
    if settings.is_logistic:
        check_fit_memory(encoder.blocks, len(labels), sum(part.table.rows for part in parts.values()))
    if folds:
        validation, scored = _score_folds(learner, train, weights, encoder, folds)
    else:
        validation = splits["validation"]
        scored = (ScoredPart(train, weights, validation),)
    warn_low_thresholds(thresholds, labels)
    warn_rare_labels(labels, [validation, *(split for name, split in splits.items() if name in ("test", "certify"))])
    warn_unknown_categories(parts["train"], [split for name, split in splits.items() if name != "train"], features)
    warn_class_weight(np.bincount(target, weights=sample_weight, minlength=len(labels)), labels, class_weight)
    if weights is not None and settings.is_logistic:
        warn_small_weights(len(weights), float(weights.sum()), settings.C)
    # By the deviations, not by what penalties make of them.
    warn_outliers([replace(own, curve=made.curve) for own, made in zip(plain.blocks, encoder.blocks, strict=True)], train.codes)
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
        learner=learner,
        train=train,
        validation=validation,
        folds=count,
        parts=scored,
        test=splits.get("test"),
        certify=splits.get("certify"),
    )


@contextmanager
def _rows_of_the_table(*, has_ready_splits: bool) -> Iterator[None]:
    """Let errors name rows as the user's one table counts them; if the user divided it, by their place in the split, too."""
    try:
        yield
    except RowError as error:
        split_place = f" ({error.place})" if has_ready_splits else ""
        raise error.at(f"row {error.row} of the table{split_place}", error.row) from None


def _without_curves(split: Split) -> Split:
    return replace(split, encoder=split.encoder.without_curves())


def _describe_settings(settings: StageSettings) -> dict[str, Any]:
    kind, options = None, {}
    if not settings.is_logistic:
        classifier = settings.described_classifier
        kind = f"{type(classifier).__module__}.{type(classifier).__qualname__}"
        # Not repr of the classifier: scikit-learn shortens it.
        options = {name: repr(value) for name, value in classifier.get_params(deep=True).items()}
    added: dict[str, Any] = {} if settings.calibrate is None else {"calibrate": settings.calibrate}
    added |= {} if settings.kind == "straight" else {"stages": settings.kind}
    added |= settings.directions.record()
    return {"classifier": kind, "options": options, "C": float(settings.C), "seed": settings.seed, **added}


def _fold_pool(
    whole: LabelledRows, pool: Ints, folds: int | None, moments: Ints | None, seed: int
) -> tuple[int, tuple[Fold, ...]]:
    """Return how many folds some rows get, and the folds, as positions among these; `moments` are those of all rows."""
    groups = None if whole.groups is None else group_codes(whole.groups[pool], rows=len(pool))
    time = None if moments is None else time_codes(moments[pool], rows=len(pool))
    count = resolve_folds(folds, len(pool), groups=groups, time=time)
    if not count:
        return 0, ()
    true_labels = [whole.true_labels[row] for row in pool.tolist()]
    labels = unique_labels(true_labels, "train y")
    # A stream of its own: ready splits get the same folds as the same splits made here.
    rng = np.random.default_rng((seed, 1))
    return count, make_folds(label_positions(true_labels, labels), count, groups=groups, time=time, rng=rng, labels=labels)


def _score_folds(
    learner: EncoderLearner, pool: Split, weights: Floats | None, encoder: BlockEncoder, folds: Sequence[Fold]
) -> tuple[Split, tuple[ScoredPart, ...]]:
    """Return the rows that folds score, fold by fold, and the parts that score them, whose encoders have not seen them."""
    parts = []
    for fold in folds:
        own_weights = None if weights is None else weights[fold.fitted]
        own = learner.learn(pool.codes[fold.fitted], pool.target[fold.fitted], own_weights, default=encoder)
        fitted, scored = (replace(pool.take(rows), encoder=own) for rows in (fold.fitted, fold.scored))
        parts.append(ScoredPart(fitted, own_weights, scored, fold))
    validation = replace(pool.take(np.concatenate([fold.scored for fold in folds])), name="cross-fitted")
    return validation, tuple(parts)


def _refuse_one_group(groups: Ints) -> None:
    """Raise if all rows are in one group: whatever shares and folds are asked for, there is nothing to measure designs on."""
    if not groups.any():
        raise DataError(
            f"groups: all {pluralize(len(groups), 'row')} are in one group, which is never divided: leave `groups` out, or give "
            "a column with several groups"
        )


def _refuse_divided_groups(groups: Ints, parts: Mapping[str, Ints]) -> None:
    """Raise if a group is in two of the given splits, which are then not independent; folds divide no group."""
    for one, other in itertools.combinations(parts, 2):
        common = np.intersect1d(groups[parts[one]], groups[parts[other]])
        if len(common):
            first, second = (rows[np.argmax(groups[rows] == common[0])] for rows in (parts[one], parts[other]))
            text = f"groups: rows {first} ({one}) and {second} ({other}) are in the same group, which splits must not divide"
            raise DataError(f"{text}: give splits that keep groups together, or leave `groups` out")


def _fold_sets(folds: Iterable[Fold]) -> frozenset[tuple[int, ...]]:
    """Return the rows of each fold: equal for the same division, whatever the order of its folds."""
    return frozenset(tuple(fold.scored.tolist()) for fold in folds)


def _restrict_fold(fold: Fold, rows: Ints) -> Fold:
    """Return a fold over some rows of its pool, given ascending, as positions among these."""
    return Fold(*(np.flatnonzero(np.isin(rows, part)) for part in (fold.fitted, fold.scored)))


def _check_split_weights(numbers: Any, rows: int, split: str) -> Floats:
    try:
        return check_sample_weight(numbers, rows)
    except DataError as error:
        raise DataError(f"{split} rows: {error}") from None


def _have_equal_weights(splits: Iterable[Split]) -> bool:
    """Return whether all rows of all splits have the same weight."""
    weights = [np.ones(1) if split.weights is None else split.weights for split in splits]
    return len({float(part.min()) for part in weights} | {float(part.max()) for part in weights}) == 1


def _hash_weights(weights: Floats) -> str:
    return hashlib.sha256(weights.astype("<f8").tobytes()).hexdigest()


def _check_sample_size(rows: object, labels: int) -> int:
    if not is_integer(rows) or rows < 2 * labels:
        raise DesignError(f"sample of {rows!r}: expected a whole number of rows, at least two for each of {labels} labels")
    return int(rows)
