"""Decisions of many rows as lines of CSV, and their counts.

Most of what is said of a row is said of many: rows are grouped by it, each group is written and counted once, and of a row
itself only its number and its confidence are left to write.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from emsco_runtime.bundle.manifest import CostSummary
from emsco_runtime.decision import Label
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.support.arrays import Array, Floats, Ints, to_objects
from emsco_runtime.support.arrow_tables import has_pyarrow, join_lines

__all__ = ["HEADER", "DecisionCounts", "GroupedDecisions", "format_decisions"]

# Codes of groups are kept below this: times the number of different values of any column, they still fit into 64 bits.
_MAX_CODE = 2**31
# Fewer lines are written before pyarrow is loaded.
_MIN_ARROW_ROWS = 2**14

HEADER = ("row", "status", "reason", "label", "confidence", "stages", "cost", "degraded", "error")


class _Group(NamedTuple):
    """What rows of a group have in common; `truth` is their true label, None where it is not known."""

    status: str
    reason: str
    label: Label | None
    stages: int
    cost: float
    degraded: bool
    error: str | None
    truth: str | None


@dataclass(frozen=True, slots=True, eq=False)
class GroupedDecisions:
    """Decisions of many rows: the groups, the group of each row, and what each row has of its own."""

    groups: tuple[_Group, ...]
    group: Ints
    confidence: Floats

    @classmethod
    def of(cls, decisions: ColumnDecisions, truth: Sequence[str | None]) -> GroupedDecisions:
        """Group decisions, given the true labels, None where one is not known."""
        # The reason says what the status is.
        numbers = (decisions.stages, decisions.cost, decisions.degraded)
        codes = np.zeros(len(decisions), dtype=np.intp)
        for column in (*numbers, decisions.reason, decisions.label, decisions.error, to_objects(truth)):
            own, count = _encode(column)
            codes = codes * count + own
            if count > 1 and int(codes.max()) >= _MAX_CODE:
                codes = np.unique(codes, return_inverse=True)[1]
        _, first, group = np.unique(codes, return_index=True, return_inverse=True)
        own_fields = [getattr(decisions, name)[first].tolist() for name in _Group._fields[:-1]]
        groups = tuple(map(_Group, *own_fields, [truth[row] for row in first.tolist()]))
        return cls(groups, group, decisions.confidence)


def _encode(column: Array) -> tuple[Ints, int]:
    """Return a number for each value of a column, the same for equal ones, and how many numbers there are."""
    if column.dtype.kind != "O":
        different, codes = np.unique(column, return_inverse=True)
        return codes, len(different)
    values = column.tolist()
    position = {value: place for place, value in enumerate(set(values))}
    if len(position) < 2:
        return np.zeros(len(values), dtype=np.intp), 1
    return np.fromiter(map(position.__getitem__, values), dtype=np.intp, count=len(values)), len(position)


@dataclass(slots=True)
class DecisionCounts:
    """Counts over the rows decided so far; exits are accepted rows by stage, reasons are those of rejected rows.

    `answers` are the rows whose true label is known, by this label and the one they got, None for a rejected row;
    `unknown_categories` the rows by feature whose category the bundle does not know, and ignores.
    """

    degraded: int = 0
    costs: Counter[float] = field(default_factory=Counter)
    exits: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)
    unknown_categories: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, decisions: GroupedDecisions, unknown_categories: Counter[str]) -> DecisionCounts:
        """Count some decisions."""
        counts = cls(unknown_categories=unknown_categories)
        for group, number in zip(decisions.groups, np.bincount(decisions.group).tolist(), strict=True):
            counts._add_group(group, number)
        return counts

    def _add_group(self, group: _Group, rows: int) -> None:
        self.degraded += rows * group.degraded
        self.costs[group.cost] += rows
        if group.status == "accepted":
            self.exits[group.stages] += rows
        else:
            self.reasons[group.reason] += rows
        if group.truth is not None:
            self.answers[group.truth, None if group.label is None else str(group.label)] += rows

    def add(self, other: DecisionCounts) -> None:
        """Add the counts of further rows."""
        self.degraded += other.degraded
        self.costs.update(other.costs)
        self.exits.update(other.exits)
        self.reasons.update(other.reasons)
        self.answers.update(other.answers)
        self.unknown_categories.update(other.unknown_categories)

    def take_unknown(self, labels: Collection[str]) -> Counter[str]:
        """Take the rows whose true label is none of these out of `answers`, since no answer is right; return them by label."""
        unknown = {pair: number for pair, number in self.answers.items() if pair[0] not in labels}
        self.answers -= Counter(unknown)
        found: Counter[str] = Counter()
        for (truth, _), number in unknown.items():
            found[str(truth)] += number
        return found

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


def format_decisions(numbers: Ints, decisions: GroupedDecisions) -> str:
    """Return a line for each decision, given the numbers of the rows in their file."""
    if not len(numbers):
        return ""
    before = [f"{one.status},{one.reason},{_quote(one.label)}" for one in decisions.groups]
    after = [f"{one.stages},{one.cost!r},{str(one.degraded).lower()},{_quote(one.error)}" for one in decisions.groups]
    if len(numbers) >= _MIN_ARROW_ROWS and has_pyarrow():
        return join_lines(numbers, before, decisions.confidence, after, decisions.group)
    group = decisions.group.tolist()
    columns = (
        map(str, numbers.tolist()),
        map(before.__getitem__, group),
        ("" if text == "nan" else text for text in map(repr, decisions.confidence.tolist())),
        map(after.__getitem__, group),
    )
    return "\n".join(map(",".join, zip(*columns, strict=True))) + "\n"


def _quote(value: object) -> str:
    """Return a field as the csv module writes it among others; empty for None."""
    if value is None:
        return ""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([str(value), ""])
    return buffer.getvalue()[:-1]
