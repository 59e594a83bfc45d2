r"""Evidence that the mean of a live stream differs from that of an earlier sample, valid however often it is tested.

All values lie between 0 and 1; rates are means of zeros and ones. The sample: `rows` values with the sum `sample_sum`. The
stream: `items` values so far with the sum `total`. Healthy means: sample and stream have the same mean p, which is unknown.
(Exactly: each value has the conditional mean p, given all before it.)

The construction, for "the stream's mean is higher"; for "lower", count one minus each value:

1. Fix numbers r <= 0 <= l and suppose that p is the mean. A value x between 0 and 1 has exp(l x) <= 1 + x (e^l - 1), since the
   left side is convex in x; so the mean of exp(l x) / (1 + p (e^l - 1)) is at most 1. The product of this over the stream, with
   l, and over the sample, with r, is then a process that starts with a mean of at most 1 and never grows on average: a
   non-negative supermartingale. Its logarithm is
   ``r sample_sum - rows log(1 + p (e^r - 1)) + l total - items log(1 + p (e^l - 1))``.
2. A weighted mean of such processes over pairs (r, l) is another one: a mixture, so that no size of shift has to be guessed.
3. By Ville's inequality the chance that it *ever* exceeds 1 / a is at most a, if p is the mean.
4. p is not known: `MeanIncreaseTest.evidence` is the least value over all p. It cannot exceed 1 / a unless the process of the
   true p does, so in a healthy stream it ever does so with a chance of at most a. This chance includes the draw of the sample,
   so the expected figures may be estimates.

The logarithm is convex in p (and in p and `total` jointly): each term is, and so is the logarithm of a sum of exponentials.
So the least value is found safely. And it grows with `total`: a value that is not known may be replaced by the least that it
can be, which only weakens the evidence.

The healthy past of a stream must not hide a late change. So `WindowedTotals` opens another window after every `restart_every`
items; the chance a is divided among the windows, by shares that add up to at most 1.

``docs/drift.md`` lists the sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats

__all__ = ["FULL_STREAM_PENALTY", "MeanIncreaseTest", "Window", "WindowedTotals"]

# Differences of log odds in the mixture: from the largest that matters, by halves, down to the least that a sample can
# show, by its number of rows.
_LARGEST_EFFECT = 4.0
_SMALLEST_EFFECT = 6.0
# A limit is not an estimate: the least difference does not depend on rows, but is that of a sample of this many.
_LIMIT_ROWS = 5000
# How a difference is divided between sample and stream: a stream shorter than the sample bears most of it, a longer one little.
# The ends, 0 and 1, keep the evidence from fading if the one is many times as long as the other.
_SAMPLE_PARTS = (0.0, 0.1, 0.35, 0.65, 0.9, 1.0)

_GRID = 17
_GRID_ROUNDS = 9
_FIRST_CHECK = 16
_TINY = 1e-12

# The whole stream gets most of the chance; the later windows share the rest.
_FULL_STREAM_SHARE = 0.8
FULL_STREAM_PENALTY = -math.log(_FULL_STREAM_SHARE)


class MeanIncreaseTest:
    """Evidence that a stream's mean is higher than that of a sample, or than a limit.

    Parameters
    ----------
    sample_sum, rows
        Sum and number of the sample's values.
    limit
        If there is no sample (no rows), but a guarantee: the mean is at most this.

    Examples
    --------
    >>> test = MeanIncreaseTest(sample_sum=400, rows=2000)
    >>> [round(test.evidence(share * 5000, 5000)[0], 1) for share in (0.2, 0.23, 0.26)]
    [-9.4, 0.7, 10.9]
    """

    def __init__(self, sample_sum: float, rows: int, *, limit: float | None = None) -> None:
        self._sample_sum = sample_sum
        self._rows = rows
        # A limit of exactly 0 or 1 would make a single value infinitely unlikely.
        self._mean_range = (0.0, 1.0) if limit is None else (min(max(limit, _TINY), 1.0 - _TINY),) * 2
        parts = _SAMPLE_PARTS if limit is None else (0.0,)
        # Large differences are found quickly anyway: the smallest has the weight 1, the next 1/2, 1/3, ...
        sizes = sorted(_effect_sizes(rows if limit is None else _LIMIT_ROWS))
        pairs = [(-size * part, size * (1.0 - part), 1.0 / rank) for rank, size in enumerate(sizes, 1) for part in parts]
        of_sample, self._exponents, weights = np.array(pairs).T
        self._stream_factors = np.expm1(self._exponents)
        self._sample_factors = np.expm1(of_sample)
        # The part that depends neither on p nor on the stream.
        self._constant_terms = of_sample * sample_sum + np.log(weights / weights.sum())

    def upper_bound(self, total: float, items: int) -> float:
        """Return a number that `evidence` cannot exceed: the log likelihood ratio with the best of all pairs; fast."""
        low, high = self._mean_range
        # Any mean gives an upper bound; 0 and 1 themselves might divide by zero.
        pooled = min(max((self._sample_sum + total) / (self._rows + items), low, _TINY), high, 1.0 - _TINY)
        return _log_likelihood_ratio(total, items, pooled) + _log_likelihood_ratio(self._sample_sum, self._rows, pooled)

    def evidence(self, total: float, items: int) -> tuple[float, float]:
        """Return the logarithm of the evidence, and how fast it grows with `total`."""
        low, high = self._mean_range
        for _ in range(_GRID_ROUNDS):  # the function is convex: each round leaves an eighth of the range
            grid = np.linspace(low, high, _GRID)
            logs = _log_sum_exp(self._terms(grid, total, items))
            at = int(logs.argmin())
            low, high = grid[max(at - 1, 0)], grid[min(at + 1, _GRID - 1)]
        terms = self._terms(grid[at : at + 1], total, items)[0]
        weights = np.exp(terms - terms.max())
        return float(logs[at]), float(weights @ self._exponents / weights.sum())

    def critical_total(self, target: float, items: int) -> float | None:
        """Return the least total whose evidence reaches the target; None where no total does."""
        total = float(items)
        while True:
            logs, slope = self.evidence(total, items)
            if logs < target and total == items:
                return None
            # Convex and growing: Newton's steps approach the root from above, and do not pass it.
            step = (logs - target) / slope
            total -= step
            if step < 1e-6 * items:
                return max(total, 0.0)

    def _terms(self, means: Floats, total: float, items: int) -> Floats:
        at = means[:, np.newaxis]
        sample = self._rows * np.log1p(at * self._sample_factors)
        terms: Floats = self._constant_terms - sample + self._exponents * total - items * np.log1p(at * self._stream_factors)
        return terms


def _effect_sizes(rows: int) -> Iterator[float]:
    size = _LARGEST_EFFECT
    yield size
    while (size := size / 2) >= _SMALLEST_EFFECT / math.sqrt(max(rows, 1)):
        yield size


def _log_sum_exp(terms: Floats) -> Floats:
    highest = terms.max(axis=1, keepdims=True)
    sums: Floats = np.log(np.exp(terms - highest).sum(axis=1)) + highest[:, 0]
    return sums


def _log_likelihood_ratio(total: float, items: int, mean: float) -> float:
    """Return the log likelihood ratio of the best mean against this one."""
    parts = ((total, mean), (items - total, 1.0 - mean))
    return sum([amount * math.log(amount / (items * share)) for amount, share in parts if amount > _TINY])


@dataclass(slots=True)
class Window:
    """A part of a stream, from its start to now."""

    start: int  # how many items came before it
    end: float  # at how many items of the stream it is closed
    next_check: int  # at how many items of the stream it is tested next
    start_totals: tuple[float, ...]  # the stream's totals at its start
    penalty: float  # minus the logarithm of its share of the chance of a false alarm


class WindowedTotals:
    """The totals of a stream, `width` of them, and its windows.

    One window starts with the stream and never ends. Another starts after every `restart_every` items; each second of these lasts
    twice as long, each fourth four times, and so on. So wherever a change falls, windows of every length start soon after it, and
    only a few are open at once. A window is tested after 16 items, and whenever it has grown by an eighth: testing less often is
    always valid.
    """

    def __init__(self, width: int, restart_every: int) -> None:
        self.items = 0
        self.totals = [0.0] * width
        self._restart_every = restart_every
        self._windows = [Window(0, math.inf, _FIRST_CHECK, tuple(self.totals), FULL_STREAM_PENALTY)]
        self.next_check = min(_FIRST_CHECK, restart_every)

    def due_windows(self) -> Iterator[tuple[Window, int, list[float]]]:
        """Yield each window to test, with its number of items and its totals; to be called when `items` reaches `next_check`."""
        for window in self._windows:
            if window.next_check <= self.items:
                items = self.items - window.start
                window.next_check = self.items + items // 8
                yield window, items, [now - then for now, then in zip(self.totals, window.start_totals, strict=True)]
        self._start_window()
        self.next_check = min(
            [window.next_check for window in self._windows]
            + [self.items + self._restart_every - self.items % self._restart_every]
        )

    def _start_window(self) -> None:
        number, remainder = divmod(self.items, self._restart_every)
        if remainder or not number:
            return
        self._windows = [window for window in self._windows if window.end > self.items]
        # 1 / (number (number + 1)), summed over all numbers, is 1.
        penalty = math.log(number * (number + 1) / (1.0 - _FULL_STREAM_SHARE))
        length = 2 * (number & -number) * self._restart_every
        self._windows.append(Window(self.items, self.items + length, self.items + _FIRST_CHECK, tuple(self.totals), penalty))
