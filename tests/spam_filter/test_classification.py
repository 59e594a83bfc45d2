"""The verdict on one message: from a decision, or from whatever went wrong."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from spam_filter.message.mail import Envelope
from spam_filter.service.classification import MESSAGE_ID, classify
from spam_filter.service.verdict import Verdict
from spam_filter.service.verdict_pool import VerdictPool

from emsco_runtime import Acquirers, Cascade
from emsco_runtime.testing import make_bundle, sample_bundle
from tests.runtime.waiting import HangingSource, wait_until

ENVELOPE = Envelope("a@example.org", ("b@example.org",), "127.0.0.1")


class Fake:
    """A model around the runtime's sample bundle: `size` (1), `links` (2), `reputation` (25)."""

    def __init__(self, sources: Mapping[str, Callable[[Any], object]], **options: Any) -> None:
        acquirers = Acquirers()
        for name, source in sources.items():
            acquirers.feature(name)(source)
        self.cascade = Cascade(sample_bundle(), acquirers, **options)


def model(size: float | Callable[[Any], object], links: float = 0.0, reputation: float = 0.0, **options: Any) -> Fake:
    """Return a model whose features are these."""
    first = size if callable(size) else lambda _: size
    return Fake({"size": first, "links": lambda _: links, "reputation": lambda _: reputation}, **options)


def broken(_: Any) -> float:
    """Fail with a text that quotes the message."""
    raise ValueError("secret of the message")


@pytest.mark.parametrize(
    ("size", "status", "stage", "cost"), [(2.0, "spam", 1, 1.0), (-2.0, "ham", 1, 1.0), (0.0, "unsure", 3, 28.0)]
)
def test_a_decision_becomes_a_verdict(size: float, status: str, stage: int, cost: float) -> None:
    """Label, confidence, stage, cost and bundle are the decision's; rejected for lack of confidence is unsure."""
    made = model(size)
    verdict = classify(made, b"", ENVELOPE, None)
    decision = made.cascade.decide(None)
    assert verdict == Verdict(status, decision.confidence, stage, cost, "unit", decision.bundle)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, Verdict("error", note="size: exception")),
        ({"on_failure": "reject"}, Verdict("error", None, 0, 1.0, "unit", "ID", "acquisition_failed")),
    ],
)
def test_a_source_that_fails_is_an_error_and_tells_no_secret(
    options: dict[str, Any], verdict: Verdict, caplog: pytest.LogCaptureFixture
) -> None:
    """The kind is reported, the text of the exception is not: it may quote the message."""
    made = model(broken, **options)
    found = classify(made, b"", ENVELOPE, None)
    expected = (
        verdict if verdict.bundle is None else Verdict("error", None, 0, 1.0, "unit", made.cascade.manifest.id, verdict.note)
    )
    assert found == expected
    assert "secret" not in caplog.text


def test_a_fallback_value_decides_and_is_told() -> None:
    """With the policy "default" the message is decided; the verdict names what failed."""
    verdict = classify(model(broken, links=5.0, on_failure="default"), b"", ENVELOPE, None)
    assert (verdict.status, verdict.degraded, verdict.failed_sources) == ("spam", True, ("size",))


def test_a_fallback_value_never_makes_ham() -> None:
    """The decision itself says ham; since a fallback was used, the verdict is that of a rejection."""
    made = model(broken, links=-5.0, on_failure="default")
    assert made.cascade.decide(None).label == "ham"
    verdict = classify(made, b"", ENVELOPE, None)
    assert (verdict.status, verdict.failed_sources) == ("unsure", ("size",))


def test_a_deadline_is_an_error_with_the_bill_so_far() -> None:
    """The cascade's own deadline, for callers without a pool of threads around."""
    source = HangingSource()
    try:
        verdict = classify(model(source), b"", ENVELOPE, 0.05)
    finally:
        source.release_event.set()
    assert (verdict.status, verdict.note, verdict.cost) == ("error", "deadline", 1.0)


