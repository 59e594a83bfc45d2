"""Cheap text from HTML, in time that grows with its length alone; `page` has a real parser for those who need to know more."""

from __future__ import annotations

import html
import re
from typing import Final

__all__ = ["strip_tags"]

# No bracket within: where tags never end, each look stops at the next one, and the whole stays linear.
_TAG: Final = re.compile(r"<[^<>]*>")
_UNREAD: Final = re.compile(r"<(style|script)\b", re.IGNORECASE)


def strip_tags(text: str) -> str:
    """Return what is left of HTML when tags, styles and scripts are cut out.

    Examples
    --------
    >>> strip_tags("<p>Fish &amp; <b>chips</b><style>p {}</style> today")
    ' Fish &  chips   today'
    """
    return html.unescape(_TAG.sub(" ", _remove_invisible(text)))


def _remove_invisible(text: str) -> str:
    kept: list[str] = []
    at = 0
    lowered = ""
    while found := _UNREAD.search(text, at):
        lowered = lowered or text.lower()
        kept.append(text[at : found.start()])
        end = lowered.find("</" + found[1].lower(), found.end())
        if end < 0:
            return "".join(kept)
        at = end
    kept.append(text[at:])
    return "".join(kept)
