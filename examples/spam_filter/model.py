"""`Model`: a trained model's folder in service: the bundle and the stores that belong to it.

::

    MODEL/bundle/        the emsco bundle; its version names the stores it was trained with
    MODEL/stores.sqlite  what the training mail taught
    MODEL/costs.toml     what the features cost, as it was measured
    MODEL/lookups.json   which block lists it asks; only if it was trained with look-ups

Bundle and stores are loaded together. A decision under way ends with the pair that it began with; a new pair that cannot be
used leaves the old one in service.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from emsco_runtime import AcquirerPool, Acquirers, Cascade, read_bundle
from emsco_runtime.observers import Observer
from spam_filter.errors import ModelError
from spam_filter.evidence.registry import model_acquirers
from spam_filter.learned.stores import Stores

__all__ = ["BUNDLE", "COSTS", "STORES", "Model", "bundle_version"]

BUNDLE: Final = "bundle"
STORES: Final = "stores.sqlite"
COSTS: Final = "costs.toml"
_VERSION_CHARACTERS: Final = 16


def bundle_version(stores_id: str) -> str:
    """Return the version of a bundle that belongs to stores."""
    return f"stores-{stores_id[:_VERSION_CHARACTERS]}"


class _Pair(NamedTuple):
    cascade: Cascade
    stores: Stores
    registry: Acquirers


class Model:
    """A model in service: thread-safe.

    Parameters
    ----------
    folder
        The folder that `train` wrote.
    pool
        As in `emsco_runtime.Cascade`.
    observers
        Notified of every decision; they outlive a reload.
    timeout_s
        How long a look-up waits for a locked store before it falls back.
    dns
        Whom a model with look-ups asks: ``HOST:PORT`` of a name server, a zone file, or ``system``.

    Raises
    ------
    EmscoError
        If the folder, its bundle or its stores cannot be used.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        pool: AcquirerPool | None = None,
        observers: Sequence[Observer] = (),
        timeout_s: float = 0.1,
        dns: str = "system",
    ) -> None:
        self.folder = Path(folder)
        self._pool = pool
        self._observers = tuple(observers)
        self._timeout_s = timeout_s
        self._dns = dns
        self._reloading = threading.Lock()
        self._pair = self._load(None)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        pool: AcquirerPool | None = None,
        observers: Sequence[Observer] = (),
        timeout_s: float = 0.1,
        dns: str = "system",
    ) -> Model:
        """Open a model; the same as calling the class."""
        return cls(folder, pool=pool, observers=observers, timeout_s=timeout_s, dns=dns)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    @property
    def cascade(self) -> Cascade:
        """The cascade in service."""
        return self._pair.cascade

    @property
    def acquirers(self) -> Acquirers:
        """The acquirers that the cascade in service is bound to."""
        return self._pair.registry

    def reload(self) -> bool:
        """Load what is in the folder now, and return whether that is another bundle.

        Raises
        ------
        EmscoError
            If bundle or stores cannot be used; the old ones stay in service.
        """
        with self._reloading:
            pair = self._load(self.cascade)
            changed = pair.cascade.manifest.id != self.cascade.manifest.id
            # The old stores are closed when the last decision that uses them has ended, and nothing holds them any more.
            self._pair = pair
            return changed

    def close(self) -> None:
        """Close the stores; later look-ups fall back on defaults."""
        self._pair.stores.close()

    def _load(self, old: Cascade | None) -> _Pair:
        if not self.folder.is_dir():
            raise ModelError(f"{self.folder}: the folder does not exist: give the one that train wrote")
        bundle = read_bundle(self.folder / BUNDLE)
        stores = Stores.open(self.folder / STORES, timeout_s=self._timeout_s)
        try:
            self._check_pair(bundle.manifest.version, bundle_version(stores.id))
            registry = model_acquirers(self.folder, stores, self._dns)
            if old is not None:
                return _Pair(old.with_bundle(bundle, registry), stores, registry)
            return _Pair(Cascade(bundle, registry, pool=self._pool, observers=self._observers), stores, registry)
        except BaseException:
            stores.close()
            raise

    def _check_pair(self, wanted: str, found: str) -> None:
        if wanted != found:
            detail = f"the bundle belongs to {wanted}, the stores are {found}"
            raise ModelError(f"{self.folder}: {detail}: copy the folder of one training as a whole, or train again")
