"""`Shadow`: a second bundle decides the same items, and only reports how it would have decided.

It is given to a cascade as its listener, and decides after the cascade has, with the values that were acquired anyway. If it
needs a feature that the cascade did not acquire, the item is not comparable; but it may acquire the rest for a share of the
items. It never affects the decision: it decides in a thread of its own, has its own limits, uses no breaker and no cache, and
what it raises is counted.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from emsco_runtime.acquirers import Acquirer, Acquirers, OnFailure
from emsco_runtime.bundle.reading import Bundle, read_bundle
from emsco_runtime.decision import Decision
from emsco_runtime.driving.golden_replay import replay_golden_items
from emsco_runtime.driving.item_inputs import Limits
from emsco_runtime.driving.one import drive
from emsco_runtime.driving.options import check_acquirers
from emsco_runtime.driving.pooled import call_with_limits
from emsco_runtime.engine.binding import bind
from emsco_runtime.engine.plan import AcquireRequest, Call, ItemKeyReader
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import RawValues, ends_item, walk
from emsco_runtime.errors import InputError
from emsco_runtime.observing.recording import RecordedItem
from emsco_runtime.sources.guard import CachedOutcome
from emsco_runtime.sources.pool import AcquirerPool, PoolCall, PoolFull
from emsco_runtime.support.arguments import is_number
from emsco_runtime.support.fork import PickledBySettings
from emsco_runtime.support.throttle import Throttle

__all__ = ["Shadow", "ShadowSummary"]

_log = logging.getLogger("emsco_runtime.shadow")
_LOG_EVERY_S = 60.0
# Comparisons that may wait; further ones are dropped, and counted.
_MAX_WAITING = 1000

_Comparison: TypeAlias = Literal["agreed", "other_status", "other_label", "not_comparable", "errors", "dropped"]


@dataclass(frozen=True, slots=True)
class ShadowSummary:
    """How a shadow's decisions compare with those of the cascade.

    Parameters
    ----------
    bundle
        The id of the shadow's bundle.
    agreed, other_status, other_label
        Items with the same status and label; that one of the two accepted and the other rejected; that both accepted, with
        different labels.
    not_comparable
        Items for which the shadow needed a feature that it could not get, or that ended at their deadline.
    errors, dropped
        Items for which the shadow itself failed; that were skipped because too many were waiting.
    acquired
        Calls of acquirers that the shadow made.
    cost, shadow_cost
        What the compared items cost in total, and what they would have cost with the shadow.
    """

    bundle: str
    agreed: int
    other_status: int
    other_label: int
    not_comparable: int
    errors: int
    dropped: int
    acquired: int
    cost: float
    shadow_cost: float

    @property
    def compared(self) -> int:
        """Return the number of items that both decided."""
        return self.agreed + self.other_status + self.other_label

    @property
    def cost_difference(self) -> float:
        """Return how much more an item would have cost with the shadow on average (less, if negative); NaN without items."""
        return (self.shadow_cost - self.cost) / self.compared if self.compared else math.nan


class _NotComparable(Exception):
    """The shadow needs a feature that was not acquired."""


class _Settings(NamedTuple):
    bundle: Bundle
    entries: tuple[Acquirer, ...] | None
    share: float
    seed: int
    on_failure: OnFailure
    background: bool


class Shadow(PickledBySettings[_Settings]):
    """A second opinion on every decision of a cascade; thread-safe, fork-safe, picklable.

    Parameters
    ----------
    bundle
        A bundle, or the folder of one.
    acquirers
        They may acquire what the cascade did not. None: nothing is acquired. They are called without their breakers and caches,
        since those are the cascade's; async ones are not called.
    share
        The share of the items for which they may do so, 0 to 1.
    seed
        Seed of the sample of items.
    on_failure
        As in `Cascade`, for features without an acquirer here.
    background
        Decide in a thread of its own. Otherwise in the thread of the cascade, right after it: nothing is dropped, but the caller
        waits.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import make_bundle, sample_bundle
    >>> shadow = Shadow(make_bundle([["size"]], weights=[[[-1.0], [1.0]]], threshold=0.6), background=False)
    >>> cascade = Cascade(sample_bundle(), listener=shadow)
    >>> _ = cascade.decide_many([{"size": size, "links": 0.0, "reputation": 0.0} for size in (3.0, 0.5, 0.0)])
    >>> summary = shadow.summary
    >>> summary.agreed, summary.other_status, summary.cost, summary.shadow_cost
    (2, 1, 57.0, 3.0)
    """

    def __init__(
        self,
        bundle: Bundle | str | os.PathLike[str],
        acquirers: Acquirers | None = None,
        *,
        share: float = 0.0,
        seed: int = 0,
        on_failure: OnFailure = "reject",
        background: bool = True,
    ) -> None:
        if not is_number(share, 0, 1):
            raise InputError(f"share: expected a number from 0 to 1, got {share!r}")
        if share and acquirers is None:
            raise InputError("share: without acquirers nothing can be acquired. Give acquirers, or leave share out")
        entries = None if acquirers is None else check_acquirers(acquirers)
        checked = bundle if isinstance(bundle, Bundle) else read_bundle(bundle)
        self._settings = _Settings(checked, entries, float(share), seed, on_failure, background)
        self._start()

    def _start(self) -> None:
        settings = self._settings
        manifest, entries = settings.bundle.manifest, settings.entries
        policies: dict[str, OnFailure | None] = {}
        self._calls: dict[str, Call] = {}
        if entries is not None:
            unguarded = [dataclasses.replace(entry, breaker=None, cache=None) for entry in entries]
            plan = bind(manifest, unguarded, settings.on_failure)
            self._calls = {name: call for name, call in plan.calls.items() if not call.is_async}
            policies = {name: call.policy for name, call in plan.calls.items()}
        names = [name for stage in manifest.stages for name in stage.acquire]
        # One reader per feature: values are recorded by name, whichever acquirer obtained them.
        readers = [Acquirer(ItemKeyReader(name), (name,), "feature", policies.get(name)) for name in names]
        self._plan = bind(manifest, readers, settings.on_failure)
        self._features = frozenset(feature.name for feature in manifest.features)
        self._scorer = Scorer.from_bundle(settings.bundle)
        replay_golden_items(settings.bundle, self._scorer)
        self._background = AcquirerPool(1)
        self._limits = Limits(math.inf, AcquirerPool(), parallel=False)
        super()._start()

    def reset_after_fork(self) -> None:
        """Start over without counts, and with the seed."""
        super().reset_after_fork()
        # Not for secrets. All forked children start with the same seed: each of them compares the same share.
        self._random = random.Random(self._settings.seed)  # noqa: S311
        self._counts: Counter[_Comparison] = Counter()
        self._acquired = 0
        self._cost = self._shadow_cost = 0.0
        self._throttle = Throttle()
        self._last_call: PoolCall | None = None

    @property
    def summary(self) -> ShadowSummary:
        """Return how it compares so far."""
        with self._lock:
            counts = {name: self._counts[name] for name in get_args(_Comparison)}
            return ShadowSummary(
                self._plan.bundle, **counts, acquired=self._acquired, cost=self._cost, shadow_cost=self._shadow_cost
            )

    def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until all decisions so far have been compared; return whether they were within the time."""
        last_call = self._last_call
        if last_call is None:
            return True
        try:
            # One thread, in the order of submission: the latest ends last.
            last_call.exception(timeout_s)
        except TimeoutError:
            return False
        return True

    def __call__(self, recorded: RecordedItem) -> None:
        """Compare one decision of the cascade; it raises nothing."""
        if not self._settings.background:
            self._compare(recorded)
            return
        try:
            with self._lock:
                if self._background.counts.waiting < _MAX_WAITING:
                    self._last_call = self._background.submit(self._compare_in_order, recorded)
                    return
        except PoolFull as error:
            self._log_error(error, recorded.decision.key)
        self._count("dropped")

    def _compare_in_order(self, recorded: RecordedItem) -> None:
        # A call without a pool has no slot to release: while it waits for an acquirer, the next comparison does not start.
        PoolCall(self._compare, recorded).run()

    def _compare(self, recorded: RecordedItem) -> None:
        try:
            if recorded.decision.reason == "deadline":
                raise _NotComparable  # noqa: TRY301 - handled with the items that `_decide` cannot compare
            decision = self._decide(recorded)
        except _NotComparable:
            self._count("not_comparable")
        except Exception as error:  # noqa: BLE001 - a shadow never breaks a decision
            self._count("errors")
            self._log_error(error, recorded.decision.key)
        else:
            one = recorded.decision
            outcome: _Comparison = "agreed" if one.label == decision.label else "other_label"
            self._count(outcome if one.status == decision.status else "other_status", one.cost, decision.cost)

    def _count(self, outcome: _Comparison, cost: float = 0.0, shadow_cost: float = 0.0) -> None:
        with self._lock:
            self._counts[outcome] += 1
            self._cost += cost
            self._shadow_cost += shadow_cost

    def _log_error(self, error: Exception, key: str | None) -> None:
        with self._lock:
            if not self._throttle.allows("item", _LOG_EVERY_S):
                return
        _log.error("the shadow, bundle %s, failed at an item (key %r)", self._plan.bundle[:12], key, exc_info=error)

    def _decide(self, recorded: RecordedItem) -> Decision:
        known = {name: value for name, value in recorded.known.items() if name in self._features}
        values = dict(recorded.values)
        may_acquire = self._is_sampled()

        def acquire(request: AcquireRequest) -> list[Any]:
            outcomes: list[Any] = []
            for call in request.calls:
                outcomes.append(self._outcome(call.names[0], recorded, values, may_acquire=may_acquire))
                if ends_item(call, outcomes[-1]):
                    break
            return outcomes

        return drive(walk(self._plan, known, recorded.budget, key=recorded.decision.key), self._scorer, acquire)

    def _is_sampled(self) -> bool:
        if not self._settings.share:
            return False
        with self._lock:
            return self._random.random() < self._settings.share

    def _outcome(self, name: str, recorded: RecordedItem, values: dict[str, Any], *, may_acquire: bool) -> Any:
        if name not in values:
            call = self._calls.get(name)
            if call is None or not may_acquire:
                raise _NotComparable
            with self._lock:
                self._acquired += 1
            RawValues(values).add([call], [call_with_limits(call, recorded.item, self._limits)])
        return CachedOutcome(values[name], free=True) if name in recorded.free else values[name]
