"""Synthetic mail: made up from word lists, so that everything here runs without a corpus of real mail.

It does not replace real mail. It has what the features look at (subjects, hops, HTML, links, broken MIME, bytes valid in no
charset); both kinds share words, and some messages are hard on purpose: newsletters that shout, and spam that reads like the
note of a colleague. Figures on it show that the code works, and nothing about real spam.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.header import Header
from email.utils import format_datetime
from typing import Final

from spam_filter.synthetic.word_lists import COMMON_WORDS, EVERYDAY_WORDS, FIRST_NAMES, OFFICE_WORDS, SHOP_WORDS, SPAM_WORDS
from spam_filter.training.corpus import Label, LabelledMail

__all__ = ["FIRST_DAY", "SPAM_SHARE", "generate"]

FIRST_DAY: Final = datetime(2024, 1, 1, 6, 0, tzinfo=UTC)
SPAM_SHARE: Final = 0.4
_BROKEN_SHARE: Final = 0.05
_COLLEAGUES: Final = 40
_HOME_DOMAIN: Final = "example.org"


@dataclass(frozen=True, slots=True)
class _MessageDraft:
    """A message before it is written: what the sender wants to say."""

    label: Label
    sender: str
    subject: str
    text: str
    html: str | None
    reply_to: str | None
    hops: int
    date_shift_h: float


def generate(count: int, seed: int) -> Iterator[LabelledMail]:
    """Yield synthetic messages, one every few minutes.

    Parameters
    ----------
    count
        How many.
    seed
        The same seed gives the same messages.

    Examples
    --------
    >>> mails = list(generate(50, seed=1))
    >>> len(mails), {mail.label for mail in mails} == {"ham", "spam"}, mails == list(generate(50, seed=1))
    (50, True, True)
    """
    draw = random.Random(seed)
    moment = FIRST_DAY
    for number in range(count):
        moment += timedelta(minutes=draw.expovariate(1 / 20))
        label: Label = "spam" if draw.random() < SPAM_SHARE else "ham"
        sketch = draw.choice(_KINDS[label])(draw)
        raw = _compose(draw, sketch, moment, number)
        if draw.random() < _BROKEN_SHARE:
            raw = draw.choice(_DAMAGES)(draw, raw)
        yield LabelledMail(raw, label, moment, f"synthetic-{number:05d}.eml")


def _words(draw: random.Random, count: int, *lists: tuple[str, ...]) -> str:
    """Return sentences of words from lists, with small words in between."""
    words: list[str] = []
    for position in range(count):
        word = draw.choice(draw.choice((*lists, COMMON_WORDS, COMMON_WORDS)))
        words.append(word.capitalize() if position % 11 == 0 else word + "." if position % 11 == 10 else word)
    return " ".join(words)


def _lines(text: str, width: int = 70) -> str:
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def _delay(draw: random.Random) -> float:
    """Draw how many hours a clock is wrong, or a message waited: little as a rule, much now and then, for either kind."""
    return draw.expovariate(10 if draw.random() < 0.9 else 0.1)


def _colleague(draw: random.Random) -> str:
    number = draw.randrange(_COLLEAGUES)
    name = FIRST_NAMES[number % len(FIRST_NAMES)]
    return f"{name} <{name.lower()}{number // len(FIRST_NAMES) or ''}@{_HOME_DOMAIN}>"


def _note(draw: random.Random) -> _MessageDraft:
    """Make a note from a colleague, sometimes with a quoted answer."""
    text = _lines(_words(draw, draw.randint(20, 140), OFFICE_WORDS, EVERYDAY_WORDS))
    if draw.random() < 0.5:
        quoted = _lines(_words(draw, draw.randint(15, 60), OFFICE_WORDS, EVERYDAY_WORDS))
        text += "\n\n" + "\n".join(f"> {line}" for line in quoted.splitlines())
    subject = ("Re: " if draw.random() < 0.4 else "") + _words(draw, draw.randint(2, 6), OFFICE_WORDS).rstrip(".")
    return _MessageDraft("ham", _colleague(draw), subject, text + "\n\nregards\n", None, None, draw.randint(2, 5), _delay(draw))


def _letter(draw: random.Random) -> _MessageDraft:
    """Make a private letter from somebody who may be new."""
    name = draw.choice(FIRST_NAMES)
    text = _lines(_words(draw, draw.randint(30, 200), EVERYDAY_WORDS))
    host = draw.choice(("mail.example.net", "post.example.com", "home.example.edu"))
    sender = f"{name} <{name.lower()}.{draw.randrange(400)}@{host}>"
    return _MessageDraft(
        "ham", sender, _words(draw, draw.randint(1, 5), EVERYDAY_WORDS), text, None, None, draw.randint(2, 5), _delay(draw)
    )


def _newsletter(draw: random.Random) -> _MessageDraft:
    """Make a newsletter that somebody asked for: HTML, links, offers. The hard ham."""
    shop = draw.choice(("tea-house", "bookworm", "bicycles", "garden-post", "trains-weekly"))
    text = _words(draw, draw.randint(60, 200), SHOP_WORDS, EVERYDAY_WORDS)
    link = f"https://www.{shop}.example/news/{draw.randrange(10_000)}"
    html = _page(draw, text, link, link, pictures=draw.randint(1, 6))
    subject = f"{_words(draw, draw.randint(3, 6), SHOP_WORDS)}{draw.choice(('', '', '!', ' -20 %'))}"
    return _MessageDraft(
        "ham", f"{shop} <news@{shop}.example>", subject, f"{_lines(text)}\n\n{link}\n", html, None, 3, _delay(draw)
    )


def _offer(draw: random.Random) -> _MessageDraft:
    """Make an unsolicited offer: loud, with links to hosts that change."""
    host = f"{draw.choice(SHOP_WORDS)}-{draw.randrange(1000)}.{draw.choice(('example', 'test', 'invalid'))}"
    text = _words(draw, draw.randint(30, 160), SPAM_WORDS, SPAM_WORDS, SHOP_WORDS)
    if draw.random() < 0.4:
        text = text.upper()
    shown = f"http://www.{draw.choice(('bank', 'post', 'shop'))}.example/account"
    link = f"http://{host}/{draw.getrandbits(40):x}"
    html = _page(
        draw, text, shown if draw.random() < 0.5 else link, link, pictures=draw.randint(0, 3), hidden=draw.random() < 0.4
    )
    subject = f"{_words(draw, draw.randint(3, 7), SPAM_WORDS)}{draw.choice(('', '', '!', '!!'))}"
    if draw.random() < 0.15:
        subject += f"          {draw.getrandbits(30):x}"
    sender = f"{draw.choice(FIRST_NAMES)} <{draw.choice(SPAM_WORDS)}{draw.choice(('', draw.randrange(1000)))}@{host}>"
    reply = f"win{draw.randrange(1000)}@{draw.choice(('free', 'quick'))}.invalid" if draw.random() < 0.5 else None
    body = f"{_lines(text)}\n\n{link}\n"
    page = html if draw.random() < 0.7 else None
    return _MessageDraft("spam", sender, subject, body, page, reply, draw.randint(2, 5), _delay(draw))


def _advance_fee(draw: random.Random) -> _MessageDraft:
    """Make a long plea for help with a fortune."""
    text = _lines(_words(draw, draw.randint(120, 300), SPAM_WORDS, EVERYDAY_WORDS, OFFICE_WORDS))
    sender = f"Dr. {draw.choice(FIRST_NAMES)} <office{draw.randrange(1000)}@{draw.choice(('mail', 'post'))}.example.net>"
    return _MessageDraft(
        "spam", sender, _words(draw, 4, SPAM_WORDS, OFFICE_WORDS), text, None, "fortune@box.invalid", 4, _delay(draw)
    )


def _bait(draw: random.Random) -> _MessageDraft:
    """Make spam that reads like a note: a few innocent words and a link. The hard spam."""
    text = _lines(_words(draw, draw.randint(8, 40), OFFICE_WORDS, EVERYDAY_WORDS, SPAM_WORDS))
    name = draw.choice(FIRST_NAMES)
    sender = f"{name} <{name.lower()}{draw.randrange(100)}@post.example.com>"
    link = f"http://10.{draw.randrange(256)}.{draw.randrange(256)}.7/{draw.getrandbits(24):x}"
    subject = _words(draw, draw.randint(1, 4), OFFICE_WORDS)
    return _MessageDraft("spam", sender, subject, f"{text}\n\n{link}\n", None, None, draw.randint(2, 5), _delay(draw))


def _page(draw: random.Random, text: str, shown: str, link: str, *, pictures: int, hidden: bool = False) -> str:
    images = "".join(f'<img src="{link}/{number}.gif" width="{draw.randint(1, 400)}">' for number in range(pictures))
    unseen = f'<font color="#ffffff">{_words(draw, 25, OFFICE_WORDS)}</font>' if hidden else ""
    return f'<html><body><h2>{text[:30]}</h2><p>{text}</p><a href="{link}">{shown}</a>{images}{unseen}</body></html>'


_KINDS: Final[dict[Label, tuple[Callable[[random.Random], _MessageDraft], ...]]] = {
    "ham": (_note, _note, _letter, _newsletter),
    "spam": (_offer, _offer, _advance_fee, _bait),
}


def _compose(draw: random.Random, sketch: _MessageDraft, moment: datetime, number: int) -> bytes:
    """Write a sketch as a message, with its way through the servers."""
    sent = moment - timedelta(hours=sketch.date_shift_h * draw.random())
    subject = f"{sketch.subject} für Sie" if draw.random() < 0.05 else sketch.subject
    head = [
        f"Received: from relay{hop}.example.net by mx{hop}.{_HOME_DOMAIN}; "
        f"{format_datetime(moment - timedelta(seconds=20 * hop))}"
        for hop in range(sketch.hops)
    ]
    head += [
        f"From: {sketch.sender}",
        f"To: you@{_HOME_DOMAIN}",
        f"Subject: {subject if subject.isascii() else Header(subject, 'utf-8').encode()}",
        f"Date: {format_datetime(sent)}",
        f"Message-ID: <{number}.{draw.getrandbits(32):x}@{sketch.sender.rpartition('@')[2].strip('>')}>",
        "MIME-Version: 1.0",
    ]
    if sketch.reply_to:
        head.append(f"Reply-To: {sketch.reply_to}")
    leaves = [_leaf("text/plain; charset=utf-8", sketch.text)]
    if sketch.html is not None:
        leaves.append(_leaf("text/html; charset=utf-8", sketch.html))
    if draw.random() < 0.05:
        leaves.append(f"Content-Type: application/octet-stream; name=notes.bin\n\n{draw.getrandbits(800):x}\n")
    if len(leaves) == 1:
        return _bytes("\n".join(head) + "\n" + leaves[0])
    boundary = f"=-={draw.getrandbits(64):x}"
    head.append(f'Content-Type: multipart/alternative; boundary="{boundary}"')
    parts = "".join(f"--{boundary}\n{leaf}\n" for leaf in leaves)
    return _bytes("\n".join(head) + f"\n\n{parts}--{boundary}--\n")


def _leaf(kind: str, text: str) -> str:
    return f"Content-Type: {kind}\nContent-Transfer-Encoding: 8bit\n\n{text}"


def _bytes(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def _truncate(draw: random.Random, raw: bytes) -> bytes:
    return raw[: draw.randrange(len(raw) // 2, len(raw))]


def _no_boundary(_: random.Random, raw: bytes) -> bytes:
    return raw.replace(b"boundary=", b"bundary=", 1)


def _raw_bytes(draw: random.Random, raw: bytes) -> bytes:
    """Put bytes into header and body that no charset explains."""
    head, gap, body = raw.partition(b"\r\n\r\n")
    return head.replace(b"Subject: ", b"Subject: \xa4\xfe ", 1) + gap + draw.randbytes(6) + body


def _wrong_charset(_: random.Random, raw: bytes) -> bytes:
    return raw.replace(b"charset=utf-8", b"charset=no-such-charset")


_DAMAGES: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (_truncate, _no_boundary, _raw_bytes, _wrong_charset)
