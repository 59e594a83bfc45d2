"""The baselines of the load driver: the same design with all its features acquired at once, or with all that there are.

Each is a bundle like any other: its one stage is the last stage of the cascade, with the same model and the same thresholds. The
second also acquires what the design leaves out, as a single model on all features would.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from emsco_runtime import read_bundle, write_bundle, write_model_index
from emsco_runtime.bundle import Bundle
from emsco_runtime.bundle.rule import accept
from emsco_runtime.manifest import (
    CostSummary,
    Expected,
    Feature,
    Golden,
    GoldenDecision,
    Group,
    Manifest,
    Model,
    Stage,
    StageExits,
)
from emsco_runtime.model_folder import MODEL_FILE
from spam_filter.model import COSTS

if TYPE_CHECKING:
    from emsco_train import CostModel

__all__ = ["add_other_features", "make_single_stage", "write_single_stage_model"]


def write_single_stage_model(model: Path, out: Path, *, everything: bool = False) -> None:
    """Write a model's folder that acquires at once what another acquires in stages.

    Parameters
    ----------
    model
        The trained model.
    out
        The new folder.
    everything
        Acquire all features that have a cost, those that the design leaves out, too.
    """
    shutil.copytree(model, out, ignore=shutil.ignore_patterns("bundle", MODEL_FILE))
    manifest, content = make_single_stage(read_bundle(model / "bundle"))
    if everything:
        from emsco_train import CostModel  # noqa: PLC0415 - heavy

        manifest = add_other_features(manifest, CostModel.from_file(model / COSTS))
    write_bundle(out / "bundle", manifest, [content])
    write_model_index(out)


def make_single_stage(bundle: Bundle, number: int | None = None) -> tuple[Manifest, bytes]:
    """Return the manifest and the model of the single-stage bundle.

    Parameters
    ----------
    bundle
        The cascade.
    number
        Which stage it is, counted from 1, with the features of those before it; None: the last one.

    Examples
    --------
    >>> from emsco_runtime.testing import sample_bundle
    >>> manifest, _ = make_single_stage(sample_bundle())
    >>> [stage.acquire for stage in manifest.stages]
    [('size', 'links', 'reputation')]
    """
    manifest = bundle.manifest
    count = len(manifest.stages) if number is None else number
    last, content = manifest.stages[count - 1], bundle.models[count - 1]
    stage = Stage(
        acquire=tuple(name for stage in manifest.stages[:count] for name in stage.acquire),
        inputs=last.inputs,
        model=Model.of(1, content, input=last.model.input, output=last.model.output),
        thresholds=last.thresholds,
    )
    cost = manifest.meter().cost(stage.acquire)
    costs = CostSummary(mean=cost, p50=cost, p95=cost, max=cost)
    # The single stage was never measured, and has no certificate.
    never = Expected(split="none", rows=1, accepted=0, right=0, stages=(StageExits(accepted=0, right=0),), cost=costs)
    golden = tuple(_golden(one, manifest, stage, cost, count) for one in manifest.golden)
    kept = tuple(feature for feature in manifest.features if feature.name in stage.acquire)
    groups = {name for feature in kept for name in feature.all_groups}
    made = manifest.model_copy(
        update={
            "features": kept,
            "groups": tuple(group for group in manifest.groups if group.name in groups),
            "stages": (stage,),
            "expected": never,
            "certificate": None,
            "golden": golden,
        }
    )
    return made, content


def add_other_features(manifest: Manifest, costs: CostModel) -> Manifest:
    """Return the manifest of a single stage that acquires all features with a cost; its model sees those that it saw before."""
    (stage,) = manifest.stages
    # Their values reach no model: any number may be one.
    others = [
        Feature(name=name, kind="numeric", cost=cost, fallback=0.0).with_groups(costs.groups_of(name))
        for name, cost in costs.features.items()
        if name not in stage.acquire
    ]
    known = {group.name for group in manifest.groups}
    groups = (*manifest.groups, *(Group(name=one.name, cost=one.cost) for one in costs.groups if one.name not in known))
    names = tuple(feature.name for feature in others)
    changed = manifest.model_copy(
        update={
            "features": (*manifest.features, *others),
            "groups": groups,
            "stages": (stage.model_copy(update={"acquire": (*stage.acquire, *names)}),),
        }
    )
    cost = changed.meter().total
    golden = tuple(
        one.model_copy(
            update={
                "values": {**one.values, **dict.fromkeys(names, 0.0)},
                "decision": one.decision.model_copy(update={"cost": cost}),
            }
        )
        for one in manifest.golden
    )
    spent = CostSummary(mean=cost, p50=cost, p95=cost, max=cost)
    return changed.model_copy(update={"golden": golden, "expected": manifest.expected.model_copy(update={"cost": spent})})


def _golden(golden: Golden, manifest: Manifest, stage: Stage, cost: float, count: int) -> Golden:
    """Return what the single stage decides on a golden item: the rule of the runtime, on the stored probabilities."""
    row = golden.probabilities[count - 1]
    top, accepted = accept(row, [stage.thresholds[str(label)] for label in manifest.labels])
    label = manifest.labels[top]
    decision = GoldenDecision(
        status="accepted" if accepted else "rejected",
        reason="confident" if accepted else "inconclusive",
        label=label if accepted else None,
        stages=1,
        cost=cost,
    )
    values = {name: value for name, value in golden.values.items() if name in stage.acquire}
    return Golden(values=values, probabilities=(row,), decision=decision)
