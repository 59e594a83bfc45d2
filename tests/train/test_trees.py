"""Trees as a record: numpy, a plain walk and the ONNX node agree; readers give what the libraries predict, or refuse."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.support.arrays import Floats
from emsco_train.data.encoder import Block, BlockEncoder
from emsco_train.errors import ConversionError
from emsco_train.models.conversion import convert_stage, stage_scorer
from emsco_train.models.graph import tree_graph
from emsco_train.models.stage_model import ClassifierModel
from emsco_train.models.trees.float_boundary import largest_at_most
from emsco_train.models.trees.onnx_node import tree_node
from emsco_train.models.trees.reading import read_trees
from emsco_train.models.trees.tree_classifier import TreeClassifier
from emsco_train.models.trees.tree_ensemble import Tree, TreeEnsemble
from emsco_train.support.openmp import one_openmp_thread

WIDTH = 3


def random_tree(rng: np.random.Generator, target: int, leaves: int) -> Tree:
    """Grow a tree by splitting random leaves; thresholds are from a few values, so that rows meet them."""
    children: list[list[int]] = []
    open_leaves: list[tuple[int, int]] = []
    for node in range(leaves - 1):
        if children:
            parent, side = open_leaves.pop(int(rng.integers(len(open_leaves))))
            children[parent][side] = node
        children.append([-1, -1])
        open_leaves += [(node, 0), (node, 1)]
    for leaf, (parent, side) in enumerate(open_leaves):
        children[parent][side] = ~leaf
    nodes = len(children)
    sides = np.array(children, dtype=np.intp).reshape(nodes, 2)
    thresholds = rng.choice([-1.0, 0.0, 0.1, 0.3, np.inf], nodes)
    gaps = rng.random(nodes) < 0.5
    return Tree(target, rng.integers(0, WIDTH, nodes), thresholds, gaps, sides[:, 0], sides[:, 1], rng.normal(size=leaves))


def walk(tree: Tree, row: Floats) -> float:
    """Follow one row through one tree, one node after the other."""
    if not len(tree.feature):
        return float(tree.value[0])
    place = 0
    while place >= 0:
        value = row[tree.feature[place]]
        goes_left = tree.gap_left[place] if np.isnan(value) else value <= tree.threshold[place]
        place = int((tree.left if goes_left else tree.right)[place])
    return float(tree.value[~place])


def plain_encoder(width: int = WIDTH) -> BlockEncoder:
    """Return an encoder that changes nothing and lets gaps through."""
    return BlockEncoder(tuple(Block(f"x{index}", 0, impute=False, fill=0.0, mean=0.0, scale=1.0) for index in range(width)))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), targets=st.sampled_from([1, 3, 4]), trees=st.integers(0, 8), leaves=st.integers(1, 9))
def test_numpy_the_walk_and_the_graph_agree(seed: int, targets: int, trees: int, leaves: int) -> None:
    """Random trees, single leaves and no trees among them: scores are those of a walk; the graph gives the probabilities."""
    rng = np.random.default_rng(seed)
    grown = [random_tree(rng, int(rng.integers(targets)), leaves) for _ in range(trees)]
    base = rng.normal(size=targets).tolist()
    rows = rng.choice([-1.0, 0.0, 0.1, np.nextafter(0.1, 1), np.nextafter(0.1, -1), 0.3, 5.0, np.nan], (40, WIDTH))
    model = TreeClassifier(TreeEnsemble.join(grown, base))
    expected = np.tile(base, (len(rows), 1))
    for index, row in enumerate(rows):
        for tree in grown:
            expected[index, tree.target] += walk(tree, row)
    np.testing.assert_allclose(model.ensemble.scores(rows), expected, rtol=0, atol=1e-13)
    scorer = stage_scorer(tree_graph(plain_encoder(), model), WIDTH, model.labels)
    probabilities = model.probabilities(rows)
    np.testing.assert_allclose(scorer.score_rows(0, rows), probabilities, rtol=0, atol=1e-14)
    np.testing.assert_allclose([scorer.score(0, row) for row in rows.tolist()], probabilities, rtol=0, atol=1e-14)


def test_no_root_has_a_leaf_and_a_node_of_one_number() -> None:
    """Older onnxruntimes take such a root for a leaf: leaves are numbered so that there is none."""
    values, gaps = np.array([1.0, 2.0, 3.0]), np.zeros(2, dtype=np.bool_)
    one = Tree(0, np.array([0, 1]), np.zeros(2), gaps, np.array([~0, ~1]), np.array([1, ~2]), values)
    node = tree_node(TreeEnsemble.join([one] * 4, [0.0]), "in", "out")
    attributes = {attribute.name: list(attribute.ints) for attribute in node.attribute}
    for root in attributes["tree_roots"]:
        assert attributes["nodes_truenodeids"][root] != attributes["nodes_falsenodeids"][root]
    rows = np.array([[-1.0, 0.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0]])
    model = TreeClassifier(TreeEnsemble.join([one] * 4, [-8.0]))
    scores = stage_scorer(tree_graph(plain_encoder(), model), WIDTH, 2).score_rows(0, rows)
    np.testing.assert_allclose(np.log(scores[:, 1] / scores[:, 0]), [-4.0, 0.0, 4.0], atol=1e-12)


def test_rows_in_blocks() -> None:
    """More rows than are followed at a time have the scores that each has alone."""
    rng = np.random.default_rng(0)
    ensemble = TreeEnsemble.join([random_tree(rng, 0, 5) for _ in range(300)], [0.0])
    rows = rng.normal(size=(1000, WIDTH))
    alone = np.vstack([ensemble.scores(row[None]) for row in rows[::50]])
    assert (ensemble.scores(rows)[::50] == alone).all()


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=5), st.floats(-100, 100), st.floats(1e-3, 1e3))
def test_the_largest_number_up_to_a_limit(limits: list[float], mean: float, scale: float) -> None:
    """Of a rounding to float32 and of standardising: the number found is within the limit, the next one is not."""
    wanted = np.array(limits)
    for function in (lambda x: x.astype(np.float32).astype(np.float64), lambda x: (x - mean) / scale):
        with np.errstate(over="ignore"):
            found = largest_at_most(function, wanted)
            assert (function(found) <= wanted).all()
            assert (function(np.nextafter(found, np.inf)) > wanted).all()


def test_the_largest_number_of_infinite_limits() -> None:
    """Everything is up to infinity, and nothing but minus infinity up to that."""
    assert largest_at_most(np.floor, np.array([np.inf, -np.inf])).tolist() == [np.inf, -np.inf]


def make_table(labels: int, *, gaps: float, seed: int = 0) -> tuple[Floats, Any]:
    """Return rows with many equal values, zeros and numbers that LightGBM takes for 0, and their labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, WIDTH)).round(1)
    x[rng.random(x.shape) < 0.2] = 0.0
    x[rng.random(x.shape) < 0.05] = 1e-36
    y = (x @ rng.normal(size=(WIDTH, labels)) + rng.normal(size=(300, labels)) / 2).argmax(axis=1)
    x[rng.random(x.shape) < gaps] = np.nan
    return x, y


