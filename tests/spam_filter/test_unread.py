"""What a reader sees is read, wherever it is put; and where something was not read, the message is never called ham."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pytest
from spam_filter.learned.clues import link_hosts
from spam_filter.message.limits import HEADER_FIELDS, KNOWN_CHARACTERS, PART_BYTES, PARTS, RAW_BYTES, TEXT_CHARACTERS
from spam_filter.message.mail import Mail
from spam_filter.message.markup import split_page
from spam_filter.model import Model
from spam_filter.service.classification import classify
from spam_filter.service.headers import mark_message
from spam_filter.synthetic.generator import generate
from spam_filter.training.pipeline import TrainedModel

MULTIPART = b"Content-Type: multipart/mixed; boundary=x\n\n"


@pytest.mark.parametrize(
    "source",
    [
        "<!-- <style> -->buy<!-- </style> -->",
        "<!-->buy<!-- -->",
        "<!--->buy<!-- -->",
        "<!-- x --!>buy<!-- -->",
        "<style-x>buy</style-x>",
        "<a title='<style>'>buy</a><style></style>",
        "<a title='<!-- <!--'>buy</a> -->",
        "<script>1</script>buy<script>2</script>",
        '<p title="> <!--">buy<!-- -->',
        "<p title='> <style>'>buy</style>",
        "<title><!-- </title>buy<!-- -->",
        "<textarea><!--</textarea>buy<!-- -->",
    ],
)
def test_what_a_browser_shows_is_read(source: str) -> None:
    """A comment ends where browsers end it, and neither it nor a style begins within the other, or within a tag."""
    assert "buy" in split_page(source).visible


@pytest.mark.parametrize(
    "source", ["<style>buy", "<script>buy", "<!-- buy", "<!--[if mso]>buy<![endif]-->", "<style>p {content: 'buy'}</style>"]
)
def test_what_a_browser_may_show_is_kept(source: str) -> None:
    """What never ends is not lost, nor what only some mail programs show."""
    page = split_page(source)
    assert "buy" in f"{page.visible} {page.hidden}"


def in_part(head: bytes, body: bytes = b"please buy this") -> Mail:
    """Return a message with some text, and a second part with such a header."""
    return Mail.parse(MULTIPART + b"--x\n\nhello\n--x\n" + head + b"\n\n" + body + b"\n--x--\n")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Type: application/octet-stream",
        b"Content-Type: application/xhtml+xml",
        b"Content-Type: application/x-html",
        b"Content-Type: image/svg+xml",
        b"Content-Type: text",
        b"Content-Type: html",
        b"Content-Type: text/plain\nContent-Disposition: attachment",
        b"Content-Type: text/html\nContent-Disposition: attachment",
        b"Content-Type: text/html (a page)",
    ],
)
def test_text_is_read_whatever_a_part_is_called(head: bytes) -> None:
    """Mail programs show text in a part that is called an attachment, or nothing they know."""
    mail = in_part(head)
    assert "please buy this" in mail.text
    assert mail.is_read_whole


@pytest.mark.parametrize("kind", [b"image/png", b"application/vnd.ms-word", b"application/octet-stream", b"application/zip"])
@pytest.mark.parametrize("before", [b"", b"%PDF-1.4\n", b"\x01\x02\x03" * 200])
def test_a_file_that_is_named_as_text_is_read_whatever_is_said_of_it(kind: bytes, before: bytes) -> None:
    """A reader opens a page by its name: neither its type nor how it begins keeps it from being read."""
    head = b"Content-Type: " + kind + b'\nContent-Disposition: attachment; filename="page.html"'
    mail = in_part(head, before + b"<html><body><p>please buy this")
    assert "please buy this" in mail.text
    assert mail.parts[1].reads_as == "html"


def test_rich_text_and_attributes_that_are_shown_are_read() -> None:
    """Words of enriched text are whole, and so is what stands instead of a picture, on a button, or within angle brackets."""
    enriched = Mail.parse(b"Content-Type: text/enriched\n\nplease b<bold></bold>uy this")
    assert enriched.text.split() == ["please", "buy", "this"]
    page = Mail.parse(b"Content-Type: text/html\n\n<img src=a.png alt=\"please buy\"><input value='this'> < now >")
    assert "please buy this" in page.text
    assert "< now >" in page.text
    frame = Mail.parse(b"Content-Type: text/html\n\n<img/alt=please><iframe srcdoc='b&lt;b&gt;uy " + b"x " * 2000 + b"this'>")
    assert {"please", "buy", "this"} <= set(frame.text.split())


@pytest.mark.parametrize("body", [b" " * 5000 + b"<p>please buy this", b"<p>please buy \x01this" + b"." * 100])
def test_text_is_found_behind_space_and_control_characters(body: bytes) -> None:
    """What a mail program shows as text is text, whatever it begins with."""
    mail = in_part(b"Content-Type: application/octet-stream", body)
    assert "please buy this" in mail.words.text


@pytest.mark.parametrize("kind", [b"message/rfc822", b"message/global"])
@pytest.mark.parametrize("encoding", ["7bit", "base64", "quoted-printable"])
def test_an_attached_message_is_read_in_any_encoding(kind: bytes, encoding: str) -> None:
    """Mail programs undo the encoding of an attached message, though the standard has none."""
    inner = b"Subject: a\n\nplease buy this\n"
    encoded = {"7bit": inner, "base64": base64.encodebytes(inner), "quoted-printable": inner.replace(b"y", b"=79")}[encoding]
    mail = in_part(b"Content-Type: " + kind + b"\nContent-Transfer-Encoding: " + encoding.encode(), encoded)
    assert "please buy this" in mail.text


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Transfer-Encoding: quoted-printable", b"please b= \nuy this"),
        (b"Content-Type: text/plain; format=flowed; delsp=yes", b"please b \r\nuy this"),
        (b"Content-Type: text/calendar", b"please b\r\n uy this"),
        (b"Content-Type: text/calendar", b"please b\r\n\tuy this"),
    ],
)
def test_words_cut_by_soft_line_breaks_are_whole(head: bytes, body: bytes) -> None:
    """What only breaks lines is no part of the text."""
    assert Mail.parse(head + b"\n\n" + body).text == "please buy this"


@pytest.mark.parametrize(
    "link", ["http://bad.example#@good.example/", "http://bad.example\\@good.example/x", "http&#58;//bad.example/"]
)
def test_the_host_of_a_link_is_the_one_that_a_browser_asks(link: str) -> None:
    """What follows the host is no user name, and entities are letters."""
    mail = Mail.parse(f"Content-Type: text/html\n\n<a href='{link}'>see</a>".encode())
    assert link_hosts(mail) == ["bad.example"]


@pytest.mark.parametrize(
    "value",
    ['"a@good.example" <b@bad.example>', "(a@good.example) b@bad.example", "=?utf-8?q?a=40good.example?= <b@bad.example>"],
)
def test_the_sender_is_whom_an_answer_would_reach(value: str) -> None:
    """An address in a name is a name."""
    assert str(Mail.parse(f"From: {value}\n\nhello".encode()).sender) == "b@bad.example"


def test_without_a_type_it_is_plain_text() -> None:
    """Markup in a message that names no type is shown as it stands, and read so."""
    mail = Mail.parse(b"Subject: a\n\n<p>please <b>buy</b> this")
    assert (mail.plain, mail.html) == ("<p>please <b>buy</b> this", "")


def test_what_is_no_text_is_not_read() -> None:
    """The bytes of a picture are none of the message's words."""
    mail = in_part(b"Content-Type: application/octet-stream", b"\x89PNG\x1a\x00\x01 please buy this")
    assert "please" not in mail.text
    assert mail.is_read_whole


