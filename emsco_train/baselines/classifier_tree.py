"""A tree of linear classifiers, and the smooth objective that CSTC minimises over all of its weights.

Nodes are numbered from the root, 0; the children of node v are 2v + 1 ("upper") and 2v + 2 ("lower"). A row x has the score
f = x b + a at a node, and goes to the upper child with probability sigmoid(f - threshold). The objective is

    mean over rows, sum over nodes v:  P(row reaches v) * (y - f)^2
    + sparsity * sum of |b|
    + cost_weight * sum over leaves l:  P(l) * sum over prices c:  c * |weights that c is paid for, of all nodes on the way to l|

where y is -1 or 1, P(l) is the mean over rows, and the last norm is the Euclidean one: a feature that one node on a way has paid
for is nearly free for the others. A price is that of a feature, for the weights of its columns, or that of a group of features,
for the weights of all of them. Norms are smoothed by `epsilon`, so that the gradient exists everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask

__all__ = ["ClassifierTree", "Payments", "TreeObjective"]


@dataclass(frozen=True, slots=True, eq=False)
class Payments:
    """Prices [payments], and the columns that need each of them [payments, columns]."""

    prices: Floats
    columns: Mask


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierTree:
    """Weights [nodes, columns] and intercepts [nodes] of all nodes, and thresholds of those that are no leaves."""

    weights: Floats
    intercepts: Floats
    thresholds: Floats

    @property
    def nodes(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.intercepts)

    @property
    def depth(self) -> int:
        """Number of nodes on the way to a leaf, which is included."""
        return (self.nodes + 1).bit_length() - 1

    def path(self, node: int) -> list[int]:
        """Return the nodes on the way to a node, from the root, itself included.

        Examples
        --------
        >>> ClassifierTree(np.zeros((7, 1)), np.zeros(7), np.zeros(3)).path(5)
        [0, 2, 5]
        """
        way = [node]
        while way[0]:
            way.insert(0, (way[0] - 1) // 2)
        return way

    @property
    def leaves(self) -> range:
        """The leaves."""
        return range(len(self.thresholds), self.nodes)

    def scores(self, rows: Floats) -> Floats:
        """Return the scores [rows, nodes]."""
        return np.asarray(rows @ self.weights.T + self.intercepts)

    def find_leaves(self, scores: Floats) -> Ints:
        """Return the leaf that each row reaches, where it goes to the upper child if its score is above the threshold."""
        node = np.zeros(len(scores), dtype=np.intp)
        for _ in range(self.depth - 1):
            is_upper = scores[np.arange(len(scores)), node] > self.thresholds[node]
            node = 2 * node + np.where(is_upper, 1, 2)
        return node

    def flatten(self) -> Floats:
        """Return all numbers as one vector."""
        return np.concatenate([self.weights.ravel(), self.intercepts, self.thresholds])

    def filled(self, numbers: Floats) -> ClassifierTree:
        """Return the tree of the same shape with other numbers, given as `flatten` gives them."""
        weights, intercepts, thresholds = np.split(numbers, [self.weights.size, self.weights.size + self.nodes])
        return ClassifierTree(weights.reshape(self.weights.shape), intercepts, thresholds)

    def masked(self, used: Mask) -> ClassifierTree:
        """Return the tree without the weights [nodes, columns] that are not used."""
        return replace(self, weights=np.where(used, self.weights, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class TreeObjective:
    """The objective on some rows; called with a tree, it returns its value and its gradient, as a tree.

    Parameters
    ----------
    rows, truth
        Standardised columns [rows, columns], and -1 or 1 for each row.
    payments
        Prices, as shares of the price of all features.
    cost_weight, sparsity, epsilon
        As above.
    """

    rows: Floats
    truth: Floats
    payments: Payments
    cost_weight: float
    sparsity: float = 0.0
    epsilon: float = 1e-4

    def __call__(self, tree: ClassifierTree) -> tuple[float, ClassifierTree]:
        """Return value and gradient."""
        scores, inner, count = tree.scores(self.rows), len(tree.thresholds), len(self.rows)
        upper = 0.5 * (1.0 + np.tanh(0.5 * (scores[:, :inner] - tree.thresholds)))
        reach = _reach(upper, tree.nodes)
        error = scores - self.truth[:, None]
        share = reach.mean(axis=0)
        bills, bill_slopes = self._bills(tree)
        smooth = np.sqrt(tree.weights**2 + self.epsilon**2)
        value = float((reach * error**2).sum() / count + self.sparsity * smooth.sum() + self.cost_weight * share @ bills)
        # What one more of each row at each node would add, from the leaves up: the children pass theirs to their parent.
        passed = (error**2 + self.cost_weight * bills) / count
        slope = 2.0 * reach * error / count
        for node in reversed(range(inner)):
            above, below = passed[:, 2 * node + 1], passed[:, 2 * node + 2]
            chance = upper[:, node]
            passed[:, node] += chance * above + (1.0 - chance) * below
            slope[:, node] += reach[:, node] * (above - below) * chance * (1.0 - chance)
        through_split = slope[:, :inner] - 2.0 * reach[:, :inner] * error[:, :inner] / count
        weights = slope.T @ self.rows + self.sparsity * tree.weights / smooth
        for leaf in tree.leaves:
            weights[tree.path(leaf)] += self.cost_weight * share[leaf] * bill_slopes[leaf]
        return value, ClassifierTree(weights, slope.sum(axis=0), -through_split.sum(axis=0))

    def _bills(self, tree: ClassifierTree) -> tuple[Floats, dict[int, Floats]]:
        """Return the smoothed bill of the way to each leaf, 0 for other nodes, and its slopes [nodes on the way, columns]."""
        bills, slopes = np.zeros(tree.nodes), {}
        needed = self.payments.columns.astype(np.float64)
        for leaf in tree.leaves:
            way = tree.weights[tree.path(leaf)]
            norms = np.sqrt(needed @ (way**2).sum(axis=0) + self.epsilon**2)
            bills[leaf] = self.payments.prices @ norms
            slopes[leaf] = way * ((self.payments.prices / norms) @ needed)
        return bills, slopes


def _reach(upper: Floats, nodes: int) -> Floats:
    """Return the probability that each row reaches each node [rows, nodes]."""
    reach = np.ones((len(upper), nodes))
    for node in range(upper.shape[1]):
        reach[:, 2 * node + 1] = reach[:, node] * upper[:, node]
        reach[:, 2 * node + 2] = reach[:, node] * (1.0 - upper[:, node])
    return reach
