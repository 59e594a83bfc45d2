"""Verification: replay rows through the runtime and compare with the training evaluation, row by row."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.bundle.encoding import encode_column
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.cascade import Cascade
from emsco_runtime.decision import Label
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.support.arrays import Floats, Ints
from emsco_runtime.support.ordered_work import available_cores, run_ordered
from emsco_train.data.features import encode_table
from emsco_train.data.table import Table
from emsco_train.errors import VerificationError
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.evaluation import Evaluation, evaluate
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["Difference", "Verification", "verify"]

_TOLERANCE = 1e-9
_MAX_SHOWN = 5
_BLOCK_ROWS = 65536
# Rows that are also decided one by one, evenly spread.
_MAX_SINGLE_ROWS = 2048
_DECIDED, _PROBABILITIES = ("label", "stage", "cost"), "probabilities"


@dataclass(frozen=True, slots=True)
class Difference:
    """One row about which runtime and training disagree.

    Parameters
    ----------
    row
        Its position in the table.
    what
        Which of "label", "stage", "cost", "probabilities" differ.
    trained, decided
        Label, stages scored and cost, by training and by the runtime.
    probability
        Largest difference of any probability at any stage scored.
    """

    row: int
    what: tuple[str, ...]
    trained: tuple[Label | None, int, float]
    decided: tuple[Label | None, int, float]
    probability: float


@dataclass(frozen=True, slots=True)
class Verification:
    """What a verification found.

    Parameters
    ----------
    rows
        Rows replayed.
    labels, stages, costs, probabilities
        In how many rows each differed; probabilities differ when further apart than 1e-9.
    largest
        Largest difference of any probability at any stage scored.
    differences
        The first few rows that differ.
    """

    rows: int
    labels: int
    stages: int
    costs: int
    probabilities: int
    largest: float
    differences: tuple[Difference, ...]

    @property
    def agrees(self) -> bool:
        """Whether no row differs in anything."""
        return not self.differences

    def require(self, where: str) -> Verification:
        """Return this verification, or raise `VerificationError` if any row differs.

        Parameters
        ----------
        where
            What the message calls the rows.
        """
        if self.agrees:
            return self
        counts = f"label {self.labels}, stage {self.stages}, cost {self.costs}, probabilities {self.probabilities}"
        first = self.differences[0]
        raise VerificationError(
            f"runtime and training disagree on {where} rows ({self.rows} replayed; differing: {counts}; largest difference of a "
            f"probability {self.largest:.3g}). Row {first.row}: training says (label, stage, cost) {first.trained}, the runtime "
            f"{first.decided}. Nothing was written; check the versions of onnxruntime and scikit-learn, and report this"
        )


def verify(
    target: Bundle | Cascade, model: CascadeModel, table: Table, *, where: str = "verified", on_phase: OnPhase = ignore_phase
) -> Verification:
    """Decide every row as production would, and compare with the training evaluation.

    Label, stage and cost must be equal exactly, the probabilities of every stage scored within 1e-9. All rows are decided as
    columns, block by block, on all cores, and some of them, all of a short table, also one by one.

    Parameters
    ----------
    target
        The bundle, or a cascade whose items are mappings from feature name to value.
    model
        The fitted design that the bundle was made of.
    table
        Raw rows with at least the model's features.
    where
        What progress and errors call the rows.
    on_phase
        Called with a `Phase` after each block.
    """
    cascade = Cascade(target) if isinstance(target, Bundle) else target
    chosen = table.select([feature.name for feature in model.features])
    replay = _Replay(cascade, model)
    step = -(-chosen.rows // _MAX_SINGLE_ROWS)

    def compare(start: int) -> list[Difference]:
        block = chosen.take(np.arange(start, min(start + _BLOCK_ROWS, chosen.rows)))
        evaluation = evaluate(model, encode_table(model.features, block, where))
        singles = (replay.compare_one(evaluation, row, block.item(row)) for row in range(-start % step, block.rows, step))
        return [*replay.compare_columns(evaluation, block), *singles]

    found = _Findings()
    starts = range(0, chosen.rows, _BLOCK_ROWS)
    for start, differences in zip(starts, run_ordered(compare, starts, workers=available_cores()), strict=True):
        on_phase(Phase(f"replaying {where} rows", start, chosen.rows))
        found.add(differences, start)
    return found.verification(chosen.rows)


class _Findings:
    """The differences found so far; each row counts once, whether it was decided among others, alone, or both."""

    def __init__(self) -> None:
        self._rows: dict[str, set[int]] = {name: set() for name in (*_DECIDED, _PROBABILITIES)}
        self._largest = 0.0
        self._shown: dict[int, Difference] = {}

    def add(self, differences: Iterable[Difference], start: int) -> None:
        """Add what was found about some rows, counted from `start`."""
        for found in differences:
            self._largest = max(self._largest, found.probability)
            row = start + found.row
            for name in found.what:
                self._rows[name].add(row)
            if found.what and len(self._shown) < _MAX_SHOWN:
                self._shown.setdefault(row, replace(found, row=row))

    def verification(self, rows: int) -> Verification:
        """Return the result for `rows` rows."""
        labels, stages, costs, probabilities = (len(self._rows[name]) for name in (*_DECIDED, _PROBABILITIES))
        return Verification(rows, labels, stages, costs, probabilities, self._largest, tuple(self._shown.values()))


class _Replay:
    """Decides rows with a cascade and compares with what training says about them."""

    def __init__(self, cascade: Cascade, model: CascadeModel) -> None:
        self._cascade = cascade
        self._model = model
        self._scorer = Scorer.from_bundle(cascade.bundle)
        # An evaluation has -1 for a rejected row: the last one.
        self._labels = np.array([*model.labels, None], dtype=object)

    def compare_columns(self, evaluation: Evaluation, table: Table) -> list[Difference]:
        """Compare all rows of a table; return those that differ, and the one with the largest difference of a probability."""
        decided = self._cascade.decide_columns(table.columns)
        gap = self._probability_gap(table, evaluation, decided.stages)
        trained = (self._labels[evaluation.label], evaluation.stage, evaluation.cost)
        runtime = (decided.label, decided.stages, decided.cost)
        differs = np.column_stack([*(mine != its for mine, its in zip(trained, runtime, strict=True)), ~(gap <= _TOLERANCE)])
        rows = [*np.flatnonzero(differs.any(axis=1)).tolist(), int(gap.argmax())]
        return [
            Difference(
                row,
                tuple(itertools.compress((*_DECIDED, _PROBABILITIES), differs[row])),
                (trained[0][row], int(trained[1][row]), float(trained[2][row])),
                (runtime[0][row], int(runtime[1][row]), float(runtime[2][row])),
                float(gap[row]),
            )
            for row in dict.fromkeys(rows)
        ]

    def compare_one(self, evaluation: Evaluation, row: int, item: dict[str, object]) -> Difference:
        """Compare one row, decided by itself."""
        decision = self._cascade.decide(item)
        trained = (self._labels[evaluation.label[row]], int(evaluation.stage[row]), float(evaluation.cost[row]))
        decided = (decision.label, decision.stages, decision.cost)
        gap = max(
            abs(record.probabilities[label] - float(evaluation.probabilities[record.stage - 1][row, position]))
            for record in decision.trace
            for position, label in enumerate(self._model.labels)
        )
        pairs = zip(_DECIDED, trained, decided, strict=True)
        what = [name for name, by_training, by_runtime in pairs if by_training != by_runtime]
        if not gap <= _TOLERANCE:
            what.append(_PROBABILITIES)
        return Difference(row, tuple(what), trained, decided, gap)

    def _probability_gap(self, table: Table, evaluation: Evaluation, stages: Ints) -> Floats:
        """Return the largest difference of any probability of each row, at the stages that the runtime scored."""
        manifest = self._cascade.manifest
        features = {feature.name: feature for feature in manifest.features}
        gap = np.zeros(table.rows)
        for index, stage in enumerate(manifest.stages):
            rows = np.flatnonzero(stages > index)
            inputs = np.column_stack(
                [encode_column(features[name], table.columns[name].take(rows, axis=0))[0] for name in stage.inputs]
            )
            apart = np.abs(self._scorer.score_rows(index, inputs) - evaluation.probabilities[index].take(rows, axis=0))
            # NaN is no agreement.
            gap[rows] = np.maximum(gap[rows], apart.max(axis=1, initial=0.0))
        return gap
