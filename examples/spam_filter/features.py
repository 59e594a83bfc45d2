"""The features of a message, in tiers of cost, and the acquirers that obtain them.

| tier | group | what it takes |
|---|---|---|
| header | (none) | the header alone: microseconds each |
| lookup | sender, subject_words | a few rows from SQLite, by the header alone |
| body | text, links, sampled_words, hosts | decoding the body, then one pass, or one lookup |
| lookups by DNS | spf, dkim, dmarc, authenticated, client_lists, domain_lists | the network; only in models trained with them |
| expensive | squeeze, page, language, words | compression, an HTML parser, letter habits, hundreds of rows from SQLite |

Splitting a message into header and parts is not an acquisition: the first acquirer that needs the body does it, and it is kept.

Acquirers that read SQLite fall back on the bundle's default when the store is locked or broken: such a decision is marked
`degraded`, is never `ham`, and no message is lost. After five failures in a row the store is not queried for a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from emsco_runtime import Acquirers, CircuitBreaker
from spam_filter.evidence.names import dns_feature_names
from spam_filter.extractors import header as header_extractors, store_scores
from spam_filter.extractors.html_page import PAGE_FEATURES, page_features
from spam_filter.extractors.language import LANGUAGE_FEATURES, language_features
from spam_filter.extractors.text import LINK_FEATURES, TEXT_FEATURES, link_features, squeezability, text_features
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail

__all__ = ["GROUPS", "HEADER_FEATURES", "acquirers", "feature_names", "source_name"]

HEADER_FEATURES: Final[Mapping[str, Callable[[Mail], float | bool]]] = {
    name: getattr(header_extractors, name) for name in header_extractors.__all__
}

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "sender": store_scores.SENDER_SCORES,
    "subject_words": store_scores.SUBJECT_SCORES,
    "text": TEXT_FEATURES,
    "links": LINK_FEATURES,
    "sampled_words": store_scores.SAMPLE_SCORES,
    "hosts": store_scores.HOST_SCORES,
    "squeeze": ("squeezability",),
    "page": PAGE_FEATURES,
    "language": LANGUAGE_FEATURES,
    "words": store_scores.WORD_SCORES,
}


class _StoreExtractor(Protocol):
    def __call__(self, mail: Mail, stores: Stores) -> Mapping[str, float]: ...


_FROM_MAIL: Final[Mapping[str, Callable[[Mail], Mapping[str, float | bool]]]] = {
    "text": text_features,
    "links": link_features,
    "squeeze": lambda mail: {"squeezability": squeezability(mail)},
    "page": page_features,
}
_FROM_STORES: Final[Mapping[str, _StoreExtractor]] = {
    "sender": store_scores.sender_scores,
    "subject_words": store_scores.subject_scores,
    "sampled_words": store_scores.sample_scores,
    "hosts": store_scores.host_scores,
    "language": language_features,
    "words": store_scores.word_scores,
}


def feature_names() -> tuple[str, ...]:
    """Return the names of all features, cheap ones first."""
    return (*HEADER_FEATURES, *(name for members in GROUPS.values() for name in members))


def source_name(feature: str) -> str:
    """Return where a feature comes from: "store" or "dns" for a lookup, else the feature's own name.

    Examples
    --------
    >>> source_name("words_score"), source_name("spf_pass"), source_name("hops")
    ('store', 'dns', 'hops')
    """
    if feature in dns_feature_names():
        return "dns"
    return "store" if any(feature in GROUPS[group] for group in _FROM_STORES) else feature


def acquirers(stores: Stores) -> Acquirers:
    """Return the registry of all acquirers.

    Parameters
    ----------
    stores
        Where the scores come from.
    """
    registry = Acquirers()
    for name, function in HEADER_FEATURES.items():
        registry.feature(name)(function)
    for group, members in GROUPS.items():
        if group in _FROM_MAIL:
            registry.features(*members)(_FROM_MAIL[group])
        else:
            breaker = CircuitBreaker(failures=5, pause_s=5.0)
            registry.features(*members, on_failure="default", breaker=breaker)(partial(_FROM_STORES[group], stores=stores))
    return registry
