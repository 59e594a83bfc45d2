"""L2 logistic regression, fitted to convergence.

The loss is scikit-learn's: sum of weighted log-losses + ||coef||^2 / (2 C), the intercept not penalised. scikit-learn's
Newton-Cholesky solver comes close; Newton steps of our own then finish the work and, above all, tell how far away the optimum
still is. A model that did not converge is an error, never a result.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression

from emsco_runtime._arrays import Floats, Ints
from emsco_train.errors import FitError

__all__ = ["LogisticModel", "fit_logistic", "softmax"]

# A Newton step is, near the optimum, the distance to it. Steps that move no log-odds by more than this move no probability by
# more than a quarter of it: 40 times below the 1e-9 that a tighter tolerance may move.
_TOLERANCE = 1e-10
_MAX_STEPS = 100
_MAX_HALVINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class LogisticModel:
    """A fitted stage model.

    Parameters
    ----------
    coef
        Weights [labels, columns]. With two labels the rows are -w/2 and +w/2: the softmax of the halves is the sigmoid of
        the whole, exact in both tails.
    intercept
        One per label; halved likewise.
    """

    coef: Floats
    intercept: Floats

    def probabilities(self, encoded: Floats) -> Floats:
        """Return probabilities [rows, labels] of encoded rows."""
        return softmax(encoded @ self.coef.T + self.intercept)


def fit_logistic(encoded: Floats, target: Ints, labels: int, *, weights: Floats | None = None, C: float = 1.0) -> LogisticModel:  # noqa: N803
    """Fit to convergence: a tighter tolerance would move no probability by 1e-9.

    Parameters
    ----------
    encoded
        Columns [rows, columns], as `BlockEncoder.transform` gives them.
    target
        Position of each row's label.
    labels
        How many labels there are; each must occur.
    weights
        One per row; None: 1 each.
    C
        Inverse strength of the penalty, as in scikit-learn.

    Examples
    --------
    >>> model = fit_logistic(np.array([[-1.0], [1.0], [2.0]]), np.array([0, 1, 1]), 2)
    >>> model.probabilities(np.array([[0.0]])).round(3)
    array([[0.428, 0.572]])
    """
    rows = np.ones(len(encoded)) if weights is None else weights
    design = np.column_stack([encoded, np.ones(len(encoded))])
    start = _start(encoded, target, rows, C)
    if labels == 2:
        solved = _polish(_Binary(design, (target == 1).astype(np.float64), rows, 1.0 / C), start)
        both = np.vstack([-solved / 2, solved / 2])
        return LogisticModel(both[:, :-1].copy(), both[:, -1].copy())
    wanted = (target[:, None] == np.arange(labels)).astype(np.float64)
    solved = _polish(_Multinomial(design, wanted, rows, 1.0 / C), start).reshape(labels, -1)
    return LogisticModel(solved[:, :-1].copy(), solved[:, -1].copy())


def softmax(logits: Floats) -> Floats:
    """Return the softmax of each row, without overflow."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _start(encoded: Floats, target: Ints, weights: Floats, C: float) -> Floats:  # noqa: N803
    """Return scikit-learn's parameters, one row per logit with the intercept last, as a flat vector."""
    solver = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-8, max_iter=200)
    with warnings.catch_warnings():
        # It may warn and fall back when its Hessian is ill-conditioned: this is a start only, and the steps below judge it.
        warnings.simplefilter("ignore")
        solver.fit(encoded, target, sample_weight=weights)
    return np.asarray(np.column_stack([solver.coef_, solver.intercept_]).ravel(), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Binary:
    """Loss, slope and curvature of one logit; parameters are columns, then the intercept."""

    design: Floats
    wanted: Floats
    weights: Floats
    strength: float

    def loss(self, parameters: Floats) -> float:
        logits = self.design @ parameters
        losses = np.logaddexp(0.0, logits) - self.wanted * logits
        return float(self.weights @ losses + 0.5 * self.strength * parameters[:-1] @ parameters[:-1])

    def step(self, parameters: Floats) -> Floats:
        logits = self.design @ parameters
        chance = 0.5 * (1.0 + np.tanh(0.5 * logits))
        penalty = np.full(len(parameters), self.strength)
        penalty[-1] = 0.0
        slope = self.design.T @ (self.weights * (chance - self.wanted)) + penalty * parameters
        curvature = self.weights / (2.0 + 2.0 * np.cosh(np.clip(logits, -700.0, 700.0)))
        hessian = self.design.T @ (curvature[:, None] * self.design) + np.diag(penalty)
        return np.asarray(np.linalg.solve(hessian, -slope))

    def logit_change(self, step: Floats) -> float:
        return float(np.abs(self.design @ step).max())


@dataclass(frozen=True, slots=True, eq=False)
class _Multinomial:
    """Loss, slope and curvature of one logit per label; parameters label by label, each with its intercept last."""

    design: Floats
    wanted: Floats
    weights: Floats
    strength: float

    def loss(self, parameters: Floats) -> float:
        table = parameters.reshape(self.wanted.shape[1], -1)
        logits = self.design @ table.T
        top = logits.max(axis=1)
        total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
        losses = total - (self.wanted * logits).sum(axis=1)
        return float(self.weights @ losses + 0.5 * self.strength * (table[:, :-1] ** 2).sum())

    def step(self, parameters: Floats) -> Floats:
        table = parameters.reshape(self.wanted.shape[1], -1)
        chances = softmax(self.design @ table.T)
        slope = (self.weights[:, None] * (chances - self.wanted)).T @ self.design
        slope[:, :-1] += self.strength * table[:, :-1]
        return np.asarray(np.linalg.solve(self._hessian(chances), -slope.ravel()))

    def _hessian(self, chances: Floats) -> Floats:
        labels, width = chances.shape[1], self.design.shape[1]
        hessian = np.empty((labels, width, labels, width))
        for one in range(labels):
            for other in range(one + 1):
                curvature = self.weights * chances[:, one] * ((one == other) - chances[:, other])
                part = self.design.T @ (curvature[:, None] * self.design)
                hessian[one, :, other, :] = part
                hessian[other, :, one, :] = part
        penalty = np.full(width, self.strength)
        penalty[-1] = 0.0
        for label in range(labels):
            hessian[label, :, label, :] += np.diag(penalty)
        # Adding one number to all intercepts changes nothing; curvature in that direction makes the matrix regular, and the
        # slope along it is zero, so that the solution is the same.
        hessian[:, -1, :, -1] += self.weights.sum() / labels
        return hessian.reshape(labels * width, labels * width)

    def logit_change(self, step: Floats) -> float:
        changes = self.design @ step.reshape(self.wanted.shape[1], -1).T
        return float((changes.max(axis=1) - changes.min(axis=1)).max())


def _polish(problem: _Binary | _Multinomial, start: Floats) -> Floats:
    parameters, loss = start, problem.loss(start)
    for _ in range(_MAX_STEPS):
        try:
            step = problem.step(parameters)
        except np.linalg.LinAlgError:
            break
        if problem.logit_change(step) <= _TOLERANCE:
            return np.asarray(parameters + step)
        parameters, loss = _damped(problem, parameters, loss, step)
    raise FitError(
        f"logistic regression on {problem.design.shape[1] - 1} columns and {len(problem.design)} rows did not converge: "
        "values of very different size or a very large C are the usual cause; lower C, or drop or rescale extreme columns"
    )


def _damped(problem: _Binary | _Multinomial, parameters: Floats, loss: float, step: Floats) -> tuple[Floats, float]:
    """Take the largest of step, step / 2, step / 4, ... under which the loss falls."""
    # Near the optimum the loss is flat to its last digits: a rise within them is no rise.
    slack = 1e-13 * (1.0 + abs(loss))
    for _ in range(_MAX_HALVINGS):
        trial = parameters + step
        lower = problem.loss(trial)
        if lower <= loss + slack:
            return trial, lower
        step = step / 2
    raise FitError("logistic regression did not converge: no step lowers the loss; lower C, or rescale extreme columns")
