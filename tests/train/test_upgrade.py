"""Upgrades: designs of a search fitted again with boosted trees, on the same rows; all that follows treats both kinds alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco_runtime import Cascade
from emsco_train import CostGroup, CostModel, DesignError, EmscoClassifier, Front, Problem, Settings, export_run, verify
from emsco_train.cli.train import main as train_command
from emsco_train.data.stage_settings import StageSettings, check_upgrade
from emsco_train.designs.design import Design
from emsco_train.designs.selection import Requirements
from emsco_train.export.likely_figures import estimate_likely_figures
from emsco_train.export.searched_design import check_counts, fit_design
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.models.stage_model import ClassifierModel
from emsco_train.runs.front_measurement import measure_designs
from emsco_train.search.ladder import ladder_front
from emsco_train.search.searches import run_search
from emsco_train.search.sweep import search_thresholds
from emsco_train.search.upgrade import upgrade_front
from emsco_train.search.workbench import Workbench

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module", autouse=True)
def few_trees() -> Iterator[None]:
    """Boost 20 trees in larger steps: the tests are about the kind of the models, not about how good they are."""

    def make() -> Any:
        return HistGradientBoostingClassifier(max_iter=20, learning_rate=0.4, max_bins=32, early_stopping=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emsco_train.data.stage_settings._boosted_trees", make)
        patch.setattr("emsco_train.models.stage_model.choose_tree_count", lambda estimator, *_: estimator.max_iter)
        yield


def make_table(rows: int = 600) -> tuple[dict[str, Any], Any]:
    """Return rows whose label depends on the size of one column, whatever its sign: trees see that, lines do not."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(rows, 3))
    y = 2 * x[:, 1] + 3 * np.abs(x[:, 0]) + 0.3 * x[:, 2] > 1.5
    return dict(zip(NAMES, x.T, strict=True)), np.where(y, "yes", "no")


@pytest.fixture(scope="module", params=["straight", "curved"])
def problem(request: pytest.FixtureRequest) -> Problem:
    """Return a cross-fitted problem with test and certify rows."""
    columns, y = make_table()
    return Problem.of(columns, y, costs=[1, 1, 5], threshold=0.8, folds=2, stages=request.param)


@pytest.fixture(scope="module")
def front(problem: Problem) -> Front:
    """Return its front after an upgrade."""
    (outcome,) = search_thresholds(problem, None, Settings(), method="auto", seed=0, upgrade="boosted", jobs=1)
    return outcome.front


def test_upgraded_designs_join_the_front(problem: Problem, front: Front) -> None:
    """Both kinds are there, none dominates another, and every figure is that of the design fitted again."""
    kinds = {design.upgrade for design in front}
    assert "boosted" in kinds
    for one in front:
        check_counts(problem, one)
        better = [
            other
            for other in front
            if other.coverage >= one.coverage
            and other.coverage * other.accuracy >= one.coverage * one.accuracy
            and other.cost <= one.cost
            and (other.coverage, other.accuracy, other.cost) != (one.coverage, one.accuracy, one.cost)
        ]
        assert all(other.accuracy <= one.accuracy for other in better)
    before = run_search(problem, jobs=1).front
    assert front.hypervolume() >= before.hypervolume()


def test_an_upgraded_design_is_another_design(front: Front) -> None:
    """Its id, its text and its JSON say so; the id of others is as it was."""
    upgraded = next(design for design in front if design.upgrade)
    plain = Design.of(upgraded.chromosome, NAMES, upgraded.thresholds, coverage=0.5, accuracy=0.5, cost=1.0)
    assert plain.id != upgraded.id
    assert upgraded.stage_text.endswith(" (boosted)")
    assert "(boosted)" in str(front)
    assert Front.from_json(front.to_json()) == front
    assert set(front.to_frame()["upgrade"]) >= {"boosted"}


