"""Problems: data are checked once; everything learned comes from the train rows."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from emsco_train import CostGroup, CostModel, DataError, DesignError, FeatureOptions, ThresholdWarning, UnknownCategoryWarning
from emsco_train.data.problem import Problem
from emsco_train.data.row_error import RowError
from emsco_train.data.splits import PAPER_SHARES, Shares, Splits, make_splits
from emsco_train.data.stage_settings import row_weights
from emsco_train.errors import ConfidenceWarning, OutlierWarning, RareLabelWarning


def rows(count: int = 200, seed: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    """Return a table of three kinds of columns and three labels."""
    rng = np.random.default_rng(seed)
    size = rng.normal(5, 2, count)
    table = {"size": size, "kind": np.array(["a", "b", "c"])[rng.integers(0, 3, count)], "flag": rng.random(count) < 0.3}
    return table, np.array(["low", "middle", "high"])[np.digitize(size + rng.normal(0, 1, count), [4, 6])]


def test_parts_of_a_problem() -> None:
    """Every split carries its rows, their codes, targets and encoded columns; nothing is lost or moved."""
    table, y = rows()
    problem = Problem.of(table, y, costs=[1, 2, 3], threshold={"low": 0.7, "middle": 0.8, "high": 0.9})
    assert problem.names == ("size", "kind", "flag")
    assert problem.labels == ("high", "low", "middle")
    assert problem.thresholds == (0.9, 0.7, 0.8)
    assert [split.name for split in problem.splits()] == ["train", "validation", "test", "certify"]
    assert sorted(np.concatenate([split.rows for split in problem.splits()])) == list(range(200))
    for split in problem.splits():
        assert len(split) == len(split.target) == split.table.rows
        assert split.codes[:, 0].tolist() == table["size"][split.rows].tolist()
        assert [problem.labels[position] for position in split.target] == y[split.rows].tolist()
        assert split.encoded.shape == (len(split), 5)
        assert split.encoded is split.encoded
    assert problem.weights is None
    assert problem.full_cost == problem.meter.cost(problem.names) == 6.0


def test_everything_is_learned_from_train_rows() -> None:
    """Other rows change neither categories, nor medians, nor means."""
    table, y = rows(100)
    splits = make_splits(np.unique(y, return_inverse=True)[1], Shares(), rng=np.random.default_rng(0))
    shifted = {name: column.copy() for name, column in table.items()}
    others = np.concatenate([splits.validation, splits.test, splits.certify])
    shifted["size"][others] += 1000
    plain, moved = (Problem.of(data, y, splits=splits) for data in (table, shifted))
    assert plain.features == moved.features
    assert plain.encoder == moved.encoder
    np.testing.assert_allclose(plain.train.encoded[:, 0].mean(), 0, atol=1e-12)


def test_seed_and_shares() -> None:
    """The seed decides the splits; the paper's shares leave nothing to certify on."""
    table, y = rows()
    one, two, other = (Problem.of(table, y, seed=seed, shares=PAPER_SHARES) for seed in (1, 1, 2))
    assert np.array_equal(one.train.rows, two.train.rows)
    assert not np.array_equal(one.train.rows, other.train.rows)
    assert one.certify is None
    assert [split.name for split in one.splits()] == ["train", "validation", "test"]


def test_groups_and_time_reach_the_splits() -> None:
    """A group stays in one split; time puts the latest rows last."""
    table, y = rows()
    groups = np.arange(200) // 4
    problem = Problem.of(table, y, groups=groups)
    assert sum(len(set(groups[split.rows])) for split in problem.splits()) == 50
    timed = Problem.of(table, y, time=pd.Series(pd.date_range("2024-01-01", periods=200)))
    assert timed.train.rows.tolist() == list(range(80))
    assert timed.certify is not None
    assert timed.certify.rows.tolist() == list(range(160, 200))


