r"""Costs files: what each feature costs, in one of three forms.

TOML, the form to write by hand::

    unit = "EUR"                        # what the numbers count; "units" unless given

    [features]                          # own cost of every feature; may be 0 for one that costs nothing besides its group
    age = 1
    "glucose, fasting" = 15.5           # names with other characters than letters, digits, - and _ need quotes
    insulin = 20.5
    sugar = {cost = 0.5, groups = ["blood", "urine"]}       # needs several groups, each paid once per item
    index = {from = ["age", "insulin"]}                     # derived from others: paid through what these need

    [groups.blood]                      # paid once per item, whichever of its features comes first
    cost = 2.1
    features = ["glucose, fasting", "insulin"]

    [groups.urine]
    cost = 1.4

A feature is in a group that lists it, and in those that it names itself.

JSON of the same shape, and one line of comma-separated numbers in column order (``1, 15.5, 20.5``), which needs the column names.

The suffix of the file name decides the form: .toml, .json, .csv (one line). For any other, the content decides: ``{`` opens
JSON, ``=`` or ``[`` makes it TOML, and anything else is one line of numbers.
"""

from __future__ import annotations

import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from emsco_runtime.bundle.summary import pluralize
from emsco_train.costs.cost_group import CostGroup
from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_numeric_text
from emsco_train.support.validation_errors import raise_faults

__all__ = ["CostComments", "CostsFile", "format_costs", "read_costs"]

FileFormat: TypeAlias = Literal["TOML", "JSON", "line"]

_FORMAT_BY_SUFFIX: dict[str, FileFormat] = {".toml": "TOML", ".json": "JSON", ".csv": "line"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT_UNIT = "units"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class CostsFile:
    """What a file says: own costs, groups, what features are derived from, and the unit.

    The shape is right; numbers and names are checked by `CostModel`.
    """

    features: Mapping[str, float]
    groups: tuple[CostGroup, ...] = ()
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit: str = _DEFAULT_UNIT


@dataclass(frozen=True, slots=True)
class CostComments:
    """Comments of a costs file: lines at the top, and texts next to the costs of features and groups, by name."""

    head: tuple[str, ...] = ()
    features: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)


def read_costs(path: str | os.PathLike[str], names: Sequence[str] | None = None) -> CostsFile:
    """Read a costs file of any form; one error lists every fault of its shape. Only one line of numbers needs `names`."""
    where = f"costs file {os.fspath(path)}"
    text = _read_text(Path(path), where)
    file_format = _FORMAT_BY_SUFFIX.get(Path(path).suffix.lower()) or _detect_format(text)
    if file_format == "line":
        return CostsFile(_read_line(text, names, where))
    return _check_content(_parse(text, file_format, where), where)


def format_costs(features: Mapping[str, float], groups: Iterable[CostGroup], unit: str, comments: CostComments) -> str:
    """Return costs as the text of a TOML file."""
    lines = [*(f"# {_without_control_characters(line)}" for line in comments.head), f"unit = {_toml_string(unit)}"]
    lines += ["", "[features]"]
    lines += [
        f"{_toml_key(name)} = {_toml_number(cost)}{_comment_for(comments.features, name)}" for name, cost in features.items()
    ]
    for group in groups:
        members = ", ".join(_toml_string(name) for name in group.features)
        cost = f"cost = {_toml_number(group.cost)}{_comment_for(comments.groups, group.name)}"
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
        raise DesignError(f"{where}, byte {error.start}: not UTF-8 text. Save it as UTF-8") from None


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
        raise DesignError(f"{where} is not {file_format}: {error}. Correct it there") from None
    if not isinstance(parsed, Mapping):
        raise DesignError(f"{where} holds {_shorten(parsed)}: expected an object with unit, features and groups")
    return parsed


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} occurs twice in one object")
    return found


def _check_content(parsed: Mapping[str, Any], where: str) -> CostsFile:
    faults = _unknown_keys(parsed, ("unit", "features", "groups"), "")
    unit = parsed.get("unit", _DEFAULT_UNIT)
    if not isinstance(unit, str):
        faults.append(f"unit is {_shorten(unit)}: expected text, such as 'EUR'")
    features = _get_table(parsed, "features", faults)
    if not features and "features" not in parsed:
        faults.append("there are no [features]: give each feature its cost")
    entries = {name: _parse_feature(name, entry, faults) for name, entry in features.items()}
    tables = _get_table(parsed, "groups", faults)
    faults += [
        f"features.{name}.groups names {group!r}, which is not there: add [groups.{_toml_key(group)}] with its cost"
        for name, entry in entries.items()
        for group in entry.groups
        if group not in tables
    ]
    named = {group: tuple(name for name, entry in entries.items() if group in entry.groups) for group in tables}
    groups = tuple(_parse_group(name, entry, named[name], faults) for name, entry in tables.items())
    raise_faults(where, faults)
    sources = {name: entry.sources for name, entry in entries.items() if entry.sources}
    own = {name: entry.cost for name, entry in entries.items()}
    return CostsFile(own, groups, sources, unit)


