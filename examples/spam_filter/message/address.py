"""Addresses and dates in header fields that may hold anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from spam_filter.message.decoding import decode_words

__all__ = ["NOBODY", "Address", "close_up", "parse_date", "read_address", "read_addresses", "read_mailbox", "registered_domain"]

# Python's own reader of addresses goes into recursion for nested comments; this one takes what looks like an address.
_ADDRESS: Final = re.compile(r'("(?:[^"\\]|\\.){1,128}"|[^\s<>@,;:"()\[\]]{1,64})@([^\s<>@,;:"()\[\]]{1,255})')
_VALUE_CHARACTERS: Final = 4_000
# Blanks around these mean nothing within an address.
_AROUND_AT: Final = re.compile(r" ?@ ?")
_AROUND_DOT: Final = re.compile(r" ?\. ?")
# Public suffixes of two labels that are common enough to matter; a wrong guess merges or divides reputations, nothing worse.
_SECOND_LEVEL: Final = frozenset({"ac", "co", "com", "edu", "gov", "net", "ne", "or", "org"})


@dataclass(frozen=True, slots=True)
class Address:
    """One address.

    Parameters
    ----------
    name
        The display name before it.
    local, host
        Its two halves, in lower case; empty where there is no address.
    """

    name: str
    local: str
    host: str

    @property
    def domain(self) -> str:
        """The domain that somebody registered."""
        return registered_domain(self.host)

    def __str__(self) -> str:
        """Return the address alone."""
        return f"{self.local}@{self.host}" if self.host else ""


NOBODY: Final = Address("", "", "")


def read_addresses(value: str, most: int = 50) -> list[Address]:
    """Return the addresses in a header value.

    Examples
    --------
    >>> [str(one) for one in read_addresses('"B, A" <a@x.org>, C@Y.example, <"joe"@x.org>')]
    ['a@x.org', 'c@y.example', 'joe@x.org']
    """
    found: list[Address] = []
    end = 0
    for match in _ADDRESS.finditer(value[:_VALUE_CHARACTERS]):
        name = value[end : match.start()].strip(' ",<>;')
        found.append(Address(name, _unquote(match[1]).lower(), match[2].lower().rstrip(".")))
        end = match.end()
        if len(found) >= most:
            break
    return found


def _unquote(local: str) -> str:
    return re.sub(r"\\(.)", r"\1", local[1:-1]) if local.startswith('"') else local


def close_up(value: str) -> str:
    """Return a header value without what means nothing in an address: comments, quoted names, blanks around @.

    Examples
    --------
    >>> close_up('"Joe, B." <joe @ (at (work)) x.org>'), close_up('"joe"@x.org')
    ('<joe@x.org>', '"joe"@x.org')
    """
    pieces: list[str] = []
    for piece in _pieces(value):
        # What was quoted before an @ is the first half of an address; other quoted text is a name.
        if pieces and pieces[-1].startswith('"') and piece != " " and not piece.startswith("@"):
            pieces[-1] = " "
        if piece != " " or (pieces and pieces[-1] != " " and not pieces[-1].startswith('"')):
            pieces.append(piece)
    if pieces and pieces[-1].startswith('"'):
        pieces.pop()
    return _AROUND_AT.sub("@", "".join(pieces)).strip()


def _pieces(value: str) -> Iterator[str]:
    """Yield quoted strings, one blank for blanks and for a comment, and what is between them; in time linear in the length."""
    at, start = 0, 0
    may_quote = may_comment = True
    while at < len(value):
        character = value[at]
        end = at + 1
        if character == '"' and may_quote:
            end = _quote_end(value, at)
            may_quote = end > at
        elif character == "(" and may_comment:
            end = _comment_end(value, at)
            may_comment = end > at
        elif not character.isspace():
            # @ begins a piece, so that what is quoted before it is known.
            if character == "@" and at > start:
                yield value[start:at]
                start = at
            at += 1
            continue
        if end <= at:
            # It has no end, nor has any after it.
            at += 1
            continue
        if at > start:
            yield value[start:at]
        yield value[at:end] if character == '"' else " "
        at = start = end
    if at > start:
        yield value[start:at]


def _quote_end(value: str, at: int) -> int:
    """Return where a quoted string ends; 0 if it does not."""
    end = at + 1
    while end < len(value) and value[end] != '"':
        end += 2 if value[end] == "\\" else 1
    return end + 1 if end < len(value) else 0


def _comment_end(value: str, at: int) -> int:
    """Return where a comment ends, with those within it; 0 if it does not."""
    depth = 0
    end = at
    while end < len(value):
        depth += {"(": 1, ")": -1}.get(value[end], 0)
        end += 2 if value[end] == "\\" else 1
        if not depth:
            return end
    return 0


def read_address(value: str) -> Address:
    """Return the first address in a header value, or `NOBODY`."""
    found = read_addresses(value, 1)
    return found[0] if found else NOBODY


def read_mailbox(value: str) -> Address:
    """Return the sender in a From field: the address that mail programs reply to, with its name decoded; or `NOBODY`.

    Examples
    --------
    >>> read_mailbox('"ceo@bank.example" <a@x.org>'), read_mailbox("=?utf-8?q?b=40y.example?= <a@x.org>").host
    (Address(name='ceo@bank.example', local='a', host='x.org'), 'x.org')
    >>> str(read_mailbox('"joe" @ x.org')), str(read_mailbox('"a@y.example" <"j o"@x.org>'))
    ('joe@x.org', 'j o@x.org')
    """
    bare = close_up(value[:_VALUE_CHARACTERS])
    # What is in angle brackets comes before what only looks like an address.
    start = bare.find("<")
    within = _AROUND_DOT.sub(".", bare[start:]) if start >= 0 else _AROUND_DOT.sub(".", bare)
    found = next(
        (address for text in (within, bare, decode_words(value)) if (address := read_address(text)) is not NOBODY), NOBODY
    )
    if found is NOBODY:
        return NOBODY
    # Where it is written in another form, its name is what stands before the bracket.
    end = max(value.lower().rfind(str(found)), value.rfind("<") if str(found) not in value.lower() else 0)
    return replace(found, name=decode_words(value[: max(end, 0)]).strip(' ",<>;'))


def registered_domain(host: str) -> str:
    """Return the part of a host name that somebody registered, by a rule of thumb.

    Examples
    --------
    >>> registered_domain("mail.news.example.org"), registered_domain("www.shop.co.uk"), registered_domain("10.0.0.1")
    ('example.org', 'shop.co.uk', '10.0.0.1')
    """
    labels = host.rstrip(".").split(".")
    if len(labels) <= 2 or labels[-1].isdigit():
        return host
    keep = 3 if len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL else 2
    return ".".join(labels[-keep:])


def parse_date(value: str) -> datetime | None:
    """Return a date as mail writes it, in UTC; None for anything else.

    Examples
    --------
    >>> parse_date("Fri, 6 Sep 2002 11:38:05 +0100 (IST)").isoformat(), parse_date("yesterday")
    ('2002-09-06T10:38:05+00:00', None)
    """
    try:
        moment = parsedate_to_datetime(value[:100])
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
