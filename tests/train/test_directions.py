"""Directions: as a feature rises, the second of two labels never gets less (more) probable; in training and in the bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.reading import read_bundle
from emsco_runtime.engine.scorer import Scorer
from emsco_train import DesignError, EmscoClassifier, FeatureOptions, Problem, Settings, export_design
from emsco_train.cli.report import main as report_command
from emsco_train.cli.train import main as train_command
from emsco_train.data.curves.additive_fit import CurvePenalties
from emsco_train.data.curves.basis import FeatureBasis
from emsco_train.data.curves.learning import learn_curves
from emsco_train.data.directions import Directions
from emsco_train.export.searched_design import export_searched_design, fit_design
from emsco_train.models.evaluation import evaluate
from emsco_train.models.fitted_set import ProblemFitters, SetFitter
from emsco_train.models.logistic.regression import LogisticProblem
from emsco_train.runs.opening import open_run
from emsco_train.search.sweep import search_thresholds
from tests.train.sample_tables import write_mixed

# Sums of the same numbers in another order.
ROUNDING = 1e-12


def make_table(rows: int = 300, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Return rows in which `up` and `down` go both ways, `twin` nearly repeats `up`, and `flag` is a boolean; with gaps."""
    rng = np.random.default_rng(seed)
    up, down, other = rng.normal(size=(3, rows))
    twin, flag, colour = up + 0.1 * rng.normal(size=rows), rng.random(rows) < 0.5, rng.choice(["red", "blue"], rows)
    odds = np.abs(up) + np.sin(3 * down) + other + 0.3 * flag + (colour == "red") - 2 * (twin - up) - 1.0
    label = np.where(rng.random(rows) < 1 / (1 + np.exp(-2 * odds)), "yes", "no")
    gappy = np.where(rng.random(rows) < 0.1, np.nan, up)
    return {"up": gappy, "twin": twin, "down": down, "other": other, "flag": flag, "colour": colour}, label


WAYS = {"increasing": ["up", "twin", "flag"], "decreasing": ["down"]}
SIGNS = {"up": 1, "twin": 1, "flag": 1, "down": -1}
OPTIONS = {"up": FeatureOptions(missing="impute")}


def moved(codes: np.ndarray, column: int, feature: str, rng: np.random.Generator) -> np.ndarray:
    """Return the rows with one feature raised by a little, by much, or by one bit; a gap stays one."""
    raised = codes.copy()
    if feature == "flag":
        raised[:, column] = 1.0
    else:
        step = rng.choice([0.0, 0.01, 1.0, 100.0], len(codes))
        raised[:, column] = np.nextafter(codes[:, column] + step, np.inf)
    return raised


def check_ways(probabilities: Any, codes: np.ndarray, names: list[str], seed: int = 0) -> None:
    """Raise each feature with a direction, in every row; the probability of the second label must follow."""
    rng = np.random.default_rng(seed)
    before = probabilities(codes)[:, 1]
    for feature, sign in SIGNS.items():
        if feature in names:
            after = probabilities(moved(codes, names.index(feature), feature, rng))[:, 1]
            assert (sign * (after - before)).min() >= -ROUNDING, feature


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["straight", "curved"]), st.integers(1, 63))
def test_every_model_keeps_the_directions(seed: int, kind: Any, members: int) -> None:
    """Of random tables and feature sets, cross-fitted and exported, by training's arithmetic and by the graph."""
    columns, label = make_table(seed=seed)
    problem = Problem.of(columns, label, stages=kind, folds=2, features=OPTIONS, seed=seed, **WAYS)
    names = [name for place, name in enumerate(problem.names) if members >> place & 1]
    fitters = ProblemFitters(problem)
    for fitter in (fitters.exported, *fitters.parts):
        fitted = fitter.fit(names)
        codes = problem.train.codes[:, fitted.positions]
        check_ways(fitted.probabilities, codes, names, seed)
        check_ways(fitted.reference_scores, codes[:20], names, seed)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"stages": "boosted"}, marks=pytest.mark.proof),
        {"stages": "curved", "upgrade": "boosted"},
        {"stages": "curved"},
    ],
)
def test_exported_designs_keep_the_directions(options: dict[str, Any], tmp_path: Path) -> None:
    """Through the bundle, for designs that a search found, upgraded ones too; and so does the whole cascade.

    no < rejected < yes: raising a feature never moves a decision down.
    """
    columns, label = make_table(400)
    upgrade = options.get("upgrade")
    problem = Problem.of(columns, label, threshold=0.7, stages=options["stages"], folds=2, features=OPTIONS, **WAYS)
    search = Settings(population=8, generations=1, max_stages=3)
    (outcome,) = search_thresholds(problem, None, search, method="evolve", seed=0, jobs=1, upgrade=upgrade)
    design = next(one for one in outcome.front if one.upgrade == upgrade and len(one.stages) > 1)
    export_searched_design(tmp_path / "bundle", problem, design)
    bundle = read_bundle(tmp_path / "bundle")
    assert bundle.manifest.provenance.settings["decreasing"] == ["down"]
    scorer = Scorer.from_bundle(bundle)
    codes = problem.train.codes
    for number, stage in enumerate(bundle.manifest.stages):
        positions = problem.encoder.positions(stage.inputs)
        check_ways(lambda rows, at=number: scorer.score_rows(at, rows), codes[:, positions], list(stage.inputs))
    model = fit_design(problem, design)
    used = [name for stage in design.stages for name in stage]

    def ranks(rows: np.ndarray) -> np.ndarray:
        decided = evaluate(model, rows[:, model_positions])
        return np.where(decided.accepted, 2 * decided.label, 1)

    model_positions = problem.encoder.positions([feature.name for feature in model.features])
    rng, before = np.random.default_rng(1), ranks(codes)
    for feature, sign in SIGNS.items():
        if feature in used:
            after = ranks(moved(codes, problem.encoder.positions([feature])[0], feature, rng))
            assert (sign * (after - before)).min() >= 0


