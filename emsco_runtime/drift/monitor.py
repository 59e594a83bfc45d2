"""`DriftMonitor`: does the cascade still do what its manifest expects? An observer that can be read at any time.

``docs/drift.md`` says which figures are compared, how items that were cut short are counted, what the states mean, and what to do
about an alarm; `emsco_runtime.drift.evidence` has the method and its proof.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision, Label
from emsco_runtime.drift.detector import DriftDetector, DriftSettings
from emsco_runtime.drift.figures import ExpectedConfidence, check_expected_confidence
from emsco_runtime.drift.status import DriftReading, DriftState, DriftStatus
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.support.arguments import check_count, is_number
from emsco_runtime.support.fork import PickledBySettings
from emsco_runtime.support.formatting import format_value, format_with_type
from emsco_runtime.support.missing_values import is_missing
from emsco_runtime.support.throttle import Throttle

__all__ = ["DriftMonitor"]

_log = logging.getLogger("emsco_runtime.drift")
# Labels that are whole numbers have at most 16 digits (`manifest.Label`).
_LONGEST_LABEL = 10**16
_LOG_EVERY_S = 60.0


class DriftMonitor(PickledBySettings[DriftSettings]):
    """Compares decisions with what the manifest expects; called with each, as an observer of a `Cascade`.

    Thread-safe and picklable. Each process counts for itself: a copy in another process, and a forked child, starts over. A
    change of the state is logged.

    Parameters
    ----------
    manifest
        Of the bundle that decides; decisions of other bundles are not counted. When a `ReloadingCascade` replaces this bundle,
        the monitor starts over with the new one; if your own code does, call `follow`.
    false_alarm_rate
        The chance that a healthy stream ever raises an alarm, at most. It allows for the expected figures being estimates. One
        third of it is for the reject rate, one for the error, one shared by the other figures.
    warning_rate
        The same for warnings.
    on_change
        Called with the status at each change of the state, in the thread that caused it, without the lock. The caller gets what
        it raises: a cascade counts and logs it as for every observer.
    confidence
        The mean confidence to compare with; None: it is reported, but raises no alarm. It belongs to this bundle, and is dropped
        when another one is followed.
    restart_every
        After every `restart_every` items, another window of the stream is opened that ignores what came before: a change is found
        soon even after a long healthy time.

    Raises
    ------
    InputError
        If a rate, a count or the expected confidence is out of range.

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
            detail = "pass the .manifest of a bundle or cascade"
            raise TypeError(f"manifest: expected a Manifest, got {type(manifest).__name__}; {detail}")
        if not is_number(false_alarm_rate, 0, 1) or false_alarm_rate in (0, 1):
            raise InputError(f"false_alarm_rate: expected a number above 0 and below 1, got {false_alarm_rate!r}")
        if not is_number(warning_rate, false_alarm_rate, 1) or warning_rate == 1:
            detail = f"expected a number from false_alarm_rate, {false_alarm_rate!r}, to below 1, got {warning_rate!r}"
            raise InputError(f"warning_rate: {detail}")
        if on_change is not None and not callable(on_change):
            raise InputError(f"on_change: expected a function of a DriftStatus, got {on_change!r}")
        check_count("restart_every", restart_every)
        expected = None if confidence is None else check_expected_confidence(confidence)
        self._settings = DriftSettings(manifest, false_alarm_rate, warning_rate, on_change, expected, restart_every)
        self._start()

    def _start(self) -> None:
        self._reloads = 0
        super()._start()

    def reset_after_fork(self) -> None:
        """Start over, with a new lock."""
        super().reset_after_fork()
        self._throttle = Throttle()
        self._detector = DriftDetector(self._settings, self._reloads)

    def __call__(self, decision: Decision) -> None:
        """Count a decision."""
        with self._lock:
            detector = self._detector
            detector.add_decision(decision)
            changed = detector.run_due_tests(0)
        if changed is not None:
            status = detector.with_limits(changed)
            _log.warning("%s", status)
            self._notify(status)

    def on_error(self, error: AcquisitionError, bundle: str) -> None:
        """Count an item that raised, as one that was rejected because of the same failure: its end is as unknown."""
        scored = sum(1 for record in error.trace if record.probabilities)
        degraded = any(record.defaulted for record in error.trace)
        billed = error.cost, 0.0, error.trace
        self(Decision("rejected", "acquisition_failed", None, None, {}, scored, *billed, degraded, (), bundle, error.key))

    def feedback(self, decision: Decision | Label | None, truth: object) -> None:
        """Count a true label that has become known, if the decision was accepted and not degraded.

        Parameters
        ----------
        decision
            The decision, or its label if nothing else was kept; None (or NaN, or pandas' NA) for one that was rejected. If
            bundles are replaced, pass the decision: a label does not show which bundle it is from.
        truth
            The true label. It is compared as it is and as text, so 1 and "1" are the same. One that the bundle does not have
            counts as wrong, since no answer could be right; the log says so, once a minute at most: it may be misspelt.

        Raises
        ------
        InputError
            If the truth is None, NaN or NA, or cannot be compared with a label.
        """
        if is_missing(truth):
            raise _truth_error(truth)
        label = decision.label if isinstance(decision, Decision) else decision
        if is_missing(label):
            return
        right = _labels_match(label, truth)
        with self._lock:
            detector = self._detector
            if isinstance(decision, Decision) and (decision.degraded or decision.bundle != detector.bundle):
                return
            detector.add_label(right=right)
            changed = detector.run_due_tests(1)
            labels = self._settings.manifest.labels
            is_label = right or any(_labels_match(one, truth) for one in labels)
            unknown = not is_label and self._throttle.allows("truth", _LOG_EVERY_S)
        if unknown:
            known = ", ".join(map(str, labels))
            _log.warning("truth %s is not a label of the bundle, which has %s: it counts as wrong", format_value(truth), known)
        if changed is not None:
            status = detector.with_limits(changed)
            _log.warning("%s", status)
            self._notify(status)

    def follow(self, manifest: Manifest, *, confidence: ExpectedConfidence | None = None) -> None:
        """Start over with another bundle: its expected figures, no counts, the whole of the rates.

        Decisions of the bundle before it that end later are not counted. A state that was not "ok" becomes "ok", and `on_change`
        is called. A `ReloadingCascade` does this by itself.

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
        """Start over; if a replaced bundle is given, only if that is the one that is followed."""
        with self._lock:
            before = self._detector
            if replaced is not None and replaced != before.bundle:
                return
            settings = self._settings._replace(manifest=manifest, confidence=confidence)
            detector = DriftDetector(settings, self._reloads + 1)
            self._settings, self._detector, self._reloads = settings, detector, detector.reloads
            status = detector.status()
        ended = before.bundle[:12], before.state, before.streams[0].items
        _log.info("bundle %s replaces %s: starting over, the state was %s after %d items", manifest.id[:12], *ended)
        if before.state != "ok":
            self._notify(detector.with_limits(status))

    def reset(self) -> None:
        """Start over with the same bundle, and with the whole of the rates: after a change that is understood."""
        with self._lock:
            self._detector = DriftDetector(self._settings, self._reloads)

    @property
    def manifest(self) -> Manifest:
        """Return the manifest that decisions are compared with."""
        return self._settings.manifest

    @property
    def state(self) -> DriftState:
        """Return only the state, at no cost; `status` takes some hundredths of a second."""
        return self._detector.state

    @property
    def status(self) -> DriftStatus:
        """Return the state with all its numbers."""
        with self._lock:
            detector = self._detector
            status = detector.status()
        return detector.with_limits(status)

    @property
    def reading(self) -> DriftReading:
        """Return the numbers of the status that a metric shows, in some microseconds."""
        with self._lock:
            return self._detector.reading()

    def _notify(self, status: DriftStatus) -> None:
        if self._settings.on_change is not None:
            self._settings.on_change(status)


def _labels_match(label: object, truth: object) -> bool:
    try:
        gap, same = bool(truth != truth), bool(label == truth)  # noqa: PLR0124 - NaN of any type differs from itself
    except Exception as error:
        # An array, for example, has no single answer.
        raise InputError(f"truth: expected one label, text or a whole number, got {format_with_type(truth)}") from error
    if gap:
        raise _truth_error(truth)
    return same or _to_text(label) == _to_text(truth)


def _truth_error(truth: object) -> InputError:
    return InputError(f"truth: expected the true label, got {format_value(truth)}. Do not call feedback until it is known")


def _to_text(label: object) -> str:
    # Python refuses to convert very long whole numbers to digits; no label is one of them.
    return hex(label) if isinstance(label, int) and abs(label) > _LONGEST_LABEL else str(label)