def test_a_line_that_begins_like_the_last_boundary_is_text() -> None:
    """What follows such a line is still part of the message."""
    mail = Mail.parse(MULTIPART + b"--x\n\nhello\n--x--y\nplease buy this\n--x--\n")
    assert "please buy this" in mail.text


def test_two_runs_of_base64_are_read() -> None:
    """Padding in the middle ends a run, not the text; plain words after it are no base64."""
    first, second = base64.b64encode(b"hello you"), base64.b64encode(b"please buy this!")
    head = b"Content-Transfer-Encoding: base64\n\n"
    assert Mail.parse(head + base64.b64encode(b"hell") + b"\n" + second).text == "hellplease buy this!"
    assert Mail.parse(head + base64.b64encode(b"hell") + b"\n-- a list\nof gardeners").text == "hell"
    cut = b"\n".join(
        base64.b64encode(b"please buy this, dear friend, it is cheap and good.")[at : at + 20] for at in range(0, 68, 20)
    )
    assert "dear friend" in Mail.parse(head + base64.b64encode(b"hell") + b"!\n" + cut).text
    long = b"please buy this " * 10
    assert long.decode() in Mail.parse(head + base64.b64encode(b"hell") + b"\n!\n" + base64.b64encode(long)).text
    assert Mail.parse(head + first + b"\n").text == "hello you"


