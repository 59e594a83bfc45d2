"""`Profile`: what acquirers cost, as figures, as a cost model, and as a costs file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

import emsco_runtime
from emsco_runtime.bundle.summary import pluralize
from emsco_train.costs.cost_model import CostGroup, CostModel
from emsco_train.costs.costs_file import CostComments
from emsco_train.costs.profiling.clock import ClockName
from emsco_train.costs.profiling.timings import Spread, Statistic
from emsco_train.support.text_files import write_text

__all__ = ["CallFigures", "GroupFigures", "Profile", "TimeUnit", "convert_seconds"]

TimeUnit: TypeAlias = Literal["us", "ms", "s"]

_PER_SECOND: dict[TimeUnit, float] = {"us": 1e6, "ms": 1e3, "s": 1.0}
_CLOCK_LABEL: dict[ClockName, str] = {"cpu": "CPU time", "wall": "wall time"}
_COMMENT_LEGEND = "Behind it: the quartiles over the items."
_REPEAT_LABEL: dict[ClockName, str] = {"cpu": "the least of the repeats", "wall": "the middle one of the repeats"}


@dataclass(frozen=True, slots=True)
class CallFigures:
    """The time that one acquirer takes, in seconds.

    Parameters
    ----------
    features
        The features that it returns.
    group
        Their group, or None.
    own
        Price of each feature besides its group; 0 where one call returns several features, since the group has its price.
    first
        What the call takes on a fresh item.
    calls, failures
        How many were made, without the warm-up, and how many failed.
    error
        Error of the first failure.
    """

    features: tuple[str, ...]
    group: str | None
    own: Spread
    first: Spread
    calls: int
    failures: int
    error: str | None

    @property
    def label(self) -> str:
        """Its features as one text; acquirers are not named by their functions, since closures share one name."""
        return ", ".join(self.features)


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The time that the shared work of a group takes, in seconds.

    Parameters
    ----------
    name, features
        The group and its members.
    shared
        Paid once per item, whichever of the features comes first.
    """

    name: str
    features: tuple[str, ...]
    shared: Spread


@dataclass(frozen=True, slots=True)
class Profile:
    """What the acquirers of a registry cost.

    Parameters
    ----------
    calls
        Figures of each acquirer, in the order of registration.
    groups
        Figures of each group.
    items, repeats
        Number of sample items, and of repeats on each.
    clock, statistic
        How it was measured.
    together
        What all calls on one item take; None if no item had all of them succeed.
    measured
        When.
    cautions
        What to know before trusting the prices, one sentence each.
    """

    calls: tuple[CallFigures, ...]
    groups: tuple[GroupFigures, ...]
    items: int
    repeats: int
    clock: ClockName
    statistic: Statistic
    together: Spread | None
    measured: datetime
    cautions: tuple[str, ...] = ()

    def prices(self) -> Iterator[tuple[str, CallFigures]]:
        """Yield each feature with the figures of its acquirer."""
        for call in self.calls:
            for name in call.features:
                yield name, call

    def cost_model(self, unit: TimeUnit = "us") -> CostModel:
        """Return the prices as a cost model, with four digits: measured times are not more exact.

        Parameters
        ----------
        unit
            What the prices count: microseconds, milliseconds or seconds of the clock.
        """
        features = {name: convert_seconds(call.own.value, unit) for name, call in self.prices()}
        groups = [CostGroup(group.name, convert_seconds(group.shared.value, unit), group.features) for group in self.groups]
        return CostModel.from_mapping(features, groups=groups, unit=f"{unit} of {_CLOCK_LABEL[self.clock]}")

    def to_toml(self, unit: TimeUnit = "us") -> str:
        """Return the text of a costs file: the prices, with date, spread and counts as comments.

        Parameters
        ----------
        unit
            As in `cost_model`.
        """
        when = f"Measured by emsco-profile {emsco_runtime.__version__} on {self.measured:%Y-%m-%d %H:%M %Z}"
        head = (
            f"{when}: {_CLOCK_LABEL[self.clock]}, {pluralize(self.items, 'item')}, {pluralize(self.repeats, 'repeat')}.",
            f"A price is the {self.statistic} over the items of {_REPEAT_LABEL[self.clock]}. {_COMMENT_LEGEND}",
        )
        features = {name: _price_comment(call, unit) for name, call in self.prices()}
        groups = {group.name: _format_quartiles(group.shared, unit) for group in self.groups}
        return self.cost_model(unit).to_toml(CostComments(head, features, groups))

    def write(self, path: str | os.PathLike[str], unit: TimeUnit = "us") -> None:
        """Write the costs file in one step: a reader sees the old one or the new one.

        Parameters
        ----------
        path
            The file; its name should end in .toml. An existing one is replaced.
        unit
            As in `cost_model`.
        """
        write_text(Path(path), self.to_toml(unit))


def convert_seconds(seconds: float, unit: TimeUnit) -> float:
    """Return seconds in a unit, with four digits.

    Examples
    --------
    >>> convert_seconds(0.0012345678, "us"), convert_seconds(0.0, "ms")
    (1235.0, 0.0)
    """
    return float(f"{seconds * _PER_SECOND[unit]:.4g}")


def _format_quartiles(spread: Spread, unit: TimeUnit) -> str:
    return f"{convert_seconds(spread.low, unit):g} to {convert_seconds(spread.high, unit):g}"


def _price_comment(call: CallFigures, unit: TimeUnit) -> str:
    failed = f", {call.failures} failed" if call.failures else ""
    spread_text = "paid by its group" if len(call.features) > 1 else _format_quartiles(call.own, unit)
    return f"{spread_text}; {pluralize(call.calls, 'call')}{failed}"
