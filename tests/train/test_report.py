"""The report of a run: a page that holds all designs, needs nothing else, and chooses as `Front.select` does."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_runtime.bundle.summary import percent_at_least
from emsco_train.cli import phase_progress
from emsco_train.cli.report import main
from emsco_train.costs.cost_model import CostGroup, CostModel
from emsco_train.designs.chromosome import compress
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.knee import find_knee
from emsco_train.designs.precision import Precision
from emsco_train.designs.threshold_text import format_threshold
from emsco_train.errors import DataError, DesignError, SelectionError
from emsco_train.guarantee.calibration import RankedScores, StageCalibration, add_warning, calibrate_ranked
from emsco_train.report import write_report
from emsco_train.report.axes import Axis, round_step
from emsco_train.report.cascade_diagram import draw_cascade, wrap_names
from emsco_train.report.curve_cells import MAX_CELLS, CurveCells, format_knots
from emsco_train.report.design_view import design_view
from emsco_train.report.markers import COLOURS, SHAPES, CoverageColours, shape_index
from emsco_train.report.number_format import CostFormat, format_duration
from emsco_train.report.page import render_page
from emsco_train.report.reliability_diagram import wilson_interval
from emsco_train.report.report_data import DesignData, ReportData, StageData, read_report_data
from emsco_train.report.scatter_plot import draw_scatter
from emsco_train.runs.calibration_file import CalibrationFile, StageEntry
from emsco_train.runs.curves_file import CURVES_NAME, CurveEntry, CurvesFile
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.front_csv import format_front_csv
from emsco_train.runs.front_measurement import MeasuredDesign
from emsco_train.runs.labels_file import LabelsFile
from emsco_train.runs.run_file import (
    ColumnEntry,
    CountsEntry,
    DataEntry,
    FileEntry,
    MeasuredRows,
    RunFile,
    SearchEntry,
    ThresholdEntry,
)
from emsco_train.support.phases import Phase
from tests.processes import run as run_command, without_progress

COMMAND = [sys.executable, "-m", "emsco_train.cli.report"]
ROWS = 200


def label_counts(labels: Sequence[str | int]) -> tuple[LabelCounts, ...]:
    """Return counts of which those of the last label say that it is never given."""
    first = [LabelCounts(label=label, rows=150, accepted=120, accepted_as=130, right=115) for label in labels[:-1]]
    return (*first, LabelCounts(label=labels[-1], rows=50, accepted=10, accepted_as=0, right=0))


HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=//x.example/y onerror=alert(2)>",
    "a\"b'c & <!-- d",
    "k\u0007\u0000ey",
    "名前" * 60,
    "a+b|c",
]


def make_run(
    folder: Path,
    *,
    names: Sequence[str] = ("age", "weight", "blood", "scan"),
    designs: int = 12,
    thresholds: Sequence[Sequence[float]] = ((0.7, 0.7), (0.9, 0.9)),
    labels: tuple[str | int, ...] = ("ill", "well"),
    has_test_rows: bool = True,
    stopped: str = "complete",
    most_stages: int = 4,
    certify: bool = True,
    whole_accepted: int = 150,
    curves: CurvesFile | None = None,
    seed: int = 0,
) -> Path:
    """Write a run with made-up designs, through the functions that write real ones."""
    rng = np.random.default_rng(seed)
    group = CostGroup("the <i>lab</i>", 2.5, tuple(names[-2:]))
    costs = CostModel.from_mapping({name: float(place + 1) for place, name in enumerate(names)}, groups=[group], unit="€ & <b>")
    full = costs.meter().cost(names)
    genes = compress(rng.integers(-1 if len(names) > 3 else 0, most_stages, (designs, len(names))).astype(np.int8))
    genes[genes.max(axis=1) < 0] = 0
    made = {}
    for place, row in enumerate(genes):
        accepted = int(rng.integers(1, ROWS + 1))
        right = int(rng.integers(accepted // 2, accepted + 1))
        figures = {"coverage": accepted / ROWS, "accuracy": right / accepted, "cost": float(rng.uniform(1.0, full))}
        design = Design.of(row, names, thresholds[place % len(thresholds)], **figures, ties=int(rng.integers(1, 4)))
        made[design.id] = design
    front = Front(made.values(), full_cost=full, unit=costs.unit)
    measured = [
        MeasuredDesign(design, _figures(rng, full), _calibration(rng, len(design.stages)), labels=label_counts(labels))
        for design in front
    ]
    whole = (CountsEntry(split="validation", rows=ROWS, accepted=whole_accepted, right=whole_accepted * 9 // 10, cost=full),)
    whole += (CountsEntry(split="test", rows=ROWS, accepted=140, right=120, cost=full),) if has_test_rows else ()
    run = RunFile(
        created="2026-01-02T03:04:05Z",
        versions={"emsco": "1.2.3", "python": "3.11"},
        data=DataEntry(
            files=(FileEntry(path="data/<b>.csv", split=None, rows=4 * ROWS, sha256="0" * 64),),
            label="label",
            group_column=None,
            time_column=None,
            drop=(),
            folds=0,
            fingerprint="f" * 64,
        ),
        columns=tuple(
            ColumnEntry(name=name, kind="categorical", missing="impute", unknown="fail", categories=3, gaps=1) for name in names
        ),
        labels=labels,
        C=1.0,
        class_weight=None,
        stages="straight" if curves is None else "curved",
        search=SearchEntry(
            method="auto",
            settings={"pinned": [1], "polish": True, "constraints": {"max_cost": 3.0}},
            seed=0,
            max_search_rows=None,
            time_limit=None,
        ),
        thresholds=tuple(
            ThresholdEntry(
                thresholds=tuple(level), method="evolve", stopped=stopped, designs=99, fits=9, elapsed_s=150.0, everything=whole
            )
            for level in thresholds
        ),
        rows={"train": ROWS, "validation": ROWS}
        | ({"test": ROWS} if has_test_rows else {})
        | ({"certify": ROWS} if certify else {}),
        measured=MeasuredRows(split="validation", rows=ROWS),
        files={},
    )
    split = "test" if has_test_rows else "validation"
    files = {
        "front.csv": format_front_csv(measured, has_test_rows=has_test_rows),
        "front.json": front.to_json(),
        "costs.toml": costs.to_toml(),
        "calibration.json": CalibrationFile.of(split, measured).text(),
        "labels.json": LabelsFile.of(split, labels, measured).text(),
        **({} if curves is None else {CURVES_NAME: curves.text()}),
    }
    place = RunFolder(folder)
    place.begin(resume=False, force=True)
    place.finish(files, run)
    return folder


def _figures(rng: np.random.Generator, full: float) -> Counts:
    accepted = int(rng.integers(0, ROWS + 1))
    return Counts(ROWS, accepted, accepted // 2, full / 3)


def _calibration(rng: np.random.Generator, stages: int, needed: float = 0.75) -> tuple[StageCalibration, ...]:
    made = []
    reached = np.ones(ROWS, dtype=bool)
    for number in range(1, stages + 1):
        confidence = rng.uniform(0.5, 1.0, ROWS)
        accepted = reached & (confidence >= needed)
        right = rng.random(ROWS) < 0.7
        scores = RankedScores.of(confidence, right)
        ranked = calibrate_ranked(number, scores, reached=reached.take(scores.order), accepted=accepted.take(scores.order))
        made.append(add_warning(ranked, stages=1))
        reached = reached & ~accepted
    return tuple(made)


class Page(HTMLParser):
    """Read a page strictly: every tag closed in order, ids once, references collected."""

    VOID = frozenset({"meta", "input", "br", "img", "link", "hr", "wbr"})
    LINKS = frozenset({"href", "src", "action", "data", "poster", "srcset", "xlink:href", "formaction", "background", "cite"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"{tag} is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and expect its end unless it has none."""
        self._note(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that ends itself, as only those of SVG may."""
        self._note(tag, attrs)
        if "svg" not in self.open:
            self.faults.append(f"<{tag}/> outside a picture")

    def handle_endtag(self, tag: str) -> None:
        """Expect the end of the tag that was opened last."""
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        """Note text with the tag that it is in."""
        self.texts.append((self.open[-1] if self.open else "", data))

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if len(given) < len(attrs):
            self.faults.append(f"{tag} has an attribute twice")
        self.tags.append((tag, given))
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in self.LINKS]

    def found(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """Return the attributes of the tags of a kind that have these values."""
        return [
            given for name, given in self.tags if name == tag and all(given.get(key) == value for key, value in wanted.items())
        ]


def script_text(text: str, name: str) -> str:
    """Return what an embedded data block holds."""
    found = re.search(rf'<script type="[^"]*" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert found
    return found[1]


def views_of(text: str) -> list[str]:
    """Return the views of all designs, unpacked as the page's script does it."""
    parts = json.loads(gzip.decompress(base64.b64decode(script_text(text, "views"), validate=True)))
    return list(map("".join, zip(*parts, strict=True)))


def assert_well_formed(text: str) -> Page:
    """Read a page and expect it to be well formed and closed to the outside, with all its parts."""
    page = Page(text)
    assert page.faults == []
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links), page.links
    assert not page.found("link")
    assert not page.found("img")
    assert not [given for _, given in page.tags if any(name.startswith("on") or name == "style" for name in given)]
    assert page.tags[0][0] == "html"
    assert text.startswith("<!DOCTYPE html>\n")
    for number, view in enumerate(views_of(text)):
        part = Page(view)
        assert part.faults == [], number
        assert part.links == ["#reliability"] * len(part.links)
    return page


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of two thresholds."""
    return make_run(tmp_path_factory.mktemp("runs") / "plain")


@pytest.fixture(scope="module")
def text(run: Path) -> str:
    """Return its page."""
    return render_page(read_report_data(run))


def test_the_page_holds_every_design_of_the_table(run: Path, text: str) -> None:
    """Each row of front.csv has its row, its point and its view, with the figures of the file."""
    page = assert_well_formed(text)
    with (run / "front.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 8
    for place, row in enumerate(rows):
        assert page.found("tr", id=f"design-{row['id']}")
        (point,) = [given for given in page.found("a", href=f"#design-{row['id']}") if "point" in (given.get("class") or "")]
        assert point["data-i"] == str(place)
        line = re.search(rf'<tr id="design-{row["id"]}">.*?</tr>', text)
        assert line
        cells = [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall("<td.*?</td>", line[0])]
        assert cells[0] == row["id"]
        shares = [f"{100 * float(row[f'validation_{name}']):.2f}" for name in ("accuracy", "coverage")]
        assert cells[2:4] == shares
        design = read_report_data(run).front.find(row["id"])
        assert cells[5:7] == [percent_at_least(getattr(design.bounds(0.85), name))[:-2] for name in ("accuracy", "coverage")]
        assert cells[9] == f"{100 * float(row['test_coverage']):.2f}"
        assert row["stages"] in cells
        assert cells[-1] == row["excluded"]
    for row, view in zip(rows, views_of(text), strict=True):
        assert f"<code>{row['id']}</code>" in view


def test_the_knee_is_there_without_the_script(run: Path, text: str) -> None:
    """The view, the command and the ring of the knee are in the HTML, and it is the view that the script has."""
    data = read_report_data(run)
    assert data.knee.design == data.front.knee
    assert views_of(text)[data.knee_index] in text
    assert f"emsco-export {run} --out BUNDLE --design {data.knee.design.id}" in text
    assert 'id="ring"' in text
    assert "<noscript>" in text


def test_figures_per_label(run: Path, text: str) -> None:
    """The first view has a table of the labels, their base rate, and a warning about the one that is never given."""
    labels = read_report_data(run).knee.labels
    assert len(labels) == 2
    for expected in (f"<td>{labels[0].right}</td>", "Base rate: 75.00 % of the rows have the label", "no row of the label"):
        assert expected in text


def test_a_run_from_before_figures_per_label(tmp_path: Path) -> None:
    """A run without labels.json has a page without that table; one whose counts do not fit the labels is refused."""
    written = make_run(tmp_path / "run")
    folder = RunFolder(written)
    run = folder.read()
    files = {name: folder.text(name) for name in run.files}
    broken = files | {"labels.json": files["labels.json"].replace('"labels": [', '"labels": ["more", ')}
    for kept in (broken, {name: text for name, text in files.items() if name != "labels.json"}):
        folder.begin(resume=False, force=True)
        folder.finish(kept, run)
        if "labels.json" in kept:
            with pytest.raises(DataError, match=r"a design does not have counts for each of 3 labels"):
                read_report_data(written)
        else:
            assert "<h3>Labels</h3>" not in render_page(read_report_data(written))


def test_the_policy_lets_only_our_own_script_and_style_through(text: str) -> None:
    """The policy forbids all, and the hashes that it allows are those of the one script and the one style of the page."""
    (policy,) = Page(text).found("meta", **{"http-equiv": "Content-Security-Policy"})
    allowed = policy["content"] or ""
    assert allowed.startswith("default-src 'none';")
    assert "unsafe" not in allowed
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    for content in (script, style):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in allowed
    assert "://" not in script + style
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """Markup in names of features, labels, groups, units, files and folders is shown as text; nothing opens a script."""
    labels = ("</script><script>x</script>", 'ill"<b>')
    folder = tmp_path / "a run's <b>folder</b>"[:18]
    written = make_run(folder, names=HOSTILE, labels=labels, thresholds=[(0.7, 0.9), (0.8, 0.8)])
    text = render_page(read_report_data(written))
    page = assert_well_formed(text)
    kinds = {tag for tag, _ in page.tags}
    for view in views_of(text):
        kinds |= {tag for tag, _ in Page(view).tags}
        assert "\x00" not in view
    assert kinds.isdisjoint({"img", "i", "b"} - {"b"})
    assert len(page.found("b")) == 3  # our own words in the legend
    assert len(page.found("script")) == 3
    assert "\x00" not in text
    shown = "".join(data for _, data in page.texts)
    assert "<script>alert(1)</script>" in shown
    assert "</script><script>x</script> 0.7" in shown
    assert "k\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}ey" in shown
    assert json.loads(script_text(text, "data"))["unit"] == "€ & <b>"


def test_the_embedded_figures_are_those_of_the_front(run: Path, text: str) -> None:
    """The columns that the script chooses from are the front's numbers, to the last bit and in its order."""
    data = json.loads(script_text(text, "data"))
    front = Front.from_json((run / "front.json").read_text(), rows=ROWS)
    assert data["full_cost"] == front.full_cost
    columns = data["designs"]
    assert {len(column) for column in columns.values()} == {len(front)}
    for name in ("id", "fitness", "ties"):
        assert columns[name] == [getattr(design, name) for design in front]
    for name in ("accuracy", "coverage", "cost"):
        assert columns[f"validation_{name}"] == [getattr(design, name) for design in front]
        assert columns[f"bound_{name}"] == [getattr(design.bounds(0.85), name) for design in front]
    keys = [given["data-key"] for given in Page(text).found("th") if "data-key" in given]
    assert set(keys) <= set(columns)
    assert len(keys) == 17


