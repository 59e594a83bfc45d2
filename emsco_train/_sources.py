"""A key for compiled code that is kept on disk.

numba notices a change of the file that holds a cached function, not of the files whose functions it calls, and cannot read a
cache that names a class which has gone. So only entry points are cached; they take plain tuples, and close over the key of all
files that they are made of: what a function closes over is part of the key of its cache.
"""

from __future__ import annotations

import hashlib
import pkgutil

__all__ = ["source_key"]


def source_key(package: str, *modules: str) -> str:
    """Return a hash of the source text of some modules of a package.

    Examples
    --------
    >>> source_key("emsco_train.exact", "count") == source_key("emsco_train.exact", "count")
    True
    >>> source_key("emsco_train.exact", "count") == source_key("emsco_train.exact", "kernel")
    False
    """
    whole = hashlib.sha256()
    for module in modules:
        whole.update(pkgutil.get_data(package, f"{module}.py") or b"")
    return whole.hexdigest()
