"""What a fork does to objects: the id of this process, and objects that start over in a forked child.

A child has none of its parent's threads, and copies of locks that another thread may have held. Python's own fork hook fixes both
before any other code of the child runs, so that no call has to ask the kernel, or waits for a lock that is never released.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Generic, TypeVar

__all__ = ["ForkSafe", "PickledBySettings", "Process", "current_process", "fork_hooks"]

_Settings = TypeVar("_Settings")


class Process:
    """The id of this process, right in forked children too; with the number of forks, since the kernel reuses ids."""

    def __init__(self) -> None:
        self.id = (os.getpid(), 0)
        os.register_at_fork(after_in_child=self._update_id)

    def _update_id(self) -> None:
        self.id = (os.getpid(), self.id[1] + 1)


class ForkSafe:
    """A mixin for objects with locks or threads: `_start` resets one when it is made, and in every forked child."""

    def _start(self) -> None:
        self.reset_after_fork()
        fork_hooks.register(self)

    def reset_after_fork(self) -> None:
        """Make a new lock; classes that have more to reset extend this."""
        self._lock = threading.Lock()


class PickledBySettings(ForkSafe, Generic[_Settings]):
    """A mixin for fork-safe objects that are pickled as their `_settings`: a copy in another process starts over with them."""

    _settings: _Settings

    def __getstate__(self) -> _Settings:
        """Return the settings; everything else belongs to this process."""
        return self._settings

    def __setstate__(self, settings: _Settings) -> None:
        """Start over with these settings."""
        self._settings = settings
        self._start()


class _ForkHooks:
    """Resets objects after a fork, for as long as they live."""

    def __init__(self) -> None:
        self._objects: weakref.WeakSet[ForkSafe] = weakref.WeakSet()
        os.register_at_fork(after_in_child=self._run_hooks)

    def register(self, hooked: ForkSafe) -> None:
        """Reset an object in every forked child from now on."""
        self._objects.add(hooked)

    def _run_hooks(self) -> None:
        """Reset every object, even if others raise; Python reports what is raised here as an exception that it ignores."""
        failures: list[BaseException] = []
        for hooked in tuple(self._objects):
            try:
                hooked.reset_after_fork()
            except BaseException as error:  # noqa: BLE001 - raised below, once all objects were reset
                failures.append(error)
        if failures:
            # Listed in the message, since Python prints no more of a group than that.
            raise BaseExceptionGroup(
                f"some objects could not be reset in the forked child: {', '.join(map(repr, failures))}", failures
            )


current_process = Process()
fork_hooks = _ForkHooks()