def test_a_view_shows_stages_prices_exits_and_warnings(run: Path, text: str) -> None:
    """Every feature, price, exit and warning of a design is in its view; the stages' prices add up to its full price."""
    content = read_report_data(run)
    meter = content.costs.meter()
    warned = 0
    for one, view in zip(content.designs, views_of(text), strict=True):
        shown = "".join(data for _, data in Page(view).texts)
        for stage, after in zip(one.stages, [*one.stages[1:], None], strict=True):
            entry = stage.calibration
            assert f"Stage {stage.number}" in shown
            assert all(feature in shown for feature in stage.features)
            assert f"adds {stage.added_cost:g} {content.front.unit}" in shown
            assert f"{100 * entry.accepted.rows / ROWS:.2f} % accepted" in shown
            left = entry.reached.rows - entry.accepted.rows
            assert f"{100 * left / ROWS:.2f} % {'go on' if after else 'rejected'}" in shown
            if entry.warning:
                warned += 1
                assert entry.warning.partition(": ")[2][1:] in shown
        assert sum(stage.added_cost for stage in one.stages) == pytest.approx(one.stages[-1].total_cost)
        assert one.stages[-1].total_cost == meter.cost([name for stage in one.design.stages for name in stage])
        assert all(name in shown for name in one.design.excluded)
    assert warned


