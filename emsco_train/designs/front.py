"""`Front`: the designs that a search found, sorted by fitness, and how to choose one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emsco_runtime.bundle.manifest import Label
from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design, design_id, format_names, format_stages
from emsco_train.designs.selection import Requirements, SelectBy
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.errors import DataError, DesignError, SelectionError
from emsco_train.support.numbers import is_number
from emsco_train.support.validation_errors import first_error

__all__ = ["Front"]

_MAX_SHOWN = 20
_COLUMNS = ["id", "threshold", "stages", "excluded", "fitness", "coverage", "accuracy", "cost", "ties"]
_BOUND_COLUMNS = ["coverage_bound", "accuracy_bound", "cost_bound"]


class _FrontFile(BaseModel):
    """A front as JSON, strict about its shape; `version` rises with every change of it.

    Version 1 did not hold the rows and the precision of designs, version 2 no thresholds of early stages.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal["emsco-front"] = "emsco-front"
    version: Literal[1, 2, 3] = 3
    unit: str
    full_cost: Annotated[float, Field(gt=0)]
    offset: Annotated[float, Field(ge=0)]
    designs: tuple[Design, ...]


class Front(Sequence[Design]):
    """Non-dominated designs, fittest first; equally fit ones in the order of their chromosomes.

    Fitness is the length of (coverage, accuracy, g3) with g3 = (cheapest + offset) / (cost + offset), where the cheapest is that
    of the front's designs with the same thresholds.

    Parameters
    ----------
    designs
        In any order; their fitness is computed here.
    full_cost
        Cost of acquiring every feature, which is what costs are measured against.
    offset
        Added to costs before their ratio is taken: 0, or 1 % of the full cost where some feature set costs nothing.
    unit
        What costs count.

    Examples
    --------
    >>> cheap = Design.of((0, 1), ["a", "b"], (0.9, 0.9), coverage=0.7, accuracy=0.9, cost=1.5)
    >>> sure = Design.of((0, 0), ["a", "b"], (0.9, 0.9), coverage=0.8, accuracy=0.95, cost=3.0)
    >>> front = Front([sure, cheap], full_cost=3.0)
    >>> front[0].id == cheap.id, round(front[0].fitness, 3)
    (True, 1.517)
    >>> front.select(min_accuracy=0.94, sure=None).stages
    (('a', 'b'),)
    >>> round(front.hypervolume(), 3)
    0.315
    >>> print(front)
              id  coverage  accuracy  cost  fitness  ties  stages
    8012c8a90c67     0.700     0.900   1.5   1.5166     1  a|b
    d14570a4e672     0.800     0.950     3   1.3388     1  a+b
    """

    def __init__(self, designs: Iterable[Design], *, full_cost: float, offset: float = 0.0, unit: str = "units") -> None:
        if not is_number(full_cost) or full_cost <= 0:
            raise DesignError(f"full_cost is {full_cost!r}: expected a finite number above 0")
        self.full_cost = float(full_cost)
        self.offset = float(offset)
        self.unit = unit
        given = list(designs)
        cheapest: dict[tuple[float, ...], float] = {}
        for design in given:
            cheapest[design.thresholds] = min(design.cost, cheapest.get(design.thresholds, math.inf))
        with_fitness = [replace(design, fitness=_fitness(design, cheapest[design.thresholds], self.offset)) for design in given]
        self._designs = tuple(sorted(with_fitness, key=_order))

    @classmethod
    def of_problem(cls, problem: Problem, designs: Iterable[Design]) -> Front:
        """Return designs of a problem as a front, with its prices."""
        return cls(designs, full_cost=problem.full_cost, offset=problem.offset, unit=problem.costs.unit)

    @overload
    def __getitem__(self, index: int) -> Design: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Design, ...]: ...
    def __getitem__(self, index: int | slice) -> Design | tuple[Design, ...]:
        """Return a design by position; a slice gives a plain tuple, since fitness belongs to the whole front."""
        return self._designs[index]

    def __len__(self) -> int:
        """Return the number of designs."""
        return len(self._designs)

    def __eq__(self, other: object) -> bool:
        """Return whether designs, prices and unit are the same."""
        return isinstance(other, Front) and self._key() == other._key()

    def __hash__(self) -> int:
        """Return a hash that agrees with equality."""
        return hash(self._key())

    def select(
        self,
        *,
        min_accuracy: float | None = None,
        min_coverage: float | None = None,
        max_cost: float | None = None,
        min_recall: Mapping[Label, float] | None = None,
        min_accuracy_of: Mapping[Label, float] | None = None,
        by: SelectBy | None = None,
        sure: float | None = DEFAULT_SURE,
    ) -> Design:
        """Choose a design.

        Parameters
        ----------
        min_accuracy, min_coverage
            Floors, from 0 to 1; 0 is no floor.
        max_cost
            Cap on the mean cost per item, in the user's unit.
        min_recall
            Floors on the recall of labels, such as ``{"fraud": 0.8}``: the share of the rows of a label that are accepted as it.
        min_accuracy_of
            Floors on the accuracy of labels: the share of the rows accepted as a label that have it.
        by
            What decides among the designs that satisfy these: "cost" (cheapest), "accuracy", "coverage", "fitness" (the paper's)
            or "knee" (see `knee`). Unless given: the cheapest when there is a floor, the most accurate when there is only a cap,
            the knee when nothing is required. Ties are broken by the other figures, then by the place in the front.
        sure
            Floors must hold by one-sided lower bounds at this level, the cap by an upper bound: from 0.5 to below 1. The most
            accurate design is that with the highest bound on its accuracy. The best of many designs is partly the luckiest, so
            its figures alone promise too much. None: by the figures as they are.

        Raises
        ------
        SelectionError
            If no design satisfies these; it names the nearest one, how far it is, and how many rows would help.
        DesignError
            If bounds are needed, and the number of rows behind the figures is unknown.
        """
        requirements = Requirements.of(
            min_accuracy=min_accuracy,
            min_coverage=min_coverage,
            max_cost=max_cost,
            min_recall=min_recall,
            min_accuracy_of=min_accuracy_of,
            by=by,
            sure=sure,
        )
        return requirements.choose(self._designs, self.full_cost)

    def coverage_near_widest(
        self, *, max_cost: float | None = None, min_accuracy: float | None = None, margin: float = 0.01
    ) -> float:
        """Return the coverage to ask for where as much as possible is to be decided: that of the widest design, less a margin.

        The widest design itself is the luckiest of many: ``front.select(min_coverage=front.coverage_near_widest(...),
        by="accuracy")`` takes the one that is wrong least of those that decide nearly as much.

        Parameters
        ----------
        max_cost, min_accuracy
            As in `select`, by the figures as they are: which designs count.
        margin
            Coverage that may be given up, from 0 to 1.

        Returns
        -------
        float
            At least 0; 0 where no design is within the limits.
        """
        if not (is_number(margin) and 0 <= margin <= 1):
            raise DesignError(f"margin is {margin!r}: expected a number from 0 to 1")
        wanted = Requirements(max_cost=max_cost, min_accuracy=min_accuracy, sure=None)
        return max(0.0, max((design.coverage for design in self._designs if wanted.meets(design)), default=0.0) - margin)

    @property
    def knee(self) -> Design:
        """The design to look at first: a good compromise of accuracy, coverage and cost, see `emsco_train.designs.knee`."""
        return self.select(by="knee")

    @property
    def fittest(self) -> Design:
        """The design with the highest fitness, the paper's choice: the first of the front."""
        return self.select(by="fitness")

    def find(self, design_id: str) -> Design:
        """Return the design with this id, or with an id that begins so, if there is just one; or "fittest" or "knee"."""
        if design_id in ("fittest", "knee"):
            return self.fittest if design_id == "fittest" else self.knee
        found = [design for design in self._designs if design_id and design.id.startswith(design_id)]
        if len(found) != 1:
            known = ", ".join(design.id for design in (found or self._designs)[:_MAX_SHOWN])
            raise SelectionError(f"{len(found)} designs have an id that begins with {design_id!r}: give one of {known}")
        return found[0]

    def hypervolume(self) -> float:
        """Return the volume that the front dominates, from 0 to 1.

        The reference point is coverage 0, accuracy 0 and the cost of acquiring all features for every item; costs are divided by
        that. So 1 would be every item accepted, all right, for nothing. Designs of all thresholds count together.
        """
        if not self._designs:
            return 0.0
        import moocore  # noqa: PLC0415 - loads a compiled library, needed here only

        points = [[design.coverage, design.accuracy, design.cost / self.full_cost] for design in self._designs]
        return float(moocore.hypervolume(points, ref=[0.0, 0.0, 1.0], maximise=[True, True, False]))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per design, stages and excluded features as text; needs pandas.

        Bounds on the figures at the default of `sure`, which `select` chooses by, follow them; empty where a design does not know
        its rows. Then comes the upgrade. The last columns are the recall and the accuracy of each label, where designs know them.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - frames are a courtesy, not a requirement
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas, or use to_json") from None
        frame = pd.DataFrame([_as_row(design) for design in self._designs], columns=[*_COLUMNS, *_BOUND_COLUMNS, "upgrade"])
        labels = zip(*(design.labels for design in self._designs), strict=False)
        for counts in labels:
            frame[f"recall_of_{counts[0].label}"] = [one.recall for one in counts]
            frame[f"accuracy_of_{counts[0].label}"] = [one.accuracy for one in counts]
        return frame

    def to_json(self) -> str:
        """Return the whole front as text that `from_json` reads back as it is."""
        file = _FrontFile(unit=self.unit, full_cost=self.full_cost, offset=self.offset, designs=self._designs)
        return file.model_dump_json(indent=1)

    @classmethod
    def from_json(cls, text: str | bytes, *, rows: int = 0) -> Front:
        """Read what `to_json` wrote; anything else raises `DataError`.

        Parameters
        ----------
        text
            The JSON.
        rows
            How many rows the designs were measured on, for JSON that does not say so (version 1); 0 if unknown.
        """
        try:
            file = _FrontFile.model_validate_json(text)
        except ValidationError as error:
            fault = first_error(error)
            raise DataError(f"front: {fault.path}: {fault.message}. Give what Front.to_json wrote") from None
        for position, design in enumerate(file.designs):
            if design.id != design_id(design.stages, design.thresholds, design.upgrade, design.early_thresholds):
                raise DataError(f"front: designs.{position}.id is {design.id!r}, not that of its stages and thresholds")
            where = f"front: designs.{position}"
            if file.version < 3 and design.early_thresholds is not None:
                raise DataError(f"{where}.early_thresholds is not part of version {file.version}. Give what Front.to_json wrote")
            if file.version == 1 and (design.rows or design.precision):
                raise DataError(f"{where}.rows is not part of version 1. Give what Front.to_json wrote")
        designs = [design if design.rows else design.with_rows(rows) for design in file.designs]
        return cls(designs, full_cost=file.full_cost, offset=file.offset, unit=file.unit)

    def __repr__(self) -> str:
        """Return one line."""
        best = f", knee {self.knee.id}" if self._designs else ""
        return f"<Front: {pluralize(len(self), 'design')}{best}, costs in {self.unit}>"

    def __str__(self) -> str:
        """Return a table of the first designs."""
        rows: list[tuple[str, ...]] = [("id", "coverage", "accuracy", "cost", "fitness", "ties", "stages")]
        rows += [_table_cells(design) for design in self._designs[:_MAX_SHOWN]]
        widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
        lines = ["  ".join([*map(str.rjust, row[:-1], widths), row[-1]]) for row in rows]
        return "\n".join([*lines, *([f"... and {len(self) - _MAX_SHOWN} more"] if len(self) > _MAX_SHOWN else [])])

    def _key(self) -> tuple[object, ...]:
        return (self._designs, self.full_cost, self.offset, self.unit)


def _order(design: Design) -> tuple[object, ...]:
    return (-design.fitness, design.chromosome, design.stage_thresholds, design.upgrade or "")


def _fitness(design: Design, cheapest: float, offset: float) -> float:
    total = design.cost + offset
    # A design that costs nothing is the cheapest there can be.
    cost_ratio = (cheapest + offset) / total if total > 0 else 1.0
    return math.sqrt(design.coverage**2 + design.accuracy**2 + cost_ratio**2)


def _table_cells(design: Design) -> tuple[str, ...]:
    figures = (f"{design.coverage:.3f}", f"{design.accuracy:.3f}", f"{design.cost:.6g}", f"{design.fitness:.4f}")
    return (design.id, *figures, str(design.ties), design.stage_text)


def _as_row(design: Design) -> tuple[object, ...]:
    names = (design.id, design.threshold_text, format_stages(design.stages), format_names(design.excluded))
    bounds = None if design.precision is None else design.bounds(DEFAULT_SURE)
    bound_cells = (math.nan,) * 3 if bounds is None else (bounds.coverage, bounds.accuracy, bounds.cost)
    return (*names, design.fitness, design.coverage, design.accuracy, design.cost, design.ties, *bound_cells, design.upgrade)
