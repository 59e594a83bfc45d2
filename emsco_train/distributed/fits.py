"""Logistic regressions on rows in partitions: slopes and Hessians are added up over partitions, Newton steps are taken here.

A message holds the parameters of many feature sets, and its answer their slopes and Hessians: so a batch of sets takes as many
round trips as the slowest of them takes steps, five or six. The optimum is that of `LogisticProblem` on the same rows; how sums
are grouped changes the last bits alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.distributed.part_rows import PartRows
from emsco_train.distributed.partitions import Partitions, Sums
from emsco_train.models.logistic.regression import LogisticBatch, check_converged, expand_loss, intercepts_of_shares, keep_signs
from emsco_train.support.stop_flag import FitStopped, StopFlag

__all__ = ["PartitionedLogistic"]

# Largest answer to one message.
_MAX_BYTES = 2**25
# A step that changes no log-odds by more than this is the last one: what is left after it is about its square.
_LAST_STEP = 1e-7
# A step that goes beyond the lowest point on its way is shortened, unless the slope at its end is below this share.
_OVERSHOOT = 0.25
_MAX_STEPS = 200


@dataclass(frozen=True, slots=True, eq=False)
class _Points:
    """Feature sets by their columns [sets, columns], and parameters of each [sets, logits, 1 + columns]."""

    columns: Mask
    table: Floats


class _NewtonFit:
    """The fit of one set: where it is, and where its loss is to be evaluated next (`point`).

    Vectors are flat: logit by logit, each with its intercept first. `reach` is the largest size of each of its parameters'
    numbers.
    """

    def __init__(self, columns: Ints, start: Floats, penalty: Floats, reach: Floats) -> None:
        self.columns = columns
        self.point = start
        self.steps = 0
        self.has_failed = False
        self.x = self.slope = start
        self.hessian: Floats = np.empty((0, 0))
        self._penalty, self._reach = penalty, reach
        self._direction: Floats | None = None
        self._descent = self._share = 0.0

    def advance(self, slope: Floats, hessian: Floats) -> bool:
        """Take slope and Hessian at the point, without the penalty; return whether the fit has ended."""
        self.steps += 1
        slope = slope + self._penalty * self.point
        if self.steps > _MAX_STEPS or not (np.isfinite(slope).all() and np.isfinite(hessian).all()):
            self.has_failed = True
            return True
        if self._direction is not None:
            end = float(self._direction @ slope)
            if end > _OVERSHOOT * self._descent:
                # Where a straight line between the slopes at both ends crosses zero.
                self._share *= min(max(self._descent / (self._descent + end), 0.1), 0.9)
                self.point = self.x + self._share * self._direction
                return False
        self.x, self.slope, self.hessian = self.point, slope, hessian + np.diag(self._penalty)
        try:
            direction = np.asarray(-np.linalg.solve(self.hessian, slope), dtype=np.float64)
        except np.linalg.LinAlgError:
            self.has_failed = True
            return True
        self._direction, self._descent, self._share = direction, float(-direction @ slope), 1.0
        self.point = self.x + direction
        return bool((np.abs(direction) * self._reach).sum() <= _LAST_STEP)


class PartitionedLogistic:
    """Fits logistic regressions on the train rows of partitions.

    Parameters
    ----------
    partitions
        The rows.
    label_weight
        The weight of the train rows of each label.
    reach
        The largest size of a number in each column.
    C, signs, stop
        As in `LogisticProblem`.
    rows
        Number of train rows.
    """

    def __init__(
        self,
        partitions: Partitions[PartRows],
        *,
        label_weight: Floats,
        reach: Floats,
        C: float,  # noqa: N803 - scikit-learn's name
        signs: Ints,
        stop: StopFlag,
        rows: int,
    ) -> None:
        self._partitions = partitions
        self.intercepts = intercepts_of_shares(label_weight / label_weight.sum())
        self.columns = len(reach)
        self._reach = reach
        self._penalty = 1.0 / C
        self._signs = signs if signs.any() else None
        self._stop = stop
        self._rows = rows
        self._anchor: _NewtonFit | None = None

    def fit(self, columns: Mask, *, workers: int = 1) -> LogisticBatch:  # noqa: ARG002 - the partitions work in parallel
        """Fit feature sets, given by their columns [sets, columns]; a set that does not converge raises `FitError`."""
        return keep_signs(self._fit_freely(columns), self._signs, self._fit_freely)

    def _fit_freely(self, columns: Mask) -> LogisticBatch:
        if self._anchor is None:
            every = np.arange(len(self._reach))
            anchor = self._begin(every, self._at_intercepts(every))
            self._run([anchor])
            self._anchor = anchor
        sets = [np.flatnonzero(row) for row in columns]
        fits = [self._begin(own, self._near_anchor(own)) for own in sets]
        for part in self._affordable_parts(fits):
            self._run(part)
        logits, width = len(self.intercepts), len(self._reach)
        table = self._table(fits)
        if logits > 1:
            # Each column's parameters sum to 0 over the labels: so they do at the optimum, and intercepts may by choice.
            table -= table.mean(axis=1, keepdims=True)
        passes = np.array([-1 if fit.has_failed else fit.steps for fit in fits], dtype=np.intp)
        check_converged(columns, passes, self._rows)
        return LogisticBatch(
            np.ascontiguousarray(columns, dtype=np.bool_),
            np.ascontiguousarray(table[:, :, 1:].reshape(len(fits), logits, width)),
            np.ascontiguousarray(table[:, :, 0]),
            passes,
        )

    def _begin(self, columns: Ints, start: Floats) -> _NewtonFit:
        logits = len(self.intercepts)
        penalty = np.tile(np.concatenate([[0.0], np.full(len(columns), self._penalty)]), logits)
        # Log-odds of two labels are the difference of two logits, where there are several.
        reach = np.tile(np.concatenate([[1.0], self._reach[columns]]), logits)
        return _NewtonFit(columns, start, penalty, reach)

    def _at_intercepts(self, columns: Ints) -> Floats:
        start = np.zeros((len(self.intercepts), 1 + len(columns)))
        start[:, 0] = self.intercepts
        return start.ravel()

    def _near_anchor(self, columns: Ints) -> Floats:
        """Return the minimum, on some columns, of the second-order approximation of the loss at the model of all columns."""
        anchor = self._anchor
        if anchor is None or anchor.has_failed:
            return self._at_intercepts(columns)
        width = 1 + len(self._reach)
        index = (np.arange(len(self.intercepts))[:, None] * width + np.concatenate([[0], 1 + columns])).ravel()
        target = anchor.hessian @ anchor.x - anchor.slope
        try:
            return np.asarray(np.linalg.solve(anchor.hessian[np.ix_(index, index)], target[index]))
        except np.linalg.LinAlgError:
            return self._at_intercepts(columns)

    def _affordable_parts(self, fits: Sequence[_NewtonFit]) -> Iterator[list[_NewtonFit]]:
        """Yield the fits in parts whose Hessians are few enough for one message."""
        part: list[_NewtonFit] = []
        size = 0
        for fit in fits:
            own = 8 * len(fit.point) ** 2
            if part and size + own > _MAX_BYTES:
                yield part
                part, size = [], 0
            part.append(fit)
            size += own
        if part:
            yield part

    def _run(self, fits: list[_NewtonFit]) -> None:
        """Fit sets to convergence: one message for a step of all that are under way."""
        while fits:
            if self._stop.array[0]:
                raise FitStopped
            columns = np.zeros((len(fits), len(self._reach)), dtype=np.bool_)
            for row, fit in zip(columns, fits, strict=True):
                row[fit.columns] = True
            slopes, hessians = self._partitions.total(_expand_sets, _Points(columns, self._table(fits))).arrays
            sizes = [len(fit.point) for fit in fits]
            ends = np.cumsum(sizes).tolist()
            squares = np.cumsum(np.square(sizes)).tolist()
            fits = [
                fit
                for fit, size, end, square in zip(fits, sizes, ends, squares, strict=True)
                if not fit.advance(slopes[end - size : end], hessians[square - size * size : square].reshape(size, size))
            ]

    def _table(self, fits: Sequence[_NewtonFit]) -> Floats:
        logits = len(self.intercepts)
        table = np.zeros((len(fits), logits, 1 + len(self._reach)))
        for own, fit in zip(table, fits, strict=True):
            own[:, np.concatenate([[0], 1 + fit.columns])] = fit.point.reshape(logits, -1)
        return table


def _expand_sets(part: PartRows, points: _Points) -> Sums:
    """Return slopes and Hessians of the loss of each set at its parameters, one after the other, without the penalty."""
    logits = points.table.shape[1]
    widths = 1 + points.columns.sum(axis=1)
    if not len(part.train_codes):
        return Sums((np.zeros(int((logits * widths).sum())), np.zeros(int(((logits * widths) ** 2).sum()))))
    rows, order = part.fit_rows
    slopes, hessians = [], []
    for members, table in zip(points.columns, points.table, strict=True):
        ordered = np.ascontiguousarray(np.concatenate([table[:, :1], table[:, 1:][:, order]], axis=1))
        columns, slope, hessian = expand_loss(rows, np.ascontiguousarray(members[order]), ordered)
        # From the order in which this partition has its columns to that of all.
        width = 1 + len(columns)
        places = np.concatenate([[0], 1 + np.argsort(order[columns])])
        index = (np.arange(logits)[:, None] * width + places).ravel()
        slopes.append(slope[index])
        hessians.append(hessian[np.ix_(index, index)].ravel())
    return Sums((np.concatenate(slopes), np.concatenate(hessians)))
