"""One OpenMP thread per fit: fits run side by side, and a sum over several threads would depend on their number."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

__all__ = ["one_openmp_thread"]


def one_openmp_thread() -> AbstractContextManager[Any]:
    """Return a context in which compiled code that this thread calls, such as scikit-learn's, uses one OpenMP thread."""
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="openmp")
    return limit


@cache
def _controller() -> Any:
    # Here: it looks for the libraries that are loaded, so those of the classifier must be.
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    return ThreadpoolController()
