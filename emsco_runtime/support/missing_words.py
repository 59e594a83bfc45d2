"""Words that mean "missing" in a table of text, such as a CSV file; training and `emsco-run` read them alike.

Values that programs pass are another matter: there, None and NaN are missing (`missing_values`), and text is text.
"""

from __future__ import annotations

__all__ = ["MISSING_WORDS", "is_missing_text", "parse_missing_words"]

# In lower case: whether a word is written NULL, null or Null says nothing.
MISSING_WORDS = frozenset({"?", "-", "na", "n/a", "#n/a", "nan", "null"})


def is_missing_text(text: str, words: frozenset[str] = MISSING_WORDS) -> bool:
    """Return whether a field is empty or holds one of the words (in lower case), in any case, with or without blanks around it.

    Examples
    --------
    >>> [is_missing_text(text) for text in (" ", "?", "NA", "0", "none")]
    [True, True, True, False, False]
    >>> is_missing_text("?", words=frozenset()), is_missing_text("", words=frozenset())
    (False, True)
    """
    word = text.strip()
    return not word or word.lower() in words


def parse_missing_words(text: str) -> frozenset[str]:
    """Read words as a command takes them, separated by commas; an empty text means that only empty fields are missing.

    A whole number with and without a decimal point is the same: data frames write one in columns with gaps.

    Examples
    --------
    >>> sorted(parse_missing_words("?, Unknown")), sorted(parse_missing_words("-999")), parse_missing_words("")
    (['?', 'unknown'], ['-999', '-999.0'], frozenset())
    """
    words = frozenset(word.strip().lower() for word in text.split(",") if word.strip())
    numbers = {word.removesuffix(".0") for word in words if word.removesuffix(".0").removeprefix("-").isdecimal()}
    return words.union(numbers, (f"{number}.0" for number in numbers))
