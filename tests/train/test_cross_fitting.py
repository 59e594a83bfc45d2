"""Cross-fitted statistics: no row is read from what its own fold has taught, and groups stay together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from emsco_train import cross_fit, deal_folds
from emsco_train.errors import DataError

GROUPS = st.lists(st.one_of(st.none(), st.integers(-3, 12), st.text(max_size=2)), max_size=30)


@given(GROUPS, st.integers(2, 5))
def test_no_row_is_read_from_its_own_fold(groups: list[int | str | None], folds: int) -> None:
    """Statistics are the places learned from: never the row's own fold nor group, always all others; rows come in order."""
    dealt = deal_folds(groups, folds)
    learned = {row for row, group in enumerate(groups) if group is not None}

    def learn(left_out: Sequence[int]) -> set[int]:
        return learned - set(left_out)

    def read(known: set[int], rows: Sequence[int]) -> list[tuple[int, set[int]]]:
        return [(row, known) for row in rows]

    found = cross_fit(groups, learn, read, folds=folds)
    assert [row for row, _ in found] == list(range(len(groups)))
    for row, known in found:
        assert known == {other for other in learned if groups[row] is None or dealt[other] != dealt[row]}
        assert not any(groups[other] == groups[row] for other in known if groups[row] is not None)


@given(GROUPS, st.integers(2, 5))
def test_the_fold_of_a_group_depends_on_the_group_alone(groups: list[int | str | None], folds: int) -> None:
    """Alone or among others, a group has the same fold; only rows without a group have none."""
    dealt = deal_folds(groups, folds)
    assert dealt == [deal_folds([group], folds)[0] for group in groups]
    assert all((fold is None) == (group is None) for fold, group in zip(dealt, groups, strict=True))
    assert all(fold is None or 0 <= fold < folds for fold in dealt)


def test_folds_are_about_equal_and_two_at_least() -> None:
    """A thousand groups in ten folds: none has less than half of its share."""
    dealt = deal_folds(range(1000))
    assert min(dealt.count(fold) for fold in range(10)) > 50
    with pytest.raises(DataError, match=r"folds is 1: expected at least 2"):
        cross_fit([1], lambda _: None, lambda _, rows: rows, folds=1)
