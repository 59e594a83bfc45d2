"""Commands in tests: in the test's own process (`run` and what is made of it), or in a child (`start`).

Imports take most of the time of a command, and there are many commands to run; to count the lines of a child takes as long
again. So only what needs a process gets one: a command that is killed, interrupted or run next to another. Its process is a child
of a server that has imported everything and done nothing. It has its own output, working folder, signals and exit status, as a
command has that is started from a shell; a few tests start the installed commands themselves.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

BIN = Path(sys.executable).parent
_MODULES = {
    "emsco-train": "emsco_train.cli.train",
    "emsco-export": "emsco_train.cli.export",
    "emsco-run": "emsco_runtime.cli.run",
    "emsco-inspect": "emsco_runtime.cli.inspect",
    "emsco-report": "emsco_train.cli.report",
}


def preload_modules(*names: str) -> None:
    """Let the server import these modules before it forks; call it before any test runs.

    There is one server for all tests, and the first test that needs it starts it. Without its imports, each of the many
    commands that tests start would import them again.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(names))


@dataclass(frozen=True, slots=True, eq=False)
class RunningCommand:
    """A command that is running: its process, the folder of its output, and its command line."""

    process: BaseProcess
    folder: tempfile.TemporaryDirectory[str]
    words: list[str]

    def wait_until(self, happened: Callable[[], bool]) -> None:
        """Wait for something that the command does; it must not end before that."""
        while not happened():
            assert self.process.is_alive(), self.wait().stderr
            time.sleep(0.005)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Wait for the end, and return the status and what was printed."""
        self.process.join(300)
        assert self.process.exitcode is not None, "the command does not end"
        out, error = ((Path(self.folder.name) / name).read_text(encoding="utf-8") for name in ("stdout", "stderr"))
        self.folder.cleanup()
        return subprocess.CompletedProcess(self.words, self.process.exitcode, out, error)


def start(command: str, *arguments: object, cwd: Path | None = None) -> RunningCommand:
    """Start a command in a child."""
    context = multiprocessing.get_context("forkserver")
    folder = tempfile.TemporaryDirectory()
    for name in ("stdout", "stderr"):
        # At once: a child may be killed before it does anything.
        (Path(folder.name) / name).touch()
    words = [str(argument) for argument in arguments]
    process = context.Process(target=_run_command_in_child, args=(command, words, folder.name, str(cwd or Path.cwd())))
    process.start()
    return RunningCommand(process, folder, [command, *words])


def run(command: str, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return the status and what was printed."""
    words = [str(argument) for argument in arguments]
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.chdir(cwd or Path.cwd()), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = _run_here(command, words)
    shown, errors_shown = (stream.buffer.getvalue().decode("utf-8") for stream in (output, errors))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess([command, *words], status, shown, errors_shown)


def run_successfully(command: str, *arguments: object, cwd: Path | None = None) -> str:
    """Run a command that must succeed, and return what it prints."""
    ended = run(command, *arguments, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def run_expecting_error(status: int, command: str, *arguments: object, cwd: Path | None = None) -> str:
    """Run a command that must fail with one line that begins with its name; return the line."""
    ended = run(command, *arguments, cwd=cwd)
    return _error_line(command, status, ended.returncode, ended.stderr)


def without_progress(stderr: str) -> list[str]:
    """Return the lines of a command's errors and warnings: on a slow machine, long work says in between what it does."""
    return [line for line in stderr.splitlines() if not re.fullmatch(r"[^:]+(: \d+ % of [\d,]+)?, \d+ s", line)]


def _error_line(command: str, status: int, ended: object, stderr: str) -> str:
    assert ended == status, f"{ended}: {stderr}"
    lines = without_progress(stderr)
    assert len(lines) == 1, stderr
    assert lines[0].startswith(f"{command}: ")
    assert "Traceback" not in stderr
    return lines[0]


def _run_here(command: str, words: list[str]) -> int:
    """Return the exit status of a command in this process."""
    try:
        status: object = importlib.import_module(_MODULES[command]).main(words)
    except SystemExit as exit_:
        status = exit_.code
    assert isinstance(status, int)
    return status


def _run_command_in_child(command: str, words: list[str], folder: str, cwd: str) -> None:
    """Be the command, from its first line to its exit status."""
    os.chdir(cwd)
    # Where the tests themselves run in the background, interrupts are ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(Path(folder) / name, os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
        setattr(sys, name, io.TextIOWrapper(os.fdopen(number, "wb", closefd=False), encoding="utf-8"))
    sys.exit(importlib.import_module(_MODULES[command]).main(words))
