"""`Metrics`: what a scrape shows, in one process and in several."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from emsco_runtime import Acquirers, AcquisitionError, Cascade, InputError, ReloadingCascade, write_bundle
from emsco_runtime.observing import prometheus as metrics_module
from emsco_runtime.observing.prometheus import Metrics, SourceGauges, default_cost_buckets
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle

BUNDLE = sample_bundle()
SPAM = {"size": 2.0, "links": 1.0, "reputation": 0.5}
HAM = {"size": -2.0, "links": 1.0, "reputation": 0.5}
UNCLEAR = {"size": 0.0, "links": 0.0, "reputation": 0.0}
NAME = {"bundle": "sample"}
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse_samples(text: str) -> Series:
    """Return the samples of an exposition, parsed as Prometheus would."""
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def samples_of(registry: CollectorRegistry) -> Series:
    """Return what a scrape of a registry shows."""
    return parse_samples(generate_latest(registry).decode())


def sample_key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Return the key of a sample of the sample bundle."""
    return name, frozenset({**NAME, **labels}.items())


def test_nothing_is_registered_by_importing() -> None:
    """The import leaves the global registry as it was, and loads nothing of other extras."""
    code = (
        "from prometheus_client import REGISTRY, generate_latest; before = generate_latest(REGISTRY).count(b'# TYPE');"
        "import emsco_runtime.metrics, sys; assert generate_latest(REGISTRY).count(b'# TYPE') == before;"
        "assert 'opentelemetry' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("metrics", "prometheus_client", "emsco[metrics]"),
        ("observing.source_gauges", "prometheus_client", "emsco[metrics]"),
        ("drift_metrics", "prometheus_client", "emsco[metrics]"),
        ("tracing", "opentelemetry", "emsco[otel]"),
    ],
)
def test_without_its_extra_a_module_says_what_to_install(module: str, missing: str, extra: str) -> None:
    """The error names the package that is missing, and the extra that brings it."""
    code = f"import sys; sys.modules[{missing!r}] = None; import emsco_runtime.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"ModuleNotFoundError: emsco_runtime.{module} needs {missing.split('_', maxsplit=1)[0]}" in done.stderr
    assert f"pip install '{extra}'" in done.stderr


def test_decisions_by_outcome() -> None:
    """Every decision is counted under its status, reason, label and number of stages scored."""
    registry = CollectorRegistry()
    cascade = Cascade(BUNDLE, observers=[Metrics(registry=registry)])
    for item in (SPAM, SPAM, HAM, UNCLEAR):
        cascade.decide(item)
    cascade.decide_many([SPAM, UNCLEAR])
    cascade.decide(UNCLEAR, budget=3.0)
    cascade.decide(UNCLEAR, budget=0.0)
    found = {key: value for key, value in samples_of(registry).items() if key[0] == "emsco_decisions_total"}

    def count(status: str, reason: str, label: str, stage: str) -> tuple[str, frozenset[tuple[str, str]]]:
        return sample_key("emsco_decisions_total", status=status, reason=reason, label=label, stage=stage)

    assert found == {
        count("accepted", "confident", "spam", "1"): 3,
        count("accepted", "confident", "ham", "1"): 1,
        count("rejected", "inconclusive", "", "3"): 2,
        count("rejected", "budget", "", "2"): 1,
        count("rejected", "budget", "", "0"): 1,
    }


def test_cost_and_time() -> None:
    """Costs fall into buckets that are the costs of the stages, so that the histogram shows exits; times add up."""
    registry = CollectorRegistry()
    cascade = Cascade(BUNDLE, observers=[Metrics(registry=registry)])
    made = [cascade.decide(item) for item in (SPAM, HAM, UNCLEAR)] + [cascade.decide(SPAM, budget=0.0)]
    found = samples_of(registry)
    bounds = {"0.0": 1, "1.0": 3, "3.0": 3, "28.0": 4, "+Inf": 4}
    assert {bound: found[sample_key("emsco_decision_cost_bucket", le=bound)] for bound in bounds} == bounds
    assert found[sample_key("emsco_decision_cost_sum")] == 30.0
    assert found[sample_key("emsco_decision_seconds_count")] == 4
    assert found[sample_key("emsco_decision_seconds_sum")] == pytest.approx(sum(one.elapsed_s for one in made))


