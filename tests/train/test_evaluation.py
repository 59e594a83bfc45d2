"""Evaluation: the stages by hand, rows at the threshold, and the counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from emsco_runtime.bundle.rule import accept
from emsco_train import CostGroup, CostModel, DesignError, Table
from emsco_train.data.features import encode_table, infer_features
from emsco_train.data.stage_settings import StageSettings
from emsco_train.data.thresholds import StageThresholds
from emsco_train.models.cascade_model import CascadeFitter, CascadeModel, check_stages
from emsco_train.models.evaluation import REJECTED, Evaluation, evaluate
from emsco_train.models.fitted_set import SetFitter


def make_model(threshold: float) -> tuple[CascadeModel, np.ndarray, np.ndarray]:
    """Fit a three-stage cascade on part of a real table."""
    x, y = load_breast_cancer(return_X_y=True)
    table = Table.of(x[:, :6])
    stages = (("x3",), ("x1", "x0"), ("x5", "x4", "x2"))
    names = [name for stage in stages for name in stage]
    costs = CostModel.from_mapping(dict.fromkeys(table.names, 0.1), groups=[CostGroup("g", 0.7, ("x0", "x5"))])
    features = infer_features(table, names, costs)
    codes = encode_table(features, table, "training")
    sets = SetFitter.learn(features, codes, y, labels=2, weights=None, settings=StageSettings())
    fitter = CascadeFitter(features, sets, labels=("bad", "good"), meter=costs.meter())
    return fitter.fit(stages, StageThresholds.constant((threshold, threshold))), codes, y


def test_walk_by_hand() -> None:
    """Label, stage and cost of every row are those of a plain loop over the rule."""
    model, codes, _ = make_model(0.95)
    found = evaluate(model, codes)
    for row in range(len(codes)):
        label, number = REJECTED, 3
        for index in range(3):
            best, confident = accept(found.probabilities[index][row].tolist(), model.stage_thresholds[index])
            if confident:
                label, number = best, index + 1
                break
        inputs = model.stages[number - 1].inputs
        assert (found.label[row], found.stage[row], found.cost[row]) == (label, number, model.meter.cost(inputs))
    assert set(found.stage) == {1, 2, 3}
    assert not found.accepted.all()


def test_inputs_are_prefixes() -> None:
    """Each stage's inputs begin with those of the stage before: the runtime's quickest layout."""
    model, _, _ = make_model(0.95)
    assert [stage.inputs for stage in model.stages] == [("x3",), ("x3", "x1", "x0"), ("x3", "x1", "x0", "x5", "x4", "x2")]
    assert model.stage_costs() == (0.1, 1.0, 1.3)


def test_rows_at_the_threshold_follow_the_reference() -> None:
    """Put the threshold exactly on a row's single-row score: that row is accepted, whatever numpy's last bit says."""
    model, codes, _ = make_model(0.95)
    scorer = model.scorer()
    for row in range(40):
        scores = scorer.score(0, codes[row, :1].tolist())
        moved = replace(model, thresholds=StageThresholds.constant((max(scores), max(scores))))
        found = evaluate(moved, codes[row : row + 1])
        assert (found.stage[0], found.label[0]) == (1, scores.index(max(scores)))


def test_expected_counts() -> None:
    """Counts add up, an unseen true label is never right, and quantiles are costs that occurred."""
    evaluation = Evaluation(
        np.array([0, 1, REJECTED, 1]), np.array([1, 1, 2, 2]), np.array([0.1, 0.1, 0.3, 0.3]), (np.zeros((4, 2)),) * 2
    )
    expected = evaluation.expected(np.array([0, 0, 1, -1]), "test")
    assert (expected.split, expected.rows, expected.accepted, expected.right) == ("test", 4, 3, 1)
    assert [(exits.accepted, exits.right) for exits in expected.stages] == [(2, 1), (1, 0)]
    assert (expected.cost.mean, expected.cost.p50, expected.cost.p95, expected.cost.max) == (0.2, 0.1, 0.3, 0.3)


def test_mean_of_equal_costs_is_that_cost() -> None:
    """Rounding does not push the mean beyond the largest cost."""
    for rows in range(1, 60):
        same = np.full(rows, 41.59)
        evaluation = Evaluation(np.zeros(rows, int), np.ones(rows, int), same, (np.zeros((rows, 2)),))
        assert evaluation.expected(np.zeros(rows, int), "test").cost.mean == 41.59


def test_bad_stages() -> None:
    """Unknown, repeated and missing names are listed in one error."""
    with pytest.raises(DesignError, match=r"stage 1 names 'z', .*columns: a, b.*stage 2 acquires nothing.*stage 3 .*stage 1"):
        check_stages([["a", "z"], [], ["a"]], ["a", "b"])
    with pytest.raises(DesignError, match="there is no stage"):
        check_stages([], ["a"])
    for wrong in ("ab", ["a", "b"]):
        with pytest.raises(DesignError, match=r"stages are lists of feature names, such as \[\['a'\], \['b', 'c'\]\]"):
            check_stages(wrong, ["a", "b"])
