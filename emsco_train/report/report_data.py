"""`ReportData`: what the files of a run say about its designs; the data themselves are not needed."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_runtime.bundle.meter import Meter
from emsco_train.costs.cost_model import CostModel
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.designs.threshold_text import format_threshold
from emsco_train.errors import DataError
from emsco_train.report.markers import CoverageColours
from emsco_train.report.number_format import CostFormat
from emsco_train.runs.calibration_file import CalibrationFile, StageEntry
from emsco_train.runs.curves_file import CURVES_NAME, CurvesFile
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.labels_file import LabelsFile
from emsco_train.runs.run_file import CountsEntry, RunFile

__all__ = ["DesignData", "ReportData", "StageData", "read_report_data"]

_LABELS_NAME = "labels.json"


@dataclass(frozen=True, slots=True)
class StageData:
    """One stage of a design."""

    # Counted from 1.
    number: int
    features: tuple[str, ...]
    # After the stages before.
    added_cost: float
    # Of an item that reaches this stage, in all.
    total_cost: float
    calibration: StageEntry


@dataclass(frozen=True, slots=True)
class DesignData:
    """One design."""

    design: Design
    # Position of its threshold in the run.
    threshold_index: int
    # Whether no design with its threshold is fitter.
    is_fittest: bool
    validation: CountsEntry
    # None where there are no test rows.
    test: CountsEntry | None
    stages: tuple[StageData, ...]
    # What it does with the held-out rows of each label; empty for a run that did not keep it.
    labels: tuple[LabelCounts, ...] = ()

    @property
    def counts(self) -> list[CountsEntry]:
        """Its figures on the rows that measured designs, and on the test rows where there are some."""
        return [self.validation] if self.test is None else [self.validation, self.test]

    @property
    def lowest_recall(self) -> float:
        """The lowest recall of any label that has rows; 0 where labels were not counted."""
        return min((counts.recall for counts in self.labels if counts.rows), default=0.0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about stages whose confidence misleads."""
        return tuple(stage.calibration.warning for stage in self.stages if stage.calibration.warning is not None)


# No slots: `cached_property` keeps the knee, which every view asks for.
@dataclass(frozen=True, eq=False)
class ReportData:
    """A run as the page shows it."""

    # With the path as the user gave it.
    folder: RunFolder
    run: RunFile
    front: Front
    costs: CostModel
    # The rows that exits and calibration were counted on: test, or those that measured designs where there are no test rows.
    held_out_split: str
    # Fittest first, each id once.
    designs: tuple[DesignData, ...]
    # What was learned about each feature; None where stages are straight.
    curves: CurvesFile | None = None

    @property
    def is_cross_fitted(self) -> bool:
        """Whether the train rows measured designs, each scored by a model that has not seen it."""
        return self.run.measured.split == "cross-fitted"

    @property
    def held_out_rows(self) -> int:
        """How many rows exits and calibration were counted on."""
        measured = self.run.measured
        return measured.rows if self.held_out_split == measured.split else self.run.rows[self.held_out_split]

    @cached_property
    def knee_index(self) -> int:
        """Position of the knee of the front, which is shown first."""
        knee = self.front.knee.id
        return next(place for place, design_data in enumerate(self.designs) if design_data.design.id == knee)

    @property
    def knee(self) -> DesignData:
        """The knee of the front."""
        return self.designs[self.knee_index]

    @property
    def has_test_rows(self) -> bool:
        """Whether there are test rows."""
        return self.run.rows.get("test", 0) > 0

    def format_threshold(self, thresholds: Sequence[float]) -> str:
        """Return a threshold as people write it, with labels where they differ in it."""
        return format_threshold(thresholds, self.run.labels)

    @property
    def cost_format(self) -> CostFormat:
        """How costs are written."""
        return CostFormat(self.front.full_cost, self.front.unit)

    @property
    def colours(self) -> CoverageColours:
        """Which colour each coverage has."""
        return CoverageColours.spanning([design_data.design.coverage for design_data in self.designs])


def read_report_data(path: str | os.PathLike[str]) -> ReportData:
    """Read the folder of a finished run; a `DataError` says that it is unfinished, of another version or damaged."""
    folder = RunFolder(path)
    run = folder.read()
    costs = CostModel.from_file(folder.path / "costs.toml", [column.name for column in run.columns])
    calibration = CalibrationFile.read(folder.text("calibration.json"), str(folder.path / "calibration.json"))
    labels = None
    if _LABELS_NAME in run.files:
        labels = LabelsFile.read(folder.text(_LABELS_NAME), str(folder.path / _LABELS_NAME))
    curves = None
    if CURVES_NAME in run.files:
        curves = CurvesFile.read(folder.text(CURVES_NAME), str(folder.path / CURVES_NAME))
    tests = _read_test_counts(folder.text("front.csv"), run.rows.get("test", 0), _test_units(run))
    try:
        front = Front.from_json(folder.text("front.json"), rows=run.measured.rows)
        designs = _design_data(run, front, costs.meter(), calibration, tests, labels)
    except KeyError as error:
        detail = f"{folder.path}: its files do not belong together: {error.args[0]!r} is not in all of them"
        raise DataError(f"{detail}. Train again") from None
    if not designs:
        raise DataError(f"{folder.path} holds no design: train again with looser constraints")
    return ReportData(folder, run, front, costs, calibration.split, designs, curves)


def _design_data(
    run: RunFile,
    front: Front,
    meter: Meter,
    calibration: CalibrationFile,
    tests: Mapping[str, CountsEntry | None],
    labels: LabelsFile | None,
) -> tuple[DesignData, ...]:
    levels: dict[tuple[float, ...], int] = {}
    for position, entry in enumerate(run.thresholds):
        levels.setdefault(entry.thresholds, position)
    seen: set[tuple[float, ...]] = set()
    found: dict[str, DesignData] = {}
    for design in front:
        # A threshold that was given twice has each of its designs twice.
        if design.id not in found:
            found[design.id] = DesignData(
                design=design,
                threshold_index=levels[design.thresholds],
                is_fittest=design.thresholds not in seen,
                validation=CountsEntry(split=run.measured.split, **asdict(design.counts)),
                test=tests[design.id],
                stages=tuple(_stage_data(design, meter, calibration.designs[design.id])),
                labels=() if labels is None else labels.counts(design.id),
            )
        seen.add(design.thresholds)
    return tuple(found.values())


def _stage_data(design: Design, meter: Meter, entries: tuple[StageEntry, ...]) -> Iterator[StageData]:
    stages = zip(design.stages, meter.stage_costs(design.stages), entries, strict=True)
    for number, (names, cost, entry) in enumerate(stages, start=1):
        yield StageData(number, names, *cost, entry)


def _test_units(run: RunFile) -> int | None:
    """Return what the test rows count together, by weight; None: they have no weights, or there are none."""
    return next((counts.units for entry in run.thresholds for counts in entry.everything if counts.split == "test"), None)


def _read_test_counts(text: str, rows: int, units: int | None) -> dict[str, CountsEntry | None]:
    """Return each design's figures on the test rows, from front.csv."""
    found: dict[str, CountsEntry | None] = {}
    for line in csv.DictReader(io.StringIO(text)):
        shares = [line[f"test_{name}"] for name in ("coverage", "accuracy", "cost")]
        known = rows and all(shares)
        counts = Counts.from_shares(rows, *[float(share) for share in shares], units=units) if known else None
        found[line["id"]] = None if counts is None else CountsEntry(split="test", **asdict(counts))
    return found
