"""Evidence from the network, by a real name server on the loopback interface, honest and otherwise."""

from __future__ import annotations

import asyncio
import base64
import inspect
import ipaddress
import re
import shutil
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import dkim
import dns.flags
import dns.message
import dns.rcode
import pytest
import spf
from hypothesis import given, strategies as st
from spam_filter.errors import LookupFailed, ModelError
from spam_filter.evidence.acquirers import Evidence, lookup_acquirers
from spam_filter.evidence.block_list import BlockList, address_name
from spam_filter.evidence.names import dns_feature_names
from spam_filter.evidence.origin import Origin, origin_of
from spam_filter.evidence.resolver import DnsResolver, Resolver, ZoneFileResolver, open_resolver
from spam_filter.evidence.sender_policy import check_spf
from spam_filter.evidence.settings import LookupSettings
from spam_filter.evidence.signatures import check_signatures
from spam_filter.learned.stores import Stores, train_stores
from spam_filter.message.mail import Envelope, Mail
from spam_filter.service.endpoint import Endpoint

from tests.spam_filter.dns_server import HEAD, HOST, NSD, RBLDNSD, NameServer, Proxy, nsd, rbldnsd

T = TypeVar("T")
ZONE = """
good.example. IN TXT "v=spf1 ip4:192.0.2.1 -all"
good.example. IN TXT "another text"
_dmarc.good.example. IN TXT "v=DMARC1; p=reject; aspf=s"
soft.example. IN TXT "v=spf1 ip4:192.0.2.1 " "~all"
by-mx.example. IN TXT "v=spf1 mx -all"
by-mx.example. IN MX 10 mx.by-mx.example.
mx.by-mx.example. IN A 192.0.2.2
by-include.example. IN TXT "v=spf1 include:good.example ?all"
alias.example. IN CNAME good.example.
two.example. IN TXT "v=spf1 -all"
two.example. IN TXT "v=spf1 +all"
loop.example. IN TXT "v=spf1 include:loop.example -all"
voids.example. IN TXT "v=spf1 a:a.void.example a:b.void.example a:c.void.example -all"
explained.example. IN TXT "v=spf1 exp=why.explained.example -all"
why.explained.example. IN TXT "no mail from %{i}"
2.0.0.127.bl.example. IN A 127.0.0.2
7.2.0.192.bl.example. IN A 127.0.0.4
8.2.0.192.bl.example. IN A 203.0.113.9
9.2.0.192.bl.example. IN A 127.255.255.254
test.dom.example. IN A 127.0.0.2
bad.test.dom.example. IN A 127.0.0.2
*.all.example. IN A 127.0.0.2
"""
needs_nsd = pytest.mark.skipif(NSD is None, reason="nsd is not installed (Debian: apt-get install nsd)")


def run(coroutine: Coroutine[object, object, T]) -> T:
    """Return what a coroutine returns."""
    return asyncio.run(coroutine)


def mail(sender: str = "a@good.example", peer: str = "192.0.2.1", mail_from: str | None = None, text: bytes = b"") -> Mail:
    """Return a message from a client."""
    header = f"From: A <{sender}>\r\nSubject: x\r\n\r\n".encode()
    return Mail.parse(
        header + text, Envelope(sender if mail_from is None else mail_from, ("b@us.example",), peer, "helo.example")
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NameServer]:
    """Return nsd with the zone above."""
    with nsd(tmp_path_factory.mktemp("nsd"), HEAD + ZONE) as running:
        yield running


@pytest.fixture
def proxy(server: NameServer) -> Iterator[Proxy]:
    """Return a proxy before the server."""
    with Proxy(server.port) as running:
        yield running


def zone_file(folder: Path) -> ZoneFileResolver:
    """Return the zone in memory."""
    path = folder / "zone"
    path.write_text(HEAD + ZONE)
    return ZoneFileResolver(path)


