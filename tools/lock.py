"""Write requirements/: the versions of all packages that the checks and the tests use, one file per supported Python.

`make lock` renews them: it takes the newest versions that the bounds in pyproject.toml allow. `lowest.txt` is for the oldest
supported Python, with the lowest version of everything that the package itself and its extras ask for; `make test-lowest` tests
them. It has nothing of the extra `signing`, which needs a newer pydantic than the runtime. `scale.txt` is for the oldest
supported Python, too, with the engines of `make test-scale`. Users are not bound by any of these files.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

from pythons import ROOT, find_pythons, supported_versions

FOLDER = ROOT / "requirements"
# What builds the package comes before it: an isolated build would take the newest.
BUILD = ("pip", "hatchling", "editables", "setuptools")
# Extras whose lower bounds are guaranteed to users; `dev` is for development only.
PUBLIC_EXTRAS = ("train", "boosted-cpu", "parquet", "metrics", "otel", "example", "example-dns")


def main() -> None:
    """Resolve for every supported Python."""
    pythons = find_pythons()
    missing = [version for version in supported_versions() if version not in pythons]
    if missing:
        raise SystemExit(f"no Python {', '.join(missing)} was found: install it, so that its versions can be resolved")
    for version, python in pythons.items():
        write(version, resolve(python, (), "dev,signing"))
    oldest = supported_versions()[0]
    write("scale", resolve(pythons[oldest], (), "scale-test"))
    write("lowest", resolve(pythons[oldest], lowest_versions(), "dev"))


def lowest_versions() -> tuple[str, ...]:
    """Return the lower bound of each direct requirement as its version, such as "numpy==1.26"."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    direct = [*project["dependencies"], *(line for extra in PUBLIC_EXTRAS for line in extras[extra])]
    bounds = [re.fullmatch(r"([\w.-]+)>=([\w.]+)", line) for line in direct if not line.startswith("emsco[")]
    if None in bounds:
        raise SystemExit(f"expected every requirement as name>=version, got {direct}")
    return tuple(f"{bound[1]}=={bound[2]}" for bound in bounds if bound)


def resolve(python: str, constraints: tuple[str, ...], extras: str) -> list[str]:
    """Return what pip would install, as "name==version"."""
    with tempfile.TemporaryDirectory() as folder:
        limits, report = Path(folder) / "constraints.txt", Path(folder) / "report.json"
        limits.write_text("\n".join(constraints))
        options = ["--dry-run", "--ignore-installed", "--quiet", "--constraint", limits, "--report", report]
        wanted = [*BUILD, f"{ROOT}[{extras}]"]
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install", *options, *wanted], check=True)
        found = [entry["metadata"] for entry in json.loads(report.read_text())["install"]]
    return [f"{each['name'].lower()}=={each['version']}" for each in found if each["name"] != "emsco"]


def write(name: str, lines: list[str]) -> None:
    """Write one file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.txt").write_text("\n".join(["# Written by `make lock`.", *sorted(lines), ""]))
    print(f"requirements/{name}.txt: {len(lines)} packages")


if __name__ == "__main__":
    main()