def test_calls_of_acquirers() -> None:
    """Each call is in the histogram of its acquirer and outcome; an acquirer of many features has a short name."""
    registry = CollectorRegistry()
    names = [f"f{index}" for index in range(7)]
    bundle = make_bundle([names])
    acquirers = RecordingAcquirers((names[0], names[1]), tuple(names[2:]), on_failure="reject")
    cascade = Cascade(bundle, acquirers, observers=[Metrics(registry=registry)])
    item = dict.fromkeys(names, 0.0)
    for given in (item, item, item | {"f1": OSError()}):
        cascade.decide(given)
    found = {key: value for key, value in samples_of(registry).items() if key[0] == "emsco_acquirer_seconds_count"}
    assert found == {
        sample_key("emsco_acquirer_seconds_count", acquirer="f0,f1", outcome="ok"): 2,
        sample_key("emsco_acquirer_seconds_count", acquirer="f0,f1", outcome="exception"): 1,
        sample_key("emsco_acquirer_seconds_count", acquirer="f2,f3,f4,+2", outcome="ok"): 2,
    }


def test_acquirers_may_be_left_alone() -> None:
    """With the option off no function is wrapped and no time is kept; failures are counted all the same."""
    registry = CollectorRegistry()
    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="reject")
    cascade = Cascade(BUNDLE, acquirers, observers=[Metrics(registry=registry, acquirers=False)])
    assert [call.function for call in cascade._runner.plan.calls.values()] == [entry.function for entry in acquirers.entries]
    cascade.decide({"size": OSError()})
    found = samples_of(registry)
    assert not any(name == "emsco_acquirer_seconds_count" for name, _ in found)
    assert found[sample_key("emsco_acquirer_failures_total", feature="size", kind="exception")] == 1


def test_failures_by_kind() -> None:
    """Failures are counted by feature and kind, those outside of functions included; fallbacks and caches too."""
    registry = CollectorRegistry()
    acquirers = Acquirers()
    go = threading.Event()
    acquirers.feature("size", cache=AcquirerCache(key=lambda item: 1, ttl_s=60.0))(lambda item: 0.0)
    acquirers.feature("links", timeout_s=0.01, on_failure="default")(lambda item: go.wait(30))
    acquirers.feature("reputation", breaker=CircuitBreaker(failures=1), on_failure="default")(lambda item: 1 / 0)
    cascade = Cascade(BUNDLE, acquirers, observers=[Metrics(registry=registry)])
    cascade.decide({})
    cascade.decide({})
    go.set()
    found = samples_of(registry)
    failures = {labels: value for (name, labels), value in found.items() if name == "emsco_acquirer_failures_total"}
    assert failures == {
        sample_key("", feature="links", kind="timeout")[1]: 2,
        sample_key("", feature="reputation", kind="exception")[1]: 1,
        sample_key("", feature="reputation", kind="breaker_open")[1]: 1,
    }
    assert found[sample_key("emsco_degraded_decisions_total")] == 2
    assert found[sample_key("emsco_acquirer_cached_total", feature="size")] == 1


def test_items_that_raise() -> None:
    """Under the policy "raise" there is no decision, but a count and a failure: nothing fails silently."""
    registry = CollectorRegistry()
    cascade = Cascade(BUNDLE, observers=[Metrics(registry=registry)])
    with pytest.raises(AcquisitionError):
        cascade.decide({"size": 0.0})
    found = samples_of(registry)
    raised = {"status": "raised", "reason": "acquisition_failed", "label": "", "stage": "1"}
    assert found[sample_key("emsco_decisions_total", **raised)] == 1
    assert found[sample_key("emsco_acquirer_failures_total", feature="links", kind="missing_key")] == 1


