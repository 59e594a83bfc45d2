"""`FitCache`: logistic models that were fitted before, so that what the search fitted is not fitted again to measure it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from emsco_runtime.support.arrays import Floats, Mask
from emsco_train.models.logistic.regression import LogisticBatch

__all__ = ["FitCache", "SetFits"]

# What a model takes in addition to its coefficients, about.
_ENTRY_BYTES = 512


class SetFits(Protocol):
    """Fits feature sets, such as a `LogisticProblem`."""

    def fit(self, columns: Mask, *, workers: int = 1) -> LogisticBatch:
        """Fit sets given by their columns [sets, columns]."""


class _Entry(NamedTuple):
    coef: Floats
    intercept: Floats
    passes: int


class FitCache:
    """Fits feature sets of a problem and keeps their models, the first ones until `max_bytes` are full.

    A model depends on its set alone: one that was kept is the one that would be fitted again, to the last bit.
    """

    def __init__(self, problem: SetFits, *, max_bytes: int = 2**26) -> None:
        self._problem = problem
        self._left = max_bytes
        self._entries: dict[bytes, _Entry] = {}

    def fit(self, sets: Mask, workers: int) -> LogisticBatch:
        """Return the models of sets given by their columns [sets, columns]; only new ones are fitted."""
        keys = [row.tobytes() for row in np.packbits(sets, axis=1)]
        new = [position for position, key in enumerate(keys) if key not in self._entries]
        if len(new) == len(sets):
            fitted = self._problem.fit(sets, workers=workers)
            self._keep(keys, fitted)
            return fitted
        found = {position: self._entries[key] for position, key in enumerate(keys) if key in self._entries}
        if new:
            batch = self._problem.fit(sets[new], workers=workers)
            self._keep([keys[position] for position in new], batch)
            found |= dict(zip(new, _entries(batch), strict=True))
        entries = [found[position] for position in range(len(sets))]
        return LogisticBatch(
            np.ascontiguousarray(sets, dtype=np.bool_),
            np.stack([entry.coef for entry in entries]),
            np.stack([entry.intercept for entry in entries]),
            np.array([entry.passes for entry in entries], dtype=np.intp),
        )

    def _keep(self, keys: Sequence[bytes], batch: LogisticBatch) -> None:
        for key, entry in zip(keys, _entries(batch), strict=True):
            size = entry.coef.nbytes + entry.intercept.nbytes + _ENTRY_BYTES
            if size > self._left:
                return
            self._left -= size
            # Copies: a view would keep the arrays of its whole batch.
            self._entries[key] = _Entry(entry.coef.copy(), entry.intercept.copy(), entry.passes)


def _entries(batch: LogisticBatch) -> list[_Entry]:
    return list(map(_Entry, batch.coef, batch.intercept, batch.passes.tolist()))
