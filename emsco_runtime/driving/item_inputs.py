"""Checks of what a caller gives with an item: its key, and values that are known already."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from emsco_runtime.bundle.encoding import ValueFault, make_encoder
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.errors import InputError
from emsco_runtime.support.formatting import format_value
from emsco_runtime.support.frozen_dict import FrozenDict

__all__ = ["NO_VALUES", "KnownValueChecker", "check_key", "check_keys"]

# Read-only, since listeners get it.
NO_VALUES: Mapping[str, object] = FrozenDict()


def check_key(key: object) -> None:
    """Raise `InputError` if a key is not a string."""
    if not isinstance(key, str):
        raise InputError(f"key: expected a string, got {key!r} ({type(key).__name__}). Convert it, as with str(key)")


def check_keys(keys: object, count: int) -> Sequence[str | None]:
    """Return one key, or None, per item."""
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


class KnownValueChecker:
    """Checks the known values of items: those of the bundle's features by value, those of `other_names` by name alone."""

    def __init__(self, features: Iterable[Feature], other_names: Iterable[str]) -> None:
        self._encoders = {feature.name: make_encoder(feature) for feature in features}
        self.names = frozenset({*self._encoders, *other_names})

    def check(self, known: Any) -> Mapping[str, object]:
        """Return a copy of the known values of one item: the caller may change the mapping while the item is decided."""
        if not isinstance(known, Mapping):
            raise InputError(f"known: expected a mapping from feature to value, got {type(known).__name__}")
        checked = dict(known)
        for name, value in checked.items():
            encode = self._encoders.get(name)
            try:
                if encode is not None:
                    encode(value)
                elif name not in self.names:
                    raise InputError(f"known: the bundle has no feature {format_value(name)}{self._hint(name)}")
            except ValueFault as fault:
                raise InputError(f"known: feature {name!r}: {fault.message}. Or leave it out, to have it acquired") from None
        return checked

    def check_each(self, known: Any, count: int) -> list[Mapping[str, object]]:
        """Return the known values of many items."""
        if known is None:
            return [NO_VALUES] * count
        if not isinstance(known, Sequence) or len(known) != count:
            got = len(known) if isinstance(known, Sequence) else type(known).__name__
            raise InputError(f"known: expected a sequence with one mapping (or None) per item, got {got} for {count} items")
        return [NO_VALUES if values is None else self.check(values) for values in known]

    def _hint(self, name: object) -> str:
        close = difflib.get_close_matches(name, self.names, n=1) if isinstance(name, str) else []
        return f"; did you mean {close[0]!r}?" if close else ". Leave it out"
