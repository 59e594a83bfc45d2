"""Derived features: computed from others, and paid through what these need.

A price is paid once per item, whichever feature needs it first. So the own price of a feature that another one is derived from
becomes the price of a group of both, and the derived feature joins the groups of what it is derived from. Nothing else is needed:
meters, searches and bundles know features with prices, and groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from emsco_train.costs.cost_group import CostGroup
from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_number
from emsco_train.support.validation_errors import raise_faults

__all__ = ["pay_through_sources"]


def pay_through_sources(
    features: Mapping[str, float], groups: Sequence[CostGroup], sources: Mapping[str, Sequence[str]]
) -> tuple[dict[str, float], tuple[CostGroup, ...]]:
    """Return own costs and groups by which derived features are paid through what they are derived from.

    Parameters
    ----------
    features, groups
        Prices; a derived feature may have a price and groups of its own.
    sources
        Derived feature -> the features that it is derived from, which may be derived themselves.

    Examples
    --------
    >>> blood = CostGroup("blood", 2.0, ("glucose",))
    >>> own, groups = pay_through_sources({"age": 1.0, "glucose": 0.0, "risk": 0.0}, [blood], {"risk": ["age", "glucose"]})
    >>> own
    {'age': 0.0, 'glucose': 0.0, 'risk': 0.0}
    >>> for group in groups:
    ...     print(group)
    CostGroup(name='blood', cost=2.0, features=('glucose', 'risk'))
    CostGroup(name='age', cost=1.0, features=('age', 'risk'))
    """
    needs = _find_all_sources(features, sources)
    own, shared = dict(features), []
    for group in groups:
        joining = [name for name, needed in needs.items() if name not in group.features and needed & set(group.features)]
        shared.append(replace(group, features=(*group.features, *joining)))
    for name in features:
        derived = [one for one, needed in needs.items() if name in needed]
        # What is not a price stays where it is, for the error to name its feature.
        if derived and is_number(own[name]) and own[name] > 0:
            shared.append(CostGroup(_free_name(name, shared), own[name], (name, *derived)))
            own[name] = 0.0
    return own, tuple(shared)


def _find_all_sources(features: Mapping[str, float], sources: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return, for each derived feature, everything that it is derived from, directly or not."""
    raise_faults("costs", _name_faults(features, sources))
    needs: dict[str, set[str]] = {}
    for name in sources:
        needed, waiting = set[str](), list(sources[name])
        while waiting:
            source = waiting.pop()
            if source not in needed:
                needed.add(source)
                waiting += sources.get(source, ())
        if name in needed:
            raise DesignError(f"costs: feature {name!r} is derived from itself: name only what it is computed from")
        needs[name] = needed
    return needs


def _name_faults(features: Mapping[str, float], sources: Mapping[str, Sequence[str]]) -> list[str]:
    faults = [
        f"feature {name!r} is derived from others and has no cost: add one (it may be 0)"
        for name in sources
        if name not in features
    ]
    return faults + [
        f"feature {name!r} is derived from {source!r}, which has no cost: add one, or correct the name"
        for name, given in sources.items()
        for source in given
        if source not in features
    ]


def _free_name(name: str, groups: Sequence[CostGroup]) -> str:
    taken = {group.name for group in groups}
    while name in taken:
        name = f"{name} (own)"
    return name
