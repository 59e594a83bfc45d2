"""Numbers by label as people write them, LABEL=NUMBER,LABEL=NUMBER, where labels may hold commas, equals signs and blanks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from emsco_runtime.decision import Label
from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_numeric_text

__all__ = ["name_labels", "parse_label_numbers"]


def parse_label_numbers(text: str, where: str, expected: str) -> dict[Label, float]:
    """Read numbers by label; errors call the text `where`, and say what was expected.

    A pair ends at a comma that follows a number, and its label at the last equals sign before that. Blanks around a label are
    kept, since they may be part of it: see `name_labels`.

    Examples
    --------
    >>> parse_label_numbers("ham=0.9,no, never=0.8,a=b=1", "threshold", "LABEL=NUMBER")
    {'ham': 0.9, 'no, never': 0.8, 'a=b': 1.0}
    """
    found: dict[Label, float] = {}
    pending: list[str] = []
    for part in text.split(","):
        pending.append(part)
        label, equals, number = ",".join(pending).rpartition("=")
        if not equals or not is_numeric_text(number):
            continue
        if label in found:
            raise DesignError(f"{where} {text!r} names the label {label!r} twice")
        found[label] = float(number)
        pending = []
    if pending:
        rest = ",".join(pending)
        detail = f"; {rest!r} is no LABEL=NUMBER" if found else ""
        raise DesignError(f"{where} {text!r}: expected {expected}{detail}")
    return found


def name_labels(numbers: Mapping[Label, float], labels: Collection[str]) -> dict[Label, float]:
    """Return numbers by label with blanks around a name left out where there is no such label with them, but one without.

    Examples
    --------
    >>> name_labels({" yes": 0.9, " no": 0.8}, [" yes", "no"])
    {' yes': 0.9, 'no': 0.8}

    Raises
    ------
    DesignError
        If two names mean one label.
    """
    named: dict[Label, float] = {}
    for name, number in numbers.items():
        plain = str(name).strip()
        own = plain if str(name) not in labels and plain in labels and plain not in numbers else name
        if own in named:
            raise DesignError(f"the label {own!r} is named twice, with other blanks around it: leave one of them out")
        named[own] = number
    return named
