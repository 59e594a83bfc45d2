"""Objects of the user that a command gets by name: MODULE:NAME, looked up as `python -m` would, or a file of items."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from emsco_runtime.acquirers import Acquirers
from emsco_train.errors import DataError, DesignError

__all__ = ["load_acquirers", "load_items", "load_object"]

_MAX_SHOWN = 20
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


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
        detail = " ".join(f"{type(error).__name__}: {error}".split())
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
    made = found if isinstance(found, Acquirers) or not callable(found) else found()
    if not isinstance(made, Acquirers):
        raise DesignError(f"{target}: expected an Acquirers object, or a function that returns one, got {type(made).__name__}")
    return made


def load_items(source: str) -> list[Any]:
    """Return items: from a file with one JSON value per line, or an iterable at MODULE:NAME or returned by a function there."""
    if source.lower().endswith(_JSON_SUFFIXES) or Path(source).is_file():
        return _read_json_lines(Path(source))
    found = load_object(source)
    items = found() if callable(found) else found
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise DataError(f"{source}: expected a list of items, or a function that returns one, got {type(items).__name__}")
    return list(items)


def _read_json_lines(path: Path) -> list[Any]:
    items = []
    # Bytes: a line that is not UTF-8 is then reported like any other that cannot be read.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            items.append(json.loads(line))
        except ValueError as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}. Expected one value per line") from None
    return items
