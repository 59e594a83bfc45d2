"""`Metrics`: decisions, costs, times and acquirers as Prometheus metrics (extra ``metrics``); ``docs/operating.md`` lists them.

Nothing is registered when this module is imported. Nothing is buffered, though prometheus_client writes each number of several
processes through to a shared file: so no count of a killed worker is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from weakref import WeakKeyDictionary

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision, Failure, Label, StageRecord
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.observing.observers import AcquirerCall
from emsco_runtime.support.fork import ForkSafe
from emsco_runtime.support.metric_series import remove_series

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

    from emsco_runtime.observing.source_gauges import SourceGauges
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("emsco_runtime.metrics needs prometheus_client: pip install 'emsco[metrics]'") from _error

__all__ = ["Metrics", "SourceGauges", "default_cost_buckets"]

_DECISION_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CALL_SECONDS = (0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_COST_BUCKETS = 20


def default_cost_buckets(manifest: Manifest) -> tuple[float, ...]:
    """Return the buckets of the cost: 0, and the cost of an item that ends at each stage; at most 20 of them.

    Examples
    --------
    >>> from emsco_runtime.testing import sample_bundle
    >>> default_cost_buckets(sample_bundle().manifest)
    (0.0, 1.0, 3.0, 28.0)
    """
    ordered = sorted({0.0, *(cost.total for cost in manifest.stage_costs())})
    step = -(-len(ordered) // _MAX_COST_BUCKETS)
    # From the back, so that the largest one is among them.
    return tuple(reversed(ordered[::-1][::step]))


@dataclass(frozen=True, slots=True)
class _Buckets:
    """Bounds of the three histograms; those of the cost are None if the first bundle sets them."""

    cost_buckets: tuple[float, ...] | None
    seconds_buckets: tuple[float, ...]
    acquirer_buckets: tuple[float, ...]


class _MetricFamilies(ForkSafe):
    """The metrics of one registry and prefix; all `Metrics` there share them, since a name can be registered only once."""

    def __init__(self, registry: CollectorRegistry, prefix: str, buckets: _Buckets) -> None:
        # The registry itself is not kept: `_FamilyRegistry` must not keep it alive.
        self._prefix = prefix
        self.buckets = buckets
        self._start()
        self._cost: Histogram | None = None
        self._current: dict[str, tuple[str, str, str]] = {}

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(f"{prefix}_{name}_total", documentation, labels, registry=registry)

        def histogram(name: str, documentation: str, bounds: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"{prefix}_{name}_seconds", documentation, labels, registry=registry, buckets=bounds)

        text = "Decisions, and items that raised, by outcome and number of stages scored."
        self.decisions = counter("decisions", text, "bundle", "status", "reason", "label", "stage")
        self.degraded = counter("degraded_decisions", "Decisions, and items that raised, that used a fallback value.", "bundle")
        self.seconds = histogram("decision", "Time of a decision.", buckets.seconds_buckets, "bundle")
        text = "Time of a call of an acquirer's function."
        self.call_seconds = histogram("acquirer", text, buckets.acquirer_buckets, "bundle", "acquirer", "outcome")
        text = "Features that could not be obtained, by kind of failure."
        self.failures = counter("acquirer_failures", text, "bundle", "feature", "kind")
        self.cached = counter("acquirer_cached", "Values that came out of a cache.", "bundle", "feature")
        self.observer_failures = counter("observer_failures", "Calls of observers that raised.")
        self.reload_failures = counter("reload_failures", "New bundles that could not be used, at each look.", "bundle")
        # Not an Info, which several processes cannot share; "live": workers that have ended are left out.
        self.info = Gauge(
            f"{prefix}_bundle_info",
            "1 for the bundle that was bound last under its name.",
            ["bundle", "version", "id"],
            registry=registry,
            multiprocess_mode="livemax",
        )

    def bind(self, manifest: Manifest) -> None:
        """Show the bundle as the current one of its name."""
        # Shown as 0 from the start: Prometheus sees no rise in a counter that appears with its first count.
        self.reload_failures.labels(manifest.name)
        labels = manifest.name, manifest.version, manifest.id
        with self._lock:
            before = self._current.get(manifest.name, labels)
            if before != labels:
                remove_series(self.info, before, 0.0)
            self._current[manifest.name] = labels
            self.info.labels(*labels).set(1)

    def unbind(self, manifest: Manifest) -> None:
        """Stop showing a bundle, if it is the current one of its name."""
        labels = manifest.name, manifest.version, manifest.id
        with self._lock:
            if self._current.get(manifest.name) == labels:
                del self._current[manifest.name]
                remove_series(self.info, labels, 0.0)

    def cost(self, manifest: Manifest, registry: CollectorRegistry) -> Histogram:
        """Return the histogram of costs; the first bundle sets its buckets, unless the user did."""
        with self._lock:
            if self._cost is None:
                name, text = f"{self._prefix}_decision_cost", "Bill of an item, decided or raised, in the bundle's unit."
                bounds = self.buckets.cost_buckets or default_cost_buckets(manifest)
                self._cost = Histogram(name, text, ["bundle"], registry=registry, buckets=bounds)
            return self._cost


class _FamilyRegistry(ForkSafe):
    """The families of each registry and prefix: a registry cannot return its metrics, and is not kept alive here."""

    def __init__(self) -> None:
        self._by_registry: WeakKeyDictionary[CollectorRegistry, dict[str, _MetricFamilies]] = WeakKeyDictionary()
        self._start()

    def families(self, registry: CollectorRegistry, prefix: str, buckets: _Buckets) -> _MetricFamilies:
        """Return the metrics of a registry and prefix; they are created at the first call."""
        with self._lock:
            registered = self._by_registry.setdefault(registry, {})
            if prefix not in registered:
                registered[prefix] = _MetricFamilies(registry, prefix, buckets)
            if registered[prefix].buckets != buckets:
                detail = f"another Metrics with the prefix {prefix!r} and other buckets is on this registry"
                raise InputError(f"buckets: {detail}. Use that one for several cascades, or another registry or prefix for this")
            return registered[prefix]


_FAMILY_REGISTRY = _FamilyRegistry()


@dataclass(slots=True)
class _BundleMetrics:
    """The name of a bundle, and the children of the metrics that were used so far: looking one up again is slow."""

    name: str
    cost: Callable[[float], object]
    seconds: Callable[[float], object]
    decisions: dict[tuple[str, Label | None, int], Callable[[], object]] = field(default_factory=dict)
    calls: dict[tuple[tuple[str, ...], str], Callable[[float], object]] = field(default_factory=dict)


class Metrics:
    """An observer that updates Prometheus metrics; for several cascades too, and for bundles that are loaded later.

    Parameters
    ----------
    registry
        Where they are registered; prometheus_client's own by default.
    acquirers
        Time every call of an acquirer. Do without if acquirers take only microseconds; failures are counted in both cases.
    prefix
        How the names begin.
    cost_buckets
        Upper bounds of the histogram of costs. None: the costs of the stages of the first bundle.
    seconds_buckets, acquirer_buckets
        Upper bounds of the histograms of times.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> registry = CollectorRegistry()
    >>> cascade = Cascade(sample_bundle(), observers=[Metrics(registry=registry)])
    >>> _ = cascade.decide({"size": 2.0})
    >>> registry.get_sample_value("emsco_decision_cost_sum", {"bundle": "sample"})
    1.0
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry = REGISTRY,
        acquirers: bool = True,
        prefix: str = "emsco",
        cost_buckets: Sequence[float] | None = None,
        seconds_buckets: Sequence[float] = _DECISION_SECONDS,
        acquirer_buckets: Sequence[float] = _CALL_SECONDS,
    ) -> None:
        buckets = _Buckets(
            None if cost_buckets is None else _check_increasing("cost_buckets", cost_buckets),
            _check_increasing("seconds_buckets", seconds_buckets),
            _check_increasing("acquirer_buckets", acquirer_buckets),
        )
        self._registry, self._prefix = registry, prefix
        self._families = _FAMILY_REGISTRY.families(registry, prefix, buckets)
        self._by_name: dict[str, _BundleMetrics] = {}
        self._bound: dict[str, _BundleMetrics] = {}
        # An attribute, since its presence alone makes a cascade time its acquirers.
        self.on_call = self._observe_call if acquirers else None

    def __reduce__(self) -> tuple[Callable[[], Metrics], tuple[()]]:
        """Return what makes a copy with the default registry of another process; the cascade binds its bundle again."""
        if self._registry is not REGISTRY:
            detail = "they have a registry of their own, which stays in its process"
            raise TypeError(f"these Metrics cannot be pickled: {detail}. Use the default registry, or create the cascade there")
        times_calls, buckets = self.on_call is not None, self._families.buckets
        return partial(type(self), acquirers=times_calls, prefix=self._prefix, **asdict(buckets)), ()

    def on_bind(self, manifest: Manifest) -> None:
        """Prepare for the decisions of a bundle."""
        families, name = self._families, manifest.name
        if name not in self._by_name:
            cost, seconds = families.cost(manifest, self._registry).labels(name), families.seconds.labels(name)
            self._by_name[name] = _BundleMetrics(name, cost.observe, seconds.observe)
        self._bound[manifest.id] = self._by_name[name]
        families.bind(manifest)

    def __call__(self, decision: Decision) -> None:
        """Count the decision."""
        status, reason, label, _, _, stages, cost, elapsed_s, trace, degraded, errors, bundle, _ = decision
        bound = self._bound.get(bundle) or self._raise_not_bound(bundle)
        count = bound.decisions.get((reason, label, stages))
        if count is None:
            shown = "" if label is None else str(label)
            count = self._families.decisions.labels(bound.name, status, reason, shown, stages).inc
            bound.decisions[reason, label, stages] = count
        count()
        bound.cost(cost)
        bound.seconds(elapsed_s)
        if degraded:
            self._families.degraded.labels(bound.name).inc()
        self._count_features(bound.name, errors, trace)

    def on_error(self, error: AcquisitionError, bundle: str) -> None:
        """Count an item that raised, with what it cost and all that failed before."""
        bound = self._bound.get(bundle) or self._raise_not_bound(bundle)
        stages = sum(1 for record in error.trace if record.probabilities)
        self._families.decisions.labels(bound.name, "raised", "acquisition_failed", "", stages).inc()
        bound.cost(error.cost)
        if any(record.defaulted for record in error.trace):
            self._families.degraded.labels(bound.name).inc()
        # One that somebody else has made may have no list.
        self._count_features(bound.name, error.errors or (error,), error.trace)

    def _count_features(self, bundle: str, failures: Sequence[Failure | AcquisitionError], trace: Sequence[StageRecord]) -> None:
        for failure in failures:
            self._families.failures.labels(bundle, failure.feature, failure.kind).inc()
        for record in trace:
            for name in record.cached:
                self._families.cached.labels(bundle, name).inc()

    def on_reload(self, before: Manifest, after: Manifest) -> None:
        """Show only the new bundle; one of the same name has replaced the old one when it was bound."""
        if before.name != after.name:
            self._families.unbind(before)

    def on_reload_failure(self, _: Exception, bundle: str) -> None:
        """Count a new bundle that could not be used."""
        bound = self._bound.get(bundle) or self._raise_not_bound(bundle)
        self._families.reload_failures.labels(bound.name).inc()

    def on_observer_failure(self, _: Exception) -> None:
        """Count a call of an observer that raised."""
        self._families.observer_failures.inc()

    def _observe_call(self, call: AcquirerCall) -> None:
        features, elapsed_s, outcome, _, bundle = call
        bound = self._bound.get(bundle) or self._raise_not_bound(bundle)
        observe = bound.calls.get((features, outcome))
        if observe is None:
            observe = self._families.call_seconds.labels(bound.name, _join_features(features), outcome).observe
            bound.calls[features, outcome] = observe
        observe(elapsed_s)

    def _raise_not_bound(self, bundle: str) -> _BundleMetrics:
        detail = f"the bundle {bundle[:12]} was not bound to these Metrics"
        raise InputError(f"{detail}: pass them to the cascade as an observer, or call on_bind(cascade.manifest) first")


def _join_features(features: Sequence[str]) -> str:
    return ",".join(features) if len(features) <= 4 else f"{','.join(features[:3])},+{len(features) - 3}"


def _check_increasing(name: str, bounds: Sequence[float]) -> tuple[float, ...]:
    checked = tuple(float(bound) for bound in bounds)
    if not checked or any(not low < high for low, high in pairwise(checked)):
        raise InputError(f"{name}: expected increasing numbers, at least one, got {checked}")
    return checked
