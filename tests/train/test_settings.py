"""Settings of the search: defaults, checks, and the hash by which a checkpoint knows them."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from emsco_train.errors import DesignError
from emsco_train.search.settings import Constraints, Settings, round_half_up


def test_defaults_are_the_papers() -> None:
    """Every default of the paper or, where we differ, ours; those that depend on the number of features once it is known."""
    settings = Settings().resolved(15)
    assert (settings.population, settings.generations, settings.crossover, settings.elite) == (300, 150, 0.8, 0.2)
    assert (settings.beta, settings.growth, settings.epsilon, settings.patience) == (2.0, 100, 0.01, None)
    assert Settings(keep_all=True).resolved(15).growth == 0
    assert (settings.mutation, settings.max_stages) == (1 / 15, 8)
    assert settings.polish is False
    assert (settings.polish_evaluations, Settings().resolved(17).polish_evaluations) == (1_000_000, 50_000)
    assert (settings.share_ties, settings.revisit) == (False, False)


@pytest.mark.parametrize(("n", "stages"), [(1, 1), (2, 2), (3, 2), (5, 3), (19, 10), (20, 10), (57, 10)])
def test_default_stages(n: int, stages: int) -> None:
    """Half the features, rounded half up, at most ten; two of two, since with one stage there is nothing to search."""
    assert Settings().resolved(n).max_stages == stages


def test_given_values_stay() -> None:
    """Resolving fills in only what was left open."""
    settings = Settings(max_stages=4, mutation=0.075).resolved(12)
    assert (settings.max_stages, settings.mutation) == (4, 0.075)
    assert settings.resolved(12) == settings


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max_stages", 0, "[1, 60]"),
        ("max_stages", 61, "[1, 60]"),
        ("max_stages", 2.0, "[1, 60]"),
        ("population", 1, "2 or more"),
        ("population", None, "2 or more"),
        ("generations", 0, "1 or more"),
        ("patience", 0, "1 or more"),
        ("mutation", 0.0, "(0, 1]"),
        ("mutation", 1.1, "(0, 1]"),
        ("crossover", -0.1, "[0, 1]"),
        ("elite", math.nan, "[0, 1]"),
        ("beta", 1.0, "(1, infinity)"),
        ("beta", math.inf, "(1, infinity)"),
        ("growth", -1, "0 or more"),
        ("growth", True, "0 or more"),
        ("epsilon", 0.0, "(0, infinity)"),
        ("distinct", "both", "'objectives' or 'chromosomes'"),
        ("share_ties", 1, "True or False"),
        ("revisit", None, "True or False"),
        ("keep_all", "yes", "True or False"),
        ("polish", None, "True or False"),
        ("polish_evaluations", 0, "1 or more"),
        ("polish_seconds", 0, "(0, infinity)"),
        ("pinned", [0], "a tuple"),
        ("pinned", (-1,), "0 or more"),
        ("pinned", (2, 2), "without repeats"),
        ("constraints", {"max_cost": 1}, "a Constraints record"),
    ],
)
def test_faults_name_argument_value_and_interval(name: str, value: Any, expected: str) -> None:
    """A wrong setting is refused with its name, what it was, and what it may be."""
    with pytest.raises(DesignError) as caught:
        Settings(**{name: value})
    assert f"{name} is {value!r}: " in str(caught.value)
    assert expected in str(caught.value)


def test_faults_are_listed_together() -> None:
    """One error for all of them, also across settings that do not go together."""
    with pytest.raises(DesignError, match=r"population is 0.*beta is 0.*share_ties is True"):
        Settings(population=0, beta=0, share_ties=True, distinct="chromosomes")


def test_features_must_fit() -> None:
    """More stages than features, or a pin beyond the last one, is found when the number of features is known."""
    with pytest.raises(DesignError, match=r"max_stages is 5.*\[1, 4\].*4 features"):
        Settings(max_stages=5).resolved(4)
    with pytest.raises(DesignError, match=r"pinned holds \[4\].*\[0, 3\]"):
        Settings(pinned=(1, 4)).resolved(4)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_cost", 0), ("max_cost", math.inf), ("min_coverage", 1.5), ("min_accuracy", -0.1), ("min_accuracy", "1")],
)
def test_constraints_are_checked(name: str, value: Any) -> None:
    """A bound that no design could satisfy, or that is not a number, is refused."""
    with pytest.raises(DesignError, match=f"constraints: {name} is {value!r}"):
        Constraints(**{name: value})


def test_a_floor_of_zero_is_no_floor() -> None:
    """Every design has it: the same constraints, and so the same search, as without."""
    assert Constraints(min_coverage=0, min_accuracy=0.0) == Constraints()
    assert not Constraints(min_coverage=0).any()
    assert Settings(constraints=Constraints(min_coverage=0)).digest() == Settings().digest()


def test_constraints_any() -> None:
    """Whether there is anything to satisfy."""
    assert not Constraints().any()
    assert Constraints(min_coverage=1).any()


def test_digest_knows_every_setting() -> None:
    """A change of any one setting changes the hash; another way to write the same number does not."""
    other: dict[str, Any] = {
        "distinct": "chromosomes",
        "units": "groups",
        "objective": "balanced",
        "constraints": Constraints(max_cost=3),
        "pinned": (1,),
        "max_stages": 3,
        "patience": 9,
        "growth": 9,
        "mutation": 0.3,
        "polish_evaluations": 9,
        "polish_seconds": 2,
    }
    digests = {Settings().digest()}
    for field in fields(Settings):
        now = getattr(Settings(), field.name)
        changed = other.get(field.name, (not now) if isinstance(now, bool) else None)
        changed = now * 0.5 + 1.25 if changed is None and isinstance(now, float) and now > 1 else changed
        changed = now / 2 if changed is None and isinstance(now, float) else changed
        digests.add(Settings(**{field.name: now + 1 if changed is None else changed}).digest())
    assert len(digests) == len(fields(Settings)) + 1
    assert (
        Settings(population=np.int64(40), beta=3, pinned=(2, 1)).digest()
        == Settings(population=40, beta=np.float64(3.0), pinned=(1, 2)).digest()
    )


def test_digest_is_the_same_in_every_process() -> None:
    """Checkpoints on disk rely on it."""
    script = "from emsco_train.search.settings import Settings; print(Settings(beta=2.5, pinned=(1,)).digest())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONHASHSEED": "7"}, check=True)
    assert done.stdout.strip() == Settings(beta=2.5, pinned=(1,)).digest()


def test_round_half_up() -> None:
    """Python's own rounding goes to even."""
    assert [round_half_up(value) for value in (0.5, 1.5, 2.5, 2.49, 0.0)] == [1, 2, 3, 2, 0]
