"""Cheap text from HTML, in time that grows with its length alone; `page` has a real parser for those who need to know more.

As a reader sees it: tags within a line leave no gap, so that a word cut in pieces by them is whole again, and comments are gone.
Text that is hidden by a style is kept apart, and kept: where a pattern is wrong about what a reader sees, nothing is lost. So is
what only some mail programs show: conditional comments, and text that a style sheet writes.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["PageText", "split_page", "strip_tags"]

# No bracket within: where tags never end, each look stops at the next one, and the whole stays linear.
_TAG: Final = re.compile(r"<(?:(/?)([a-zA-Z][a-zA-Z0-9]{0,15})|[!?/])([^<>]*)>")
# Code, and text in which no comment begins: all of it up to the end tag is one piece.
_CODE: Final = ("style", "script")
_RAW: Final = (*_CODE, "title", "textarea", "xmp", "iframe", "noembed", "noframes")
_END_TAGS: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _RAW}
# What a browser passes over; what begins first counts, since one may be written within the other. Whole tags come last, many at a
# time, so that what looks like a beginning within the quotes of an attribute is none. Bounded, and without going back.
_UNREAD: Final = re.compile(
    rf"<!--(\[if)?|<({'|'.join(_RAW)})(?=[\s/>])"
    rf"|(?:<(?!(?:{'|'.join(_RAW)})[\s/>])[a-z/][^<>\"']*+"
    r"(?:(?:\"[^\"]{0,1000}+\"|'[^']{0,1000}+')[^<>\"']*+)*+>[^<]*+)++",
    re.IGNORECASE,
)
# Text that a style sheet writes.
_WRITTEN: Final = re.compile(r"content\s{0,9}:\s{0,9}(?:\"([^\"]{1,500})|'([^']{1,500}))", re.IGNORECASE)
_COMMENT_END: Final = re.compile(r"--!?>")
_HIDING: Final = re.compile(
    r"display:none|visibility:hidden|visibility:collapse|font-size:0*[01]?(?:\.\d+)?(?:px|pt|em|rem|%)?(?:[;\"'!]|$)"
    r"|opacity:0*(?:\.0\d*)?(?:[;\"'!]|$)|mso-hide:all|(?:^|[;\"'])(?:max-)?height:0(?:px|pt|em)?(?:[;\"'!]|$)|text-indent:-\d{3}"
)
_HIDDEN_ATTRIBUTE: Final = re.compile(r"\shidden(?:[\s=/]|$)|\ssize=[\"']?(?:0|-[2-9])", re.IGNORECASE)
_MOST_STYLE: Final = 400
_SHOWN: Final = re.compile(
    # The first letter alone, before all words are tried: a third quicker.
    r"[\s/](?=[avpls])(?:alt|value|placeholder|label|srcdoc)\s{0,3}=\s{0,3}(?:\"([^\"]+)|'([^']+)|([^\s\"'<>]+))",
    re.IGNORECASE,
)
# Tags that end a word: a browser begins a new line or a new box there.
_GAPS: Final = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote body br button caption center dd dir div dl dt fieldset figure footer form frame "
        "frameset h1 h2 h3 h4 h5 h6 head header hr html iframe img input legend li main map menu nav object ol optgroup "
        "option p pre section select table tbody td textarea tfoot th thead title tr ul",
    )
)
# Tags that have no end, so that nothing is within them.
_EMPTY: Final = frozenset(re.findall(r"\w+", "area base br col embed hr img input link meta param source track wbr"))


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page.

    Parameters
    ----------
    visible
        What a reader is likely to see.
    hidden
        What a style hides.
    attributes
        Text in attributes that is shown: instead of a picture, on a button, in a frame.
    """

    visible: str
    hidden: str
    attributes: str = ""


