"""Build the wheel, install it without extras into a clean environment, and test what production would get.

The tests run from a copy, in a folder without the packages' sources, so that nothing but the wheel can be imported. A part of
them proves the install: every module can be imported, bundles of every age are read, reproduce their golden decisions, the
commands work, and what needs an extra says so. The others show nothing more about the wheel than about the sources, with which
`make unit` runs them; `make proofs` runs them all here (--all).
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
CONFIG = """[pytest]
addopts = --import-mode=importlib --strict-markers -q
pythonpath = .
filterwarnings = error
markers =
    proof: the long form of a test
    uncounted: not for coverage
"""
TESTS = ("test_bundle_reading", "test_golden", "test_prometheus", "test_public_api", "test_testing", "test_tracing")
# Modules that surely need an extra, and which.
EXTRA_OF_MODULE = {
    "emsco_runtime.drift_metrics": "emsco[metrics]",
    "emsco_runtime.metrics": "emsco[metrics]",
    "emsco_runtime.tracing": "emsco[otel]",
}
IMPORT_ALL = """
import importlib, pkgutil
import emsco_runtime
for found in pkgutil.walk_packages(emsco_runtime.__path__, "emsco_runtime."):
    try:
        importlib.import_module(found.name)
        print(found.name, "imported")
    except ImportError as error:
        print(found.name, error)
"""
# What the runtime brings, what that brings in turn, and the tools that run the tests. Nothing else may be there.
ALLOWED = {
    *("emsco", "numpy", "onnxruntime", "pydantic"),
    *("annotated-types", "pydantic-core", "typing-extensions", "typing-inspection"),
    *("coloredlogs", "flatbuffers", "humanfriendly", "mpmath", "packaging", "protobuf", "sympy"),
    *("hypothesis", "iniconfig", "pip", "pluggy", "pygments", "pytest", "setuptools", "sortedcontainers", "attrs"),
}


def main() -> int:
    """Run all steps; the first that fails ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="the interpreter of the clean environment")
    parser.add_argument("--constraint", help="a file of the versions to install")
    parser.add_argument(
        "--all", action="store_true", help="run all of the runtime's tests, not just those that prove the install"
    )
    options = parser.parse_args()
    python = str(Path(options.python).absolute())
    install(python, build_wheel(), ["--constraint", options.constraint] if options.constraint else [])
    check_packages(python)
    check_imports(python)
    check_missing_extra(python)
    check_commands(python)
    return run_tests(python, () if options.all else TESTS)


def build_wheel() -> Path:
    """Build the wheel from scratch."""
    folder = BUILD / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], check=True, cwd=ROOT, capture_output=True
    )
    return next(folder.glob("*.whl"))


def install(python: str, wheel: Path, constraint: Sequence[str]) -> None:
    """Install the wheel with its own requirements, and the test tools; does nothing if this wheel is installed already."""
    # The build is reproducible: the same sources make the same bytes.
    note = Path(python).parent.parent / ".wheel-sha256"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if note.exists() and note.read_text() == digest:
        return
    pip = [*_pip(python), "install", "--quiet"]
    subprocess.run([*pip, *constraint, wheel, "pytest", "hypothesis"], check=True)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    note.write_text(digest)


def _pip(python: str) -> list[str]:
    """Return the command of this environment's pip for the clean one, which has none."""
    return [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]


def check_packages(python: str) -> None:
    """Refuse any package that the base install should not bring."""
    listing = subprocess.run([*_pip(python), "list", "--format=freeze"], check=True, capture_output=True, text=True)
    found = {line.split("==")[0].lower().replace("_", "-") for line in listing.stdout.split()}
    unknown = found - ALLOWED
    if unknown:
        raise SystemExit(f"the base install brings packages that are not allowed: {', '.join(sorted(unknown))}")


def check_imports(python: str) -> None:
    """Import every module of the runtime; those that need an extra say which, all others succeed."""
    completed = subprocess.run([python, "-c", IMPORT_ALL], capture_output=True, text=True, check=False, cwd=BUILD)
    results = dict(line.split(" ", 1) for line in completed.stdout.splitlines())
    sources = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "emsco_runtime").rglob("*.py")}
    modules = {name.removesuffix(".__init__") for name in sources} - {"emsco_runtime"}
    errors = [f"{name}: {text}" for name, text in results.items() if text != "imported" and "pip install 'emsco[" not in text]
    errors += [f"{name} does not say {extra}" for name, extra in EXTRA_OF_MODULE.items() if extra not in results.get(name, "")]
    errors += [f"{name} is not in the wheel" for name in sorted(modules - set(results))]
    if completed.returncode or errors:
        raise SystemExit("; ".join(errors) or completed.stderr)


def check_missing_extra(python: str) -> None:
    """Without the extra, training says in one line what to install: as an import, and as a command with status 2."""
    line = "pip install 'emsco[train]'"
    imported = subprocess.run([python, "-c", "import emsco_train"], capture_output=True, text=True, check=False, cwd=BUILD)
    if imported.returncode == 0 or line not in imported.stderr.splitlines()[-1]:
        raise SystemExit(f"import emsco_train without the extra says:\n{imported.stderr}")
    command = subprocess.run([Path(python).parent / "emsco-demo"], capture_output=True, text=True, check=False, cwd=BUILD)
    if command.returncode != 2 or len(command.stderr.splitlines()) != 1 or line not in command.stderr:
        raise SystemExit(f"emsco-demo without the extra says (status {command.returncode}):\n{command.stderr}")


def check_commands(python: str) -> None:
    """Look at a bundle with the installed command."""
    bundle = ROOT / "tests" / "runtime" / "golden" / "v1"
    shown = subprocess.run(
        [Path(python).parent / "emsco-inspect", bundle], capture_output=True, text=True, check=False, cwd=BUILD
    )
    if shown.returncode or "stage" not in shown.stdout:
        raise SystemExit(f"emsco-inspect says (status {shown.returncode}):\n{shown.stdout}{shown.stderr}")


def run_tests(python: str, names: Sequence[str]) -> int:
    """Run some of the runtime's tests on the installed wheel; all of them where none is named."""
    folder = BUILD / "wheel-check"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tests" / "runtime", folder / "tests" / "runtime", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "processes.py"):
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    (folder / "pytest.ini").write_text(CONFIG)
    chosen = [f"tests/runtime/{name}.py" for name in names] or ["tests/runtime"]
    return subprocess.run(
        [python, "-m", "pytest", "--disable-plugin-autoload", "-p", "hypothesispytest", *chosen], check=False, cwd=folder
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
