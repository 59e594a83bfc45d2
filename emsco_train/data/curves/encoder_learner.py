"""`EncoderLearner`: learns the encoder of the rows that fit models, with curves or without."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.curve import Curve
from emsco_train.data.curves.additive_fit import STRAIGHT, CurvePenalties
from emsco_train.data.curves.learning import choose_penalties, learn_curves
from emsco_train.data.curves.vector_ridge import choose_vector_penalty
from emsco_train.data.directions import UNDIRECTED, Directions
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import first_codes
from emsco_train.data.stage_settings import StageSettings

__all__ = ["EncoderLearner"]


@dataclass(frozen=True, slots=True)
class EncoderLearner:
    """What the encoders of all folds share: the features, the number of labels, and how strongly curves and vectors are shrunk.

    `vector_penalties` are those of vectors by name, as multiples of the penalty of other columns: see `choose_vector_penalty`.
    """

    features: tuple[Feature, ...]
    labels: int
    penalties: CurvePenalties
    seed: int
    directions: Directions = UNDIRECTED
    vector_penalties: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def choose(
        cls,
        encoder: BlockEncoder,
        features: Sequence[Feature],
        codes: Floats,
        target: Ints,
        *,
        labels: Sequence[Label],
        groups: Ints | None,
        weights: Floats | None,
        settings: StageSettings,
    ) -> EncoderLearner:
        """Return the learner for train rows, on whose codes the encoder was fitted.

        Cross-validation inside these says how strongly to shrink curves, where they were asked for, and vectors.
        """
        penalties = CurvePenalties()
        if settings.kind == "curved" and any(feature.kind != "vector" for feature in features):
            rng = np.random.default_rng((settings.seed, 3))
            curved = _without_vectors(features, codes)
            penalties = choose_penalties(
                *curved, target, labels=labels, groups=groups, weights=weights, rng=rng, directions=settings.directions
            )
        vectors = {}
        for feature in features if settings.is_logistic else ():
            if feature.kind == "vector":
                vectors[feature.name] = choose_vector_penalty(
                    encoder.select([feature.name]).transform(codes[:, encoder.positions([feature.name])]),
                    target,
                    labels=labels,
                    groups=groups,
                    weights=weights,
                    C=settings.C,
                    rng=np.random.default_rng((settings.seed, 5)),
                )
        return cls(tuple(features), len(labels), penalties, settings.seed, settings.directions, vectors)

    @property
    def is_curved(self) -> bool:
        """Whether features get curves."""
        return self.penalties.step < STRAIGHT

    def learn(self, codes: Floats, target: Ints, weights: Floats | None, *, default: BlockEncoder | None = None) -> BlockEncoder:
        """Learn from the codes [rows, features] and the labels of rows that fit models; `default` as in `BlockEncoder.fit`."""
        return self.refine(BlockEncoder.fit(self.features, codes, default=default), codes, target, weights)

    def refine(self, encoder: BlockEncoder, codes: Floats, target: Ints, weights: Floats | None) -> BlockEncoder:
        """Return the encoder with curves, where features get some, and with vectors scaled by their penalties.

        It was fitted on the same codes. What is divided by the root of a penalty has this penalty in all models.
        """
        is_empty = np.atleast_1d(np.isnan(codes).all(axis=0))
        curves = self._learn_curves(codes, target, weights) if self.is_curved else {}
        # An empty block is that of all rows, which has both already.
        return BlockEncoder(
            tuple(
                block if empty else replace(block, curve=curves.get(block.name), scale=block.scale * self._scale(block.name))
                for block, empty in zip(encoder.blocks, is_empty, strict=True)
            )
        )

    def _scale(self, name: str) -> float:
        return math.sqrt(self.vector_penalties.get(name, 1.0))

    def _learn_curves(self, codes: Floats, target: Ints, weights: Floats | None) -> dict[str, Curve]:
        described, own_codes = _without_vectors(self.features, codes)
        learned = learn_curves(
            *(described, own_codes, target),
            labels=self.labels,
            weights=weights,
            penalties=self.penalties,
            rng=np.random.default_rng((self.seed, 4)),
            directions=self.directions,
        )
        return {feature.name: curve for feature, curve in zip(described, learned, strict=True)}


def _without_vectors(features: Sequence[Feature], codes: Floats) -> tuple[list[Feature], Floats]:
    """Return the features that get curves, with their codes: the numbers of a vector stay straight columns."""
    if not any(feature.kind == "vector" for feature in features):
        return list(features), codes
    kept = [(feature, code) for feature, code in zip(features, first_codes(features), strict=True) if feature.kind != "vector"]
    return [feature for feature, _ in kept], codes[:, [code for _, code in kept]]
