"""Clues: what of a message the stores count, each under a number.

A clue's number is a hash of its kind and its text: the stores hold no address and no word that one could read. Words can still be
guessed and looked up, so keep a store as you keep the mail it was learned from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set as AbstractSet
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Final

from spam_filter.message.address import registered_domain
from spam_filter.message.disguise import undo_disguise
from spam_filter.message.limits import CHUNK_WORDS, CHUNKS, FOOTER_WINDOWS, SAMPLE_WINDOWS, SAMPLE_WORDS, SUBJECT_WORDS
from spam_filter.message.mail import Mail
from spam_filter.message.words import sample_windows, unique_words, word_chunks

__all__ = [
    "all_clues",
    "clue",
    "footer_clues",
    "footer_domains",
    "footer_host_clues",
    "footer_sample_words",
    "footer_word_clues",
    "host_clues",
    "link_domains",
    "link_hosts",
    "sample_words",
    "sender_clues",
    "subject_clues",
    "word_clues",
]

_HOST_END: Final = re.compile(r"[/?#\\]")


def clue(kind: str, text: str) -> int:
    """Return the number of a clue: 63 bits, the same on every machine.

    Examples
    --------
    >>> clue("word", "free") == clue("word", "free") != clue("subject", "free")
    True
    """
    return int.from_bytes(blake2b(f"{kind} {text}".encode("utf-8", "replace"), digest_size=8).digest()) >> 1


def sender_clues(mail: Mail) -> list[int]:
    """Return the clues of the sender's address and domain; none without a sender."""
    sender = mail.sender
    if not sender.host:
        return []
    return [clue("address", str(sender)), clue("domain", sender.domain)]


def subject_clues(mail: Mail) -> list[int]:
    """Return the clues of the subject's words, and of the words in the sender's name."""
    shown = undo_disguise(f"{mail.subject} {mail.sender.name}").text
    return [clue("subject", word) for word in unique_words(shown, SUBJECT_WORDS)]


def sample_words(mail: Mail) -> list[list[str]]:
    """Return a few words at each of several places in the text, each once at its place."""
    return _sample(mail.words.text, SAMPLE_WINDOWS)


def word_clues(mail: Mail) -> list[list[int]]:
    """Return the clues of the words of the text, and of pairs of neighbours, piece by piece."""
    return _read_pieces(mail.words.text)


def footer_sample_words(mail: Mail) -> list[list[str]]:
    """Return a few words at the places of the footer, each once at its place."""
    return _sample(mail.footer, FOOTER_WINDOWS)


def footer_word_clues(mail: Mail) -> list[list[int]]:
    """Return the clues of the words of the footer and of pairs, piece by piece."""
    return _read_pieces(mail.footer)


def _sample(text: str, places: int) -> list[list[str]]:
    return [list(dict.fromkeys(window)) for window in sample_windows(text, places, SAMPLE_WORDS)]


def _read_pieces(text: str) -> list[list[int]]:
    return [
        [clue("word", word) for word in dict.fromkeys(words)]
        + [clue("pair", f"{one} {two}") for one, two in dict.fromkeys(pairwise(words))]
        for words in word_chunks(text, CHUNKS, CHUNK_WORDS)
    ]


def link_hosts(mail: Mail) -> list[str]:
    """Return the different hosts that links point at, in lower case, without user names and ports."""
    return _read_hosts(mail.links)


def _read_hosts(links: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for link in links:
        # A user name may stand before the host, but nothing of what follows it.
        host = _HOST_END.split(link.lower(), maxsplit=1)[0].rpartition("@")[2].partition(":")[0].rstrip(".,;")
        if host:
            found[host] = None
    return list(found)


def host_clues(mail: Mail) -> list[int]:
    """Return the clues of the domains that links point at."""
    return [clue("host", domain) for domain in link_domains(mail)]


def footer_host_clues(mail: Mail) -> list[int]:
    """Return the clues of the domains that links of the footer point at."""
    return [clue("host", domain) for domain in footer_domains(mail)]


def link_domains(mail: Mail) -> list[str]:
    """Return the different domains that links point at."""
    return _read_domains(mail.links)


def footer_domains(mail: Mail) -> list[str]:
    """Return the different domains that links of the footer point at."""
    return _read_domains(mail.footer_links)


def _read_domains(links: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(registered_domain, _read_hosts(links))))


def all_clues(mail: Mail, own_domains: AbstractSet[str] = frozenset()) -> set[int]:
    """Return all clues of a message that stores learn, each once: not those of a footer, which lists add to all mail.

    Parameters
    ----------
    mail
        The message.
    own_domains
        Domains of the recipients: these show who collected the mail, not what it is, and are ignored.
    """
    found = {*subject_clues(mail), *chain.from_iterable(word_clues(mail)), *_single_words(sample_words(mail))}
    if mail.sender.domain not in own_domains:
        found.update(sender_clues(mail))
    return found.union(clue("host", domain) for domain in link_domains(mail) if domain not in own_domains)


def footer_clues(mail: Mail) -> set[int]:
    """Return all clues of the footer, which are looked up and never learned, each once."""
    words = chain.from_iterable(footer_word_clues(mail))
    return {*_single_words(footer_sample_words(mail)), *words, *footer_host_clues(mail)}


def _single_words(windows: Iterable[Iterable[str]]) -> Iterator[int]:
    return (clue("word", word) for word in set(chain.from_iterable(windows)))
