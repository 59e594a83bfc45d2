"""`CascadeModel`: a fitted design, as training sees it.

Holds everything that the bundle will hold, and the fitted models beside their graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emsco_runtime._arrays import Floats, Ints
from emsco_runtime._scorer import Scorer, ScorerModel
from emsco_runtime.decision import Label
from emsco_runtime.manifest import Feature
from emsco_runtime.meter import Meter
from emsco_train.data.encoder import BlockEncoder
from emsco_train.errors import DesignError
from emsco_train.stage_model import StageFitter, StageModel, StageSettings
from emsco_train.stages.conversion import convert_stage
from emsco_train.stages.graph import INPUT, OUTPUT

__all__ = ["CascadeFitter", "CascadeModel", "TrainedStage", "check_stages"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedStage:
    """One fitted stage.

    Parameters
    ----------
    acquire
        Features newly acquired.
    inputs
        Inputs of its model: the features of all stages so far, in order of acquisition.
    model
        The fitted model.
    graph
        The same model as ONNX.
    """

    acquire: tuple[str, ...]
    inputs: tuple[str, ...]
    model: StageModel
    graph: bytes


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
        Confidence needed, per label.
    encoder
        The blocks of `features`.
    stages
        The stages in order.
    meter
        The cost function.
    """

    features: tuple[Feature, ...]
    labels: tuple[Label, ...]
    thresholds: tuple[float, ...]
    encoder: BlockEncoder
    stages: tuple[TrainedStage, ...]
    meter: Meter

    def stage_costs(self) -> tuple[float, ...]:
        """Return the bill of an item that leaves at each stage."""
        return tuple(self.meter.cost(stage.inputs) for stage in self.stages)

    def scorer(self) -> Scorer:
        """Return a scorer of the stage graphs."""
        models = [
            ScorerModel(stage.graph, INPUT, OUTPUT, len(stage.inputs), len(self.labels), f"(stage {number})")
            for number, stage in enumerate(self.stages, start=1)
        ]
        return Scorer(models)


def check_stages(stages: Sequence[Sequence[str]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the stages as tuples; one error lists every name that is unknown, repeated or missing.

    Parameters
    ----------
    stages
        Features newly acquired, stage by stage.
    names
        The columns there are.

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
                faults.append(f"stage {number} names {name!r}, which is no column (columns: {', '.join(names)})")
            if name in seen:
                faults.append(f"stage {number} acquires {name!r}, which stage {seen[name]} already has")
            seen[name] = number
    if faults:
        raise DesignError("stages: " + "; ".join(faults))
    return tuple(tuple(stage) for stage in stages)


class CascadeFitter:
    """Fits cascades on one table: what all designs share is made once.

    Parameters
    ----------
    features
        All features there are, those of no stage included, in column order: a search of designs had the same.
    codes
        Training codes [rows, features].
    target
        Position of each row's label.
    labels
        The labels in order.
    weights
        One per row, or None.
    settings
        What to fit.
    meter
        The cost function.
    """

    def __init__(
        self,
        features: tuple[Feature, ...],
        codes: Floats,
        target: Ints,
        *,
        labels: tuple[Label, ...],
        weights: Floats | None,
        settings: StageSettings,
        meter: Meter,
    ) -> None:
        self._features = features
        self._codes = codes
        self._labels = labels
        self._meter = meter
        self._encoder = BlockEncoder.fit(features, codes)
        self._fitter = StageFitter(self._encoder.transform(codes), target, len(labels), weights, settings, self._encoder.choices)

    def fit(self, stages: Sequence[tuple[str, ...]], thresholds: tuple[float, ...]) -> CascadeModel:
        """Fit the model of every stage and write its graph.

        Parameters
        ----------
        stages
            As `check_stages` returns them.
        thresholds
            Confidence that each label needs.
        """
        every = self._encoder
        trained: list[TrainedStage] = []
        inputs: tuple[str, ...] = ()
        for acquire in stages:
            # The features are in order of acquisition, so the inputs of a stage are always a prefix of them: the runtime fills
            # one buffer once.
            inputs += acquire
            model = self._fitter.fit(every.columns(inputs))
            graph = convert_stage(every.select(inputs), model, self._codes[:, every.positions(inputs)])
            trained.append(TrainedStage(acquire, inputs, model, graph))
        used = tuple(self._features[position] for position in every.positions(inputs))
        return CascadeModel(used, self._labels, thresholds, every.select(inputs), tuple(trained), self._meter)
