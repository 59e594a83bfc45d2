"""Checkpoints: a run that was killed continues as if nothing had happened, and the file of another run is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_train.errors import TrainError, VersionWarning
from emsco_train.search.genetic.checkpoint import VERSION, CheckpointError, Checkpoints, read_checkpoint, write_checkpoint
from emsco_train.search.genetic.evolution import Evolution, Generation, evolve_population
from emsco_train.search.scoring.objectives import Objectives
from emsco_train.search.settings import Constraints, Settings
from tests.train.toy_landscape import Landscape, random_landscape

SETTINGS = Settings(max_stages=3, population=30, generations=25, growth=2, constraints=Constraints(max_cost=40))


class SimulatedCrash(Exception):
    """A crash."""


class CrashingEvaluator:
    """An evaluator that fails after some calls."""

    def __init__(self, landscape: Landscape, calls: int) -> None:
        """Wrap a landscape."""
        self.landscape, self.n, self.rows, self.calls = landscape, landscape.n, landscape.rows, calls

    def __call__(self, population: np.ndarray) -> Objectives:
        """Evaluate, or crash."""
        self.calls -= 1
        if self.calls < 0:
            raise SimulatedCrash
        return self.landscape(population)


def comparable(found: Evolution) -> list[Any]:
    """Return everything that two equal runs have in common."""
    return [
        found.chromosomes.tolist(),
        found.objectives.vectors().tolist(),
        found.ties.tolist(),
        found.population.tolist(),
        found.generations,
        found.stopped,
        found.evaluations,
    ]


def checkpoints_in(folder: Path, **changes: Any) -> Checkpoints:
    """Return where the tests keep a checkpoint."""
    return replace(Checkpoints(folder / "run.json", "data", every=3, resume=True), **changes)


def test_a_run_that_crashed_many_times_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    """Crashes after a random number of generations, again and again; population, front and counts are equal in the end."""
    landscape = random_landscape(6, 20, 0)
    uninterrupted = evolve_population(landscape, SETTINGS, seed=5)
    random = np.random.default_rng(0)
    crashes = 0
    while True:
        try:
            found = evolve_population(
                CrashingEvaluator(landscape, int(random.integers(1, 9))), SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path)
            )
        except SimulatedCrash:
            crashes += 1
            continue
        break
    assert crashes >= 3
    assert comparable(found) == comparable(uninterrupted)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_interrupted_and_timed_out_runs_continue(tmp_path: Path) -> None:
    """What ended by Ctrl-C or a time limit was kept at its last generation, and continues from there."""
    landscape = random_landscape(6, 20, 0)
    uninterrupted = evolve_population(landscape, SETTINGS, seed=5)

    def stop(record: Generation) -> None:
        if record.number == 10:
            raise KeyboardInterrupt

    first = evolve_population(landscape, SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path), on_generation=stop)
    assert (first.stopped, first.generations) == ("interrupted", 10)
    before = read_checkpoint(tmp_path / "run.json")
    assert before.generation == 10
    second = evolve_population(landscape, SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path), time_limit=0.0)
    assert (second.stopped, second.generations) == ("time", 10)
    numbers: list[int] = []
    third = evolve_population(
        landscape,
        SETTINGS,
        seed=5,
        checkpoints=checkpoints_in(tmp_path),
        on_generation=lambda record: numbers.append(record.number),
    )
    assert comparable(third) == comparable(uninterrupted)
    assert numbers == list(range(11, 26))
    assert read_checkpoint(tmp_path / "run.json").elapsed_s >= before.elapsed_s


def test_a_resumed_run_without_time_keeps_its_checkpoint(tmp_path: Path) -> None:
    """Time is over before the generation is evaluated again: a front of what was, and the same file to start from next time."""
    landscape = random_landscape(6, 20, 0)
    chosen = replace(SETTINGS, population=100)

    def stop(record: Generation) -> None:
        if record.number == 4:
            raise KeyboardInterrupt

    evolve_population(landscape, chosen, seed=5, checkpoints=checkpoints_in(tmp_path), on_generation=stop)
    before = (tmp_path / "run.json").read_bytes()
    cut = evolve_population(landscape, chosen, seed=5, checkpoints=checkpoints_in(tmp_path), time_limit=0.0)
    assert (cut.stopped, cut.generations) == ("time", 4)
    assert len(cut.population) < 100
    assert (tmp_path / "run.json").read_bytes() == before
    assert comparable(evolve_population(landscape, chosen, seed=5, checkpoints=checkpoints_in(tmp_path))) == comparable(
        evolve_population(landscape, chosen, seed=5)
    )


def test_a_first_generation_cut_short_is_not_kept(tmp_path: Path) -> None:
    """No checkpoint of half a generation: a resumed run starts over, and ends as an uninterrupted one does."""
    landscape = random_landscape(6, 20, 0)
    chosen = replace(SETTINGS, population=100)
    assert evolve_population(landscape, chosen, seed=5, checkpoints=checkpoints_in(tmp_path), time_limit=0.0).stopped == "time"
    assert list(tmp_path.iterdir()) == []
    assert comparable(evolve_population(landscape, chosen, seed=5, checkpoints=checkpoints_in(tmp_path))) == comparable(
        evolve_population(landscape, chosen, seed=5)
    )


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    """Its last generation is evaluated once more for the result, and that is all."""
    landscape = random_landscape(6, 20, 0)
    first = evolve_population(landscape, SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path))
    before = landscape.evaluated
    assert comparable(evolve_population(landscape, SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path))) == comparable(first)
    assert landscape.evaluated - before == len(np.unique(first.population, axis=0))


def test_without_resume_a_run_starts_over(tmp_path: Path) -> None:
    """The old checkpoint is replaced, whatever it was."""
    (tmp_path / "run.json").write_text("rubbish")
    evolve_population(random_landscape(6, 20, 0), SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path, resume=False))
    assert read_checkpoint(tmp_path / "run.json").generation == 25


SCRIPT = """
import sys, time
from pathlib import Path
from emsco_train.search.genetic.checkpoint import Checkpoints
from emsco_train.search.genetic.evolution import evolve_population
from tests.train.test_checkpoint import SETTINGS
from tests.train.toy_landscape import random_landscape
place = Checkpoints(Path(sys.argv[1]), "data", every=1, resume=True)
slow = lambda record: (print(record.number, flush=True), time.sleep(0.02))
evolve_population(random_landscape(6, 20, 0), SETTINGS, seed=5, checkpoints=place, on_generation=slow)
"""


@pytest.mark.uncounted
def test_killed_without_warning(tmp_path: Path) -> None:
    """SIGKILL at a random moment, three times over, in processes of their own; the end is that of an uninterrupted run."""
    random = np.random.default_rng(1)
    path = tmp_path / "run.json"
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], env=dict(os.environ)
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(random.uniform(0.02, 0.15))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    assert 0 < read_checkpoint(path).generation < 25
    landscape = random_landscape(6, 20, 0)
    resumed = evolve_population(landscape, SETTINGS, seed=5, checkpoints=checkpoints_in(tmp_path))
    assert comparable(resumed) == comparable(evolve_population(landscape, SETTINGS, seed=5))


@pytest.fixture
def checkpoint_file(tmp_path: Path) -> Path:
    """Return a checkpoint of a finished run."""
    evolve_population(random_landscape(6, 20, 0), replace(SETTINGS, generations=3), seed=5, checkpoints=checkpoints_in(tmp_path))
    return tmp_path / "run.json"


@pytest.mark.parametrize(
    ("problem", "chosen", "seed", "what"),
    [
        ("other", replace(SETTINGS, generations=3), 5, "other data, costs, thresholds or stage models"),
        ("data", replace(SETTINGS, generations=4), 5, "other settings"),
        ("data", replace(SETTINGS, generations=3), 6, "other seed"),
    ],
)
def test_checkpoint_of_another_run(checkpoint_file: Path, problem: str, chosen: Settings, seed: int, what: str) -> None:
    """Other data, settings or seed: refused before anything is evaluated."""
    landscape = random_landscape(6, 20, 0)
    with pytest.raises(CheckpointError, match=rf"run.json: this checkpoint belongs to a run with {what} .*start over"):
        evolve_population(landscape, chosen, seed=seed, checkpoints=Checkpoints(checkpoint_file, problem, resume=True))
    assert landscape.evaluated == 0
    assert issubclass(CheckpointError, TrainError)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_cut_short(checkpoint_file: Path, share: float) -> None:
    """A file that ends too early."""
    content = checkpoint_file.read_bytes()
    checkpoint_file.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(CheckpointError, match=r"run.json: damaged or cut short"):
        read_checkpoint(checkpoint_file)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": VERSION + 1}, "newer than 2"),
        ({"version": 1}, "of an older emsco.*Start over"),
        ({"version": "1"}, "version"),
        ({"format": "zip"}, "format"),
        ({"size": -3}, "size"),
        ({"surprise": 1}, "surprise"),
        ({"population": [["a"]]}, "population.0.0"),
    ],
)
def test_not_ours(checkpoint_file: Path, change: dict[str, Any], expected: str) -> None:
    """Another version, and fields that are wrong or unknown, are named."""
    checkpoint_file.write_text(json.dumps(json.loads(checkpoint_file.read_text()) | change))
    with pytest.raises(CheckpointError, match=expected):
        read_checkpoint(checkpoint_file)


def test_not_even_an_object(checkpoint_file: Path) -> None:
    """JSON, but not a checkpoint."""
    checkpoint_file.write_text("[]")
    with pytest.raises(CheckpointError, match="the document"):
        read_checkpoint(checkpoint_file)


@pytest.mark.parametrize(
    "population",
    [[[0] * 6], [[0] * 5] * 30, [[0, 0, 0, 0, 0, 7]] * 30, [[0, 0, 0, 0, 0, 2]] * 30, [[0], [0, 1]], [[10**20] * 6] * 30],
)
def test_damaged_population(checkpoint_file: Path, population: list[list[int]]) -> None:
    """Too few chromosomes, of the wrong length, or with impossible genes."""
    checkpoint_file.write_text(json.dumps(json.loads(checkpoint_file.read_text()) | {"population": population, "size": 30}))
    with pytest.raises(CheckpointError, match="population is damaged: expected 30 chromosomes of 6 genes"):
        evolve_population(
            random_landscape(6, 20, 0),
            replace(SETTINGS, generations=3),
            seed=5,
            checkpoints=checkpoints_in(checkpoint_file.parent),
        )


def test_damaged_memory(checkpoint_file: Path) -> None:
    """The designs met so far are not valid."""
    checkpoint_file.write_text(json.dumps(json.loads(checkpoint_file.read_text()) | {"visited": "AAAA"}))
    with pytest.raises(CheckpointError, match=r"visited or sets are damaged.*Remove the file and start over"):
        evolve_population(
            random_landscape(6, 20, 0),
            replace(SETTINGS, generations=3),
            seed=5,
            checkpoints=checkpoints_in(checkpoint_file.parent),
        )


@pytest.mark.parametrize("state", [{}, {"bit_generator": "PCG64"}, {"bit_generator": "MT19937", "state": {}}])
def test_damaged_random_state(checkpoint_file: Path, state: dict[str, Any]) -> None:
    """The state of the random generator must be valid."""
    checkpoint_file.write_text(json.dumps(json.loads(checkpoint_file.read_text()) | {"random_state": state}))
    with pytest.raises(CheckpointError, match="random_state is unusable"):
        evolve_population(
            random_landscape(6, 20, 0),
            replace(SETTINGS, generations=3),
            seed=5,
            checkpoints=checkpoints_in(checkpoint_file.parent),
        )


def test_unreadable_and_unwritable(checkpoint_file: Path, tmp_path: Path) -> None:
    """A folder in the file's place: one clear error, and no temporary file left behind."""
    checkpoint = read_checkpoint(checkpoint_file)
    folder = tmp_path / "taken"
    folder.mkdir()
    (folder / "x").touch()
    with pytest.raises(CheckpointError, match=r"taken: cannot be read"):
        read_checkpoint(folder)
    with pytest.raises(CheckpointError, match=r"taken: the checkpoint cannot be written"):
        write_checkpoint(folder, checkpoint)
    with pytest.raises(CheckpointError, match="cannot be written"):
        write_checkpoint(tmp_path / "nowhere" / "run.json", checkpoint)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.json", "taken"]


