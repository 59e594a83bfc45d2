"""The public face: names, and what importing it loads."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import emsco_runtime
from emsco_runtime import errors, observers, testing

STRANGERS = ("emsco_train", "matplotlib", "onnx", "pandas", "scipy", "skl2onnx", "sklearn")


@pytest.mark.parametrize("module", [emsco_runtime, errors, observers, testing], ids=lambda module: module.__name__)
def test_all_is_sorted_and_exists(module: ModuleType) -> None:
    """`__all__` is sorted, without repeats, and every name in it can be imported."""
    assert module.__all__ == sorted(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


def test_names_are_loaded_when_they_are_used() -> None:
    """Every name in `__all__` has a home and shows in `dir`; another one is an error that lists them; the import is light."""
    assert sorted(emsco_runtime._HOMES) == emsco_runtime.__all__
    assert set(emsco_runtime.__all__) <= set(dir(emsco_runtime))
    with pytest.raises(AttributeError, match=r"no attribute 'Cascades'; it has: AcquirerCache, .*Cascade"):
        _ = emsco_runtime.Cascades
    assert _modules_after("import emsco_runtime").isdisjoint({"numpy", "onnxruntime", "pydantic"})


def test_observers_have_public_names() -> None:
    """What an observer is, what it is told of calls, and those that need no extra are part of the face."""
    assert emsco_runtime.Observer is observers.Observer
    assert emsco_runtime.AcquirerCall is observers.AcquirerCall
    for name in ("AuditWriter", "DecisionLogger", "DriftMonitor"):
        assert callable(getattr(emsco_runtime, name).__call__)
        assert f"`emsco_runtime.{name}`" in (observers.__doc__ or "")


def test_every_error_has_the_one_root() -> None:
    """Catching `EmscoError` catches every error of the package."""
    assert all(issubclass(getattr(errors, name), errors.EmscoError) for name in errors.__all__)


def test_importing_the_runtime_does_not_load_onnxruntime() -> None:
    """The import is light: sessions, and onnxruntime with them, come with the first bundle."""
    assert "onnxruntime" not in _modules_after("import emsco_runtime, emsco_runtime.testing")


def test_a_decision_loads_no_stranger() -> None:
    """Loading a bundle and deciding imports nothing that only training needs."""
    code = "from emsco_runtime import Cascade; from emsco_runtime.testing import sample_bundle; "
    loaded = _modules_after(code + "Cascade(sample_bundle()).decide({'size': 3.0})")
    assert "onnxruntime" in loaded
    assert loaded.isdisjoint(STRANGERS)


def _modules_after(code: str) -> set[str]:
    report = f"{code}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
