"""Curves: what is learned about one feature, how strongly it is shrunk, and that graphs and training mean the same by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.reading import read_bundle
from emsco_train import EmscoClassifier, FeatureOptions, Problem, Settings, export_design, run_search
from emsco_train.data.curve import Curve, find_cells
from emsco_train.data.curves import additive_fit
from emsco_train.data.curves.additive_fit import STRAIGHT, CurvePenalties, fit_additive
from emsco_train.data.curves.basis import FeatureBasis, choose_knots
from emsco_train.data.curves.choice_rows import ChoiceRows
from emsco_train.data.curves.learning import choose_penalties, learn_curves, principal_columns
from emsco_train.errors import DesignError
from emsco_train.export.searched_design import export_searched_design
from emsco_train.models.fitted_set import FittedSet, SetFitter

NUMBER = Feature(name="x", kind="numeric", cost=1.0, missing="impute")
CATEGORY = Feature(name="c", kind="categorical", categories=("a", "b", "c"), cost=1.0, missing="impute", unknown="ignore")


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=200), st.integers(2, 12))
def test_knots_divide_the_values(values: list[int], cells: int) -> None:
    """Knots are ascending, lie between values, and no cell is empty; few values have a cell each."""
    distinct, counts = np.unique(np.array(values, dtype=float), return_counts=True)
    knots = choose_knots(distinct, counts, cells)
    assert len(knots) < cells
    assert (np.diff(knots) > 0).all()
    found = np.searchsorted(knots, distinct, side="right")
    assert set(found) == set(range(len(knots) + 1))
    if len(distinct) <= cells:
        assert len(knots) == len(distinct) - 1


def test_neighbouring_floats_are_told_apart() -> None:
    """Between two neighbouring floats there is no middle: the knot is the upper one, which is above it."""
    low = 1.0
    high = np.nextafter(low, 2.0)
    assert choose_knots(np.array([low, high]), np.array([1, 1]), 4).tolist() == [high]
    assert choose_knots(np.array([-1e308, 1e308]), np.array([1, 1]), 4).tolist() == [0.0]


def test_a_frequent_value_has_a_cell_of_its_own() -> None:
    """Of a column that is mostly 0, the other values are divided evenly, which quantiles would not do."""
    values = np.concatenate([np.zeros(900), np.linspace(1.0, 2.0, 100)])
    knots = choose_knots(*np.unique(values, return_counts=True), 6)
    rows = np.bincount(np.searchsorted(knots, values, side="right"))
    assert rows[0] == 900
    assert rows[1:].max() - rows[1:].min() <= 1


@given(
    st.lists(st.one_of(st.floats(-5, 5), st.just(float("nan"))), min_size=1, max_size=30),
    st.lists(st.floats(-5, 5), unique=True, max_size=6),
)
def test_cells_of_numbers(codes: list[float], knots: list[float]) -> None:
    """The cell of a number counts the knots at or below it; a gap has the next one."""
    ordered = sorted(knots)
    found = find_cells(np.array(codes), np.array(ordered), len(ordered) + 1)
    wanted = [len(ordered) + 1 if code != code else sum(knot <= code for knot in ordered) for code in codes]
    assert found.tolist() == wanted


def make_rows(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of a number with gaps and of a category, and a target that depends on both, not in a straight line."""
    rng = np.random.default_rng(seed)
    number = np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows))
    category = rng.integers(-1, 3, rows).astype(float)
    odds = np.nan_to_num(np.abs(number) * 3 - 2, nan=1.0) + np.array([0.0, 1.0, -1.0, 0.5])[category.astype(int)]
    return np.column_stack([number, category]), (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(np.intp)


def test_the_fit_is_a_penalised_logistic_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run to convergence, feature by feature, it is the ridge regression of scikit-learn on all columns together."""
    monkeypatch.setattr(additive_fit, "_TOLERANCE", 1e-14)
    monkeypatch.setattr(additive_fit, "_MAX_SWEEPS", 1000)
    codes, target = make_rows(400)
    weights = np.random.default_rng(1).integers(1, 4, 400).astype(float)
    bases = [FeatureBasis.of(feature, column) for feature, column in zip((NUMBER, CATEGORY), codes.T, strict=True)]
    penalties = CurvePenalties(2.0, 9.0)
    model = fit_additive(bases, target.astype(float), weights, penalties)
    # A column that is divided by the root of its penalty has penalty 1.
    identity = np.vstack([np.eye(4), np.zeros(4)])
    columns = [
        (identity if basis.columns is None else basis.columns)[basis.cells] / np.sqrt(penalties.of(basis)) for basis in bases
    ]
    twin = LogisticRegression(solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(np.hstack(columns), target, weights)
    assert np.abs(model.scores(bases) - twin.decision_function(np.hstack(columns))).max() < 1e-5


def test_a_step_too_far_is_taken_back() -> None:
    """Where a Newton step would raise the loss, smaller steps are taken, and the loss still falls."""
    rows = 60
    codes = np.concatenate([np.linspace(-1.0, 1.0, rows - 1), [1e6]])
    target = (codes > 0.9).astype(float)
    target[0] = 1.0
    weights = np.where(target > 0, 1e6, 1.0)
    curved = FeatureBasis.of(NUMBER, codes)
    bases = [curved, curved.straightened(codes)]
    model = fit_additive(bases, target, weights, CurvePenalties(1e-6, 1e-6))
    losses = additive_fit.log_losses(model.scores(bases), target)
    start = np.log(np.average(target, weights=weights) / (1 - np.average(target, weights=weights)))
    assert weights @ losses <= weights @ additive_fit.log_losses(np.full(rows, start), target)
    assert np.isfinite(model.scores(bases)).all()


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_label_without_rows_has_no_curve(value: float) -> None:
    """Where all rows have the label, or none, there is nothing to learn: every level is 0."""
    codes, _ = make_rows(50)
    bases = [FeatureBasis.of(NUMBER, codes[:, 0])]
    assert not fit_additive(bases, np.full(50, value), np.ones(50), CurvePenalties()).scores(bases).any()


def choose(codes: np.ndarray, target: np.ndarray, features: Sequence[Feature], groups: np.ndarray | None = None) -> float:
    """Return how strongly steps are shrunk for some rows."""
    labels = range(int(target.max()) + 1)
    rng = np.random.default_rng(0)
    return choose_penalties(features, codes, target, labels=tuple(labels), groups=groups, weights=None, rng=rng).step


def test_straight_lines_stay_straight() -> None:
    """Where log-odds are linear, cross-validation keeps straight lines; where they are not, it takes curves."""
    rng = np.random.default_rng(3)
    codes = rng.normal(size=(800, 3))
    features = [NUMBER.model_copy(update={"name": name}) for name in "abc"]
    odds = codes @ [1.0, -2.0, 0.5]
    straight = (rng.random(800) < 1 / (1 + np.exp(-odds))).astype(np.intp)
    bent = (rng.random(800) < 1 / (1 + np.exp(3 - 3 * np.abs(odds)))).astype(np.intp)
    assert choose(codes, straight, features) == STRAIGHT
    assert choose(codes, bent, features) < STRAIGHT


def test_wide_tables_stay_straight() -> None:
    """Columns of noise overfit lines and curves alike: both are shrunk; where steps outnumber rows there are no curves."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(400, 150))
    target = (rng.random(400) < 1 / (1 + np.exp(-codes[:, :5].sum(axis=1)))).astype(np.intp)
    features = [NUMBER.model_copy(update={"name": f"x{place}"}) for place in range(150)]
    labels, random = ("no", "yes"), np.random.default_rng(0)
    found = choose_penalties(features, codes, target, labels=labels, groups=None, weights=None, rng=random)
    assert found == CurvePenalties()
    some = choose_penalties(features[:40], codes[:, :40], target, labels=labels, groups=None, weights=None, rng=random)
    assert some.line > 1.0
    assert some.step == STRAIGHT


def test_too_few_rows_or_groups_stay_straight() -> None:
    """Where no fold could be scored by models that know every label, there is nothing to choose by."""
    codes = np.arange(200.0)[:, None]
    target = (np.abs(codes[:, 0] - 100) < 50).astype(np.intp)
    assert choose(codes, target, [NUMBER]) < STRAIGHT
    assert choose(codes[::5], target[::5], [NUMBER]) == STRAIGHT
    assert choose(codes, target, [NUMBER], groups=np.arange(200) % 2) == STRAIGHT


def learn(codes: np.ndarray, target: np.ndarray, features: Sequence[Feature], step: float, seed: int = 0) -> tuple[Curve, ...]:
    """Return the curves of some rows, with steps shrunk by this much."""
    rng, penalties = np.random.default_rng(seed), CurvePenalties(1.0, step)
    return learn_curves(features, codes, target, labels=2, weights=None, penalties=penalties, rng=rng)


def test_level_zero_is_the_mean() -> None:
    """Over the rows that curves were learned from, each column has mean 0; a gap that no row had counts as the mean."""
    codes, target = make_rows(300)
    codes = codes[~np.isnan(codes).any(axis=1)]
    target = target[: len(codes)]
    for curve, column in zip(learn(codes, target, (NUMBER, CATEGORY), 4.0), codes.T, strict=True):
        assert abs(curve.transform(column).mean()) < 1e-9
        assert curve.levels[0][-1] == 0.0


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of rows, curves and strength come from a sample: the same one each time."""
    monkeypatch.setattr("emsco_train.data.curves.learning._MAX_ROWS", 200)
    monkeypatch.setattr(ChoiceRows, "draw", staticmethod(partial(ChoiceRows.draw, most=150)))
    codes, target = make_rows(600)
    first, second = (learn(codes, target, (NUMBER, CATEGORY), 4.0, seed=5) for _ in range(2))
    assert first == second
    assert choose(codes, target, (NUMBER, CATEGORY)) == choose(codes, target, (NUMBER, CATEGORY))


def make_table(rows: int, labels: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return a table of every kind of feature, with gaps, whose labels depend on curves."""
    rng = np.random.default_rng(seed)
    number = rng.normal(size=rows)
    tail = np.where(rng.random(rows) < 0.2, np.nan, rng.exponential(size=rows) ** 3)
    category = np.array(list("wxyz"), dtype=object)[rng.integers(0, 4, rows)]
    category[rng.random(rows) < 0.1] = None
    flag = rng.integers(0, 2, rows).astype(bool)
    few = rng.integers(0, 5, rows)
    score = np.abs(number) + np.nan_to_num(np.log1p(tail), nan=1.5) + (category == "x") + 0.3 * flag + 0.3 * rng.normal(size=rows)
    cuts = [1.7] if labels == 2 else [1.2, 2.2]
    return {"number": number, "tail": tail, "category": category, "flag": flag, "few": few}, np.digitize(score, cuts)


def curved_problem(labels: int, rows: int = 400, **options: object) -> Problem:
    """Return a problem with curves."""
    table, label = make_table(rows, labels)
    features = {"category": FeatureOptions(unknown="ignore")}
    problem = Problem.of(table, label, features=features, stages="curved", folds=3, **options)
    assert problem.curve_strength < STRAIGHT
    return problem


def rows_at_the_edges(fitted: FittedSet, problem: Problem) -> np.ndarray:
    """Return codes of train rows with one value at every knot and next to it, gaps, and categories that are not listed."""
    codes = problem.train.codes[:, fitted.positions]
    blocks = [problem.encoder.blocks[position] for position in fitted.positions]
    edges = []
    for place, block in enumerate(blocks):
        assert block.curve is not None
        values = [float("nan")] if block.impute else []
        values += [-1.0] if block.categories else [-np.inf, np.inf, -0.0]
        for knot in block.curve.knots or ():
            values += [np.nextafter(knot, -np.inf), knot, np.nextafter(knot, np.inf)]
        for number, value in enumerate(values):
            row = codes[number % len(codes)].copy()
            row[place] = value
            edges.append(row)
    return np.vstack([codes, *edges])


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("names", [("number",), ("category",), ("tail", "category"), ("flag", "few"), None])
def test_the_graph_means_what_training_means(labels: int, names: tuple[str, ...] | None) -> None:
    """At every knot and one float beside it, with gaps and unknown categories, alone and together: within 1e-12."""
    problem = curved_problem(labels)
    fitted = SetFitter.of(problem).fit(names or problem.names)
    codes = rows_at_the_edges(fitted, problem)
    wanted = fitted.probabilities(codes)
    assert np.abs(fitted.reference_scores(codes) - wanted).max() < 1e-12
    assert np.abs(fitted._scorer.score_rows(0, codes) - wanted).max() < 1e-12


def test_a_feature_is_a_column_or_two() -> None:
    """Two labels have one column per feature, whatever its categories; three have two, or one where there are two cells."""
    assert curved_problem(2).encoder.width == 5
    assert curved_problem(3).encoder.width == 9
    assert not curved_problem(2).encoder.one_hot_groups


def test_many_labels_do_not_make_models_too_large() -> None:
    """Where two columns per feature would make too many parameters, which fits take the third power of, there is one."""
    rng = np.random.default_rng(0)
    features = [Feature(name=str(name), kind="numeric", cost=1.0) for name in range(30)]
    for labels, width in ((4, 2), (20, 1)):
        target = rng.integers(0, labels, 400)
        codes = rng.normal(size=(400, 30)) + target[:, None]
        penalties = CurvePenalties(1.0, 1.0)
        curves = learn_curves(features, codes, target, labels=labels, weights=None, penalties=penalties, rng=rng)
        assert {curve.width for curve in curves} == {width}
        assert {len(curve.levels) for curve in curves} == {labels}


@given(st.integers(3, 6), st.integers(2, 6), st.integers(0, 2**32))
def test_few_columns_hold_what_varies_most(labels: int, cells: int, seed: int) -> None:
    """As many columns as labels lose nothing; fewer vary over the rows as much as any other combinations of the levels could."""
    rng = np.random.default_rng(seed)
    levels, mass = rng.normal(size=(labels, cells)), rng.integers(1, 50, cells).astype(float)
    every = principal_columns(levels, mass, labels)
    np.testing.assert_allclose(every.T @ every, levels.T @ levels, atol=1e-9)
    for width in range(1, labels):
        others = np.linalg.qr(rng.normal(size=(labels, width)))[0].T @ levels
        assert (principal_columns(levels, mass, width) ** 2 @ mass).sum() >= (others**2 @ mass).sum() - 1e-9


def test_no_fold_has_seen_what_it_scores() -> None:
    """Other labels of the rows that a fold scores change neither its curves nor its encoder."""
    table, label = make_table(400, 2)
    problem = Problem.of(table, label, stages="curved", folds=3)
    part = problem.parts[0]
    assert part.fold is not None
    scored = part.scored.rows
    swapped = label.copy()
    swapped[scored[label[scored] == 0][:10]], swapped[scored[label[scored] == 1][:10]] = 1, 0
    learner = problem.learner
    again = learner.learn(part.fitted.codes, swapped[part.fitted.rows], part.weights, default=problem.encoder)
    assert again == part.fitted.encoder
    assert again != problem.encoder


def test_an_empty_column_of_a_fold_has_the_curve_of_all() -> None:
    """A feature without a value among the rows that fit a fold's models is encoded as for all rows."""
    problem = curved_problem(2)
    codes = problem.train.codes.copy()
    codes[:, problem.names.index("tail")] = np.nan
    encoder = problem.learner.learn(codes, problem.train.target, None, default=problem.encoder)
    assert encoder.blocks[problem.names.index("tail")] == problem.encoder.blocks[problem.names.index("tail")]


def test_the_digest_knows_curves() -> None:
    """Curves change what is fitted, so a run with them is another run."""
    table, label = make_table(200, 2)
    assert Problem.of(table, label).data_digest() != Problem.of(table, label, stages="curved").data_digest()


@pytest.mark.filterwarnings("ignore::emsco_train.errors.RareLabelWarning")
def test_curves_find_what_lines_cannot(tmp_path: Path) -> None:
    """On labels that depend on curves, a curved cascade accepts more, and its bundle says what it is made of."""
    table, label = make_table(1500, 2)
    options = {"search": "evolve", "population": 20, "generations": 5, "random_state": 0, "max_stages": 2, "keep_all": True}
    fresh, truth = make_table(1000, 2, seed=1)
    figures = {}
    for kind in ("straight", "curved"):
        model = EmscoClassifier(stages=kind, threshold=0.8, features={"category": FeatureOptions(unknown="ignore")}, **options)
        model.fit(table, label)
        predicted = model.predict(fresh)
        accepted = predicted != model.reject_label_
        figures[kind] = (accepted.mean(), (predicted[accepted] == truth[accepted]).mean())
    assert figures["curved"][0] > figures["straight"][0]
    model.export(tmp_path / "bundle")
    assert read_bundle(tmp_path / "bundle").manifest.provenance.settings["stages"] == "curved"


@pytest.mark.parametrize("labels", [2, 3])
def test_exports_are_verified(labels: int, tmp_path: Path) -> None:
    """A searched design with curves is exported: every row is decided by the runtime as by training, golden items included."""
    problem = curved_problem(labels)
    outcome = run_search(problem, Settings(population=10, generations=3, keep_all=True, max_stages=3), seed=0)
    made = export_searched_design(tmp_path / "bundle", problem, outcome.front[0])
    assert made.rows == len(problem.train) + len(problem.test) + len(problem.certify)
    assert made.largest < 1e-12


def test_a_given_design_can_be_curved(tmp_path: Path) -> None:
    """A design of one's own is fitted with curves, too, and verified in every row."""
    table, label = make_table(400, 2)
    numbers = {name: table[name] for name in ("number", "few")}
    stages = [["few"], ["number"]]
    made = export_design(
        tmp_path / "bundle", stages=stages, X=numbers, y=label, held_out=(numbers, label), threshold=0.8, kind="curved"
    )
    assert b"TreeEnsemble" in made.bundle.models[1]
    assert made.bundle.manifest.provenance.settings["stages"] == "curved"


def test_wrong_use_is_refused() -> None:
    """An unknown kind is named, and a classifier leaves nothing to curve."""
    table, label = make_table(60, 2)
    with pytest.raises(DesignError, match="stages is 'bent': expected 'straight' or 'curved'"):
        Problem.of(table, label, stages="bent")
    with pytest.raises(DesignError, match="stages is 'curved', and a classifier was given"):
        Problem.of(table, label, stages="curved", classifier=LogisticRegression())


def test_outliers_do_not_matter() -> None:
    """A value far out moves no knot and no level of the others by much, and is not warned of."""
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(600, 1))
    target = (np.abs(codes[:, 0]) > 1).astype(np.intp)
    spoilt = codes.copy()
    spoilt[np.argmax(codes)] = 1e9
    both = [
        learn_curves(
            (NUMBER,), each, target, labels=2, weights=None, penalties=CurvePenalties(1.0, 1.0), rng=np.random.default_rng(0)
        )[0]
        for each in (codes, spoilt)
    ]
    inside = np.linspace(-2, 2, 50)
    assert np.abs(both[0].transform(inside) - both[1].transform(inside)).max() < 0.2


def test_a_curve_is_read_as_it_is_written() -> None:
    """The repr of an encoder, which its digest is made of, holds all of its curves."""
    curve = Curve((1.0,), ((0.25, -0.5, 0.0),))
    assert eval(repr(curve)) == curve
