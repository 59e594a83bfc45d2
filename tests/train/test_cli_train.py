"""`emsco-train`: every option does what it says, and every error is one line."""

from __future__ import annotations

import csv
import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from emsco_runtime import Cascade
from emsco_train import Design, Front
from emsco_train.data.problem import Problem
from emsco_train.report import write_report
from emsco_train.runs import training
from emsco_train.runs.folder import RunFolder
from tests.processes import run, run_expecting_error, run_successfully, without_progress
from tests.train.sample_tables import COSTS, HEADER, MixedTable, mixed_rows, read_rows, write_mixed, write_rows, write_wide


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> MixedTable:
    """Write the mixed table."""
    return write_mixed(tmp_path_factory.mktemp("table"))


@pytest.fixture(scope="module")
def plain_process(mixed: MixedTable, tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Train without any option."""
    ended = run("emsco-train", *mixed.options(), "--out", tmp_path_factory.mktemp("runs") / "plain")
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.fixture(scope="module")
def plain(plain_process: subprocess.CompletedProcess[str]) -> Path:
    """Return the folder of the run without any option."""
    return Path(plain_process.args[-1])


def front(path: Path) -> Front:
    """Read the front of a run."""
    return Front.from_json((path / "front.json").read_bytes())


def split_of(path: Path) -> list[str]:
    """Return the split of each row."""
    return [row["split"] for row in read_rows(path / "splits.csv")]


# Options


def test_a_sweep_with_thresholds_per_label(mixed: MixedTable, tmp_path: Path) -> None:
    """--threshold repeats: each has its designs and its fittest, and a design is exported with the thresholds it was found at."""
    shown = run_successfully(
        "emsco-train", *mixed.options(), "--threshold", "0.65", "--threshold", "spam=0.95,ham=0.7", "--out", tmp_path / "run"
    )
    designs = front(tmp_path / "run")
    assert {design.thresholds for design in designs} == {(0.8, 0.8), (0.65, 0.65), (0.7, 0.95)}
    for said in ("fittest at 0.8", "fittest at 0.65", "fittest at ham 0.7, spam 0.95", "all features at ham 0.7, spam 0.95"):
        assert said in shown
    chosen = next(design for design in designs if design.thresholds == (0.7, 0.95))
    run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle", "--design", chosen.id)
    manifest = Cascade.load(tmp_path / "bundle").manifest
    assert all(stage.thresholds == {"ham": 0.7, "spam": 0.95} for stage in manifest.stages)


def test_pins_exclusion_and_stages(mixed: MixedTable, plain: Path, tmp_path: Path) -> None:
    """--pin keeps a feature first, --max-stages bounds, and features may be left out, unless --keep-all says otherwise."""
    run_successfully("emsco-train", *mixed.options(), "--pin", "flag", "--max-stages", 2, "--out", tmp_path / "run")
    designs = front(tmp_path / "run")
    assert all("flag" in design.stages[0] for design in designs)
    assert max(len(design.stages) for design in designs) == 2
    assert any(design.excluded for design in designs)
    usual = front(plain)
    assert max(len(design.stages) for design in usual) == 3
    assert any("flag" not in design.stages[0] for design in usual)
    run_successfully("emsco-train", *mixed.options(), "--keep-all", "--out", tmp_path / "whole")
    assert not any(design.excluded for design in front(tmp_path / "whole"))
    run_successfully("emsco-train", *mixed.options(), "--allow-exclusion", "--out", tmp_path / "earlier")
    assert front(tmp_path / "earlier") == usual
    assert {row["excluded"] for row in read_rows(tmp_path / "run" / "front.csv")} != {""}


def test_a_warm_start(mixed: MixedTable, plain: Path, tmp_path: Path) -> None:
    """--start begins with the designs of a run: a search of one generation has its front; other features are refused."""
    short = ["--search", "evolve", "--generations", 1]
    run_successfully("emsco-train", *mixed.options(), *short, "--start", plain, "--out", tmp_path / "run")
    # A design that accepts nothing is the cheapest there is, and may be missing.
    found = {(design.coverage, design.accuracy, design.cost) for design in front(tmp_path / "run")}
    assert found >= {(design.coverage, design.accuracy, design.cost) for design in front(plain) if design.coverage > 0}
    acquired = front(plain)[0].stages[0][0]
    options = [*mixed.options(), "--drop", acquired, "--start", plain, "--out", tmp_path / "other"]
    error = run_expecting_error(1, "emsco-train", *options)
    assert f"acquires {acquired!r}, which is not a feature of this table" in error


def test_both_searches_and_the_polish(mixed: MixedTable, plain: Path, tmp_path: Path) -> None:
    """Evolved and polished on a problem this small, the front is the exact one; the record names the search."""
    small = ["--search", "evolve", "--population", 40, "--generations", 20, "--polish"]
    run_successfully("emsco-train", *mixed.options(), *small, "--out", tmp_path / "evolved")
    run_successfully("emsco-train", *mixed.options(), "--search", "exhaustive", "--out", tmp_path / "exact")
    methods = [RunFolder(path).read().thresholds[0].method for path in (tmp_path / "evolved", tmp_path / "exact", plain)]
    assert methods == ["evolve", "exhaustive", "exhaustive"]
    figures = [
        {(design.coverage, design.accuracy, design.cost) for design in front(path)}
        for path in (tmp_path / "evolved", tmp_path / "exact", plain)
    ]
    assert figures[0] == figures[1] == figures[2]


def test_the_settings_of_the_genetic_algorithm_arrive(mixed: MixedTable, tmp_path: Path) -> None:
    """Each option is recorded under its own name."""
    given = {"population": 20, "generations": 3, "patience": 2, "growth": 5, "max_stages": 4}
    shares = {"mutation": 0.3, "crossover": 0.5, "elite": 0.25, "beta": 3.5}
    options = [word for name, value in (given | shares).items() for word in (f"--{name.replace('_', '-')}", value)]
    run_successfully(
        "emsco-train", *mixed.options(), "--search", "evolve", *options, "--time-limit", 600, "--out", tmp_path / "run"
    )
    search = RunFolder(tmp_path / "run").read().search
    assert {name: search.settings[name] for name in given | shares} == given | shares
    assert (search.method, search.time_limit) == ("evolve", 600.0)


def test_units_and_shared_prices(mixed: MixedTable, tmp_path: Path) -> None:
    """--units groups moves what is paid together as one; dropping a source keeps its price for what is derived from it."""
    shared = """unit = "EUR"
[features]
size = 1
rate = 0
flag = {groups = ["lab", "desk"]}
colour = 0
count = {from = ["size", "rate"]}
[groups.lab]
cost = 3
features = ["rate", "colour"]
[groups.desk]
cost = 0.5
"""
    costs = tmp_path / "costs.toml"
    costs.write_text(shared, encoding="utf-8")
    options = MixedTable(mixed.data, costs).options()
    run_successfully("emsco-train", *options, "--units", "groups", "--keep-all", "--out", tmp_path / "run")
    record = RunFolder(tmp_path / "run").read()
    assert (record.search.settings["units"], record.thresholds[0].genes) == ("groups", 4)
    assert all(design.chromosome[1] == design.chromosome[3] for design in front(tmp_path / "run"))
    run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    shown = run_successfully("emsco-inspect", tmp_path / "bundle")
    assert "lab, size" in shown
    assert Cascade.load(tmp_path / "bundle").manifest.meter().total == 4.5
    shown = run_successfully("emsco-train", *options, "--drop", "size", "--out", tmp_path / "dropped")
    assert "all features: 4.5 EUR" in shown
    write_report(tmp_path / "run")


def test_a_search_on_a_sample_is_measured_on_all_rows(mixed: MixedTable, tmp_path: Path) -> None:
    """--max-search-rows: figures are those of all validation rows, as `emsco-run` finds them; no design dominates another."""
    options = [*mixed.options(), "--folds", 0, "--max-search-rows", 40]
    shown = run_successfully("emsco-train", *options, "--out", tmp_path / "run")
    assert "search   on a sample of 40 train and 40 validation rows" in shown
    assert RunFolder(tmp_path / "run").read().search.max_search_rows == 40
    found = front(tmp_path / "run")
    assert not any(_dominates(one, other) for one in found for other in found)
    run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle", "--design", found[-1].id)
    split = ["--run", tmp_path / "run", "--split", "validation", "--label", "verdict", "--out", tmp_path / "decisions.csv"]
    shown = run_successfully("emsco-run", tmp_path / "bundle", mixed.data, *split)
    accepted, right = round(found[-1].coverage * 60), round(found[-1].accuracy * found[-1].coverage * 60)
    assert f"({accepted} accepted, {60 - accepted} rejected)" in shown
    assert f"({right} of {accepted} accepted are right)" in shown
    assert f"mean cost  {found[-1].cost:.6g} EUR" in shown


def _figures(design: Design) -> tuple[float, float, float]:
    return design.coverage, design.accuracy, -design.cost


def _dominates(one: Design, other: Design) -> bool:
    pairs = list(zip(_figures(one), _figures(other), strict=True))
    return all(mine >= theirs for mine, theirs in pairs) and any(mine > theirs for mine, theirs in pairs)


def test_constraints_of_the_search(mixed: MixedTable, tmp_path: Path) -> None:
    """--min-coverage, --min-accuracy, --max-cost: nothing else is found; what cannot be met is an error that leaves nothing."""
    bounds = ["--min-coverage", "0.7", "--min-accuracy", "0.8", "--max-cost", "9"]
    run_successfully("emsco-train", *mixed.options(), *bounds, "--out", tmp_path / "run")
    assert all(design.coverage >= 0.7 and design.accuracy >= 0.8 and design.cost <= 9 for design in front(tmp_path / "run"))
    for search in ("exhaustive", "evolve"):
        hopeless = ["--min-accuracy", "1", "--max-cost", "0.31", "--generations", "3", "--search", search]
        ended = run("emsco-train", *mixed.options(), *hopeless, "--out", tmp_path / "none")
        assert ended.returncode == 1
        assert ended.stderr.splitlines()[-1].startswith("emsco-train: no design that was found satisfies the constraints")
        assert not (tmp_path / "none").exists()


def test_weights_and_penalty(tmp_path: Path) -> None:
    """--class-weight by label (numbers as labels too) and --C reach the fits, are recorded, warned of, and hold at export."""
    wide = write_wide(tmp_path / "wide.csv", 200, 3)
    options = ["--data", wide, "--threshold", "0.8", "--stages", "straight"]
    run_successfully("emsco-train", *options, "--out", tmp_path / "plain")
    ended = run("emsco-train", *options, "--class-weight", "0=1,1=3", "--C", "0.05", "--out", tmp_path / "run")
    assert ended.returncode == 0
    warned = [line for line in ended.stderr.splitlines() if "warning" in line]
    assert len(warned) == 1
    assert warned[0].startswith("emsco-train: warning: --class-weight (0: 1, 1: 3) shifts the probabilities")
    record = RunFolder(tmp_path / "run").read()
    assert (record.C, record.class_weight, record.labels) == (0.05, {"0": 1.0, "1": 3.0}, (0, 1))
    assert (tmp_path / "run" / "front.csv").read_bytes() != (tmp_path / "plain" / "front.csv").read_bytes()
    again = run("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    assert (again.returncode, without_progress(again.stderr)) == (0, [])
    choices = Cascade.load(tmp_path / "bundle").manifest.provenance.settings
    assert (choices["C"], choices["class_weight"]) == (0.05, {"0": 1.0, "1": 3.0})
    run_successfully("emsco-train", *options, "--class-weight", "balanced", "--out", tmp_path / "balanced")
    assert RunFolder(tmp_path / "balanced").read().class_weight == "balanced"


def test_labels_with_commas_and_blanks(tmp_path: Path) -> None:
    """Thresholds and class weights name any label: a comma parts two after a number alone, and blanks may belong to them."""
    names = {"0": " yes, so", "1": "no, a=b"}
    rows = [[index % 7, index % 3, names[str(int(index % 7 + index % 3 > 4))]] for index in range(200)]
    data = write_rows(tmp_path / "t.csv", ["a", "b", "label"], rows)
    numbers = " yes, so=0.7, no, a=b=0.8"
    options = ["--data", data, "--threshold", numbers, "--class-weight", numbers, "--max-stages", 2, "--generations", 3]
    run_successfully("emsco-train", *options, "--out", tmp_path / "run")
    record = RunFolder(tmp_path / "run").read()
    assert (record.labels, record.thresholds[0].thresholds) == ((" yes, so", "no, a=b"), (0.7, 0.8))
    # As the table writes them, so that an export finds them again.
    assert record.class_weight == {" yes, so": 0.7, "no, a=b": 0.8}


def test_a_column_of_weights(tmp_path: Path) -> None:
    """--weight-column is no feature, counts in figures and in the certificate, is recorded, and changed weights are noticed."""
    rows = [[*row, 1 + number % 3] for number, row in enumerate(mixed_rows())]
    data = write_rows(tmp_path / "t.csv", [*HEADER, "count of mails"], rows)
    options = ["--data", data, "--label", "verdict", "--threshold", "0.8", "--max-stages", 2, "--generations", 5]
    weighted = ["--weight-column", "count of mails"]
    shown = run_successfully("emsco-train", *options, *weighted, "--out", tmp_path / "run")
    assert "weights  column count of mails: fits, figures and certificates count rows by it" in shown
    record = RunFolder(tmp_path / "run").read()
    assert record.data.weight_column == "count of mails"
    assert [column.name for column in record.columns] == list(HEADER[:-1])
    assert record.thresholds[0].method == "evolve"
    test = next(counts for counts in record.thresholds[0].everything if counts.split == "test")
    assert test.units is not None
    assert test.rows < test.units < 3 * test.rows
    assert "the knee, by label, on the test rows (by weight):" in shown
    # How few rows may differ is shown by rows that count alike.
    assert "--match-everything" not in shown
    table = shown[shown.index("(by weight):") : shown.index("base rate")].splitlines()[4:]
    # Weights are shown with a mean of 1.
    assert sum(float(line.split()[1]) for line in table if line) == pytest.approx(test.rows, abs=0.2)
    exported = run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    assert "(betting, " in exported
    assert ", by weights up to 3)" in exported
    manifest = Cascade.load(tmp_path / "bundle").manifest
    assert manifest.expected.weighted is not None
    assert manifest.expected.weighted.units == test.units
    full_cost = float(re.search(r"all features for every item: (\S+) ", exported)[1])  # type: ignore[index]
    assert f"; {100 * manifest.expected.weighted.mean_cost / full_cost:.1f} % of that is spent" in exported
    assert "(by rows, not by weight)\n" in exported
    assert re.search(r"base rate  .* have the label '?\w+'?, by rows\n", exported), exported
    page = write_report(tmp_path / "run", tmp_path / "report.html").read_text(encoding="utf-8")
    assert "column <code>count of mails</code>: figures are by weight" in page
    front = Front.from_json((tmp_path / "run" / "front.json").read_text())
    assert f"{100 * front.knee.coverage:.2f} %" in page
    assert f"Shares are of the {test.rows} test rows (by rows, not by weight). " in page
    assert "over the bins of test rows (by rows, not by weight)." in page
    rows[7][-1] = 2 if rows[7][-1] != 2 else 1
    write_rows(tmp_path / "t.csv", [*HEADER, "count of mails"], rows)
    assert "values have changed since the run was trained" in run_expecting_error(
        1, "emsco-export", tmp_path / "run", "--out", tmp_path / "other"
    )
    message = run_expecting_error(1, "emsco-train", *options, *weighted, "--search", "exhaustive", "--out", tmp_path / "exact")
    assert "the exact search counts rows and cannot count their weights: use --search evolve" in message


def test_designs_found_by_luck_are_cautioned(tmp_path: Path) -> None:
    """Many features on few rows: the test rows show what the knee owes to luck, and no floor above their figures is suggested."""
    rng = np.random.default_rng(5)
    labels = np.arange(240) % 2
    values = rng.normal(size=(240, 120))
    values[:, :3] += 0.8 * labels[:, None]
    header = [f"f{place}" for place in range(120)]
    rows = [[*row, label] for row, label in zip(values.round(4).tolist(), labels.tolist(), strict=True)]
    options = ["--threshold", "0.8", "--generations", "3", "--population", "20", "--out"]
    data = write_rows(tmp_path / "wide.csv", [*header, "label"], rows)
    shown = run_successfully("emsco-train", "--data", data, "--shares", "0.6,0,0.4,0", *options, tmp_path / "run")
    tested = float(re.search(r"caution  on the test rows the knee's accuracy is ([\d.]+) %, far below its bound of", shown)[1])  # type: ignore[index]
    assert "with 120 features on 144 rows, designs may only look good by chance" in shown
    assert float(re.search(r"next .* --min-accuracy ([\d.]+)", shown)[1]) <= tested / 100  # type: ignore[index]
    caution = "caution      on the test rows the accuracy is below its bound of "
    assert caution in run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    # Whoever asks for something is told whether that is kept.
    asked = run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "asked", "--min-coverage", "0.1")
    assert caution not in asked
    shown = run_successfully("emsco-train", "--data", data, "--shares", "1,0,0,0", *options, tmp_path / "all")
    assert "far below its bound" not in shown
    few = write_rows(tmp_path / "few.csv", [*header, "label"], rows[:120])
    shown = run_successfully("emsco-train", "--data", few, "--shares", "1,0,0,0", *options, tmp_path / "few")
    assert (
        "caution  120 features on 120 rows: designs may only look good by chance, and there are no test rows to show it" in shown
    )


def test_floors_below_the_base_rate_are_not_suggested(tmp_path: Path) -> None:
    """Of a small table whose labels are hard to tell, the knee is suggested: a floor that any constant answer keeps is none."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(320, 3))
    labels = np.where(values[:, 0] + 2.5 * rng.normal(size=320) > -0.6, "yes", "no")
    rows = [[*row, label] for row, label in zip(values.tolist(), labels.tolist(), strict=True)]
    data = write_rows(tmp_path / "t.csv", ["a", "b", "c", "label"], rows)
    shown = run_successfully("emsco-train", "--data", data, "--threshold", "0.6", "--out", tmp_path / "run")
    assert f"next     emsco-export {tmp_path / 'run'} --out BUNDLE --design knee\n" in shown
    run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle", "--design", "knee")


def test_matching_everything_is_suggested(tmp_path: Path) -> None:
    """Where enough rows are answered, the command that emsco-train prints exports a design that decides as all features do."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(600, 3))
    labels = np.where(values @ [3.0, 1.0, 0.1] + 0.3 * rng.normal(size=600) > 0, "yes", "no")
    rows = [[*row, label] for row, label in zip(values.tolist(), labels.tolist(), strict=True)]
    data = write_rows(tmp_path / "t.csv", ["a", "b", "c", "label"], rows)
    shown = run_successfully("emsco-train", "--data", data, "--threshold", "0.8", "--out", tmp_path / "run")
    [line] = [line for line in shown.splitlines() if line.startswith("match ")]
    found = re.fullmatch(r"match    (.*) \(for 9[589] % of what all features at once decide\)", line)
    assert found is not None
    command = found[1].replace("BUNDLE", str(tmp_path / "bundle")).split()
    assert "differently from all features at once" in run_successfully(*command)


def test_rows_without_weight_take_no_part(tmp_path: Path) -> None:
    """Rows of weight 0 are in no split: the run is that of the table without them, is exported, and its rows are found again."""
    rows = [[*row, 1 + number % 2] for number, row in enumerate(mixed_rows())]
    left_out = {0, 7, len(rows) - 1}
    data = write_rows(
        tmp_path / "t.csv", [*HEADER, "w"], [[*row[:-1], 0 if at in left_out else row[-1]] for at, row in enumerate(rows)]
    )
    fewer = write_rows(tmp_path / "fewer.csv", [*HEADER, "w"], [row for at, row in enumerate(rows) if at not in left_out])
    options = ["--label", "verdict", "--threshold", "0.8", "--max-stages", 2, "--generations", 5, "--weight-column", "w"]
    for name, table in (("run", data), ("without", fewer)):
        run_successfully("emsco-train", "--data", table, *options, "--out", tmp_path / name)
    with (tmp_path / "run" / "splits.csv").open() as file:
        assert {int(row["row"]) for row in csv.DictReader(file)} == set(range(len(rows))) - left_out
    assert (tmp_path / "run" / "front.csv").read_bytes() == (tmp_path / "without" / "front.csv").read_bytes()
    run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")
    decided = ["--run", tmp_path / "run", "--split", "certify", "--label", "verdict", "--out", tmp_path / "decisions.csv"]
    assert "accuracy" in run_successfully("emsco-run", tmp_path / "bundle", data, *decided)


@pytest.mark.parametrize(("value", "shown"), [("-1", "the weight -1: expected a finite"), ("", "the weight nan"), ("x", "'x'")])
def test_a_row_whose_weight_is_none(value: str, shown: str, tmp_path: Path) -> None:
    """A weight that is missing, negative or no number is refused with its line."""
    rows = [[*row, value if number == 4 else 1.5] for number, row in enumerate(mixed_rows())]
    data = write_rows(tmp_path / "t.csv", [*HEADER, "w"], rows)
    options = ["--data", data, "--label", "verdict", "--threshold", "0.8", "--weight-column", "w", "--out", tmp_path / "run"]
    line = run_expecting_error(1, "emsco-train", *options)
    assert "t.csv line 6: column 'w' holds" in line
    assert shown in line


def test_kinds_dropped_columns_shares_and_unknown_categories(mixed: MixedTable, tmp_path: Path) -> None:
    """--kind, --drop (its cost may stay in the costs file), --shares, and --unknown for all columns with an exception."""
    shown = run_successfully(
        "emsco-train",
        *mixed.options(),
        *("--kind", "count=categorical", "--drop", "size", "--drop", "rate"),
        *("--unknown", "ignore", "--unknown", "colour=fail", "--shares", "0.5,0.25,0.25,0", "--out", tmp_path / "run"),
    )
    record = RunFolder(tmp_path / "run").read()
    assert [(column.name, column.kind, column.unknown) for column in record.columns] == [
        ("flag", "boolean", "fail"),
        ("colour", "categorical", "fail"),
        ("count", "categorical", "ignore"),
    ]
    assert record.rows == {"train": 225, "test": 75}
    # flag, colour with its group, count.
    assert "all features: 7.8 EUR" in shown
    assert "certificate  none" in run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")


def test_a_rare_gap_may_fall_into_any_split(mixed: MixedTable, plain: Path, tmp_path: Path) -> None:
    """A column whose only gap is in a held-out row: that gap is imputed, in training and in production."""
    rows = mixed_rows()
    # The same seed makes the same splits.
    held = split_of(plain).index("test")
    rows[held][1] = ""
    gappy = MixedTable(write_rows(tmp_path / "gappy.csv", HEADER, rows), mixed.costs)
    run_successfully("emsco-train", *gappy.options(), "--out", tmp_path / "run")
    assert split_of(tmp_path / "run")[held] == "test"
    assert next(column for column in RunFolder(tmp_path / "run").read().columns if column.name == "rate").missing == "impute"
    run_successfully("emsco-export", tmp_path / "run", "--out", tmp_path / "bundle")


def test_groups_and_times(tmp_path: Path) -> None:
    """--group-column keeps the rows of a group in one split; --time-column trains on the earliest; neither is a feature."""
    rows = [[f"client-{number // 6}", f"2024-03-{1 + number % 28:02d}", *row] for number, row in enumerate(mixed_rows())]
    data = write_rows(tmp_path / "t.csv", ["client", "day", *HEADER], rows)
    options = ["--data", data, "--label", "verdict", "--threshold", "0.8", "--max-stages", 1]
    shown = run_successfully("emsco-train", *options, "--group-column", "client", "--drop", "day", "--out", tmp_path / "grouped")
    assert "--match-everything" not in shown
    where: dict[str, set[str]] = {}
    for row, split in zip(rows, split_of(tmp_path / "grouped"), strict=True):
        where.setdefault(row[0], set()).add(split)
    assert {len(splits) for splits in where.values()} == {1}
    assert len(set.union(*where.values())) == 3
    run_successfully("emsco-train", *options, "--time-column", "day", "--drop", "client", "--out", tmp_path / "timed")
    days: dict[str, list[str]] = {}
    for row, split in zip(rows, split_of(tmp_path / "timed"), strict=True):
        days.setdefault(split, []).append(row[1])
    order = ("train", "test", "certify")
    for earlier, later in itertools.pairwise(order):
        assert max(days[earlier]) < min(days[later])
    for name in ("grouped", "timed"):
        assert [column.name for column in RunFolder(tmp_path / name).read().columns] == list(HEADER[:-1])
        run_successfully("emsco-export", tmp_path / name, "--out", tmp_path / "bundle" / name)


def test_a_low_threshold_is_warned_of_once(mixed: MixedTable, tmp_path: Path) -> None:
    """At or below 1 / labels everything leaves at stage 1: one line for two such thresholds, and the run is made."""
    low = ["--threshold", "0.4", "--threshold", "0.45", "--max-stages", 2]
    ended = run("emsco-train", "--data", mixed.data, "--label", "verdict", *low, "--out", tmp_path / "run")
    assert ended.returncode == 0
    warned = [line for line in ended.stderr.splitlines() if "warning" in line]
    assert len(warned) == 1
    assert warned[0].startswith("emsco-train: warning: the threshold of ['ham', 'spam'] is at or below 1 / 2 labels")


def test_a_threshold_that_few_rows_reach_is_cautioned(
    mixed: MixedTable, plain_process: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    """The user learns that the threshold keeps the coverage down, and that an export with both floors tries lower ones."""
    shown = run_successfully("emsco-train", *mixed.options(), "--threshold", "0.998", "--out", tmp_path / "run")
    (caution,) = re.findall(r"^caution  threshold .*$", shown, flags=re.MULTILINE)
    share = re.search(r"threshold 0\.998: even with all features, ([0-9.]+) % of the rows are accepted", caution)
    assert share is not None
    assert float(share[1]) < 50
    assert "emsco-export with both --min-coverage and --min-accuracy tries lower thresholds" in caution
    assert "caution  threshold" not in plain_process.stdout


def test_long_tables_and_long_stages_are_shown_in_bounded_space(tmp_path: Path) -> None:
    """Seventy columns: the first sixty are listed, and stages are cut; front.csv holds them whole, odd names in quotes."""
    names = ["a+b", "c|d", *(f"a_rather_long_name_{index}" for index in range(68))]
    rows = [[*(str((7 * row + 3 * column) % 11) for column in range(70)), row % 2] for row in range(40)]
    data = write_rows(tmp_path / "t.csv", [*names, "label"], rows)
    options = ["--threshold", "0.7", "--max-stages", 1, "--keep-all", "--generations", 1, "--population", 2]
    shown = run_successfully("emsco-train", "--data", data, *options, "--out", tmp_path / "run")
    assert "... and 10 more" in shown
    assert max(map(len, shown.splitlines())) < 260
    stages = read_rows(tmp_path / "run" / "front.csv")[0]["stages"]
    assert stages.startswith('"a+b"+"c|d"+a_rather_long_name_0+')
    assert stages.endswith("_67")


# Wrong input


def with_changed_rows(row: int, column: str, value: str) -> list[list[str]]:
    """Return the rows of the mixed table with one value changed."""
    rows = mixed_rows(60)
    rows[row][HEADER.index(column)] = value
    return rows


def csv_text(header: tuple[str, ...] = HEADER, rows: list[list[str]] | None = None) -> str:
    """Return the mixed table as text."""
    return "\n".join(",".join(line) for line in [header, *(mixed_rows(60) if rows is None else rows)]) + "\n"


TABLES: dict[str, tuple[bytes | str | None, str]] = {
    "missing file": (None, "t.csv does not exist: give a CSV or Parquet file"),
    "empty file": ("", "t.csv: the file is empty, expected a header row with the column names"),
    "header only": (",".join(HEADER) + "\n", "t.csv: there are no rows below the header: give some"),
    "no label": (csv_text((*HEADER[:-1], "other")), "t.csv: there is no label column 'verdict', it has size, rate"),
    "one class": (
        csv_text(rows=[[*row[:-1], "ham"] for row in mixed_rows(60)]),
        "t.csv: column 'verdict' holds only the label 'ham': at least two",
    ),
    "text among numbers": (
        csv_text(rows=with_changed_rows(6, "rate", "oops")),
        "column 'rate' holds 'oops', expected a number. Correct it, name it with --missing if it means a missing value",
    ),
    "infinity": (
        csv_text(rows=with_changed_rows(6, "rate", "inf")),
        "t.csv line 8: column 'rate' holds 'inf', expected a finite number",
    ),
    "missing label": (
        csv_text(rows=with_changed_rows(3, "verdict", " ")),
        "t.csv line 5: the label 'verdict' is missing; give it a label, or drop such rows with --drop-label ''",
    ),
    "column twice": (csv_text(("size", "rate", "size", *HEADER[3:])), "t.csv: the header names a column twice: size"),
    "semicolons": ("a;b;verdict\n1;2;x\n", "t.csv: the header is one field, 'a;b;verdict': expected commas between the fields"),
    "ragged line": (csv_text() + "1,2,3\n", "t.csv: line 62: 3 fields, the header has 6. Fix the line"),
    "not UTF-8": (csv_text().encode() + b"1,2,yes,\xff,3,ham\n", "t.csv: line 62: not readable as UTF-8 CSV"),
    "empty columns": (
        csv_text(rows=[[row[0], "", "", "", "", row[5]] for row in mixed_rows(60)]),
        "only 1 column would be left to learn from, without 'rate' (no value in any row); 'flag' (no value in any row)",
    ),
    "decimal commas": (
        "size,verdict\n" + "".join(f'"{place},5",{("ham", "spam")[place % 2]}\n' for place in range(60)),
        "so that each of 60 is a category): add columns; 'size': write plain numbers, with a decimal point",
    ),
    "dates alone": (
        csv_text(
            ("size", "day", "verdict"),
            [[row[0], f"2024-01-{place % 28 + 1:02}", row[5]] for place, row in enumerate(mixed_rows(60))],
        ),
        "without 'day' (dates, such as '2024-01-01'): add columns; 'day': make it a number, such as days since a date, or",
    ),
    "nameless column": (
        csv_text(("", *HEADER[1:])),
        "t.csv: a column of the header has no name (the index of a data frame?): name it",
    ),
    "a number as the label": (
        csv_text(rows=[[*row[:5], str(place)] for place, row in enumerate(mixed_rows(150))]),
        "t.csv: column 'verdict' has 150 different labels in 150 rows: is it a number, or an id?",
    ),
    "only a label": ("verdict\nham\nspam\n", "t.csv: there is no column except verdict: give at least one feature"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_wrong_table(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with file, place, value and remedy, exit 1, and no run."""
    content, message = TABLES[name]
    if content is not None:
        (tmp_path / "t.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.chdir(tmp_path)
    options = ["--data", "t.csv", "--label", "verdict", "--threshold", "0.8", "--out", "run"]
    assert message in run_expecting_error(1, "emsco-train", *options)
    assert not (tmp_path / "run").exists()


WRONG_COSTS = {
    "unknown column": (COSTS.replace("size = 1", "size = 1\nweight = 2"), "a cost for 'weight', which is not a feature"),
    "missing": (
        COSTS.replace("size = 1\n", ""),
        "no cost for feature 'size': add it, or leave it out. Leave a column out with --drop size; one of weights,",
    ),
    "negative": (COSTS.replace("size = 1", "size = -1"), "the cost of feature 'size' is -1: expected a finite number, 0 or more"),
    "all zero": ("[features]\nsize=0\nrate=0\nflag=0\ncolour=0\ncount=0\n", "all costs are 0"),
    "broken": ("[features\n", "is not TOML"),
    "name of an option": (f'units = "x"\n{COSTS}', "costs file costs.toml: 'units' is unknown here: known are unit, features"),
    "groups in a list": (
        f"groups = []\n{COSTS.partition('[groups')[0]}",
        "costs file costs.toml: 'groups' is []: expected a table",
    ),
}


@pytest.mark.parametrize("name", WRONG_COSTS)
def test_wrong_costs(name: str, mixed: MixedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the costs file and the feature; exit 1, and no run."""
    text, message = WRONG_COSTS[name]
    (tmp_path / "costs.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    line = run_expecting_error(1, "emsco-train", *mixed.options(), "--costs", "costs.toml", "--out", "run")
    assert line.startswith("emsco-train: costs file costs.toml")
    assert message in line
    assert not (tmp_path / "run").exists()


def test_a_column_without_a_price_may_be_no_feature(mixed: MixedTable, tmp_path: Path) -> None:
    """The remedies are options: to leave the column out, or to name what it is; each of them makes the costs right."""
    costs = tmp_path / "costs.toml"
    costs.write_text(re.sub(r"(?m)^count = .*\n", "", COSTS), encoding="utf-8")
    options = [*mixed.options(), "--check", "--costs", costs]
    line = run_expecting_error(1, "emsco-train", *options)
    assert line.endswith("; one of weights, groups or times is named with --weight-column, --group-column or --time-column")
    for remedy in ("--drop", "--group-column"):
        run_successfully("emsco-train", *options, remedy, "count")


WRONG_USE = {
    "threshold 0": (["--threshold", "0"], "threshold 0.0: expected a number above 0 and up to 1"),
    "threshold 1.5": (["--threshold", "1.5"], "threshold 1.5: expected a number above 0 and up to 1"),
    "threshold abc": (["--threshold", "abc"], "threshold 'abc': expected a number above 0 and up to 1, or LABEL=NUMBER"),
    "threshold half": (
        ["--threshold", "ham=0.9,spam"],
        "threshold 'ham=0.9,spam': expected a number above 0 and up to 1, or LABEL=NUMBER,LABEL=NUMBER; 'spam' is no",
    ),
    "words with a dash": (
        ["--missing", "-999,?"],
        "argument --missing: expected one argument; one that begins with a dash is given as --missing=VALUE",
    ),
    "weight in words": (["--class-weight", "ham=1,spam=x"], "or LABEL=NUMBER,LABEL=NUMBER; 'spam=x' is no LABEL=NUMBER"),
    "label twice": (["--threshold", "ham=0.9,ham=0.8"], "names the label 'ham' twice"),
    "two kinds of data": (["--train", "x.csv"], "--data and --train were both given: give one table, or ready splits"),
    "two divisions": (
        ["--group-column", "count", "--time-column", "rate"],
        "--group-column and --time-column were both given, and a group may span times: give one of them",
    ),
    "kind": (["--kind", "size=wrong"], "--kind 'size=wrong': expected COLUMN=WORD, with one of the words numeric, boolean"),
    "unknown": (["--unknown", "what"], "--unknown 'what'"),
    "jobs": (["--jobs", "0"], "--jobs is 0: expected a whole number, 1 or more; leave it out for all cores"),
    "one fold": (
        ["--folds", "1"],
        "--folds is 1: expected 2 or more, or 0 for one validation split; leave it out for the default",
    ),
    "drop the label": (["--drop", "verdict"], "--drop names 'verdict', the column of the labels: drop another one, or name that"),
    "stages": (["--max-stages", "99"], "--max-stages is 99: expected an integer in [1, 60]"),
    "seed": (["--seed", "-1"], "--seed is -1"),
    "time": (["--time-limit", "-1"], "--time-limit is -1.0"),
    "beta": (["--beta", "0.5"], "--beta is 0.5"),
    "floor": (["--min-accuracy", "3"], "--min-accuracy is 3.0"),
    "three shares": (["--shares", "0.5,0.25,0.25"], "--shares '0.5,0.25,0.25': expected four numbers"),
    "word as share": (["--shares", "0.5,0.25,0.25,x"], "'x' is not a number"),
    "shares in percent": (["--shares", "50,20,20,10"], "shares: the train share is 50.0: expected a number from 0 to 1"),
    "shares beyond 1": (["--shares", "0.5,0.5,0.5,0"], "together they must be 1"),
    "weight": (["--class-weight", "heavy"], "--class-weight 'heavy': expected balanced, or LABEL=NUMBER"),
    "no number": (["--population", "many"], "argument --population: invalid int value: 'many'"),
    "search": (["--search", "guess"], "argument --search: invalid choice: 'guess'"),
    "sample in words": (["--max-search-rows", "few"], "--max-search-rows 'few': expected a whole number of rows, all, or auto"),
    "sample below 1": (["--max-search-rows", "-5"], "--max-search-rows '-5': expected a whole number of rows, all, or auto"),
    "penalty": (["--C", "-1"], "--C is -1.0: expected a finite number above 0"),
    "penalty of nothing": (["--C", "nan"], "--C is nan: expected a finite number above 0"),
    "calibrated trees": (["--stages", "boosted", "--calibrate", "temperature"], "--calibrate is for logistic regression"),
    "weight twice": (["--class-weight", "ham=1,ham=5"], "--class-weight 'ham=1,ham=5' names the label 'ham' twice"),
    "kind twice": (
        ["--kind", "size=numeric", "--kind", "size=categorical"],
        "--kind 'size=categorical': the column 'size' is given twice: give it once",
    ),
    "unknown twice": (
        ["--unknown", "fail", "--unknown", "ignore"],
        "'ignore': a word for all columns is given twice: give it once",
    ),
}


@pytest.mark.parametrize("name", WRONG_USE)
def test_wrong_use(name: str, mixed: MixedTable, tmp_path: Path) -> None:
    """What no data could make right: one line that names the option and the value, exit 2, and no run."""
    options, message = WRONG_USE[name]
    line = run_expecting_error(2, "emsco-train", *mixed.options(), *options, "--out", tmp_path / "run")
    assert message in line
    assert line.endswith("See emsco-train --help")
    assert not (tmp_path / "run").exists()


def test_what_must_be_given(tmp_path: Path) -> None:
    """Data, a threshold, a folder; ready splits are train and validation at least, and are not divided again."""
    assert "unrecognized arguments: t.csv: give a table as --data t.csv" in run_expecting_error(2, "emsco-train", "t.csv")
    assert "unrecognized arguments: --speed 3." in run_expecting_error(2, "emsco-train", "--speed", "3")
    assert "give --out RUN" in run_expecting_error(2, "emsco-train", "--data", "t.csv", "--threshold", "0.8")
    assert "give --threshold, such as 0.9" in run_expecting_error(2, "emsco-train", "--data", "t.csv", "--out", "run")
    assert "give --data TABLE, or at least --train and --validation" in run_expecting_error(
        2, "emsco-train", "--threshold", "0.8", "--out", "r"
    )
    alone = ["--train", "t.csv", "--threshold", "0.8", "--out", "run"]
    assert "give --data TABLE, or at least --train and --validation" in run_expecting_error(2, "emsco-train", *alone)
    message = run_expecting_error(2, "emsco-train", *alone, "--validation", "v.csv", "--time-column", "when")
    assert "ready splits are not divided again" in message


UNSUITABLE_OPTIONS = {
    "unknown label": (["--threshold", "ham=0.9,spam=0.9,eggs=0.9"], "'eggs' is not a label (labels: ham, spam)"),
    "label left out": (["--threshold", "ham=0.9"], "no threshold for label 'spam': add it"),
    "threshold twice": (["--threshold", "ham=0.8,spam=0.8"], "is given twice: give it once"),
    "pin": (["--pin", "weight"], "--pin holds 'weight', which is not a feature (features: size"),
    "too many stages": (
        ["--max-stages", "6"],
        "--max-stages is 6: expected an integer in [1, 5], since the data have 5 features",
    ),
    "kind of nothing": (["--kind", "weight=numeric"], "there is no column 'weight', it has size"),
    "kind of the label": (["--kind", "verdict=numeric"], "--kind names 'verdict', which is the label column: only features"),
    "drop of nothing": (["--drop", "weight"], "there is no column 'weight'"),
    "group of nothing": (["--group-column", "weight"], "there is no column 'weight'"),
    "group with gaps": (["--group-column", "colour"], "column 'colour' is empty"),
    "unknown of nothing": (["--unknown", "weight=ignore"], "--unknown names 'weight', which is not a feature"),
    "unknown of a number": (["--unknown", "rate=ignore"], "is for categories, but 'rate' is numeric"),
    "wrong kind": (["--kind", "rate=boolean"], "line 2: column 'rate' holds"),
    "weight of nothing": (["--class-weight", "eggs=2"], "'eggs' is not a label"),
    "sample": (["--max-search-rows", "1"], "sample of 1: expected a whole number of rows"),
    "no costs file": (["--costs", "nowhere.toml"], "costs file nowhere.toml: there is no such file. Check the path"),
}


@pytest.mark.parametrize("name", UNSUITABLE_OPTIONS)
def test_an_option_that_does_not_fit_these_data(name: str, mixed: MixedTable, tmp_path: Path) -> None:
    """One line that names the option and what there is, exit 1, and no run."""
    options, message = UNSUITABLE_OPTIONS[name]
    assert message in run_expecting_error(1, "emsco-train", *mixed.options(), *options, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_places_that_are_not_written_to(mixed: MixedTable, plain: Path, tmp_path: Path) -> None:
    """A finished run without --force, a file, a folder of other files, an impossible path: exit 1, and all is as it was."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    before = (plain / "run.json").read_bytes()
    for out, message in (
        (plain, "already holds a run: choose another folder, or use --force to replace it"),
        (tmp_path / "file", "is a file: name a folder for the run"),
        (tmp_path / "file" / "run", "cannot be written: Not a directory. Check the path and its permissions"),
        (tmp_path / "full", "holds files that are not an emsco run's (letter): choose an empty or a new folder"),
    ):
        assert message in run_expecting_error(1, "emsco-train", *mixed.options(), "--out", out)
    assert (plain / "run.json").read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "full"]


def test_folders_are_refused_before_the_table_is_read(plain: Path, tmp_path: Path) -> None:
    """A busy --out and a --start without a run: the table, which does not exist either, is not looked at; no folder is made."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("mine")
    unread = ["--data", tmp_path / "nowhere.csv", "--threshold", "0.8"]
    for options, message in (
        (["--out", plain], "already holds a run: choose another folder, or use --force to replace it"),
        (["--out", plain, "--resume"], "already holds a finished run, so there is nothing to resume"),
        (["--out", tmp_path / "full"], "holds files that are not an emsco run's (letter)"),
        (
            ["--out", tmp_path / "new", "--start", tmp_path / "none"],
            "none does not exist: give the folder that emsco-train wrote",
        ),
        (["--out", tmp_path / "new", "--start", tmp_path / "full"], "full holds no run.json"),
        (["--out", tmp_path / "new", "--start", plain], "nowhere.csv does not exist: give a CSV or Parquet file"),
        (["--out", plain, "--force"], "nowhere.csv does not exist: give a CSV or Parquet file"),
    ):
        assert message in run_expecting_error(1, "emsco-train", *unread, *options)
    assert [entry.name for entry in tmp_path.iterdir()] == ["full"]


@pytest.mark.parametrize("options", [["--pin", "weight"], ["--max-stages", "6"]])
def test_settings_are_refused_before_the_rows_are_encoded(
    options: list[str], mixed: MixedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin that is no feature, or more stages than features: refused as soon as the names of the columns are known."""
    monkeypatch.setattr(Problem, "of", lambda *_, **__: pytest.fail("the rows were encoded"))
    assert options[0] in run_expecting_error(1, "emsco-train", *mixed.options(), *options, "--out", tmp_path / "run")


@pytest.mark.parametrize(("search", "advice"), [("exhaustive", "loosen them"), ("evolve", "loosen them, or search longer")])
def test_constraints_that_no_design_satisfies(search: str, advice: str, mixed: MixedTable, tmp_path: Path) -> None:
    """The limit is named, and the best that was reached; a longer search is advised only where not every design was seen."""
    options = ["--search", search, "--generations", 1, "--population", 10, "--max-cost", "0.001", "--out", tmp_path / "run"]
    ended = run("emsco-train", *mixed.options(), *options)
    assert ended.returncode == 1
    line = ended.stderr.splitlines()[-1]
    assert "no design that was found satisfies the constraints of the search: --max-cost is 0.001, and " in line
    assert re.search(rf"the cheapest design that was found costs [\d.]+ \([\d.]+ over\): {advice}$", line)
    assert not (tmp_path / "run").exists()


def test_pins_that_cost_more_than_designs_may(mixed: MixedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every design pays for them: they are refused before the search, with what they cost together."""
    monkeypatch.setattr(training, "search_thresholds", lambda *_, **__: pytest.fail("it was searched"))
    options = ["--pin", "size", "--pin", "rate", "--max-cost", "1.5", "--out", tmp_path / "run"]
    line = run_expecting_error(1, "emsco-train", *mixed.options(), *options)
    assert "--max-cost is 1.5, but the pinned features (size, rate), which every design pays for, cost 6.5: raise it" in line
    assert not (tmp_path / "run").exists()


def test_a_time_that_is_none_is_named_with_its_place(tmp_path: Path) -> None:
    """File, line and column, as for other values."""
    rows = [[f"2024-03-{1 + number % 28:02d}" if number != 4 else "soon", *row] for number, row in enumerate(mixed_rows())]
    data = write_rows(tmp_path / "t.csv", ["when", *HEADER], rows)
    options = ["--data", data, "--label", "verdict", "--time-column", "when", "--check"]
    message = run_expecting_error(1, "emsco-train", *options)
    assert "t.csv line 6: column 'when': 'soon' is not a time: write times as ISO 8601, such as 2024-03-01" in message


def test_resuming_nothing_is_said(mixed: MixedTable, tmp_path: Path) -> None:
    """--resume into a folder that does not exist begins a new run, and says so first."""
    shown = run_successfully("emsco-train", *mixed.options(), "--max-stages", 1, "--resume", "--out", tmp_path / "new")
    assert shown.startswith(
        f"resume   {tmp_path / 'new'} holds no unfinished run, so there is nothing to resume: a new one is started"
    )


def test_a_column_of_values_too_large_may_be_dropped(tmp_path: Path) -> None:
    """The error says of which rows its count is, and how to leave the column out."""
    rows = [[str(1e200 * (1 + number)), *row] for number, row in enumerate(mixed_rows())]
    data = write_rows(tmp_path / "t.csv", ["far", *HEADER], rows)
    message = run_expecting_error(1, "emsco-train", "--data", data, "--label", "verdict", "--check")
    assert "column 'far' holds values too large to standardise it (in " in message
    assert re.search(r"in [\d,]+ of [\d,]+ train rows; the largest of these, in .*t\.csv row \d+, is ", message)
    assert message.endswith("or leave the column out (of a run: --drop far)")
    run_successfully("emsco-train", "--data", data, "--label", "verdict", "--check", "--drop", "far")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line says what to install, or to give a CSV file."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    options = ["--data", "t.parquet", "--threshold", "0.8", "--out", "run"]
    message = run_expecting_error(1, "emsco-train", *options, cwd=tmp_path)
    assert "t.parquet: reading Parquet needs pyarrow: pip install 'emsco[parquet]', or give a CSV file" in message
    assert not (tmp_path / "run").exists()


def test_progress_goes_to_standard_error_in_plain_lines(plain_process: subprocess.CompletedProcess[str]) -> None:
    """What is printed can be piped; without a terminal there is no bar."""
    assert re.search(r"^threshold 0\.8: done: \d+ designs on the front", plain_process.stderr, re.MULTILINE)
    assert "\r" not in plain_process.stderr
    assert "threshold 0.8: " not in plain_process.stdout


# Help


@pytest.mark.parametrize("module", ["emsco_train.cli.train", "emsco_train.cli.export", "emsco_runtime.cli.run"])
def test_help_loads_nothing_heavy(module: str) -> None:
    """`--help` answers at once because nothing but the parser is imported."""
    heavy = {"numpy", "sklearn", "pydantic", "numba", "onnx", "onnxruntime", "pandas", "scipy"}
    report = "import sys; print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))"
    code = f"import atexit; atexit.register(lambda: exec({report!r})); from {module} import main; main(['--help'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    shown, _, loaded = ended.stdout.partition("LOADED")
    assert "usage: emsco-" in shown
    assert heavy.isdisjoint(loaded.split())
