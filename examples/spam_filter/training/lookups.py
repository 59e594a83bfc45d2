"""Features from the network for a corpus, and what they cost: the questions they ask, each at a price in lookup time.

Old mail has no live DNS: what its domains publish today says nothing of the day it was sent. So a model is trained without
lookups unless a resolver is named, and for a corpus that is a zone made for it (`spam_filter.synthetic.zones`).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from spam_filter.errors import ModelError
from spam_filter.evidence.names import DERIVED_FROM, DNS_GROUPS
from spam_filter.evidence.settings import LookupSettings
from spam_filter.message.mail import Mail
from spam_filter.training.extraction import Row

if TYPE_CHECKING:
    from emsco_train import CostModel

__all__ = ["LookupPlan", "add_lookups", "count_queries", "price_lookups"]

_AT_A_TIME: Final = 16
# Nobody waits for training, and an answer that is late would be learned as "none".
_PATIENCE_S: Final = 30.0
UNIT: Final = "us of CPU and look-up time"


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """Which lookups to train with.

    Parameters
    ----------
    dns
        Where to ask: ``HOST:PORT`` of a name server, a zone file, or ``system``.
    client_lists, domain_lists
        Block lists of addresses, and of domains.
    query_ms
        What one question costs, in milliseconds of waiting.
    timeout_s
        Time for each kind of evidence, in service.
    """

    dns: str
    client_lists: tuple[str, ...] = ()
    domain_lists: tuple[str, ...] = ()
    query_ms: float = 20.0
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        """Raise `ModelError` for a price that no question can have."""
        if not 0 <= self.query_ms < math.inf:
            raise ModelError(f"query_ms is {self.query_ms!r}: expected a number of at least 0, such as 20")

    @property
    def settings(self) -> LookupSettings:
        """What the model keeps of it."""
        return LookupSettings(self.client_lists, self.domain_lists, self.timeout_s)


def add_lookups(raws: Sequence[bytes], rows: Sequence[Row], plan: LookupPlan) -> list[Row]:
    """Return the rows with the features from the network.

    Parameters
    ----------
    raws
        The messages.
    rows
        Their other features; the sender's reputation is taken from there, so that it stays cross-fitted.
    plan
        The resolver, and what to ask.

    Raises
    ------
    LookupFailed
        If there is no answer: what is missing in training would be learned as a fact.
    """
    from spam_filter.evidence.acquirers import Evidence  # noqa: PLC0415 - its libraries are optional
    from spam_filter.evidence.resolver import open_resolver  # noqa: PLC0415

    async def add() -> list[Row]:
        evidence = Evidence(open_resolver(plan.dns, timeout_s=_PATIENCE_S), replace(plan.settings, timeout_s=4 * _PATIENCE_S))
        turns = asyncio.Semaphore(_AT_A_TIME)

        async def row(raw: bytes, other: Row) -> Row:
            mail = Mail.parse(raw)
            async with turns:
                found = await asyncio.gather(*(getattr(evidence, group)(mail) for group in DNS_GROUPS))
            values = {name: value for part in found for name, value in part.items()}
            values["authenticated_reputation"] = values["sender_authenticated"] * other["sender_reputation"]
            return {**other, **values}

        return list(await asyncio.gather(*(row(raw, other) for raw, other in zip(raws, rows, strict=True))))

    return asyncio.run(add())


def count_queries(raws: Sequence[bytes], plan: LookupPlan) -> dict[str, float]:
    """Return the mean number of questions that each group of features asks for a message, beyond what it shares with others."""
    from spam_filter.evidence.acquirers import Evidence  # noqa: PLC0415 - as above
    from spam_filter.evidence.resolver import open_resolver  # noqa: PLC0415

    async def count() -> dict[str, float]:
        resolver = open_resolver(plan.dns, timeout_s=_PATIENCE_S)
        evidence = Evidence(resolver, replace(plan.settings, timeout_s=4 * _PATIENCE_S))
        totals = dict.fromkeys(DNS_GROUPS, 0)
        for raw in raws:
            mail = Mail.parse(raw)
            # In order, one after the other: what a group is derived from is known by then.
            for group in DNS_GROUPS:
                before = resolver.queries
                await getattr(evidence, group)(mail)
                totals[group] += resolver.queries - before
        return {group: total / len(raws) for group, total in totals.items()}

    return asyncio.run(count())


def price_lookups(measured: CostModel, queries: dict[str, float], query_ms: float) -> CostModel:
    """Return the costs with those of lookups: a group is paid once, and what is derived from other groups is paid through them.

    Parameters
    ----------
    measured
        Costs of all other features, in microseconds.
    queries
        Questions of each group.
    query_ms
        What one question costs.
    """
    from emsco_train import CostGroup, CostModel  # noqa: PLC0415 - training only

    features = {**measured.features, **{name: 0.0 for names in DNS_GROUPS.values() for name in names}}
    groups = [
        *measured.groups,
        *(CostGroup(group, 1000.0 * query_ms * queries[group], names) for group, names in DNS_GROUPS.items()),
    ]
    derived = {
        name: tuple(DNS_GROUPS[source][0] for source in sources)
        for group, sources in DERIVED_FROM.items()
        for name in DNS_GROUPS[group]
    }
    derived["authenticated_reputation"] = (*derived["authenticated_reputation"], "sender_reputation")
    return CostModel.from_mapping(features, groups=groups, derived=derived, unit=UNIT)
