"""Words in disguise: a reader sees the same word in all of them, and so do the stores."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from spam_filter.learned.clues import sample_words, subject_clues, word_clues
from spam_filter.message.disguise import undo_disguise
from spam_filter.message.limits import KNOWN_CHARACTERS, SAMPLE_SPACING
from spam_filter.message.mail import Mail
from spam_filter.message.markup import split_page
from spam_filter.message.words import sample_windows, word_chunks


def page(body: str) -> Mail:
    """Return a message with a page."""
    return Mail.parse(b"Content-Type: text/html; charset=utf-8\n\n" + body.encode())


@pytest.mark.parametrize(
    "word",
    [
        "mort\u200bgage",
        "mort\x01gage",
        "mort\ufe20gage",
        "mort\U0001d173gage",
        "\u24a8ortg\u249cge",
        "mo\u027dtga\u0260\u025b",
        "mort\u0262age",
        "mort\u00adgage",
        "m\u043ertg\u0430g\u0435",
        "\uff4dortgage",
        "\U0001d426ortgage",
        "mo\u0301rtgage",
        "m\u00f6rtg\u00e0ge",
        "m o r t g a g e",
        "m.o.r.t.g.a.g.e",
        "m0rtg4ge",
        "mortg@ge",
    ],
)
def test_a_word_in_disguise_is_the_word(word: str) -> None:
    """Invisible characters, look-alikes, accents, gaps and digits are undone."""
    assert undo_disguise(f"the {word} now").text == "the mortgage now"


def test_tricks_are_counted_and_ordinary_text_has_none() -> None:
    """What no honest writer does is counted; abbreviations, addresses, accents and other scripts are not."""
    assert undo_disguise("fr\u200bee m\u043eney \uff46ree f r e e").disguised == 4
    for text in (
        "e.g. me@home.org, caf\u00e9, mp3",
        "\u043f\u0440\u0438\u0432\u0435\u0442 \u0434\u0440\u0443\u0433",
        "I am a man",
        "",
    ):
        assert undo_disguise(text).disguised == 0
    assert (
        undo_disguise("\u043f\u0440\u0438\u0432\u0435\u0442 me@home.org").text
        == "\u043f\u0440\u0438\u0432\u0435\u0442 me@home.org"
    )


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    """Nothing raises, and what has been undone once has no look-alikes left to count."""
    once = undo_disguise(text)
    assert once.disguised >= 0
    assert undo_disguise(once.text).disguised <= once.disguised + len(text)


@pytest.mark.parametrize(
    "cut", ["<b></b>", "<!-- x > y -->", "<zq>", "<span style='display:none'>zq</span>", "<font size=0>z</font>", "&#8203;"]
)
def test_markup_within_a_word_leaves_no_gap(cut: str) -> None:
    """The clues of a page whose words are cut by markup are those of the page without it, what is hidden aside."""
    whole, broken = page("<p>cheap mortgage today"), page(f"<p>cheap mort{cut}gage to{cut}day")
    assert {*word_clues(whole)[0]} <= {*word_clues(broken)[0]}


def test_blocks_end_a_word() -> None:
    """Cells, lines and paragraphs are apart, as on the screen."""
    assert split_page("<td>one</td><td>two</td>three<br>four<p>five").visible.split() == ["one", "two", "three", "four", "five"]


def test_hidden_text_is_apart_and_not_lost() -> None:
    """What a style hides comes after what is visible, whether or not the tag is ever closed."""
    found = split_page("<div style='display: none'>roses <div>and</div> thyme</div>buy")
    assert (found.visible.split(), found.hidden.split()) == (["buy"], ["roses", "and", "thyme"])
    for source in (
        "<p style='visibility:hidden'>buy",
        "<i style='font-size:0px'>buy",
        "<div hidden>buy",
        "<b style='opacity:0'>buy",
    ):
        assert split_page(source).hidden.split() == ["buy"]
        assert "buy" in page(source).text
    for source in (
        "<p style='font-size:10px'>buy",
        "<p style='opacity:0.8'>buy",
        "<br style='display:none'>buy",
        "<p title='display'>buy",
    ):
        assert split_page(source).visible.split() == ["buy"]


@given(st.text(alphabet="<>!-/abip =':;", max_size=300))
def test_any_markup_can_be_read(source: str) -> None:
    """Nothing raises, and no tag is left."""
    found = split_page(source)
    assert "<b>" not in found.visible + found.hidden


def test_other_text_cannot_push_the_rest_out_of_all_windows() -> None:
    """Windows reach from the beginning to the end of a text of any length, and lie close together in a long one."""
    for length in (1, 5, 60, 400, 1500, 9000):
        text = " ".join(f"word{'abcdefghij'[place % 10]}{place}" for place in range(length))
        windows = sample_windows(text, 6, 10)
        assert 1 <= len(windows) <= max(6, min(len(text), KNOWN_CHARACTERS) // SAMPLE_SPACING)
        if 6 * SAMPLE_SPACING <= len(text) <= KNOWN_CHARACTERS:
            # A few sentences, wherever they are, hold words of one of them.
            assert max(text.index(later[0]) - text.index(one[-1]) for one, later in pairwise(windows)) < 1.2 * SAMPLE_SPACING
        assert all(len(window) <= 10 for window in windows)
        assert windows[0][0] == text.split()[0]
        chunks = word_chunks(text, 16, 50)
        assert len(chunks) == min(16, -(-length // 50))
        assert chunks[0][0] == text.split()[0]
        assert chunks[-1][-1] == text.split()[-1]
    assert sample_windows("", 6, 10) == word_chunks("", 16, 50) == []
    assert sample_words(Mail.parse(b"")) == []


def test_the_subject_is_read_out_of_disguise() -> None:
    """The clues of a subject are those of the words that a reader sees."""
    plain, broken = (Mail.parse(f"Subject: {subject}\n\n".encode()) for subject in ("free money", "f.r.e.e m0ney"))
    assert subject_clues(plain) == subject_clues(broken)
