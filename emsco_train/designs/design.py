"""`Design`: an ordered division of the features into stages, with what it does on the validation rows."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from emsco_runtime.bundle.manifest import Label, LabelCounts
from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.stage_settings import Upgrade
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.counts import Counts
from emsco_train.designs.precision import Bounds, LabelLowerBounds, LabelSizes, Precision
from emsco_train.errors import DesignError

__all__ = ["Design", "design_id", "format_names", "format_stages"]

_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Design:
    """One design of a front; make one with `Design.of`.

    Parameters
    ----------
    id
        12 hexadecimal digits: hash of stages and thresholds. The same design has the same id in every run.
    stages
        Names of the features newly acquired, stage by stage.
    excluded
        Features that no stage acquires.
    coverage
        Share of the rows that are accepted.
    accuracy
        Share of the accepted rows that get the right label; 0 when none is accepted.
    cost
        Mean cost per row, rejected ones included, in the user's unit.
    fitness
        Length of the vector (coverage, accuracy, cheapest / cost), where the cheapest is that of the front; 0 outside one.
    ties
        How many designs of the search have these same figures, this one included.
    chromosome
        Stage of each feature in column order, counted from 0; -1: left out.
    thresholds
        Confidence that each label needs, in label order; at the last stage, where `early_thresholds` says more.
    rows
        How many rows the figures were counted on; 0 where that is unknown. Not part of equality.
    units
        What these rows count together, in whole units of weight; None: they all count the same. Not part of equality.
    precision
        What bounds on the figures are computed from; None where the rows are unknown. Unless given, all rows are independent and
        the cost is exact. Not part of equality.
    labels
        What it did with the rows of each label, in the order of the labels and in units where there are some; empty where that is
        unknown. Not part of equality.
    upgrade
        The kind of its stages, where they are not of the kind that was searched with; None: they are.
    early_thresholds
        Confidence that each label needs before the last stage; None: the same as there.

    Examples
    --------
    >>> design = Design.of((0, 2, 1, -1), ["a", "b", "c", "d"], (0.9, 0.9), coverage=0.8, accuracy=0.95, cost=1.7)
    >>> design.stages, design.excluded, len(design.id)
    ((('a',), ('c',), ('b',)), ('d',), 12)
    """

    id: str
    stages: tuple[tuple[str, ...], ...]
    excluded: tuple[str, ...]
    coverage: float
    accuracy: float
    cost: float
    fitness: float
    ties: int
    chromosome: tuple[int, ...]
    thresholds: tuple[float, ...]
    rows: int = field(default=0, compare=False, repr=False)
    precision: Precision | None = field(default=None, compare=False, repr=False)
    units: int | None = field(default=None, compare=False, repr=False)
    labels: tuple[LabelCounts, ...] = field(default=(), compare=False, repr=False)
    upgrade: Upgrade | None = field(default=None, repr=False)
    early_thresholds: tuple[float, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise for figures that no rows can have, and complete the precision."""
        shares = (self.coverage, self.accuracy)
        if not all(0 <= share <= 1 for share in shares) or not 0 <= self.cost < math.inf or self.ties < 1:
            raise DesignError(
                f"design {self.id}: coverage {self.coverage}, accuracy {self.accuracy}, cost {self.cost}, ties {self.ties}: "
                "expected shares from 0 to 1, a finite cost of at least 0 and at least 1 tie"
            )
        if self.rows < 0 or (self.units is not None and self.units < 1):
            raise DesignError(
                f"design {self.id}: rows {self.rows}, units {self.units}: expected at least 0 rows, and None or at least 1 unit"
            )
        thresholds = self.stage_thresholds  # which checks them
        if self.early_thresholds is not None and (len(self.stages) < 2 or thresholds.early == thresholds.last):
            detail = "expected none, since there is one stage" if len(self.stages) < 2 else "expected others than `thresholds`"
            raise DesignError(f"design {self.id}: early_thresholds {self.early_thresholds}: {detail}")
        if self.rows and self.precision is None:
            object.__setattr__(self, "precision", Precision.of_counts(self.counts))

    @classmethod
    def of(
        cls,
        chromosome: Sequence[int],
        names: Sequence[str],
        thresholds: Sequence[float] | StageThresholds,
        *,
        coverage: float,
        accuracy: float,
        cost: float,
        ties: int = 1,
        rows: int = 0,
        precision: Precision | None = None,
        units: int | None = None,
        labels: tuple[LabelCounts, ...] = (),
        upgrade: Upgrade | None = None,
    ) -> Design:
        """Make a design from a chromosome.

        Parameters
        ----------
        chromosome
            Stage of each feature, compressed: every stage from 0 to the last has a feature.
        names
            The features in column order.
        thresholds, coverage, accuracy, cost, ties, rows, precision, units, labels, upgrade
            As in the class.
        """
        genes = tuple(int(gene) for gene in chromosome)
        stages = _stage_names(genes, names)
        given = thresholds if isinstance(thresholds, StageThresholds) else StageThresholds.constant(thresholds)
        last = tuple(float(number) for number in given.last)
        # Of one stage, there is none before the last.
        early = tuple(float(number) for number in given.early) if len(stages) > 1 and given.early != given.last else None
        return cls(
            id=design_id(stages, last, upgrade, early),
            stages=stages,
            excluded=tuple(name for name, gene in zip(names, genes, strict=True) if gene < 0),
            coverage=float(coverage),
            accuracy=float(accuracy),
            cost=float(cost),
            fitness=0.0,
            ties=int(ties),
            chromosome=genes,
            thresholds=last,
            rows=rows,
            precision=precision,
            units=units,
            labels=labels,
            upgrade=upgrade,
            early_thresholds=early,
        )

    @classmethod
    def from_counts(
        cls,
        chromosome: Sequence[int],
        names: Sequence[str],
        thresholds: Sequence[float] | StageThresholds,
        counts: Counts,
        *,
        ties: int = 1,
        precision: Precision | None = None,
        labels: tuple[LabelCounts, ...] = (),
        upgrade: Upgrade | None = None,
    ) -> Design:
        """Make a design from a chromosome and what it did with some rows."""
        return cls.of(
            chromosome,
            names,
            thresholds,
            coverage=counts.coverage,
            accuracy=counts.accuracy,
            cost=counts.cost,
            ties=ties,
            rows=counts.rows,
            precision=precision,
            units=counts.units,
            labels=labels,
            upgrade=upgrade,
        )

    def with_rows(self, rows: int) -> Design:
        """Return the design with the number of rows that its figures were counted on; unchanged where it knows this number."""
        return self if rows == self.rows else replace(self, rows=rows, precision=None)

    def with_more_rows(self, factor: float) -> Design:
        """Return the design as if the same figures had been counted on `factor` times as many rows of the same kind."""
        precision = None if self.precision is None else self.full_precision.scaled(factor)
        return replace(self, rows=math.ceil(factor * self.rows), precision=precision)

    @property
    def counts(self) -> Counts:
        """The counts behind the figures."""
        return Counts.from_shares(self.rows, self.coverage, self.accuracy, self.cost, units=self.units)

    def bounds(self, sure: float | None) -> Bounds:
        """Return one-sided bounds on the figures at the level `sure`, such as 0.85; with None the figures themselves.

        Raises
        ------
        DesignError
            If the rows that the figures were counted on are unknown.
        """
        if sure is None:
            return Bounds(self.coverage, self.accuracy, self.cost)
        if self.precision is None:
            raise DesignError(
                f"design {self.id}: its figures have no bounds, since the number of rows behind them is unknown. "
                "Give it by Design.with_rows or Front.from_json(..., rows=...), or use the figures as they are with `sure=None`"
            )
        return self.precision.bounds(self.coverage, self.accuracy, self.cost, sure)

    def label_bounds(self, label: Label, sure: float | None) -> LabelLowerBounds:
        """Return one-sided lower bounds on the figures of a label at the level `sure`; with None the figures themselves.

        Raises
        ------
        DesignError
            If there is no such label, or if the counts behind its figures are unknown.
        """
        place = self.find_label(label)
        counts = self.labels[place]
        if sure is None:
            return LabelLowerBounds(counts.recall, counts.accuracy)
        return self.full_precision.labels[place].bounds(counts, sure)

    def find_label(self, label: Label) -> int:
        """Return the position of a label in `labels`; compared as text: on a command line, the label 1 is the text "1".

        Raises
        ------
        DesignError
            If there is no such label, or if the counts behind its figures are unknown.
        """
        place = next((place for place, counts in enumerate(self.labels) if str(counts.label) == str(label)), None)
        if place is None:
            known = ", ".join(repr(counts.label) for counts in self.labels)
            detail = (
                f"there is no label {label!r} (labels: {known})" if known else "its figures per label are unknown: train again"
            )
            raise DesignError(f"design {self.id}: {detail}")
        return place

    @property
    def full_precision(self) -> Precision:
        """The precision with that of each label: where it was not measured, as that of independent rows of equal weight."""
        precision = self.precision or Precision.of_counts(self.counts)
        if precision.labels:
            return precision
        return replace(
            precision, labels=tuple(LabelSizes(float(counts.rows), float(counts.accepted_as)) for counts in self.labels)
        )

    @property
    def stage_thresholds(self) -> StageThresholds:
        """The thresholds of the last stage and of those before it."""
        return _make_thresholds(self.thresholds, self.early_thresholds or self.thresholds)

    @property
    def stage_text(self) -> str:
        """The stages as people read them: as `format_stages` writes them, and their kind where it is not that of the search."""
        return format_stages(self.stages) + (f" ({self.upgrade})" if self.upgrade else "")

    @property
    def threshold_text(self) -> str:
        """The threshold as people write it: one number where all labels share it, else all of them.

        Where stages before the last have others, these come first: "0.99|0.9".
        """
        return "|".join(map(_write_thresholds, filter(None, (self.early_thresholds, self.thresholds))))


