"""Other methods of budgeted and selective classification, to compare with: one interface, and costs computed in the same way.

A method is a frozen record of its options; `fit` takes a `Problem`, so that all methods see the same rows, and what it returns
decides rows at any thresholds. `BaselineClassifier` gives a method the interface of scikit-learn::

    from emsco_train.baselines import BaselineClassifier, CostOrdered

    model = BaselineClassifier(CostOrdered(), threshold=0.8).fit(X, y, costs={"age": 1, "scan": 90})
    bill = model.decide(X)  # bill.answers, bill.accepted, bill.cost

They are here for measurements (docs/results.md). Nothing in training or in the runtime uses them.
"""

from emsco_runtime.support.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "emsco_train.baselines.bill": "Bill",
        "emsco_train.baselines.boosted": "BoostedTrees CostEffectiveTrees",
        "emsco_train.baselines.baseline_classifier": "BaselineClassifier",
        "emsco_train.baselines.cost_ordered": "CostOrdered",
        "emsco_train.baselines.cost_sensitive_tree": "CostSensitiveTree",
        "emsco_train.baselines.greedy_miser": "GreedyMiser",
        "emsco_train.baselines.greedy_order": "GreedyOrder StaticSelection",
        "emsco_train.baselines.method": "FittedMethod Method",
        "emsco_train.baselines.tuned_lasso": "TunedLasso",
        "emsco_train.baselines.two_stage": "TwoStage",
    },
)
