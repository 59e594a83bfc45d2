"""Our headers: forged ones go, ours come, and nothing else changes."""

from __future__ import annotations

import dataclasses
import email
import email.policy
import re
import sys

import pytest
from hypothesis import example, given, strategies as st
from spam_filter.service import headers
from spam_filter.service.headers import mark_message, remove_forged_headers
from spam_filter.service.verdict import Verdict

WINDOW = headers._WINDOW
VERDICT = Verdict("spam", 0.99999, 2, 12.345678, "microsecond", "ab" * 32)
OURS = (
    b"X-Emsco-Status: spam\r\n"
    b"X-Emsco-Confidence: 0.9999\r\n"
    b"X-Emsco-Stage: 2\r\n"
    b"X-Emsco-Cost: 12.3457 microsecond\r\n"
    b"X-Emsco-Bundle: " + b"ab" * 32 + b"\r\n"
)
MESSAGE = b"From: a@example.org\r\nSubject: x\r\n\r\nX-Emsco-Status: quoted\r\n.\r\n\xff\x00 bare \r and \n\r\n"

# Pieces whose combinations are what a forger would try.
PIECES = st.sampled_from(
    [
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"A: b",
        b"X-Emsco-Status: ham",
        b"x-emsco-",
        b"X-EMSCO-Cost :",
        b"\r\n\r\n",
        b"\x00",
        b"\xff",
    ]
)
SOUP = st.lists(PIECES, max_size=14).map(b"".join)


def headers_seen(content: bytes, breaks: bytes) -> list[bytes]:
    """Return the header lines that a reader with such line breaks sees, written apart from the code under test."""
    lines = re.split(breaks, content)
    header = lines[: lines.index(b"")] if b"" in lines else lines
    unfolded: list[bytes] = []
    for line in header:
        if line[:1] in (b" ", b"\t") and unfolded:
            unfolded[-1] += line
        else:
            unfolded.append(line)
    return unfolded


def emsco_names(headers: list[bytes]) -> list[bytes]:
    """Return the names of those that claim to be ours."""
    return [line.partition(b":")[0].strip().lower() for line in headers if line.lower().startswith(b"x-emsco-")]


def test_a_clean_message_gets_our_five_headers_at_its_top_and_keeps_every_byte() -> None:
    """Nothing is parsed and written again: the message follows our lines as it was, whatever its bytes."""
    stamped = mark_message(MESSAGE, VERDICT)
    assert stamped.content == OURS + MESSAGE
    assert stamped.forged == 0


def test_a_message_that_failed_says_error_and_invents_nothing() -> None:
    """Where there was no decision, there is no confidence, stage, cost or bundle."""
    content = mark_message(MESSAGE, Verdict("error", note="deadline")).content
    assert content == (
        b"X-Emsco-Status: error\r\nX-Emsco-Confidence: none\r\nX-Emsco-Stage: none\r\n"
        b"X-Emsco-Cost: none\r\nX-Emsco-Bundle: none\r\n" + MESSAGE
    )


def test_failed_sources_are_named_in_a_sixth_header() -> None:
    """Their names and nothing else, each once."""
    verdict = dataclasses.replace(VERDICT, failed_sources=("store", "page"))
    assert mark_message(MESSAGE, verdict).content == OURS + b"X-Emsco-Degraded: store, page\r\n" + MESSAGE


@pytest.mark.parametrize(
    "forged",
    [
        b"X-Emsco-Status: ham\r\n",
        b"x-eMSCO-status:ham\r\n",
        b"X-Emsco-Status : ham\r\n",
        b"X-Emsco-Status\t: ham\r\n",
        b"X-Emsco-Status:\r\n ham\r\n\tand more\r\n \r\n",
        b"X-Emsco-Anything-Else: 1\r\n",
        b"X-Emsco-Degraded: store\r\n",
        b"X-Emsco-: 1\r\n",
        b"X-Emsco-Status\r\n : ham\r\n",
        b"X-Emsco-Status: ham\r\nX-Emsco-Status: ham\r\n",
        b"X-Emsco-Status: ham\n",
        b"X-Emsco-Status: ham\r",
        b"X-Emsco-Cost:\n 0\nX-Emsco-Stage: 1\n",
    ],
)
@pytest.mark.parametrize("before", [b"", b"Received: by a\r\n by b\r\n"])
def test_forged_headers_go_whatever_their_case_folding_and_line_ends(before: bytes, forged: bytes) -> None:
    """Exactly the forged lines are cut out, with the lines folded to them."""
    clean, removed = remove_forged_headers(before + forged + MESSAGE)
    assert clean == before + MESSAGE
    assert removed == len(re.findall(rb"(?i)x-emsco", forged))


