"""`LabelsFile`: labels.json, which says what each design does with the rows of each label, on the rows of calibration.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from emsco_runtime.bundle.manifest import Label, LabelCounts
from emsco_train.data.label_counts import join_label_counts
from emsco_train.errors import DataError
from emsco_train.runs.front_measurement import MeasuredDesign
from emsco_train.runs.run_file import OneLineFile

__all__ = ["LabelsFile"]

_Count: TypeAlias = Annotated[int, Field(ge=0)]
_FIELDS = ("rows", "accepted", "accepted_as", "right")


class LabelsFile(OneLineFile):
    """The document: the rows that all was counted on, the labels, and four counts for each label of each design by its id."""

    format: Literal["emsco-labels"] = "emsco-labels"
    version: Literal[1] = 1
    split: str
    labels: tuple[Label, ...]
    fields: tuple[str, ...] = _FIELDS
    designs: dict[str, tuple[tuple[_Count, _Count, _Count, _Count], ...]]

    @classmethod
    def of(cls, split: str, labels: Sequence[Label], measured: Sequence[MeasuredDesign]) -> LabelsFile:
        """Return the document of some designs; `split` is the name of the rows that everything was counted on."""
        counts = {
            one.design.id: tuple((part.rows, part.accepted, part.accepted_as, part.right) for part in one.labels)
            for one in measured
        }
        return cls(split=split, labels=tuple(labels), designs=counts)

    def counts(self, design_id: str) -> tuple[LabelCounts, ...]:
        """Return the counts of a design; a KeyError names one that is not there."""
        return join_label_counts(self.labels, *zip(*self.designs[design_id], strict=True))

    @classmethod
    def read(cls, text: str, path: str) -> LabelsFile:
        """Read the JSON; `path` is its name for error messages."""
        file = cls.parse(text, path, "Train again")
        if any(len(counts) != len(file.labels) for counts in file.designs.values()):
            raise DataError(f"{path}: a design does not have counts for each of {len(file.labels)} labels. Train again")
        return file
