"""`DecisionTracer`: spans as an exporter of OpenTelemetry's SDK sees them."""

from __future__ import annotations

import asyncio
import pickle
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("opentelemetry", reason="the extra `otel` is not installed")
pytest.importorskip("opentelemetry.sdk", reason="OpenTelemetry's SDK is not installed")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult

from emsco_runtime import Cascade
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from emsco_runtime.tracing import DecisionTracer

BUNDLE = sample_bundle()
SPAM = {"size": 2.0, "links": 1.0, "reputation": 0.5}


class Collected:
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
    """A span tells the decision, and is as long as it took."""
    collected = Collected()
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
    assert before <= span.end_time <= after
    assert span.end_time - span.start_time == round(decision.elapsed_s * 1e9)
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


def test_what_there_is_none_of_is_left_out() -> None:
    """A rejected item has no label, one that was not scored no confidence; a number as label is told as text."""
    collected = Collected()
    tracer = DecisionTracer(tracer_provider=collected.provider, name="check")
    Cascade(BUNDLE, observers=[tracer]).decide(SPAM, budget=0.0)
    Cascade(make_bundle([["size"]], labels=(0, 1), weights=[[[-9.0], [9.0]]]), observers=[tracer]).decide(SPAM)
    first, second = map(attributes, collected.spans)
    assert {"emsco.label", "emsco.confidence"}.isdisjoint(first)
    assert second["emsco.label"] == "1"
    assert {span.name for span in collected.spans} == {"check"}


def test_a_child_of_the_current_span() -> None:
    """The parent is the span in which `decide` was called, in plain code and in tasks that run at the same time."""
    collected = Collected()
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


@pytest.mark.parametrize("messages", [False, True])
def test_failures_are_events(messages: bool) -> None:
    """Each failure is an event with its feature, stage and kind; its message, which may quote the item, on demand only."""
    collected = Collected()
    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="default")
    tracer = DecisionTracer(tracer_provider=collected.provider, messages=messages)
    Cascade(BUNDLE, acquirers, observers=[tracer]).decide({"size": OSError("secret"), "links": 0.0, "reputation": "good"})
    (span,) = collected.spans
    due = [
        {"emsco.feature": "size", "emsco.stage": 1, "emsco.kind": "exception"},
        {"emsco.feature": "reputation", "emsco.stage": 3, "emsco.kind": "wrong_type"},
    ]
    found = [attributes(event) for event in span.events]
    told = [event.pop("emsco.message", None) for event in found]
    assert found == due
    assert told[0] == ("its acquirer raised OSError: secret" if messages else None)
    assert {event.name for event in span.events} == {"emsco.failure"}
    assert {event.timestamp for event in span.events} == {span.end_time}
    assert ("secret" in span.to_json()) is messages


class OnlyRejected(Sampler):
    """Keeps what was rejected."""

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *rest: Any, **more: Any) -> SamplingResult:
        """Look at the attributes."""
        told = more.get("attributes") or next(one for one in rest if isinstance(one, dict))
        return SamplingResult(Decision.RECORD_AND_SAMPLE if told["emsco.status"] == "rejected" else Decision.DROP, told)

    def get_description(self) -> str:
        """Return a name."""
        return "only rejected"


def test_samplers_see_the_attributes() -> None:
    """The attributes are there when a sampler decides; what it drops costs no events."""
    collected = Collected(OnlyRejected())
    cascade = Cascade(BUNDLE, observers=[DecisionTracer(tracer_provider=collected.provider)])
    cascade.decide(SPAM)
    cascade.decide(SPAM, budget=0.0)
    assert [attributes(span)["emsco.reason"] for span in collected.spans] == ["budget"]
    dropped = Collected(ALWAYS_OFF)
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
    (tracer,) = copy._state.observers
    assert (tracer._name, tracer._messages, copy.observer_failures) == ("moved", True, 0)
    with pytest.raises(TypeError, match="cannot be pickled: it has a tracer provider of its own"):
        pickle.dumps(DecisionTracer(tracer_provider=Collected().provider))
