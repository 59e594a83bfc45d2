"""From a design of a search to its bundle: the same models, the same figures, every split verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emsco_runtime import Cascade, read_bundle
from emsco_train import DesignError, Problem, Settings, VerificationError
from emsco_train.data.thresholds import StageThresholds
from emsco_train.export.searched_design import build_cascade, export_searched_design, fit_design
from emsco_train.models.evaluation import evaluate_split
from emsco_train.models.logistic.regression import LogisticModel
from emsco_train.models.stage_model import StageFitter
from emsco_train.search.searches import run_evolve
from emsco_train.search.workbench import Workbench


def make_problem(labels: int = 2, **options: object) -> Problem:
    """Return a problem with numbers, some missing values, and a text column."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 4))
    kind = rng.choice(["mail", "news", "shop"], size=600)
    score = x @ [2.0, 1.0, 0.5, 0.0] + (kind == "shop") + rng.normal(size=600)
    y = np.digitize(score, [0.0] if labels == 2 else [-1.0, 1.0])
    x[rng.uniform(size=x.shape) < 0.05] = np.nan
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "d": x[:, 3], "kind": kind}
    return Problem.of(columns, y, costs=[3, 1, 1, 2, 5], threshold=0.8, **options)


@pytest.mark.parametrize("labels", [2, 3])
def test_the_export_writes_the_coefficients_of_the_search(labels: int) -> None:
    """Every stage of every design of a front has the search's own coefficients, bit for bit, excluded features or not."""
    problem = make_problem(labels)
    settings = Settings(population=30, generations=6, max_stages=3)
    front = run_evolve(problem, settings, seed=1).front
    train = problem.train
    search = StageFitter(train.encoded, train.target, labels, problem.weights, problem.settings, problem.encoder.one_hot_groups)
    assert any(design.excluded for design in front)
    for design in front:
        for stage in fit_design(problem, design).stages:
            columns = problem.encoder.columns(stage.inputs)
            mask = np.zeros((1, problem.encoder.width), dtype=bool)
            mask[0, columns] = True
            scored = search.fit_batch(mask, workers=1).model(0, columns)
            assert isinstance(stage.model, LogisticModel)
            assert np.array_equal(stage.model.coef, scored.coef)
            assert np.array_equal(stage.model.intercept, scored.intercept)


def test_the_figures_of_a_design_are_those_of_its_cascade() -> None:
    """Coverage, accuracy and cost that the search counted from bits are what the fitted cascade does with the validation rows."""
    problem = make_problem()
    for design in run_evolve(problem, Settings(population=30, generations=5, max_stages=3), seed=1).front:
        model = fit_design(problem, design)
        expected = evaluate_split(problem, model, problem.validation).expected(problem.validation.target, "validation")
        assert expected.accepted / expected.rows == design.coverage
        assert expected.right / max(expected.accepted, 1) == design.accuracy
        assert expected.cost.mean == pytest.approx(design.cost, rel=1e-15)


def test_early_stages_may_need_more_confidence(tmp_path: Path) -> None:
    """The bundle has the thresholds of each stage, and the runtime decides every row by them as training does."""
    problem = make_problem(3)
    found = run_evolve(problem, Settings(population=30, generations=5, max_stages=3), seed=1).front
    thresholds = StageThresholds(last=(0.7, 0.8, 0.6), early=(0.9, 0.95, 0.85))
    bench = Workbench(problem, [thresholds])
    chosen = np.array([design.chromosome for design in found if len(design.stages) == 3][:1], dtype=np.int8)
    [design] = bench.designs(chosen, [1])
    exported = export_searched_design(tmp_path / "b", problem, design)
    assert exported.rows == 600
    stages = read_bundle(tmp_path / "b").manifest.stages
    assert [tuple(stage.thresholds.values()) for stage in stages] == [thresholds.early, thresholds.early, thresholds.last]
    alike = replace(design, early_thresholds=None)
    assert build_cascade(problem, design).decide_columns(problem.validation.table.columns).stages.mean() > (
        build_cascade(problem, alike).decide_columns(problem.validation.table.columns).stages.mean()
    )


def test_other_figures_than_those_of_the_search_are_refused(tmp_path: Path) -> None:
    """A design that does not do with the validation rows what its figures say is not exported, and the message has both."""
    problem = make_problem()
    design = run_evolve(problem, Settings(population=20, generations=3, max_stages=2)).front.select()
    for changed in (
        replace(design, coverage=design.coverage - 1 / len(problem.validation)),
        replace(design, accuracy=design.accuracy / 2),
        replace(design, cost=design.cost + 0.01),
    ):
        then, now = (
            f"coverage {one.coverage:.6g}, accuracy {one.accuracy:.6g}, cost {one.cost:.6g}" for one in (changed, design)
        )
        with pytest.raises(VerificationError, match=f"other figures on the 120 validation rows .*{then} then, {now} now"):
            export_searched_design(tmp_path / "b", problem, changed)
        assert not (tmp_path / "b").exists()


def test_every_split_is_verified_and_recorded(tmp_path: Path) -> None:
    """All rows of the table are replayed; the bundle names the split of its figures."""
    problem = make_problem()
    design = run_evolve(problem, Settings(population=20, generations=3, max_stages=2)).front.select()
    made = export_searched_design(
        tmp_path / "b", problem, design, name="mail", version="3", settings_record={"design": design.id}
    )
    assert [split.name for split in made.verified] == ["train", "validation", "test", "certify"]
    assert made.rows == 600
    assert made.largest < 1e-9
    manifest = read_bundle(tmp_path / "b").manifest
    assert (manifest.name, manifest.version, manifest.expected.split) == ("mail", "3", "test")
    assert manifest.provenance.settings["design"] == design.id
    assert manifest.provenance.settings["sample_weight"] is False
    assert Cascade.load(tmp_path / "b").manifest.id == made.bundle.manifest.id


@pytest.mark.filterwarnings("ignore::emsco_train.ConfidenceWarning")
def test_sample_weights_are_distinguished_from_class_weights() -> None:
    """The provenance says whether rows had weights of their own, which class weights alone do not give them."""
    for weight, recorded in ((None, False), (np.linspace(0.5, 2.0, 600), True)):
        problem = make_problem(sample_weight=weight, class_weight={"0": 2.0})
        design = run_evolve(problem, Settings(population=10, generations=1, max_stages=2)).front.select()
        settings = build_cascade(problem, design).manifest.provenance.settings
        assert settings["sample_weight"] is recorded
        assert settings["class_weight"] == {"0": 2.0}


def test_an_unknown_split_is_named(tmp_path: Path) -> None:
    """Expected figures come from rows that training did not fit."""
    problem = make_problem()
    design = run_evolve(problem, Settings(population=10, generations=1, max_stages=2)).front.select()
    with pytest.raises(DesignError, match=r"split is 'train': expected one of validation, test, certify"):
        export_searched_design(tmp_path / "b", problem, design, split="train")
    assert not (tmp_path / "b").exists()