SPF_CASES = [
    ("a@good.example", "192.0.2.1", "pass"),
    ("a@good.example", "192.0.2.9", "fail"),
    ("a@soft.example", "192.0.2.9", "softfail"),
    ("a@by-mx.example", "192.0.2.2", "pass"),
    ("a@by-include.example", "192.0.2.1", "pass"),
    ("a@by-include.example", "192.0.2.9", "neutral"),
    ("a@alias.example", "192.0.2.1", "pass"),
    ("a@two.example", "192.0.2.1", "permerror"),
    ("a@loop.example", "192.0.2.1", "permerror"),
    ("a@voids.example", "192.0.2.1", "permerror"),
    ("a@explained.example", "192.0.2.1", "fail"),
    ("a@nothing.example", "192.0.2.1", "none"),
    ("a@ba d..example", "192.0.2.1", "none"),
    ("", "192.0.2.1", "none"),
]


@pytest.mark.parametrize(("sender", "address", "result"), SPF_CASES)
def test_spf_from_a_zone_file(tmp_path: Path, sender: str, address: str, result: str) -> None:
    """The results of RFC 7208, with includes, MX records, aliases, loops, and too many lookups without a result."""
    assert run(check_spf(Origin(address, "helo.example", sender), zone_file(tmp_path))) == result


@needs_nsd
@pytest.mark.parametrize(("sender", "address", "result"), SPF_CASES)
def test_spf_from_a_name_server(server: NameServer, sender: str, address: str, result: str) -> None:
    """The same from a real name server: the zone file behaves as it does."""
    assert run(check_spf(Origin(address, "helo.example", sender), open_resolver(server.where, timeout_s=5))) == result


def test_a_long_policy_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever publishes a policy decides how long it is: the event loop reads short ones alone, and the result is the same."""
    threads: list[bool] = []
    checked = spf.query.check

    def check(query: object) -> object:
        threads.append(threading.current_thread() is threading.main_thread())
        return checked(query)

    monkeypatch.setattr(spf.query, "check", check)
    path = tmp_path / "zone"
    strings = " ".join(f'"ip4:198.51.100.{number} "' for number in range(1, 101))
    path.write_text(f'{HEAD}long.example. IN TXT "v=spf1 " {strings} "a:mx.long.example -all"\nmx.long.example. IN A 192.0.2.1\n')
    assert run(check_spf(Origin("192.0.2.1", "helo.example", "a@long.example"), ZoneFileResolver(path))) == "pass"
    assert threads == [True, False, False]


@needs_nsd
def test_answers_are_kept(server: NameServer) -> None:
    """A second message of the same sender asks nothing, whether a record was there or not."""

    async def ask() -> tuple[int, int]:
        resolver = open_resolver(server.where, timeout_s=5)
        evidence = Evidence(resolver, LookupSettings(("bl.example",)))
        await asyncio.gather(evidence.spf(mail()), evidence.client_lists(mail()))
        before = resolver.queries
        await asyncio.gather(evidence.spf(mail()), evidence.client_lists(mail()))
        return before, resolver.queries

    first, second = run(ask())
    assert first == second == 4  # SPF, the list, and its two test entries


def test_checks_of_a_message_are_made_once(tmp_path: Path) -> None:
    """SPF, DKIM and DMARC features that are asked for at the same time share their questions."""

    async def ask() -> int:
        resolver = zone_file(tmp_path)
        evidence, message = Evidence(resolver, LookupSettings()), mail()
        await asyncio.gather(*(getattr(evidence, name)(message) for name in ("spf", "dkim", "dmarc", "authenticated")))
        return resolver.queries

    assert run(ask()) == 2


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (mail(), (1.0, 1.0, 0.0)),
        # Forged: the client is not one of the domain's.
        (mail(peer="192.0.2.9"), (0.0, 0.0, 1.0)),
        # SPF passes for another domain than the one that a reader sees.
        (mail(mail_from="a@by-include.example"), (0.0, 0.0, 1.0)),
        # The domain of From asks for nothing.
        (mail("a@soft.example"), (1.0, 0.0, 0.0)),
        (mail("a@sub.good.example", mail_from="a@good.example"), (1.0, 0.0, 1.0)),
        (mail("a@nothing.example"), (0.0, 0.0, 0.0)),
        # A client in our own network is nobody's.
        (mail(peer="127.0.0.1"), (0.0, 0.0, 1.0)),
    ],
)
def test_only_an_aligned_sender_is_authenticated(tmp_path: Path, message: Mail, found: tuple[float, float, float]) -> None:
    """Authenticated, DMARC passed, DMARC failed; a policy may be stricter than the owner of the domain."""

    async def ask() -> tuple[float, float, float]:
        evidence = Evidence(zone_file(tmp_path), LookupSettings())
        authenticated, dmarc = await evidence.authenticated(message), await evidence.dmarc(message)
        return authenticated["sender_authenticated"], dmarc["dmarc_pass"], dmarc["dmarc_fail"]

    assert run(ask()) == found


def test_a_reputation_counts_only_for_an_authenticated_sender(tmp_path: Path) -> None:
    """The same good name, from a client of its domain and from another: the second has no reputation at all."""
    train_stores(tmp_path / "stores", [(mail(), "ham"), (mail(), "ham"), (mail("x@evil.example"), "spam")])

    async def ask(stores: Stores) -> list[float]:
        registry = lookup_acquirers(zone_file(tmp_path), LookupSettings(), stores)
        (entry,) = [one for one in registry.entries if "authenticated_reputation" in one.names]
        return [(await entry.function(one))["authenticated_reputation"] for one in (mail(), mail(peer="192.0.2.9"))]

    with Stores.open(tmp_path / "stores") as stores:
        honest, forged = run(ask(stores))
    assert honest < 0.0 == forged


def test_every_look_up_is_guarded(tmp_path: Path) -> None:
    """Async, with a timeout, a breaker of its own and the bundle's fallback; what depends on the client is cached by it."""
    train_stores(tmp_path / "stores", [(mail(), "ham"), (mail("x@evil.example"), "spam")])
    with Stores.open(tmp_path / "stores") as stores:
        entries = lookup_acquirers(zone_file(tmp_path), LookupSettings(timeout_s=0.7), stores).entries
    assert {name for entry in entries for name in entry.names} == set(dns_feature_names())
    assert all(inspect.iscoroutinefunction(entry.function) for entry in entries)
    assert {(entry.timeout_s, entry.on_failure) for entry in entries} == {(0.7, "default")}
    assert len({id(entry.breaker) for entry in entries}) == len(entries)
    assert {entry.names[0] for entry in entries if entry.cache is not None} == {"spf_pass", "client_listed"}


