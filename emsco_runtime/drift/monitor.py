"""`DriftMonitor`: does the cascade still do what its manifest expects? An observer, with an answer at any time.

The manifest holds what the cascade did on held-out rows, as counts. The monitor compares with them the share of items that leave
at each stage, the share rejected, the mean cost, on request the mean confidence, and, where true labels arrive later, the error
among the accepted. A figure that moved makes the state "warning", then "alarm". In a healthy stream that ever happens with a
chance of at most `warning_rate` and `false_alarm_rate`, however long the stream and however often one looks;
`emsco_runtime.drift.evidence` has the method and its proof, ``docs/drift.md`` what to do about an alarm.

What the expected figures are about is the whole cascade on sound values. An item that a budget, a deadline or a failure cut
short, or that went on with a fallback value, would have ended in a way that nobody knows. It counts as unknown: for a rise each
figure takes the least, for a fall the most that the item could have added. So whatever cuts items short, it can hide drift but
not feign it.

Where a `ReloadingCascade` replaces the bundle that a monitor is about, the monitor starts over with the figures of the new one.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision, Label
from emsco_runtime.drift.evidence import FULL_STREAM_PENALTY, Window, WindowedTotals
from emsco_runtime.drift.figures import (
    ExpectedConfidence,
    Figure,
    check_expected_confidence,
    decision_figures,
    label_figures,
    weighted_sum,
)
from emsco_runtime.errors import InputError
from emsco_runtime.support.arguments import check_count
from emsco_runtime.support.fork import fork_hooks
from emsco_runtime.support.formatting import format_value, format_with_type
from emsco_runtime.support.missing_values import is_missing

__all__ = [
    "DriftMonitor",
    "DriftReading",
    "DriftState",
    "DriftStatus",
    "ExpectedConfidence",
    "FigureReading",
    "FigureStatus",
    "Finding",
    "Outside",
]

DriftState: TypeAlias = Literal["ok", "warning", "alarm"]

_log = logging.getLogger("emsco_runtime.drift")
_LEVELS: dict[DriftState, int] = {"ok": 0, "warning": 1, "alarm": 2}
# Labels that are whole numbers have at most 16 digits (`manifest.Label`).
_LONGEST_LABEL = 10**16


@dataclass(frozen=True, slots=True)
class Finding:
    """The part of the stream that speaks most strongly of drift.

    Parameters
    ----------
    first, last
        Its first and its last item, counted from 1.
    live
        The figure over it; the end of its range that lies nearer to the expected one, where items were cut short.
    p_value
        The chance that a healthy stream ever speaks so strongly, all figures and looks allowed for.
    """

    first: int
    last: int
    live: float
    p_value: float


@dataclass(frozen=True, slots=True)
class FigureStatus:
    """One figure, over all items so far.

    Parameters
    ----------
    name
        "exit_1", "exit_2", ..., "reject", "cost", "confidence" or "error".
    state
        "ok", "warning" or "alarm": the worst since the beginning.
    expected
        The manifest's figure; for "error" under a certificate, its `max_error`.
    rows
        How many rows that was counted on.
    items
        How many items were counted.
    live
        Mean over the items whose value is known; None where there are none.
    least, most
        The mean over all items lies between these, whatever the items that were cut short would have done.
    low, high
        Limits at this number of items: `least` above `high`, or `most` below `low`, is an alarm. A later part of the stream can
        raise one too: see `finding`.
    finding
        The strongest sign of drift so far, kept as it was at the alarm; None while there is none.
    """

    name: str
    state: DriftState
    expected: float
    rows: int
    items: int
    live: float | None
    least: float
    most: float
    low: float
    high: float
    finding: Finding | None


@dataclass(frozen=True, slots=True)
class Outside:
    """How many decisions the expected figures are not about, by what happened to them.

    Parameters
    ----------
    budget, deadline, acquisition_failed
        Rejected for this reason.
    degraded
        Went on with a fallback value, however they ended.
    foreign
        Made by another bundle: not counted at all.
    """

    budget: int
    deadline: int
    acquisition_failed: int
    degraded: int
    foreign: int


@dataclass(frozen=True, slots=True)
class DriftStatus:
    """What a monitor has seen.

    Parameters
    ----------
    state
        The worst of the figures' states.
    items
        Decisions counted.
    labelled
        True labels counted.
    figures
        One entry per figure.
    outside
        Decisions that the expected figures are not about.
    billed
        Mean cost as billed: below the figure "cost" where values were known or cached, or items were cut short. None without
        items.
    confidence
        Mean confidence of the items that were not cut short; None where there are none.
    bundle
        The id of the bundle whose decisions are counted.
    reloads
        How often the monitor has started over because that bundle was replaced; all other numbers are since the last time.
    """

    state: DriftState
    items: int
    labelled: int
    figures: tuple[FigureStatus, ...]
    outside: Outside
    billed: float | None
    confidence: float | None
    bundle: str
    reloads: int

    @property
    def level(self) -> int:
        """Return the state as a number for a metric: 0 ok, 1 warning, 2 alarm."""
        return _LEVELS[self.state]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, with the state as a number too; figures by name, each likewise."""
        figures = {
            figure.name: {**asdict(figure), "level": _LEVELS[figure.state], "p_value": _p_value(figure.finding)}
            for figure in self.figures
        }
        return {**asdict(self), "level": self.level, "figures": figures}

    def __str__(self) -> str:
        """Return one line: the state, and each figure that is not ok."""
        moved = [
            f"{figure.name} {figure.finding.live:.4g} in items {figure.finding.first} to {figure.finding.last},"
            f" {figure.expected:.4g} expected (p = {figure.finding.p_value:.2g})"
            for figure in self.figures
            if figure.state != "ok" and figure.finding is not None
        ]
        return "; ".join([f"drift: {self.state} after {self.items} items", *moved])


