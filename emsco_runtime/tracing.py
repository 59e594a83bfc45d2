"""`DecisionTracer`: an OpenTelemetry span per decision (extra ``otel``).

Only OpenTelemetry's API is used: without an SDK nothing happens, and which spans are kept and where they go is the service's
choice. A span is a child of the span that is current where `decide` was called. It holds no value of an item; the messages of
failures may quote some, so they are left out unless asked for.

An item that ends in an `AcquisitionError` has no decision and no span: the error reaches the span of the caller.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

try:
    from opentelemetry import trace
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("emsco_runtime.tracing needs opentelemetry-api: pip install 'emsco[otel]'") from _error

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue

    from emsco_runtime.decision import Decision, Failure

__all__ = ["DecisionTracer"]


class DecisionTracer:
    """An observer that makes a span of each decision.

    Parameters
    ----------
    tracer_provider
        None: the global one.
    name
        The name of the spans.
    messages
        Also tell the messages of failures. They may quote values of the item.

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
        self._settings = (name, messages)
        self._provider = tracer_provider
        self._open()

    def _open(self) -> None:
        self._name, self._messages = self._settings
        self._tracer = trace.get_tracer("emsco_runtime", tracer_provider=self._provider)

    def __getstate__(self) -> tuple[str, bool]:
        """Return the settings; the global provider of another process is its own."""
        if self._provider is not None:
            told = "it has a tracer provider of its own, which stays in its process"
            raise TypeError(f"this DecisionTracer cannot be pickled: {told}. Use the global one, or make the cascade there")
        return self._settings

    def __setstate__(self, settings: tuple[str, bool]) -> None:
        """Use the global provider of this process."""
        self._settings = settings
        self._provider = None
        self._open()

    def __call__(self, decision: Decision) -> None:
        """Make the span, as long as the decision took."""
        ended = time.time_ns()
        started = ended - round(decision.elapsed_s * 1e9)
        # Attributes at the start: samplers see no others.
        span = self._tracer.start_span(self._name, attributes=_attributes(decision), start_time=started)
        if span.is_recording():
            for failure in decision.errors:
                span.add_event("emsco.failure", self._event(failure), timestamp=ended)
        span.end(end_time=ended)

    def _event(self, failure: Failure) -> dict[str, AttributeValue]:
        told: dict[str, AttributeValue] = {
            "emsco.feature": failure.feature,
            "emsco.stage": failure.stage,
            "emsco.kind": failure.kind,
        }
        return {**told, "emsco.message": failure.message} if self._messages else told


def _attributes(decision: Decision) -> dict[str, AttributeValue]:
    told: dict[str, AttributeValue] = {
        "emsco.status": decision.status,
        "emsco.reason": decision.reason,
        "emsco.stages": decision.stages,
        "emsco.cost": decision.cost,
        "emsco.degraded": decision.degraded,
        "emsco.bundle": decision.bundle,
        "emsco.acquired": [name for record in decision.trace for name in record.acquired],
    }
    # There is no attribute for "none".
    if decision.label is not None:
        told["emsco.label"] = str(decision.label)
    if decision.confidence is not None:
        told["emsco.confidence"] = decision.confidence
    if decision.key is not None:
        told["emsco.key"] = decision.key
    return told
