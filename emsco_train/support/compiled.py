"""How training compiles its loops, and how the result is kept on disk.

Compiling takes most of the first search after an install, and nearly all of it is work per function and per type. So a function
that only compiled code calls gets no way in from Python, every array has one memory layout, and a number that is written out in a
call is given a type (numba would compile the function again for that number alone).

numba notices a change of the file that holds a function which it keeps on disk, not of the files whose functions that one calls,
and cannot read what names a class that is gone. So functions are kept under the key of their whole package: a hash of its files.
"""

from __future__ import annotations

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
# Enough of a key for the name of a file.
_KEY_DIGITS = 16


def jit_inner(*fastmath: str, key: str = "", refcounted: bool = True, inlined: bool = False) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that only compiled code calls.

    Parameters
    ----------
    fastmath
        What LLVM may do to floating-point arithmetic: its own names, such as "contract".
    key
        Keep the compiled function on disk under this key, as `source_key` gives it; "": do not.
    refcounted
        Whether numba counts who uses an array; a function that makes none needs no counting, and is faster without.
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
    return _decorator(fastmath, key, refcounted=refcounted, inner=True)


def jit_entry(key: str, *, refcounted: bool = True) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that Python calls; they are kept on disk. For the parameters see `jit_inner`."""
    return _decorator((), key, refcounted=refcounted, inner=False)


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


def is_cached(function: Any, key: str) -> bool:
    """Return whether a compiled form of a function is on disk under this key."""
    folder = Path(function.stats.cache_path)
    return any(folder.glob(f"*.{function.py_func.__name__}-{key[:_KEY_DIGITS]}*.nbi"))


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the garbage collector: compiling makes millions of objects that it would look through for a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _decorator(fastmath: tuple[str, ...], key: str, *, refcounted: bool, inner: bool) -> Callable[[_Function], _Function]:
    def decorate(function: _Function) -> _Function:
        if key:
            # numba names its files by this: another key, other files.
            function.__qualname__ = f"{function.__name__}-{key[:_KEY_DIGITS]}"
        decorator = njit(
            cache=bool(key),
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
