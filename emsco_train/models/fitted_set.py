"""`FittedSet`: the model of one feature set, and its decisions on rows.

A stage model depends on its cumulative feature set alone. Its inputs are in column order, whatever the order in which a design
acquires them: so search, figures and export have one model for a set, and one graph, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.data.curves.encoder_learner import EncoderLearner
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem, ScoredPart
from emsco_train.data.stage_settings import StageSettings, Upgrade
from emsco_train.models.borderline import settle_rows
from emsco_train.models.conversion import convert_stage, stage_scorer
from emsco_train.models.logistic.regression import LogisticBatch
from emsco_train.models.set_calibration import SetCalibrator
from emsco_train.models.stage_model import StageFitter, StageModel, has_exact_graph
from emsco_train.models.temperature import TemperatureScaling
from emsco_train.support.stop_flag import StopFlag

__all__ = ["FittedSet", "ProblemFitters", "SetFitter", "SetStages", "StageDecisions"]

# Rows whose scores alone and among others are compared, and how far apart these may be: far less than what counts as near a
# threshold.
_COMPARED_ROWS = 64
_BATCH_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class StageDecisions:
    """What one stage does with every row, whether the row reaches it or not.

    Probabilities [rows, labels] are those of training's arithmetic; the top label, and which rows would be accepted, those of the
    reference where that is close.
    """

    probabilities: Floats
    label: Ints
    confident: Mask


class FittedSet:
    """A fitted feature set; its graph and its session are made when they are first needed.

    `encoder` and the training codes `train` [rows, codes] are those of all features, `inputs` the names of the set in column
    order, and `model` is fitted on their columns. `scaling` says how it was calibrated; None if that was not asked for.
    """

    def __init__(
        self,
        encoder: BlockEncoder,
        inputs: tuple[str, ...],
        model: StageModel,
        labels: int,
        train: Floats,
        scaling: TemperatureScaling | None = None,
    ) -> None:
        self.inputs = inputs
        self.positions = encoder.positions(inputs)
        self.model = model
        self.scaling = scaling
        self._encoder = encoder.select(inputs)
        self._labels = labels
        self._train = train

    @cached_property
    def graph(self) -> bytes:
        """The model as ONNX."""
        return convert_stage(self._encoder, self.model, self._train[:, self.positions])

    @cached_property
    def _scorer(self) -> Scorer:
        return stage_scorer(self.graph, len(self.positions), self._labels)

    def reference_scores(self, codes: Floats) -> Floats:
        """Return the graph's score of each row [rows, inputs] alone, which decides in production; equal rows are scored once."""
        # As bytes: gaps are NaN, which equals nothing. 0.0 and -0.0 are scored separately, which does no harm.
        keys = [row.tobytes() for row in np.ascontiguousarray(codes)]
        scores = {key: self._scorer.score(0, row.tolist()) for key, row in dict(zip(keys, codes, strict=True)).items()}
        return np.array([scores[key] for key in keys]).reshape(len(codes), self._labels)

    @cached_property
    def scores_one_by_one(self) -> bool:
        """Whether the graph has to score each row alone, since it gives other scores for many rows at a time."""
        if has_exact_graph(self.model):
            return False
        rows = np.linspace(0, len(self._train) - 1, min(len(self._train), _COMPARED_ROWS)).astype(np.intp)
        codes = self._train[rows][:, self.positions]
        return not np.abs(self._scorer.score_rows(0, codes) - self.reference_scores(codes)).max() <= _BATCH_TOLERANCE

    def probabilities(self, codes: Floats) -> Floats:
        """Return the probabilities of rows [rows, inputs].

        Models with an exact graph are evaluated by numpy or their library, so that comparing with the runtime compares two
        computations. Others are scored through their graph: many rows at a time where that gives the same.
        """
        if has_exact_graph(self.model):
            return self.model.probabilities(self._encoder.transform(codes))
        return self.reference_scores(codes) if self.scores_one_by_one else self._scorer.score_rows(0, codes)

    def decide_rows(self, codes: Floats, thresholds: Sequence[float]) -> StageDecisions:
        """Decide rows [rows, inputs]."""
        scores = self.probabilities(codes)
        label, confident = settle_rows(
            scores, thresholds, lambda rows: scores[rows] if self.scores_one_by_one else self.reference_scores(codes[rows])
        )
        return StageDecisions(scores, label, confident)


