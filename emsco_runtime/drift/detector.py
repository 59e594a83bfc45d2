"""`DriftDetector`: what a drift monitor counts of one bundle, and the evidence that it has found; without locks and callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision
from emsco_runtime.drift.evidence import Window, WindowedTotals
from emsco_runtime.drift.figures import ExpectedConfidence, Figure, decision_figures, label_figures
from emsco_runtime.drift.status import (
    LEVELS,
    DriftReading,
    DriftState,
    DriftStatus,
    FigureReading,
    FigureStatus,
    Finding,
    Outside,
)

__all__ = ["DriftDetector", "DriftSettings"]


class DriftSettings(NamedTuple):
    """The arguments of a `DriftMonitor`."""

    manifest: Manifest
    false_alarm_rate: float
    warning_rate: float
    on_change: Callable[[DriftStatus], object] | None
    confidence: ExpectedConfidence | None
    restart_every: int


class DriftDetector:
    """The counts of one bundle since the monitor started, or started over for the `reloads`-th time."""

    def __init__(self, settings: DriftSettings, reloads: int) -> None:
        self._settings = settings
        manifest, every = settings.manifest, settings.restart_every
        self.bundle = manifest.id
        self.reloads = reloads
        decisions = decision_figures(manifest, settings.confidence)
        # The error has as large a part of the rates as the reject rate.
        self._figures = decisions, label_figures(manifest, 3 if len(decisions) > 1 else 2)
        self._stages = len(manifest.stages)
        # The most probable label has at least this confidence.
        self._confidence_floor = 1.0 / len(manifest.labels)
        # Of decisions and of labels; `decision_figures` and `label_figures` say what the totals are.
        self.streams = WindowedTotals(2 * self._stages + 3, every), WindowedTotals(2, every)
        self._figure_streams = [(figure, stream) for i, stream in enumerate(self.streams) for figure in self._figures[i]]
        self.state: DriftState = "ok"
        self._findings: dict[str, Finding] = {}
        self._billed = 0.0
        self._outside = {"budget": 0, "deadline": 0, "acquisition_failed": 0, "degraded": 0, "foreign": 0}

    def add_decision(self, decision: Decision) -> None:
        """Count a decision."""
        if decision.bundle != self.bundle:
            self._outside["foreign"] += 1
            return
        stream, stages, reason = self.streams[0], self._stages, decision.reason
        stream.items += 1
        self._billed += decision.cost
        if decision.degraded:
            self._outside["degraded"] += 1
            index = stages + next((record.stage for record in decision.trace if record.defaulted), 1)
        elif reason == "confident":
            index = decision.stages - 1
        elif reason == "inconclusive":
            index = stages
        else:
            index = stages + 1 + decision.stages
        if reason in self._outside:
            self._outside[reason] += 1
        stream.totals[index] += 1.0
        if index <= stages and decision.confidence is not None:
            floor = self._confidence_floor
            scaled_confidence = (decision.confidence - floor) / (1.0 - floor)
            stream.totals[-2] += scaled_confidence
            stream.totals[-1] += scaled_confidence
        else:
            stream.totals[-1] += 1.0

    def add_label(self, *, right: bool) -> None:
        """Count the true label of an accepted decision."""
        stream = self.streams[1]
        stream.items += 1
        stream.totals[0 if right else 1] += 1.0

    def run_due_tests(self, stream_index: int) -> DriftStatus | None:
        """Test the windows that are due; return the status without limits if the state has changed."""
        stream = self.streams[stream_index]
        if stream.items < stream.next_check:
            return None
        for window, items, totals in stream.due_windows():
            for figure in self._figures[stream_index]:
                self._test_figure(figure, window, items, totals)
        states = [self._state_of(finding) for finding in self._findings.values()]
        state = max(states, key=LEVELS.__getitem__) if states else "ok"
        if state == self.state:
            return None
        self.state = state
        return self.status()

    def _test_figure(self, figure: Figure, window: Window, items: int, totals: Sequence[float]) -> None:
        strongest = self._findings.get(figure.name)
        p_value = 1.0 if strongest is None else strongest.p_value
        if p_value <= self._settings.false_alarm_rate:
            return  # the numbers of the alarm are kept
        least, most = figure.sum_range(totals, items)
        if least > figure.expected * items:
            test, amount, mean = figure.increase_test, least, least / items
        elif most < figure.expected * items and figure.decrease_test is not None:
            test, amount, mean = figure.decrease_test, items - most, most / items
        else:
            return
        penalty = figure.penalty + window.penalty
        required = penalty - math.log(p_value)
        if test.upper_bound(amount, items) <= required:
            return
        evidence, _ = test.evidence(amount, items)
        if evidence > required:
            last = window.start + items
            found = Finding(window.start + 1, last, figure.to_user_unit(mean), math.exp(penalty - evidence))
            self._findings[figure.name] = found

    def _state_of(self, finding: Finding | None) -> DriftState:
        if finding is None or finding.p_value > self._settings.warning_rate:
            return "ok"
        return "alarm" if finding.p_value <= self._settings.false_alarm_rate else "warning"

    def reading(self) -> DriftReading:
        """Return the numbers that a metric shows, in some microseconds."""
        (decisions, labels), manifest = self.streams, self._settings.manifest
        figures = tuple(
            FigureReading(
                figure.name,
                LEVELS[self._state_of(self._findings.get(figure.name))],
                figure.to_user_unit(figure.expected),
                figure.known_mean(stream.totals),
            )
            for figure, stream in self._figure_streams
        )
        foreign = self._outside["foreign"]
        return DriftReading(LEVELS[self.state], decisions.items, labels.items, figures, foreign, manifest.name, self.bundle)

    def status(self) -> DriftStatus:
        """Return the status without its limits."""
        reading, totals, floor = self.reading(), self.streams[0].totals, self._confidence_floor
        complete = sum(totals[: self._stages + 1])
        figures = []
        for (figure, stream), one in zip(self._figure_streams, reading.figures, strict=True):
            items, finding = stream.items, self._findings.get(figure.name)
            least, most = (value / items for value in figure.sum_range(stream.totals, items)) if items else (0.0, 1.0)
            state, unit = self._state_of(finding), figure.to_user_unit
            counted = one.name, state, one.expected, figure.rows, items, one.live, unit(least), unit(most)
            figures.append(FigureStatus(*counted, low=unit(0.0), high=unit(1.0), finding=finding))
        return DriftStatus(
            self.state,
            reading.items,
            reading.labelled,
            tuple(figures),
            Outside(**self._outside),
            self._billed / reading.items if reading.items else None,
            floor + (1.0 - floor) * totals[-2] / complete if complete else None,
            self.bundle,
            self.reloads,
        )

    def with_limits(self, status: DriftStatus) -> DriftStatus:
        """Return a status with its limits, which take some hundredths of a second; needs no lock."""
        limited = []
        for (figure, _), one in zip(self._figure_streams, status.figures, strict=True):
            low, high = figure.limits(one.items, self._settings.false_alarm_rate)
            limited.append(replace(one, low=low, high=high))
        return replace(status, figures=tuple(limited))
