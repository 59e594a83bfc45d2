"""The names of the features that come from the network; no library is needed to know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["DERIVED_FROM", "DNS_GROUPS", "dns_feature_names"]

DNS_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "spf": ("spf_pass", "spf_fail"),
    "dkim": ("dkim_pass", "dkim_fail"),
    "dmarc": ("dmarc_pass", "dmarc_fail"),
    "authenticated": ("sender_authenticated", "authenticated_reputation"),
    "client_lists": ("client_listed",),
    "domain_lists": ("links_listed",),
}
DERIVED_FROM: Final[Mapping[str, tuple[str, ...]]] = {
    "dmarc": ("spf", "dkim"),
    "authenticated": ("spf", "dkim"),
}
"""Groups whose features are worked out from other groups, and paid through them."""


def dns_feature_names() -> tuple[str, ...]:
    """Return the names of all features that come from the network."""
    return tuple(name for members in DNS_GROUPS.values() for name in members)
