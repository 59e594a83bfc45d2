"""The text of a message after DATA: the same whatever pieces it comes in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from spam_filter.service.message_text import MessageText

SOUP = st.lists(st.sampled_from([b"\r\n", b"\r", b"\n", b".", b"a"]), max_size=14).map(b"".join)


def by_lines(wire: bytes) -> tuple[bytes, bytes]:
    """Return the message and what comes after it, read line by line as the RFC describes it."""
    content = b""
    while True:
        line, line_break, wire = wire.partition(b"\r\n")
        if line == b".":
            return content, wire
        content += line.removeprefix(b".") + line_break


@given(wire=SOUP, cuts=st.lists(st.integers(0, 40)), after=SOUP)
def test_pieces_of_any_size_give_what_reading_by_lines_gives(wire: bytes, cuts: list[int], after: bytes) -> None:
    """Ends, dots and bare line ends are found wherever a piece ends, and what comes after the message is handed back."""
    whole = wire + b"\r\n.\r\n" + after
    message, rest = by_lines(whole)
    text = MessageText(1000)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    for start, end in pairwise(places):
        found = text.feed(whole[start:end])
        if found is not None:
            assert (text.content, found + whole[end:]) == (message, rest)
            return
    pytest.fail("the end was not found")


@pytest.mark.parametrize(("size", "fits"), [(10, True), (11, False)])
def test_the_limit_counts_what_is_delivered(size: int, fits: bool) -> None:
    """A dot that was added for the wire does not count; of a larger message nothing is kept, and its end is still found."""
    text = MessageText(10)
    content = b"." + b"x" * (size - 3) + b"\r\n"
    for byte in b"." + content:
        assert text.feed(bytes([byte])) is None
    assert text.feed(b".\r\n") == b""
    assert text.content == (content if fits else None)
