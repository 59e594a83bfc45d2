"""`RunFile`: run.json, which says how a run was made and holds all that an export needs in addition to the data.

`version` rises with every change of its shape; an older or newer one is refused with the remedy, never guessed at.
"""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from emsco_runtime.decision import Label
from emsco_train.data.stage_settings import Upgrade
from emsco_train.errors import DataError
from emsco_train.support.validation_errors import first_error

__all__ = [
    "ColumnEntry",
    "CountsEntry",
    "DataEntry",
    "DroppedEntry",
    "FileEntry",
    "FileModel",
    "MeasuredRows",
    "OneLineFile",
    "RunFile",
    "SearchEntry",
    "ThresholdEntry",
]

_VERSION = 2


class FileModel(BaseModel):
    """What the files of a run have in common: no unknown keys, no conversions, no infinite numbers."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def parse(cls, text: str | bytes, path: str, hint: str) -> Self:
        """Read the JSON; the error names the file, the place of the first fault, and the remedy."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            fault = first_error(error)
            raise DataError(f"{path}: {fault.path}: {fault.message}. {hint}") from None

    def text(self) -> str:
        """Return the JSON."""
        return self.model_dump_json(indent=1) + "\n"


class OneLineFile(FileModel):
    """A file of many numbers: the JSON is on one line."""

    def text(self) -> str:
        """Return the JSON."""
        return json.dumps(self.model_dump(mode="json"), allow_nan=False) + "\n"


class FileEntry(FileModel):
    """One table file, with the split that it is (null: a table that was divided)."""

    path: str
    split: str | None
    rows: int
    sha256: str


class DroppedEntry(FileModel):
    """A column that was left out by the table check, and why."""

    column: str
    why: str


class DataEntry(FileModel):
    """The rows: files, which column means what, how many folds (0: none), and a hash of all values after reading.

    `drop` holds the columns that the user left out, `dropped` those that the table check left out.
    """

    files: tuple[FileEntry, ...]
    label: str
    group_column: str | None
    time_column: str | None
    weight_column: str | None = None
    drop: tuple[str, ...]
    dropped: tuple[DroppedEntry, ...] = ()
    drop_labels: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    min_category: int = 1
    folds: int
    fingerprint: str


class ColumnEntry(FileModel):
    """One feature, as it was understood."""

    name: str
    kind: Literal["numeric", "boolean", "categorical", "vector"]
    missing: Literal["forbid", "impute"]
    unknown: Literal["fail", "ignore"]
    categories: int
    gaps: int


class SearchEntry(FileModel):
    """What was asked of the search."""

    method: Literal["auto", "evolve", "exhaustive"]
    settings: dict[str, JsonValue]
    seed: int
    max_search_rows: int | None
    time_limit: float | None


class CountsEntry(FileModel):
    """Counts on the rows of a split, and the mean cost of a row; by weight where rows have weights, as in `Counts`."""

    split: str
    rows: int
    accepted: int
    right: int
    cost: float
    units: int | None = None

    @property
    def total(self) -> int:
        """What all rows count: their number, or their units."""
        return self.units or self.rows


class ThresholdEntry(FileModel):
    """One threshold of the run, how its search went, and what acquiring all features at once would do there."""

    thresholds: tuple[float, ...]
    method: str
    stopped: str
    designs: int
    fits: int
    elapsed_s: float
    # What moved from stage to stage; None in runs of an earlier emsco: each feature.
    genes: int | None = None
    everything: tuple[CountsEntry, ...]
    # The kind of stages of that, where it is not the one that was searched with.
    upgrade: Upgrade | None = None

    @property
    def kind_note(self) -> str:
        """What to write behind the baseline's name: its kind of stages, in brackets, where that is not the one of the search."""
        return f" ({self.upgrade})" if self.upgrade else ""


class MeasuredRows(FileModel):
    """The rows that designs were measured on in the search: those of the validation split, or the cross-fitted train rows."""

    split: Literal["validation", "cross-fitted"]
    rows: int


class RunFile(FileModel):
    """The document.

    The figures of the certify rows are nowhere in a run: they are looked at once, when a certificate is made.
    """

    format: Literal["emsco-run"] = "emsco-run"
    version: Literal[2] = 2
    created: str
    versions: dict[str, str]
    data: DataEntry
    columns: tuple[ColumnEntry, ...]
    labels: tuple[Label, ...]
    C: Annotated[float, Field(gt=0)]
    class_weight: Literal["balanced"] | dict[str, float] | None
    calibrate: Literal["temperature"] | None = None
    stages: Literal["straight", "curved", "boosted"] = "straight"
    upgrade: Upgrade | None = None
    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()
    search: SearchEntry
    thresholds: tuple[ThresholdEntry, ...]
    rows: dict[str, int]
    measured: MeasuredRows
    files: dict[str, str]
    # How many uses of the certify rows share the level of their certificates; `certify.json` records the uses.
    certify_uses: Annotated[int, Field(ge=1)] = 1

    @classmethod
    def read(cls, text: bytes, path: str) -> RunFile:
        """Read the JSON; `path` is its name for error messages."""
        hint = "Give a run that emsco-train wrote"
        version = _FormatHeader.parse(text, path, hint).version
        if version != _VERSION:
            raise DataError(
                f"{path}: this run has version {version}, this emsco reads version {_VERSION}. "
                "Train again with emsco-train, or use the emsco that made it"
            )
        return cls.parse(text, path, hint)


class _FormatHeader(FileModel):
    """Format and version of the document, read before everything else is checked."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore", strict=False)

    format: Literal["emsco-run"]
    version: int
