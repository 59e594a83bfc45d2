"""What is said about supported versions is one thing, said in several files: they agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def test_every_supported_python_has_pinned_versions_and_a_place_in_the_matrix() -> None:
    """The classifiers, the files of `make lock` and the matrix of the workflow name the same Pythons."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == VERSIONS
    pinned = {path.stem for path in (ROOT / "requirements").glob("*.txt")}
    assert pinned == {*VERSIONS, "lowest", "scale"}
    assert PROJECT["requires-python"] == f">={VERSIONS[0]}"


@pytest.mark.parametrize("name", [*VERSIONS, "lowest"])
def test_the_pinned_versions_keep_the_bounds(name: str) -> None:
    """Each direct requirement is pinned, at its lower bound or above; in lowest.txt at the bound itself.

    Not what `make results` installs: other searches, of which it takes the newest. Engines have a file of their own.
    """
    pins = _read_pins(name)
    extras = PROJECT["optional-dependencies"]
    # Signing needs a newer pydantic than the lowest one.
    others = ("dask", "dev", "mlflow", "paper", "scale", "scale-test", *(["signing"] if name == "lowest" else []))
    pinned_extras = [wanted for extra, wanted in extras.items() if extra not in others]
    promised = [*PROJECT["dependencies"], *(line for wanted in pinned_extras for line in wanted)]
    for line in [*promised, *extras["dev"]]:
        # xgboost itself is pinned and tested as xgboost-cpu, the same module without its large libraries.
        if line.startswith(("emsco[", "xgboost>")):
            continue
        package, bound = line.split(">=")
        pinned, least = _numbers(pins[package]), _numbers(bound)
        assert pinned >= least, line
        if name == "lowest" and line in promised:
            assert pinned[: len(least)] == least, line
            assert not any(pinned[len(least) :]), line


def test_the_versions_of_engines_are_pinned() -> None:
    """What `make test-scale` installs: each at its lower bound or above."""
    pins, extras = _read_pins("scale"), PROJECT["optional-dependencies"]
    wanted = [
        line for extra in ("dask", "mlflow", "parquet", "scale", "scale-test", "signing", "train") for line in extras[extra]
    ]
    for line in [*PROJECT["dependencies"], *wanted]:
        if not line.startswith("emsco["):
            package, bound = line.split(">=")
            assert _numbers(pins[package.partition("[")[0]]) >= _numbers(bound), line


def test_the_tool_finds_the_python_that_runs_it() -> None:
    """`make test-pythons` runs what it prints: at least one interpreter of a supported version, which exists."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "pythons.py"], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        version, python = line.split(" ", 1)
        said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout
        assert version in VERSIONS
        assert said.startswith(f"Python {version}.")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _read_pins(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    return dict(line.lower().replace("_", "-").split("==") for line in lines if not line.startswith("#"))
