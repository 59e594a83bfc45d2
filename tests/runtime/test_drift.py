"""The drift monitor: false alarms stay under the stated rates, shifts are found, and items cut short never look like drift."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import multiprocessing
import pickle
import statistics
import threading
from collections.abc import Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime import AcquisitionError, Cascade, InputError
from emsco_runtime.bundle.summary import summarise_costs
from emsco_runtime.drift import DriftMonitor, DriftStatus, ExpectedConfidence, FigureStatus
from emsco_runtime.drift.evidence import MeanIncreaseTest, WindowedTotals
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle
from tests.runtime.drift_samples import SAMPLE, STAGES, make_decision, manifest_of
from tests.runtime.reporting import report

# Shares of leaving at stages 1, 2, 3 and of being rejected.
SHARES = (0.55, 0.2, 0.15, 0.1)
MORE_REJECTED = (0.5, 0.2, 0.15, 0.15)
ERROR = 0.03


def certificate(max_error: float, *, accepted: int = 1500, wrong: int = 20) -> Any:
    """Return a stand-in with the fields of a certificate that matter here."""
    return SimpleNamespace(max_error=max_error, confidence=0.95, rows=2000, accepted=accepted, wrong=wrong)


def figure(status: DriftStatus, name: str) -> FigureStatus:
    """Return one figure of a status."""
    (found,) = (one for one in status.figures if one.name == name)
    return found


def feed_counts(
    monitor: DriftMonitor, rng: np.random.Generator, shares: Sequence[float], items: int, *, stream: int = 0
) -> float:
    """Let items end by these shares, in one go from test to test, until an alarm; return when that was."""
    into = monitor._detector.streams[stream]
    while into.items < items:
        size = min(into.next_check, items) - into.items
        for place, count in enumerate(rng.multinomial(size, shares)):
            into.totals[place] += float(count)
        into.items += size
        monitor._detector.run_due_tests(stream)
        if monitor.state == "alarm":
            return into.items
    return math.inf


def false_alarms(streams: int, items: int, rows: int, seed: int) -> tuple[float, float]:
    """Return the shares of healthy streams, each with its own draw of expected figures, that alarm, and that warn at least."""
    rng = np.random.default_rng(seed)
    alarms = warnings = 0
    for _ in range(streams):
        counts = rng.multinomial(rows, SHARES)
        wrong = min(rng.binomial(rows - counts[-1], ERROR), counts[0])
        monitor = DriftMonitor(manifest_of(counts, wrong=int(wrong)))
        feed_counts(monitor, rng, SHARES, items)
        feed_counts(monitor, rng, (1 - ERROR, ERROR), items, stream=1)
        alarms += monitor.state == "alarm"
        warnings += monitor.state != "ok"
    return alarms / streams, warnings / streams


def delays(streams: int, items: int, rows: int, seed: int) -> list[float]:
    """Return when each stream, with 5 points more rejected than in the population of its expected figures, raises an alarm."""
    rng = np.random.default_rng(seed)
    made = (DriftMonitor(manifest_of(rng.multinomial(rows, SHARES))) for _ in range(streams))
    return [feed_counts(monitor, rng, MORE_REJECTED, items) for monitor in made]


# ---------------------------------------------------------------- the stated rates


@pytest.mark.uncounted
def test_few_false_alarms() -> None:
    """In healthy streams, each with its own draw of the manifest's figures, alarms and warnings stay under the stated rates."""
    alarms, warnings = false_alarms(100, 2000, 500, seed=1)
    assert alarms <= 0.01
    assert warnings <= 0.1