class FigureReading(NamedTuple):
    """One figure in short.

    Parameters
    ----------
    name, expected, live
        As in `FigureStatus`.
    level
        The state as a number: 0 ok, 1 warning, 2 alarm.
    """

    name: str
    level: int
    expected: float
    live: float | None


class DriftReading(NamedTuple):
    """What a metric shows of a monitor: quick to get, unlike a `DriftStatus`, since the limits are left out.

    Parameters
    ----------
    level
        The worst of the figures' levels.
    items, labelled
        As in `DriftStatus`.
    figures
        One entry per figure.
    foreign
        As in `Outside`.
    name, bundle
        The name and the id of the bundle whose decisions are counted.
    """

    level: int
    items: int
    labelled: int
    figures: tuple[FigureReading, ...]
    foreign: int
    name: str
    bundle: str


class _Settings(NamedTuple):
    """All that another process needs to make a monitor that begins anew."""

    manifest: Manifest
    false_alarm_rate: float
    warning_rate: float
    on_change: Callable[[DriftStatus], object] | None
    confidence: ExpectedConfidence | None
    restart_every: int


class _ExpectedBehavior(NamedTuple):
    """What a bundle is expected to do."""

    name: str
    id: str
    figures: tuple[tuple[Figure, ...], tuple[Figure, ...]]
    stages: int
    floor: float

    @classmethod
    def of(cls, manifest: Manifest, confidence: ExpectedConfidence | None) -> _ExpectedBehavior:
        """Work out the figures of a manifest: of decisions, and of labels."""
        decisions = decision_figures(manifest, confidence)
        # The error has as large a part of the rates as the reject rate.
        labels = label_figures(manifest, 3 if len(decisions) > 1 else 2)
        return cls(manifest.name, manifest.id, (decisions, labels), len(manifest.stages), 1.0 / len(manifest.labels))


class _Snapshot(NamedTuple):
    """What a status is made from: copied under the lock, worked on outside it."""

    expected: _ExpectedBehavior
    reloads: int
    state: DriftState
    totals: tuple[list[float], list[float]]
    items: tuple[int, int]
    findings: tuple[Finding | None, ...]
    outside: Outside
    billed: float


