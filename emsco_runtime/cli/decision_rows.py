"""Decisions of many rows as lines of CSV, and their counts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import CostSummary
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.support.arrays import Ints

__all__ = ["HEADER", "DecisionCounts", "format_decisions"]

HEADER = ("row", "status", "reason", "label", "confidence", "stages", "cost", "degraded", "error")


@dataclass(slots=True)
class DecisionCounts:
    """Counts over the rows decided so far; exits are accepted rows by stage, reasons are those of rejected rows.

    `answers` are the rows whose true label is known, by this label and the one they got, None for a rejected row.
    """

    degraded: int = 0
    costs: Counter[float] = field(default_factory=Counter)
    exits: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)

    @classmethod
    def of(cls, decisions: ColumnDecisions, truth: Sequence[str | None]) -> DecisionCounts:
        """Count some decisions, given the true labels, None where one is not known."""
        accepted = decisions.status == "accepted"
        answers: Counter[tuple[str | None, str | None]] = Counter()
        for (true, label), number in Counter(zip(truth, decisions.label.tolist(), strict=True)).items():
            if true is not None:
                answers[true, None if label is None else str(label)] += number
        return cls(
            degraded=int(decisions.degraded.sum()),
            costs=Counter(decisions.cost.tolist()),
            exits=Counter(decisions.stages[accepted].tolist()),
            reasons=Counter(decisions.reason[~accepted].tolist()),
            answers=answers,
        )

    def add(self, other: DecisionCounts) -> None:
        """Add the counts of further rows."""
        self.degraded += other.degraded
        self.costs.update(other.costs)
        self.exits.update(other.exits)
        self.reasons.update(other.reasons)
        self.answers.update(other.answers)

    @property
    def rows(self) -> int:
        """Rows decided."""
        return self.costs.total()

    @property
    def labelled(self) -> int:
        """Accepted rows whose true label is known."""
        return sum(number for (_, answer), number in self.answers.items() if answer is not None)

    @property
    def right(self) -> int:
        """Those of them that got it."""
        return sum(number for (truth, answer), number in self.answers.items() if answer == truth)

    def summarise_costs(self) -> CostSummary:
        """Return what `summarise_costs` gives for the costs of all rows, to the last bit; there are few different ones."""
        costs = sorted(self.costs)
        reached = np.cumsum([self.costs[cost] for cost in costs])
        total = sum((count * Fraction(cost) for cost, count in self.costs.items()), Fraction(0))
        # The first cost at which the share of rows is reached, as the inverse of the distribution has it.
        p50, p95 = (costs[int(np.searchsorted(reached, share * self.rows))] for share in (0.5, 0.95))
        mean = min(max(float(total) / self.rows, costs[0]), costs[-1])
        return CostSummary(mean=mean, p50=p50, p95=p95, max=costs[-1])


def format_decisions(numbers: Ints, decisions: ColumnDecisions) -> str:
    """Return a line for each decision, given the numbers of the rows in their file."""
    columns: list[Iterable[str]] = [
        map(str, numbers.tolist()),
        decisions.status.tolist(),
        decisions.reason.tolist(),
        _quoted(decisions.label.tolist()),
        ("" if text == "nan" else text for text in map(repr, decisions.confidence.tolist())),
        _formatted(decisions.stages.tolist(), str),
        _formatted(decisions.cost.tolist(), repr),
        _formatted(decisions.degraded.tolist(), lambda degraded: str(degraded).lower()),
        _quoted(decisions.error.tolist()),
    ]
    lines = "\n".join(map(",".join, zip(*columns, strict=True)))
    return f"{lines}\n" if lines else ""


def _formatted(values: Sequence[Any], write: Any) -> Iterable[str]:
    """Return values as text; each different one is written once."""
    texts = {value: write(value) for value in set(values)}
    return map(texts.__getitem__, values)


def _quoted(values: Sequence[Any]) -> Iterable[str]:
    return _formatted(values, lambda value: "" if value is None else _quote(str(value)))


def _quote(text: str) -> str:
    """Return a field as the csv module writes it among others."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([text, ""])
    return buffer.getvalue()[:-1]
