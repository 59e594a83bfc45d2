"""`FrozenDict`: a dictionary that cannot be changed once it is made.

It is a real `dict`, so that JSON, pickle, copies, comparisons and pydantic treat it as one; only what would change it raises.
(`types.MappingProxyType` can be neither pickled nor written as JSON.)
"""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeVar

__all__ = ["FrozenDict"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class FrozenDict(dict[_Key, _Value]):
    """A dictionary without the methods that change one.

    Examples
    --------
    >>> scores = FrozenDict({"ham": 0.1, "spam": 0.9})
    >>> scores["spam"], scores == {"ham": 0.1, "spam": 0.9}
    (0.9, True)
    >>> scores.clear()
    Traceback (most recent call last):
        ...
    TypeError: this mapping is read-only: make a copy with dict(...) and change that
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping is read-only: make a copy with dict(...) and change that")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __reduce__(self) -> tuple[type[Self], tuple[dict[_Key, _Value]]]:
        """Return how to make it again: unpickling must not set items one by one."""
        return type(self), (dict(self),)
