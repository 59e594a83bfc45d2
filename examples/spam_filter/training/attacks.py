"""Attacked copies of spam: what its senders do to look like ham, done to the spam that a model is trained on.

A model that has only seen honest mail trusts what an attacker can choose: the sender's address, the subject, most of the words.
Copies of train spam with a sender, a subject or a text of train ham, or with its words in disguise, show it what these are worth.
The stores learn nothing from copies: they count what was really sent.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Final

from spam_filter.message.mail import Mail
from spam_filter.training.corpus import LabelledMail

__all__ = ["AttackedCopy", "make_attacked_copies"]

_FIELD: Final = r"(?im)^%s:[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*\r?\n?"
_WORD: Final = re.compile(r"[A-Za-z]{4,20}")
_TEXT_LENGTHS: Final = (300, 4000)
"""Characters of ham text that are added, least and most."""
_FOOTER_LENGTHS: Final = (150, 600)
"""Characters of spam where a footer would be, least and most."""
_BROKEN_SHARES: Final = (0.3, 1.0)
"""Share of the longer words that are broken, least and most."""
_LOOK_ALIKES: Final = str.maketrans(
    "aceiopsxyABCEHKMOPTX",
    "\u0430\u0441\u0435\u0456\u043e\u0440\u0455\u0445\u0443\u0410\u0412\u0421\u0415\u041d\u041a\u041c\u041e\u0420\u0422\u0425",
)
_CUTS: Final = ("\u200b", "\u200c", "\u00ad", "\u2060", "\ufeff")
_TAGS: Final = ("<b></b>", "<!-- {} -->", "<font></font>", "<span style='display:none'>{}</span>", "<i></i>", "<{}>")
_HIDING: Final = (
    "<div style='display:none'>{}</div>",
    "<span style='font-size:0px'>{}</span>",
    "<font size='1' color='white'>{}</font>",
    "<font color='#fefefe'>{}</font>",
    "<p style='visibility: hidden'>{}</p>",
    "<!-- {} -->",
    "<noscript>{}</noscript>",
    "<div style='position:absolute; left:-5000px'>{}</div>",
)


@dataclass(frozen=True, slots=True)
class AttackedCopy:
    """A copy of a message, changed by an attacker.

    Parameters
    ----------
    original
        Position of the message that it is a copy of.
    mail
        The copy.
    """

    original: int
    mail: LabelledMail


def make_attacked_copies(mails: Sequence[LabelledMail], places: Sequence[int], share: float, seed: int) -> list[AttackedCopy]:
    """Return attacked copies of the spam among some messages, with what the ham among them lends.

    Parameters
    ----------
    mails
        The corpus.
    places
        Positions of the messages: spam is copied, ham is copied from.
    share
        Copies per spam message: 0.5 makes one of every second, 2 makes two of each.
    seed
        Of all draws.
    """
    spam = [place for place in places if mails[place].label == "spam"]
    ham = [place for place in places if mails[place].label == "ham"]
    if not spam or not ham or share <= 0:
        return []
    rng = random.Random(f"attacks {seed}")
    lenders = [Mail.parse(mails[place].raw) for place in ham]
    whole, rest = divmod(round(share * len(spam)), len(spam))
    chosen = [*spam * whole, *rng.sample(spam, rest)]
    return [
        AttackedCopy(
            place, replace(mails[place], raw=_attack(mails[place].raw, lenders, rng), source=f"{mails[place].source} (attacked)")
        )
        for place in chosen
    ]


def _attack(raw: bytes, lenders: Sequence[Mail], rng: random.Random) -> bytes:
    """Return a message after one attack or several."""
    draft = _Draft.of(raw)
    count = rng.choices((1, 2, 3), (4, 6, 2))[0]
    drawn = sorted(range(len(_ATTACKS)), key=lambda place: rng.random() ** (1 / _ATTACKS[place][1]), reverse=True)
    # In the order of the list: text that is borrowed may then be broken with the rest.
    for place in sorted(drawn[:count]):
        _ATTACKS[place][0](draft, lenders, rng)
    return draft.to_bytes()


@dataclass(slots=True)
class _Draft:
    """A message as an attacker edits it: its header, and its text as plain text and as HTML, one of them or both."""

    header: str
    plain: str
    page: str
    rewritten: bool = False
    raw_body: bytes = b""

    @classmethod
    def of(cls, raw: bytes) -> _Draft:
        mail = Mail.parse(raw)
        start = mail.headers.body
        return cls(raw[:start].decode("latin-1").rstrip("\r\n") + "\n", mail.plain, mail.html, raw_body=raw[start:])

    def set_field(self, name: str, value: str) -> None:
        """Replace a header field, or take it away where there is no value."""
        self.header = re.sub(_FIELD % re.escape(name), "", self.header)
        if value:
            self.header += f"{name}: {value}\n"

    def to_bytes(self) -> bytes:
        if not self.rewritten:
            return self.header.encode("latin-1", "replace") + b"\n" + self.raw_body
        for name in ("Content-Type", "Content-Transfer-Encoding", "MIME-Version"):
            self.set_field(name, "")
        parts = [(kind, text) for kind, text in (("plain", self.plain), ("html", self.page)) if text.strip()] or [("plain", "")]
        blocks = [
            f"Content-Type: text/{kind}; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n{text}\n" for kind, text in parts
        ]
        if len(blocks) == 1:
            body = blocks[0]
        else:
            joined = "".join(f"--=_next\n{block}" for block in blocks)
            body = f'Content-Type: multipart/alternative; boundary="=_next"\n\n{joined}--=_next--\n'
        return self.header.encode("latin-1", "replace") + f"MIME-Version: 1.0\n{body}".encode("utf-8", "replace")


def _forge_sender(draft: _Draft, lenders: Sequence[Mail], rng: random.Random) -> None:
    """Write under a sender of ham; who sends much is drawn often."""
    lender = rng.choice(lenders)
    sender = lender.sender
    if not sender.host:
        return
    named = rng.random() < 0.6
    draft.set_field("From", lender.headers.get("from").strip() if named else f"<{sender}>")
    if rng.random() < 0.5:
        draft.set_field("Reply-To", "")
    if rng.random() < 0.5:
        draft.set_field("Message-ID", f"<{rng.getrandbits(64):x}@{sender.host}>")


def _borrow_subject(draft: _Draft, lenders: Sequence[Mail], rng: random.Random) -> None:
    draft.set_field("Subject", rng.choice(lenders).headers.get("subject").strip())


def _add_text(draft: _Draft, lenders: Sequence[Mail], rng: random.Random) -> None:
    """Put text of ham before the text, behind it, or where no reader sees it; or cut the text, and put it behind a rule."""
    borrowed = _borrow_text(lenders, rng)
    draft.rewritten = True
    way = rng.choice(("before", "behind", "around", "hidden", "other part", "footer"))
    if way == "footer":
        excerpt = _shown_text(draft)[: rng.randint(*_FOOTER_LENGTHS)]
        draft.plain, draft.page = f"{borrowed.strip()}\n{rng.choice('_-=') * rng.randint(30, 76)}\n{excerpt}", ""
        return
    if way == "other part" or (way == "hidden" and not draft.page):
        draft.page = draft.page or f"<html><body><p>{escape(draft.plain)}</p></body></html>"
        if way == "other part":
            draft.plain = borrowed
            return
        draft.plain = ""
    if way == "hidden":
        block = rng.choice(_HIDING).format(escape(borrowed))
        at = rng.choice(("before", "behind", "within"))
        draft.page = _insert(draft.page, block, at, rng)
        return
    half = len(borrowed) // 2
    first, last = {"before": (borrowed, ""), "behind": ("", borrowed), "around": (borrowed[:half], borrowed[half:])}[way]
    if draft.plain.strip() or not draft.page:
        draft.plain = f"{first}\n\n{draft.plain}\n\n{last}".strip("\n")
    if draft.page:
        draft.page = _insert(
            _insert(draft.page, f"<p>{escape(first)}</p>", "before", rng), f"<p>{escape(last)}</p>", "behind", rng
        )


def _borrow_text(lenders: Sequence[Mail], rng: random.Random) -> str:
    """Return text of one message of ham or of several, as long as was drawn."""
    wanted = int(rng.triangular(*_TEXT_LENGTHS, 1500))
    found = ""
    for _ in range(20):
        text = rng.choice(lenders).text.strip()
        start = rng.randrange(max(1, len(text) - wanted))
        found += text[start : start + wanted - len(found)] + "\n"
        if len(found) >= wanted:
            break
    return found


def _shown_text(draft: _Draft) -> str:
    """Return the text as one line, tags left out."""
    return " ".join((draft.plain if draft.plain.strip() else re.sub(r"<[^<>]*>", " ", draft.page)).split())


def _insert(page: str, block: str, at: str, rng: random.Random) -> str:
    opened = re.search(r"<body[^<>]*>", page, re.IGNORECASE)
    first = opened.end() if opened else 0
    closed = page.lower().rfind("</body")
    last = closed if closed >= first else len(page)
    if at == "within":
        ends = [
            found.start()
            for found in re.finditer(r"</(?:p|td|tr|div|font|b)>", page, re.IGNORECASE)
            if first < found.start() < last
        ]
        place = rng.choice(ends) if ends else first
    else:
        place = first if at == "before" else last
    return page[:place] + block + page[place:]


def _break_words(draft: _Draft, _: Sequence[Mail], rng: random.Random) -> None:
    """Change the longer words so that a reader knows them, and a table of words does not."""
    draft.rewritten = True
    share = rng.uniform(*_BROKEN_SHARES)
    way = rng.choice(("look-alikes", "cut", "tags", "apart", "digits", "spaces"))
    if way == "tags" and not draft.page:
        draft.page, draft.plain = f"<html><body><pre>{escape(draft.plain)}</pre></body></html>", ""

    def change(found: re.Match[str]) -> str:
        return _break_word(found[0], way, rng) if rng.random() < share else found[0]

    if way != "tags":
        draft.plain = _WORD.sub(change, draft.plain)
    # Between tags alone: within them words are commands.
    draft.page = re.sub(r"(?<=>)[^<>]+(?=<)", lambda text: _WORD.sub(change, text[0]), draft.page)
    if rng.random() < 0.5 and way not in ("tags", "look-alikes", "cut"):
        subject = re.search(_FIELD % "Subject", draft.header)
        if subject:
            draft.set_field("Subject", _WORD.sub(change, subject[0].partition(":")[2].strip()))


def _break_word(word: str, way: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word))
    if way == "look-alikes":
        return word.translate(_LOOK_ALIKES)
    if way == "cut":
        return word[:at] + rng.choice(_CUTS) + word[at:]
    if way == "tags":
        return word[:at] + rng.choice(_TAGS).format("".join(rng.choices("bcdfghklmnprst", k=5))) + word[at:]
    if way == "apart":
        return rng.choice((" ", ".", "-", "_", "*")).join(word)
    if way == "digits":
        return word.translate(str.maketrans("oieas", "01345"))
    return word[:at] + " " + word[at:]


_ATTACKS: Final[tuple[tuple[Callable[[_Draft, Sequence[Mail], random.Random], None], int], ...]] = (
    (_forge_sender, 4),
    (_add_text, 4),
    (_break_words, 3),
    (_borrow_subject, 1),
)
"""The attacks, and how often each is drawn."""
