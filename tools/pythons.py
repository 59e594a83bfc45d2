"""Find the supported Pythons of this machine; print the version and the path of each.

Looked at are `python3.11`, `python3.12` ... on the path and the versions that pyenv has installed. The versions are those of the
classifiers in pyproject.toml, which say what was really tested.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def supported_versions() -> list[str]:
    """Return the versions that pyproject.toml names, such as "3.11", oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"]]
    return sorted((match[1] for match in found if match), key=lambda version: int(version.split(".")[1]))


def find_pythons() -> dict[str, str]:
    """Return the path of an interpreter for each supported version that there is one of."""
    found: dict[str, str] = {}
    for version in supported_versions():
        for candidate in _candidates(version):
            if _version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def _candidates(version: str) -> Iterator[str]:
    yield f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    # 3.12.10 is newer than 3.12.9.
    versions = sorted(root.glob(f"versions/{version}.*"), key=lambda path: int(re.sub(r"\D", "", path.name.split(".")[2]) or 0))
    yield from (str(path / "bin" / "python") for path in reversed(versions))


def _version_of(python: str) -> str | None:
    """Return the version of an interpreter; None if it does not run, as pyenv's stand-ins for other versions do not."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        completed = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return completed.stdout.strip() if completed.returncode == 0 else None


if __name__ == "__main__":
    for number, path in find_pythons().items():
        print(number, path)
