"""How many DNS questions a model asks for a message, compared with asking everything; and what it does when nobody answers."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from emsco_runtime import Acquirers, Cascade
from emsco_runtime.decision import Decision
from spam_filter.errors import ModelError
from spam_filter.evidence.acquirers import lookup_acquirers
from spam_filter.evidence.resolver import open_resolver
from spam_filter.evidence.settings import LookupSettings
from spam_filter.features import acquirers
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail
from spam_filter.model import BUNDLE, STORES, Model
from spam_filter.service.classification import classify_async
from spam_filter.service.verdict import Verdict

__all__ = ["DeadResolverFigures", "LookupCounts", "count_lookups", "decide_without_answers"]

_PATIENCE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class LookupCounts:
    """Questions, answers kept for as long as they say.

    Parameters
    ----------
    decisions
        By the cascade, of each message.
    cascade, everything
        Questions for all messages: of the cascade, and of all features for every message, after which the same cascade decides.
    """

    decisions: tuple[Decision, ...]
    cascade: int
    everything: int


@dataclass(frozen=True, slots=True)
class DeadResolverFigures:
    """What became of messages while the name server was silent.

    Parameters
    ----------
    verdicts
        Of each message.
    seconds
        How long each verdict took.
    """

    verdicts: tuple[Verdict, ...]
    seconds: tuple[float, ...]


def count_lookups(folder: Path, where: str, raws: Sequence[bytes]) -> LookupCounts:
    """Decide messages by a model, and count questions.

    Parameters
    ----------
    folder
        A model with lookups.
    where
        The name server.
    raws
        The messages.

    Raises
    ------
    ModelError
        If the model asks the network for nothing, or acquiring everything first gives another decision.
    """
    kept = LookupSettings.read(folder)
    if kept is None:
        raise ModelError(f"{folder}: the model was trained without lookups")
    # Counted, not timed: a busy machine must not change a decision.
    settings = replace(kept, timeout_s=_PATIENCE_S)

    async def count(stores: Stores) -> LookupCounts:
        frugal, wasteful = (open_resolver(where, timeout_s=settings.timeout_s) for _ in range(2))
        cascade = Cascade.load(folder / BUNDLE, acquirers(stores) | lookup_acquirers(frugal, settings, stores))
        everything = acquirers(stores) | lookup_acquirers(wasteful, settings, stores)
        listed = {name for stage in cascade.manifest.stages for name in stage.acquire}
        decisions: list[Decision] = []
        for raw in raws:
            mail = Mail.parse(raw)
            decisions.append(await cascade.decide_async(mail))
            row = await _acquire_all(everything, mail)
            same = await cascade.decide_async(mail, known={name: row[name] for name in listed})
            if same.label != decisions[-1].label:
                raise ModelError(f"acquiring everything first gives {same.label!r}, the cascade gave {decisions[-1].label!r}")
        return LookupCounts(tuple(decisions), frugal.queries, wasteful.queries)

    with Stores.open(folder / STORES) as stores:
        return asyncio.run(count(stores))


async def _acquire_all(registry: Acquirers, mail: Mail) -> Mapping[str, Any]:
    row: dict[str, Any] = {}
    for entry in registry.entries:
        value = entry.function(mail)
        if asyncio.iscoroutine(value):
            value = await value
        row.update(value if entry.shape == "features" else {entry.names[0]: value})
    return row


def decide_without_answers(folder: Path, raws: Sequence[bytes], *, deadline_s: float, at_a_time: int = 16) -> DeadResolverFigures:
    """Decide messages while the name server takes questions and never answers.

    Parameters
    ----------
    folder
        A model with lookups.
    raws
        The messages.
    deadline_s
        Time for each message.
    at_a_time
        Messages under way.
    """

    async def decide(model: Model) -> DeadResolverFigures:
        turns = asyncio.Semaphore(at_a_time)

        async def one(raw: bytes) -> tuple[Verdict, float]:
            async with turns:
                began = time.perf_counter()
                return await classify_async(model, raw, None, deadline_s), time.perf_counter() - began

        found = await asyncio.gather(*map(one, raws))
        return DeadResolverFigures(tuple(verdict for verdict, _ in found), tuple(seconds for _, seconds in found))

    with socket.socket(type=socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        with Model.open(folder, dns=f"127.0.0.1:{silent.getsockname()[1]}") as model:
            return asyncio.run(decide(model))
