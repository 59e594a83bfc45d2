"""Objectives: exact counts, and the figures made of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.data.row_units import MAX_UNITS
from emsco_train.errors import DataError
from emsco_train.search.scoring.objectives import Objectives


def make_objectives(*rows: tuple[int, int, int], total: int = 100, offset: float = 0.0, scale: float = 1.0) -> Objectives:
    """Return objectives from (accepted, right, cost) tuples."""
    return Objectives(*np.array(rows, dtype=np.int64).reshape(-1, 3).T, total, offset, scale)


def test_figures() -> None:
    """Coverage, accuracy, mean cost in the user's unit, cost ratio to the cheapest, and the norm of the three."""
    two = make_objectives((50, 40, 2000), (0, 0, 1000), scale=10.0)
    assert two.coverage.tolist() == [0.5, 0.0]
    assert two.accuracy.tolist() == [0.8, 0.0]
    assert two.mean_cost.tolist() == [2.0, 1.0]
    assert two.cost_ratio().tolist() == [0.5, 1.0]
    assert two.performance() == pytest.approx([(0.25 + 0.64 + 0.25) ** 0.5, 1.0])


def test_nothing_accepted_is_accuracy_zero() -> None:
    """Not a division by zero."""
    assert make_objectives((0, 0, 5)).accuracy.tolist() == [0.0]


def test_free_designs_need_the_offset() -> None:
    """With it, the cost ratio stays in (0, 1]; without it, a free design is refused."""
    assert make_objectives((1, 1, 0), (1, 1, 90), offset=10.0).cost_ratio().tolist() == [1.0, 0.1]
    with pytest.raises(DataError, match="offset"):
        make_objectives((1, 1, 0))


@pytest.mark.parametrize("rows", [0, MAX_UNITS + 1])
def test_rows_within_exactness(rows: int) -> None:
    """Beyond the limit two accuracies could fall together."""
    with pytest.raises(DataError, match=f"{rows} validation rows"):
        make_objectives((0, 0, 1), total=rows)


@given(st.data())
def test_accuracy_orders_exactly(data: st.DataObject) -> None:
    """Floats compare as the fractions do, up to the limit of rows."""
    bottom = data.draw(st.tuples(st.integers(1, MAX_UNITS), st.integers(1, MAX_UNITS)))
    top = [data.draw(st.integers(max(0, accepted - 3), accepted)) for accepted in bottom]
    one, two = make_objectives((bottom[0], top[0], 1), (bottom[1], top[1], 1), total=MAX_UNITS).accuracy
    exact_one, exact_two = Fraction(top[0], bottom[0]), Fraction(top[1], bottom[1])
    assert (one < two, one == two) == (exact_one < exact_two, exact_one == exact_two)


def test_take_and_join() -> None:
    """Parts keep the rows, the offset and the scale."""
    three = make_objectives((3, 2, 7), (4, 4, 9), (5, 1, 8), offset=2.0, scale=4.0)
    parts = three.take(np.array([2, 0]))
    assert parts.vectors().tolist() == [[5, 1, 8], [3, 2, 7]]
    assert (parts.rows, parts.offset, parts.scale, len(parts)) == (100, 2.0, 4.0, 2)
    assert three.take(np.array([False, True, False])).join([parts, parts]).accepted.tolist() == [4, 5, 3, 5, 3]
    assert len(three.take(slice(0, 0))) == 0
