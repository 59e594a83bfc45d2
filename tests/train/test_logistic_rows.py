"""How rows are laid out for the compiled passes: nothing is lost, and rows with the same choices follow each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.errors import DataError
from emsco_train.models.logistic.column_layout import ColumnLayout
from emsco_train.models.logistic.row_blocks import RowBlocks

widths = st.lists(st.integers(0, 14), max_size=5)


def encoded(widths: list[int], rows: int, seed: int) -> tuple[np.ndarray, list[slice]]:
    """Return a table with a column of numbers for each width of 0, and a block of choices for each other, some of them none."""
    rng = np.random.default_rng(seed)
    parts, choices, at = [], [], 0
    for width in widths:
        part = rng.normal(size=(rows, 1)) if width == 0 else (rng.integers(0, width + 1, (rows, 1)) == np.arange(width)) * 1.0
        if width:
            choices.append(slice(at, at + width))
        parts.append(part)
        at += part.shape[1]
    return np.column_stack([np.empty((rows, 0)), *parts]), choices


@given(widths, st.integers(1, 700), st.integers(0, 99))
def test_rows_can_be_had_back(widths: list[int], rows: int, seed: int) -> None:
    """Numbers from the blocks and choices from the runs make up the table; runs fill each block and differ from the next one."""
    table, choices = encoded(widths, rows, seed)
    laid = RowBlocks.of(table, choices)
    count, numbers, places = laid.values.shape
    assert places % 8 == 0
    assert places <= 256
    back = np.zeros((count * places, table.shape[1] + 1))
    back[:, :numbers] = laid.values.transpose(0, 2, 1).reshape(count * places, numbers)
    runs = laid.runs
    for block in range(count):
        mine = range(runs.first[block], runs.first[block + 1])
        assert [runs.start[run] for run in mine] == [0, *(runs.stop[run] for run in mine)][:-1]
        assert runs.stop[mine[-1]] == places
        assert all(runs.kind[run] != runs.kind[run + 1] for run in mine[:-1])
        for run in mine:
            where = np.arange(block * places + int(runs.start[run]), block * places + int(runs.stop[run]))
            back[np.ix_(where, numbers + runs.members[runs.kind[run]])] = 1.0
    wanted = np.zeros_like(table)
    wanted[laid.order] = back[:rows, :-1]
    assert np.array_equal(wanted, table[:, laid.layout.order])
    assert not laid.values.transpose(0, 2, 1).reshape(count * places, numbers)[rows:].any()
    assert np.array_equal(laid.arrange(np.arange(rows)[:, None]).reshape(-1)[:rows], laid.order)


def test_only_groups_that_are_worth_it_are_looked_up() -> None:
    """Wide ones always; narrow ones where many rows choose the same in all groups so far; one of two columns never."""
    rng = np.random.default_rng(0)
    widths = [2, 3, 5, 12]
    parts = [rng.integers(0, width, (4000, 1)) == np.arange(width) for width in widths]
    table, choices = np.column_stack(parts) * 1.0, [slice(0, 2), slice(2, 5), slice(5, 10), slice(10, 22)]
    many, some, few = (ColumnLayout.of(table[:rows], choices) for rows in (4000, 400, 40))
    assert [layout.n_categories for layout in (many, some, few)] == [20, 15, 12]
    assert many.order.tolist() == [0, 1, *range(10, 22), *range(5, 10), *range(2, 5)]


@pytest.mark.parametrize("row", [[1.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, np.nan, 0.0], [2.0, 0.0, 0.0]])
def test_what_is_no_choice_is_refused(row: list[float]) -> None:
    """Two ones in a row, or another number than 0 and 1, would be counted wrongly without a word."""
    with pytest.raises(DataError, match="columns 0 to 2, row 1"):
        RowBlocks.of(np.array([[0.0, 1.0, 0.0], row]), [slice(0, 3)])
