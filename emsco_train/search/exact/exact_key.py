"""The key under which the compiled functions of this package are kept on disk."""

from __future__ import annotations

from emsco_train.support.compiled import source_key

__all__ = ["KEY"]

KEY = source_key("emsco_train.search.exact")
