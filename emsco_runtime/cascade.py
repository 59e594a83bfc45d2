"""`Cascade`: a bundle bound to acquirers, ready to decide."""

from __future__ import annotations

import difflib
import math
import numbers
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple, Self

from emsco_runtime.acquirers import Acquirer, Acquirers, OnFailure
from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import Bundle, read_bundle
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Decision
from emsco_runtime.driving.asynchronous import AsyncLimits, drive_async, gather_in_order
from emsco_runtime.driving.columns import ColumnContext, ColumnDecisions, decide_columns
from emsco_runtime.driving.golden_replay import replay_golden_items
from emsco_runtime.driving.many import drive_many, drive_one
from emsco_runtime.driving.pooled import Limits, drive_pooled
from emsco_runtime.engine.plan import ItemKeyReader, Plan, bind
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import Walk, walk
from emsco_runtime.errors import AcquisitionError, BindError, ClosedError, InputError
from emsco_runtime.observing.call_timing import time_calls
from emsco_runtime.observing.observers import Observer, Observers, find_hook_faults
from emsco_runtime.observing.recording import ItemRecorder, Listener
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.arguments import check_count, is_count
from emsco_runtime.support.formatting import format_value
from emsco_runtime.support.frozen_dict import FrozenDict

__all__ = ["Cascade"]

# Read-only, since listeners get it.
_NO_VALUES: Mapping[str, object] = FrozenDict()


class _CascadeState(NamedTuple):
    """All that another process needs to make the same cascade."""

    bundle: Bundle
    registered: tuple[Acquirer, ...] | None
    on_failure: OnFailure
    pool: AcquirerPool | None
    concurrency: int
    observers: tuple[Observer, ...]
    listener: Listener | None
    earlier_names: frozenset[str] = frozenset()


class _SharedParts(NamedTuple):
    """What outlives a bundle: counts of observers that failed, threads, and how many of them were abandoned."""

    observers: Observers
    pool: AcquirerPool


