"""Cross-fitted runs: what the commands say, write and read again, and what they warn of."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from emsco_runtime.bundle.reading import read_bundle
from emsco_train.errors import DataError, DesignError
from emsco_train.export.searched_design import check_counts
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.report import write_report
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.opening import open_run
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import train
from tests.processes import run, run_expecting_error, run_successfully, without_progress
from tests.train.sample_tables import HEADER, MixedTable, mixed_rows, read_rows, wide_rows, write_mixed, write_rows


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> MixedTable:
    """Write the mixed table."""
    return write_mixed(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def trained(mixed: MixedTable, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Train without a word about folds; return what was printed, and the run."""
    path = tmp_path_factory.mktemp("runs") / "mixed"
    return run_successfully("emsco-train", *mixed.options(), "--out", path), path


def test_the_commands_say_cross_fitted(mixed: MixedTable, trained: tuple[str, Path], tmp_path: Path) -> None:
    """Training, export, inspection and report name the folds, and call figures cross-fitted; no word of validation rows."""
    shown, path = trained
    assert "splits   train 180, test 60, certify 60\nfolds    5, cross-fitted: each train row is scored by models of" in shown
    assert "designs on the front; of these, cross-fitted, with bounds at level 0.85 (--sure), then on the test rows:" in shown
    exported = run_successfully("emsco-export", path, "--out", tmp_path / "bundle")
    assert "\ncross-fitted coverage " in exported
    assert "\ntest         coverage " in exported
    assert "verified     300 rows of train, test, certify:" in exported
    assert "alidation" not in shown + exported
    floors = ["--min-accuracy", "0.7", "--min-coverage", "0.3"]
    exported = run_successfully("emsco-export", path, "--out", tmp_path / "floors", *floors)
    assert "the most worth its cost with accuracy >= 0.7, coverage >= 0.3 on cross-fitted rows, by bounds" in exported
    message = run_expecting_error(1, "emsco-export", path, "--out", tmp_path / "other", "--max-error", "0.001")
    assert re.search(r"nearest is \S+ \(\d+ wrong of \d+ accepted cross-fitted rows\)", message)
    assert "alidation" not in exported + message
    page = write_report(path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<dt>Cross-fitted</dt><dd>5 folds of 180 train rows</dd>" in page
    assert '<th colspan="3" scope="colgroup">cross-fitted</th>' in page
    assert "<strong>Cross-fitted</strong> figures are what the search saw" in page
    assert "Designs by mean cost and accuracy, cross-fitted" in page
    assert "By bounds on the cross-fitted figures" in page
    assert "Bounds from the cross-fitted rows at level 0.85" in page
    decided = ["--run", path, "--label", "verdict", "--out", tmp_path / "decisions.csv"]
    assert "rows       60" in run_successfully("emsco-run", tmp_path / "bundle", mixed.data, *decided, "--split", "test")
    message = run_expecting_error(1, "emsco-run", tmp_path / "bundle", mixed.data, *decided, "--split", "validation")
    assert "there is no split 'validation'; it has certify, test, train" in message


@pytest.mark.uncounted
def test_without_test_rows_cross_fitted_figures_are_expected(mixed: MixedTable, tmp_path: Path) -> None:
    """The pool is everything: expected figures are cross-fitted, on other folds than the choice; with floors, likely ones too."""
    path = tmp_path / "run"
    run_successfully("emsco-train", *mixed.options(), "--shares", "1,0,0,0", "--folds", 3, "--out", path)
    exported = run_successfully("emsco-export", path, "--out", tmp_path / "bundle")
    assert "\ncross-fitted coverage " in exported
    assert "\ncross-fitted again coverage " in exported
    expected = read_bundle(tmp_path / "bundle").manifest.expected
    opened = open_run(path)
    design, again = opened.front.knee, opened.problem.with_other_folds()
    assert (expected.split, expected.rows) == ("cross-fitted again", 300)
    evaluation = evaluate_validation(again, design.stages, design.stage_thresholds)
    assert expected == evaluation.expected(again.validation.target, again.validation.name, labels=again.labels)
    assert "300 cross-fitted again rows" in run_successfully("emsco-inspect", tmp_path / "bundle")
    page = write_report(path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Shares are of the 300 cross-fitted rows." in page
    floors = ["--min-accuracy", "0.7", "--min-coverage", "0.3"]
    shown, again = (run_successfully("emsco-export", path, "--out", tmp_path / name, *floors) for name in ("one", "two"))
    (line,) = [line for line in shown.splitlines() if line.startswith("likely ")]
    likely = read_bundle(tmp_path / "one").manifest.expected.likely
    assert likely is not None
    assert line.startswith("likely       expected on new rows: coverage ")
    assert f"accuracy {100 * likely.accuracy:.1f} %" in line
    assert line in again.splitlines()
    assert line in run_successfully("emsco-inspect", tmp_path / "one").splitlines()


@pytest.mark.parametrize("method", ["exhaustive", "evolve"])
@pytest.mark.parametrize("column", [None, "client", "day"])
def test_a_run_is_opened_with_its_folds(method: str, column: str | None, tmp_path: Path) -> None:
    """Plain, by groups and by time, searched on a sample: the problem is rebuilt, and every design has its figures there."""
    rows = [[f"client-{number // 6}", f"{number // 10}", *row] for number, row in enumerate(mixed_rows())]
    data = write_rows(tmp_path / "t.csv", ["client", "day", *HEADER], rows)
    keys = {"client": ("--group-column", "client"), "day": ("--time-column", "day")}
    options = ["--data", data, "--label", "verdict", "--threshold", "0.8", "--max-stages", 2, "--search", method]
    options += ["--population", 20, "--generations", 3, "--folds", 4, "--max-search-rows", 120, "--seed", 7]
    options += ["--stages", "curved" if method == "evolve" else "straight"]
    for name, key in keys.items():
        options += key if name == column else ("--drop", name)
    shown = run_successfully("emsco-train", *options, "--out", tmp_path / "run")
    opened = open_run(tmp_path / "run")
    problem = opened.problem
    assert (problem.folds, len(problem.parts), opened.run.measured.rows) == (4, 4, len(problem.validation))
    for design in opened.front:
        check_counts(problem, design)
    folds = [row["fold"] for row in read_rows(tmp_path / "run" / "splits.csv")]
    for number, part in enumerate(problem.parts, start=1):
        assert [row for row, fold in enumerate(folds) if fold == str(number)] == part.scored.rows.tolist()
    where: dict[str, set[str]] = {}
    for row, fold in zip(rows, folds, strict=True):
        where.setdefault(row[0], set()).add(fold)
    assert (max(map(len, where.values())) == 1) == (column == "client")
    if column == "day":
        first = len(problem.train) - len(problem.validation)
        assert first == folds.index("1") > 0
        assert (
            f"folds    4, cross-fitted in order of time: {len(problem.validation)} train rows, scored by models of ear" in shown
        )
        assert f"the first {first} train rows only fit, and are not counted" in shown
        page = write_report(tmp_path / "run", tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"in order of time; the first {first} rows only fit, and are not counted" in page
    else:
        assert len(problem.validation) == len(problem.train)


def test_data_whose_labels_have_changed_are_refused(tmp_path: Path) -> None:
    """A label that is gone from the train rows is named."""
    rows = [[*row[:-1], ("ham", "spam", "news")[place % 3]] for place, row in enumerate(wide_rows(120, 2))]
    path, header = tmp_path / "t.csv", ["a", "b", "label"]
    request = TrainRequest({None: str(write_rows(path, header, rows))}, Columns(), thresholds=(0.5,), folds=3)
    train(prepare(request), tmp_path / "run")
    assert open_run(tmp_path / "run").run.labels == ("ham", "news", "spam")
    write_rows(path, header, [[*row[:-1], row[-1].replace("news", "ham")] for row in rows])
    with pytest.raises(DataError, match=r"changed since the run was trained: the label 'news' is gone\. Give the data"):
        open_run(tmp_path / "run")


def test_data_whose_groups_have_changed_are_refused(tmp_path: Path) -> None:
    """The fingerprint holds the folds: other groups in the same table make other folds, and the export says so."""
    rows = [[str(number // 3), *row] for number, row in enumerate(wide_rows(120, 2))]
    header = ["client", "a", "b", "label"]
    request = TrainRequest(
        {None: str(write_rows(tmp_path / "t.csv", header, rows))}, Columns(group="client"), thresholds=(0.7,), folds=3
    )
    train(prepare(request), tmp_path / "run")
    open_run(tmp_path / "run")
    # The rows stay in their splits; clients of the pool are torn apart.
    write_rows(tmp_path / "t.csv", header, [[str(number // 2), *row[1:]] for number, row in enumerate(rows)])
    with pytest.raises(DataError, match="values have changed since the run was trained"):
        open_run(tmp_path / "run")


def test_ready_files(tmp_path: Path) -> None:
    """Given as files, train and validation rows stay apart unless folds are asked for; groups count for the certificate."""
    rows = [[str(number // 3), *row] for number, row in enumerate(wide_rows(200, 3))]
    header = ["client", "f0", "f1", "f2", "label"]
    paths = {"train": rows[:120], "validation": rows[120:]}
    options: list[object] = ["--threshold", "0.8"]
    for name, part in paths.items():
        options += [f"--{name}", write_rows(tmp_path / f"{name}.csv", header, part)]
    apart = run_successfully("emsco-train", *options, "--drop", "client", "--out", tmp_path / "apart")
    assert "splits   train 120, validation 80\ncosts" in apart
    message = run_expecting_error(2, "emsco-train", *options, "--time-column", "client", "--out", tmp_path / "none")
    assert "ready splits are not divided again: leave out the time column, or use --folds 5" in message
    certify = write_rows(
        tmp_path / "certify.csv", header, [[f"c{number // 4}", *row] for number, row in enumerate(wide_rows(80, 3))]
    )
    grouped = (*options, "--certify", certify, "--group-column", "client", "--out", tmp_path / "grouped")
    assert "splits   train 120, validation 80, certify 80" in run_successfully("emsco-train", *grouped)
    run_successfully("emsco-export", tmp_path / "grouped", "--out", tmp_path / "bundle")
    certificate = read_bundle(tmp_path / "bundle").manifest.certificate
    assert certificate is not None
    assert (certificate.rows, certificate.drawn_from) == (20, 80)
    pooled = run_successfully("emsco-train", *options, "--group-column", "client", "--folds", 4, "--out", tmp_path / "pooled")
    assert "splits   train 200\nfolds    4, cross-fitted" in pooled
    assert open_run(tmp_path / "pooled").run.data.folds == 4


def test_wrong_numbers_of_folds(mixed: MixedTable, tmp_path: Path) -> None:
    """What no table could satisfy is refused with status 2; what this table cannot, with status 1 and the remedy."""
    message = run_expecting_error(2, "emsco-train", *mixed.options(), "--folds", 1, "--out", tmp_path / "run")
    assert "--folds is 1: expected 2 or more, or 0 for one validation split; leave it out" in message
    options = ["--group-column", "colour", "--folds", 9]
    rows = [row if row[3] else [*row[:3], "red", *row[4:]] for row in mixed_rows()]
    table = MixedTable(write_rows(tmp_path / "t.csv", HEADER, rows), mixed.costs)
    message = run_expecting_error(1, "emsco-train", *table.options(), *options, "--out", tmp_path / "run")
    assert "for 9 folds: use fewer folds, or --folds 0" in message
    with pytest.raises(DesignError, match="folds is 'five'"):
        TrainRequest({None: "t.csv"}, Columns(), thresholds=(0.9,), folds="five")  # type: ignore[arg-type]


def test_rare_labels_and_repeated_rows_are_warned_of(mixed: MixedTable, tmp_path: Path) -> None:
    """On the page about the table, with the options of the command; the run is made, and its export does not warn again."""
    rows = mixed_rows()
    rows[3][-1] = "eggs"
    table = MixedTable(write_rows(tmp_path / "t.csv", HEADER, [*rows, *rows[10:40]]), mixed.costs)
    ended = run("emsco-train", *table.options(), "--out", tmp_path / "run")
    assert ended.returncode == 0
    assert "warning" not in ended.stderr
    warned = [line for line in ended.stdout.splitlines() if line.startswith("note ")]
    assert len(warned) == 2
    rare = "note     label 'eggs' has no cross-fitted and no test and no certify rows, so nothing is known about it"
    assert warned[0].startswith(rare)
    assert "         --drop-label leaves the rows of a label out" in ended.stdout
    assert " of 329 rows occur again, with equal features and label, in another fold or split" in warned[1]
    assert warned[1].endswith("keep rows of one origin together with --group-column, or drop the repeats")
    assert "         1 row of labels that are too rare only fit, and are not counted" in ended.stdout
    exported = run("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    assert (exported.returncode, without_progress(exported.stderr)) == (0, [])
    page = write_report(tmp_path / "run", tmp_path / "report.html").read_text(encoding="utf-8")
    assert "1 row of rare labels only fit, and are not counted" in page


def test_large_pools_have_no_folds_by_default(tmp_path: Path) -> None:
    """Above 10,000 rows of the pool, the validation rows measure designs, unless folds are asked for."""
    draw = np.random.default_rng(0)
    values = draw.normal(size=(17_000, 2))
    labels = (values.sum(axis=1) + draw.normal(size=17_000) > 0).astype(int)
    data = write_rows(tmp_path / "t.csv", ["a", "b", "label"], np.column_stack([values, labels]).tolist())
    request = TrainRequest({None: str(data)}, Columns(), thresholds=(0.8,))
    assert prepare(request).problem.folds == 0
    assert prepare(TrainRequest({None: str(data)}, Columns(), thresholds=(0.8,), folds=2)).problem.folds == 2


def test_a_run_of_one_split_says_validation(mixed: MixedTable, tmp_path: Path) -> None:
    """--folds 0 is the paper's way: four splits, no fold in splits.csv, and figures on the validation rows."""
    shown = run_successfully("emsco-train", *mixed.options(), "--folds", 0, "--out", tmp_path / "run")
    assert "splits   train 120, validation 60, test 60, certify 60\ncosts" in shown
    assert "on the validation rows, with bounds at level 0.85 (--sure), then on the test rows:" in shown
    assert {row["fold"] for row in read_rows(tmp_path / "run" / "splits.csv")} == {""}
    record = RunFolder(tmp_path / "run").read()
    assert (record.data.folds, record.measured.split, record.measured.rows) == (0, "validation", 60)
    page = write_report(tmp_path / "run", tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<dt>Cross-fitted</dt>" not in page