def test_frames_arrays_and_ready_tables_agree() -> None:
    """The same rows as a frame, as mappings in ready splits, and with their columns in another order give one problem."""
    table, y = rows()
    whole = Problem.of(pd.DataFrame(table), y)
    pairs: dict[str, Any] = {}
    for split in whole.splits():
        columns = {name: table[name][split.rows] for name in (table if split.name == "train" else reversed(table))}
        pairs[split.name] = (columns, y[split.rows])
    ready = Problem.from_splits(**pairs)
    assert ready.data_digest() == whole.data_digest()
    assert ready.digest() == whole.digest()
    assert ready.validation.rows.tolist() == list(range(len(whole.validation)))
    array = Problem.of(np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2)
    assert array.names == ("x0", "x1", "x2", "x3")


def test_weights_are_those_of_the_train_rows() -> None:
    """Sample weights are given for all rows and used for the train rows, times the class weights."""
    table, y = rows()
    given = np.random.default_rng(1).random(200) + 0.5
    problem = Problem.of(table, y, sample_weight=given)
    assert problem.weights is not None
    assert problem.weights.tolist() == given[problem.train.rows].tolist()
    with pytest.warns(ConfidenceWarning):
        both = Problem.of(table, y, sample_weight=given, class_weight={"high": 3})
    expected = row_weights(both.train.target, both.labels, class_weight={"high": 3}, sample_weight=given[both.train.rows])
    np.testing.assert_array_equal(both.weights, expected)
    ready = Problem.from_splits(train=(table, y), validation=(table, y), sample_weight=given)
    assert ready.weights is not None
    assert len(ready.weights) == 200


def test_free_features_need_an_offset() -> None:
    """Contract: where some feature set costs nothing, 1 % of the full cost; a free feature of a paid group is not free."""
    table, y = rows()
    assert Problem.of(table, y).offset == 0.0
    assert Problem.of(table, y, costs={"size": 0, "kind": 30, "flag": 10}).offset == pytest.approx(0.4)
    grouped = CostModel({"size": 0, "kind": 1, "flag": 2}, (CostGroup("g", 5, ("size",)),))
    assert Problem.of(table, y, costs=grouped).offset == 0.0


def test_constant_columns_are_kept_and_harmless() -> None:
    """A column with one value becomes zeros, whatever its size."""
    _, y = rows()
    problem = Problem.of({"same": np.full(200, 1e9), "word": ["x"] * 200, "other": np.arange(200.0)}, y)
    assert problem.names == ("same", "word", "other")
    assert not problem.train.encoded[:, 0].any()
    assert np.isfinite(problem.validation.encoded).all()


def test_labels_of_two_types() -> None:
    """Text and whole numbers may be mixed, integers first; not so when two read the same, nor other numbers."""
    table, _ = rows(100)
    assert Problem.of(table, [1, "x"] * 50).labels == (1, "x")
    with pytest.raises(DataError, match="unique as text"):
        Problem.of(table, [1, "1"] * 50)
    with pytest.raises(DataError, match=r"y, row 1: 0\.5 .* is not a label"):
        Problem.of(table, [1, 0.5] * 50)
    with pytest.raises(DataError, match="y, row 99: the label is missing"):
        Problem.of(table, [*["a", "b"] * 49, "a", None])


def test_too_few_features() -> None:
    """One feature makes one stage: nothing to search."""
    with pytest.raises(DataError, match="one column, 'size': a search needs two features"):
        Problem.of({"size": np.arange(20.0)}, np.arange(20) % 2)


def test_costs_must_fit_the_columns() -> None:
    """Every feature has a price, and every price a feature."""
    table, y = rows()
    with pytest.raises(DesignError, match=r"no cost for feature 'flag'.*a cost for 'typo'"):
        Problem.of(table, y, costs={"size": 1, "kind": 1, "typo": 1})
    with pytest.raises(DesignError, match="all costs are 0"):
        Problem.of(table, y, costs=[0, 0, 0])


