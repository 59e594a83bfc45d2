"""The choice of a design of a front: by id, by floors and caps, under a promise, or the knee of the front."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from emsco_runtime.bundle.manifest import Certificate, CertifyUse, Label, LikelyFigures
from emsco_runtime.bundle.summary import describe_use, pluralize
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.data.repeated_rows import MIN_REPEATED_SHARE, count_seen_rows
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything, Requirements, SelectBy
from emsco_train.errors import CertificationError, CertifyUseWarning, DesignError
from emsco_train.guarantee.candidates import Candidate, order_candidates
from emsco_train.guarantee.certificate import certify
from emsco_train.guarantee.evidence import CostRange, Evidence, Weights
from emsco_train.guarantee.fixed_sequence import CertifiedDesign, choose_in_sequence
from emsco_train.guarantee.independent_rows import draw_independent_rows
from emsco_train.guarantee.ledger import CertifyLedger, CertifyQuestion, share_confidence
from emsco_train.guarantee.promise import Promise
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.evaluation import Evaluation, evaluate_split, evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters

__all__ = ["Choice", "SelectionCriteria", "certify_design", "choose_design"]

# What decided, in words.
_OBJECTIVES: dict[SelectBy, str] = {
    "cost": "the cheapest",
    "accuracy": "the most accurate",
    "coverage": "the most covering",
    "fitness": "the fittest",
    "knee": "the knee",
}


@dataclass(frozen=True, slots=True)
class SelectionCriteria:
    """What is wanted of the design.

    Parameters
    ----------
    requirements
        Floors and caps on validation figures.
    design
        An id, or its beginning, "fittest" or "knee"; instead of all other criteria.
    promise
        What is to be guaranteed, and the confidence; without limits the design is chosen by validation alone, and gets the bounds
        that the certify rows show.
    tune_thresholds
        Whether designs may be taken at other thresholds than those of the search, where that is safe.
    match
        That it decides nearly always as all features at once do; instead of all other criteria.
    """

    requirements: Requirements = field(default_factory=Requirements)
    design: str | None = None
    promise: Promise = field(default_factory=Promise)
    tune_thresholds: bool = True
    match: MatchEverything | None = None

    def __post_init__(self) -> None:
        """Raise for an id, or a match, together with other criteria."""
        is_limited = self.requirements != Requirements() or self.promise.is_asked
        if self.design is not None and is_limited:
            raise DesignError("`design` was given together with requirements or `max_error`: give one or the other")
        if self.match is not None and (is_limited or self.design is not None):
            raise DesignError("`match_everything` was given together with other criteria: give one or the other")
        if self.match is not None and not self.tune_thresholds:
            raise DesignError("`match_everything` looks at other thresholds: `tune_thresholds=False` is not possible with it")

    @classmethod
    def of(
        cls,
        requirements: Requirements,
        design: str | None = None,
        *,
        max_error: float | None = None,
        max_error_of: Mapping[Label, float] | None = None,
        confidence: float = 0.95,
        match: MatchEverything | None = None,
    ) -> SelectionCriteria:
        """Return the criteria of a command: with a largest error, floors on coverage and recall and the cost are promised."""
        errors = Promise(max_error=max_error, max_error_of=max_error_of or {}, confidence=confidence)
        if not errors.is_asked:
            return cls(requirements, design, errors, match=match)
        promise = replace(
            errors,
            min_coverage=requirements.min_coverage,
            max_cost=requirements.max_cost,
            min_recall={floor.label: floor.least for floor in requirements.label_floors if floor.figure == "recall"},
        )
        # The tests on the certify rows guard the limits: bounds on the validation figures would only leave out candidates.
        return cls(replace(requirements, sure=None), design, promise, match=match)


@dataclass(frozen=True, slots=True)
class Choice:
    """The design, the reason in words, and its certificate: None without certify rows. By default it is the knee.

    `likely` is what such a choice gives on new rows, where no rows were kept back to show it.
    """

    design: Design
    reason: str
    certificate: Certificate | None
    is_default: bool = False
    likely: LikelyFigures | None = None


def choose_design(
    problem: Problem,
    front: Front,
    criteria: SelectionCriteria,
    ledger: CertifyLedger,
    *,
    fitters: ProblemFitters | None = None,
) -> Choice:
    """Choose a design of a problem, and certify it where there are certify rows; the ledger records that they were used.

    `fitters` are those of the problem, if they were made before.

    Raises
    ------
    SelectionError
        If no design meets the requirements.
    CertificationError
        If none can be guaranteed to keep what is to be promised.
    """
    fitters = fitters or ProblemFitters(problem)
    if criteria.promise.is_asked:
        rows = _rows_to_test(problem)
        try:
            return _choose_certified(problem, rows, front, criteria, ledger, fitters)
        except CertificationError as error:
            if rows.groups is None:
                raise
            text = f"{error.message}. Of each group one row counts, so that there are {pluralize(len(rows), 'certify row')}"
            raise CertificationError(text, error.nearest, error.bound, error.rows_needed) from None
    requirements = criteria.requirements
    if criteria.design is not None:
        word = f"the {criteria.design} of the front" if criteria.design in ("fittest", "knee") else "it"
        design, reason = front.find(criteria.design), f"{word} was named"
    else:
        design = requirements.choose(tuple(front), front.full_cost)
        reason = _describe_reason(requirements, problem.validation.name)
    certificate = certify_design(problem, design, criteria.promise.confidence, ledger, fitters=fitters)
    return Choice(design, reason, certificate, is_default=criteria.design is None and requirements == Requirements())


def certify_design(
    problem: Problem, design: Design, confidence: float, ledger: CertifyLedger, *, fitters: ProblemFitters | None = None
) -> Certificate | None:
    """Certify a design that was chosen without the certify rows; None where there are none. `fitters` as in `choose_design`."""
    if problem.certify is None:
        return None
    rows, level = draw_independent_rows(problem.certify), share_confidence(confidence, ledger.planned)

    def test() -> CertifiedDesign:
        evidence = _collect_evidence(fitters or ProblemFitters(problem), rows, design)
        return CertifiedDesign(design, certify(evidence, level))

    question = CertifyQuestion((design.id,), None, level, _count_drawn(rows))
    return _use_certify_rows(problem, ledger, question, confidence, test).certificate


def _rows_to_test(problem: Problem) -> Split:
    if problem.certify is None:
        more = "" if problem.train.groups is None else "; of few groups, which are never divided, none may be left for them"
        raise DesignError(
            "there are no certify rows, which a guarantee needs: train with a share of certify rows, or with a table of them"
            f"{more}"
        )
    return draw_independent_rows(problem.certify)


def _choose_certified(
    problem: Problem, rows: Split, front: Front, criteria: SelectionCriteria, ledger: CertifyLedger, fitters: ProblemFitters
) -> Choice:
    # A front that was read from a file does not know its rows.
    designs = [design.with_rows(len(problem.validation)) for design in front]
    asked = criteria.promise.with_labels(problem.labels)
    promise = replace(asked, confidence=share_confidence(asked.confidence, ledger.planned))
    sequence = order_candidates(
        [
            Candidate(
                design,
                partial(_collect_evidence, fitters, rows, design),
                # Only limits per label and on the cost take these, and then for every candidate.
                partial(_collect_validation_evidence, fitters, design),
                problem.validation.name,
            )
            for design in designs
        ],
        rows=len(rows),
        promise=promise,
        full_cost=front.full_cost,
        requirements=criteria.requirements,
    )
    ids = tuple(candidate.design.id for candidate in sequence)
    question = CertifyQuestion(ids, promise.to_limits(), promise.confidence, _count_drawn(rows))
    test = partial(choose_in_sequence, sequence, rows=len(rows), promise=promise)
    certified = _use_certify_rows(problem, ledger, question, asked.confidence, test)
    reason = _describe_tests(certified, criteria.requirements, problem.validation.name)
    return Choice(certified.design, reason, certified.certificate)


def _use_certify_rows(
    problem: Problem, ledger: CertifyLedger, question: CertifyQuestion, confidence: float, test: Callable[[], CertifiedDesign]
) -> CertifiedDesign:
    """Return what a test of the certify rows certifies, with the use that it is; `confidence` is what planned uses share.

    The use is recorded before any certify row is looked at: a refusal counts, and so does a crash.
    """
    number = ledger.begin(question)
    try:
        certified = test()
    except CertificationError:
        ledger.finish(question, None)
        raise
    ledger.finish(question, certified.design.id)
    use = CertifyUse(number=number, planned=ledger.planned, confidence=confidence)
    if not use.is_planned:
        warnings.warn("; ".join(describe_use(use)), CertifyUseWarning, stacklevel=2)
    all_rows = problem.certify
    drawn_from = None if all_rows is None or all_rows.groups is None else len(all_rows)
    found = {"use": use, "repeated": _count_repeated(problem), "drawn_from": drawn_from}
    return replace(certified, certificate=certified.certificate.model_copy(update=found))


def _count_drawn(rows: Split) -> int | None:
    return None if rows.groups is None else len(rows)


def _count_repeated(problem: Problem) -> int | None:
    """Return how many certify rows occur again among those that designs were fitted and chosen on; None where few do."""
    if problem.certify is None or problem.may_repeat:
        return None
    # Cross-fitted, the validation rows are train rows.
    known = [problem.train] if problem.is_cross_fitted else [problem.train, problem.validation]
    seen = np.concatenate([part.codes for part in known]), np.concatenate([part.target for part in known])
    count = count_seen_rows(seen, (problem.certify.codes, problem.certify.target))
    return count if count >= MIN_REPEATED_SHARE * len(problem.certify) else None


def _describe_tests(certified: CertifiedDesign, requirements: Requirements, split: str) -> str:
    """Return why a design was chosen under a promise; `split` names the rows that measured designs."""
    choice = certified.certificate.choice
    tested = "" if choice is None else f"{choice.passed} of {pluralize(choice.tested, 'design')} tested passed; "
    if requirements.min_coverage is not None:
        return f"{tested}this is the cheapest of them on {split} rows"
    return f"{tested}this covers most of them on {split} rows, the cheapest of those that cover as many percent"


def _collect_evidence(fitters: ProblemFitters, rows: Split, design: Design) -> Evidence:
    """Return what a design does with certify rows."""
    own = fitters.upgraded(design.upgrade)
    # A row that weighs more than was stated refuses the certificate, whether it was drawn or not.
    _weights(own.problem, own.problem.certify or rows)
    model = CascadeFitter.of(own.problem, own).fit(design.stages, design.stage_thresholds)
    return _describe_decisions(own.problem, rows, design, evaluate_split(own.problem, model, rows))


def _collect_validation_evidence(fitters: ProblemFitters, design: Design) -> Evidence:
    """Return what a design does with the validation rows, each scored by a model that has not seen it."""
    own = fitters.upgraded(design.upgrade)
    parts = CascadeFitter.of_parts(own.problem, own)
    made = evaluate_validation(own.problem, design.stages, design.stage_thresholds, parts)
    return _describe_decisions(own.problem, own.problem.validation, design, made)


def _describe_decisions(problem: Problem, rows: Split, design: Design, made: Evaluation) -> Evidence:
    cost_range = CostRange.of([cost.total for cost in problem.meter.stage_costs(design.stages)])
    weights = _weights(problem, rows)
    return Evidence.of(made.label, rows.target, problem.labels, cost=made.cost, cost_range=cost_range, weights=weights)


def _weights(problem: Problem, rows: Split) -> Weights | None:
    """Return the weights of the rows of a split; the largest possible is that of the rows that fit and measured designs."""
    if rows.weights is None:
        return None
    known = [part.weights for part in (problem.train, problem.validation)]
    # Rows without weights weigh 1 each.
    return Weights(rows.weights, max(1.0 if weights is None else float(weights.max()) for weights in known))


def _describe_reason(requirements: Requirements, split: str) -> str:
    """Return why a design was chosen; `split` names the rows that measured designs."""
    if requirements == Requirements():
        return f"{_OBJECTIVES['knee']} of the front; no floor was given"
    parts = {
        "accuracy >= ": requirements.min_accuracy,
        "coverage >= ": requirements.min_coverage,
        "cost <= ": requirements.max_cost,
    }
    limits = [f"{name}{value:g}" for name, value in parts.items() if value is not None]
    detail = ", ".join([*limits, *(floor.text for floor in requirements.label_floors)])
    level = "" if requirements.sure is None or not requirements.any() else f", by bounds at level {requirements.sure:g}"
    best = "the most worth its cost" if requirements.weighs_cost else _OBJECTIVES[requirements.objective]
    return f"{best} with {detail} on {split} rows{level}"
