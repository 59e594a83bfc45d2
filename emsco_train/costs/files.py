r"""Costs files: what each feature costs, in one of three forms.

TOML, the form to write by hand::

    unit = "EUR"                        # what the numbers count; "units" unless given

    [features]                          # own cost of every feature; 0 will do for one that only its group pays for
    age = 1
    "glucose, fasting" = 15.5           # names with other characters than letters, digits, - and _ stand in quotes
    insulin = 20.5

    [groups.blood]                      # paid once per item, whichever of its features comes first
    cost = 2.1
    features = ["glucose, fasting", "insulin"]

JSON of the same shape, and one line of comma-separated numbers in column order (``1, 15.5, 20.5``), which needs the column names.

The name's ending tells the form: .toml, .json, .csv (one line). For any other, the content does: ``{`` opens JSON, ``=`` or
``[`` makes it TOML, and the rest is one line of numbers.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from emsco_runtime.bundle.summary import pluralize
from emsco_train.errors import DesignError

__all__ = ["CostComments", "CostDocument", "GroupEntry", "format_costs", "read_costs"]

FileFormat: TypeAlias = Literal["TOML", "JSON", "line"]

_FORMAT_BY_SUFFIX: dict[str, FileFormat] = {".toml": "TOML", ".json": "JSON", ".csv": "line"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group as the file has it.

    Parameters
    ----------
    name, cost, features
        As in `CostGroup`; the cost is checked there.
    """

    name: str
    cost: float
    features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CostDocument:
    """What a costs file says: its shape is right, its numbers are checked by `CostModel`.

    Parameters
    ----------
    features
        Own cost of each feature.
    groups
        The groups in the order of the file.
    unit
        What the numbers count.
    """

    features: Mapping[str, float]
    groups: tuple[GroupEntry, ...] = ()
    unit: str = "units"


@dataclass(frozen=True, slots=True)
class CostComments:
    """What a written costs file says beside its numbers; whoever reads it for its numbers passes these by.

    Parameters
    ----------
    head
        Lines at the top.
    features, groups
        Name -> what stands behind its cost.
    """

    head: tuple[str, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)


