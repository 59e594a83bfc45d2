"""`DecisionTracer`: spans as an exporter of OpenTelemetry's SDK sees them."""

from __future__ import annotations

import asyncio
import contextvars
import pickle
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("opentelemetry", reason="the extra `otel` is not installed")
pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

from emsco_runtime import Acquirers, AcquisitionError, Cascade
from emsco_runtime.observing.tracing import DecisionTracer
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle

BUNDLE = sample_bundle()
SPAM = {"size": 2.0, "links": 1.0, "reputation": 0.5}


class CollectedSpans:
    """A provider whose spans are kept in memory."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        """Return the spans that ended."""
        return list(self._exporter.get_finished_spans())


def attributes(given: Any) -> dict[str, Any]:
    """Return attributes as a plain dictionary."""
    return dict(given.attributes)


def test_a_span_per_decision() -> None:
    """A span describes the decision, and covers all of the time that it took."""
    collected = CollectedSpans()
    cascade = Cascade(BUNDLE, observers=[DecisionTracer(tracer_provider=collected.provider)])
    before = time.time_ns()
    decision = cascade.decide(SPAM)
    after = time.time_ns()
    (span,) = collected.spans
    assert span.name == "emsco.decide"
    assert span.parent is None
    assert span.instrumentation_scope.name == "emsco_runtime"
    assert span.start_time is not None
    assert span.end_time is not None
    assert before <= span.start_time <= span.end_time <= after
    assert attributes(span) == {
        "emsco.status": "accepted",
        "emsco.reason": "confident",
        "emsco.label": "spam",
        "emsco.confidence": decision.confidence,
        "emsco.stages": 1,
        "emsco.cost": 1.0,
        "emsco.degraded": False,
        "emsco.bundle": cascade.manifest.id,
        "emsco.acquired": ("size",),
    }


def test_missing_values_are_left_out() -> None:
    """A rejected item has no label, one that was not scored no confidence; a number as label is recorded as text."""
    collected = CollectedSpans()
    tracer = DecisionTracer(tracer_provider=collected.provider, name="check")
    Cascade(BUNDLE, observers=[tracer]).decide(SPAM, budget=0.0)
    Cascade(make_bundle([["size"]], labels=(0, 1), weights=[[[-9.0], [9.0]]]), observers=[tracer]).decide(SPAM)
    first, second = map(attributes, collected.spans)
    assert {"emsco.label", "emsco.confidence"}.isdisjoint(first)
    assert second["emsco.label"] == "1"
    assert {span.name for span in collected.spans} == {"check"}


def test_a_child_of_the_current_span() -> None:
    """The parent is the span in which `decide` was called, in plain code and in tasks that run at the same time."""
    collected = CollectedSpans()
    cascade = Cascade(BUNDLE, observers=[DecisionTracer(tracer_provider=collected.provider)])
    tracer = collected.provider.get_tracer("service")

    async def serve(number: int) -> None:
        with tracer.start_as_current_span(f"request {number}"):
            await asyncio.sleep(0)
            await cascade.decide_async(SPAM)

    async def serve_all() -> None:
        await asyncio.gather(*map(serve, range(3)))

    with tracer.start_as_current_span("request 3"):
        cascade.decide(SPAM)
    asyncio.run(serve_all())
    requests = {span.context.span_id: span for span in collected.spans if span.name != "emsco.decide"}
    decisions = [span for span in collected.spans if span.name == "emsco.decide"]
    assert sorted(requests[span.parent.span_id].name for span in decisions if span.parent) == [
        f"request {number}" for number in range(4)
    ]
    assert all(span.parent and span.context.trace_id == requests[span.parent.span_id].context.trace_id for span in decisions)


class Sources:
    """Acquirers that make a span of each call: `size` is a plain function, `links` and `reputation` are what is asked for."""

    def __init__(self, collected: CollectedSpans, *, asynchronous: bool = False) -> None:
        self.acquirers = Acquirers()
        tracer = collected.provider.get_tracer("sources")

        def plain(item: Any) -> float:
            with tracer.start_as_current_span(f"plain {item['number']}"):
                return 0.0

        async def slow(item: Any) -> float:
            with tracer.start_as_current_span(f"async {item['number']}"):
                await asyncio.sleep(0.001)
                return 0.0

        self.acquirers.feature("size")(plain)
        self.acquirers.feature("links")(slow if asynchronous else plain)
        self.acquirers.feature("reputation")(slow if asynchronous else plain)


def check_parents(collected: CollectedSpans, decisions: int) -> None:
    """See that each request has one decision, and that the spans of its sources are children of that decision's."""
    spans = {span.context.span_id: span for span in collected.spans}
    made = [span for span in spans.values() if span.name == "emsco.decide"]
    assert len(made) == decisions
    for span in spans.values():
        if span.name.startswith(("plain", "async")):
            assert span.parent is not None
            decision = spans[span.parent.span_id]
            assert decision.name == "emsco.decide"
            assert decision.parent is not None
            assert spans[decision.parent.span_id].name == f"request {span.name.split()[1]}"
            assert span.context.trace_id == decision.context.trace_id
            assert decision.start_time <= span.start_time <= span.end_time <= decision.end_time  # type: ignore[operator]


