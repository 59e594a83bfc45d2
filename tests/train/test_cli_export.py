"""`emsco-export`: which design it takes, what it guarantees, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import read_bundle
from emsco_train.designs.front import Front
from emsco_train.designs.selection import MatchEverything
from emsco_train.export.matching_choice import find_matching_design
from emsco_train.runs.opening import open_run
from emsco_train.search.ladder import ladder_front
from tests.processes import run_expecting_error, run_successfully
from tests.train.sample_tables import HEADER, mixed_rows, read_rows, wide_rows, write_mixed, write_rows


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with validation rows of their own; its table lies next to it."""
    folder = tmp_path_factory.mktemp("mixed")
    run_successfully("emsco-train", *write_mixed(folder).options(), "--folds", 0, "--stages", "straight", "--out", folder / "run")
    return folder / "run"


def export(run: Path, out: Path, *options: object) -> tuple[str, Manifest]:
    """Export, and return what was printed and the manifest."""
    shown = run_successfully("emsco-export", run, "--out", out, *options)
    return shown, read_bundle(out).manifest


@pytest.fixture(scope="module")
def default(run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Manifest, Path]:
    """Export without any option; return what was printed, the manifest and the bundle."""
    out = tmp_path_factory.mktemp("default") / "bundle"
    return *export(run, out), out


def design_id_of(manifest: Manifest) -> str:
    """Return the id of the design in a bundle."""
    return str(manifest.provenance.settings["design"])


def validation_counts(run: Path) -> list[dict[str, Any]]:
    """Return the designs of front.csv with their validation figures as numbers."""
    rows: list[dict[str, Any]] = [dict(row) for row in read_rows(run / "front.csv")]
    for row in rows:
        row |= {name: float(row[f"validation_{name}"]) for name in ("coverage", "accuracy", "cost")}
    return rows


# Which design


def test_without_requirements_the_knee_with_a_suggestion(run: Path, default: tuple[str, Manifest, Path], tmp_path: Path) -> None:
    """The knee, its figures, and floors that are in reach; name and version are those of the folder, and 1."""
    shown, manifest, _ = default
    assert design_id_of(manifest) == Front.from_json((run / "front.json").read_bytes()).knee.id
    assert (manifest.name, manifest.version) == ("run", "1")
    assert "the knee of the front; no floor was given" in shown
    floor = shown.partition("floors in reach: --min-accuracy ")[2].partition(",")[0]
    coverage = shown.partition("with --min-coverage ")[2].split(";")[0]
    bounds = [(float(row["accuracy_bound"]), float(row["coverage_bound"])) for row in validation_counts(run)]
    assert any(accuracy >= float(floor) and covered >= float(coverage) for accuracy, covered in bounds)
    _, other = export(run, tmp_path / "other", "--min-accuracy", floor, "--min-coverage", coverage)
    assert other.expected.split == "test"
    assert "verified     300 rows of train, validation, test, certify" in shown


def test_by_floors_the_cheapest(run: Path, tmp_path: Path) -> None:
    """Of the designs that satisfy both floors, at any threshold, the cheapest; with a cap alone, the most accurate."""
    rows = validation_counts(run)
    plain = ["--sure", "none"]
    shown, manifest = export(run, tmp_path / "floors", "--min-accuracy", "0.92", "--min-coverage", "0.75", *plain)
    opened = open_run(run)
    ladder = ladder_front(opened.problem, opened.front)
    fit = [design for design in ladder if design.accuracy >= 0.92 and design.coverage >= 0.75]
    assert 1 < len(fit) < len(ladder)
    assert design_id_of(manifest) == min(fit, key=lambda design: design.cost).id
    assert "the cheapest with accuracy >= 0.92, coverage >= 0.75 on validation rows\n" in shown
    assert "suggestion" not in shown
    assert "bounds at" not in shown
    shown, manifest = export(run, tmp_path / "cap", "--max-cost", "9", *plain)
    assert design_id_of(manifest) == max((row for row in rows if row["cost"] <= 9), key=lambda row: row["accuracy"])["id"]
    assert "the most accurate with cost <= 9" in shown


