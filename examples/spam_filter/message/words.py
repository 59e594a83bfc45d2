"""The words of a text, as the token store knows them.

What mailing-list software adds is set apart: the tag in the subject and the footer. It shows how a message arrived, and a filter
that learns it has learned which lists its owner reads. What stands where a footer would be may speak for spam, never for ham.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from spam_filter.message.limits import KNOWN_CHARACTERS, SAMPLE_SPACING

__all__ = ["COMMON_WORDS", "remove_list_tag", "sample_windows", "split_footer", "unique_words", "word_chunks"]

COMMON_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "a about all an and any are as at be been but by can could do for from had has have he her him his how i if in into is "
        "it its just like me more my no not of on one only or other our out she so some than that the their them then there "
        "these they this time to up was we were what when which who will with would you your",
    )
)
"""Words that every English text is full of."""
_WORD: Final = re.compile(r"\$+[0-9.,]{0,12}|[^\W\d_][\w'-]{1,19}!?")
# Short words are mostly common ones, and say little.
_LONGER_WORD: Final = re.compile(r"\$+[0-9.,]{1,12}|[^\W\d_][\w'-]{3,19}!?")
_SPACE: Final = re.compile(r"\s")
_TAG: Final = re.compile(r"\[[^\[\]]{1,40}\]\s{0,5}")
_RULE: Final = re.compile(r"^[ \t]{0,4}[_=-]{20,120}[ \t\r]{0,4}$", re.MULTILINE)
_FOOTER_CHARACTERS: Final = 700
# From one longer word to the next.
_WORD_CHARACTERS: Final = 11


def unique_words(text: str, most: int) -> list[str]:
    """Return the different words of a text in the order of their first occurrence, in lower case.

    Parameters
    ----------
    text
        Any text.
    most
        How many at most.

    Examples
    --------
    >>> unique_words("Free money! FREE, only $99.95 and it's yours", 10)
    ['free', 'money!', 'only', '$99.95', 'and', "it's", 'yours']
    """
    found: dict[str, None] = {}
    # Four times as many words as wanted: a text that repeats itself for ever must end, too.
    for match in islice(_WORD.finditer(text), 4 * most):
        found[match[0].lower()] = None
        if len(found) >= most:
            break
    return list(found)


def word_chunks(text: str, chunks: int, words: int) -> list[list[str]]:
    """Return runs of words, one after the other, in lower case; of a long text as many as are asked for, evenly spread.

    Parameters
    ----------
    text
        Any text.
    chunks
        How many at most.
    words
        Words of a run.

    Examples
    --------
    >>> word_chunks("Click here to click here", 3, 2)
    [['click', 'here'], ['to', 'click'], ['here']]
    """
    found = _WORD.findall(text)
    starts: Sequence[int] = range(0, len(found), words)
    if len(starts) > chunks:
        starts = [starts[place * (len(starts) - 1) // max(1, chunks - 1)] for place in range(chunks)]
    return [[word.lower() for word in found[start : start + words]] for start in starts]


def sample_windows(text: str, windows: int, words: int) -> list[list[str]]:
    """Return a few longer words at each of several places, spread evenly over a text from its beginning to its end.

    Other text before, behind or between cannot push the rest out of all of them.

    Parameters
    ----------
    text
        Any text.
    windows
        How many places at most; a short text has fewer, and a long one has one in every `SAMPLE_SPACING` characters.
    words
        Words at each place, in lower case; common ones are left out.

    Examples
    --------
    >>> sample_windows("one two three four five and then six seven eight nine with eleven twelve", 2, 3)
    [['three', 'four', 'five'], ['eight', 'nine', 'eleven']]
    """
    width = words * _WORD_CHARACTERS
    count = max(1, min(windows, len(text) // width), min(len(text), KNOWN_CHARACTERS) // SAMPLE_SPACING)
    last = max(0, len(text) - width)
    found: list[list[str]] = []
    for place in range(count):
        start = last * place // max(1, count - 1)
        if start:
            # Not in the middle of a word.
            space = _SPACE.search(text, start - 1, start + 30)
            start += 0 if space is None else space.start() - (start - 1)
        run: list[str] = []
        for match in _LONGER_WORD.finditer(text, start, start + 4 * width):
            word = match[0].lower()
            if word not in COMMON_WORDS:
                run.append(word)
                if len(run) == words:
                    break
        if run:
            found.append(run)
    return found


def remove_list_tag(subject: str) -> str:
    """Return a subject without the tag in brackets of a mailing list.

    Examples
    --------
    >>> remove_list_tag("Re: [gardeners] roses")
    'Re: roses'
    """
    return _TAG.sub("", subject, count=2)


def split_footer(text: str) -> tuple[str, str]:
    """Return a text without the lines after a long rule near its end, and these lines.

    Examples
    --------
    >>> split_footer("See you there." + chr(10) + "_" * 40 + chr(10) + "gardeners mailing list")
    ('See you there.', 'gardeners mailing list')
    """
    tail = max(0, len(text) - _FOOTER_CHARACTERS)
    found = _RULE.search(text, tail)
    return (text[: found.start()].rstrip(), text[found.end() :].strip()) if found else (text, "")