def test_stages_of_each_kind(problem: Problem, front: Front) -> None:
    """An upgraded design has trees on the values as they are; the others have the stages that were searched with."""
    for design in front:
        models = [stage.model for stage in fit_design(problem, design).stages]
        assert all(isinstance(model, ClassifierModel) == (design.upgrade == "boosted") for model in models)
    upgraded = problem.upgraded("boosted")
    assert upgraded.upgraded("boosted") is upgraded
    assert upgraded.upgraded(None) is upgraded
    assert all(block.curve is None for part in upgraded.parts for block in part.fitted.encoder.blocks)
    assert [len(split) for split in upgraded.splits()] == [len(split) for split in problem.splits()]


def test_ladder_figures_and_measurement_keep_the_kind(problem: Problem, front: Front) -> None:
    """Other thresholds, likely figures and test figures are those of the design's own stages."""
    assert problem.test is not None
    tuned = ladder_front(problem, front)
    for design in tuned[:: max(1, len(tuned) // 6)]:
        check_counts(problem, design)
    assert estimate_likely_figures(problem, front, Requirements(min_accuracy=0.5, sure=None)) is not None
    for rows in (problem.test, problem.validation):
        for design, one in zip(front, measure_designs(problem, rows, tuple(front), ProblemFitters(problem)), strict=True):
            assert one.design is design
            if rows is problem.validation:
                assert (one.figures.coverage, one.figures.accuracy) == (design.coverage, design.accuracy)


def test_a_time_limit_and_an_empty_front(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not fitted in time is left out, and the outcome says so; where nothing was found, nothing is fitted."""
    outcome = run_search(problem, jobs=1)
    searched, upgraded = Workbench(problem), Workbench(problem.upgraded("boosted"))
    empty = type(outcome)(searched.front([]), "evolve", "generations", 0, 0, outcome.genes)
    assert upgrade_front(empty, searched, upgraded, Settings()) is empty
    # One batch is fitted however late it is: here, one set, and there are several.
    monkeypatch.setattr("emsco_train.search.pace._FIRST_BATCH", 1)
    cut = upgrade_front(outcome, searched, upgraded, Settings(), seconds=0.0)
    assert cut.stopped == "time"
    upgraded.stop.array[0] = 1
    monkeypatch.setattr(upgraded.stop, "set_after", lambda seconds: pytest.MonkeyPatch.context())
    fresh = Workbench(problem.upgraded("boosted"), fitters=ProblemFitters(problem.upgraded("boosted"), upgraded.stop))
    stopped = upgrade_front(outcome, searched, fresh, Settings())
    assert (stopped.stopped, stopped.front) == ("time", outcome.front)


def test_estimator(tmp_path: Path) -> None:
    """`upgrade` gives designs of both kinds; whichever is in use decides, and its bundle agrees row by row."""
    columns, y = make_table()
    model = EmscoClassifier(costs=[1, 1, 5], threshold=0.8, folds=0, upgrade="boosted", random_state=0).fit(columns, y)
    design = next(one for one in model.front_ if one.upgrade)
    model.use(design)
    assert model.score(columns, y) > 0.9
    made = model.export(tmp_path / "bundle", design=design)
    assert verify(Cascade.load(tmp_path / "bundle"), made.model, model.problem_.train.table).agrees
    assert "HistGradientBoosting" in str(made.bundle.manifest.provenance.settings["classifier"])


@pytest.mark.parametrize("stages", [["--stages", "boosted"], ["--upgrade", "boosted", "--stages", "straight"]])
def test_command(stages: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both options write a run that exports a boosted design, promise included; the output says how many are upgraded."""
    columns, y = make_table(800)
    lines = [",".join([*NAMES, "label"]), *(",".join(map(str, row)) for row in zip(*columns.values(), y, strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    options = [
        "--data",
        str(tmp_path / "table.csv"),
        "--label",
        "label",
        "--threshold",
        "0.8",
        "--folds",
        "0",
        "--certify-uses",
        "2",
    ]
    assert train_command([*options, *stages, "--out", str(tmp_path / "run")]) == 0
    front = Front.from_json((tmp_path / "run" / "front.json").read_text())
    upgraded = [design for design in front if design.upgrade == "boosted"]
    assert bool(upgraded) == (stages[0] == "--upgrade")
    shown = capsys.readouterr().out
    assert (f"upgrade  {len(upgraded)} of the designs have boosted stages" in shown) == bool(upgraded)
    # Trees see what lines do not: beside upgraded designs stands what trees on all features do.
    assert ("all features at once (boosted)" in shown) == bool(upgraded)
    assert "all features at once" in shown
    made = export_run(tmp_path / "run", tmp_path / "bundle", max_error=0.3, min_coverage=0.2)
    assert made.export.verified[0].verification.agrees
    if upgraded:
        named = export_run(tmp_path / "run", tmp_path / "named", design=upgraded[0].id)
        assert all(isinstance(stage.model, ClassifierModel) for stage in named.export.model.stages)


@pytest.mark.parametrize(
    ("upgrade", "settings", "message"),
    [
        ("forest", StageSettings(), "upgrade is 'forest': expected 'boosted' or None"),
        ("boosted", StageSettings(kind="boosted"), "leave it out, or search with `stages='curved'`"),
    ],
)
def test_refused(upgrade: Any, settings: StageSettings, message: str) -> None:
    """An upgrade is to another kind than that of the search, and to one that there is."""
    with pytest.raises(DesignError, match=message):
        check_upgrade(upgrade, settings)


def make_product_table(rows: int = 900) -> tuple[dict[str, Any], Any]:
    """Return rows whose label is the sign of a product of two columns, and a cheap column that mostly agrees with it."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, size=(rows, 4))
    y = x[:, 1] * x[:, 2] > 0
    x[:, 0] = np.where(rng.random(rows) < 0.75, y, ~y) + 0.1 * x[:, 0]
    return dict(zip("abcd", x.T, strict=True)), np.where(y, "yes", "no")


def test_trees_get_what_the_searched_stages_have_no_use_for() -> None:
    """Neither factor of a product says anything to lines, and no design found has a use for both; an upgraded one has."""
    columns, y = make_product_table()
    problem = Problem.of(columns, y, costs=[1, 2, 2, 3], threshold=0.8, folds=2, stages="straight")
    before = run_search(problem, jobs=1).front
    (after,) = search_thresholds(problem, None, Settings(), method="auto", seed=0, upgrade="boosted", jobs=1)
    assert max(design.accuracy * design.coverage for design in before) < 0.8
    best = max(after.front, key=lambda design: design.accuracy * design.coverage)
    assert best.accuracy * best.coverage > 0.9
    assert best.upgrade == "boosted"
    assert {"b", "c"} <= {name for stage in best.stages for name in stage}


@pytest.mark.parametrize("objective", ["plain", "balanced"])
def test_an_upgrade_keeps_to_the_settings_of_the_search(objective: Any) -> None:
    """Pinned features come first, all features are kept, features that are paid together stay together, stages are few."""
    columns, y = make_product_table()
    costs = CostModel.from_mapping({"a": 1, "b": 0, "c": 0, "d": 3}, groups=[CostGroup("lab", 2.0, ("b", "c"))])
    problem = Problem.of(columns, y, costs=costs, threshold=0.8, folds=2, stages="straight")
    settings = Settings(pinned=(3,), keep_all=True, max_stages=2, units="groups", objective=objective)
    (outcome,) = search_thresholds(problem, None, settings, method="auto", seed=0, upgrade="boosted", jobs=1)
    upgraded = [design for design in outcome.front if design.upgrade]
    assert upgraded
    for design in upgraded:
        check_counts(problem, design)
        assert "d" in design.stages[0]
        assert len(design.stages) <= 2
        assert not design.excluded
        assert any({"b", "c"} <= set(stage) for stage in design.stages)
