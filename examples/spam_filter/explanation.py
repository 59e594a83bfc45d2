"""Why a verdict: how much each feature spoke for spam or for ham at the stage that decided.

A feature's contribution is what the log-odds of spam lose when its value is replaced by the one of common mail, the fallback of
the bundle. It is exact for that question, for any kind of stage model. Features that say the same share their influence, so
contributions need not add up to the whole.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from emsco_runtime import Acquirers, Cascade
from emsco_runtime.bundle import Bundle
from emsco_runtime.bundle.publish import build_bundle
from spam_filter.load.single_stage_model import make_single_stage
from spam_filter.message.mail import Mail

__all__ = ["Reason", "explain"]

# Beyond these a probability is certain for all that matters here.
_LEAST: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Reason:
    """What one feature said.

    Parameters
    ----------
    feature, value
        Its name, and what it was.
    usual
        Its value in common mail, which it is compared with.
    contribution
        In nats: above 0 it spoke for spam, below 0 for ham.
    """

    feature: str
    value: object
    usual: object
    contribution: float


def explain(bundle: Bundle, registry: Acquirers, mail: Mail, stage: int) -> list[Reason]:
    """Return what the features said at a stage, the strongest first.

    Parameters
    ----------
    bundle
        The cascade.
    registry
        Obtains the features, once more.
    mail
        The message.
    stage
        The stage that decided, counted from 1.
    """
    manifest, content = make_single_stage(bundle, stage)
    cascade = Cascade(build_bundle(manifest, [content]))
    values = _acquire(registry, mail, frozenset(feature.name for feature in manifest.features))
    known = [values, *({**values, feature.name: feature.fallback} for feature in manifest.features)]
    whole, *others = [_log_odds(decision.probabilities) for decision in cascade.decide_many([None] * len(known), known=known)]
    reasons = [
        Reason(feature.name, values[feature.name], feature.fallback, whole - without)
        for feature, without in zip(manifest.features, others, strict=True)
    ]
    return sorted(reasons, key=lambda reason: -abs(reason.contribution))


def _acquire(registry: Acquirers, mail: Mail, wanted: frozenset[str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for entry in registry.entries:
        if wanted.isdisjoint(entry.names):
            continue
        found = entry.function(mail)
        if inspect.iscoroutine(found):
            found = asyncio.run(found)
        values.update(found if entry.shape == "features" else {entry.names[0]: found})
    return {name: value for name, value in values.items() if name in wanted}


def _log_odds(probabilities: Mapping[str | int, float]) -> float:
    spam = min(max(probabilities["spam"], _LEAST), 1 - _LEAST)
    return math.log(spam / (1 - spam))
