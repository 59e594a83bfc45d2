r"""The address in MAIL FROM and RCPT TO, exactly as it was given.

aiosmtpd reads it with Python's parser of header lines, which unquotes local parts and decodes encoded words: mail for
``=?utf-8?q?a?=@x.org`` would go to ``a@x.org``. A filter passes on what it was given.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["NOBODY", "read_path"]

# aiosmtpd's word for the empty sender of a bounce: an address that is false would be a syntax error to it.
NOBODY: Final = "<>"
_PATH: Final = re.compile(r'<((?:"(?:[^"\\]|\\.)*"|[^\s<>"])*)>(?:\s+(.*))?', re.DOTALL)


def read_path(text: str) -> tuple[str, str] | tuple[None, None]:
    r"""Return the address between the brackets, unchanged, and the parameters after it; None for anything else.

    Parameters
    ----------
    text
        What follows ``FROM:`` or ``TO:``.

    Examples
    --------
    >>> read_path("<a@x.org> SIZE=10"), read_path('<"a b"@x.org>'), read_path("<>")
    (('a@x.org', 'SIZE=10'), ('"a b"@x.org', ''), ('<>', ''))
    >>> read_path("a@x.org"), read_path("<a@x.org>nonsense"), read_path("<a b@x.org>")
    ((None, None), (None, None), (None, None))
    """
    found = _PATH.fullmatch(text.strip())
    if found is None:
        return None, None
    return found[1] or NOBODY, found[2] or ""