@pytest.mark.parametrize("options", [{}, {"pool": True}, {"deadline_s": 600.0}], ids=["here", "pool", "deadline"])
def test_spans_of_acquirers_are_children_of_the_decision(options: dict[str, Any]) -> None:
    """In the calling thread, in threads of a pool and under a deadline; the request's span is current again afterwards."""
    collected = CollectedSpans()
    pool = AcquirerPool(4) if options.get("pool") else None
    tracer = DecisionTracer(tracer_provider=collected.provider)
    cascade = Cascade(BUNDLE, Sources(collected).acquirers, observers=[tracer], pool=pool)
    service = collected.provider.get_tracer("service")
    for number in range(3):
        with service.start_as_current_span(f"request {number}") as request:
            cascade.decide({"number": number}, deadline_s=options.get("deadline_s"))
            assert trace.get_current_span() is request
    check_parents(collected, 3)
    assert len(collected.spans) == 3 * (1 + 1 + 3)


@pytest.mark.parametrize("pooled", [False, True])
def test_spans_of_async_acquirers_are_children_of_the_decision(pooled: bool) -> None:
    """In tasks that run at the same time each decision has the spans of its own sources."""
    collected = CollectedSpans()
    cascade = Cascade(
        BUNDLE,
        Sources(collected, asynchronous=True).acquirers,
        observers=[DecisionTracer(tracer_provider=collected.provider)],
        pool=AcquirerPool(4) if pooled else None,
    )
    service = collected.provider.get_tracer("service")

    async def serve(number: int) -> None:
        with service.start_as_current_span(f"request {number}"):
            await cascade.decide_async({"number": number})

    async def serve_all() -> None:
        await asyncio.gather(*map(serve, range(4)))
        with service.start_as_current_span("request 4"):
            await cascade.decide_many_async([{"number": 4}, {"number": 4}])

    asyncio.run(serve_all())
    check_parents(collected, 6)
    assert len(collected.spans) == 5 + 6 * (1 + 3)


def test_many_in_step_share_a_span() -> None:
    """`decide_many` has a span of its own, the parent of its decisions and of its acquirers' spans; one item alone has none."""
    collected = CollectedSpans()
    cascade = Cascade(BUNDLE, Sources(collected).acquirers, observers=[DecisionTracer(tracer_provider=collected.provider)])
    cascade.decide_many([{"number": 0}, {"number": 1}])
    (whole,) = [span for span in collected.spans if span.name == "emsco.decide_many"]
    others = [span for span in collected.spans if span is not whole]
    assert sorted(span.name for span in others) == ["emsco.decide"] * 2 + ["plain 0"] * 3 + ["plain 1"] * 3
    assert {span.parent.span_id for span in others if span.parent} == {whole.context.span_id}
    assert {attributes(span)["emsco.status"] for span in others if span.name == "emsco.decide"} == {"rejected"}
    assert attributes(whole) == {"emsco.bundle": cascade.manifest.id}
    cascade.decide_many([{"number": 2}])
    assert len([span for span in collected.spans if span.name == "emsco.decide_many"]) == 1


