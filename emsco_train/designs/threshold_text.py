"""Thresholds as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from emsco_runtime.decision import Label
from emsco_train.data.thresholds import StageThresholds

__all__ = ["format_stage_thresholds", "format_threshold"]


def format_threshold(thresholds: Sequence[float], labels: Sequence[Label]) -> str:
    """Return a threshold as people write it: one number where all labels share it, else one for each label.

    Examples
    --------
    >>> format_threshold([0.9, 0.9], ["ham", "spam"]), format_threshold([0.9, 0.99], ["ham", "spam"])
    ('0.9', 'ham 0.9, spam 0.99')
    """
    if len(set(thresholds)) == 1:
        return f"{thresholds[0]:g}"
    return ", ".join(f"{label} {number:g}" for label, number in zip(labels, thresholds, strict=True))


def format_stage_thresholds(thresholds: StageThresholds, labels: Sequence[Label]) -> str:
    """Return the thresholds of a design as people write them; those before the last stage only where they are others.

    Examples
    --------
    >>> format_stage_thresholds(StageThresholds(last=(0.9, 0.9), early=(0.99, 0.99)), ["ham", "spam"])
    '0.9; before the last stage 0.99'
    """
    early = "" if thresholds.early == thresholds.last else f"; before the last stage {format_threshold(thresholds.early, labels)}"
    return format_threshold(thresholds.last, labels) + early