def test_matching_everything_at_once(run: Path, tmp_path: Path) -> None:
    """The cheapest design that decides nearly as one stage of all features; floors next to it, and no share, are refused."""
    shown, manifest = export(run, tmp_path / "match", "--match-everything", "0.1", "--sure", "none")
    assert (
        "the cheapest that decides at most 10 % of the answered items differently from all features at once (threshold" in shown
    )
    opened = open_run(run)
    found = find_matching_design(opened.problem, opened.front, MatchEverything(0.1, None))
    assert design_id_of(manifest) == found.design.id
    command = ["emsco-export", run, "--out", tmp_path / "no", "--match-everything"]
    message = run_expecting_error(2, *command, "0.1", "--min-coverage", "0.5")
    assert "--match-everything was given together with other criteria: give one or the other" in message
    assert "--match-everything: 1.5 is not a number between 0 and 1" in run_expecting_error(2, *command, "1.5")
    assert "no cheaper design decides at most 0.01 % of the answered items" in run_expecting_error(1, *command, "0.0001")


def test_floors_on_labels(run: Path, tmp_path: Path) -> None:
    """Floors per label choose the cheapest design that keeps them; figures per label and the base rate are printed."""
    floors = ["--min-recall", "spam=0.6", "--min-accuracy", "spam=0.8", "--min-accuracy", "0.8"]
    shown, manifest = export(run, tmp_path / "labels", *floors, "--sure", "none")
    assert "accuracy >= 0.8, recall of spam >= 0.6, accuracy of spam >= 0.8 on validation rows" in shown
    assert "by label, on the test rows:" in shown
    assert "base rate" in shown
    assert [counts.label for counts in manifest.expected.labels] == ["ham", "spam"]
    assert sum(counts.rows for counts in manifest.expected.labels) == manifest.expected.rows
    _, fittest = export(run, tmp_path / "fittest", "--design", "fittest")
    assert design_id_of(fittest) == validation_counts(run)[0]["id"]
    for option in ("--min-recall", "--min-accuracy"):
        message = run_expecting_error(1, "emsco-export", run, "--out", tmp_path / "other", option, "eggs=0.5")
        assert f"{option} names 'eggs', which is not a label (labels: ham, spam)" in message


def test_thresholds_that_differ_name_their_labels(tmp_path: Path) -> None:
    """Two numbers alone do not say whose they are; the lines of a shared threshold and of emsco-inspect are as before."""
    options = [*write_mixed(tmp_path).options(), "--threshold", "ham=0.72,spam=0.9", "--stages", "straight"]
    run_successfully("emsco-train", *options, "--out", tmp_path / "run")
    rows = {row["threshold"]: row["id"] for row in read_rows(tmp_path / "run" / "front.csv")}
    shown, _ = export(tmp_path / "run", tmp_path / "two", "--design", rows["0.72,0.9"])
    assert "\nthreshold    ham 0.72, spam 0.9\n" in shown
    assert "ham 0.72, spam 0.9" in run_successfully("emsco-inspect", tmp_path / "two")
    shown, _ = export(tmp_path / "run", tmp_path / "one", "--design", rows["0.8"])
    assert "\nthreshold    0.8\n" in shown


def test_by_bounds_unless_told_otherwise(run: Path, tmp_path: Path) -> None:
    """Floors hold by the bounds of front.csv, or by those at another level; one that only a figure reaches is refused."""
    rows = validation_counts(run)
    best = max(rows, key=lambda row: row["accuracy"])
    floor = round(float(best["accuracy_bound"]) - 0.03, 3)
    shown, manifest = export(run, tmp_path / "sure", "--min-accuracy", floor)
    fit = [row for row in rows if float(row["accuracy_bound"]) >= floor]
    assert design_id_of(manifest) == min(fit, key=lambda row: row["cost"])["id"]
    assert f"the cheapest with accuracy >= {floor:g} on validation rows, by bounds at level 0.85\n" in shown
    assert "bounds at level 0.85 (--sure): coverage >= " in shown
    options = [run, "--out", tmp_path / "bundle", "--min-accuracy", best["accuracy"] - 0.01]
    message = run_expecting_error(1, "emsco-export", *options)
    assert " short" in message
    assert "rows instead of 60 would do" in message
    assert message.rstrip().endswith("or choose by the figures alone with --sure none")
    shown, manifest = export(run, tmp_path / "half", "--min-accuracy", floor, "--sure", "0.5")
    assert "by bounds at level 0.5\n" in shown
    assert not (tmp_path / "bundle").exists()


