"""A design of a problem made to work: its fitted stages, the cascade over them, and its bundle."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import JsonValue

from emsco_runtime.bundle.manifest import Certificate, Expected, LikelyFigures, Manifest
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.cascade import Cascade
from emsco_train.data.labelled_rows import Split
from emsco_train.data.problem import Problem
from emsco_train.data.provenance import timestamp
from emsco_train.data.stage_settings import row_weights
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.errors import DesignError, VerificationError
from emsco_train.export.expected_rows import choose_expected_rows
from emsco_train.export.manifest_draft import BundleInfo, ExportRows, build_manifest, describe_training_settings
from emsco_train.export.publication import Export, verify_and_write
from emsco_train.models.cascade_model import CascadeFitter, CascadeModel
from emsco_train.models.evaluation import evaluate_split, evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["build_cascade", "check_counts", "check_design", "export_searched_design", "fit_design"]

# Costs are summed in two ways, each exact but for one rounding; counts must be equal.
_COST_TOLERANCE = 1e-9


def check_design(design: object, names: Sequence[str], thresholds: Sequence[float]) -> Design:
    """Return what the user gave as a design; raise unless it is a design of these features and labels."""
    if not isinstance(design, Design):
        raise DesignError(f"design is {type(design).__name__}: expected a Design, such as front_.select() returns")
    used = [name for stage in design.stages for name in stage]
    if sorted([*used, *design.excluded]) != sorted(names) or len(design.thresholds) != len(thresholds):
        raise DesignError(
            f"design {design.id} has other features or labels than the data of this fit: "
            f"give one of front_ (features: {', '.join(names)})"
        )
    return design


def fit_design(problem: Problem, design: Design, fitters: ProblemFitters | None = None) -> CascadeModel:
    """Fit a design on the train rows: the models that the search scored, to the last bit.

    `fitters` are those of the problem, if they were made before.
    """
    own = (fitters or ProblemFitters(problem)).upgraded(design.upgrade)
    return CascadeFitter.of(own.problem, own).fit(design.stages, design.stage_thresholds)


def check_counts(problem: Problem, design: Design, fitters: ProblemFitters | None = None) -> None:
    """Raise unless the design, fitted again, has the same figures on the validation rows as its search found."""
    own = (fitters or ProblemFitters(problem)).upgraded(design.upgrade)
    problem, parts = own.problem, CascadeFitter.of_parts(own.problem, own)
    evaluation = evaluate_validation(problem, design.stages, design.stage_thresholds, parts)
    rows = problem.validation
    found = Counts.of_expected(evaluation.expected(rows.target, rows.name, rows.units, problem.labels))
    same_cost = math.isclose(found.cost, design.cost, rel_tol=_COST_TOLERANCE, abs_tol=_COST_TOLERANCE)
    if (found.coverage, found.accuracy) == (design.coverage, design.accuracy) and same_cost:
        return
    searched = f"coverage {design.coverage:.6g}, accuracy {design.accuracy:.6g}, cost {design.cost:.6g}"
    fitted = f"coverage {found.coverage:.6g}, accuracy {found.accuracy:.6g}, cost {found.cost:.6g}"
    raise VerificationError(
        f"design {design.id} has other figures on the {found.rows} {problem.validation.name} rows than its search found: "
        f"{searched} then, {fitted} now. Nothing was written; search again with these data and versions, and choose a design of "
        "that front"
    )


def build_cascade(problem: Problem, design: Design) -> Cascade:
    """Fit a design on the train rows and bind its cascade, without writing anything."""
    own = ProblemFitters(problem).upgraded(design.upgrade)
    problem, model = own.problem, fit_design(own.problem, design, own)
    info = BundleInfo("cascade", "1", timestamp(), problem.settings.seed)
    manifest = _draft_manifest(problem, design, model, problem.held_out, info, {})
    return Cascade(build_bundle(manifest, [stage.graph for stage in model.stages]))


def export_searched_design(
    path: str | os.PathLike[str],
    problem: Problem,
    design: Design,
    *,
    name: str = "cascade",
    version: str = "1",
    split: str | None = None,
    force: bool = False,
    settings_record: Mapping[str, JsonValue] | None = None,
    certificate: Certificate | None = None,
    likely: LikelyFigures | None = None,
    fitters: ProblemFitters | None = None,
    on_phase: OnPhase = ignore_phase,
) -> Export:
    """Fit a design on the train rows, verify every row of every split, and write its bundle.

    Parameters
    ----------
    path
        Folder of the bundle.
    problem, design
        As in `fit_design`.
    name, version, force
        As in `export_design`.
    split
        Split of the expected figures; None: as `choose_expected_rows` says.
    settings_record
        What the provenance records in addition to the choices of the problem.
    certificate
        The bound on the design's errors; None: there is none.
    likely
        What the choice of the design is likely to give; None: unknown, or the expected figures show it.
    fitters
        Those of the problem, if they were made before.
    on_phase
        Called with each `Phase` of it.

    Raises
    ------
    VerificationError
        If the design has other figures on the validation rows than its search found, or if runtime and training disagree about
        any row; nothing is written then.
    """
    on_phase(Phase("fitting the design"))
    own = (fitters or ProblemFitters(problem)).upgraded(design.upgrade)
    problem, model = own.problem, fit_design(own.problem, design, own)
    check_counts(problem, design, own)
    info = BundleInfo(name, version, timestamp(), problem.settings.seed)
    manifest = _draft_manifest(
        problem, design, model, choose_expected_rows(problem, certificate, split), info, settings_record or {}
    )
    expected = manifest.expected.model_copy(update={"likely": likely})
    certified = manifest.model_copy(update={"certificate": certificate, "expected": expected})
    return verify_and_write(
        path, certified, model, [(part.name, part.table) for part in problem.splits()], force=force, on_phase=on_phase
    )


def _draft_manifest(
    problem: Problem,
    design: Design,
    model: CascadeModel,
    held_out: Split,
    info: BundleInfo,
    settings_record: Mapping[str, JsonValue],
) -> Manifest:
    positions = problem.encoder.positions([feature.name for feature in model.features])
    train = ExportRows(problem.train.codes[:, positions], problem.train.target)
    expected = _expected_figures(problem, design, model, held_out)
    return build_manifest(info, model, problem.costs, train, expected, {**_training_settings(problem), **settings_record})


def _expected_figures(problem: Problem, design: Design, model: CascadeModel, split: Split) -> Expected:
    """Return what a design does on rows that its models have not seen; `model` is the exported one, not for validation rows."""
    if split is not problem.validation:
        return evaluate_split(problem, model, split).expected(split.target, split.name, split.units, problem.labels)
    # The figures that the search counted were checked; those of a bundle come from folds that took no part in the choice.
    measured = problem.with_other_folds()
    rows = measured.validation
    evaluation = evaluate_validation(measured, design.stages, design.stage_thresholds)
    return evaluation.expected(rows.target, rows.name, rows.units, problem.labels)


def _training_settings(problem: Problem) -> dict[str, JsonValue]:
    # The weights of a problem hold both kinds: weighted is what class weights alone would not give.
    alone = row_weights(problem.train.target, problem.labels, class_weight=problem.class_weight, sample_weight=None)
    weighted = problem.weights is not None and (alone is None or not np.array_equal(problem.weights, alone))
    return describe_training_settings(problem.settings, problem.class_weight, weighted=weighted)
