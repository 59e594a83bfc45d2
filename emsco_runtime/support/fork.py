"""What a fork does to us: the id of this process, and things that begin anew in a forked child.

A child has none of its parent's threads, and copies of locks that another thread may have held. Python's own fork hook puts both
right before any other code of the child runs, so that nobody has to ask the kernel, or meets a lock that will never open.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["ForkAware", "Process", "current_process", "fork_hooks"]


class Process:
    """The id of this process, right in forked children too; with the number of forks, since the kernel reuses ids."""

    def __init__(self) -> None:
        self.id = (os.getpid(), 0)
        os.register_at_fork(after_in_child=self._update_id)

    def _update_id(self) -> None:
        self.id = (os.getpid(), self.id[1] + 1)


class ForkAware(Protocol):
    """Something with locks or threads."""

    def reset_after_fork(self) -> None:
        """Make new locks, without threads; called in a forked child."""


class _ForkHooks:
    """Tells things of a fork, for as long as they live."""

    def __init__(self) -> None:
        self._objects: weakref.WeakSet[ForkAware] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._run_hooks)

    def register(self, hooked: ForkAware) -> None:
        """Let a thing begin anew in every forked child from now on."""
        self._objects.add(hooked)

    def _run_hooks(self) -> None:
        """Renew every thing, whatever the others do; Python reports what is raised here as an exception that it ignores."""
        failures: list[BaseException] = []
        for hooked in tuple(self._objects):
            try:
                hooked.reset_after_fork()
            except BaseException as error:  # noqa: BLE001 - raised below, once all have had their turn
                failures.append(error)
        if failures:
            # Named in the message, since Python prints no more of a group than that.
            named = ", ".join(map(repr, failures))
            raise BaseExceptionGroup(f"some objects could not be renewed in the forked child: {named}", failures)


current_process = Process()
fork_hooks = _ForkHooks()
