"""From a table to decisions with the four commands: all of them show the same figures."""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import BIN, run_successfully
from tests.train.sample_tables import HEADER, MixedTable, mixed_rows, read_rows, wide_rows, write_mixed, write_rows

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


class PrintedCounts(NamedTuple):
    """Coverage, accuracy and mean cost, as text."""

    coverage: str
    accuracy: str
    cost: str


def from_train(shown: str, design: str) -> PrintedCounts:
    """Return the test figures of a design in the table that emsco-train prints."""
    line = next(line for line in shown.splitlines() if design in line)
    return PrintedCounts(*re.split(r"\s{2,}", line.partition(design)[2].strip())[3:6])


def from_export(shown: str) -> PrintedCounts:
    """Return the test figures that emsco-export prints."""
    return PrintedCounts(*_match(r"^test +coverage (.+), accuracy (.+), mean cost (\S+) ", shown))


def from_run(shown: str) -> PrintedCounts:
    """Return the figures that emsco-run prints."""
    return PrintedCounts(*_match(r"^coverage +(.+?) \(.*\naccuracy +(.+?) \(.*\nmean cost +(\S+) ", shown))


def from_inspect(shown: str) -> PrintedCounts:
    """Return the figures that emsco-inspect prints."""
    return PrintedCounts(*_match(r"^expected +coverage (.+), accuracy (.+) on \d+ test rows\n +cost mean (\S+) ", shown))


def _match(pattern: str, shown: str) -> tuple[str, ...]:
    found = re.search(pattern, shown, re.MULTILINE)
    assert found is not None, shown
    return found.groups()


def chosen_design_id(shown: str) -> str:
    """Return the id of the design that emsco-export chose."""
    return _match(r"^design +([0-9a-f]{12}):", shown)[0]


