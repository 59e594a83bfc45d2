"""`model_acquirers`: the acquirers of a model, those that ask the network included if it was trained with them."""

from __future__ import annotations

from pathlib import Path

from emsco_runtime import Acquirers
from spam_filter.errors import ModelError
from spam_filter.evidence.settings import LOOKUPS, LookupSettings
from spam_filter.features import acquirers
from spam_filter.learned.stores import Stores

__all__ = ["model_acquirers"]


def model_acquirers(folder: Path, stores: Stores, dns: str) -> Acquirers:
    """Return the registry for the model of a folder.

    Parameters
    ----------
    folder
        The model's folder.
    stores
        Its stores.
    dns
        What a model with lookups asks, as `open_resolver` takes it.

    Raises
    ------
    ModelError
        If there is nobody to ask, or the libraries are missing.
    """
    settings = LookupSettings.read(folder)
    if settings is None:
        return acquirers(stores)
    try:
        # Only here: a model without lookups needs none of the libraries.
        from spam_filter.evidence.acquirers import lookup_acquirers  # noqa: PLC0415
        from spam_filter.evidence.resolver import open_resolver  # noqa: PLC0415
    except ImportError as error:
        raise ModelError(
            f"{folder / LOOKUPS}: lookups need more packages ({error}): install the extra dns of the example"
        ) from None
    resolver = open_resolver(dns, timeout_s=settings.timeout_s / 2)
    return acquirers(stores) | lookup_acquirers(resolver, settings, stores)