@pytest.mark.proof
@pytest.mark.parametrize("rows", [500, 2000])
def test_few_false_alarms_long(rows: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The same in 2,000 streams of 10,000 items."""
    alarms, warnings = false_alarms(2000, 10_000, rows, seed=rows)
    report(capsys, f"drift, {rows} rows: alarms in {alarms:.2%}, warnings in {warnings:.2%} of healthy streams")
    assert alarms <= 0.01
    assert warnings <= 0.1


@pytest.mark.uncounted
def test_a_shift_of_five_points_is_found() -> None:
    """With 2,000 rows, five points more rejected are found in nearly all streams, in the median within 2,000 items."""
    found = delays(30, 10_000, 2000, seed=2)
    assert statistics.median(found) < 2000
    assert sum(map(math.isfinite, found)) >= 27


@pytest.mark.proof
@pytest.mark.parametrize(("rows", "median", "share"), [(500, math.inf, 0.15), (2000, 2000, 0.95), (20_000, 1500, 1.0)])
def test_a_shift_of_five_points_is_found_long(rows: int, median: float, share: float, capsys: pytest.CaptureFixture[str]) -> None:
    """The same in 400 streams of 20,000 items; 500 rows are too few to show five points reliably, however long the stream."""
    found = delays(400, 20_000, rows, seed=rows + 1)
    reached = sum(map(math.isfinite, found)) / len(found)
    delay = statistics.median(found)
    report(capsys, f"drift, {rows} rows: five points found in {reached:.1%} of streams, in the median after {delay} items")
    assert delay <= median
    assert reached >= share


def test_a_point_null_would_raise_false_alarms() -> None:
    """Taking the expected rate for the truth refutes it in most healthy streams, so estimates are allowed for."""
    rng = np.random.default_rng(3)
    items, refuted, doubted = 200_000, 0, 0
    for sample_sum in rng.binomial(500, 0.1, size=100).tolist():
        rejected = rng.binomial(items, 0.1)
        sides = ((rejected, sample_sum), (items - rejected, 500 - sample_sum))
        refuted += any(
            MeanIncreaseTest(0, 0, limit=share / 500).evidence(total, items)[0] > math.log(100) for total, share in sides
        )
        doubted += any(MeanIncreaseTest(share, 500).evidence(total, items)[0] > math.log(100) for total, share in sides)
    assert refuted > 50
    assert doubted <= 1


@pytest.mark.uncounted
def test_exact_chance_of_a_false_alarm() -> None:
    """By exact enumeration of samples and streams, the chance that the evidence *ever* reaches 1 / a is at most a, and not 0."""
    rows, items, rate = 8, 24, 0.3
    target = math.log(1 / rate)
    means = (0.1, 0.35, 0.6)
    ever = dict.fromkeys(means, 0.0)
    for sample_sum in range(rows + 1):
        test = MeanIncreaseTest(sample_sum, rows)
        # Chance of each total without an alarm so far, and of an alarm, for each mean; the evidence is the same for all of them.
        alive, alarmed = {mean: np.array([1.0]) for mean in means}, dict.fromkeys(means, 0.0)
        for count in range(1, items + 1):
            alive = {mean: np.append(one * (1 - mean), 0.0) + np.append(0.0, one * mean) for mean, one in alive.items()}
            for total in range(count + 1):
                high = total / count > sample_sum / rows and test.upper_bound(total, count) > target
                if high and test.evidence(total, count)[0] >= target:
                    for mean in means:
                        alarmed[mean] += alive[mean][total]
                        alive[mean][total] = 0.0
        for mean in means:
            ever[mean] += math.comb(rows, sample_sum) * mean**sample_sum * (1 - mean) ** (rows - sample_sum) * alarmed[mean]
    assert all(0 < chance <= rate for chance in ever.values())


# ---------------------------------------------------------------- the evidence

counts = st.integers(1, 3000).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows)))
streams = st.integers(1, 100_000).flatmap(lambda items: st.tuples(st.floats(0, items), st.just(items)))


@settings(deadline=None, max_examples=50)
@given(counts, streams, st.sampled_from([None, 0.0, 0.02, 0.5, 1.0]))
def test_evidence_is_the_least_over_all_means(sample: tuple[int, int], stream: tuple[float, int], limit: float | None) -> None:
    """No mean gives less than the evidence, the fast upper bound is never below it, and a higher total gives no less."""
    test = MeanIncreaseTest(*sample) if limit is None else MeanIncreaseTest(0, 0, limit=limit)
    total, items = stream
    evidence, slope = test.evidence(total, items)
    assert slope >= 0
    low, high = test._mean_range
    means = np.linspace(low, high, 501)
    terms = test._terms(means, total, items)
    tolerance = 1e-6 * (1 + abs(evidence))
    assert evidence <= np.logaddexp.reduce(terms, axis=1).min() + tolerance
    assert evidence <= test.upper_bound(total, items) + tolerance
    assert test.evidence(total + (items - total) / 2, items)[0] >= evidence - tolerance


@settings(deadline=None, max_examples=50)
@given(counts, st.integers(1, 100_000), st.floats(1, 15))
def test_limits_are_where_the_evidence_reaches_the_target(sample: tuple[int, int], items: int, target: float) -> None:
    """`critical_total` is the total at which the evidence meets the target; None where even the highest total does not."""
    test = MeanIncreaseTest(*sample)
    total = test.critical_total(target, items)
    if total is None:
        assert test.evidence(items, items)[0] < target
    else:
        assert test.evidence(total, items)[0] == pytest.approx(target, abs=0.01)


def test_evidence_does_not_fade_with_length() -> None:
    """However much longer the stream is than the sample, or shorter, a clear difference stays clear."""
    sample = MeanIncreaseTest(100, 1000)
    evidence = [sample.evidence(0.2 * items, items)[0] for items in (1000, 10_000, 100_000, 10_000_000)]
    assert evidence == sorted(evidence)
    assert MeanIncreaseTest(100_000, 1_000_000).evidence(40, 100)[0] > 10


@pytest.mark.uncounted
@settings(deadline=None)
@given(st.integers(1, 50), st.integers(1, 2000))
def test_windows_share_the_chance(every: int, items: int) -> None:
    """The shares of all windows ever opened add up to at most 1; they start regularly, and few are open at once."""
    stream = WindowedTotals(1, every)
    shares: dict[int, float] = {}
    for _ in range(items):
        stream.items += 1
        stream.totals[0] += 1
        if stream.items == stream.next_check:
            for window, length, totals in stream.due_windows():
                assert totals == [length]
                assert window.start + length == stream.items
        shares |= {window.start: math.exp(-window.penalty) for window in stream._windows}
        assert stream.next_check > stream.items
        assert len(stream._windows) <= 2 + 2 * math.log2(1 + stream.items / every)
    assert sum(shares.values()) <= 1
    assert list(shares) == list(range(0, items + 1, every))


# ---------------------------------------------------------------- what is counted

places = st.lists(st.integers(0, 2 * STAGES), max_size=400)


@settings(deadline=None, max_examples=30)
@given(places, st.integers(1, 100))
def test_item_by_item_is_as_in_one_go(ends: list[int], every: int) -> None:
    """A monitor fed by decisions, and one fed by counts from test to test as in the simulations, end with the same result."""
    expected = manifest_of([30, 10, 5, 5])
    one, other = (DriftMonitor(expected, restart_every=every, false_alarm_rate=1e-4) for _ in range(2))
    for place in ends:
        one(make_decision(place))
    stream = other._detector.streams[0]
    while stream.items < len(ends):
        size = min(stream.next_check, len(ends)) - stream.items
        for place in ends[stream.items : stream.items + size]:
            stream.totals[place] += 1
        stream.items += size
        other._detector.run_due_tests(0)
    assert one.state == other.state
    # Without the limits, which take long.
    first, second = one._detector.status(), other._detector.status()
    assert [each.finding for each in first.figures] == [each.finding for each in second.figures]
    assert [each.least for each in first.figures] == [each.least for each in second.figures]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, STAGES), st.integers(0, STAGES)), min_size=1, max_size=60))
def test_items_cut_short_can_only_hide(items: list[tuple[int, int]]) -> None:
    """Whatever is cut short, and wherever, the true mean of every figure lies between `least` and `most`."""
    expected = manifest_of([30, 10, 5, 5])
    whole, cut = (DriftMonitor(expected, confidence=ExpectedConfidence(0.9, 50)) for _ in range(2))
    for place, stages in items:
        whole(make_decision(place))
        # Cut after `stages` stages, unless it left before.
        cut(make_decision(STAGES + 1 + stages if stages < min(place + 1, STAGES) else place))
    # Without the limits, which take long.
    for true, seen in zip(whole._detector.status().figures[:-1], cut._detector.status().figures[:-1], strict=True):
        assert true.least == pytest.approx(true.most)
        assert seen.least <= true.least + 1e-9
        assert true.most <= seen.most + 1e-9


def test_a_budget_raises_no_alarm() -> None:
    """A healthy stream in which every second item is stopped by a budget stays ok; dropping those would look like drift."""
    rng = np.random.default_rng(5)
    monitor = DriftMonitor(manifest_of([1100, 400, 300, 200]))
    for place in rng.choice(4, size=3000, p=SHARES):
        monitor(make_decision(place if place == 0 else STAGES + 2))
    status = monitor.status
    assert status.state == "ok"
    assert figure(status, "reject").live == 0.0
    assert (figure(status, "reject").least, figure(status, "reject").most) == (0.0, status.outside.budget / 3000)
    first = figure(status, "exit_1")
    assert first.least == first.most == first.live
    # And yet a shift is seen where it can be: at the first stage nothing was cut short.
    for place in rng.choice(4, size=3000, p=(0.3, 0.4, 0.2, 0.1)):
        monitor(make_decision(place if place == 0 else STAGES + 2))
    assert figure(monitor.status, "exit_1").state == "alarm"


def test_a_real_cascade() -> None:
    """On the very rows of the expected figures, live and expected agree, the cost with its mean too; all ends are counted."""
    bundle = sample_bundle()
    rng = np.random.default_rng(7)
    rows = [dict(zip(("size", "links", "reputation"), row, strict=True)) for row in rng.normal(size=(400, 3)).tolist()]
    plain = Cascade(bundle)
    decisions = [plain.decide(row) for row in rows]
    places = [one.stages - 1 if one.label else STAGES for one in decisions]
    costs = summarise_costs([one.cost for one in decisions])
    drafted = manifest_of([places.count(place) for place in range(4)])
    monitor = DriftMonitor(drafted.model_copy(update={"expected": drafted.expected.model_copy(update={"cost": costs})}))
    for decision in decisions:
        monitor(decision)
    status = monitor.status
    assert [one.name for one in status.figures] == ["reject", "exit_1", "exit_2", "exit_3", "cost", "error"]
    assert all(one.least == one.most == one.live == pytest.approx(one.expected) for one in status.figures[:-1])
    assert figure(status, "cost").expected == pytest.approx(costs.mean)
    assert status.billed == pytest.approx(costs.mean)
    assert status.confidence == pytest.approx(statistics.mean(one.confidence or 0 for one in decisions))

    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="default")
    cascade = Cascade(bundle, acquirers, observers=[monitor])
    unclear = {"size": 0.1, "links": 0.1, "reputation": 0.1}
    monitor.reset()
    cascade.decide(unclear | {"size": OSError()})  # cut after 0 sound stages
    cascade.decide(unclear | {"links": OSError()})  # after 1
    cascade.decide(unclear, budget=0.5)  # after 0
    cascade.decide(unclear, budget=3.0)  # after 2
    cascade.decide(unclear, deadline_s=-1.0)  # after 0
    rejecting = RecordingAcquirers("size", "links", "reputation", on_failure="reject")
    Cascade(bundle, rejecting, observers=[monitor]).decide(unclear | {"reputation": OSError()})  # after 2
    cascade.decide(unclear, known={"size": 0.1})  # inconclusive, at a lower cost
    assert monitor._detector.streams[0].totals[:7] == [0, 0, 0, 1, 3, 1, 2]
    outside = monitor.status.outside
    assert (outside.budget, outside.deadline, outside.acquisition_failed, outside.degraded, outside.foreign) == (2, 1, 1, 2, 0)


def test_items_that_raise_are_counted_as_those_that_are_rejected() -> None:
    """The same failures under both policies: the same totals, the same status; those of another bundle are not counted."""
    bundle = sample_bundle()
    unclear = {"size": 0.1, "links": 0.1, "reputation": 0.1}
    failures: list[dict[str, Any]] = [{"size": OSError()}, {"links": OSError()}, {"reputation": OSError()}, {"size": 3.0}]
    monitors = []
    for policy in ("reject", "raise"):
        monitor = DriftMonitor(bundle.manifest)
        monitors.append(monitor)
        acquirers = RecordingAcquirers("size", "links", "reputation", on_failure=policy)
        cascade = Cascade(bundle, acquirers, observers=[monitor])
        fallback = RecordingAcquirers("links", on_failure="default") | RecordingAcquirers("size", "reputation", on_failure=policy)
        degrading = Cascade(bundle, fallback, observers=[monitor])
        for item in failures:
            with contextlib.suppress(AcquisitionError):
                cascade.decide(unclear | item)
            with contextlib.suppress(AcquisitionError):
                cascade.decide_many([unclear | item])
            with contextlib.suppress(AcquisitionError):
                asyncio.run(cascade.decide_async(unclear | item))
        with contextlib.suppress(AcquisitionError):
            degrading.decide(unclear | {"links": OSError(), "reputation": OSError()})
    rejecting, raising = monitors
    assert raising._detector.streams[0].totals == rejecting._detector.streams[0].totals
    assert raising.status == rejecting.status
    assert (raising.status.items, raising.status.outside.acquisition_failed, raising.status.outside.degraded) == (13, 10, 1)
    raising.on_error(AcquisitionError("down", "size", 1, "exception", 1.0, ()), "another")
    assert (raising.status.items, raising.status.outside.foreign) == (13, 1)


def test_a_source_that_fails_raises_no_alarm() -> None:
    """A healthy stream in which half of the items raise at the second stage stays ok; left out, they would look like drift."""
    bundle = sample_bundle()
    rng = np.random.default_rng(11)
    rows = [dict(zip(("size", "links", "reputation"), row, strict=True)) for row in rng.normal(size=(3000, 3)).tolist()]
    plain = Cascade(bundle)
    places = [one.stages - 1 if one.label else STAGES for one in map(plain.decide, rows[:1500])]
    monitor = DriftMonitor(manifest_of([places.count(place) for place in range(4)]))
    left_out = DriftMonitor(monitor.manifest)
    cascade = Cascade(bundle, RecordingAcquirers("size", "links", "reputation"), observers=[monitor, left_out.__call__])
    for number, row in enumerate(rows[1500:]):
        with contextlib.suppress(AcquisitionError):
            cascade.decide(row | ({"links": OSError()} if number % 2 else {}))
    assert (monitor.state, left_out.state) == ("ok", "alarm")
    assert monitor.status.items == 1500


def test_decisions_of_another_bundle_are_not_counted() -> None:
    """They are reported, and nothing else; a degraded decision without a trace counts as unknown from the first stage on."""
    monitor = DriftMonitor(SAMPLE)
    monitor(make_decision(0, bundle="another"))
    monitor.feedback(make_decision(0, bundle="another"), "ham")
    assert (monitor.status.items, monitor.status.labelled, monitor.status.outside.foreign) == (0, 0, 1)
    monitor(make_decision(0)._replace(degraded=True, trace=()))
    assert monitor._detector.streams[0].totals[4] == 1


def test_one_stage_and_equal_costs() -> None:
    """With one stage the reject rate is enough; there is nothing to compare if all ends cost the same."""
    names = [one.name for one in DriftMonitor(make_bundle([["a"]]).manifest).status.figures]
    assert names == ["reject", "error"]
    free = make_bundle([["a"], ["b"]], costs={"a": 1.0, "b": 0.0}).manifest
    assert "cost" not in [one.name for one in DriftMonitor(free).status.figures]


# ---------------------------------------------------------------- states


def test_states_follow_the_limits() -> None:
    """Over the whole stream, an alarm is `least` above `high` or `most` below `low`; limits close in as items come."""
    for shares in (MORE_REJECTED, (0.64, 0.2, 0.15, 0.01), SHARES):
        monitor = DriftMonitor(manifest_of([1100, 400, 300, 200]), restart_every=10**6)
        feed_counts(monitor, np.random.default_rng(8), shares, 20_000)
        status = monitor.status
        for one in status.figures[:-1]:
            beyond = one.least > one.high or one.most < one.low
            assert beyond == (one.state == "alarm")
        assert status.state == ("ok" if shares == SHARES else "alarm")


@pytest.mark.uncounted
def test_a_late_change_is_found() -> None:
    """After 50,000 healthy items a shift is found within 10,000; without later windows, not even in 20,000."""
    soon, late = [], []
    for every, found in ((1000, soon), (10**9, late)):
        rng = np.random.default_rng(9)
        for _ in range(3):
            monitor = DriftMonitor(manifest_of([5500, 2000, 1500, 1000]), restart_every=every)
            assert feed_counts(monitor, rng, SHARES, 50_000) == math.inf
            found.append(feed_counts(monitor, rng, MORE_REJECTED, 70_000) - 50_000)
    assert max(soon) < 10_000
    assert min(late) == math.inf


def test_on_change_is_called_once_per_change(caplog: pytest.LogCaptureFixture) -> None:
    """Warning, then alarm: one call and one line in the log each, outside the lock; later items change nothing more."""
    changes: list[tuple[str, str]] = []
    monitor = DriftMonitor(
        manifest_of([1100, 400, 300, 200]), on_change=lambda status: changes.append((status.state, monitor.status.state))
    )
    with caplog.at_level(logging.WARNING, "emsco_runtime.drift"):
        rng = np.random.default_rng(10)
        for place in rng.choice(4, size=6000, p=MORE_REJECTED):
            monitor(make_decision(place))
    assert changes == [("warning", "warning"), ("alarm", "alarm")]
    assert [record.message.split(" after")[0] for record in caplog.records] == ["drift: warning", "drift: alarm"]
    finding = figure(monitor.status, "reject").finding
    assert finding is not None
    assert finding.p_value <= 0.01
    assert finding.last <= 6000
    assert finding.live > 0.1
    assert f"reject {finding.live:.4g} in items {finding.first} to {finding.last}, 0.1 expected" in str(monitor.status)
    monitor.reset()
    assert (monitor.state, monitor.status.items) == ("ok", 0)
    assert len(changes) == 2


@pytest.mark.parametrize("by", ["decision", "feedback"])
def test_an_alarm_is_logged_though_on_change_raises(by: str, caplog: pytest.LogCaptureFixture) -> None:
    """The line is in the log before anybody is notified; the caller gets what `on_change` raises."""

    def broken(status: object) -> None:
        raise OSError("pager")

    monitor = DriftMonitor(manifest_of([1100, 400, 300, 200]), on_change=broken)

    def send() -> None:
        for _ in range(6000):
            if by == "decision":
                monitor(make_decision(3))
            else:
                monitor.feedback("spam", "ham")

    with caplog.at_level(logging.WARNING, "emsco_runtime.drift"), pytest.raises(OSError, match="pager"):
        send()
    assert [record.message.split(":")[0] for record in caplog.records] == ["drift"]


def test_status_as_numbers() -> None:
    """`to_dict` is plain JSON, with levels as numbers for a metric, before the first item and after an alarm."""
    monitor = DriftMonitor(manifest_of([1100, 400, 300, 200]))
    empty = monitor.status.to_dict()
    assert json.loads(json.dumps(empty, allow_nan=False)) == empty
    assert (empty["level"], empty["billed"], empty["confidence"]) == (0, None, None)
    assert (
        empty["figures"]["reject"] | {"low": 0.0, "high": 1.0, "live": None, "p_value": 1.0, "level": 0}
        == empty["figures"]["reject"]
    )
    for _ in range(200):
        monitor(make_decision(STAGES))
    full = monitor.status.to_dict()
    assert json.loads(json.dumps(full, allow_nan=False)) == full
    assert (full["level"], full["state"], full["figures"]["reject"]["level"]) == (2, "alarm", 2)
    assert full["figures"]["reject"]["p_value"] == full["figures"]["reject"]["finding"]["p_value"] <= 0.01


def test_confidence() -> None:
    """With a reference, a fall of the mean confidence is an alarm; without one it is reported, and raises nothing."""
    expected = manifest_of([1100, 400, 300, 200])
    rng = np.random.default_rng(11)
    ends = rng.choice(4, size=1500, p=SHARES).tolist()
    watched = DriftMonitor(expected, confidence=ExpectedConfidence(0.95, 2000))
    healthy = DriftMonitor(expected, confidence=ExpectedConfidence(0.95, 2000))
    unwatched = DriftMonitor(expected)
    for place in ends:
        for monitor, confidence in ((watched, 0.85), (healthy, 0.95), (unwatched, 0.85)):
            monitor(make_decision(place, confidence=confidence))
    assert [monitor.state for monitor in (watched, healthy, unwatched)] == ["alarm", "ok", "ok"]
    assert figure(watched.status, "confidence").live == pytest.approx(0.85)
    assert figure(watched.status, "confidence").expected == pytest.approx(0.95)
    assert unwatched.status.confidence == pytest.approx(0.85)


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize(("error", "state"), [(0.02, "ok"), (0.06, "alarm")])
@pytest.mark.parametrize("certified", [False, True])
def test_labels_that_arrive_later(error: float, state: str, certified: bool) -> None:
    """The error among the accepted is compared with the certificate, else with the expected one; better is never drift."""
    guarantee = certificate(0.03) if certified else None
    for found, wanted in ((error, state), (0.0, "ok")):
        monitor = DriftMonitor(manifest_of([1100, 400, 300, 200], wrong=45, certificate=guarantee))
        rng = np.random.default_rng(12)
        for wrong in rng.random(3000) < found:
            monitor.feedback(make_decision(0), "ham" if wrong else "spam")
        status = monitor.status
        shown = figure(status, "error")
        assert monitor.state == shown.state == wanted
        assert status.labelled == shown.items == 3000
        assert (shown.expected, shown.rows, shown.low) == ((0.03, 1500, 0.0) if certified else (0.025, 1800, 0.0))
        assert (shown.live or 0.0) > shown.high if wanted == "alarm" else (shown.live or 0.0) <= shown.high


@pytest.mark.uncounted
def test_an_error_within_the_certificate_is_no_alarm() -> None:
    """At just the guaranteed error, with no allowance beyond it, alarms in 100 streams stay under the rate."""
    rng = np.random.default_rng(13)
    guaranteed = manifest_of([1100, 400, 300, 200], certificate=certificate(0.03))
    monitors = [DriftMonitor(guaranteed, false_alarm_rate=0.05) for _ in range(100)]
    assert sum(feed_counts(monitor, rng, (0.97, 0.03), 5000, stream=1) < math.inf for monitor in monitors) <= 5


def test_which_labels_count() -> None:
    """Accepted decisions and bare labels count; rejected and degraded ones do not; 1 and "1" are the same label."""
    monitor = DriftMonitor(SAMPLE)
    for decision, truth in (
        (make_decision(0), "spam"),
        (make_decision(0), "ham"),
        ("spam", "spam"),
        (1, "1"),
        (1, np.float64(1.0)),
        (2, 1),
        (None, "spam"),
        (make_decision(STAGES), "spam"),
        (make_decision(0)._replace(degraded=True), "spam"),
    ):
        monitor.feedback(decision, truth)
    assert monitor._detector.streams[1].totals == [4, 2]
    for nothing in (None, math.nan, np.float32("nan"), Decimal("NaN")):
        with pytest.raises(InputError, match="truth: expected the true label, got"):
            monitor.feedback(make_decision(0), nothing)


def test_a_truth_that_is_not_a_label(caplog: pytest.LogCaptureFixture) -> None:
    """It counts as wrong, since no answer could be right; a misspelt label is found in the log, once."""
    monitor = DriftMonitor(SAMPLE)
    monitor.feedback(make_decision(0), np.str_("ham"))
    for _ in range(2):
        monitor.feedback(make_decision(0), "Spam")
    assert monitor._detector.streams[1].totals == [0, 3]
    lines = [record.getMessage() for record in caplog.records if "not a label of the bundle" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("truth 'Spam' is not a label of the bundle, which has ham, spam: it counts as wrong")


def test_labels_out_of_a_table() -> None:
    """pandas' missing values mean a rejected item, or no truth; numbers too long to print are other labels; no arrays."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    monitor = DriftMonitor(SAMPLE)
    for gap in (pd.NA, pd.NaT, math.nan):
        monitor.feedback(gap, "spam")
        with pytest.raises(InputError, match="truth: expected the true label, got"):
            monitor.feedback(make_decision(0), gap)
    assert monitor.status.labelled == 0
    for decision, truth in (
        (make_decision(0), 10**5000),
        (1, 10**5000),
        (1, -(10**5000)),
        (10**5000, "spam"),
        (10**5000, 10**5000),
    ):
        monitor.feedback(decision, truth)
    assert monitor._detector.streams[1].totals == [1, 4]
    for truth in (np.array(["ham", "spam"]), pd.Series(["ham", "spam"])):
        with pytest.raises(InputError, match="truth: expected one label, text or a whole number, got"):
            monitor.feedback(make_decision(0), truth)


def test_following_another_bundle_by_hand() -> None:
    """`follow` starts over with the new figures and the whole of the rates; the expected confidence goes with its bundle."""
    changes: list[DriftStatus] = []
    expected = ExpectedConfidence(0.95, 1000)
    monitor = DriftMonitor(SAMPLE, confidence=expected, on_change=changes.append)
    other = manifest_of([600, 250, 100, 50]).model_copy(update={"id": "f" * 64})
    assert "confidence" in {one.name for one in monitor.reading.figures}
    monitor(make_decision(0))
    monitor.follow(other)
    assert (monitor.status.items, monitor.status.reloads, monitor.status.bundle, changes) == (0, 1, other.id, [])
    assert "confidence" not in {one.name for one in monitor.reading.figures}
    monitor(make_decision(0, bundle=other.id))
    monitor(make_decision(0))
    reading = monitor.reading
    assert (reading.items, reading.foreign, reading.name, reading.bundle) == (1, 1, other.name, other.id)
    monitor.follow(SAMPLE, confidence=expected)
    assert "confidence" in {one.name for one in monitor.reading.figures}
    assert pickle.loads(pickle.dumps(monitor)).manifest == SAMPLE


# ---------------------------------------------------------------- in a service


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"false_alarm_rate": 0}, "false_alarm_rate: expected a number above 0 and below 1, got 0"),
        ({"false_alarm_rate": True}, "false_alarm_rate: expected a number"),
        ({"warning_rate": 0.001}, "warning_rate: expected a number from false_alarm_rate, 0.01, to below 1, got 0.001"),
        ({"warning_rate": 1.0}, "warning_rate: expected a number"),
        ({"on_change": 3}, "on_change: expected a function of a DriftStatus, got 3"),
        ({"restart_every": 0}, "restart_every: expected a whole number of at least 1, got 0"),
        ({"confidence": 0.9}, r"confidence: expected an ExpectedConfidence\(mean, rows\), got 0.9"),
        ({"confidence": (1.5, 10)}, "confidence: expected a mean from 0 to 1, got 1.5"),
        ({"confidence": (0.9, 0)}, "confidence, rows: expected a whole number of at least 1, got 0"),
        ({"confidence": (0.4, 10)}, "expected a mean from 0.5 to 1, since there are 2 labels, got 0.4"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    """Each is named, with the value got and what was expected."""
    with pytest.raises(InputError, match=message):
        DriftMonitor(SAMPLE, **arguments)


def test_a_manifest_is_expected() -> None:
    """A bundle is not one, and the message says where to find it."""
    with pytest.raises(TypeError, match=r"manifest: expected a Manifest, got Bundle; pass the \.manifest of a bundle"):
        DriftMonitor(sample_bundle())  # type: ignore[arg-type]


def test_a_pickled_copy_starts_over() -> None:
    """Settings are pickled, counts are not."""
    monitor = DriftMonitor(SAMPLE, false_alarm_rate=0.02, restart_every=77)
    monitor(make_decision(0))
    copy = pickle.loads(pickle.dumps(monitor))
    assert copy._settings == monitor._settings
    assert (copy.status.items, monitor.status.items) == (0, 1)


def _count_in_child(monitor: DriftMonitor, answers: Any) -> None:
    monitor(make_decision(0))
    answers.put(monitor.status.items)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_a_forked_child_starts_over() -> None:
    """It counts from 0, even if another thread held the lock at the fork."""
    monitor = DriftMonitor(SAMPLE)
    monitor(make_decision(0))
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with monitor._lock:
        child = context.Process(target=_count_in_child, args=(monitor, answers))
        child.start()
    assert answers.get(timeout=60) == 1
    child.join()
    assert monitor.status.items == 1


def test_threads() -> None:
    """Four threads at once: no item is lost."""
    monitor = DriftMonitor(manifest_of([1100, 400, 300, 200]))

    def work() -> None:
        for place in (0, 0, 1, 2, 3) * 400:
            monitor(make_decision(place))
            monitor.feedback(make_decision(0), "spam")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = monitor.status
    assert (status.items, status.labelled) == (8000, 8000)
    assert monitor._detector.streams[0].totals[:4] == [3200, 1600, 1600, 1600]
