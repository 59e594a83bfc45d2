"""How training compiles its loops, and how the result is kept on disk.

Compiling takes most of the first search after an install, and nearly all of it is work per function and per type. So a function
that only compiled code calls cannot be called from Python, every array has one memory layout, and a literal number in a call is
given a type (numba would compile the function again for that number alone).

numba notices a change of the file of a function that it keeps on disk, not of the files whose functions that one calls, and
cannot read a cached file that names a class that is gone. So a function is kept under a hash of all files of the package.
"""

from __future__ import annotations

import functools
import gc
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

__all__ = ["is_cached", "jit_entry", "jit_inner", "pause_gc", "popcount", "source_key"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit_inner(
    *fastmath: str, cached: bool = False, refcounted: bool = True, inlined: bool = False
) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that only compiled code calls.

    Parameters
    ----------
    fastmath
        What LLVM may do to floating-point arithmetic: its own names, such as "contract".
    cached
        Whether the compiled function is kept on disk.
    refcounted
        Whether numba counts the references to arrays; a function that makes no array needs no counting, and is faster without.
    inlined
        Whether it becomes a part of its one caller before anything is compiled.

    Examples
    --------
    >>> @jit_inner("contract")
    ... def multiply_add(a: float, b: float, c: float) -> float:
    ...     return a * b + c
    >>> entry = njit(lambda a: multiply_add(a, a, a))
    >>> entry(3.0)
    12.0
    """
    if inlined:
        return cast("Callable[[_Function], _Function]", njit(inline="always"))
    return _decorator(fastmath, cached=cached, refcounted=refcounted, inner=True)


def jit_entry(*, refcounted: bool = True) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that Python calls; they are kept on disk. For the parameter see `jit_inner`."""
    return _decorator((), cached=True, refcounted=refcounted, inner=False)


def source_key(package: str) -> str:
    """Return a hash of the source text of a package and of this file.

    Examples
    --------
    >>> exact = source_key("emsco_train.search.exact")
    >>> exact == source_key("emsco_train.search.exact") != source_key("emsco_train.models.logistic")
    True
    """
    content_hash = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted((file for file in files(package).iterdir() if file.name.endswith(".py")), key=lambda file: file.name):
        content_hash.update(file.read_bytes())
    return content_hash.hexdigest()


def is_cached(function: Any) -> bool:
    """Return whether a compiled form of a function is on disk, made from the sources of today."""
    return any(Path(function.stats.cache_path).glob(f"*.{function.py_func.__qualname__}*.nbi"))


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the garbage collector: compiling makes millions of objects, and collecting takes a sixth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# The files do not change while the decorators of a package run.
_import_time_key = functools.cache(source_key)


def _decorator(fastmath: tuple[str, ...], *, cached: bool, refcounted: bool, inner: bool) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        if cached:
            # numba names its files by this: another key, other files. 16 digits are enough for a file name.
            package = function.__module__.rpartition(".")[0]
            function.__qualname__ = f"{function.__name__}-{_import_time_key(package)[:16]}"
        decorator = njit(
            cache=cached,
            nogil=True,
            error_model="numpy",
            fastmath=set(fastmath),
            no_cpython_wrapper=inner,
            no_cfunc_wrapper=inner,
            _nrt=refcounted,
        )
        return cast("_Function", decorator(function))

    return decorate


@jit_inner(refcounted=False)
def popcount(word: np.uint64) -> np.int64:  # pragma: no cover - compiled
    """Return how many bits of a word are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
