r"""The packets of the milter protocol: four bytes of length, a letter, and data, whose strings end with ``\0``.

Nothing is decoded that a client of the mail server has chosen but as bytes that may be anything: no packet of a mail server that
keeps to the protocol raises, whatever its client sent.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Final, NamedTuple

__all__ = [
    "ACCEPT",
    "CONTINUE",
    "NO_REPLY",
    "TEMPORARY_FAILURE",
    "Packet",
    "PacketError",
    "change_header",
    "client_address",
    "insert_header",
    "negotiate",
    "read_packet",
    "strings",
]

# One packet of a header or of a body has 64 kB at most, unless larger ones were agreed on.
_MOST_BYTES: Final = 1 << 21
_ADD_HEADERS, _CHANGE_HEADERS = 0x01, 0x10
_LEADING_SPACE: Final = 0x100000
# The mail server need not wait for an answer to anything but the end of a message.
NO_REPLY: Final = {
    b"C": 0x1000,
    b"H": 0x2000,
    b"M": 0x4000,
    b"R": 0x8000,
    b"T": 0x10000,
    b"U": 0x20000,
    b"N": 0x40000,
    b"B": 0x80000,
    b"L": 0x80,
}
_VERSION: Final = 6


class PacketError(Exception):
    """What came is not the milter protocol."""


class Packet(NamedTuple):
    """One packet: its letter, and what follows."""

    command: bytes
    data: bytes = b""

    def encode(self) -> bytes:
        r"""Return its bytes.

        Examples
        --------
        >>> Packet(b"a").encode()
        b'\x00\x00\x00\x01a'
        """
        return struct.pack("!L", len(self.data) + 1) + self.command + self.data


ACCEPT: Final = Packet(b"a")
CONTINUE: Final = Packet(b"c")
TEMPORARY_FAILURE: Final = Packet(b"t")


async def read_packet(reader: asyncio.StreamReader) -> Packet | None:
    """Return the next packet; None at the end of the connection.

    Raises
    ------
    PacketError
        If its length makes no sense.
    """
    try:
        (length,) = struct.unpack("!L", await reader.readexactly(4))
        if not 1 <= length <= _MOST_BYTES:
            raise PacketError(f"expected a packet of 1 to {_MOST_BYTES} bytes, got {length}")
        content = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
    return Packet(content[:1], content[1:])


class Agreement(NamedTuple):
    """What was agreed on: our answer, which packets need no reply, and whether a header's value keeps its leading blanks."""

    answer: Packet
    silent: frozenset[bytes]
    leading_space: bool


def negotiate(data: bytes) -> Agreement:
    """Return what to agree on with a mail server.

    Raises
    ------
    PacketError
        If it cannot add and change headers.
    """
    if len(data) < 12:
        raise PacketError(f"expected 12 bytes of options, got {len(data)}")
    version, actions, offered = struct.unpack("!LLL", data[:12])
    wanted = _ADD_HEADERS | _CHANGE_HEADERS
    if wanted & ~actions:
        raise PacketError(f"the mail server does not let headers be added and changed: it offers {actions:#x}")
    silent = {command: flag for command, flag in NO_REPLY.items() if flag & offered}
    flags = sum(silent.values()) | (_LEADING_SPACE & offered)
    answer = Packet(b"O", struct.pack("!LLL", min(version, _VERSION), wanted, flags))
    return Agreement(answer, frozenset(silent), bool(_LEADING_SPACE & offered))


def strings(data: bytes) -> list[bytes]:
    r"""Return the strings of a packet.

    Examples
    --------
    >>> strings(b"<a@x.org>\0SIZE=1\0"), strings(b"")
    ([b'<a@x.org>', b'SIZE=1'], [])
    """
    return data.removesuffix(b"\0").split(b"\0") if data else []


def client_address(data: bytes) -> str:
    r"""Return the client's address of a packet about a connection; empty where there is none.

    Examples
    --------
    >>> client_address(b"mx.x.org\x004\x00\x19192.0.2.7\0"), client_address(b"mx\x006\x00\x19IPv6:2001:db8::1\0")
    ('192.0.2.7', '2001:db8::1')
    >>> client_address(b"localhost\x00U"), client_address(b"local\x00L\x00\x00/run/x\0"), client_address(b"")
    ('', '', '')
    """
    rest = data.partition(b"\0")[2]
    if rest[:1] not in (b"4", b"6"):
        return ""
    return rest[3:].partition(b"\0")[0].decode("ascii", "replace").removeprefix("IPv6:")


def insert_header(place: int, name: bytes, value: bytes) -> Packet:
    """Return the packet that inserts a header at a place, counted from 0."""
    return Packet(b"i", struct.pack("!L", place) + name + b"\0" + value + b"\0")


def change_header(number: int, name: bytes, value: bytes) -> Packet:
    """Return the packet that changes the n-th header of a name, counted from 1; an empty value removes it."""
    return Packet(b"m", struct.pack("!L", number) + name + b"\0" + value + b"\0")
