"""Errors of the example: one clear sentence, shown without a traceback."""

from __future__ import annotations

from emsco_runtime import EmscoError

__all__ = ["CorpusError", "LookupFailed", "ModelError", "StoreError"]


class StoreError(EmscoError):
    """A store is missing, damaged, or of another format."""


class CorpusError(EmscoError):
    """Labelled mail is not where, or not as, it should be."""


class ModelError(EmscoError):
    """A model's folder is incomplete, or its parts do not belong together."""


class LookupFailed(EmscoError):
    """A question was not answered: by a name server, or by a block list that fails its test entries."""
