"""front.csv: one row per design, for people and spreadsheets; its numbers are written so that they read back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from emsco_train.designs.design import format_names, format_stages
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.runs.front_measurement import MeasuredDesign

__all__ = ["format_front_csv"]

_FIGURES = ("coverage", "accuracy", "cost")
_COLUMNS = (
    *("id", "threshold", "stages", "excluded", "fitness"),
    *(f"{split}_{figure}" for split in ("validation", "test") for figure in _FIGURES),
    *(f"{figure}_bound" for figure in _FIGURES),
)


def format_front_csv(measured: Sequence[MeasuredDesign], *, has_test_rows: bool) -> str:
    """Return the text of front.csv; figures on the test rows stay empty without them, bounds without a number of rows."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for design, figures in ((one.design, one.figures) for one in measured):
        names = (design.id, design.threshold_text, format_stages(design.stages), format_names(design.excluded))
        validation = (repr(getattr(design, name)) for name in ("fitness", *_FIGURES))
        test = (repr(getattr(figures, name)) if has_test_rows else "" for name in _FIGURES)
        bounds = None if design.precision is None else design.bounds(DEFAULT_SURE)
        bound_texts = ("" if bounds is None else repr(getattr(bounds, name)) for name in _FIGURES)
        writer.writerow([*names, *validation, *test, *bound_texts])
    return text.getvalue()
