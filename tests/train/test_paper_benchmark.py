"""The paper's experiments: measurements are kept and not repeated, and the page says what the CSV files hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.uncounted

ROOT = Path(__file__).parents[2]


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the scripts as they are when they run."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from paper import alternatives, comparison, page, tasks, wishes

    return SimpleNamespace(alternatives=alternatives, comparison=comparison, page=page, tasks=tasks, wishes=wishes)


def test_what_is_measured_is_not_measured_again(paper: Any, tmp_path: Path) -> None:
    """A second call measures the tasks that the file has no record of; records are read back as they were."""
    row, path, called = paper.comparison.ComparisonRow, tmp_path / "rows.csv", []

    def measure(data: str, method: str, run: int) -> Iterator[Any]:
        called.append((data, method, run))
        yield row(data, method, run, 0.5, 1.0, 2.5, 4.0, 0.1)

    tasks = [("pima", "EMSCO, ours", run) for run in range(3)]
    paper.tasks.measure_missing(path, row, tasks[:2], measure, "test")
    paper.tasks.measure_missing(path, row, tasks, measure, "test")
    assert called == tasks
    assert paper.tasks.read_records(path, row) == [row(*task, 0.5, 1.0, 2.5, 4.0, 0.1) for task in tasks]


def test_a_file_of_other_columns_is_not_added_to(paper: Any, tmp_path: Path) -> None:
    """Records never go below a header that is not theirs; none at all leave the file alone."""
    path = tmp_path / "commands.csv"
    path.write_text("experiment,seconds\nfronts,3\n")
    paper.tasks.append_records(path, [])
    with pytest.raises(ValueError, match="expected the columns experiment, form, data, runs, seconds, got experiment, seconds"):
        paper.tasks.append_records(path, [paper.tasks.CommandRow("fronts", "full", "all", 50, 1.0)])
    assert path.read_text() == "experiment,seconds\nfronts,3\n"


def test_domination_in_the_comparison(paper: Any) -> None:
    """A method is dominated by one that is at least as good in all three figures and better in one; the page says so."""
    row = paper.comparison.ComparisonRow
    rows = [
        row("pima", "EMSCO", 0, 0.8, 0.9, 10.0, 50.0, 0.1),
        row("pima", "EMSCO", 1, 0.8, 0.9, 12.0, 50.0, 0.1),
        row("pima", "CO-T", 0, 0.8, 0.9, 20.0, 50.0, 0.1),
        row("pima", "CSTC", 0, 0.7, 1.0, 5.0, 50.0, 0.1),
    ]
    text = "\n".join(paper.page.describe_comparison(rows))
    assert "- EMSCO is dominated by: none. It dominates: CO-T (pima)." in text
    # The 95 % margin of two values 2 apart is 12.706 / sqrt(2) * sqrt(2) = 12.706.
    assert "**80.0 ± 0.0 / 90.0 ± 0.0 / 11.0 ± 12.7 (71.1 / 99 / 242.4)**" in text
    assert "| 80.0 / 90.0 / 20.0 (72 / 97 / 524) |" in text


def test_verdicts_on_operating_points(paper: Any) -> None:
    """A win needs accuracy, coverage and a lower cost; sure where that is beyond its margin. A loss is the reverse."""
    row = paper.alternatives.PointRow
    rows = []
    for run, own_cost in enumerate((2.0, 2.1, 2.2)):
        rows.append(row("pima", run, "peer", "LightGBM", 0.8, 1, 0.8, 0.9, 0.80, 0.9, 10.0, 10.0))
        rows.append(row("pima", run, "straight", "LightGBM", 0.8, 1, 0.8, 0.9, 0.81, 0.9, own_cost, 10.0))
        rows.append(row("pima", run, "peer", "LightGBM", 0.9, 1, 0.8, 0.9, 0.90, 0.9, 10.0, 10.0))
        rows.append(row("pima", run, "straight", "LightGBM", 0.9, 0, 0.7, 0.9, 0.89, 0.9, 10.5, 10.0))
    text = "\n".join(paper.page.describe_alternatives(rows))
    assert "| pima | straight | LightGBM | 2 | 50 % | 1 | 1 | 1 | +0.0 | +0.0 | 0.63 |" in text


def test_verdicts_on_wishes(paper: Any) -> None:
    """A peer stands where it covers no more than EMSCO by means; dominated is who is no better and surely more expensive."""
    row = paper.wishes.WishRow
    rows = []
    for run, shift in enumerate((0.0, 0.01, 0.02)):
        rows += [
            row("pima", run, "LightGBM", 0.5, 0.0, 0.80, 1.0, 1.0),
            row("pima", run, "LightGBM", 0.7, 0.0, 0.85, 0.9, 1.0),
            row("pima", run, "LightGBM", 0.9, 0.0, 0.95, 0.5, 1.0),
            row("pima", run, "EMSCO", 0.8, 0.5, 0.86, 0.91 + shift, 0.3 + shift),
            row("pima", run, "EMSCO", 0.9, 0.5, 0.94, 0.50 + shift, 0.3 + shift),
            row("pima", run, "EMSCO, matching", 0.8, 0.25, 0.85, 0.90 + shift, 0.4),
        ]
    # Granted in one run only.
    rows.append(row("pima", 0, "EMSCO", 0.99, 0.5, 0.99, 0.1, 0.3))
    # Granted in all, but one design answers nothing, so that its accuracy is none.
    rows += [row("pima", run, "EMSCO", 0.98, 0.5, accuracy, 0.1 * (run > 0), 0.3) for run, accuracy in enumerate((0.0, 1.0, 1.0))]
    found = list(paper.wishes.compare(rows, "LightGBM"))
    assert [(one.wish, one.threshold) for one in found] == [((0.8, 0.5), 0.7), ((0.9, 0.5), 0.9)]
    text = "\n".join(paper.page.describe_wishes(rows))
    # The 95 % margin of three values 0.01 apart is 4.303 * 0.01 / sqrt(3) = 0.0248.
    best = "0.8 for at most 0.5: 1.00 ± 0.00 / 2.00 ± 2.48 / 0.31 at 0.7"
    assert f"| pima | LightGBM | 3 | 2 | 1 | 1 | +0.00 | +1.50 | 0.31 | {best} |" in text
    matched = "0.8 but for 0.25: 0.00 ± 0.00 / 1.00 ± 2.48 / 0.40 at 0.7"
    assert f"| pima | LightGBM | 3 | 1 | 1 | 0 | +0.00 | +1.00 | 0.40 | {matched} |" in text