def read_costs(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> CostDocument:
    """Read a costs file of any form; one error lists every fault of its shape.

    Parameters
    ----------
    path
        The file.
    names
        Every feature of the data, in column order; used for one line of numbers only.
    """
    where = f"costs file {os.fspath(path)}"
    text = _read_text(Path(path), where)
    file_format = _FORMAT_BY_SUFFIX.get(Path(path).suffix.lower()) or _detect_format(text)
    if file_format == "line":
        return _read_line(text, names, where)
    return _build_document(_parse(text, file_format, where), where)


def format_costs(document: CostDocument, comments: CostComments | None = None) -> str:
    """Return a costs document as the text of a TOML file, with comments if there are any."""
    notes = comments or CostComments()
    lines = [f"# {_without_control_characters(line)}" for line in notes.head] + [
        f"unit = {_toml_string(document.unit)}",
        "",
        "[features]",
    ]
    lines += [
        f"{_toml_key(name)} = {_toml_number(cost)}{_comment_for(notes.features, name)}"
        for name, cost in document.features.items()
    ]
    for group in document.groups:
        members = ", ".join(_toml_string(name) for name in group.features)
        cost = f"cost = {_toml_number(group.cost)}{_comment_for(notes.groups, group.name)}"
        lines += ["", f"[groups.{_toml_key(group.name)}]", cost, f"features = [{members}]"]
    return "\n".join(lines) + "\n"


def _comment_for(comments: Mapping[str, str], name: str) -> str:
    return f"  # {_without_control_characters(comments[name])}" if name in comments else ""


def _without_control_characters(comment: str) -> str:
    # No line break may end a comment early, and TOML allows no control character in one.
    return _CONTROL.sub(" ", comment)


def _read_text(path: Path, where: str) -> str:
    try:
        # Editors on some systems put a byte order mark in front.
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DesignError(f"{where}: there is no such file. Check the path") from None
    except OSError as error:
        raise DesignError(f"{where} cannot be read: {error.strerror}. Give a readable file") from None
    except UnicodeDecodeError as error:
        raise DesignError(f"{where}, byte {error.start}: no UTF-8 text. Save it as UTF-8") from None


def _detect_format(text: str) -> FileFormat:
    if text.lstrip().startswith("{"):
        return "JSON"
    return "TOML" if "=" in text or "[" in text else "line"


def _parse(text: str, file_format: FileFormat, where: str) -> Mapping[str, Any]:
    try:
        parsed = tomllib.loads(text) if file_format == "TOML" else json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    except RecursionError:
        raise DesignError(f"{where} is nested too deeply. Give unit, features and groups only") from None
    except ValueError as error:
        # Both parsers' own errors are ValueErrors that name line and column.
        raise DesignError(f"{where} is not {file_format}: {error}. Mend it there") from None
    if not isinstance(parsed, Mapping):
        raise DesignError(f"{where} holds {_shorten(parsed)}: an object with unit, features and groups is due")
    return parsed


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        duplicates = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{duplicates!r} stands twice in one object")
    return found


def _build_document(parsed: Mapping[str, Any], where: str) -> CostDocument:
    faults = _unknown_keys(parsed, ("unit", "features", "groups"), "")
    unit = parsed.get("unit", "units")
    if not isinstance(unit, str):
        faults.append(f"unit is {_shorten(unit)}: text is due, such as 'EUR'")
    features = _get_table(parsed, "features", faults)
    if not features and "features" not in parsed:
        faults.append("there are no [features]: give each feature its cost")
    faults += [_nested_table_fault(name) for name, cost in features.items() if isinstance(cost, Mapping)]
    groups = [_parse_group(name, entry, faults) for name, entry in _get_table(parsed, "groups", faults).items()]
    if faults:
        raise DesignError(f"{where}: " + "; ".join(faults))
    return CostDocument({name: _clip_integer(cost) for name, cost in features.items()}, tuple(groups), unit)


def _get_table(parsed: Mapping[str, Any], key: str, faults: list[str]) -> Mapping[str, Any]:
    table = parsed.get(key, {})
    if isinstance(table, Mapping):
        return table
    faults.append(f"{key} is {_shorten(table)}: a table is due")
    return {}


def _nested_table_fault(name: str) -> str:
    return f'features.{name} is a table: a number is due. A name with a dot stands in quotes, such as "{name}.x" = 1'


def _parse_group(name: str, entry: object, faults: list[str]) -> GroupEntry:
    place = f"groups.{name}"
    if not isinstance(entry, Mapping):
        faults.append(f"{place} is {_shorten(entry)}: a table with cost and features is due")
        return GroupEntry(name, 0.0, ())
    faults += _unknown_keys(entry, ("cost", "features"), f"{place}.")
    if "cost" not in entry:
        faults.append(f"{place} has no cost: add it")
    members = entry.get("features")
    if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
        faults.append(f"{place}.features is {_shorten(members)}: a list of feature names is due")
        members = []
    duplicates = sorted({member for member in members if members.count(member) > 1})
    faults += [f"{place}.features names {member!r} twice: once is enough" for member in duplicates]
    return GroupEntry(name, _clip_integer(entry.get("cost", 0.0)), tuple(members))


def _unknown_keys(table: Mapping[str, Any], known: Sequence[str], place: str) -> list[str]:
    return [f"{place}{key} is unknown here: known are {', '.join(known)}" for key in table if key not in known]


def _read_line(text: str, names: Sequence[str] | None, where: str) -> CostDocument:
    if names is None:
        raise DesignError(f"{where} is one line of numbers: give the column names they belong to, from_file(path, names=[...])")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        advice = "one line of comma-separated numbers is due, or name the file .toml or .json"
        raise DesignError(f"{where} has {len(lines)} lines that are not empty: {advice}")
    cells = [cell.strip() for cell in lines[0].split(",")]
    if len(cells) != len(names):
        notes = f"{where} has {pluralize(len(cells), 'number')} for {pluralize(len(names), 'column')}"
        raise DesignError(f"{notes}: give one per column, in their order")
    faults = [
        f"number {place} ({name}) is {_shorten(cell)}: a number is due"
        for place, (cell, name) in enumerate(zip(cells, names, strict=True), start=1)
        if not _is_float(cell)
    ]
    if faults:
        raise DesignError(f"{where}: " + "; ".join(faults))
    return CostDocument({name: float(cell) for name, cell in zip(names, cells, strict=True)})


def _is_float(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _clip_integer(value: Any) -> float:
    """Return a whole number too large for a float as infinity; leave all else as it is, for `CostModel` to judge."""
    if isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            return math.inf
    return value  # type: ignore[no-any-return]  # checked by CostModel, with the feature's name


def _shorten(value: object, limit: int = 80) -> str:
    text = repr(value)
    return f"{text[:limit]}..." if len(text) > limit else text


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _toml_string(name)


def _toml_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped) + '"'


def _toml_number(cost: float) -> str:
    # The shortest text that reads back as the same number; numpy's numbers would show their type.
    return repr(int(cost)) if isinstance(cost, int) else repr(float(cost))
