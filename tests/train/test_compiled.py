"""Compiled code: kept on disk under a key of all its sources, compiled once per function, in two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from emsco_train import EmscoClassifier
from emsco_train.models.logistic import set_kernels as sets
from emsco_train.search import compilation
from emsco_train.search.compilation import SIGNATURES
from emsco_train.search.exact import enumeration as kernel
from emsco_train.support.compiled import is_cached, source_key

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

# What a process does that is the first to search, and what the next one does.
_FIRST = """
from emsco_train.search.compilation import SIGNATURES, compile_search
from emsco_train.models.logistic.set_kernels import fit_sets
compile_search()
fit_sets.compile(SIGNATURES[fit_sets])
print(sum(fit_sets.stats.cache_hits.values()))
"""


def test_a_change_of_any_file_of_a_package_changes_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba looks at one file alone; the key is of all files, so that no stale function is ever loaded."""
    package = tmp_path / "made_up"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("ONE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = source_key("made_up")
    assert source_key("made_up") == before
    (package / "part.py").write_text("ONE = 2\n")
    assert source_key("made_up") != before


def test_functions_are_kept_under_the_key_of_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another key means other files on disk, which is how `is_cached` knows them."""
    for function, package in ((sets.fit_sets, "emsco_train.models.logistic"), (kernel.walk_designs, "emsco_train.search.exact")):
        key = source_key(package)
        assert key[:16] in function.py_func.__qualname__
        monkeypatch.setattr(function.py_func, "__qualname__", f"{function.py_func.__name__}-{'0' * 16}")
        assert not is_cached(function)


@pytest.mark.parametrize("search", ["evolve", "exhaustive"])
def test_every_kept_function_is_compiled_for_one_signature(search: str) -> None:
    """A search with numbers, categories, gaps and three labels calls each function with the declared types and no others."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(150, 3))
    table = np.column_stack([numbers, rng.choice(["a", "b", "c"], 150)]).astype(object)
    table[:, :3] = numbers
    y = np.where(numbers[:, 0] + numbers[:, 1] > 0.5, "high", np.where(numbers[:, 0] > -0.5, "middle", "low"))
    for labels in (y, y == "high"):
        EmscoClassifier(search=search, generations=3, population=12, max_stages=2, random_state=0, polish=True).fit(table, labels)
    for function, signature in SIGNATURES.items():
        assert function.signatures in ([], [signature]), function.py_func.__name__


def test_where_no_process_can_be_started_all_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process is optional: without it, the first one compiles its part too."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    compiled: list[object] = []
    monkeypatch.setattr(compilation, "is_cached", lambda *_: False)
    monkeypatch.setattr(compilation, "_compile", lambda *functions: compiled.extend(functions))
    monkeypatch.setattr(compilation.subprocess, "Popen", refuse)
    compilation.compile_search()
    assert sets.fit_sets in compiled


@pytest.mark.proof
def test_the_first_process_announces_what_it_compiles_and_the_next_one_loads_it(tmp_path: Path) -> None:
    """One line says what is happening and that it happens once; the next process loads the result and says nothing."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for loaded in (0, 1):
        done = subprocess.run([sys.executable, "-c", _FIRST], capture_output=True, text=True, env=environment, check=True)
        assert int(done.stdout) == loaded
        assert ("only once after an install" in done.stderr) is not bool(loaded)