def test_a_bundle_with_other_labels_marks_everything_error() -> None:
    """A label that is neither spam nor ham must not become a verdict."""
    made = model(2.0)
    made.cascade = made.cascade.with_bundle(make_bundle([["size"]], labels=("cat", "dog"), threshold=0.5))
    verdict = classify(made, b"", ENVELOPE, None)
    assert (verdict.status, verdict.note) == ("error", "label")


def test_a_fault_of_any_kind_is_an_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Even a model that cannot decide delivers the message; the log names the error and the message's id."""

    class Broken:
        @property
        def cascade(self) -> Cascade:
            raise RecursionError("too deep")

    MESSAGE_ID.set("id-7")
    assert classify(Broken(), b"", ENVELOPE, None) == Verdict("error", note="RecursionError")
    assert "message id-7 could not be decided: RecursionError" in caplog.text


def test_verdicts_come_from_threads_within_their_deadline() -> None:
    """Two that hang are given up and their threads replaced; then the next is refused; when they have ended, all is well."""
    source = HangingSource(2.0)
    hanging = model(source)

    async def ask() -> list[str]:
        verdicts = VerdictPool(hanging, 0.05, 2)
        found = [await verdicts.verdict("m", b"", ENVELOPE) for _ in range(3)]
        assert verdicts.pool.counts.abandoned == 2
        source.release_event.set()
        await asyncio.to_thread(wait_until, lambda: verdicts.pool.counts.abandoned == 0, "they end")
        patient = VerdictPool(hanging, 60.0, 1)
        return [*(verdict.note for verdict in found), (await patient.verdict("m", b"", ENVELOPE)).status]

    assert asyncio.run(ask()) == ["deadline", "deadline", "refused", "spam"]


