"""L2 logistic regression on many feature sets of one encoded matrix, fitted to convergence.

The loss is scikit-learn's: sum of weighted log-losses + ||coef||^2 / (2 C), the intercept not penalised. One function fits, for
search, export and verification. A model that did not converge is an error, never a result.

A set's coefficients depend on the problem and the set alone: not on the batch, the number of threads, or what was fitted before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_runtime.support.interrupts import defer_interrupts
from emsco_train.data.fit_memory import MAX_FIT_BYTES, fit_bytes
from emsco_train.errors import DataError, DesignError, FitError
from emsco_train.models.logistic.loss import TrainingRows, evaluate_loss
from emsco_train.models.logistic.newton import Anchor, build_hessian
from emsco_train.models.logistic.row_blocks import RowBlocks
from emsco_train.models.logistic.set_kernels import begin_set, fit_sets, score_sets
from emsco_train.support.stop_flag import StopFlag

__all__ = [
    "LogisticBatch",
    "LogisticModel",
    "LogisticProblem",
    "TopLabels",
    "arrange_rows",
    "check_converged",
    "expand_loss",
    "intercepts_of_shares",
    "keep_signs",
    "softmax",
    "top_labels",
]

# The last step changed no log-odds by more than this, so no probability by more than a quarter of it; the steps shrink at least
# by half, and one more, whose slope is known, is added at the end.
_TOLERANCE = 1e-10
# Sets that one thread takes at a time.
_SETS_PER_TASK = 8


@dataclass(frozen=True, slots=True, eq=False)
class LogisticModel:
    """A fitted stage model: coefficients [labels, columns] and intercepts [labels].

    With two labels the rows are -w/2 and +w/2: the softmax of the halves is the sigmoid of the whole, exact in both tails.
    """

    coef: Floats
    intercept: Floats

    def probabilities(self, encoded: Floats) -> Floats:
        """Return probabilities [rows, labels] of encoded rows."""
        # A product with few rows and many columns takes a tenth of the time of one with many rows and few columns.
        return softmax((self.coef @ encoded.T + self.intercept[:, None]).T)


@dataclass(frozen=True, slots=True, eq=False)
class LogisticBatch:
    """Fitted models of several feature sets: the columns of each [sets, columns], and how many passes over the rows it took.

    Coefficients are [sets, logits, columns], 0 outside the set, intercepts [sets, logits]. Two labels have one logit, the
    log-odds of the second; more have one each.
    """

    columns: Mask
    coef: Floats
    intercept: Floats
    passes: Ints

    def __len__(self) -> int:
        """Return the number of sets."""
        return len(self.columns)

    def take(self, index: Ints | slice) -> LogisticBatch:
        """Return some of the models."""
        return LogisticBatch(self.columns[index], self.coef[index], self.intercept[index], self.passes[index])

    def with_temperatures(self, temperatures: Floats) -> LogisticBatch:
        """Return the models with their log-odds divided by a temperature each [sets]."""
        coef, intercept = self.coef / temperatures[:, None, None], self.intercept / temperatures[:, None]
        return LogisticBatch(self.columns, coef, intercept, self.passes)

    def model(self, index: int, columns: Ints | None = None) -> LogisticModel:
        """Return one model, with the set's columns in the order given; None: in their own."""
        order = np.flatnonzero(self.columns[index]) if columns is None else columns
        coef, intercept = self.coef[index][:, order], self.intercept[index]
        if len(coef) == 1:
            return LogisticModel(np.vstack([-coef / 2, coef / 2]), np.concatenate([-intercept / 2, intercept / 2]))
        return LogisticModel(coef.copy(), intercept.copy())


@dataclass(frozen=True, slots=True, eq=False)
class TopLabels:
    """Position of the most probable label [sets, rows] by each of several models, the first of equals, and its probability."""

    label: Ints
    confidence: Floats


