"""`Mail`: one message, parsed only as far as it is needed.

Parsing never raises, whatever the bytes are. Each property is worked out when it is first used, and kept: the first stage of the
cascade reads the header alone, and a message that is decided there never has its parts decoded. Two threads that ask at the same
time may both do the work, and get the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from typing import Final, Literal

from spam_filter.message.address import NOBODY, Address, close_up, parse_date, read_address, read_addresses, read_mailbox
from spam_filter.message.decoding import decode_words
from spam_filter.message.disguise import PlainWords, undo_disguise
from spam_filter.message.header_block import HeaderBlock, read_header
from spam_filter.message.lazy_property import lazy_property
from spam_filter.message.limits import (
    HEADER_BYTES,
    HEADER_FIELDS,
    KNOWN_CHARACTERS,
    LINKS,
    SUBJECT_CHARACTERS,
    TEXT_CHARACTERS,
)
from spam_filter.message.markup import PageText, split_page
from spam_filter.message.mime import MimeParts, Part, split_parts
from spam_filter.message.words import remove_list_tag, split_footer

__all__ = ["Envelope", "Mail"]

_LINK: Final = re.compile(r"://([^\s\"'<>()]{1,300})")


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the SMTP conversation said.

    Parameters
    ----------
    sender
        MAIL FROM; empty for a bounce.
    recipients
        RCPT TO.
    peer
        Address of the client.
    helo
        How the client called itself.
    """

    sender: str
    recipients: tuple[str, ...]
    peer: str
    helo: str = ""


class Mail:
    r"""One message.

    Parameters
    ----------
    raw
        Its bytes.
    envelope
        None where it was found on a disk.

    Examples
    --------
    >>> mail = Mail.parse(b"From: A <a@x.org>\nSubject: =?utf-8?q?caf=C3=A9?=\n\nSee http://x.org/menu")
    >>> mail.subject, mail.sender.host, mail.text, mail.links
    ('café', 'x.org', 'See http://x.org/menu', ('x.org/menu',))
    >>> Mail.parse(bytes(range(256))).subject
    ''
    """

    def __init__(self, raw: bytes, envelope: Envelope | None = None) -> None:
        self.raw = raw
        self.envelope = envelope

    @classmethod
    def parse(cls, raw: bytes, envelope: Envelope | None = None) -> Mail:
        """Return the message that some bytes are; never raises."""
        return cls(raw, envelope)

    @lazy_property
    def headers(self) -> HeaderBlock:
        """The header fields."""
        return read_header(self.raw)

    @lazy_property
    def subject(self) -> str:
        """The subject, decoded, without the tag of a mailing list."""
        return remove_list_tag(decode_words(self.headers.get("subject")[: 4 * SUBJECT_CHARACTERS]))[:SUBJECT_CHARACTERS]

    @lazy_property
    def sender(self) -> Address:
        """The address in From, with its name decoded; else that of the envelope."""
        found = read_mailbox(self.headers.get("from")[:2000])
        if found is NOBODY and self.envelope is not None:
            return read_address(self.envelope.sender)
        return found

    @lazy_property
    def claimed_senders(self) -> tuple[Address, ...]:
        """Everything that looks like an address in From, in names and in further From fields, too."""
        return tuple(read_addresses(",".join(close_up(decode_words(value[:2000])) for value in self.headers.all("from"))))

    @lazy_property
    def reply_to(self) -> Address:
        """The address in Reply-To, or an empty one."""
        return read_address(self.headers.get("reply-to"))

    @lazy_property
    def recipients(self) -> tuple[Address, ...]:
        """The addresses in To and Cc."""
        return tuple(read_addresses(f"{self.headers.get('to')},{self.headers.get('cc')}"))

    @lazy_property
    def date(self) -> datetime | None:
        """When it was written, as the sender says; None if there is no valid date."""
        return parse_date(self.headers.get("date"))

    @lazy_property
    def received(self) -> tuple[str, ...]:
        """The Received fields, the latest first."""
        return tuple(self.headers.all("received"))

    @lazy_property
    def mime(self) -> MimeParts:
        """Its parts, as far as they are read."""
        return split_parts(self.raw, self.headers)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The leaves of its MIME tree."""
        return self.mime.leaves

    @lazy_property
    def _plain_parts(self) -> str:
        return self._join_parts("plain")[:TEXT_CHARACTERS]

    @lazy_property
    def _plain_and_footer(self) -> tuple[str, str]:
        return split_footer(self._plain_parts)

    @property
    def plain(self) -> str:
        """The text of its plain parts, without the footer of a mailing list."""
        return self._plain_and_footer[0]

    @lazy_property
    def footer(self) -> str:
        """What follows a long rule at the end of its plain parts, with its words out of disguise: anyone can write one."""
        return undo_disguise(self._plain_and_footer[1]).text

    @lazy_property
    def html(self) -> str:
        """The source of its HTML parts."""
        return self._join_parts("html")[:TEXT_CHARACTERS]

    def _join_parts(self, reads_as: Literal["html", "plain"]) -> str:
        return "\n".join(part.text() for part in self.parts if part.reads_as == reads_as)

    @lazy_property
    def page(self) -> PageText:
        """The text of its HTML parts."""
        return split_page(self.html)

    @lazy_property
    def text(self) -> str:
        """What a reader could read: plain text and stripped HTML; what the HTML hides, and its attributes, come last."""
        if not self.html:
            return self.plain
        return f"{self.plain}\n{self.page.visible}\n{self.page.hidden}\n{self.page.attributes}"[:TEXT_CHARACTERS]

    @lazy_property
    def is_read_whole(self) -> bool:
        """Whether nothing that a reader may see was left out by a limit, or is in a text so long that it is only sampled."""
        is_header_whole = len(self.headers.fields) < HEADER_FIELDS and self.headers.body < HEADER_BYTES
        is_source_whole = len(self._plain_parts) < TEXT_CHARACTERS and len(self.html) < TEXT_CHARACTERS
        # With several senders or subjects, mail programs differ in which they show.
        is_header_clear = all(len(set(self.headers.all(name))) <= 1 for name in ("from", "subject"))
        is_text_known = len(self.text) < KNOWN_CHARACTERS
        return is_header_whole and is_header_clear and is_source_whole and is_text_known and self.mime.complete

    @lazy_property
    def words(self) -> PlainWords:
        """The text with its words out of disguise, as the stores know them."""
        return undo_disguise(self.text)

    @lazy_property
    def links(self) -> tuple[str, ...]:
        """What its links point at, without the scheme."""
        # Characters of an address may be written as entities.
        return _find_links(self.plain, unescape(self.html) if "&#" in self.html else self.html)

    @lazy_property
    def footer_links(self) -> tuple[str, ...]:
        """What the links of its footer point at."""
        return _find_links(self._plain_and_footer[1])

    def decode_parts(self) -> Mail:
        """Split and decode everything now, and return the message itself: so that what follows can be measured alone."""
        for _ in (self.subject, self.sender, self.reply_to, self.recipients, self.received, self.date, self.words, self.links):
            pass
        return self


def _find_links(*sources: str) -> tuple[str, ...]:
    return tuple(match[1] for source in sources for match in _LINK.finditer(source))[:LINKS]
