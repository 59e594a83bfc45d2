"""`ReportData`: what a run's folder says of its designs, put together; the data themselves are not needed."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass

from emsco_runtime.bundle.meter import Meter
from emsco_train.costs.cost_model import CostModel
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.errors import DataError
from emsco_train.runs.calibration_file import CalibrationFile, StageEntry
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.run_file import CountsEntry, RunFile, ThresholdEntry

__all__ = ["DesignData", "ReportData", "StageData", "read_report_data"]


@dataclass(frozen=True, slots=True)
class StageData:
    """One stage of a design.

    Parameters
    ----------
    number
        Counted from 1.
    features
        What it acquires.
    added_cost
        What that costs, after the stages before.
    total_cost
        What an item that gets here has cost in all.
    calibration
        Which rows get here and which are accepted, and how honest the confidence is.
    """

    number: int
    features: tuple[str, ...]
    added_cost: float
    total_cost: float
    calibration: StageEntry


@dataclass(frozen=True, slots=True)
class DesignData:
    """One design.

    Parameters
    ----------
    design
        With the figures of the search.
    threshold_index
        Position of its threshold in the run.
    is_fittest
        Whether no design with its threshold is fitter.
    validation
        Its figures on the validation rows.
    test
        Its figures on the test rows; None where there are none.
    stages
        Its stages.
    """

    design: Design
    threshold_index: int
    is_fittest: bool
    validation: CountsEntry
    test: CountsEntry | None
    stages: tuple[StageData, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about stages whose confidence misleads."""
        return tuple(stage.calibration.warning for stage in self.stages if stage.calibration.warning is not None)


@dataclass(frozen=True, slots=True, eq=False)
class ReportData:
    """A run as the page shows it.

    Parameters
    ----------
    folder
        Where the run lies, as the user named it.
    run
        Its record.
    front
        Its designs with their prices, to choose from.
    costs
        Its prices.
    held_out_split
        Name of the rows that exits and calibration were counted on: test, or validation where there are no test rows.
    designs
        Fittest first, each id once.
    """

    folder: RunFolder
    run: RunFile
    front: Front
    costs: CostModel
    held_out_split: str
    designs: tuple[DesignData, ...]

    @property
    def has_test_rows(self) -> bool:
        """Whether there are test rows."""
        return self.run.rows.get("test", 0) > 0

    def threshold_of(self, design: DesignData) -> ThresholdEntry:
        """Return how the search of a design's threshold went."""
        return self.run.thresholds[design.threshold_index]


def read_report_data(path: str | os.PathLike[str]) -> ReportData:
    """Read the folder of a finished run.

    Parameters
    ----------
    path
        The folder.

    Raises
    ------
    DataError
        If the run is unfinished, of another version or damaged.
    """
    folder = RunFolder(path)
    run = folder.read()
    front = Front.from_json(folder.text("front.json"))
    costs = CostModel.from_file(folder.path / "costs.toml", [column.name for column in run.columns])
    calibration = CalibrationFile.read(folder.text("calibration.json"), str(folder.path / "calibration.json"))
    tests = _read_test_counts(folder.text("front.csv"), run.rows.get("test", 0))
    try:
        designs = _design_data(run, front, costs.meter(), calibration, tests)
    except KeyError as error:
        detail = f"{folder.path}: its files do not belong together: {error.args[0]!r} is not in all of them"
        raise DataError(f"{detail}. Train again") from None
    if not designs:
        raise DataError(f"{folder.path} holds no design: train again with looser constraints")
    return ReportData(folder, run, front, costs, calibration.split, designs)


def _design_data(
    run: RunFile, front: Front, meter: Meter, calibration: CalibrationFile, tests: Mapping[str, CountsEntry | None]
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
                validation=_validation_counts(design, run.rows["validation"]),
                test=tests[design.id],
                stages=_stage_data(design, meter, calibration.designs[design.id]),
            )
        seen.add(design.thresholds)
    return tuple(found.values())


def _stage_data(design: Design, meter: Meter, entries: tuple[StageEntry, ...]) -> tuple[StageData, ...]:
    stages = zip(design.stages, meter.stage_costs(design.stages), entries, strict=True)
    return tuple(StageData(number, names, *cost, entry) for number, (names, cost, entry) in enumerate(stages, start=1))


def _validation_counts(design: Design, rows: int) -> CountsEntry:
    return _counts_from_shares("validation", rows, design.coverage, design.accuracy, design.cost)


def _read_test_counts(text: str, rows: int) -> dict[str, CountsEntry | None]:
    """Return each design's figures on the test rows, from front.csv."""
    found: dict[str, CountsEntry | None] = {}
    for line in csv.DictReader(io.StringIO(text)):
        shares = [line[f"test_{name}"] for name in ("coverage", "accuracy", "cost")]
        found[line["id"]] = _counts_from_shares("test", rows, *map(float, shares)) if rows and all(shares) else None
    return found


def _counts_from_shares(split: str, rows: int, coverage: float, accuracy: float, cost: float) -> CountsEntry:
    # Back to the counts that the shares were made of, so that every command prints the same digits.
    accepted = round(coverage * rows)
    return CountsEntry(split=split, rows=rows, accepted=accepted, right=round(accuracy * accepted), cost=cost)
