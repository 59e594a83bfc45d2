"""`BaselineClassifier`: the same interface for all methods."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from emsco_train.baselines.bill import Bill
from emsco_train.baselines.method import Method
from emsco_train.costs.cost_model import Costs
from emsco_train.data.features import encode_table
from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares
from emsco_train.data.table import Table
from emsco_train.data.thresholds import Threshold

__all__ = ["BaselineClassifier"]

# A third of the rows chooses what a method leaves open; test rows are kept elsewhere.
_SHARES = Shares(train=2 / 3, validation=1 / 3, test=0.0, certify=0.0)


class BaselineClassifier(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A method that is fitted and used like a scikit-learn classifier.

    Parameters
    ----------
    method
        One of `emsco_train.baselines`.
    threshold
        Confidence needed to accept, as in `Problem.of`.
    seed
        Of the division into train and validation rows, and of the method.

    Attributes
    ----------
    problem_, fitted_
        The rows, prices and thresholds; and what decides.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco_train.baselines.cost_ordered import CostOrdered
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = np.where(X @ [2.0, 1.0, 1.0] > 0, "spam", "ham")
    >>> model = BaselineClassifier(CostOrdered(), threshold=0.8).fit(X, y, costs=[1, 5, 5])
    >>> bill = model.decide([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    >>> bill.answers, bill.cost.tolist()
    (['spam', None], [1.0, 11.0])
    """

    def __init__(self, method: Method, *, threshold: Threshold = 0.9, seed: int = 0) -> None:
        self.method = method
        self.threshold = threshold
        self.seed = seed

    def fit(self, X: Any, y: Any, costs: Costs = None, groups: Any = None) -> BaselineClassifier:  # noqa: N803
        """Divide the rows, and fit the method.

        Parameters
        ----------
        X, y
            Rows (a data frame, a mapping of arrays, or an array) and their labels.
        costs
            A `CostModel`, which may have groups, a mapping, a sequence in column order, or None for 1 each.
        groups
            One value per row: rows with equal values are all train rows, or all validation rows.
        """
        return self.fit_problem(
            Problem.of(X, y, costs=costs, threshold=self.threshold, shares=_SHARES, groups=groups, seed=self.seed)
        )

    def fit_problem(self, problem: Problem) -> BaselineClassifier:
        """Fit the method to a problem: its rows, prices and thresholds, instead of our own."""
        self.problem_ = problem
        self.fitted_ = self.method.fit(problem)
        return self

    def decide(self, X: Any) -> Bill:  # noqa: N803
        """Return the answers to rows, and what each of them paid."""
        check_is_fitted(self, "fitted_")
        problem = self.problem_
        return self.fitted_.decide(encode_table(problem.features, Table.of(X), "given"), problem.thresholds)
