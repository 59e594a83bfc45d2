"""`Decider`: what `Cascade` and `ReloadingCascade` have in common, for services that take either.

A `Shadow` is not a `Decider`: it decides the items of a cascade again, and returns no decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.decision import Decision
from emsco_runtime.driving.columns import ColumnDecisions

__all__ = ["Decider"]


@runtime_checkable
class Decider(Protocol):
    """Something that decides items; see `Cascade` for what each method does.

    Examples
    --------
    >>> from emsco_runtime import Cascade
    >>> from emsco_runtime.testing import sample_bundle
    >>> def is_spam(decider: Decider, message: object) -> bool:
    ...     return decider.decide(message).label == "spam"
    >>> is_spam(Cascade(sample_bundle()), {"size": 2.0})
    True
    """

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of the bundle that decides."""

    def decide(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item."""

    async def decide_async(
        self,
        item: Any,
        *,
        key: str | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Mapping[str, object] | None = None,
    ) -> Decision:
        """Decide one item in an event loop."""

    def decide_many(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items in lockstep."""

    async def decide_many_async(
        self,
        items: Iterable[Any],
        *,
        keys: Sequence[str | None] | None = None,
        concurrency: int = 100,
        budget: float | None = None,
        deadline_s: float | None = None,
        known: Sequence[Mapping[str, object] | None] | None = None,
    ) -> list[Decision]:
        """Decide many items at the same time in an event loop."""

    def decide_columns(self, columns: Mapping[str, Any], *, budget: float | None = None) -> ColumnDecisions:
        """Decide a table given as columns."""

    def close(self) -> None:
        """Release what it owns; later decisions raise `ClosedError`."""

    async def aclose(self) -> None:
        """Close it, as `close` does."""
        self.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        await self.aclose()