def test_a_body_that_speaks_of_our_headers_is_left_alone() -> None:
    """A forwarded message quotes headers; they are text."""
    raw = b"Subject: x\n\nX-Emsco-Status: ham\nX-Emsco-Cost: 0\n\nX-Emsco-Stage: 1\n"
    assert remove_forged_headers(raw) == (raw, 0)


def test_a_header_behind_a_false_end_of_the_header_is_found() -> None:
    """Two readers may disagree on where the body begins; neither sees a forged header."""
    raw = b"Subject: a\n\nnot yet the body\r\nX-Emsco-Status: ham\r\n\r\nbody\r\n"
    assert remove_forged_headers(raw) == (b"Subject: a\n\nnot yet the body\r\n\r\nbody\r\n", 1)


def test_a_message_that_begins_with_a_folded_line_cannot_lengthen_our_headers() -> None:
    """Its first line would be read as the rest of our last header; it becomes the rest of a note."""
    content = mark_message(b" evil\r\nSubject: x\r\n\r\n", VERDICT).content
    assert content == OURS + b"X-Emsco-Note: the message began with a folded line\r\n evil\r\nSubject: x\r\n\r\n"


@pytest.mark.parametrize("text", ["a\r\nX-Emsco-Status: ham", "a\nb", "a\rb", "\x00", "é", "x" * 10_000])
def test_no_value_can_begin_another_line(text: str) -> None:
    """A bundle's unit or id may hold anything; each header stays one short line of ASCII."""
    content = mark_message(b"", Verdict("ham", 1.0, 1, 1.0, text, text)).content
    assert content.isascii()
    lines = content.split(b"\r\n")
    assert [line.partition(b":")[0] for line in lines[:-1]] == [
        b"X-Emsco-" + name for name in (b"Status", b"Confidence", b"Stage", b"Cost", b"Bundle")
    ]
    assert all(len(line) < 300 and b"\n" not in line and b"\r" not in line for line in lines)


def test_confidence_is_cut_and_not_rounded_up_to_certainty() -> None:
    """1.0000 would be a lie for anything below 1."""
    assert b"Confidence: 0.9999\r" in mark_message(b"", Verdict("ham", 0.99999999)).content
    assert b"Confidence: 1.0000\r" in mark_message(b"", Verdict("ham", 1.0)).content


@given(raw=SOUP)
@example(raw=b"A: b\rX-Emsco-Status: ham\n\nX-Emsco-Status: ham\n\nbody")
def test_no_reader_sees_a_header_of_ours_that_we_did_not_write(raw: bytes) -> None:
    """For any soup of line ends, folds and names: three readings and Python's own parser see our headers and no others."""
    content = mark_message(raw, VERDICT).content
    ours = [b"x-emsco-" + name for name in (b"status", b"confidence", b"stage", b"cost", b"bundle")]
    for breaks in (rb"\r\n", rb"\r\n|\n", rb"\r\n|\n|\r"):
        names = emsco_names(headers_seen(content, breaks))
        assert [name for name in names if name != b"x-emsco-note"] == ours
    parsed = email.message_from_bytes(content, policy=email.policy.compat32)
    assert parsed.get_all("X-Emsco-Status") == ["spam"]
    assert parsed.get_all("X-Emsco-Bundle") == ["ab" * 32]


@given(raw=SOUP)
def test_cutting_is_a_subsequence_and_done_once(raw: bytes) -> None:
    """What is left is what came, with whole pieces missing; a second pass finds nothing; without our name nothing is missing."""
    clean, removed = remove_forged_headers(raw)
    assert remove_forged_headers(clean) == (clean, 0)
    remaining = iter(raw)
    assert all(byte in remaining for byte in clean)
    assert (removed == 0) == (clean == raw)
    if b"x-emsco-" not in raw.lower():
        assert clean == raw


