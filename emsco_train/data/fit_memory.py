"""What fits take in memory, estimated before it is spent: a column of a thousand categories is a thousand columns of a model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.encoder import Block
from emsco_train.errors import DataError

__all__ = ["MAX_FIT_BYTES", "check_fit_memory", "fit_bytes"]

# Of the matrices of a fit; beyond this it would also take minutes.
MAX_FIT_BYTES = 2**30
# Matrices of one fit: that of all columns, which sets share, its own and its factor.
_MATRICES = 3
# Copies of the encoded rows: as they are, and in the order in which the fits pass over them, in two precisions.
_ENCODED_BYTES = 8 + 8 + 4


def check_fit_memory(blocks: Sequence[Block], labels: int, rows: int) -> None:
    """Raise unless the fits of all features of some encoded rows fit into memory; the error names the widest column."""
    width, memory = sum(block.width for block in blocks), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    matrices, encoded = fit_bytes(width, 1 if labels == 2 else labels), rows * width * _ENCODED_BYTES
    if matrices <= MAX_FIT_BYTES and encoded <= memory:
        return
    if matrices > MAX_FIT_BYTES:
        needed, allowed = matrices, MAX_FIT_BYTES
        why = f"the matrices of a fit of {pluralize(width, 'column')} and {pluralize(labels, 'label')}"
    else:
        needed, allowed = encoded, memory
        why = f"{rows:,} rows of {pluralize(width, 'column')}"
    widest = max(blocks, key=lambda block: block.width)
    name, numbers = Counter(block.name for block in blocks).most_common(1)[0]
    size = f"would take {_gigabytes(needed)}, {_gigabytes(allowed)} are allowed"
    if numbers > widest.width:
        remedy = f"make it narrower, or leave it out (`drop=({name!r},)`)"
        raise DataError(f"column {name!r} is a vector of {numbers:,} numbers, a column each, and {why} {size}: {remedy}")
    if not widest.categories:
        raise DataError(f"{why} {size}: give fewer columns, or fewer labels")
    remedy = (
        f"leave it out (`drop=({widest.name!r},)`), pool its rare categories (`min_category=10`), or change its kind (`kinds`)"
    )
    detail = f"column {widest.name!r} has {widest.categories:,} categories, which are a column each"
    raise DataError(f"{detail}, and {why} {size}: {remedy}")


def fit_bytes(columns: int, logits: int) -> int:
    """Return about how many bytes the matrices of a fit of `columns` columns take; two labels have one logit, more one each.

    Examples
    --------
    >>> fit_bytes(100, 1), fit_bytes(2400, 4) // 10**9
    (326432, 2)
    """
    size, pairs = logits * (1 + columns), logits * (logits + 1) // 2
    return 8 * (_MATRICES * size**2 + pairs * (1 + columns) ** 2)


def _gigabytes(count: int) -> str:
    return f"{count / 2**30:.3g} GB"
