"""Thresholds: the confidence that each label needs to be accepted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from emsco_runtime.decision import Label
from emsco_train.errors import DesignError, ThresholdWarning
from emsco_train.support.numbers import is_number

__all__ = ["Threshold", "resolve_thresholds", "warn_low_thresholds"]

Threshold: TypeAlias = float | Mapping[Label, float]


def resolve_thresholds(threshold: Threshold, labels: Sequence[Label]) -> tuple[float, ...]:
    """Return one threshold per label, in label order.

    Parameters
    ----------
    threshold
        One number for all labels, or a mapping label -> number that names every label.
    labels
        The labels in order.

    Examples
    --------
    >>> resolve_thresholds(0.9, ["ham", "spam"])
    (0.9, 0.9)
    >>> resolve_thresholds({"spam": 0.99, "ham": 0.9}, ["ham", "spam"])
    (0.9, 0.99)
    """
    if not isinstance(threshold, Mapping):
        given: dict[str, object] = {str(label): threshold for label in labels}
    else:
        given = {str(label): number for label, number in threshold.items()}
    faults = [*_name_faults(given, labels), *_number_faults(given)]
    if faults:
        raise DesignError("threshold: " + "; ".join(faults))
    return tuple(float(given[str(label)]) for label in labels)  # type: ignore[arg-type]  # checked just above


def warn_low_thresholds(thresholds: Sequence[float], labels: Sequence[Label], *, stacklevel: int) -> None:
    """Warn, at the caller's line, of thresholds that some label always reaches.

    Parameters
    ----------
    thresholds
        One per label.
    labels
        The labels in order.
    stacklevel
        As in `warnings.warn`, counted from the caller of this function.
    """
    low = [label for label, number in zip(labels, thresholds, strict=True) if number <= 1 / len(labels)]
    if low:
        text = f"the threshold of {low} is at or below 1 / {len(labels)} labels: the most probable label always reaches that"
        warnings.warn(f"{text}, so such items leave at stage 1. Raise it", ThresholdWarning, stacklevel=stacklevel + 1)


def _name_faults(given: Mapping[str, object], labels: Sequence[Label]) -> list[str]:
    known = [str(label) for label in labels]
    faults = [f"no threshold for label {label!r}: add it" for label in labels if str(label) not in given]
    return faults + [f"{name!r} is no label (labels: {', '.join(known)})" for name in given if name not in known]


def _number_faults(given: Mapping[str, object]) -> list[str]:
    return [
        f"{number!r} for label {name!r}: a number above 0 and up to 1 is due"
        for name, number in given.items()
        if not is_number(number) or not 0 < number <= 1
    ]
