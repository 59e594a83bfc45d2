"""Results of batch acquirers: from one answer for many items to one outcome per item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emsco_runtime._encoding import ValueFault

__all__ = ["BatchOfOne", "spread"]


@dataclass(frozen=True, slots=True)
class BatchOfOne:
    """A batch acquirer in the place of one for single items: `decide` calls it with a list of one."""

    function: Callable[[list[Any]], Any]
    names: tuple[str, ...]

    def __call__(self, item: Any) -> Any:
        """Return the outcome for the item."""
        return spread(self.names, self.function([item]), 1)[0]


def spread(names: tuple[str, ...], result: Any, count: int) -> list[Any]:
    """Return one outcome per item: a value where the acquirer has one feature, a mapping where it has several."""
    if len(names) == 1:
        return _per_item(result, count)
    if not isinstance(result, Mapping):
        told = f"got {type(result).__name__}"
        raise ValueFault("wrong_type", f"a batch acquirer of several features must return a mapping from name to values; {told}")
    columns = {name: _per_item(result[name], count) for name in names if name in result}
    return [{name: column[row] for name, column in columns.items()} for row in range(count)]


def _per_item(result: Any, count: int) -> list[Any]:
    if isinstance(result, str | bytes | Mapping) or not hasattr(result, "__len__"):
        told = f"got {type(result).__name__}"
        raise ValueFault("wrong_type", f"a batch acquirer must return a sequence with one value per item; {told}")
    if len(result) != count:
        raise ValueFault("missing_key", f"a batch acquirer must return one value per item: got {len(result)} for {count} items")
    return list(result)
