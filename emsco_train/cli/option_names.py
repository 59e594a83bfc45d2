"""From the arguments that the library's messages name to the options of a command.

The library's messages are for users of Python: they call an argument by its name, in one of two forms, which a command
translates into what its own users type:

- ``max_stages is 99`` or ``max_stages must be`` at the start of a message, for an option of the command: ``--max-stages is 99``;
- an argument in backticks, whichever command it is for: ```force=True``` becomes ``--force``, and
  ```kinds={'a': 'numeric'}``` becomes ``--kind a=numeric``.

Any other word stays as it is: a column may have the name of an argument.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from emsco_runtime.errors import EmscoError, InputError

__all__ = ["OptionNames", "translate_quoted"]

# Arguments whose option has another name.
_OTHER_OPTION_NAMES = {
    "drop_labels": "drop-label",
    "groups": "group-column",
    "kinds": "kind",
    "method": "search",
    "min_accuracy_of": "min-accuracy",
    "pinned": "pin",
    "sample_weight": "weight-column",
    "time": "time-column",
    "version": "bundle-version",
}
# Options that take the word none; others are left out instead.
_OPTIONS_WITH_NONE = {"sure"}
_QUOTED_ARGUMENT = re.compile(r"`(\w+)(?:=([^`]+))?`")


class OptionNames:
    """The options of a command, from its arguments as they were parsed.

    Examples
    --------
    >>> options = OptionNames(argparse.Namespace(seed=-1, max_cost=0.0))
    >>> options.translate("settings: seed is -1; max_cost is 0.0; see 'max_cost'. Or use `force=True`")
    "settings: --seed is -1; --max-cost is 0.0; see 'max_cost'. Or use --force"
    """

    def __init__(self, given: argparse.Namespace) -> None:
        names = "|".join(sorted({*vars(given), *_OTHER_OPTION_NAMES}))
        self._argument_pattern = re.compile(rf"(?:(?<=: )|(?<=; )|^)(?:{names})(?= (?:is|holds|has|must) )")

    def translate(self, message: str) -> str:
        """Return a message with the options of the command instead of arguments."""
        return translate_quoted(self._argument_pattern.sub(lambda found: _option_name(found[0]), message))

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise the errors of the library as errors of the command, with translated messages."""
        try:
            yield
        except EmscoError as error:
            raise InputError(self.translate(str(error))) from error


def translate_quoted(text: str) -> str:
    """Return a text with the options of a command instead of the arguments in backticks.

    Examples
    --------
    >>> translate_quoted("max_cost: always 1; keep it with `kinds={'max_cost': 'numeric'}`")
    'max_cost: always 1; keep it with --kind max_cost=numeric'
    >>> translate_quoted("use `missing=('-999',)`")
    'use --missing=-999'
    """
    return _QUOTED_ARGUMENT.sub(_replace_argument, text)


def _option_name(name: str) -> str:
    return "--" + _OTHER_OPTION_NAMES.get(name, name).replace("_", "-")


def _replace_argument(found: re.Match[str]) -> str:
    """Return a Python argument with its value as it is typed for a command."""
    name, value = found[1], found[2]
    if value is None or value == "True":
        return _option_name(name)
    if value == "None":
        return f"{_option_name(name)} none" if name in _OPTIONS_WITH_NONE else f"no {_option_name(name)}"
    try:
        words = list(_option_values(ast.parse(value, mode="eval").body))
    except (SyntaxError, ValueError):
        # The user's own text, in backticks.
        return found[0]
    return " ".join(_write_option(_option_name(option or name), word) for option, word in words) or found[0]


def _write_option(option: str, word: str) -> str:
    # A word that begins with a dash would be taken for an option.
    return f"{option}{'=' if word.startswith('-') else ' '}{shlex.quote(word)}"


def _option_values(value: ast.expr) -> Iterator[tuple[str | None, str]]:
    """Yield the words of a value, each with its own option, if it has one."""
    if isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            place = ast.literal_eval(key) if key is not None else ""
            for own_option, word in _option_values(inner):
                # Without a name: for all columns.
                yield own_option, f"{place}={word}" if place != "" else word
    elif isinstance(value, ast.Call):
        # FeatureOptions(kind="categorical"), of one column.
        for keyword in value.keywords:
            yield keyword.arg, str(ast.literal_eval(keyword.value))
    elif isinstance(value, ast.Tuple | ast.List):
        for inner in value.elts:
            yield from _option_values(inner)
    else:
        yield None, str(ast.literal_eval(value))
