"""Rows that spoil a Newton step: the corrected step is the lowest point of the better approximation, and saves passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from scipy.optimize import minimize
from scipy.special import expit

from emsco_train.logistic.column_set import make_column_set
from emsco_train.logistic.linear_algebra import solve_general
from emsco_train.logistic.regression import LogisticBatch, LogisticProblem
from emsco_train.logistic.stiff_rows import correct_step


@njit
def _solve_general(matrix: Any, vector: Any) -> Any:
    """Call what only compiled code can call."""
    return solve_general(matrix, vector)


@njit
def _make_column_set(columns: Any, numbers: Any, choices: Any) -> Any:
    """Call what only compiled code can call."""
    return make_column_set(columns, numbers, choices)


@njit
def _correct_step(rows: Any, column_set: Any, factor: Any, slope: Any, before: Any, after: Any, direction: Any) -> Any:
    """Call what only compiled code can call."""
    return correct_step(rows, column_set, factor, slope, before, after, direction)


CHOICES = (slice(2, 6),)


def make_outliers(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns, one of them with a few values hundreds of deviations away, a block of choices, and labels."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=(rows, 2)), rng.integers(0, 4, (rows, 1)) == np.arange(4)])
    y = (x @ [1.0, 3.0, 1.0, -1.0, 0.0, 0.0] + rng.logistic(size=rows) > 0.0).astype(np.intp)
    x[:5, 1] = [300.0, -200.0, 150.0, 80.0, -60.0]
    y[:5] = [0, 0, 1, 0, 1]
    return x, y


def newton_step(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return slope, Hessian and Newton step of the penalised loss."""
    chance = expit(x @ at)
    penalty = np.r_[0.0, np.ones(len(at) - 1)]
    slope = x.T @ (chance - y) + penalty * at
    hessian = (x.T * (chance * (1.0 - chance))) @ x + np.diag(penalty)
    return slope, hessian, -np.linalg.solve(hessian, slope)


def test_the_mended_step_is_the_lowest_point() -> None:
    """The stiff rows' true losses and the other rows' parabolas are as low as a general minimiser finds them, choices and all."""
    x, y = make_outliers()
    problem = LogisticProblem(x, y, 2, one_hot_groups=CHOICES)
    rows = problem._rows
    ones = np.column_stack([np.ones(len(x)), x])
    at = np.array([0.1, 0.3, 0.02, 0.2, -0.1, 0.0, 0.1])
    slope, hessian, step = newton_step(ones, y, at)
    order = np.argsort(np.argmax(x[:, 2:], axis=1), kind="stable")

    def arrange(column: np.ndarray) -> np.ndarray:
        padded = np.zeros(rows.weights.size)
        padded[: len(column)] = column[order]
        return padded.reshape(len(rows.weights), 1, -1)

    z, change = ones @ at, ones @ step
    column_set = _make_column_set(np.arange(6), rows.blocks.shape[1], rows.runs.n_categories)
    direction = step.copy()
    fall = _correct_step(rows, column_set, np.linalg.cholesky(hessian), slope, arrange(z), arrange(z + change), direction)

    def beyond(change: np.ndarray) -> np.ndarray:
        chance = expit(z)
        parabola = chance * change + 0.5 * chance * (1.0 - chance) * change**2
        return np.asarray(np.logaddexp(0.0, z + change) - np.logaddexp(0.0, z) - parabola)

    stiff = np.argsort(-np.abs(beyond(change)))[:32]

    def height(direction: np.ndarray) -> float:
        return float(slope @ direction + 0.5 * direction @ hessian @ direction + beyond(ones @ direction)[stiff].sum())

    lowest = minimize(height, direction, method="BFGS", options={"gtol": 1e-8}).fun
    assert fall == pytest.approx(-slope @ direction)
    assert height(direction) - lowest < 1e-5 * -lowest
    assert height(step) > 0.0 > lowest


def test_a_step_that_nothing_spoils_is_left_alone() -> None:
    """Where all losses are near their parabolas there is nothing to correct."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 3))
    y = (x[:, 0] + rng.logistic(size=400) > 0.0).astype(np.intp)
    rows = LogisticProblem(x, y, 2)._rows
    ones = np.column_stack([np.ones(len(x)), x])
    slope, hessian, step = newton_step(ones, y, np.zeros(4))
    after = np.zeros(rows.weights.size)
    after[:400] = ones @ step
    direction, shape = step.copy(), (len(rows.weights), 1, rows.weights.shape[1])
    column_set = _make_column_set(np.arange(3), 3, 0)
    assert (
        _correct_step(rows, column_set, np.linalg.cholesky(hessian), slope, np.zeros(shape), after.reshape(shape), direction)
        == 0.0
    )
    assert np.array_equal(direction, step)


def test_outliers_cost_few_passes() -> None:
    """Labels that depend on small values among huge ones: 8.3 passes from the model without columns, 13.2 without corrections."""
    rng = np.random.default_rng(3)
    normal, lean = rng.normal(size=(3000, 12)), rng.normal(size=12)
    y = (2.0 * normal @ lean + rng.logistic(size=3000) > 0.0).astype(np.intp)
    x = 0.02 * normal
    far, column, size = rng.permutation(3000)[:40], rng.integers(0, 12, 40), rng.choice([5.0, 20.0, 80.0, 300.0], 40)
    x[far, column] = np.where((y[far] == 1) ^ (rng.random(40) < 0.3), size, -size) * np.sign(lean[column])
    sets = rng.random((40, 12)) < 0.6
    problem = LogisticProblem(x, y, 2)
    wanted = problem.fit(sets)
    found = problem.fit(sets, LogisticBatch(sets, 0.0 * wanted.coef, wanted.intercept, wanted.passes))
    assert np.abs(found.coef - wanted.coef).max() < 1e-9
    assert found.passes.mean() < 10.0


@pytest.mark.parametrize("size", [1, 2, 7, 32])
def test_elimination_solves(size: int) -> None:
    """As numpy does, rows exchanged where that is needed."""
    rng = np.random.default_rng(size)
    matrix, wanted = rng.normal(size=(size, size)), rng.normal(size=size)
    matrix[0, 0] = 0.0 if size > 1 else 2.0
    vector = matrix @ wanted
    assert _solve_general(matrix, vector)
    assert np.abs(vector - wanted).max() < 1e-9


def test_elimination_refuses_what_has_no_solution() -> None:
    """A singular matrix, or one that is not finite."""
    for matrix in (np.ones((2, 2)), np.array([[np.nan, 1.0], [1.0, 1.0]]), np.zeros((1, 1))):
        assert not _solve_general(matrix.copy(), np.ones(len(matrix)))
