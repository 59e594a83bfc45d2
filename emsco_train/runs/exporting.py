"""From a run to a bundle: choose, fit, verify every row, certify, write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from emsco_runtime.bundle.manifest import Label
from emsco_train.designs.selection import MatchEverything, Requirements
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.export.publication import Export
from emsco_train.export.searched_design import export_searched_design
from emsco_train.export.target_check import check_target
from emsco_train.export.tuned_choice import choose_tuned_design
from emsco_train.guarantee.choice import Choice, SelectionCriteria
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.runs.front_measurement import MeasuredDesign, measure_fitted_design
from emsco_train.runs.ledger_file import RunLedger
from emsco_train.runs.opening import OpenRun, open_run
from emsco_train.support.numbers import worker_count
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["RunExport", "export_open_run", "export_run"]


@dataclass(frozen=True, slots=True, eq=False)
class RunExport:
    """What an export of a run made.

    Parameters
    ----------
    opened
        The run.
    choice
        Which design, and why.
    export
        The bundle, verified.
    measured
        The design on the test rows; where there are none, on those of the search.
    """

    opened: OpenRun
    choice: Choice
    export: Export
    measured: MeasuredDesign


def export_run(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    min_accuracy: float | None = None,
    min_coverage: float | None = None,
    max_cost: float | None = None,
    min_recall: Mapping[Label, float] | None = None,
    min_accuracy_of: Mapping[Label, float] | None = None,
    sure: float | None = DEFAULT_SURE,
    design: str | None = None,
    match_everything: float | None = None,
    max_error: float | None = None,
    max_error_of: Mapping[Label, float] | None = None,
    confidence: float = 0.95,
    data: Mapping[str | None, str] | None = None,
    name: str | None = None,
    version: str = "1",
    force: bool = False,
) -> RunExport:
    """Choose a design of a run and write its bundle, as `emsco-export` does.

    Parameters
    ----------
    run
        Folder of the run.
    out
        Folder of the bundle.
    min_accuracy, min_coverage, max_cost
        Floors and cap on validation figures; the cheapest design that satisfies them, or one that is surer for little more. With
        a largest error, coverage and cost are guaranteed too, together with it. Without any, the knee of the front.
    min_recall, min_accuracy_of
        Floors per label: label -> share, see `Front.select`. With a largest error, recall is guaranteed too.
    sure
        They must hold by one-sided bounds at this level; None: by the figures as they are. See `Front.select`.
    design
        An id of the front or the beginning of one, "knee" or "fittest", instead of other criteria.
    match_everything
        Take the cheapest design that decides at most this share of the answered items differently from one stage of all features,
        by an upper bound at the level `sure`. Instead of other criteria.
    max_error, confidence
        Guarantee that at most this share of accepted items is wrong, at this confidence; see docs/guarantee.md.
    max_error_of
        Guarantee the same of items accepted as a label: label -> share.
    data
        Where the files are now, if they were moved.
    name, version
        Of the bundle; the name of the run's folder unless given.
    force
        Replace a bundle that is already there; it stays until the new one is complete.
    """
    requirements = Requirements.of(
        min_accuracy=min_accuracy,
        min_coverage=min_coverage,
        max_cost=max_cost,
        min_recall=min_recall,
        min_accuracy_of=min_accuracy_of,
        sure=sure,
    )
    criteria = SelectionCriteria.of(
        requirements,
        design,
        max_error=max_error,
        max_error_of=max_error_of,
        confidence=confidence,
        match=None if match_everything is None else MatchEverything(match_everything, sure),
    )
    return export_open_run(open_run(run, data), out, criteria, name=name, version=version, force=force)


def export_open_run(
    opened: OpenRun,
    out: str | os.PathLike[str],
    criteria: SelectionCriteria,
    *,
    name: str | None,
    version: str,
    force: bool,
    on_phase: OnPhase = ignore_phase,
) -> RunExport:
    """Choose a design of an open run and write its bundle; for `out` and the options see `export_run`.

    `on_phase` is called with each `Phase` of it.
    """
    bundle_name = name or opened.folder.path.resolve().name
    check_target(out, name=bundle_name, version=version, force=force)
    on_phase(Phase("choosing and certifying a design"))
    ledger = RunLedger(opened.folder, opened.run)
    fitters = ProblemFitters(opened.problem)
    jobs = worker_count(None)
    choice = choose_tuned_design(opened.problem, opened.front, criteria, ledger, jobs=jobs, fitters=fitters)
    exported = export_searched_design(
        out,
        opened.problem,
        choice.design,
        name=bundle_name,
        version=version,
        force=force,
        settings_record={
            "design": choice.design.id,
            "search": dict(opened.run.search.settings),
            "method": opened.run.search.method,
            "missing": list(opened.run.data.missing),
        },
        certificate=choice.certificate,
        likely=choice.likely,
        fitters=fitters,
        on_phase=on_phase,
    )
    on_phase(Phase("measuring the design"))
    measured = measure_fitted_design(opened.problem, opened.problem.held_out, choice.design, exported.model)
    return RunExport(opened, choice, exported, measured)
