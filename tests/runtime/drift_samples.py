"""Manifests with given expected counts, and decisions that end in given ways; imported by test processes too: nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence

from emsco_runtime.bundle.manifest import Manifest, StageExits
from emsco_runtime.decision import Decision, StageRecord
from emsco_runtime.testing import sample_bundle

SAMPLE = sample_bundle().manifest
STAGES = len(SAMPLE.stages)


def manifest_of(counts: Sequence[int], *, wrong: int = 0, certificate: object = None) -> Manifest:
    """Return the sample's manifest with these expected counts: left at each stage, and rejected."""
    exits = [int(count) for count in counts[:-1]]
    rights = [exits[0] - wrong, *exits[1:]]
    expected = SAMPLE.expected.model_copy(
        update={
            "rows": int(sum(counts)),
            "accepted": sum(exits),
            "right": sum(exits) - wrong,
            "stages": tuple(StageExits(accepted=left, right=right) for left, right in zip(exits, rights, strict=True)),
        }
    )
    return SAMPLE.model_copy(update={"expected": expected, "certificate": certificate})


def make_decision(place: int, *, confidence: float = 0.95, bundle: str = SAMPLE.id) -> Decision:
    """Return a decision: left at stage `place` + 1, or inconclusive, or cut short after `place` - 4 stages."""
    record = StageRecord(1, ("size",), (), (), 1.0, {})
    if place < STAGES:
        return Decision("accepted", "confident", "spam", confidence, {}, place + 1, 1.0, 0.0, (record,), False, (), bundle)
    if place == STAGES:
        return Decision("rejected", "inconclusive", None, confidence, {}, STAGES, 28.0, 0.0, (record,), False, (), bundle)
    scored = place - STAGES - 1
    return Decision(
        "rejected", "budget", None, confidence if scored else None, {}, scored, 1.0, 0.0, (record,), False, (), bundle
    )
