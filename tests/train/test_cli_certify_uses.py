"""Exports that use the certify rows of a run again: what is recorded, and what their certificates say."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_runtime.bundle.manifest import Certificate
from emsco_runtime.bundle.reading import read_bundle
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.errors import RepeatedRowsWarning
from emsco_train.guarantee.choice import certify_design
from emsco_train.guarantee.ledger import MemoryLedger
from tests.processes import run as run_command, run_expecting_error, run_successfully, start, without_progress
from tests.train.sample_tables import MixedTable, write_mixed, write_wide

SEEN = "not used before"
NOT_HELD = "the confidence is not held; certify with new rows"
# Lenient enough that any design passes.
LENIENT = ("--confidence", "0.8")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MixedTable:
    """Write the table."""
    return write_mixed(tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="module")
def trained(table: MixedTable, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Train runs that plan one use and two; they are copied, and stay unused themselves."""
    folder = tmp_path_factory.mktemp("runs")
    for planned in (1, 2):
        options = [] if planned == 1 else ["--certify-uses", planned]
        run_successfully("emsco-train", *table.options(), *options, "--out", folder / str(planned))
    return {planned: folder / str(planned) for planned in (1, 2)}


@pytest.fixture
def run(trained: dict[int, Path], tmp_path: Path) -> Path:
    """Return a run that plans one use, and has none."""
    return Path(shutil.copytree(trained[1], tmp_path / "run"))


def export(run: Path, name: str, *options: object) -> Certificate:
    """Export to a folder next to the run; return the certificate."""
    out = run.parent / name
    run_successfully("emsco-export", run, "--out", out, *options)
    certificate = read_bundle(out).manifest.certificate
    assert certificate is not None
    return certificate


def inspect(run: Path, name: str) -> str:
    """Return what emsco-inspect says of a bundle next to the run."""
    return run_successfully("emsco-inspect", run.parent / name)


def uses(run: Path) -> list[dict[str, Any]]:
    """Return the uses that the run has recorded."""
    document = json.loads((run / "certify.json").read_text(encoding="utf-8"))
    return list(document["uses"])


def test_a_second_use_says_what_it_does_not_promise(run: Path) -> None:
    """The first certificate is of new rows; the next is written, but says that nothing holds it to its confidence."""
    assert uses(run) == []
    first = export(run, "first", "--max-error", "0.3", *LENIENT)
    assert first.use is not None
    assert (first.use.number, first.use.planned, first.use.confidence, first.confidence) == (1, 1, 0.8, 0.8)
    assert SEEN in inspect(run, "first")
    ended = run_command("emsco-export", run, "--out", run.parent / "second", "--max-error", "0.35", *LENIENT)
    assert ended.returncode == 0
    said = f"the certify rows had been used 1 time before, 1 use was planned: {NOT_HELD}"
    assert without_progress(ended.stderr) == [f"emsco-export: warning: {said}"]
    for shown in (ended.stdout, inspect(run, "second")):
        assert f"             {said}\n" in shown
        assert "at 80 % confidence, which is not held (fixed-sequence" in shown
        assert SEEN not in shown
    third = export(run, "third")
    assert third.use is not None
    assert third.use.number == 3
    assert "had been used 2 times before" in inspect(run, "third")
    recorded = uses(run)
    assert [use["promise"] and use["promise"]["max_error"] for use in recorded] == [0.3, 0.35, None]
    assert [use["confidence"] for use in recorded] == [0.8, 0.8, 0.95]
    designs = [
        str(read_bundle(run.parent / name).manifest.provenance.settings["design"]) for name in ("first", "second", "third")
    ]
    assert [(use["result"], use["design"]) for use in recorded] == [("certified", design) for design in designs]


def test_the_same_again_is_no_further_use(run: Path) -> None:
    """It shows nothing new: the same certificate, whatever way the design was named, also after other uses."""
    first = export(run, "first", "--max-error", "0.3", *LENIENT)
    knee = Front.from_json((run / "front.json").read_bytes()).knee.id
    other = export(run, "other")
    assert export(run, "again", "--max-error", "0.3", *LENIENT) == first
    assert export(run, "named", "--design", knee) == other
    assert len(uses(run)) == 2
    assert SEEN in inspect(run, "again")
    assert SEEN not in inspect(run, "named")


