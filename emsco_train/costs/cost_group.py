"""`CostGroup`: features that share one acquisition."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CostGroup"]


@dataclass(frozen=True, slots=True)
class CostGroup:
    """Features that share one acquisition.

    Parameters
    ----------
    name
        Name of the group.
    cost
        Paid once per item, whichever of the features comes first.
    features
        Names of the features; each still has its own cost, which may be 0. A feature may be in several groups: it needs them all.
    """

    name: str
    cost: float
    features: tuple[str, ...]