# ----- DKIM


@pytest.fixture(scope="module")
def private_key(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a key of our own."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = subprocess.run(["openssl", "genrsa", "-traditional", "2048"], capture_output=True, check=True)
    return made.stdout


@pytest.fixture
def signed_zone(private_key: bytes, tmp_path: Path) -> ZoneFileResolver:
    """Return a zone with the public key."""
    public = subprocess.run(["openssl", "rsa", "-pubout", "-outform", "DER"], input=private_key, capture_output=True, check=True)
    text = f"v=DKIM1; k=rsa; p={base64.b64encode(public.stdout).decode()}"
    strings = " ".join(f'"{text[at : at + 200]}"' for at in range(0, len(text), 200))
    path = tmp_path / "signed"
    path.write_text(f"{HEAD}s._domainkey.good.example. IN TXT {strings}\n")
    return ZoneFileResolver(path)


def sign(raw: bytes, key: bytes, **options: bool) -> bytes:
    """Return the message with a signature of good.example."""
    return dkim.sign(raw, b"s", b"good.example", key, canonicalize=(b"relaxed", b"relaxed"), **options) + raw


MESSAGE = b"From: A <a@good.example>\r\nSubject: hello\r\n\r\nSome text.\r\n"


def test_a_signature_is_verified(private_key: bytes, signed_zone: ZoneFileResolver) -> None:
    """Valid as it is; not when the text was changed, the key is missing, or only the beginning is signed."""
    raw = sign(MESSAGE, private_key)
    good = run(check_signatures(Mail.parse(raw), signed_zone))
    changed = run(check_signatures(Mail.parse(raw.replace(b"Some text", b"Buy this")), signed_zone))
    elsewhere = run(check_signatures(Mail.parse(raw.replace(b"d=good.example", b"d=evil.example")), signed_zone))
    beginning = run(check_signatures(Mail.parse(sign(MESSAGE, private_key, length=True)), signed_zone))
    assert (good.valid, good.invalid) == (("good.example",), 0)
    assert [(one.valid, one.invalid) for one in (changed, elsewhere, beginning)] == [((), 1)] * 3


def test_a_signature_vouches_for_a_sender_without_spf(private_key: bytes, signed_zone: ZoneFileResolver) -> None:
    """Forwarded mail fails SPF; its signature still holds."""
    message = Mail.parse(sign(MESSAGE, private_key), Envelope("x@forwarder.example", ("b@us.example",), "192.0.2.77"))
    assert run(Evidence(signed_zone, LookupSettings()).authenticated(message)) == {"sender_authenticated": 1.0}


@pytest.mark.parametrize(
    "raw",
    [
        b"DKIM-Signature: nonsense\r\n" + MESSAGE,
        b" folded first\r\nDKIM-Signature: v=1\r\n" + MESSAGE,
        b"DKIM-Signature: v=1; a=rsa-sha256; d=good.example; s=s; h=from; bh=!; b=!\r\n" + MESSAGE,
        b"DKIM-Signature: v=1; a=rsa-sha256; d=good.example; s=s; h=from" + b" " * 50_000 + b":x; bh=; b=\r\n" + MESSAGE,
        # The library would look at each of these blanks from each of them.
        b"DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s; h=from; bh=YQ==; b=YQ==\r\n"
        + MESSAGE
        + b" " * 900_000,
        b"a:b\r\n" * 10_000 + b"DKIM-Signature: v=1\r\n\r\n",
        b"DKIM-Signature:" + b"\xff" * 3000,
    ],
)
def test_a_hostile_signature_is_no_signature(signed_zone: ZoneFileResolver, raw: bytes) -> None:
    """Whatever is sent, nothing is valid, nothing raises, and the test ends."""
    assert run(check_signatures(Mail.parse(raw), signed_zone)).valid == ()


# ----- block lists


def test_lists_know_addresses_and_domains(tmp_path: Path) -> None:
    """Listed or not; an answer outside of 127.0.0.0/8 is no listing; an answer that refuses is a failure."""

    async def ask(resolver: Resolver) -> list[bool]:
        clients, domains = BlockList("bl.example", "addresses", resolver), BlockList("dom.example.", "domains", resolver)
        found = [await clients.is_listed(address_name(f"192.0.2.{last}")) for last in (7, 8, 10)]
        with pytest.raises(LookupFailed, match="refuses to answer"):
            await clients.is_listed(address_name("192.0.2.9"))
        return [*found, await domains.is_listed("bad.test"), await domains.is_listed("fine.test")]

    assert run(ask(zone_file(tmp_path))) == [True, False, False, True, False]


@needs_nsd
@pytest.mark.parametrize(
    ("zone", "reason"), [("all.example", "lists the entry that no list may"), ("gone.example", "its test entry")]
)
def test_a_list_with_wrong_test_entries_is_not_used(server: NameServer, zone: str, reason: str) -> None:
    """One that lists everything, or nothing at all, fails before it is asked for anybody."""
    with pytest.raises(LookupFailed, match=reason):
        run(BlockList(zone, "addresses", open_resolver(server.where, timeout_s=5)).is_listed(address_name("192.0.2.1")))


@pytest.mark.skipif(RBLDNSD is None, reason="rbldnsd is not installed (Debian: apt-get install rbldnsd)")
def test_a_list_by_rbldnsd(tmp_path: Path) -> None:
    """The server that real lists run."""
    folder = tmp_path / "lists"
    folder.mkdir()
    for parent in (folder, *folder.parents):
        if parent.owner() == folder.owner() and parent != Path("/tmp"):
            parent.chmod(0o755)
    lines = ":127.0.0.2:listed\n127.0.0.2\n192.0.2.0/29\n"

    async def ask(where: str) -> list[bool]:
        listed = BlockList("bl.example", "addresses", open_resolver(where, timeout_s=5))
        return [await listed.is_listed(address_name(f"192.0.2.{last}")) for last in (7, 8)]

    with rbldnsd(folder, "bl.example", "ip4set", lines) as server:
        assert run(ask(server.where)) == [True, False]


HOSTILE = [
    b"see http://a\\b.example/ http://x..y/ http://\xff.example http://" + b"a" * 290 + b".example http://a b.example",
    b"http://" + b"a." * 140 + b"example",
    b"http://%00.example http://[::1]/ http://user@host:port@",
]


@needs_nsd
@pytest.mark.parametrize("text", HOSTILE)
def test_no_link_looks_like_a_failure_of_the_list(server: NameServer, text: bytes) -> None:
    """Else a few messages would open the breaker of a list for everybody."""
    evidence = Evidence(open_resolver(server.where, timeout_s=5), LookupSettings((), ("dom.example",)))
    assert run(evidence.domain_lists(mail(text=text))) == {"links_listed": 0.0}


@needs_nsd
@pytest.mark.parametrize(
    "sender", ["a@b\\c.example", "a@" + "b." * 130 + "example", "a@\udcff.example", "a@b\x00.example", "@", "a@.", "a@_dmarc"]
)
def test_no_sender_looks_like_a_failure_of_the_name_server(server: NameServer, sender: str) -> None:
    """The same for SPF, DKIM and DMARC, whose questions are made from what the sender says."""

    async def ask() -> list[float]:
        evidence = Evidence(open_resolver(server.where, timeout_s=5), LookupSettings(timeout_s=10))
        raw = (
            b"DKIM-Signature: v=1; a=rsa-sha256; d=b\\c..example; s=s; h=from; bh=YQ==; b=YQ==\r\nFrom: <a@b\\c.example>\r\n\r\n"
        )
        message = Mail.parse(raw, Envelope(sender, ("b@us.example",), "192.0.2.1", sender))
        return [max((await getattr(evidence, name)(message)).values()) for name in ("spf", "dmarc", "authenticated")]

    assert run(ask()) == [0.0, 0.0, 0.0]


@given(st.binary(max_size=300))
def test_an_origin_is_found_in_anything(raw: bytes) -> None:
    """Whatever the bytes are: an address that is one, or none."""
    for prefix in (b"", b"Received: from ", b"Received: from x ([", b"Return-Path: <"):
        origin = origin_of(Mail.parse(prefix + raw))
        assert origin.address is None or ipaddress.ip_address(origin.address)


# ----- servers that are slow, broken, or lie


def servfail(question: dns.message.Message, _: bytes) -> bytes:
    """Answer that it cannot answer."""
    answer = dns.message.make_response(question)
    answer.set_rcode(dns.rcode.SERVFAIL)
    return answer.to_wire()


def other_question(question: dns.message.Message, _: bytes) -> bytes:
    """Answer something that nobody asked, as a forger would."""
    answer = dns.message.make_response(dns.message.make_query("other.example", "A"))
    answer.id = question.id
    return answer.to_wire()


BROKEN = {
    "silent": lambda _question, _answer: None,
    "servfail": servfail,
    "garbage": lambda _question, _answer: b"\x00\x01nonsense",
    "cut": lambda _question, answer: answer[: len(answer) // 2],
    "other id": lambda _question, answer: bytes([answer[0] ^ 1]) + answer[1:],
    "other question": other_question,
}


@needs_nsd
@pytest.mark.parametrize("fault", BROKEN)
def test_no_answer_is_a_failure_and_never_an_empty_answer(proxy: Proxy, fault: str) -> None:
    """Silence, SERVFAIL, and answers that make no sense or do not belong to the question."""
    proxy.change = BROKEN[fault]  # type: ignore[assignment]
    with pytest.raises(LookupFailed):
        run(DnsResolver(Endpoint(HOST, proxy.port), timeout_s=0.3).resolve("good.example", "TXT"))


@needs_nsd
def test_a_domain_with_broken_servers_is_not_authenticated_and_no_failure(proxy: Proxy) -> None:
    """Else anybody could open the breakers with a domain of their own."""

    def broken_domain(question: dns.message.Message, answer: bytes) -> bytes | None:
        return servfail(question, answer) if "good" in str(question.question[0]) else answer

    async def ask() -> list[dict[str, float]]:
        evidence = Evidence(open_resolver(proxy.where, timeout_s=1), LookupSettings(timeout_s=2))
        return [await evidence.spf(mail()), await evidence.dmarc(mail()), await evidence.authenticated(mail())]

    proxy.change = broken_domain
    assert [max(found.values()) for found in run(ask())] == [0.0, 0.0, 0.0]


@needs_nsd
def test_a_dead_resolver_is_a_failure_of_everything(proxy: Proxy) -> None:
    """SPF, DMARC, and lists: no lookup has a value."""

    async def ask() -> list[object]:
        evidence = Evidence(open_resolver(proxy.where, timeout_s=0.2), LookupSettings(("bl.example",), ("dom.example",), 0.4))
        message = mail(text=b"see http://bad.test/")
        names = ("spf", "dmarc", "authenticated", "client_lists", "domain_lists")
        return await asyncio.gather(*(getattr(evidence, name)(message) for name in names), return_exceptions=True)

    proxy.change = lambda _question, _answer: None
    found = run(ask())
    assert [type(one) for one in found] == [LookupFailed] * 5


def test_a_resolver_is_named_or_an_error_says_how(tmp_path: Path) -> None:
    """A zone file that is none, and a text that names nothing."""
    path = tmp_path / "zone"
    path.write_text("not a zone file\n")
    with pytest.raises(ModelError, match="not readable as a zone file"):
        open_resolver(str(path))
    with pytest.raises(ModelError, match="expected HOST:PORT, a zone file or 'system', got 'nowhere'"):
        open_resolver("nowhere")


def test_the_zone_file_of_a_domain_is_read(tmp_path: Path) -> None:
    """An SOA below the root is no obstacle, nor are two zones in a file."""
    path = tmp_path / "zone"
    soa = "@ IN SOA ns root 1 3600 600 86400 300"
    path.write_text(
        f'$ORIGIN good.example.\n{soa}\n@ IN NS ns\n@ IN TXT "v=spf1 -all"\nns IN A 192.0.2.1\n'
        f"$ORIGIN other.example.\n{soa}\n@ IN MX 10 mx\n"
    )
    resolver = ZoneFileResolver(path)
    assert run(resolver.resolve("good.example", "TXT")) == ("v=spf1 -all",)
    assert run(resolver.resolve("ns.good.example", "A")) == ("192.0.2.1",)
    assert run(resolver.resolve("other.example", "MX")) == ("10 mx.other.example",)
    path.write_text("good.example. 60 CH TXT x\n")
    with pytest.raises(ModelError, match="not readable as a zone file"):
        ZoneFileResolver(path)


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ('@ 60 IN SOA ns root 1 3600 600 86400 300\n@ 60 IN TXT "v=spf1 -all"\n', "@"),
        ("good.example. 60 IN NS ns.good.example.\nns 60 IN A 192.0.2.1\n", "ns"),
        ("good.example. 60 IN MX 10 mx\n", "good.example."),
    ],
)
def test_a_zone_file_that_does_not_say_whose_it_is_is_refused(tmp_path: Path, text: str, owner: str) -> None:
    """Its relative names would be those of the root, and nothing that is asked for would be found."""
    path = tmp_path / "zone"
    path.write_text(text)
    with pytest.raises(ModelError, match=f"the record of {re.escape(owner)} has a relative name, and there is no") as raised:
        ZoneFileResolver(path)
    assert str(raised.value).endswith(": give a master file with absolute names, or begin it with `$ORIGIN your.domain.`")
    path.write_text(f"$ORIGIN good.example.\n{text}")
    ZoneFileResolver(path)
