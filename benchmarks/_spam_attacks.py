"""Attacks on test spam, to measure with: other code and other choices than the attacked copies that models are trained on.

Whatever is borrowed comes from test ham, which no model has learned from. Messages are edited by Python's email package.
"""

from __future__ import annotations

import email
import email.encoders
import email.policy
import html
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.header import Header
from email.message import Message
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import formataddr

import _spam_sample  # noqa: F401 - puts the example on the path
from spam_filter.learned.clues import link_hosts
from spam_filter.message.address import registered_domain
from spam_filter.message.mail import Mail

__all__ = ["ATTACKS", "LIMITS", "Borrowed"]

TEXT_BYTES = 1500
FREQUENT = 10
LIMITS: Mapping[str, float] = {
    "sender": 0.02,
    "sender and name": 0.02,
    "address at a link's domain": 0.02,
    "text before": 0.05,
    "text behind": 0.05,
    "text hidden": 0.05,
    "words cut by markup": 0.03,
    "words cut by zero width": 0.03,
    "look-alike letters": 0.03,
    "sender and text": 0.04,
    # All of these have ham text that is read easily, and the spam where a mail program finds it.
    "spam in an octet stream": 0.05,
    "spam behind white space": 0.05,
    "spam behind many parts": 0.05,
    "spam behind a false style": 0.05,
    "spam in a part of an unknown kind": 0.05,
    "spam behind a comment within quotes": 0.05,
    "spam in the place of a footer": 0.05,
    # Nothing here is hidden: how much spam a filter by words cannot tell from the ham around it.
    "spam above a quoted thread": 1.0,
    "sender, and spam above a quoted thread": 1.0,
    "a line of spam, a link, ham text": 1.0,
}
_WORD = re.compile(r"\b[A-Za-z]{3,}\b")
_NO_WIDTH = "\u200d\u2063\u180e\u200e"
_ALIKE = dict(
    zip(
        "aeiouyctkpnvxABEHIKMNOPTXYZ",
        "\u03b1\u0435\u03b9\u03bf\u03c5\u0443\u03f2\u03c4\u03ba\u03c1\u03b7\u03bd\u03c7"
        "\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a7\u03a5\u0396",
        strict=True,
    )
)
_NOTHING = ("<u></u>", "<!---->", "<em></em>", "<tt></tt>", "<span class=q></span>", "<a name=z></a>")


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What attackers borrow from ham.

    Parameters
    ----------
    senders
        Frequent senders: name and address.
    texts
        Texts of ham messages, of some length each.
    """

    senders: tuple[tuple[str, str], ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, ham: Sequence[bytes]) -> Borrowed:
        """Collect it from ham messages."""
        mails = [Mail.parse(raw) for raw in ham]
        counts = Counter(str(mail.sender) for mail in mails if mail.sender.host)
        names = {str(mail.sender): mail.sender.name for mail in mails}
        texts = [" ".join(mail.plain.split()) for mail in mails]
        senders = tuple((names[address], address) for address, _ in counts.most_common(FREQUENT))
        return cls(senders, tuple(text for text in texts if len(text) > 200))

    def sender(self, rng: random.Random) -> tuple[str, str]:
        """Draw a sender, name and address."""
        return rng.choice(self.senders)

    def text(self, rng: random.Random) -> str:
        """Draw text of the usual length, from as many messages as that takes."""
        found = ""
        while len(found.encode("utf-8", "replace")) < TEXT_BYTES:
            found += rng.choice(self.texts) + "\n\n"
        return found.encode("utf-8", "replace")[:TEXT_BYTES].decode("utf-8", "ignore")


def _parse(raw: bytes) -> Message:
    return email.message_from_bytes(raw, policy=email.policy.compat32)


def _write(message: Message) -> bytes:
    return message.as_bytes(policy=email.policy.compat32.clone(max_line_length=None))


def _rewrite(raw: bytes, plain: Callable[[str], str], page: Callable[[str], str], *, as_page: bool = False) -> bytes:
    """Change the text of all plain and HTML parts; where there is no HTML and that is wanted, plain text becomes HTML."""
    message = _parse(raw)
    parts = [part for part in message.walk() if not part.is_multipart() and part.get_content_maintype() == "text"]
    readable = [part for part in parts if part.get_content_disposition() != "attachment"] or (
        [] if message.is_multipart() else [message]
    )
    has_page = any(part.get_content_subtype() == "html" for part in readable)
    for part in readable:
        text = _text(part)
        kind = part.get_content_subtype() if part.get_content_maintype() == "text" else "plain"
        if kind != "html" and as_page and not has_page:
            lines = html.escape(text).replace("\n", "<br>\n")
            text, kind = f"<html><body>{lines}</body></html>", "html"
        changed = page(text) if kind == "html" else plain(text)
        for name in ("Content-Type", "Content-Transfer-Encoding"):
            del part[name]
        part.set_payload(changed.encode("utf-8", "replace"))
        part["Content-Type"] = f"text/{kind}; charset=utf-8"
        email.encoders.encode_base64(part)
    if "MIME-Version" not in message:
        message["MIME-Version"] = "1.0"
    return _write(message)


def _text(part: Message) -> str:
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    try:
        return content.decode(part.get_content_charset() or "latin-1")
    except (LookupError, UnicodeDecodeError):
        return content.decode("latin-1")


def _forge(raw: bytes, borrowed: Borrowed, rng: random.Random, *, named: bool) -> bytes:
    name, address = borrowed.sender(rng)
    shown = formataddr((str(Header(name, "utf-8")) if not name.isascii() else name, address)) if named and name else address
    return _set_sender(raw, shown)


def _forge_own(raw: bytes, rng: random.Random) -> bytes:
    """Give a message the sender that its links lead to, as honest newsletters have it."""
    hosts = link_hosts(Mail.parse(raw))
    return _set_sender(raw, f"news@{registered_domain(rng.choice(hosts))}") if hosts else raw


def _set_sender(raw: bytes, shown: str) -> bytes:
    head, gap, body = re.match(rb"(?s)(.*?)(\r?\n\r?\n|\Z)(.*)", raw).groups()  # type: ignore[union-attr]  # it always matches
    lines = re.split(rb"\r?\n(?![ \t])", head)
    kept = [line for line in lines if not line.lower().startswith(b"from:")]
    return b"\n".join([*kept, f"From: {shown}".encode("latin-1", "replace")]) + gap + body


def _before(raw: bytes, text: str) -> bytes:
    shown = html.escape(text)
    return _rewrite(raw, lambda plain: f"{text}\n\n{plain}", lambda page: _into_body(page, f"<div>{shown}</div>"))


def _behind(raw: bytes, text: str) -> bytes:
    shown = html.escape(text)
    return _rewrite(raw, lambda plain: f"{plain}\n\n{text}", lambda page: f"{page}<div>{shown}</div>")


def _hidden(raw: bytes, text: str, rng: random.Random) -> bytes:
    shown = html.escape(text)
    ways = (
        f"<table style='display:none !important'><tr><td>{shown}</td></tr></table>",
        f"<div style='font-size:0;line-height:0'>{shown}</div>",
        f"<font color=#ffffff size=-5>{shown}</font>",
        f"<span style='color:#fff;font-size:1px'>{shown}</span>",
        f"<div style='width:0;height:0;overflow:hidden'>{shown}</div>",
    )
    block = rng.choice(ways)
    return _rewrite(raw, lambda plain: plain, lambda page: _into_body(page, block), as_page=True)


def _into_body(page: str, block: str) -> str:
    found = re.search(r"<body[^>]*>", page, re.IGNORECASE)
    at = found.end() if found else 0
    return page[:at] + block + page[at:]


def _cut(raw: bytes, way: Callable[[str], str], *, as_page: bool) -> bytes:
    def change(text: str) -> str:
        return _WORD.sub(lambda found: way(found[0]), text)

    def change_page(page: str) -> str:
        # Tags, styles and entities stay as they are.
        pieces = re.split(r"(?is)(<style.*?</style>|<script.*?</script>|<[^>]*>|&[#\w]+;)", page)
        return "".join(piece if place % 2 else change(piece) for place, piece in enumerate(pieces))

    return _rewrite(raw, change, change_page, as_page=as_page)


def _halve(word: str, filling: str) -> str:
    return word[: len(word) // 2] + filling + word[len(word) // 2 :]


def _alike(word: str, rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.2:
        # Full width.
        return "".join(chr(ord(letter) + 0xFEE0) for letter in word)
    return "".join(_ALIKE.get(letter, letter) if rng.random() < 0.6 else letter for letter in word)


def _page_of(raw: bytes) -> tuple[Message, str]:
    """Return the header of a message without its content, and its text as a page."""
    message = _parse(_rewrite(raw, lambda plain: plain, lambda page: page, as_page=True))
    pages = [_text(part) for part in message.walk() if part.get_content_type() == "text/html"]
    for name in ("Content-Type", "Content-Transfer-Encoding", "Content-Disposition", "MIME-Version"):
        del message[name]
    return message, "\n".join(pages)


def _mixed(raw: bytes, text: str, *, fillers: int, kind: str) -> bytes:
    """Put ham text first, then empty parts, then the spam in a part of some kind."""
    message, page = _page_of(raw)
    shown = MIMEText(page, "html", "utf-8")
    if kind != "text/html":
        shown.replace_header("Content-Type", f'{kind}; name="page.html"')
        shown["Content-Disposition"] = "inline"
    parts = [MIMEText(text, "plain", "utf-8"), *(MIMEText("", "plain") for _ in range(fillers)), shown]
    whole = MIMEMultipart("mixed", _subparts=parts)
    for name, value in message.items():
        whole[name] = value
    return _write(whole)


def _behind_space(raw: bytes, text: str) -> bytes:
    space = " " * 60_000
    return _rewrite(
        raw, lambda plain: f"{text}\n{space}\n{plain}", lambda page: _into_body(page, f"<div>{html.escape(text)}</div>{space}")
    )


def _behind_trick(raw: bytes, text: str, opening: str, closing: str) -> bytes:
    """Put ham text first, then the spam between two pieces of markup that no browser takes for the ends of something hidden."""
    before = f"<div>{html.escape(text)}</div>{opening}"
    return _rewrite(raw, lambda plain: plain, lambda page: f"{before}{page}{closing}", as_page=True)


def _as_footer(raw: bytes, text: str) -> bytes:
    """Put the beginning of the spam, and its first link, behind a rule as mailing lists have it."""
    message, page = _page_of(raw)
    shown = " ".join(_strip_tags(page).split())[:500]
    links = re.findall(r"(?i)https?://[^\s\"'<>]{4,100}", page)[:1]
    return _write_plain(message, "\n".join([text, "_" * 47, shown, *links]))


def _in_thread(raw: bytes, borrowed: Borrowed, rng: random.Random) -> bytes:
    """Write the spam as an answer to a message of ham, which is quoted below it."""
    message, page = _page_of(raw)
    name, address = borrowed.sender(rng)
    text = borrowed.text(rng)
    lines = [text[start : start + 70].strip() for start in range(0, len(text), 70)]
    del message["Subject"], message["References"]
    message["Subject"] = f"Re: {' '.join(_WORD.findall(text)[:5])}"
    message["References"] = f"<{rng.randrange(10**9)}@{address.rpartition('@')[2]}>"
    shown = " ".join(html.unescape(_strip_tags(page)).split())
    return _write_plain(message, "\n".join([shown, "", f"{name or address} <{address}> wrote:", *(f">{line}" for line in lines)]))


def _line_and_link(raw: bytes, borrowed: Borrowed, rng: random.Random) -> bytes:
    message, page = _page_of(raw)
    words = _WORD.findall(_strip_tags(page))[:15]
    line = f"{' '.join(words)} http://{rng.randrange(10**6)}.example.com/\n\n{borrowed.text(rng)[:600]}\n"
    return _write_plain(message, line)


def _strip_tags(page: str) -> str:
    return re.sub(r"(?is)<style.*?</style>|<[^>]*>", " ", page)


def _write_plain(message: Message, text: str) -> bytes:
    message.set_payload(text.encode("utf-8", "replace"))
    message["MIME-Version"], message["Content-Type"] = "1.0", "text/plain; charset=utf-8"
    email.encoders.encode_base64(message)
    return _write(message)


Attack = Callable[[bytes, Borrowed, random.Random], bytes]
ATTACKS: Mapping[str, Attack] = {
    "sender": lambda raw, borrowed, rng: _forge(raw, borrowed, rng, named=False),
    "sender and name": lambda raw, borrowed, rng: _forge(raw, borrowed, rng, named=True),
    "address at a link's domain": lambda raw, _, rng: _forge_own(raw, rng),
    "text before": lambda raw, borrowed, rng: _before(raw, borrowed.text(rng)),
    "text behind": lambda raw, borrowed, rng: _behind(raw, borrowed.text(rng)),
    "text hidden": lambda raw, borrowed, rng: _hidden(raw, borrowed.text(rng), rng),
    "words cut by markup": lambda raw, _, rng: _cut(raw, lambda word: _halve(word, rng.choice(_NOTHING)), as_page=True),
    "words cut by zero width": lambda raw, _, rng: _cut(raw, lambda word: _halve(word, rng.choice(_NO_WIDTH)), as_page=False),
    "look-alike letters": lambda raw, _, rng: _cut(raw, lambda word: _alike(word, rng), as_page=False),
    "sender and text": lambda raw, borrowed, rng: _before(_forge(raw, borrowed, rng, named=True), borrowed.text(rng)),
    "spam in an octet stream": lambda raw, borrowed, rng: _mixed(
        raw, borrowed.text(rng), fillers=0, kind="application/octet-stream"
    ),
    "spam behind white space": lambda raw, borrowed, rng: _behind_space(raw, borrowed.text(rng)),
    "spam behind many parts": lambda raw, borrowed, rng: _mixed(raw, borrowed.text(rng), fillers=70, kind="text/html"),
    "spam behind a false style": lambda raw, borrowed, rng: _behind_trick(
        raw, borrowed.text(rng), "<!-- <style> -->", "<!-- </style> -->"
    ),
    "spam in a part of an unknown kind": lambda raw, borrowed, rng: _mixed(
        raw, borrowed.text(rng), fillers=0, kind="application/x-page"
    ),
    "spam behind a comment within quotes": lambda raw, borrowed, rng: _behind_trick(
        raw, borrowed.text(rng), "<p title='> <!--'>", "<!-- -->"
    ),
    "spam in the place of a footer": lambda raw, borrowed, rng: _as_footer(raw, borrowed.text(rng)),
    "spam above a quoted thread": _in_thread,
    "sender, and spam above a quoted thread": lambda raw, borrowed, rng: _in_thread(
        _forge(raw, borrowed, rng, named=True), borrowed, rng
    ),
    "a line of spam, a link, ham text": _line_and_link,
}
