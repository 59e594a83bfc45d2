"""Words in disguise: letters that only look like Latin ones, invisible characters, letters set apart. Undone, and counted.

A reader sees "mortgage" in all of them; a table of words does not. What is done to a text here is done to all mail, at training
and in service, so no word has to come out as a dictionary spells it: it has to come out the same each time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["PlainWords", "undo_disguise"]

# Zero-width and other characters without a shape: in the middle of a word they only cut it.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# All but printable ASCII and white space.
_UNUSUAL: Final = re.compile("[^\t-\r -~]")
_MARKS: Final = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")
# Wide, bold, circled and other fancy forms of Latin letters.
_FANCY: Final = re.compile("[\u249c-\u24b5\uff21-\uff5a\u24b6-\u24e9\u2100-\u214f\U0001d400-\U0001d7ff\U0001f130-\U0001f189]+")
# Bounded, as all patterns here are: a text may be one long word.
_LATIN_LETTER: Final = re.compile("[A-Za-z]")
_OTHER_LETTER: Final = re.compile(r"[^\W\d_A-Za-z]")
# Of Greek, Cyrillic or Armenian, where it has no Latin shape.
_FOREIGN_LETTER: Final = re.compile("[\u0370-\u058f]")
_LETTERS: Final = re.compile(r"[^\W\d_]{1,60}")
# Marks are put in order by a sort that takes the square of their number: in short pieces that is little.
_PIECE: Final = 1_000
# Greek, Cyrillic, Armenian and other letters with the shape of a Latin one.
_LIKE: Final = dict(
    zip(
        map(
            ord,
            "\u0430\u0432\u0435\u0437\u0456\u0457\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0455\u0501\u051b"
            "\u051d\u04bb\u04cf\u0475\u044c\u0433\u043f"
            "\u0410\u0412\u0415\u0417\u0406\u0407\u0408\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0500\u051a"
            "\u051c\u04ba\u04c0\u0474\u042c\u0413\u041f"
            "\u03b1\u03b2\u03b5\u03b6\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c3\u03c2\u03c4\u03c5\u03c7\u03c9\u03b3\u03c0"
            "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a3\u03a4\u03a5\u03a7"
            "\u0570\u0578\u057d\u0585\u0581\u0261\u0251\u026a\u0131\u0237\u0280\u1d00\u1d04\u1d05\u1d07\u1d0a\u1d0b\u1d0d\u1d0f"
            "\u1d18\u1d1b\u1d1c\u1d20\u1d21\u1d22\u029f\u0274\u029c\u0262\u0299\ua731\u0142\u00f8\u0111\u0127\u0180\u0268\u0289",
        ),
        "aBe3iijkmHopctyxsdqwhlvbrn"
        "ABE3IIJKMHOPCTYXSDQWHIVbrn"
        "aBezniKuvopoctuxwyn"
        "ABEZHIKMNOPETYX"
        "hnuogga" + "iijracdejkmo"
        "ptuvwzlnhgbs" + "lodhbiu",
        strict=True,
    )
)
# Letters with a hook, a bar or a tail that Unicode does not take apart, by their names.
_LATIN_NAME: Final = re.compile(r"LATIN (SMALL|CAPITAL) LETTER (?:OPEN |TURNED |REVERSED |DOTLESS |SCRIPT )?([A-Z])(?: WITH .+)?")
_TAILED: Final = {
    code: found[2] if found[1] == "CAPITAL" else found[2].lower()
    for code in (*range(0x180, 0x2B0), *range(0x1D00, 0x1DC0), *range(0x2C60, 0x2C80), *range(0xA720, 0xA800))
    if (found := _LATIN_NAME.fullmatch(unicodedata.name(chr(code), "")))
}
_CHEROKEE: Final = dict(
    zip(
        map(
            ord,
            "\u13aa\u13f4\u13df\u13a0\u13ac\u13c0\u13bb\u13a5\u13ab\u13e6\u13de\u13b7\u13e2\u13a1\u13da\u13a2\u13d9\u13b3\u13c3",
        ),
        "ABCDEGHiJKLMPRSTVWZ",
        strict=True,
    )
)
_SHAPES: Final = _TAILED | _CHEROKEE | _LIKE
# Unicode takes these for a letter between brackets.
_BRACKETED: Final = {0x249C + place: letter for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
# The shortest end of one: most texts have none, and the long pattern is slow.
_APART: Final = re.compile(r"([ ._*~|/-])[^\W_]\1[^\W_](?![^\W_])")
_SET_APART: Final = re.compile(r"(?<![^\W_])[^\W\d_](?:([ ._*~|/-])[^\W_])(?:\1[^\W_]){1,30}(?![^\W_])")
_DIGITS: Final = str.maketrans("013457", "oieast")
# The character first, then what is around it: quicker by far.
_DIGIT_WITHIN: Final = re.compile(r"[013457@](?<=[A-Za-z].)(?=[A-Za-z])(?:(?<!@)|(?=[a-z]{1,12}\b(?![.@-])))")


@dataclass(frozen=True, slots=True)
class PlainWords:
    """A text without disguise.

    Parameters
    ----------
    text
        The text.
    disguised
        How many words were in disguise, or pieces of them. Digits within words are undone, but not counted: model numbers have
        them. Nor are whole words of another script on a line that is written in it: in Russian, many have only letters with a
        Latin shape.
    """

    text: str
    disguised: int


def undo_disguise(text: str) -> PlainWords:
    r"""Return a text with its words as a reader sees them.

    A word of another script stays as it is, unless all its letters have a Latin shape.

    Examples
    --------
    >>> undo_disguise("m\u043ertg\u0430ge and mo\u200brtgage, m.o.r.t.g.a.g.e or M O R T G A G E, m0rtgage")
    PlainWords(text='mortgage and mortgage, mortgage or MORTGAGE, mortgage', disguised=4)
    >>> undo_disguise("\u043f\u0440\u0438\u0432\u0435\u0442, \u0410\u043d\u043d\u0430").disguised
    0
    """
    # Line by line: no word goes over the end of one, and most lines are plain where a text is not.
    text, disguised = _change_lines(text, _UNUSUAL, _undo_letters)
    text, joined = _change_lines(text, _APART, lambda line: _SET_APART.subn(_join, line))
    return PlainWords(_DIGIT_WITHIN.sub(_read_digit, text), disguised + joined)


def _change_lines(text: str, sign: re.Pattern[str], change: Callable[[str], tuple[str, int]]) -> tuple[str, int]:
    """Return a text with those lines changed in which there is a sign, and how often."""
    pieces: list[str] = []
    at = count = 0
    while (found := sign.search(text, at)) is not None:
        start = max(at, text.rfind("\n", at, found.start()) + 1)
        end = text.find("\n", found.end())
        end = len(text) if end < 0 else end
        line, changes = change(text[start:end])
        pieces += (text[at:start], line)
        at, count = end, count + changes
    return ("".join([*pieces, text[at:]]), count) if pieces else (text, 0)


def _undo_letters(text: str) -> tuple[str, int]:
    text, invisible = _INVISIBLE.subn("", text)
    fancy = _FANCY.findall(text)
    count = invisible + len(fancy)
    if fancy:
        text = text.translate(_BRACKETED)

    def latin(found: re.Match[str]) -> str:
        nonlocal count
        word = found[0]
        if word.isascii():
            return word
        shaped = word.translate(_SHAPES)
        if not shaped.isascii():
            return word
        count += not is_foreign or _LATIN_LETTER.search(word) is not None
        return shaped

    # Accents are taken off with their letters apart: an accent is a disguise, too, and a word that has one keeps its sound.
    text = "".join(_take_off_accents(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE))
    if _OTHER_LETTER.search(text) is None:
        return text, count
    is_foreign = _FOREIGN_LETTER.search(text.translate(_SHAPES)) is not None
    return _LETTERS.sub(latin, text), count


def _take_off_accents(text: str) -> str:
    # A few characters stand for whole sentences: no text may grow much.
    apart = unicodedata.normalize("NFKD", text)[: 4 * _PIECE]
    return unicodedata.normalize("NFKC", _MARKS.sub("", apart))


def _join(found: re.Match[str]) -> str:
    return found[0].replace(found[1], "")


def _read_digit(found: re.Match[str]) -> str:
    return "a" if found[0] == "@" else found[0].translate(_DIGITS)
