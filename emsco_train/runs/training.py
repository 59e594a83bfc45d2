"""Training a run: search at every threshold, measure on the test rows, and write the folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from emsco_runtime.decision import Label
from emsco_train.data.thresholds import Threshold, resolve_thresholds
from emsco_train.designs.chromosome import Population
from emsco_train.designs.front import Front
from emsco_train.designs.threshold_text import format_threshold
from emsco_train.errors import DesignError
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.runs.calibration_file import CalibrationFile
from emsco_train.runs.curves_file import CURVES_NAME, CurvesFile
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.front_csv import format_front_csv
from emsco_train.runs.front_measurement import MeasuredDesign, measure_designs
from emsco_train.runs.labels_file import LabelsFile
from emsco_train.runs.ledger_file import LEDGER_NAME, LedgerFile, RunLedger
from emsco_train.runs.preparation import PreparedRun, resolve_settings
from emsco_train.runs.run_file import RunFile
from emsco_train.runs.run_record import TimedOutcome, format_splits_csv, make_run_record
from emsco_train.runs.saved_request import SavedRequest
from emsco_train.runs.table_findings import format_findings
from emsco_train.runs.warm_start import read_start
from emsco_train.search.genetic.checkpoint import CheckpointError, Checkpoints
from emsco_train.search.missed_limits import describe_missed_limits
from emsco_train.search.progress import Progress
from emsco_train.search.settings import Settings
from emsco_train.search.sweep import join_fronts, search_thresholds
from emsco_train.support.numbers import worker_count
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["ProgressFactory", "TrainedRun", "train"]

ProgressFactory = Callable[[str], Progress]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedRun:
    """A finished run.

    Parameters
    ----------
    folder, run
        Its folder, and its record.
    front
        Designs of all thresholds, with their validation figures.
    measured
        The same designs, in the same order, on the test rows; on the validation rows where there are no test rows.
    interrupted
        Whether Ctrl-C ended a search early.
    """

    folder: RunFolder
    run: RunFile
    front: Front
    measured: tuple[MeasuredDesign, ...]
    interrupted: bool


def train(
    prepared: PreparedRun,
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    force: bool = False,
    watch: ProgressFactory | None = None,
    on_phase: OnPhase = ignore_phase,
    page: Sequence[str] | None = None,
) -> TrainedRun:
    """Search at every threshold and write the folder.

    Parameters
    ----------
    prepared
        As `prepare` returns it.
    out
        The folder.
    resume
        Continue from the checkpoints of an unfinished run.
    force
        Replace a finished run; it stays until the new one is complete.
    watch
        Returns what shows the progress of a search, given the description of its threshold.
    on_phase
        Called with a `Phase` for each part of the work around the searches.
    page
        The lines of check.txt, if not those that `format_findings` gives.
    """
    problem, jobs = prepared.problem, worker_count(prepared.request.jobs)
    settings = resolve_settings(prepared.request, problem.names)
    start = None if prepared.request.start is None else read_start(prepared.request.start, problem.names)
    folder = RunFolder(out)
    initial_files = {} if resume and _continues_ledger(folder, prepared) else {LEDGER_NAME: LedgerFile().text()}
    folder.begin(resume=resume, force=force)
    try:
        saved_request = SavedRequest.load_or_save(prepared.request, folder.work)
        lines = format_findings(problem, prepared.findings) if page is None else page
        files = {"check.txt": "\n".join(lines) + "\n"}
        return _search_and_write(
            folder, prepared, settings, files, initial_files, start, jobs=jobs, resume=resume, watch=watch, on_phase=on_phase
        )
    except CheckpointError as error:
        folder.abandon()
        differences = saved_request.differences(prepared.request)
        raise CheckpointError(f"{error}. It was started with {', '.join(differences)}" if differences else str(error)) from error
    except BaseException:
        folder.abandon()
        raise


def _continues_ledger(folder: RunFolder, prepared: PreparedRun) -> bool:
    """Return whether a run that was cut short, and may have been exported, has the same certify rows: then its uses count on."""
    if not folder.is_complete():
        return False
    before = folder.read()
    if before.data.fingerprint != prepared.problem.data_digest():
        return False
    planned = prepared.request.certify_uses
    if before.certify_uses != planned and RunLedger(folder, before).read():
        raise DesignError(
            f"certify_uses is {planned}, but the run started with {before.certify_uses}, and its certify rows have been used: "
            "the number is fixed before the first use"
        )
    return True


def _search_and_write(
    folder: RunFolder,
    prepared: PreparedRun,
    settings: Settings,
    own_files: Mapping[str, str],
    initial_files: Mapping[str, str],
    start: Population | None,
    *,
    jobs: int,
    resume: bool,
    watch: ProgressFactory | None,
    on_phase: OnPhase,
) -> TrainedRun:
    """Search, measure and write, in a locked folder; `initial_files` are those that later commands continue."""
    problem = prepared.problem
    fitters = ProblemFitters(problem)
    on_phase(Phase("searching"))
    searched = _search_thresholds(prepared, settings, folder, fitters, start, jobs=jobs, resume=resume, watch=watch)
    outcomes = [timed.outcome for timed in searched]
    front = join_fronts(problem, outcomes)
    measured = tuple(measure_designs(problem, problem.held_out, tuple(front), fitters, jobs=jobs, on_phase=on_phase))
    on_phase(Phase("writing the run"))
    files = {
        **own_files,
        "front.csv": format_front_csv(measured, has_test_rows=problem.test is not None),
        "front.json": front.to_json(),
        "splits.csv": format_splits_csv(problem, prepared.source.row_numbers()),
        "costs.toml": problem.costs.to_toml(),
        "calibration.json": CalibrationFile.of(problem.held_out.name, measured).text(),
        "labels.json": LabelsFile.of(problem.held_out.name, problem.labels, measured).text(),
    }
    curves = CurvesFile.of(problem)
    if curves is not None:
        files[CURVES_NAME] = curves.text()
    reasons = {outcome.stopped for outcome in outcomes}
    interrupted = "interrupted" in reasons or len(searched) < len(prepared.request.thresholds)
    record = make_run_record(prepared, settings, searched, fitters)
    folder.finish(files, record, initial_files=initial_files, keep_work=interrupted or "time" in reasons)
    return TrainedRun(folder, folder.read(), front, measured, interrupted)


def _search_thresholds(
    prepared: PreparedRun,
    settings: Settings,
    folder: RunFolder,
    fitters: ProblemFitters,
    start: Population | None,
    *,
    jobs: int,
    resume: bool,
    watch: ProgressFactory | None,
) -> list[TimedOutcome]:
    """Search at each threshold; Ctrl-C ends the rest as well."""
    request = prepared.request
    started, searched = time.monotonic(), []
    for outcome in search_thresholds(
        prepared.problem,
        request.thresholds,
        settings,
        method=request.method,
        seed=request.seed,
        jobs=jobs,
        max_rows=prepared.search_rows,
        time_limit=request.time_limit,
        start=start,
        progress=lambda position: watch and watch(_describe_threshold(request.thresholds[position], prepared.problem.labels)),
        checkpoints=lambda position: Checkpoints(folder.work / f"checkpoint-{position + 1}.json", resume=resume),
        fitters=fitters,
        upgrade=request.upgrade,
    ):
        now = time.monotonic()
        searched.append(TimedOutcome(outcome, now - started))
        started = now
    if not any(len(timed.outcome.front) for timed in searched):
        folder.abandon(checkpoints=True)
        is_complete = all(timed.outcome.stopped == "complete" for timed in searched)
        remedy = "loosen them" if is_complete else "loosen them, or search longer"
        misses = describe_missed_limits(settings.constraints, [timed.outcome.missed for timed in searched])
        raise DesignError(f"no design that was found satisfies the constraints of the search: {misses}: {remedy}")
    return searched


def _describe_threshold(threshold: Threshold, labels: Sequence[Label]) -> str:
    return f"threshold {format_threshold(resolve_thresholds(threshold, labels), labels)}"
