"""Runs from Python: what the commands do, without the commands."""

from __future__ import annotations

import ast
import re
import warnings
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import emsco_train
from emsco_runtime import BundleError, Cascade
from emsco_train import Problem, Settings, run_search
from emsco_train.cli.command import print_warnings
from emsco_train.cli.option_names import OptionNames
from emsco_train.cli.training_output import accuracy_floors
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.design import Design
from emsco_train.errors import DesignError, SelectionError
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.models.logistic.regression import LogisticProblem
from emsco_train.runs import front_measurement as figures
from emsco_train.runs.calibration_file import CalibrationFile
from emsco_train.runs.exporting import export_run
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import train
from emsco_train.search.scoring import set_scorer
from emsco_train.search.settings import Constraints
from emsco_train.search.sweep import remeasure_front, search_thresholds
from emsco_train.search.workbench import Workbench
from tests.train.sample_tables import write_wide


def test_train_and_export(tmp_path: Path) -> None:
    """A request is prepared, trained and exported; the parts name the same design and the same figures."""
    data = write_wide(tmp_path / "t.csv", 200, 3)
    trained = train(prepare(TrainRequest({None: str(data)}, Columns(), (0.8,))), tmp_path / "run")
    assert not trained.interrupted
    assert [one.design for one in trained.measured] == list(trained.front)
    made = export_run(tmp_path / "run", tmp_path / "bundle", name="mail", version="3")
    assert made.choice.design == trained.front.knee
    place = [one.design for one in trained.measured].index(trained.front.knee)
    assert made.measured.figures == trained.measured[place].figures
    assert CalibrationFile.of("test", [made.measured]) == CalibrationFile.of("test", trained.measured[place : place + 1])
    assert Cascade.load(tmp_path / "bundle").manifest == made.export.bundle.manifest
    with pytest.raises(DesignError, match="already holds a bundle"):
        export_run(tmp_path / "run", tmp_path / "bundle")
    with pytest.raises(SelectionError):
        export_run(tmp_path / "run", tmp_path / "other", min_accuracy=1.0, min_coverage=1.0)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    # Before anything is chosen: a choice looks at the certify rows, which prove less each time.
    with pytest.raises(BundleError, match="the folder is not empty and holds no bundle"):
        export_run(tmp_path / "run", tmp_path / "full", min_accuracy=1.0, min_coverage=1.0, force=True)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no threshold": ({"thresholds": ()}, "there is no threshold"),
    "no number": ({"thresholds": ("0.8",)}, "threshold '0.8': expected a number above 0"),
    "both": ({"paths": {None: "a.csv", "train": "b.csv"}}, "one table and ready splits were both given"),
    "groups and time": ({"columns": Columns(group="g", time="t")}, "`groups` and `time` were both given"),
    "no rows": ({"paths": {"train": "b.csv"}}, "there are no rows: give one table, or at least train and validation rows"),
    "no jobs": ({"jobs": 0}, "jobs is 0"),
    "seed": ({"seed": 1.5}, "seed is 1.5"),
    "time": ({"time_limit": float("nan")}, "time_limit is nan"),
}


@pytest.mark.parametrize("name", WRONG)
def test_requests_that_no_data_could_satisfy(name: str) -> None:
    """Refused before any file is opened."""
    changes, message = WRONG[name]
    given: dict[str, Any] = {"paths": {None: "a.csv"}, "columns": Columns(), "thresholds": (0.8,)} | changes
    with pytest.raises(DesignError, match=message):
        TrainRequest(**given)


def wide_problem(rows: int = 300, classifier: Any = None) -> Problem:
    """Return a problem of four features with noise."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 4))
    y = values @ [2.0, 1.0, 0.5, 0.2] + rng.normal(size=rows) > 0
    return Problem.of(values, y, costs=[4, 2, 1, 1], threshold=0.8, classifier=classifier)


def test_a_front_measured_on_all_rows_is_that_of_its_designs() -> None:
    """What the search on all rows says of the designs that were found on a sample; a front of nothing stays one."""
    problem = wide_problem()
    part = problem.sampled(40)
    found = run_search(part, Settings(max_stages=3))
    remade = remeasure_front(found, Workbench(problem), Settings(max_stages=3))
    whole = {design.id: design for design in run_search(problem, Settings(max_stages=3)).front}
    assert {design.id for design in remade.front} <= {design.id for design in found.front}
    assert any(design.id in whole for design in remade.front)
    for design in remade.front:
        if design.id in whole:
            assert (design.coverage, design.accuracy, design.cost) == (
                whole[design.id].coverage,
                whole[design.id].accuracy,
                whole[design.id].cost,
            )
    strict = Settings(max_stages=3, constraints=Constraints(min_accuracy=1.0, max_cost=0.5))
    assert len(remeasure_front(found, Workbench(problem), strict).front) == 0
    nothing = run_search(part, strict)
    assert remeasure_front(nothing, Workbench(problem), strict) is nothing


@pytest.mark.parametrize("most_bytes", [2**26, 1])
@pytest.mark.parametrize("classifier", [None, GaussianNB()], ids=str)
def test_designs_measured_together_are_measured_as_each_alone(
    monkeypatch: pytest.MonkeyPatch, most_bytes: int, classifier: Any
) -> None:
    """Figures and calibration of designs at two thresholds are those of every design fitted and run by itself.

    Some of them need more confidence before the last stage. Also where one feature set is scored at a time. Confidences differ in
    the last bits, which the file of them leaves out.
    """
    monkeypatch.setattr(set_scorer, "_CHUNK_BYTES", most_bytes)
    problem = wide_problem(classifier=classifier)
    chains = [
        *(((0, 1, 1, 1), 0.7, 0.7), ((1, 0, 1, 1), 0.9, 0.9), ((0, 0, 1, 1), 0.9, 0.9), ((0, 0, 0, 0), 0.7, 0.7)),
        *(((0, 0, 1, 1), 0.7, 0.9), ((0, 1, 2, 2), 0.7, 0.9)),
    ]
    designs = [
        Design.of(
            genes, problem.names, StageThresholds(last=(last,) * 2, early=(early,) * 2), coverage=0.0, accuracy=0.0, cost=0.0
        )
        for genes, last, early in chains
    ]
    fitter = CascadeFitter.of(problem)
    together = figures.measure_designs(problem, problem.held_out, designs, ProblemFitters(problem), jobs=2)
    alone = [
        figures.measure_fitted_design(problem, problem.held_out, design, fitter.fit(design.stages, design.stage_thresholds))
        for design in designs
    ]
    assert [(one.design, one.figures) for one in together] == [(one.design, one.figures) for one in alone]
    assert CalibrationFile.of("test", together) == CalibrationFile.of("test", alone)


def test_a_feature_set_is_fitted_once_for_all_designs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Designs that share cumulative sets share the fits, at any threshold; after a search, nothing is left to fit."""
    problem = wide_problem()
    fitters = ProblemFitters(problem)
    fitted: list[bytes] = []
    fit = LogisticProblem.fit

    def counted(self: LogisticProblem, columns: Any, *rest: Any, **options: Any) -> Any:
        fitted.extend(row.tobytes() for row in columns)
        return fit(self, columns, *rest, **options)

    monkeypatch.setattr(LogisticProblem, "fit", counted)
    searched = search_thresholds(problem, [0.7, 0.9], Settings(max_stages=3), method="evolve", seed=0, jobs=1, fitters=fitters)
    designs = [design for outcome in searched for design in outcome.front]
    assert len(fitted) == len(set(fitted)) > 0
    fitted.clear()
    assert len(figures.measure_designs(problem, problem.held_out, designs, fitters)) == len(designs)
    assert fitted == []
    assert len(figures.measure_designs(problem, problem.held_out, designs, ProblemFitters(problem))) == len(designs)
    assert len(fitted) == len(set(fitted)) < sum(len(design.stages) for design in designs)


