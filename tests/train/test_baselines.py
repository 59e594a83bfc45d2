"""The methods to compare with: each against an independent check, and all bills against the meter."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import Lasso, LogisticRegression

from emsco_train import CostGroup, CostModel, DesignError, Problem, Shares, baselines
from emsco_train.baselines import (
    BaselineClassifier,
    Bill,
    BoostedTrees,
    CostEffectiveTrees,
    CostOrdered,
    CostSensitiveTree,
    GreedyMiser,
    GreedyOrder,
    StaticSelection,
    TunedLasso,
    TwoStage,
)
from emsco_train.baselines.boosted import fit_trees
from emsco_train.baselines.classifier_tree import ClassifierTree, Payments, TreeObjective
from emsco_train.baselines.cost_ordered import order_by_cost
from emsco_train.baselines.cost_sensitive_tree import FittedTree, fit_tree, list_payments
from emsco_train.baselines.cost_tree import BinnedColumns, CostTreeGrower
from emsco_train.baselines.fitted import SingleModel
from emsco_train.baselines.greedy_miser import FeaturePrices
from emsco_train.baselines.greedy_order import order_by_gain, select_within
from emsco_train.baselines.tuned_lasso import fit_lasso
from emsco_train.models.evaluation import REJECTED

NAMES = ("a", "b", "c", "d")
COSTS = CostModel.from_mapping({"a": 1, "b": 2, "c": 1, "d": 6}, groups=[CostGroup("lab", 10, ("c", "d"))])
SHARES = Shares(train=0.5, validation=0.25, test=0.25, certify=0.0)
METHODS = (
    CostOrdered(),
    TunedLasso(penalties=(0.0, 1.0, 10.0)),
    GreedyMiser(weights=(0.0, 1e-2), trees=(5, 10)),
    CostSensitiveTree(depths=(2,), cost_weights=(0.0, 0.3), iterations=20),
    BoostedTrees("lightgbm"),
    BoostedTrees("sklearn"),
    CostEffectiveTrees(trade_offs=(0.0, 100.0)),
    TwoStage(shares=(0.2, 0.5)),
    GreedyOrder(),
    StaticSelection(budget=4.0),
)


def make_rows(rows: int = 240, seed: int = 0) -> tuple[Any, Any]:
    """Return columns with less and less to say about a label."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 4))
    y = np.where(matrix @ [1.5, 1.0, 0.8, 0.0] + rng.normal(size=rows) > 0, "spam", "ham")
    return dict(zip(NAMES, matrix.T, strict=True)), y


def make_problem(threshold: float = 0.75, costs: Any = COSTS, rows: int = 240, **options: Any) -> Problem:
    """Return a problem of these rows."""
    columns, y = make_rows(rows)
    return Problem.of(columns, y, costs=costs, threshold=threshold, shares=SHARES, **options)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{type(method).__name__}")
def test_one_face_for_all_methods(method: Any) -> None:
    """Fitted on a table with groups of costs, each method answers with labels or None; costs are what some features cost."""
    columns, y = make_rows()
    model = clone(BaselineClassifier(method, threshold=0.75)).fit(columns, y, costs=COSTS)
    bill = model.decide({name: column[:50] for name, column in columns.items()})
    assert set(bill.answers) <= {"ham", "spam", None}
    assert [answer is not None for answer in bill.answers] == bill.accepted.tolist()
    sets = [[name for name, taken in zip(NAMES, f"{number:04b}", strict=True) if taken == "1"] for number in range(16)]
    assert set(bill.cost.tolist()) <= {COSTS.meter().cost(names) for names in sets}
    again = pickle.loads(pickle.dumps(model)).decide({name: column[:50] for name, column in columns.items()})
    assert again.answers == bill.answers
    counts = bill.count(np.array([("ham", "spam").index(label) for label in y[:50]]))
    assert counts.right == sum(answer == truth for answer, truth in zip(bill.answers, y[:50].tolist(), strict=True))
    assert counts.accuracy > 0.6 or counts.accepted == 0