@pytest.mark.parametrize("charset", ["ucs-2", "unicode", "utf-16-le"])
def test_wide_letters_are_read_under_any_name(charset: str) -> None:
    """Two bytes for each letter are seen in the bytes."""
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n".encode()
    assert Mail.parse(head + base64.b64encode("please buy this".encode("utf-16-le"))).text == "please buy this"


@pytest.mark.parametrize(
    ("charset", "content"),
    [
        ("utf-8", "\ufeffplease buy this".encode("utf-16-le")),
        ("", "\ufeffplease buy this".encode("utf-16-be")),
        ("utf-16", "please buy this".encode("utf-16-be")),
        ("utf-32", "please buy this".encode("utf-32")),
        ("utf-16", "please buy this".encode("utf-16-le") + b"\x00\xd8"),
        ("ucs-2", ("\u200b" * 600 + "please buy this").encode("utf-16-le")),
    ],
)
def test_wide_letters_are_read_in_either_order(charset: str, content: bytes) -> None:
    """By the mark at their beginning, or by where the zeros are; one bad letter does not spoil the others."""
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n".encode()
    assert "please buy this" in Mail.parse(head + base64.b64encode(content)).text


@dataclass(frozen=True)
class Unread:
    """A message that is not read whole, and its name."""

    name: str
    raw: bytes


UNREAD = [
    Unread("long text", b"\n" + b"hello " * (KNOWN_CHARACTERS // 6 + 1)),
    Unread("white space", b"\nhello" + b" " * KNOWN_CHARACTERS + b"please buy this"),
    Unread("long part", b"\n" + b"<!--" + b"a" * PART_BYTES + b"-->"),
    Unread(
        "long message", MULTIPART + b"--x\nContent-Type: image/png\n\n" + b"a" * RAW_BYTES + b"\n--x\n\nplease buy this\n--x--\n"
    ),
    Unread("many parts", MULTIPART + b"--x\n\nhello\n" * (PARTS + 1) + b"--x--\n"),
    Unread("many fields", b"A: b\n" * HEADER_FIELDS + b"\nhello"),
    Unread("sealed", b"Content-Type: application/pkcs7-mime\n\nhello"),
    Unread("unknown encoding", b"Content-Transfer-Encoding: x-uuencode\n\nhello"),
    Unread("UTF-7", b"Content-Type: text/plain; charset=utf-7\n\nhello"),
    Unread("UTF-7 by another name", b"Content-Type: text/plain; charset=unicode-1-1-utf-7\n\nhello"),
    Unread("TNEF", b"Content-Type: application/ms-tnef\n\nhello"),
    Unread("line that is no field", b"Subject: a\nplease buy this\nTo: b\n\nhello"),
    Unread("two types", b"Content-Type: text/plain\nContent-Type: text/html\n\nhello"),
    Unread("two boundaries", b"Content-Type: multipart/mixed; boundary=x; boundary=y\n\n--x\n\nhello\n--y\n\nbuy\n--y--\n"),
    Unread("boundary in pieces", b"Content-Type: multipart/mixed; boundary*0=x; boundary*1=y\n\n--xy\n\nhello\n--xy--\n"),
    Unread("boundary not found", b"Content-Type: multipart/mixed; boundary=x\n\n--y\n\nhello\n--y--\n"),
    Unread("encoded parts", MULTIPART.replace(b"\n\n", b"\nContent-Transfer-Encoding: base64\n\n") + b"--x\n\nhello\n--x--\n"),
    Unread(
        "archive", MULTIPART + b"--x\n\nhello\n--x\nContent-Type: application/zip; name=a.zip\n\nPK\x03\x04\x00\x01\x02\n--x--\n"
    ),
    Unread("two senders", b"From: a@x.example\nFrom: b@y.example\n\nhello"),
    Unread(
        "page that writes itself",
        MULTIPART + b"--x\n\nhello\n--x\nContent-Type: text/html\nContent-Disposition: attachment\n\n<script>1</script>\n--x--\n",
    ),
    Unread("behind a long footer", b"\nhello\n" + b"_" * 60 + b"\n" + b"\x1c" * TEXT_CHARACTERS + b"please buy this"),
]


@pytest.mark.parametrize("message", UNREAD, ids=lambda message: message.name)
def test_what_was_not_read_is_noticed(message: Unread) -> None:
    """Beyond a limit, in a form that is not known, or in a text so long that it is only sampled."""
    assert not Mail.parse(message.raw).is_read_whole


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Type: text/plain; name=a.zip",
        b"Content-Type: application/octet-stream; name=a.docx\nContent-Disposition: attachment; filename=a.zip",
        b"Content-Type: application/octet-stream; name=a.txt\nContent-Disposition: attachment; filename=a.zip",
        b"Content-Type: application/octet-stream",
    ],
)
@pytest.mark.parametrize(
    "content", [b"PK\x03\x04 readable " * 200, b"xPK\x03\x04\x00\x01\x02", b"\0" * 257 + b"ustar\x00\x01\x02"]
)
def test_an_archive_is_noticed_whatever_it_is_called(head: bytes, content: bytes) -> None:
    """By any of its names, or by how it begins, with something before it: what it holds was not read."""
    assert not in_part(head, content).is_read_whole


