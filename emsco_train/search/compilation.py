"""Compiles the search at its first use after an install, in two processes side by side.

Most of a compilation is numba's own Python code, at which threads would take turns. So a second process compiles what can be
compiled by itself, and leaves it on disk for the first one. Where that fails (no process can be started, nothing can be written),
everything is compiled here as it is needed: that takes longer, with the same result.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int32, int64, types, uint64

from emsco_train.models.logistic.column_set import ColumnSet
from emsco_train.models.logistic.loss import TrainingRows, block_probabilities, evaluate_loss, loss_change, slope_along
from emsco_train.models.logistic.newton import Anchor, FitState, accept_step, build_hessian, newton_direction, take_step
from emsco_train.models.logistic.regression import LogisticProblem, top_labels
from emsco_train.models.logistic.row_blocks import RowBlocks, RowRuns
from emsco_train.models.logistic.set_kernels import begin_set, finish_set, fit_sets, score_sets
from emsco_train.search.exact.enumeration import walk_designs
from emsco_train.search.exact.enumeration_state import CostLimits, FindBuffer, Stack
from emsco_train.search.exact.known_front import lower_limits, undominated_mask
from emsco_train.search.exact.set_bits import SetLayout
from emsco_train.search.genetic.added_volume import added_volume
from emsco_train.search.scoring.chain_splicing import count_splices, keep_uncovered
from emsco_train.search.scoring.exit_counting import count_answers, count_exits
from emsco_train.support.compiled import is_cached, pause_gc

__all__ = ["SIGNATURES", "compile_search", "load_search"]

_LOGGER = logging.getLogger("emsco_train")

_VECTOR, _MATRIX, _CUBE = float64[::1], float64[:, ::1], float64[:, :, ::1]
_INDICES, _INDEX_TABLE, _SET_MASKS = int64[::1], int64[:, ::1], boolean[:, ::1]
_WORDS, _WORD_TABLE, _WORD_CUBE = uint64[::1], uint64[:, ::1], uint64[:, :, ::1]
_RUNS = types.NamedTuple([_INDICES, _WORDS, _WORDS, _INDICES, _INDEX_TABLE, int64], RowRuns)
_ROWS = types.NamedTuple([_RUNS, _CUBE, float32[:, :, ::1], _CUBE, _MATRIX, float64, float64, _INDICES], TrainingRows)
_COLUMN_SET = types.NamedTuple([_INDICES, _INDICES, int64], ColumnSet)
_ANCHOR = types.NamedTuple([_VECTOR, _VECTOR, _MATRIX, _VECTOR], Anchor)
_FIT_STATE = types.NamedTuple(
    [_VECTOR] * 5 + [_CUBE] * 3 + [_MATRIX] * 4 + [_CUBE, float32[:, ::1], _MATRIX],
    FitState,
)
_SET_LAYOUT = types.NamedTuple(
    [_WORDS, _WORD_CUBE] + [_INDICES] * 4 + [types.UniTuple(int64, 3), _WORDS, int64, int64, boolean] + [int64] * 3,
    SetLayout,
)
_COST_LIMITS = types.NamedTuple([_INDICES, int64, int64], CostLimits)
_STACK = types.NamedTuple([_INDICES] * 8 + [_WORD_TABLE], Stack)
_FIND_BUFFER = types.NamedTuple([int32[::1], _INDICES, _INDICES, _INDICES, _INDEX_TABLE, _INDICES], FindBuffer)

# The types of the arguments of every compiled function that is kept on disk; there are no others.
SIGNATURES: dict[Any, tuple[Any, ...]] = {
    block_probabilities: (_MATRIX, _RUNS, int64, _COLUMN_SET, _VECTOR, _MATRIX, _MATRIX, _MATRIX, _VECTOR, _VECTOR),
    evaluate_loss: (_ROWS, _COLUMN_SET, _VECTOR, _CUBE, _CUBE, _CUBE, _VECTOR),
    loss_change: (_ROWS, _VECTOR, _VECTOR, _CUBE, _CUBE),
    slope_along: (_ROWS, _VECTOR, _VECTOR, _CUBE, _CUBE, float64),
    build_hessian: (_ROWS, _COLUMN_SET, _FIT_STATE, int64),
    begin_set: (_ROWS, _ANCHOR, boolean[::1], boolean, _MATRIX),
    finish_set: (_FIT_STATE, _INDICES, _MATRIX),
    accept_step: (_FIT_STATE, int64),
    newton_direction: (_FIT_STATE, int64),
    take_step: (_ROWS, _COLUMN_SET, _FIT_STATE, float64),
    fit_sets: (_ROWS, _ANCHOR, _SET_MASKS, boolean, float64, _CUBE, _INDICES),
    score_sets: (_CUBE, _RUNS, _INDICES, _CUBE, _SET_MASKS, _INDEX_TABLE, _MATRIX),
    count_exits: (_INDEX_TABLE, _WORD_TABLE, _WORD_TABLE, _INDICES, _INDEX_TABLE, _INDEX_TABLE),
    count_answers: (_INDEX_TABLE, _WORD_TABLE, _WORD_TABLE, _WORD_CUBE, _INDICES, _INDICES, int64[:, :, ::1]),
    count_splices: (
        _INDICES,
        _WORD_TABLE,
        _WORD_TABLE,
        _WORD_TABLE,
        _INDICES,
        _INDICES,
        int64,
        boolean,
        boolean,
        int64,
        _INDEX_TABLE,
        _INDEX_TABLE,
    ),
    keep_uncovered: (_INDICES, _INDEX_TABLE, _INDEX_TABLE, _INDEX_TABLE, int64, _INDEX_TABLE),
    added_volume: (_MATRIX, _INDICES, int64, _VECTOR),
    walk_designs: (
        _SET_LAYOUT,
        _COST_LIMITS,
        _STACK,
        _FIND_BUFFER,
        _INDICES,
        _INDEX_TABLE,
        int64,
        types.UniTuple(boolean, 2),
        _INDICES,
    ),
    undominated_mask: (_INDEX_TABLE, _INDEX_TABLE),
    lower_limits: (_INDICES, _INDEX_TABLE, int64, int64),
}
# What the second process compiles. The order is such that neither waits long for the other.
_SECOND_PROCESS_FUNCTIONS: tuple[Any, ...] = (
    *(build_hessian, begin_set),  # the longest parts of `fit_sets`
    *(score_sets, count_exits, count_answers),  # what every search needs
    count_splices,  # what every genetic search needs in addition to these
    *(walk_designs, undominated_mask, lower_limits),  # what exact searches need: nothing waits for these
)


def compile_search() -> None:
    """Compile what a search needs, unless that was done before on this machine."""
    if is_cached(fit_sets):
        return
    _LOGGER.warning("compiling the search for this machine: 20 to 40 seconds, only once after an install")
    with pause_gc(), _second_process() as wait_for:
        # The other process needs the first one, for `score_sets`.
        _compile(block_probabilities, evaluate_loss, slope_along, loss_change)
        _compile(take_step, newton_direction, accept_step, finish_set)
        # Of use while the other process is still at `begin_set`, which `fit_sets` needs.
        _compile(keep_uncovered, added_volume)
        wait_for(begin_set)
        _compile(fit_sets)
        # Nearly done by now; without it, the search would compile it a second time.
        wait_for(count_splices)


def load_search() -> None:
    """Load what a search needs into this process, where it is compiled; that takes a second or so, once."""
    compile_search()
    rows = np.eye(2)
    top_labels(LogisticProblem(rows, np.arange(2), 2).fit(np.ones((1, 2), dtype=np.bool_)), RowBlocks.of(rows))


def main() -> None:
    """Compile the second process's part; print the name of each function as soon as it is on disk."""
    with pause_gc():
        for function in _SECOND_PROCESS_FUNCTIONS:
            _compile(function)
            print(function.py_func.__name__, flush=True)  # noqa: T201 - the first process waits for it


def _compile(*functions: Any) -> None:
    for function in functions:
        function.compile(SIGNATURES[function])


@contextmanager
def _second_process() -> Iterator[Callable[[Any], None]]:
    """Start the second process; yield a function that waits until it has compiled a function, or has ended.

    It continues by itself where all went well, and ends with the block otherwise.
    """
    process = _start_process()
    if process is None:
        yield lambda _: None
        return
    # Reads to the end, so that no zombie process is left.
    drain = threading.Thread(target=process.communicate, daemon=True)
    try:
        yield lambda function: _wait_for_line(process, function.py_func.__name__)
    except BaseException:
        process.kill()
        raise
    finally:
        drain.start()


def _start_process() -> subprocess.Popen[str] | None:
    """Return the second process; None where none can be started."""
    command = [sys.executable or "python3", "-m", "emsco_train.search.compilation"]
    try:
        # Its errors are of no concern: what it leaves undone is compiled here.
        return subprocess.Popen(  # noqa: S603 - this very Python
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return None


def _wait_for_line(process: subprocess.Popen[str], name: str) -> None:
    # Not `for line in stdout`, which may read ahead.
    while process.stdout is not None and (line := process.stdout.readline()):
        if line.strip() == name:
            return


if __name__ == "__main__":
    main()