def test_two_tracers() -> None:
    """Each describes the span that it has started, whichever is the current one."""
    one, other = CollectedSpans(), CollectedSpans()
    tracers = [DecisionTracer(tracer_provider=each.provider, name=name) for each, name in ((one, "first"), (other, "second"))]
    Cascade(BUNDLE, observers=tracers).decide(SPAM)
    for collected, name in ((one, "first"), (other, "second")):
        (span,) = collected.spans
        assert (span.name, attributes(span)["emsco.label"]) == (name, "spam")


def test_a_decision_inside_a_decision() -> None:
    """An acquirer that asks another cascade with the same tracer: its span is the child, and each keeps its own attributes."""
    collected = CollectedSpans()
    tracer = DecisionTracer(tracer_provider=collected.provider)
    inner = Cascade(BUNDLE, observers=[tracer])
    acquirers = Acquirers()
    acquirers.feature("size")(lambda item: inner.decide(SPAM).cost)
    for name in ("links", "reputation"):
        acquirers.feature(name)(lambda item: 0.0)
    Cascade(make_bundle([["size"]], labels=(0, 1), weights=[[[-9.0], [9.0]]]), acquirers, observers=[tracer]).decide({})
    child, parent = collected.spans
    assert child.parent is not None
    assert child.parent.span_id == parent.context.span_id
    assert (attributes(child)["emsco.label"], attributes(parent)["emsco.label"]) == ("spam", "1")


def test_a_decision_that_nobody_awaits_any_more_ends_its_span(caplog: pytest.LogCaptureFixture) -> None:
    """As when a loop is closed too early: its coroutine is closed in another context than it began in, and nothing is logged."""
    collected = CollectedSpans()
    acquirers = RecordingAcquirers("links", "reputation")

    @acquirers.feature("size")
    async def wait_for_ever(_: object) -> float:
        await asyncio.sleep(0)
        return 0.0

    cascade = Cascade(BUNDLE, acquirers, observers=[DecisionTracer(tracer_provider=collected.provider)])

    async def begin_and_close() -> None:
        deciding = cascade.decide_async(SPAM)
        contextvars.copy_context().run(deciding.send, None)
        deciding.close()

    asyncio.run(begin_and_close())
    (span,) = collected.spans
    assert (span.status.is_ok, span.status.description) == (False, "GeneratorExit")
    assert caplog.records == []


@pytest.mark.parametrize("messages", [False, True])
def test_an_item_that_raises_has_a_span_that_says_so(messages: bool) -> None:
    """Its status is an error, with what failed; the message, which may quote the item, on demand only."""
    collected = CollectedSpans()
    tracer = DecisionTracer(tracer_provider=collected.provider, messages=messages)
    cascade = Cascade(BUNDLE, RecordingAcquirers("size", "links", "reputation"), observers=[tracer])
    bad = {"size": OSError("secret")}
    with pytest.raises(AcquisitionError):
        cascade.decide(bad)
    with pytest.raises(AcquisitionError):
        cascade.decide_many([bad, bad])
    for span, name in zip(collected.spans, ("emsco.decide", "emsco.decide_many"), strict=True):
        assert span.name == name
        assert span.status.status_code is trace.StatusCode.ERROR
        failure = {"emsco.feature": "size", "emsco.stage": 1, "emsco.kind": "exception", "emsco.cost": 1.0}
        assert attributes(span) == failure | {"emsco.bundle": cascade.manifest.id}
        assert ("secret" in span.to_json()) is messages
    # Notified without a start, as by an observer in front of it: there is no span to describe.
    tracer.on_error(AcquisitionError("message", "size", 1, "exception", 1.0, ()), cascade.manifest.id)
    assert len(collected.spans) == 2


