"""`lazy_property`: worked out when it is first used, and kept.

It is `functools.cached_property` as it is since Python 3.12. Before, that one holds a lock while it works, a single one for all
objects: every message would wait while a large one is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["lazy_property"]

_Value = TypeVar("_Value")


class lazy_property(Generic[_Value]):  # noqa: N801 - as the one of the standard library
    """A property that is kept in the object's ``__dict__``, where Python finds it before the property the next time.

    Parameters
    ----------
    function
        Works it out; two threads that ask at the same time may both call it.
    """

    def __init__(self, function: Callable[[Any], _Value]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Learn the name under which it is kept."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | _Value:
        """Return the value, worked out now; of a class, the property itself."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._function(instance)
        return value
