"""`CostSensitiveTree`: CSTC, a tree of sparse linear classifiers (Xu, Kusner, Weinberger, Chen and Chapelle, JMLR 2014).

A row walks down the tree; at each node a linear classifier sends it to one of two children, and the leaf answers. It pays for
the features that have a weight in some node on its way, and every row is answered. All nodes are trained together, by the
objective of `classifier_tree`: the expected squared error over a probabilistic walk, and the mixed-norm relaxation of the
expected bill.

No public code was found; this follows the paper, with these simplifications:

- the norms are smoothed and all weights are optimised at once by L-BFGS, with less and less smoothing, where the paper takes one
  node after the other and an upper bound of the norms; both find a local minimum;
- a weight that ends below a thousandth of the largest is 0; then all weights that are left are trained again without the costs,
  as the paper's last step does, and no node is pruned for its small share of rows;
- every node begins as the ridge regression of all rows, with the median of its own rows as the threshold;
- the time that classifiers themselves take is not counted.

How much the costs count is chosen on validation rows, and so is the depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.baselines.bill import Bill, price_sets
from emsco_train.baselines.classifier_tree import ClassifierTree, Payments, TreeObjective
from emsco_train.baselines.method import check_binary, check_problem, choose_by_validation
from emsco_train.data.problem import Problem

__all__ = ["CostSensitiveTree", "FittedTree", "fit_tree", "list_payments"]

_COST_WEIGHTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_SMOOTHING = (1e-1, 1e-2, 1e-3)
_LEAST_WEIGHT = 1e-3
# Far above what one unit of error can be worth: nothing is bought.
_INFINITE = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class FittedTree:
    """A fitted tree; `used` says which weights it has [nodes, columns]."""

    problem: Problem
    tree: ClassifierTree
    used: Mask

    def decide(self, codes: Floats, thresholds: Sequence[float]) -> Bill:  # noqa: ARG002 - it answers every row
        """Answer every row at its leaf; it pays for the features of all nodes on its way."""
        labels: tuple[Label, ...] = self.problem.labels
        scores = self.tree.scores(self.problem.encoder.transform(codes))
        leaf = self.tree.find_leaves(scores)
        position = (scores[np.arange(len(scores)), leaf] > 0).astype(np.intp)
        features = np.array([self._features(node) for node in range(self.tree.nodes)])
        cost = price_sets(self.problem.meter, self.problem.names, features[leaf])
        return Bill(position, cost, labels)

    def _features(self, node: int) -> Mask:
        """Return which features a row has paid for once it was at a node."""
        owners = self.problem.encoder.column_owners
        columns = self.used[self.tree.path(node)].any(axis=0)
        paid = np.zeros(len(self.problem.names), dtype=np.bool_)
        paid[owners[columns]] = True
        return paid


@dataclass(frozen=True, slots=True)
class CostSensitiveTree:
    """CSTC; for two labels.

    Parameters
    ----------
    depths
        Numbers of nodes on the way to a leaf, to choose from; 1 is one sparse linear classifier.
    cost_weights
        How much the expected bill, as a share of the cost of all features, counts compared with the squared error, to choose
        from; infinite ones buy nothing.
    sparsity
        Weight of the L1 norm of each node.
    iterations
        Of L-BFGS for each degree of smoothing, at most.
    """

    depths: tuple[int, ...] = (1, 2, 3)
    cost_weights: tuple[float, ...] = _COST_WEIGHTS
    sparsity: float = 1e-4
    iterations: int = 60

    def fit(self, problem: Problem) -> FittedTree:
        """Fit a tree for each depth and weight, and choose one."""
        check_problem(problem)
        check_binary(problem, "CostSensitiveTree")
        return choose_by_validation(problem, self.fit_each(problem))

    def fit_each(self, problem: Problem) -> Iterator[FittedTree]:
        """Yield the tree of each depth and weight."""
        for depth in self.depths:
            for cost_weight in self.cost_weights:
                yield fit_tree(problem, depth, cost_weight, self.sparsity, self.iterations)


def fit_tree(problem: Problem, depth: int, cost_weight: float, sparsity: float, iterations: int) -> FittedTree:
    """Fit one tree on the train rows."""
    rows, truth = problem.train.encoded, np.where(problem.train.target == 1, 1.0, -1.0)
    tree = _first_tree(rows, truth, depth)
    weight = min(cost_weight, _INFINITE)
    objective = TreeObjective(rows, truth, list_payments(problem), weight, sparsity)
    for epsilon in _SMOOTHING:
        tree = _minimise(replace(objective, epsilon=epsilon), tree, np.ones(tree.weights.shape, dtype=np.bool_), iterations)
    used: Mask = np.abs(tree.weights) > _LEAST_WEIGHT * max(1.0, float(np.abs(tree.weights).max()))
    refit = replace(objective, cost_weight=0.0, sparsity=0.0, epsilon=_SMOOTHING[-1])
    return FittedTree(problem, _minimise(refit, tree.masked(used), used, iterations), used)


def list_payments(problem: Problem) -> Payments:
    """Return the prices of a problem, of features and of groups, as shares of that of all, with the columns that need each."""
    owners = problem.encoder.column_owners
    paid = [(problem.costs.features[name], owners == position) for position, name in enumerate(problem.names)]
    for group in problem.costs.groups:
        members = [problem.names.index(name) for name in group.features]
        paid.append((group.cost, np.isin(owners, members)))
    return Payments(np.array([price for price, _ in paid]) / problem.full_cost, np.array([columns for _, columns in paid]))


def _first_tree(rows: Floats, truth: Floats, depth: int) -> ClassifierTree:
    """Return a tree whose nodes are all the ridge regression of all rows, each divided at the median of its own rows."""
    nodes, columns = 2**depth - 1, rows.shape[1]
    centred = rows - rows.mean(axis=0)
    ridge = np.linalg.solve(centred.T @ centred + np.eye(columns), centred.T @ (truth - truth.mean()))
    intercept = float(truth.mean() - rows.mean(axis=0) @ ridge)
    score, thresholds = rows @ ridge + intercept, np.zeros(nodes // 2)
    places = {0: np.arange(len(rows))}
    for node in range(nodes // 2):
        own = places[node]
        thresholds[node] = float(np.median(score[own])) if len(own) else 0.0
        is_upper = score[own] > thresholds[node]
        places[2 * node + 1], places[2 * node + 2] = own[is_upper], own[~is_upper]
    return ClassifierTree(np.tile(ridge, (nodes, 1)), np.full(nodes, intercept), thresholds)


def _minimise(objective: TreeObjective, start: ClassifierTree, used: Mask, iterations: int) -> ClassifierTree:
    """Return the tree at a local minimum, in which only weights [nodes, columns] that are used may differ from 0."""

    def evaluate(numbers: Floats) -> tuple[float, Floats]:
        value, gradient = objective(start.filled(numbers).masked(used))
        return value, gradient.masked(used).flatten()

    found = minimize(evaluate, start.masked(used).flatten(), jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    return start.filled(np.asarray(found.x, dtype=np.float64)).masked(used)