def test_planned_uses_share_the_level(trained: dict[int, Path], tmp_path: Path) -> None:
    """Each of two is made at half the level, and both hold together; the third is none of them."""
    run = Path(shutil.copytree(trained[2], tmp_path / "run"))
    assert json.loads((run / "run.json").read_text(encoding="utf-8"))["certify_uses"] == 2
    for number, options in enumerate((["--max-error", "0.3", *LENIENT], LENIENT), start=1):
        certificate = export(run, str(number), *options)
        assert certificate.use is not None
        assert certificate.confidence == pytest.approx(0.9)
        assert (certificate.use.number, certificate.use.planned, certificate.use.confidence) == (number, 2, 0.8)
        shown = inspect(run, str(number))
        assert f"use {number} of 2 planned, all of them together at 80 % confidence, if none was asked for because of" in shown
        assert "at 90 % confidence (" in shown
        assert (SEEN in shown) == (number == 1)
    export(run, "third", "--max-error", "0.35", *LENIENT)
    assert f"had been used 2 times before, 2 uses were planned: {NOT_HELD}" in inspect(run, "third")


def test_a_refusal_counts_if_the_rows_were_seen(run: Path) -> None:
    """A refusal by validation alone is no use; one by the certify rows is, and the next certificate says so."""
    message = run_expecting_error(1, "emsco-export", run, "--out", run.parent / "none", "--max-error", "0.001")
    assert "The certify rows were not looked at" in message
    assert uses(run) == []
    refused = ""
    for error in ("0.05", "0.06", "0.07", "0.08", "0.09"):
        ended = run_command(
            "emsco-export", Path(shutil.copytree(run, run.parent / error)), "--out", run.parent / "x", "--max-error", error
        )
        if [use["result"] for use in uses(run.parent / error)] == ["refused"]:
            assert ended.returncode == 1
            refused = error
            break
    assert refused, "none of these is refused by the certify rows: try others"
    used = run.parent / refused
    shutil.copytree(used, run.parent / "used")
    later = export(run.parent / "used", "later", "--max-error", "0.3", *LENIENT)
    assert later.use is not None
    assert later.use.number == 2
    assert uses(used)[0]["design"] is None


@pytest.mark.uncounted
def test_an_export_that_is_killed_counts(run: Path) -> None:
    """From the moment of its record on, whatever it had seen; the same again is still the first."""
    options = ("--max-error", "0.3", *LENIENT)
    running = start("emsco-export", run, "--out", run.parent / "killed", *options)
    running.wait_until(lambda: len(uses(run)) == 1)
    running.send_signal(signal.SIGKILL)
    running.wait()
    other = export(run, "other", "--max-error", "0.35", *LENIENT)
    again = export(run, "again", *options)
    assert (other.use and other.use.number, again.use and again.use.number) == (2, 1)
    assert [use["result"] for use in uses(run)] == ["certified", "certified"]


@pytest.mark.uncounted
def test_exports_at_the_same_time(run: Path) -> None:
    """Each has a number of its own."""
    errors = ("0.3", "0.35", "0.4")
    running = [
        start("emsco-export", run, "--out", run.parent / error, "--max-error", error, *LENIENT) for error in (*errors, "0.3")
    ]
    ended = [one.wait() for one in running]
    # Two of them are the same, and into the same folder: the slower one may be refused for that.
    assert [one.returncode for one in ended[1:3]] == [0, 0]
    assert 0 in (ended[0].returncode, ended[3].returncode)
    certificates = [read_bundle(run.parent / error).manifest.certificate for error in errors]
    assert sorted(one.use.number for one in certificates if one is not None and one.use is not None) == [1, 2, 3]
    assert len(uses(run)) == 3


def test_a_run_without_its_ledger(run: Path) -> None:
    """Removing or damaging the file is no way to begin again: no export, and one line with the remedy."""
    export(run, "first")
    out = ("--out", run.parent / "second", "--force")
    ledger = run / "certify.json"
    ledger.write_text(ledger.read_text(encoding="utf-8")[:-10], encoding="utf-8")
    assert f"{ledger}: " in run_expecting_error(1, "emsco-export", run, *out)
    ledger.unlink()
    message = run_expecting_error(1, "emsco-export", run, *out)
    assert f"{ledger} cannot be read: No such file or directory. Restore it, or train again" in message
    assert not (run.parent / "second").exists()


