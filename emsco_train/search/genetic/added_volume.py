"""The compiled loop behind `spread_over_front`: how much a design adds to the volume that others dominate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emsco_train.support.compiled import jit_entry

__all__ = ["added_volume"]


@jit_entry()
def added_volume(
    points: NDArray[np.float64], taken: NDArray[np.int64], new: int, reference: NDArray[np.float64]
) -> float:  # pragma: no cover - compiled
    """Return the volume up to the reference that a point dominates and none of those taken does; all three are minimised.

    `points` [points, 3] are all of them, `new` is the position of one, and `taken` the positions of others, in ascending order
    of the last coordinate. The volume is summed in slices along that: in each, those taken so far cover a staircase of the
    rectangle that the new point dominates.
    """
    left, bottom, low = points[new]
    right, top, high = reference
    area = (right - left) * (top - bottom)
    # The corners of the staircase, from left to right, and so from top to bottom.
    xs, ys = np.empty(len(taken)), np.empty(len(taken))
    count, covered = 0, 0.0
    volume: float = 0.0
    for place in taken:
        x, y, z = max(points[place, 0], left), max(points[place, 1], bottom), points[place, 2]
        if x >= right or y >= top or z >= high:
            continue
        if z > low:
            volume += (area - covered) * (z - low)
            low = z
        if x == left and y == bottom:
            return volume
        first = np.searchsorted(xs[:count], x)
        if (first > 0 and ys[first - 1] <= y) or (first < count and xs[first] == x and ys[first] <= y):
            continue
        last, at, height = first, x, ys[first - 1] if first > 0 else top
        while last < count and ys[last] >= y:
            covered += (xs[last] - at) * (height - y)
            at, height = xs[last], ys[last]
            last += 1
        covered += ((xs[last] if last < count else right) - at) * (height - y)
        # The new corner takes the place of those that it covers.
        if last == first:
            for corner in range(count, first, -1):
                xs[corner], ys[corner] = xs[corner - 1], ys[corner - 1]
        else:
            for corner in range(last, count):
                xs[corner - last + first + 1], ys[corner - last + first + 1] = xs[corner], ys[corner]
        xs[first], ys[first] = x, y
        count += 1 - (last - first)
    volume += (area - covered) * (high - low)
    return volume
