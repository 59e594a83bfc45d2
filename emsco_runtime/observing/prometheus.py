"""`Metrics`: decisions, costs, times and acquirers as Prometheus metrics (extra ``metrics``).

=======================================  =====================================================================================
``emsco_decisions_total``                by ``bundle``, ``status``, ``reason``, ``label``, ``stage``: the stages that were scored
``emsco_degraded_decisions_total``       by ``bundle``: those that used a fallback value
``emsco_decision_cost``                  by ``bundle``: a histogram of the bill
``emsco_decision_seconds``               by ``bundle``: a histogram of the time
``emsco_acquirer_seconds``               by ``bundle``, ``acquirer``, ``outcome``: a histogram; its count is the number of calls
``emsco_acquirer_failures_total``        by ``bundle``, ``feature``, ``kind``, as decisions and errors tell them
``emsco_acquirer_cached_total``          by ``bundle``, ``feature``: values that came out of a cache
``emsco_observer_failures_total``        observers that raised
``emsco_reload_failures_total``          by ``bundle``: looks of a `ReloadingCascade` at a bundle that could not be used
``emsco_bundle_info``                    by ``bundle``, ``version``, ``id``: 1 for the bundle of that name that was bound last
=======================================  =====================================================================================

``bundle`` is the name in the manifest, so that the number of series stays the same from one version to the next; the id is in
``emsco_bundle_info`` alone. A label that was not given is empty. An item that ends in an `AcquisitionError` counts as a decision
with the status "raised". ``acquirer`` is the features that it obtains, joined by commas (of more than four, the first three).

The time of an item of `decide_many` is the time until it was done, waiting for the others of its batch included. A batch call is
one call, however many items it is for.

A time-out is a failure of a decision, while ``emsco_acquirer_seconds`` tells what functions did: a plain function that was given
up appears there when it ends, an async one as "cancelled".

Nothing is registered when this module is imported. Processes that share ``PROMETHEUS_MULTIPROC_DIR`` add up, but for
`SourceGauges`, which tell of one process only.

``emsco_bundle_info`` has one series per name: that of a bundle that was replaced is removed. Processes that share a folder cannot
remove one: there it is 0 until the process has ended, so ask for ``emsco_bundle_info == 1``.

What it costs: ``make bench``. With several processes prometheus_client writes each number through to a shared file, two for a
histogram, and has no way to add several at once: about twice what one process pays. Nothing is held back to make that cheaper,
so that the counts of a worker that is killed are whole. Where acquirers take a few microseconds only, do without their times.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import get_args
from weakref import WeakKeyDictionary

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision, Label
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.observing.observers import AcquirerCall
from emsco_runtime.sources.breaker import BreakerState, CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.fork import fork_hooks
from emsco_runtime.support.metric_series import remove_series

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("emsco_runtime.metrics needs prometheus_client: pip install 'emsco[metrics]'") from _error

__all__ = ["Metrics", "SourceGauges", "default_cost_buckets"]

_DECISION_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CALL_SECONDS = (0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_COST_BUCKETS = 20


def default_cost_buckets(manifest: Manifest) -> tuple[float, ...]:
    """Return the buckets of the cost: nothing, and what an item costs that leaves at each stage; of many stages, every so many.

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
    """Bounds of the three histograms; those of the cost are None until a bundle tells them."""

    cost: tuple[float, ...] | None
    seconds: tuple[float, ...]
    call_seconds: tuple[float, ...]


