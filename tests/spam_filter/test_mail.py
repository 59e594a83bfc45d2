"""Reading messages: whatever the bytes are, nothing raises, the work is bounded, and sound mail reads as others read it."""

from __future__ import annotations

import email
import email.policy

import pytest
from hypothesis import given, strategies as st
from spam_filter.message import mime
from spam_filter.message.address import NOBODY, read_address
from spam_filter.message.decoding import decode_text, decode_transfer
from spam_filter.message.header_block import read_header
from spam_filter.message.limits import HEADER_FIELDS, LINKS, PART_DEPTH, PARTS, SUBJECT_CHARACTERS, TEXT_CHARACTERS
from spam_filter.message.mail import Envelope, Mail
from spam_filter.message.markup import split_page, strip_tags
from spam_filter.synthetic.generator import generate

PROPERTIES = (
    "headers",
    "subject",
    "sender",
    "reply_to",
    "recipients",
    "date",
    "received",
    "parts",
    "plain",
    "html",
    "text",
    "links",
)
# Bytes that parsers take seriously, so that chance meets them often enough.
SPICE = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\n\n",
        b"\r\n\r\n",
        b":",
        b";",
        b"--",
        b"--x",
        b"--x--",
        b"\0",
        b"\xff",
        b"=",
        b"=?utf-8?q?",
        b"?=",
    ),
    *(
        b"Content-Type: multipart/mixed; boundary=x\n",
        b"Content-Type: message/rfc822\n",
        b"Content-Type: text/html; charset=utf-16\n",
    ),
    *(
        b"Content-Transfer-Encoding: base64\n",
        b"Subject: ",
        b"From: ",
        b"Date: Fri, 99 Foo 99999 99:99:99 +99999\n",
        b"<a href=",
        b"://",
    ),
)
ODD_BYTES = st.lists(st.one_of(st.sampled_from(SPICE), st.binary(max_size=30)), max_size=60).map(b"".join)


def read_all(mail: Mail) -> list[object]:
    """Return every property of a message."""
    return [getattr(mail, name) for name in PROPERTIES]


@given(ODD_BYTES)
def test_no_bytes_make_a_message_raise(raw: bytes) -> None:
    """Every property of every message can be read, in any state of disorder."""
    mail = Mail.parse(raw)
    read_all(mail)
    assert len(mail.text) <= TEXT_CHARACTERS
    assert len(mail.links) <= LINKS
    assert len(mail.parts) <= PARTS


@given(st.binary(max_size=200), st.text(max_size=20))
def test_text_is_decoded_whatever_charset_is_named(content: bytes, charset: str) -> None:
    """An unknown, wrong or impossible charset gives some text, and text in UTF-8 without a charset gives itself."""
    assert isinstance(decode_text(content, charset), str)
    assert decode_text("naïve café".encode()) == "naïve café"


@pytest.mark.parametrize("charset", ["hex", "rot13", "idna", "punycode", "unicode_escape", "undefined", "zlib", "\0", "é"])
def test_codecs_that_are_no_charsets_are_passed_over(charset: str) -> None:
    """Python knows codecs that make no text or take too long; a message cannot choose them."""
    assert decode_text(b"caf\xe9", charset) == "café"


@given(st.binary(max_size=300), st.sampled_from(["base64", "quoted-printable", "7bit", "nonsense", ""]))
def test_transfer_encodings_never_raise(content: bytes, encoding: str) -> None:
    """Broken base64 and quoted-printable decode to something."""
    assert isinstance(decode_transfer(content, encoding), bytes)


def test_sound_messages_read_as_the_email_package_reads_them() -> None:
    """Kinds of parts, text and subject agree with Python's own parser on mail that was not broken on purpose."""
    compared = 0
    for one in generate(150, seed=3):
        theirs = email.message_from_bytes(one.raw, policy=email.policy.default)
        broken = any(mark in one.raw for mark in (b"bundary", b"no-such", b"\xa4\xfe"))
        if broken or any(part.defects for part in theirs.walk()):
            continue
        mine = Mail.parse(one.raw)
        leaves = [part for part in theirs.walk() if not part.is_multipart()]
        assert [part.kind for part in mine.parts] == [part.get_content_type() for part in leaves]
        texts = [part for part in leaves if part.get_content_type() == "text/plain"]
        assert mine.parts[0].text().split() == texts[0].get_content().split()
        assert " ".join(mine.subject.split()) == " ".join(str(theirs["subject"]).split())
        compared += 1
    assert compared > 120