@pytest.mark.parametrize("kind", ["straight", "curved", "boosted"])
def test_a_given_design_may_have_directions(kind: Any, tmp_path: Path) -> None:
    """`export_design` takes them, and writes them down."""
    columns, label = make_table()
    export_design(
        tmp_path / "bundle",
        stages=[["up", "down"], ["twin", "flag"]],
        X=columns,
        y=label,
        held_out=(columns, label),
        threshold=0.8,
        features=OPTIONS,
        kind=kind,
        **WAYS,
    )
    bundle = read_bundle(tmp_path / "bundle")
    scorer = Scorer.from_bundle(bundle)
    codes = np.column_stack([columns[name].astype(float) for name in bundle.manifest.stages[1].inputs])
    check_ways(lambda rows: scorer.score_rows(1, rows), codes, list(bundle.manifest.stages[1].inputs))


def make_lightgbm() -> Any:
    """Return LightGBM's classifier where it is installed."""
    return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1)


def make_xgboost() -> Any:
    """Return XGBoost's classifier where it is installed."""
    return pytest.importorskip("xgboost").XGBClassifier(n_estimators=20, n_jobs=1)


@pytest.mark.parametrize("make", [lambda: HistGradientBoostingClassifier(max_iter=20), make_lightgbm, make_xgboost])
def test_boosted_trees_of_the_user_are_told(make: Any) -> None:
    """Each library has its own parameter; columns without a direction stay free."""
    columns, label = make_table()
    problem = Problem.of(columns, label, classifier=make(), features=OPTIONS, **WAYS)
    fitted = SetFitter.of(problem).fit(problem.names)
    check_ways(fitted.probabilities, problem.train.codes, list(problem.names))
    free = Problem.of(columns, label, classifier=make(), features=OPTIONS)
    unbound = SetFitter.of(free).fit(free.names)
    with pytest.raises(AssertionError):
        check_ways(unbound.probabilities, problem.train.codes, list(problem.names))


def test_without_directions_the_example_goes_both_ways() -> None:
    """What the tests above prove is not true of the table by itself."""
    columns, label = make_table()
    for kind in ("straight", "curved"):
        problem = Problem.of(columns, label, stages=kind, features=OPTIONS)
        fitted = SetFitter.of(problem).fit(problem.names)
        with pytest.raises(AssertionError):
            check_ways(fitted.probabilities, problem.train.codes, list(problem.names))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1, -1]))
def test_curves_do_not_turn(seed: int, way: int) -> None:
    """Levels are monotone to the last bit, whatever the rows say; a gap has a level of its own."""
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random((200, 2)) < 0.1, np.nan, rng.normal(size=(200, 2)).round(int(rng.integers(0, 3))))
    target = (np.sin(2 * np.nan_to_num(codes[:, 0], nan=9.0)) + rng.normal(size=200) > 0).astype(np.intp)
    features = [Feature(name=name, kind="numeric", cost=1.0, missing="impute") for name in ("x", "z")]
    directions = Directions(("x",), ()) if way > 0 else Directions((), ("x",))
    options = {"labels": 2, "weights": None, "penalties": CurvePenalties(1.0, 1.0), "rng": rng}
    bound, _ = learn_curves(features, codes, target, directions=directions, **options)
    assert (way * np.diff(bound.levels[0][:-1]) >= 0).all()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000))
def test_a_bounded_step_is_the_lowest_point(seed: int) -> None:
    """One step of a feature with a direction goes to the lowest point that has no negative coefficient."""
    rng = np.random.default_rng(seed)
    codes = np.where(rng.random(60) < 0.2, np.nan, rng.normal(size=60))
    basis = FeatureBasis.of(Feature(name="x", kind="numeric", cost=1.0, missing="impute"), codes, direction=-1)
    slope, curvature = rng.normal(size=60), rng.random(60)
    penalty, start = np.full(len(basis.is_step), 0.5), rng.random(len(basis.is_step))
    found = start - basis.newton_step(slope, curvature, start, penalty)

    def loss(coefficients: np.ndarray) -> float:
        move = basis.levels(coefficients - start)[basis.cells]
        return float(slope @ move + curvature @ move**2 / 2 + penalty @ coefficients**2 / 2)

    assert found[:-1].min() >= 0.0
    bounds = [(0.0, None)] * (len(start) - 1) + [(None, None)]
    best = minimize(loss, start, bounds=bounds, options={"ftol": 1e-14, "gtol": 1e-10})
    assert loss(found) <= best.fun + 1e-9


