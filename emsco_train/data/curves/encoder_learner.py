"""`EncoderLearner`: learns the encoder of the rows that fit models, with curves or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.curves.additive_fit import STRAIGHT, CurvePenalties
from emsco_train.data.curves.learning import choose_penalties, learn_curves
from emsco_train.data.directions import UNDIRECTED, Directions
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import first_codes
from emsco_train.data.stage_settings import StageSettings

__all__ = ["EncoderLearner"]


@dataclass(frozen=True, slots=True)
class EncoderLearner:
    """What the encoders of all folds share: the features, the number of labels, and how strongly curves are shrunk."""

    features: tuple[Feature, ...]
    labels: int
    penalties: CurvePenalties
    seed: int
    directions: Directions = UNDIRECTED

    @classmethod
    def choose(
        cls,
        features: Sequence[Feature],
        codes: Floats,
        target: Ints,
        *,
        labels: Sequence[Label],
        groups: Ints | None,
        weights: Floats | None,
        settings: StageSettings,
    ) -> EncoderLearner:
        """Return the learner for train rows; where curves were asked for, cross-validation inside these says how strong."""
        penalties = CurvePenalties()
        if settings.kind == "curved" and any(feature.kind != "vector" for feature in features):
            rng = np.random.default_rng((settings.seed, 3))
            curved = _without_vectors(features, codes)
            penalties = choose_penalties(
                *curved, target, labels=labels, groups=groups, weights=weights, rng=rng, directions=settings.directions
            )
        return cls(tuple(features), len(labels), penalties, settings.seed, settings.directions)

    @property
    def is_curved(self) -> bool:
        """Whether features get curves."""
        return self.penalties.step < STRAIGHT

    def learn(self, codes: Floats, target: Ints, weights: Floats | None, *, default: BlockEncoder | None = None) -> BlockEncoder:
        """Learn from the codes [rows, features] and the labels of rows that fit models; `default` as in `BlockEncoder.fit`."""
        return self.add_curves(BlockEncoder.fit(self.features, codes, default=default), codes, target, weights)

    def add_curves(self, encoder: BlockEncoder, codes: Floats, target: Ints, weights: Floats | None) -> BlockEncoder:
        """Return the encoder with curves, where features get some; it was fitted on the same codes."""
        if not self.is_curved:
            return encoder
        described, own_codes = _without_vectors(self.features, codes)
        learnt = learn_curves(
            *(described, own_codes, target),
            labels=self.labels,
            weights=weights,
            penalties=self.penalties,
            rng=np.random.default_rng((self.seed, 4)),
            directions=self.directions,
        )
        curves = {feature.name: curve for feature, curve in zip(described, learnt, strict=True)}
        blocks = zip(encoder.blocks, np.atleast_1d(np.isnan(codes).all(axis=0)), strict=True)
        return BlockEncoder(
            tuple(block if is_empty else replace(block, curve=curves.get(block.name)) for block, is_empty in blocks)
        )


def _without_vectors(features: Sequence[Feature], codes: Floats) -> tuple[list[Feature], Floats]:
    """Return the features that get curves, with their codes: the numbers of a vector stay straight columns."""
    if not any(feature.kind == "vector" for feature in features):
        return list(features), codes
    kept = [(feature, code) for feature, code in zip(features, first_codes(features), strict=True) if feature.kind != "vector"]
    return [feature for feature, _ in kept], codes[:, [code for _, code in kept]]