def run_installed(command: str, *arguments: object, cwd: Path) -> str:
    """Run an installed command, as a user does."""
    ended = subprocess.run([BIN / command, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_installed_commands_on_a_mixed_table(tmp_path: Path) -> None:
    """Gaps, yes/no, text, a group of costs: training, export, emsco-run on the test rows and emsco-inspect agree to the digit."""
    write_mixed(tmp_path)
    options = ["--label", "verdict", "--costs", "costs.toml", "--threshold", "0.8"]
    trained = run_installed("emsco-train", "--data", "mixed.csv", *options, "--out", "run", cwd=tmp_path)
    exported = run_installed("emsco-export", "run", "--out", "bundle", cwd=tmp_path)
    decide = ["bundle", "mixed.csv", "--run", "run", "--split", "test", "--label", "verdict", "--out", "out.csv"]
    ran = run_installed("emsco-run", *decide, cwd=tmp_path)
    inspected = run_installed("emsco-inspect", "bundle", cwd=tmp_path)
    assert "run/report.html" in run_installed("emsco-report", "run", cwd=tmp_path)
    shown = from_export(exported)
    assert from_train(trained, chosen_design_id(exported)) == from_run(ran) == from_inspect(inspected) == shown
    assert "EUR" in exported
    # The columns were understood as they were meant.
    for line in (
        r"size +numeric +\d+ +1 +-",
        r"rate +numeric +- +2.5 +lab",
        r"flag +boolean",
        r"colour +categorical \(3\) +\d+ +4 +lab",
    ):
        assert re.search(line, trained), trained
    assert len(read_rows(tmp_path / "out.csv")) == 60


def test_a_design_by_floors_too(tmp_path: Path) -> None:
    """What emsco-train suggests to type next gives a design that keeps the floors, tuned, with the same figures everywhere."""
    mixed = write_mixed(tmp_path)
    trained = run_successfully("emsco-train", *mixed.options(), "--stages", "curved", "--out", tmp_path / "run")
    requirements = _match(r"^next +emsco-export \S+ --out BUNDLE(.*)$", trained)[0].split()
    assert requirements[0] == "--min-accuracy"
    exported = run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle", *requirements)
    ran = run_on_test_rows(tmp_path / "bundle", mixed.data, tmp_path / "run", tmp_path, "--label", "verdict")
    assert from_export(exported) == from_run(ran)
    bounds = _match(r"bounds at level 0.85 \(--sure\): coverage >= ([0-9.]+) %, accuracy >= ([0-9.]+) %", exported)
    assert float(bounds[0]) >= 100 * float(requirements[3])
    assert float(bounds[1]) >= 100 * float(requirements[1])


def run_on_test_rows(bundle: Path, data: Path, run: Path, folder: Path, *more: object) -> str:
    """Decide the test rows of a run."""
    return run_successfully("emsco-run", bundle, data, "--run", run, "--split", "test", "--out", folder / "decisions.csv", *more)


def write_turney_costs(path: Path) -> Path:
    """Write Turney's prices as a costs file: a test has its discount price of its own, and the rest is its group's."""
    with (SHARED / "turney_costs.csv").open(newline="") as file:
        prices = [row for row in csv.DictReader(file) if row["dataset"] == "pima.csv"]
    lines = ['unit = "CAD"', "[features]", *(f"{row['feature']} = {row['discount_cost']}" for row in prices)]
    groups: dict[str, list[dict[str, str]]] = {}
    for row in prices:
        if row["group"]:
            groups.setdefault(row["group"], []).append(row)
    for name, members in groups.items():
        shared = {round(float(row["cost"]) - float(row["discount_cost"]), 2) for row in members}
        assert len(shared) == 1
        listed = ", ".join(f'"{row["feature"]}"' for row in members)
        lines += [f"[groups.{name}]", f"cost = {shared.pop()}", f"features = [{listed}]"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.skipif(not (SHARED / "pima.csv").exists(), reason="needs the shared data sets")
def test_pima_with_turneys_costs(tmp_path: Path) -> None:
    """Real data with real prices, discounts as groups: all four commands, the same figures."""
    costs, data = write_turney_costs(tmp_path / "costs.toml"), SHARED / "pima.csv"
    trained = run_successfully(
        "emsco-train", "--data", data, "--costs", costs, "--threshold", "0.75", "--max-stages", 3, "--out", tmp_path / "run"
    )
    assert "all features: 44.29 CAD" in trained
    # Floors may choose a design with tuned thresholds, which front.csv does not list.
    for name, choice in (("floors", ("--min-accuracy", "0.8", "--min-coverage", "0.5")), ("knee", ("--design", "knee"))):
        bundle = tmp_path / name
        exported = run_successfully("emsco-export", tmp_path / "run", "--out", bundle, *choice)
        ran = run_on_test_rows(bundle, data, tmp_path / "run", tmp_path)
        shown = from_export(exported)
        assert from_run(ran) == from_inspect(run_successfully("emsco-inspect", bundle)) == shown
    chosen = next(row for row in read_rows(tmp_path / "run" / "front.csv") if row["id"] == chosen_design_id(exported))
    assert shown == PrintedCounts(
        f"{100 * float(chosen['test_coverage']):.2f} %",
        f"{100 * float(chosen['test_accuracy']):.2f} %",
        f"{float(chosen['test_cost']):.6g}",
    )


def test_the_form_of_the_papers_authors(tmp_path: Path) -> None:
    """Ready splits with columns f0, f1, ..., label and a costs file of one line: no certificate, rows counted in each file."""
    rows, header = wide_rows(240, 4), ["f0", "f1", "f2", "f3", "label"]
    parts = {"train": rows[:120], "validation": rows[120:180], "test": rows[180:]}
    options: list[object] = []
    for name, part in parts.items():
        options += [f"--{name}", write_rows(tmp_path / f"{name}.csv", header, part)]
    (tmp_path / "costs.csv").write_text("1, 10, 100, 1000\n", encoding="utf-8")
    trained = run_successfully(
        "emsco-train", *options, "--costs", tmp_path / "costs.csv", "--threshold", "0.8", "--out", tmp_path / "run"
    )
    assert "splits   train 120, validation 60, test 60" in trained
    splits = read_rows(tmp_path / "run" / "splits.csv")
    assert [row["row"] for row in splits] == [*map(str, range(120)), *map(str, range(60)), *map(str, range(60))]
    exported = run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    assert "certificate  none" in exported
    ran = run_on_test_rows(tmp_path / "bundle", tmp_path / "test.csv", tmp_path / "run", tmp_path)
    assert from_train(trained, chosen_design_id(exported)) == from_export(exported) == from_run(ran)


def test_without_test_rows_the_validation_rows_report(tmp_path: Path) -> None:
    """Train and validation rows alone: the test columns of front.csv are empty, and the bundle expects validation figures."""
    rows, header = wide_rows(200, 3), ["f0", "f1", "f2", "label"]
    train = write_rows(tmp_path / "a.csv", header, rows[:120])
    validation = write_rows(tmp_path / "b.csv", header, rows[120:])
    trained = run_successfully(
        "emsco-train", "--train", train, "--validation", validation, "--threshold", "0.8", "--out", tmp_path / "run"
    )
    assert "test coverage" not in trained
    front = read_rows(tmp_path / "run" / "front.csv")
    assert {row[f"test_{figure}"] for row in front for figure in ("coverage", "accuracy", "cost")} == {""}
    exported = run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    assert exported.count("validation   coverage") == 1
    assert "validation rows" in run_successfully("emsco-inspect", tmp_path / "bundle")


def test_csv_and_parquet_are_the_same_table(tmp_path: Path) -> None:
    """The same values as typed columns in Parquet: the same splits, fronts and figures, and one bundle decides rows of either."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    mixed = write_mixed(tmp_path)
    columns = dict(zip(HEADER, zip(*mixed_rows(), strict=True), strict=True))
    table = pa.table(
        {
            "size": pa.array([float(value) if value else None for value in columns["size"]]),
            "rate": pa.array([float(value) for value in columns["rate"]]),
            "flag": pa.array([value == "yes" for value in columns["flag"]]),
            "colour": pa.array([value or None for value in columns["colour"]]).dictionary_encode(),
            "count": pa.array([int(value) for value in columns["count"]]),
            "verdict": pa.array(columns["verdict"]),
        }
    )
    pq.write_table(table, tmp_path / "mixed.parquet")
    parquet = MixedTable(tmp_path / "mixed.parquet", mixed.costs)
    for given, name in ((mixed, "csv"), (parquet, "parquet")):
        run_successfully("emsco-train", *given.options(), "--out", tmp_path / name)
    for file in ("front.csv", "front.json", "splits.csv", "calibration.json", "costs.toml"):
        assert (tmp_path / "csv" / file).read_bytes() == (tmp_path / "parquet" / file).read_bytes()
    exported = run_successfully("emsco-export", tmp_path / "parquet", "--out", tmp_path / "bundle")
    assert from_run(
        run_on_test_rows(tmp_path / "bundle", mixed.data, tmp_path / "csv", tmp_path, "--label", "verdict")
    ) == from_export(exported)
    # The same data in the other form still is the data of the run.
    run_successfully("emsco-export", tmp_path / "parquet", "--out", tmp_path / "again", "--data", mixed.data)
