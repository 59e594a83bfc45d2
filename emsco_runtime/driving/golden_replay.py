"""Golden items: a few decisions that a bundle promises, replayed before it is trusted.

They catch what no hash can: an onnxruntime that computes something else than the one the bundle was made with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco_runtime.driving.many import drive_one
from emsco_runtime.engine.plan import bind
from emsco_runtime.errors import AcquisitionError, BundleError

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Golden
    from emsco_runtime.bundle.reading import Bundle
    from emsco_runtime.engine.plan import Plan
    from emsco_runtime.engine.scorer import Scorer

__all__ = ["replay_golden_items"]

TOLERANCE = 1e-9


def replay_golden_items(bundle: Bundle, scorer: Scorer) -> None:
    """Decide every golden item and compare; raise `BundleError` where the promise is not kept."""
    plan = bind(bundle.manifest, None, "raise")
    for index, golden in enumerate(bundle.manifest.golden):
        place = f"$.golden[{index}]"
        fault = _probability_fault(plan, scorer, golden) or _decision_fault(plan, scorer, golden)
        if fault:
            advice = (
                "This onnxruntime, or this machine, computes something else than the one the bundle was made on: do not use it"
            )
            raise BundleError(f"{fault}. {advice}", bundle.path, place)


def _probability_fault(plan: Plan, scorer: Scorer, golden: Golden) -> str | None:
    values: list[float] = []
    for stage, expected in zip(plan.stages, golden.probabilities, strict=True):
        values += [feature.encode(golden.values[feature.name]) for feature in stage.features]
        inputs = values if stage.input_positions is None else [values[position] for position in stage.input_positions]
        actual = scorer.score(stage.number - 1, inputs)
        # "not within" rather than "beyond", so that NaN is a fault.
        if not all(abs(one - other) <= TOLERANCE for one, other in zip(actual, expected, strict=True)):
            return f"stage {stage.number} gives {actual}, the bundle promises {list(expected)}"
    return None


def _decision_fault(plan: Plan, scorer: Scorer, golden: Golden) -> str | None:
    try:
        decision = drive_one(plan, scorer, golden.values, {}, float("inf"))
    except AcquisitionError as error:
        return f"its values are refused: {error}"
    promised = golden.decision
    actual = (decision.status, decision.reason, decision.label, decision.stages, decision.cost)
    expected = (promised.status, promised.reason, promised.label, promised.stages, promised.cost)
    return None if actual == expected else f"the decision is {actual}, the bundle promises {expected}"
