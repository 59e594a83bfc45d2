"""Messages made worse: truncated, shuffled, random bytes, header bombs, deep MIME, and what hostile senders think of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

__all__ = ["mutate"]


def mutate(raws: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` mutated messages, each from one of the given ones."""
    draw = random.Random(seed)
    for number in range(count):
        yield MUTATIONS[number % len(MUTATIONS)](draw, draw.choice(raws))


def _truncate(draw: random.Random, raw: bytes) -> bytes:
    return raw[: draw.randrange(len(raw) + 1)]


def _shuffle_lines(draw: random.Random, raw: bytes) -> bytes:
    lines = raw.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def _shuffle_blocks(draw: random.Random, raw: bytes) -> bytes:
    size = draw.randint(1, 200)
    blocks = [raw[start : start + size] for start in range(0, len(raw), size)]
    draw.shuffle(blocks)
    return b"".join(blocks)


def _random_bytes(draw: random.Random, raw: bytes) -> bytes:
    return draw.randbytes(draw.randrange(min(len(raw), 20_000) + 1))


def _flip_bytes(draw: random.Random, raw: bytes) -> bytes:
    content = bytearray(raw)
    for _ in range(len(content) // 50):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return bytes(content)


def _header_bomb(draw: random.Random, raw: bytes) -> bytes:
    line = draw.choice(
        (b"X-Bomb: x\n", b"Received: from a by b; nonsense\n", b"Subject: =?utf-8?q?=41?=\n", b"To: a@b.example,\n c@d.example\n")
    )
    return line * draw.randint(1_000, 30_000) + raw


def _long_header(draw: random.Random, raw: bytes) -> bytes:
    filler = draw.choice((b"(", b"=?utf-8?b?", b"<a@", b'"', b"[", b" ", b";a=b", b"9"))
    name = draw.choice((b"From", b"Subject", b"Date", b"To", b"Content-Type", b"Received", b"Message-ID", b"Reply-To"))
    return name + b": " + filler * draw.randint(1_000, 50_000) + b"\n" + raw


def _deep_mime(draw: random.Random, raw: bytes) -> bytes:
    depth = draw.randint(10, 2_000)
    same = draw.random() < 0.5
    kinds = (b"multipart/mixed; boundary=b%d\n\n--b%d\n", b"message/rfc822; x=%d; y=%d\n\n")
    kind = draw.choice(kinds)
    return b"".join(b"Content-Type: " + kind % ((0, 0) if same else (level, level)) for level in range(depth)) + raw


def _many_parts(draw: random.Random, raw: bytes) -> bytes:
    part = b"--x\nContent-Type: text/html\n\n<p>" + raw[:20] + b"\n"
    return b"Content-Type: multipart/mixed; boundary=x\n\n" + part * draw.randint(100, 20_000)


def _hostile_html(draw: random.Random, _: bytes) -> bytes:
    piece = draw.choice(
        (
            b"<div>",
            b"<b a=%d>" % draw.randrange(9),
            b"<a href=",
            b"<!--",
            b"<style>",
            b"<table><tr>",
            b"&#x110000;",
            b"</p>",
            b"<![CDATA[",
            b"&amp",
        ),
    )
    tail = draw.choice((b"", b"<p>" * 5_000, b">" * 5_000))
    return b"Content-Type: text/html\n\n" + piece * draw.randint(1_000, 40_000) + tail


def _hostile_text(draw: random.Random, _: bytes) -> bytes:
    piece = draw.choice(
        (b"a", b"a ", b"http://x.example/ ", b"$", b"-" * 60 + b"\n", b"> ", b"\0", b"\xf0\x9f\x98\x80", b"://", b"aB1!")
    )
    encoding = draw.choice((b"7bit", b"base64", b"quoted-printable", b"x-none"))
    charset = draw.choice((b"utf-8", b"utf-7", b"idna", b"hex", b"utf-16", b"iso-2022-jp", b"\xff"))
    head = b"Content-Type: text/plain; charset=" + charset + b"\nContent-Transfer-Encoding: " + encoding + b"\n\n"
    return head + piece * draw.randint(1_000, 200_000)


MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _truncate,
    _shuffle_lines,
    _shuffle_blocks,
    _random_bytes,
    _flip_bytes,
    _header_bomb,
    _long_header,
    _deep_mime,
    _many_parts,
    _hostile_html,
    _hostile_text,
)