class DriftMonitor:
    """Compares decisions with what the manifest expects; call it with each, as an observer of a `Cascade`.

    Thread-safe and picklable. Each process counts for itself: a copy in another process, and a forked child, begins anew. A
    change of the state is logged.

    Parameters
    ----------
    manifest
        Of the bundle that decides; decisions of other bundles are not counted. Where a `ReloadingCascade` replaces this bundle,
        the monitor starts over with the new one; where your own code does, call `follow`.
    false_alarm_rate
        The chance that a healthy stream ever raises an alarm, at most. It allows for the expected figures being estimates. One
        third of it is for the reject rate, one for the error, one shared by the other figures.
    warning_rate
        The same for warnings.
    on_change
        Called with the status at each change of the state, in the thread that brought it, outside the lock. What it raises goes
        to the caller: a cascade counts and logs it as it does for every observer.
    confidence
        The mean confidence to compare with; None: it is reported, but raises nothing. It is about this one bundle: it is dropped
        when another one is followed.
    restart_every
        After so many items, and again and again, a stretch of the stream is watched that knows nothing of what came before: a
        change is found soon even after a long healthy time.

    Raises
    ------
    InputError
        If a rate, a count or the expected confidence is none.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> bundle = sample_bundle()
    >>> monitor = DriftMonitor(bundle.manifest)
    >>> cascade = Cascade(bundle, observers=[monitor])
    >>> decision = cascade.decide({"size": 2.0, "links": 1.0, "reputation": 0.5})
    >>> monitor.feedback(decision, "spam")
    >>> monitor.state, monitor.status.items, [figure.name for figure in monitor.status.figures]
    ('ok', 1, ['reject', 'exit_1', 'exit_2', 'exit_3', 'cost', 'error'])
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        false_alarm_rate: float = 0.01,
        warning_rate: float = 0.1,
        on_change: Callable[[DriftStatus], object] | None = None,
        confidence: ExpectedConfidence | None = None,
        restart_every: int = 1000,
    ) -> None:
        if not isinstance(manifest, Manifest):
            raise TypeError(f"a Manifest is due, got {type(manifest).__name__}; a bundle and a cascade have one as .manifest")
        if not _is_rate(false_alarm_rate):
            raise InputError(f"false_alarm_rate: a number above 0 and below 1 is due, got {false_alarm_rate!r}")
        if not _is_rate(warning_rate) or warning_rate < false_alarm_rate:
            detail = f"a number from false_alarm_rate, {false_alarm_rate!r}, to below 1 is due, got {warning_rate!r}"
            raise InputError(f"warning_rate: {detail}")
        if on_change is not None and not callable(on_change):
            raise InputError(f"on_change: something that can be called with a DriftStatus is due, got {on_change!r}")
        check_count("restart_every", restart_every)
        expected = None if confidence is None else check_expected_confidence(confidence)
        self._settings = _Settings(manifest, false_alarm_rate, warning_rate, on_change, expected, restart_every)
        self._set_up()

    def _set_up(self) -> None:
        self._reloads = 0
        self.reset_after_fork()
        fork_hooks.register(self)

    def reset_after_fork(self) -> None:
        """Begin to count, with a new lock: in a forked child, a thread that held the old one is no more."""
        self._lock = threading.Lock()
        self._load_expected()

    def _load_expected(self) -> None:
        """Work out what is expected of the bundle, and begin to count; the caller holds the lock."""
        self._expected = _ExpectedBehavior.of(self._settings.manifest, self._settings.confidence)
        self._reset_counts()

    def _reset_counts(self) -> None:
        every = self._settings.restart_every
        self._streams = WindowedTotals(2 * self._expected.stages + 3, every), WindowedTotals(2, every)
        self._findings: dict[str, Finding] = {}
        self._state: DriftState = "ok"
        self._billed = 0.0
        self._outside = {"budget": 0, "deadline": 0, "acquisition_failed": 0, "degraded": 0, "foreign": 0}

    def __getstate__(self) -> _Settings:
        """Return the settings; the counts stay in this process."""
        return self._settings

    def __setstate__(self, settings: _Settings) -> None:
        """Begin anew."""
        self._settings = settings
        self._set_up()

    def __call__(self, decision: Decision) -> None:
        """Count a decision."""
        with self._lock:
            self._count(decision)
            changed = self._run_due_tests(0)
        self._log_change(changed)

    def feedback(self, decision: Decision | Label | None, truth: object) -> None:
        """Count a true label that has become known; of interest are accepted decisions, others pass without effect.

        Parameters
        ----------
        decision
            The decision, or just its label where nothing else was kept; None (or NaN, or pandas' NA) for one that was rejected.
            Where bundles are replaced, hand in the decision: a label does not tell which bundle gave it.
        truth
            The true label. It is compared as it is and as text, so 1 and "1" are the same.

        Raises
        ------
        InputError
            If the truth is None, NaN or NA, or nothing that can be compared with a label.
        """
        if is_missing(truth):
            raise _truth_error(truth)
        label = decision.label if isinstance(decision, Decision) else decision
        if is_missing(label):
            return
        right = _labels_match(label, truth)
        with self._lock:
            if isinstance(decision, Decision) and (decision.degraded or decision.bundle != self._expected.id):
                return
            stream = self._streams[1]
            stream.items += 1
            stream.totals[0 if right else 1] += 1.0
            changed = self._run_due_tests(1)
        self._log_change(changed)

    def follow(self, manifest: Manifest, *, confidence: ExpectedConfidence | None = None) -> None:
        """Start over with another bundle: its expected figures, no counts, the whole of the rates.

        Decisions of the bundle before it, of which some may still be under way, are not counted any more. A state that was not
        "ok" is so now, and `on_change` is called. A `ReloadingCascade` does this by itself.

        Parameters
        ----------
        manifest
            Of the bundle that decides from now on.
        confidence
            The mean confidence to compare with, as in `DriftMonitor`.
        """
        self._follow(manifest, None if confidence is None else check_expected_confidence(confidence), None)

    def on_reload(self, before: Manifest, after: Manifest) -> None:
        """Follow the bundle of a `ReloadingCascade`, if it was this monitor's."""
        self._follow(after, None, before.id)

    def _follow(self, manifest: Manifest, confidence: ExpectedConfidence | None, replaced: str | None) -> None:
        """Start over; if a replaced bundle is named, only where that is the one that is followed."""
        with self._lock:
            before = self._snapshot()
            if replaced is not None and replaced != before.expected.id:
                return
            self._settings = self._settings._replace(manifest=manifest, confidence=confidence)
            self._reloads += 1
            self._load_expected()
            after = self._snapshot()
        ids = manifest.id[:12], before.expected.id[:12]
        _log.info("bundle %s takes the place of %s: starting over, it was %s after %d items", *ids, before.state, before.items[0])
        if before.state != after.state:
            self._notify(after)

    def reset(self) -> None:
        """Forget everything and begin anew, with the whole of the rates: after a change that was understood."""
        with self._lock:
            self._reset_counts()

    @property
    def manifest(self) -> Manifest:
        """Return the manifest that decisions are compared with."""
        return self._settings.manifest

    @property
    def state(self) -> DriftState:
        """Return the state alone; it costs nothing, whereas `status` takes some hundredths of a second."""
        return self._state

    @property
    def status(self) -> DriftStatus:
        """Return the state with all its numbers."""
        with self._lock:
            snapshot = self._snapshot()
        return self._status(snapshot)

    @property
    def reading(self) -> DriftReading:
        """Return the states and means in short, in some microseconds."""
        with self._lock:
            snapshot = self._snapshot()
        findings = iter(snapshot.findings)
        expected = snapshot.expected
        figures = tuple(
            FigureReading(
                figure.name,
                _LEVELS[self._state_of(next(findings))],
                figure.to_user_unit(figure.expected),
                _known_mean(figure, totals),
            )
            for watched, totals in zip(expected.figures, snapshot.totals, strict=True)
            for figure in watched
        )
        return DriftReading(
            _LEVELS[snapshot.state], *snapshot.items, figures, snapshot.outside.foreign, expected.name, expected.id
        )

    def _count(self, decision: Decision) -> None:
        expected = self._expected
        if decision.bundle != expected.id:
            self._outside["foreign"] += 1
            return
        stream, stages, reason = self._streams[0], expected.stages, decision.reason
        stream.items += 1
        self._billed += decision.cost
        if decision.degraded:
            self._outside["degraded"] += 1
            place = stages + next((record.stage for record in decision.trace if record.defaulted), 1)
        elif reason == "confident":
            place = decision.stages - 1
        elif reason == "inconclusive":
            place = stages
        else:
            place = stages + 1 + decision.stages
        if reason in self._outside:
            self._outside[reason] += 1
        stream.totals[place] += 1.0
        if place <= stages and decision.confidence is not None:
            scaled_confidence = (decision.confidence - expected.floor) / (1.0 - expected.floor)
            stream.totals[-2] += scaled_confidence
            stream.totals[-1] += scaled_confidence
        else:
            stream.totals[-1] += 1.0

    def _run_due_tests(self, stream_index: int) -> _Snapshot | None:
        """Look at the stretches that are due; return a picture if the state has changed."""
        stream = self._streams[stream_index]
        if stream.items < stream.next_check:
            return None
        for window, items, totals in stream.due_windows():
            for figure in self._expected.figures[stream_index]:
                self._test_figure(figure, window, items, totals)
        states = [self._state_of(finding) for finding in self._findings.values()]
        state = max(states, key=_LEVELS.__getitem__) if states else "ok"
        if state == self._state:
            return None
        self._state = state
        return self._snapshot()

    def _test_figure(self, figure: Figure, window: Window, items: int, totals: Sequence[float]) -> None:
        strongest = self._findings.get(figure.name)
        if strongest is not None and strongest.p_value <= self._settings.false_alarm_rate:
            return  # the numbers of the alarm are kept
        least, most = figure.sum_range(totals, items)
        if least > figure.expected * items:
            test, amount, mean = figure.increase_test, least, least / items
        elif most < figure.expected * items and figure.decrease_test is not None:
            test, amount, mean = figure.decrease_test, items - most, most / items
        else:
            return
        penalty = figure.penalty + window.penalty
        required = penalty - math.log(_p_value(strongest))
        if test.upper_bound(amount, items) <= required:
            return
        evidence, _ = test.evidence(amount, items)
        if evidence > required:
            last = window.start + items
            found = Finding(window.start + 1, last, figure.to_user_unit(mean), math.exp(penalty - evidence))
            self._findings[figure.name] = found

    def _state_of(self, finding: Finding | None) -> DriftState:
        p_value = _p_value(finding)
        if p_value <= self._settings.false_alarm_rate:
            return "alarm"
        return "warning" if p_value <= self._settings.warning_rate else "ok"

    def _log_change(self, changed: _Snapshot | None) -> None:
        if changed is None:
            return
        _log.warning("%s", self._notify(changed))

    def _notify(self, changed: _Snapshot) -> DriftStatus:
        """Tell of a changed state."""
        status = self._status(changed)
        if self._settings.on_change is not None:
            self._settings.on_change(status)
        return status

    def _snapshot(self) -> _Snapshot:
        decisions, labels = self._streams
        expected = self._expected
        findings = tuple(self._findings.get(figure.name) for figures in expected.figures for figure in figures)
        totals = list(decisions.totals), list(labels.totals)
        items = decisions.items, labels.items
        outside = Outside(**self._outside)
        return _Snapshot(expected, self._reloads, self._state, totals, items, findings, outside, self._billed)

    def _status(self, snapshot: _Snapshot) -> DriftStatus:
        items, labelled = snapshot.items
        expected = snapshot.expected
        findings = iter(snapshot.findings)
        figures = tuple(
            self._figure_status(figure, totals, count, next(findings))
            for watched, totals, count in zip(expected.figures, snapshot.totals, snapshot.items, strict=True)
            for figure in watched
        )
        complete = sum(snapshot.totals[0][: expected.stages + 1])
        confidence = expected.floor + (1.0 - expected.floor) * snapshot.totals[0][-2] / complete if complete else None
        billed = snapshot.billed / items if items else None
        return DriftStatus(
            snapshot.state,
            items,
            labelled,
            figures,
            snapshot.outside,
            billed,
            confidence,
            bundle=expected.id,
            reloads=snapshot.reloads,
        )

    def _figure_status(self, figure: Figure, totals: Sequence[float], items: int, finding: Finding | None) -> FigureStatus:
        least, most = (value / items for value in figure.sum_range(totals, items)) if items else (0.0, 1.0)
        low, high = self._limits(figure, items)
        return FigureStatus(
            figure.name,
            self._state_of(finding),
            figure.to_user_unit(figure.expected),
            figure.rows,
            items,
            _known_mean(figure, totals),
            figure.to_user_unit(least),
            figure.to_user_unit(most),
            figure.to_user_unit(low),
            figure.to_user_unit(high),
            finding,
        )

    def _limits(self, figure: Figure, items: int) -> tuple[float, float]:
        """Return the means, over all items so far, beyond which there is an alarm."""
        if not items:
            return 0.0, 1.0
        target = figure.penalty + FULL_STREAM_PENALTY - math.log(self._settings.false_alarm_rate)
        highest = figure.increase_test.critical_total(target, items)
        lowest = None if figure.decrease_test is None else figure.decrease_test.critical_total(target, items)
        return 0.0 if lowest is None else 1.0 - lowest / items, 1.0 if highest is None else highest / items


def _known_mean(figure: Figure, totals: Sequence[float]) -> float | None:
    """Return the mean over the items whose value is known."""
    known = weighted_sum(figure.sums.known_count, totals)
    return figure.to_user_unit(weighted_sum(figure.sums.known_sum, totals) / known) if known else None


def _labels_match(label: object, truth: object) -> bool:
    try:
        gap, same = bool(truth != truth), bool(label == truth)  # noqa: PLR0124 - NaN of any type differs from itself
    except Exception as error:
        # An array, for one, has no single answer.
        raise InputError(f"truth: expected one label, text or a whole number, got {format_with_type(truth)}") from error
    if gap:
        raise _truth_error(truth)
    return same or _to_text(label) == _to_text(truth)


def _truth_error(truth: object) -> InputError:
    return InputError(f"truth: the true label is due, got {format_value(truth)}. Leave the call out while it is not known")


def _to_text(label: object) -> str:
    # Python refuses to write very long whole numbers in digits; no label is one of them.
    return hex(label) if isinstance(label, int) and abs(label) > _LONGEST_LABEL else str(label)


def _p_value(finding: Finding | None) -> float:
    return 1.0 if finding is None else finding.p_value


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1
