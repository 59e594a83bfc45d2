"""Objects of the user that a command gets by name: MODULE:NAME, looked up as `python -m` would, or a file of items."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from emsco_runtime.acquirers import Acquirers
from emsco_runtime.support.formatting import describe_in_one_line
from emsco_train.errors import DataError, DesignError

__all__ = ["load_acquirers", "load_items", "load_object"]

_MAX_SHOWN = 20
_Result = TypeVar("_Result")
_JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")


def load_object(target: str) -> Any:
    """Import MODULE and return its NAME; dots in the name lead into the object. The working folder is searched first.

    Examples
    --------
    >>> load_object("math:tau")
    6.283185307179586
    """
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise DesignError(f"{target!r}: expected MODULE:NAME, such as mail.features:acquirers")
    folder = str(Path.cwd())
    if folder not in sys.path:
        # An installed command does not search the working folder by itself, as `python -m` does.
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except Exception as error:
        detail = describe_in_one_line(error)
        raise DesignError(f"{target}: module {module} cannot be imported: {detail}. Correct its name, or fix it") from error
    for part in name.split("."):
        if not hasattr(found, part):
            names = [known for known in getattr(found, "__dict__", ()) if not known.startswith("_")][:_MAX_SHOWN]
            raise DesignError(f"{target}: no attribute {part!r}. Available: {', '.join(names) or 'none'}")
        found = getattr(found, part)
    return found


def load_acquirers(target: str) -> Acquirers:
    """Return the `Acquirers` object at MODULE:NAME, or the one that a function there returns."""
    found = load_object(target)
    made = found if isinstance(found, Acquirers) or not callable(found) else _call(target, found)
    if not isinstance(made, Acquirers):
        raise DesignError(f"{target}: expected an Acquirers object, or a function that returns one, got {type(made).__name__}")
    return made


def load_items(source: str) -> list[Any]:
    """Return items: those of a file, or of an iterable at MODULE:NAME or returned by a function there.

    A .json file holds a list; any other has one JSON value per line.
    """
    if source.lower().endswith(".json"):
        return _read_json_list(Path(source))
    if source.lower().endswith(_JSON_LINES_SUFFIXES) or Path(source).is_file():
        return _read_json_lines(Path(source))
    found = load_object(source)
    items = _call(source, found) if callable(found) else found
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise DataError(f"{source}: expected a list of items, or a function that returns one, got {type(items).__name__}")
    # A generator runs the user's code only now.
    return _call(source, lambda: list(items))


def _call(target: str, function: Callable[[], _Result]) -> _Result:
    """Call a function of the user; what it raises becomes one line that names it."""
    try:
        return function()
    except Exception as error:
        raise DesignError(f"{target} failed: {describe_in_one_line(error)}. Correct it") from error


def _read_json_list(path: Path) -> list[Any]:
    try:
        items = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}. Expected a list; a file with one value per line is a .jsonl file") from None
    if not isinstance(items, list):
        raise DataError(f"{path}: expected a list of items, got {type(items).__name__}. One value per line is a .jsonl file")
    return items


def _read_json_lines(path: Path) -> list[Any]:
    items = []
    # Bytes: a line that is not UTF-8 is then reported like any other that cannot be read.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            items.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}. Expected one value per line") from None
    return items
