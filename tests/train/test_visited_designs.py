"""The record of designs met: what counts as new, and how it is kept in a file."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.search.genetic.visited_designs import VisitedDesigns, row_hashes

ROWS = st.lists(st.lists(st.integers(-1, 3), min_size=4, max_size=4), max_size=30)


def make_population(rows: list[list[int]]) -> np.ndarray:
    """Return rows of genes as a population."""
    return np.array(rows, dtype=np.int8).reshape(-1, 4)


@given(ROWS, ROWS)
def test_new_is_what_a_set_would_say(before: list[list[int]], now: list[list[int]]) -> None:
    """A row is new if it was never met and no earlier row equals it."""
    met = {tuple(row) for row in before}
    wanted = []
    for row in map(tuple, now):
        wanted.append(row not in met)
        met.add(row)
    visited = VisitedDesigns.empty().union(make_population(before))
    assert visited.is_new(make_population(now)).tolist() == wanted
    assert len(visited.union(make_population(now))) == len(met)


@given(ROWS)
def test_a_union_is_the_same_in_parts(rows: list[list[int]]) -> None:
    """Whatever the order and the parts, the same numbers in the same order: a resumed run continues as it would have."""
    whole = VisitedDesigns.empty().union(make_population(rows))
    parts = VisitedDesigns.empty()
    for row in reversed(rows):
        parts = parts.union(make_population([row]))
    assert np.array_equal(whole.hashes, parts.hashes)
    assert np.array_equal(VisitedDesigns.from_text(whole.to_text()).hashes, whole.hashes)


def test_no_two_designs_share_a_hash() -> None:
    """All 15,625 rows of six genes, those left out included, have different numbers."""
    rows = np.stack(np.meshgrid(*[np.arange(-1, 4, dtype=np.int8)] * 6), axis=-1).reshape(-1, 6)
    assert len(np.unique(row_hashes(rows))) == 5**6


@pytest.mark.parametrize("text", ["?", "abc", base64.b64encode(b"seven b").decode()])
def test_invalid_text_is_refused(text: str) -> None:
    """Not base64, or not whole numbers."""
    with pytest.raises(ValueError, match="expected 64-bit numbers in base64"):
        VisitedDesigns.from_text(text)