def test_groups_of_rows_stay_together() -> None:
    """Rows of a group are all train rows or all validation rows."""
    columns, y = make_rows()
    groups = np.arange(len(y)) // 8
    problem = BaselineClassifier(CostOrdered(), threshold=0.75).fit(columns, y, groups=groups).problem_
    assert not set(groups[problem.train.rows]) & set(groups[problem.validation.rows])


def test_what_baselines_refuse() -> None:
    """Cross-fitted problems, weights, more than two labels where a method knows two, and budgets that buy nothing."""
    with pytest.raises(DesignError, match="make it with `folds=0`"):
        CostOrdered().fit(make_problem(folds=3))
    with pytest.raises(DesignError, match="rows have weights"):
        TunedLasso().fit(make_problem(class_weight="balanced"))
    columns, y = make_rows()
    three = Problem.of(columns, np.where(np.abs(columns["d"]) < 0.5, "maybe", y), costs=COSTS, threshold=0.75, shares=SHARES)
    with pytest.raises(DesignError, match="GreedyMiser is for two labels, got 3: ham, maybe, spam"):
        GreedyMiser().fit(three)
    with pytest.raises(DesignError, match=r"budget of 0.5 buys no step .* the cheapest feature costs 1"):
        StaticSelection(budget=0.5).fit(make_problem())
    with pytest.raises(DesignError, match="budget is 0: expected a finite number above 0"):
        StaticSelection(budget=0)
    with pytest.raises(DesignError, match="library is 'catboost': expected 'lightgbm' or 'sklearn'"):
        BoostedTrees("catboost")  # type: ignore[arg-type]
    with pytest.raises(DesignError, match="LogisticRegression: expected boosted trees"):
        fit_trees(make_problem(), LogisticRegression())


def test_without_lightgbm_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its methods say which extra they need; the others do not need it."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match=r"pip install 'emsco\[boosted\]'$"):
        CostEffectiveTrees().fit(make_problem())


def test_public_names_load() -> None:
    """Every name of the room exists and is documented; misspelt ones are named."""
    assert baselines.__all__ == sorted(baselines.__all__)
    assert all(getattr(baselines, name).__doc__ for name in baselines.__all__)
    with pytest.raises(AttributeError, match=r"no attribute 'GreedyMizer'; it has: .*GreedyMiser"):
        baselines.GreedyMizer  # noqa: B018


def test_stages_that_are_not_logistic() -> None:
    """The greedy order is found by logistic regressions, whatever the stages of the cascade are."""
    problem = make_problem(stages="boosted")
    steps = order_by_gain(problem)
    assert steps == order_by_gain(make_problem())
    assert set(StaticSelection(budget=3.0).fit(problem).decide(problem.test.codes, problem.thresholds).cost.tolist()) == {3.0}


def test_lasso_of_three_labels() -> None:
    """The L1 penalty drops features for all labels at once, whatever their number."""
    columns, y = make_rows()
    three = Problem.of(columns, np.where(np.abs(columns["d"]) < 0.5, "maybe", y), costs=COSTS, threshold=0.5, shares=SHARES)
    bill = fit_lasso(three, 10.0).decide(three.test.codes, three.thresholds)
    assert set(bill.answers) <= {"ham", "maybe", "spam", None}


def test_cost_ordered_is_a_walk_through_plain_logistic_regressions() -> None:
    """CO-T answers and bills as scikit-learn's logistic regressions do that are asked one after the other, row by row."""
    problem = make_problem()
    stages = order_by_cost(problem, 10)
    assert stages == [["a"], ["b"], ["c"], ["d"]]  # c costs 11 alone, with its group
    assert order_by_cost(problem, 2) == [["a", "b"], ["c", "d"]]
    bill = CostOrdered().fit(problem).decide(problem.test.codes, problem.thresholds)
    by_hand = _walk(problem, stages)
    assert bill.position.tolist() == by_hand.position.tolist()
    assert bill.cost.tolist() == by_hand.cost.tolist()