@pytest.mark.parametrize("threshold", [0, -0.1, 1.01, math.nan, "0.9", True, {"low": 0.9}])
def test_bad_thresholds(threshold: Any) -> None:
    """A threshold is above 0 and up to 1, and every label has one."""
    table, y = rows()
    with pytest.raises(DesignError, match="threshold: "):
        Problem.of(table, y, threshold=threshold)


def test_missing_values() -> None:
    """A column with gaps in train rows is imputed; one that is empty there, or has gaps only elsewhere, is refused."""
    table, y = rows()
    gaps = table | {"size": np.where(np.arange(200) % 3 == 0, np.nan, table["size"])}
    assert Problem.of(gaps, y).features[0].missing == "impute"
    assert np.isfinite(Problem.of(gaps, y).test.encoded).all()  # type: ignore[union-attr]
    with pytest.raises(DataError, match=r"column 'size' has no value at all in the training rows"):
        Problem.of(table | {"size": np.full(200, np.nan)}, y)
    late = {name: column.copy() for name, column in table.items()}
    late["size"][190] = np.nan
    with pytest.raises(
        DataError,
        match=r"column 'size', row 190 of the table: the value is missing .*missing=\"impute\"\) allows missing values\)$",
    ):
        Problem.of(late, y, time=np.arange(200))
    lenient = {"size": FeatureOptions(missing="impute")}
    assert Problem.of(late, y, time=np.arange(200), features=lenient).features[0].missing == "impute"
    with pytest.raises(DataError, match=r"^column 'size', row \d+ of the table: expected a finite number"):
        Problem.of(table | {"size": np.full(200, np.inf)}, y)


@pytest.mark.parametrize("row", [0, 77, 130, 199])
@pytest.mark.parametrize("folds", [0, 5])
def test_a_value_that_cannot_be_used_is_named_by_its_row(row: int, folds: int) -> None:
    """As the user's table counts, whatever the split; of ready splits, the row of the split, too. It says nothing of gaps."""
    table, y = rows()
    bad = table | {"size": np.where(np.arange(200) == row, np.inf, table["size"])}
    fault = r"expected a finite number, got inf \(float\); cap it, or return None if it is missing$"
    with pytest.raises(DataError, match=rf"^column 'size', row {row} of the table: {fault}"):
        Problem.of(bad, y, folds=folds)
    names = np.repeat(["train", "validation", "test", "certify"], 50)
    split = "train" if folds and names[row] == "validation" else names[row]
    within = row % 50 if split == names[row] else row
    with pytest.raises(DataError, match=rf"^column 'size', row {row} of the table \({split} row {within}\): {fault}"):
        Problem.of(bad, y, splits=Splits.from_names(names), folds=folds)


def test_a_value_that_cannot_be_used_in_ready_tables() -> None:
    """Each table counts its own rows."""
    table, y = rows()
    parts: dict[str, Any] = {
        name: ({key: column[start : start + 50].copy() for key, column in table.items()}, y[start : start + 50])
        for name, start in zip(("train", "validation", "test", "certify"), range(0, 200, 50), strict=True)
    }
    for name, (columns, _) in parts.items():
        kept = columns["size"][7]
        columns["size"][7] = np.inf
        with pytest.raises(DataError, match=rf"^column 'size', {name} row 7: expected a finite number.* if it is missing$"):
            Problem.from_splits(**parts)
        columns["size"][7] = kept


def test_a_mixed_column_is_named_by_its_row() -> None:
    """And so is a gap that the options forbid, by its row of the whole table."""
    table, y = rows()
    mixed: Any = table["size"].astype(object)
    mixed[150] = "large"
    with pytest.raises(DataError, match=r"'size' mixes kinds: row 150 of the table is 'large' \(categorical\), earlier ones"):
        Problem.of(table | {"size": mixed}, y, time=np.arange(200)[::-1])
    gap = table | {"size": np.where(np.arange(200) == 150, np.nan, table["size"])}
    with pytest.raises(DataError, match=r"column 'size', row 150 of the table: a missing value, and its option is"):
        Problem.of(gap, y, time=np.arange(200)[::-1], features={"size": FeatureOptions(missing="forbid")})