@pytest.mark.parametrize(
    "raw",
    [
        b"From a@x.example Tue\n>From b\nSubject: a\n\nhello",
        b"Subject: a\nSubject: a\nContent-Type: text/plain\nContent-Type: text/plain\n\nhello",
        MULTIPART + b"--x--\n",
        MULTIPART + b"--x\n\nhello\n--x\nContent-Type: application/rtf\n\n" + b"{\\rtf1 a}" * 5000 + b"\n--x--\n",
        MULTIPART + b"--x\n\nhello\n--x\nContent-Type: application/octet-stream\n\n" + b"%PDF-1.4 a\n" * 5000 + b"\n--x--\n",
        MULTIPART + b"--x\n\nhello\n--x\nContent-Type: application/octet-stream; name=a.docx\n\nPK\x03\x04\x00\x01\x02\n--x--\n",
    ],
    ids=["lines of mailboxes", "fields twice", "no parts", "document", "document of no kind", "document that is an archive"],
)
def test_what_mail_programs_agree_about_is_read_whole(raw: bytes) -> None:
    """Old mail servers, repeated fields and documents are nothing unusual."""
    assert Mail.parse(raw).is_read_whole


def test_lines_that_are_not_flowed_stay_apart() -> None:
    """Only flowed text may lose the spaces at its line ends, and never that of the line before a signature."""
    assert Mail.parse(b"Content-Type: text/html; delsp=yes\n\nbuy \nthis").text.split() == ["buy", "this"]
    flowed = b"Content-Type: text/plain; format=flowed; delsp=yes\n\nhello\n-- \nme"
    assert Mail.parse(flowed).text == "hello\n-- \nme"


def test_a_conditional_comment_is_a_page_of_its_own() -> None:
    """Its condition and its styles are no text; letters that grow in lower case do not move what follows."""
    assert split_page("<!--[if mso]><style>p {}</style>buy<![endif]-->").hidden.split() == ["buy"]
    assert "buy this" in split_page("\u0130" * 40 + "<style>a {}</style>buy this").visible


def test_the_value_of_a_boundary_may_be_anything() -> None:
    """The word within it is no second one."""
    assert Mail.parse(
        b'Content-Type: multipart/mixed; boundary="Boundary_x"\n\n--Boundary_x\n\nhello\n--Boundary_x--\n'
    ).is_read_whole


def test_ordinary_mail_is_read_whole() -> None:
    """None of the synthetic messages is beyond a limit; some are broken on purpose."""
    whole = [Mail.parse(one.raw).is_read_whole for one in generate(60, seed=3) if b" bundary=" not in one.raw]
    assert len(whole) > 40
    assert all(whole)


class HamModel:
    """A model that calls everything ham."""

    def __init__(self, model: Model) -> None:
        """Take over the manifest of a model."""
        self._manifest = model.cascade.manifest

    @property
    def cascade(self) -> Any:
        """Return itself: it is its own cascade."""
        return self

    @property
    def manifest(self) -> Any:
        """Return the manifest."""
        return self._manifest

    def decide(self, item: Mail, *, deadline_s: float | None = None) -> Any:
        """Accept as ham."""
        return Accepted()


@dataclass(frozen=True)
class Accepted:
    """A decision for ham."""

    status: str = "accepted"
    label: str = "ham"
    reason: None = None
    confidence: float = 0.99
    stages: int = 1
    cost: float = 1.0
    bundle: str = "b"
    trace: tuple[()] = ()


def test_what_was_not_read_is_never_ham(trained: TrainedModel) -> None:
    """Not even where the cascade is sure; a header says why."""
    with Model.open(trained.folder) as model:
        sure: Any = HamModel(model)
        read = classify(sure, b"Subject: a\n\nsee you at the station at noon, then", None, None)
        assert (read.status, read.unread) == ("ham", False)
        assert b"X-Emsco-Unread" not in mark_message(b"", read).content
        for message in UNREAD:
            verdict = classify(sure, message.raw, None, None)
            assert (verdict.status, verdict.unread) == ("unsure", True)
            assert b"\r\nX-Emsco-Unread: more text or parts than are read\r\n" in mark_message(b"", verdict).content