def test_a_model_that_asks_the_network_gives_a_verdict_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system starts no more of them, a message that is read in one is told as an error, and a small one is decided."""
    monkeypatch.setattr("spam_filter.service.verdict_pool.asks_network", lambda _: True)

    async def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def decided(*_: object) -> Verdict:
        return Verdict("ham")

    async def ask(raw: bytes) -> list[str]:
        told: list[str] = []
        work = VerdictPool(model(2.0), 60.0, 1).begin("m", raw, ENVELOPE, lambda one: told.append(one.note or one.status))
        assert isinstance(work, asyncio.Task)
        await asyncio.wait([work])
        return told

    monkeypatch.setattr(asyncio, "to_thread", no_thread)
    monkeypatch.setattr("spam_filter.service.verdict_pool.classify_async", decided)
    assert asyncio.run(ask(b"x" * 100_000)) == ["refused"]
    assert asyncio.run(ask(b"x")) == ["ham"]


def test_a_message_that_takes_long_lets_the_next_one_begin() -> None:
    """While one is held up, the others are decided, though one thread decides."""
    source = HangingSource(2.0)

    async def ask() -> list[str]:
        verdicts = VerdictPool(model(lambda mail: source(mail) if mail.raw else 2.0), 60.0, 1)
        held_up = asyncio.ensure_future(verdicts.verdict("long", b"text", ENVELOPE))
        await asyncio.to_thread(wait_until, lambda: source.entered == 1, "it runs")
        others = [(await verdicts.verdict("short", b"", ENVELOPE)).status for _ in range(3)]
        assert not held_up.done()
        source.release_event.set()
        return [*others, (await held_up).status]

    assert asyncio.run(ask()) == ["spam"] * 4


def test_verdicts_are_told_once_within_their_deadline() -> None:
    """Three that hang are told as errors at their deadline, one that waits for them and one that comes then as refused."""
    source = HangingSource(2.0)
    told: list[tuple[int, str]] = []

    async def ask() -> None:
        verdicts = VerdictPool(model(source), 0.2, 2)

        def begin(number: int) -> None:
            verdicts.begin("m", b"", ENVELOPE, lambda verdict: told.append((number, verdict.note or verdict.status)))

        for number in range(3):
            begin(number)
        # Two have let go of the thread, the third has it to its deadline.
        await asyncio.sleep(0.15)
        begin(3)
        await asyncio.to_thread(wait_until, lambda: len(told) == 4, "all are told")
        begin(4)
        assert told[-1] == (4, "refused")
        source.release_event.set()
        await asyncio.to_thread(wait_until, lambda: verdicts.pool.counts.abandoned == 0, "they end")
        begin(5)
        await asyncio.to_thread(wait_until, lambda: len(told) == 6, "the last one is told")
        # Longer than until the next look at those that take long: nothing is told again.
        await asyncio.sleep(0.1)

    asyncio.run(ask())
    assert sorted(told) == [(0, "deadline"), (1, "deadline"), (2, "deadline"), (3, "refused"), (4, "refused"), (5, "spam")]


def test_a_verdict_that_nobody_wants_is_not_told() -> None:
    """One that is cancelled while it is decided, and one that waits for a thread: that one is never decided."""
    source = HangingSource(2.0)
    told: list[str] = []

    async def ask() -> None:
        verdicts = VerdictPool(model(source), 60.0, 1)
        first = verdicts.begin("first", b"", ENVELOPE, lambda verdict: told.append(verdict.status))
        await asyncio.to_thread(wait_until, lambda: source.entered == 1, "it runs")
        second = verdicts.begin("second", b"", ENVELOPE, lambda verdict: told.append(verdict.status))
        second.cancel()
        first.cancel()
        source.release_event.set()
        await asyncio.to_thread(wait_until, lambda: verdicts.pool.counts.abandoned == 0, "it ends")
        await asyncio.sleep(0.1)

    asyncio.run(ask())
    assert (told, source.entered) == ([], 1)


def test_verdicts_that_nobody_wants_do_not_cost_the_others_theirs() -> None:
    """A client resets its connection while its message is decided, for long: the next message is decided all the same."""
    source = HangingSource(2.0)
    told: list[str] = []

    async def ask() -> None:
        verdicts = VerdictPool(model(lambda mail: source(mail) if mail.raw else 2.0), 60.0, 1)
        gone = verdicts.begin("gone", b"text", ENVELOPE, lambda _: told.append("gone"))
        await asyncio.to_thread(wait_until, lambda: source.entered == 1, "it runs")
        gone.cancel()
        verdicts.begin("next", b"", ENVELOPE, lambda verdict: told.append(verdict.note or verdict.status))
        await asyncio.to_thread(wait_until, lambda: told, "the next one is told")
        source.release_event.set()

    asyncio.run(ask())
    assert told == ["spam"]


def test_a_message_that_takes_long_lets_those_begin_that_are_to_be_told() -> None:
    """As where the event loop waits: while one is held up, the others are decided, though one thread decides."""
    source = HangingSource(2.0)
    told: list[str] = []

    async def ask() -> None:
        verdicts = VerdictPool(model(lambda mail: source(mail) if mail.raw else 2.0), 60.0, 1)
        verdicts.begin("long", b"text", ENVELOPE, lambda _: told.append("long"))
        await asyncio.to_thread(wait_until, lambda: source.entered == 1, "it runs")
        for _ in range(3):
            verdicts.begin("short", b"", ENVELOPE, lambda _: told.append("short"))
        await asyncio.to_thread(wait_until, lambda: len(told) == 3, "the others are decided")
        source.release_event.set()
        await asyncio.to_thread(wait_until, lambda: len(told) == 4, "so is the first")

    asyncio.run(ask())
    assert told == ["short"] * 3 + ["long"]


def test_the_loop_is_free_while_messages_are_decided() -> None:
    """A decision in a thread does not stop the event loop, and knows which message it is about."""
    entered, go_on = threading.Event(), threading.Event()
    seen: list[str | None] = []

    def source(_: Any) -> float:
        seen.append(MESSAGE_ID.get())
        entered.set()
        assert go_on.wait(60)
        return 2.0

    async def ask() -> str:
        verdicts = VerdictPool(model(source), 60.0, 1)
        task = asyncio.create_task(verdicts.verdict("m1", b"", ENVELOPE))
        await asyncio.to_thread(entered.wait, 60)
        assert not task.done()
        go_on.set()
        return (await task).status

    assert asyncio.run(ask()) == "spam"
    assert seen == ["m1"]
