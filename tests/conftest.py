"""What all tests share: no property is a matter of time, and processes do not get into each other's way."""

from __future__ import annotations

import os
import sys
import threading

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, and not wrong: how long an example takes, or takes to draw, says nothing about what is tested.
settings.register_profile("emsco", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("emsco")


def _open_the_lock_of_coverage() -> None:
    """Give coverage a new lock in a forked child: it takes it at every call, and another thread may have held it at the fork."""
    coverage = sys.modules.get("coverage")
    measuring = coverage.Coverage.current() if coverage else None
    if measuring is not None and measuring._collector is not None and measuring._collector.data_lock is not None:
        measuring._collector.data_lock = threading.Lock()


# Before ours: hooks run in the order in which they were registered, and ours are measured.
os.register_at_fork(after_in_child=_open_the_lock_of_coverage)


@pytest.fixture
def uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not count the lines of the commands that a test starts: those that get a Ctrl-C.

    Counting takes coverage's lock at every call, and a KeyboardInterrupt between taking and giving it back is one that waits for
    ever: about one in a hundred.
    """
    for name in [name for name in os.environ if name.startswith("COVERAGE_PROCESS")]:
        monkeypatch.delenv(name)
