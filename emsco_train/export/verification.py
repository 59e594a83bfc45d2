"""Verification: replay rows through the runtime and compare with the training evaluation, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.cascade import Cascade
from emsco_runtime.decision import Decision, Label
from emsco_train.data.features import encode_table
from emsco_train.data.table import Table
from emsco_train.errors import VerificationError
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.evaluation import REJECTED, Evaluation, evaluate

__all__ = ["Difference", "Verification", "verify"]

_TOLERANCE = 1e-9
_MAX_SHOWN = 5


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


def verify(target: Bundle | Cascade, model: CascadeModel, table: Table) -> Verification:
    """Decide every row as production would, and compare with the training evaluation.

    Label, stage and cost must be equal exactly, the probabilities of every stage scored within 1e-9.

    Parameters
    ----------
    target
        The bundle, or a cascade whose items are mappings from feature name to value.
    model
        The fitted design that the bundle was made of.
    table
        Raw rows with at least the model's features.
    """
    cascade = Cascade(target) if isinstance(target, Bundle) else target
    chosen = table.select([feature.name for feature in model.features])
    evaluation = evaluate(model, encode_table(model.features, chosen, "verified"))
    counts: Counter[str] = Counter()
    largest = 0.0
    shown: list[Difference] = []
    for row, item in enumerate(chosen.items()):
        difference = _compare(model, evaluation, row, cascade.decide(item))
        largest = max(largest, difference.probability)
        counts.update(difference.what)
        if difference.what and len(shown) < _MAX_SHOWN:
            shown.append(difference)
    return Verification(
        chosen.rows, counts["label"], counts["stage"], counts["cost"], counts["probabilities"], largest, tuple(shown)
    )


def _compare(model: CascadeModel, evaluation: Evaluation, row: int, decision: Decision) -> Difference:
    position = int(evaluation.label[row])
    label = None if position == REJECTED else model.labels[position]
    trained = (label, int(evaluation.stage[row]), float(evaluation.cost[row]))
    decided = (decision.label, decision.stages, decision.cost)
    gap = _probability_gap(model, evaluation, row, decision)
    pairs = zip(("label", "stage", "cost"), trained, decided, strict=True)
    what = [name for name, by_training, by_runtime in pairs if by_training != by_runtime]
    if not gap <= _TOLERANCE:
        what.append("probabilities")
    return Difference(row, tuple(what), trained, decided, gap)


def _probability_gap(model: CascadeModel, evaluation: Evaluation, row: int, decision: Decision) -> float:
    return max(
        abs(record.probabilities[label] - float(evaluation.probabilities[record.stage - 1][row, position]))
        for record in decision.trace
        for position, label in enumerate(model.labels)
    )