def test_by_the_beginning_of_an_id(run: Path, tmp_path: Path) -> None:
    """Any design of front.csv, by a unique beginning of its id; names are the user's."""
    design = validation_counts(run)[-1]["id"]
    shown, manifest = export(run, tmp_path / "bundle", "--design", design[:6], "--name", "mail", "--bundle-version", "2.1")
    assert design_id_of(manifest) == design
    assert (manifest.name, manifest.version) == ("mail", "2.1")
    assert f"design       {design}: it was named" in shown


def test_requirements_that_cannot_be_met(run: Path, tmp_path: Path) -> None:
    """Floors that contradict each other, ids that no design has: exit 1, the nearest design, and no bundle."""
    out = ["--out", tmp_path / "bundle"]
    message = run_expecting_error(1, "emsco-export", run, *out, "--min-accuracy", "0.99", "--min-coverage", "0.99")
    assert " designs satisfies --min-accuracy 0.99, --min-coverage 0.99 with bounds at --sure 0.85; nearest is " in message
    message = run_expecting_error(1, "emsco-export", run, *out, "--design", "ffff")
    assert "0 designs have an id that begins with 'ffff': give one of " in message
    assert not (tmp_path / "bundle").exists()


def test_wrong_use(run: Path, tmp_path: Path) -> None:
    """What no run could satisfy: exit 2, one line, and no bundle."""
    out = ["--out", tmp_path / "bundle"]
    for options, message in (
        (
            ["--design", "ab", "--max-cost", "3"],
            "--design was given together with requirements or --max-error: give one or the other",
        ),
        (["--min-accuracy", "1.5"], "--min-accuracy is 1.5: expected a number from 0 to 1"),
        (["--min-accuracy", "much"], "--min-accuracy 'much': expected a number, or LABEL=NUMBER such as fraud=0.9"),
        (
            ["--min-accuracy", "0.9", "--min-accuracy", "0.8"],
            "--min-accuracy '0.8': a number for all rows is given twice, 0.9 before: give it once",
        ),
        (["--min-recall", "0.8"], "--min-recall '0.8': expected LABEL=NUMBER, such as spam=0.01"),
        (["--min-recall", "spam=2"], "--min-recall of 'spam' is 2.0: expected a number from 0 to 1"),
        (["--max-cost", "-1"], "--max-cost is -1.0"),
        (["--confidence", "95"], "--confidence is 95.0: expected a number of at least 0.5 and below 1"),
        (["--max-error", "0"], "--max-error is 0.0: expected a number above 0 and below 1"),
        (["--max-error", "few"], "argument --max-error: invalid float value: 'few'"),
        (["--sure", "1"], "--sure is 1.0: expected a number from 0.5 to below 1, or none"),
        (["--sure", "very"], "argument --sure: expected a number or none, got 'very'"),
    ):
        assert message in run_expecting_error(2, "emsco-export", run, *out, *options)
    assert "required: --out" in run_expecting_error(2, "emsco-export", run)
    assert not (tmp_path / "bundle").exists()


# What is guaranteed


def test_a_fixed_design_gets_its_own_bound(run: Path, tmp_path: Path) -> None:
    """Without --max-error the choice does not look at the certify rows; the certificate is the exact bound of the one design."""
    shown, manifest = export(run, tmp_path / "bundle", "--confidence", "0.9")
    certificate = manifest.certificate
    assert certificate is not None
    assert (certificate.method, certificate.rows, certificate.confidence) == ("clopper-pearson", 60, 0.9)
    assert certificate.choice is None
    assert "at 90 % confidence" in shown


