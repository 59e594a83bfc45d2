"""The manifest of a fitted design, before it is sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue, ValidationError

from emsco_runtime.bundle.manifest import Feature, Group, Manifest, Model, Stage
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.provenance import fingerprint, provenance
from emsco_train.data.stage_settings import ClassWeight, StageSettings
from emsco_train.data.table import Table
from emsco_train.errors import DesignError
from emsco_train.export.golden_items import make_golden_items
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.evaluation import evaluate
from emsco_train.models.graph import INPUT, OUTPUT
from emsco_train.support.validation_errors import first_error

__all__ = ["BundleInfo", "ExportRows", "build_manifest", "describe_training_settings"]

_PLACEHOLDER_ID = "0" * 64  # replaced by the manifest's own hash when it is sealed
_MAX_GOLDEN_ITEMS = 100


@dataclass(frozen=True, slots=True, eq=False)
class ExportRows:
    """One split of an export.

    Parameters
    ----------
    name
        What it is called.
    table
        Raw values.
    codes
        The same as numbers, of the design's features in order of acquisition.
    truth, target
        The true labels, and their positions.
    """

    name: str
    table: Table
    codes: Floats
    truth: tuple[Label, ...]
    target: Ints


@dataclass(frozen=True, slots=True)
class BundleInfo:
    """What the caller calls things, and what the golden items are drawn by.

    Parameters
    ----------
    name, version
        Of the bundle.
    created
        As `timestamp` gives it.
    seed
        Of the golden items, and recorded as the seed of the whole.
    golden
        How many golden items.
    """

    name: str
    version: str
    created: str
    seed: int
    golden: int = 5

    def __post_init__(self) -> None:
        """Refuse a number of golden items that is none."""
        golden: object = self.golden
        if not isinstance(golden, int) or not 1 <= golden <= _MAX_GOLDEN_ITEMS:
            raise DesignError(f"golden is {self.golden!r}: a whole number from 1 to {_MAX_GOLDEN_ITEMS} is due")


def build_manifest(
    info: BundleInfo,
    model: CascadeModel,
    cost_model: CostModel,
    train: ExportRows,
    held_out_rows: ExportRows,
    settings_record: Mapping[str, JsonValue],
) -> Manifest:
    """Return the manifest of a fitted design, not yet sealed.

    Parameters
    ----------
    info
        Names, and the golden items wanted.
    model
        The fitted design.
    cost_model
        What its features cost.
    train
        Rows that it was fitted on.
    held_out_rows
        Rows that the expected figures are counted on.
    settings_record
        What the provenance records.
    """
    try:
        return Manifest(
            id=_PLACEHOLDER_ID,
            name=info.name,
            version=info.version,
            created=info.created,
            labels=model.labels,
            cost_unit=cost_model.unit,
            features=model.features,
            groups=_groups(cost_model, model.features),
            stages=_stages(model),
            expected=evaluate(model, held_out_rows.codes).expected(held_out_rows.target, held_out_rows.name),
            golden=make_golden_items(model, train.codes, count=info.golden, rng=np.random.default_rng(info.seed)),
            provenance=provenance(settings_record, info.seed, fingerprint(model.features, train.codes, train.truth)),
        )
    except ValidationError as error:
        # Names are the user's words; what the format cannot hold is told in one line.
        fault = first_error(error)
        raise DesignError(f"{fault.path} is {fault.value!r}, which a bundle cannot hold: {fault.message}. Change it") from None


def describe_training_settings(settings: StageSettings, class_weight: ClassWeight, *, weighted: bool) -> dict[str, JsonValue]:
    """Return the choices that a manifest's provenance records."""
    weights: JsonValue = class_weight if isinstance(class_weight, str) else None
    if isinstance(class_weight, Mapping):
        weights = {str(label): float(weight) for label, weight in class_weight.items()}
    return {
        "classifier": None if settings.classifier is None else repr(settings.classifier),
        "C": float(settings.C),
        "class_weight": weights,
        "sample_weight": weighted,
    }


def _groups(cost_model: CostModel, features: Sequence[Feature]) -> tuple[Group, ...]:
    touched = {feature.group for feature in features}
    return tuple(Group(name=group.name, cost=float(group.cost)) for group in cost_model.groups if group.name in touched)


def _stages(model: CascadeModel) -> tuple[Stage, ...]:
    thresholds = {str(label): number for label, number in zip(model.labels, model.thresholds, strict=True)}
    return tuple(
        Stage(
            acquire=stage.acquire,
            inputs=stage.inputs,
            model=Model.of(number, stage.graph, input=INPUT, output=OUTPUT),
            thresholds=thresholds,
        )
        for number, stage in enumerate(model.stages, start=1)
    )
