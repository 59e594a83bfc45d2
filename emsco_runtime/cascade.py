"""`Cascade`: a bundle bound to acquirers, ready to decide."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from emsco_runtime.acquirers import Acquirers, OnFailure
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import Bundle, read_bundle
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decider import Decider
from emsco_runtime.decision import Decision
from emsco_runtime.driving.columns import ColumnDecisions, decide_columns
from emsco_runtime.driving.golden_replay import replay_golden_items
from emsco_runtime.driving.item_inputs import NO_VALUES, InputChecker, check_budget, check_key, compute_deadline
from emsco_runtime.driving.options import CascadeOptions, CascadeState, check_acquirers, check_observers
from emsco_runtime.driving.runner import DecisionRunner
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.errors import BindError, ClosedError
from emsco_runtime.observing.observers import Observer, Observers
from emsco_runtime.observing.recording import Listener
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.arguments import check_count

__all__ = ["Cascade"]


class Cascade(Decider):
    """A bundle bound to acquirers: thread-safe, fork-safe, picklable.

    It can be used as a context manager, ``with`` or ``async with``, which closes it at the end.

    Parameters
    ----------
    bundle
        A checked bundle; `load` reads one from a folder.
    acquirers
        The registry of callables. None: items are mappings from feature name to value.
    on_failure
        What a failed acquisition does, for acquirers without a policy of their own: "raise" an `AcquisitionError`, "reject" the
        item, or go on with the feature's "default" from the bundle.
    pool
        Threads in which the plain acquirers of a stage run at the same time. None: they run one after the other in the calling
        thread, but those with a timeout, and all of them under a deadline, in a pool of the cascade's own.
    concurrency
        Async acquirers of one stage that run at the same time.
    observers
        Called with each finished `Decision`; see `emsco_runtime.observers`.
    listener
        Called after each decision with everything that was learned about the item; see `emsco_runtime.shadow`. It must not raise.

    Raises
    ------
    BindError
        If acquirers and bundle do not fit; lists every fault.
    BundleError
        If the models do not load, or the golden items are decided differently.

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
        _check_bundle(bundle)
        registered = None if acquirers is None else check_acquirers(acquirers)
        options = CascadeOptions(on_failure, pool, concurrency, check_observers(observers), listener)
        self._state = CascadeState(bundle, registered, options)
        self._bind()

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
        verify: str | os.PathLike[str] | None = None,
    ) -> Cascade:
        """Read, check and bind a bundle folder, and replay its golden items; the other arguments are those of `Cascade`.

        With `verify`, a public key (PEM file), a bundle that is not signed with its private key, or that was changed since, is
        refused with a `BundleError`; see `read_bundle`.
        """
        options = CascadeOptions(on_failure, pool, concurrency, check_observers(observers), listener)
        return cls(read_bundle(path, verify=verify), acquirers, **options._asdict())

    def with_bundle(self, bundle: Bundle, acquirers: Acquirers | None = None) -> Cascade:
        """Return a cascade that decides with another bundle, and shares all else with this one: options, threads, observers.

        It allows known values of the features of this bundle too, and ignores those that its own does not have.

        Parameters
        ----------
        bundle
            A checked bundle.
        acquirers
            The registry, if it has changed; None for the acquirers of this cascade.
        """
        _check_bundle(bundle)
        registered = self._state.registered if acquirers is None else check_acquirers(acquirers)
        cascade = type(self).__new__(type(self))
        cascade._state = self._state._replace(bundle=bundle, registered=registered, earlier_names=self._inputs.names)  # noqa: SLF001 - one of our own
        cascade._bind((self._observers, self._pool))  # noqa: SLF001
        return cascade

    def _bind(self, shared: tuple[Observers, AcquirerPool] | None = None) -> None:
        bundle, registered, options, earlier_names = self._state
        faults = options.find_faults()
        if faults:
            raise BindError(faults)
        self._observers, self._pool = shared or (Observers(options.observers), options.pool or AcquirerPool())
        self._runner = DecisionRunner(self._state, self._observers, self._pool)
        # The caller cannot know which bundle is in service: known values of any feature of acquirers or earlier bundles will do.
        acquired = (name for entry in registered or () for name in entry.names)
        self._inputs = InputChecker(bundle.manifest.features, {*earlier_names, *acquired})
        scorer = Scorer.from_bundle(bundle)
        # None once it is closed. A decision takes it when it begins, so that one under way is not affected.
        self._scorer: Scorer | None = scorer
        replay_golden_items(bundle, scorer)
        self._observers.run_hooks("on_bind", bundle.manifest)

    def __getstate__(self) -> CascadeState:
        """Return what another process needs; it makes sessions and buffers of its own."""
        return self._state

    def __setstate__(self, state: CascadeState) -> None:
        """Bind again, with all the checks of the first time."""
        self._state = state
        self._bind()

    def __repr__(self) -> str:
        """Return name, version, number of stages and the first digits of the id."""
        manifest = self.manifest
        stages = pluralize(len(manifest.stages), "stage")
        return f"<Cascade {manifest.name!r} version {manifest.version!r}, {stages}, id {manifest.id[:12]}>"

    def close(self) -> None:
        """Release what the cascade owns: the sessions of its models, and idle threads of a pool of its own.

        Decisions under way finish, and are not waited for; later ones raise `ClosedError`. What the caller made (pool, observers,
        listener, the clients inside acquirers) stays open. Closing it again does nothing.
        """
        self._scorer = None
        if self._state.options.pool is None:
            self._pool.close()

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
        """Return how often an observer raised, in this process and with all bundles; at most one a minute is logged."""
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
            Passed to the acquirers as it is.
        key
            Your own name of the item, such as the id of an order: it is in the decision (`Decision.key`), and so in logs, audit
            lines and spans, where the item itself is not.
        budget
            Most that may be billed, in the bundle's cost unit: a stage that would exceed it is not started.
        deadline_s
            Seconds from now after which the item is rejected, reason "deadline". A stage is not started after it, and calls under
            way are abandoned; at 0 or below nothing is acquired. Scoring, some microseconds, is not interrupted.
        known
            Feature -> value that you have already: free, and not acquired again. A feature that only an acquirer, or a bundle
            that this one replaced, has is allowed and not used.

        Raises
        ------
        AcquisitionError
            If a feature cannot be obtained and its policy is "raise".
        InputError
            If the key is not a string, the budget is negative or NaN, or a value in `known` is not allowed or
            names a feature that neither bundle nor acquirers have.
        ClosedError
            If the cascade was closed.
        """
        if key is not None:
            check_key(key)
        max_cost = math.inf if budget is None else check_budget(budget)
        known_values = NO_VALUES if known is None else self._inputs.check_known(known)
        scorer = self._scorer or self._raise_closed()
        runner = self._runner
        if not runner.notifies_starts:
            return runner.decide(scorer, item, key, known_values, max_cost, deadline_s)
        with runner.decision_context(1):
            return runner.decide(scorer, item, key, known_values, max_cost, deadline_s)

    async def decide_async(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item in an event loop: as `decide`, with the async acquirers of a stage at the same time.

        Cancelling it cancels the calls under way.
        """
        if key is not None:
            check_key(key)
        max_cost = check_budget(budget)
        known_values = NO_VALUES if known is None else self._inputs.check_known(known)
        scorer = self._scorer or self._raise_closed()
        return await self._runner.decide_async(scorer, item, key, known_values, max_cost, deadline_s)

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
        """Decide many items at the same time, each as `decide_async` does, and return the decisions in the order of the items.

        Parameters
        ----------
        items
            Any iterable.
        keys, known
            One (or None) per item, as in `decide`.
        concurrency
            Items under way at the same time.
        budget, deadline_s
            As in `decide`, for each item; a deadline counts from the moment the item is started.

        Raises
        ------
        AcquisitionError
            As in `decide`, with the position of the item as `index`; the other items are cancelled.
        """
        max_cost = check_budget(budget)
        compute_deadline(deadline_s)
        inputs = self._inputs.check_many(items, keys, known)
        check_count("concurrency", concurrency)
        scorer = self._scorer or self._raise_closed()
        return await self._runner.decide_many_async(scorer, inputs, max_cost, deadline_s, concurrency)

    def decide_many(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items in lockstep: batch acquirers get all the items that need them in one call per stage.

        Each decision is what `decide` would return for the item: status, reason, label, stages and cost exactly, probabilities
        within 1e-12.

        Parameters
        ----------
        items
            Any iterable; the decisions are in its order. All are under way at once: pass batches of a bounded size.
        keys, known
            One (or None) per item, as in `decide`.
        budget
            As in `decide`, for each item.
        deadline_s
            Seconds from now after which the items still under way are rejected.

        Raises
        ------
        AcquisitionError
            As in `decide`, with the position of the item as `index`. Observers are called with the decisions made before it.
        """
        max_cost = check_budget(budget)
        self._runner.check_many()
        inputs = self._inputs.check_many(items, keys, known)
        limits = self._runner.make_limits(deadline_s)
        return self._runner.decide_many(self._scorer or self._raise_closed(), inputs, max_cost, limits)

    def decide_columns(self, columns: Mapping[str, Any], *, budget: float | None = None) -> ColumnDecisions:
        """Decide a table given as columns (a mapping of arrays, a DataFrame); no acquirer and no observer is called.

        Failures follow the policies of the features' acquirers, and every row ends as `decide` would end it. It is meant for rows
        that are available already, such as those of an evaluation, and that must not count as traffic in metrics or drift; if
        they are traffic, `decide_many` notifies observers.

        Parameters
        ----------
        columns
            Feature -> values, all of one length. Columns that no stage needs are ignored. Instead of values, a function from
            an array of row numbers to their values: it is called with the rows that reach its stage, and so an expensive column
            is computed for these alone.
        budget
            As in `decide`, for each row.
        """
        return decide_columns(self._runner.row_plan, self._scorer or self._raise_closed(), check_budget(budget), columns)

    def _raise_closed(self) -> NoReturn:
        raise ClosedError(f"{self!r} is closed and decides no more. Load another one, or close it when no more items come")

    def _allow_known_names(self, names: frozenset[str]) -> None:
        """Allow known values of these features too, without using them."""
        self._state = self._state._replace(earlier_names=self._state.earlier_names | names)
        self._inputs.names |= names


def _check_bundle(bundle: object) -> None:
    if not isinstance(bundle, Bundle):
        raise TypeError(f"expected a Bundle, got {type(bundle).__name__}; Cascade.load(path) reads one from a folder")