def _walk(problem: Problem, stages: Sequence[Sequence[str]]) -> Bill:
    """Decide the test rows by scikit-learn's logistic regressions, one row at a time."""
    assert problem.test is not None
    rows, position, cost = problem.test.encoded, [], []
    known = [name for stage in stages for name in stage]
    ends = np.cumsum([len(stage) for stage in stages])
    models = []
    for end in ends:
        columns = sorted(problem.encoder.columns(known[:end]).tolist())
        model = LogisticRegression(tol=1e-10, max_iter=1000).fit(problem.train.encoded[:, columns], problem.train.target)
        models.append((columns, model, problem.meter.cost(known[:end])))
    for row in rows:
        answer, paid = REJECTED, 0.0
        for columns, model, price in models:
            paid = price
            probabilities = model.predict_proba(row[None, columns])[0]
            if probabilities.max() >= problem.thresholds[0]:
                answer = int(probabilities.argmax())
                break
        position.append(answer)
        cost.append(paid)
    return Bill(np.array(position), np.array(cost), problem.labels)


@pytest.mark.filterwarnings("ignore:Setting penalty=None:UserWarning")
def test_lasso_is_scikit_learns_path_and_drops_features() -> None:
    """A large penalty drops the useless feature and then all, no penalty keeps all; the choice has the best score of all."""
    problem = make_problem()
    free, strong, none = (fit_lasso(problem, penalty) for penalty in (0.0, 20.0, 1e6))
    assert free.used == NAMES
    assert free.cost == problem.full_cost == 20
    assert set(strong.used) < set(NAMES)
    assert (none.used, none.cost) == ((), 0)
    reference = LogisticRegression(C=np.inf, tol=1e-8, max_iter=5000).fit(problem.train.encoded, problem.train.target)
    rows = problem.test.encoded  # type: ignore[union-attr]
    np.testing.assert_allclose(free.predict(rows), reference.predict_proba(rows), atol=1e-3)
    # The optimality conditions of the L1 penalty: the gradient is the penalty where a weight is, and at most that elsewhere.
    train = problem.train.encoded
    residual = problem.train.target - strong.predict(train)[:, 1]
    slopes = np.abs(train.T @ residual)
    is_used = np.array([name in strong.used for name in NAMES])
    np.testing.assert_allclose(slopes[is_used], 20.0, rtol=0.02)
    assert (slopes[~is_used] <= 20.0 * 1.02).all()
    chosen = TunedLasso(penalties=(0.0, 20.0, 1e6)).fit(problem)
    scores = {}
    for each in (free, strong, none):
        counts = each.decide(problem.validation.codes, problem.thresholds).count(problem.validation.target)
        scores[each.used] = counts.coverage**2 + counts.accuracy**2 + (1 - counts.cost / 20) ** 2
    assert scores[chosen.used] == max(scores.values())


def _grow(columns: Any, residual: Any, prices: Any, weight: float, depth: int) -> Any:
    values = np.array(columns, dtype=float)

    def price(bought: Any) -> Any:
        return np.where(bought, 0.0, prices)

    grower = CostTreeGrower(BinnedColumns.of(values), np.arange(values.shape[1]), price, weight, depth, min_rows=1)
    return grower.grow(np.array(residual, dtype=float), np.zeros(values.shape[1], dtype=np.bool_))


