"""`DriftGauges`: what drift monitors have found, as Prometheus metrics (extra ``metrics``); ``docs/drift.md`` lists them.

A scrape in the process of a monitor shows its present state. Figures of other processes that share ``PROMETHEUS_MULTIPROC_DIR``
are as of their last refresh.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Literal, NoReturn

from emsco_runtime.decision import Decision
from emsco_runtime.drift.monitor import DriftMonitor
from emsco_runtime.drift.status import DriftReading
from emsco_runtime.errors import AcquisitionError
from emsco_runtime.support.arguments import check_seconds
from emsco_runtime.support.fork import ForkSafe
from emsco_runtime.support.metric_series import register_collector, remove_series

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Gauge
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError("emsco_runtime.drift_metrics needs prometheus_client: pip install 'emsco[metrics]'") from _error

__all__ = ["DriftGauges"]


class DriftGauges(ForkSafe, Collector):
    """Drift monitors as Prometheus metrics.

    Parameters
    ----------
    monitors
        One per name of bundles; `watch` adds more later.
    registry
        Where they are registered.
    prefix
        How the names begin.
    every_s
        As an observer, refresh every `every_s` seconds.
    clock
        Returns seconds.

    Examples
    --------
    >>> from emsco_runtime import Cascade, DriftMonitor
    >>> from emsco_runtime.testing import sample_bundle
    >>> bundle, registry = sample_bundle(), CollectorRegistry()
    >>> monitor = DriftMonitor(bundle.manifest)
    >>> cascade = Cascade(bundle, observers=[monitor, DriftGauges(monitor, registry=registry)])
    >>> _ = cascade.decide({"size": 2.0})
    >>> registry.get_sample_value("emsco_drift_state", {"bundle": "sample"})
    0.0
    """

    def __init__(
        self,
        *monitors: DriftMonitor,
        registry: CollectorRegistry = REGISTRY,
        prefix: str = "emsco",
        every_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_seconds("every_s", every_s)
        self._every_s, self._clock = every_s, clock
        self._monitors: tuple[DriftMonitor, ...] = ()

        # The mode is how several processes are shown as one; "live": those that have ended are left out.
        def gauge(name: str, documentation: str, mode: Literal["livemax", "liveall", "livesum"], *labels: str) -> Gauge:
            # Not registered by itself: `collect` refreshes them all before they are shown.
            return Gauge(f"{prefix}_drift_{name}", documentation, ("bundle", *labels), registry=None, multiprocess_mode=mode)

        # Field of `DriftReading` and of `FigureReading` -> its gauge.
        self._by_bundle = {
            "level": gauge("state", "0 ok, 1 warning, 2 alarm; the worst of the figures.", "livemax"),
            "items": gauge("items", "Decisions counted.", "livesum"),
            "labelled": gauge("labelled", "True labels counted.", "livesum"),
            "foreign": gauge("foreign", "Decisions of other bundles, not counted.", "livesum"),
        }
        self._by_figure = {
            "level": gauge("figure_state", "0 ok, 1 warning, 2 alarm.", "livemax", "figure"),
            "live": gauge("figure_live", "Mean over the items whose value is known.", "liveall", "figure"),
            "expected": gauge("figure_expected", "What the manifest says.", "livemax", "figure"),
        }
        self._start()
        for monitor in monitors:
            self.watch(monitor)
        register_collector(registry, self)

    def describe(self) -> Iterator[Metric]:
        """Name the metrics: a registry refuses those that it has already."""
        for gauge in (*self._by_bundle.values(), *self._by_figure.values()):
            yield from gauge.describe()

    def reset_after_fork(self) -> None:
        """Refresh soon: a forked child has shown nothing yet."""
        super().reset_after_fork()
        self._next_refresh = -math.inf
        self._last_shown: dict[str, tuple[str, str]] = {}
        self._series: set[tuple[str, ...]] = set()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a registry stays in its process."""
        raise TypeError("DriftGauges cannot be pickled: their registry stays in its process. Create them there")

    def watch(self, monitor: DriftMonitor) -> None:
        """Show a monitor too; it replaces one of a bundle of the same name, such as an earlier version."""
        if not isinstance(monitor, DriftMonitor):
            raise TypeError(f"expected a DriftMonitor, got {type(monitor).__name__}")
        name = monitor.manifest.name
        self._monitors = (*(one for one in self._monitors if one.manifest.name != name), monitor)
        self._next_refresh = -math.inf

    def __call__(self, _: Decision) -> None:
        """Refresh if it is time, a state has changed, or a bundle was replaced."""
        self._refresh_if_due()

    def on_error(self, _: AcquisitionError, _bundle: str) -> None:
        """Refresh as after a decision: monitors count items that raise, too."""
        self._refresh_if_due()

    def _refresh_if_due(self) -> None:
        now = self._clock()
        if now >= self._next_refresh or any(
            self._last_shown.get(one.manifest.name) != _change_key(one) for one in self._monitors
        ):
            self._next_refresh = now + self._every_s
            self.refresh()

    def refresh(self) -> None:
        """Show what the monitors have found by now."""
        with self._lock:
            shown: dict[str, tuple[str, str]] = {}
            series: set[tuple[str, ...]] = set()
            for monitor in self._monitors:
                change_key, reading = _change_key(monitor), monitor.reading
                shown[reading.name] = change_key
                series |= {(reading.name,), *((reading.name, figure.name) for figure in reading.figures)}
                self._set_gauges(reading)
            for removed in self._series - series:
                self._remove_gauges(removed)
            self._last_shown, self._series = shown, series

    def _set_gauges(self, reading: DriftReading) -> None:
        for field, gauge in self._by_bundle.items():
            gauge.labels(reading.name).set(getattr(reading, field))
        for figure in reading.figures:
            for field, gauge in self._by_figure.items():
                value = getattr(figure, field)
                gauge.labels(reading.name, figure.name).set(math.nan if value is None else value)

    def _remove_gauges(self, series: tuple[str, ...]) -> None:
        """Remove the series of a bundle that was replaced, or of one of its figures."""
        gauges = self._by_bundle if len(series) == 1 else self._by_figure
        for field, gauge in gauges.items():
            remove_series(gauge, series, math.nan if field in ("live", "expected") else 0.0)

    def collect(self) -> Iterator[Metric]:
        """Refresh, and show them all."""
        self.refresh()
        for gauge in (*self._by_bundle.values(), *self._by_figure.values()):
            yield from gauge.collect()


def _change_key(monitor: DriftMonitor) -> tuple[str, str]:
    """Return what causes a refresh when it changes: the bundle, and the state."""
    return monitor.manifest.id, monitor.state
