"""A small landscape of designs for the tests of the search: stage models fitted on made-up data, every design in reach."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from emsco_train.designs.chromosome import Population, compress
from emsco_train.search.genetic.pareto import non_dominated
from emsco_train.search.scoring.objectives import Objectives


@dataclass(slots=True, eq=False)
class Landscape:
    """An evaluator over tables of bits: which rows each feature set (a bit mask) is confident and right about."""

    confident: np.ndarray
    right: np.ndarray
    feature_cost: np.ndarray
    offset: float = 0.0
    evaluated: int = 0
    calls: int = 0

    @property
    def n(self) -> int:
        """Number of features."""
        return len(self.feature_cost)

    @property
    def rows(self) -> int:
        """Number of validation rows."""
        return self.confident.shape[1]

    def __call__(self, population: Population) -> Objectives:
        """Walk the stages of every design at once."""
        self.evaluated += len(population)
        self.calls += 1
        accepted, right, cost = (np.zeros(len(population), dtype=np.int64) for _ in range(3))
        left = np.ones((len(population), self.rows), dtype=bool)
        bits = 1 << np.arange(self.n)
        for stage in range(int(population.max()) + 1):
            has_stage = population.max(axis=1) >= stage
            sets = (((population >= 0) & (population <= stage)) * bits).sum(axis=1)
            cost += has_stage * left.sum(axis=1) * ((population == stage) * self.feature_cost).sum(axis=1)
            accepted += has_stage * (left & self.confident[sets]).sum(axis=1)
            right += has_stage * (left & self.right[sets]).sum(axis=1)
            left &= ~self.confident[sets]
        return Objectives(accepted, right, cost, self.rows, self.offset)


def random_landscape(n: int, rows: int, seed: int) -> Landscape:
    """Return a landscape of random bits and prices: no structure at all."""
    rng = np.random.default_rng(seed)
    confident = rng.random((1 << n, rows)) < 0.4
    return Landscape(confident, confident & (rng.random((1 << n, rows)) < 0.7), rng.integers(1, 6, n))


@cache
def _confidences(n: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    # Only here: the process that a test kills and starts again need not wait for it.
    from sklearn.datasets import make_classification

    raw, y = make_classification(3 * rows, n, n_informative=n // 2, n_redundant=2, class_sep=0.85, flip_y=0.02, random_state=seed)
    table = np.column_stack([(raw - raw[: 2 * rows].mean(0)) / raw[: 2 * rows].std(0), np.ones(len(raw))])
    top, right = np.zeros((1 << n, rows)), np.zeros((1 << n, rows), dtype=bool)
    for mask in range(1, 1 << n):
        columns = [*(index for index in range(n) if mask >> index & 1), n]
        p = 1 / (1 + np.exp(-table[2 * rows :, columns] @ _fit(table[: 2 * rows, columns], y[: 2 * rows])))
        top[mask], right[mask] = np.maximum(p, 1 - p), (p > 0.5) == y[2 * rows :]
    return top, right


def _fit(columns: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Fit logistic regression with C = 1 by Newton's method; the last column is the intercept."""
    weights = np.zeros(columns.shape[1])
    penalty = np.r_[np.ones(columns.shape[1] - 1), 0.0]
    for _ in range(12):
        p = 1 / (1 + np.exp(-columns @ weights))
        hessian = (columns * (p * (1 - p))[:, None]).T @ columns + np.diag(penalty)
        weights = weights - np.linalg.solve(hessian, columns.T @ (p - y) + penalty * weights)
    return weights


def fitted_landscape(n: int, *, threshold: float = 0.75, rows: int = 75, seed: int = 0) -> Landscape:
    """Return a realistic landscape: logistic fits of every feature set, prices of two orders of magnitude."""
    top, right = _confidences(n, rows, seed)
    confident = top >= threshold
    confident[0] = False
    return Landscape(confident, confident & right, np.random.default_rng(seed).choice([10, 100], n))


@cache
def all_designs(n: int, max_stages: int, *, exclusion: bool = False) -> Population:
    """Return every compressed chromosome, by trying all lists of genes."""
    base = max_stages + exclusion
    genes = np.arange(base**n)[:, None] // base ** np.arange(n)[::-1] % base - int(exclusion)
    genes = genes.astype(np.int8)
    genes = genes[(genes >= 0).any(axis=1)]
    return genes[(compress(genes) == genes).all(axis=1)]


def exact_front(landscape: Landscape, designs: Population) -> set[tuple[int, ...]]:
    """Return the objective vectors that nothing dominates, by evaluating every design."""
    parts = [landscape(designs[begin : begin + 50_000]) for begin in range(0, len(designs), 50_000)]
    scored = parts[0].join(parts[1:])
    return vectors(scored.take(non_dominated(scored)))


def vectors(objectives: Objectives) -> set[tuple[int, ...]]:
    """Return objective vectors as a set."""
    return set(map(tuple, objectives.vectors().tolist()))
