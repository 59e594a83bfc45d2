"""DMARC (RFC 7489): what a domain asks of mail in its name, and whether a message is authenticated for the domain in its From.

Two domains are aligned if somebody registered both, by the public suffix list; a policy may ask for the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from publicsuffixlist import PublicSuffixList

from spam_filter.evidence.resolver import Resolver

__all__ = ["NO_POLICY", "DomainPolicy", "are_aligned", "find_policy", "organizational_domain", "read_policy"]

_POLICIES: Final = ("none", "quarantine", "reject")


@dataclass(frozen=True, slots=True)
class DomainPolicy:
    """What a domain publishes.

    Parameters
    ----------
    policy
        "none", "quarantine" or "reject"; empty where there is no policy.
    strict_spf, strict_dkim
        The very domain must be authenticated, not just one of the same owner.
    """

    policy: str = ""
    strict_spf: bool = False
    strict_dkim: bool = False


NO_POLICY: Final = DomainPolicy()


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    # Reading the list takes some ten milliseconds, and it does not change.
    return PublicSuffixList()


def organizational_domain(host: str) -> str:
    """Return the domain that somebody registered.

    Examples
    --------
    >>> organizational_domain("mail.example.co.uk"), organizational_domain("example.org")
    ('example.co.uk', 'example.org')
    """
    return _suffixes().privatesuffix(host) or host


def are_aligned(one: str, other: str, *, strict: bool) -> bool:
    """Return whether one domain speaks for the other."""
    return bool(one) and (one == other if strict else organizational_domain(one) == organizational_domain(other))


def read_policy(text: str, *, of_parent: bool) -> DomainPolicy | None:
    """Return what a record says; None for one that is no policy.

    Parameters
    ----------
    text
        The TXT record.
    of_parent
        It was found at the organizational domain: its policy for subdomains counts.

    Examples
    --------
    >>> read_policy("v=DMARC1; p=reject; sp=none; aspf=s", of_parent=True)
    DomainPolicy(policy='none', strict_spf=True, strict_dkim=False)
    >>> read_policy("v=spf1 -all", of_parent=False)
    """
    tags = {name.strip().lower(): value.strip().lower() for name, _, value in (part.partition("=") for part in text.split(";"))}
    if not text.lower().startswith("v=dmarc1") or tags.get("v") != "dmarc1" or tags.get("p") not in _POLICIES:
        return None
    subdomains = tags.get("sp", "")
    policy = subdomains if of_parent and subdomains in _POLICIES else tags["p"]
    return DomainPolicy(policy, tags.get("aspf") == "s", tags.get("adkim") == "s")


async def find_policy(domain: str, resolver: Resolver) -> DomainPolicy:
    """Return the policy for mail from a domain: its own, else that of its organizational domain.

    Raises
    ------
    LookupFailed
        If there is no answer.
    """
    if not domain or "." not in domain:
        return NO_POLICY
    for place in dict.fromkeys((domain, organizational_domain(domain))):
        found = [
            policy
            for text in await resolver.resolve(f"_dmarc.{place}", "TXT")
            if (policy := read_policy(text, of_parent=place != domain)) is not None
        ]
        if len(found) == 1:
            return found[0]
        if found:
            # Several policies are none.
            break
    return NO_POLICY
