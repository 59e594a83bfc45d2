"""Digests of a problem: what checkpoints and caches compare before they trust what they hold."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from emsco_runtime.bundle.manifest import Feature, manifest_id
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.labelled_rows import Split
from emsco_train.data.provenance import fingerprint
from emsco_train.data.stage_settings import StageSettings

__all__ = ["data_digest", "problem_digest"]


def data_digest(
    features: Sequence[Feature],
    labels: Sequence[Label],
    splits: Sequence[Split],
    weights: Floats | None,
    encoder: BlockEncoder,
    settings: StageSettings,
) -> str:
    """Return a hash of all that stage models and their scores depend on.

    Parameters
    ----------
    features, labels, splits, weights, encoder, settings
        As in `Problem`. Prices and fallbacks of features are left out: they change no model.
    """
    hashed_fields = {"name", "kind", "categories", "missing", "unknown"}
    return manifest_id(
        {
            "features": [feature.model_dump(mode="json", include=hashed_fields) for feature in features],
            "labels": list(labels),
            "splits": {split.name: _split_fingerprint(split, features, labels) for split in splits},
            "weights": None if weights is None else hashlib.sha256(weights.astype("<f8").tobytes()).hexdigest(),
            "encoder": repr(encoder),
            "settings": _describe_settings(settings),
        }
    )


def problem_digest(data: str, costs: CostModel, thresholds: Sequence[float]) -> str:
    """Return a hash of a data digest, costs and thresholds together.

    Parameters
    ----------
    data
        As `data_digest` gives it.
    costs, thresholds
        As in `Problem`.
    """
    groups = sorted((group.name, float(group.cost), sorted(group.features)) for group in costs.groups)
    own = {name: float(cost) for name, cost in costs.features.items()}
    prices = {"features": own, "groups": groups, "unit": costs.unit}
    return manifest_id({"data": data, "costs": prices, "thresholds": list(thresholds)})


def _split_fingerprint(split: Split, features: Sequence[Feature], labels: Sequence[Label]) -> str:
    return fingerprint(features, split.codes, [labels[position] for position in split.target.tolist()]).sha256


def _describe_settings(settings: StageSettings) -> dict[str, Any]:
    kind, options = None, {}
    if settings.classifier is not None:
        kind = f"{type(settings.classifier).__module__}.{type(settings.classifier).__qualname__}"
        # Not repr of the whole: scikit-learn shortens it.
        options = {name: repr(value) for name, value in settings.classifier.get_params(deep=True).items()}
    return {"classifier": kind, "options": options, "C": float(settings.C), "seed": settings.seed}