def test_a_new_run_begins_again_and_a_report_changes_nothing(run: Path, table: MixedTable) -> None:
    """The ledger outlives a report; --force makes a new run, with a new ledger."""
    from emsco_train.errors import DesignError
    from emsco_train.report.report_file import write_report

    export(run, "first")
    before = uses(run)
    write_report(run)
    with pytest.raises(DesignError, match=r"certify\.json is a file of the run itself"):
        write_report(run, run / "certify.json")
    assert uses(run) == before
    run_successfully("emsco-train", *table.options(), "--max-stages", 1, "--out", run, "--force")
    assert uses(run) == []


def test_numbers_of_uses_that_are_refused(table: MixedTable, tmp_path: Path) -> None:
    """Before any row is read: exit 2."""
    message = run_expecting_error(2, "emsco-train", *table.options(), "--certify-uses", "0", "--out", tmp_path / "run")
    assert "--certify-uses is 0: expected a whole number from 1 to 1,000" in message


def test_uses_count_on_in_a_run_that_is_resumed(tmp_path: Path) -> None:
    """A run that was cut short, exported and resumed has the same certify rows: its uses stay, and so does their number."""
    search = ["--data", write_wide(tmp_path / "wide.csv"), "--threshold", "0.8", "--stages", "straight"]
    search += ["--search", "evolve", "--generations", 3, "--population", 20]
    out = tmp_path / "run"
    run_successfully("emsco-train", *search, "--out", out, "--time-limit", 0)
    # Before the first use, the number may still change.
    run_successfully("emsco-train", *search, "--out", out, "--time-limit", 0, "--resume", "--certify-uses", 2)
    first = export(out, "first")
    assert first.use is not None
    assert first.use.planned == 2
    before = uses(out)
    message = run_expecting_error(1, "emsco-train", *search, "--out", out, "--resume", "--certify-uses", 3)
    assert "--certify-uses is 3, but the run started with 2, and its certify rows have been used" in message
    run_successfully("emsco-train", *search, "--out", out, "--resume", "--certify-uses", 2)
    assert not (out / ".work").exists()
    assert uses(out) == before
    second = export(out, "second", "--confidence", "0.9")
    assert second.use is not None
    assert second.use.number == 2


def test_rows_that_occur_again_are_not_called_new(tmp_path: Path) -> None:
    """Of a table that holds every row three times, a model has seen the certify rows: its certificate says so."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(300, 3))
    labels = np.where(values[:, 0] + rng.normal(size=300) > 0, "p", "q")
    rows = [",".join([*map(repr, row), label]) for row, label in zip(values.tolist(), labels.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,label", *(rows * 3)]) + "\n")
    run_successfully(
        "emsco-train", "--data", tmp_path / "t.csv", "--threshold", 0.6, "--max-stages", 2, "--out", tmp_path / "run"
    )
    certificate = export(tmp_path / "run", "bundle", *LENIENT)
    assert certificate.repeated is not None
    assert certificate.repeated > 0.8 * certificate.rows
    assert not certificate.is_held
    shown = inspect(tmp_path / "run", "bundle")
    assert f"of which {certificate.repeated} occur again among the rows of the training" in shown
    assert SEEN not in shown


def test_rows_that_occur_again_by_right() -> None:
    """Equal rows of few values are chance, and those of groups, or of a later time, are as the user wants them."""
    rng = np.random.default_rng(0)
    rows, target = rng.integers(0, 60, size=(10_000, 3)).astype(float), rng.integers(0, 2, 10_000)
    by_chance = Problem.of(rows, target, seed=0, threshold=0.6)
    values = np.tile(rng.normal(size=(100, 3)), (3, 1))
    labels = (values[:, 0] > 0).astype(int)
    with pytest.warns(RepeatedRowsWarning):
        copied = Problem.of(values, labels, seed=0, threshold=0.6)
    by_time = Problem.of(values, labels, seed=0, threshold=0.6, time=np.arange(300))
    by_group = Problem.of(values, labels, seed=0, threshold=0.6, groups=np.arange(300) // 3)
    found = []
    for problem in (copied, by_chance, by_time, by_group):
        design = Design.of((0, -1, -1), problem.names, problem.thresholds, coverage=0.0, accuracy=0.0, cost=1.0)
        certificate = certify_design(problem, design, 0.9, MemoryLedger())
        assert certificate is not None
        found.append(certificate.repeated)
    assert found[0] is not None
    assert found[1:] == [None, None, None]
