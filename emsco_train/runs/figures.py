"""What designs do on rows that the search did not measure them on: figures, and how honest their confidences are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emsco_runtime._arrays import Ints
from emsco_runtime.manifest import Expected
from emsco_runtime.summary import mean_cost
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.designs.design import Design
from emsco_train.guarantee.calibration import StageCalibration, StageScores, calibrate, calibrate_stages
from emsco_train.runs.run_file import FiguresEntry
from emsco_train.stages.cascade_model import CascadeFitter, CascadeModel
from emsco_train.stages.evaluation import Evaluation, evaluate, walk
from emsco_train.stages.fitted_set import StageVerdicts

__all__ = ["Figures", "Measured", "measure", "measured_on"]

_Chain: TypeAlias = tuple[tuple[str, ...], ...]

# Scores that are held at a time.
_MOST_BYTES = 2**27


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
    def of_evaluation(cls, evaluation: Evaluation, target: Ints) -> Figures:
        """Return the figures of rows whose true labels are at these positions."""
        accepted = evaluation.accepted
        right = accepted & (evaluation.label == target)
        return cls(len(accepted), int(accepted.sum()), int(right.sum()), mean_cost(evaluation.cost.tolist()))

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


def measure(
    problem: Problem, split: Split, designs: Sequence[Design], fitter: CascadeFitter, *, jobs: int = 1
) -> Iterator[Measured]:
    """Fit designs and walk the rows of a split through them; each feature set is fitted and scored once for many designs.

    Parameters
    ----------
    problem
        Whose rows they are.
    split
        The rows to measure on.
    designs
        Designs of this problem, at any thresholds.
    fitter
        Fits designs of this problem.
    jobs
        Threads for the fits; results do not depend on their number.
    """
    chains = [(design, _cumulative_sets(design, fitter)) for design in designs]
    most = max(1, _MOST_BYTES // (len(split) * _bytes_per_row(len(problem.labels))))
    for part in _parts(chains, most):
        yield from _measure_part(problem, split, part, fitter, jobs)


def measured_on(problem: Problem, split: Split, design: Design, model: CascadeModel) -> Measured:
    """Walk the rows of a split through a design that is fitted already.

    Parameters
    ----------
    problem, split, design
        As in `measure`.
    model
        The fitted design.
    """
    names = [feature.name for feature in model.features]
    evaluation = evaluate(model, split.codes[:, problem.encoder.positions(names)])
    return Measured(design, Figures.of_evaluation(evaluation, split.target), calibrate(evaluation, split.target))


def _bytes_per_row(labels: int) -> int:
    """Return about how much is held of a row that a feature set has scored."""
    return 8 * labels + 32


def _cumulative_sets(design: Design, fitter: CascadeFitter) -> _Chain:
    stages = itertools.accumulate(design.stages)
    return tuple(fitter.sets.in_column_order(names) for names in stages)


def _parts(chains: Sequence[tuple[Design, _Chain]], most: int) -> Iterator[list[tuple[Design, _Chain]]]:
    """Divide designs into parts that have at most so many different feature sets, or one design."""
    part: list[tuple[Design, _Chain]] = []
    known: set[tuple[str, ...]] = set()
    for design, chain in chains:
        if part and len(known.union(chain)) > most:
            yield part
            part, known = [], set()
        part.append((design, chain))
        known.update(chain)
    if part:
        yield part


def _measure_part(
    problem: Problem, split: Split, part: Sequence[tuple[Design, _Chain]], fitter: CascadeFitter, jobs: int
) -> Iterator[Measured]:
    levels: dict[tuple[str, ...], set[tuple[float, ...]]] = {}
    for design, chain in part:
        for inputs in chain:
            levels.setdefault(inputs, set()).add(design.thresholds)
    costs = {inputs: problem.meter.cost(inputs) for inputs in levels}
    scores: dict[tuple[str, ...], StageScores] = {}
    verdicts: dict[tuple[tuple[str, ...], tuple[float, ...]], StageVerdicts] = {}
    for fitted in fitter.sets.fit_each(list(levels), jobs):
        inputs, codes = fitted.inputs, split.codes[:, fitted.positions]
        matrix = fitted.probabilities(codes)
        scores[inputs] = StageScores.of(matrix, split.target)
        verdicts |= {(inputs, level): fitted.verdicts(codes, level, matrix) for level in levels[inputs]}
    for design, chain in part:
        evaluation = walk([verdicts[inputs, design.thresholds] for inputs in chain], [costs[inputs] for inputs in chain])
        calibration = calibrate_stages([scores[inputs] for inputs in chain], evaluation)
        yield Measured(design, Figures.of_evaluation(evaluation, split.target), calibration)
