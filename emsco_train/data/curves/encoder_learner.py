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
            penalties = choose_penalties(*curved, target, labels=labels, groups=groups, weights=weights, rng=rng)
        return cls(tuple(features), len(labels), penalties, settings.seed)

    @property
    def is_curved(self) -> bool:
        """Whether features get curves."""
        return self.penalties.step < STRAIGHT

    def learn(self, codes: Floats, target: Ints, weights: Floats | None, *, default: BlockEncoder | None = None) -> BlockEncoder:
        """Learn from the codes [rows, features] and the labels of rows that fit models; `default` as in `BlockEncoder.fit`."""
        encoder = BlockEncoder.fit(self.features, codes, default=default)
        if not self.is_curved:
            return encoder
        described, own_codes = _without_vectors(self.features, codes)
        learnt = learn_curves(
            *(described, own_codes, target),
            labels=self.labels,
            weights=weights,
            penalties=self.penalties,
            rng=np.random.default_rng((self.seed, 4)),
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
