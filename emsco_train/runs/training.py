"""Training a run: search at every threshold, measure on the test rows, and write the folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from emsco_train.data.problem import Problem
from emsco_train.data.thresholds import Threshold
from emsco_train.designs.front import Front
from emsco_train.errors import DesignError
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.runs.calibration_file import CalibrationFile
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.front_csv import format_front_csv
from emsco_train.runs.front_measurement import MeasuredDesign, measure_designs
from emsco_train.runs.preparation import PreparedRun
from emsco_train.runs.run_file import RunFile
from emsco_train.runs.run_record import TimedOutcome, format_splits_csv, make_run_record
from emsco_train.search.genetic.checkpoint import Checkpoints
from emsco_train.search.progress import Progress
from emsco_train.search.remeasurement import remeasure_front
from emsco_train.search.searches import Outcome, run_search, worker_count
from emsco_train.search.settings import Settings, pinned_positions
from emsco_train.search.workbench import Workbench

__all__ = ["ProgressFactory", "TrainedRun", "train"]

ProgressFactory = Callable[[str], Progress]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedRun:
    """A finished run.

    Parameters
    ----------
    folder
        Where it lies.
    run
        Its record.
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
) -> TrainedRun:
    """Search at every threshold and write the folder.

    Parameters
    ----------
    prepared
        As `prepare` gives it.
    out
        The folder.
    resume
        Go on from the checkpoints of an unfinished run.
    force
        Replace a finished run; it stays until the new one is complete.
    watch
        Given the words for a threshold, returns what shows the progress of its search.
    """
    problem, jobs = prepared.problem, worker_count(prepared.request.jobs)
    settings = replace(prepared.request.settings, pinned=pinned_positions(prepared.request.pinned, problem.names))
    settings.resolved(len(problem.names))
    folder = RunFolder(out)
    folder.begin(resume=resume, force=force)
    try:
        return _search_and_write(folder, prepared, settings, jobs=jobs, resume=resume, watch=watch)
    except BaseException:
        folder.abandon()
        raise


def _search_and_write(
    folder: RunFolder, prepared: PreparedRun, settings: Settings, *, jobs: int, resume: bool, watch: ProgressFactory | None
) -> TrainedRun:
    """Search, measure and write, in a folder that is held."""
    problem = prepared.problem
    searched = _search_thresholds(prepared, settings, folder, jobs=jobs, resume=resume, watch=watch)
    designs = [design for searched_threshold in searched for design in searched_threshold.outcome.front]
    front = Front(designs, full_cost=problem.full_cost, offset=problem.offset, unit=problem.costs.unit)
    fitter = CascadeFitter.of(problem)
    measured = tuple(measure_designs(problem, problem.held_out, tuple(front), fitter, jobs=jobs))
    files = {
        "front.csv": format_front_csv(measured, has_test_rows=problem.test is not None),
        "front.json": front.to_json(),
        "splits.csv": format_splits_csv(problem, prepared.source.files),
        "costs.toml": problem.costs.to_toml(),
        "calibration.json": CalibrationFile.of(problem.held_out.name, measured).text(),
    }
    reasons = {searched_threshold.outcome.stopped for searched_threshold in searched}
    interrupted = "interrupted" in reasons or len(searched) < len(prepared.request.thresholds)
    folder.finish(files, make_run_record(prepared, settings, searched, fitter), keep_work=interrupted or "time" in reasons)
    return TrainedRun(folder, folder.read(), front, measured, interrupted)


def _search_thresholds(
    prepared: PreparedRun, settings: Settings, folder: RunFolder, *, jobs: int, resume: bool, watch: ProgressFactory | None
) -> list[TimedOutcome]:
    """Search at each threshold; Ctrl-C ends the rest as well."""
    request, problem = prepared.request, prepared.problem
    part = problem if request.max_search_rows is None else problem.sampled(request.max_search_rows, request.seed)
    workbenches: tuple[Workbench, Workbench] | None = None
    searched_thresholds: list[TimedOutcome] = []
    for position, threshold in enumerate(request.thresholds):
        started = time.monotonic()
        progress = None if watch is None else watch(_describe_threshold(threshold))
        # After the clock has started: it fits models, which takes a while on a large table.
        workbenches = workbenches or _make_workbenches(part, problem, request.thresholds, jobs)
        bench, whole = workbenches
        checkpoints = Checkpoints(folder.work / f"checkpoint-{position + 1}.json", resume=resume)
        try:
            outcome = _search_threshold(prepared, settings, bench, position, progress, checkpoints, jobs)
        except KeyboardInterrupt:
            # An exact search has no part to keep, but those of the thresholds before it are whole.
            if not searched_thresholds:
                raise
            break
        if whole is not bench:
            outcome = remeasure_front(outcome, whole, settings, position)
        if progress is not None:
            progress.ended(outcome)
        searched_thresholds.append(TimedOutcome(outcome, time.monotonic() - started))
        if outcome.stopped == "interrupted":
            break
    if not any(len(searched_threshold.outcome.front) for searched_threshold in searched_thresholds):
        folder.abandon(checkpoints=True)
        raise DesignError("no design that was found satisfies the constraints of the search: loosen them, or search longer")
    return searched_thresholds


def _make_workbenches(part: Problem, problem: Problem, thresholds: Sequence[Threshold], jobs: int) -> tuple[Workbench, Workbench]:
    """Return the workbench of the rows that are searched, and that of all rows: one and the same without a sample."""
    bench = Workbench(part, thresholds, jobs=jobs)
    return bench, bench if part is problem else Workbench(problem, thresholds, jobs=jobs)


def _search_threshold(
    prepared: PreparedRun,
    settings: Settings,
    bench: Workbench,
    position: int,
    progress: Progress | None,
    checkpoints: Checkpoints,
    jobs: int,
) -> Outcome:
    request = prepared.request
    try:
        return run_search(
            bench.problem,
            settings,
            method=request.method,
            seed=request.seed,
            jobs=jobs,
            on_generation=None if progress is None else progress.on_generation,
            on_progress=None if progress is None else progress.on_progress,
            checkpoints=checkpoints,
            time_limit=request.time_limit,
            workbench=bench,
            threshold=position,
        )
    finally:
        if progress is not None:
            progress.close()


def _describe_threshold(threshold: object) -> str:
    if isinstance(threshold, dict):
        return "threshold " + ", ".join(f"{label} {number:g}" for label, number in threshold.items())
    return f"threshold {threshold:g}"
