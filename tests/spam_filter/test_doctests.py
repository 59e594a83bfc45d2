"""The examples in the docstrings of the example work."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
import spam_filter

MODULES = sorted(path.stem for path in Path(spam_filter.__path__[0]).glob("*.py") if not path.stem.startswith("__"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_work(name: str) -> None:
    """Every example in its docstrings prints what stands there."""
    assert doctest.testmod(importlib.import_module(f"spam_filter.{name}")).failed == 0
