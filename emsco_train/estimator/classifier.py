"""`EmscoClassifier`: the scikit-learn interface to splits, search, front, cascade and export."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from emsco_runtime.decision import Decision, Label
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.support.arrays import Array, Floats
from emsco_train.costs.cost_model import Costs
from emsco_train.data.features import FeatureOptions, allow_gaps, encode_table
from emsco_train.data.labelled_rows import LabelledRows
from emsco_train.data.labels import plain_labels
from emsco_train.data.problem import Problem
from emsco_train.data.problem_warnings import warn_missed_labels, warn_table
from emsco_train.data.splits import Shares, default_shares
from emsco_train.data.stage_settings import Calibration, ClassWeight, StageKind, Upgrade, check_sample_weight
from emsco_train.data.table import Table
from emsco_train.data.thresholds import Threshold
from emsco_train.designs.design import Design
from emsco_train.designs.selection import MatchEverything, Requirements
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.errors import DesignError
from emsco_train.estimator.input_validation import (
    check_known_labels,
    explain_gaps,
    resolve_reject_label,
    resolve_seed,
    resolve_workers,
    to_label_array,
    to_one_dimension,
    unchanged_on_error,
    validate_fit_rows,
    validate_labels,
    validate_predict_rows,
    validate_weights,
)
from emsco_train.estimator.search_plan import search_by_parameters
from emsco_train.export.expected_rows import check_expected_split
from emsco_train.export.publication import Export
from emsco_train.export.searched_design import build_cascade, check_counts, check_design, export_searched_design
from emsco_train.export.target_check import check_target
from emsco_train.export.tuned_choice import choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria, certify_design
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.search_rows import SearchRows
from emsco_train.search.settings import Method, Objective, SearchUnits

__all__ = ["EmscoClassifier"]


class EmscoClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A cascade that is found, fitted and used like any scikit-learn classifier; it may refuse to answer.

    `fit` divides the rows, searches designs, and chooses the knee of the front; `use` chooses another. A row that no stage is
    confident about is rejected: `predict` returns `reject_label_` for it, -1 for whole numbers (-2 where labels are -1 and 1) and
    "" for text unless `reject_label` says otherwise, and `score` counts accepted rows only. Whole floats and booleans are
    returned as whole numbers.

    Parameters
    ----------
    costs
        A `CostModel`, a mapping, a sequence in column order, or None for 1 each.
    threshold
        Confidence needed to accept: one number above 0 and up to 1, or a mapping label -> number.
    max_stages
        Most stages of a design; None for half the features, at least 2 and at most 10 (under 300 rows, 3).
    features
        `FeatureOptions` by feature name, where the rows do not say everything.
    search
        "evolve", "exhaustive", or "auto": exact where that is affordable.
    population, generations, patience, mutation, crossover, elite, beta, growth, keep_all, polish
        Of the genetic algorithm: see `Settings`.
    units
        "features", "groups" (features that are paid together move as one), or "auto": see `Settings`.
    pinned
        Names or positions of features that stay in the first stage.
    max_cost, min_coverage, min_accuracy
        What a design must satisfy, by its figures in the search, to be on the front.
    objective
        "balanced": in the search each label counts as much as any other, however rare; "plain": by its rows. See `Settings`.
    sure
        The design that `fit` takes into use satisfies them by one-sided bounds at this level; None: by its figures. See
        `Front.select`.
    classifier, C, class_weight
        What to fit at every stage: see `export_design`.
    calibrate
        "temperature": scale the confidences of each stage, see `Problem.of`; None: leave them as they are.
    stages
        What a stage model sees of a feature: "curved", a curve learned for it, where that predicts better; "straight", its value.
        "boosted": boosted trees instead of logistic regressions, slower to search with. None: "curved", without a classifier.
    upgrade
        "boosted": after the search, fit its designs again with boosted trees, and keep the best of both; None: do not.
    increasing, decreasing
        Names of features that, as they rise, never lower (never raise) the probability of the second of two labels: see
        `Problem.of`.
    shares
        How the rows are divided, a `Shares`; 40 / 20 / 20 / 20 % for train, validation, test and certify unless given, and under
        300 rows 60 / 20 / 0 / 20 %.
    folds
        How many folds score the train and validation rows, which are then one pool: each row is scored by models of the other
        folds, and the design in use is fitted on all of them. 0: the validation rows alone measure designs, as in the paper.
        None: 5 for a pool of at most 10,000 rows, else 0. See docs/concepts.md.
    certify_uses
        How many exports are planned: their certificates share the level, and hold together. A further one says that its
        confidence is not held. See docs/guarantee.md.
    max_search_rows
        Search on a stratified sample of at most this many train and as many validation rows; designs found are then fitted and
        measured on all rows. None: on all rows. "auto": on 50,000 of each, where these are fewer than half of all; on more where
        a label is rare or models have many columns; an exact search that is asked for always takes all.
    time_limit
        Seconds for the search: the genetic algorithm keeps its front so far, an exact search that would take longer is refused.
        Ctrl-C has the same effect: the front so far, or none. `outcome_.stopped` says which.
    random_state
        A whole number makes splits and search repeatable; None or a `RandomState` draws one.
    n_jobs
        Threads of `fit`, `select` and `export`; None or -1 for all cores, -2 for all but one. Results do not depend on it.
    verbose
        Above 0: show progress on standard error, as a bar on a terminal and as plain lines elsewhere. See `Progress`.
    reject_label
        What `predict` returns for a rejected row: text or a whole number that is not a label. None: "" for text; -1 for whole
        numbers, or one below the smallest label where -1 is a label.

    Attributes
    ----------
    classes_
        The labels in order.
    n_features_in_, feature_names_in_
        Number of features, and their names if the rows had some.
    problem_
        The rows by split, prices and thresholds.
    front_
        The designs found, fittest first, with cross-fitted figures, or those on the validation rows.
    outcome_
        How they were found.
    design_, cascade_
        The design in use, and the cascade that decides by it.
    reject_label_
        The reject value that is used.
    certify_uses_
        The uses of the certify rows since `fit`: ``len(model.certify_uses_)`` is their number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = np.where(X @ [2.0, 1.0, 1.0] + rng.normal(size=400) > 0, "spam", "ham")
    >>> model = EmscoClassifier(costs=[1, 2, 5], threshold=0.8, random_state=0).fit(X, y)
    >>> model.design_.stages
    (('x0',), ('x1',))
    >>> model.predict([[2.0, 0.5, 0.0], [0.1, 0.0, 0.0]])  # the second is rejected
    array(['spam', ''], dtype='<U4')
    >>> wider = model.use(model.front_.select(min_coverage=0.65))
    """

    def __init__(
        self,
        *,
        costs: Costs = None,
        threshold: Threshold = 0.9,
        max_stages: int | None = None,
        features: Mapping[str, FeatureOptions] | None = None,
        search: Method = "auto",
        population: int = 300,
        generations: int = 150,
        patience: int | None = None,
        mutation: float | None = None,
        crossover: float = 0.8,
        elite: float = 0.2,
        beta: float = 2.0,
        growth: int | None = None,
        keep_all: bool = False,
        units: SearchUnits = "auto",
        pinned: Sequence[str | int] = (),
        max_cost: float | None = None,
        min_coverage: float | None = None,
        min_accuracy: float | None = None,
        sure: float | None = DEFAULT_SURE,
        objective: Objective = "plain",
        polish: bool = False,
        classifier: Any = None,
        C: float = 1.0,  # noqa: N803 - scikit-learn's name
        class_weight: ClassWeight = None,
        calibrate: Calibration | None = None,
        stages: StageKind | None = None,
        upgrade: Upgrade | None = None,
        increasing: Sequence[str] = (),
        decreasing: Sequence[str] = (),
        shares: Shares | None = None,
        folds: int | None = None,
        certify_uses: int = 1,
        max_search_rows: SearchRows = "auto",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        reject_label: str | int | None = None,
    ) -> None:
        # Stored as they are and checked by `fit`, as scikit-learn wants it.
        self.costs = costs
        self.threshold = threshold
        self.max_stages = max_stages
        self.features = features
        self.search = search
        self.population = population
        self.generations = generations
        self.patience = patience
        self.mutation = mutation
        self.crossover = crossover
        self.elite = elite
        self.beta = beta
        self.growth = growth
        self.keep_all = keep_all
        self.units = units
        self.pinned = pinned
        self.max_cost = max_cost
        self.min_coverage = min_coverage
        self.min_accuracy = min_accuracy
        self.sure = sure
        self.objective = objective
        self.polish = polish
        self.classifier = classifier
        self.C = C
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.stages = stages
        self.upgrade = upgrade
        self.increasing = increasing
        self.decreasing = decreasing
        self.shares = shares
        self.folds = folds
        self.certify_uses = certify_uses
        self.max_search_rows = max_search_rows
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.reject_label = reject_label

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> EmscoClassifier:  # noqa: N803
        """Divide the rows, search designs, and take the knee of those that surely satisfy the limits into use.

        All columns are used; a `TableWarning` names those that look like ids, dates, constants, codes or leaks. If no design
        satisfies the limits, a `SelectionError` is raised, but what was found is kept: `use(select(...))` takes another one.

        Parameters
        ----------
        X, y
            Rows (a data frame, a mapping of arrays, or an array) and their labels.
        sample_weight
            One number per row: how much it counts, in fits, figures and certificates. Rows with weights are searched by the
            genetic algorithm; the exact search is refused.
        groups
            One value per row: rows with equal values go to the same split, and to the same fold.
        """
        requirements = Requirements(
            max_cost=self.max_cost,
            min_coverage=self.min_coverage,
            min_accuracy=self.min_accuracy,
            by="knee",
            sure=self.sure,
            # Only `select` and `export` try other thresholds.
            suggest_floors=False,
        )
        ledger = MemoryLedger(self.certify_uses)
        with unchanged_on_error(self):
            truth = validate_labels(y)
            rows = LabelledRows.of(validate_fit_rows(self, X, truth), truth, "y")
            weights = validate_weights(sample_weight, truth)
            seed = resolve_seed(self.random_state)
            warn_table(rows.table, rows.true_labels, self.features)
            problem = Problem.of(
                rows.table,
                rows.true_labels,
                costs=self.costs,
                threshold=self.threshold,
                features=allow_gaps(rows.table.columns, self.features),
                shares=default_shares(rows.table.rows) if self.shares is None else self.shares,
                folds=self.folds,
                groups=groups,
                sample_weight=weights,
                class_weight=self.class_weight,
                classifier=self.classifier,
                C=self.C,
                calibrate=self.calibrate,
                stages=self.stages or ("curved" if self.classifier is None else "straight"),
                increasing=self.increasing,
                decreasing=self.decreasing,
                seed=seed,
            )
            self.reject_label_ = resolve_reject_label(self.reject_label, problem.labels)
            self.outcome_ = search_by_parameters(self, problem, seed)
            self.problem_ = problem
            self.certify_uses_ = ledger
            self.classes_ = to_label_array(problem.labels)
            self.front_ = self.outcome_.front
        # If no design satisfies, the search is kept, and no design of an earlier one stays in use.
        for name in ("design_", "cascade_"):
            self.__dict__.pop(name, None)
        return self.use(requirements.choose(self.front_, self.front_.full_cost))

    def use(self, design: Design) -> EmscoClassifier:
        """Take another design into use, such as ``model.select(min_accuracy=0.97, min_coverage=0.9)``."""
        check_is_fitted(self, "problem_")
        checked = check_design(design, self.problem_.names, self.problem_.thresholds)
        self.cascade_ = build_cascade(self.problem_, checked)
        self.design_ = checked
        counted = self.problem_.validation
        warn_missed_labels(self.design_.labels, None if counted.weights is None else len(counted))
        return self

    def select(
        self,
        *,
        min_accuracy: float | None = None,
        min_coverage: float | None = None,
        max_cost: float | None = None,
        min_recall: Mapping[Label, float] | None = None,
        min_accuracy_of: Mapping[Label, float] | None = None,
        match_everything: float | None = None,
        sure: float | None = DEFAULT_SURE,
    ) -> Design:
        """Choose a design for `use` or `export`: the one that `Front.select` would take, if it also satisfies on other folds.

        With a floor on accuracy, of all rows or of a label, and one on coverage or on the recall of a label, also at other
        thresholds, and one that is surer for little more than the cheapest. Designs that satisfy are fitted again for that, which
        takes some seconds; see "Tuned thresholds" in docs/concepts.md. With `match_everything`, instead of floors: the cheapest
        that decides at most this share of the answered items differently from one stage of all features.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(600, 3))
        >>> y = X @ [2.0, 1.0, 1.0] + rng.normal(size=600) > 0
        >>> model = EmscoClassifier(threshold=0.95, random_state=0).fit(X, y)
        >>> design = model.select(min_accuracy=0.85, min_coverage=0.8)
        >>> design.threshold_text < "0.95", model.use(design).design_.coverage >= 0.8
        (True, True)
        """
        check_is_fitted(self, "problem_")
        wanted = Requirements.of(
            min_accuracy=min_accuracy,
            min_coverage=min_coverage,
            max_cost=max_cost,
            min_recall=min_recall,
            min_accuracy_of=min_accuracy_of,
            sure=sure,
        )
        criteria = SelectionCriteria(wanted, match=None if match_everything is None else MatchEverything(match_everything, sure))
        asked = criteria.match or criteria.requirements
        return select_tuned_design(self.problem_, self.front_, asked, jobs=resolve_workers(self.n_jobs))

    def predict(self, X: Any) -> Array:  # noqa: N803
        """Return a label for each row; the reject value where no stage is confident."""
        decisions = self._decide_rows(X)
        values = to_label_array([*self.problem_.labels, self.reject_label_])
        position = {label: index for index, label in enumerate([*self.problem_.labels, None])}
        return np.asarray(values.take([position[label] for label in decisions.label.tolist()]))

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return probabilities [rows, labels] at the last stage that scored each row, accepted or not."""
        table = self._validate_rows(X)
        with explain_gaps():
            last_stage = self.cascade_.decide_columns(table.columns).stages
        manifest, scorer = self.cascade_.manifest, Scorer.from_bundle(self.cascade_.bundle)
        features = {feature.name: feature for feature in manifest.features}
        probabilities = np.empty((table.rows, len(manifest.labels)))
        for number, stage in enumerate(manifest.stages, start=1):
            rows = np.flatnonzero(last_stage == number)
            if len(rows):
                codes = encode_table([features[name] for name in stage.inputs], table.take(rows), "given")
                probabilities[rows] = scorer.score_rows(number - 1, codes)
        return probabilities

    def decide(self, X: Any) -> list[Decision]:  # noqa: N803
        """Return a decision for each row, with its cost and its trace, as the runtime makes it."""
        table = self._validate_rows(X)
        with explain_gaps():
            return self.cascade_.decide_many(table.items())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Return the selective accuracy: the share of the accepted rows with the right label; 0 if none is accepted."""
        decisions = self._decide_rows(X)
        truth = plain_labels(to_one_dimension(y), rows=len(decisions), where="y")
        check_known_labels(truth, self.problem_.labels)
        right = np.array([predicted == expected for predicted, expected in zip(decisions.label.tolist(), truth, strict=True)])
        weights = np.ones(len(right)) if sample_weight is None else check_sample_weight(sample_weight, len(right))
        accepted = float(weights[decisions.status == "accepted"].sum())
        return float(weights[right].sum()) / accepted if accepted else 0.0

    def coverage(self, X: Any) -> float:  # noqa: N803
        """Return the share of the rows that are accepted."""
        return float((self._decide_rows(X).status == "accepted").mean())

    def cost(self, X: Any) -> float:  # noqa: N803
        """Return the mean cost of a row, rejected ones included."""
        return float(self._decide_rows(X).cost.mean())

    def export(
        self,
        path: str | os.PathLike[str],
        design: Design | None = None,
        *,
        name: str = "cascade",
        version: str = "1",
        split: str | None = None,
        max_error: float | None = None,
        max_error_of: Mapping[Label, float] | None = None,
        min_coverage: float | None = None,
        min_recall: Mapping[Label, float] | None = None,
        max_cost: float | None = None,
        confidence: float = 0.95,
        force: bool = False,
    ) -> Export:
        """Write the bundle of a design, verified row by row, and certified where there are certify rows.

        Parameters
        ----------
        path
            Folder of the bundle.
        design
            One of the front; None for the one in use.
        name, version, force
            As in `export_design`.
        split
            Split of the expected figures; None: the test rows, else the certify rows if the design was fixed before they were
            used, else those that measured designs in the search.
        max_error
            Choose, among the designs of the front whose share of errors is proven to be at most this, the one with most
            coverage; instead of a design. See docs/guarantee.md.
        max_error_of
            The same for items accepted as a label: label -> share.
        min_coverage, min_recall, max_cost
            With a largest error: guarantee, together with it, that at least this share of the items is accepted, or of the items
            of a label as it (label -> share), and that an item costs at most this much on average. With a coverage, the cheapest
            of the designs is chosen.
        confidence
            Of the certificate; planned uses of the certify rows share it.

        Warns
        -----
        CertifyUseWarning
            If the certify rows had been used as often as planned: the confidence is not held.
        """
        check_is_fitted(self, "problem_")
        problem = self.problem_
        requirements = Requirements.of(min_coverage=min_coverage, max_cost=max_cost, min_recall=min_recall)
        criteria = SelectionCriteria.of(requirements, max_error=max_error, max_error_of=max_error_of, confidence=confidence)
        # Before the certify rows are used.
        check_target(path, name=name, version=version, force=force)
        check_expected_split(problem, split, is_fixed=not criteria.promise.is_asked)
        fitters, jobs = ProblemFitters(problem), resolve_workers(self.n_jobs)
        if criteria.promise.is_asked:
            if design is not None:
                raise DesignError("design and max_error were both given: max_error chooses the design itself. Give one of them")
            choice = choose_tuned_design(problem, self.front_, criteria, self.certify_uses_, jobs=jobs, fitters=fitters)
            chosen, certificate = choice.design, choice.certificate
        elif requirements != Requirements():
            raise DesignError(
                "min_coverage, min_recall and max_cost are guaranteed together with an error: give max_error too, or choose a "
                "design with `select` and give that"
            )
        else:
            if design is None:
                check_is_fitted(self, "design_")
            chosen = self.design_ if design is None else check_design(design, problem.names, problem.thresholds)
            check_counts(problem, chosen, fitters)
            certificate = certify_design(problem, chosen, confidence, self.certify_uses_, fitters=fitters)
        return export_searched_design(
            path, problem, chosen, name=name, version=version, split=split, force=force, certificate=certificate, fitters=fitters
        )

    def __sklearn_tags__(self) -> Any:
        """Declare to scikit-learn that missing values, text and categories are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _decide_rows(self, X: Any) -> ColumnDecisions:  # noqa: N803
        table = self._validate_rows(X)
        with explain_gaps():
            return self.cascade_.decide_columns(table.columns)

    def _validate_rows(self, X: Any) -> Table:  # noqa: N803
        check_is_fitted(self, "cascade_")
        return validate_predict_rows(self, X, self.problem_.names)