def test_a_guarantee_that_can_be_given(run: Path, tmp_path: Path) -> None:
    """--max-error: the certificate states the error asked for, not a smaller one, and how many designs were tested for it."""
    shown, manifest = export(run, tmp_path / "bundle", "--max-error", "0.16", "--confidence", "0.9")
    certificate = manifest.certificate
    assert certificate is not None
    assert (certificate.method, certificate.max_error) == ("fixed-sequence", 0.16)
    assert certificate.choice is not None
    assert f"{certificate.choice.passed} of {certificate.choice.tested} designs tested passed" in shown
    assert "this covers most of them on validation rows, the cheapest of those that cover as many percent" in shown
    shown, _ = export(run, tmp_path / "cheap", "--max-error", "0.16", "--confidence", "0.9", "--min-coverage", "0.5")
    assert "this is the cheapest of them on validation rows" in shown


def test_one_promise_for_all_limits(run: Path, tmp_path: Path) -> None:
    """Errors, coverage and cost are promised together, per label too; a label that there is not is refused by its name."""
    wish = [
        "--max-error",
        "0.2",
        "--max-error-of",
        "spam=0.3",
        "--min-coverage",
        "0.5",
        "--max-cost",
        "12",
        "--min-recall",
        "spam=0.2",
        "--confidence",
        "0.8",
    ]
    shown, manifest = export(run, tmp_path / "bundle", *wish)
    certificate = manifest.certificate
    assert certificate is not None
    assert certificate.promise is not None
    assert certificate.promise.model_dump(mode="json") == {
        "max_error": 0.2,
        "max_error_of": [{"label": "spam", "max_error": 0.3}],
        "min_coverage": 0.5,
        "max_cost": 12.0,
        "min_recall": [{"label": "spam", "min_recall": 0.2}],
    }
    for line in (
        "all of this together at 80 % confidence",
        "- error among accepted as spam <= 30 %",
        "- recall of spam >= 20 %",
        "- mean cost <= 12 ",
    ):
        assert line in shown
    out = ["--out", tmp_path / "other"]
    message = run_expecting_error(1, "emsco-export", run, *out, "--max-error-of", "maybe=0.1")
    assert "--max-error-of names 'maybe', which is not a label (labels: " in message
    message = run_expecting_error(2, "emsco-export", run, *out, "--max-error-of", "spam")
    assert "--max-error-of 'spam': expected LABEL=NUMBER, such as spam=0.01" in message
    assert not (tmp_path / "other").exists()


def test_guarantees_that_cannot_be_given(run: Path, tmp_path: Path) -> None:
    """Exit 1, the nearest bound, about how many rows it would take; where validation rules out all, no certify row is used."""
    out = ["--out", tmp_path / "bundle"]
    message = run_expecting_error(1, "emsco-export", run, *out, "--max-error", "0.08", "--confidence", "0.9")
    assert re.search(
        r"so its error may be as large as \d+\.\d+ %; the other (one was|\d+ were) not tested\. It takes about \d+ accepted rows",
        message,
    )
    message = run_expecting_error(1, "emsco-export", run, *out, "--max-error", "0.001")
    assert "there are 60 certify rows, and it takes at least 2,995 accepted, all of them right; nearest is" in message
    assert "The certify rows were not looked at" in message
    assert "accepted rows" in message
    assert not (tmp_path / "bundle").exists()


def test_without_certify_rows(tmp_path: Path) -> None:
    """No certificate; and --max-error, which needs such rows, is refused with the remedy."""
    mixed = write_mixed(tmp_path)
    run_successfully("emsco-train", *mixed.options(), "--max-stages", 1, "--shares", "0.5,0.25,0.25,0", "--out", tmp_path / "run")
    shown, manifest = export(tmp_path / "run", tmp_path / "bundle")
    assert manifest.certificate is None
    assert "certificate  none" in shown
    message = run_expecting_error(1, "emsco-export", tmp_path / "run", "--out", tmp_path / "other", "--max-error", "0.1")
    assert (
        "there are no certify rows, which a guarantee needs: train with a share of certify rows, or with a table of them"
        in message
    )


