"""Options that hold more than one word: NAME=VALUE, shares, weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from emsco_train.data.splits import Shares
from emsco_train.data.stage_settings import ClassWeight
from emsco_train.errors import DesignError

__all__ = ["parse_class_weight", "parse_pairs", "parse_shares", "parse_unknown"]

_Choice = TypeVar("_Choice", bound=str)


def parse_pairs(given: Sequence[str], option: str, allowed: Sequence[_Choice]) -> dict[str, _Choice]:
    """Read options of the form NAME=WORD.

    Examples
    --------
    >>> parse_pairs(["size=numeric"], "--kind", ["numeric", "categorical"])
    {'size': 'numeric'}
    """
    found: dict[str, _Choice] = {}
    for text in given:
        name, equals, word = text.rpartition("=")
        match = next((one for one in allowed if one == word), None)
        if not equals or match is None:
            expected = f"COLUMN=WORD is due, with one of the words {', '.join(allowed)}"
            raise DesignError(f"{option} {text.removeprefix('=')!r}: {expected}")
        found[name] = match
    return found


def parse_unknown(given: Sequence[str]) -> dict[str, Any]:
    """Read --unknown: a word for all columns, kept under "", or COLUMN=WORD.

    Examples
    --------
    >>> parse_unknown(["ignore", "flag=fail"])
    {'': 'ignore', 'flag': 'fail'}
    """
    return parse_pairs([text if "=" in text else f"={text}" for text in given], "--unknown", ("fail", "ignore"))


def parse_shares(text: str | None) -> Shares | None:
    """Read the shares of the four splits.

    Examples
    --------
    >>> parse_shares("0.5,0.25,0.25,0")
    Shares(train=0.5, validation=0.25, test=0.25, certify=0.0)
    """
    if text is None:
        return None
    parts = [_parse_number(part, "--shares", text) for part in text.split(",")]
    if len(parts) != 4:
        raise DesignError(f"--shares {text!r}: four numbers are due, for train, validation, test and certify")
    return Shares(*parts)


def parse_class_weight(text: str | None) -> ClassWeight:
    """Read class weights: balanced, or LABEL=NUMBER,LABEL=NUMBER.

    Examples
    --------
    >>> parse_class_weight("ham=1,spam=2"), parse_class_weight("balanced")
    ({'ham': 1.0, 'spam': 2.0}, 'balanced')
    """
    if text is None:
        return None
    if text == "balanced":
        return "balanced"
    weights: dict[str | int, float] = {}
    for part in text.split(","):
        label, equals, number = part.rpartition("=")
        if not equals:
            raise DesignError(f"--class-weight {text!r}: balanced, or LABEL=NUMBER,LABEL=NUMBER, is due")
        weights[label.strip()] = _parse_number(number, "--class-weight", text)
    return weights


def _parse_number(part: str, option: str, whole: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise DesignError(f"{option} {whole!r}: {part!r} is no number") from None