class SetStages(Protocol):
    """Fits stage models on columns of the rows that it has, such as a `StageFitter`."""

    @property
    def is_logistic(self) -> bool:
        """Whether the models are logistic regressions, which `fit_batch` fits."""

    def fit(self, columns: Ints, /) -> StageModel:
        """Fit the model of one stage, whose inputs are these columns, in this order."""

    def fit_batch(self, sets: Mask, workers: int, /) -> LogisticBatch:
        """Fit the logistic regressions of many column sets [sets, columns]."""


class SetFitter:
    """Fits feature sets of one table: what all of them share is made once.

    `encoder` and the training codes [rows, codes] are those of all features, `stages` fits models on encoded columns. With a
    calibrator, models are scaled by their temperatures: those of one of its parts, or, without `part`, of the exported models.
    """

    def __init__(
        self,
        encoder: BlockEncoder,
        codes: Floats,
        stages: SetStages,
        labels: int,
        calibrator: SetCalibrator | None = None,
        part: int | None = None,
    ) -> None:
        self.encoder = encoder
        self.stages = stages
        self._names = encoder.names
        self._codes = codes
        self._labels = labels
        self._calibrator = calibrator
        self._part = part

    @classmethod
    def of(cls, problem: Problem, stop: StopFlag | None = None) -> SetFitter:
        """Return the fitter of a problem's train rows, for exports."""
        return cls(
            problem.train.encoder,
            problem.train.codes,
            _stage_fitter(problem, problem.train, problem.weights, stop),
            len(problem.labels),
            SetCalibrator(problem, [_part_fitter(problem, part, stop) for part in problem.parts])
            if problem.settings.calibrate
            else None,
        )

    @classmethod
    def of_parts(cls, problem: Problem, stop: StopFlag | None = None) -> tuple[SetFitter, ...]:
        """Return the fitters of the rows that fit each of a problem's parts, for the search."""
        stages = [_part_fitter(problem, part, stop) for part in problem.parts]
        calibrator = SetCalibrator(problem, stages) if problem.settings.calibrate else None
        return tuple(
            cls(part.fitted.encoder, part.fitted.codes, fitter, len(problem.labels), calibrator, position)
            for position, (part, fitter) in enumerate(zip(problem.parts, stages, strict=True))
        )

    @classmethod
    def learn(
        cls,
        features: Sequence[Feature],
        codes: Floats,
        target: Ints,
        *,
        labels: int,
        weights: Floats | None,
        settings: StageSettings,
    ) -> SetFitter:
        """Return the fitter of features without a problem: their encoding is learned from the codes [rows, codes] here."""
        plain = BlockEncoder.fit(features, codes)
        learner = EncoderLearner.choose(
            *(plain, features, codes, target), labels=range(labels), groups=None, weights=weights, settings=settings
        )
        encoder = learner.refine(plain, codes, target, weights)
        stages = StageFitter(
            encoder.transform(codes),
            target,
            labels,
            weights,
            settings,
            encoder.one_hot_groups,
            signs=encoder.signs(settings.directions),
        )
        return cls(encoder, codes, stages, labels)

    def sort_by_column(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names in the order of the columns."""
        wanted = set(names)
        return tuple(name for name in self._names if name in wanted)

    def fit(self, names: Sequence[str]) -> FittedSet:
        """Fit one set, given by the names of its features in any order."""
        inputs = self.sort_by_column(names)
        if self.stages.is_logistic:
            return next(self.fit_many([inputs], jobs=1))
        return self.from_model(inputs, self.stages.fit(self.encoder.columns(inputs)))

    def fit_many(self, sets: Sequence[tuple[str, ...]], jobs: int) -> Iterator[FittedSet]:
        """Fit many sets, each given in column order; the same models as `fit` gives one by one."""
        if not self.stages.is_logistic:
            yield from map(self.fit, sets)
            return
        columns = [self.encoder.columns(inputs) for inputs in sets]
        chosen = np.zeros((len(sets), self.encoder.width), dtype=np.bool_)
        for row, taken in zip(chosen, columns, strict=True):
            row[taken] = True
        batch = self.fit_batch(chosen, jobs)
        for index, (inputs, taken, scaling) in enumerate(zip(sets, columns, self.scalings(chosen, jobs), strict=True)):
            yield self.from_model(inputs, batch.model(index, taken), scaling)

    def fit_batch(self, columns: Mask, jobs: int) -> LogisticBatch:
        """Fit the logistic models of many sets, given by their columns [sets, columns]; calibrated if that was asked for."""
        if self._calibrator is None:
            return self.stages.fit_batch(columns, jobs)
        if self._part is not None:
            return self._calibrator.fit_part(self._part, columns, jobs)
        scalings = self._calibrator.scalings(columns, jobs)
        return self.stages.fit_batch(columns, jobs).with_temperatures(np.array([scaling.applied(None) for scaling in scalings]))

    def scalings(self, columns: Mask, jobs: int) -> Sequence[TemperatureScaling | None]:
        """Return how sets, given by their columns [sets, columns], were calibrated; None for each if that was not asked for."""
        return [None] * len(columns) if self._calibrator is None else self._calibrator.scalings(columns, jobs)

    def from_model(self, inputs: tuple[str, ...], model: StageModel, scaling: TemperatureScaling | None = None) -> FittedSet:
        """Return the set of a model that was fitted on its columns already."""
        return FittedSet(self.encoder, inputs, model, self._labels, self._codes, scaling)


class ProblemFitters:
    """Fitters of the feature sets of a problem, made when first needed: what is fitted once serves the search and its figures.

    `stop` ends their fits early.
    """

    def __init__(self, problem: Problem, stop: StopFlag | None = None) -> None:
        self.problem = problem
        self.stop = stop or StopFlag()
        self._upgraded: dict[Upgrade, ProblemFitters] = {}

    def upgraded(self, upgrade: Upgrade | None) -> ProblemFitters:
        """Return the fitters of the stages of an upgraded design, on the same rows; themselves for a design that is not."""
        if upgrade is None or upgrade == self.problem.upgrade:
            return self
        if upgrade not in self._upgraded:
            self._upgraded[upgrade] = ProblemFitters(self.problem.upgraded(upgrade), self.stop)
        return self._upgraded[upgrade]

    @cached_property
    def parts(self) -> tuple[SetFitter, ...]:
        """The fitters of the rows that fit each of the problem's parts."""
        return SetFitter.of_parts(self.problem, self.stop)

    @cached_property
    def exported(self) -> SetFitter:
        """The fitter of the train rows, for exports: without folds, the search has the same one."""
        return SetFitter.of(self.problem, self.stop) if self.problem.is_cross_fitted else self.parts[0]


def _part_fitter(problem: Problem, part: ScoredPart, stop: StopFlag | None) -> StageFitter:
    return _stage_fitter(problem, part.fitted, part.weights, stop)


def _stage_fitter(problem: Problem, rows: Split, weights: Floats | None, stop: StopFlag | None) -> StageFitter:
    groups, signs = rows.encoder.one_hot_groups, rows.encoder.signs(problem.settings.directions)
    return StageFitter(rows.encoded, rows.target, len(problem.labels), weights, problem.settings, groups, stop, signs)
