"""Forked children end: nothing that the parent loaded makes them hang or abort at their exit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

_MAKE_CASCADE = """
import os, sys
from emsco_runtime import Cascade
from emsco_runtime.testing import sample_bundle
cascade = Cascade(sample_bundle())
print(os.environ["ORT_DISABLE_TELEMETRY"], flush=True)
"""
_FORK = """
child = os.fork()
if child == 0:
    # An ordinary exit, as in a worker of a pre-forking server: everything that is registered for it is run.
    sys.exit(3 if cascade.decide({"size": 2.0}).label == "spam" else 4)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def start_python(code: str, **settings: str) -> subprocess.Popen[str]:
    """Start a process that has not loaded onnxruntime, and in which telemetry is only set as given."""
    # onnxruntime sends nothing from what looks like a build server: that would hide what is tested here.
    hidden = ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "CI")
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | settings
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def processes() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start both processes at the same time: one without a setting of telemetry, one whose user has set it."""
    started = {"default": start_python(_MAKE_CASCADE + _FORK), "set": start_python(_MAKE_CASCADE, ORT_DISABLE_TELEMETRY="0")}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_decides_and_ends(processes: dict[str, subprocess.Popen[str]]) -> None:
    """A child of a process with a cascade decides and exits in the ordinary way, with its own status and without a message.

    In its parent, onnxruntime's telemetry was turned off before it was loaded.
    """
    output, errors = processes["default"].communicate(timeout=60)
    assert (processes["default"].returncode, output, errors) == (3, "1\n", "")


def test_telemetry_stays_as_the_user_has_set_it(processes: dict[str, subprocess.Popen[str]]) -> None:
    """A setting of the user's is not changed."""
    assert processes["set"].communicate(timeout=60)[0] == "0\n"