def test_what_happened_before_an_item_raised_is_counted() -> None:
    """A fallback, a value out of a cache and the bill of an item that raises are in the metrics, as if it had been rejected."""
    found = []
    for policy in ("reject", "raise"):
        registry = CollectorRegistry()
        acquirers = RecordingAcquirers("links", on_failure="default") | RecordingAcquirers("reputation", on_failure=policy)
        acquirers.feature("size", cache=AcquirerCache(key=lambda item: 1, ttl_s=60.0, charge="full"))(lambda item: 0.0)
        cascade = Cascade(BUNDLE, acquirers, observers=[Metrics(registry=registry, acquirers=False)])
        for _ in range(2):
            with contextlib.suppress(AcquisitionError):
                cascade.decide({"links": OSError(), "reputation": OSError()})
        # The time of an item that raised is not known.
        names = ("emsco_decision_cost", "emsco_degraded", "emsco_acquirer")
        found.append({key: value for key, value in samples_of(registry).items() if key[0].startswith(names)})
    rejected, raised = found
    # When a series was created is no count.
    assert {key: value for key, value in raised.items() if "created" not in key[0]} == {
        key: value for key, value in rejected.items() if "created" not in key[0]
    }
    assert raised[sample_key("emsco_decision_cost_sum")] == 56.0
    assert raised[sample_key("emsco_degraded_decisions_total")] == 2
    assert raised[sample_key("emsco_acquirer_failures_total", feature="links", kind="exception")] == 2
    assert raised[sample_key("emsco_acquirer_failures_total", feature="reputation", kind="exception")] == 2
    assert raised[sample_key("emsco_acquirer_cached_total", feature="size")] == 1


def test_an_error_without_a_list_of_failures_is_one() -> None:
    """An `AcquisitionError` that was made as before has no list: its own failure is counted."""
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    metrics.on_bind(BUNDLE.manifest)
    metrics.on_error(AcquisitionError("down", "links", 2, "timeout", 3.0, ()), BUNDLE.manifest.id)
    assert samples_of(registry)[sample_key("emsco_acquirer_failures_total", feature="links", kind="timeout")] == 1


def test_observers_that_raise_are_counted() -> None:
    """Failures of all observers of the cascade are counted, whichever it was."""
    registry = CollectorRegistry()
    cascade = Cascade(BUNDLE, observers=[lambda decision: 1 / 0, Metrics(registry=registry)])
    cascade.decide(SPAM)
    cascade.decide(SPAM)
    assert registry.get_sample_value("emsco_observer_failures_total") == 2


def test_a_bundle_that_was_not_bound_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """`Metrics` behind another function do not know the bundle: they say so, and say what to do."""
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    cascade = Cascade(BUNDLE, observers=[lambda decision: metrics(decision)])  # noqa: PLW0108 - it hides the other methods
    cascade.decide(SPAM)
    assert "was not bound to these Metrics: pass them to the cascade as an observer" in caplog.text
    metrics.on_bind(cascade.manifest)
    cascade.decide(SPAM)
    assert registry.get_sample_value("emsco_decision_seconds_count", NAME) == 1


def test_one_for_several_cascades_and_versions() -> None:
    """Cascades share one `Metrics`, distinguished by name; a new version continues the counts, and the info moves to it."""
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    first = Cascade(BUNDLE, observers=[metrics])
    other = Cascade(make_bundle([["size"]], name="other", weights=[[[-2.0], [2.0]]]), observers=[metrics])
    newer = Cascade(make_bundle([["size"]], name="sample", weights=[[[-3.0], [3.0]]]), observers=[metrics])
    for cascade in (first, other, newer, newer):
        cascade.decide(SPAM)
    assert registry.get_sample_value("emsco_decision_seconds_count", NAME) == 3
    assert registry.get_sample_value("emsco_decision_seconds_count", {"bundle": "other"}) == 1
    info = {labels: value for (name, labels), value in samples_of(registry).items() if name == "emsco_bundle_info"}
    assert info == {
        frozenset({"bundle": one.manifest.name, "version": "1", "id": one.manifest.id}.items()): 1 for one in (other, newer)
    }


