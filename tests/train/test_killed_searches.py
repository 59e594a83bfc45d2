"""Long runs through the public API, on real data, in real processes that get real signals.

Whatever the number of threads, and however often a run is killed and resumed, the front is that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from emsco_train import CheckpointError, Checkpoints, Outcome, Problem, Settings, run_search
from emsco_train.search.searches import run_evolve

pytestmark = pytest.mark.uncounted

PLAIN = Settings(max_stages=4, population=30, generations=40)
COLUMNS = 18
# A run reports each generation and then waits so long: else it would be over before it can be killed. It is killed in the first
# half of its generations, so that there is time for that even where the machine is busy.
WAIT_S = 0.03


def cancer(threshold: float = 0.9) -> Problem:
    """Return the breast cancer data, some of its features, with made-up costs in cents."""
    rows, y = load_breast_cancer(return_X_y=True)
    rows = rows[:, :COLUMNS]
    costs = np.random.default_rng(0).integers(1, 1_000, rows.shape[1]) / 100
    return Problem.of(rows, y, costs=costs.tolist(), threshold=threshold)


def search(seed: int, settings: Settings, folder: Path, connection: Connection) -> None:
    """Search in a process of its own, and report each generation and each step of the polish."""

    def send(what: int | str) -> None:
        connection.send(what)
        time.sleep(WAIT_S)

    outcome = run_evolve(
        cancer(),
        settings,
        seed=seed,
        jobs=1 + seed % 2,
        on_generation=lambda record: send(record.number),
        on_progress=lambda step: send(step.phase) if step.phase == "polish" else None,
        checkpoints=Checkpoints(folder / "run.json", every=2, resume=True),
    )
    (folder / "front.json").write_text(outcome.front.to_json())


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is killed and resumed; it has a folder for its checkpoint and its result.

    Its processes are new interpreters ("spawn"), or, since imports take seconds, children of one that has imported everything
    and done nothing ("forkserver").
    """

    seed: int
    settings: Settings
    folder: Path
    method: Literal["forkserver", "spawn"] = "forkserver"

    def kill(self, moment: Callable[[int | str], bool], delay: float) -> None:
        """Continue, and be killed without warning, a little after the message that the moment has come."""
        process, connection = self._start()
        wait_for(connection, moment)
        time.sleep(delay)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        assert process.exitcode == -signal.SIGKILL

    def kill_in_generations(self, rng: np.random.Generator, most: int) -> None:
        """Continue, and be killed at a random moment, at most `most` generations later."""
        after = int(rng.integers(1, most + 1))
        seen: list[int] = []

        def reached(word: int | str) -> bool:
            seen.append(int(word))
            return len(seen) > after or seen[-1] >= self.settings.generations // 2

        # The first checkpoint is written once generation 0 is reported, so it is there when generation 1 is.
        self.kill(reached, float(rng.uniform(0.0, 0.05)))
        assert (self.folder / "run.json").exists()

    def finish(self) -> str:
        """Continue to the end, and return the front."""
        process, connection = self._start()
        with contextlib.suppress(EOFError):
            while True:
                connection.recv()
        process.join(60)
        assert process.exitcode == 0
        return (self.folder / "front.json").read_text()

    def uninterrupted(self) -> str:
        """Return the front of an uninterrupted run, in this process."""
        return run_evolve(cancer(), self.settings, seed=self.seed, jobs=1).front.to_json()

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context(self.method)
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=search, args=(self.seed, self.settings, self.folder, theirs))
        process.start()
        theirs.close()
        return process, ours


def wait_for(connection: Connection, moment: Callable[[int | str], bool]) -> None:
    """Wait for the message that the moment has come."""
    try:
        while not moment(connection.recv()):
            pass
    except EOFError:
        pytest.fail("the run ended before it could be killed")


def test_the_number_of_threads_changes_nothing() -> None:
    """One thread and two: the same front, to the last digit, by the genetic search and by "auto"."""
    settings = replace(PLAIN, generations=15)
    fronts = [run_evolve(cancer(), settings, seed=3, jobs=jobs).front.to_json() for jobs in (1, 2)]
    assert fronts[0] == fronts[1]
    assert len(json.loads(fronts[0])["designs"]) > 1
    assert run_search(cancer(), settings, seed=3).front.to_json() == fronts[0]


