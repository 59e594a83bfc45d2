"""`Phase`: which part of a long piece of work is under way, and how far it is: so that nothing is silent for long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["OnPhase", "Phase", "ignore_phase"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the work.

    Parameters
    ----------
    name
        What is done, as people read it: "reading mail.parquet".
    done, total
        How much of it is done; a total of 0: that is not known.
    """

    name: str
    done: int = 0
    total: int = 0


OnPhase: TypeAlias = Callable[[Phase], object]


def ignore_phase(_: Phase) -> None:
    """Show nothing."""
