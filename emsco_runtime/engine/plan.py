"""The plan that the walk follows: all that does not depend on the item, worked out once by `binding.bind`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emsco_runtime.acquirers import OnFailure
from emsco_runtime.bundle.encoding import Encoded, Encoder, ValueFault
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.bundle.meter import Meter
from emsco_runtime.decision import Label
from emsco_runtime.sources.guard import UNGUARDED, Guard
from emsco_runtime.support.arrays import Floats

__all__ = ["AcquireRequest", "BoundFeature", "Call", "ItemKeyReader", "Plan", "StagePlan", "is_async"]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One acquirer as the walk sees it."""

    # Takes an item; a list of items if `batch`.
    function: Callable[[Any], Any]
    names: tuple[str, ...]
    batch: bool
    # Its outcome is the value of its one feature, not a mapping or sequence of several.
    single: bool
    policy: OnFailure
    # Those of its features that are taken from it; another acquirer may be preferred for the rest.
    used_names: frozenset[str]
    # Its position in the one order in which calls are made, for every item and in every stage.
    rank: int
    guard: Guard = UNGUARDED
    is_async: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AcquireRequest:
    """The walk's request for values: make these calls for the item, in order."""

    calls: tuple[Call, ...]
    # Their functions alone, for the loop that makes the calls.
    functions: tuple[Callable[[Any], Any], ...]
    # No call is async or guarded: calling the functions is enough.
    simple: bool

    @classmethod
    def from_calls(cls, calls: Iterable[Call]) -> AcquireRequest:
        """Make the request for these calls; an acquirer of several features is called once."""
        ranked = {call.rank: call for call in calls}
        ordered = tuple(ranked[rank] for rank in sorted(ranked))
        simple = not any(call.is_async or call.guard is not UNGUARDED for call in ordered)
        return cls(ordered, tuple(call.function for call in ordered), simple)


@dataclass(frozen=True, slots=True, eq=False)
class BoundFeature:
    """A feature with its encoder and its encoded fallback."""

    name: str
    description: Feature
    encode: Encoder
    fallback: Encoded | None


@dataclass(frozen=True, slots=True, eq=False)
class StagePlan:
    """Everything about a stage that no item changes."""

    # Counted from 1.
    number: int
    # Features of the stages before it.
    earlier_names: tuple[str, ...]
    # What it acquires, in the order of the manifest.
    names: tuple[str, ...]
    features: tuple[BoundFeature, ...]
    # The calls to make when nothing is known in advance.
    acquire: AcquireRequest
    # All features are numbers.
    numeric: bool
    # Each call gives one of them, in their order.
    outcomes_are_values: bool
    # Positions of the model's inputs among all numbers acquired so far; None if they are these numbers, in their order.
    input_positions: tuple[int, ...] | None
    # The function that takes them from the values acquired so far, a vector being one; None if they are these values as they are.
    select_inputs: Callable[[Sequence[Any]], Sequence[float] | Floats] | None
    # One per label, in label order.
    thresholds: tuple[float, ...]
    # The cost of all features up to and including this stage, and what this stage adds to it.
    cost: float
    added_cost: float

    def inputs_from(self, values: Sequence[Any]) -> Sequence[float] | Floats:
        """Return the model's inputs, from all values acquired so far."""
        return values if self.select_inputs is None else self.select_inputs(values)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A bundle bound to acquirers: what the walk follows for every item."""

    bundle: str
    labels: tuple[Label, ...]
    stages: tuple[StagePlan, ...]
    meter: Meter
    calls: Mapping[str, Call]
    # Features whose acquirers are async, in the order in which they are needed.
    async_features: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemKeyReader:
    """The acquirer of a feature where items are mappings; a class, so that it can be pickled."""

    name: str

    def __call__(self, item: Any) -> Any:
        """Return the item's value of the feature."""
        try:
            return item[self.name]
        except (KeyError, IndexError, TypeError) as error:
            fault = f"the item has no key {self.name!r}. Add it"
            if isinstance(error, TypeError):
                fault = f"expected an item with the key {self.name!r}, got {type(item).__name__}. Give mappings"
            raise ValueFault("missing_key", f"{fault}, or register acquirers") from None


def is_async(function: Any) -> bool:
    """Return whether calling a function gives something to await: coroutine functions, and objects whose call is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
