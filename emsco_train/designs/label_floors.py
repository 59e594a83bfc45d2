"""`LabelFloor`: the least that the recall or the accuracy of one label must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from emsco_runtime.bundle.manifest import Label
from emsco_train.designs.design import Design
from emsco_train.designs.precision import Precision
from emsco_train.errors import DesignError
from emsco_train.support.binomial import lower_bound_level
from emsco_train.support.numbers import is_number

__all__ = ["LabelFloor", "make_label_floors"]


@dataclass(frozen=True, slots=True)
class LabelFloor:
    """A floor on a figure of one label, as `LabelCounts` defines it.

    Examples
    --------
    >>> LabelFloor("recall", "fraud", 0.8).text
    'recall of fraud >= 0.8'
    """

    figure: Literal["recall", "accuracy"]
    label: Label
    least: float

    @property
    def text(self) -> str:
        """The floor in words."""
        return f"{self.name} >= {self.least:g}"

    @property
    def name(self) -> str:
        """The figure in words."""
        return f"{self.figure} of {self.label}"

    def bound(self, design: Design, sure: float | None) -> float:
        """Return the figure of a design, or its lower bound at the level `sure`."""
        bounds = design.label_bounds(self.label, sure)
        return bounds.recall if self.figure == "recall" else bounds.accuracy

    def level(self, design: Design, precision: Precision) -> float:
        """Return the highest level at which the bound of a design, with this precision, is not below the floor."""
        place = design.find_label(self.label)
        counts, sizes = design.labels[place], precision.labels[place]
        share, rows = (counts.recall, sizes.rows) if self.figure == "recall" else (counts.accuracy, sizes.accepted_as)
        return lower_bound_level(share * rows, rows, self.least)

    def shortfall(self, design: Design, sure: float | None) -> float:
        """Return by how much a design misses the floor; 0 where it does not."""
        return max(0.0, self.least - self.bound(design, sure))


def make_label_floors(
    min_recall: Mapping[Label, float] | None = None, min_accuracy_of: Mapping[Label, float] | None = None
) -> tuple[LabelFloor, ...]:
    """Return floors from mappings label -> number from 0 to 1; 0 is no floor.

    Examples
    --------
    >>> [floor.text for floor in make_label_floors({"fraud": 0.8, "other": 0}, {"fraud": 0.9})]
    ['recall of fraud >= 0.8', 'accuracy of fraud >= 0.9']
    """
    floors = []
    given: tuple[tuple[str, Literal["recall", "accuracy"], Mapping[Label, float] | None], ...] = (
        ("min_recall", "recall", min_recall),
        ("min_accuracy_of", "accuracy", min_accuracy_of),
    )
    for name, figure, mapping in given:
        if mapping is not None and not isinstance(mapping, Mapping):
            raise DesignError(f"{name} is {mapping!r}: expected a mapping from label to number, such as {{'fraud': 0.8}}")
        for label, least in (mapping or {}).items():
            if not is_number(least) or not 0 <= least <= 1:
                raise DesignError(f"`{name}` of {label!r} is {least!r}: expected a number from 0 to 1")
            if least:
                # True and False are the labels 1 and 0.
                floors.append(LabelFloor(figure, int(label) if isinstance(label, bool) else label, float(least)))
    return tuple(floors)
