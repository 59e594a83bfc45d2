"""The choice of a design with its thresholds tuned to what is asked for: from the threshold ladder, where that is safe.

It is where accuracy and coverage (of a label: its recall) are both asked for, or an error is to be guaranteed: then one holds the
other. A floor on coverage alone would lead to the lowest threshold, and one on accuracy alone to the highest, which accepts next
to nothing.

The ladder has many designs of nearly the same cost, and the cheapest that satisfies is the one that was luckiest. So a design
that costs more is taken where it is more likely to satisfy on new rows, too, and it must satisfy on other folds than those of the
search: `benchmarks/choices.py` shows what that keeps, and what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything, Requirements
from emsco_train.errors import SelectionError
from emsco_train.export.likely_figures import estimate_likely_figures
from emsco_train.export.matching_choice import find_matching_design
from emsco_train.guarantee.choice import Choice, SelectionCriteria, certify_design, choose_design
from emsco_train.guarantee.ledger import CertifyLedger
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_front
from emsco_train.search.other_folds import RemeasuredFront, measure_on_other_folds

__all__ = ["COST_WEIGHT", "choose_tuned_design", "select_tuned_design"]

# `Requirements.cost_weight` of these choices, by trial.
COST_WEIGHT = 0.6


def choose_tuned_design(
    problem: Problem,
    front: Front,
    criteria: SelectionCriteria,
    ledger: CertifyLedger,
    *,
    jobs: int = 1,
    fitters: ProblemFitters | None = None,
) -> Choice:
    """Choose a design of a front and certify it, as `choose_design` does; each feature set is fitted once for all of it."""
    requirements = criteria.requirements
    requirements.check_labels(problem.labels)
    fitters = fitters or ProblemFitters(problem)
    if criteria.match is not None:
        return _choose_matching_design(problem, front, criteria, criteria.match, ledger, jobs, fitters)
    is_promised, both = criteria.promise.is_asked, requirements.has_both_floors
    if criteria.tune_thresholds and (is_promised or both):
        front = ladder_front(problem, front, requirements, jobs=jobs, fitters=fitters)
    if criteria.tune_thresholds and both and not is_promised:
        requirements = replace(requirements, cost_weight=COST_WEIGHT)
        criteria = replace(criteria, requirements=requirements)
    if not criteria.tune_thresholds:
        requirements = replace(requirements, suggest_floors=False)
        criteria = replace(criteria, requirements=requirements)
    if not requirements.any() or is_promised:
        return choose_design(problem, front, criteria, ledger, fitters=fitters)
    measured = measure_on_other_folds(problem, front, requirements, jobs=jobs)
    with _explained(front, requirements):
        chosen = choose_design(problem, measured.front, criteria, ledger, fitters=fitters)
    # With the figures of its search, which the export checks.
    choice = replace(chosen, design=front.find(chosen.design.id))
    if problem.test is not None or problem.certify is not None:
        return choice
    likely = estimate_likely_figures(problem, front, requirements, jobs=jobs, fitters=fitters, divisions=measured.divisions)
    return replace(choice, likely=likely)


def _choose_matching_design(
    problem: Problem,
    front: Front,
    criteria: SelectionCriteria,
    match: MatchEverything,
    ledger: CertifyLedger,
    jobs: int,
    fitters: ProblemFitters,
) -> Choice:
    found = find_matching_design(problem, front, match, jobs=jobs, fitters=fitters)
    certificate = certify_design(problem, found.design, criteria.promise.confidence, ledger, fitters=fitters)
    return Choice(found.design, found.describe(match, problem.validation.name), certificate)


def select_tuned_design(problem: Problem, front: Front, requirements: Requirements | MatchEverything, *, jobs: int = 1) -> Design:
    """Choose a design of a front by requirements, which it meets on other folds, too; no certify row is looked at."""
    if isinstance(requirements, MatchEverything):
        return find_matching_design(problem, front, requirements, jobs=jobs).design
    requirements.check_labels(problem.labels)
    if requirements.has_both_floors:
        front = ladder_front(problem, front, requirements, jobs=jobs)
        requirements = replace(requirements, cost_weight=COST_WEIGHT)
    measured = measure_on_other_folds(problem, front, requirements, jobs=jobs) if requirements.any() else RemeasuredFront(front)
    with _explained(front, requirements):
        return front.find(requirements.choose(tuple(measured.front), front.full_cost).id)


@contextmanager
def _explained(front: Front, requirements: Requirements) -> Iterator[None]:
    """Add to the error that nothing satisfies why designs are not taken that do, by the figures that a user sees."""
    try:
        yield
    except SelectionError as error:
        count = sum(map(requirements.meets, front))
        if not count:
            raise
        satisfy = f"{pluralize(count, 'design')} {'satisfies' if count == 1 else 'satisfy'} this"
        detail = f"By the figures of the front {satisfy}; measured again on other folds, as above, none does"
        raise SelectionError(f"{error}. {detail}", error.nearest) from None
