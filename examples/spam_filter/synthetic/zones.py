"""A synthetic DNS zone for a corpus: what its domains and block lists might have published, made up from the labels.

Old mail has no live DNS, so nothing here is a measurement of real domains or lists. The rates are stated in `ZoneRates`, and are
drawn per domain and per address, not per message. A domain or address that ham ever came from is treated as that of honest
people, so spam with a forged sender is not authenticated.
"""

from __future__ import annotations

import ipaddress
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from spam_filter.evidence.block_list import address_name, is_listable
from spam_filter.evidence.origin import origin_of
from spam_filter.learned.clues import link_domains
from spam_filter.message.mail import Mail
from spam_filter.training.corpus import LabelledMail

__all__ = ["CLIENT_LIST", "DOMAIN_LIST", "ZoneRates", "make_zone", "with_origins"]

CLIENT_LIST: Final = "clients.synthetic.example"
DOMAIN_LIST: Final = "domains.synthetic.example"
_HEAD: Final = (
    "$TTL 3600",
    ". IN SOA ns.synthetic.example. admin.synthetic.example. 1 3600 600 86400 300",
    ". IN NS ns.synthetic.example.",
    "ns.synthetic.example. IN A 127.0.0.1",
    f"2.0.0.127.{CLIENT_LIST}. IN A 127.0.0.2",
    f"test.{DOMAIN_LIST}. IN A 127.0.0.2",
)


@dataclass(frozen=True, slots=True)
class ZoneRates:
    """How often what is published; all made up.

    Parameters
    ----------
    ham_spf, spam_spf
        Share of sender domains with an SPF record that names the clients seen: of those that ham came from, and of the others.
    dmarc
        Share of domains with SPF that publish a DMARC policy too, half of them "reject".
    spam_clients_listed, ham_clients_listed
        Share of client addresses in the block list: of those that spam alone came from, and of those that ham came from.
    spam_domains_listed, ham_domains_listed
        The same for domains that links point at.
    """

    ham_spf: float = 0.7
    spam_spf: float = 0.3
    dmarc: float = 0.5
    spam_clients_listed: float = 0.7
    ham_clients_listed: float = 0.005
    spam_domains_listed: float = 0.6
    ham_domains_listed: float = 0.005


def make_zone(mails: Sequence[LabelledMail], rates: ZoneRates = ZoneRates(), *, seed: int = 0) -> str:  # noqa: B008 - frozen
    """Return a zone file of the root with synthetic records for a corpus.

    Parameters
    ----------
    mails
        The corpus.
    rates
        How often what is published.
    seed
        The same seed gives the same zone.
    """
    rng = random.Random(seed)
    clients: defaultdict[str, set[str]] = defaultdict(set)
    ham_senders: set[str] = set()
    addresses: dict[str, bool] = {}
    domains: dict[str, bool] = {}
    for one in mails:
        mail = Mail.parse(one.raw)
        origin, is_ham = origin_of(mail), one.label == "ham"
        sender = origin.sender.rpartition("@")[2].lower()
        if origin.address is not None:
            addresses[origin.address] = addresses.get(origin.address, False) or is_ham
        if origin.address is not None and is_listable(sender) and (is_ham or sender not in ham_senders):
            if is_ham and sender not in ham_senders:
                # What spam claimed before was forged.
                ham_senders.add(sender)
                clients[sender].clear()
            clients[sender].add(origin.address)
        for domain in filter(is_listable, link_domains(mail)):
            domains[domain] = domains.get(domain, False) or is_ham
    return "\n".join(
        [
            *_HEAD,
            *_policies(clients, ham_senders, rates, rng),
            *_listings(
                {address_name(one): ham for one, ham in addresses.items()},
                CLIENT_LIST,
                (rates.spam_clients_listed, rates.ham_clients_listed),
                rng,
            ),
            *_listings(domains, DOMAIN_LIST, (rates.spam_domains_listed, rates.ham_domains_listed), rng),
            "",
        ]
    )


def _policies(clients: dict[str, set[str]], ham_senders: set[str], rates: ZoneRates, rng: random.Random) -> Iterable[str]:
    for domain in sorted(clients):
        if rng.random() >= (rates.ham_spf if domain in ham_senders else rates.spam_spf):
            continue
        # What does not fit into one record is published under names of its own, and included.
        listed = sorted(clients[domain])
        mechanisms = [f"ip{ipaddress.ip_address(one).version}:{one}" for one in listed[:100]]
        if len(listed) > 10:
            yield f"_spf.{domain}. IN TXT {_strings(['v=spf1', *mechanisms[10:], '?all'])}"
            mechanisms = [*mechanisms[:10], f"include:_spf.{domain}"]
        yield f"{domain}. IN TXT {_strings(['v=spf1', *mechanisms, '-all'])}"
        if rng.random() < rates.dmarc:
            yield f'_dmarc.{domain}. IN TXT "v=DMARC1; p={rng.choice(("reject", "none"))}"'


def _strings(words: Sequence[str]) -> str:
    """Return words as strings of a TXT record, none of them too long."""
    text = " ".join(words)
    return " ".join(f'"{text[at : at + 250]}"' for at in range(0, len(text), 250))


def _listings(names: dict[str, bool], zone: str, shares: tuple[float, float], rng: random.Random) -> Iterable[str]:
    for name in sorted(names):
        if rng.random() < shares[names[name]]:
            yield f"{name}.{zone}. IN A 127.0.0.2"


def with_origins(mails: Iterable[LabelledMail], *, seed: int = 0) -> list[LabelledMail]:
    """Return synthetic messages with made-up clients in a Received field: each domain of ham has one of its own; spam has many.

    Parameters
    ----------
    mails
        Synthetic messages, which say nothing of their way.
    seed
        Of the addresses.
    """
    rng = random.Random(seed)
    homes: dict[str, str] = {}
    found: list[LabelledMail] = []
    for one in mails:
        sender = Mail.parse(one.raw).sender
        address = f"203.0.{rng.randrange(114, 124)}.{rng.randrange(1, 255)}"
        if one.label == "ham":
            address = homes.setdefault(sender.domain, f"198.51.{len(homes) // 250}.{len(homes) % 250 + 1}")
        head = (
            f"Return-Path: <{sender}>\nReceived: from mx.{sender.domain or 'nowhere.example'} ([{address}]) by mx.example.org\n"
        )
        found.append(LabelledMail(head.encode("utf-8", "replace") + one.raw, one.label, one.received, one.source))
    return found
