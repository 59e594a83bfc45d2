"""The public names of a package, each loaded when it is first used, so that importing the package is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

__all__ = ["lazy_names"]


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from its public names by the module that defines them.

    Examples
    --------
    >>> load, _, names = lazy_names("os", {"os.path": "join split"})
    >>> names, load("join") is __import__("os").path.join
    (['join', 'split'], True)
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}
    public = sorted(homes)

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has: {', '.join(public)}")
        return getattr(importlib.import_module(homes[name]), name)

    return load, lambda: sorted({*vars(sys.modules[package]), *public}), public