def test_floors_are_in_reach() -> None:
    """Round floors, ascending, above the base rate, up to the best accuracy that covers at least half of what any design does.

    Where nothing is accepted there is none: 0 is no floor.
    """
    seen: Any = [SimpleNamespace(accuracy=0.5, coverage=1.0), SimpleNamespace(accuracy=1.0, coverage=0.1)]
    assert accuracy_floors(seen, 0.4) == [0.5]
    assert accuracy_floors(seen, 0.5) == []
    rejecting: Any = [SimpleNamespace(accuracy=0.0, coverage=0.0)]
    assert accuracy_floors(rejecting, 0.0) == []


def test_a_warning_is_one_line_once_and_those_for_authors_of_libraries_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The same words from two places are shown once, on standard error, in one line; deprecations are not the user's."""
    with print_warnings("emsco-train", OptionNames(Namespace(max_stages=3))):
        warnings.warn("look\n  out", UserWarning, stacklevel=1)
        warnings.warn("look out", UserWarning, stacklevel=1)
        warnings.warn("old name", DeprecationWarning, stacklevel=1)
        warnings.warn("max_stages is 3", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "emsco-train: warning: look out\nemsco-train: warning: --max-stages is 3\n"


def message_texts(path: Path) -> list[str]:
    """Return the texts in a module that users see: of errors, and those with figures in them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shown = [
        node.exc if isinstance(node, ast.Raise) else node
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise | ast.JoinedStr)
    ]
    parts = [part for node in shown if node is not None for part in ast.walk(node)]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def test_messages_of_the_library_name_no_option_of_a_command() -> None:
    """No text outside the commands and the demonstration, which shows commands, holds an option such as --force."""
    package = Path(emsco_train.__file__).parent
    rooms = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ("cli", "demo", "report")]
    named = [text for path in rooms for text in message_texts(path) if re.search(r"(?<![\w-])--[a-z]", text)]
    assert named == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("settings: max_stages is 99: an integer; seed is -1", "settings: --max-stages is 99: an integer; --seed is -1"),
        ("pinned holds 'seed', which is no feature", "--pin holds 'seed', which is no feature"),
        ("(features: size, max_stages, time_limit)", "(features: size, max_stages, time_limit)"),
        ("none satisfies `max_cost=4`, recall of x >= 1", "none satisfies --max-cost 4, recall of x >= 1"),
        ("`max_stages`: expected 1 to 4", "--max-stages: expected 1 to 4"),
        ("max_stages: a column, max_stages=3", "max_stages: a column, max_stages=3"),
        ("runs/max_stages/x: 'max_stages' and max_stages.csv", "runs/max_stages/x: 'max_stages' and max_stages.csv"),
        ("the seed is sown", "the seed is sown"),
        (
            "or use `force=True`, `search='evolve'`, `data` or `costs=None`",
            "or use --force, --search evolve, --data or no --costs",
        ),
        ("`kinds={'a b': 'numeric'}`, `drop=('',)`", "--kind 'a b=numeric', --drop ''"),
        ("`features={'a': FeatureOptions(kind='categorical')}`", "--kind a=categorical"),
        ("line 3 holds `a=(`, `a={**b}` and `x=f()`", "line 3 holds `a=(`, `a={**b}` and `x=f()`"),
    ],
)
def test_commands_call_arguments_by_their_options(message: str, expected: str) -> None:
    """Names in the forms that messages use become options; words, paths and what users wrote stay as they are."""
    assert OptionNames(Namespace(max_stages=3, seed=1)).translate(message) == expected
