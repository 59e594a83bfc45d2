"""front.csv: one row per design, for people and spreadsheets; its numbers are written so that they read back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from emsco_train.designs.design import format_names, format_stages
from emsco_train.runs.front_measurement import MeasuredDesign

__all__ = ["format_front_csv"]

_COLUMNS = (
    "id",
    "threshold",
    "stages",
    "excluded",
    "fitness",
    "validation_coverage",
    "validation_accuracy",
    "validation_cost",
    "test_coverage",
    "test_accuracy",
    "test_cost",
)


def format_front_csv(measured: Sequence[MeasuredDesign], *, has_test_rows: bool) -> str:
    """Return the text of front.csv.

    Parameters
    ----------
    measured
        Designs with their validation figures, fittest first, and their figures on the test rows.
    has_test_rows
        Whether there are test rows; without them, their fields stay empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for measured_design in measured:
        design, figures = measured_design.design, measured_design.figures
        test = tuple(map(repr, (figures.coverage, figures.accuracy, figures.cost))) if has_test_rows else ("", "", "")
        own = tuple(map(repr, (design.fitness, design.coverage, design.accuracy, design.cost)))
        names = (design.id, design.threshold_text, format_stages(design.stages), format_names(design.excluded))
        writer.writerow([*names, *own, *test])
    return text.getvalue()
