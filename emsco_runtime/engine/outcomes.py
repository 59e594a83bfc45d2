"""Results of acquirers: read by name or by position, and the result for many items split into one outcome per item.

Results are the user's own objects, and reading one may raise anything: it is handled as if the acquirer had raised it. Arrays,
lists and dicts are copied as they come, since an acquirer may fill the same one for every item, and they are read later: when
all items have been acquired, or when a cache has them again.
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco_runtime.bundle.encoding import ValueFault
from emsco_runtime.support.formatting import LONGEST_MESSAGE, describe_error, shorten

__all__ = ["AsyncCopyingCall", "BatchCall", "CopyingCall", "reject_coroutine", "values_by_name"]

_SHOWN_KEYS = 20


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A batch acquirer, called with one item or with `many`; a result that does not fit the items is a failure of the call."""

    function: Callable[[list[Any]], Any]
    names: tuple[str, ...]
    many: bool = False

    def __call__(self, item: Any) -> Any:
        """Return the outcome for the item; one outcome per item for a list of many."""
        # A list of its own: the user's code may take items out of it.
        items = list(item) if self.many else [item]
        count = len(items)
        outcomes = _split_by_item(self.names, reject_coroutine(self.function(items)), count)
        return outcomes if self.many else outcomes[0]


@dataclass(frozen=True, slots=True)
class CopyingCall:
    """An acquirer whose result is a vector, or has the values of several features, and is copied."""

    function: Callable[[Any], Any]
    # Of several features, those that are vectors; None: the result is the vector itself.
    vectors: tuple[str, ...] | None

    def __call__(self, item: Any) -> Any:
        """Return a copy of the outcome for the item."""
        return _copy_outcome(self.function(item), self.vectors)


@dataclass(frozen=True, slots=True)
class AsyncCopyingCall:
    """As `CopyingCall`, for an async acquirer."""

    function: Callable[[Any], Awaitable[Any]]
    vectors: tuple[str, ...] | None

    async def __call__(self, item: Any) -> Any:
        """Return a copy of the outcome for the item."""
        return _copy_outcome(await self.function(item), self.vectors)


def _copy_outcome(outcome: Any, vectors: tuple[str, ...] | None) -> Any:
    # In one step each: another thread may write into what the acquirer returned.
    copied = outcome.copy() if type(outcome) is dict else _copy_value(outcome)
    if not vectors:
        return copied
    if type(copied) is dict:
        copied.update({name: _copy_value(copied[name]) for name in vectors if name in copied})
        return copied
    return list(map(_copy_value, copied)) if type(copied) in (list, tuple) else copied


def _copy_value(value: Any) -> Any:
    # Others are values that do not change, or of a class that only its author knows how to copy.
    return value.copy() if type(value) is list or isinstance(value, np.ndarray) else value


def reject_coroutine(outcome: Any) -> Any:
    """Raise if a plain function returned a coroutine, which would never be awaited; return any other outcome."""
    if inspect.iscoroutine(outcome):
        outcome.close()
        raise ValueFault("wrong_type", "its acquirer returned a coroutine: write it as `async def`, and use decide_async")
    return outcome


def _is_mapping(result: Any) -> bool:
    """Return whether a result is read by name: mappings, and rows and frames that have keys (sqlite3, pandas)."""
    return isinstance(result, Mapping) or (hasattr(result, "keys") and hasattr(result, "__getitem__"))


def _is_sequence(result: Any) -> bool:
    """Return whether a result is read by position: it has a length and an order, and is not text."""
    if isinstance(result, str | bytes | bytearray | Mapping | AbstractSet):
        return False
    return hasattr(result, "__len__") and hasattr(result, "__iter__") and getattr(result, "ndim", 1) == 1


def values_by_name(names: Sequence[str], outcome: Any) -> dict[str, Any]:
    """Return the values in the outcome of an acquirer of several features; a `ValueFault` instead of each missing one."""
    try:
        if _is_mapping(outcome):
            return _from_mapping(names, outcome)
        return _from_sequence(names, outcome)
    except ValueFault as fault:
        return dict.fromkeys(names, fault)
    except Exception as error:  # noqa: BLE001 - reading a result runs the user's code
        return dict.fromkeys(names, _unreadable_fault("the result of its acquirer", error))


def _from_mapping(names: Sequence[str], outcome: Any) -> dict[str, Any]:
    # The keys: `in` looks at the values of some mapping-like rows. A set of them: there may be thousands.
    keys = outcome.keys() if type(outcome) is dict else set(outcome.keys())
    found: dict[str, Any] = {}
    fault: ValueFault | None = None
    for name in names:
        if name not in keys:
            fault = fault or ValueFault("missing_key", f"the acquirer's mapping lacks it; got the keys {_list_keys(keys)}")
            found[name] = fault
            continue
        try:
            found[name] = outcome[name]
        except Exception as error:  # noqa: BLE001 - as above
            found[name] = _unreadable_fault("it from the mapping of its acquirer", error)
    return found


def _list_keys(keys: Collection[Any]) -> str:
    """Return the first keys in order: there may be thousands."""
    first = heapq.nsmallest(_SHOWN_KEYS, map(str, keys))
    return shorten(f"[{', '.join(map(repr, first))}{', ...' if len(keys) > _SHOWN_KEYS else ''}]", LONGEST_MESSAGE)


def _from_sequence(names: Sequence[str], outcome: Any) -> dict[str, Any]:
    reject_coroutine(outcome)
    if not _is_sequence(outcome):
        expected = "its acquirer must return a mapping, or a sequence in the order of its features"
        return dict.fromkeys(names, ValueFault("wrong_type", f"{expected}; got {type(outcome).__name__}"))
    if len(outcome) != len(names):
        expected = f"its acquirer must return {len(names)} values, for {', '.join(names)}"
        return dict.fromkeys(names, ValueFault("missing_key", f"{expected}; got {len(outcome)}"))
    return dict(zip(names, outcome, strict=True))


def _unreadable_fault(what: str, error: Exception) -> ValueFault:
    fault = ValueFault("exception", f"reading {what} raised {describe_error(error)}")
    fault.__cause__ = error
    return fault


def _split_by_item(names: tuple[str, ...], result: Any, count: int) -> list[Any]:
    """Return one outcome per item: a value where the acquirer has one feature, a mapping where it has several."""
    if len(names) == 1:
        return _values_per_item(result, count)
    if not _is_mapping(result):
        expected = "a batch acquirer of several features must return a mapping from name to values"
        raise ValueFault("wrong_type", f"{expected}; got {type(result).__name__}")
    keys = set(result.keys())
    columns = {name: _values_per_item(result[name], count) for name in names if name in keys}
    return [{name: column[row] for name, column in columns.items()} for row in range(count)]


def _values_per_item(result: Any, count: int) -> list[Any]:
    # The rows of a matrix are vectors; those of a frame are not its rows.
    is_matrix = getattr(result, "ndim", 1) == 2 and hasattr(result, "__len__") and not _is_mapping(result)
    if not is_matrix and not _is_sequence(result):
        expected = "a batch acquirer must return a sequence with one value per item"
        raise ValueFault("wrong_type", f"{expected}; got {type(result).__name__}")
    if len(result) != count:
        raise ValueFault("missing_key", f"a batch acquirer must return one value per item: got {len(result)} for {count} items")
    return list(result)
