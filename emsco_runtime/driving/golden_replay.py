"""Golden items: a few items with their expected decisions in the bundle, replayed before it is used.

They detect what no hash can: an onnxruntime that computes something else than the one the bundle was made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emsco_runtime.bundle.encoding import Encoded
from emsco_runtime.bundle.manifest import Golden, RawValue
from emsco_runtime.bundle.reading import Bundle
from emsco_runtime.driving.one import drive_one
from emsco_runtime.engine.binding import bind
from emsco_runtime.engine.plan import Plan
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.errors import AcquisitionError, BundleError

__all__ = ["replay_golden_items", "score_stages"]

TOLERANCE = 1e-9


def replay_golden_items(bundle: Bundle, scorer: Scorer) -> None:
    """Decide every golden item; raise `BundleError` if probabilities or decision differ from those in the bundle."""
    plan = bind(bundle.manifest, None, "raise")
    for index, golden in enumerate(bundle.manifest.golden):
        fault = _probability_fault(plan, scorer, golden) or _decision_fault(plan, scorer, golden)
        if fault:
            advice = (
                "This onnxruntime, or this machine, computes something else than the one the bundle was made on: do not use it"
            )
            raise BundleError(f"{fault}. {advice}", bundle.path, f"$.golden[{index}]")


def score_stages(plan: Plan, scorer: Scorer, item: Mapping[str, RawValue]) -> Iterator[list[float]]:
    """Yield the probabilities of each stage for an item with all its values."""
    values: list[Encoded] = []
    for stage in plan.stages:
        values += [feature.encode(item[feature.name]) for feature in stage.features]
        yield scorer.score(stage.number - 1, stage.inputs_from(values))


def _probability_fault(plan: Plan, scorer: Scorer, golden: Golden) -> str | None:
    scores = zip(score_stages(plan, scorer, golden.values), golden.probabilities, strict=True)
    for number, (actual, expected) in enumerate(scores, start=1):
        # "not within" rather than "beyond", so that NaN is a fault.
        if not all(abs(one - other) <= TOLERANCE for one, other in zip(actual, expected, strict=True)):
            return f"stage {number} gives {actual}, the bundle expects {list(expected)}"
    return None


def _decision_fault(plan: Plan, scorer: Scorer, golden: Golden) -> str | None:
    try:
        decision = drive_one(plan, scorer, golden.values, {}, float("inf"))
    except AcquisitionError as error:
        return f"its values are refused: {error}"
    actual = (decision.status, decision.reason, decision.label, decision.stages, decision.cost)
    expected = tuple(golden.decision.model_dump().values())
    return None if actual == expected else f"the decision is {actual}, the bundle expects {expected}"
