"""`BlockList`: a DNS list of addresses or domains (RFC 5782): what is listed has an address within 127.0.0.0/8.

Lists give false answers at times: one that was given up may answer for every name, or a provider answers for names that do not
exist. So a list is used only while it lists its test entry and does not list the entry that no list may: both are asked for now
and then. Answers outside of 127.0.0.0/8, and those of 127.255.255.0/24, by which lists say "you ask too much", are no listings.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from typing import Final, Literal, TypeAlias

from spam_filter.errors import LookupFailed
from spam_filter.evidence.resolver import Records, Resolver

__all__ = ["BlockList", "ListKind", "address_name", "is_listable"]

ListKind: TypeAlias = Literal["addresses", "domains"]
_TESTS: Final[dict[ListKind, tuple[str, str]]] = {"addresses": ("2.0.0.127", "1.0.0.127"), "domains": ("test", "invalid")}
_CHECK_S: Final = 600.0
_MOST_NAME: Final = 150
_NAME: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)+[a-z0-9_-]{1,63}", re.IGNORECASE | re.ASCII)
_LISTINGS: Final = ipaddress.ip_network("127.0.0.0/8")
_ERRORS: Final = ipaddress.ip_network("127.255.255.0/24")
_NOT_LISTED: Final = ipaddress.ip_address("127.0.0.1")


def address_name(address: str) -> str:
    """Return an address as it stands in a list: backwards.

    Examples
    --------
    >>> address_name("192.0.2.7"), address_name("2001:db8::1")[:15]
    ('7.2.0.192', '1.0.0.0.0.0.0.0')
    """
    return ipaddress.ip_address(address).reverse_pointer.removesuffix(".in-addr.arpa").removesuffix(".ip6.arpa")


def is_listable(domain: str) -> bool:
    r"""Return whether a list can be asked for a domain.

    Links hold whatever the sender writes. A name that no list can have must not be asked for: it would look like a failure of the
    list, and a few messages would open its breaker.

    Examples
    --------
    >>> [is_listable(domain) for domain in ("example.org", "10.0.0.1", "a_b.example")]
    [True, True, True]
    >>> [is_listable(domain) for domain in ("x", "a\\.example", "a b.example", "..", "é.example")]
    [False, False, False, False, False]
    """
    return len(domain) <= _MOST_NAME and _NAME.fullmatch(domain) is not None


class BlockList:
    """One list.

    Parameters
    ----------
    zone
        Its name, such as ``bl.example``.
    kind
        What it lists.
    resolver
        The resolver to ask.
    """

    def __init__(self, zone: str, kind: ListKind, resolver: Resolver) -> None:
        self.zone = zone.strip(".").lower()
        self._kind = kind
        self._resolver = resolver
        self._checked = -_CHECK_S

    async def is_listed(self, name: str) -> bool:
        """Return whether a domain, or an address written by `address_name`, is listed.

        Raises
        ------
        LookupFailed
            If the list does not answer, or fails its test entries.
        """
        await self._check()
        return _is_listing(await self._ask(name))

    async def count_listed(self, names: list[str]) -> int:
        """Return how many of these are listed; they are asked for at the same time."""
        return sum(await asyncio.gather(*map(self.is_listed, names)))

    async def _check(self) -> None:
        now = time.monotonic()
        if now - self._checked < _CHECK_S:
            return
        listed, not_listed = _TESTS[self._kind]
        # Noted first: others need not ask at the same time. A failure takes it back.
        self._checked = now
        try:
            always, never = await asyncio.gather(self._ask(listed), self._ask(not_listed))
            _check_test_entries(self.zone, always, never)
        except BaseException:
            self._checked = -_CHECK_S
            raise

    async def _ask(self, name: str) -> Records:
        return await self._resolver.resolve(f"{name}.{self.zone}", "A")


def _check_test_entries(zone: str, always: Records, never: Records) -> None:
    if not _is_listing(always) or _is_listing(never):
        fault = "lists the entry that no list may" if _is_listing(never) else "does not list its test entry"
        raise LookupFailed(f"the block list {zone} {fault}: its answers are not used")


def _is_listing(records: Records) -> bool:
    r"""Return whether an answer means "listed".

    Raises
    ------
    LookupFailed
        If it means "I do not answer you".

    Examples
    --------
    >>> _is_listing(("127.0.0.2",)), _is_listing(()), _is_listing(("203.0.113.1",)), _is_listing(("127.0.0.1",))
    (True, False, False, False)
    """
    addresses = [ipaddress.ip_address(text) for text in records]
    if any(address in _ERRORS for address in addresses):
        raise LookupFailed("a block list refuses to answer: it is asked too much, or through a public name server")
    return any(address in _LISTINGS and address != _NOT_LISTED for address in addresses)
