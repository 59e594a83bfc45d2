"""`DriftGauges`: what a scrape shows of drift monitors, in one process and in several."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")

from prometheus_client import CollectorRegistry

from emsco_runtime import AcquisitionError, DriftMonitor, InputError
from emsco_runtime.drift.gauges import DriftGauges
from emsco_runtime.drift.status import DriftStatus
from emsco_runtime.testing import make_bundle
from tests.runtime.drift_samples import SAMPLE, STAGES, make_decision, manifest_of
from tests.runtime.test_breaker import Clock
from tests.runtime.test_prometheus import NAME, Series, parse_samples, sample_key, samples_of

HEALTHY = [600, 250, 100, 50]
FIGURES = ("reject", "exit_1", "exit_2", "exit_3", "cost", "error")


def feed_rejections(monitor: DriftMonitor, items: int = 400) -> None:
    """Let every item end inconclusive."""
    for _ in range(items):
        monitor(make_decision(STAGES))


def test_a_scrape_shows_the_present_state() -> None:
    """All numbers are those of `status`, at the moment of the scrape, without a decision in between."""
    registry = CollectorRegistry()
    monitor = DriftMonitor(manifest_of(HEALTHY))
    DriftGauges(monitor, registry=registry)
    blank = samples_of(registry)
    assert blank[sample_key("emsco_drift_state")] == 0
    assert math.isnan(blank[sample_key("emsco_drift_figure_live", figure="reject")])
    monitor(make_decision(0))
    monitor.feedback("spam", "ham")
    feed_rejections(monitor)
    status, found = monitor.status, samples_of(registry)
    assert status.state == "alarm"
    assert found[sample_key("emsco_drift_state")] == 2
    assert found[sample_key("emsco_drift_items")] == status.items == 401
    assert found[sample_key("emsco_drift_labelled")] == status.labelled == 1
    for one in status.figures:
        level = {"ok": 0, "warning": 1, "alarm": 2}[one.state]
        assert found[sample_key("emsco_drift_figure_state", figure=one.name)] == level
        assert found[sample_key("emsco_drift_figure_live", figure=one.name)] == one.live
        assert found[sample_key("emsco_drift_figure_expected", figure=one.name)] == one.expected
    assert {dict(labels)["figure"] for name, labels in found if name == "emsco_drift_figure_state"} == set(FIGURES)
    monitor.reset()
    assert samples_of(registry)[sample_key("emsco_drift_state")] == 0


def test_a_reading_is_a_status_in_short() -> None:
    """The fast `reading` has the same levels, means and counts as the full `status`."""
    monitor = DriftMonitor(manifest_of(HEALTHY))
    for items in (0, 10, 400):
        feed_rejections(monitor, items)
        reading, status = monitor.reading, monitor.status
        assert (reading.level, reading.items, reading.labelled) == (status.level, status.items, status.labelled)
        figures = status.to_dict()["figures"]
        assert {one.name: (one.level, one.expected, one.live) for one in reading.figures} == {
            name: (one["level"], one["expected"], one["live"]) for name, one in figures.items()
        }


def test_an_observer_refreshes_at_a_change_and_at_times() -> None:
    """Between scrapes, and for other processes: at the first decision, at each change of the state, and every few seconds."""
    clock, changes = Clock(), list[DriftStatus]()
    monitor = DriftMonitor(manifest_of(HEALTHY), on_change=changes.append)
    gauges = DriftGauges(monitor, registry=CollectorRegistry(), every_s=10.0, clock=clock)
    refreshed: list[int] = []
    refresh = gauges.refresh

    def record_and_refresh() -> None:
        refreshed.append(monitor.reading.items)
        refresh()

    gauges.refresh = record_and_refresh  # type: ignore[method-assign]
    for number in range(1, 401):
        decision = make_decision(STAGES if number % 9 == 0 else 0)
        monitor(decision)
        gauges(decision)
        clock.now = number // 100 * 10.0
    assert [change.state for change in changes][-1] == "alarm"
    assert refreshed == sorted({1, *(change.items for change in changes), 101, 201, 301})
    error = AcquisitionError("down", "size", 1, "exception", 1.0, ())
    monitor.on_error(error, SAMPLE.id)
    gauges.on_error(error, SAMPLE.id)
    assert refreshed[-1] == 401


def test_several_bundles_and_a_new_version() -> None:
    """Bundles are distinguished by name; a monitor of a new version takes the place of the old one."""
    registry = CollectorRegistry()
    manifest = manifest_of(HEALTHY)
    old = DriftMonitor(manifest)
    other = DriftMonitor(manifest.model_copy(update={"name": "other"}))
    gauges = DriftGauges(old, other, registry=registry, prefix="shop")
    feed_rejections(old)
    names = {"sample": 2.0, "other": 0.0}
    assert {name: registry.get_sample_value("shop_drift_state", {"bundle": name}) for name in names} == names
    gauges.watch(DriftMonitor(manifest))
    assert registry.get_sample_value("shop_drift_state", {"bundle": "sample"}) == 0
    assert registry.get_sample_value("shop_drift_items", {"bundle": "sample"}) == 0


def test_gauges_follow_a_replaced_bundle() -> None:
    """When a monitor starts over with a bundle of other stages and another name, the series of the old one are gone at once."""
    registry, clock = CollectorRegistry(), Clock()
    manifest = manifest_of(HEALTHY)
    monitor = DriftMonitor(manifest)
    gauges = DriftGauges(monitor, registry=registry, every_s=1000.0, clock=clock)
    feed_rejections(monitor)
    gauges(make_decision(0))
    before = {sample.labels.get("figure") for family in registry.collect() for sample in family.samples}
    assert {"exit_3", "reject"} <= before
    assert registry.get_sample_value("emsco_drift_state", NAME) == 2
    other = make_bundle([["size"], ["links"]], name="renamed").manifest
    monitor.on_reload(manifest, other)
    shown = gauges._last_shown
    gauges(make_decision(0))
    assert gauges._last_shown is not shown
    found = {(sample.labels["bundle"], sample.labels.get("figure")) for family in registry.collect() for sample in family.samples}
    assert {name for name, _ in found} == {"renamed"}
    assert {figure for _, figure in found} == {None, "reject", "exit_1", "exit_2", "cost", "error"}
    assert registry.get_sample_value("emsco_drift_state", {"bundle": "renamed"}) == 0
    monitor(make_decision(0))
    assert registry.get_sample_value("emsco_drift_foreign", {"bundle": "renamed"}) == 1
    assert registry.get_sample_value("emsco_drift_items", {"bundle": "renamed"}) == 0


def test_what_cannot_be_watched() -> None:
    """Other things than monitors, invalid times, and pickling raise errors, each with what to do."""
    with pytest.raises(TypeError, match="expected a DriftMonitor, got str"):
        DriftGauges("monitor", registry=CollectorRegistry())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="every_s: expected a number of seconds above 0, got 0"):
        DriftGauges(registry=CollectorRegistry(), every_s=0)
    registry = CollectorRegistry()
    DriftGauges(registry=registry)
    with pytest.raises(InputError, match="into one DriftGauges"):
        DriftGauges(registry=registry)
    with pytest.raises(TypeError, match=r"DriftGauges cannot be pickled: .* Create them there"):
        pickle.dumps(DriftGauges(registry=CollectorRegistry()))


_WORKERS = """
import os, sys
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from emsco_runtime import DriftMonitor
from emsco_runtime.drift.gauges import DriftGauges
from tests.runtime.drift_samples import STAGES, make_decision, manifest_of

