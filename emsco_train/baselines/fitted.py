"""Two kinds of fitted methods: a cascade of the project's own stages, and one model that pays for all that it uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.bundle.rule import accept_rows
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.baselines.bill import Bill
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.models.cascade_model import CascadeFitter, CascadeModel, check_stages
from emsco_train.models.evaluation import REJECTED, evaluate

__all__ = ["FittedCascade", "SingleModel"]


@dataclass(frozen=True, slots=True, eq=False)
class FittedCascade:
    """A design of the problem, fitted and evaluated as every other design is; `positions` are those of its codes among all."""

    model: CascadeModel
    positions: list[int]

    @classmethod
    def of(cls, problem: Problem, stages: Sequence[Sequence[str]], fitter: CascadeFitter | None = None) -> FittedCascade:
        """Fit a design, given by the features that each stage acquires; a `fitter` of the problem shares fits among designs."""
        checked = check_stages(stages, problem.names)
        model = (fitter or CascadeFitter.of(problem)).fit(checked, StageThresholds.constant(problem.thresholds))
        return cls(model, problem.encoder.positions([feature.name for feature in model.features]))

    def decide(self, codes: Floats, thresholds: Sequence[float]) -> Bill:
        """Let every row leave at the first stage that is confident about it."""
        found = evaluate(replace(self.model, thresholds=StageThresholds.constant(thresholds)), codes[:, self.positions])
        return Bill(found.label, found.cost, self.model.labels)


@dataclass(frozen=True, slots=True, eq=False)
class SingleModel:
    """One model: every row pays for all features that it uses, and is accepted by the project's rule.

    Parameters
    ----------
    predict
        From encoded rows [rows, columns] of all features to probabilities [rows, labels].
    encoder
        From codes to these columns.
    used
        The features that the model uses.
    cost
        What they cost.
    labels
        The labels in order.
    rejects
        Whether rows below their threshold are rejected; else every row gets its most probable label.
    """

    predict: Callable[[Floats], Floats]
    encoder: BlockEncoder
    used: tuple[str, ...]
    cost: float
    labels: tuple[Label, ...]
    rejects: bool = True

    @classmethod
    def of(
        cls, problem: Problem, predict: Callable[[Floats], Floats], used_columns: Mask, *, rejects: bool = True
    ) -> SingleModel:
        """Return the model that uses these encoded columns of a problem."""
        owners = problem.encoder.column_owners
        chosen = set(owners[used_columns].tolist())
        used = tuple(name for position, name in enumerate(problem.names) if position in chosen)
        return cls(predict, problem.encoder, used, problem.meter.cost(used), problem.labels, rejects)

    def decide(self, codes: Floats, thresholds: Sequence[float]) -> Bill:
        """Accept the rows that the model is confident about."""
        label, _, confident, _ = accept_rows(self.predict(self.encoder.transform(codes)), thresholds)
        position = np.where(confident, label, REJECTED) if self.rejects else label
        return Bill(position, np.full(len(codes), self.cost), self.labels)
