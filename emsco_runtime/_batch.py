"""Results of acquirers: what is read by name, what by position, and one answer for many items as one outcome per item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from emsco_runtime._encoding import ValueFault

__all__ = ["BatchOfOne", "by_name", "is_mapping", "is_sequence", "spread"]


@dataclass(frozen=True, slots=True)
class BatchOfOne:
    """A batch acquirer in the place of one for single items: `decide` calls it with a list of one."""

    function: Callable[[list[Any]], Any]
    names: tuple[str, ...]

    def __call__(self, item: Any) -> Any:
        """Return the outcome for the item."""
        return spread(self.names, self.function([item]), 1)[0]


def is_mapping(result: Any) -> bool:
    """Return whether a result is read by name: mappings, and rows and frames that have keys (sqlite3, pandas)."""
    return isinstance(result, Mapping) or (hasattr(result, "keys") and hasattr(result, "__getitem__"))


def is_sequence(result: Any) -> bool:
    """Return whether a result is read by position: it has a length and an order, and is no text."""
    if isinstance(result, str | bytes | bytearray | Mapping | AbstractSet):
        return False
    return hasattr(result, "__len__") and hasattr(result, "__iter__") and getattr(result, "ndim", 1) == 1


def by_name(names: Sequence[str], outcome: Any) -> dict[str, Any]:
    """Return the values in the outcome of an acquirer of several features; a `ValueFault` in the place of what is not there."""
    if is_mapping(outcome):
        # Asking the keys: some mapping-like rows answer `in` for their values.
        keys = list(outcome.keys())
        fault = ValueFault("missing_key", f"the acquirer's mapping lacks it; got the keys {sorted(map(str, keys))}")
        return {name: outcome[name] if name in keys else fault for name in names}
    if not is_sequence(outcome):
        told = f"got {type(outcome).__name__}"
        return dict.fromkeys(
            names,
            ValueFault("wrong_type", f"its acquirer must return a mapping, or a sequence in the order of its features; {told}"),
        )
    if len(outcome) != len(names):
        told = f"got {len(outcome)}"
        return dict.fromkeys(
            names, ValueFault("missing_key", f"its acquirer must return {len(names)} values, for {', '.join(names)}; {told}")
        )
    return dict(zip(names, outcome, strict=True))


def spread(names: tuple[str, ...], result: Any, count: int) -> list[Any]:
    """Return one outcome per item: a value where the acquirer has one feature, a mapping where it has several."""
    if len(names) == 1:
        return _per_item(result, count)
    if not is_mapping(result):
        told = f"got {type(result).__name__}"
        raise ValueFault("wrong_type", f"a batch acquirer of several features must return a mapping from name to values; {told}")
    keys = list(result.keys())
    columns = {name: _per_item(result[name], count) for name in names if name in keys}
    return [{name: column[row] for name, column in columns.items()} for row in range(count)]


def _per_item(result: Any, count: int) -> list[Any]:
    if not is_sequence(result):
        told = f"got {type(result).__name__}"
        raise ValueFault("wrong_type", f"a batch acquirer must return a sequence with one value per item; {told}")
    if len(result) != count:
        raise ValueFault("missing_key", f"a batch acquirer must return one value per item: got {len(result)} for {count} items")
    return list(result)
