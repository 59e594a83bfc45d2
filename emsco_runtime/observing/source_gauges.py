"""`SourceGauges`: pools, breakers and caches as Prometheus metrics (extra ``metrics``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, get_args

from emsco_runtime.sources.breaker import BreakerState, CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.metric_series import register_collector

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "emsco_runtime.observing.source_gauges needs prometheus_client: pip install 'emsco[metrics]'"
    ) from _error

__all__ = ["SourceGauges"]

# Type and name of the metric, documentation, and the field of `PoolCounts` or `CacheCounts` that it shows.
_Metrics: TypeAlias = tuple[tuple[type[GaugeMetricFamily] | type[CounterMetricFamily], str, str, str], ...]
_POOL_METRICS: _Metrics = (
    (GaugeMetricFamily, "pool_threads", "Threads that run.", "threads"),
    (GaugeMetricFamily, "pool_waiting", "Calls that wait for a thread.", "waiting"),
    (GaugeMetricFamily, "pool_abandoned", "Calls that were abandoned and still run.", "abandoned"),
    (CounterMetricFamily, "pool_abandoned_calls", "Calls that were abandoned.", "abandoned_ever"),
)
_CACHE_METRICS: _Metrics = (
    (CounterMetricFamily, "cache_hits", "Keys that were found.", "hits"),
    (CounterMetricFamily, "cache_misses", "Keys that were not found.", "misses"),
    (GaugeMetricFamily, "cache_size", "Values that are held.", "size"),
)


class SourceGauges(Collector):
    """Pools, breakers and caches as Prometheus metrics, read at every scrape; for one process.

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
        register_collector(registry, self)

    def describe(self) -> Iterator[Metric]:
        """Name the metrics: a registry refuses those that it has already."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Read them all."""
        yield from self._families(_POOL_METRICS, {name: pool.counts for name, pool in self._pools.items()})
        state = GaugeMetricFamily(f"{self._prefix}_breaker_state", "1 for the state that it is in.", labels=["name", "state"])
        for name, breaker in self._breakers.items():
            current = breaker.state
            for one in get_args(BreakerState):
                state.add_metric([name, one], float(one == current))
        yield state
        yield from self._families(_CACHE_METRICS, {name: cache.counts for name, cache in self._caches.items()})

    def _families(self, metrics: _Metrics, counts: Mapping[str, object]) -> Iterator[Metric]:
        for kind, name, documentation, field in metrics:
            family = kind(f"{self._prefix}_{name}", documentation, labels=["name"])
            for label, one in counts.items():
                family.add_metric([label], getattr(one, field))
            yield family