def test_a_header_is_unfolded_and_decoded() -> None:
    """Folds are joined, encoded words decoded, names of any case found, and a line that is not a field is skipped."""
    raw = b"SUBJECT: =?iso-8859-1?Q?caf=E9?=\r\n =?utf-8?B?IGF1IGxhaXQ=?=\r\nnonsense\r\nX : y\r\n\r\nbody"
    mail = Mail.parse(raw)
    assert mail.subject == "café au lait"
    assert mail.headers.get("x") == "y"
    assert raw[mail.headers.body :] == b"body"


def test_the_tag_and_the_footer_of_a_mailing_list_are_set_apart() -> None:
    """What list software adds says nothing about a message: subject, text and links come without it; the footer is kept."""
    footer = b"\n" + b"_" * 47 + b"\ngardeners mailing list\nhttp://lists.example.org/gardeners\n"
    plain = Mail.parse(b"Subject: Re: roses\n\nPrune them.")
    listed = Mail.parse(b"Subject: Re: [gardeners] roses\n\nPrune them." + footer)
    assert (listed.subject, listed.text, listed.links) == (plain.subject, plain.text, plain.links)
    assert listed.footer == "gardeners mailing list\nhttp://lists.example.org/gardeners"
    assert listed.footer_links == ("lists.example.org/gardeners",)
    assert (plain.footer, plain.footer_links) == ("", ())


def test_the_sender_is_the_one_of_the_envelope_where_the_header_names_none() -> None:
    """A message without a From field has the envelope's sender, and an empty one without an envelope."""
    envelope = Envelope("a@x.example", ("b@y.example",), "127.0.0.1")
    assert str(Mail.parse(b"\n\n", envelope).sender) == "a@x.example"
    assert Mail.parse(b"\n\n").sender is NOBODY
    assert read_address("(" * 50_000) is NOBODY


def test_deep_nesting_ends_at_the_limit() -> None:
    """A thousand parts within parts are opened as deep as the limit says; the rest is one leaf."""
    raw = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth) for depth in range(1000))
    parts = Mail.parse(raw).parts
    assert len(parts) == 1
    assert parts[0].content.count(b"boundary=") >= 1000 - PART_DEPTH - 1


def test_many_parts_many_fields_and_long_subjects_end_at_the_limit() -> None:
    """A header bomb and a part bomb cost what the limits allow."""
    bomb = Mail.parse(b"X-Bomb: 1\n" * 100_000 + b"Subject: late\n\nbody")
    assert len(bomb.headers.fields) == HEADER_FIELDS
    assert bomb.text == "body"
    many = Mail.parse(b"Content-Type: multipart/mixed; boundary=x\n\n" + b"--x\n\na\n" * 10_000)
    assert 0 < len(many.parts) <= PARTS
    assert len(Mail.parse(b"Subject: " + b"a" * 60_000 + b"\n\n").subject) == SUBJECT_CHARACTERS


def test_an_inner_boundary_may_begin_like_the_outer_one() -> None:
    """`--x1` ends no part of `--x`: lines are compared to their end."""
    inner = b"Content-Type: multipart/alternative; boundary=x1\n\n--x1\n\none\n--x1\nContent-Type: text/html\n\n<p>two\n--x1--\n"
    raw = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n" + inner + b"--x--\n"
    assert [part.kind for part in Mail.parse(raw).parts] == ["text/plain", "text/html"]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_any_line_end_will_do(line_end: bytes) -> None:
    """Line ends of all kinds separate fields, and an empty line ends the header."""
    block = read_header(line_end.join([b"A: 1", b"B: 2", b"", b"C: 3"]))
    assert block.fields == (("a", "1"), ("b", "2"))


def test_scripts_and_styles_are_no_text_even_if_they_never_end() -> None:
    """Stripping tags leaves out what no reader sees; of a style that is never closed, the rest counts as hidden."""
    assert strip_tags("a<script>x</script>b") == "ab"
    assert split_page("a<style>x" * 1000).visible == "a"


@given(st.lists(st.sampled_from([b"--b", b"--", b"b", b"x", b" ", b"\r\n", b"\n", b"\r"]), max_size=40).map(b"".join))
def test_many_lines_like_a_boundary_are_no_other_parts(body: bytes) -> None:
    """Beyond some of them boundaries are found by a pattern: the same ones."""
    by_lines = mime._split_at_boundary(body, b"--b")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mime, "_MANY_OTHERS", 1)
        assert mime._split_at_boundary(body, b"--b") == by_lines