class Cascade:
    """A bundle bound to acquirers: thread-safe, fork-safe, picklable.

    It can be used as a context manager, ``with`` or ``async with``, which closes it at the end.

    Parameters
    ----------
    bundle
        An audited bundle; `load` reads one from a folder.
    acquirers
        The registry of callables. None: items are mappings from feature name to value.
    on_failure
        What a failed acquisition does, for acquirers without a policy of their own: "raise" an `AcquisitionError`, "reject" the
        item, or go on with the feature's "default" from the bundle.
    pool
        Threads in which the plain acquirers of a stage run side by side. None: they run one after the other in the calling
        thread, but those with a time-out, and all of them under a deadline, in a pool of the cascade's own.
    concurrency
        Async acquirers of one stage that run at the same time.
    observers
        Called with each finished `Decision`; see `emsco_runtime.observers`.
    listener
        Called after each decision with all that became known of the item; see `emsco_runtime.shadow`. It must not raise.

    Raises
    ------
    BindError
        If acquirers and bundle do not fit; lists every fault.
    BundleError
        If the models do not load, or the golden items come out differently.

    Examples
    --------
    >>> from emsco_runtime.testing import sample_bundle
    >>> with Cascade(sample_bundle()) as cascade:
    ...     decision = cascade.decide({"size": 2.0, "links": 1.0, "reputation": 0.5}, key="message-17")
    >>> decision.accepted, decision.label, decision.stages, decision.cost, decision.key
    (True, 'spam', 1, 1.0, 'message-17')
    """

    def __init__(
        self,
        bundle: Bundle,
        acquirers: Acquirers | None = None,
        *,
        on_failure: OnFailure = "raise",
        pool: AcquirerPool | None = None,
        concurrency: int = 32,
        observers: Sequence[Observer] = (),
        listener: Listener | None = None,
    ) -> None:
        if not isinstance(bundle, Bundle):
            raise TypeError(f"a Bundle is due, got {type(bundle).__name__}; Cascade.load(path) reads one from a folder")
        registered = None if acquirers is None else _check_acquirers(acquirers)
        self._state = _CascadeState(bundle, registered, on_failure, pool, concurrency, tuple(observers), listener)
        self._bind(None)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        acquirers: Acquirers | None = None,
        *,
        on_failure: OnFailure = "raise",
        pool: AcquirerPool | None = None,
        concurrency: int = 32,
        observers: Sequence[Observer] = (),
        listener: Listener | None = None,
    ) -> Cascade:
        """Read, audit and bind a bundle folder, and replay its golden items.

        Parameters
        ----------
        path
            The bundle folder.
        acquirers, on_failure, pool, concurrency, observers, listener
            As in `Cascade`.
        """
        return cls(
            read_bundle(path),
            acquirers,
            on_failure=on_failure,
            pool=pool,
            concurrency=concurrency,
            observers=observers,
            listener=listener,
        )

    def with_bundle(self, bundle: Bundle, acquirers: Acquirers | None = None) -> Cascade:
        """Return a cascade that decides with another bundle, and shares all else with this one: options, threads, observers.

        It takes known values of the features of this bundle too, and does without them where its own has no such feature.

        Parameters
        ----------
        bundle
            An audited bundle.
        acquirers
            The registry, if it has changed; None for the acquirers of this cascade.
        """
        registered = self._state.registered if acquirers is None else _check_acquirers(acquirers)
        cascade = type(self).__new__(type(self))
        cascade._state = self._state._replace(bundle=bundle, registered=registered, earlier_names=self._known_names)  # noqa: SLF001 - one of our own
        cascade._bind(_SharedParts(self._observers, self._pool))  # noqa: SLF001
        return cascade

    def _bind(self, shared: _SharedParts | None) -> None:
        bundle, registered, on_failure = self._state.bundle, self._state.registered, self._state.on_failure
        faults = _option_faults(self._state)
        if faults:
            raise BindError(faults)
        if shared is None:
            shared = _SharedParts(Observers(self._state.observers), self._state.pool or AcquirerPool())
        self._observers, self._pool = shared
        self._parallel = self._state.pool is not None
        self._async_limits = AsyncLimits(math.inf, self._state.concurrency, self._pool, self._parallel)
        self._plan = time_calls(bind(bundle.manifest, registered, on_failure), self._observers)
        self._plan_many = time_calls(bind(bundle.manifest, registered, on_failure, many=True), self._observers)
        # The same policies, with values read from a mapping: for rows of a table.
        readers = [Acquirer(ItemKeyReader(name), (name,), "feature", call.policy) for name, call in self._plan.calls.items()]
        self._row_plan = bind(bundle.manifest, readers, on_failure)
        self._features = {feature.name: feature for feature in bundle.manifest.features}
        self._encoders = {name: make_encoder(feature) for name, feature in self._features.items()}
        acquired = (name for entry in registered or () for name in entry.names)
        # What `known` may name: nobody who calls can know which bundle is in service.
        self._known_names = self._state.earlier_names.union(self._features, acquired)
        scorer = Scorer.from_bundle(bundle)
        # None once it is closed. A decision takes it when it begins, so one that has begun is not disturbed.
        self._scorer: Scorer | None = scorer
        self._notifies_starts = self._observers.wants_starts
        # Calling the functions is all there is to do: the quickest driver will do.
        self._is_unguarded = self._plan.simple and not self._parallel and self._state.listener is None
        replay_golden_items(bundle, scorer)
        self._observers.notify_bind(bundle.manifest)

    def __getstate__(self) -> _CascadeState:
        """Return what another process needs; sessions and buffers are made anew there."""
        return self._state

    def __setstate__(self, state: _CascadeState) -> None:
        """Bind again, with all the checks of the first time."""
        self._state = state
        self._bind(None)

    def __repr__(self) -> str:
        """Return name, version, number of stages and the beginning of the id."""
        manifest = self.manifest
        stages = pluralize(len(manifest.stages), "stage")
        return f"<Cascade {manifest.name!r} version {manifest.version!r}, {stages}, id {manifest.id[:12]}>"

    def __enter__(self) -> Self:
        """Return the cascade itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return the cascade itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.aclose()

    def close(self) -> None:
        """Release what the cascade owns: the sessions of its models, and idle threads of a pool of its own.

        Decisions under way finish, and are not waited for; later ones raise `ClosedError`. What was handed in (pool, observers,
        listener, the clients inside acquirers) stays open. Closing it again does nothing.
        """
        self._scorer = None
        if self._state.pool is None:
            self._pool.close()

    async def aclose(self) -> None:
        """Close it, as `close` does."""
        self.close()

    @property
    def bundle(self) -> Bundle:
        """Return the bundle that decides."""
        return self._state.bundle

    @property
    def manifest(self) -> Manifest:
        """Return the bundle's manifest."""
        return self._state.bundle.manifest

    @property
    def observer_failures(self) -> int:
        """Return how often an observer raised, in this process and with all bundles; each minute's first is logged too."""
        return self._observers.failures

    def decide(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item: acquire features stage by stage until one stage is confident enough.

        Parameters
        ----------
        item
            Handed to the acquirers as it is.
        key
            Your own name of the item, such as the id of an order: it is in the decision (`Decision.key`), and so in logs, audit
            lines and spans, where the item itself is not.
        budget
            Most that may be billed, in the bundle's cost unit: a stage that would exceed it is not begun.
        deadline_s
            Seconds from now after which the item is rejected, reason "deadline". A stage is not begun after it, and calls under
            way are given up; one that is past already costs nothing. Scoring, some microseconds, is not interrupted.
        known
            Feature -> value that you have already: free, and not acquired again. A feature that only an acquirer, or a bundle
            that this one replaced, has is allowed and not used.

        Raises
        ------
        AcquisitionError
            If a feature cannot be obtained and its policy is "raise".
        InputError
            If the key is not a string, the budget is negative or NaN, or a known value is not one.
        ClosedError
            If the cascade was closed.
        """
        if key is not None:
            _check_key(key)
        max_cost = math.inf if budget is None else _check_budget(budget)
        known_values = self._check_known(known) if known is not None else _NO_VALUES
        scorer = self._scorer
        if scorer is None:
            raise self._closed_error()
        if not self._notifies_starts:
            return self._decide(scorer, item, key, known_values, max_cost, deadline_s)
        with self._observers.decision_context(self._plan.bundle, 1):
            return self._decide(scorer, item, key, known_values, max_cost, deadline_s)

    def _decide(
        self,
        scorer: Scorer,
        item: Any,
        key: str | None,
        known_values: Mapping[str, object],
        max_cost: float,
        deadline_s: float | None,
    ) -> Decision:
        recorder: ItemRecorder | None = None
        try:
            if self._is_unguarded and deadline_s is None:
                decision = drive_one(self._plan, scorer, item, known_values, max_cost, key)
            else:
                _reject_async("decide", self._plan)
                limits = self._limits(deadline_s)
                steps, recorder = self._walk(self._plan, item, known_values, max_cost, limits.deadline, key)
                decision = drive_pooled(steps, scorer, item, limits)
        except AcquisitionError as error:
            self._observers.notify_error(error, self._plan.bundle)
            raise
        if self._observers:
            self._observers.notify(decision)
        if recorder is not None:
            recorder.report(decision)
        return decision

    async def decide_async(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item in an event loop: as `decide`, with the async acquirers of a stage side by side.

        Cancelling it cancels the calls under way.

        Parameters
        ----------
        item, key, budget, deadline_s, known
            As in `decide`.
        """
        if key is not None:
            _check_key(key)
        max_cost = math.inf if budget is None else _check_budget(budget)
        known_values = self._check_known(known) if known is not None else _NO_VALUES
        return await self._decide_async(self._open_scorer(), item, key, known_values, max_cost, deadline_s)

    async def _decide_async(
        self,
        scorer: Scorer,
        item: Any,
        key: str | None,
        known_values: Mapping[str, object],
        max_cost: float,
        deadline_s: float | None,
    ) -> Decision:
        if not self._notifies_starts:
            return await self._drive_async(scorer, item, key, known_values, max_cost, deadline_s)
        with self._observers.decision_context(self._plan.bundle, 1):
            return await self._drive_async(scorer, item, key, known_values, max_cost, deadline_s)

    async def _drive_async(
        self,
        scorer: Scorer,
        item: Any,
        key: str | None,
        known_values: Mapping[str, object],
        max_cost: float,
        deadline_s: float | None,
    ) -> Decision:
        limits = self._async_limits
        if deadline_s is not None:
            limits = replace(limits, deadline=_deadline_from(deadline_s))
        steps, recorder = self._walk(self._plan, item, known_values, max_cost, limits.deadline, key)
        try:
            decision = await drive_async(steps, scorer, item, limits)
        except AcquisitionError as error:
            self._observers.notify_error(error, self._plan.bundle)
            raise
        if self._observers:
            self._observers.notify(decision)
        if recorder is not None:
            recorder.report(decision)
        return decision

    async def decide_many_async(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        concurrency: int = 100,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items side by side, each as `decide_async` does; the decisions come in the order of the items.

        Parameters
        ----------
        items
            Any iterable.
        keys
            One key (or None) per item, as in `decide`.
        concurrency
            Items under way at the same time.
        budget, deadline_s
            As in `decide`, for each item; a deadline counts from the moment that the item is begun.
        known
            One mapping (or None) per item.

        Raises
        ------
        AcquisitionError
            As in `decide`, with the position of the item as `index`; the other items are cancelled.
        """
        item_list = list(items)
        max_cost = math.inf if budget is None else _check_budget(budget)
        _deadline_from(deadline_s)
        item_keys = _check_keys(keys, len(item_list))
        known_each = self._check_known_each(known, len(item_list))
        check_count("concurrency", concurrency)
        scorer = self._open_scorer()

        async def decide_at(index: int) -> Decision:
            try:
                return await self._decide_async(
                    scorer, item_list[index], item_keys[index], known_each[index], max_cost, deadline_s
                )
            except AcquisitionError as error:
                raise error.with_index(index) from error.__cause__

        return await gather_in_order(decide_at, len(item_list), concurrency)

    def decide_many(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items in step: batch acquirers get all the items that need them in one call per stage.

        Each decision is what `decide` would give for the item: status, reason, label, stages and cost exactly, probabilities
        within 1e-12.

        Parameters
        ----------
        items
            Any iterable; the decisions come in its order. All are under way at once: hand in batches of a bounded size.
        keys
            One key (or None) per item, as in `decide`.
        budget
            As in `decide`, for each item.
        deadline_s
            Seconds from now after which the items still under way are rejected.
        known
            One mapping (or None) per item.

        Raises
        ------
        AcquisitionError
            As in `decide`, with the position of the item as `index`. Observers are told of the decisions that were made before.
        """
        item_list = list(items)
        max_cost = math.inf if budget is None else _check_budget(budget)
        _reject_async("decide_many", self._plan_many)
        item_keys = _check_keys(keys, len(item_list))
        known_values = self._check_known_each(known, len(item_list))
        limits = self._limits(deadline_s)
        scorer = self._open_scorer()
        if not self._notifies_starts:
            return self._decide_many(scorer, item_list, item_keys, known_values, max_cost, limits)
        with self._observers.decision_context(self._plan.bundle, len(item_list)):
            return self._decide_many(scorer, item_list, item_keys, known_values, max_cost, limits)

    def _decide_many(
        self,
        scorer: Scorer,
        item_list: Sequence[Any],
        names: Sequence[str | None],
        known_values: Sequence[Mapping[str, object]],
        max_cost: float,
        limits: Limits,
    ) -> list[Decision]:
        walks, recorders = [], []
        for item, key, values in zip(item_list, names, known_values, strict=True):
            steps, recorder = self._walk(self._plan_many, item, values, max_cost, limits.deadline, key)
            walks.append(steps)
            recorders.append(recorder)
        decisions: dict[int, Decision] = {}
        try:
            drive_many(self._plan_many, scorer, item_list, walks, limits, decisions)
        except BaseException as error:
            # An audit or a count must not lack what was decided, whatever ended the rest.
            self._notify_many(decisions, recorders)
            if isinstance(error, AcquisitionError):
                self._observers.notify_error(error, self._plan.bundle)
            raise
        return self._notify_many(decisions, recorders)

    def _notify_many(self, decisions: Mapping[int, Decision], recorders: Sequence[ItemRecorder | None]) -> list[Decision]:
        """Tell of the decisions that were made, in the order of the items, and return them."""
        ordered = sorted(decisions.items())
        if self._observers:
            for _, decision in ordered:
                self._observers.notify(decision)
        for index, decision in ordered:
            recorder = recorders[index]
            if recorder is not None:
                recorder.report(decision)
        return [decision for _, decision in ordered]

    def decide_columns(self, columns: Mapping[str, Any], *, budget: float | None = None) -> ColumnDecisions:
        """Decide a table given as columns (a mapping of arrays, a DataFrame); no acquirer is called, no observer is told.

        Failures follow the policies of the features' acquirers, and every row ends as `decide` would end it. It is meant for rows
        that are at hand already, such as those of an evaluation, which must not count as traffic in metrics or drift; where they
        are traffic, `decide_many` tells observers.

        Parameters
        ----------
        columns
            Feature -> values, all of one length. Columns that no stage needs are ignored.
        budget
            As in `decide`, for each row.
        """
        max_cost = math.inf if budget is None else _check_budget(budget)
        scorer = self._open_scorer()

        def decide_row(row: Mapping[str, Any]) -> Decision:
            return drive_one(self._row_plan, scorer, row, _NO_VALUES, max_cost)

        return decide_columns(ColumnContext(self._row_plan, self._features, scorer, max_cost, decide_row), columns)

    def _open_scorer(self) -> Scorer:
        scorer = self._scorer
        if scorer is None:
            raise self._closed_error()
        return scorer

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"{self!r} is closed and decides no more. Load another one, or close it when no more items come")

    def _limits(self, deadline_s: float | None) -> Limits:
        return Limits(_deadline_from(deadline_s), self._pool, self._parallel)

    def _walk(
        self, plan: Plan, item: Any, known_values: Mapping[str, object], max_cost: float, deadline: float, key: str | None
    ) -> tuple[Walk, ItemRecorder | None]:
        """Return the walk of an item, and what listens to it."""
        steps = walk(plan, known_values, max_cost, deadline, key)
        if self._state.listener is None:
            return steps, None
        recorder = ItemRecorder(self._state.listener, item, known_values, max_cost)
        return recorder.record(steps), recorder

    def _check_known_each(self, known: Any, count: int) -> list[Mapping[str, object]]:
        if known is None:
            return [_NO_VALUES] * count
        if not isinstance(known, Sequence) or len(known) != count:
            got = len(known) if isinstance(known, Sequence) else type(known).__name__
            raise InputError(f"known: a sequence with one mapping (or None) per item is due, got {got} for {count} items")
        return [self._check_known(values) if values is not None else _NO_VALUES for values in known]

    def _check_known(self, known: Any) -> Mapping[str, object]:
        if not isinstance(known, Mapping):
            raise InputError(f"known: a mapping from feature to value is due, got {type(known).__name__}")
        # A copy: the walk must not see what others do to the caller's mapping meanwhile.
        checked = dict(known)
        for name, value in checked.items():
            encode = self._encoders.get(name)
            if encode is None:
                self._check_known_name(name)
                continue
            try:
                encode(value)
            except ValueFault as fault:
                raise InputError(f"known: feature {name!r}: {fault.message}. Or leave it out, to have it acquired") from None
        return checked

    def _allow_known_names(self, names: frozenset[str]) -> None:
        """Take known values of these features too, without a use for them."""
        self._state = self._state._replace(earlier_names=self._state.earlier_names | names)
        self._known_names |= names

    def _check_known_name(self, name: object) -> None:
        if name not in self._known_names:
            close = difflib.get_close_matches(name, self._known_names, n=1) if isinstance(name, str) else []
            hint = f"; did you mean {close[0]!r}?" if close else ". Leave it out"
            raise InputError(f"known: the bundle has no feature {format_value(name)}{hint}")


def _check_acquirers(acquirers: Acquirers) -> tuple[Acquirer, ...]:
    if not isinstance(acquirers, Acquirers):
        raise BindError([f"acquirers: an emsco_runtime.Acquirers is due, got {type(acquirers).__name__}"])
    return acquirers.entries


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise InputError(f"key: expected a string, got {key!r} ({type(key).__name__}). Convert it, as with str(key)")


def _check_keys(keys: object, count: int) -> Sequence[str | None]:
    if keys is None:
        return (None,) * count
    if isinstance(keys, str | bytes) or not isinstance(keys, Sequence):
        raise InputError(f"keys: expected a sequence with one string (or None) per item, got {type(keys).__name__}")
    if len(keys) != count:
        raise InputError(f"keys: expected one per item, got {len(keys)} keys for {count} items")
    for index, key in enumerate(keys):
        if not isinstance(key, str | None):
            raise InputError(f"keys[{index}]: expected a string or None, got {key!r} ({type(key).__name__}). Convert it first")
    return keys


def _reject_async(method: str, plan: Plan) -> None:
    if plan.async_features:
        message = f"the acquirer of {plan.async_features[0]!r} is async"
        raise BindError([f"{method}: {message}. Use {method}_async, or register a plain function for it"])


def _deadline_from(deadline_s: float | None) -> float:
    if deadline_s is None:
        return math.inf
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, numbers.Real) or deadline_s != deadline_s:  # noqa: PLR0124 - NaN
        raise InputError(f"deadline_s: a number of seconds is due, got {format_value(deadline_s)}. Leave it out for no limit")
    try:
        return time.perf_counter() + float(deadline_s)
    except OverflowError:
        # A whole number too large for a float.
        return math.inf if deadline_s > 0 else -math.inf


def _option_faults(state: _CascadeState) -> list[str]:
    concurrency: object = state.concurrency
    faults = []
    if not isinstance(state.pool, AcquirerPool | None):
        faults.append(f"pool: an AcquirerPool is due, got {type(state.pool).__name__}")
    if not is_count(concurrency):
        faults.append(f"concurrency: a whole number, 1 or more, is due, got {concurrency!r}")
    faults += [f"observers: {fault}" for observer in state.observers for fault in find_hook_faults(observer)]
    listener: object = state.listener
    if listener is not None and not callable(listener):
        faults.append(f"listener: {listener!r} cannot be called")
    return faults


def _check_budget(budget: float) -> float:
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not budget >= 0:
        raise InputError(f"budget: a number of at least 0 is due, got {format_value(budget)}. Leave it out for no limit")
    # Compared as it is: a whole number may be too large for a float.
    return budget