def test_several_on_one_registry() -> None:
    """Two objects with the same settings share what is registered; other buckets are refused, another prefix is not."""
    registry = CollectorRegistry()
    for _ in range(2):
        Cascade(BUNDLE, observers=[Metrics(registry=registry)]).decide(SPAM)
    assert registry.get_sample_value("emsco_decision_cost_count", NAME) == 2
    with pytest.raises(InputError, match="another Metrics with the prefix 'emsco' and other buckets is on this registry"):
        Metrics(registry=registry, cost_buckets=[1.0])
    given = Metrics(registry=registry, prefix="shop", cost_buckets=[2, 4], seconds_buckets=[1.0], acquirer_buckets=[1.0])
    Cascade(BUNDLE, RecordingAcquirers("size", "links", "reputation"), observers=[given]).decide(SPAM)
    found = samples_of(registry)
    assert {dict(labels)["le"] for name, labels in found if name == "shop_decision_cost_bucket"} == {"2.0", "4.0", "+Inf"}
    for histogram in ("decision_seconds", "acquirer_seconds"):
        assert {dict(labels)["le"] for name, labels in found if name == f"shop_{histogram}_bucket"} == {"1.0", "+Inf"}


def test_a_registry_goes_with_its_users() -> None:
    """What is remembered about a registry does not keep it alive."""
    registry = CollectorRegistry()
    Cascade(BUNDLE, observers=[Metrics(registry=registry)]).decide(SPAM)
    gone = weakref.ref(registry)
    del registry
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("bounds", [[], [1.0, 1.0], [2.0, 1.0], [float("nan"), 1.0]])
def test_buckets_must_rise(bounds: list[float]) -> None:
    """Bounds that are missing, equal, decreasing or not numbers raise errors with their name."""
    with pytest.raises(InputError, match="cost_buckets: expected increasing numbers, at least one"):
        Metrics(registry=CollectorRegistry(), cost_buckets=bounds)


def test_bills_of_many_stages_are_thinned_out() -> None:
    """A bundle of many stages gives at most twenty bounds, the largest bill among them; free stages give no bound twice."""
    names = [f"f{index}" for index in range(50)]
    bounds = default_cost_buckets(make_bundle([[name] for name in names]).manifest)
    assert len(bounds) <= 20
    assert bounds == tuple(sorted(bounds))
    assert bounds[-1] == 50.0
    assert default_cost_buckets(make_bundle([["a"], ["b"]], costs={"a": 0.0, "b": 2.0}).manifest) == (0.0, 2.0)


def test_pickling_needs_the_global_registry() -> None:
    """A registry of one's own stays in its process, and the error says what to do instead."""
    cascade = Cascade(BUNDLE, observers=[Metrics(registry=CollectorRegistry())])
    with pytest.raises(TypeError, match="cannot be pickled: they have a registry of their own"):
        pickle.dumps(cascade)


def test_pickled_with_the_global_registry() -> None:
    """A cascade takes its `Metrics` along: copies count in the global registry of their process, as one."""
    prefix = "emsco_test_pickled"
    cascade = Cascade(BUNDLE, observers=[Metrics(prefix=prefix)])
    for copy in (cascade, pickle.loads(pickle.dumps(cascade)), pickle.loads(pickle.dumps(cascade))):
        copy.decide(SPAM)
    assert REGISTRY.get_sample_value(f"{prefix}_decision_seconds_count", NAME) == 3