class _MetricFamilies:
    """The metrics of one registry and prefix; all `Metrics` there share them, since a name can be registered only once."""

    def __init__(self, registry: CollectorRegistry, prefix: str, buckets: _Buckets) -> None:
        # The registry itself is not kept: it must be able to go.
        self._prefix = prefix
        self.buckets = buckets
        self.reset_after_fork()
        fork_hooks.register(self)
        self._cost: Histogram | None = None
        self._current: dict[str, tuple[str, str, str]] = {}
        self.decisions = Counter(
            f"{prefix}_decisions_total",
            "Decisions, and items that raised, by outcome and number of stages scored.",
            ["bundle", "status", "reason", "label", "stage"],
            registry=registry,
        )
        self.degraded = Counter(
            f"{prefix}_degraded_decisions_total", "Decisions that used a fallback value.", ["bundle"], registry=registry
        )
        self.seconds = Histogram(
            f"{prefix}_decision_seconds", "Time of a decision.", ["bundle"], registry=registry, buckets=buckets.seconds
        )
        self.call_seconds = Histogram(
            f"{prefix}_acquirer_seconds",
            "Time of a call of an acquirer's function.",
            ["bundle", "acquirer", "outcome"],
            registry=registry,
            buckets=buckets.call_seconds,
        )
        self.failures = Counter(
            f"{prefix}_acquirer_failures_total",
            "Features that could not be obtained, by kind of failure.",
            ["bundle", "feature", "kind"],
            registry=registry,
        )
        self.cached = Counter(
            f"{prefix}_acquirer_cached_total", "Values that came out of a cache.", ["bundle", "feature"], registry=registry
        )
        self.observer_failures = Counter(
            f"{prefix}_observer_failures_total", "Calls of observers that raised.", registry=registry
        )
        self.reload_failures = Counter(
            f"{prefix}_reload_failures_total", "New bundles that could not be used, at each look.", ["bundle"], registry=registry
        )
        # Not an Info, which several processes cannot share; "live": workers that have ended are not asked.
        self.info = Gauge(
            f"{prefix}_bundle_info",
            "1 for the bundle that was bound last under its name.",
            ["bundle", "version", "id"],
            registry=registry,
            multiprocess_mode="livemax",
        )

    def reset_after_fork(self) -> None:
        """Make a lock of this process's own."""
        self._lock = threading.Lock()

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
        """Show a bundle no longer, if it is the current one of its name."""
        labels = manifest.name, manifest.version, manifest.id
        with self._lock:
            if self._current.get(manifest.name) == labels:
                del self._current[manifest.name]
                remove_series(self.info, labels, 0.0)

    def cost(self, manifest: Manifest, registry: CollectorRegistry) -> Histogram:
        """Return the histogram of costs; the first bundle gives its buckets, unless the user did."""
        with self._lock:
            if self._cost is None:
                bounds = self.buckets.cost or default_cost_buckets(manifest)
                self._cost = Histogram(
                    f"{self._prefix}_decision_cost",
                    "Bill of a decision, in the bundle's unit.",
                    ["bundle"],
                    registry=registry,
                    buckets=bounds,
                )
            return self._cost


class _FamilyRegistry:
    """What was registered where. A registry cannot be asked for what it holds, and goes with its last user."""

    def __init__(self) -> None:
        self._by_registry: WeakKeyDictionary[CollectorRegistry, dict[str, _MetricFamilies]] = WeakKeyDictionary()
        self.reset_after_fork()
        fork_hooks.register(self)

    def reset_after_fork(self) -> None:
        """Make a lock of this process's own."""
        self._lock = threading.Lock()

    def families(self, registry: CollectorRegistry, prefix: str, buckets: _Buckets) -> _MetricFamilies:
        """Return the metrics of a registry and prefix; they are made at the first call."""
        with self._lock:
            registered = self._by_registry.setdefault(registry, {})
            if prefix not in registered:
                registered[prefix] = _MetricFamilies(registry, prefix, buckets)
            if registered[prefix].buckets != buckets:
                detail = f"another Metrics with the prefix {prefix!r} and other buckets is on this registry"
                raise InputError(
                    f"buckets: {detail}. Use that one for several cascades, or give a registry or a prefix of its own"
                )
            return registered[prefix]


_FAMILY_REGISTRY = _FamilyRegistry()


