"""The files of a run: what they hold, what they never hold, and that they are the same for the same seed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emsco_train import CostModel, Front
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.labels_file import LabelsFile
from tests.processes import run_successfully
from tests.train.sample_tables import HEADER, MixedTable, mixed_rows, read_rows, write_mixed, write_rows, write_wide

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

PLAIN = ("front.csv", "front.json", "splits.csv", "costs.toml", "calibration.json", "labels.json", "check.txt")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> MixedTable:
    """Write the mixed table."""
    return write_mixed(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def run(mixed: MixedTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with two thresholds."""
    path = tmp_path_factory.mktemp("runs") / "mixed"
    run_successfully("emsco-train", *mixed.options(), "--stages", "curved", "--threshold", "ham=0.7,spam=0.9", "--out", path)
    return path


def without_timestamps(path: Path) -> dict[str, Any]:
    """Return run.json without the time and how long it took."""
    document: dict[str, Any] = json.loads((path / "run.json").read_text(encoding="utf-8"))
    del document["created"]
    for threshold in document["thresholds"]:
        del threshold["elapsed_s"]
    return document


def test_front_csv_has_the_agreed_columns(run: Path) -> None:
    """Names and order of the columns, one row per design of front.json, fittest first, and numbers that read back exactly."""
    text = (run / "front.csv").read_text(encoding="utf-8")
    assert text.splitlines()[0] == (
        "id,threshold,stages,excluded,fitness,validation_coverage,validation_accuracy,validation_cost,"
        "test_coverage,test_accuracy,test_cost,coverage_bound,accuracy_bound,cost_bound,"
        "validation_recall_of_ham,validation_accuracy_of_ham,validation_recall_of_spam,validation_accuracy_of_spam,"
        "test_recall_of_ham,test_accuracy_of_ham,test_recall_of_spam,test_accuracy_of_spam,upgrade"
    )
    front, rows = Front.from_json((run / "front.json").read_bytes()), read_rows(run / "front.csv")
    labels = LabelsFile.read((run / "labels.json").read_text(), "labels.json")
    assert (labels.split, labels.labels) == ("test", ("ham", "spam"))
    assert [row["id"] for row in rows] == [design.id for design in front]
    for row, design in zip(rows, front, strict=True):
        own = (design.fitness, design.coverage, design.accuracy, design.cost)
        assert tuple(float(row[name]) for name in list(row)[4:8]) == own
        bounds = design.bounds(0.85)
        assert tuple(float(row[name]) for name in list(row)[11:14]) == (bounds.coverage, bounds.accuracy, bounds.cost)
        of_labels = [figure for counts in design.labels for figure in (counts.recall, counts.accuracy)]
        assert [float(row[name]) for name in list(row)[14:18]] == of_labels
        tested = [figure for counts in labels.counts(design.id) for figure in (counts.recall, counts.accuracy)]
        assert [float(row[name]) for name in list(row)[18:22]] == tested
        assert bounds.cost >= design.cost
        assert row["threshold"] == design.threshold_text
        assert row["stages"] == "|".join("+".join(stage) for stage in design.stages)
        assert 0 < float(row["test_cost"]) <= front.full_cost
        assert 0 <= float(row["test_accuracy"]) <= 1
    assert {row["threshold"] for row in rows} == {"0.8", "0.7,0.9"}


def test_splits_csv_names_the_split_of_every_row(run: Path, mixed: MixedTable) -> None:
    """Each row once, in order, 60 / 20 / 20 %, the train rows in five folds, and the labels in equal parts."""
    rows = read_rows(run / "splits.csv")
    assert [row["row"] for row in rows] == [str(number) for number in range(300)]
    assert Counter(row["split"] for row in rows) == {"train": 180, "test": 60, "certify": 60}
    assert Counter(row["fold"] for row in rows) == {"": 120} | dict.fromkeys("12345", 36)
    assert all((row["fold"] != "") == (row["split"] == "train") for row in rows)
    labels = [row["verdict"] for row in read_rows(mixed.data)]
    spam = Counter(row["fold"] or row["split"] for row, label in zip(rows, labels, strict=True) if label == "spam")
    assert max(abs(spam[name] - labels.count("spam") / 5) for name in ("test", "certify")) <= 1
    assert max(abs(spam[name] - labels.count("spam") * 3 / 25) for name in "12345") <= 1


