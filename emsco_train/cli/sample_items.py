"""Sample items for a command: of a module of the user's, or lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from emsco_train.cli.user_objects import load_object
from emsco_train.errors import DataError

__all__ = ["load_items"]

_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


def load_items(source: str) -> list[Any]:
    """Return the items that a file or a module holds.

    Parameters
    ----------
    source
        A file with one JSON value per line (.jsonl, .ndjson, .json), or MODULE:NAME of an iterable, or of a function without
        arguments that returns one.
    """
    if source.lower().endswith(_JSON_SUFFIXES) or Path(source).is_file():
        return _read_json_lines(Path(source))
    found = load_object(source)
    items = found() if callable(found) else found
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise DataError(f"{source} is {type(items).__name__}: a list of items is due, or a function that returns one")
    return list(items)


def _read_json_lines(path: Path) -> list[Any]:
    items = []
    # Bytes: a line that is no UTF-8 is then told like any other that cannot be read.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            items.append(json.loads(line))
        except ValueError as error:
            raise DataError(f"{path}, line {number}: no JSON: {error}. One value per line is due") from None
    return items