def test_reloads_in_the_metrics(tmp_path: Path) -> None:
    """After a reload the new bundle alone is shown, even under another name; looks that fail are counted, from 0 on."""
    registry = CollectorRegistry()
    bundles = [BUNDLE, make_bundle([["size"]]), make_bundle([["size"]], name="renamed"), make_bundle([["size"]], threshold=0.7)]

    def info() -> dict[str, float]:
        found = {labels: value for (name, labels), value in samples_of(registry).items() if name == "emsco_bundle_info"}
        return {dict(labels)["id"]: value for labels, value in found.items()}

    def put(number: int) -> str:
        bundle = bundles[number]
        return write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models, force=True).manifest.id

    def failures(name: str) -> float | None:
        return registry.get_sample_value("emsco_reload_failures_total", {"bundle": name})

    first = put(0)
    cascade = ReloadingCascade(tmp_path / "bundle", observers=[Metrics(registry=registry)])
    assert (info(), failures("sample")) == ({first: 1}, 0)
    (tmp_path / "bundle" / "manifest.json").write_bytes(b"{}")
    assert [cascade.refresh().outcome for _ in range(3)] == ["failed"] * 3
    assert (info(), failures("sample")) == ({first: 1}, 3)
    (tmp_path / "bundle" / "manifest.json").write_bytes(b'{"format": "emsco-bundle"}')
    for number, name in ((1, "sample"), (2, "renamed"), (3, "sample"), (0, "sample")):
        new = put(number)
        assert cascade.refresh().outcome == "changed"
        assert info() == {new: 1}
        assert failures(name) == (3 if name == "sample" else 0)
    assert cascade.current.observer_failures == 0


def test_a_replaced_bundle_of_another_cascade_stays() -> None:
    """Two bundles of one name: the one that was bound last is shown, and stays when the other one is replaced."""
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    renamed = make_bundle([["size"]], name="renamed").manifest
    newer = make_bundle([["size"]]).manifest
    for manifest in (BUNDLE.manifest, newer, renamed):
        metrics.on_bind(manifest)
    metrics.on_reload(BUNDLE.manifest, renamed)
    ids = {dict(labels)["id"] for (name, labels), _ in samples_of(registry).items() if name == "emsco_bundle_info"}
    assert ids == {newer.id, renamed.id}


_REPLACED = """
import sys
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from emsco_runtime import Cascade
from emsco_runtime.observing.prometheus import Metrics
from emsco_runtime.testing import make_bundle, sample_bundle

metrics = Metrics()
Cascade(sample_bundle(), observers=[metrics])
Cascade(make_bundle([["size"]]), observers=[metrics])
registry = CollectorRegistry()
MultiProcessCollector(registry)
sys.stdout.write(generate_latest(registry).decode())
"""


def test_a_replaced_bundle_with_several_processes(tmp_path: Path) -> None:
    """prometheus_client cannot remove a series that processes share: it is 0, nothing warns, and `== 1` finds the current one."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", _REPLACED]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    info = {
        dict(labels)["id"]: value for (name, labels), value in parse_samples(done.stdout).items() if name == "emsco_bundle_info"
    }
    assert info == {BUNDLE.manifest.id: 0, make_bundle([["size"]]).manifest.id: 1}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_is_not_held_by_a_lock() -> None:
    """Forked while another thread binds a bundle and registers: the child does both, with locks of its own."""
    registry = CollectorRegistry()
    metrics = Metrics(registry=registry)
    with metrics._families._lock, metrics_module._FAMILY_REGISTRY._lock:
        child = os.fork()
        if child == 0:  # pragma: no cover - the child leaves without telling coverage
            signal.alarm(20)
            metrics.on_bind(BUNDLE.manifest)
            Metrics(registry=registry, prefix="other")
            os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


_WORKERS = """
import os, sys
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from emsco_runtime import Cascade
from emsco_runtime.observing.prometheus import Metrics
from emsco_runtime.testing import RecordingAcquirers, sample_bundle

