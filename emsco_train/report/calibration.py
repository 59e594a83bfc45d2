"""`Calibration`: calibration.json, read back."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from emsco_train.errors import DataError

__all__ = ["Bin", "Calibration", "Reliability", "StageEntry"]

# Lowest and highest confidence, rows, right ones, mean confidence.
Bin: TypeAlias = tuple[float, float, int, int, float]


class _Entry(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class Reliability(_Entry):
    """Confidence against what came true, over some rows; confidence and error are null without rows."""

    rows: int
    right: int
    confidence: float | None
    error: float | None
    bins: tuple[Bin, ...]


class StageEntry(_Entry):
    """One stage: the rows that reach it, those that it accepts, and a warning where its confidence misleads."""

    stage: int
    reached: Reliability
    accepted: Reliability
    warning: str | None


class Calibration(_Entry):
    """The document: the rows that all was counted on, and the stages of each design by its id."""

    format: Literal["emsco-calibration"]
    version: Literal[1]
    split: str
    bins: tuple[str, ...]
    designs: dict[str, tuple[StageEntry, ...]]

    @classmethod
    def read(cls, text: str, path: str) -> Calibration:
        """Read the JSON; one error tells the place of the first fault.

        Parameters
        ----------
        text
            Content of the file.
        path
            Its name, for messages.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the text"
            raise DataError(f"{path}: {place}: {first['msg']}. Train again with emsco-train --force") from None