@dataclass(slots=True)
class _BundleMetrics:
    """One name of bundles, and the children of the metrics that were asked for so far, ready to be counted."""

    name: str
    cost: Callable[[float], object]
    seconds: Callable[[float], object]
    decisions: dict[tuple[str, Label | None, int], Callable[[], object]] = field(default_factory=dict)
    calls: dict[tuple[tuple[str, ...], str], Callable[[float], object]] = field(default_factory=dict)


class Metrics:
    """An observer that keeps Prometheus metrics; one may serve several cascades, and bundles that are loaded later.

    Parameters
    ----------
    registry
        Where they are registered: prometheus_client's own, unless you give another.
    acquirers
        Time every call of an acquirer. Without it decisions cost less; failures are counted all the same.
    prefix
        How the names begin.
    cost_buckets
        Upper bounds of the histogram of costs. None: the bills of the stages of the first bundle.
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
        self._set_up(registry, acquirers, prefix, buckets)

    def _set_up(self, registry: CollectorRegistry, acquirers: bool, prefix: str, buckets: _Buckets) -> None:  # noqa: FBT001 - as it came
        self._registry = registry
        self._settings = (acquirers, prefix, buckets)
        self._families = _FAMILY_REGISTRY.families(registry, prefix, buckets)
        self._by_name: dict[str, _BundleMetrics] = {}
        self._bound: dict[str, _BundleMetrics] = {}
        # An attribute, since its presence alone makes a cascade time its acquirers.
        self.on_call = self._observe_call if acquirers else None

    def __getstate__(self) -> tuple[bool, str, _Buckets]:
        """Return the settings: the counts of another process are its own."""
        if self._registry is not REGISTRY:
            detail = "it has a registry of its own, which stays in its process"
            raise TypeError(f"these Metrics cannot be pickled: {detail}. Use the default registry, or make the cascade there")
        return self._settings

    def __setstate__(self, settings: tuple[bool, str, _Buckets]) -> None:
        """Count in this process's registry; the cascade binds its bundle again."""
        self._set_up(REGISTRY, *settings)

    def on_bind(self, manifest: Manifest) -> None:
        """Get ready for the decisions of a bundle."""
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
        count = bound.decisions.get((reason, label, stages)) or self._decision_counter(bound, status, reason, label, stages)
        count()
        bound.cost(cost)
        bound.seconds(elapsed_s)
        if degraded:
            self._families.degraded.labels(bound.name).inc()
        for failure in errors:
            self._families.failures.labels(bound.name, failure.feature, failure.kind).inc()
        for record in trace:
            for name in record.cached:
                self._families.cached.labels(bound.name, name).inc()

    def on_error(self, error: AcquisitionError, bundle: str) -> None:
        """Count an item that raised."""
        bound = self._bound.get(bundle) or self._raise_not_bound(bundle)
        stages = sum(1 for record in error.trace if record.probabilities)
        self._families.decisions.labels(bound.name, "raised", "acquisition_failed", "", stages).inc()
        self._families.failures.labels(bound.name, error.feature, error.kind).inc()

    def on_reload(self, before: Manifest, after: Manifest) -> None:
        """Show the new bundle alone; one of the same name has taken the place of the old one when it was bound."""
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

    def _decision_counter(
        self, bound: _BundleMetrics, status: str, reason: str, label: Label | None, stages: int
    ) -> Callable[[], object]:
        """Resolve a child once; a dictionary finds it the next time."""
        shown = "" if label is None else str(label)
        count: Callable[[], object] = self._families.decisions.labels(bound.name, status, reason, shown, stages).inc
        bound.decisions[reason, label, stages] = count
        return count

    def _raise_not_bound(self, bundle: str) -> _BundleMetrics:
        detail = f"the bundle {bundle[:12]} was not bound to these Metrics"
        raise InputError(f"{detail}: hand them to the cascade themselves, or call on_bind(cascade.manifest) first")


