"""`Decider`: both cascades have all of it, with the same arguments; mypy checks tests/typing/deciders.py too."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from emsco_runtime import Cascade, Decider, ReloadingCascade, Shadow, write_bundle
from emsco_runtime.testing import sample_bundle

METHODS = sorted(name for name, member in vars(Decider).items() if getattr(member, "__module__", "") == Decider.__module__)


def test_both_cascades_are_deciders(tmp_path: Path) -> None:
    """`isinstance` is true for both, and false for a shadow, which returns no decisions."""
    bundle = sample_bundle()
    write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models)
    assert isinstance(Cascade(bundle), Decider)
    assert isinstance(ReloadingCascade(tmp_path / "bundle"), Decider)
    assert not isinstance(Shadow(bundle), Decider)


@pytest.mark.parametrize("kind", [Cascade, ReloadingCascade])
@pytest.mark.parametrize("name", METHODS)
def test_the_arguments_are_the_same(kind: type, name: str) -> None:
    """Names, defaults and annotations of every method are those of the protocol: nothing is lost by asking for it."""
    assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Decider, name))
    assert inspect.iscoroutinefunction(getattr(kind, name)) == inspect.iscoroutinefunction(getattr(Decider, name))


def test_every_way_of_deciding_is_in_it() -> None:
    """What `Cascade` can do with items, a `Decider` can: a method that is added to one is added to the other."""
    deciding = {name for name in dir(Cascade) if name.startswith("decide")}
    assert deciding | {"close", "aclose", "__enter__", "__exit__", "__aenter__", "__aexit__"} == set(METHODS)