@pytest.mark.parametrize(("seed", "polish"), [(2, False), (3, True)])
def test_killed_twice_and_resumed(seed: int, polish: bool, tmp_path: Path) -> None:
    """SIGKILL at a random moment, again in the process that resumes: the front is that of an uninterrupted run."""
    rng = np.random.default_rng(seed)
    run = Run(seed, replace(PLAIN, polish=polish, polish_evaluations=2_000), tmp_path)
    run.kill_in_generations(rng, 20)
    if polish:
        run.kill(lambda word: word == "polish", float(rng.uniform(0.0, 0.03)))
    else:
        run.kill_in_generations(rng, 20)
    assert not (tmp_path / "front.json").exists()
    assert run.finish() == run.uninterrupted()
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.suffix != ".tmp") == ["front.json", "run.json"]


@pytest.mark.proof
@pytest.mark.parametrize("polish", [False, True])
def test_killed_twenty_times(polish: bool, tmp_path: Path) -> None:
    """The same with twenty kills in one run, some of them before the next checkpoint, each time in a new interpreter."""
    rng = np.random.default_rng(7)
    run = Run(7, replace(PLAIN, generations=150, polish=polish, polish_evaluations=8_000), tmp_path, "spawn")
    for _ in range(20):
        run.kill_in_generations(rng, 4)
    if polish:
        for _ in range(3):
            run.kill(lambda word: word == "polish", float(rng.uniform(0.0, 0.03)))
    assert run.finish() == run.uninterrupted()


FIT = """
import signal
# Where the tests themselves run in the background, interrupts are ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
from sklearn.datasets import load_breast_cancer
from emsco_train import EmscoClassifier
X, y = load_breast_cancer(return_X_y=True)
X = X[:, :18]
model = EmscoClassifier(max_stages=4, population=30, generations=1_000_000, random_state=0, verbose=1, n_jobs=2).fit(X, y)
print(model.outcome_.stopped, len(model.front_), len(model.predict(X)))
"""


def test_ctrl_c_in_a_fit_keeps_the_front_so_far() -> None:
    """A real SIGINT while the bar is shown on a real terminal: a fitted model, and a message that says why it ended."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([sys.executable, "-c", FIT], stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            shown = read_terminal(ours, until=b"generation 2")
            process.send_signal(signal.SIGINT)
            shown += read_terminal(ours, until=None)
            out, _ = process.communicate(timeout=60)
        finally:
            # Whatever went wrong here is not to disturb the tests that follow.
            process.kill()
            os.close(ours)
    assert process.returncode == 0, shown.decode()
    stopped, designs, rows = out.split()
    assert (stopped, rows) == (b"interrupted", b"569")
    last = shown.decode().splitlines()[-1]
    assert last.startswith(f"interrupted, the front so far is kept: {int(designs)} design")
    assert "best fitness" in shown.decode()


def read_terminal(terminal: int, *, until: bytes | None) -> bytes:
    """Return what is written to a terminal, up to some words or to the end."""
    shown = b""
    while until is None or until not in shown:
        # Where nothing is compiled yet, that alone takes a minute.
        assert select.select([terminal], [], [], 300)[0], f"nothing for five minutes, expected {until!r} after: {shown.decode()}"
        try:
            more = os.read(terminal, 4096)
        except OSError:  # how Linux reports that the other side is closed
            more = b""
        if not more:
            assert until is None, shown.decode()
            break
        shown += more
    return shown


def first_part(folder: Path, **changes: object) -> Outcome:
    """Return a run that has no time, with a checkpoint, through `run_search`."""
    place = Checkpoints(folder / "run.json", every=1)
    return run_search(cancer(), replace(PLAIN, generations=2), checkpoints=place, seed=1, **changes)  # type: ignore[arg-type]


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    """Of other data, costs, thresholds or stage models, other settings, or another seed: `run_search` says which."""
    whole = first_part(tmp_path)
    resume = Checkpoints(tmp_path / "run.json", resume=True)
    settings = replace(PLAIN, generations=2)
    again = run_search(cancer(), settings, seed=1, checkpoints=resume)
    assert again.front == whole.front
    kept = (tmp_path / "run.json").read_bytes()
    with pytest.raises(CheckpointError, match="with other data, costs, thresholds or stage models"):
        run_search(cancer(0.8), settings, seed=1, checkpoints=resume)
    with pytest.raises(CheckpointError, match="with other settings"):
        run_search(cancer(), replace(settings, population=41), seed=1, checkpoints=resume)
    with pytest.raises(CheckpointError, match="with other seed"):
        run_search(cancer(), settings, seed=2, checkpoints=resume)
    # A problem that is small enough for the exact search, which keeps no checkpoint: the wrong file is still refused.
    rows, y = load_breast_cancer(return_X_y=True)
    with pytest.raises(CheckpointError, match="with other data, costs, thresholds or stage models"):
        run_search(Problem.of(rows[:, :4], y), replace(settings, max_stages=2), seed=1, checkpoints=resume)
    assert (tmp_path / "run.json").read_bytes() == kept
