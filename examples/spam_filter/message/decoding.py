"""From bytes to text, whatever the bytes are: nothing here raises."""

from __future__ import annotations

import binascii
import codecs
import quopri
import re
from functools import lru_cache
from typing import Final

__all__ = ["decode_text", "decode_transfer", "decode_words", "is_charset_readable"]

# These are codecs of Python, but no mail is written in them, and some take time that grows with the square of the length.
_EXCLUDED_CODECS: Final = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"})
# Codecs in which bytes that look like ASCII may be something else.
_NOT_ASCII: Final = ("utf-16", "utf-32", "utf_16", "utf_32", "iso2022", "hz")
# Other names of two bytes for each letter, which Python does not know.
_TWO_BYTES: Final = frozenset({"ucs-2", "iso-10646-ucs-2", "csunicode", "unicode"})
_BYTE_ORDERS: Final = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LOOKED_AT: Final = 1_000
_NO_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]+")
_NOT_IN_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/=\s]")
# Lines of it, and not single words or a link in a footer.
_RUN_LINE: Final = re.compile(rb"^[^\w\s+/]{0,5}+([A-Za-z0-9+/]{4,}+)=*+[^\w\s]{0,5}+[ \t\r]*+$", re.MULTILINE)
_LEAST_RUN: Final = 60
_PADDING: Final = re.compile(rb"=+")
_SOFT_BREAK: Final = re.compile(rb"=[ \t]{1,200}(?=\r?\n)")
_ENCODED_WORD: Final = re.compile(r"=\?([A-Za-z0-9_.:+-]{1,40})(?:\*[^?]{0,20})?\?([bBqQ])\?([^?\s]{0,300})\?=")
_BETWEEN_WORDS: Final = re.compile(r"(\?=)\s{1,20}(?==\?)")


def decode_text(content: bytes, charset: str = "") -> str:
    r"""Return bytes as text: in their charset if that is known and fits, else as UTF-8, else as Latin-1, which fits anything.

    Parameters
    ----------
    content
        Any bytes.
    charset
        As the message says; may be empty, unknown or wrong.

    Examples
    --------
    >>> decode_text(b"caf\xc3\xa9"), decode_text(b"caf\xe9", "utf-8"), decode_text(b"caf\xe9", "no-such-charset")
    ('café', 'café', 'café')
    """
    codec = _two_byte_codec(content, charset.lower()) or _python_codec(charset.lower())
    if content.isascii() and not codec.startswith(_NOT_ASCII):
        return content.decode("ascii")
    if codec.startswith(_NOT_ASCII):
        # Read as another charset, one bad letter would make all others unreadable.
        return content.decode(codec, "replace").removeprefix("\ufeff")
    for name in (codec, "utf-8"):
        if name:
            try:
                return content.decode(name)
            except (UnicodeError, ValueError):
                continue
    return content.decode("latin-1")


def is_charset_readable(charset: str) -> bool:
    """Return whether text in a charset is read; under the names of UTF-7 other letters are read than mail programs show."""
    try:
        return not charset.isascii() or "\0" in charset or codecs.lookup(charset).name != "utf-7"
    except LookupError:
        return "utf-7" not in charset.lower()


def _two_byte_codec(content: bytes, charset: str) -> str:
    """Return the codec of text with two bytes for each letter, whatever the message says; an empty one for other text."""
    if _python_codec(charset).startswith(("utf-32", "utf_32")):
        return ""
    for mark, codec in _BYTE_ORDERS:
        if content.startswith(mark):
            return codec
    shown = content[:_LOOKED_AT]
    zeros = shown.count(0)
    if zeros > len(shown) // 4:
        return "utf-16-be" if shown[::2].count(0) > zeros / 2 else "utf-16-le"
    return "utf-16-le" if charset in _TWO_BYTES or _python_codec(charset) == "utf-16" else ""


@lru_cache(maxsize=256)
def _python_codec(charset: str) -> str:
    """Return the name under which Python decodes a charset; an empty one for a charset that it does not know."""
    try:
        name = codecs.lookup(charset).name if charset and charset.isascii() and "\0" not in charset else ""
    except LookupError:
        return ""
    if name in _EXCLUDED_CODECS:
        return ""
    try:
        b"a".decode(name)
    except UnicodeError:
        # A charset of two bytes or more for each letter.
        return name
    except LookupError:
        # Python also keeps codecs that make no text, such as "hex".
        return ""
    return name


def decode_transfer(content: bytes, encoding: str) -> bytes:
    r"""Undo a Content-Transfer-Encoding; what is broken or unknown is not changed.

    Parameters
    ----------
    content
        The body of a part.
    encoding
        The value of the header field, in lower case.

    Examples
    --------
    >>> decode_transfer(b"aGVs\nbG8", "base64"), decode_transfer(b"a=3Db", "quoted-printable"), decode_transfer(b"x", "none")
    (b'hello', b'a=b', b'x')
    """
    if encoding == "base64":
        first, padding, rest = content.partition(b"=")
        # What follows the padding may be plain, such as the footer of a mailing list, or another run, which mail programs read.
        is_footer = _NOT_IN_BASE64.search(rest) is not None and sum(map(len, _RUN_LINE.findall(rest))) < _LEAST_RUN
        runs = [first, *_PADDING.split(rest)] if padding and not is_footer else [first]
        return b"".join(map(_decode_run, runs))
    if encoding == "quoted-printable":
        # Spaces at the end of a line are not part of it.
        return quopri.decodestring(_SOFT_BREAK.sub(b"=", content))
    return content


def _decode_run(run: bytes) -> bytes:
    letters = _NO_BASE64.sub(b"", run)
    # One letter too many says nothing; two or three are the end of a text whose padding was lost.
    letters = letters[: len(letters) - 1] if len(letters) % 4 == 1 else letters
    return binascii.a2b_base64(letters + b"=" * (-len(letters) % 4))


def decode_words(value: str) -> str:
    """Return a header value with its encoded words decoded (RFC 2047); broken ones stay as they are.

    Examples
    --------
    >>> decode_words("=?iso-8859-1?Q?caf=E9_au?= =?utf-8?b?IGxhaXQ=?="), decode_words("plain =?broken")
    ('café au lait', 'plain =?broken')
    """
    if "=?" not in value:
        return value
    return _ENCODED_WORD.sub(_decode_word, _BETWEEN_WORDS.sub(r"\1", value))


def _decode_word(found: re.Match[str]) -> str:
    charset, encoding, text = found.groups()
    content = text.encode("utf-8", "replace")
    if encoding in "bB":
        return decode_text(decode_transfer(content, "base64"), charset)
    return decode_text(quopri.decodestring(content, header=True), charset)
