"""The choice of a design with its thresholds tuned to what is asked for: from the threshold ladder, where that is safe.

It is where accuracy and coverage (of a label: its recall) are both asked for, or an error is to be guaranteed: then one holds the
other. A floor on coverage alone would lead to the lowest threshold, and one on accuracy alone to the highest, which accepts next
to nothing.

The ladder has many designs of nearly the same cost, and the cheapest that satisfies is the one that was luckiest. So the surest
of those that cost little more is taken: `benchmarks/choices.py` shows what that keeps, and what it costs.
"""

from __future__ import annotations

from dataclasses import replace

from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.export.likely_figures import estimate_likely_figures
from emsco_train.guarantee.choice import Choice, SelectionCriteria, choose_design
from emsco_train.guarantee.ledger import CertifyLedger
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_front

__all__ = ["choose_tuned_design", "select_from_ladder", "select_tuned_design"]

# How much more than the cheapest the surest may cost.
_SLACK = 0.1


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
    criteria.requirements.check_labels(problem.labels)
    made = fitters or ProblemFitters(problem)
    both = criteria.requirements.both_sides
    if criteria.tune_thresholds and (criteria.promise.is_asked or both):
        front = ladder_front(problem, front, criteria.requirements, jobs=jobs, fitters=made)
    if criteria.tune_thresholds and both and not criteria.promise.is_asked:
        criteria = replace(criteria, requirements=replace(criteria.requirements, slack=_SLACK))
    choice = choose_design(problem, front, criteria, ledger, fitters=made)
    if problem.test is not None or problem.certify is not None or criteria.design is not None:
        return choice
    return replace(choice, likely=estimate_likely_figures(problem, front, criteria.requirements, jobs=jobs, fitters=made))


def select_tuned_design(problem: Problem, front: Front, requirements: Requirements, *, jobs: int = 1) -> Design:
    """Choose a design of a front by requirements, as `Front.select` does; no certify row is looked at."""
    requirements.check_labels(problem.labels)
    if requirements.both_sides:
        return select_from_ladder(ladder_front(problem, front, requirements, jobs=jobs), requirements)
    return requirements.choose(tuple(front), front.full_cost)


def select_from_ladder(ladder: Front, requirements: Requirements) -> Design:
    """Choose a design of a `ladder_front`: one ladder serves all requirements with floors on accuracy and coverage."""
    return replace(requirements, slack=_SLACK).choose(tuple(ladder), ladder.full_cost)
