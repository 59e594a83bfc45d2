"""Decisions in bulk: the same lines and figures as one by one, in the order of the rows."""

from __future__ import annotations

import csv
import io
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime import Cascade
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.summary import summarise_costs
from emsco_runtime.cli.decision_rows import HEADER, DecisionCounts, format_decisions
from emsco_runtime.support import ordered_work
from emsco_runtime.support.ordered_work import available_cores, run_ordered
from emsco_runtime.testing import make_bundle


def test_lines_are_those_of_single_decisions() -> None:
    """Accepted, rejected and failed rows, labels and messages that need quotes: each line is what the csv module would write."""
    features = [
        Feature(name="a,b", kind="numeric", cost=1.5),
        Feature(name="c", kind="categorical", cost=1.0, categories=('"x', "y")),
    ]
    made = make_bundle([["a,b"], ["c"]], features=features, labels=['say "yes"', "no, never"], threshold=0.8)
    cascade = Cascade(made, on_failure="reject")
    columns = {"a,b": np.array([3.0, -3.0, 0.0, np.nan, 0.1]), "c": np.array(['"x', "y", "y", "y", "z"], dtype=object)}
    lines = list(csv.reader(io.StringIO(format_decisions(np.arange(7, 12), cascade.decide_columns(columns)))))
    for row, line in enumerate(lines):
        decision = cascade.decide({name: column[row] for name, column in columns.items()})
        error = f"{decision.errors[0].feature}: {decision.errors[0].message}" if decision.errors else ""
        found = dict(zip(HEADER, line, strict=True))
        assert found["row"] == str(7 + row)
        assert (found["status"], found["reason"], found["stages"]) == (decision.status, decision.reason, str(decision.stages))
        assert found["label"] == ("" if decision.label is None else decision.label)
        assert (found["cost"], found["degraded"], found["error"]) == (repr(decision.cost), "false", error)
        assert (
            found["confidence"] == ""
            if decision.confidence is None
            else float(found["confidence"]) == pytest.approx(decision.confidence)
        )
    assert {line[2] for line in lines} == {"confident", "inconclusive", "acquisition_failed"}
    assert format_decisions(np.arange(0), cascade.decide_columns({name: column[:0] for name, column in columns.items()})) == ""


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 1e16, 5.0, 0.0]), min_size=1, max_size=40))
def test_costs_that_are_counted_are_summarised_exactly(costs: list[float]) -> None:
    """Mean and quantiles of counted costs are those of the list of them, to the last bit."""
    counts = DecisionCounts()
    for cost in costs:
        more = DecisionCounts()
        more.costs[cost] += 1
        counts.add(more)
    assert counts.rows == len(costs)
    assert counts.summarise_costs() == summarise_costs(costs)


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_order(workers: int) -> None:
    """However long each takes, results follow the order of the things, and few things are taken ahead of their results."""
    taken: list[int] = []

    def things() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * 10

    for done, result in enumerate(run_ordered(work, things(), workers=workers)):
        assert result == done * 10
        assert len(taken) - done <= 3 * workers


def test_the_first_error_in_order_is_raised() -> None:
    """Of several failing things, the first one's error comes, after the results before it; the threads end."""

    def work(number: int) -> int:
        if number >= 4:
            raise ValueError(number)
        return number

    found: list[int] = []
    with pytest.raises(ValueError, match=r"^4$"):
        found.extend(run_ordered(work, range(100), workers=2))
    assert found in ([], [0, 1, 2, 3])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores that this process may use, or, where that cannot be asked, those of the machine."""
    assert available_cores() >= 1
    monkeypatch.delattr(ordered_work.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(ordered_work.os, "cpu_count", lambda: None)
    assert available_cores() == 1
