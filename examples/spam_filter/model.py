"""`Model`: a trained model's folder in service: the bundle and the stores that belong to it.

::

    MODEL/model.json     every other file, with its SHA-256
    MODEL/bundle/        the emsco bundle
    MODEL/stores.sqlite  what the training mail taught
    MODEL/costs.toml     what the features cost, as it was measured
    MODEL/lookups.json   which block lists it asks; only if it was trained with lookups
    MODEL/seen.txt       hashes of the mail that it was made from

They are one unit: checked, opened and replaced together. The stores are read into memory, so that nothing that happens to the
files changes a decision until the model is reloaded; `find_change` says that it happened. A decision under way ends with the unit
that it began with; a new one that cannot be used leaves the old one in service.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from emsco_runtime import AcquirerPool, Acquirers, Cascade, ModelFolder, read_bundle
from emsco_runtime.observers import Observer
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


class _Unit(NamedTuple):
    cascade: Cascade
    stores: Stores
    registry: Acquirers
    files: ModelFolder


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
    dns
        What a model with lookups asks: ``HOST:PORT`` of a name server, a zone file, or ``system``.

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
        dns: str = "system",
    ) -> None:
        self.folder = Path(folder)
        self._pool = pool
        self._observers = tuple(observers)
        self._dns = dns
        self._reloading = threading.Lock()
        self._unit = self._load(None)

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str],
        *,
        pool: AcquirerPool | None = None,
        observers: Sequence[Observer] = (),
        dns: str = "system",
    ) -> Model:
        """Open a model; the same as calling the class."""
        return cls(folder, pool=pool, observers=observers, dns=dns)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    @property
    def cascade(self) -> Cascade:
        """The cascade in service."""
        return self._unit.cascade

    @property
    def acquirers(self) -> Acquirers:
        """The acquirers that the cascade in service is bound to."""
        return self._unit.registry

    def reload(self) -> bool:
        """Load what is in the folder now, and return whether that is another bundle.

        Raises
        ------
        EmscoError
            If bundle or stores cannot be used; the old ones stay in service.
        """
        with self._reloading:
            unit = self._load(self.cascade)
            changed = unit.cascade.manifest.id != self.cascade.manifest.id
            # The old stores are closed when the last decision that uses them has ended, and nothing holds them any more.
            self._unit = unit
            return changed

    def find_change(self) -> str | None:
        """Return the name of a file on the disk that is not the one in service; None if there is none."""
        return self._unit.files.find_change()

    def close(self) -> None:
        """Close the stores; later lookups fall back on defaults."""
        self._unit.stores.close()

    def _load(self, old: Cascade | None) -> _Unit:
        files = ModelFolder(self.folder)
        files.check()
        bundle = read_bundle(self.folder / BUNDLE)
        content = files.read(STORES)
        files.check_unchanged()
        stores = Stores.from_bytes(content, self.folder / STORES)
        try:
            registry = model_acquirers(self.folder, stores, self._dns)
            if old is not None:
                return _Unit(old.with_bundle(bundle, registry), stores, registry, files)
            return _Unit(Cascade(bundle, registry, pool=self._pool, observers=self._observers), stores, registry, files)
        except BaseException:
            stores.close()
            raise