def test_what_ends_a_decision_from_outside_ends_its_span() -> None:
    """A request to stop leaves no span open, and the span of the caller current."""
    collected = CollectedSpans()
    acquirers = Acquirers()

    def stop(item: Any) -> float:
        raise KeyboardInterrupt

    acquirers.feature("size")(stop)
    for name in ("links", "reputation"):
        acquirers.feature(name)(lambda item: 0.0)
    cascade = Cascade(BUNDLE, acquirers, observers=[DecisionTracer(tracer_provider=collected.provider)])
    with pytest.raises(KeyboardInterrupt):
        cascade.decide({})
    (span,) = collected.spans
    assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, "KeyboardInterrupt")
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("messages", [False, True])
def test_failures_are_events(messages: bool) -> None:
    """Each failure is an event with its feature, stage and kind; its message, which may quote the item, on demand only."""
    collected = CollectedSpans()
    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="default")
    tracer = DecisionTracer(tracer_provider=collected.provider, messages=messages)
    Cascade(BUNDLE, acquirers, observers=[tracer]).decide({"size": OSError("secret"), "links": 0.0, "reputation": "good"})
    (span,) = collected.spans
    expected = [
        {"emsco.feature": "size", "emsco.stage": 1, "emsco.kind": "exception"},
        {"emsco.feature": "reputation", "emsco.stage": 3, "emsco.kind": "wrong_type"},
    ]
    found = [attributes(event) for event in span.events]
    quoted = [event.pop("emsco.message", None) for event in found]
    assert found == expected
    assert quoted[0] == ("its acquirer raised OSError: secret" if messages else None)
    assert {event.name for event in span.events} == {"emsco.failure"}
    assert all(span.start_time <= event.timestamp <= span.end_time for event in span.events)  # type: ignore[operator]
    assert ("secret" in span.to_json()) is messages


class RecordingSampler(Sampler):
    """Keeps what it is asked with, and drops everything."""

    def __init__(self) -> None:
        self.attributes: list[dict[str, Any]] = []

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *rest: Any, **more: Any) -> SamplingResult:
        """Keep the attributes."""
        self.attributes.append(dict(more.get("attributes") or next(one for one in rest if isinstance(one, dict))))
        return SamplingResult(Decision.DROP)

    def get_description(self) -> str:
        """Return a name."""
        return "asked"


def test_samplers_see_the_bundle() -> None:
    """A sampler is asked before the item is decided, with the bundle; what it drops is not described, nor is it kept."""
    sampler = RecordingSampler()
    collected = CollectedSpans(sampler)
    cascade = Cascade(BUNDLE, observers=[DecisionTracer(tracer_provider=collected.provider)])
    cascade.decide(SPAM)
    assert sampler.attributes == [{"emsco.bundle": cascade.manifest.id}]
    assert collected.spans == []
    assert cascade.observer_failures == 0
    dropped = CollectedSpans(ALWAYS_OFF)
    Cascade(BUNDLE, observers=[DecisionTracer(tracer_provider=dropped.provider)]).decide(SPAM)
    assert dropped.spans == []


def test_without_an_sdk_nothing_happens() -> None:
    """With the API alone a decision goes through, no span is kept, no observer fails, and the SDK is not loaded."""
    code = (
        "import sys; from emsco_runtime import Cascade; from emsco_runtime.testing import sample_bundle;"
        "from emsco_runtime.tracing import DecisionTracer;"
        "cascade = Cascade(sample_bundle(), observers=[DecisionTracer()]);"
        "assert cascade.decide({'size': 2.0}).label == 'spam'; assert cascade.observer_failures == 0;"
        "assert 'opentelemetry.sdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pickling_needs_the_global_provider() -> None:
    """The settings travel; a provider of one's own stays in its process, and the error says what to do instead."""
    copy = pickle.loads(pickle.dumps(Cascade(BUNDLE, observers=[DecisionTracer(name="moved", messages=True)])))
    assert copy.decide(SPAM).label == "spam"
    (tracer,) = copy._state.options.observers
    assert (tracer._name, tracer._messages, copy.observer_failures) == ("moved", True, 0)
    with pytest.raises(TypeError, match="cannot be pickled: it has a tracer provider of its own"):
        pickle.dumps(DecisionTracer(tracer_provider=CollectedSpans().provider))
