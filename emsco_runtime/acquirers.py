"""The registry of acquirers: the user's callables that obtain features.

A registry lives as long as the service and may serve several bundles. Nothing is called here and nothing is checked against a
bundle here: `_plan` does that when a cascade is bound, and lists every fault at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from emsco_runtime.breaker import CircuitBreaker
from emsco_runtime.cache import AcquirerCache

__all__ = ["Acquirer", "Acquirers", "OnFailure", "Shape", "texts"]

OnFailure: TypeAlias = Literal["raise", "reject", "default"]
Shape: TypeAlias = Literal["feature", "features", "batch"]
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Acquirer:
    """One registered callable.

    Parameters
    ----------
    function
        The callable: item -> value ("feature"), item -> mapping or sequence ("features"), items -> sequence ("batch").
    names
        The features it obtains, in order.
    shape
        Which of the three it is.
    on_failure
        Its own policy; None leaves it to the cascade.
    timeout_s
        Seconds that a call may take; None for no limit.
    breaker, cache
        Guards its source, and keeps its values across items; None: there is none.
    """

    function: Callable[..., Any]
    names: tuple[str, ...]
    shape: Shape
    on_failure: OnFailure | None = None
    timeout_s: float | None = None
    breaker: CircuitBreaker | None = None
    cache: AcquirerCache | None = None

    def __str__(self) -> str:
        """Return the name of the callable, for messages."""
        return str(getattr(self.function, "__qualname__", self.function))


def texts(names: Iterable[object]) -> list[str]:
    """Return the names that are text; what else was registered is told when the registry is bound."""
    return [name for name in names if isinstance(name, str)]


class Acquirers:
    """A registry of acquirers, filled with decorators.

    Examples
    --------
    >>> acquirers = Acquirers()
    >>> @acquirers.feature("length")
    ... def length(message):
    ...     return len(message)
    >>> @acquirers.features("digits", "capitals", on_failure="default")
    ... def characters(message):
    ...     return {"digits": sum(map(str.isdigit, message)), "capitals": sum(map(str.isupper, message))}
    >>> @acquirers.batch("words")
    ... def words(messages):
    ...     return [len(message.split()) for message in messages]
    >>> acquirers.names
    ('capitals', 'digits', 'length', 'words')
    """

    def __init__(self) -> None:
        self._entries: list[Acquirer] = []

    def feature(
        self,
        name: str,
        *,
        on_failure: OnFailure | None = None,
        timeout_s: float | None = None,
        breaker: CircuitBreaker | None = None,
        cache: AcquirerCache | None = None,
    ) -> Callable[[_Function], _Function]:
        """Register a callable, plain or async, that takes an item and returns the value of one feature.

        Parameters
        ----------
        name
            The feature, as the bundle calls it.
        on_failure
            What a failure does: "raise", "reject", or "default" (the bundle's fallback value). None: as the cascade says.
        timeout_s
            Seconds that a call may take; a longer one is a failure. A plain callable then runs in a thread of the cascade's pool,
            and time spent waiting for a free one does not count.
        breaker
            Leaves a source alone that failed too often in a row.
        cache
            Keeps values across items.
        """
        return self._register((name,), "feature", on_failure, timeout_s, breaker, cache)

    def features(
        self,
        *names: str,
        on_failure: OnFailure | None = None,
        timeout_s: float | None = None,
        breaker: CircuitBreaker | None = None,
        cache: AcquirerCache | None = None,
    ) -> Callable[[_Function], _Function]:
        """Register a callable that takes an item and returns several features at once.

        It returns a mapping that holds every name, or a sequence in the order of the names. It is called at most once per item,
        when the first of its features is needed; the values for later stages are kept. The options are those of `feature`.
        """
        return self._register(names, "features", on_failure, timeout_s, breaker, cache)

    def batch(
        self,
        *names: str,
        on_failure: OnFailure | None = None,
        timeout_s: float | None = None,
        breaker: CircuitBreaker | None = None,
    ) -> Callable[[_Function], _Function]:
        """Register a callable that takes a list of items: one call for all the items of `decide_many` that need it.

        With one name it returns one value per item, in order; with several, a mapping from each name to such a sequence.
        `decide` calls it with a list of one item, unless the feature has an acquirer for single items too. The options are those
        of `feature`; the time-out is for the whole call.
        """
        return self._register(names, "batch", on_failure, timeout_s, breaker, None)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all features that can be obtained, sorted."""
        return tuple(sorted({name for entry in self._entries for name in texts(entry.names)}))

    @property
    def entries(self) -> tuple[Acquirer, ...]:
        """Return everything registered so far, in order."""
        return tuple(self._entries)

    def _register(
        self,
        names: tuple[str, ...],
        shape: Shape,
        on_failure: OnFailure | None,
        timeout_s: float | None,
        breaker: CircuitBreaker | None,
        cache: AcquirerCache | None,
    ) -> Callable[[_Function], _Function]:
        if names and callable(names[0]):
            raise TypeError(f'@acquirers.{shape} needs the feature\'s name: write @acquirers.{shape}("name")')

        def register(function: _Function) -> _Function:
            self._entries.append(Acquirer(function, names, shape, on_failure, timeout_s, breaker, cache))
            return function

        return register
