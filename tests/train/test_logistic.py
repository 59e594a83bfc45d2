"""Logistic stages: converged, equal to scikit-learn, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from emsco_train import logistic
from emsco_train.errors import FitError
from emsco_train.logistic import fit_logistic, softmax


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


@pytest.mark.parametrize(("name", "C"), TABLES)
def test_converged(name: str, C: float, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N803
    """Going on beyond the tolerance, by two more Newton steps, moves no probability by 1e-9."""
    x, y = load(name)
    labels = len(set(y))
    before = fit_logistic(x, y, labels, C=C).probabilities(x)
    polish = logistic._polish

    def further(problem: Any, start: Any) -> Any:
        parameters = polish(problem, start)
        parameters = parameters + problem.step(parameters)
        return parameters + problem.step(parameters)

    monkeypatch.setattr(logistic, "_polish", further)
    after = fit_logistic(x, y, labels, C=C).probabilities(x)
    assert np.abs(before - after).max() < 1e-9


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


def test_polish_rescues_a_poor_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even from a start that is far off, where full steps overshoot, the damped steps find the optimum."""
    for name in ("breast_cancer", "wine"):
        x, y = load(name)
        labels = len(set(y))
        wanted = fit_logistic(x, y, labels).probabilities(x)
        size = (x.shape[1] + 1) * (1 if labels == 2 else labels)
        far = np.random.default_rng(0).normal(0.0, 1.0, size)
        with monkeypatch.context() as patch:
            patch.setattr(logistic, "_start", lambda *_, far=far: far)
            found = fit_logistic(x, y, labels).probabilities(x)
        assert np.abs(found - wanted).max() < 1e-9


def test_no_unconverged_model_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """When steps run out, lower nothing or cannot be computed, there is an error with the remedy, not a model."""
    x, y = load("wine")
    with pytest.raises(FitError, match=r"13 columns and 178 rows did not converge.*lower C"):
        fit_logistic(x, y, 3, C=1e12)
    monkeypatch.setattr(logistic, "_MAX_STEPS", 0)
    with pytest.raises(FitError, match="did not converge"):
        fit_logistic(x, y, 3)
    monkeypatch.setattr(logistic, "_MAX_STEPS", 10)
    monkeypatch.setattr(logistic, "_TOLERANCE", -1.0)
    with pytest.raises(FitError, match="did not converge"):
        fit_logistic(x, y, 3)


def test_failing_steps_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A singular matrix, and a step that only ever raises the loss, end in our own error."""
    x, y = load("breast_cancer")

    def singular(*_: Any) -> None:
        raise np.linalg.LinAlgError

    with monkeypatch.context() as patch:
        patch.setattr(logistic._Binary, "step", singular)
        with pytest.raises(FitError, match="did not converge"):
            fit_logistic(x, y, 2)
    monkeypatch.setattr(logistic._Binary, "step", lambda self, parameters: parameters * 1e12)
    with pytest.raises(FitError, match="no step lowers the loss"):
        fit_logistic(x, y, 2)


def test_softmax_in_the_tails() -> None:
    """Log-odds beyond 700 neither overflow nor lose the small probability."""
    result = softmax(np.array([[0.0, 2000.0], [-350.0, 350.0]]))
    assert result[0].tolist() == [0.0, 1.0]
    assert result[1, 0] == pytest.approx(np.exp(-700.0), rel=1e-12)
