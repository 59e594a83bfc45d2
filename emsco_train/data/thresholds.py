"""Thresholds: the confidence that each label needs to be accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from emsco_runtime.decision import Label
from emsco_train.data.labels import label_text
from emsco_train.support.numbers import is_number
from emsco_train.support.validation_errors import raise_faults

__all__ = ["StageThresholds", "Threshold", "resolve_thresholds"]

Threshold: TypeAlias = float | Mapping[Label, float]


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class StageThresholds:
    """The confidence that each label needs, in label order: at the last stage of a design, and at the stages before it.

    Examples
    --------
    >>> StageThresholds(early=(0.99, 0.99), last=(0.9, 0.9)).for_stages(3)
    ((0.99, 0.99), (0.99, 0.99), (0.9, 0.9))
    """

    last: tuple[float, ...]
    early: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the numbers."""
        counts = f"expected one threshold per label for early stages and the last, got {len(self.early)} and {len(self.last)}"
        numbers = [number for number in (*self.early, *self.last) if not is_number(number) or not 0 < number <= 1]
        faults = [] if len(self.early) == len(self.last) else [counts]
        raise_faults("thresholds", faults + [f"{number!r}: expected a number above 0 and up to 1" for number in numbers])

    @classmethod
    def constant(cls, thresholds: Sequence[float]) -> StageThresholds:
        """Return the same thresholds for all stages."""
        return cls(last=tuple(thresholds), early=tuple(thresholds))

    def for_stages(self, count: int) -> tuple[tuple[float, ...], ...]:
        """Return the thresholds of each stage of a design that has so many."""
        return (*(self.early,) * (count - 1), self.last)


def resolve_thresholds(threshold: Threshold, labels: Sequence[Label]) -> tuple[float, ...]:
    """Return one threshold per label, in label order, out of one number for all or a mapping that names every label.

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
        given = {label_text(label): number for label, number in threshold.items()}
    raise_faults("threshold", [*_name_faults(given, labels), *_number_faults(given)])
    return tuple(float(given[str(label)]) for label in labels)  # type: ignore[arg-type]  # checked just above


def _name_faults(given: Mapping[str, object], labels: Sequence[Label]) -> list[str]:
    known = [str(label) for label in labels]
    faults = [f"no threshold for label {label!r}: add it" for label in labels if str(label) not in given]
    return faults + [f"{name!r} is not a label (labels: {', '.join(known)})" for name in given if name not in known]


def _number_faults(given: Mapping[str, object]) -> list[str]:
    return [
        f"{number!r} for label {name!r}: expected a number above 0 and up to 1"
        for name, number in given.items()
        if not is_number(number) or not 0 < number <= 1
    ]
