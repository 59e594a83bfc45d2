"""One compiled step of the exact search: how many of the waiting items a feature set accepts, and how well.

A set's bits are stored as pairs of words, *confident* and *swing* (see `set_bits`), in three regions of items. numba has no
function for a vector's population count, so this step is written in LLVM's own terms: it becomes the best code that each machine
has (ARM counts bits in vector registers only), and is about twice as fast as counting word by word.
"""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
import numba.types
from numba.extending import intrinsic

__all__ = ["MAX_ENUMERATED_ROWS", "count_pairs"]

# Counts are kept in sixteen bits.
MAX_ENUMERATED_ROWS = 2**15

# numba's tools for writing LLVM code have no types.
cgutils: Any = numba.core.cgutils
ir: Any = cgutils.ir
types: Any = numba.types

_WORD = ir.IntType(64)
_PAIR = ir.VectorType(_WORD, 2)
_LANES = ir.VectorType(ir.IntType(16), 8)


def _count_signature(_context: Any, pairs: Any, at: Any, waiting: Any, ends: Any) -> Any:  # pragma: no cover - compiling
    """Count bits of `pairs` (from pair number `at`) that are in `waiting`, up to the end of each of the three regions.

    `waiting` holds each word twice, side by side; `ends` are three numbers of pairs. The result is three unsigned numbers: two
    sixteen-bit counts each, confident (low) and swing (high), both summed from the first item to that region's end.
    """
    signature = types.UniTuple(types.int64, 3)(pairs, at, waiting, ends)
    return signature, _count_pairs


count_pairs: Any = intrinsic(_count_signature)


def _count_pairs(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # pragma: no cover - compiling
    pairs, waiting = (
        builder.bitcast(_data(context, builder, signature, arguments, argument), _PAIR.as_pointer()) for argument in (0, 2)
    )
    first = builder.gep(pairs, [arguments[1]])
    total = cgutils.alloca_once_value(builder, ir.Constant(_LANES, [0] * 8))
    sums = []
    start = ir.Constant(_WORD, 0)
    for stop in cgutils.unpack_tuple(builder, arguments[3]):
        _add_region(builder, total, (first, waiting), (start, stop))
        sums.append(builder.load(total))
        start = stop
    low, high = _fold(builder, sums[0], sums[1]), _fold(builder, sums[2], sums[2])
    lanes = builder.bitcast(_fold(builder, low, high), ir.VectorType(ir.IntType(32), 4))
    parts = [builder.zext(builder.extract_element(lanes, _index(lane)), _WORD) for lane in range(3)]
    return context.make_tuple(builder, signature.return_type, parts)


def _data(context: Any, builder: Any, signature: Any, arguments: Any, argument: int) -> Any:  # pragma: no cover - compiling
    """Return the address of an array argument's first element."""
    return cgutils.create_struct_proxy(signature.args[argument])(context, builder, arguments[argument]).data


def _add_region(builder: Any, total: Any, addresses: Any, span: Any) -> None:  # pragma: no cover - compiling
    """Add the population counts of one region to the running totals: four lanes of confident, four of swing."""
    population = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_LANES, [_LANES]), "llvm.ctpop.v8i16")
    with cgutils.for_range_slice(builder, *span, ir.Constant(_WORD, 1)) as (pair, _):
        bits, waiting = (builder.load(builder.gep(address, [pair]), align=8) for address in addresses)
        lanes = builder.call(population, [builder.bitcast(builder.and_(bits, waiting), _LANES)])
        builder.store(builder.add(builder.load(total), lanes), total)


def _fold(builder: Any, first: Any, second: Any) -> Any:  # pragma: no cover - compiling
    """Add neighbouring lanes of two vectors: half as many lanes of each."""
    odd_even = (
        builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), 8), list(range(offset, 16, 2))))
        for offset in (0, 1)
    )
    return builder.add(*odd_even)


def _index(number: int) -> Any:  # pragma: no cover - compiling
    return ir.Constant(ir.IntType(32), number)