def test_splits_by_hand() -> None:
    """Four rows, two columns: the better column while it is cheap, the cheaper one when it is not, then none."""
    columns, residual = [[0, 0], [0, 0], [1, 0], [1, 1]], [-1, -1, 1, 1]
    # The first column removes all of the error, 1/2 * 4 / 4 = 0.5 per row. The second one: right leaf 1, left leaf -1/3:
    # 1/2 * (1 + 3 / 9 - 0) / 4 = 1/6.
    prices = np.array([0.9, 0.1])
    free = _grow(columns, residual, prices, 0.0, 1)
    assert (free.tree.feature.tolist(), free.tree.threshold.tolist(), sorted(free.tree.value)) == ([0], [0.5], [-1, 1])
    # 0.5 - 0.9 w against 1/6 - 0.1 w: they are equal at w = 5/12.
    assert _grow(columns, residual, prices, 0.41, 1).tree.feature.tolist() == [0]
    assert _grow(columns, residual, prices, 0.42, 1).tree.feature.tolist() == [1]
    # 1/6 - 0.1 w is 0 at w = 5/3.
    assert _grow(columns, residual, prices, 1.66, 1).tree.feature.tolist() == [1]
    nothing = _grow(columns, residual, prices, 1.67, 1)
    assert (len(nothing.tree.feature), nothing.bought.any()) == (0, False)


def test_a_bought_column_is_free_for_further_splits() -> None:
    """The second split of a tree takes the column that the first one bought, though another one would gain more."""
    # The root splits on column 0, which gains 8.5. On the right side, a second cut of it gains (10.125 + 21.125 - 30.25) / 12 =
    # 0.083, and column 1 gains (4.5 + 32 - 30.25) / 12 = 0.521: more, unless its price, 0.1 w, takes 0.4375 of it.
    columns = [[0, 0], [0, 0], [1, 0], [1, 1], [2, 0], [2, 1]]
    residual = [-6, -6, 1, 3.5, 2, 4.5]
    prices = np.array([0.1, 0.1])
    thrifty = _grow(columns, residual, prices, 4.4, 3)
    assert thrifty.tree.feature.tolist() == [0, 0]
    assert thrifty.bought.tolist() == [True, False]
    assert _grow(columns, residual, prices, 4.3, 2).tree.feature.tolist() == [0, 1]


def test_one_split_is_that_of_lightgbms_coupled_penalty() -> None:
    """A tree of one split takes the column that CEGB takes, where its penalty is 2 * rows * weight * price."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(3)
    columns = (rng.random((200, 5)) < 0.5).astype(float)
    truth = columns @ [3.0, 2.5, 2.0, 1.0, 0.5] + rng.normal(size=200)
    prices = np.array([0.5, 0.3, 0.1, 0.05, 0.05])
    taken = []
    for weight in (0.0, 1.0, 3.0, 10.0):
        own = _grow(columns, truth - truth.mean(), prices, weight, 1).tree.feature.tolist()
        options = {
            "num_leaves": 2,
            "min_data_in_leaf": 1,
            "min_data_in_bin": 1,
            "lambda_l2": 0.0,
            "verbose": -1,
            "num_threads": 1,
        }
        penalties = {"cegb_tradeoff": 1.0, "cegb_penalty_feature_coupled": (2 * 200 * weight * prices).tolist()} if weight else {}
        data = lightgbm.Dataset(columns, truth, params={"verbose": -1})
        model = lightgbm.train({"objective": "regression", **options, **penalties}, data, num_boost_round=1)
        counts = model.feature_importance("split")
        assert own == np.flatnonzero(counts).tolist()
        taken.append(own)
    assert taken[0] == [0]
    assert len({*map(tuple, taken)}) > 1


def test_greedy_miser_pays_for_what_its_trees_use() -> None:
    """Free features are all used, expensive ones are not; the bill is the meter's, groups included, and the same for all rows."""
    problem = make_problem()
    free = GreedyMiser(weights=(0.0,), trees=(10,)).fit(problem)
    assert free.used == NAMES
    thrifty = GreedyMiser(weights=(0.05,), trees=(10,)).fit(problem)
    assert set(thrifty.used) < set(NAMES)
    bill = thrifty.decide(problem.validation.codes, problem.thresholds)
    assert bill.accepted.all()
    assert set(bill.cost.tolist()) == {problem.meter.cost(thrifty.used)}
    assert GreedyMiser(weights=(1e3,), trees=(10,)).fit(problem).used == ()
    prices = FeaturePrices(problem)
    assert prices(np.array([False, False, True, False])).tolist() == [1 / 20, 2 / 20, 0, 6 / 20]
    rejecting = GreedyMiser(weights=(0.0,), trees=(10,), rejects=True).fit(problem)
    assert not rejecting.decide(problem.validation.codes, (0.9, 0.9)).accepted.all()


