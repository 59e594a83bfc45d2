"""`GreedyMiser`: boosted trees that buy features (Xu, Weinberger and Chapelle, "The Greedy Miser", ICML 2012).

Trees of limited depth are added one by one. Each is grown on the negative gradient of the loss by a cost-aware impurity, in which
a feature that was bought before is free (`cost_tree`). Every row is scored by all trees, and so pays for all features that any of
them uses. The weight of the costs and the number of trees are chosen on validation rows.

As in the EMSCO paper, rows are not rejected unless asked for. Settled here: the loss is the logistic one (theirs may be any
differentiable one), the time that trees themselves take is not counted, and splits are at up to 64 cuts of a column.

LightGBM's CEGB subtracts from the gain of a split ``cegb_tradeoff * cegb_penalty_feature_coupled[column]`` unless a tree has used
the column before: the same idea. Its gain is the sum over rows, without our factor 1/2: so a penalty of
``2 * rows * weight * price / price of all`` is ours, and a tree of one split is the same (under test). It differs beyond that: it
grows the leaf that gains most first, its gradients are weighted by their curvature, and it prices columns, where we price
features that may have several columns, and groups of features that share a price.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.baselines.cost_tree import BinnedColumns, CostTreeGrower
from emsco_train.baselines.fitted import SingleModel
from emsco_train.baselines.method import check_binary, check_problem, choose_by_validation
from emsco_train.data.problem import Problem
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.tree_ensemble import Tree, TreeEnsemble

__all__ = ["FeaturePrices", "GreedyMiser"]

_WEIGHTS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@dataclass(frozen=True, slots=True)
class GreedyMiser:
    """Boosted trees in which a feature, once bought, is free; for two labels.

    Parameters
    ----------
    weights
        What validation rows choose from: how much the price of a feature counts compared with the error that a split removes.
    trees
        Numbers of trees to choose from.
    depth
        Most splits on the way to a leaf.
    learning_rate
        What a tree is multiplied by. 0.4 are steps of a tenth for rows that the trees are in doubt about.
    rejects
        Whether rows below their threshold are rejected; the method itself answers all.
    """

    weights: tuple[float, ...] = _WEIGHTS
    trees: tuple[int, ...] = (10, 20, 50, 100)
    depth: int = 3
    learning_rate: float = 0.4
    rejects: bool = False

    def fit(self, problem: Problem) -> SingleModel:
        """Boost with each weight, and choose the weight and the number of trees."""
        check_problem(problem)
        check_binary(problem, "GreedyMiser")
        columns = BinnedColumns.of(problem.train.encoded)
        candidates = (model for weight in self.weights for model in self._boost(problem, columns, weight))
        return choose_by_validation(problem, candidates)

    def _boost(self, problem: Problem, columns: BinnedColumns, weight: float) -> Iterator[SingleModel]:
        """Yield the model of each number of trees."""
        grower = CostTreeGrower(columns, problem.encoder.column_owners, FeaturePrices(problem), weight, self.depth)
        truth = problem.train.target.astype(np.float64)
        base = float(np.log(truth.mean() / (1.0 - truth.mean())))
        score, bought = np.full(len(truth), base), np.zeros(len(problem.names), dtype=np.bool_)
        trees: list[Tree] = []
        for number in range(1, max(self.trees) + 1):
            grown = grower.grow(truth - 1.0 / (1.0 + np.exp(-score)), bought)
            score, bought = score + self.learning_rate * grown.fitted, grown.bought
            trees.append(_scale_tree(grown.tree, self.learning_rate))
            # Without a split, a tree adds the mean residual, which is next to 0: the next one would have the same to split.
            is_last = not len(grown.tree.feature)
            if number in self.trees or is_last:
                classifier = TreeClassifier(TreeEnsemble.join(trees, [base]))
                used = bought[problem.encoder.column_owners]
                yield SingleModel.of(problem, classifier.probabilities, used, rejects=self.rejects)
            if is_last:
                return


class FeaturePrices:
    """From the features bought so far to the price of each, by the meter, as a share of the price of all."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: dict[bytes, Floats] = {}

    def __call__(self, bought: Mask) -> Floats:
        """Return the price of each feature."""
        key = bought.tobytes()
        if key not in self._known:
            meter, names = self._problem.meter, self._problem.names
            before = [name for name, taken in zip(names, bought.tolist(), strict=True) if taken]
            prices = np.array([meter.increment(before, [name]) for name in names])
            self._known[key] = prices / self._problem.full_cost
        return self._known[key]


def _scale_tree(tree: Tree, factor: float) -> Tree:
    return replace(tree, value=factor * tree.value)
