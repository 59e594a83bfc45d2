"""Export of a given design: fit, convert, verify row by row, and only then publish."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_train.costs.cost_model import CostModel, Costs
from emsco_train.data.directions import Directions
from emsco_train.data.features import FeatureOptions, encode_table, infer_features
from emsco_train.data.labelled_rows import LabelledRows
from emsco_train.data.labels import label_positions, unique_labels
from emsco_train.data.problem_warnings import warn_low_thresholds
from emsco_train.data.provenance import timestamp
from emsco_train.data.stage_settings import ClassWeight, StageKind, StageSettings, row_weights
from emsco_train.data.thresholds import StageThresholds, Threshold, resolve_thresholds
from emsco_train.export.manifest_draft import BundleInfo, ExportRows, build_manifest, describe_training_settings
from emsco_train.export.publication import Export, verify_and_write
from emsco_train.models.cascade_model import CascadeFitter, check_stages
from emsco_train.models.evaluation import evaluate
from emsco_train.models.fitted_set import SetFitter
from emsco_train.search.compilation import compile_search
from emsco_train.support.numbers import check_seed

__all__ = ["export_design"]


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
    kind: StageKind = "straight",
    classifier: Any = None,
    C: float = 1.0,  # noqa: N803 - scikit-learn's name
    class_weight: ClassWeight = None,
    sample_weight: Any = None,
    increasing: Sequence[str] = (),
    decreasing: Sequence[str] = (),
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
        Options by feature name, where the training columns do not say everything.
    kind
        What to fit at every stage: "straight", "curved" or "boosted", as `stages` of `Problem.of`.
    classifier
        A scikit-learn classifier, cloned per stage, instead; None: what `kind` says.
    C, class_weight, sample_weight
        As in scikit-learn.
    increasing, decreasing
        Features with a direction, as in `Problem.of`.
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
        If the classifier cannot be converted to ONNX with equal probabilities.
    VerificationError
        If runtime and training disagree about any row; nothing is written then.
    """
    directions = Directions.make(increasing, decreasing)
    settings = StageSettings(classifier, C, check_seed(seed), kind=kind, directions=directions)
    info = BundleInfo(name, version, timestamp(created), settings.seed, golden)
    given = LabelledRows.of(X, y, "y")
    design = check_stages(stages, given.table.names)
    names = [feature for stage in design for feature in stage]
    cost_model = CostModel.of(costs, given.table.names)
    cost_model.check(given.table.names, names)
    labels = unique_labels(given.true_labels, "y")
    thresholds = resolve_thresholds(threshold, labels)
    warn_low_thresholds(thresholds, labels)
    described = infer_features(given.table, names, cost_model, features)
    directions.check(described, labels)
    train = _encode_rows("training", given, described, labels)
    held_out_given = LabelledRows.from_pair(held_out, "held_out")
    held_out_rows = _encode_rows(split, held_out_given, described, labels)
    weights = row_weights(train.target, labels, class_weight=class_weight, sample_weight=sample_weight)
    if settings.is_logistic:
        compile_search()
    sets = SetFitter.learn(described, train.codes, train.target, labels=len(labels), weights=weights, settings=settings)
    model = CascadeFitter(described, sets, labels=labels, meter=cost_model.meter()).fit(
        design, StageThresholds.constant(thresholds)
    )
    settings_record = describe_training_settings(settings, class_weight, weighted=sample_weight is not None)
    expected = evaluate(model, held_out_rows.codes).expected(held_out_rows.target, split, labels=labels)
    manifest = build_manifest(info, model, cost_model, train, expected, settings_record)
    tables = (("training", given.table), (split, held_out_given.table))
    return verify_and_write(path, manifest, model, tables, force=force)


def _encode_rows(name: str, given: LabelledRows, features: Sequence[Feature], labels: Sequence[Label]) -> ExportRows:
    return ExportRows(encode_table(features, given.table, name), label_positions(given.true_labels, labels))
