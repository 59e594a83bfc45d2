"""`cross_fit`: features that come from labels, such as how often a sender's mail was spam, without a row's own label in them.

What a store of counts says of a row that it has counted is partly that row's own label: a sender seen once, in this very spam,
would look like a sure sign, and stage models would trust the store far more than new rows deserve. So the rows that are learned
from are divided into folds, and each fold is read from statistics of the other folds. All other rows, and later the live ones,
are read from the statistics of all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from emsco_train.data.split_keys import canonical_group
from emsco_train.errors import DataError

__all__ = ["cross_fit", "deal_folds"]

_Statistics = TypeVar("_Statistics")
_Value = TypeVar("_Value")


def deal_folds(groups: Sequence[Hashable | None], folds: int = 10) -> list[int | None]:
    """Return a fold for each row, the same for all rows of a group; None for rows whose group is None.

    The fold of a group depends on the group alone: other rows change nothing.

    Parameters
    ----------
    groups
        A group for each row, such as the families of `group_near_duplicates`.
    folds
        How many, at least 2.

    Raises
    ------
    DataError
        If there are fewer.

    Examples
    --------
    >>> deal_folds(["ann", "bob", "ann", None], folds=3)
    [2, 1, 2, None]
    """
    if folds < 2:
        raise DataError(f"folds is {folds}: expected at least 2")
    return [None if group is None else _fold(group, folds) for group in groups]


def cross_fit(
    groups: Sequence[Hashable | None],
    learn: Callable[[Sequence[int]], _Statistics],
    read: Callable[[_Statistics, Sequence[int]], Sequence[_Value]],
    *,
    folds: int = 10,
) -> list[_Value]:
    """Return what is read of each row from statistics that were learned without its fold.

    Parameters
    ----------
    groups
        As in `deal_folds`: rows that belong together, so that no copy of a row speaks for it. None for a row that nothing is
        learned from (of test or certify): it is read from the statistics of all others.
    learn
        Called with the places of the rows to leave out; returns the statistics of all other rows that are learned from. Called
        with none of them, it returns what is used in production.
    read
        Called with statistics and the places of rows; returns a value for each of these rows.
    folds
        As in `deal_folds`.

    Examples
    --------
    >>> senders, labels = ["ann", "ann", "bob", "ann"], [0, 1, 1, 1]
    >>> def learn(left_out):
    ...     return [(senders[row], labels[row]) for row in (0, 1, 2) if row not in left_out]
    >>> def read(counted, rows):
    ...     return [[label for sender, label in counted if sender == senders[row]] for row in rows]
    >>> cross_fit([0, 2, 4, None], learn, read)
    [[1], [0], [], [0, 1]]
    """
    dealt = deal_folds(groups, folds)
    found: dict[int, _Value] = {}
    for fold in [*sorted({fold for fold in dealt if fold is not None}), None]:
        rows = [row for row, its in enumerate(dealt) if its == fold]
        if rows:
            statistics = learn(rows if fold is not None else ())
            found.update(zip(rows, read(statistics, rows), strict=True))
    return [found[row] for row in range(len(dealt))]


def _fold(group: Hashable, folds: int) -> int:
    plain = canonical_group(group)
    return random.Random(plain if isinstance(plain, int) else str(plain)).randrange(folds)  # noqa: S311 - no secret
