"""`DecisionTracer`: an OpenTelemetry span per decision (extra ``otel``).

Only OpenTelemetry's API is used: without an SDK nothing happens, and the service decides which spans are kept and where they go.
A span is a child of the span that is current where `decide` was called, and is current itself while the item is decided: spans of
acquirers are its children, in threads of a pool and in tasks too. It contains no values of the item; messages of failures may
quote some, so they are left out by default.

An item that ends in an `AcquisitionError` has a span with the status "error", and with ``emsco.feature``, ``emsco.stage``,
``emsco.kind`` and ``emsco.cost``. One that ends in another exception, such as a cancellation, has its name as the description.

`Cascade.decide_many` decides its items stage by stage: it has a span of its own (``emsco.decide_many``), whose children are the
spans of the acquirers and those of the decisions, which are created at the end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType

from emsco_runtime.decision import Decision, Failure
from emsco_runtime.errors import AcquisitionError

try:
    from opentelemetry import context, trace
    from opentelemetry.trace import Span, Status, StatusCode, TracerProvider
    from opentelemetry.util.types import AttributeValue
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("emsco_runtime.tracing needs opentelemetry-api: pip install 'emsco[otel]'") from _error

__all__ = ["DecisionTracer"]


# Tracer -> its open span here, and whether that is of a single item; tracers may be several, and decisions nested.
_OPEN_SPANS: ContextVar[Mapping[DecisionTracer, tuple[Span, bool]]] = ContextVar("emsco_deciding", default=MappingProxyType({}))


class DecisionTracer:
    """An observer that creates a span for each decision.

    Parameters
    ----------
    tracer_provider
        None: the global provider.
    name
        The name of the spans; ``_many`` is added for those of `decide_many`.
    messages
        Also record the messages of failures. They may quote values of the item.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> cascade = Cascade(sample_bundle(), observers=[DecisionTracer()])
    >>> cascade.decide({"size": 2.0}).label
    'spam'
    """

    def __init__(
        self, *, tracer_provider: TracerProvider | None = None, name: str = "emsco.decide", messages: bool = False
    ) -> None:
        self._provider, self._name, self._messages = tracer_provider, name, messages
        self._tracer = trace.get_tracer("emsco_runtime", tracer_provider=tracer_provider)

    def __reduce__(self) -> tuple[Callable[[], DecisionTracer], tuple[()]]:
        """Return what makes a copy with the global provider of another process."""
        if self._provider is not None:
            detail = "it has a tracer provider of its own, which stays in its process"
            raise TypeError(f"this DecisionTracer cannot be pickled: {detail}. Use the global one, or create the cascade there")
        return partial(type(self), name=self._name, messages=self._messages), ()

    def on_start(self, bundle: str, items: int) -> Callable[[BaseException | None], None]:
        """Start a span and make it the current one; return the function that ends it."""
        is_single = items == 1
        span = self._tracer.start_span(self._name if is_single else f"{self._name}_many", attributes={"emsco.bundle": bundle})
        token = _OPEN_SPANS.set({**_OPEN_SPANS.get(), self: (span, is_single)})
        context_token = context.attach(trace.set_span_in_context(span))

        def end(error: BaseException | None) -> None:
            # In another context there is nothing to undo: a coroutine that nobody awaits any more is closed there.
            with contextlib.suppress(ValueError):
                _OPEN_SPANS.reset(token)
                context.detach(context_token)
            # `on_error` has recorded an AcquisitionError, whose message may quote values.
            if error is not None and not isinstance(error, AcquisitionError):
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            span.end()

        return end

    def __call__(self, decision: Decision) -> None:
        """Describe the decision in its span; one of `decide_many` gets a span now, with the duration of the decision."""
        span, is_single = _OPEN_SPANS.get().get(self, (None, False))
        ended = time.time_ns()
        if span is not None and is_single:
            self._set_attributes(span, decision, ended)
            return
        started = ended - round(decision.elapsed_s * 1e9)
        span = self._tracer.start_span(self._name, attributes={"emsco.bundle": decision.bundle}, start_time=started)
        self._set_attributes(span, decision, ended)
        span.end(end_time=ended)

    def on_error(self, error: AcquisitionError, _bundle: str) -> None:
        """Describe the failure in the span of its item; in `decide_many`, in that of the whole call."""
        span, _ = _OPEN_SPANS.get().get(self, (None, False))
        if span is None:
            return
        span.set_status(Status(StatusCode.ERROR, error.message if self._messages else error.kind))
        span.set_attributes({**_source_attributes(error), "emsco.cost": error.cost})

    def _set_attributes(self, span: Span, decision: Decision, when: int) -> None:
        if not span.is_recording():
            return
        span.set_attributes(_decision_attributes(decision))
        for failure in decision.errors:
            message = {"emsco.message": failure.message} if self._messages else {}
            span.add_event("emsco.failure", {**_source_attributes(failure), **message}, timestamp=when)


def _source_attributes(failure: Failure | AcquisitionError) -> dict[str, AttributeValue]:
    return {"emsco.feature": failure.feature, "emsco.stage": failure.stage, "emsco.kind": failure.kind}


def _decision_attributes(decision: Decision) -> dict[str, AttributeValue]:
    # An attribute cannot be None.
    optional = {
        "emsco.label": None if decision.label is None else str(decision.label),
        "emsco.confidence": decision.confidence,
        "emsco.key": decision.key,
    }
    return {
        "emsco.status": decision.status,
        "emsco.reason": decision.reason,
        "emsco.stages": decision.stages,
        "emsco.cost": decision.cost,
        "emsco.degraded": decision.degraded,
        "emsco.acquired": [name for record in decision.trace for name in record.acquired],
        **{name: value for name, value in optional.items() if value is not None},
    }
