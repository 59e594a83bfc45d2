"""What counts as a number in a setting, and checks of numbers that several subpackages take: seeds, time limits, threads."""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import TypeGuard

from emsco_runtime.support.csv_file import parse_number
from emsco_train.errors import DesignError

__all__ = ["check_seed", "check_time_limit", "is_integer", "is_number", "is_numeric_text", "worker_count"]


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite real number that a float can hold; True and False do not count as numbers.

    Examples
    --------
    >>> is_number(0.5), is_number(True), is_number("1"), is_number(float("nan")), is_number(10**400)
    (True, False, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer, of Python or numpy; True and False do not count as numbers."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_numeric_text(text: str) -> bool:
    """Return whether a text is a number, as in tables."""
    try:
        parse_number(text)
    except ValueError:
        return False
    return True


def check_seed(seed: object) -> int:
    """Return a seed as a plain integer, or raise: the one check of seeds.

    Examples
    --------
    >>> check_seed("7")
    Traceback (most recent call last):
    emsco_train.errors.DesignError: seed is '7': expected a whole number, 0 or more
    """
    if not is_integer(seed) or seed < 0:
        raise DesignError(f"seed is {seed!r}: expected a whole number, 0 or more")
    return int(seed)


def check_time_limit(time_limit: object) -> float | None:
    """Return a time limit in seconds, or None for no limit; raise for anything else.

    Examples
    --------
    >>> check_time_limit(60), check_time_limit(None)
    (60.0, None)
    """
    if time_limit is None:
        return None
    if not is_number(time_limit) or time_limit < 0:
        raise DesignError(f"time_limit is {time_limit!r}: expected a number of seconds, 0 or more; leave it out for no limit")
    return float(time_limit)


def worker_count(jobs: object) -> int:
    """Return a number of threads; None means all cores."""
    if jobs is None:
        return os.cpu_count() or 1
    if not is_integer(jobs) or jobs < 1:
        raise DesignError(f"jobs is {jobs!r}: expected a whole number, 1 or more; leave it out for all cores")
    return int(jobs)
