"""What is called on which item, in which order.

Every step begins with a fresh item, since work that acquirers share is kept on the item: the first call pays for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from emsco_train.costs.profiling.call_groups import CallGroups

__all__ = ["CallStep", "Role", "plan_steps"]

# first: nothing was called on the item before. after: another member of its group was. mixed: all are called, in any order.
Role: TypeAlias = Literal["first", "after", "mixed"]


class CallStep(NamedTuple):
    """Calls on one fresh item, by position, each in its role."""

    item: int
    calls: tuple[tuple[int, Role], ...]


def plan_steps(items: int, calls: int, call_groups: CallGroups, rng: np.random.Generator) -> list[CallStep]:
    """Return one pass: each call first on each item, each member of a named group after another one, and all in company.

    Examples
    --------
    >>> steps = plan_steps(1, 3, CallGroups({"html": (0, 1)}, {}), np.random.default_rng(0))
    >>> for step in sorted(steps):
    ...     print(step.calls)
    ((0, 'first'), (1, 'after'))
    ((1, 'first'), (0, 'after'))
    ((2, 'first'),)
    ((2, 'mixed'), (0, 'mixed'), (1, 'mixed'))
    """
    grouped = [position for positions in call_groups.named.values() for position in positions]
    alone = [position for position in range(calls) if position not in grouped]
    steps: list[CallStep] = []
    for item in range(items):
        steps += [CallStep(item, ((position, "first"),)) for position in alone]
        for positions in call_groups.named.values():
            steps += _pair_steps(item, rng.permutation(positions).tolist())
        steps.append(CallStep(item, tuple((position, "mixed") for position in rng.permutation(calls).tolist())))
    # What disturbs the machine for a while must not fall on one acquirer alone.
    return [steps[place] for place in rng.permutation(len(steps))]


def _pair_steps(item: int, cycle: Sequence[int]) -> list[CallStep]:
    """Return a step for each member: first itself, then its neighbour in a random circle."""
    return [CallStep(item, ((one, "first"), (cycle[place - len(cycle) + 1], "after"))) for place, one in enumerate(cycle)]
