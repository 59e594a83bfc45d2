"""What designs do on rows that the search did not measure them on: figures, and how honest their confidences are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emsco_runtime.manifest import Expected
from emsco_train.bundling.design_export import split_rows
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.guarantee.calibration import StageCalibration, calibrate
from emsco_train.runs.run_file import FiguresEntry
from emsco_train.stages.cascade_model import CascadeFitter, CascadeModel
from emsco_train.stages.evaluation import evaluate

__all__ = ["Figures", "Measured", "measure", "measured_on"]


@dataclass(frozen=True, slots=True)
class Figures:
    """Coverage, accuracy and cost on some rows, as counts: so every command prints the same digits.

    Parameters
    ----------
    rows, accepted, right
        How many rows, how many of them accepted, and how many of those with the right label.
    cost
        Mean cost of a row.
    """

    rows: int
    accepted: int
    right: int
    cost: float

    @classmethod
    def of_design(cls, design: Design, rows: int) -> Figures:
        """Return the figures that a design carries, measured on so many rows."""
        accepted = round(design.coverage * rows)
        return cls(rows, accepted, round(design.accuracy * accepted), design.cost)

    @classmethod
    def of_expected(cls, expected: Expected) -> Figures:
        """Return the figures that a manifest promises."""
        return cls(expected.rows, expected.accepted, expected.right, expected.cost.mean)

    @classmethod
    def of_entry(cls, entry: FiguresEntry) -> Figures:
        """Return the figures that run.json holds."""
        return cls(entry.rows, entry.accepted, entry.right, entry.cost)

    @property
    def coverage(self) -> float:
        """Share of the rows that are accepted."""
        return self.accepted / self.rows

    @property
    def accuracy(self) -> float:
        """Share of the accepted rows that are right; 0 when none is accepted."""
        return self.right / self.accepted if self.accepted else 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """A design on some rows.

    Parameters
    ----------
    design
        The design.
    figures
        What it does there.
    calibration
        How honest each stage's confidence is there.
    """

    design: Design
    figures: Figures
    calibration: tuple[StageCalibration, ...]


def measure(problem: Problem, split: Split, designs: Sequence[Design], fitter: CascadeFitter) -> Iterator[Measured]:
    """Fit designs and walk the rows of a split through them, as an export verifies it against the runtime.

    Parameters
    ----------
    problem
        Whose rows they are.
    split
        The rows to measure on.
    designs
        Designs of this problem, at any thresholds.
    fitter
        As `cascade_fitter` gives it.
    """
    for design in designs:
        yield measured_on(problem, split, design, fitter.fit(design.stages, design.thresholds))


def measured_on(problem: Problem, split: Split, design: Design, model: CascadeModel) -> Measured:
    """Walk the rows of a split through a design that is fitted already.

    Parameters
    ----------
    problem, split, design
        As in `measure`.
    model
        The fitted design.
    """
    rows = split_rows(problem, model, split)
    evaluation = evaluate(model, rows.codes)
    figures = Figures.of_expected(evaluation.expected(rows.target, split.name))
    return Measured(design, figures, calibrate(evaluation, rows.target))
