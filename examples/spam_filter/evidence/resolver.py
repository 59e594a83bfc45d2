"""Resolvers: who answers DNS questions. A name server, or a zone file in memory.

That a name does not exist, or has no such record, is an answer: an empty one. No answer at all (timeout, SERVFAIL, REFUSED,
bytes that make no sense) is a `LookupFailed`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import dns.asyncquery
import dns.asyncresolver
import dns.exception
import dns.message
import dns.name
import dns.nameserver
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.resolver
import dns.tokenizer
import dns.zone
import dns.zonefile

from spam_filter.errors import LookupFailed, ModelError
from spam_filter.service.endpoint import Endpoint

__all__ = ["SYSTEM", "DnsResolver", "Records", "Resolver", "ZoneFileResolver", "open_resolver"]

Records: TypeAlias = tuple[str, ...]
"""The text of TXT records (their strings joined, as latin-1), addresses of A and AAAA, names of PTR, ``10 host`` of MX."""

SYSTEM: Final = "system"
_CACHED_ANSWERS: Final = 20_000
# The sender of mail decides what its domain publishes: more than this is no policy and no key.
_MOST_RECORDS: Final = 50
_MOST_TEXT: Final = 4_096
_MOST_ALIASES: Final = 8
# What relative names get where a zone file does not say whose they are; no domain ends so (RFC 6761).
_NO_ORIGIN: Final = dns.name.from_text("no-origin.invalid.")
# For so long after an answer, a name server is alive.
_ALIVE_S: Final = 2.0


class Resolver(Protocol):
    """Answers DNS questions."""

    @property
    def queries(self) -> int:
        """Return how many questions were sent so far."""

    async def resolve(self, name: str, kind: str) -> Records:
        """Return the records of a name; empty if there is none. Raise `LookupFailed` if there is no answer."""

    async def is_alive(self) -> bool:
        """Return whether anything is answered: if so, a question that is not is the fault of its domain."""


class DnsResolver:
    """Asks a name server from the event loop; answers are kept for as long as they say.

    Parameters
    ----------
    nameserver
        A recursive name server; None for those of the system.
    timeout_s
        Time for one question. A packet that is lost is sent once more within it.
    """

    def __init__(self, nameserver: Endpoint | None = None, *, timeout_s: float = 0.5) -> None:
        self._resolver = dns.asyncresolver.Resolver(configure=nameserver is None)
        found = [nameserver] if nameserver is not None else [Endpoint(str(one), 53) for one in self._resolver.nameservers]
        self._servers = [_CountedNameserver(one.host, one.port) for one in found]
        self._resolver.nameservers = self._servers
        self._resolver.timeout = timeout_s / 2
        self._resolver.lifetime = timeout_s
        self._resolver.cache = dns.resolver.LRUCache(_CACHED_ANSWERS)

    @property
    def queries(self) -> int:
        """Return how many questions were sent so far; one that was lost and sent again counts twice."""
        return sum(server.queries for server in self._servers)

    async def resolve(self, name: str, kind: str) -> Records:
        """Return the records of a name; empty if there is none."""
        try:
            answer = await self._resolver.resolve(dns.name.from_text(name), kind, raise_on_no_answer=False)
        except dns.resolver.NXDOMAIN:
            return ()
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise LookupFailed(f"{kind} {name[:100]!r}: no answer ({type(error).__name__})") from None
        return () if answer.rrset is None else _read_records(answer.rrset)

    async def is_alive(self) -> bool:
        """Return whether a name server has just answered, or answers now when it is asked for the root."""
        now = time.monotonic()
        if any(now - server.answered < _ALIVE_S for server in self._servers):
            return True
        for server in self._servers:
            try:
                await dns.asyncquery.udp(
                    dns.message.make_query(".", "NS"), server.address, self._resolver.timeout, server.port, ignore_unexpected=True
                )
            except (dns.exception.DNSException, OSError):
                continue
            server.answered = time.monotonic()
            return True
        return False


class _CountedNameserver(dns.nameserver.Do53Nameserver):
    """Counts its questions, and knows when it last answered."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address, port)
        self.queries = 0
        self.answered = -_ALIVE_S

    async def async_query(self, *arguments: Any, **options: Any) -> dns.message.Message:
        self.queries += 1
        answer = await super().async_query(*arguments, **options)
        self.answered = time.monotonic()
        return answer


