"""Splits: a partition of the rows that keeps labels in proportion, groups whole and time in order."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from emsco_train import DataError, DesignError, deal_folds
from emsco_train.data.split_keys import group_codes
from emsco_train.data.splits import PAPER_SHARES, SPLITS, Shares, Splits, make_splits, stratified_counts

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

QUARTERS = Shares(0.25, 0.25, 0.25, 0.25)


def rng(seed: int = 0) -> np.random.Generator:
    """Return a fresh generator."""
    return np.random.default_rng(seed)


@st.composite
def shares(draw: st.DrawFn) -> Shares:
    """Draw shares in hundredths, train and validation above 0."""
    test, certify = draw(st.integers(0, 30)), draw(st.integers(0, 30))
    validation = draw(st.integers(1, 39))
    return Shares((100 - test - certify - validation) / 100, validation / 100, test / 100, certify / 100)


@settings(deadline=None)
@given(shares(), st.lists(st.integers(4, 60), min_size=2, max_size=5), st.integers(0, 2**32), st.randoms())
def test_stratified_partition(division: Shares, sizes: list[int], seed: int, random: Any) -> None:
    """Every row is in one split; each label is divided to within one row, unless a split would have gone without it."""
    rows = [label for label, size in enumerate(sizes) for _ in range(size)]
    random.shuffle(rows)
    target = np.array(rows)
    splits = make_splits(target, division, rng=rng(seed))
    assert sorted(np.concatenate([part for _, part in splits.items()])) == list(range(len(target)))
    counts = np.array([np.bincount(target[part], minlength=len(sizes)) for _, part in splits.items()])
    for (used, exact), got in zip([(share, share * np.array(sizes)) for share in division.values()], counts, strict=True):
        assert (got > 0).all() if used else not got.any()
        assert (got <= np.maximum(exact + 1, 1)).all()
    whole = np.outer(division.values(), sizes)
    apart = np.abs(counts - whole).max(axis=0)
    plain = np.floor(np.round(whole, 9)).astype(int)
    untouched = ((plain > 0) | (np.array(division.values())[:, None] == 0)).all(axis=0)
    assert (apart[untouched] < 1 + 1e-9).all()


@settings(deadline=None)
@given(st.lists(st.integers(20, 500), min_size=1, max_size=30))
def test_whole_splits_come_near_their_shares(sizes: list[int]) -> None:
    """Rounding is not always in favour of the same split: with many labels, totals stay within a few rows."""
    counts = stratified_counts(sizes, np.array([0.4, 0.2, 0.2, 0.2]))
    assert counts.sum(axis=1).tolist() == sizes
    assert np.abs(counts.sum(axis=0) - np.array([0.4, 0.2, 0.2, 0.2]) * sum(sizes)).max() < 2


def test_same_generator_same_splits() -> None:
    """A seed fixes the splits, another one changes them, and positions are ascending and cannot be changed."""
    target = np.arange(200) % 3
    one, two, other = (make_splits(target, Shares(), rng=rng(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for (_, a), (_, b) in zip(one.items(), two.items(), strict=True))
    assert not np.array_equal(one.train, other.train)
    assert (np.diff(one.train) > 0).all()
    with pytest.raises(ValueError, match="read-only"):
        one.train[0] = 5


def test_the_papers_shares() -> None:
    """50 / 25 / 25 and nothing to certify on."""
    splits = make_splits(np.arange(100) % 2, PAPER_SHARES, rng=rng())
    assert [len(part) for _, part in splits.items()] == [50, 25, 25, 0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 2)), min_size=80, max_size=200), st.integers(0, 9), st.randoms())
def test_groups_are_never_cut(pairs: list[tuple[int, int]], seed: int, random: Any) -> None:
    """Rows of a group share a split, whatever the order of the rows; or some split cannot get a label, which the error names."""
    groups, target = (np.array(column) for column in zip(*pairs, strict=True))
    try:
        names = make_splits(target, Shares(), groups=groups, rng=rng(seed)).names()
    except DataError as error:
        assert "has no row in the" in str(error)  # noqa: PT017 - either outcome is right
        return
    home = dict(zip(groups.tolist(), names, strict=True))
    assert all(home[group] == name for group, name in zip(groups.tolist(), names, strict=True))
    order = np.array(random.sample(range(len(target)), len(target)))
    again = make_splits(target[order], Shares(), groups=groups[order], rng=rng(seed)).names()
    assert (again == names[order]).all()


def test_groups_come_near_the_shares() -> None:
    """With many groups of mixed sizes, every label is divided nearly as without groups, certify groups being a sample."""
    random = rng(3)
    groups = np.repeat(np.arange(300), random.integers(1, 20, 300))
    target = (random.random(len(groups)) < 0.1).astype(int)
    splits = make_splits(target, Shares(), groups=groups, rng=rng())
    for label in (0, 1):
        got = [np.mean(splits.names()[target == label] == name) for name in SPLITS]
        np.testing.assert_allclose(got, [0.4, 0.2, 0.2, 0.2], atol=0.05)


def test_the_last_groups_of_a_label_go_where_it_is_lacking() -> None:
    """Three groups hold the rare label: each split that is fitted to its shares gets one, and none is drawn for certify."""
    groups = np.arange(40)
    target = (groups < 3).astype(int)
    splits = make_splits(target, Shares(0.85, 0.05, 0.05, 0.05), groups=groups, rng=rng())
    assert sorted(splits.names()[:3]) == sorted(SPLITS[:3])


def test_every_group_is_certified_with_the_same_chance() -> None:
    """Large groups are drawn for certify as often as small ones: whoever counts groups counts a sample of them."""
    sizes = np.array([40] * 10 + [1] * 90)
    groups = np.repeat(np.arange(100), sizes)
    target = np.arange(len(groups)) % 2
    drawn = np.zeros(100)
    for seed in range(300):
        drawn[np.unique(groups[make_splits(target, Shares(), groups=groups, rng=rng(seed)).certify])] += 1
    shares = drawn[:10].mean() / 300, drawn[10:].mean() / 300
    np.testing.assert_allclose(shares, 0.2, atol=0.02)


@pytest.mark.parametrize(
    "groups",
    [
        ["a", "b", "c", "d"] * 2,
        [1, "1", 2.5, date(2024, 1, 1)] * 2,
        pd.Series(["a", "b", "c", "d"] * 2, dtype="category"),
        np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"] * 2, dtype="datetime64[D]"),
    ],
)
def test_kinds_of_groups(groups: Any) -> None:
    """Numbers, text, dates, categories and mixtures all distinguish groups."""
    names = make_splits(np.array([0] * 4 + [1] * 4), QUARTERS, groups=groups, rng=rng()).names()
    assert sorted(names[:4]) == sorted(SPLITS)
    assert names[:4].tolist() == names[4:].tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=40, max_size=120).filter(lambda times: len(set(times)) >= 4), st.randoms())
def test_time_is_never_turned_round(times: list[int], random: Any) -> None:
    """No row of a split is earlier than a row of the split before, equal times are together, and row order is nothing."""
    moments = np.array(times)
    target = np.zeros(len(times), dtype=int)
    splits = make_splits(target, Shares(), time=moments, rng=rng())
    for earlier, later in ((splits.train, splits.validation), (splits.validation, splits.test), (splits.test, splits.certify)):
        assert moments[earlier].max() < moments[later].min()
    order = np.array(random.sample(range(len(times)), len(times)))
    again = make_splits(target, Shares(), time=moments[order], rng=rng(5))
    assert (again.names() == splits.names()[order]).all()


def test_time_meets_the_shares_as_nearly_as_ties_allow() -> None:
    """Distinct times meet the shares exactly; one long tie moves a cut to its nearer end."""
    splits = make_splits(np.zeros(100, dtype=int), Shares(), time=np.arange(100)[::-1], rng=rng())
    assert [len(part) for _, part in splits.items()] == [40, 20, 20, 20]
    assert splits.train.tolist() == list(range(60, 100))
    tied = np.repeat([0, 1, 2, 3, 4], [35, 15, 10, 20, 20])
    splits = make_splits(np.zeros(100, dtype=int), Shares(), time=tied, rng=rng())
    assert [len(part) for _, part in splits.items()] == [35, 25, 20, 20]
    heavy = np.repeat([0, 1, 2, 3], [97, 1, 1, 1])
    splits = make_splits(np.zeros(100, dtype=int), Shares(), time=heavy, rng=rng())
    assert [len(part) for _, part in splits.items()] == [97, 1, 1, 1]


DAYS = [f"2024-0{month}-01" for month in (4, 3, 2, 1)]


@pytest.mark.parametrize(
    "time",
    [
        DAYS,
        np.array(DAYS),
        pd.Series(DAYS),
        pd.to_datetime(pd.Series(DAYS)),
        pd.to_datetime(pd.Series(DAYS)).dt.tz_localize("UTC"),
        np.array(DAYS, dtype="datetime64[D]"),
        [date.fromisoformat(day) for day in DAYS],
        [date(2024, 4, 1), *(datetime(2024, month, 1) for month in (3, 2, 1))],  # noqa: DTZ001
        [datetime(2024, month, 1, tzinfo=UTC) for month in (4, 3, 2, 1)],
        [4.5, 3, 2, 1],
        np.array([4, 3, 2, 1], dtype=np.uint8),
        pd.Series([4, 3, 2, 1], dtype="Int64"),
    ],
)
def test_kinds_of_time(time: Any) -> None:
    """Numbers, dates and ISO text, in lists, arrays and frame columns, are all put in order."""
    splits = make_splits(np.zeros(4, dtype=int), QUARTERS, time=time, rng=rng())
    assert splits.names().tolist() == list(SPLITS)[::-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": [1, 2]}, r"groups has shape \(2,\) for 8 rows"),
        ({"groups": np.ones((8, 1))}, r"groups has shape \(8, 1\)"),
        ({"groups": ["a"] * 7 + [None]}, "groups, row 7: the value is missing"),
        ({"groups": ["a"] * 7 + [float("nan")]}, "groups, row 7: the value is missing"),
        ({"groups": np.array([1.0] * 3 + [np.nan] * 5)}, "groups, row 3: the value is missing"),
        ({"time": [1, 2]}, r"time has shape \(2,\) for 8 rows"),
        ({"time": np.array(["NaT"] * 8, dtype="datetime64[D]")}, "time, row 0: the value is missing"),
        ({"time": ["31/12/2024"] * 8}, "time, row 0: '31/12/2024' is not a time: write times as ISO 8601"),
        ({"time": [1, 2, 3, 4, 5, 6, 7, date(2024, 1, 1)]}, "time mixes kinds that have no common order"),
        ({"time": np.array([True, False] * 4)}, "time holds bool"),
        ({"time": [1, 1, 1, 1, 2, 2, 3, 3]}, "time has 3 different values for 4 splits"),
        ({"time": [5, 6, 7, 8, 1, 2, 3, 4]}, "label 'ham' has no row in the train split: give more rows of it, drop it, or"),
    ],
)
def test_bad_groups_and_times(options: dict[str, Any], message: str) -> None:
    """Wrong lengths, gaps and unusable values are named with their row; a label that falls out, with its split."""
    with pytest.raises(DataError, match=message):
        make_splits(np.array([0] * 4 + [1] * 4), Shares(), rng=rng(), labels=["ham", "spam"], **options)


@pytest.mark.parametrize("seed", range(20))
def test_a_large_certify_share_of_few_groups(seed: int) -> None:
    """However large its share, certify leaves a group to each other split."""
    splits = make_splits(np.array([0, 1] * 6), Shares(0.2, 0.0, 0.0, 0.8), groups=np.repeat([0, 1], 6), rng=rng(seed))
    assert len(splits.train) == len(splits.certify) == 6


def test_equal_groups_of_other_types_stay_together() -> None:
    """A whole number is one group, whether numpy or Python made it; text that looks like it is another."""
    assert group_codes([1, 1.0, np.int64(1), np.int64(2), 2, "1", 2.5, True], rows=8).tolist()[:3] == [1, 1, 1]
    codes = group_codes([1, 1.0, np.int64(1), np.int64(2), 2, "1", 2.5, True], rows=8)
    assert len(set(codes.tolist())) == 4
    assert codes[7] == codes[0]
    assert deal_folds([3, np.int64(3), 3.0]) == [deal_folds([3])[0]] * 3


def test_groups_and_time_do_not_go_together() -> None:
    """A group may span times, so both cannot be respected."""
    with pytest.raises(DesignError, match="groups and time were both given"):
        make_splits(np.array([0, 1]), Shares(), groups=[1, 2], time=[1, 2], rng=rng())


def test_a_label_with_too_few_rows() -> None:
    """Of a label with fewer rows than splits, the first splits have one each; by groups and times, train has all of it first."""
    for rows in (1, 2, 3):
        splits = make_splits(np.array([0] * 9 + [1] * rows), Shares(), rng=rng(), labels=["common", "rare"])
        assert sorted(splits.names()[9:], key=SPLITS.index) == list(SPLITS[:rows])
    paper = make_splits(np.array([0] * 9 + [1] * 3), PAPER_SHARES, rng=rng())
    assert sorted(paper.names()[9:]) == ["test", "train", "validation"]
    assert set(make_splits(np.array([0, 1] * 4), Shares(), groups=[1] * 8, rng=rng()).names()) == {"train"}
    by_time = make_splits(np.array([0] * 4 + [1] * 4), Shares(), time=[1, 3, 5, 7, 2, 4, 6, 8], rng=rng())
    assert by_time.train.tolist() == [0, 1, 4]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((0.5, 0.2, 0.2, 0.2), "is 1.1: together they must be 1"),
        ((0.6, 0.6, 0.0, -0.2), "the certify share is -0.2: expected a number from 0 to 1"),
        ((float("nan"), 0.2, 0.2, 0.2), "the train share is nan"),
        (("0.4", 0.2, 0.2, 0.2), "the train share is '0.4'"),
        ((0.0, 1.0, 0.0, 0.0), "the train share is 0: the search needs such rows"),
    ],
)
def test_bad_shares(values: Any, message: str) -> None:
    """Shares are a division of the whole, and the search needs train rows; folds need no validation rows."""
    with pytest.raises(DesignError, match=message):
        Shares(*values)
    assert Shares(1.0, 0.0, 0.0, 0.0).values() == (1.0, 0.0, 0.0, 0.0)


def test_splits_made_by_hand() -> None:
    """Positions in any order are taken, if every row is in exactly one split."""
    splits = Splits([3, 0], np.array([1], dtype=np.uint8), [], [2])  # type: ignore[arg-type]
    assert splits.train.tolist() == [0, 3]
    assert splits.names().tolist() == ["train", "validation", "certify", "train"]
    assert Splits.from_names(splits.names()).names().tolist() == splits.names().tolist()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [1], [], []), "row 1 is in two splits"),
        (([0, 3], [1], [], []), "row 2 is in no split"),
        (([-1, 0], [1], [], []), "train holds row -1: rows are counted from 0"),
        (([], [0, 1], [], []), "train has no rows"),
        (([0.5], [1], [], []), "train is float64 of shape"),
        (([[0]], [1], [], []), r"train is int64 of shape \(1, 1\)"),
    ],
)
def test_bad_splits(parts: Any, message: str) -> None:
    """A row in two splits or in none, an empty split that the search needs, and anything but positions are refused."""
    with pytest.raises(DesignError, match=message):
        Splits(*parts)


def test_bad_split_names() -> None:
    """A word that names no split is an error that names its row."""
    with pytest.raises(DesignError, match="splits, row 1: 'dev' is not one of train, validation"):
        Splits.from_names(["train", "dev"])
