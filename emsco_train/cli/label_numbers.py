"""Options of the form LABEL=NUMBER."""

from __future__ import annotations

from collections.abc import Sequence

from emsco_train.errors import DesignError

__all__ = ["parse_numbers"]


def parse_numbers(given: Sequence[str], option: str) -> dict[str | int, float]:
    """Read what was given for an option that may be repeated, once for each label.

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
            raise DesignError(f"{option} {text!r}: the label {label!r} was given before")
        found[label] = share
    return found