@dataclass(frozen=True, slots=True)
class _FeatureEntry:
    """What a file says of a feature: its own cost, the groups that it names, and what it is derived from."""

    cost: float
    groups: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def _parse_feature(name: str, entry: Any, faults: list[str]) -> _FeatureEntry:
    if not isinstance(entry, Mapping):
        return _FeatureEntry(_clip_integer(entry))
    place = f"features.{name}"
    if not any(key in entry for key in ("cost", "groups", "from")):
        dotted = f'A name with a dot needs quotes, such as "{name}.x" = 1'
        faults.append(f"{place} is a table: expected a number, or a table with cost, groups and from. {dotted}")
        return _FeatureEntry(0.0)
    faults += _unknown_keys(entry, ("cost", "groups", "from"), f"{place}.")
    groups = _parse_names(entry.get("groups", []), f"{place}.groups", "group", faults)
    sources = _parse_names(entry.get("from", []), f"{place}.from", "feature", faults)
    return _FeatureEntry(_clip_integer(entry.get("cost", 0.0)), groups, sources)


def _get_table(parsed: Mapping[str, Any], key: str, faults: list[str]) -> Mapping[str, Any]:
    table = parsed.get(key, {})
    if isinstance(table, Mapping):
        return table
    faults.append(f"{key!r} is {_shorten(table)}: expected a table")
    return {}


def _parse_group(name: str, entry: object, naming: tuple[str, ...], faults: list[str]) -> CostGroup:
    """Return a group with the features that it lists, and those that name it themselves."""
    place = f"groups.{name}"
    if not isinstance(entry, Mapping):
        faults.append(f"{place} is {_shorten(entry)}: expected a table with cost and features")
        return CostGroup(name, 0.0, ())
    faults += _unknown_keys(entry, ("cost", "features"), f"{place}.")
    if "cost" not in entry:
        faults.append(f"{place} has no cost: add it")
    members = _parse_names(entry.get("features", [] if naming else None), f"{place}.features", "feature", faults)
    own = tuple(member for member in naming if member not in members)
    return CostGroup(name, _clip_integer(entry.get("cost", 0.0)), members + own)


def _parse_names(value: object, place: str, noun: str, faults: list[str]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        faults.append(f"{place} is {_shorten(value)}: expected a list of {noun} names")
        return ()
    faults += [
        f"{place} names {name!r} twice: once is enough" for name in sorted({name for name in value if value.count(name) > 1})
    ]
    return tuple(value)


def _unknown_keys(table: Mapping[str, Any], known: Sequence[str], place: str) -> list[str]:
    # In quotes: a command would take a bare name for one of its options.
    return [f"{place + key!r} is unknown here: known are {', '.join(known)}" for key in table if key not in known]


def _read_line(text: str, names: Sequence[str] | None, where: str) -> dict[str, float]:
    if names is None:
        raise DesignError(f"{where} is one line of numbers: give the column names they belong to, from_file(path, names=[...])")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise DesignError(
            f"{where} has {len(lines)} lines that are not empty: "
            "expected one line of comma-separated numbers; or name the file .toml or .json"
        )
    cells = [cell.strip() for cell in lines[0].split(",")]
    if len(cells) != len(names):
        counts = f"{pluralize(len(cells), 'number')} for {pluralize(len(names), 'column')}"
        raise DesignError(f"{where} has {counts}: give one per column, in their order")
    faults = [
        f"number {place} ({name}) is {_shorten(cell)}: expected a number"
        for place, (cell, name) in enumerate(zip(cells, names, strict=True), start=1)
        if not is_numeric_text(cell)
    ]
    raise_faults(where, faults)
    return {name: float(cell) for name, cell in zip(names, cells, strict=True)}


def _clip_integer(value: Any) -> float:
    """Return a whole number too large for a float as infinity, and anything else as it is, for `CostModel` to check."""
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