def rows_on_splits(ensemble: TreeEnsemble, x: Floats) -> Floats:
    """Return rows with one value on each split, and one ulp on each side of it, and rows with gaps."""
    rng = np.random.default_rng(1)
    nodes = np.arange(len(ensemble.feature))
    finite = np.clip(ensemble.threshold, -1e300, 1e300)
    parts = [x]
    for value in (finite, np.nextafter(finite, np.inf), np.nextafter(finite, -np.inf)):
        rows = x[rng.integers(0, len(x), len(nodes))].copy()
        rows[nodes, ensemble.feature] = value
        parts.append(rows)
    holes = x.copy()
    holes[rng.random(x.shape) < 0.3] = np.nan
    return np.vstack([*parts, holes])


def make_lightgbm(**options: Any) -> Any:
    """Return a small LGBMClassifier."""
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1, **options)


def make_xgboost(**options: Any) -> Any:
    """Return a small XGBClassifier."""
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=15, n_jobs=1, **options)


def make_sklearn(**options: Any) -> Any:
    """Return a small HistGradientBoostingClassifier."""
    return HistGradientBoostingClassifier(max_iter=15, random_state=0, **options)


def fit_quietly(classifier: Any, x: Floats, y: Any, **options: Any) -> Any:
    """Fit; what a library warns about is not what is tested."""
    with warnings.catch_warnings(), one_openmp_thread():
        warnings.simplefilter("ignore")
        return classifier.fit(x, y, **options)


EXACT = [
    (make_sklearn, {}),
    (make_sklearn, {"early_stopping": True, "max_leaf_nodes": 5, "l2_regularization": 1.0}),
    (make_lightgbm, {}),
    (make_lightgbm, {"boosting_type": "dart", "num_leaves": 7}),
    (make_lightgbm, {"min_child_samples": 1000}),
    (make_lightgbm, {"sigmoid": 0.7}),
    (make_xgboost, {}),
    (make_xgboost, {"tree_method": "exact", "gamma": 1.0, "num_parallel_tree": 2}),
    (make_xgboost, {"base_score": 0.3}),
]


@pytest.mark.parametrize("gaps", [0.0, 0.1])
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize(("make", "options"), EXACT)
def test_read_trees_give_what_the_library_predicts(make: Any, options: Any, labels: int, gaps: float) -> None:
    """On every split and one ulp beside it, with gaps: within 1e-12; XGBoost, which adds up in float32, within that."""
    x, y = make_table(labels, gaps=gaps)
    if "base_score" in options and labels == 3:
        pytest.skip("one number for all labels changes nothing")
    estimator = fit_quietly(make(**options), x, y)
    model = read_trees(estimator)
    assert model is not None
    rows = rows_on_splits(model.ensemble, x)
    difference = np.abs(model.probabilities(rows) - estimator.predict_proba(rows)).max()
    assert difference <= (1e-6 if model.is_rounded else 1e-12)
    scorer = stage_scorer(tree_graph(plain_encoder(), model), WIDTH, labels)
    assert np.abs(scorer.score_rows(0, rows) - model.probabilities(rows)).max() <= 1e-12


