"""The soak: whatever sources and bundles do, every item gets one decision, the right one, with the right bill."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emsco_runtime import Cascade, Decision
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.pool import AcquirerPool
from tests.runtime.reporting import report
from tests.runtime.soak_bundles import versions
from tests.runtime.soak_checker import DecisionChecker, ItemRequest, Model, WrongDecision, check_reference
from tests.runtime.soak_sources import Calls, registry
from tests.runtime.soak_world import World
from tests.runtime.waiting import our_threads, wait_until

pytestmark = pytest.mark.uncounted

ROOT = Path(__file__).resolve().parents[2]


def run_soak(items: int, seed: int, period_s: float) -> dict[str, Any]:
    """Run the soak in a process of its own, where memory, threads and files are the soak's alone."""
    command = [sys.executable, "-W", "error", "-m", "tests.runtime.soak"]
    options = ["--items", str(items), "--seed", str(seed), "--period", str(period_s)]
    ended = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    # Tasks and coroutines that were not awaited, and threads that raised, would be reported here.
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def check_figures(found: dict[str, Any]) -> None:
    """Assert all that is guaranteed."""
    items = found["items"]
    assert found["messages"] == []
    assert found["wrong"] == 0
    # Every item, exactly once: by those who asked, by the audit file, and by the metrics.
    assert (found["decided"], found["not_decided_once"]) == (items, 0)
    assert (found["audit_lines"], found["audit_wrong"]) == (items, 0)
    assert found["metrics_wrong"] == []
    assert found["sources_called_twice"] == 0
    assert found["observer_failures"] == found["expected_observer_failures"] == items // 1000
    # Nothing is left, and nothing grows.
    assert (found["threads_left"], found["tasks_left"]) == ([], 0)
    assert found["files_after"] <= found["files_before"]
    assert found["most_mib"] <= 1.1 * found["warm_mib"]
    # All of it happened.
    assert found["reloads"] >= 3
    assert found["corrupt"] >= 1
    assert found["bundles_seen"] >= 3
    assert found["compared_with_reference"] > items / 3
    assert set(found["reasons"]) == {"confident", "inconclusive", "budget", "deadline", "acquisition_failed"}
    seen = found["seen"]
    kinds = ("exception", "timeout", "breaker_open", "refused", "missing", "wrong_type", "missing_key", "unknown_category")
    assert [kind for kind in kinds if not seen.get(kind)] == []
    assert seen["values from caches"]
    assert seen.get("hung, but answered before it was looked at", 0) <= 0.2 * seen["timeout"]
    shares = found["injected"]
    assert shares["RAISE"] >= 0.05
    assert shares["HANG"] >= 0.01
    assert shares["NAN"] + shares["WRONG"] >= 0.02


def test_a_short_soak() -> None:
    """1,500 decisions in threads and a loop, while sources fail and bundles are replaced: what `soak_checker` checks holds."""
    check_figures(run_soak(1500, seed=1, period_s=0.1))


@pytest.mark.proof
def test_a_long_soak(capsys: pytest.CaptureFixture[str]) -> None:
    """The same with 300,000 decisions and a reload every second."""
    found = run_soak(300_000, seed=2, period_s=1.0)
    report(capsys, f"soak: {json.dumps(found)}")
    check_figures(found)
    assert found["reloads"] + found["corrupt"] >= 0.5 * found["seconds"]


# The checker itself


@pytest.fixture
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let idle threads end at once, and see that those of the test have ended after it."""
    monkeypatch.setattr(pool_module, "_IDLE_S", 0.05)
    before = our_threads()
    yield
    wait_until(lambda: all(thread in before for thread in our_threads()), "threads end")


def with_higher_cost(decision: Decision) -> Decision:
    """Return the decision with a bill that differs in the last digits."""
    return decision._replace(cost=decision.cost + 1e-9)


def with_other_label(decision: Decision) -> Decision:
    """Return the decision with another label."""
    return decision._replace(label="ham" if decision.label != "ham" else "spam")


def without_errors(decision: Decision) -> Decision:
    """Return the decision without its errors."""
    return decision._replace(errors=())


def with_flipped_degraded(decision: Decision) -> Decision:
    """Return the decision as if it had not used fallback values."""
    return decision._replace(degraded=not decision.degraded)


def with_wrong_failure_kinds(decision: Decision) -> Decision:
    """Return the decision with kinds of failures that did not happen."""
    return decision._replace(errors=tuple(one._replace(kind="infinite") for one in decision.errors))


def with_deadline_reason(decision: Decision) -> Decision:
    """Return the decision as if a deadline had come."""
    return decision._replace(status="rejected", reason="deadline", label=None)


def with_cached_value(decision: Decision) -> Decision:
    """Return the decision as if its first value had come from a cache."""
    record = decision.trace[0]
    return decision._replace(
        trace=(record._replace(acquired=record.acquired[1:], cached=record.acquired[:1]), *decision.trace[1:])
    )


def with_other_probabilities(decision: Decision) -> Decision:
    """Return the decision with other probabilities at its first stage."""
    record = decision.trace[0]
    turned = dict(zip(record.probabilities, [0.98, 0.01, 0.01], strict=True))
    return decision._replace(trace=(record._replace(probabilities=turned), *decision.trace[1:]))


@pytest.mark.usefixtures("_no_thread_is_left")
@pytest.mark.parametrize(
    "tamper",
    [
        with_higher_cost,
        with_other_label,
        without_errors,
        with_flipped_degraded,
        with_wrong_failure_kinds,
        with_deadline_reason,
        with_cached_value,
        with_other_probabilities,
    ],
)
def test_the_checker_finds_wrong_decisions(tamper: Callable[[Decision], Decision]) -> None:
    """Decisions of a calm run pass the checker, each of them; tampered with, none does."""
    # After the first outage, in which most calls are waited for in vain.
    items = range(200, 260)
    world, calls, version = World(items.stop, seed=3), Calls(items.stop), versions(3)[0]
    model = Model(version)
    cascade = Cascade(version.bundle, registry(world, calls, asynchronous=False), pool=AcquirerPool(4))
    tried = 0
    for item in items:
        options = world.options(item)
        decision = cascade.decide(item, budget=options.budget, deadline_s=options.deadline_s, known=options.known)
        request = ItemRequest(item, options)
        DecisionChecker(model, world, calls, request, decision, Counter()).check()
        check_reference(model, world, request, decision)
        needs_errors = tamper in (without_errors, with_wrong_failure_kinds)
        if options.deadline_s is not None or not decision.stages or (needs_errors and not decision.errors):
            continue
        if tamper in (with_cached_value, with_other_probabilities) and not decision.trace[0].acquired:
            continue
        tried += 1
        with pytest.raises(WrongDecision):
            DecisionChecker(model, world, calls, request, tamper(decision), Counter()).check()
    assert tried > 5


def test_the_reference_finds_wrong_labels() -> None:
    """A decision without errors that is not the one of a world without faults is reported."""
    world, version = World(50, seed=4), versions(4)[0]
    model = Model(version)
    request = next(ItemRequest(item, world.options(item)) for item in range(50) if world.options(item) == (None, None, None))
    values = {name: world.value(name, request.item) for name in model.features}
    decision = Cascade(version.bundle).decide(values)
    assert check_reference(model, world, request, decision)
    with pytest.raises(WrongDecision, match="fault-free reference"):
        check_reference(model, world, request, with_other_label(decision))
