"""`CascadeModel`: a fitted design, with everything that its bundle will hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.meter import Meter
from emsco_runtime.decision import Label
from emsco_runtime.engine.scorer import Scorer, ScorerModel
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import StageThresholds
from emsco_train.errors import DesignError
from emsco_train.models.fitted_set import FittedSet, ProblemFitters, SetFitter
from emsco_train.models.graph import INPUT, OUTPUT
from emsco_train.models.stage_model import StageModel

__all__ = ["CascadeFitter", "CascadeModel", "TrainedStage", "check_stages"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedStage:
    """One fitted stage: the features newly acquired, and the model of the features of all stages so far."""

    acquire: tuple[str, ...]
    fitted: FittedSet

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs of its model: the features of all stages so far, in column order."""
        return self.fitted.inputs

    @property
    def model(self) -> StageModel:
        """The fitted model."""
        return self.fitted.model

    @property
    def graph(self) -> bytes:
        """The same model as ONNX."""
        return self.fitted.graph


@dataclass(frozen=True, slots=True, eq=False)
class CascadeModel:
    """A fitted design.

    Parameters
    ----------
    features
        Every feature that some stage acquires, in order of acquisition.
    labels
        The labels in order.
    thresholds
        Confidence needed, per label, at the last stage and before it.
    encoder
        The blocks of `features`.
    stages
        The stages in order.
    meter
        The cost function.
    """

    features: tuple[Feature, ...]
    labels: tuple[Label, ...]
    thresholds: StageThresholds
    encoder: BlockEncoder
    stages: tuple[TrainedStage, ...]
    meter: Meter

    @property
    def stage_thresholds(self) -> tuple[tuple[float, ...], ...]:
        """The confidence that each label needs at each stage."""
        return self.thresholds.for_stages(len(self.stages))

    def stage_costs(self) -> tuple[float, ...]:
        """Return the cost of an item that leaves at each stage."""
        return tuple(cost.total for cost in self.meter.stage_costs(stage.acquire for stage in self.stages))

    def input_positions(self) -> tuple[list[int], ...]:
        """Return, for each stage, where its inputs are among the codes of `features`."""
        return tuple(self.encoder.positions(stage.inputs) for stage in self.stages)

    def scorer(self) -> Scorer:
        """Return a scorer of the stage graphs."""
        return Scorer(
            [
                ScorerModel(stage.graph, INPUT, OUTPUT, len(stage.fitted.positions), len(self.labels), f"(stage {number})")
                for number, stage in enumerate(self.stages, start=1)
            ]
        )


def check_stages(stages: Sequence[Sequence[str]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the stages as tuples; one error lists every name that is unknown or repeated, and every empty stage.

    Examples
    --------
    >>> check_stages([["a"], ["b", "c"]], ["a", "b", "c", "d"])
    (('a',), ('b', 'c'))
    """
    if isinstance(stages, str) or any(isinstance(stage, str) for stage in stages):
        raise DesignError(f"stages are lists of feature names, such as [['a'], ['b', 'c']]; got {stages!r}")
    faults = [] if stages else ["there is no stage: give at least one"]
    seen: dict[str, int] = {}
    for number, stage in enumerate(stages, start=1):
        if not stage:
            faults.append(f"stage {number} acquires nothing: give it a feature, or leave it out")
        for name in stage:
            if name not in names:
                faults.append(f"stage {number} names {name!r}, which is not a column (columns: {', '.join(names)})")
            if name in seen:
                faults.append(f"stage {number} acquires {name!r}, which stage {seen[name]} already has")
            seen[name] = number
    if faults:
        raise DesignError("stages: " + "; ".join(faults))
    return tuple(tuple(stage) for stage in stages)


class CascadeFitter:
    """Fits cascades on one table: what all designs share is made once.

    `features` are all features in column order, those of no stage included, and `sets` fits sets of them.
    """

    def __init__(self, features: tuple[Feature, ...], sets: SetFitter, *, labels: tuple[Label, ...], meter: Meter) -> None:
        self.sets = sets
        self._features = features
        self._labels = labels
        self._meter = meter

    @classmethod
    def of(cls, problem: Problem, fitters: ProblemFitters | None = None) -> CascadeFitter:
        """Return the fitter of all designs of a problem, on its train rows; `fitters` are those of the problem, if there are."""
        sets = (fitters or ProblemFitters(problem)).exported
        return cls(problem.features, sets, labels=problem.labels, meter=problem.meter)

    @classmethod
    def of_parts(cls, problem: Problem, fitters: ProblemFitters | None = None) -> tuple[CascadeFitter, ...]:
        """Return the fitters of all designs of a problem on the rows that fit each of its parts; `fitters` as in `of`."""
        parts = (fitters or ProblemFitters(problem)).parts
        return tuple(cls(problem.features, sets, labels=problem.labels, meter=problem.meter) for sets in parts)

    def fit(self, stages: Sequence[tuple[str, ...]], thresholds: StageThresholds) -> CascadeModel:
        """Fit the model of every stage; `stages` as `check_stages` returns them."""
        names = [name for stage in stages for name in stage]
        ends = itertools.accumulate(len(stage) for stage in stages)
        trained = [TrainedStage(acquire, self.sets.fit(names[:end])) for acquire, end in zip(stages, ends, strict=True)]
        encoder = self.sets.encoder
        described = {feature.name: feature for feature in self._features}
        used = tuple(described[name] for name in names)
        return CascadeModel(used, self._labels, thresholds, encoder.select(names), tuple(trained), self._meter)
