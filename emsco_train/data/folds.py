"""Folds: every row of a pool both fits and measures, and no row is scored by a model that has seen it.

Plain: each fold has its share of every label. With `groups`: rows of a group are in one fold. With `time`: forward chaining, so
that rows are only ever scored by models of earlier rows; the first block, which nothing can score, is in no fold. Nor are rows of
a label that would be in one fold alone, such as a single row: they fit the models of every fold, which must know all labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Ints
from emsco_train.data.splits import assign_groups, cut_by_time
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_integer

__all__ = ["AUTO_FOLDS", "MAX_AUTO_ROWS", "Fold", "check_folds", "make_folds", "resolve_folds"]

# What `folds=None` means: this many folds, for pools of at most this many rows. Larger ones have validation rows enough.
AUTO_FOLDS, MAX_AUTO_ROWS = 5, 10_000
_UNSCORED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Positions in the pool, ascending: the rows that fit, and the rows that their models score; no row is both."""

    fitted: Ints
    scored: Ints


def check_folds(folds: object) -> int | None:
    """Return a number of folds: 0, 2 or more, or None for the default; raise `DesignError` for anything else."""
    if folds is None:
        return None
    if not is_integer(folds) or folds < 0 or folds == 1:
        raise DesignError(f"folds is {folds!r}: expected 2 or more, or 0 for one validation split; leave it out for the default")
    return int(folds)


def resolve_folds(folds: object, rows: int, *, groups: Ints | None = None, time: Ints | None = None) -> int:
    """Return how many folds a pool of `rows` rows gets: as asked for, or by default, which is fewer for few groups or times.

    Examples
    --------
    >>> resolve_folds(None, 1000), resolve_folds(None, 1_000_000), resolve_folds(0, 1000)
    (5, 0, 0)
    >>> resolve_folds(None, 6, groups=np.array([0, 0, 1, 1, 2, 2])), resolve_folds(None, 2, time=np.array([0, 1]))
    (3, 0)
    """
    checked = check_folds(folds)
    if checked is not None:
        return checked
    most = AUTO_FOLDS if rows <= MAX_AUTO_ROWS else 0
    if groups is not None:
        most = min(most, int(groups.max()) + 1)
    if time is not None:
        # The first block is no fold.
        most = min(most, int(time.max()))
    return most if most > 1 else 0


def make_folds(
    target: Ints,
    folds: int,
    *,
    groups: Ints | None = None,
    time: Ints | None = None,
    rng: np.random.Generator,
    labels: Sequence[Label],
) -> tuple[Fold, ...]:
    """Divide the rows of a pool into folds; the models of each fold see every label.

    `target` holds the position of each row's label, `groups` and `time` codes as `group_codes` and `time_codes` give them.

    Examples
    --------
    >>> folds = make_folds(np.array([0, 1] * 6), 3, rng=np.random.default_rng(0), labels=("ham", "spam"))
    >>> [(len(fold.fitted), len(fold.scored)) for fold in folds]
    [(8, 4), (8, 4), (8, 4)]
    """
    if time is not None:
        return _chain_forward(target, folds, time, labels)
    if groups is not None:
        count = int(groups.max()) + 1
        if count < folds:
            advice = "use fewer folds, or `folds=0`" if count > 1 else "give more groups, or a share to validation rows"
            raise DataError(f"{pluralize(count, 'group')} for {pluralize(folds, 'fold')}: {advice}")
        part = assign_groups(groups, target, len(labels), np.full(folds, 1.0 / folds), rng)[groups]
    else:
        part = _stratify(target, folds, rng)
    part[_find_unscorable(target, part, groups, len(labels))] = _UNSCORED
    result = tuple(Fold(np.flatnonzero(part != fold), np.flatnonzero(part == fold)) for fold in range(folds))
    kept = tuple(fold for fold in result if len(fold.scored))
    if not kept:
        units = "rows" if groups is None else "groups"
        raise DataError(
            f"no row can be cross-fitted: the {units} of each label must be in at least two folds. Give more {units} of each "
            "label, or use `folds=0`"
        )
    return kept


def _stratify(target: Ints, folds: int, rng: np.random.Generator) -> Ints:
    """Deal the rows of one label after another, so that folds differ by at most one row, in each label and in all."""
    order = np.concatenate([rng.permutation(np.flatnonzero(target == label)) for label in range(int(target.max()) + 1)])
    part = np.empty(len(target), dtype=np.intp)
    part[order] = np.arange(len(target)) % folds
    return part


def _chain_forward(target: Ints, folds: int, time: Ints, labels: Sequence[Label]) -> tuple[Fold, ...]:
    moments = int(time.max()) + 1
    if moments < folds + 1:
        raise DataError(f"time has {pluralize(moments, 'different value')} for {folds + 1} blocks: use fewer folds, or `folds=0`")
    block = cut_by_time(np.bincount(time), np.full(folds + 1, 1.0 / (folds + 1)))
    # The first block must hold every label: it ends no earlier than the first moment by which all were seen.
    seen = max(int(time[target == label].min()) for label in range(len(labels)))
    block[: seen + 1] = 0
    part = block[time]
    result = tuple(Fold(np.flatnonzero(part < fold), np.flatnonzero(part == fold)) for fold in range(1, folds + 1))
    kept = tuple(fold for fold in result if len(fold.scored))
    if not kept:
        last = labels[int(np.argmax([time[target == label].min() for label in range(len(labels))]))]
        raise DataError(
            f"label {last!r} first occurs at the end of the pool, so no model of earlier rows knows it: use `folds=0`, or leave "
            "out its rows"
        )
    return kept


def _find_unscorable(target: Ints, part: Ints, groups: Ints | None, labels: int) -> Ints:
    """Return the rows of labels that are in one fold alone, and of the groups that have such a label."""
    present = np.zeros((labels, int(part.max()) + 1), dtype=np.bool_)
    present[target, part] = True
    found = np.flatnonzero((present.sum(axis=1) < 2)[target])
    return found if groups is None else np.flatnonzero(np.isin(groups, groups[found]))
