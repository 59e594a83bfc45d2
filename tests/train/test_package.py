"""The package: its names, lazy loading, and what happens without the extra."""

from __future__ import annotations

import gc
import importlib.util
import runpy
import subprocess
import sys

import pytest

import emsco_train
from emsco_runtime.errors import EmscoError
from emsco_train import errors
from emsco_train.cli.command import infrequent_collections
from tests.runtime.test_public_api import public_names, unresolved


def test_public_names_are_sorted_and_load() -> None:
    """Every name in `__all__` exists, `__all__` is sorted, and `dir` shows it."""
    assert emsco_train.__all__ == sorted(emsco_train.__all__)
    assert all(getattr(emsco_train, name).__name__ == name for name in emsco_train.__all__)
    assert set(emsco_train.__all__) <= set(dir(emsco_train))


def test_annotations_of_public_names_can_be_resolved() -> None:
    """`typing.get_type_hints` works on all that is public in training too."""
    names = dict(public_names(emsco_train, without="emsco_train.cli"))
    assert "emsco_train.Front.to_frame" in names
    assert unresolved(names.items()) == []


def test_unknown_name_lists_the_known_ones() -> None:
    """A misspelt name raises an error that lists the names there are."""
    with pytest.raises(AttributeError, match=r"no attribute 'export_desing'; it has: .*export_design"):
        emsco_train.export_desing  # noqa: B018


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import fails with one line that contains the pip command."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("onnx", "skl2onnx") else real(name))
    with pytest.raises(ImportError, match=r"^emsco_train needs onnx, skl2onnx, .*pip install 'emsco\[train\]'$"):
        runpy.run_path(str(emsco_train.__file__))


@pytest.mark.parametrize("package", ["moocore", "numba", "scipy"])
def test_each_package_that_every_search_needs_is_looked_for(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Without one of them, the line comes when the package is imported, not a traceback from within the search."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name))
    with pytest.raises(ImportError, match=rf"^emsco_train needs {package}, not installed here"):
        runpy.run_path(str(emsco_train.__file__))


def test_a_command_without_the_extra_ends_with_that_line_alone() -> None:
    """A training command prints one line and ends with status 2; no traceback."""
    pretend = "import importlib.util, sys; importlib.util.find_spec = lambda name: None; sys.argv[0] = 'bin/emsco-demo'"
    code = f"{pretend}; import emsco_train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("emsco-demo: emsco_train needs moocore, numba, onnx, scipy, skl2onnx, sklearn, not installed here. ")
    assert line.endswith("Install with: pip install 'emsco[train]'")


def test_import_is_light() -> None:
    """Importing the package, its costs and its errors loads neither scikit-learn nor onnx nor pandas."""
    code = (
        "import sys, emsco_train; emsco_train.CostModel, emsco_train.DataError;"
        "print(sorted({'sklearn', 'onnx', 'skl2onnx', 'onnxruntime', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_training_loads_only_what_a_search_needs() -> None:
    """All that `emsco-train` imports has neither scikit-learn, onnx, onnxruntime, pandas nor the asynchronous runtime in it."""
    code = (
        "import sys, emsco_train.cli.training_output, emsco_train.runs.training, emsco_train.search.progress;"
        "heavy = {'sklearn', 'onnx', 'skl2onnx', 'onnxruntime', 'pandas', 'scipy.special', 'emsco_runtime.cascade'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("threshold", "status", "said"), [("3", 2, "threshold 3.0"), ("0.9", 1, "no-such.csv does not exist")])
def test_faults_are_reported_before_compiled_code_is_loaded(threshold: str, status: int, said: str) -> None:
    """Wrong use and a missing table are reported without loading numba, which takes as long as the whole answer may."""
    code = (
        "import atexit, sys; from emsco_train.cli.train import main;"
        "atexit.register(lambda: print('numba' in sys.modules)); sys.exit(main(sys.argv[1:]))"
    )
    line = ["--data", "no-such.csv", "--threshold", threshold, "--out", "r"]
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (status, "False")
    assert said in done.stderr


def test_every_error_has_the_common_root() -> None:
    """One `except EmscoError` catches everything that training raises on purpose."""
    raised = [getattr(errors, name) for name in errors.__all__ if name.endswith("Error")]
    assert all(issubclass(kind, EmscoError) and issubclass(kind, errors.TrainError) for kind in raised)
    assert issubclass(errors.DataError, ValueError)
    assert issubclass(errors.DesignError, ValueError)
    assert issubclass(errors.ThresholdWarning, UserWarning)


def test_a_command_collects_rarely_and_keeps_what_it_has() -> None:
    """In a process of its own a command raises the collector's threshold and leaves everything to the end; elsewhere nothing."""
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        with infrequent_collections(enabled=False):
            assert gc.get_threshold() == before
        assert gc.get_freeze_count() == frozen
        with infrequent_collections(enabled=True):
            assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
