"""`TunedLasso`, the paper's CaCT LASSO: one logistic regression on the features that an L1 penalty leaves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from emsco_runtime.support.arrays import Floats
from emsco_train.baselines.fitted import SingleModel
from emsco_train.baselines.method import check_problem, choose_by_validation
from emsco_train.data.problem import Problem

__all__ = ["PENALTIES", "TunedLasso", "fit_lasso"]

# The paper's: 0, 0.1, 0.2, ..., 10.
PENALTIES = tuple(step / 10 for step in range(101))

# liblinear penalises the intercept like a weight, but of a column of this value.
_INTERCEPT_SCALE = 100.0


@dataclass(frozen=True, slots=True)
class TunedLasso:
    """L1 logistic regressions for many penalties, of which validation rows choose one, by accuracy, coverage and cost.

    All features with a weight are acquired in one stage, and rows below their threshold are rejected. The penalty is that of the
    sum of the log losses of the rows. A feature with several columns is used if one of them has a weight.
    """

    penalties: tuple[float, ...] = PENALTIES

    def fit(self, problem: Problem) -> SingleModel:
        """Fit a model for each penalty, and choose one."""
        check_problem(problem)
        return choose_by_validation(problem, (fit_lasso(problem, penalty) for penalty in self.penalties))


def fit_lasso(problem: Problem, penalty: float) -> SingleModel:
    """Fit the model of one penalty; 0 is none."""
    options = {"C": np.inf, "solver": "lbfgs"}
    if penalty > 0:
        solver = "liblinear" if len(problem.labels) == 2 else "saga"
        options = {"C": 1.0 / penalty, "solver": solver, "l1_ratio": 1.0, "intercept_scaling": _INTERCEPT_SCALE}
    model = LogisticRegression(**options, max_iter=1000, random_state=problem.settings.seed)
    with warnings.catch_warnings():
        # Without a penalty, the weights of separable rows have no end.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # scikit-learn 1.8 warns of an infinite C, which is its own way to say "no penalty".
        warnings.filterwarnings("ignore", "Setting penalty=None", UserWarning)
        model.fit(problem.train.encoded, problem.train.target)

    return SingleModel.of(problem, partial(_predict, model), np.asarray((model.coef_ != 0).any(axis=0)))


def _predict(model: Any, encoded: Floats) -> Floats:
    return np.asarray(model.predict_proba(encoded), dtype=np.float64)
