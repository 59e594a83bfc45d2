"""Export of a given design: fit, convert, verify row by row, and only then publish."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pydantic import JsonValue, ValidationError

from emsco_runtime import write_bundle
from emsco_runtime._arrays import Floats, Ints
from emsco_runtime.bundle import Bundle
from emsco_runtime.cascade import Cascade
from emsco_runtime.decision import Label
from emsco_runtime.manifest import Expected, Feature, Group, Manifest, Model, Stage
from emsco_runtime.publish import seal
from emsco_train.bundling.golden import make_golden
from emsco_train.bundling.verification import Verification, verify
from emsco_train.costs.model import CostModel, Costs
from emsco_train.data.features import FeatureOptions, encode_table, infer_features
from emsco_train.data.labels import label_positions, plain_labels, unique_labels
from emsco_train.data.provenance import fingerprint, provenance
from emsco_train.data.table import Table
from emsco_train.data.thresholds import Threshold, resolve_thresholds, warn_low_thresholds
from emsco_train.errors import DesignError
from emsco_train.stage_model import ClassWeight, StageSettings, row_weights
from emsco_train.stages.cascade_model import CascadeModel, check_stages, fit_cascade
from emsco_train.stages.evaluation import evaluate
from emsco_train.stages.graph import INPUT, OUTPUT

__all__ = ["Export", "ExportRows", "Heading", "draft_manifest", "export_design", "recorded_choices"]

_UNSEALED = "0" * 64  # replaced by the manifest's own hash when it is sealed
_MAX_GOLDEN = 100


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """What an export made.

    Parameters
    ----------
    bundle
        As written.
    model
        The fitted design behind it, for further verification.
    expected
        Counts on the held-out rows.
    held_out, training
        Verification of the held-out and of the training rows: both agree, or there would be no export.
    """

    bundle: Bundle
    model: CascadeModel
    expected: Expected
    held_out: Verification
    training: Verification


@dataclass(frozen=True, slots=True, eq=False)
class ExportRows:
    """One split: raw values, their codes, the true labels and their positions."""

    table: Table
    codes: Floats
    truth: tuple[Label, ...]
    target: Ints


@dataclass(frozen=True, slots=True)
class Heading:
    """What the caller calls things, and what the golden items are drawn by."""

    name: str
    version: str
    created: str
    split: str
    seed: int
    golden: int


def export_design(
    path: str | os.PathLike[str],
    *,
    stages: Sequence[Sequence[str]],
    X: Any,  # noqa: N803 - scikit-learn's name
    y: Any,
    held_out: tuple[Any, Any],
    threshold: Threshold,
    costs: Costs = None,
    features: Mapping[str, FeatureOptions] | None = None,
    classifier: Any = None,
    C: float = 1.0,  # noqa: N803 - scikit-learn's name
    class_weight: ClassWeight = None,
    sample_weight: Any = None,
    name: str = "cascade",
    version: str = "1",
    split: str = "held-out",
    seed: int = 0,
    golden: int = 5,
    created: datetime | None = None,
    force: bool = False,
) -> Export:
    """Fit a design, verify it against the runtime, and write its bundle.

    Parameters
    ----------
    path
        Folder of the bundle.
    stages
        Feature names newly acquired, stage by stage. Columns in no stage are left out.
    X, y
        Training rows (a data frame, a mapping of arrays, or an array) and their labels.
    held_out
        Rows and labels that training did not see, for the expected figures.
    threshold
        Confidence needed to accept: one number above 0 and up to 1, or a mapping label -> number.
    costs
        A cost model, a mapping, a sequence in column order, or None for 1 each.
    features
        Options by feature name, where the training columns do not tell all.
    classifier
        A scikit-learn classifier, cloned per stage; None: logistic regression.
    C, class_weight, sample_weight
        As in scikit-learn.
    name, version
        What the bundle is called.
    split
        What the held-out rows are called.
    seed
        Seed of the golden items and of classifiers that need one.
    golden
        How many golden items.
    created
        Time stamp; now, unless given. Give one for a bundle that is the same byte for byte.
    force
        Replace a bundle that is already there; until the new one is verified, the old one stays.

    Raises
    ------
    DataError, DesignError
        If the arguments do not fit together.
    ConversionError
        If the classifier has no faithful ONNX graph.
    VerificationError
        If runtime and training disagree about any row; nothing is written then.
    """
    settings = StageSettings(classifier, C, seed)
    heading = Heading(name, version, _timestamp(created), split, seed, _checked_count(golden))
    table = Table.of(X)
    design = check_stages(stages, table.names)
    names = [feature for stage in design for feature in stage]
    prices = CostModel.of(costs, table.names)
    prices.check(table.names, names)
    truth = plain_labels(y, rows=table.rows, where="y")
    labels = unique_labels(truth, "y")
    thresholds = resolve_thresholds(threshold, labels)
    warn_low_thresholds(thresholds, labels, stacklevel=2)
    described = infer_features(table, names, prices, features)
    train = _rows(table, truth, described, labels, "training")
    fresh = _held_out(held_out, described, labels)
    model = fit_cascade(
        design,
        described,
        train.codes,
        train.target,
        labels=labels,
        thresholds=thresholds,
        weights=row_weights(train.target, labels, class_weight=class_weight, sample_weight=sample_weight),
        settings=settings,
        meter=prices.meter(),
    )
    choices = recorded_choices(settings, class_weight, weighted=sample_weight is not None)
    manifest = draft_manifest(heading, model, prices, train, fresh, choices)
    return _publish(path, manifest, model, train, fresh, force=force)


def draft_manifest(
    heading: Heading,
    model: CascadeModel,
    prices: CostModel,
    train: ExportRows,
    fresh: ExportRows,
    choices: Mapping[str, JsonValue],
) -> Manifest:
    """Return the manifest of a fitted design, not yet sealed."""
    try:
        return Manifest(
            id=_UNSEALED,
            name=heading.name,
            version=heading.version,
            created=heading.created,
            labels=model.labels,
            cost_unit=prices.unit,
            features=model.features,
            groups=_groups(prices, model.features),
            stages=_stages(model),
            expected=evaluate(model, fresh.codes).expected(fresh.target, heading.split),
            golden=make_golden(model, train.codes, count=heading.golden, rng=np.random.default_rng(heading.seed)),
            provenance=provenance(choices, heading.seed, fingerprint(model.features, train.codes, train.truth)),
        )
    except ValidationError as error:
        # Names are the user's words; what the format cannot hold is told in one line.
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DesignError(f"{place} is {first['input']!r}, which a bundle cannot hold: {first['msg']}. Change it") from None


def _publish(
    path: str | os.PathLike[str], manifest: Manifest, model: CascadeModel, train: ExportRows, fresh: ExportRows, *, force: bool
) -> Export:
    """Verify the bundle in memory, then write it: a bundle that disagrees with training never replaces one that does not."""
    graphs = [stage.graph for stage in model.stages]
    cascade = Cascade(seal(manifest, graphs, os.fspath(path)))
    held_out = verify(cascade, model, fresh.table).require("held-out")
    training = verify(cascade, model, train.table).require("training")
    return Export(write_bundle(path, manifest, graphs, force=force), model, manifest.expected, held_out, training)


def _rows(table: Table, truth: Sequence[Label], features: Sequence[Feature], labels: Sequence[Label], where: str) -> ExportRows:
    return ExportRows(table, encode_table(features, table, where), tuple(truth), label_positions(truth, labels))


def _held_out(held_out: object, features: Sequence[Feature], labels: Sequence[Label]) -> ExportRows:
    if not isinstance(held_out, tuple | list) or len(held_out) != 2:
        got = type(held_out).__name__
        raise DesignError(f"held_out is a pair (rows, labels) that training did not see, got {got}: give one")
    table = Table.of(held_out[0])
    return _rows(table, plain_labels(held_out[1], rows=table.rows, where="held-out y"), features, labels, "held-out")


def _checked_count(golden: object) -> int:
    if not isinstance(golden, int) or not 1 <= golden <= _MAX_GOLDEN:
        raise DesignError(f"golden is {golden!r}: a whole number from 1 to {_MAX_GOLDEN} is due")
    return golden


def _groups(prices: CostModel, features: Sequence[Feature]) -> tuple[Group, ...]:
    touched = {feature.group for feature in features}
    return tuple(Group(name=group.name, cost=float(group.cost)) for group in prices.groups if group.name in touched)


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


def recorded_choices(settings: StageSettings, class_weight: ClassWeight, *, weighted: bool) -> dict[str, JsonValue]:
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


def _timestamp(created: datetime | None) -> str:
    moment = datetime.now(UTC) if created is None else created
    if moment.tzinfo is None:
        raise DesignError(f"created is {moment.isoformat()} without a time zone: give it one, such as datetime.now(UTC)")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