def test_without_test_rows(tmp_path: Path) -> None:
    """The page says that all figures are optimistic, has no column of test figures, and counts exits on the validation rows."""
    text = render_page(read_report_data(make_run(tmp_path / "run", has_test_rows=False)))
    page = assert_well_formed(text)
    assert "no test rows" in text
    assert "<strong>Test</strong>" not in text
    assert [given["data-key"] for given in page.found("th") if (given.get("data-key") or "").startswith("test")] == []
    assert "Shares are of the 200 validation rows" in text
    assert "test_cost" not in json.loads(script_text(text, "data"))["designs"]


def test_one_design_of_one_feature(tmp_path: Path) -> None:
    """The smallest run has its page too: one point, one stage, axes with room around it."""
    made = make_run(tmp_path / "run", names=["x", "y"], designs=1, thresholds=[(0.9, 0.9)], most_stages=1, stopped="time")
    text = render_page(read_report_data(made))
    page = assert_well_formed(text)
    assert len([given for given in page.found("a") if "point" in (given.get("class") or "")]) == 1
    assert "1 design." in text
    assert "ran out of time" in text
    assert "left out</th>" not in text


def test_the_accuracy_of_one_share_ends_at_100_percent(tmp_path: Path) -> None:
    """Where all designs are as accurate, the axis has room around that share, but none beyond 100 %."""
    content = read_report_data(make_run(tmp_path / "run", designs=1, thresholds=[(0.9, 0.9)], whole_accepted=0))
    (only,) = content.designs
    counted = only.validation.model_copy(update={"right": only.validation.accepted})
    text = draw_scatter(replace(content, designs=(replace(only, validation=counted),)))
    shares = [float(share) for share in re.findall(r">([\d.]+) %</text>", text)]
    assert (min(shares), max(shares)) == (95.0, 100.0)


def test_a_run_without_certify_rows_whose_baseline_accepts_nothing(tmp_path: Path, text: str) -> None:
    """No certificate is mentioned; all features at once have no accuracy, and so no mark in the picture."""
    other = render_page(read_report_data(make_run(tmp_path / "run", certify=False, whole_accepted=0, thresholds=[(1.0, 1.0)])))
    assert_well_formed(other)
    assert "carry no certificate" in other
    assert "carry no certificate" not in text
    assert (text.count('<g class="whole">'), other.count('<g class="whole">')) == (3, 1)


@pytest.mark.parametrize(("seconds", "output"), [(0.24, "0.2 s"), (99.4, "99 s"), (150.0, "2 min"), (9000.0, "2.5 h")])
def test_seconds_are_shown_in_a_unit_that_fits(seconds: float, output: str) -> None:
    """A search of milliseconds and one of hours both get two or three digits."""
    assert format_duration(seconds) == output