# Many designs have the same, and the numbers are checked each time.
@lru_cache(maxsize=1024)
def _make_thresholds(last: tuple[float, ...], early: tuple[float, ...]) -> StageThresholds:
    return StageThresholds(last=last, early=early)


def _write_thresholds(thresholds: tuple[float, ...]) -> str:
    different = thresholds[:1] if len(set(thresholds)) == 1 else thresholds
    return ",".join(repr(number) for number in different)


def format_stages(stages: Sequence[Sequence[str]]) -> str:
    """Return stages as one line: features joined by +, stages by |.

    Examples
    --------
    >>> format_stages([["a"], ["b", "c+d"]])
    'a|b+"c+d"'
    """
    return "|".join(format_names(stage) for stage in stages)


def format_names(names: Sequence[str]) -> str:
    """Return names joined by +; one that holds + or | or a quote is quoted, with its quotes doubled."""
    return "+".join(_quote(name) if set(name) & set('+|"') else name for name in names)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stage_names(genes: Sequence[int], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    if len(genes) != len(names):
        count = f"{pluralize(len(genes), 'gene')} for {pluralize(len(names), 'feature')}"
        raise DesignError(f"chromosome {tuple(genes)} has {count}: expected one per feature")
    last = max(genes, default=-1)
    if min(genes, default=-1) < -1 or set(genes) - {-1} != set(range(last + 1)) or last < 0:
        raise DesignError(f"chromosome {tuple(genes)} is not compressed: expected stages 0, 1, 2, ... without a gap, or -1")
    return tuple(tuple(name for name, gene in zip(names, genes, strict=True) if gene == stage) for stage in range(last + 1))


def design_id(
    stages: Sequence[Sequence[str]],
    thresholds: Sequence[float],
    upgrade: Upgrade | None = None,
    early_thresholds: Sequence[float] | None = None,
) -> str:
    """Return the id of a design: a hash of its stages, whatever the order of names within one, their kind and its thresholds."""
    # Sorted, since the order of columns in a table is not part of a design.
    content: dict[str, object] = {"stages": [sorted(stage) for stage in stages], "thresholds": list(thresholds)}
    if upgrade is not None:
        content["upgrade"] = upgrade
    if early_thresholds is not None:
        content["early_thresholds"] = list(early_thresholds)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]
