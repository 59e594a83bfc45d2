"""What a fork does to us: the id of this process, and things that begin anew in a forked child.

A child has none of its parent's threads, and copies of locks that another thread may have held. Python's own fork hook puts both
right before any other code of the child runs, so that nobody has to ask the kernel, or meets a lock that will never open.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["Process", "Renewable", "forks", "process"]


class Process:
    """The id of this process, right in forked children too; with the number of forks, since the kernel reuses ids."""

    def __init__(self) -> None:
        self.id = (os.getpid(), 0)
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.id = (os.getpid(), self.id[1] + 1)


class Renewable(Protocol):
    """Something with locks or threads."""

    def begin_anew(self) -> None:
        """Make new locks, without threads; called in a forked child."""


class _Forks:
    """Tells things of a fork, for as long as they live."""

    def __init__(self) -> None:
        self._things: weakref.WeakSet[Renewable] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._renew)

    def watch(self, thing: Renewable) -> None:
        """Let a thing begin anew in every forked child from now on."""
        self._things.add(thing)

    def _renew(self) -> None:
        """Renew every thing, whatever the others do; Python reports what is raised here as an exception that it ignores."""
        failures: list[BaseException] = []
        for thing in tuple(self._things):
            try:
                thing.begin_anew()
            except BaseException as error:  # noqa: BLE001 - raised below, once all have had their turn
                failures.append(error)
        if failures:
            # Named in the message, since Python prints no more of a group than that.
            named = ", ".join(map(repr, failures))
            raise BaseExceptionGroup(f"some objects could not be renewed in the forked child: {named}", failures)


process = Process()
forks = _Forks()