monitor = DriftMonitor(manifest_of([600, 250, 100, 50]))
gauges = DriftGauges(monitor, registry=CollectorRegistry())
gauges(make_decision(0))                                        # refreshed in the parent, so that the next refresh is far away
children = []
for place in (0, 0, STAGES):
    child = os.fork()
    if child == 0:
        for _ in range(400 if place else 7):
            monitor(make_decision(place))
            gauges(make_decision(place))
        gauges.refresh()
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
registry = CollectorRegistry()
MultiProcessCollector(registry)
print(*children, file=sys.stderr)
sys.stdout.write(generate_latest(registry).decode())
"""


def test_the_worst_of_several_processes_is_shown(tmp_path: Path) -> None:
    """Three forked workers, one of which meets drift: its state is shown, items add up, live figures stand by process."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", _WORKERS], capture_output=True, text=True, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr
    found: Series = parse_samples(done.stdout)
    assert found[sample_key("emsco_drift_state")] == 2
    assert found[sample_key("emsco_drift_figure_state", figure="reject")] == 2
    assert found[sample_key("emsco_drift_figure_state", figure="error")] == 0
    assert found[sample_key("emsco_drift_items")] == 414
    assert found[sample_key("emsco_drift_figure_expected", figure="reject")] == 0.05
    live = [
        found[sample_key("emsco_drift_figure_live", figure="reject", pid=pid)] for pid in done.stderr.splitlines()[-1].split()
    ]
    assert live == [0.0, 0.0, 1.0]