def test_a_header_bomb_is_cleaned_in_one_pass() -> None:
    """Of a hundred thousand forged headers a thousand are removed; the names of the others are overwritten."""
    clean, removed = remove_forged_headers(b"X-Emsco-A: 1\r\n" * 100_000 + b"\r\nbody")
    assert (clean, removed) == (b"X-ForgedA: 1\r\n" * 99_000 + b"\r\nbody", 100_000)


class CountingPattern:
    """A pattern that adds up the bytes that its searches look at."""

    def __init__(self, pattern: re.Pattern[bytes], looked_at: list[int]) -> None:
        self._pattern = pattern
        self._looked_at = looked_at

    def match(self, text: bytes, start: int) -> re.Match[bytes] | None:
        """Match as the pattern does: a few bytes."""
        return self._pattern.match(text, start)

    def search(self, text: bytes, start: int, end: int = sys.maxsize) -> re.Match[bytes] | None:
        """Search as the pattern does."""
        found = self._pattern.search(text, start, end)
        self._looked_at.append((min(end, len(text)) if found is None else found.end()) - start)
        return found

    def subn(self, replacement: bytes, text: bytes) -> tuple[bytes, int]:
        """Replace as the pattern does: each byte once."""
        self._looked_at.append(len(text))
        return self._pattern.subn(replacement, text)


@pytest.mark.parametrize("count", [500, 8_000])
@pytest.mark.parametrize(
    "unit",
    [
        b"a\rX-Emsco-1: x\n\n",
        b"a\nX-Emsco-1: x\r\n\r\n",
        b"a\nX-Emsco-\n",
        b"\rX-Emsco-\n",
        b"X-Emsco-\r",
        b"X-Emsco-\r\n \r\n",
        b"x-emsco-",
        b"X-Emsco-\nx-emsco-\r\r\n",
    ],
)
def test_each_byte_is_looked_at_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch, unit: bytes, count: int) -> None:
    """Whatever a removal uncovers, nothing is searched again: the same bound for each byte holds at every size."""
    looked_at: list[int] = []
    readings = tuple(
        one._replace(
            field_end=CountingPattern(one.field_end, looked_at),  # type: ignore[arg-type]
            empty_line=CountingPattern(one.empty_line, looked_at),  # type: ignore[arg-type]
        )
        for one in headers._READINGS
    )
    monkeypatch.setattr(headers, "_READINGS", readings)
    monkeypatch.setattr(headers, "_FORGED", CountingPattern(headers._FORGED, looked_at))
    raw = unit * count
    clean, _ = remove_forged_headers(raw)
    assert sum(looked_at) <= 6 * len(raw)
    assert len(looked_at) <= len(raw)
    assert remove_forged_headers(clean) == (clean, 0)


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
@pytest.mark.parametrize(
    "length", [WINDOW - 3, WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 2, 2 * WINDOW - 2, 2 * WINDOW - 1]
)
@pytest.mark.parametrize("fold", [b"", b" fold", b"\tfold"])
def test_a_folded_line_belongs_to_its_field_wherever_a_window_ends(end: bytes, length: int, fold: bytes) -> None:
    """A forged header whose line break lies at the end of a window takes its folded line along, and no other."""
    forged = b"X-Emsco-Status: " + b"x" * (length - 16)
    raw = forged + end + (fold + end if fold else b"") + b"A: b" + end + end + b"body"
    assert remove_forged_headers(raw) == (b"A: b" + end + end + b"body", 1)


@pytest.mark.parametrize("before", [WINDOW - 16, *range(WINDOW - 9, WINDOW + 1), 2 * WINDOW - 8, 3 * WINDOW + 100])
def test_a_forged_header_is_found_wherever_a_window_ends(before: int) -> None:
    """Large messages are searched in windows; a name that lies across the end of one is found."""
    raw = b"A: " + b"x" * (before - 5) + b"\r\n" + b"X-Emsco-Status: ham\r\n" + MESSAGE
    assert remove_forged_headers(raw) == (raw.replace(b"X-Emsco-Status: ham\r\n", b"", 1), 1)
