"""The manifest of a fitted design, before it is sealed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue, TypeAdapter, ValidationError

from emsco_runtime.bundle.manifest import Expected, Feature, Group, Manifest, Model, Name, Stage, needed_version
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.provenance import fingerprint, provenance
from emsco_train.data.stage_settings import ClassWeight, StageSettings
from emsco_train.errors import DesignError
from emsco_train.export.golden_items import make_golden_items
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.graph import INPUT, OUTPUT
from emsco_train.support.validation_errors import FirstError, first_error

__all__ = ["BundleInfo", "ExportRows", "build_manifest", "check_bundle_name", "describe_training_settings"]

_PLACEHOLDER_ID = "0" * 64  # replaced by the manifest's own hash when it is sealed
_MAX_GOLDEN_ITEMS = 100
_NAME = TypeAdapter(Name)


@dataclass(frozen=True, slots=True, eq=False)
class ExportRows:
    """The rows that an export was fitted on, as numbers."""

    codes: Floats  # of the design's features, in order of acquisition
    target: Ints  # positions of the true labels


@dataclass(frozen=True, slots=True)
class BundleInfo:
    """Name, version and time stamp of a bundle, and what its golden items are drawn by."""

    name: str
    version: str
    created: str
    seed: int
    golden: int = 5

    def __post_init__(self) -> None:
        """Check the name, the version and the number of golden items."""
        check_bundle_name(self.name, self.version)
        golden: object = self.golden
        if not isinstance(golden, int) or not 1 <= golden <= _MAX_GOLDEN_ITEMS:
            raise DesignError(f"golden is {self.golden!r}: expected a whole number from 1 to {_MAX_GOLDEN_ITEMS}")


def check_bundle_name(name: str, version: str) -> None:
    """Raise if a bundle cannot have this name or this version."""
    for word, text in (("name", name), ("version", version)):
        try:
            _NAME.validate_python(text, strict=True)
        except ValidationError as error:
            raise _unfit_value(FirstError(word, first_error(error).message, text)) from None


def build_manifest(
    info: BundleInfo,
    model: CascadeModel,
    cost_model: CostModel,
    train: ExportRows,
    expected: Expected,
    settings_record: Mapping[str, JsonValue],
) -> Manifest:
    """Return the manifest of a design fitted on the `train` rows, not yet sealed; `expected` are its figures on other rows."""
    true_labels = [model.labels[position] for position in train.target.tolist()]
    try:
        return Manifest(
            schema_version=needed_version(model.features),
            id=_PLACEHOLDER_ID,
            name=info.name,
            version=info.version,
            created=info.created,
            labels=model.labels,
            cost_unit=cost_model.unit,
            features=model.features,
            groups=_groups(cost_model, model.features),
            stages=_stages(model),
            expected=expected,
            golden=make_golden_items(model, train.codes, count=info.golden, rng=np.random.default_rng(info.seed)),
            provenance=provenance(settings_record, info.seed, fingerprint(model.features, train.codes, true_labels)),
        )
    except ValidationError as error:
        # Names are the user's own: what the format cannot hold is reported in one line.
        raise _unfit_value(first_error(error)) from None


def describe_training_settings(settings: StageSettings, class_weight: ClassWeight, *, weighted: bool) -> dict[str, JsonValue]:
    """Return the choices that a manifest's provenance records."""
    weights: JsonValue = class_weight if isinstance(class_weight, str) else None
    if isinstance(class_weight, Mapping):
        weights = {str(label): float(weight) for label, weight in class_weight.items()}
    return {
        "classifier": None if settings.is_logistic else repr(settings.described_classifier),
        "C": float(settings.C),
        "class_weight": weights,
        "sample_weight": weighted,
        **({} if settings.calibrate is None else {"calibrate": settings.calibrate}),
        **({} if settings.kind == "straight" else {"stages": settings.kind}),
        **settings.directions.record(),
    }


def _unfit_value(fault: FirstError) -> DesignError:
    return DesignError(f"{fault.path} is {fault.value!r}, which a bundle cannot hold: {fault.message}. Change it")


def _groups(cost_model: CostModel, features: Sequence[Feature]) -> tuple[Group, ...]:
    touched = {group for feature in features for group in feature.all_groups}
    return tuple(Group(name=group.name, cost=float(group.cost)) for group in cost_model.groups if group.name in touched)


def _stages(model: CascadeModel) -> tuple[Stage, ...]:
    return tuple(
        Stage(
            acquire=stage.acquire,
            inputs=stage.inputs,
            model=Model.of(number, stage.graph, input=INPUT, output=OUTPUT),
            thresholds={str(label): number for label, number in zip(model.labels, thresholds, strict=True)},
        )
        for number, (stage, thresholds) in enumerate(zip(model.stages, model.stage_thresholds, strict=True), start=1)
    )
