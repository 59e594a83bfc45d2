"""The words of a text, as the token store knows them.

What mailing-list software adds is left out: the tag in the subject and the footer. It shows how a message arrived, and a
filter that learns it has learnt which lists its owner reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final

__all__ = ["remove_footer", "remove_list_tag", "unique_words", "word_pairs"]

_WORD: Final = re.compile(r"\$+[0-9.,]{0,12}|[^\W\d_][\w'-]{1,19}!?")
_TAG: Final = re.compile(r"\[[^\[\]]{1,40}\]\s{0,5}")
_RULE: Final = re.compile(r"^[ \t]{0,4}[_=-]{20,120}[ \t\r]{0,4}$", re.MULTILINE)
_FOOTER_CHARACTERS: Final = 700


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


def word_pairs(text: str, most: int) -> list[str]:
    """Return the different pairs of neighbouring words, joined by a blank.

    Examples
    --------
    >>> word_pairs("click here to click here", 10)
    ['click here', 'here to', 'to click']
    """
    found = dict.fromkeys(f"{one} {two}" for one, two in pairwise(_all_words(text, 2 * most)))
    return list(islice(found, most))


def _all_words(text: str, most: int) -> Iterator[str]:
    return (match[0].lower() for match in islice(_WORD.finditer(text), most))


def remove_list_tag(subject: str) -> str:
    """Return a subject without the tag in brackets of a mailing list.

    Examples
    --------
    >>> remove_list_tag("Re: [gardeners] roses")
    'Re: roses'
    """
    return _TAG.sub("", subject, count=2)


def remove_footer(text: str) -> str:
    """Return a text without the lines after a long rule near its end.

    Examples
    --------
    >>> remove_footer("See you there." + chr(10) + "_" * 40 + chr(10) + "gardeners mailing list")
    'See you there.'
    """
    tail = max(0, len(text) - _FOOTER_CHARACTERS)
    found = _RULE.search(text, tail)
    return text[: found.start()].rstrip() if found else text