def test_more_thresholds_than_shapes(tmp_path: Path) -> None:
    """Shapes repeat after the last, and every reference to one is defined."""
    levels = [(number / 100, number / 100) for number in range(60, 60 + len(SHAPES) + 2)]
    assert_well_formed(render_page(read_report_data(make_run(tmp_path / "run", designs=30, thresholds=levels))))
    assert shape_index(len(SHAPES)) == 0


def test_a_design_that_accepts_nothing(tmp_path: Path) -> None:
    """It has no accuracy: it is at the bottom of the picture, and does not stretch the axis down to 0.

    Here the first stage accepts all test rows, so that no row reaches the others: the views say so.
    """
    written = make_run(tmp_path / "run")
    content = read_report_data(written)
    nothing = Design.of((0, 0, 0, 0), ["age", "weight", "blood", "scan"], (0.7, 0.7), coverage=0.0, accuracy=0.0, cost=0.5)
    front = Front([*content.front, nothing], full_cost=content.front.full_cost, unit=content.front.unit)
    rng = np.random.default_rng(3)
    empty = Counts(ROWS, 0, 0, 0.5)
    measured = [MeasuredDesign(design, empty, _calibration(rng, len(design.stages), needed=0.0)) for design in front]
    files = {
        "front.csv": format_front_csv(measured, has_test_rows=True),
        "front.json": front.to_json(),
        "costs.toml": (written / "costs.toml").read_text(),
        "calibration.json": CalibrationFile.of("test", measured).text(),
    }
    place = RunFolder(written)
    place.begin(resume=False, force=True)
    place.finish(files, content.run)
    text = render_page(read_report_data(written))
    assert_well_formed(text)
    assert "accuracy n/a" in text
    assert ">0 %</text>" not in text
    later = sum(len(design.stages) - 1 for design in front)
    assert sum(view.count("No row reaches this stage.") for view in views_of(text)) == later > 0


def _large(folder: Path, designs: int) -> int:
    """Write the page of many designs of 60 features, expect it to be well formed, and return its size."""
    names = [f"word_frequency_{number}" for number in range(60)]
    path = write_report(make_run(folder, names=names, designs=designs, most_stages=6))
    page = Page(path.read_text(encoding="utf-8"))
    assert page.faults == []
    assert sum(tag == "tr" and (given.get("id") or "").startswith("design-") for tag, given in page.tags) == designs
    return path.stat().st_size


