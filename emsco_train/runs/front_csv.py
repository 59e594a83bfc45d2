"""front.csv: one row per design, for people and spreadsheets; its numbers are written so that they read back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_train.designs.design import format_names, format_stages
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.runs.front_measurement import MeasuredDesign

__all__ = ["format_front_csv"]

_FIGURES = ("coverage", "accuracy", "cost")
_LABEL_FIGURES = ("recall", "accuracy")
_COLUMNS = (
    *("id", "threshold", "stages", "excluded", "fitness"),
    *(f"{split}_{figure}" for split in ("validation", "test") for figure in _FIGURES),
    *(f"{figure}_bound" for figure in _FIGURES),
)


def format_front_csv(measured: Sequence[MeasuredDesign], *, has_test_rows: bool) -> str:
    """Return the text of front.csv; figures on the test rows stay empty without them, bounds without a number of rows.

    Those of each label follow: its recall and its accuracy, as `LabelCounts` defines them. The last column is the upgrade.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    labels = [counts.label for counts in measured[0].labels] if measured else []
    of_labels = [
        f"{split}_{figure}_of_{label}" for split in ("validation", "test") for label in labels for figure in _LABEL_FIGURES
    ]
    writer.writerow([*_COLUMNS, *of_labels, "upgrade"])
    for one in measured:
        design, figures = one.design, one.figures
        names = (design.id, design.threshold_text, format_stages(design.stages), format_names(design.excluded))
        validation = (repr(getattr(design, name)) for name in ("fitness", *_FIGURES))
        test = (repr(getattr(figures, name)) if has_test_rows else "" for name in _FIGURES)
        bounds = None if design.precision is None else design.bounds(DEFAULT_SURE)
        bound_texts = ("" if bounds is None else repr(getattr(bounds, name)) for name in _FIGURES)
        of_labels = [*_label_texts(design.labels, len(labels)), *_label_texts(one.labels if has_test_rows else (), len(labels))]
        writer.writerow([*names, *validation, *test, *bound_texts, *of_labels, design.upgrade or ""])
    return text.getvalue()


def _label_texts(counts: Sequence[LabelCounts], labels: int) -> list[str]:
    """Return the figures of each label; empty texts where they are unknown."""
    found = [repr(getattr(one, name)) for one in counts for name in _LABEL_FIGURES]
    return found or [""] * (labels * len(_LABEL_FIGURES))
