"""Text for messages and output: values whatever they are, counts, shares."""

from __future__ import annotations

import difflib
import math
import unicodedata
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = [
    "LONGEST_MESSAGE",
    "describe_error",
    "describe_in_one_line",
    "escape_controls",
    "format_value",
    "format_with_type",
    "percent",
    "percent_at_least",
    "percent_at_most",
    "pluralize",
    "round_up",
    "shorten",
    "suggest_name",
]

# Messages are logged and kept in audit files, and their text is controlled by the source.
LONGEST_MESSAGE = 1000
_BITS_PER_DIGIT = math.log2(10)
# Control characters, halves of characters, separators of lines and paragraphs; embeddings, overrides and isolates of direction.
_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNS = frozenset(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))


def format_value(value: object) -> str:
    """Return the `repr` of a value for a message, shortened; it never raises.

    Examples
    --------
    >>> format_value("abc"), format_value(10**5000)
    ("'abc'", 'a whole number of about 5000 digits')
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the user's own class; a failure to print must not become another failure
        # Python refuses to print very long whole numbers.
        digits = round(value.bit_length() / _BITS_PER_DIGIT) if isinstance(value, int) else 0
        text = f"a whole number of about {digits} digits" if digits else "a value that cannot be printed"
    return shorten(text)


def format_with_type(value: object) -> str:
    """Return a value with its type, such as ``'abc' (str)``, for a message; it never raises."""
    return f"{format_value(value)} ({type(value).__name__})"


def shorten(text: str, limit: int = 200) -> str:
    """Return a text, cut off with dots after `limit` characters."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an error, cut off if it is long; it never raises."""
    try:
        return shorten(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
    except Exception:  # noqa: BLE001 - the user's own class; a failure to print must not become another failure
        return f"{type(error).__name__}: (it cannot be printed)"


def describe_in_one_line(error: Exception) -> str:
    r"""Return what `describe_error` does, without line breaks, and without a colon where there is no message.

    Examples
    --------
    >>> describe_in_one_line(ValueError("two\nlines")), describe_in_one_line(KeyError())
    ('ValueError: two lines', 'KeyError')
    """
    return " ".join(describe_error(error).split()).rstrip(": ")


def escape_controls(text: str) -> str:
    r"""Return a text in which control characters are written out, line breaks among them: it stays within its line.

    So are characters that turn the direction of what follows them; blanks and joiners of all scripts stay.

    Examples
    --------
    >>> print(escape_controls("spam\ncertificate \x1b[31m"), escape_controls("größer\xa0als\u200d3").isascii())
    spam\ncertificate \x1b[31m False
    """
    if text.isprintable():
        return text
    return "".join(one.encode("unicode_escape").decode("ascii") if _is_control(one) else one for one in text)


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in _CONTROLS or character in _TURNS


def suggest_name(name: object, names: Iterable[str], otherwise: str) -> str:
    """Return the end of a message about an unknown name: the nearest known name, or `otherwise`."""
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else otherwise


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is one.

    Examples
    --------
    >>> pluralize(1, "design"), pluralize(2000, "feature set"), pluralize(0, "row")
    ('1 design', '2,000 feature sets', '0 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(part: int, whole: int) -> str:
    """Return a share as text, the same everywhere it is printed.

    Examples
    --------
    >>> percent(531, 569), percent(0, 0)
    ('93.32 %', 'n/a')
    """
    return f"{100 * part / whole:.2f} %" if whole else "n/a"


def percent_at_most(bound: float) -> str:
    """Return an upper bound as text, rounded up.

    Examples
    --------
    >>> percent_at_most(0.03), percent_at_most(0.021301), percent_at_most(0.0000123456)
    ('3 %', '2.14 %', '0.00124 %')
    """
    return _format_rounded(bound, ROUND_CEILING)


def percent_at_least(bound: float) -> str:
    """Return a lower bound as text, rounded down.

    Examples
    --------
    >>> percent_at_least(0.95), percent_at_least(0.78999), percent_at_least(0.0)
    ('95 %', '78.9 %', '0 %')
    """
    return _format_rounded(bound, ROUND_FLOOR)


def round_up(number: float) -> str:
    """Return an upper bound as a plain number, rounded up to six digits.

    Examples
    --------
    >>> round_up(2.0), round_up(12.34567891), round_up(0.0)
    ('2', '12.3457', '0')
    """
    return f"{Context(prec=6, rounding=ROUND_CEILING).create_decimal(Decimal(repr(number))).normalize():f}"


def _format_rounded(share: float, rounding: str) -> str:
    # In decimal digits, as the number is written: in binary ones, 0.07 * 100 is above 7 and would be rounded up to 7.01.
    rounded = Context(prec=3, rounding=rounding).create_decimal(Decimal(repr(share)) * 100)
    return f"{rounded.normalize():f} %"
