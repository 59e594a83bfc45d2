"""A design of a problem made to work: its fitted stages, the cascade over them, and its bundle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from emsco_runtime._arrays import Floats
from emsco_runtime._columns import ColumnDecisions
from emsco_runtime._scorer import Scorer
from emsco_runtime.cascade import Cascade
from emsco_runtime.decision import Label
from emsco_runtime.publish import seal
from emsco_train.bundling.export import Export, ExportRows, Heading, draft_manifest, export_design, recorded_choices
from emsco_train.data.features import FeatureOptions, encode_table
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.data.table import Table
from emsco_train.designs.design import Design
from emsco_train.errors import DesignError, ThresholdWarning
from emsco_train.stages.cascade_model import fit_cascade

__all__ = ["check_design", "export_from", "in_memory", "probabilities"]

_GOLDEN = 5


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows that expected figures are counted on, and what they are called."""

    rows: Split
    name: str


def check_design(design: object, names: Sequence[str], thresholds: Sequence[float]) -> Design:
    """Return the design; raise unless it is one of these features and thresholds.

    Parameters
    ----------
    design
        What the user gave.
    names
        The features in column order.
    thresholds
        Confidence that each label needs.
    """
    if not isinstance(design, Design):
        raise DesignError(f"design is {type(design).__name__}: a Design is due, such as front_.select() gives")
    used = [name for stage in design.stages for name in stage]
    if sorted([*used, *design.excluded]) != sorted(names) or len(design.thresholds) != len(thresholds):
        told = f"design {design.id} has other features or labels than the data of this fit"
        raise DesignError(f"{told}: give one of front_ (features: {', '.join(names)})")
    return design


def in_memory(problem: Problem, design: Design) -> Cascade:
    """Fit a design on the train rows and bind its cascade, without writing anything.

    Parameters
    ----------
    problem
        Rows, prices and what to fit.
    design
        One of its designs.
    """
    names = [name for stage in design.stages for name in stage]
    feature = {feature.name: feature for feature in problem.features}
    train = _as_rows(problem, problem.train, names)
    held = _held_out(problem, "test")
    model = fit_cascade(
        design.stages,
        tuple(feature[name] for name in names),
        train.codes,
        train.target,
        labels=problem.labels,
        thresholds=design.thresholds,
        weights=problem.weights,
        settings=problem.settings,
        meter=problem.meter,
    )
    heading = Heading("cascade", "1", _now(), held.name, problem.settings.seed, _GOLDEN)
    choices = recorded_choices(problem.settings, problem.class_weight, weighted=problem.weights is not None)
    manifest = draft_manifest(heading, model, problem.costs, train, _as_rows(problem, held.rows, names), choices)
    return Cascade(seal(manifest, [stage.graph for stage in model.stages]))


def export_from(
    path: str | os.PathLike[str],
    problem: Problem,
    design: Design,
    *,
    sample_weight: Any,
    name: str,
    version: str,
    split: str,
    force: bool,
) -> Export:
    """Fit a design on the train rows, verify it row by row, and write its bundle.

    Parameters
    ----------
    path
        Folder of the bundle.
    problem, design
        As in `in_memory`.
    sample_weight
        Of the train rows, class weights not included; or None.
    name, version, force
        As in `export_design`.
    split
        Split of the expected figures: "test", "validation" or "certify".
    """
    held = _held_out(problem, split)
    with warnings.catch_warnings():
        # The fit has told it already, at the user's line.
        warnings.simplefilter("ignore", ThresholdWarning)
        return export_design(
            path,
            stages=design.stages,
            X=problem.train.table,
            y=_truth(problem, problem.train),
            held_out=(held.rows.table, _truth(problem, held.rows)),
            threshold=dict(zip(problem.labels, design.thresholds, strict=True)),
            costs=problem.costs,
            features=_options(problem),
            classifier=problem.settings.classifier,
            C=problem.settings.C,
            class_weight=problem.class_weight,
            sample_weight=sample_weight,
            name=name,
            version=version,
            split=held.name,
            seed=problem.settings.seed,
            force=force,
        )


def probabilities(cascade: Cascade, table: Table, decided: ColumnDecisions) -> Floats:
    """Return each row's probabilities [rows, labels] at the last stage that scored it.

    Parameters
    ----------
    cascade
        What decided.
    table
        The rows.
    decided
        The decisions about them.
    """
    manifest = cascade.manifest
    scorer = Scorer.of(cascade.bundle)
    feature = {feature.name: feature for feature in manifest.features}
    scores = np.empty((table.rows, len(manifest.labels)))
    for number, stage in enumerate(manifest.stages, start=1):
        rows = np.flatnonzero(decided.stages == number)
        if len(rows):
            codes = encode_table([feature[name] for name in stage.inputs], table.take(rows), "given")
            scores[rows] = scorer.score_rows(number - 1, codes)
    return scores


def _held_out(problem: Problem, name: str) -> _Held:
    """Return the split of this name; without a test split, the validation rows stand in for it."""
    known = {split.name: split for split in problem.splits() if split.name != "train"}
    if name == "test" and name not in known:
        name = "validation"
    if name not in known:
        raise DesignError(f"split is {name!r}: one of {', '.join(known)} is due, which hold rows")
    return _Held(known[name], name)


def _as_rows(problem: Problem, split: Split, names: Sequence[str]) -> ExportRows:
    return ExportRows(split.table, split.codes[:, problem.encoder.positions(names)], _truth(problem, split), split.target)


def _truth(problem: Problem, split: Split) -> tuple[Label, ...]:
    return tuple(problem.labels[position] for position in split.target.tolist())


def _options(problem: Problem) -> dict[str, FeatureOptions]:
    """Return options that give each feature again as it is, whatever was inferred and whatever was given."""
    return {
        feature.name: FeatureOptions(
            kind=feature.kind, missing=feature.missing, unknown=feature.unknown, fallback=feature.fallback
        )
        for feature in problem.features
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
