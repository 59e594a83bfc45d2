"""The choice of a design of a front: by id, by floors and caps, by a promise about its errors, or the fittest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from emsco_runtime.manifest import Certificate
from emsco_runtime.summary import counted
from emsco_train.bundling.design_export import split_rows
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.wish import Wish
from emsco_train.errors import DesignError
from emsco_train.guarantee.bounds import check_confidence, check_max_error
from emsco_train.guarantee.candidates import Candidate
from emsco_train.guarantee.certification import certify
from emsco_train.guarantee.fixed_sequence import choose_certified
from emsco_train.guarantee.tally import Tally
from emsco_train.stages.cascade_model import CascadeFitter
from emsco_train.stages.evaluation import evaluate

__all__ = ["Choice", "DesignWish", "certificate_of", "choose"]


@dataclass(frozen=True, slots=True)
class DesignWish:
    """What is wanted of the design.

    Parameters
    ----------
    wish
        Floors and caps on validation figures.
    design
        An id, or its beginning; in place of any other wish.
    max_error
        Largest share of wrong labels among accepted items that is to be promised; None: the design is chosen by validation alone,
        and gets the bound that the certify rows show.
    confidence
        Of the certificate.
    """

    wish: Wish = field(default_factory=Wish)
    design: str | None = None
    max_error: float | None = None
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """Refuse an id together with other wishes, and a promise that no rows could ever show."""
        if self.design is not None and (self.wish != Wish() or self.max_error is not None):
            raise DesignError("`design` names the design: leave out floors, caps and `max_error`")
        check_confidence(self.confidence)
        if self.max_error is not None:
            check_max_error(self.max_error)


@dataclass(frozen=True, slots=True)
class Choice:
    """The design, why it, and what is promised.

    Parameters
    ----------
    design
        With its validation figures.
    why
        In words.
    certificate
        None where there are no certify rows.
    is_default
        Whether nothing was wished, and the fittest taken.
    """

    design: Design
    why: str
    certificate: Certificate | None
    is_default: bool = False


def choose(problem: Problem, front: Front, wanted: DesignWish) -> Choice:
    """Choose a design, and certify it where there are certify rows.

    Parameters
    ----------
    problem
        Whose certify rows, if there are any, nothing has seen before.
    front
        Designs of the problem, at any thresholds.
    wanted
        What is wanted.

    Raises
    ------
    SelectionError
        If no design satisfies the wish.
    CertificationError
        If none can be promised to err as little as wished.
    """
    if wanted.max_error is not None:
        return _promised(problem, front, wanted, wanted.max_error)
    wish = wanted.wish
    if wanted.design is not None:
        design, why = front.find(wanted.design), "it was named"
    else:
        design = wish.choose(tuple(front), front.full_cost)
        why = _reason(wish)
    certificate = certificate_of(problem, design, wanted.confidence)
    return Choice(design, why, certificate, is_default=wanted.design is None and wish == Wish())


def certificate_of(problem: Problem, design: Design, confidence: float) -> Certificate | None:
    """Certify a design that was chosen without the certify rows; None where there are none.

    Parameters
    ----------
    problem, design
        The problem and one of its designs.
    confidence
        Of the certificate.
    """
    if problem.certify is None:
        return None
    return certify(_decided(problem, design, problem.certify, CascadeFitter.of(problem)), confidence)


def _promised(problem: Problem, front: Front, wanted: DesignWish, max_error: float) -> Choice:
    rows = problem.certify
    if rows is None:
        told = "there are no certify rows, which a promise needs"
        raise DesignError(f"{told}: train with a share of certify rows, or with ready ones")
    fitter = CascadeFitter.of(problem)
    candidates = [Candidate(design, len(problem.validation), _lazily(problem, design, rows, fitter)) for design in front]
    certified = choose_certified(
        candidates,
        rows=len(rows),
        max_error=max_error,
        confidence=wanted.confidence,
        full_cost=front.full_cost,
        wish=wanted.wish,
    )
    choice = certified.certificate.choice
    tested = "" if choice is None else f"{choice.passed} of {counted(choice.tested, 'design')} tested passed; "
    aim = "cheapest" if wanted.wish.min_coverage is not None else "most covering"
    why = f"{tested}this is the {aim} of them by validation"
    return Choice(certified.design, why, certified.certificate)


def _lazily(problem: Problem, design: Design, rows: Split, fitter: CascadeFitter) -> Callable[[], Tally]:
    return lambda: _decided(problem, design, rows, fitter)


def _decided(problem: Problem, design: Design, rows: Split, fitter: CascadeFitter) -> Tally:
    """Count the decisions of a design on rows that nothing has seen before."""
    model = fitter.fit(design.stages, design.thresholds)
    part = split_rows(problem, model, rows)
    return Tally.of(evaluate(model, part.codes).label, part.target, problem.labels)


def _reason(wish: Wish) -> str:
    if wish == Wish():
        return "the fittest of the front; no floor was given"
    words = {"cost": "the cheapest", "accuracy": "the most accurate", "coverage": "the most covering", "fitness": "the fittest"}
    parts = {"accuracy >= ": wish.min_accuracy, "coverage >= ": wish.min_coverage, "cost <= ": wish.max_cost}
    told = ", ".join(f"{name}{value:g}" for name, value in parts.items() if value is not None)
    return f"{words[wish.decider]} with {told} on validation"