def test_round_trip(checkpoint_file: Path) -> None:
    """What is written is read again, the 128-bit state of the random generator included."""
    checkpoint = read_checkpoint(checkpoint_file)
    write_checkpoint(checkpoint_file, checkpoint)
    assert read_checkpoint(checkpoint_file) == checkpoint
    assert checkpoint.random_state["state"]["state"] > 2**64  # type: ignore[index,call-overload,operator]


def test_every_is_checked(tmp_path: Path) -> None:
    """Zero generations between two checkpoints make no sense, nor does text; the file may be given as text."""
    for every in (0, "5", 2.5, True):
        with pytest.raises(TrainError, match="every is"):
            checkpoints_in(tmp_path, every=every)
    assert Checkpoints("run.json").path == Path("run.json")  # type: ignore[arg-type]


def test_other_versions_of_the_libraries_are_reported_on_resume(tmp_path: Path) -> None:
    """A run that is resumed with another numba warns with both versions, and continues; with the same ones, it does not warn."""
    path = tmp_path / "checkpoint.json"
    landscape = random_landscape(6, 80, seed=1)
    with pytest.raises(SimulatedCrash):
        evolve_population(CrashingEvaluator(landscape, 9), SETTINGS, seed=3, checkpoints=Checkpoints(path, every=1))
    assert read_checkpoint(path).versions["numba"] == metadata.version("numba")
    assert {"emsco", "numpy", "moocore", "scikit-learn"} <= set(read_checkpoint(path).versions)
    whole = comparable(evolve_population(landscape, SETTINGS, seed=3))
    document = json.loads(path.read_text())
    expected = rf"checkpoint\.json: this run was started .*\(numba 0\.1, now {metadata.version('numba')}\)"
    for changes, wanted in (({}, None), ({"python": "3.0"}, None), ({"numba": "0.1"}, expected)):
        versions = document["versions"] | changes
        path.write_text(json.dumps(document | {"versions": versions}))
        with nullcontext() if wanted is None else pytest.warns(VersionWarning, match=wanted):
            found = evolve_population(landscape, SETTINGS, seed=3, checkpoints=Checkpoints(path, resume=True))
        assert comparable(found) == whole