def test_the_error_of_a_row_survives_pickling() -> None:
    """Workers raise it in processes of their own."""
    error = RowError("column 'a', ", "test row 2", ": unknown category 'x'", 2, "unknown_category").with_hint("or ignore it")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.row, again.kind) == (str(error), 2, "unknown_category")
    assert str(again) == "column 'a', test row 2: unknown category 'x' (or ignore it)"


def test_unknown_categories() -> None:
    """A category that only other rows have is unknown to models, and warned of; an option refuses it."""
    table, y = rows()
    late = table | {"kind": np.where(np.arange(200) == 100, "new", table["kind"])}
    expected = "column 'kind': 1 validation row with a category that no train row has, such as 'new': models take it as unknown"
    with pytest.warns(UnknownCategoryWarning, match=expected):
        problem = Problem.of(late, y, time=np.arange(200))
    assert problem.validation.codes[20, 1] == -1.0
    with pytest.raises(
        DataError, match=r"'kind', row 100 of the table: unknown category 'new'.*FeatureOptions\(unknown=\"ignore\"\)"
    ):
        Problem.of(late, y, time=np.arange(200), features={"kind": FeatureOptions(unknown="fail")})


def test_rare_categories_are_not_warned_of() -> None:
    """Categories that are in the train rows, but too rare to be listed, are left out on purpose."""
    table, y = rows()
    few = table | {"kind": np.where(np.arange(200) % 40 == 0, "rare", table["kind"])}
    problem = Problem.of(few, y, features={"kind": FeatureOptions(min_category=10)})
    assert "rare" not in problem.features[1].categories
    assert sum(int((split.codes[:, 1] < 0).sum()) for split in problem.splits()) == 5


def test_a_label_must_be_in_the_train_rows() -> None:
    """A label that the train rows do not know is named with its split; one that others lack is warned of, by label and split."""
    table, y = rows()
    two = np.where(y == "low", "low", "high")
    short = {name: column[two == "low"] for name, column in table.items()}
    other = rows(seed=1)[0]
    with pytest.warns(RareLabelWarning, match="label 'high' has no validation rows, so nothing is known about it there: give"):
        Problem.from_splits(train=(other, two), validation=(short, two[two == "low"]))
    with pytest.raises(DataError, match="label 'middle' of the test rows is in no train row"):
        Problem.from_splits(train=(table, two), validation=(table, two), test=(table, y))
    rare = np.where(np.arange(200) == 0, "rare", y)
    for folds, split in ((0, "validation"), (5, "cross-fitted")):
        expected = f"'rare' has no {split} and no test and no certify rows, .*nothing is certified about a label without certify"
        with pytest.warns(RareLabelWarning, match=expected):
            problem = Problem.of(table, rare, folds=folds)
        assert 0 in problem.train.rows
    many = np.where(np.arange(200) < 9, [f"rare {row}" for row in range(200)], y)
    with pytest.warns(RareLabelWarning, match=r"label 'rare 4' has no validation and .* \(and 4 more labels\), so"):
        Problem.of(table, many)
    names = np.where(two == "low", "train", "validation")
    with pytest.raises(DataError, match="train y has only the label 'low'"):
        Problem.of(table, two, splits=Splits.from_names(names))