def test_gradient_of_the_tree_objective() -> None:
    """The gradient is that of finite differences, for all numbers of a tree of three levels with a group."""
    rng = np.random.default_rng(1)
    rows, truth = rng.normal(size=(40, 3)), np.where(rng.random(40) < 0.5, -1.0, 1.0)
    payments = Payments(np.array([0.2, 0.3, 0.1, 0.4]), np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=bool))
    objective = TreeObjective(rows, truth, payments, cost_weight=0.7, sparsity=0.05, epsilon=0.1)
    tree = ClassifierTree(rng.normal(size=(7, 3)), rng.normal(size=7), rng.normal(size=3))
    numbers, step = tree.flatten(), 1e-6
    _, gradient = objective(tree)
    moves = np.eye(len(numbers)) * step
    slopes = [
        (objective(tree.filled(numbers + move))[0] - objective(tree.filled(numbers - move))[0]) / (2 * step) for move in moves
    ]
    np.testing.assert_allclose(gradient.flatten(), slopes, atol=1e-6)


def test_a_tree_of_one_node_is_the_lasso() -> None:
    """Depth one with a cost weight is the L1-penalised regression of scikit-learn, each column penalised by its price."""
    problem = make_problem(costs={"a": 1, "b": 2, "c": 1, "d": 6})
    rows, truth = problem.train.encoded, np.where(problem.train.target == 1, 1.0, -1.0)
    weight, prices = 0.4, np.array([1, 2, 1, 6]) / 10
    fitted = fit_tree(problem, 1, weight, 0.0, 300)
    # Lasso halves the squared error, and penalises all columns alike: so columns are divided by their prices.
    reference = Lasso(alpha=weight / 2, tol=1e-10).fit(rows / prices, truth)
    assert fitted.used[0].tolist() == (reference.coef_ != 0).tolist()
    before = TreeObjective(rows, truth, list_payments(problem), weight, 0.0, 1e-9)
    own = before(ClassifierTree(fitted.tree.weights, fitted.tree.intercepts, np.zeros(0)))[0]
    best = before(ClassifierTree((reference.coef_ / prices)[None], np.array([reference.intercept_]), np.zeros(0)))[0]
    assert best <= own
    # The last step trains the weights that are left without the costs: least squares on these columns.
    kept = rows[:, fitted.used[0]]
    solution = np.linalg.lstsq(np.column_stack([kept, np.ones(len(kept))]), truth, rcond=None)[0]
    np.testing.assert_allclose(fitted.tree.weights[0, fitted.used[0]], solution[:-1], atol=1e-4)


def test_limits_of_the_tree() -> None:
    """Without a cost weight it errs no more than a linear classifier; with an infinite one it buys nothing, and answers alike."""
    problem = make_problem()
    rows, truth = problem.train.encoded, np.where(problem.train.target == 1, 1.0, -1.0)

    def loss(fitted: FittedTree) -> float:
        scores = fitted.tree.scores(rows)
        leaf = fitted.tree.find_leaves(scores)
        return float(((scores[np.arange(len(rows)), leaf] - truth) ** 2).mean())

    linear, deep = (fit_tree(problem, depth, 0.0, 0.0, 200) for depth in (1, 3))
    assert linear.used.all()
    assert loss(deep) <= loss(linear) + 1e-6
    bill = linear.decide(problem.validation.codes, problem.thresholds)
    assert set(bill.cost.tolist()) == {problem.full_cost}
    nothing = fit_tree(problem, 3, float("inf"), 0.0, 200).decide(problem.validation.codes, problem.thresholds)
    assert set(nothing.cost.tolist()) == {0.0}
    assert set(nothing.position.tolist()) == {int(truth.mean() > 0)}


