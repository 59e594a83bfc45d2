"""curves.json: what a run with curved stages learned, as it was learned; and no such file for straight stages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_train import FeatureOptions, Problem
from emsco_train.errors import DataError
from emsco_train.report import write_report
from emsco_train.runs.curves_file import CURVES_NAME, CurvesFile
from emsco_train.runs.folder import RunFolder
from tests.processes import run_successfully
from tests.train.sample_tables import write_rows, write_wide

LABELS = ("ham", "list", "spam")


def curved_table(rows: int = 400, labels: int = 2, seed: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    """Return columns of which no straight line tells much, with gaps, rare categories and a yes/no column; and the labels."""
    rng = np.random.default_rng(seed)
    size, day, flag = rng.normal(size=rows), rng.integers(0, 4, rows), rng.random(rows) < 0.3
    score = np.stack([3 * np.abs(size) - 2 + flag, 2.0 * (day == 1) - 1, np.zeros(rows)], axis=1)[:, :labels]
    target = np.array(LABELS[:labels])[(score + rng.gumbel(0, 0.2, (rows, labels))).argmax(axis=1)]
    words = np.array(["mon", "tue", "wed", "thu"], dtype=object)[day]
    words[:5] = "holiday"
    return {
        "size": np.where(rng.random(rows) < 0.1, np.nan, size),
        "day": np.where(rng.random(rows) < 0.1, None, words),
        "flag": flag,
    }, target


@pytest.mark.parametrize("labels", [2, 3])
def test_what_was_learned_is_what_is_written(labels: int) -> None:
    """Knots, categories and levels of the encoder that models are fitted with; all rows."""
    columns, target = curved_table(labels=labels)
    options = {"day": FeatureOptions(min_category=20, unknown="ignore")}
    problem = Problem.of(columns, target, features=options, stages="curved", threshold=0.6)
    file = CurvesFile.of(problem)
    assert file is not None
    assert CurvesFile.read(file.text(), CURVES_NAME) == file
    assert (file.strength, file.outputs) == (problem.curve_strength, LABELS[1:2] if labels == 2 else LABELS)
    codes = problem.train.codes
    for entry, feature, block, own in zip(file.features, problem.features, problem.encoder.blocks, codes.T, strict=True):
        assert block.curve is not None
        assert (entry.name, entry.kind, entry.knots) == (feature.name, feature.kind, block.curve.knots)
        assert entry.categories == (feature.categories or None)
        for levels, log_odds, gap in zip(block.curve.levels, entry.log_odds, entry.gap_log_odds, strict=True):
            assert levels == (*log_odds, gap)
        assert sum(entry.rows) + entry.gap_rows + entry.other_rows == len(problem.train)
        assert entry.gap_rows == np.isnan(own).sum()
        for cell, rows in enumerate(entry.rows):
            # By brute force: the rows that the curve takes to this cell.
            if entry.knots is None:
                assert rows == (own == cell).sum()
            else:
                ends = (-np.inf, *entry.knots, np.inf)
                assert rows == ((own >= ends[cell]) & (own < ends[cell + 1])).sum()
    assert [entry.other_rows > 0 for entry in file.features] == [False, True, False]


def test_straight_stages_have_no_curves() -> None:
    """Neither where they were asked for, nor where curves predict no better than straight lines."""
    rng = np.random.default_rng(1)
    columns = {"a": rng.normal(size=300), "b": rng.normal(size=300)}
    target = columns["a"] + rng.normal(size=300) > 0
    for stages in ("straight", "curved"):
        assert CurvesFile.of(Problem.of(columns, target, stages=stages)) is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            lambda document: document["features"][0]["rows"].pop(),
            "feature 'size' does not have a number for each cell and output",
        ),
        (lambda document: document["features"][1]["log_odds"][0].pop(), "feature 'day' does not have"),
        (lambda document: document["features"][1].update(knots=[1.0]), "feature 'day' does not have"),
        (lambda document: document["outputs"].append("more"), "feature 'size' does not have"),
        (lambda document: document.update(version=2), "version"),
    ],
)
def test_a_file_of_another_shape_is_refused(change: Any, fault: str) -> None:
    """The error names the file and the place, and what to do."""
    file = CurvesFile.of(Problem.of(*curved_table(), stages="curved", threshold=0.6))
    assert file is not None
    document = json.loads(file.text())
    change(document)
    with pytest.raises(DataError, match=rf"the run/{re.escape(CURVES_NAME)}: .*{re.escape(fault)}.*\. Train again"):
        CurvesFile.read(json.dumps(document), f"the run/{CURVES_NAME}")


def test_runs_as_processes(tmp_path: Path) -> None:
    """With curves: a line of the output, the file, and its section of the page. Replaced by straight ones, none of these."""
    columns, target = curved_table()
    rows = [
        ["" if value is None or value != value else value for value in row] for row in zip(*columns.values(), target, strict=True)
    ]
    curved = write_rows(tmp_path / "curved.csv", [*columns, "label"], rows)
    straight = write_wide(tmp_path / "straight.csv", 300, 3)
    run = tmp_path / "run"
    options = ["--threshold", "0.6", "--stages", "curved", "--out", run]
    shown = run_successfully("emsco-train", "--data", curved, *options)
    record = RunFolder(run).read()
    assert record.stages == "curved"
    assert CURVES_NAME in record.files
    file = CurvesFile.read((run / CURVES_NAME).read_text(encoding="utf-8"), CURVES_NAME)
    assert [entry.name for entry in file.features] == list(columns)
    stages = f"curved (strength {file.strength:g})"
    assert f"\nstages   {stages}\n" in shown
    page = write_report(run).read_text(encoding="utf-8")
    assert f"<dt>Stages</dt><dd>{stages}</dd>" in page
    assert page.count('<svg class="curve"') == len(columns)

    shown = run_successfully("emsco-train", "--data", straight, *options, "--force")
    assert "\nstages   straight: curves predicted no better here\n" in shown
    assert not (run / CURVES_NAME).exists()
    page = write_report(run).read_text(encoding="utf-8")
    assert "<dt>Stages</dt><dd>straight: curves predicted no better here</dd>" in page
    assert "curves-title" not in page
    assert "\nstages " not in run_successfully(
        "emsco-train", "--data", straight, "--threshold", "0.6", "--stages", "straight", "--check"
    )
