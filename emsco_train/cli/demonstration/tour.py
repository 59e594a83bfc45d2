"""The tour: train, export, certify, decide; each step with the command that does the same."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from textwrap import indent

from emsco_runtime import Cascade
from emsco_runtime.bundle.summary import describe_certificate, percent, pluralize
from emsco_runtime.cli.console import format_number, format_table
from emsco_runtime.decision import Decision
from emsco_train.cli.demonstration.clinic import Clinic, create_clinic
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.report import write_report
from emsco_train.runs.exporting import RunExport, export_open_run
from emsco_train.runs.opening import open_run
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import TrainedRun, train
from emsco_train.search.progress import Progress
from emsco_train.search.settings import Settings

__all__ = ["run_tour"]

_THRESHOLD = 0.95
_GENERATIONS, _MAX_STAGES = 12, 4
_MIN_ACCURACY, _MIN_COVERAGE = 0.98, 0.8
# Shares of patients to decide, for each of which the cheapest design of the front is shown.
_COVERAGES = (0.7, 0.75, 0.8, 0.85, 0.89)
_LABEL = "diagnosis"


def run_tour(folder: Path) -> None:
    """Go from a table to decisions, with table, run, report and bundle in a folder, and print each step."""
    clinic = create_clinic(folder)
    _title(1, "A table, and what its columns cost")
    print(f"   {clinic.table}: {len(clinic.diagnoses)} patients, {sum(map(len, clinic.features.values()))} measurements.")
    print("   A first look costs 1 EUR a measurement. Repeating it costs 5 EUR more, once. Searching the whole slide costs 40.")

    _title(2, "Search for the designs that trade coverage, accuracy and cost best")
    trained = _train(clinic, folder)

    _title(3, "Choose one, fit it, replay every row through the runtime, certify it, write the bundle")
    exported = _export(trained, folder)

    _title(4, "Decide patients. The database is queried when a stage needs it, and not before")
    _decide(clinic, folder)

    _title(5, "In short")
    _summary(exported, folder)


def _title(step: int, text: str) -> None:
    print(f"\n{step}. {text}\n", flush=True)


def _train(clinic: Clinic, folder: Path) -> TrainedRun:
    run = folder / "run"
    print(f"   $ emsco-train --data {clinic.table} --label {_LABEL} --costs {clinic.costs} --threshold {_THRESHOLD:g} \\")
    print(f"         --search evolve --generations {_GENERATIONS} --max-stages {_MAX_STAGES} \\")
    print(f"         --out {run}\n", flush=True)
    request = TrainRequest(
        paths={None: str(clinic.table)},
        columns=Columns(label=_LABEL),
        thresholds=(_THRESHOLD,),
        costs=str(clinic.costs),
        method="evolve",
        settings=Settings(generations=_GENERATIONS, max_stages=_MAX_STAGES),
    )
    started = time.monotonic()
    trained = train(prepare(request), run, force=True, watch=lambda what: Progress(sys.stderr, what=what))
    entry = trained.run.thresholds[0]
    tried = f"{pluralize(entry.designs, 'design')} tried, {pluralize(entry.fits, 'stage model')} fitted"
    found = f"{pluralize(len(trained.front), 'design')} on the front, {time.monotonic() - started:.0f} s"
    print(f"   {tried}, {found}. Some of them:\n")
    print(indent(_design_examples(trained.front), "   "))
    return trained


def _design_examples(front: Front) -> str:
    """Return a table of the cheapest designs that surely decide certain shares of the patients, accurately enough."""
    wanted = [Requirements(min_accuracy=_MIN_ACCURACY, min_coverage=coverage) for coverage in _COVERAGES]
    reachable = [requirements for requirements in wanted if any(map(requirements.meets, front))]
    rows = []
    for design in dict.fromkeys(requirements.choose(front, front.full_cost) for requirements in reachable):
        sizes = ", then ".join(str(len(names)) for names in design.stages)
        rows.append([f"{design.coverage:.1%}", f"{design.accuracy:.1%}", f"{design.cost:.2f} EUR", sizes])
    return format_table(["decided", "accuracy of the decided", "mean cost", "measurements"], rows)


def _export(trained: TrainedRun, folder: Path) -> RunExport:
    bundle = folder / "bundle"
    requirements = f"--min-accuracy {_MIN_ACCURACY:g} --min-coverage {_MIN_COVERAGE:g}"
    print(f"   $ emsco-export {trained.folder.path} --out {bundle} {requirements}\n", flush=True)
    opened = open_run(trained.folder.path)
    criteria = SelectionCriteria(Requirements(min_accuracy=_MIN_ACCURACY, min_coverage=_MIN_COVERAGE))
    exported = export_open_run(opened, bundle, criteria, name="clinic", version="1", force=True)
    write_report(trained.folder.path, folder / "report.html")
    print(indent(_stage_table(exported), "   "))
    replayed = pluralize(exported.export.rows, "row")
    print(f"\n   {replayed} replayed: label, stage and cost equal, probabilities within {exported.export.largest:.0e}")
    print(f"   {describe_certificate(exported.choice.certificate)[0]}")
    return exported


def _stage_table(exported: RunExport) -> str:
    manifest = exported.export.bundle.manifest
    rows = []
    for place, (stage, cost) in enumerate(zip(manifest.stages, manifest.stage_costs(), strict=True), start=1):
        shown = ", ".join(stage.acquire[:4]) + (f" and {len(stage.acquire) - 4} more" if len(stage.acquire) > 4 else "")
        rows.append([str(place), f"{format_number(cost.added)} {manifest.cost_unit}", shown])
    return format_table(["stage", "adds", "acquires"], rows)


def _decide(clinic: Clinic, folder: Path) -> None:
    cascade = Cascade.load(folder / "bundle", clinic.acquirers(lambda line: print(f"      {line}")))
    for patient in _example_patients(clinic, folder):
        print(f"   patient {patient}")
        decision = cascade.decide(patient)
        print(f"   -> {_describe_decision(decision, cascade)}; in truth: {clinic.diagnoses[patient]}\n", flush=True)


def _describe_decision(decision: Decision, cascade: Cascade) -> str:
    result = f"rejected ({decision.reason})"
    if decision.label is not None:
        result = f"{decision.label} ({decision.confidence:.1%} sure)"
    stages = f"after {decision.stages} of {pluralize(len(cascade.manifest.stages), 'stage')}"
    return f"{result} {stages} for {format_number(decision.cost)} {cascade.manifest.cost_unit}"


def _example_patients(clinic: Clinic, folder: Path) -> list[int]:
    """Choose test patients with different outcomes: either label at the first stage, each later stage, rejected."""
    with (folder / "run" / "splits.csv").open(encoding="utf-8", newline="") as file:
        patients = [int(row["row"]) for row in csv.DictReader(file) if row["split"] == "test"]
    cascade = Cascade.load(folder / "bundle", clinic.acquirers(lambda _: None))
    found: dict[tuple[str, int, object], int] = {}
    for patient in patients:
        decision = cascade.decide(patient)
        label = decision.label if decision.stages == 1 else None
        found.setdefault((decision.status, decision.stages, label), patient)
    return [found[ending] for ending in sorted(found, key=str)]


def _summary(exported: RunExport, folder: Path) -> None:
    expected, manifest = exported.export.expected, exported.export.bundle.manifest
    full, unit = exported.opened.problem.full_cost, manifest.cost_unit
    exits = [f"stage {place}: {stage.accepted}" for place, stage in enumerate(expected.stages, start=1)]
    baseline = exported.opened.run.thresholds[0].everything[-1]
    print(f"   On {expected.rows} test patients that training never saw:\n")
    rows = [
        [name, percent(counts.right, counts.accepted), percent(counts.accepted, counts.rows), f"{cost:.2f} {unit}"]
        for name, counts, cost in (
            ("this cascade", expected, expected.cost.mean),
            ("all features for every item", baseline, full),
        )
    ]
    print(indent(format_table(["", "accuracy of the decided", "decided", "mean cost"], rows), "   "))
    print(f"\n   saved     {1 - expected.cost.mean / full:.0%} of the cost")
    print(f"   exits     {', '.join(exits)}, rejected: {expected.rows - expected.accepted} (left to a person)")
    print(f"   report    {folder / 'report.html'} (open it in a browser)")
    print(f"   bundle    {folder / 'bundle'} (look inside: emsco-inspect {folder / 'bundle'})")