def test_rows_of_a_tree_pay_for_their_own_way() -> None:
    """A row pays for the nodes on its way alone, each feature and group once."""
    problem = make_problem()
    weights = np.zeros((3, 4))
    weights[0, 0], weights[1, 2], weights[2, 1] = 1.0, 1.0, 1.0
    fitted = FittedTree(problem, ClassifierTree(weights, np.zeros(3), np.zeros(1)), weights != 0)
    bill = fitted.decide(problem.validation.codes, problem.thresholds)
    is_upper = problem.validation.encoded[:, 0] > 0
    assert bill.cost.tolist() == np.where(is_upper, problem.meter.cost(["a", "c"]), problem.meter.cost(["a", "b"])).tolist()


def test_boosted_trees_pay_for_the_columns_they_split_on() -> None:
    """Probabilities are the library's own; a constant column is in no tree, and is not paid for."""
    columns, y = make_rows()
    problem = Problem.of(columns | {"d": np.zeros(len(y))}, y, costs=COSTS, threshold=0.75, shares=SHARES)
    fitted = BoostedTrees("sklearn").fit(problem)
    assert isinstance(fitted, SingleModel)
    assert (fitted.used, fitted.cost) == (("a", "b", "c"), 14)
    reference = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    reference.fit(problem.train.encoded, problem.train.target)
    rows = problem.validation.encoded
    np.testing.assert_allclose(fitted.predict(rows), reference.predict_proba(rows))
    accepted = fitted.decide(problem.validation.codes, (0.9, 0.9)).accepted
    assert accepted.tolist() == (reference.predict_proba(rows).max(axis=1) >= 0.9).tolist()


def test_cost_effective_trees_buy_less_as_prices_count_more() -> None:
    """Without a trade-off the model is plain LightGBM's; the bill never grows with it, and ends at nothing."""
    problem = make_problem()
    models = list(CostEffectiveTrees(trade_offs=(0.0, 30.0, 1e6)).fit_each(problem))
    plain = BoostedTrees("lightgbm").fit(problem)
    rows = problem.validation.encoded
    np.testing.assert_array_equal(models[0].predict(rows), plain.predict(rows))
    costs = [model.cost for model in models]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == 0


def test_two_stages_keep_the_accuracy_of_the_full_model() -> None:
    """On validation rows, all answers of the cascade are as accurate as the full model's within the tolerance, for less."""
    problem = make_problem(rows=600)
    fitted = TwoStage(tolerance=0.02).fit(problem)
    assert len(fitted.stages) == 2
    codes, target = problem.validation.codes, problem.validation.target
    every = fitted.decide(codes, (0.0, 0.0)).count(target)
    full = fitted.stages[1].probabilities(codes[:, fitted.stages[1].positions]).argmax(axis=1)
    assert every.accuracy >= (full == target).mean() - 0.02
    assert every.cost < problem.full_cost
    # Nothing cheaper is as accurate as asked for: the full model alone.
    alone = TwoStage(tolerance=-1.0).fit(problem)
    assert len(alone.stages) == 1
    assert set(alone.decide(codes, (0.5, 0.5)).cost.tolist()) == {problem.full_cost}


def test_greedy_order_and_budgets() -> None:
    """The feature that tells most for its price comes first; a budget takes what fits, and skips what does not."""
    problem = make_problem()
    steps = order_by_gain(problem)
    assert steps[0] == ("a",)
    assert sorted(name for step in steps for name in step) == list(NAMES)
    assert select_within(problem, 3.0) == ["a", "b"]
    assert set(select_within(problem, 20.0)) == set(NAMES)
    bill = StaticSelection(budget=3.0).fit(problem).decide(problem.validation.codes, problem.thresholds)
    assert set(bill.cost.tolist()) == {3.0}
    anytime = GreedyOrder().fit(problem)
    lengths = [len(steps[:length]) for length in (1, 2, len(steps))]
    assert len(anytime.model.stages) in lengths
