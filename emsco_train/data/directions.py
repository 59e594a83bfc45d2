"""`Directions`: features that may move the probability of the second of two labels one way only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_train.errors import DesignError

__all__ = ["UNDIRECTED", "Directions"]


@dataclass(frozen=True, slots=True)
class Directions:
    """Names of features that, as they rise, never lower (`increasing`) or never raise (`decreasing`) that probability.

    It holds for every stage, while the other features stay the same. A gap is no number: it has a value of its own.

    Examples
    --------
    >>> directions = Directions(increasing=("spam_score",), decreasing=("age",))
    >>> directions.of("spam_score"), directions.of("age"), directions.of("size")
    (1, -1, 0)
    """

    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()

    @classmethod
    def make(cls, increasing: Any, decreasing: Any) -> Directions:
        """Return the directions of names as the user gives them; raise where they are no names, or name a feature twice."""
        given = {"increasing": increasing, "decreasing": decreasing}
        for argument, names in given.items():
            if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
                raise DesignError(f"{argument} is {names!r}: expected a sequence of feature names")
        both = next((name for name in increasing if name in decreasing), None)
        if both is not None:
            raise DesignError(f"`increasing` and `decreasing` both name {both!r}: give it one direction")
        return cls(*(tuple(dict.fromkeys(names)) for names in given.values()))

    def __bool__(self) -> bool:
        """Return whether any feature has a direction."""
        return bool(self.increasing or self.decreasing)

    def of(self, name: str) -> int:
        """Return 1, -1, or 0 for a feature without a direction."""
        return (name in self.increasing) - (name in self.decreasing)

    def check(self, features: Sequence[Feature], labels: Sequence[Label]) -> None:
        """Raise unless there are two labels, and these names are those of numbers or booleans."""
        if not self:
            return
        if len(labels) != 2:
            raise DesignError(
                f"`increasing` and `decreasing` need two labels, and there are {len(labels)}: a direction is towards the second"
            )
        kinds = {feature.name: feature.kind for feature in features}
        for argument, names in (("increasing", self.increasing), ("decreasing", self.decreasing)):
            for name in names:
                if name not in kinds:
                    raise DesignError(f"`{argument}` names {name!r}, which is not a feature (features: {', '.join(kinds)})")
                if kinds[name] not in ("numeric", "boolean"):
                    raise DesignError(
                        f"`{argument}` names {name!r}, whose kind is {kinds[name]}: only numbers and booleans have a direction"
                    )

    def describe(self, label: Label) -> str:
        """Return one line about them; the label is the second.

        Examples
        --------
        >>> Directions(("spam_score",), ("age",)).describe("spam")
        'spam never gets less probable as spam_score rises, nor more probable as age rises'
        """
        rising, falling = (" or ".join(names) for names in (self.increasing, self.decreasing))
        if not rising:
            return f"{label} never gets more probable as {falling} rises"
        text = f"{label} never gets less probable as {rising} rises"
        return f"{text}, nor more probable as {falling} rises" if falling else text

    def record(self) -> dict[str, Any]:
        """Return those that were given, for descriptions of what was fitted."""
        given = {"increasing": self.increasing, "decreasing": self.decreasing}
        return {argument: sorted(names) for argument, names in given.items() if names}


UNDIRECTED = Directions()
