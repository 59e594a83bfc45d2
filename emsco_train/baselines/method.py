"""What a method is: options that can be fitted to a problem, and what then decides rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from emsco_runtime.support.arrays import Floats
from emsco_train.baselines.bill import Bill
from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.search.sweep import settings_score

__all__ = ["FittedMethod", "Method", "check_binary", "check_problem", "choose_by_validation"]


class FittedMethod(Protocol):
    """A fitted method."""

    def decide(self, codes: Floats, thresholds: Sequence[float]) -> Bill:
        """Decide rows [rows, codes], as a problem's splits hold them; thresholds are those of the labels in order.

        A method that answers every row, as some do, does not use the thresholds.
        """


class Method(Protocol):
    """The options of a method."""

    def fit(self, problem: Problem) -> FittedMethod:
        """Fit on the train rows, choose by the validation rows."""


Fitted = TypeVar("Fitted", bound=FittedMethod)


def check_problem(problem: Problem) -> None:
    """Raise unless there are validation rows that no model is fitted on, and all rows count the same."""
    if problem.is_cross_fitted:
        raise DesignError("the problem is cross-fitted, and baselines choose by validation rows: make it with `folds=0`")
    if problem.weights is not None:
        raise DesignError("rows have weights, which baselines do not use: leave out sample_weight and class_weight")


def check_binary(problem: Problem, method: str) -> None:
    """Raise unless there are two labels."""
    if len(problem.labels) != 2:
        raise DesignError(f"{method} is for two labels, got {len(problem.labels)}: {', '.join(map(str, problem.labels))}")


def choose_by_validation(problem: Problem, candidates: Iterable[Fitted]) -> Fitted:
    """Return the candidate with the best score on the validation rows, the first of equals.

    The score is that by which the paper tunes: the length of (coverage, accuracy, 1 - cost / cost of all features).
    """
    validation = problem.validation

    def score(candidate: Fitted) -> float:
        counts = candidate.decide(validation.codes, problem.thresholds).count(validation.target)
        return settings_score(counts, problem.full_cost)

    return max(candidates, key=score)
