"""Compiled code that is kept on disk is found again only while every file that it is made of is unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from emsco_train._sources import source_key
from emsco_train.exact import kernel
from emsco_train.logistic import sets


@pytest.mark.parametrize(
    ("room", "entry", "parts"),
    [
        (sets, sets.fit_sets, set(sets._PARTS)),
        (kernel, kernel._walk_tuples, set(kernel._PARTS)),
    ],
    ids=["logistic", "exact"],
)
def test_every_part_of_a_cached_function_is_in_its_key(room: ModuleType, entry: object, parts: set[str]) -> None:
    """The modules that an entry point imports from its own room, all the way down, are those of its key."""
    folder = Path(str(room.__file__)).parent
    needed, todo = set(), [Path(str(room.__file__)).stem]
    while todo:
        module = todo.pop()
        if module not in needed:
            needed.add(module)
            text = (folder / f"{module}.py").read_text()
            todo += re.findall(rf"from emsco_train\.{folder.name}\.(\w+) import", text)
    assert needed == parts
    key = source_key(f"emsco_train.{folder.name}", *room._PARTS)
    assert key in {cell.cell_contents for cell in entry.py_func.__closure__}  # type: ignore[attr-defined]


def test_a_new_cached_function_needs_a_look_here() -> None:
    """Cached are the entry points above, and functions of plain arrays that call nothing of another file."""
    root = Path(str(sets.__file__)).parent.parent
    cached = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if "cache=True" in path.read_text()}
    assert cached == {"exact/kernel.py", "exact/table.py", "logistic/sets.py", "scoring/kernel.py"}
    for name in ("exact/table.py", "scoring/kernel.py"):
        assert "NamedTuple" not in (root / name).read_text()
