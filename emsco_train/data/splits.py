"""Splits: which rows train the stage models, measure designs, report, and certify.

`make_splits` divides rows in three ways. Plain: stratified by label. With `groups`: rows of a group stay together, stratified as
well as whole groups allow. With `time`: the earliest rows train, the latest certify, as in production; labels are not balanced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Array, Floats, Ints, Mask
from emsco_train.data.split_keys import group_codes, time_codes
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_number
from emsco_train.support.validation_errors import raise_faults

__all__ = [
    "PAPER_SHARES",
    "SPLITS",
    "Shares",
    "Splits",
    "assign_groups",
    "check_shares",
    "cut_by_time",
    "default_shares",
    "is_small_table",
    "make_splits",
    "refuse_groups_with_time",
    "stratified_counts",
]

SPLITS = ("train", "validation", "test", "certify")
# Of fewer rows, a fifth is too few to report anything: they serve better among those that fit and measure.
_SMALL_TABLE_ROWS = 300


@dataclass(frozen=True, slots=True)
class Shares:
    """Share of the rows of each split; they add up to 1.

    Parameters
    ----------
    train
        Fits the stage models; above 0.
    validation
        Measures designs during the search and when one is selected; cross-fitted, its rows and the train rows are one pool.
    test
        Reports; may be 0.
    certify
        Not used until a certificate is made; may be 0.
    """

    train: float = 0.4
    validation: float = 0.2
    test: float = 0.2
    certify: float = 0.2

    def __post_init__(self) -> None:
        """Check that the shares are numbers from 0 to 1 that add up to 1."""
        shares = dict(zip(SPLITS, self.values(), strict=True))
        faults = [
            f"the {name} share is {share!r}: expected a number from 0 to 1"
            for name, share in shares.items()
            if not is_number(share) or not 0 <= share <= 1
        ]
        if not faults:
            faults = [] if self.train else ["the train share is 0: the search needs such rows"]
            total = math.fsum(self.values())
            if not math.isclose(total, 1, abs_tol=1e-9):
                faults.append(f"{' + '.join(str(share) for share in self.values())} is {total:g}: together they must be 1")
        raise_faults("shares", faults)

    def values(self) -> tuple[float, ...]:
        """Return the shares in the order of `SPLITS`."""
        return (self.train, self.validation, self.test, self.certify)


PAPER_SHARES = Shares(0.5, 0.25, 0.25, 0.0)


def check_shares(shares: object) -> Shares | None:
    """Return shares as they are, or None for the default; raise `DesignError` for anything else.

    Examples
    --------
    >>> check_shares((0.6, 0.2, 0.0, 0.2))
    Traceback (most recent call last):
        ...
    emsco_train.errors.DesignError: shares is (0.6, 0.2, 0.0, 0.2): expected a `Shares`, such as Shares(train=0.6, ...
    """
    if shares is None or isinstance(shares, Shares):
        return shares
    example = "Shares(train=0.6, validation=0.2, test=0.0, certify=0.2), which is in `emsco_train`"
    raise DesignError(f"shares is {shares!r}: expected a `Shares`, such as {example}")


def is_small_table(rows: int) -> bool:
    """Return whether a table has so few rows that other defaults serve it better: no test rows, few stages."""
    return rows < _SMALL_TABLE_ROWS


def default_shares(rows: int) -> Shares:
    """Return how a table of `rows` rows is divided by default.

    Examples
    --------
    >>> default_shares(1000).test, default_shares(155).test
    (0.2, 0.0)
    """
    return Shares(0.6, 0.2, 0.0, 0.2) if is_small_table(rows) else Shares()


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """Row positions of each split: every row of the table in exactly one.

    Parameters
    ----------
    train, validation, test, certify
        Positions, ascending; all but `train` may be empty.

    Examples
    --------
    >>> splits = Splits.from_names(["train", "test", "validation", "train"])
    >>> splits.train, splits.rows, splits.names().tolist()
    (array([0, 3]), 4, ['train', 'test', 'validation', 'train'])
    """

    train: Ints
    validation: Ints
    test: Ints
    certify: Ints

    def __post_init__(self) -> None:
        """Sort the positions, make them read-only, and check that they divide the rows."""
        for name in SPLITS:
            object.__setattr__(self, name, _check_positions(getattr(self, name), name))
        all_rows = np.sort(np.concatenate([rows for _, rows in self.items()]))
        wrong = np.flatnonzero(all_rows != np.arange(len(all_rows)))
        if len(wrong):
            at = int(wrong[0])
            # Sorted positions first differ from 0, 1, 2, ... at one that occurs twice or at one that was skipped.
            detail = f"row {all_rows[at]} is in two splits" if all_rows[at] < at else f"row {at} is in no split"
            raise DesignError(f"splits: {detail}; each of {pluralize(len(all_rows), 'row')} must be in exactly one")
        if not len(self.train):
            raise DesignError("splits: train has no rows: the search needs some")

    @classmethod
    def from_names(cls, names: Sequence[str] | Array) -> Splits:
        """Make splits from the name of each row's split, as `names` gives them."""
        given, codes = list(names), {name: code for code, name in enumerate(SPLITS)}
        if not codes.keys() >= set(given):
            row, name = next((row, name) for row, name in enumerate(given) if name not in codes)
            raise DesignError(f"splits, row {row}: {name!r} is not one of {', '.join(SPLITS)}")
        return _splits_from_codes(np.fromiter(map(codes.__getitem__, given), dtype=np.intp, count=len(given)))

    @property
    def rows(self) -> int:
        """Number of rows in all."""
        return sum(len(rows) for _, rows in self.items())

    def items(self) -> Iterator[tuple[str, Ints]]:
        """Iterate over the name and the positions of each split, empty ones included."""
        return ((name, getattr(self, name)) for name in SPLITS)

    def names(self) -> Array:
        """Return the name of each row's split, in the order of the rows."""
        names: Array = np.empty(self.rows, dtype=object)
        for name, rows in self.items():
            names[rows] = name
        return names


def make_splits(
    target: Ints,
    shares: Shares,
    *,
    groups: Any = None,
    time: Any = None,
    rng: np.random.Generator,
    labels: Sequence[Label] | None = None,
) -> Splits:
    """Divide rows among the splits. The train rows have every label; rows of a rare one may not be enough for all the others.

    Parameters
    ----------
    target
        Position of each row's label.
    shares
        Share of each split. Plain: each label is divided to within one row, and every split gets at least one row of it; of a
        label with fewer rows than there are splits, the first ones get a row each.
    groups
        One value per row: rows with equal values stay together. The certify groups are a random sample, every group with the
        same chance, as a guarantee needs it; those of a label with fewer groups than there are splits are left out of it. The
        others are assigned largest first (equal sizes in random order), each to the split that lacks most of the group's labels;
        a split that would otherwise miss a label comes first.
    time
        One number, date or ISO 8601 text per row: the earliest rows train, the latest certify. Equal times stay together, so
        shares are met as closely as they allow. Nothing is random, and labels are not balanced.
    rng
        Source of randomness. The same generator gives the same splits; with `groups` or `time`, each value goes to the same split
        whatever the order of the rows.
    labels
        The labels in order, for error messages.

    Examples
    --------
    >>> splits = make_splits(np.array([0, 1] * 10), Shares(), rng=np.random.default_rng(0))
    >>> [len(rows) for _, rows in splits.items()]
    [8, 4, 4, 4]
    """
    refuse_groups_with_time(groups, time)
    count = int(target.max()) + 1
    known = range(count) if labels is None else labels
    if groups is not None:
        codes = group_codes(groups, rows=len(target))
        part = _split_groups(codes, target, count, np.array(shares.values()), rng)[codes]
    elif time is not None:
        codes = time_codes(time, rows=len(target))
        part = cut_by_time(np.bincount(codes), np.array(shares.values()))[codes]
    else:
        part = _split_rows(target, known, np.array(shares.values()), rng)
    absent = np.bincount(target[part == 0], minlength=len(known)) == 0
    if absent.any():
        advice = "give more rows of it, drop it, or choose other shares, groups or times"
        raise DataError(f"label {known[int(np.argmax(absent))]!r} has no row in the train split: {advice}")
    return _splits_from_codes(part)


def refuse_groups_with_time(groups: Any, time: Any) -> None:
    """Raise if both are given: splits and folds cannot respect both."""
    if groups is not None and time is not None:
        raise DesignError("groups and time were both given, and a group may span times: give one of them")


def stratified_counts(sizes: Sequence[int], shares: Floats) -> Ints:
    """Return how many rows of each label go to each split [labels, splits].

    Every number is its exact share rounded down or up; the rest of a label goes to the splits with the largest deficit so far, so
    that whole splits are close to their shares too. A split that would get none of a label takes one from the split with most;
    of a label with fewer rows than there are shares above 0, the first splits get one each.

    Examples
    --------
    >>> stratified_counts([10, 5], np.array([0.4, 0.2, 0.2, 0.2])).tolist()
    [[4, 2, 2, 2], [2, 1, 1, 1]]
    """
    counts = np.zeros((len(sizes), len(shares)), dtype=np.intp)
    deficit = np.zeros(len(shares))
    used = np.flatnonzero(shares > 0)
    for row, size in enumerate(sizes):
        if size <= len(used):
            counts[row, used[:size]] = 1
            continue
        # Rounded, so that 0.1 * 30 is the whole number that is meant.
        exact = np.round(shares * size, 9)
        part = np.floor(exact).astype(np.intp)
        deficit += exact - part
        open_splits = np.flatnonzero(exact > part)
        first = open_splits[np.argsort(-deficit[open_splits], kind="stable")][: size - int(part.sum())]
        part[first] += 1
        deficit[first] -= 1
        for empty in np.flatnonzero((part == 0) & (shares > 0)):
            part[np.argmax(part)] -= 1
            part[empty] += 1
        counts[row] = part
    return counts


def _split_rows(target: Ints, labels: Sequence[Label], shares: Floats, rng: np.random.Generator) -> Ints:
    sizes = np.bincount(target, minlength=len(labels)).tolist()
    part = np.empty(len(target), dtype=np.intp)
    for position, counts in enumerate(stratified_counts(sizes, shares)):
        rows = rng.permutation(np.flatnonzero(target == position))
        part[rows] = np.repeat(np.arange(len(shares)), counts)
    return part


def _split_groups(codes: Ints, target: Ints, labels: int, shares: Floats, rng: np.random.Generator) -> Ints:
    """Return the split of each group: certify groups are drawn, the others are assigned so that the rest fits."""
    certify = SPLITS.index("certify")
    if not shares[certify]:
        return assign_groups(codes, target, labels, shares, rng)
    drawn = _draw_groups(_count_labels(codes, target, labels), shares[certify], int((shares > 0).sum()), rng)
    left = ~drawn[codes]
    _, own = np.unique(codes[left], return_inverse=True)
    others = np.where(np.arange(len(shares)) == certify, 0.0, shares)
    split = np.full(len(drawn), certify, dtype=np.intp)
    split[~drawn] = assign_groups(own, target[left], labels, others / others.sum(), rng)
    return split


def _draw_groups(group_counts: Ints, share: float, splits: int, rng: np.random.Generator) -> Mask:
    """Return which groups are drawn, each with the same chance, evenly over the sizes; none of a label that has too few."""
    has_label = group_counts > 0
    scarce = has_label.sum(axis=0) < splits
    order = _largest_first(np.flatnonzero(~has_label[:, scarce].any(axis=1)), group_counts, rng)
    steps = np.floor(rng.random() + share * np.arange(len(order) + 1))
    drawn = np.zeros(len(group_counts), dtype=np.bool_)
    # However large its share, a group is left to each of the other splits.
    drawn[order[np.diff(steps) > 0][: len(group_counts) - splits + 1]] = True
    return drawn


def assign_groups(codes: Ints, target: Ints, labels: int, shares: Floats, rng: np.random.Generator) -> Ints:
    """Return the split of each group."""
    group_counts = _count_labels(codes, target, labels)
    # In shares of a label, so that a rare label counts as much as a common one.
    wanted = group_counts / np.maximum(group_counts.sum(axis=0), 1)
    deficit = np.repeat(shares[:, None], labels, axis=1)
    lacks_label = np.repeat(shares[:, None] > 0, labels, axis=1)
    groups_left = (group_counts > 0).sum(axis=0)
    split = np.empty(len(group_counts), dtype=np.intp)
    for group in _largest_first(np.arange(len(group_counts)), group_counts, rng):
        present = group_counts[group] > 0
        urgent = present & (lacks_label.sum(axis=0) >= groups_left)
        priority = deficit @ wanted[group] + 2.0 * (lacks_label & urgent).sum(axis=1)
        priority[shares == 0] = -np.inf
        split[group] = chosen = int(np.argmax(priority))
        deficit[chosen] -= wanted[group]
        lacks_label[chosen] &= ~present
        groups_left -= present
    return split


def _count_labels(codes: Ints, target: Ints, labels: int) -> Ints:
    """Return the rows of each label in each group [groups, labels]."""
    return np.bincount(codes * labels + target, minlength=(int(codes.max()) + 1) * labels).reshape(-1, labels)


def _largest_first(groups: Ints, group_counts: Ints, rng: np.random.Generator) -> Ints:
    """Return groups by size, equal sizes in random order."""
    order = rng.permutation(groups)
    return order[np.argsort(-group_counts.sum(axis=1)[order], kind="stable")]


def cut_by_time(sizes: Ints, shares: Floats) -> Ints:
    """Return the split of each moment: cut where the rows so far are closest to the shares so far."""
    used = np.flatnonzero(shares > 0)
    if len(sizes) < len(used):
        counts = f"{pluralize(len(sizes), 'different value')} for {pluralize(len(used), 'split')}"
        raise DataError(f"time has {counts}: give finer times, or use fewer splits")
    so_far = np.cumsum(sizes)
    wanted = np.cumsum(shares[used]) * so_far[-1]
    split = np.full(len(sizes), used[-1], dtype=np.intp)
    start = 0
    for index, name in enumerate(used[:-1]):
        nearest = int(np.argmin(np.abs(so_far - wanted[index]))) + 1
        # At least one moment for this split, and one for each that follows.
        stop = max(start + 1, min(nearest, len(sizes) - (len(used) - 1 - index)))
        split[start:stop] = name
        start = stop
    return split


def _check_positions(rows: Any, name: str) -> Ints:
    given = np.asarray(rows)
    if given.ndim != 1 or (len(given) and given.dtype.kind not in "iu"):
        raise DesignError(
            f"splits: {name} is {given.dtype} of shape {given.shape}: expected row positions, which are whole numbers"
        )
    positions: Ints = np.sort(given.astype(np.intp))
    if len(positions) and positions[0] < 0:
        raise DesignError(f"splits: {name} holds row {positions[0]}: rows are counted from 0")
    positions.flags.writeable = False
    return positions


def _splits_from_codes(part: Ints) -> Splits:
    return Splits(*(np.flatnonzero(part == position) for position in range(len(SPLITS))))
