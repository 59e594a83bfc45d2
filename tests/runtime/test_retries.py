"""Retries inside an acquirer, as in docs/operating.md: all attempts together are one call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("stamina", reason="a development dependency")

import stamina

from emsco_runtime import Acquirers, Cascade, CircuitBreaker
from emsco_runtime.testing import make_bundle
from tests.runtime.test_breaker import decide
from tests.runtime.test_observers import RecordingObserver
from tests.runtime.waiting import wait_until

WAYS = ["decide", "many", "plain async", "async"]
QUICK = {"wait_initial": 0.001, "wait_max": 0.001, "wait_jitter": 0.0}


class Flaky:
    """A source that fails `failures` times, then answers."""

    def __init__(self, failures: float) -> None:
        self.failures = failures
        self.attempts = 0

    def ask(self) -> float:
        """Answer, or fail."""
        self.attempts += 1
        if self.attempts <= self.failures:
            raise OSError("busy")
        return 0.1


def retrying_acquirers(source: Flaky, way: str, retry: dict[str, Any], **options: Any) -> tuple[Cascade, RecordingObserver]:
    """Return a cascade of one feature, whose acquirer retries."""

    def plain(item: Any) -> float:
        return source.ask()

    async def async_source(item: Any) -> float:
        return source.ask()

    acquirers, watcher = Acquirers(), RecordingObserver()
    function = stamina.retry(on=OSError, **retry)(async_source if way == "async" else plain)
    acquirers.feature("a", on_failure="reject", **options)(function)
    return Cascade(make_bundle([["a"]], threshold=1.0), acquirers, observers=[watcher]), watcher


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("timeout_s", [None, 600.0])
def test_attempts_are_one_call(way: str, timeout_s: float | None) -> None:
    """Two failures and an answer: one call that went well, billed once, and nothing for the breaker to count."""
    source, breaker = Flaky(2), CircuitBreaker(failures=1)
    cascade, watcher = retrying_acquirers(
        source, way, {"attempts": 3, "timeout": None, **QUICK}, timeout_s=timeout_s, breaker=breaker
    )
    decision = decide(cascade, way.removeprefix("plain "), None)
    assert (decision.errors, decision.cost, source.attempts) == ((), 1.0, 3)
    assert [call.outcome for call in watcher.calls] == ["ok"]
    assert breaker.state == "closed"


@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_stays_down_is_one_failure(way: str) -> None:
    """When the last attempt fails, the breaker counts one failure, and its message is the source's own."""
    source, breaker = Flaky(float("inf")), CircuitBreaker(failures=2)
    cascade, watcher = retrying_acquirers(source, way, {"attempts": 3, "timeout": None, **QUICK}, breaker=breaker)
    for state in ("closed", "open"):
        decision = decide(cascade, way.removeprefix("plain "), None)
        assert [(one.kind, "busy" in one.message) for one in decision.errors] == [("exception", True)]
        assert breaker.state == state
    assert source.attempts == 6
    assert [call.outcome for call in watcher.calls] == ["exception"] * 2


@pytest.mark.parametrize("way", WAYS)
def test_a_time_out_is_around_all_attempts(way: str) -> None:
    """A source that would be asked without end: the timeout ends the wait; a coroutine asks no more, a thread for a while."""
    source = Flaky(float("inf"))
    forever = {"attempts": None, "timeout": 0.5, "wait_initial": 0.01, "wait_max": 0.01, "wait_jitter": 0.0}
    cascade, _ = retrying_acquirers(source, way, forever, timeout_s=0.1)

    async def decide_and_count() -> tuple[Any, int]:
        decision = await cascade.decide_async(None)
        asked = source.attempts
        await asyncio.sleep(0.1)
        return decision, source.attempts - asked

    if way == "async":
        decision, asked_later = asyncio.run(decide_and_count())
        assert asked_later == 0
    else:
        decision = decide(cascade, way.removeprefix("plain "), None)
        wait_until(lambda: cascade._pool.counts.abandoned == 0, "the abandoned retries end by themselves")
    assert [one.kind for one in decision.errors] == ["timeout"]