class SourceGauges(Collector):
    """Pools, breakers and caches as Prometheus metrics, read whenever they are asked for; for one process.

    Parameters
    ----------
    pools, breakers, caches
        Name -> object; the names are the values of the label ``name``.
    registry
        Where they are registered.
    prefix
        How the names begin: ``emsco_pool_threads``, ``emsco_pool_waiting``, ``emsco_pool_abandoned``,
        ``emsco_pool_abandoned_calls_total``, ``emsco_breaker_state`` (1 for the state that it is in), ``emsco_cache_hits_total``,
        ``emsco_cache_misses_total``, ``emsco_cache_size``.

    Examples
    --------
    >>> from emsco_runtime.pool import AcquirerPool
    >>> registry = CollectorRegistry()
    >>> _ = SourceGauges(pools={"mail": AcquirerPool()}, registry=registry)
    >>> registry.get_sample_value("emsco_pool_abandoned", {"name": "mail"})
    0
    """

    def __init__(
        self,
        *,
        pools: Mapping[str, AcquirerPool] | None = None,
        breakers: Mapping[str, CircuitBreaker] | None = None,
        caches: Mapping[str, AcquirerCache] | None = None,
        registry: CollectorRegistry = REGISTRY,
        prefix: str = "emsco",
    ) -> None:
        self._pools, self._breakers, self._caches = dict(pools or {}), dict(breakers or {}), dict(caches or {})
        self._prefix = prefix
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Read them all."""
        pools = {name: pool.counts for name, pool in self._pools.items()}
        caches = {name: cache.counts for name, cache in self._caches.items()}
        states = {name: breaker.state for name, breaker in self._breakers.items()}
        yield self._gauge("pool_threads", "Threads that run.", {name: one.threads for name, one in pools.items()})
        yield self._gauge("pool_waiting", "Calls that wait for a thread.", {name: one.waiting for name, one in pools.items()})
        yield self._gauge(
            "pool_abandoned", "Calls that were given up and still run.", {name: one.abandoned for name, one in pools.items()}
        )
        yield self._counter(
            "pool_abandoned_calls", "Calls that were given up.", {name: one.abandoned_ever for name, one in pools.items()}
        )
        yield self._state_gauge(states)
        yield self._counter("cache_hits", "Keys that were found.", {name: one.hits for name, one in caches.items()})
        yield self._counter("cache_misses", "Keys that were not found.", {name: one.misses for name, one in caches.items()})
        yield self._gauge("cache_size", "Values that are held.", {name: one.size for name, one in caches.items()})

    def _gauge(self, name: str, documentation: str, values: Mapping[str, int]) -> Metric:
        family = GaugeMetricFamily(f"{self._prefix}_{name}", documentation, labels=["name"])
        for label, value in values.items():
            family.add_metric([label], value)
        return family

    def _counter(self, name: str, documentation: str, values: Mapping[str, int]) -> Metric:
        family = CounterMetricFamily(f"{self._prefix}_{name}", documentation, labels=["name"])
        for label, value in values.items():
            family.add_metric([label], value)
        return family

    def _state_gauge(self, states: Mapping[str, str]) -> Metric:
        family = GaugeMetricFamily(f"{self._prefix}_breaker_state", "1 for the state that it is in.", labels=["name", "state"])
        for name, state in states.items():
            for one in get_args(BreakerState):
                family.add_metric([name, one], float(one == state))
        return family


def _join_features(features: Sequence[str]) -> str:
    return ",".join(features) if len(features) <= 4 else f"{','.join(features[:3])},+{len(features) - 3}"


def _check_increasing(name: str, bounds: Sequence[float]) -> tuple[float, ...]:
    checked = tuple(float(bound) for bound in bounds)
    if not checked or any(not low < high for low, high in pairwise(checked)):
        raise InputError(f"{name}: numbers that rise are due, at least one, got {checked}")
    return checked
