"""The choice of a design with its thresholds tuned to what is asked for: from the threshold ladder, where that is safe.

It is where accuracy and coverage are both asked for, or an error is to be guaranteed: then one holds the other. A floor on
coverage alone would lead to the lowest threshold, and one on accuracy alone to the highest, which accepts next to nothing.
"""

from __future__ import annotations

from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.guarantee.choice import Choice, SelectionCriteria, choose_design
from emsco_train.guarantee.ledger import CertifyLedger
from emsco_train.search.ladder import ladder_front

__all__ = ["choose_tuned_design", "select_tuned_design"]


def choose_tuned_design(
    problem: Problem, front: Front, criteria: SelectionCriteria, ledger: CertifyLedger, *, jobs: int = 1
) -> Choice:
    """Choose a design of a front and certify it, as `choose_design` does."""
    if criteria.promise.is_asked or _has_both_floors(criteria.requirements):
        front = ladder_front(problem, front, jobs=jobs)
    return choose_design(problem, front, criteria, ledger)


def select_tuned_design(problem: Problem, front: Front, requirements: Requirements, *, jobs: int = 1) -> Design:
    """Choose a design of a front by requirements, as `Front.select` does; no certify row is looked at."""
    if _has_both_floors(requirements):
        front = ladder_front(problem, front, jobs=jobs)
    return requirements.choose(tuple(front), front.full_cost)


def _has_both_floors(requirements: Requirements) -> bool:
    return requirements.min_accuracy is not None and requirements.min_coverage is not None
