"""What `emsco-profile` prints: the prices of features and groups, and what to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.cli.console import format_number, format_table
from emsco_train.costs.profiling import Profile, TimeUnit
from emsco_train.costs.profiling.cost_profile import convert_seconds
from emsco_train.costs.profiling.timings import Spread

__all__ = ["format_profile"]


def format_profile(measured: Profile, items: int, out: Path, unit: TimeUnit) -> list[str]:
    """Return the lines about a profile of some of `items` items, written to a costs file."""
    costs = measured.cost_model(unit)
    cells = [
        [
            name,
            call.group or "-",
            *_format_spread(call.own, unit),
            format_number(convert_seconds(call.first.value, unit)),
            str(call.calls),
            str(call.failures),
        ]
        for name, call in measured.prices()
    ]
    calls = f"{measured.items:,} of {pluralize(items, 'item')}, {pluralize(measured.repeats, 'repeat')}"
    lines = [
        f"measured  {calls}; prices in {costs.unit}",
        "",
        format_table(["feature", "group", "price", "quartile 1", "quartile 3", "on a fresh item", "calls", "failed"], cells),
        "",
    ]
    if measured.groups:
        shared = [[group.name, *_format_spread(group.shared, unit), ", ".join(group.features)] for group in measured.groups]
        lines += [format_table(["group", "price", "quartile 1", "quartile 3", "features"], shared), ""]
    together = measured.together
    compared = "" if together is None else f"; measured together: {format_number(convert_seconds(together.value, unit))}"
    path = shlex.quote(str(out))
    return [
        *lines,
        f"total     all features: {format_number(costs.meter().cost(costs.features))} {costs.unit}{compared}",
        *(f"caution   {text}" for text in measured.cautions),
        f"written   {path}",
        f"next      emsco-train --data TABLE --label COL --costs {path} --threshold P --out RUN",
    ]


def _format_spread(spread: Spread, unit: TimeUnit) -> list[str]:
    return [format_number(convert_seconds(seconds, unit)) for seconds in (spread.value, spread.low, spread.high)]
