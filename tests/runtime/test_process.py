"""What a fork does to objects: every one is reset in the child, even if others raise."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import pytest

from emsco_runtime.support.fork import ForkSafe, _ForkHooks, fork_hooks


class ForkCounter(ForkSafe):
    """Something that counts how often it was reset."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.times = 0
        self._error = error

    def reset_after_fork(self) -> None:
        """Count, and raise the error, if there is one."""
        self.times += 1
        if self._error is not None:
            raise self._error


def in_child(check: Callable[[], bool]) -> bool:
    """Fork, and return whether the check holds in the child."""
    child = os.fork()
    if child == 0:  # pragma: no cover - the child leaves without telling coverage
        signal.alarm(60)
        status = 1
        try:
            status = 0 if check() else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_one_that_raises_after_a_fork_does_not_keep_the_others_from_it(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among many objects some cannot be reset: all others are, and Python prints every error."""
    # pytest would capture it.
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    hooked_objects = [ForkCounter(RuntimeError(f"no thread {index}") if index % 10 == 5 else None) for index in range(40)]
    for hooked in hooked_objects:
        fork_hooks.register(hooked)
    assert in_child(lambda: all(hooked.times == 1 for hooked in hooked_objects))
    printed = capfd.readouterr().err
    assert "some objects could not be reset in the forked child: RuntimeError(" in printed
    assert all(f"no thread {index}" in printed for index in (5, 15, 25, 35))
    assert all(hooked.times == 0 for hooked in hooked_objects)


def test_what_could_not_be_reset_is_raised_at_the_end() -> None:
    """All objects were reset when the errors are raised, a request to stop among them."""
    mine = _ForkHooks()
    hooked_objects = [ForkCounter(KeyboardInterrupt()), ForkCounter(), ForkCounter(ValueError("mine"))]
    for hooked in hooked_objects:
        mine.register(hooked)
    with pytest.raises(BaseExceptionGroup) as caught:
        mine._run_hooks()
    assert sorted(type(error).__name__ for error in caught.value.exceptions) == ["KeyboardInterrupt", "ValueError"]
    assert [hooked.times for hooked in hooked_objects] == [1, 1, 1]
