"""Checkpoints: a run of the genetic algorithm as plain data, so that it can be killed and resumed.

The file is JSON: hashes of the settings and of the problem, the versions of the libraries, the seed, the population, the designs
met so far (64-bit numbers in base64) and the newest of their feature sets, and the state of the random generator. It is written
under another name and moved into place, so that it is never half a file. A change of the meaning of a field raises `VERSION`; an
older version that can still be understood stays readable (1 cannot: its runs did not keep the designs met).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, JsonValue, NonNegativeInt, ValidationError

from emsco_runtime.support.files import replace_file
from emsco_train.data.problem_warnings import warn_version_change
from emsco_train.designs.chromosome import DesignSpace, Population, compress
from emsco_train.errors import TrainError
from emsco_train.search.genetic.visited_designs import VisitedDesigns
from emsco_train.search.genetic.visited_sets import VisitedSets
from emsco_train.support.numbers import is_integer
from emsco_train.support.validation_errors import first_error

__all__ = ["VERSION", "Checkpoint", "CheckpointError", "Checkpoints", "read_checkpoint", "write_checkpoint"]

VERSION: Literal[2] = 2


class CheckpointError(TrainError, ValueError):
    """A checkpoint cannot be read, or belongs to another run; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Where a run keeps its checkpoint, and whether it starts from one.

    Parameters
    ----------
    path
        The file; replaced at every checkpoint.
    problem
        A hash of everything that the evaluator depends on: data, costs, thresholds, stage models. Left empty, `run_search` and
        `run_evolve` put in that of their problem, at the threshold that they search at.
    every
        Generations between two checkpoints.
    resume
        Start from the file if it exists; a run that was killed before its first checkpoint starts over.
    """

    path: Path
    problem: str = ""
    every: int = 5
    resume: bool = False

    def __post_init__(self) -> None:
        """Check the distance between checkpoints, and accept the name of a file as well as a path."""
        if not is_integer(self.every) or self.every < 1:
            raise CheckpointError(f"every is {self.every!r}: expected an integer of at least 1")
        object.__setattr__(self, "path", Path(self.path))

    def load(self, settings: str, seed: int) -> Checkpoint | None:
        """Return the checkpoint to start from, or None.

        Parameters
        ----------
        settings
            Hash of this run's settings.
        seed
            Of this run.

        Raises
        ------
        CheckpointError
            If the file is unreadable, or belongs to other data, other settings or another seed.

        Warns
        -----
        VersionWarning
            If it was written with other versions of the libraries that affect results.
        """
        if not self.resume or not self.path.exists():
            return None
        found = read_checkpoint(self.path)
        for what, theirs, ours in (
            ("data, costs, thresholds or stage models", found.problem, self.problem),
            ("settings", found.settings, settings),
            ("seed", str(found.seed), str(seed)),
        ):
            if theirs != ours:
                detail = f"{self.path}: this checkpoint belongs to a run with other {what} ({theirs[:12]}, now {ours[:12]})"
                raise CheckpointError(f"{detail}. Use the same ones, or start over without resuming")
        warn_version_change(found.versions, f"{self.path}: this run")
        return found


class Checkpoint(BaseModel):
    """The state of a run at the start of a generation; enough to continue as if nothing had happened."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["emsco-checkpoint"] = "emsco-checkpoint"
    version: Literal[2] = VERSION
    settings: str
    problem: str
    seed: NonNegativeInt
    generation: NonNegativeInt
    size: NonNegativeInt
    population: list[list[int]]
    random_state: dict[str, JsonValue]
    best: list[int]
    stale: NonNegativeInt
    evaluations: NonNegativeInt
    visited: str
    elapsed_s: float
    # Not in those of an earlier emsco.
    sets: str = ""
    versions: dict[str, str] = {}

    def checked_designs(self, space: DesignSpace) -> tuple[Population, VisitedDesigns, VisitedSets]:
        """Return the population, and the designs and sets met so far; raise unless these and the random state are valid."""
        population = self._checked_population(space)
        try:
            np.random.default_rng().bit_generator.state = dict(self.random_state)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint's random_state is unusable: {error}. Remove the file and start over"
            ) from error
        try:
            return population, VisitedDesigns.from_text(self.visited), VisitedSets.from_text(space.n, self.sets)
        except ValueError as error:
            raise CheckpointError(
                f"the checkpoint's visited or sets are damaged: {error}. Remove the file and start over"
            ) from error

    def _checked_population(self, space: DesignSpace) -> Population:
        population = np.array(self.population, dtype=object)
        least = -1 if space.allow_exclusion else 0
        if population.ndim == 2 and population.shape == (self.size, space.n):
            inside = (population >= least) & (population < space.max_stages)
            genes = np.where(inside, population, 0).astype(np.int8)
            if inside.all() and np.array_equal(compress(genes), genes):
                return genes
        expected = f"{self.size} chromosomes of {space.n} genes in [{least}, {space.max_stages - 1}] without empty stages"
        raise CheckpointError(f"the checkpoint's population is damaged: expected {expected}. Remove the file and start over")


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint; raise CheckpointError if it cannot be read, is damaged, or is of a newer version."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}. Check the path and its permissions") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged or cut short, not valid JSON: {error}. Remove it and start over") from error
    version = document.get("version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > VERSION:
        detail = f"{path}: checkpoint version {version} is newer than {VERSION}, the newest that this emsco reads"
        raise CheckpointError(f"{detail}. Resume with the emsco that wrote it")
    if version == 1:
        raise CheckpointError(f"{path}: checkpoint version 1 is of an older emsco, which searched in another way. Start over")
    try:
        return Checkpoint.model_validate(document)
    except ValidationError as error:
        fault = first_error(error, "the document")
        raise CheckpointError(
            f"{path}: not a checkpoint of emsco, {fault.path}: {fault.message}. Remove it and start over"
        ) from error


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in one step: a reader, or a crash, sees the old one or the new one."""
    try:
        with replace_file(path, sync=True) as file:
            file.write(json.dumps(checkpoint.model_dump(), separators=(",", ":"), allow_nan=False).encode())
    except OSError as error:
        detail = f"{path}: the checkpoint cannot be written: {error.strerror or error}"
        raise CheckpointError(f"{detail}. Check the path, its permissions and the space left") from error
