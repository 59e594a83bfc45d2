"""Logistic stages, one at a time: converged, equal to scikit-learn, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from emsco_train.errors import DataError, DesignError, FitError
from emsco_train.models.logistic.regression import LogisticModel, LogisticProblem, softmax
from tests.train.single_fit import fit_logistic


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a standardised table of scikit-learn's, or one that a line separates."""
    if name == "separable":
        x = np.random.default_rng(0).normal(size=(200, 3))
        return x, (x[:, 0] > 0).astype(int)
    loaders = {"breast_cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris, "digits": load_digits}
    x, y = loaders[name](return_X_y=True)
    # Part of the digits keeps the test quick; some of its columns are constant.
    part = x[:500] if name != "digits" else x[:500, :20]
    return StandardScaler().fit_transform(part), y[:500]


TABLES = [("breast_cancer", 1.0), ("breast_cancer", 1e4), ("wine", 1.0), ("iris", 100.0), ("digits", 1.0), ("separable", 1e6)]


def slope_and_hessian(x: np.ndarray, y: np.ndarray, model: LogisticModel, C: float) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
    """Return both for the parameters [labels, 1 + columns], by the book."""
    labels, design = len(model.coef), np.column_stack([np.ones(len(x)), x])
    chances = model.probabilities(x)
    # Two labels share one vector w, of which each holds a half: the penalty of the halves is doubled to be that of w.
    penalty = np.concatenate([[0.0], np.full(x.shape[1], (2.0 if labels == 2 else 1.0) / C)])
    parameters = np.column_stack([model.intercept, model.coef])
    slope = (chances - np.eye(labels)[y]).T @ design + penalty * parameters
    curvature = chances[:, :, None] * (np.eye(labels) - chances[:, None, :])
    hessian = np.einsum("ni,nab,nj->aibj", design, curvature, design, optimize=True).reshape(slope.size, slope.size)
    return slope, hessian + np.kron(np.eye(labels), np.diag(penalty))


@pytest.mark.parametrize(("name", "C"), TABLES)
def test_converged(name: str, C: float) -> None:  # noqa: N803
    """Two more Newton steps, exact ones, move no probability by 1e-9."""
    x, y = load(name)
    model = fit_logistic(x, y, len(set(y)), C=C)
    further = model
    for _ in range(2):
        slope, hessian = slope_and_hessian(x, y, further, C)
        # All intercepts together may be moved at will: of the many solutions, the least is taken.
        step = np.linalg.lstsq(hessian, slope.ravel(), rcond=None)[0].reshape(slope.shape)
        further = LogisticModel(further.coef - step[:, 1:], further.intercept - step[:, 0])
    assert np.abs(model.probabilities(x) - further.probabilities(x)).max() < 1e-9


@pytest.mark.parametrize(("name", "C"), [case for case in TABLES if case != ("breast_cancer", 1e4)])
def test_equals_scikit_learn(name: str, C: float) -> None:  # noqa: N803
    """scikit-learn's own solver, run to its end, comes to the same probabilities."""
    x, y = load(name)
    twin = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, y)
    assert np.abs(fit_logistic(x, y, len(set(y)), C=C).probabilities(x) - twin.predict_proba(x)).max() < 1e-9


@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_optimal_by_the_slope(name: str) -> None:
    """At the solution the loss has no slope, whatever solver was used: no reference is needed."""
    x, y = load(name)
    labels = len(set(y))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = fit_logistic(x, y, labels, weights=weights, C=0.5)
    residual = weights[:, None] * (model.probabilities(x) - np.eye(labels)[y])
    # Two labels share one vector w, of which each holds a half.
    penalty = model.coef / 0.5 * (2 if labels == 2 else 1)
    assert np.abs(residual.T @ x + penalty).max() < 1e-7
    assert np.abs(residual.sum(axis=0)).max() < 1e-7


def test_impossible_fits_are_refused() -> None:
    """A penalty too weak for convergence is an error that names the set, with the remedy: no unconverged model is returned."""
    x, y = load("wine")
    with pytest.raises(FitError, match=r"13 columns and 178 rows did not converge.*columns 0, 1, 2.*lower C"):
        fit_logistic(x, y, 3, C=1e12)
    huge = x.copy()
    huge[0, 4] = 1e200
    with pytest.raises(FitError, match=r"2 columns and 178 rows did not converge \(set 1 of 3; columns 3, 4\)"):
        LogisticProblem(huge, y, 3).fit(np.isin(np.arange(13), [3, 4]) & np.array([[False], [True], [True]]))


def test_bad_input() -> None:
    """NaN, a label without weight, C of no use and sets of another width: each named."""
    x, y = load("wine")
    hole = x.copy()
    hole[7, 2] = np.nan
    with pytest.raises(FitError, match="column 2, row 7: nan"):
        fit_logistic(hole, y, 3)
    with pytest.raises(DataError, match=r"label 3 \(by position\) has no row"):
        fit_logistic(x, y, 4)
    with pytest.raises(DataError, match=r"label 1 \(by position\) has no row"):
        fit_logistic(x, y, 3, weights=(y != 1).astype(float))
    for wrong in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(DesignError, match=r"C is .*: expected a finite number above 0"):
            fit_logistic(x, y, 3, C=wrong)
    with pytest.raises(DesignError, match=r"shape \(1, 12\): expected \[sets, 13\]"):
        LogisticProblem(x, y, 3).fit(np.ones((1, 12), dtype=bool))


def test_softmax_in_the_tails() -> None:
    """Log-odds beyond 700 neither overflow nor lose the small probability."""
    result = softmax(np.array([[0.0, 2000.0], [-350.0, 350.0]]))
    assert result[0].tolist() == [0.0, 1.0]
    assert result[1, 0] == pytest.approx(np.exp(-700.0), rel=1e-12)
