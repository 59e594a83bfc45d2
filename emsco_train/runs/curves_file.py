"""`CurvesFile`: curves.json, which says what a run with curved stages learned about each feature."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np
from pydantic import Field

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats
from emsco_train.data.curve import Curve, find_cells
from emsco_train.data.curves.additive_fit import STRAIGHT
from emsco_train.data.problem import Problem
from emsco_train.data.stage_settings import StageKind
from emsco_train.errors import DataError
from emsco_train.runs.run_file import FileModel, OneLineFile

__all__ = ["CURVES_NAME", "CurveEntry", "CurvesFile", "describe_stages"]

CURVES_NAME = "curves.json"
_Count: TypeAlias = Annotated[int, Field(ge=0)]


class CurveEntry(FileModel):
    """The curve of one feature: what each of its cells, and a gap, add to the log-odds of each output.

    The cells of a number or a boolean end at the knots, ascending, and a value at a knot is above it. Those of a category are its
    categories. Rows are train rows; `other_rows` have a category that is not listed, which adds nothing.
    """

    name: str
    kind: Literal["numeric", "boolean", "categorical"]
    knots: tuple[float, ...] | None
    categories: tuple[str, ...] | None
    log_odds: tuple[tuple[float, ...], ...]  # [outputs][cells]
    gap_log_odds: tuple[float, ...]  # [outputs]
    rows: tuple[_Count, ...]  # [cells]
    gap_rows: _Count
    other_rows: _Count

    @classmethod
    def of(cls, feature: Feature, curve: Curve, codes: Floats) -> CurveEntry:
        """Return the entry of a feature, whose codes in the train rows are given."""
        count = len(curve.levels[0]) - 1
        cells = find_cells(codes, None if curve.knots is None else np.array(curve.knots), count)
        *rows, gap_rows, other_rows = np.bincount(cells, minlength=count + 2).tolist()
        return cls(
            name=feature.name,
            kind=feature.kind,  # type: ignore[arg-type] # vectors have no curve
            knots=curve.knots,
            categories=feature.categories if curve.knots is None else None,
            log_odds=tuple(levels[:-1] for levels in curve.levels),
            gap_log_odds=tuple(levels[-1] for levels in curve.levels),
            rows=tuple(rows),
            gap_rows=gap_rows,
            other_rows=other_rows,
        )

    def fits(self, outputs: int) -> bool:
        """Return whether there is a number for each of `outputs` outputs and for each cell."""
        cells = len(self.rows)
        if (self.knots is None) == (self.categories is None):
            return False
        ends = len(self.categories) if self.categories is not None else len(self.knots or ()) + 1
        return ends == cells > 0 and [len(part) for part in (*self.log_odds, self.gap_log_odds)] == [cells] * outputs + [outputs]


class CurvesFile(OneLineFile):
    """The document: how strongly curves were shrunk, the labels that they speak for, and the features that have one.

    Of two labels, curves speak for the second; of more, for each against all others.
    """

    format: Literal["emsco-curves"] = "emsco-curves"
    version: Literal[1] = 1
    strength: float
    outputs: tuple[Label, ...]
    features: tuple[CurveEntry, ...]

    @classmethod
    def of(cls, problem: Problem) -> CurvesFile | None:
        """Return the document of a problem; None where its stages are straight."""
        if problem.curve_strength == STRAIGHT:
            return None
        # The numbers of a vector have no curve.
        owners = [feature for feature in problem.features for _ in range(feature.width)]
        columns = zip(owners, problem.encoder.blocks, problem.train.codes.T, strict=True)
        return cls(
            strength=problem.curve_strength,
            outputs=problem.labels[1:] if len(problem.labels) == 2 else problem.labels,
            features=tuple(
                CurveEntry.of(feature, block.curve, codes) for feature, block, codes in columns if block.curve is not None
            ),
        )

    @classmethod
    def read(cls, text: str, path: str) -> CurvesFile:
        """Read the JSON; `path` is its name for error messages."""
        file = cls.parse(text, path, "Train again")
        for feature in file.features:
            if not feature.fits(len(file.outputs)):
                raise DataError(f"{path}: feature {feature.name!r} does not have a number for each cell and output. Train again")
        return file


def describe_stages(kind: StageKind, strength: float) -> str | None:
    """Return what became of the stages that were asked for; None for straight ones, of which there is nothing to say.

    Examples
    --------
    >>> describe_stages("curved", 4.0), describe_stages("curved", STRAIGHT)
    ('curved (strength 4)', 'straight: curves predicted no better here')
    """
    if kind != "curved":
        return None if kind == "straight" else kind
    return "straight: curves predicted no better here" if strength == STRAIGHT else f"curved (strength {strength:g})"
