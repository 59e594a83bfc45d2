"""What a drift monitor returns: `DriftStatus` with all its numbers, and `DriftReading` with those of a metric."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["LEVELS", "DriftReading", "DriftState", "DriftStatus", "FigureReading", "FigureStatus", "Finding", "Outside"]

DriftState: TypeAlias = Literal["ok", "warning", "alarm"]

LEVELS: dict[DriftState, int] = {"ok": 0, "warning": 1, "alarm": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """The part of the stream with the strongest evidence of drift.

    Parameters
    ----------
    first, last
        Its first and its last item, counted from 1.
    live
        The mean of the figure over it; if items were cut short, the end of its range that is nearer to the expected mean.
    p_value
        The chance that a healthy stream ever shows evidence as strong, with all figures and tests taken into account.
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
        "ok", "warning" or "alarm": the worst since the start.
    expected, rows
        The manifest's figure (for "error" with a certificate, its `max_error`), and the number of rows it was measured on.
    items
        The number of items counted.
    live
        Mean over the items whose value is known; None if there are none.
    least, most
        The mean over all items is between these, however the items that were cut short would have ended.
    low, high
        Limits at this number of items: `least` above `high`, or `most` below `low`, is an alarm. A later part of the stream can
        raise one too: see `finding`.
    finding
        The strongest evidence of drift so far, kept as it was at the alarm; None if there is none.
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
    """How many decisions the expected figures do not apply to, by what happened to them.

    Parameters
    ----------
    budget, deadline, acquisition_failed
        Rejected for this reason; items that ended in an `AcquisitionError` are among those whose acquisition failed.
    degraded
        Used a fallback value, however they ended.
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
    items, labelled
        Decisions and true labels counted.
    figures
        One entry per figure.
    outside
        Decisions that the expected figures do not apply to.
    billed
        Mean cost as billed: below the figure "cost" if values were known or cached, or items were cut short. None without items.
    confidence
        Mean confidence of the items that were not cut short; None if there are none.
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
        return LEVELS[self.state]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, with the state as a number too; figures by name, in the same form."""
        figures = {
            one.name: {
                **asdict(one),
                "level": LEVELS[one.state],
                "p_value": 1.0 if one.finding is None else one.finding.p_value,
            }
            for one in self.figures
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
    """The part of a `FigureStatus` that a metric shows; `level` is its state as a number."""

    name: str
    level: int
    expected: float
    live: float | None


class DriftReading(NamedTuple):
    """The part of a `DriftStatus` that a metric shows, and the name of the bundle; fast, since it has no limits."""

    level: int
    items: int
    labelled: int
    figures: tuple[FigureReading, ...]
    foreign: int
    name: str
    bundle: str
