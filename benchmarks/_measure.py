"""Measuring: alternatives take turns, so that a noisy moment hits them all, and the best round of each counts."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Measurement", "report", "time_in_turns"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """One line of the table.

    Parameters
    ----------
    what
        The thing measured.
    value
        Its figure.
    against
        What it is compared with.
    base
        The figure of that.
    unit
        Unit of both figures.
    ratio
        The comparison, as a ratio (or a difference, where the unit says so).
    target
        What the ratio has to be, as text: "<= 1.25".
    """

    what: str
    value: float
    against: str
    base: float
    unit: str
    ratio: float
    target: str

    @property
    def met(self) -> bool:
        """Return whether the ratio meets the target."""
        sign, limit = self.target.split()
        return self.ratio <= float(limit) if sign == "<=" else self.ratio >= float(limit)


def time_in_turns(alternatives: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run the works in turns and return the least seconds of each."""
    least = dict.fromkeys(alternatives, float("inf"))
    for _ in range(rounds):
        for name, work in alternatives.items():
            start = time.perf_counter()
            work()
            least[name] = min(least[name], time.perf_counter() - start)
    return least


def report(lines: Sequence[Measurement], path: str) -> None:
    """Print the table and write it as JSON."""
    header = ("what", "figure", "against", "base", "unit", "ratio", "target", "")
    rows = [
        (
            line.what,
            f"{line.value:.2f}",
            line.against,
            f"{line.base:.2f}",
            line.unit,
            f"{line.ratio:.2f}",
            line.target,
            "met" if line.met else "MISSED",
        )
        for line in lines
    ]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine, "lines": [{**asdict(line), "met": line.met} for line in lines]}
    target.write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nwritten to {path}")
