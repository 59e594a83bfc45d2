"""The tour: train, export, certify, decide; each step with the command that does the same."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

from emsco_runtime import Cascade
from emsco_runtime.cli._console import number, table
from emsco_runtime.cli.inspect import certificate_lines
from emsco_runtime.decision import Decision
from emsco_runtime.summary import counted, percent
from emsco_train.bundling.choice import DesignWish
from emsco_train.demo.clinic import Clinic, open_clinic
from emsco_train.designs.front import Front
from emsco_train.designs.wish import Wish
from emsco_train.progress import Progress
from emsco_train.report import write_report
from emsco_train.runs.exporting import RunExport, export_opened
from emsco_train.runs.opening import open_run
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import Trained, train
from emsco_train.settings import Settings

__all__ = ["take_tour"]

_THRESHOLD = 0.95
_GENERATIONS, _MAX_STAGES = 40, 4
_MIN_ACCURACY, _MIN_COVERAGE = 0.97, 0.9
# Shares of patients to decide, for each of which the cheapest design of the front is shown.
_COVERAGES = (0.75, 0.8, 0.85, 0.9, 0.92)
_LABEL = "diagnosis"


def take_tour(folder: Path) -> None:
    """Walk the whole way in a folder, and tell what happens.

    Parameters
    ----------
    folder
        Where table, run, report and bundle go.
    """
    clinic = open_clinic(folder)
    _title(1, "A table, and what its columns cost")
    print(f"   {clinic.table}: {len(clinic.diagnoses)} patients, {sum(map(len, clinic.features.values()))} measurements.")
    print("   A first look costs 1 EUR a measurement. Repeating it costs 5 EUR more, once. Searching the whole slide costs 40.")

    _title(2, "Search for the designs that trade coverage, accuracy and cost best")
    trained = _train(clinic, folder)

    _title(3, "Choose one, fit it, replay every row through the runtime, certify it, write the bundle")
    made = _export(trained, folder)

    _title(4, "Decide patients. The database is asked when a stage needs it, and not before")
    _decide(clinic, folder)

    _title(5, "In short")
    _summary(made, folder)


def _title(step: int, text: str) -> None:
    print(f"\n{step}. {text}\n", flush=True)


def _train(clinic: Clinic, folder: Path) -> Trained:
    run = folder / "run"
    print(f"   $ emsco-train --data {clinic.table} --label {_LABEL} --costs {clinic.costs} --threshold {_THRESHOLD:g} \\")
    print(f"         --search evolve --generations {_GENERATIONS} --max-stages {_MAX_STAGES} --allow-exclusion \\")
    print(f"         --out {run}\n", flush=True)
    request = TrainRequest(
        paths={None: str(clinic.table)},
        columns=Columns(label=_LABEL),
        thresholds=(_THRESHOLD,),
        costs=str(clinic.costs),
        method="evolve",
        settings=Settings(generations=_GENERATIONS, max_stages=_MAX_STAGES, allow_exclusion=True),
    )
    started = time.monotonic()
    trained = train(prepare(request), run, force=True, watch=lambda what: Progress(sys.stderr, what=what))
    entry = trained.run.thresholds[0]
    spent = f"{time.monotonic() - started:.0f} s"
    found = f"{counted(len(trained.front), 'design')} on the front"
    tried = f"{counted(entry.designs, 'design')} tried, {counted(entry.fits, 'stage model')} fitted"
    print(f"   {tried}, {found}, {spent}. Some of them:\n")
    print(_indented(_some_designs(trained.front)))
    return trained


def _some_designs(front: Front) -> str:
    """Return a table of the cheapest designs that decide so many of the validation patients, accurately enough."""
    wishes = [Wish(_MIN_ACCURACY, coverage) for coverage in _COVERAGES]
    able = [wish for wish in wishes if any(wish.meets(design) for design in front)]
    designs = dict.fromkeys(wish.choose(front, front.full_cost) for wish in able)
    return table(
        ["decided", "accuracy of the decided", "mean cost", "measurements"],
        [
            [
                f"{one.coverage:.1%}",
                f"{one.accuracy:.1%}",
                f"{one.cost:.2f} EUR",
                ", then ".join(str(len(names)) for names in one.stages),
            ]
            for one in designs
        ],
    )


def _export(trained: Trained, folder: Path) -> RunExport:
    bundle = folder / "bundle"
    wish = f"--min-accuracy {_MIN_ACCURACY:g} --min-coverage {_MIN_COVERAGE:g}"
    print(f"   $ emsco-export {trained.folder.path} --out {bundle} {wish}\n", flush=True)
    opened = open_run(trained.folder.path)
    wanted = DesignWish(Wish(_MIN_ACCURACY, _MIN_COVERAGE))
    made = export_opened(opened, bundle, wanted, name="clinic", version="1", force=True)
    write_report(trained.folder.path, folder / "report.html")
    print(_indented(_stages(made)))
    replayed = counted(made.export.rows, "row")
    print(f"\n   {replayed} replayed: label, stage and bill equal, probabilities within {made.export.largest:.0e}")
    print(_indented("\n".join(certificate_lines(made.choice.certificate)[:1])))
    return made


def _stages(made: RunExport) -> str:
    manifest = made.export.bundle.manifest
    meter = manifest.meter()
    rows = []
    listed: list[str] = []
    for place, stage in enumerate(manifest.stages, start=1):
        added = meter.increment(listed, stage.acquire)
        listed += stage.acquire
        shown = ", ".join(stage.acquire[:4]) + (f" and {len(stage.acquire) - 4} more" if len(stage.acquire) > 4 else "")
        rows.append([str(place), f"{number(added)} {manifest.cost_unit}", shown])
    return table(["stage", "adds", "acquires"], rows)


def _decide(clinic: Clinic, folder: Path) -> None:
    cascade = Cascade.load(folder / "bundle", clinic.acquirers(lambda line: print(f"      {line}")))
    for patient in _interesting(clinic, folder):
        print(f"   patient {patient}")
        decision = cascade.decide(patient)
        print(f"   -> {_outcome(decision, cascade)}; in truth: {clinic.diagnoses[patient]}\n", flush=True)


def _outcome(decision: Decision, cascade: Cascade) -> str:
    told = f"{decision.label} ({decision.confidence:.1%} sure)" if decision.label is not None else f"rejected ({decision.reason})"
    stages = f"after {decision.stages} of {counted(len(cascade.manifest.stages), 'stage')}"
    return f"{told} {stages} for {number(decision.cost)} {cascade.manifest.cost_unit}"


def _interesting(clinic: Clinic, folder: Path) -> list[int]:
    """Choose test patients that end in different ways: either label at the first stage, each later stage, rejected."""
    with (folder / "run" / "splits.csv").open(encoding="utf-8", newline="") as file:
        patients = [int(row["row"]) for row in csv.DictReader(file) if row["split"] == "test"]
    cascade = Cascade.load(folder / "bundle", clinic.acquirers(lambda _: None))
    found: dict[tuple[str, int, object], int] = {}
    for patient in patients:
        decision = cascade.decide(patient)
        label = decision.label if decision.stages == 1 else None
        found.setdefault((decision.status, decision.stages, label), patient)
    return [found[way] for way in sorted(found, key=str)]


def _summary(made: RunExport, folder: Path) -> None:
    expected, manifest = made.export.expected, made.export.bundle.manifest
    full, unit = made.opened.problem.full_cost, manifest.cost_unit
    exits = [f"stage {place}: {stage.accepted}" for place, stage in enumerate(expected.stages, start=1)]
    whole = made.opened.run.thresholds[0].everything[-1]
    print(f"   On {expected.rows} test patients that training never saw:\n")
    rows = [
        ["this cascade", percent(expected.right, expected.accepted), percent(expected.accepted, expected.rows)],
        ["everything for everyone", percent(whole.right, whole.accepted), percent(whole.accepted, whole.rows)],
    ]
    rows[0].append(f"{expected.cost.mean:.2f} {unit}")
    rows[1].append(f"{full:.2f} {unit}")
    print(_indented(table(["", "accuracy of the decided", "decided", "mean cost"], rows)))
    print(f"\n   saved     {1 - expected.cost.mean / full:.0%} of the cost")
    print(f"   exits     {', '.join(exits)}, rejected: {expected.rows - expected.accepted} (left to a person)")
    print(f"   report    {folder / 'report.html'} (open it in a browser)")
    print(f"   bundle    {folder / 'bundle'} (look inside: emsco-inspect {folder / 'bundle'})")


def _indented(text: str) -> str:
    return "\n".join(f"   {line}" for line in text.splitlines())
