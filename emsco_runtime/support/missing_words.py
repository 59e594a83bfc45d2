"""Words that mean "missing" in a table of text, such as a CSV file; training and `emsco-run` read them alike.

Values that programs pass are another matter: there, None and NaN are missing (`missing_values`), and text is text.
"""

from __future__ import annotations

import math
from functools import cache

from emsco_runtime.support.csv_file import parse_number

__all__ = ["MISSING_WORDS", "is_missing_text", "missing_numbers", "parse_missing_words"]

# In lower case: whether a word is written NULL, null or Null says nothing.
MISSING_WORDS = frozenset({"?", "-", "na", "n/a", "#n/a", "nan", "null"})


def is_missing_text(text: str, words: frozenset[str] = MISSING_WORDS) -> bool:
    """Return whether a field is empty or holds one of the words (in lower case), in any case, with or without blanks around it.

    A number among the words is one however it is written: data frames write a decimal point in columns with gaps.

    Examples
    --------
    >>> [is_missing_text(text) for text in (" ", "?", "NA", "0", "none")]
    [True, True, True, False, False]
    >>> [is_missing_text(text, words=frozenset({"-999"})) for text in ("-999", "-999.00", "-9", "?", "")]
    [True, True, False, False, True]
    """
    word = text.strip().lower()
    if not word or word in words:
        return True
    numbers = missing_numbers(words)
    return bool(numbers) and _to_number(word) in numbers


@cache
def missing_numbers(words: frozenset[str]) -> frozenset[float]:
    """Return the finite numbers among some words.

    Examples
    --------
    >>> missing_numbers(frozenset({"?", "nan", "-999"}))
    frozenset({-999.0})
    """
    return frozenset(number for number in map(_to_number, words) if number is not None)


def parse_missing_words(text: str) -> frozenset[str]:
    """Read words as a command takes them, separated by commas; an empty text means that only empty fields are missing.

    Examples
    --------
    >>> sorted(parse_missing_words("?, Unknown")), sorted(parse_missing_words("-999")), parse_missing_words("")
    (['?', 'unknown'], ['-999'], frozenset())
    """
    return frozenset(word.strip().lower() for word in text.split(",") if word.strip())


def _to_number(text: str) -> float | None:
    try:
        number = parse_number(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
