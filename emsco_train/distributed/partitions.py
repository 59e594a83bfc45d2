"""`Partitions`: parts of a table, here or on the workers of a cluster; only what adds up comes back from them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from emsco_runtime.support.arrays import Array

__all__ = ["LocalPartitions", "Partitions", "Sums"]

Part = TypeVar("Part")
Part_co = TypeVar("Part_co", covariant=True)
Message = TypeVar("Message")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Arrays that add up over partitions.

    Examples
    --------
    >>> import numpy as np
    >>> (Sums((np.array([1, 2]),)) + Sums((np.array([3, 4]),))).arrays
    (array([4, 6]),)
    """

    arrays: tuple[Array, ...]

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over both."""
        return Sums(tuple(map(operator.add, self.arrays, other.arrays)))


class Partitions(Protocol[Part_co]):
    """Parts of a table. Functions are called with a part and with a message that is the same for all parts.

    They are functions of modules, since workers look them up by their names, and depend on their arguments alone: where a
    worker is lost, they are called again.
    """

    def total(self, function: Callable[[Part_co, Message], Result], message: Message) -> Result:
        """Return the sum of what a function returns for each part; always added in the same order."""

    def transform(self, function: Callable[[Part_co, Message], Part], message: Message) -> Partitions[Part]:
        """Return what a function makes of each part, kept where the part is."""

    def release(self) -> None:
        """Let the parts go."""


@dataclass(frozen=True, slots=True)
class LocalPartitions(Generic[Part]):
    """Parts in this process, for tests and for small tables.

    Examples
    --------
    >>> LocalPartitions([1, 2, 3]).transform(operator.mul, 10).total(operator.add, 1)
    63
    """

    parts: Sequence[Part]

    def total(self, function: Callable[[Part, Message], Result], message: Message) -> Result:
        """Return the sum of what a function returns for each part."""
        results: list[Any] = [function(part, message) for part in self.parts]
        total: Result = functools.reduce(operator.add, results)
        return total

    def transform(self, function: Callable[[Part, Message], Any], message: Message) -> LocalPartitions[Any]:
        """Return what a function makes of each part."""
        return LocalPartitions([function(part, message) for part in self.parts])

    def release(self) -> None:
        """Do nothing: they go with this object."""
