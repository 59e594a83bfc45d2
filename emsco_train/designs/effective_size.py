"""How much rows say that come in groups or have weights: the sizes that bounds may use instead of counts.

Rows of one group resemble each other, so a hundred rows of ten patients say less than a hundred patients would. The effective
size of a sample is how many independent rows of equal weight would estimate a share as precisely. The share is a ratio of two
sums over groups, and its variance that of the linearised ratio, between groups.

A share of 0 or 1 has no variance to estimate, and where few groups have hits, or misses, it says little. Then each group counts
as one row, since all of its rows may go together; unequal groups and weights count by Kish's effective number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.designs.precision import LabelSizes, Precision

__all__ = ["measure_label_sizes", "measure_precision", "standard_error"]


# With hits, or misses, in fewer groups, how much these differ says little about others.
_FEW_GROUPS = 5
_LARGE_COST = 1e100


def measure_precision(
    accepted: Mask, right: Mask, costs: Floats, groups: Ints | None = None, weights: Floats | None = None
) -> Precision:
    """Return how much rows say about coverage, accuracy and mean cost of a design.

    Parameters
    ----------
    accepted, right
        Which rows are accepted, and which of those get the right label.
    costs
        What each row cost.
    groups
        A number for each row, equal for rows that may depend on each other; None: all rows are independent.
    weights
        How much each row counts, some above 0; None: all the same.

    Examples
    --------
    >>> accepted, right = np.array([True] * 8 + [False] * 2), np.array([True] * 7 + [False] * 3)
    >>> precision = measure_precision(accepted, right, np.ones(10))
    >>> round(precision.rows, 9), round(precision.accepted, 9), precision.cost_error
    (10.0, 8.0, 0.0)
    >>> measure_precision(accepted, accepted, np.ones(10), groups=np.arange(10) // 2).accepted
    4.0
    """
    if weights is not None and not weights.all():
        # A row without weight says nothing.
        there = weights > 0
        of_groups = None if groups is None else groups[there]
        return measure_precision(accepted[there], right[there], costs[there], of_groups, weights[there])
    count = len(accepted)
    weight = np.ones(count) if weights is None else weights
    group = np.arange(count) if groups is None else np.unique(groups, return_inverse=True)[1]
    all_weight, accepted_weight, right_weight = (_sum_by_group(group, weight * part) for part in (1, accepted, right))
    return Precision(
        rows=_effective_size(all_weight, accepted_weight, count),
        accepted=_effective_size(accepted_weight, right_weight, int(accepted.sum())),
        cost_error=_mean_error(costs, group, weight),
    )


def measure_label_sizes(
    answer: Ints, target: Ints, labels: int, groups: Ints | None = None, weights: Floats | None = None
) -> tuple[LabelSizes, ...]:
    """Return how much rows say about the recall and the accuracy of each of `labels` labels.

    `answer` and `target` hold the position of the label that each row got, -1 for a rejected one, and of the one that it has;
    for `groups` and `weights` see `measure_precision`.

    Examples
    --------
    >>> answer, target = np.array([0, 0, 0, 1, -1, 1]), np.array([0, 0, 1, 1, 1, 1])
    >>> measure_label_sizes(answer, target, 2, groups=np.array([0, 0, 1, 1, 2, 3]))[0]
    LabelSizes(rows=1.0, accepted_as=1.8)
    """
    if weights is not None and not weights.all():
        there = weights > 0
        of_groups = None if groups is None else groups[there]
        return measure_label_sizes(answer[there], target[there], labels, of_groups, weights[there])
    count = len(answer)
    weight = np.ones(count) if weights is None else weights
    group = np.arange(count) if groups is None else np.unique(groups, return_inverse=True)[1]
    right = answer == target
    among = {"rows": (target, np.ones(count, dtype=np.bool_)), "accepted_as": (answer, answer >= 0)}
    sizes = {}
    for name, (label, there) in among.items():
        sums = _sum_by_group_and_label(group, label, there, weight, labels)
        hits = _sum_by_group_and_label(group, label, there & right, weight, labels)
        rows = np.bincount(label[there], minlength=labels).tolist()
        sizes[name] = [_effective_size(sums[:, place], hits[:, place], rows[place]) for place in range(labels)]
    return tuple(map(LabelSizes, sizes["rows"], sizes["accepted_as"]))


def standard_error(counts: Sequence[int], costs: Sequence[float]) -> float:
    """Return the standard error of the mean cost of independent rows, given how many there are at each cost; 0 for one row.

    Examples
    --------
    >>> import statistics
    >>> round(standard_error([3, 1], [1.0, 5.0]), 6) == round(statistics.stdev([1, 1, 1, 5]) / 2, 6)
    True
    """
    rows = sum(counts)
    if rows < 2:
        return 0.0
    mean = math.fsum(count * cost for count, cost in zip(counts, costs, strict=True)) / rows
    # The square of a price may be more than a number can hold.
    scale = max(costs) if max(costs) > _LARGE_COST else 1.0
    squares = math.fsum(count * ((cost - mean) / scale) ** 2 for count, cost in zip(counts, costs, strict=True))
    return scale * math.sqrt(squares / (rows * (rows - 1)))


def _effective_size(sizes: Floats, hits: Floats, rows: int) -> float:
    """Return the effective size of `rows` rows, from the weight of each group and that of its hits."""
    there = sizes > 0
    sizes, hits = sizes[there], hits[there]
    groups, total = len(sizes), float(sizes.sum())
    if not groups:
        return 0.0
    most = min(float(rows), total**2 / float((sizes**2).sum()))
    if min(np.count_nonzero(hits), np.count_nonzero(hits < sizes)) < _FEW_GROUPS:
        return most
    share = float(hits.sum()) / total
    variance = groups / (groups - 1) * float(((hits - share * sizes) ** 2).sum()) / total**2
    # This many independent rows would have the same unbiased estimate of the variance, which divides by one less.
    return min(float(rows), 1.0 + share * (1.0 - share) / variance) if variance else float(rows)


def _mean_error(costs: Floats, group: Ints, weight: Floats) -> float:
    """Return the standard error of the weighted mean, from the differences between groups."""
    total = float(weight.sum())
    differences = weight * (costs - float((weight * costs).sum()) / total)
    sums = _sum_by_group(group, differences)
    if len(sums) == 1:
        # One group says as much as one row.
        return math.sqrt(float((differences**2 / weight).sum()) / total)
    return math.sqrt(len(sums) / (len(sums) - 1) * float((sums**2).sum())) / total


def _sum_by_group(group: Ints, values: Floats) -> Floats:
    return np.bincount(group, values).astype(np.float64)


def _sum_by_group_and_label(group: Ints, label: Ints, there: Mask, weight: Floats, labels: int) -> Floats:
    """Return the weight of the rows that are there [groups, labels]."""
    groups = int(group.max()) + 1 if len(group) else 0
    cells = np.bincount(group[there] * labels + label[there], weight[there], minlength=groups * labels)
    return cells.astype(np.float64).reshape(groups, labels)
