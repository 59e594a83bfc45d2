"""The acquirers that ask the network: each async, with a timeout, a breaker, and a cache by what its answer depends on.

| acquirer | asks | cached by |
|---|---|---|
| spf | the sender's domain, and what it includes | client address, domain of MAIL FROM, HELO |
| dkim | one key for each signature | (keys alone, by the resolver) |
| dmarc | the policy of the domain in From, and both above | (by the resolver) |
| authenticated | both above, and the store | |
| client_lists | each list, by the client's address | client address |
| domain_lists | each list, by each domain that links point at | (each domain, by the resolver) |

Answers are kept by the resolver too, for as long as they say. A stage asks for all that it needs at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from emsco_runtime import AcquirerCache, Acquirers, CircuitBreaker
from spam_filter.evidence.block_list import BlockList, address_name, is_listable
from spam_filter.evidence.names import DNS_GROUPS
from spam_filter.evidence.origin import origin_of
from spam_filter.evidence.read_in_thread import read_in_thread
from spam_filter.evidence.resolver import Resolver
from spam_filter.evidence.sender_checks import SenderChecks
from spam_filter.evidence.sender_policy import SpfResult, spf_domain
from spam_filter.evidence.settings import LookupSettings
from spam_filter.extractors.store_scores import sender_scores
from spam_filter.learned.clues import footer_domains, link_domains
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail

__all__ = ["Evidence", "lookup_acquirers"]

_MOST_DOMAINS: Final = 10
_CACHE_S: Final = 300.0
_SPF_FAIL: Final[Mapping[SpfResult, float]] = {"fail": 1.0, "softfail": 0.5}
_POLICY_WEIGHTS: Final[Mapping[str, float]] = {"reject": 1.0, "quarantine": 0.75, "none": 0.5}


class Evidence:
    """The features that come from the network, of one message at a time.

    Parameters
    ----------
    resolver
        Answers the questions.
    settings
        Lists and timeout.
    """

    def __init__(self, resolver: Resolver, settings: LookupSettings) -> None:
        self._checks = SenderChecks(resolver, settings.timeout_s)
        self._client_lists = [BlockList(zone, "addresses", resolver) for zone in settings.client_lists]
        self._domain_lists = [BlockList(zone, "domains", resolver) for zone in settings.domain_lists]

    async def spf(self, mail: Mail) -> dict[str, float]:
        """Return what SPF says."""
        result = await self._checks.spf(mail)
        return {"spf_pass": float(result == "pass"), "spf_fail": _SPF_FAIL.get(result, 0.0)}

    async def dkim(self, mail: Mail) -> dict[str, float]:
        """Return what DKIM says."""
        signatures = await self._checks.signatures(mail)
        return {"dkim_pass": float(bool(signatures.valid)), "dkim_fail": float(signatures.invalid > 0 and not signatures.valid)}

    async def dmarc(self, mail: Mail) -> dict[str, float]:
        """Return what DMARC says; a failure counts by what the domain asks for."""
        found = await self._checks.authentication(mail)
        weight = _POLICY_WEIGHTS.get(found.policy.policy, 0.0)
        return {
            "dmarc_pass": float(found.aligned and weight > 0.0),
            "dmarc_fail": 0.0 if found.aligned else weight,
        }

    async def authenticated(self, mail: Mail) -> dict[str, float]:
        """Return whether SPF or DKIM vouch for the domain in From."""
        return {"sender_authenticated": float(await self._checks.is_authenticated(mail))}

    async def client_lists(self, mail: Mail) -> dict[str, float]:
        """Return how many lists have the client's address."""
        address = (await read_in_thread(origin_of, mail)).address
        if address is None:
            return {"client_listed": 0.0}
        name = address_name(address)
        return {"client_listed": float(sum(await asyncio.gather(*(one.is_listed(name) for one in self._client_lists))))}

    async def domain_lists(self, mail: Mail) -> dict[str, float]:
        """Return how many listings the domains have that links point at."""
        domains = await read_in_thread(_listable_domains, mail)
        return {"links_listed": float(sum(await asyncio.gather(*(one.count_listed(domains) for one in self._domain_lists))))}


def lookup_acquirers(resolver: Resolver, settings: LookupSettings, stores: Stores) -> Acquirers:
    """Return the registry of the acquirers that ask the network.

    Parameters
    ----------
    resolver, settings
        As in `Evidence`.
    stores
        What is known of senders.
    """
    evidence = Evidence(resolver, settings)

    async def authenticated(mail: Mail) -> dict[str, float]:
        found = await evidence.authenticated(mail)
        # Without authentication the name of a sender says nothing, however good: the store is not even asked.
        reputation = (await asyncio.to_thread(sender_scores, mail, stores))["sender_reputation"] if any(found.values()) else 0.0
        return {**found, "authenticated_reputation": reputation}

    functions: dict[str, Callable[[Mail], Any]] = {
        "spf": evidence.spf,
        "dkim": evidence.dkim,
        "dmarc": evidence.dmarc,
        "authenticated": authenticated,
        "client_lists": evidence.client_lists,
        "domain_lists": evidence.domain_lists,
    }
    keys: dict[str, Callable[[Mail], Hashable | None]] = {
        "spf": _spf_key,
        "client_lists": _client_key,
    }
    registry = Acquirers()
    for group, names in DNS_GROUPS.items():
        registry.features(
            *names,
            on_failure="default",
            timeout_s=settings.timeout_s,
            breaker=CircuitBreaker(failures=5, pause_s=10.0),
            cache=AcquirerCache(key=keys[group], ttl_s=_CACHE_S) if group in keys else None,
        )(functions[group])
    return registry


def _listable_domains(mail: Mail) -> list[str]:
    domains = dict.fromkeys([*link_domains(mail), *footer_domains(mail)])
    return list(filter(is_listable, domains))[:_MOST_DOMAINS]


# The event loop makes keys: in service they come from the envelope, and no byte of the message is read.
def _spf_key(mail: Mail) -> Hashable:
    origin = origin_of(mail)
    # A policy may speak of the local part, which is rare: pyspf is asked again for another domain only.
    return (origin.address, spf_domain(origin), origin.helo)


def _client_key(mail: Mail) -> Hashable:
    return origin_of(mail).address
