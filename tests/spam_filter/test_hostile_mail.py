"""Hostile bytes: no step takes time that grows faster than the size; `benchmarks/hostile_mail.py` measures the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from spam_filter.features import acquirers
from spam_filter.learned.stores import Stores, train_stores
from spam_filter.load.hostile_mail import HOSTILE, hostile_message
from spam_filter.message.mail import Mail
from spam_filter.service.headers import mark_message
from spam_filter.service.message_text import MessageText
from spam_filter.service.next_hop import can_be_smuggled, stuff_dots
from spam_filter.service.verdict import Verdict
from spam_filter.synthetic.generator import generate
from spam_filter.training.extraction import extract_row

SMALL, TIMES = 131_072, 8
# Of a step whose time grows with the size, eight times as much; with its square, 64 times.
FACTOR, NOISE_S = 3 * TIMES, 0.02


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[bytes], object]]]:
    """Return all that is done with the bytes of a message."""
    path = tmp_path_factory.mktemp("stores") / "stores.sqlite"
    train_stores(path, [(Mail.parse(one.raw), one.label) for one in generate(40, seed=1)])
    with Stores.open(path) as stores:
        registry = acquirers(stores)
        yield {
            "all features": lambda raw: extract_row(registry, Mail.parse(raw)),
            "headers": lambda raw: mark_message(raw, Verdict("spam")),
            "the way out": lambda raw: (can_be_smuggled(raw), stuff_dots(raw)),
            "the way in": read_in_pieces,
        }


def read_in_pieces(raw: bytes) -> bytes | None:
    """Read a message as it comes from the network."""
    text, wire = MessageText(1 << 30), stuff_dots(raw)
    for start in range(0, len(wire), 65_536):
        text.feed(wire[start : start + 65_536])
    return text.content


def cpu_time(step: Callable[[bytes], object], raw: bytes) -> float:
    """Return the CPU time of this thread, the least of three."""
    found = []
    for _ in range(3):
        began = time.thread_time()
        step(raw)
        found.append(time.thread_time() - began)
    return min(found)


@pytest.mark.uncounted
@pytest.mark.parametrize("kind", HOSTILE)
def test_time_per_byte_does_not_grow(steps: dict[str, Callable[[bytes], object]], kind: str) -> None:
    """Eight times the bytes take some eight times the CPU time, not 64 times, at each step."""
    small, large = hostile_message(kind, SMALL), hostile_message(kind, TIMES * SMALL)
    assert len(large) > 0.9 * TIMES * len(small)
    for name, step in steps.items():
        once, more = cpu_time(step, small), cpu_time(step, large)
        assert more <= FACTOR * once + NOISE_S, name


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_it_is_lost_on_the_way(kind: str) -> None:
    """What is read from the wire is what was sent, and at most our own name is taken out of it."""
    raw = hostile_message(kind, 20_000)
    assert read_in_pieces(raw) == raw
    marked = mark_message(raw, Verdict("spam"))
    assert marked.forged or marked.content.endswith(raw)
