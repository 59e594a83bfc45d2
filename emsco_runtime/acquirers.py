"""The registry of acquirers: the user's callables that obtain features.

A registry lives as long as the service and may serve several bundles. Nothing is called here and nothing is checked against a
bundle here: `engine.plan` does that when a cascade is bound, and lists every fault at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Literal, TypeAlias, TypeVar

from emsco_runtime.errors import BindError, InputError
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.support.formatting import suggest_name

__all__ = ["Acquirer", "Acquirers", "OnFailure", "Shape", "string_names"]

OnFailure: TypeAlias = Literal["raise", "reject", "default"]
Shape: TypeAlias = Literal["feature", "features", "batch"]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Unset(Enum):
    """The default of an option for which None is a value."""

    UNSET = auto()


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
        Guards its source, and keeps its values across items; None for neither.
    overridden_names
        Those of its features that another acquirer obtains in its place.
    """

    function: Callable[..., Any]
    names: tuple[str, ...]
    shape: Shape
    on_failure: OnFailure | None = None
    timeout_s: float | None = None
    breaker: CircuitBreaker | None = None
    cache: AcquirerCache | None = None
    overridden_names: tuple[str, ...] = ()

    @property
    def available_names(self) -> tuple[str, ...]:
        """Return the features that can be taken from it."""
        return tuple(name for name in self.names if name not in self.overridden_names)

    def __str__(self) -> str:
        """Return the name of the callable, for messages."""
        return str(getattr(self.function, "__qualname__", self.function))


def string_names(names: Iterable[object]) -> list[str]:
    """Return the names that are text; others are reported when the registry is bound."""
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

    Registries of several modules are put together with ``|``, and an acquirer is replaced in a copy, as tests do:

    >>> remote = Acquirers()
    >>> @remote.feature("reputation", timeout_s=0.5)
    ... def reputation(message):
    ...     raise ConnectionError("tests do not go there")
    >>> tested = (acquirers | remote).override("reputation", lambda message: 0.5)
    >>> [entry.timeout_s for entry in tested.entries if entry.names == ("reputation",)]
    [0.5]
    """

    def __init__(self) -> None:
        self._entries: list[Acquirer] = []

    @staticmethod
    def merge(*registries: Acquirers) -> Acquirers:
        """Return a new registry with all that is registered in these.

        Raises
        ------
        BindError
            If a feature is in more than one of them; lists every such feature. One for single items and one for batches go
            together.
        """
        acquirers_by_feature: defaultdict[tuple[str, bool], dict[int, str]] = defaultdict(dict)
        for number, registry in enumerate(registries):
            if not isinstance(registry, Acquirers):
                raise InputError(f"merge: expected Acquirers, got {type(registry).__name__}")
            for entry in registry.entries:
                for name in string_names(entry.available_names):
                    acquirers_by_feature[name, entry.shape == "batch"][number] = str(entry)
        faults = [
            f"feature {name!r}: registered more than once, by {', '.join(by.values())}. Keep one, or replace it with `override`"
            for (name, _), by in acquirers_by_feature.items()
            if len(by) > 1
        ]
        if faults:
            raise BindError(faults)
        return _registry(entry for registry in registries for entry in registry.entries)

    def __or__(self, other: Acquirers) -> Acquirers:
        """Return a new registry with all that is registered in both, as `merge`."""
        return Acquirers.merge(self, other)

    def override(
        self,
        name: str,
        function: Callable[[Any], Any],
        *,
        on_failure: OnFailure | _Unset | None = _Unset.UNSET,
        timeout_s: float | _Unset | None = _Unset.UNSET,
        breaker: CircuitBreaker | None = None,
        cache: AcquirerCache | None = None,
    ) -> Acquirers:
        """Return a new registry in which another callable obtains a feature; this one stays as it is.

        Parameters
        ----------
        name
            A feature that is registered. Where an acquirer obtains several, the others are still taken from it.
        function
            Takes an item and returns the feature's value, plain or async. It replaces batch acquirers too.
        on_failure, timeout_s
            As in `feature`; those of the acquirer that it replaces unless given.
        breaker, cache
            As in `feature`. Those of the acquirer that it replaces are not used: they belong to its source.

        Raises
        ------
        InputError
            If no such feature is registered.
        """
        found = [entry for entry in self._entries if name in entry.available_names]
        if not found:
            hint = suggest_name(name, self.names, f". Registered features: {', '.join(self.names) or 'none'}")
            raise InputError(f"override: no acquirer is registered for the feature {name!r}{hint}")
        # The one that `decide` would call.
        original = min(found, key=lambda entry: entry.shape == "batch")
        policy = original.on_failure if isinstance(on_failure, _Unset) else on_failure
        timeout = original.timeout_s if isinstance(timeout_s, _Unset) else timeout_s
        remaining = [
            replace(entry, overridden_names=(*entry.overridden_names, name)) if name in entry.available_names else entry
            for entry in self._entries
        ]
        kept = [entry for entry in remaining if entry.available_names or not entry.names]
        return _registry([*kept, Acquirer(function, (name,), "feature", policy, timeout, breaker, cache)])

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
            Stops calling a source that failed too often in a row.
        cache
            Keeps values across items, and lets one call per key run at a time.
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
        of `feature`; the timeout is for the whole call.
        """
        return self._register(names, "batch", on_failure, timeout_s, breaker)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all features that can be obtained, sorted."""
        return tuple(sorted({name for entry in self._entries for name in string_names(entry.available_names)}))

    @property
    def entries(self) -> tuple[Acquirer, ...]:
        """Return everything registered so far, in order."""
        return tuple(self._entries)

    def _register(self, names: tuple[str, ...], shape: Shape, *options: Any) -> Callable[[_Function], _Function]:
        """Return a decorator; the options are those of `Acquirer`, in its order."""
        if names and callable(names[0]):
            raise TypeError(f'@acquirers.{shape} needs the feature\'s name: write @acquirers.{shape}("name")')

        def register(function: _Function) -> _Function:
            self._entries.append(Acquirer(function, names, shape, *options))
            return function

        return register


def _registry(entries: Iterable[Acquirer]) -> Acquirers:
    made = Acquirers()
    made._entries.extend(entries)  # noqa: SLF001 - one of our own
    return made