def split_page(source: str) -> PageText:
    """Return the text of HTML without tags, comments, styles and scripts; what a style hides is apart.

    Examples
    --------
    >>> split_page("<p>Fish &amp; ch<b></b>i<!-- cut -->ps<style>p {}</style><p style='display: none'>roses</p> today")
    PageText(visible=' Fish & chips   today', hidden=' roses ', attributes='')
    """
    visible: list[str] = []
    hidden: list[str] = []
    target, hider, depth = visible, "", 0
    text, left = _remove_unread(source)
    # All at once: a third quicker than one match after the other.
    pieces = _TAG.split(text)
    target.append(pieces[0])
    for closes, tag, rest, after in zip(pieces[1::4], pieces[2::4], pieces[3::4], pieces[4::4], strict=True):
        name = (tag or "").lower()
        if name in _GAPS:
            target.append(" ")
        if depth:
            # Only tags of the same name are counted: a page that is nested wrongly still ends where its author thought.
            if name == hider:
                depth += -1 if closes else 1
                if not depth:
                    target = visible
                    target.append(" " if name in _GAPS else "")
        elif rest and not closes and name not in _EMPTY and _hides(rest):
            target, hider, depth = hidden, name, 1
            target.append(" ")
        target.append(after)
    # What some readers see, or all where a pattern is wrong about what begins there.
    hidden.append(_TAG.sub(" ", left))
    attributes = html.unescape(" ".join(one[1] or one[2] or one[3] for one in _SHOWN.finditer(text)))
    return PageText(html.unescape("".join(visible)), html.unescape("".join(hidden)), _TAG.sub(_gap, attributes))


def _gap(tag: re.Match[str]) -> str:
    return " " if (tag[2] or "").lower() in _GAPS else ""


def strip_tags(text: str) -> str:
    """Return the text of HTML: what is visible, then what is hidden.

    Examples
    --------
    >>> strip_tags("<p>Fish &amp; <b>chips</b><style>p {}</style> today")
    ' Fish & chips today'
    """
    page = split_page(text)
    return f"{page.visible} {page.hidden}" if page.hidden else page.visible


def _find_end(text: str, name: str, start: int) -> int:
    """Return where the end tag of a name begins, -1 for nowhere; not in a text in lower case, which may be longer."""
    found = _END_TAGS[name].search(text, start)
    return -1 if found is None else found.start()


def _hides(attributes: str) -> bool:
    shown = attributes[:_MOST_STYLE]
    if ":" in shown and _HIDING.search(shown.lower().replace(" ", "")):
        return True
    return _HIDDEN_ATTRIBUTE.search(shown) is not None


def _remove_unread(text: str) -> tuple[str, str]:
    """Return a page without comments, styles and scripts, and what of these a reader may see after all.

    That is the text that a style writes, comments that some mail programs read, and what follows one that does not end.
    """
    kept: list[str] = []
    seen: list[str] = []
    at = 0
    endless: set[str] = set()
    in_tag = False
    while found := _UNREAD.search(text, at):
        start, name = found.start(), (found[2] or "").lower()
        kept.append(text[at:start])
        opened, closed = text.rfind("<", at, start), text.rfind(">", at, start)
        # Within a tag it is part of an attribute.
        in_tag = opened > closed or (in_tag and closed < 0)
        at = found.end()
        if not name and not found[0].startswith("<!--"):
            in_tag = False
            kept.append(found[0])
        elif in_tag:
            kept.append(found[0])
        elif name in _CODE:
            at = _find_end(text, name, found.end())
            seen += [one[1] or one[2] for one in _WRITTEN.finditer(text, found.end(), max(at, 0))]
        elif name:
            # Nothing in it is a comment.
            end = -1 if name in endless else _find_end(text, name, found.end())
            if end < 0:
                # It has no end further on either: one look is enough.
                endless.add(name)
            at = max(end, found.end())
            kept.append(text[start:at])
        else:
            # Two dashes of the beginning may be those of the end.
            ending = _COMMENT_END.search(text, start + 2)
            at = -1 if ending is None else ending.end()
            if found[1] and ending is not None:
                # Between its condition and the end of that it is a page of its own.
                inner = text[found.end() : ending.start()].partition("]>")[2]
                seen += _remove_unread(inner.removesuffix("<![endif]"))
        if at < 0:
            return "".join(kept), " ".join([*seen, text[found.end() :]])
    kept.append(text[at:])
    return "".join(kept), " ".join(seen)
