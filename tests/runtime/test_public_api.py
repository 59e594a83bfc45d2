"""The public names, and what importing them loads."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import typing
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import pytest

import emsco_runtime
from emsco_runtime import errors, testing
from emsco_runtime.observing import observers

TRAINING_PACKAGES = ("emsco_train", "matplotlib", "onnx", "pandas", "scipy", "skl2onnx", "sklearn")


@pytest.mark.parametrize("module", [emsco_runtime, errors, observers, testing], ids=lambda module: module.__name__)
def test_all_is_sorted_and_exists(module: ModuleType) -> None:
    """`__all__` is sorted, without repeats, and every name in it can be imported."""
    assert module.__all__ == sorted(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


def test_names_are_loaded_when_they_are_used() -> None:
    """Every name in `__all__` has a home and shows in `dir`; another one is an error that lists them; the import is light."""
    assert set(emsco_runtime.__all__) <= set(dir(emsco_runtime))
    with pytest.raises(AttributeError, match=r"no attribute 'Cascades'; it has: AcquirerCache, .*Cascade"):
        _ = emsco_runtime.Cascades
    assert _modules_after("import emsco_runtime").isdisjoint({"numpy", "onnxruntime", "pydantic"})


def test_observers_have_public_names() -> None:
    """What an observer is, what it receives for calls, and those that need no extra are public."""
    assert emsco_runtime.Observer is observers.Observer
    assert emsco_runtime.AcquirerCall is observers.AcquirerCall
    for name in ("AuditWriter", "DecisionLogger", "DriftMonitor"):
        assert callable(getattr(emsco_runtime, name).__call__)
        assert f"`emsco_runtime.{name}`" in (observers.__doc__ or "")


def test_methods_keep_their_public_names() -> None:
    """Methods of public classes that have another name inside the package answer to both."""
    assert emsco_runtime.AcquisitionError.at is emsco_runtime.AcquisitionError.with_index
    assert emsco_runtime.AcquirerCache.end is emsco_runtime.AcquirerCache.finish
    assert emsco_runtime.AcquirerCache.note is emsco_runtime.AcquirerCache.count_follower
    assert emsco_runtime.AcquirerPool.free_place is emsco_runtime.AcquirerPool.release_slot
    assert emsco_runtime.AcquirerPool.take_place is emsco_runtime.AcquirerPool.reacquire_slot
    assert emsco_runtime.CircuitBreaker.left is emsco_runtime.CircuitBreaker.cancelled
    assert emsco_runtime.Manifest.sealed is emsco_runtime.Manifest.with_id


def public_names(package: ModuleType, *, without: str | tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the public functions, classes and methods of a package and of its modules, but for those that begin so."""
    names = [package.__name__, *(one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))]
    modules = [importlib.import_module(name) for name in names if "._" not in name and not name.startswith(without)]
    for module in modules:
        for name in getattr(module, "__all__", ()):
            found = getattr(module, name)
            if inspect.isclass(found):
                yield f"{module.__name__}.{name}", found
                for inner, member in inspect.getmembers_static(found):
                    function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                    ours = inspect.isfunction(function) and function.__module__.startswith(package.__name__)
                    if ours and (inner.startswith("__") or not inner.startswith("_")):
                        yield f"{module.__name__}.{name}.{inner}", function
            elif inspect.isfunction(found):
                yield f"{module.__name__}.{name}", found


def unresolved(names: Iterable[tuple[str, Any]]) -> list[str]:
    """Return the names whose annotations cannot be resolved, each with the error."""
    found = []
    for name, one in names:
        try:
            typing.get_type_hints(one)
        except (NameError, TypeError, AttributeError) as error:
            found.append(f"{name}: {error}")
    return found


def test_annotations_of_public_names_can_be_resolved() -> None:
    """`typing.get_type_hints` works on all that is public: tools for documentation, injection and validation rely on it.

    The commands are left out, which load what they need when they need it, and the modules that import some types only for type
    checkers.
    """
    pytest.importorskip("prometheus_client", reason="the extra `metrics` is not installed")
    pytest.importorskip("opentelemetry", reason="the extra `otel` is not installed")
    lazy = (f"emsco_runtime.{name}" for name in ("cli", "bundle.manifest_checks", "bundle.encoding", "bundle.rule"))
    names = dict(public_names(emsco_runtime, without=tuple(lazy)))
    assert {"emsco_runtime.Cascade.decide", "emsco_runtime.metrics.Metrics.on_bind"} <= set(names)
    assert unresolved(names.items()) == []

    def wrong(one: Missing) -> None:  # type: ignore[name-defined] # noqa: F821 - it is to be found
        """Have an annotation that is not there."""

    assert unresolved([("wrong", wrong)]) == ["wrong: name 'Missing' is not defined"]


def test_every_error_has_the_one_root() -> None:
    """Catching `EmscoError` catches every error of the package."""
    assert all(issubclass(getattr(errors, name), errors.EmscoError) for name in errors.__all__)


def test_importing_the_runtime_does_not_load_onnxruntime() -> None:
    """The import is light: sessions, and onnxruntime with them, come with the first bundle."""
    assert "onnxruntime" not in _modules_after("import emsco_runtime, emsco_runtime.testing")


def test_a_decision_loads_no_training_package() -> None:
    """Loading a bundle and deciding imports nothing that only training needs."""
    code = "from emsco_runtime import Cascade; from emsco_runtime.testing import sample_bundle; "
    loaded = _modules_after(code + "Cascade(sample_bundle()).decide({'size': 3.0})")
    assert "onnxruntime" in loaded
    assert loaded.isdisjoint(TRAINING_PACKAGES)


def _modules_after(code: str) -> set[str]:
    report = f"{code}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