cascade = Cascade(sample_bundle(), RecordingAcquirers("size", "links", "reputation"), observers=[Metrics(), lambda _: 1 / 0])
cascade.decide({"size": 2.0})                                # before the forks
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        for _ in range(10 * (number + 1)):
            cascade.decide({"size": 2.0})
        cascade.decide({"size": 0.0, "links": 0.0, "reputation": 0.0})
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
mark_process_dead(children[0])
registry = CollectorRegistry()
MultiProcessCollector(registry)
sys.stdout.write(generate_latest(registry).decode())
"""


def test_several_processes_add_up(tmp_path: Path) -> None:
    """In prometheus_client's multi-process mode, what four forked workers and their parent counted is shown as one sum."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _WORKERS], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = parse_samples(done.stdout)
    accepted = {"status": "accepted", "reason": "confident", "label": "spam", "stage": "1"}
    assert found[sample_key("emsco_decisions_total", **accepted)] == 101
    assert found[sample_key("emsco_decision_cost_bucket", le="1.0")] == 101
    assert found[sample_key("emsco_decision_cost_bucket", le="28.0")] == 105
    assert found[sample_key("emsco_decision_cost_sum")] == 101 + 4 * 28
    assert found[sample_key("emsco_acquirer_seconds_count", acquirer="size", outcome="ok")] == 105
    assert found["emsco_observer_failures_total", frozenset()] == 105
    identity = sample_bundle().manifest.id
    assert found[sample_key("emsco_bundle_info", version="1", id=identity)] == 1


def test_sources() -> None:
    """Pools, breakers and caches are read at the scrape."""
    registry = CollectorRegistry()
    pool, breaker = AcquirerPool(threads=1), CircuitBreaker(failures=1)
    cache = AcquirerCache(key=lambda item: item, ttl_s=60.0)
    SourceGauges(pools={"mail": pool}, breakers={"dns": breaker}, caches={"dns": cache}, registry=registry, prefix="shop")
    go, running = threading.Event(), threading.Event()

    def hang(item: Any) -> None:
        running.set()
        go.wait(30)

    call = pool.submit(hang, None)
    assert running.wait(30)
    pool.abandon(call)
    entered = breaker.enter()
    assert entered is not None
    breaker.failed(entered)
    cache.get("a")
    cache.put("a", 1.0)
    cache.get("a")
    found = {(name, *sorted(dict(labels).values())): value for (name, labels), value in samples_of(registry).items()}
    go.set()
    assert found == {
        ("shop_pool_threads", "mail"): 1,
        ("shop_pool_waiting", "mail"): 0,
        ("shop_pool_abandoned", "mail"): 1,
        ("shop_pool_abandoned_calls_total", "mail"): 1,
        ("shop_breaker_state", "closed", "dns"): 0,
        ("shop_breaker_state", "dns", "open"): 1,
        ("shop_breaker_state", "dns", "half-open"): 0,
        ("shop_cache_hits_total", "dns"): 1,
        ("shop_cache_misses_total", "dns"): 1,
        ("shop_cache_size", "dns"): 1,
    }


@pytest.mark.parametrize("registry", [CollectorRegistry(), CollectorRegistry(auto_describe=True)])
def test_sources_are_registered_once(registry: CollectorRegistry) -> None:
    """A second one would show every metric twice, which no scraper takes; another prefix is another metric."""
    SourceGauges(registry=registry)
    with pytest.raises(InputError, match="of these names already: put all that is to be shown into one SourceGauges, or"):
        SourceGauges(registry=registry)
    SourceGauges(registry=registry, prefix="shop")


def test_sources_may_be_none() -> None:
    """Without sources there is nothing to show, and nothing fails."""
    registry = CollectorRegistry()
    SourceGauges(registry=registry)
    assert samples_of(registry) == {}