def test_run_json_says_how_it_was_made(run: Path, mixed: MixedTable) -> None:
    """It is readable and strict, and holds settings, seed, versions, the columns, and the fingerprint and place of the data."""
    record = RunFolder(run).read()
    assert record.data.files[0].path == str(mixed.data)
    assert (record.data.label, record.data.files[0].rows, len(record.data.fingerprint)) == ("verdict", 300, 64)
    assert {"emsco", "python", "numpy", "onnx"} <= set(record.versions)
    assert (record.search.seed, record.search.method, record.search.settings["population"]) == (0, "auto", 300)
    assert [entry.thresholds for entry in record.thresholds] == [(0.8, 0.8), (0.7, 0.9)]
    assert [entry.stopped for entry in record.thresholds] == ["complete", "complete"]
    assert [(column.name, column.kind, column.missing) for column in record.columns] == [
        ("size", "numeric", "impute"),
        ("rate", "numeric", "forbid"),
        ("flag", "boolean", "forbid"),
        ("colour", "categorical", "impute"),
        ("count", "numeric", "forbid"),
    ]
    assert (record.data.folds, record.measured.split, record.measured.rows) == (5, "cross-fitted", 180)
    assert record.rows == {"train": 180, "test": 60, "certify": 60}
    assert set(record.files) == {*PLAIN, "curves.json"}
    assert CostModel.from_file(run / "costs.toml") == CostModel.from_file(mixed.costs)


def test_nothing_of_the_certify_rows_is_shown(mixed: MixedTable, tmp_path: Path) -> None:
    """Other labels in the certify rows, and nothing else: every file is the same to the byte, but for the fingerprints."""
    rows = mixed_rows()
    parts = {"train": rows[:120], "validation": rows[120:180], "test": rows[180:240]}
    options: list[object] = ["--label", "verdict", "--costs", mixed.costs, "--threshold", "0.8"]
    for name, part in parts.items():
        options += [f"--{name}", write_rows(tmp_path / f"{name}.csv", HEADER, part)]
    other = {"ham": "spam", "spam": "ham"}
    shown = []
    for name, certify in (("true", rows[240:]), ("false", [[*row[:-1], other[row[-1]]] for row in rows[240:]])):
        table = write_rows(tmp_path / "certify.csv", HEADER, certify)
        shown.append(run_successfully("emsco-train", *options, "--certify", table, "--out", tmp_path / "runs" / name))
    ours, theirs = tmp_path / "runs" / "true", tmp_path / "runs" / "false"
    for file in PLAIN:
        assert (ours / file).read_bytes() == (theirs / file).read_bytes()
    documents = [without_timestamps(ours), without_timestamps(theirs)]
    fingerprints = [(document["data"].pop("fingerprint"), document["data"]["files"][3].pop("sha256")) for document in documents]
    assert fingerprints[0][0] != fingerprints[1][0]
    assert fingerprints[0][1] != fingerprints[1][1]
    assert documents[0] == documents[1]
    # Nor does the output show more than how many rows there are of each label.
    lines = [
        [line for line in text.replace("runs/true", "runs/false").splitlines() if not line.startswith("labels")] for text in shown
    ]
    assert lines[0] == lines[1]


def test_the_same_seed_gives_the_same_files_on_any_number_of_cores(mixed: MixedTable, tmp_path: Path) -> None:
    """Exact and genetic search, with one thread and with two: byte for byte, but for the time and how long it took."""
    wide = write_wide(tmp_path / "wide.csv", 200, 8)
    genetic = ["--data", wide, "--threshold", "0.8", "--search", "evolve", "--generations", 10, "--population", 30]
    for name, options in (("exact", [*mixed.options(), "--stages", "curved"]), ("genetic", genetic)):
        runs = [tmp_path / name / jobs for jobs in ("1", "2")]
        for path in runs:
            run_successfully("emsco-train", *options, "--seed", 5, "--jobs", path.name, "--out", path)
        for file in PLAIN:
            assert runs[0].joinpath(file).read_bytes() == runs[1].joinpath(file).read_bytes()
        assert without_timestamps(runs[0]) == without_timestamps(runs[1])


def test_another_seed_divides_the_rows_otherwise(run: Path, mixed: MixedTable, tmp_path: Path) -> None:
    """The seed reaches the splits, and is recorded."""
    run_successfully("emsco-train", *mixed.options(), "--seed", 1, "--out", tmp_path / "run")
    assert (tmp_path / "run" / "splits.csv").read_bytes() != (run / "splits.csv").read_bytes()
    assert RunFolder(tmp_path / "run").read().search.seed == 1