# The data


def test_data_that_were_moved(run: Path, default: tuple[str, Manifest, Path], tmp_path: Path) -> None:
    """The run may be copied anywhere; --data says where the table is, whose columns may be in another order, or more."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(run, copy)
    away = tmp_path / "gone.csv"
    record = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    record["data"]["files"][0]["path"] = str(away)
    (copy / "run.json").write_text(json.dumps(record), encoding="utf-8")
    message = run_expecting_error(1, "emsco-export", copy, "--out", tmp_path / "bundle")
    assert f"{away} does not exist" in message
    order = [*reversed(HEADER), "note"]
    rows = [[*reversed(row), "new"] for row in mixed_rows()]
    moved = write_rows(tmp_path / "moved.csv", order, rows)
    _, manifest = export(copy, tmp_path / "bundle", "--data", moved)
    _, usual, _ = default
    assert manifest.stages == usual.stages
    assert manifest.expected == usual.expected
    message = run_expecting_error(1, "emsco-export", copy, "--out", tmp_path / "other", "--train", moved)
    assert f"{copy} was trained on one table: give --data for one table" in message


def test_data_that_changed(run: Path, tmp_path: Path) -> None:
    """One value, one row more, a column less, another name for a label: exit 1 with the file and the remedy, and no bundle."""
    changed, longer = mixed_rows(), mixed_rows(301)
    changed[17][1] = "1.234"
    # Without a check of its own, it was the threshold for 'Ham' that was said to be missing, with the advice to add it.
    renamed = [[*row[:-1], row[-1].replace("ham", "Ham")] for row in mixed_rows()]
    tables = {
        "renamed.csv": (write_rows(tmp_path / "renamed.csv", HEADER, renamed), "trained: the label 'Ham' is new. Give"),
        "changed.csv": (write_rows(tmp_path / "changed.csv", HEADER, changed), "values have changed since the run was trained"),
        "longer.csv": (write_rows(tmp_path / "longer.csv", HEADER, longer), "has 301 rows, it had 300 when the run was trained"),
        "less.csv": (write_rows(tmp_path / "less.csv", HEADER[1:], [row[1:] for row in changed]), "there is no column 'size'"),
    }
    for name, (path, message) in tables.items():
        line = run_expecting_error(1, "emsco-export", run, "--out", tmp_path / "bundle", "--data", path)
        assert message in line
        assert name in line
        assert ("Give the data that it was trained on with --data, or train again" in line) == (name != "less.csv")
    assert not (tmp_path / "bundle").exists()


def test_ready_splits_that_were_moved(tmp_path: Path) -> None:
    """Each file may be given a new path; one table in their place is refused."""
    rows, header = wide_rows(160, 3), ["f0", "f1", "f2", "label"]
    parts = {"train": rows[:80], "validation": rows[80:120], "test": rows[120:]}
    options: list[object] = []
    for name, part in parts.items():
        options += [f"--{name}", write_rows(tmp_path / f"{name}.csv", header, part)]
    run_successfully("emsco-train", *options, "--threshold", "0.8", "--out", tmp_path / "run")
    (tmp_path / "test.csv").rename(tmp_path / "exam.csv")
    assert "test.csv does not exist" in run_expecting_error(1, "emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    export(tmp_path / "run", tmp_path / "bundle", "--test", tmp_path / "exam.csv")
    message = run_expecting_error(
        1, "emsco-export", tmp_path / "run", "--out", tmp_path / "other", "--data", tmp_path / "exam.csv"
    )
    assert "was trained on the files of train, validation, test" in message


# The folders


def test_a_bundle_that_exists_already(run: Path, default: tuple[str, Manifest, Path], tmp_path: Path) -> None:
    """Exit 1 without --force, as for a run, and before the certify rows are used; with it, the new one takes its place."""
    out = tmp_path / "bundle"
    _, first, written = default
    shutil.copytree(written, out)
    before = (out / "manifest.json").read_bytes()
    message = run_expecting_error(1, "emsco-export", run, "--out", out, "--max-cost", "9")
    assert f"{out} already holds a bundle: choose another folder, or use --force to replace it" in message
    assert (out / "manifest.json").read_bytes() == before
    _, second = export(run, out, "--max-cost", "9", "--force")
    assert design_id_of(second) != design_id_of(first)
    named = {Path(stage.model.path).name for stage in second.stages}
    assert {entry.name for entry in (out / "stages").iterdir()} == named
    assert sorted(entry.name for entry in out.iterdir()) == ["manifest.json", "stages"]


def test_places_that_are_not_written_to(run: Path, tmp_path: Path) -> None:
    """A file, a place below one, and a folder of other files stay as they are, and no certify row is used."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    uses = (run / "certify.json").read_bytes()
    for out in ("file", "file/bundle", "full"):
        message = run_expecting_error(1, "emsco-export", run, "--out", tmp_path / out, "--force", "--max-cost", "7")
        assert str(tmp_path / out) in message
    message = run_expecting_error(2, "emsco-export", run, "--out", tmp_path / "bundle", "--bundle-version", "", "--max-cost", "7")
    assert "--bundle-version is '', which a bundle cannot hold" in message
    # A use of the certify rows makes the next certificate weaker.
    assert (run / "certify.json").read_bytes() == uses
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "full"]
    assert (tmp_path / "file").read_text() == "mine"