def test_xgboost_after_early_stopping() -> None:
    """It predicts with the best iterations alone, and so does the graph."""
    x, y = make_table(2, gaps=0.0)
    estimator = make_xgboost(early_stopping_rounds=2, learning_rate=1.0)
    estimator.fit(x[::2], y[::2], eval_set=[(x[1::2], y[1::2])], verbose=False)
    model = read_trees(estimator)
    assert model is not None
    assert len(model.ensemble.roots) == estimator.best_iteration + 1 < 15
    assert np.abs(model.probabilities(x) - estimator.predict_proba(x)).max() < 1e-6


def by_category(make: Any, **options: Any) -> Any:
    """Return a classifier fitted on a frame with a column of categories."""
    pandas = importlib.import_module("pandas")
    x, y = make_table(2, gaps=0.0)
    frame = pandas.DataFrame({"a": x[:, 0], "kind": pandas.Categorical((y + (x[:, 1] > 0)).astype(str))})
    return fit_quietly(make(**options), frame, y)


@pytest.mark.parametrize(
    ("fitted", "reason"),
    [
        (lambda: by_category(make_sklearn, categorical_features="from_dtype"), "it splits by category.*categorical_features"),
        (lambda: by_category(make_lightgbm, min_data_per_group=1, cat_smooth=1), "it splits by category.*categorical_feature$"),
        (lambda: by_category(make_xgboost, enable_categorical=True), "it splits by category.*enable_categorical"),
        (lambda: fit_quietly(make_lightgbm(zero_as_missing=True), *make_table(2, gaps=0.0)), "zeros for missing values"),
        (lambda: fit_quietly(make_lightgbm(linear_tree=True), *make_table(2, gaps=0.0)), "linear models"),
        (lambda: fit_quietly(make_lightgbm(objective="cross_entropy"), *make_table(2, gaps=0.0)), "objective is 'cross_entropy'"),
        (
            lambda: fit_quietly(make_lightgbm(boosting_type="rf", subsample=0.5, subsample_freq=1), *make_table(2, gaps=0.0)),
            "averages its trees",
        ),
        (lambda: fit_quietly(make_xgboost(missing=0.0), *make_table(2, gaps=0.0)), "takes 0.0 for missing values"),
        (lambda: fit_quietly(make_xgboost(booster="dart"), *make_table(2, gaps=0.0)), "booster is 'dart'"),
        (lambda: fit_quietly(make_xgboost(objective="binary:hinge"), *make_table(2, gaps=0.0)), "objective is 'binary:hinge'"),
        (
            lambda: fit_quietly(make_xgboost(multi_strategy="multi_output_tree", tree_method="hist"), *make_table(3, gaps=0.0)),
            "leaves are vectors",
        ),
    ],
)
def test_what_cannot_be_had_exactly_is_refused(fitted: Any, reason: str) -> None:
    """The error names the classifier, the reason and the option to leave out."""
    estimator = fitted()
    with pytest.raises(
        ConversionError, match=f"^{type(estimator).__name__} cannot be converted to ONNX with equal probabilities: .*{reason}"
    ):
        read_trees(estimator)


def test_other_classifiers_have_no_reader() -> None:
    """A forest is left to the converter; a subclass of a known classifier is read like it."""

    class Own(HistGradientBoostingClassifier):
        """A user's own."""

    x, y = make_table(2, gaps=0.0)
    assert read_trees(RandomForestClassifier(2).fit(x, y)) is None
    assert read_trees(fit_quietly(Own(max_iter=2), x, y)) is not None


@pytest.mark.parametrize("rounded", [False, True])
def test_trees_that_differ_are_refused(rounded: bool) -> None:
    """Trees that do not give what `predict_proba` gives on the training rows never become a graph."""
    x, y = make_table(2, gaps=0.0)
    estimator = fit_quietly(make_sklearn(), x, y)
    trees = read_trees(fit_quietly(make_sklearn(max_leaf_nodes=3), x, y))
    assert trees is not None
    encoder = BlockEncoder.fit([Feature(name=f"x{i}", kind="numeric", cost=1.0) for i in range(WIDTH)], x)
    model = ClassifierModel(estimator, TreeClassifier(trees.ensemble, is_rounded=rounded))
    with pytest.raises(
        ConversionError,
        match="HistGradientBoostingClassifier cannot be converted to ONNX with equal probabilities: probabilities differ",
    ):
        convert_stage(encoder, model, x)
