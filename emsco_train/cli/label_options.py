"""Options of the form LABEL=NUMBER, and of either NUMBER or LABEL=NUMBER."""

from __future__ import annotations

from collections.abc import Sequence

from emsco_train.errors import DesignError

__all__ = ["parse_floors", "parse_numbers"]


def parse_floors(given: Sequence[str], option: str) -> tuple[float | None, dict[str | int, float]]:
    """Read an option that is given as a number, and once for each label; return the number, and those of labels.

    Examples
    --------
    >>> parse_floors(["0.95", "fraud=0.9"], "--min-accuracy")
    (0.95, {'fraud': 0.9})
    """
    plain = [text for text in given if "=" not in text]
    if len(plain) > 1:
        raise DesignError(f"{option} {plain[1]!r}: a number for all rows is given twice, {plain[0]} before: give it once")
    try:
        number = float(plain[0]) if plain else None
    except ValueError:
        raise DesignError(f"{option} {plain[0]!r}: expected a number, or LABEL=NUMBER such as fraud=0.9") from None
    return number, parse_numbers([text for text in given if "=" in text], option)


def parse_numbers(given: Sequence[str], option: str) -> dict[str | int, float]:
    """Read what was given for an option that can be given once for each label.

    Examples
    --------
    >>> parse_numbers(["ham=0.01", "a=b=0.02"], "--max-error-of")
    {'ham': 0.01, 'a=b': 0.02}
    """
    found: dict[str | int, float] = {}
    for text in given:
        label, equals, number = text.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise DesignError(f"{option} {text!r}: expected LABEL=NUMBER, such as spam=0.01")
        if label in found:
            raise DesignError(f"{option} {text!r}: the label {label!r} is given twice: give it once")
        found[label] = share
    return found
