r"""The address in MAIL FROM and RCPT TO, exactly as it was given.

Python's parser of header lines would unquote local parts and decode encoded words: mail for ``=?utf-8?q?a?=@x.org`` would go to
``a@x.org``. A filter passes on what it was given.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["address_error", "read_parameters", "read_path"]

_PATH: Final = re.compile(r'<((?:"(?:[^"\\]|\\.)*"|[^\s<>"])*)>(?:\s+(.*))?', re.DOTALL)
_UNSAFE: Final = re.compile(r"[\x00-\x1f<>\x7f]")


def read_path(text: str) -> tuple[str, str] | None:
    r"""Return the address between the brackets, unchanged, and the parameters after it; None for anything else.

    Parameters
    ----------
    text
        What follows ``FROM:`` or ``TO:``.

    Examples
    --------
    >>> read_path("<a@x.org> SIZE=10"), read_path('<"a b"@x.org>'), read_path("<>")
    (('a@x.org', 'SIZE=10'), ('"a b"@x.org', ''), ('', ''))
    >>> read_path("a@x.org"), read_path("<a@x.org>nonsense"), read_path("<a b@x.org>")
    (None, None, None)
    """
    found = _PATH.fullmatch(text.strip())
    return None if found is None else (found[1], found[2] or "")


def read_parameters(text: str) -> dict[str, str] | None:
    """Return the parameters after an address, in upper case; None if they are none.

    Examples
    --------
    >>> read_parameters("size=10 SMTPUTF8"), read_parameters(""), read_parameters("SIZE="), read_parameters("=10")
    ({'SIZE': '10', 'SMTPUTF8': ''}, {}, None, None)
    """
    found: dict[str, str] = {}
    for word in text.upper().split():
        name, equals, value = word.partition("=")
        if not name.isalnum() or (equals and not value):
            return None
        found[name] = value
    return found


def address_error(address: str, *, utf8: bool) -> str | None:
    r"""Return the SMTP reply to an address that cannot be passed on unchanged; None for all others.

    Examples
    --------
    >>> address_error("a@x.org", utf8=False), address_error("jürgen@x.org", utf8=True)
    (None, None)
    >>> address_error("jürgen@x.org", utf8=False), address_error('"a\rRCPT TO:<b>"@x.org', utf8=True)
    ('553 5.6.7 an address that is not ASCII needs SMTPUTF8', '553 5.1.3 the address holds control characters or angle brackets')
    """
    if _UNSAFE.search(address):
        return "553 5.1.3 the address holds control characters or angle brackets"
    try:
        address.encode("utf-8" if utf8 else "ascii")
    except UnicodeEncodeError:
        return "553 5.6.7 the address is not valid UTF-8" if utf8 else "553 5.6.7 an address that is not ASCII needs SMTPUTF8"
    return None
