"""`DecisionRunner`: runs decisions with one bundle: chooses the driver, then notifies the observers and the listener."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from emsco_runtime.acquirers import Acquirer
from emsco_runtime.decision import Decision
from emsco_runtime.driving.asynchronous import drive_async
from emsco_runtime.driving.item_inputs import ItemInput, Limits, compute_deadline
from emsco_runtime.driving.many import drive_many
from emsco_runtime.driving.one import drive_one
from emsco_runtime.driving.options import CascadeState
from emsco_runtime.driving.pooled import drive_pooled
from emsco_runtime.driving.tasks import gather_in_order
from emsco_runtime.engine.binding import bind
from emsco_runtime.engine.plan import Plan
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.engine.walk import Walk, walk
from emsco_runtime.errors import AcquisitionError, BindError
from emsco_runtime.observing.call_timing import time_calls
from emsco_runtime.observing.observers import Observers
from emsco_runtime.observing.recording import ItemRecorder
from emsco_runtime.sources.pool import AcquirerPool

__all__ = ["DecisionRunner"]

_NO_CONTEXT = contextlib.nullcontext()


class DecisionRunner:
    """A manifest bound to acquirers, with the observers, the listener and the threads of its cascade.

    Its methods take arguments that were checked, and the scorer, since a cascade that is closed keeps none.
    """

    def __init__(self, state: CascadeState, observers: Observers, pool: AcquirerPool) -> None:
        manifest, registered, options = state.bundle.manifest, state.registered, state.options
        self._observers, self._listener = observers, options.listener
        self._has_observers, self.notifies_starts = bool(observers), observers.wants_starts
        self.limits = Limits(math.inf, pool, options.pool is not None, options.concurrency)
        self.plan = time_calls(bind(manifest, registered, options.on_failure), observers)
        self.plan_many = time_calls(bind(manifest, registered, options.on_failure, many=True), observers)
        # The same policies, with values read from rows of a table. Its columns were checked: a KeyError is one of a function that
        # computes a column, and no missing key of the item.
        readers = [Acquirer(itemgetter(name), (name,), "feature", call.policy) for name, call in self.plan.calls.items()]
        self.row_plan = bind(manifest, readers, options.on_failure)
        # Calling the functions is enough, which the fastest driver does.
        simple_calls = all(stage.acquire.simple for stage in self.plan.stages)
        self._is_simple = simple_calls and options.pool is None and options.listener is None

    def decision_context(self, items: int) -> contextlib.AbstractContextManager[None]:
        """Return the context of a decision, for observers that are notified of its start."""
        return self._observers.decision_context(self.plan.bundle, items) if self.notifies_starts else _NO_CONTEXT

    def make_limits(self, deadline_s: float | None) -> Limits:
        """Return the limits of a decision that starts now."""
        return self.limits if deadline_s is None else replace(self.limits, deadline=compute_deadline(deadline_s))

    def decide(
        self, scorer: Scorer, item: Any, key: str | None, known: Mapping[str, object], max_cost: float, deadline_s: float | None
    ) -> Decision:
        """Decide one item; the caller enters the context."""
        recorder: ItemRecorder | None = None
        try:
            if self._is_simple and deadline_s is None:
                decision = drive_one(self.plan, scorer, item, known, max_cost, key)
            else:
                _reject_async("decide", self.plan)
                limits = self.make_limits(deadline_s)
                steps, recorder = self._walk(self.plan, item, known, max_cost, limits.deadline, key)
                decision = drive_pooled(steps, scorer, item, limits)
        except AcquisitionError as error:
            self._observers.run_hooks("on_error", error, self.plan.bundle)
            raise
        return self._finish(decision, recorder)

    async def decide_async(
        self, scorer: Scorer, item: Any, key: str | None, known: Mapping[str, object], max_cost: float, deadline_s: float | None
    ) -> Decision:
        """Decide one item in an event loop."""
        return await self._decide_async(scorer, (item, key, known), max_cost, deadline_s, None)

    async def _decide_async(
        self, scorer: Scorer, item_input: ItemInput, max_cost: float, deadline_s: float | None, index: int | None
    ) -> Decision:
        item, key, known = item_input
        with self.decision_context(1):
            limits = self.make_limits(deadline_s)
            steps, recorder = self._walk(self.plan, item, known, max_cost, limits.deadline, key)
            try:
                decision = await drive_async(steps, scorer, item, limits)
            except AcquisitionError as error:
                placed = error if index is None else error.with_index(index)
                self._observers.run_hooks("on_error", placed, self.plan.bundle)
                raise placed from error.__cause__
            return self._finish(decision, recorder)

    async def decide_many_async(
        self, scorer: Scorer, inputs: Sequence[ItemInput], max_cost: float, deadline_s: float | None, concurrency: int
    ) -> list[Decision]:
        """Decide many items in an event loop, at most `concurrency` of them at the same time."""

        async def decide_at(index: int) -> Decision:
            return await self._decide_async(scorer, inputs[index], max_cost, deadline_s, index)

        return await gather_in_order(decide_at, len(inputs), concurrency)

    def decide_many(self, scorer: Scorer, inputs: Sequence[ItemInput], max_cost: float, limits: Limits) -> list[Decision]:
        """Decide many items in lockstep."""
        plan = self.plan_many
        with self.decision_context(len(inputs)):
            walks = [self._walk(plan, item, known, max_cost, limits.deadline, key) for item, key, known in inputs]
            decisions: dict[int, Decision] = {}
            try:
                drive_many(plan, scorer, [item for item, _, _ in inputs], [steps for steps, _ in walks], limits, decisions)
            except BaseException as error:
                # Audit logs and counts must hold what was decided, whatever ended the rest.
                self._finish_many(decisions, walks)
                if isinstance(error, AcquisitionError):
                    self._observers.run_hooks("on_error", error, plan.bundle)
                raise
            return self._finish_many(decisions, walks)

    def check_many(self) -> None:
        """Raise `BindError` if an acquirer is async, which `decide_many` cannot call."""
        _reject_async("decide_many", self.plan_many)

    def _walk(
        self, plan: Plan, item: Any, known: Mapping[str, object], max_cost: float, deadline: float, key: str | None
    ) -> tuple[Walk, ItemRecorder | None]:
        """Return the walk of an item, and what records it for the listener."""
        steps = walk(plan, known, max_cost, deadline, key)
        if self._listener is None:
            return steps, None
        recorder = ItemRecorder(self._listener, item, known, max_cost)
        return recorder.record(steps), recorder

    def _finish(self, decision: Decision, recorder: ItemRecorder | None) -> Decision:
        if self._has_observers:
            self._observers.notify(decision)
        if recorder is not None:
            recorder.report(decision)
        return decision

    def _finish_many(
        self, decisions: Mapping[int, Decision], walks: Sequence[tuple[Walk, ItemRecorder | None]]
    ) -> list[Decision]:
        """Notify the observers, then the listener, in the order of the items; return the decisions in this order."""
        ordered = sorted(decisions.items())
        for _, decision in ordered:
            self._finish(decision, None)
        for index, decision in ordered:
            _, recorder = walks[index]
            if recorder is not None:
                recorder.report(decision)
        return [decision for _, decision in ordered]


def _reject_async(method: str, plan: Plan) -> None:
    if plan.async_features:
        name = plan.async_features[0]
        raise BindError([f"{method}: the acquirer of {name!r} is async. Use {method}_async, or register a plain function for it"])