class LogisticProblem:
    """Rows and labels to fit; holds what the fits of all feature sets share.

    `encoded` holds the columns [rows, columns], `target` the position of each row's label; each of the labels must occur. A row
    has a 1 in at most one column of each of the `one_hot_groups`, and 0 in the others: these are looked up, not multiplied.
    `signs` [columns] says which sign the weight of a column may have: 1 or -1, besides 0; 0 stands for any. It is for two labels.
    `stop` ends fits early.

    Examples
    --------
    >>> problem = LogisticProblem(np.array([[-1.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), np.array([0, 1, 1]), 2)
    >>> batch = problem.fit(np.array([[True, False], [True, True]]))
    >>> batch.coef.round(3)
    array([[[0.848, 0.   ]],
    <BLANKLINE>
           [[0.834, 0.219]]])
    """

    def __init__(
        self,
        encoded: Floats,
        target: Ints,
        labels: int,
        *,
        weights: Floats | None = None,
        C: float = 1.0,  # noqa: N803
        one_hot_groups: Sequence[slice] = (),
        signs: Ints | None = None,
        stop: StopFlag | None = None,
    ) -> None:
        _check(encoded, C)
        self._signs = signs if signs is not None and signs.any() else None
        self._stop = stop or StopFlag()
        row_weights = np.ones(len(encoded)) if weights is None else np.asarray(weights, dtype=np.float64)
        one_hot = (np.asarray(target)[:, None] == np.arange(labels)).astype(np.float64)
        share = row_weights @ one_hot / row_weights.sum()
        if not (share > 0.0).all():
            raise DataError(
                f"label {int(np.argmin(share > 0.0))} (by position) has no row of any weight: give it some, or drop it"
            )
        self.rows, self.columns = encoded.shape
        row_blocks = RowBlocks.of(encoded, one_hot_groups)
        self._order = row_blocks.layout.order
        self._rows = arrange_rows(row_blocks, one_hot, row_weights, 1.0 / C, self._stop)
        with self._stop.stoppable():
            self._anchor = _make_anchor(self._rows, intercepts_of_shares(share))

    def fit(self, columns: Mask, *, workers: int = 1) -> LogisticBatch:
        """Fit feature sets, given by their columns [sets, columns]; a set that does not converge raises `FitError`.

        Each fit starts near the model of all columns. The result is the same to the last bit for any number of threads.

        A set in which weights have a sign that they may not have is fitted again without the worse half of these columns, which
        then weigh 0, until there is none.
        """
        return keep_signs(self._fit_freely(columns, workers), self._signs, lambda sets: self._fit_freely(sets, workers))

    def _fit_freely(self, columns: Mask, workers: int) -> LogisticBatch:
        """Fit sets with weights of any sign."""
        sets = np.ascontiguousarray(columns, dtype=np.bool_)
        if sets.ndim != 2 or sets.shape[1] != self.columns:
            raise DesignError(f"feature sets have shape {sets.shape}: expected [sets, {self.columns}], a bool per column")
        logits = self._rows.targets.shape[1]
        order = self._order
        table = np.zeros((len(sets), logits, 1 + self.columns))
        passes = np.zeros(len(sets), dtype=np.intp)
        ordered, warm = np.ascontiguousarray(sets[:, order]), False

        def work(part: slice) -> None:
            fit_sets(self._rows, self._anchor, ordered[part], warm, _TOLERANCE, table[part], passes[part])

        with self._stop.stoppable():
            _run_in_parallel(work, len(sets), self._affordable_workers(sets, workers), self._stop.array)
        check_converged(sets, passes, self.rows)
        return LogisticBatch(sets, table[:, :, 1:][:, :, np.argsort(order)], table[:, :, 0], passes)

    def _affordable_workers(self, sets: Mask, workers: int) -> int:
        """Return how many of `workers` threads have memory for the matrices of the widest set; at least one."""
        widest = int(sets.sum(axis=1).max(initial=0))
        return max(1, min(workers, MAX_FIT_BYTES // fit_bytes(widest, self._rows.targets.shape[1])))


def check_converged(sets: Mask, passes: Ints, rows: int) -> None:
    """Raise if the fit of a set [sets, columns] on `rows` rows did not converge, where its passes are not above 0."""
    failed = np.flatnonzero(passes <= 0)
    if len(failed):
        named = ", ".join(map(str, np.flatnonzero(sets[failed[0]])))
        raise FitError(
            f"logistic regression on {sets[failed[0]].sum()} columns and {rows} rows did not converge "
            f"(set {failed[0]} of {len(sets)}; columns {named}): values or weights of very different size, or a very large "
            "C, are the usual cause; lower C, or drop or rescale what is extreme"
        )


def arrange_rows(row_blocks: RowBlocks, one_hot: Floats, weights: Floats, penalty: float, stop: StopFlag) -> TrainingRows:
    """Return training rows as the passes see them, given their labels [rows, labels] as 0 and 1, and their weights [rows]."""
    targets = one_hot[:, 1:] if one_hot.shape[1] == 2 else one_hot
    with np.errstate(over="ignore"):
        single_precision = row_blocks.values.astype(np.float32)
    weighted = np.ascontiguousarray(row_blocks.arrange(weights[:, None])[:, 0])
    return TrainingRows(
        row_blocks.runs,
        row_blocks.values,
        single_precision,
        row_blocks.arrange(targets),
        weighted,
        float(weights.sum()),
        penalty,
        stop.array,
    )


def intercepts_of_shares(share: Floats) -> Floats:
    """Return the intercepts of the model without columns, one per logit, given the share of each label."""
    return np.asarray(np.log(share[1:] / share[0]) if len(share) == 2 else np.log(share) - np.log(share).mean())


def keep_signs(batch: LogisticBatch, signs: Ints | None, fit: Callable[[Mask], LogisticBatch]) -> LogisticBatch:
    """Return fitted sets in which no weight has a sign that it may not have; `fit` fits those again that need it."""
    if signs is None:
        return batch
    sets, coef, intercept, passes = batch.columns.copy(), batch.coef, batch.intercept, batch.passes
    while True:
        # One logit: there are two labels.
        agreement = coef[:, 0] * signs
        wrong = np.flatnonzero((agreement < 0.0).any(axis=1))
        if not len(wrong):
            return LogisticBatch(batch.columns, coef, intercept, passes)
        sets[wrong] &= ~_worse_half(agreement[wrong])
        again = fit(sets[wrong])
        coef[wrong], intercept[wrong] = again.coef, again.intercept
        passes[wrong] += again.passes


def top_labels(batch: LogisticBatch, rows: RowBlocks, *, workers: int = 1) -> TopLabels:
    """Score rows, all columns of them, with every model of a batch."""
    shape = (len(batch), len(rows.order))
    label, confidence = np.empty(shape, dtype=np.intp), np.empty(shape)
    order = rows.layout.order
    table = np.ascontiguousarray(np.concatenate([batch.intercept[:, :, None], batch.coef[:, :, order]], axis=2))
    columns = np.ascontiguousarray(batch.columns[:, order])

    def work(part: slice) -> None:
        score_sets(rows.values, rows.runs, rows.order, table[part], columns[part], label[part], confidence[part])

    _run_in_parallel(work, len(batch), workers, np.zeros(1, dtype=np.int64))
    return TopLabels(label, confidence)


def softmax(logits: Floats) -> Floats:
    """Return the softmax of each row, without overflow."""
    # Labels first: numpy reduces the last axis slowly where it is short.
    by_label = np.ascontiguousarray(logits.T)
    powers = np.exp(by_label - by_label.max(axis=0))
    return np.asarray(powers / powers.sum(axis=0)).T


def _check(encoded: Floats, C: float) -> None:  # noqa: N803
    if not (np.isfinite(C) and C > 0.0):
        raise DesignError(f"C is {C!r}: expected a finite number above 0")
    bad = np.argwhere(~np.isfinite(encoded))
    if len(bad):
        row, column = bad[0]
        raise FitError(
            f"logistic regression, column {column}, row {row}: {encoded[row, column]} is not a finite number; impute it"
        )


def _make_anchor(rows: TrainingRows, intercepts: Floats) -> Anchor:
    """Return the anchor at the model of all columns; at the one without columns, should that not converge."""
    columns = rows.blocks.shape[1] + rows.runs.n_categories
    intercepts_only = np.zeros((len(intercepts), 1 + columns))
    intercepts_only[:, 0] = intercepts
    near = _expand_at(rows, intercepts, intercepts_only, None)
    table, passes = np.zeros((1, *intercepts_only.shape)), np.zeros(1, dtype=np.intp)
    every = np.ones((1, columns), dtype=np.bool_)
    fit_sets(rows, near, every, False, _TOLERANCE, table, passes)  # noqa: FBT003 - no warm start
    return _expand_at(rows, intercepts, table[0], near) if passes[0] > 0 else near


def _expand_at(rows: TrainingRows, intercepts: Floats, table: Floats, intercepts_only: Anchor | None) -> Anchor:
    _, slope, hessian = expand_loss(rows, np.ones(table.shape[1] - 1, dtype=np.bool_), table)
    # Values near the largest float overflow here; the fits of the sets that have them raise.
    with np.errstate(over="ignore", invalid="ignore"):
        target = hessian @ table.ravel() - slope
    return Anchor(intercepts, slope if intercepts_only is None else intercepts_only.slope, hessian, target)


def expand_loss(rows: TrainingRows, members: Mask, table: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the columns of a set, and slope and Hessian of its loss at the parameters in `table` [logits, 1 + all columns]."""
    # The loss is evaluated where it is asked for: nothing of the anchor is used.
    nowhere = Anchor(np.zeros(len(table)), np.zeros(table.size), np.zeros((0, 0)), np.zeros(table.size))
    columns, column_set, state = begin_set(rows, nowhere, members, True, table)  # noqa: FBT003 - a start is given
    parameters = table[:, np.concatenate([[0], 1 + columns])].ravel()
    evaluate_loss(rows, column_set, parameters, state.before, state.after, state.probabilities, state.slope)
    build_hessian(rows, column_set, state, 2)
    lower = np.tril(state.hessian)
    return columns, state.slope, lower + np.tril(lower, -1).T


def _worse_half(agreement: Floats) -> Mask:
    """Return which columns hold the lower half of the negative numbers of each row, at least one of them."""
    places = agreement.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return np.asarray(places < ((agreement < 0.0).sum(axis=1, keepdims=True) + 1) // 2)


def _run_in_parallel(work: Callable[[slice], None], count: int, workers: int, stop: NDArray[np.int64]) -> None:
    """Distribute the parts of a batch over threads, until `stop` is set; compiled code runs without the lock."""
    # There are few sets where each takes long: then every thread should have some.
    share = min(_SETS_PER_TASK, max(1, count // (4 * workers)))
    parts = [slice(start, start + share) for start in range(0, count, share)]
    if workers == 1 or len(parts) < 2:
        for part in parts:
            work(part)
        return
    with defer_interrupts(stop):
        _in_threads(lambda part: None if stop[0] else work(part), parts, workers)


def _in_threads(work: Callable[[slice], None], parts: Sequence[slice], workers: int) -> None:
    # A function of its own: when it returns, the pool and its threads are gone.
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, parts):
            pass
