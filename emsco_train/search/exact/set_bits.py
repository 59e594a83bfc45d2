"""The bits of every feature set, as they are given and as the exact search reads them.

`SetBits` is the input. `SetLayout` is the same, laid out for speed: items are sorted into three regions by what the last
stage says of them, where the last stage is the same for all designs (no feature may be left out): *right*, *wrong*, *unsure*.
An item that an earlier stage accepts then changes the sums of "everything left goes to the last stage" by one bit each:

- it leaves early, which saves cost: bit *confident*, in every region;
- it is accepted where it would not have been: bit *confident*, in the region *unsure*;
- its label turns from right to wrong (region *right*), or becomes right (the other two): bit *swing*.

So two bits an item score the last two stages at once. Where features may be left out, no last stage is forced, and all items are
*unsure*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Mask
from emsco_train.errors import DesignError
from emsco_train.search.scoring.bit_cache import Words, pack_bits, unpack_bits

__all__ = ["SetBits", "SetLayout", "Units", "Words"]

Units: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SetBits:
    """What the model of every feature set says about every validation item; row = mask of the set, row 0 (no feature) is unused.

    Parameters
    ----------
    confident
        Items on which the set's model is confident enough [2**n, words], item i in bit i % 64 of word i // 64.
    right
        Items on which it is confident and right [2**n, words].
    cost
        Cost units of acquiring the set [2**n]; a set costs no less than any of its subsets.
    rows
        Number of validation items; bits beyond are zero.
    """

    confident: Words
    right: Words
    cost: Units
    rows: int

    def __post_init__(self) -> None:
        """Check shapes, types and padding, which the compiled walk relies on."""
        words = -(-self.rows // 64)
        if words < 1:
            raise DesignError(f"bits: expected at least 1 row, got {self.rows}")
        for name, values, shape, dtype in (
            ("confident", self.confident, (len(self.cost), words), np.uint64),
            ("right", self.right, (len(self.cost), words), np.uint64),
            ("cost", self.cost, (len(self.cost),), np.int64),
        ):
            if values.shape != shape or values.dtype != dtype:
                expected, got = f"{np.dtype(dtype)}{list(shape)}", f"{values.dtype}{list(values.shape)}"
                raise DesignError(f"bits: {name}: expected {expected} for {self.rows} rows, got {got}")
        _check_values(self)


def _check_values(bits: SetBits) -> None:
    spare = bits.rows % 64
    beyond = ~np.uint64(0) << np.uint64(spare) if spare else np.uint64(0)
    if (bits.confident[1:, -1] & beyond).any() or (bits.right[1:] & ~bits.confident[1:]).any():
        raise DesignError("bits: bits beyond the last row must be zero, and right items must be confident ones")
    sets = np.arange(len(bits.cost))
    for feature in range(len(sets).bit_length() - 1):
        less = sets[(sets >> feature & 1 == 0) & (sets > 0)]
        worse = less[bits.cost[less] > bits.cost[less | 1 << feature]]
        if len(worse):
            raise DesignError(f"bits: adding feature {feature} to set {worse[0]} makes it cheaper; costs must not fall")
    if bits.cost[1:].min() < 0:
        raise DesignError(f"bits: a set costs {bits.cost[1:].min()} units; costs are at least 0")


class SetLayout(NamedTuple):
    """Everything about the sets that the compiled walk reads; a tuple because numba takes no dataclass.

    `pairs` holds *confident* and *swing* words side by side, set after set. `reach` has, for each set, three rows of words: items
    on which some larger set is confident, is right, and items that will surely be accepted with a wrong label. `after` is
    what an item still waiting pays in the last stage, `step` what it pays at least for continuing, `rest` what more it pays if no
    larger set is confident on it. `ends` are the ends of the three regions in words.
    """

    pairs: Words
    reach: Words
    cost: Units
    after: Units
    step: Units
    rest: Units
    ends: tuple[int, int, int]
    valid: Words
    features: int
    rows: int
    closed: bool
    min_accepted: int
    max_accepted: int
    max_wrong: int

    @classmethod
    def of(cls, bits: SetBits, features: int, *, closed: bool) -> SetLayout:
        """Lay out the bits; `closed` when every design ends in the full set."""
        confident, right = unpack_bits(bits.confident, bits.rows), unpack_bits(bits.right, bits.rows)
        order, ends = _split_regions(confident, right, closed=closed)
        arranged = [pack_bits(_arrange(table, order)) for table in (confident, right)]
        swing = arranged[1].copy()
        swing[:, : ends[0]] ^= arranged[0][:, : ends[0]]
        any_confident, any_right = (_union_of_supersets(words, features) for words in arranged)
        doomed = (arranged[0][-1] & ~any_right) if closed else np.zeros_like(any_right)
        step = _cheapest_step(bits.cost, features)
        after = bits.cost[-1] - bits.cost if closed else np.zeros_like(bits.cost)
        union = np.bitwise_or.reduce(arranged[0][1:], axis=0)
        wrong = np.bitwise_or.reduce(arranged[0][1:] & ~arranged[1][1:], axis=0)
        return cls(
            pairs=np.stack([arranged[0], swing], axis=2).ravel(),
            reach=np.ascontiguousarray(np.stack([any_confident, any_right, doomed], axis=1)),
            cost=bits.cost,
            after=after,
            step=step,
            rest=np.maximum(after - step, 0),
            ends=ends,
            valid=union,
            features=features,
            rows=bits.rows,
            closed=closed,
            min_accepted=_popcount(arranged[0][-1]) if closed else 0,
            max_accepted=_popcount(union),
            max_wrong=_popcount(wrong),
        )


def _popcount(words: Words) -> int:
    """Return how many bits are set."""
    return int(np.unpackbits(words.view(np.uint8)).sum())


def _split_regions(confident: Mask, right: Mask, *, closed: bool) -> tuple[list[NDArray[np.intp]], tuple[int, int, int]]:
    """Return the items of each region and the regions' ends in words; items that no set ever accepts are in none of them."""
    ever = confident[1:].any(axis=0)
    last = confident[-1] if closed else np.zeros_like(ever)
    parts = [np.flatnonzero(part) for part in (last & right[-1], last & ~right[-1], ever & ~last)]
    ends = np.cumsum([-(-len(part) // 64) for part in parts]).tolist()
    return parts, (ends[0], ends[1], ends[2])


def _arrange(table: Mask, parts: list[NDArray[np.intp]]) -> Mask:
    """Return the columns region by region, each filled up with zeros to whole words."""
    columns = [np.zeros((len(table), -(-len(part) // 64) * 64), dtype=np.bool_) for part in parts]
    for filled, part in zip(columns, parts, strict=True):
        filled[:, : len(part)] = table[:, part]
    return np.concatenate(columns, axis=1)


def _union_of_supersets(words: Words, features: int) -> Words:
    """Return, for each set, the union of the words of all strictly larger sets."""
    sets = np.arange(len(words))
    within = words.copy()
    for feature in range(features):
        without = sets[sets >> feature & 1 == 0]
        within[without] |= within[without | 1 << feature]
    strict = np.zeros_like(words)
    for feature in range(features):
        without = sets[sets >> feature & 1 == 0]
        strict[without] |= within[without | 1 << feature]
    return strict


def _cheapest_step(cost: Units, features: int) -> Units:
    """Return what the cheapest further feature adds to each set's cost; 0 for the full set."""
    sets = np.arange(len(cost))
    cheapest = np.full(len(cost), np.iinfo(np.int64).max)
    for feature in range(features):
        without = sets[sets >> feature & 1 == 0]
        cheapest[without] = np.minimum(cheapest[without], cost[without | 1 << feature] - cost[without])
    cheapest[-1] = 0
    return cheapest
