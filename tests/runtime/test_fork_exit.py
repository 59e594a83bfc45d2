"""Forked children end: nothing that the parent loaded makes them hang or abort on their way out."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_FORK = """
import os, sys
from emsco_runtime import Cascade
from emsco_runtime.testing import sample_bundle
cascade = Cascade(sample_bundle())
child = os.fork()
if child == 0:
    # Out by the front door, as a worker of a pre-forking server goes: all that is registered for the end is run.
    sys.exit(3 if cascade.decide({"size": 2.0}).label == "spam" else 4)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
_SETTING = """
import os
from emsco_runtime import Cascade
from emsco_runtime.testing import sample_bundle
Cascade(sample_bundle())
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""


def run_python(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which nobody has decided on telemetry, nor loaded onnxruntime."""
    # onnxruntime is silent in what it takes for a build server: that would hide what is tested here.
    hidden = ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "CI")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    return subprocess.run(command, env={**environment, **settings}, capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_decides_and_ends() -> None:
    """A child of a process with a cascade decides and exits in the ordinary way, with its own status and without a word."""
    ended = run_python(_FORK)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", "")


def test_telemetry_is_off_unless_asked_for() -> None:
    """onnxruntime's telemetry is turned off before it is loaded; what the user has set stays."""
    assert run_python(_SETTING).stdout == "1\n"
    assert run_python(_SETTING, ORT_DISABLE_TELEMETRY="0").stdout == "0\n"
