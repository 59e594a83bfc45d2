"""What comes with an item, checked: its key, known values, budget and deadline; and the `Limits` of its calls."""

from __future__ import annotations

import difflib
import math
import numbers
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.errors import InputError
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.support.formatting import format_value
from emsco_runtime.support.frozen_dict import FrozenDict

__all__ = ["NO_VALUES", "InputChecker", "ItemInput", "Limits", "check_budget", "check_key", "compute_deadline"]

# An item, its key, and its known values.
ItemInput: TypeAlias = tuple[Any, str | None, Mapping[str, object]]

# Read-only, since listeners get it.
NO_VALUES: Mapping[str, object] = FrozenDict()


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the calls of one decision."""

    # By `time.perf_counter`; infinity for none.
    deadline: float
    # Threads for plain acquirers that need one.
    pool: AcquirerPool
    # Run all plain acquirers of a stage in the pool, at the same time.
    parallel: bool
    # Async acquirers of a stage that run at the same time.
    concurrency: int = 1


def check_budget(budget: float | None) -> float:
    """Return the budget of a decision, infinity for None; raise `InputError` if it is not a number of at least 0."""
    if budget is None:
        return math.inf
    if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not budget >= 0:
        raise InputError(f"budget: expected a number of at least 0, got {format_value(budget)}. Leave it out for no limit")
    try:
        # numpy would compare a number of a narrow type with costs in that type.
        return float(budget)
    except OverflowError:
        # A whole number too large for a float.
        return math.inf


def compute_deadline(deadline_s: float | None) -> float:
    """Return the deadline by `time.perf_counter`, infinity for None; raise `InputError` if it is not a number of seconds."""
    if deadline_s is None:
        return math.inf
    if isinstance(deadline_s, bool) or not isinstance(deadline_s, numbers.Real) or deadline_s != deadline_s:  # noqa: PLR0124 - NaN
        raise InputError(f"deadline_s: expected a number of seconds, got {format_value(deadline_s)}. Leave it out for no limit")
    try:
        return time.perf_counter() + float(deadline_s)
    except OverflowError:
        # A whole number too large for a float.
        return math.inf if deadline_s > 0 else -math.inf


def check_key(key: object) -> None:
    """Raise `InputError` if a key is not a string."""
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


def _list_items(items: Any) -> list[Any]:
    # A data frame has a list of them, and gives their names one after the other; results of databases have a method.
    # Of its class: of a Series or a record array, a label or a field may have that name.
    columns = getattr(type(items), "columns", None)
    is_table = columns is not None and not callable(columns)
    if is_table or not (hasattr(items, "__iter__") or hasattr(items, "__getitem__")):
        advice = "One item goes to `decide`, a table to `decide_columns`"
        raise InputError(f"items: expected a sequence of items, got {type(items).__name__}. {advice}")
    return list(items)


class InputChecker:
    """Checks what comes with items; known values of the bundle's features by value, those of `other_names` by name alone."""

    def __init__(self, features: Iterable[Feature], other_names: Iterable[str]) -> None:
        self._encoders = {feature.name: make_encoder(feature) for feature in features}
        self.names = frozenset({*self._encoders, *other_names})

    def check_known(self, known: Any, place: str = "known") -> Mapping[str, object]:
        """Return a copy of the known values of one item: the caller may change the mapping while the item is decided.

        Errors begin with `place`.
        """
        if not isinstance(known, Mapping):
            raise InputError(f"{place}: expected a mapping from feature to value, got {type(known).__name__}")
        checked = dict(known)
        for name, value in checked.items():
            encode = self._encoders.get(name)
            try:
                if encode is not None:
                    encode(value)
                elif name not in self.names:
                    raise InputError(f"{place}: the bundle has no feature {format_value(name)}{self._hint(name)}")
            except ValueFault as fault:
                raise InputError(f"{place}: feature {name!r}: {fault.message}. Or leave it out, to have it acquired") from None
        return checked

    def check_many(self, items: Iterable[Any], keys: object, known: object) -> list[ItemInput]:
        """Return many items with their keys and known values."""
        item_list = _list_items(items)
        item_keys = _check_keys(keys, len(item_list))
        return list(zip(item_list, item_keys, self._check_known_each(known, len(item_list)), strict=True))

    def _check_known_each(self, known: object, count: int) -> Sequence[Mapping[str, object]]:
        if known is None:
            return (NO_VALUES,) * count
        if not isinstance(known, Sequence) or len(known) != count:
            got = len(known) if isinstance(known, Sequence) else type(known).__name__
            raise InputError(f"known: expected a sequence with one mapping (or None) per item, got {got} for {count} items")
        return [
            NO_VALUES if values is None else self.check_known(values, f"known[{index}]") for index, values in enumerate(known)
        ]

    def _hint(self, name: object) -> str:
        close = difflib.get_close_matches(name, self.names, n=1) if isinstance(name, str) else []
        return f"; did you mean {close[0]!r}?" if close else ". Leave it out"