def test_many_wide_designs_take_little_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A design of 60 features takes about 2.5 kB of the page; stages too long for the table are cut there, not in its view."""
    assert _large(tmp_path / "whole", 60) < 60 * 4_200 + 60_000
    monkeypatch.setattr("emsco_train.report.design_table._MAX_STAGE_CHARACTERS", 60 * 300)
    assert _large(tmp_path / "cut", 60) < 60 * 3_200 + 60_000
    text = (tmp_path / "cut" / "report.html").read_text(encoding="utf-8")
    assert "\N{HORIZONTAL ELLIPSIS}</div></td>" in text
    assert all(f"word_frequency_{number}" in views_of(text)[7] for number in range(60))


@pytest.mark.proof
def test_a_large_front_makes_a_page_of_a_few_megabytes(tmp_path: Path) -> None:
    """Two thousand designs of 60 features stay near 5 MB, and the page is well formed."""
    assert _large(tmp_path / "run", 2000) < 5_500_000


def test_the_same_run_gives_the_same_page(run: Path, text: str) -> None:
    """Nothing of the moment or of the process is in the page."""
    assert render_page(read_report_data(run)) == text


def test_a_threshold_given_twice_shows_its_designs_once(run: Path, tmp_path: Path) -> None:
    """Equal ids are one design: one row, one point."""
    content = read_report_data(run)
    front = Front([*content.front, *content.front], full_cost=content.front.full_cost, unit=content.front.unit)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    record = RunFile.read((copy / "run.json").read_bytes(), "run.json")
    files = {name: (copy / name).read_text() for name in record.files} | {"front.json": front.to_json()}
    place = RunFolder(copy)
    place.begin(resume=False, force=True)
    place.finish(files, record)
    again = read_report_data(copy)
    assert [one.design.id for one in again.designs] == [one.design.id for one in content.designs]
    assert_well_formed(render_page(again))


# Curves.


def curve(
    name: str,
    log_odds: Sequence[Sequence[float]],
    *,
    knots: Sequence[float] | None = None,
    categories: Sequence[str] | None = None,
    rows: Sequence[int] | None = None,
    gap_rows: int = 0,
    kind: Literal["numeric", "boolean", "categorical"] = "numeric",
) -> CurveEntry:
    """Return the curve of a feature, with as many rows in each cell unless given; a gap adds 0.25."""
    return CurveEntry(
        name=name,
        kind=kind if categories is None else "categorical",
        knots=None if knots is None else tuple(knots),
        categories=None if categories is None else tuple(categories),
        log_odds=tuple(map(tuple, log_odds)),
        gap_log_odds=(0.25,) * len(log_odds),
        rows=tuple(rows or [10] * len(log_odds[0])),
        gap_rows=gap_rows,
        other_rows=0,
    )


def curves_page(
    tmp_path: Path, features: Sequence[CurveEntry], labels: tuple[str | int, ...] = ("ill", "well")
) -> tuple[Page, str]:
    """Return the page of a run with these curves, read strictly, and its section of curves."""
    outputs = labels[1:] if len(labels) == 2 else labels
    thresholds = [(0.7,) * len(labels)]
    curves = CurvesFile(strength=4.0, outputs=outputs, features=tuple(features))
    text = render_page(read_report_data(make_run(tmp_path / "run", labels=labels, thresholds=thresholds, curves=curves)))
    return assert_well_formed(text), text.partition('<section aria-labelledby="curves-title">')[2].partition("</section>")[0]


def test_curves_are_drawn_by_influence(tmp_path: Path, text: str) -> None:
    """A picture for each feature, the most influential first: steps between cells, bars by rows, gap, ticks, and all in words."""
    features = [
        curve("weak", [[-0.125, 0.125]], knots=[0.5], kind="boolean"),
        curve("age", [[-2.0, 0.5, 1.0, 0.0]], knots=[1.5, 20.0, 1234.5], rows=[10, 20, 5, 5], gap_rows=10),
        curve("colour", [[1.0, -1.0]], categories=["red", "a very long name of a colour"], rows=[5, 15]),
        curve("same", [[0.0]], knots=[]),
        curve("never", [[0.0]], knots=[], kind="boolean", rows=[0]),
    ]
    page, section = curves_page(tmp_path, features)
    assert "curves-title" not in text
    assert ("dd", "curved (strength 4)") in page.texts
    assert re.findall("<figcaption><code>(.*?)</code> <span>influence&nbsp;(.*?)</span>", section) == [
        ("age", "3.00"),
        ("colour", "2.00"),
        ("weak", "0.25"),
        ("same", "0.00"),
        ("never", "0.00"),
    ]
    pictures = page.found("svg", **{"class": "curve"})
    assert all(picture["role"] == "img" for picture in pictures)
    assert [picture["aria-label"] for picture in pictures] == [
        "age: log-odds of well from -2.00 (below 1.5) to +1.00 (20 to 1,234); missing values, 20.00 % of the rows: well +0.25",
        "colour: log-odds of well from -1.00 (a very long name of a colour) to +1.00 (red)",
        "weak: log-odds of well from -0.12 (no) to +0.12 (yes)",
        "same: log-odds of well from +0.00 (always the same) to +0.00 (always the same)",
        "never: log-odds of well from +0.00 (always the same) to +0.00 (always the same)",
    ]
    # Four cells of 49.5 between 34 and 232; 2 is at the end of the axis, so that its middle, 0, is at 69, and 1 is 30.5 above.
    assert '<path class="step k0" d="M34 130H83.5V53.8H133V38.5H182.5V69H232"/>' in section
    assert '<path class="gap k0" d="M254 61.4h0"/>' in section
    assert 'd="M34 130v-30H83.5v30ZM83.5 130v-60H133v60Z' in section
    # The most frequent category first, without a line between them.
    assert '<path class="step k0" d="M34 130H148M148 8H262"/>' in section
    shown = [data for tag, data in page.texts if tag in ("text", "title")]
    for expected in ("1.5", "20", "1,234", "gap", "20 %", "a very long name \N{HORIZONTAL ELLIPSIS}", "red", "no", "yes"):
        assert expected in shown
    assert "20 to 1,234: 10.00 % of the rows\nwell +1.00" in shown
    assert "it speaks for <strong>well</strong>, below for <strong>ill</strong>" in section
    assert 'class="legend"' not in section


def test_curves_of_several_labels(tmp_path: Path) -> None:
    """A line per label with a legend; of more labels than there are colours, those that features have most influence on."""
    labels = tuple(f"label {number}" for number in range(10))
    levels = [[0.0, 0.5 * number] for number in range(10)]
    page, section = curves_page(tmp_path, [curve("age", levels, knots=[3.0], gap_rows=1)], labels)
    colours = [f"step k{number}" for number in range(8)]
    drawn = [given["class"] for given in page.found("path") if (given.get("class") or "").startswith("step")]
    assert drawn == colours * 2  # those of the legend, and of the picture
    assert re.findall("</svg>(label .)</li>", section) == list(labels[2:])
    assert "2 labels of less influence: see curves.json" in section
    assert "label 9 from +0.00 (below 3) to +4.50 (3 and above)" in section
    assert "influence&nbsp;4.50" in section


def test_curves_of_many_features_and_categories(tmp_path: Path) -> None:
    """Pictures after the first are folded, and the last are left to the file, as are rare categories; all count as influence."""
    words = [f"word {number}" for number in range(40)]
    many = curve("many", [[5.0, *[0.0] * 39]], categories=words, rows=range(1, 41), gap_rows=1)
    features = [many, *(curve(f"f{number}", [[0.0, 1.0]], knots=[float(number)]) for number in range(220))]
    page, section = curves_page(tmp_path, features)
    assert 'Curves <span class="count">221</span>' in section
    assert len(page.found("svg", **{"class": "curve"})) == 200
    first, _, rest = section.partition("<details>")
    assert (first.count("<figure>"), rest.count("<figure>")) == (24, 176)
    assert "176 features of less influence" in rest
    assert "21 features of still less influence: see curves.json" in rest
    assert "influence&nbsp;5.00, the 32 most frequent of 40 categories" in first
    assert "word 39: " in first
    assert "word 7: " not in first
    # Every second name, upwards: there is no room for more.
    names = re.findall(r'rotate\(-90\)">(word \d+)</text>', first)
    assert names == [f"word {number}" for number in range(39, 7, -2)]
    assert len(CurveCells.of(many).shown) == MAX_CELLS


def test_hostile_names_stay_text_in_curves(tmp_path: Path) -> None:
    """Markup in names of features, labels and categories is text in captions, ticks, titles, legend and descriptions."""
    labels = ("</script><script>x</script>", 'ill"<b>', "c & <!-- d")
    features = [curve(name, [[0.5, -0.5, 0.25, 0.0, 0.1, 1.0]] * 3, categories=HOSTILE, gap_rows=3) for name in HOSTILE]
    page, section = curves_page(tmp_path, features, labels)
    assert {tag for tag, _ in page.tags}.isdisjoint({"img", "i"})
    assert len(page.found("script")) == 3
    assert "\x00" not in section
    assert len(page.found("svg", **{"class": "curve"})) == len(HOSTILE)
    label = str(page.found("svg", **{"class": "curve"})[0]["aria-label"])
    assert label.startswith("<script>alert(1)</script>: log-odds of </script><script>x</script> from -0.50 (</script><img src=")
    _, two = curves_page(tmp_path / "two", [curve("a", [[0.0, 1.0]], knots=[1.0])], labels[:2])
    assert "speaks for <strong>ill&quot;&lt;b&gt;</strong>, below for <strong>&lt;/script&gt;" in two


@given(st.lists(st.floats(-1e300, 1e300, allow_subnormal=False), unique=True, max_size=6), st.integers(1, 6))
def test_knots_are_told_apart(knots: list[float], digits: int) -> None:
    """Different knots have different texts, each near its number."""
    texts = format_knots(knots, digits=digits)
    assert len(set(texts)) == len(knots)
    for text, knot in zip(texts, knots, strict=True):
        assert float(text.replace(",", "")) == pytest.approx(knot, rel=0.5 * 10 ** (1 - digits), abs=0.0)


# The command.


def test_every_part_of_the_page_is_reported(run: Path, tmp_path: Path) -> None:
    """Reading, then each design by its number, then the rest."""
    phases: list[Phase] = []
    write_report(run, tmp_path / "page.html", on_phase=phases.append)
    names = list(dict.fromkeys(phase.name for phase in phases))
    assert names == ["reading the run", "drawing the page", "drawing the designs", "compressing the page"]
    drawn = [phase for phase in phases if phase.name == "drawing the designs"]
    count = len(read_report_data(run).designs)
    assert [(phase.done, phase.total) for phase in drawn] == [(done, count) for done in range(count)]


def test_the_command_shows_what_it_is_doing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page that takes a while: progress on standard error, and the result alone on standard output."""
    monkeypatch.setattr(phase_progress, "_PLAIN_S", 0.0)
    monkeypatch.setattr(phase_progress, "_LOOK_EVERY_S", 0.001)

    def draw_slowly(data: ReportData, design_data: DesignData) -> tuple[str, str, str]:
        time.sleep(0.02)
        return design_view(data, design_data)

    monkeypatch.setattr("emsco_train.report.selection_form.design_view", draw_slowly)
    assert main([str(run), "--out", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr()
    assert re.search(r"^drawing the designs: \d+ % of \d+, 0 s$", shown.err, re.MULTILINE)
    assert shown.out.startswith("written ")


def test_the_knee_is_looked_for_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every view asks for it: with a thousand designs, a search for each took most of a minute."""
    asked: list[int] = []

    def count_and_find_knee(designs: Sequence[Design], full_cost: float) -> Design:
        asked.append(len(designs))
        return find_knee(designs, full_cost)

    monkeypatch.setattr("emsco_train.designs.selection.find_knee", count_and_find_knee)
    render_page(read_report_data(run))
    assert len(asked) == 1


def test_the_command_writes_and_prints_where(run: Path, tmp_path: Path, text: str) -> None:
    """By default the page is in the run's folder; the command in it names the folder as the user did."""
    copy = tmp_path / "my run"
    shutil.copytree(run, copy)
    done = run_command("emsco-report", "my run", cwd=tmp_path)
    assert (done.returncode, without_progress(done.stderr)) == (0, [])
    assert done.stdout.startswith("written  'my run/report.html'\n")
    page = (copy / "report.html").read_text(encoding="utf-8")
    assert "emsco-export &#x27;my run&#x27; --out BUNDLE" in page
    assert not list(copy.glob(".report*"))
    other = tmp_path / "page.html"
    done = run_command("emsco-report", run, "--out", other)
    assert (done.returncode, without_progress(done.stderr)) == (0, [])
    assert other.read_text(encoding="utf-8") == text
    assert other.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_the_command_refuses_in_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No folder, no run, an unfinished or damaged one, a bad path for the page: status 1, one line, nothing written."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "unfinished" / ".work").mkdir(parents=True)
    damaged = tmp_path / "damaged"
    shutil.copytree(run, damaged)
    (damaged / "front.csv").write_text("id\n")
    cases = [
        ((tmp_path / "none",), "does not exist"),
        ((tmp_path / "empty",), "no run.json"),
        ((tmp_path / "unfinished",), "unfinished"),
        ((damaged,), "front.csv is missing or is not the file"),
        ((run, "--out", tmp_path), "is a folder"),
        ((run, "--out", tmp_path / "no" / "page.html"), "is not a folder"),
        ((run, "--out", run / "front.json"), "a file of the run itself"),
    ]
    for arguments, output in cases:
        assert main(list(map(str, arguments))) == 1
        (said,) = without_progress(capsys.readouterr().err)
        assert said.startswith("emsco-report: ")
        assert output in said
    done = run_command("emsco-report", damaged)
    assert (done.returncode, len(without_progress(done.stderr))) == (1, 1)
    assert not list(tmp_path.glob("**/*.html"))


def test_wrong_use_and_help() -> None:
    """Wrong arguments: status 2, in one line. Help answers without loading what only the work needs."""
    done = run_command("emsco-report")
    assert done.returncode == 2
    assert done.stderr == "emsco-report: the following arguments are required: RUN. See emsco-report --help\n"
    with pytest.raises(SystemExit, match="2"):
        main(["a", "b"])
    probe = "import sys; from emsco_train.cli.report import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    probe += "print([name for name in ('onnxruntime', 'sklearn', 'onnx', 'numba', 'emsco_train.report') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert "RUN/report.html" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_long_facts_stay_in_their_column_and_labels_look_alike(text: str) -> None:
    """A remark on folds by time ran over the fact beside it; the figures of the last label were thin, as if they counted less."""
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert ".facts small { display: inline-block; }" in style
    assert ".counts tbody tr:last-child td { font-weight: 400; }" in style
    figures = re.findall(r'<table class="(figures[^"]*)"', text)
    assert figures == ["figures counts", "figures"]


def test_the_table_of_all_designs_is_printed_whole(text: str) -> None:
    """On paper nothing scrolls: columns get narrow instead of being cut off, and no header is repeated without its names."""
    printed = text.partition("@media print")[2].partition("</style>")[0]
    assert ".wide, .tall { max-height: none; overflow: visible; }" in printed
    assert re.search(r"\.designs thead \{[^}]*display: table-row-group", printed)
    assert re.search(r"\.designs \.words div[^{]*\{[^}]*min-width: 60px", printed)


def test_a_page_that_cannot_be_written_leaves_the_old_one(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full, the page from before stays as it was, and no part is left behind."""
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(self: Path, *_: Any) -> Path:
        assert self.exists()
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(run, page)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert page.read_text() == "old"


def test_a_page_that_is_not_ours_is_replaced_only_by_name(run: Path, tmp_path: Path) -> None:
    """The user's own report.html in the run folder is refused unless it is named; a page of ours is written again."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    (copy / "report.html").write_text("mine")
    with pytest.raises(DesignError, match=r"report\.html is not a page of emsco-report: move it away, or name another file"):
        write_report(copy)
    assert (copy / "report.html").read_text() == "mine"
    write_report(copy, copy / "report.html")
    assert write_report(copy) == copy / "report.html"


def test_links_and_devices_as_places_for_the_page(run: Path, tmp_path: Path, text: str) -> None:
    """A link stays one and its target is replaced; a device is written to, not replaced."""
    (tmp_path / "target.html").write_text("old")
    link = tmp_path / "link.html"
    link.symlink_to("target.html")
    write_report(run, link)
    assert link.is_symlink()
    assert (tmp_path / "target.html").read_text(encoding="utf-8") == text
    done = subprocess.run([*COMMAND, run, "--out", "/dev/stdout"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("name", "change", "output"),
    [
        ("calibration.json", lambda old: old.replace('"version": 1', '"version": 2'), "calibration.json: version"),
        ("calibration.json", lambda old: old.replace('"designs": {"', '"designs": {"x'), "do not belong together"),
        ("front.json", lambda old: re.sub(r'"designs": \[.*\]', '"designs": []', old, flags=re.DOTALL), "holds no design"),
    ],
)
def test_files_that_do_not_fit(run: Path, tmp_path: Path, name: str, change: Any, output: str) -> None:
    """Files with right hashes but of another shape or of other designs: an error that names the place and the remedy."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    record = RunFile.read((copy / "run.json").read_bytes(), "run.json")
    files = {own: (copy / own).read_text() for own in record.files}
    files[name] = change(files[name])
    place = RunFolder(copy)
    place.begin(resume=False, force=True)
    place.finish(files, record)
    with pytest.raises(DataError, match=output):
        read_report_data(copy)
    with pytest.raises(DesignError, match="is a folder"):
        write_report(run, tmp_path)


# What the script does.

NODE = shutil.which("node")
SCRIPT = Path(__file__).parents[2] / "emsco_train" / "report" / "page.js"


def run_in_node(program: str, given: object) -> Any:
    """Run a program with the page's script as `page` and data as `given`; return its result."""
    if NODE is None:
        pytest.skip("node is not installed: the page's script cannot be run outside a browser")
    text = f"const page = require({json.dumps(str(SCRIPT))}); const given = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
    text += f"const answer = (() => {{ {program} }})(); process.stdout.write(JSON.stringify(answer));"
    done = subprocess.run([NODE, "-e", text], input=json.dumps(given), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_chooses_as_the_front_does(tmp_path: Path) -> None:
    """For many requirements, on figures and between them: the design of `Front.select`, and its nearest one where none fits."""
    # Few distinct figures, so that there are ties; the most accurate design accepts next to nothing.
    rng = np.random.default_rng(8)
    names = ["a", "b", "c", "d", "e"]
    genes = np.unique(compress(rng.integers(0, 4, (60, 5)).astype(np.int8)), axis=0)
    shares = rng.integers(5, (11, 10, 11), (len(genes), 3)) / 10
    shares[0] = 0.02, 1.0, 0.5
    designs = [
        Design.from_counts(row, names, (0.9, 0.9), counts, precision=Precision.of_counts(counts, 0.1 * counts.cost))
        for row, counts in zip(genes, [Counts.from_shares(100, *pair, 10 * cost) for *pair, cost in shares], strict=True)
    ]
    front = Front(designs, full_cost=12.0)
    columns = {"id": [design.id for design in front], "fitness": [design.fitness for design in front]}
    columns |= {f"validation_{name}": [getattr(design, name) for design in front] for name in ("accuracy", "coverage", "cost")}
    bounds = [design.bounds(0.85) for design in front]
    columns |= {f"bound_{name}": [getattr(one, name) for one in bounds] for name in ("accuracy", "coverage", "cost")}
    options = [[None, *np.round(rng.uniform(0.4, 1.0, 3), 3), 0.7, 0.8, 0.9, 1.0] for _ in range(2)]
    options.append([None, 0.0, 4.9, 5.0, 7.0, 7.5, 20.0])
    requirements = [
        {"accuracy": accuracy, "coverage": coverage, "cost": cost}
        for accuracy in options[0]
        for coverage in options[1]
        for cost in options[2]
    ]
    program = "return given.requirements.map((required) => page.choose(given.data, required));"
    knee = columns["id"].index(front.knee.id)
    given = {"data": {"designs": columns, "full_cost": front.full_cost, "knee": knee}, "requirements": requirements}
    answers = run_in_node(program, given)
    missed = 0
    for required, answer in zip(requirements, answers, strict=True):
        limits = {
            "min_accuracy": required["accuracy"],
            "min_coverage": required["coverage"],
            "max_cost": required["cost"],
        }
        if not any(answer["fits"]):
            missed += 1
            assert answer["best"] == -1
            with pytest.raises(SelectionError) as caught:
                front.select(**limits)
            assert columns["id"][answer["nearest"]] == caught.value.nearest, required
        else:
            assert columns["id"][answer["best"]] == front.select(**limits).id, required
            assert answer["fits"][answer["best"]]
    assert 20 < missed < len(requirements) - 20


def test_the_script_reads_requirements_and_writes_commands() -> None:
    """Percent become the shares that the command takes, to the digit; other text is no requirement; floors become options."""
    typed = ["97.3", "97,3", " 100 ", "", "abc", "101", "-1", "Infinity", "33.3", "0"]
    program = (
        "const read = (text) => page.readRequirement('accuracy', text);"
        "return given.map((text) => read(text) === undefined ? 'no' : read(text));"
    )
    assert run_in_node(program, typed) == [0.973, 0.973, 1, None, "no", "no", "no", "no", 0.333, None]
    program = (
        "return [page.commandFor(given, 1), page.commandByRequirements(given, {accuracy: 0.973, coverage: null, cost: 12.5})];"
    )
    data = {"run": "'a b'", "designs": {"id": ["x", "y"]}}
    assert run_in_node(program, data) == [
        "emsco-export 'a b' --out BUNDLE --design y",
        "emsco-export 'a b' --out BUNDLE --min-accuracy 0.973 --max-cost 12.5",
    ]


def test_a_cost_that_could_be_thousands_or_a_fraction_is_not_guessed() -> None:
    """The page writes 12,500 for twelve thousand; read as 12.5, a cap would leave out nearly everything without a word."""
    typed = ["12,500", "1,234,567", "12500", "12,5", "0,125", "1234,567", "12.500"]
    program = (
        "const read = (text) => page.readRequirement('cost', text);"
        "return given.map((text) => read(text) === undefined ? 'no' : read(text));"
    )
    assert run_in_node(program, typed) == ["no", "no", 12500, 12.5, 0.125, 1234.567, 12.5]
    assert run_in_node("return page.readRequirement('accuracy', given);", "97,375") == 0.97375


def test_what_is_missing_to_a_requirement_is_written_without_exponents() -> None:
    """The nearest design of a page in microseconds: "12300 us over", not "1.23e+4 us over"."""
    columns = {"bound_accuracy": [0.0], "bound_coverage": [0.5], "bound_cost": [20000.0]}
    given = {"unit": "us", "designs": columns}
    program = (
        "const required = {accuracy: 1, coverage: 0.623, cost: 7654};"
        "return page.verdict(given, required, {fits: [false], best: -1, nearest: 0, by: 'cost'});"
    )
    shown = "accuracy 100 points short, coverage 12 points short, cost 12300 us over"
    assert run_in_node(program, given) == f"No design satisfies this. Shown is the nearest: {shown}."


def test_the_script_sorts_both_ways_and_keeps_equals_in_order() -> None:
    """Rising and falling; designs with equal figures stay in the order of the front."""
    program = "return [page.sorted(given, 'ties', false), page.sorted(given, 'ties', true)];"
    assert run_in_node(program, {"designs": {"ties": [2, 1, 2, 3]}}) == [[1, 0, 2, 3], [3, 0, 2, 1]]


# The small parts.


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 10))
def test_axes_hold_what_they_show(low: float, width: float, max_ticks: int) -> None:
    """Round ticks, rising, around both ends, not many more than asked for; places run from start to end."""
    high = low + max(width, abs(low) * 1e-6)
    axis = Axis.covering(low, high, start=10.0, end=110.0, max_ticks=max_ticks)
    slack = (axis.ticks[-1] - axis.ticks[0]) * 1e-6
    assert axis.ticks[0] <= low + slack
    assert axis.ticks[-1] >= high - slack
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert 2 <= len(axis.ticks) <= max_ticks + 2
    assert (axis.position(axis.ticks[0]), axis.position(axis.ticks[-1])) == (10.0, 110.0)


@pytest.mark.parametrize("number", [0.0, 0.5, 1.0, 40.0, -3.0])
def test_an_axis_around_one_number(number: float) -> None:
    """One number alone gets an axis with room on both sides."""
    axis = Axis.covering(number, number, start=0.0, end=100.0, max_ticks=5)
    assert axis.ticks[0] < number < axis.ticks[-1]


@given(st.floats(1e-12, 1e12))
def test_steps_are_round(least: float) -> None:
    """The step is 1, 2 or 5 times a power of ten, and the smallest that is large enough."""
    step = round_step(least)
    assert f"{step:.3e}"[0] in "125"
    assert f"{step:.6e}"[1:8] == ".000000"
    assert least * (1 - 1e-8) <= step <= 2.51 * least


@given(st.lists(st.integers(0, 1000).map(lambda part: part / 1000), min_size=1))
def test_shades_hold_every_share(shares: list[float]) -> None:
    """Each share falls into a range, ranges are few, and more coverage never has a lower colour."""
    shades = CoverageColours.spanning(shares)
    assert 1 <= shades.count <= COLOURS
    colours = [shades.colour_of(share) for share in sorted(shares)]
    assert colours == sorted(colours)
    assert 0 <= colours[0] <= colours[-1] < COLOURS
    ends = [
        float(end) for place in (0, shades.count - 1) for end in shades.range_text(place).removesuffix(" %").split("\N{EN DASH}")
    ]
    assert ends[0] <= 100 * min(shares) + 1e-6
    assert ends[-1] >= 100 * max(shares) - 1e-6


@given(st.integers(1, 500), st.data())
def test_intervals_hold_the_share(rows: int, data: st.DataObject) -> None:
    """The interval lies within 0 and 1 and holds the share that was seen."""
    right = data.draw(st.integers(0, rows))
    low, high = wilson_interval(right, rows)
    assert 0 <= low <= right / rows + 1e-12
    assert right / rows - 1e-12 <= high <= 1


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=12))
def test_wrapped_names_fit_their_lines(names: list[str]) -> None:
    """No line is longer than asked for, and short names are all there, in order."""
    lines = wrap_names(names, 20)
    assert all(0 < len(line) <= 20 for line in lines)
    assert wrap_names(["one", "two", "three"], 9) == ["one · two", "three"]


def test_a_long_unit_does_not_run_over_the_name_of_its_stage() -> None:
    """Prices and their unit keep to the room that they have in the picture, also with long numbers; short ones stay whole."""
    reached = StageEntry.of(_calibration(np.random.default_rng(0), 1)[0])
    stages = [StageData(number, ("age",), 987654.125, 1.04568e6, reached) for number in (1, 2)]
    for unit in ("EUR", "microseconds of one core", "x" * 256):
        drawn = draw_cascade(stages, CostFormat(1.04568e6, unit))
        prices = [html.unescape(text) for text in re.findall(r'<text class="(?:price|soft) end"[^>]*>([^<]*)</text>', drawn)]
        assert len(prices) == 3
        assert max(map(len, prices)) <= 42
        assert prices[1].endswith("in all")
        assert (unit in prices[0]) == (unit != "x" * 256)
        assert (unit in prices[1]) == (unit == "EUR")


def test_the_last_number_under_the_picture_is_not_cut_off(tmp_path: Path) -> None:
    """Costs in the millions: all numbers of the axis end inside the picture, and so does its name with a long unit."""
    data = read_report_data(make_run(tmp_path / "run"))
    baseline = data.run.thresholds[0].everything[0].model_copy(update={"cost": 1.2e6})
    entry = data.run.thresholds[0].model_copy(update={"everything": (baseline,)})
    run = data.run.model_copy(update={"thresholds": (entry, *data.run.thresholds[1:])})
    front = Front(data.front, full_cost=1.2e6, unit="long " * 40)
    drawn = draw_scatter(replace(data, run=run, front=front))
    ticks = re.findall(r'<text class="tick middle" x="([\d.]+)"[^>]*>([\d,]+)<', drawn)
    assert ticks[-1][1] == "1,400,000"
    assert all(float(x) + 7 * len(text) / 2 <= 820 for x, text in ticks)
    name = re.search(r">(mean cost per item, [^<]*)<", drawn)
    assert name is not None
    assert len(name[1]) < 110


def test_thresholds_that_differ_in_one_label_are_written_apart() -> None:
    """Each label is named with its number, also where two labels share one."""
    texts = [format_threshold(numbers, ("a", "b", "c")) for numbers in ((0.9, 0.8, 0.9), (0.9, 0.8, 0.8), (0.9, 0.9, 0.9))]
    assert texts == ["a 0.9, b 0.8, c 0.9", "a 0.9, b 0.8, c 0.8", "0.9"]


def test_costs_line_up_whatever_their_size() -> None:
    """Prices of all sizes get five digits by the full price, and tiny ones are not rounded to 0."""
    assert CostFormat(0.003, "s").without_unit(0.0012) == "0.0012000"
    assert CostFormat(123456.0, "s").with_unit(1234.5) == "1,234 s"
