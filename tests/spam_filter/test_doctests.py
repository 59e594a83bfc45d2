"""The examples in the docstrings of the example work."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
import spam_filter

ROOT = Path(spam_filter.__path__[0])
MODULES = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in ROOT.rglob("*.py") if not path.stem.startswith("__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_work(name: str) -> None:
    """Every example in its docstrings prints what it shows."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0
