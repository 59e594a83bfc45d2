"""DKIM (RFC 6376): whose signatures does a message bear? Verified by dkimpy, with our resolver instead of its own.

The sender chooses message, signature and key, and some of the library's steps take time in proportion to the square of what they
are given. So messages and keys beyond the bounds below are not verified: their signatures count as absent.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Final

import dkim

from spam_filter.errors import LookupFailed
from spam_filter.evidence.known_answers import KnownAnswers, evaluate
from spam_filter.evidence.read_in_thread import read_in_thread
from spam_filter.evidence.resolver import Resolver
from spam_filter.message.limits import HEADER_BYTES, HEADER_FIELDS, RAW_BYTES
from spam_filter.message.mail import Mail

__all__ = ["Signatures", "check_signatures"]

_MOST_SIGNATURES: Final = 3
_MOST_SIGNATURE: Final = 4_096
# Of a key record; an RSA key of 4,096 bits takes 740 characters.
_MOST_KEY: Final = 1_024
# The library looks for blanks before a line's end from each blank again.
_MOST_BLANK_STEPS: Final = 10_000_000
_BLANKS: Final = re.compile(rb"[\t ]{2,}")
_SIGNATURE: Final = b"dkim-signature"
# It would write what it thinks of each signature.
_silent = logging.getLogger("spam_filter.dkim")
_silent.setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class Signatures:
    """The signatures of a message.

    Parameters
    ----------
    valid
        Domains whose signature is valid, in order.
    invalid
        How many are not: changed on the way, forged, or without a key.
    """

    valid: tuple[str, ...] = ()
    invalid: int = 0


async def check_signatures(mail: Mail, resolver: Resolver) -> Signatures:
    """Verify the first few signatures of a message."""
    if not await read_in_thread(_is_signed, mail):
        return Signatures()

    def check(known: KnownAnswers) -> Signatures:
        return _verify(mail, known)

    return await evaluate(check, resolver, in_thread=True)


def _is_signed(mail: Mail) -> bool:
    return bool(mail.headers.get("dkim-signature"))


def _verify(mail: Mail, known: KnownAnswers) -> Signatures:
    raw = mail.raw
    if not _is_within_bounds(mail):
        return Signatures()
    try:
        verifier = dkim.DKIM(raw, logger=_silent, minkey=1024)
        count = sum(name.lower() == _SIGNATURE for name, _ in verifier.headers)
        too_long = any(len(value) > _MOST_SIGNATURE for name, value in verifier.headers if name.lower() == _SIGNATURE)
    except Exception:  # noqa: BLE001 - the message is whatever somebody sent
        return Signatures()
    if too_long:
        return Signatures(invalid=1)

    def get_key(name: bytes, timeout: float = 0.0) -> bytes | None:
        del timeout
        found = [text for text in known.get(name.decode("ascii", "replace"), "TXT") if len(text) <= _MOST_KEY]
        return found[0].encode("latin-1") if found else None

    valid: list[str] = []
    invalid = 0
    for place in range(min(count, _MOST_SIGNATURES)):
        try:
            good = verifier.verify(place, dnsfunc=get_key)
        except LookupFailed:
            raise
        except Exception:  # noqa: BLE001 - as above
            good = False
        # A signature of the beginning alone lets anybody add a text of their own.
        if good and b"l" not in verifier.signature_fields:
            valid.append(verifier.domain.decode("ascii", "replace").lower())
        else:
            invalid += 1
    return Signatures(tuple(dict.fromkeys(valid)), invalid)


def _is_within_bounds(mail: Mail) -> bool:
    raw = mail.raw
    header = raw[: mail.headers.body]
    if len(raw) > RAW_BYTES or len(header) >= HEADER_BYTES or header.count(b"\n") > HEADER_FIELDS:
        return False
    steps = 0
    for match in _BLANKS.finditer(raw):
        steps += (match.end() - match.start()) ** 2
        if steps > _MOST_BLANK_STEPS:
            return False
    return True
