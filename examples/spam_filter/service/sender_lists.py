"""`SenderLists`: senders that an administrator has an opinion about, whatever the model thinks.

A file has one address or domain on each line (a domain stands for its subdomains too, with or without ``.``, ``*.`` or ``*@``
before it; ``#`` begins a comment). Letters beyond ASCII in a domain are compared as DNS has them (``xn--``), however they are
written on either side. A message is looked up by the address in From and by the sender of its envelope. Neither is
authenticated, and anyone can write either:

- **block**: the message is ``spam``. Nobody gains by forging a blocked sender, so addresses in a name or in a second From field
  are looked up, too.
- **allow**: the message is ``unsure`` where it would have been ``spam``, so that a person sees it. It is never made ``ham``:
  a spammer who knows an allowed sender can forge it.

A sender that is on both lists is blocked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spam_filter.message.address import Address, read_address
from spam_filter.message.mail import Mail
from spam_filter.service.settings import SettingsError
from spam_filter.service.verdict import Verdict

__all__ = ["SenderLists", "read_list"]

_ENTRY: Final = re.compile(r"(?:[^\s@<>,;]+@)?[^\s@<>,;*.][^\s@<>,;*]*[^\s@<>,;*.]")
_LONGEST_LABEL: Final = 63
_WHOLE_DOMAIN: Final = re.compile(r"^(?:\*@|\*?\.)")


@dataclass(frozen=True, slots=True)
class SenderLists:
    """Addresses and domains, as `read_list` returns them.

    Parameters
    ----------
    allow, block
        What the module says.

    Examples
    --------
    >>> lists = SenderLists(block=frozenset({"shop.example"}))
    >>> lists.apply(Verdict("ham"), Mail.parse(b"From: <a@mail.shop.example>")).status
    'spam'
    """

    allow: AbstractSet[str] = frozenset()
    block: AbstractSet[str] = frozenset()

    @classmethod
    def read(cls, allow: Path | None, block: Path | None) -> SenderLists:
        """Read the files; raises as `read_list`."""
        return cls(
            frozenset() if allow is None else read_list("allow", allow),
            frozenset() if block is None else read_list("block", block),
        )

    def apply(self, verdict: Verdict, mail: Mail) -> Verdict:
        """Return the verdict that the lists make of one."""
        if not self.allow and not self.block:
            return verdict
        envelope = () if mail.envelope is None else (read_address(mail.envelope.sender),)
        if not self.block.isdisjoint(_names((mail.sender, *mail.claimed_senders, *envelope))):
            return replace(verdict, status="spam", listed="block", note="")
        if not self.allow.isdisjoint(_names((mail.sender, *envelope))):
            return replace(verdict, status="unsure" if verdict.status == "spam" else verdict.status, listed="allow")
        return verdict


def _names(addresses: Iterable[Address]) -> Iterable[str]:
    """Yield addresses, and the domains that each is in."""
    for address in addresses:
        if address.host:
            name = _normalize(str(address))
            yield name
            labels = name.rpartition("@")[2].split(".")
            yield from (".".join(labels[start:]) for start in range(len(labels)))


def read_list(name: str, path: Path) -> frozenset[str]:
    """Return the addresses and domains of a file, in lower case, the domains in ASCII.

    Raises
    ------
    SettingsError
        If it cannot be read, or a line is neither.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name}: {path} cannot be read: {error}; give a text file") from error
    found: set[str] = set()
    for number, line in enumerate(lines, start=1):
        written = line.partition("#")[0].strip()
        if not written:
            continue
        entry = _WHOLE_DOMAIN.sub("", written.lower())
        if _ENTRY.fullmatch(entry) is None:
            raise SettingsError(f"{name}: {path}, line {number}: expected an address or a domain, got {written!r}")
        found.add(_normalize(entry))
    return frozenset(found)


def _normalize(name: str) -> str:
    """Return an address or a domain in the one form that is compared.

    Examples
    --------
    >>> _normalize("jürgen@münchen.example"), _normalize("straße.example")
    ('jürgen@xn--mnchen-3ya.example', 'xn--strae-oqa.example')
    """
    if name.isascii():
        return name
    # Not by Python's "idna", which is of 2003 and takes ß for ss: another domain.
    local, at, domain = unicodedata.normalize("NFC", name).rpartition("@")
    return f"{local}{at}{'.'.join(map(_encode_label, domain.split('.')))}"


def _encode_label(label: str) -> str:
    # What is longer is no part of a domain, and would take milliseconds.
    return label if label.isascii() or len(label) > _LONGEST_LABEL else f"xn--{label.encode('punycode').decode('ascii')}"