class _Records(dns.zone.Zone):
    """Records of any number of zones, without SOA: the library takes that of the origin alone, and nothing here asks for one."""

    def writer(self, replacement: bool = False) -> dns.zone.Transaction:  # noqa: FBT001, FBT002 - as in the library
        transaction = super().writer(replacement)
        add = transaction.add

        def add_unless_soa(name: dns.name.Name, ttl: int, record: dns.rdata.Rdata) -> None:
            if str(_NO_ORIGIN) in f"{name} {record}":
                reason = f"the record of {name.relativize(_NO_ORIGIN)} has a relative name, and there is no $ORIGIN before it"
                raise dns.exception.SyntaxError(reason)  # type: ignore[no-untyped-call]
            if record.rdtype != dns.rdatatype.SOA:
                add(name, ttl, record)

        transaction.add = add_unless_soa  # type: ignore[method-assign]
        return transaction


def _read_zone(path: Path) -> _Records:
    """Read a master file. A name server knows whose it is; here, relative names mean nothing before the file says so."""
    zone = _Records(".", relativize=False)
    with path.open(encoding="utf-8") as file, zone.writer(replacement=True) as transaction:
        tokens = dns.tokenizer.Tokenizer(file, str(path))
        reader = dns.zonefile.Reader(tokens, dns.rdataclass.IN, transaction, allow_include=True)
        reader.current_origin = reader.last_name = _NO_ORIGIN
        reader.read()
    return zone


class ZoneFileResolver:
    """Answers from a zone file of the root, as a name server would that has all its records.

    Parameters
    ----------
    path
        A master file with absolute names, or with an ``$ORIGIN``; those of several zones may follow each other.

    Raises
    ------
    ModelError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._zone = _read_zone(path)
        except (OSError, dns.exception.DNSException, ValueError) as error:
            remedy = "give a master file with absolute names, or begin it with `$ORIGIN your.domain.`"
            raise ModelError(f"{path}: not readable as a zone file ({error}): {remedy}") from None
        self.queries = 0

    async def resolve(self, name: str, kind: str) -> Records:
        """Return the records of a name; aliases are followed."""
        self.queries += 1
        try:
            owner = dns.name.from_text(name)
        except (dns.exception.DNSException, ValueError) as error:
            raise LookupFailed(f"{kind} {name[:100]!r}: no answer ({type(error).__name__})") from None
        for _ in range(_MOST_ALIASES):
            found = self._zone.get_rdataset(owner, dns.rdatatype.from_text(kind))
            alias = self._zone.get_rdataset(owner, dns.rdatatype.CNAME)
            if found is not None or alias is None:
                return () if found is None else _read_records(found)
            owner = alias[0].target
        raise LookupFailed(f"{kind} {name[:100]!r}: too many aliases")

    async def is_alive(self) -> bool:
        """Return True."""
        return True


def open_resolver(where: str, *, timeout_s: float = 0.5) -> Resolver:
    """Return the resolver that an administrator names.

    Parameters
    ----------
    where
        ``HOST:PORT`` of a name server, the path of a zone file, or ``system``.
    timeout_s
        As in `DnsResolver`.
    """
    if where == SYSTEM:
        try:
            return DnsResolver(timeout_s=timeout_s)
        except dns.exception.DNSException as error:
            raise ModelError(f"the system has no name server ({error}): give HOST:PORT") from None
    if Path(where).is_file():
        return ZoneFileResolver(Path(where))
    try:
        return DnsResolver(Endpoint.parse(where), timeout_s=timeout_s)
    except ValueError:
        raise ModelError(f"dns: expected HOST:PORT, a zone file or {SYSTEM!r}, got {where!r}") from None


def _read_records(rdataset: Any) -> Records:
    """Return what the records say; what is too long is left out."""
    found: list[str] = []
    for record in list(rdataset)[:_MOST_RECORDS]:
        if record.rdtype == dns.rdatatype.TXT:
            text = b"".join(record.strings).decode("latin-1")
        elif record.rdtype == dns.rdatatype.MX:
            text = f"{record.preference} {record.exchange.to_text(omit_final_dot=True)}"
        elif record.rdtype == dns.rdatatype.PTR:
            text = record.target.to_text(omit_final_dot=True)
        else:
            text = record.to_text()
        if len(text) <= _MOST_TEXT:
            found.append(text)
    return tuple(found)
