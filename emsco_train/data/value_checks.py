"""Columns that a model should probably not learn from, by their values alone: ids, free text, dates, constants, codes."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.support.arrays import Floats
from emsco_runtime.support.formatting import shorten
from emsco_train.data.alike_texts import find_alike
from emsco_train.data.finding import Finding
from emsco_train.support.numbers import is_numeric_text

__all__ = ["check_alike", "check_missing_number", "check_numbers", "check_texts"]

# In fewer rows, different values are no sign of an id.
_MIN_ID_ROWS = 30
# A column of text in which at least this share of the values differ is one of ids, or of free text.
_ID_SHARE = 0.9
# A category needs about this many rows for a model to learn something about it; a few rare ones do no harm.
_MIN_CATEGORY_ROWS, _MAX_RARE_CATEGORIES = 5, 50
# From here on, the columns of a one-hot encoding slow the search down.
_MANY_CATEGORIES = 100
_MIN_FREE_TEXT_WORDS = 3.0
_MIN_DATE_SHARE = 0.9
# Fewer different whole numbers are no codes by their name alone.
_MAX_CODES = 30

# A number that people write where there is none: nines alone, such as -999. It stands in at least this many rows, and in this
# share of them; of fewer other rows, nobody knows how far apart they are. Not -1, which is an ordinary number too often.
_NINES = re.compile(r"-?99+\.0")
_MIN_NINES_ROWS, _MIN_NINES_SHARE, _MIN_OTHER_ROWS = 2, 0.005, 10

# A decimal comma, groups of three digits, a currency or a percent sign: no number for Python's `float`.
_WRITTEN_NUMBER = re.compile(r"[$€£]?\s*[-+]?\d+([ ,.']\d{3})*([.,]\d+)?\s*[%$€£]?")
_DIGIT_GROUP = re.compile(r"\d[ ,']\d{3}(?!\d)")
_MIN_WRITTEN_SHARE = 0.9

# What the index of a data frame is called in a file: that of a sample of its rows is a counter with gaps of any size.
_INDEX_NAME = re.compile(r"(?:unnamed: \d+|index|level_\d+|__index_level_\d+__|row_?names?|)", re.IGNORECASE)
# Words of their own: "userId" and "user_id", but not "paid".
_ID_NAME = re.compile(r"(?i:(^|[_\W])(id|uuid|guid|rowid))$|[a-z](Id|ID)$")
_CODE_NAME = re.compile(r"(?i:(^|[_\W])(zip|zipcode|postcode|code))$|[a-z]Code$")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_TIME = r"([T ]\s*\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?\s*([ap]\.?m\.?)?\s*(z|utc|gmt|[+-]\d{2}:?\d{2})?)?"
_DATE_PATTERNS = tuple(
    re.compile(pattern + _TIME, re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})",
        r"(?P<d>\d{1,2})([-/.])(?P<m>\d{1,2})\2(?P<y>\d{4}|\d{2})",
        rf"(\w{{3,9}},? )?\d{{1,2}}[- ]{_MONTH}[- ,]+\d{{2,4}}",
        rf"(\w{{3,9}},? )?{_MONTH} \d{{1,2}},? \d{{2,4}}",
    )
)


def check_texts(name: str, texts: list[str], min_category: int, *, has_gaps: bool) -> Finding | None:
    """Look at the values of a column of text that are not missing; categories with fewer than `min_category` rows are one."""
    counts = Counter(texts)
    if len(counts) == 1:
        return _constant(name, _example(texts), has_gaps=has_gaps)
    if _are_dates(list(counts)):
        by_time = f", or divide the rows by it with `time_column={name!r}`" if _is_iso_date(texts[0]) else ""
        remedy = f"make it a number, such as days since a date{by_time}"
        return Finding("date", name, f"dates, such as {_example(texts)}", remedy, is_useless=True)
    if min_category > 1:
        counts = Counter({text: rows for text, rows in counts.items() if rows >= min_category})
        if not counts:
            what = f"no category has {min_category:,} rows, such as {_example(texts)}"
            return Finding("id", name, what, "use a smaller `min_category`", is_useless=True)
    rows, different = counts.total(), len(counts)
    if different < _MIN_ID_ROWS or (rows >= _MIN_CATEGORY_ROWS * different and different <= _MANY_CATEGORIES):
        return None
    are_rare = different > _MAX_RARE_CATEGORIES and rows < _MIN_CATEGORY_ROWS * different
    mixed = _check_mixed(name, counts, is_useless=are_rare)
    if mixed is not None:
        return mixed
    if different >= _ID_SHARE * rows or are_rare:
        return _check_rare_values(name, [text for text in texts if text in counts], different)
    if different > _MANY_CATEGORIES:
        what = f"{different:,} categories in {rows:,} rows"
        remedy = (
            "the search is faster if those with few rows are joined, such as by `min_category=20`; "
            f"if rows of one value belong together, such as those of a patient, give `group_column={name!r}`"
        )
        return Finding("many categories", name, what, remedy)
    return None


def check_alike(name: str, texts: list[str]) -> Finding | None:
    """Look for categories that are probably one."""
    alike = find_alike(dict.fromkeys(texts))
    if not alike:
        return None
    shown = "; ".join(", ".join(map(repr, texts)) for texts in alike[:3]) + ("; ..." if len(alike) > 3 else "")
    what = f"categories that differ only in case or blanks: {shown}"
    return Finding("alike", name, what, "if they are one category, spell it one way")


def _check_rare_values(name: str, texts: list[str], different: int) -> Finding:
    keep = f"keep it with `kinds={{{name!r}: 'categorical'}}`"
    if sum(text.count(" ") + 1 for text in texts) >= _MIN_FREE_TEXT_WORDS * len(texts):
        what = f"free text, such as {_example(texts)}"
        return Finding("free text", name, what, f"make numbers or categories of it; {keep}", is_useless=True)
    if different >= _ID_SHARE * len(texts):
        what = f"nearly every value is different, as in an id, such as {_example(texts)}"
        return Finding("id", name, what, keep, is_useless=True)
    what = f"{different:,} categories in {len(texts):,} rows, such as {_example(texts)}: an id, or too fine"
    remedy = f"join rare ones with `min_category=20`; {keep}; keep rows of one id together with `group_column={name!r}`"
    return Finding("id", name, what, remedy, is_useless=True)


def _check_mixed(name: str, counts: Counter[str], *, is_useless: bool) -> Finding | None:
    """Find a column of numbers that was read as categories, because of words in it or of its type."""
    numbers = [text for text in counts if is_numeric_text(text)]
    if len(numbers) < 0.5 * len(counts):
        return _check_written_numbers(name, list(counts), is_useless=is_useless)
    if len(numbers) == len(counts):
        what = f"numbers written as text, such as {_example(numbers)}, so that each of {len(numbers):,} is a category"
        return Finding("mixed", name, what, "make it a column of numbers", is_useless=is_useless)
    words = Counter({text: rows for text, rows in counts.items() if not is_numeric_text(text)})
    # Amounts of which only the large ones have groups of digits: taken as missing, as words may be, these would be lost.
    if all(_DIGIT_GROUP.search(text) for text in words):
        return _check_written_numbers(name, list(counts), is_useless=is_useless)
    if words.total() > 0.5 * counts.total():
        return None
    shown = ", ".join(f"{word!r} ({pluralize(rows, 'row')})" for word, rows in words.most_common(3))
    what = f"numbers with words among them, {shown}, so that each of {len(numbers):,} numbers is a category"
    return Finding(
        "mixed", name, what, "name words that mean a missing value with `missing`, or correct them", is_useless=is_useless
    )


def _check_written_numbers(name: str, texts: list[str], *, is_useless: bool) -> Finding | None:
    written = [text for text in texts if _WRITTEN_NUMBER.fullmatch(text.strip())]
    if len(written) < _MIN_WRITTEN_SHARE * len(texts):
        return None
    # Where plain numbers stand beside them, one that shows how it is written.
    shown = [text for text in written if not is_numeric_text(text)] or written
    what = f"numbers that are written as {_example(shown)}, so that each of {len(written):,} is a category"
    remedy = "write plain numbers, with a decimal point, and without units or groups of digits"
    return Finding("mixed", name, what, remedy, is_useless=is_useless)


def _are_dates(texts: list[str]) -> bool:
    looked_at = texts[:1000]
    return sum(map(_is_date, looked_at)) >= _MIN_DATE_SHARE * len(looked_at)


def _is_date(text: str) -> bool:
    for pattern in _DATE_PATTERNS:
        match = pattern.fullmatch(text.strip())
        if match is not None:
            parts = match.groupdict()
            return not parts or _is_calendar_day(parts["y"], parts["m"], parts["d"])
    return False


def _is_iso_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_calendar_day(year: str, month: str, day: str) -> bool:
    # Whichever of the two is the month: both orders are in use.
    first, second = sorted((int(month), int(day)))
    return 1 <= first <= 12 and second <= 31 and (len(year) == 2 or 1000 <= int(year) <= 2999)


def check_numbers(name: str, present: Floats, table_rows: int, *, has_gaps: bool) -> Finding | None:
    """Look at the values of a column of numbers that are not missing, in a table of `table_rows` rows."""
    if not len(present):
        return Finding("empty", name, "no value in any row", is_useless=True)
    if present.min() == present.max():
        return _constant(name, f"{present[0]:g}", has_gaps=has_gaps)
    if not np.isfinite(present).all():
        # The encoder refuses such a value, and names its row.
        return None
    # A look at a few saves the sorting of most columns.
    if len(present) < _MIN_ID_ROWS or not _are_whole(present[:1000]) or not _are_whole(present):
        return None
    if _are_calendar_days(present):
        remedy = "make it days since a date: as it is, the last day of a month and the next day are far apart"
        return Finding("date", name, f"whole numbers that look like dates, such as {present[0]:.0f}", remedy)
    different, keep = len(np.unique(present)), f"keep it with `kinds={{{name!r}: 'numeric'}}`"
    # As plain floats, whose difference may be infinite without a warning of numpy's.
    is_counter = float(present.max()) - float(present.min()) < 2 * table_rows or _INDEX_NAME.fullmatch(name.strip())
    if different == len(present) and is_counter:
        return Finding("id", name, "a row number or another counter: every value is different", keep, is_useless=True)
    if _ID_NAME.search(name) and different > _MAX_RARE_CATEGORIES:
        what = f"{different:,} different whole numbers in a column named like an id"
        groups = f"; keep rows of one id together with `group_column={name!r}`" if different < len(present) else ""
        return Finding("id", name, what, keep + groups, is_useless=True)
    if _CODE_NAME.search(name) and different > _MAX_CODES:
        what = f"{different:,} different whole numbers in a column named like a code"
        return Finding("codes", name, what, f"if it is one, try `kinds={{{name!r}: 'categorical'}}` with `min_category=20`")
    return None


def check_missing_number(name: str, present: Floats) -> Finding | None:
    """Find a number that may mean "missing", such as -999: farther from all others than these are from each other.

    `present` are the values of a column of numbers that are not missing, at least one.
    """
    for value in (float(present.min()), float(present.max())):
        # The text of a float, so that 99.5 is no 99; most columns have no such end, and cost no more than this.
        if not _NINES.fullmatch(repr(value)):
            continue
        others = present[present != value]
        rows = len(present) - len(others)
        if rows < max(_MIN_NINES_ROWS, _MIN_NINES_SHARE * len(present)) or len(others) < _MIN_OTHER_ROWS:
            continue
        low, high = float(others.min()), float(others.max())
        # Of two different numbers, either may be the ordinary one.
        if low < high and max(low - value, value - high) > high - low:
            what = f"{pluralize(rows, 'row')} are exactly {value:.0f}, far from all others"
            return Finding(
                "missing number", name, what, f"if it means missing, use `missing=('{value:.0f}',)`, with the other words that do"
            )
    return None


def _are_calendar_days(values: Floats) -> bool:
    """Return whether whole numbers are dates written without separators, such as 20240131."""
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    valid = (year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return bool(valid.all())


def _are_whole(values: Floats) -> bool:
    return bool((values == np.floor(values)).all())


def _constant(name: str, value: str, *, has_gaps: bool) -> Finding:
    if has_gaps:
        remedy = "models fill in missing values: if a missing value means something, make it yes or no"
        return Finding("constant", name, f"always {value} where there is a value", remedy, is_useless=True)
    return Finding("constant", name, f"always {value}", is_useless=True)


def _example(texts: list[str]) -> str:
    return shorten(repr(texts[0]), 40)
