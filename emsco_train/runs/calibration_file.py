"""`CalibrationFile`: calibration.json, which says for each design and stage how far its confidence can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Literal, TypeAlias

from emsco_train.guarantee.calibration import Reliability, StageCalibration
from emsco_train.models.temperature import TemperatureScaling
from emsco_train.runs.front_measurement import MeasuredDesign
from emsco_train.runs.run_file import FileModel, OneLineFile

__all__ = ["Bin", "CalibrationFile", "ReliabilityEntry", "StageEntry", "TemperatureEntry"]

# More digits than rows could ever justify; full ones would double the file.
_DIGITS = 6

# What the five numbers of a bin are, by their names in the file.
Bin: TypeAlias = tuple[float, float, int, int, float]
_BIN_FIELDS = ("lowest", "highest", "rows", "right", "confidence")


class ReliabilityEntry(FileModel):
    """Confidence against what came true, over some rows; confidence and error are null without rows."""

    rows: int
    right: int
    confidence: float | None
    error: float | None
    bins: tuple[Bin, ...]

    @classmethod
    def of(cls, reliability: Reliability) -> ReliabilityEntry:
        """Return what the file keeps of it."""
        return cls(
            rows=reliability.rows,
            right=reliability.right,
            confidence=_round(reliability.confidence),
            error=_round(reliability.error),
            bins=tuple(
                (
                    round(part.lowest, _DIGITS),
                    round(part.highest, _DIGITS),
                    part.rows,
                    part.right,
                    round(part.confidence, _DIGITS),
                )
                for part in reliability.bins
            ),
        )


class TemperatureEntry(FileModel):
    """What a stage's log-odds were to be divided by, and the mean log loss of cross-fitted rows before and after."""

    temperature: float
    before: float
    after: float
    kept: bool


class StageEntry(FileModel):
    """One stage: the rows that reach it, those that it accepts, and a warning where its confidence misleads.

    `temperature` is null unless the run was to calibrate its stages.
    """

    stage: int
    reached: ReliabilityEntry
    accepted: ReliabilityEntry
    warning: str | None
    temperature: TemperatureEntry | None = None

    @classmethod
    def of(cls, calibration: StageCalibration, scaling: TemperatureScaling | None = None) -> StageEntry:
        """Return what the file keeps of a stage."""
        reached, accepted = ReliabilityEntry.of(calibration.reached), ReliabilityEntry.of(calibration.accepted)
        temperature = None
        if scaling is not None:
            before, after = round(scaling.before, _DIGITS), round(scaling.after, _DIGITS)
            temperature = TemperatureEntry(temperature=scaling.temperature, before=before, after=after, kept=scaling.is_kept)
        return cls(
            stage=calibration.stage, reached=reached, accepted=accepted, warning=calibration.warning, temperature=temperature
        )


class CalibrationFile(OneLineFile):
    """The document: the rows that all was counted on, and the stages of each design by its id."""

    format: Literal["emsco-calibration"] = "emsco-calibration"
    version: Literal[1] = 1
    split: str
    bins: tuple[str, ...] = _BIN_FIELDS
    designs: dict[str, tuple[StageEntry, ...]]

    @classmethod
    def of(cls, split: str, measured: Sequence[MeasuredDesign]) -> CalibrationFile:
        """Return the document of some designs; `split` is the name of the rows that everything was counted on."""
        designs = {one.design.id: tuple(map(StageEntry.of, one.calibration, one.scalings or repeat(None))) for one in measured}
        return cls(split=split, designs=designs)

    @classmethod
    def read(cls, text: str, path: str) -> CalibrationFile:
        """Read the JSON; `path` is its name for error messages."""
        return cls.parse(text, path, "Train again")


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