def test_ready_tables_must_be_alike() -> None:
    """Columns that are missing or too many are named, and a split is a pair."""
    table, y = rows()
    with pytest.raises(DataError, match=r"the validation rows differ .*it has no \['flag'\]"):
        Problem.from_splits(train=(table, y), validation=({name: table[name] for name in ("size", "kind")}, y))
    with pytest.raises(DataError, match=r"the certify rows differ .*it has \['x'\], which the train rows do not have"):
        Problem.from_splits(train=(table, y), validation=(table, y), certify=(table | {"x": y}, y))
    with pytest.raises(DesignError, match=r"validation is dict: expected a pair \(rows, labels\)"):
        Problem.from_splits(train=(table, y), validation=table)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="test y has 3 labels for 200 rows"):
        Problem.from_splits(train=(table, y), validation=(table, y), test=(table, y[:3]))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"sample_weight": [1, 2]}, DataError, r"sample_weight has shape \(2,\) for 200 rows"),
        ({"sample_weight": ["x"] * 200}, DataError, "one number per row"),
        ({"seed": -1}, DesignError, "seed is -1: expected a whole number"),
        ({"seed": 1.5}, DesignError, "seed is 1.5"),
        ({"seed": True}, DesignError, "seed is True"),
        ({"C": 0}, DesignError, "C is 0"),
        ({"features": {"typo": FeatureOptions()}}, DesignError, r"options for \['typo'\]"),
        ({"splits": Splits.from_names(["train", "validation"])}, DataError, "splits divide 2 rows, but X has 200"),
        ({"splits": Splits.from_names(["train"]), "shares": Shares()}, DesignError, "splits were given together with shares"),
        ({"splits": Splits.from_names(["train"] * 200)}, DesignError, "there are no validation rows, and no folds: give"),
        ({"groups": [1]}, DataError, r"groups has shape \(1,\) for 200 rows"),
        ({"folds": 1}, DesignError, "folds is 1: expected 2 or more, or 0 for one validation split; leave it out"),
        ({"folds": -5}, DesignError, "folds is -5"),
        ({"folds": 2.5}, DesignError, "folds is 2.5"),
        ({"folds": True}, DesignError, "folds is True"),
    ],
)
def test_bad_options(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    """Options that do not fit the rows or each other are refused."""
    table, y = rows()
    with pytest.raises(kind, match=message):
        Problem.of(table, y, **options)


def test_warnings_point_at_the_callers_line() -> None:
    """A threshold that everything reaches, and unequal class weights, are reported where the user called."""
    table, y = rows()
    with pytest.warns(ThresholdWarning, match="at or below 1 / 3 labels") as low:
        problem = Problem.of(table, y, threshold=1 / 3)
    with pytest.warns(ThresholdWarning) as changed:
        problem.with_threshold(0.2)
    with pytest.warns(ThresholdWarning) as ready:
        Problem.from_splits(train=(table, y), validation=(table, y), threshold=0.1)
    with pytest.warns(ConfidenceWarning, match=r"`class_weight` \('high': 5, 'low': 1, 'middle': 1\) shifts") as weighted:
        Problem.of(table, y, class_weight={"high": 5})
    for caught in (low, changed, ready, weighted):
        assert [warning.filename for warning in caught] == [__file__]


def test_class_weights_that_change_nothing_give_no_warning() -> None:
    """Equal weights, and "balanced" on labels of equal frequency, leave confidence what it is."""
    table, _ = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem.of(table, ["a", "b"] * 100, class_weight={"a": 2, "b": 2})
        Problem.of(table, ["a", "b"] * 100, class_weight="balanced")


def test_digests() -> None:
    """Whatever changes the models changes both digests; costs and thresholds change the whole one alone."""
    table, y = rows()
    base = Problem.of(table, y)
    assert base.digest() == Problem.of(table, y).digest() != base.data_digest()
    priced = [Problem.of(table, y, costs=[1, 2, 3]), base.with_threshold(0.8)]
    assert {problem.data_digest() for problem in priced} == {base.data_digest()}
    assert len({base.digest(), *(problem.digest() for problem in priced)}) == 3
    moved = table | {"size": np.where(np.arange(200) == base.test.rows[0], 0.0, table["size"])}  # type: ignore[union-attr]
    others = [
        Problem.of(moved, y),
        Problem.of(table, y, seed=1),
        Problem.of(table, y, C=2),
        Problem.of(table, y, sample_weight=np.ones(200)),
        Problem.of(table, y, classifier=DecisionTreeClassifier()),
        Problem.of(table, y, classifier=DecisionTreeClassifier(max_depth=3)),
        Problem.of(table, y, features={"kind": FeatureOptions(unknown="fail")}),
        Problem.of({name: table[name] for name in ("kind", "size", "flag")}, y),
        base.sampled(50),
    ]
    assert len({base.data_digest(), *(problem.data_digest() for problem in others)}) == len(others) + 1
    assert pickle.loads(pickle.dumps(base)).digest() == base.digest()


def test_with_threshold_shares_the_rows() -> None:
    """A sweep over thresholds copies nothing."""
    problem = Problem.of(*rows())
    other = problem.with_threshold(0.95)
    assert other.thresholds == (0.95,) * 3
    assert other.train is problem.train


def test_sampling_keeps_labels_in_proportion() -> None:
    """A sample has the rows asked for, every label in its share, the rarest too, and the encoder of all rows."""
    rng = np.random.default_rng(0)
    y = np.repeat(["common", "usual", "rare"], [1600, 390, 10])
    table = {"a": rng.normal(size=2000), "b": rng.normal(size=2000)}
    weights = rng.random(2000)
    problem = Problem.of(table, y, sample_weight=weights)
    part = problem.sampled(100, seed=3)
    assert (len(part.train), len(part.validation)) == (100, 100)
    for split in (part.train, part.validation):
        counts = np.bincount(split.target, minlength=3)
        assert counts[1] >= 1
        assert abs(counts[0] - 80) <= 1
        assert len(set(split.rows)) == 100
        assert split.codes[:, 0].tolist() == table["a"][split.rows].tolist()
    assert part.weights is not None
    assert part.weights.tolist() == weights[part.train.rows].tolist()
    assert part.encoder is problem.encoder
    assert part.test is problem.test
    assert part.train.rows.tolist() == problem.sampled(100, seed=3).train.rows.tolist()
    assert part.train.rows.tolist() != problem.sampled(100, seed=4).train.rows.tolist()


def test_sampling_more_than_there_is() -> None:
    """Enough rows: the problem itself. Fewer than two for each label, or no number: refused."""
    problem = Problem.of(*rows())
    assert problem.sampled(10_000) is problem
    assert len(problem.sampled(60).validation) == len(problem.validation) == 40
    for wrong in (5, 2.5, True, "all"):
        with pytest.raises(DesignError, match="at least two for each of 3 labels"):
            problem.sampled(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("folds", [0, 3])
def test_rows_without_weight_take_no_part(folds: int) -> None:
    """Whatever rows of weight 0 hold: features, statistics, folds and figures are those of the other rows."""
    table, y = rows()
    splits = make_splits(np.unique(y, return_inverse=True)[1], Shares(), rng=np.random.default_rng(0))
    weights = np.where(np.arange(200) % 4, 1.0, 0.0)
    other = {name: column.copy() for name, column in table.items()}
    other["size"][::4] += 1000
    other["kind"][::4] = "new"
    plain, odd = (Problem.of(data, y, splits=splits, sample_weight=weights, folds=folds) for data in (table, other))
    assert plain.features == odd.features
    assert plain.encoder == odd.encoder
    assert plain.data_digest() == odd.data_digest()
    assert all((split.rows % 4).all() for split in odd.splits())


def test_rows_without_weight_in_ready_tables() -> None:
    """Given as tables of their own, splits are those of the rows that have weight, too."""
    table, y = rows()
    weights = np.where(np.arange(200) % 4, 1.0, 0.0)
    kept = weights > 0
    fewer = {name: column[kept] for name, column in table.items()}
    given = Problem.from_splits(train=(table, y), validation=(table, y), sample_weight={"train": weights, "validation": weights})
    assert given.features == Problem.from_splits(train=(fewer, y[kept]), validation=(fewer, y[kept])).features
    assert len(given.train) == len(given.validation) == kept.sum()


def test_folds_of_a_label_with_little_weight() -> None:
    """A label that has weight in two rows alone: the fits of every fold know it by weight, whatever the seed."""
    rng = np.random.default_rng(0)
    table, y = {"a": rng.normal(size=300), "b": rng.normal(size=300)}, np.repeat(["fine", "fraud"], [280, 20])
    weights = np.ones(300)
    weights[282:] = 0
    for seed in range(6):
        problem = Problem.of(table, y, sample_weight=weights, folds=5, shares=Shares(0.8, 0.2, 0.0, 0.0), seed=seed)
        assert all(len(set(part.fitted.target)) == 2 for part in problem.parts)


def test_balanced_weights_are_warned_of_by_weight() -> None:
    """With sample weights that balance the labels already, "balanced" shifts nothing; without them, it does."""
    table, y = {"a": np.arange(200.0), "b": np.arange(200.0)}, np.repeat(["few", "many"], [50, 150])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConfidenceWarning)
        Problem.of(table, y, sample_weight=np.where(y == "few", 3.0, 1.0), class_weight="balanced")
    with pytest.warns(ConfidenceWarning, match=r"\('few': 2, 'many': 0.667\)"):
        Problem.of(table, y, sample_weight=np.ones(200), class_weight="balanced")


def test_given_splits_must_not_divide_groups() -> None:
    """A group in two given splits is named by its rows; where folds pool train and validation rows, these may share groups."""
    table, y = rows()
    splits = make_splits(np.unique(y, return_inverse=True)[1], Shares(), rng=np.random.default_rng(0))
    with pytest.raises(DataError, match=r"groups: rows \d+ \(train\) and \d+ \(\w+\) are in the same group"):
        Problem.of(table, y, splits=splits, groups=np.arange(200) % 20)
    groups = np.arange(200)
    groups[splits.train[:10]] = splits.validation[:10]
    assert Problem.of(table, y, splits=splits, groups=groups, folds=3).is_cross_fitted
    with pytest.raises(DataError, match=r"rows \d+ \(train\) and \d+ \(validation\)"):
        Problem.of(table, y, splits=splits, groups=groups, folds=0)


def test_groups_and_time_do_not_go_together_with_given_splits() -> None:
    """Folds cannot respect both, so groups would be divided."""
    table, y = rows()
    splits = make_splits(np.unique(y, return_inverse=True)[1], Shares(), rng=np.random.default_rng(0))
    with pytest.raises(DesignError, match="groups and time were both given"):
        Problem.of(table, y, splits=splits, groups=np.arange(200), time=np.arange(200))


def test_sampling_leaves_out_rows_without_weight() -> None:
    """Rows of weight 0 take no place in the sample."""
    table, y = rows()
    weights = np.where(np.arange(200) % 2, 1.0, 0.0)
    part = Problem.of(table, y, sample_weight=weights).sampled(20)
    assert part.weights is not None
    assert part.weights.all()


def make_outliers(largest: float, few: int = 3) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return rows of which a few have a value far out, and their labels."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=200)
    truth = size > 0
    size[:few] = largest
    return {"size": size, "other": rng.normal(size=200), "kind": rng.choice(["a", "b"], 200)}, truth


def test_outliers_that_hide_a_column_are_reported_at_the_users_line() -> None:
    """Three values of 1e100 leave the other values of the column all but equal: a warning with the column and the remedy."""
    rows, truth = make_outliers(1e100)
    with pytest.warns(
        OutlierWarning, match=r"column 'size' holds [1-3] values? so far out \(up to 1e\+100\).*correct them"
    ) as caught:
        Problem.of(rows, truth, threshold=0.8)
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.parametrize(("largest", "few"), [(50.0, 3), (1e100, 100)])
def test_values_that_are_not_outliers_give_no_warning(largest: float, few: int) -> None:
    """Values of a long tail, or a column that is half of one size and half of another, are as they are."""
    Problem.of(*make_outliers(largest, few), threshold=0.8)


def test_values_that_overflow_name_their_column() -> None:
    """The error of the encoder reaches the user, and names the row of the table."""
    with pytest.raises(
        DataError,
        match=r"column 'size' holds values too large.*in \d of 80 train rows; the largest of these, in row \d+ of the table, is ",
    ):
        Problem.of(*make_outliers(1e200), threshold=0.8)
