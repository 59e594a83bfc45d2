"""Elementary functions for the compiled fits, written so that loops over rows become vector instructions.

The C library's `exp` costs about 9 ns a row and keeps the loop around it scalar. This one is exact to two units in the last
place, has no branches, and so runs on several rows at once.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from emsco_train.support.compiled import jit_inner

__all__ = ["exp_negative", "sigmoid", "softplus"]

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: multiples of the first by whole numbers up to 2^11 are exact.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 leaves the nearest whole number in the last bits of a float.
_ROUNDER = 6755399441055744.0
_LEAST = -700.0
_BIAS = 1023
_MANTISSA = 52
_LN2 = 0.6931471805599453
_SQRT2_LESS_1 = 0.41421356237309515
_C2, _C3, _C4, _C5, _C6, _C7 = 1 / 2, 1 / 6, 1 / 24, 1 / 120, 1 / 720, 1 / 5040
_C8, _C9, _C10, _C11, _C12, _C13 = 1 / 40320, 1 / 362880, 1 / 3628800, 1 / 39916800, 1 / 479001600, 1 / 6227020800


def _emit_bits(_context: Any, _value: Any) -> Any:  # pragma: no cover - runs while compiling
    def emit(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), emit


def _emit_float(_context: Any, _bits: Any) -> Any:  # pragma: no cover - runs while compiling
    def emit(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), emit


# The same 64 bits, read as a whole number and as a float.
_bits_of: Any = intrinsic(_emit_bits)
_float_of: Any = intrinsic(_emit_float)


# Sums must not be regrouped here (the two parts of ln 2 would collapse); fused multiply-add is welcome.
@jit_inner("contract", "nsz")
def exp_negative(x: float) -> float:  # pragma: no cover - compiled
    """Return e^x for x <= 0; below -700, e^-700, which in sums is the same as 0."""
    x = x if x > _LEAST else _LEAST  # noqa: FURB136 - max() minds NaN, and keeps the loop scalar
    shifted = x * _LOG2_E + _ROUNDER
    whole = shifted - _ROUNDER
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    # The Taylor series to the 13th power, in pairs, so that its steps do not wait for each other.
    r2 = r * r
    r4 = r2 * r2
    low = ((1.0 + r) + (_C2 + _C3 * r) * r2) + ((_C4 + _C5 * r) + (_C6 + _C7 * r) * r2) * r4
    high = ((_C8 + _C9 * r) + (_C10 + _C11 * r) * r2) + (_C12 + _C13 * r) * r4
    series = low + high * (r4 * r4)
    scale: float = _float_of((_bits_of(shifted) + _BIAS) << _MANTISSA)
    return series * scale


@jit_inner("contract", "nsz")
def _log1p_of_unit(u: float) -> float:  # pragma: no cover - compiled
    """Return ln(1 + u) for u in [0, 1]."""
    # ln((1 + s) / (1 - s)) = 2 (s + s^3 / 3 + ...), with s below 0.172 once ln 2 is taken out of the upper part.
    upper = u > _SQRT2_LESS_1
    s = (u - 1.0 if upper else u) / (u + 3.0 if upper else u + 2.0)
    t = s * s
    t2 = t * t
    low = (1.0 + t * (1 / 3)) + (1 / 5 + t * (1 / 7)) * t2
    middle = (1 / 9 + t * (1 / 11)) + (1 / 13 + t * (1 / 15)) * t2
    high = 1 / 17 + t * (1 / 19)
    series = low + (middle + high * (t2 * t2)) * (t2 * t2)
    return 2.0 * s * series + (_LN2 if upper else 0.0)


@jit_inner("arcp", "contract", "nsz")
def sigmoid(z: float) -> float:  # pragma: no cover - compiled
    """Return 1 / (1 + e^-z), exact in both tails."""
    small = exp_negative(-abs(z))
    share = 1.0 / (1.0 + small)
    return share if z >= 0.0 else small * share


@jit_inner("contract", "nsz")
def softplus(z: float) -> float:  # pragma: no cover - compiled
    """Return ln(1 + e^z)."""
    # |z| / 2 + z / 2 is max(z, 0).
    return _log1p_of_unit(exp_negative(-abs(z))) + 0.5 * (abs(z) + z)