def test_a_wrong_weight_is_zero_and_the_others_are_fitted_without_it() -> None:
    """The set's model is that of the set without the column; other sets of the batch, and free problems, are as they were."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    target = (x @ [1.0, 1.0, -1.0] + rng.normal(size=200) > 0).astype(np.intp)
    free, bound = (LogisticProblem(x, target, 2, signs=signs) for signs in (None, np.array([1, -1, 0])))
    sets = np.array([[True, True, True], [True, False, True], [False, True, False]])
    found = bound.fit(sets)
    assert found.columns.tolist() == sets.tolist()
    assert found.coef[0].tolist() == found.coef[1].tolist() == free.fit(sets[1:2]).coef[0].tolist()
    assert found.coef[2].tolist() == [[0.0, 0.0, 0.0]]
    share = target.mean()
    assert found.intercept[2, 0] == pytest.approx(np.log(share / (1 - share)), abs=1e-9)


def test_many_wrong_weights_take_few_fits() -> None:
    """The worse half of the wrong columns goes at a time: the fits grow with the logarithm of their number."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 20))
    target = (-x.sum(axis=1) + rng.normal(size=300) > 0).astype(np.intp)
    problem = LogisticProblem(x, target, 2, signs=np.ones(20, dtype=np.intp))
    fits: list[int] = []
    free = problem._fit_freely
    problem._fit_freely = lambda *arguments: fits.append(1) or free(*arguments)  # type: ignore[method-assign, func-returns-value]
    assert not problem.fit(np.ones((1, 20), dtype=np.bool_)).coef.any()
    assert len(fits) <= 6


def test_faults_are_refused_with_their_names() -> None:
    """Names that are no features, kinds without an order, both ways at once, several labels, classifiers that take none."""
    columns, label = make_table()
    for arguments, message in (
        ({"increasing": ["height"]}, r"`increasing` names 'height', which is not a feature \(features: up, twin, "),
        ({"decreasing": ["colour"]}, "`decreasing` names 'colour', whose kind is categorical: only numbers and booleans"),
        ({"increasing": ["up"], "decreasing": ["up"]}, "both name 'up': give it one direction"),
        ({"increasing": "up"}, "increasing is 'up': expected a sequence of feature names"),
        ({"increasing": ["up"], "classifier": LogisticRegression()}, "LogisticRegression takes no directions"),
    ):
        with pytest.raises(DesignError, match=message):
            Problem.of(columns, label, features=OPTIONS, **arguments)
    three = np.where(np.arange(len(label)) % 3 == 0, "maybe", label)
    with pytest.raises(DesignError, match="need two labels, and there are 3"):
        Problem.of(columns, three, features=OPTIONS, increasing=["up"])


def test_the_estimator_takes_them() -> None:
    """`EmscoClassifier(increasing=...)`, by the names that columns of an array get."""
    columns, label = make_table(400)
    rows = np.column_stack([columns["other"], columns["down"]])
    model = EmscoClassifier(threshold=0.7, decreasing=["x1"], random_state=0, n_jobs=1).fit(rows, label)
    assert model.problem_.settings.directions == Directions((), ("x1",))
    assert model.get_params()["decreasing"] == ["x1"]


def test_a_run_keeps_its_directions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """run.json has them, a reopened run fits by them, output and report say them; faults name the option."""
    table = write_mixed(tmp_path)
    options = [*map(str, table.options()), "--search", "evolve", "--generations", "1", "--population", "8", "--jobs", "1"]
    out = tmp_path / "run"
    ways = ["--increasing", "rate", "--increasing", "count", "--decreasing", "flag"]
    assert train_command([*options, *ways, "--out", str(out)]) == 0
    said = "spam never gets less probable as rate or count rises, nor more probable as flag rises"
    assert said in capsys.readouterr().out
    record = json.loads((out / "run.json").read_text())
    assert (record["increasing"], record["decreasing"]) == (["rate", "count"], ["flag"])
    assert open_run(out).problem.settings.directions == Directions(("rate", "count"), ("flag",))
    assert report_command([str(out), "--out", str(tmp_path / "report.html")]) == 0
    assert said in (tmp_path / "report.html").read_text()
    assert train_command([*options, "--increasing", "colour", "--out", str(tmp_path / "other")]) == 1
    assert "--increasing names 'colour', whose kind is categorical" in capsys.readouterr().err


def test_a_resumed_run_needs_the_same_directions(tmp_path: Path) -> None:
    """Other directions are other models: the problem's digest differs, by which checkpoints are told apart."""
    columns, label = make_table()
    digests = {
        Problem.of(columns, label, features=OPTIONS, **ways).digest()
        for ways in ({}, {"increasing": ["up"]}, {"decreasing": ["up"]})
    }
    assert len(digests) == 3