def test_runs_that_cannot_be_opened(run: Path, tmp_path: Path) -> None:
    """Missing, not a run, of another version, damaged, unfinished: exit 1, one line with the file and the remedy."""
    out = ["--out", tmp_path / "bundle"]
    message = run_expecting_error(1, "emsco-export", tmp_path / "nowhere", *out)
    assert "does not exist: give the folder that emsco-train wrote" in message
    assert "holds no run.json" in run_expecting_error(1, "emsco-export", tmp_path, *out)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    front = (copy / "front.csv").read_text(encoding="utf-8")
    (copy / "front.csv").write_text(front.replace("0.8", "0.9"), encoding="utf-8")
    message = run_expecting_error(1, "emsco-export", copy, *out)
    assert "front.csv is missing or is not the file that this run wrote: restore it" in message
    (copy / "front.csv").write_text(front, encoding="utf-8")
    record = (copy / "run.json").read_text(encoding="utf-8")
    (copy / "run.json").write_text(record.replace('"version": 2', '"version": 7'), encoding="utf-8")
    message = run_expecting_error(1, "emsco-export", copy, *out)
    assert "run.json: this run has version 7, this emsco reads version 2. Train again" in message
    (copy / "run.json").unlink()
    (copy / ".work").mkdir()
    message = run_expecting_error(1, "emsco-export", copy, *out)
    assert "holds an unfinished run: end it by training again with --resume" in message
    assert not (tmp_path / "bundle").exists()


def test_a_floor_that_other_rows_do_not_keep_is_pointed_out(run: Path, tmp_path: Path) -> None:
    """Exactly where the test figures, of all rows or of a label, are below a floor that the validation figures keep."""
    pointed_out = []
    for accuracy, recall in [(0.5, 0.1), (0.8, 0.3)]:
        floors = ["--min-accuracy", accuracy, "--min-recall", f"spam={recall}"]
        shown, manifest = export(run, tmp_path / f"{accuracy}", *floors, "--sure", "none")
        expected = manifest.expected
        figures = [
            ("accuracy", expected.right / expected.accepted, accuracy),
            ("recall of spam", expected.labels[1].recall, recall),
        ]
        missed = [f"{name} {figure:.4g} (at least {floor:g} was asked for)" for name, figure, floor in figures if figure < floor]
        lines = [line for line in shown.splitlines() if line.startswith("caution      on the test rows")]
        assert [line.partition(" rows ")[2].partition(";")[0] for line in lines] == ([", ".join(missed)] if missed else [])
        pointed_out.append(len(missed))
    assert pointed_out == [0, 2]
