"""From the arguments that the library's messages name to the options of a command.

The library speaks to users of Python: a message calls an argument by its name, in one of three forms, which a command turns into
what its own users type:

- ``max_stages is 99`` at the start of a fault, for an option of the command: ``--max-stages is 99``;
- ``max_stages`` or ``max_stages=3`` anywhere, for an option of the command whose name has an underscore, and so is no word;
- an argument in backticks, whichever command it is for: ```force=True``` becomes ``--force``, and
  ```kinds={'a': 'numeric'}``` becomes ``--kind a=numeric``.
"""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["OptionNames"]

# Arguments whose option has another name.
_OTHER_OPTION_NAMES = {"kinds": "kind", "max_seconds": "time-limit", "method": "search", "pinned": "pin"}
_QUOTED_ARGUMENT = re.compile(r"`(\w+)(?:=([^`]+))?`")


class OptionNames:
    """The options of a command.

    Parameters
    ----------
    given
        The command's arguments as they were parsed.

    Examples
    --------
    >>> options = OptionNames(argparse.Namespace(seed=-1, max_cost=0.0))
    >>> options.translate("settings: seed is -1; max_cost is 0.0; see 'max_cost'. Or use `force=True`")
    "settings: --seed is -1; --max-cost is 0.0; see 'max_cost'. Or use --force"
    """

    def __init__(self, given: argparse.Namespace) -> None:
        names = sorted({*vars(given), *_OTHER_OPTION_NAMES})
        every, long = "|".join(names), "|".join(name for name in names if "_" in name) or "(?!)"
        self._argument_pattern = re.compile(
            rf"(?:(?<=: )|(?<=; )|^)({every})(?= (?:is|holds|has) )|(?<![\w'\"`/.-])({long})(?![\w'\"./])(=?)"
        )

    def translate(self, message: str) -> str:
        """Return a message in the words of the command."""
        bare = self._argument_pattern.sub(lambda found: _option_name(found[1] or found[2]) + (" " if found[3] else ""), message)
        return _QUOTED_ARGUMENT.sub(_replace_argument, bare)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Say the errors of the library in the words of the command."""
        from emsco_runtime.errors import EmscoError, InputError  # noqa: PLC0415 - after the arguments: --help must answer at once

        try:
            yield
        except EmscoError as error:
            raise InputError(self.translate(str(error))) from error


def _option_name(name: str) -> str:
    return "--" + _OTHER_OPTION_NAMES.get(name, name).replace("_", "-")


def _replace_argument(found: re.Match[str]) -> str:
    try:
        return _format_option(found[1], found[2]) or found[0]
    except (SyntaxError, ValueError):
        # Words of the user's own that are in backticks.
        return found[0]


def _format_option(name: str, value: str | None) -> str:
    """Return an argument with its value, as Python has it, as it is typed for a command."""
    if value is None or value == "True":
        return _option_name(name)
    if value == "None":
        return f"no {_option_name(name)}"
    return " ".join(
        f"{_option_name(own_option or name)} {shlex.quote(word)}"
        for own_option, word in _option_values(ast.parse(value, mode="eval").body)
    )


def _option_values(value: ast.expr) -> Iterator[tuple[str | None, str]]:
    """Yield the words of a value, each with the option that it has of its own, if any."""
    if isinstance(value, ast.Dict):
        for key, inner in zip(value.keys, value.values, strict=True):
            place = ast.literal_eval(key) if key is not None else ""
            for own_option, word in _option_values(inner):
                yield own_option, f"{place}={word}"
    elif isinstance(value, ast.Call):
        # FeatureOptions(kind="categorical"), of one column.
        for keyword in value.keywords:
            yield keyword.arg, str(ast.literal_eval(keyword.value))
    elif isinstance(value, ast.Tuple | ast.List):
        for inner in value.elts:
            yield from _option_values(inner)
    else:
        yield None, str(ast.literal_eval(value))
