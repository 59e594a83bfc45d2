"""Decisions in bulk: the same lines and figures as one by one, in the order of the rows."""

from __future__ import annotations

import csv
import io
import math
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from emsco_runtime import Cascade
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.summary import summarise_costs
from emsco_runtime.cli import decision_rows
from emsco_runtime.cli.decision_rows import HEADER, DecisionCounts, GroupedDecisions, format_decisions
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.support import ordered_work
from emsco_runtime.support.ordered_work import available_cores, run_ordered
from emsco_runtime.support.text_column import to_objects
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
    grouped = GroupedDecisions.of(cascade.decide_columns(columns), [None] * 5)
    lines = list(csv.reader(io.StringIO(format_decisions(np.arange(7, 12), grouped))))
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
    nothing = GroupedDecisions.of(cascade.decide_columns({name: column[:0] for name, column in columns.items()}), [])
    assert format_decisions(np.arange(0), nothing) == ""
    assert DecisionCounts.of(nothing, Counter()) == DecisionCounts()


@pytest.fixture(params=["csv", "pyarrow"])
def writer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines be written by pyarrow, or without it, however few they are."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(decision_rows, "_MIN_ARROW_ROWS", 1 if request.param == "pyarrow" else sys.maxsize)


LABELS = ("a", "b,", 3)


def make_decisions(rows: list[tuple[int, float, int, float, str | None]]) -> ColumnDecisions:
    """Return decisions given by label (-1: rejected), confidence, stages, cost and error."""
    label, confidence, stages, cost, error = (list(column) for column in zip(*rows, strict=True))
    accepted = [place >= 0 for place in label]
    return ColumnDecisions(
        label=to_objects([LABELS[place] if place >= 0 else None for place in label]),
        status=to_objects(["accepted" if one else "rejected" for one in accepted]),
        reason=to_objects(["confident" if one else "inconclusive" for one in accepted]),
        confidence=np.array(confidence),
        stages=np.array(stages),
        cost=np.array(cost),
        degraded=np.array(stages) > 2,
        error=to_objects(error),
    )


some_rows = st.tuples(
    st.integers(-1, 2),
    st.one_of(st.floats(0.0, 1.0), st.sampled_from([math.nan, 1.0, 1.0 + 2**-52, 1e-4, 9.9e-5, 0.5, 5e-324])),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.1, 1e16, 1e-7]),
    st.sampled_from([None, 'f: "no",\nor yes', "g: late"]),
)


@pytest.mark.usefixtures("writer")
@given(
    rows=st.lists(some_rows, min_size=1, max_size=30), truth=st.sampled_from([None, "a", "x"]), limit=st.sampled_from([1, 2**31])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_groups_keep_every_row(
    rows: list[tuple[int, float, int, float, str | None]], truth: str | None, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are those that the csv module writes of one row after the other, and counts are those of single rows."""
    monkeypatch.setattr(decision_rows, "_MAX_CODE", limit)
    decisions, truths = make_decisions(rows), [truth if place % 2 else None for place in range(len(rows))]
    grouped = GroupedDecisions.of(decisions, truths)
    expected = io.StringIO()
    lines = csv.writer(expected, lineterminator="\n")
    for row in range(len(rows)):
        fields = [getattr(decisions, name)[row] for name in HEADER[1:]]
        status, reason, label, confidence, stages, cost, degraded, error = fields
        score = "" if math.isnan(confidence) else repr(float(confidence))
        lines.writerow([10 + row, status, reason, label, score, stages, repr(float(cost)), str(bool(degraded)).lower(), error])
    assert format_decisions(np.arange(10, 10 + len(rows)), grouped) == expected.getvalue()
    counts = DecisionCounts.of(grouped, Counter())
    accepted = decisions.status == "accepted"
    assert counts.rows == len(rows)
    assert counts.degraded == decisions.degraded.sum()
    assert counts.costs == Counter(decisions.cost.tolist())
    assert counts.exits == Counter(decisions.stages[accepted].tolist())
    assert counts.reasons == Counter(decisions.reason[~accepted].tolist())
    answers = [None if label is None else str(label) for label in decisions.label]
    assert counts.answers == Counter(pair for pair in zip(truths, answers, strict=True) if pair[0] is not None)


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
