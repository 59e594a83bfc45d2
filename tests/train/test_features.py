"""Features: what is inferred from training columns, and what options change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from emsco_runtime.bundle.manifest import Feature
from emsco_train import CostGroup, CostModel, DataError, DesignError, FeatureOptions, Table
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import encode_table, infer_features


def infer(values: Any, options: FeatureOptions | None = None) -> Feature:
    """Infer one feature called x from one column."""
    chosen = None if options is None else {"x": options}
    return infer_features(Table.of({"x": values}), ["x"], CostModel.of(None, ["x"]), chosen)[0]


@pytest.mark.parametrize(
    ("values", "kind", "missing", "fallback"),
    [
        ([3.0, 1.0, 2.0], "numeric", "forbid", 2.0),
        ([3, 1, 2, 2], "numeric", "forbid", 2.0),
        ([3.0, np.nan, 5.0], "numeric", "impute", 4.0),
        ([3, None, 5], "numeric", "impute", 4.0),
        (np.array([True, False, True]), "boolean", "forbid", True),
        ([True, None, False], "boolean", "impute", False),
        (["b", "a", "b"], "categorical", "forbid", "b"),
        (np.array(["b", "a"]), "categorical", "forbid", "a"),
        (["b", None, "a"], "categorical", "impute", "a"),
        (pd.Series([3, 1, 3], dtype="category"), "categorical", "forbid", "3"),
        (pd.Series(pd.Categorical([3, None, 1])), "categorical", "impute", "1"),
    ],
)
def test_inference(values: Any, kind: str, missing: str, fallback: Any) -> None:
    """Kind follows the column's type, gaps make "impute", the fallback is the median or the most common value (first of ties)."""
    feature = infer(values)
    unknown = "ignore" if kind == "categorical" else "fail"
    assert (feature.kind, feature.missing, feature.unknown, feature.fallback) == (kind, missing, unknown, fallback)
    assert type(feature.fallback) is type(fallback)


def test_codes_are_categories_by_their_text() -> None:
    """3 and 3.0 are the category "3", sorted as text, as the runtime compares them."""
    feature = infer(np.array([10.0, 3.0, np.nan, 3.0]), FeatureOptions(kind="categorical"))
    assert feature.categories == ("10", "3")
    assert encode_table([feature], Table.of({"x": [3, "10", None]}), "test")[:, 0].tolist()[:2] == [1.0, 0.0]


def test_options_override() -> None:
    """Each option replaces what the column would have said."""
    feature = infer([0, 1, 1], FeatureOptions(kind="boolean", missing="impute", fallback=0))
    assert (feature.kind, feature.missing, feature.fallback) == ("boolean", "impute", False)
    assert infer([1.0, 2.0], FeatureOptions(fallback=None)).fallback is None
    assert infer([1.0, 2.0], FeatureOptions(fallback=7)).fallback == 7.0
    ignored = infer(["a", "b"], FeatureOptions(unknown="ignore", fallback="other"))
    assert (ignored.unknown, ignored.fallback) == ("ignore", "other")
    assert infer([1, 2], FeatureOptions(kind="categorical", fallback=2)).fallback == "2"


def test_costs_and_groups_are_carried() -> None:
    """The description of a feature has its price and group."""
    costs = CostModel.from_mapping({"x": 2}, groups=[CostGroup("g", 1, ("x",))])
    feature = infer_features(Table.of({"x": [1, 2]}), ["x"], costs)[0]
    assert (feature.cost, feature.group) == (2.0, "g")


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([None, None], None, "column 'x' has no value at all"),
        ([1.0, np.inf], None, "column 'x', training row 1: expected a finite number, got inf"),
        ([1.0, "a"], None, r"mixes kinds: row 1 is 'a' \(categorical\), earlier ones are numeric"),
        (["a", True], None, "mixes kinds: row 1 is True"),
        (["1", "a"], FeatureOptions(kind="numeric"), "column 'x', training row 0: expected a number, got '1'"),
        ([0, 2], FeatureOptions(kind="boolean"), "column 'x', training row 1: expected True or False"),
        ([1.5, 2.0], FeatureOptions(kind="categorical"), "column 'x', row 0: expected a category .*, got 1.5"),
        ([object(), object()], None, "training row 0: expected a number, got <object"),
        ([1.0, None], FeatureOptions(missing="forbid"), "column 'x', row 1: a missing value"),
        (["", "a"], None, "column 'x': categories.0 is '', which a bundle cannot hold"),
        # The text of a whole page made a message as long.
        (["p" * 5000, "a"], None, r"column 'x': categories.\d is 'p{199}\.\.\., which a bundle cannot hold"),
    ],
)
def test_bad_columns(values: Any, options: FeatureOptions | None, message: str) -> None:
    """The error names the column, the row and the value."""
    with pytest.raises(DataError, match=message):
        infer(values, options)


def test_bad_options() -> None:
    """Options that contradict the feature, or have no feature, are refused."""
    with pytest.raises(DesignError, match="the fallback of 'x': expected a number, got 'a'"):
        infer([1, 2], FeatureOptions(fallback="a"))
    with pytest.raises(DesignError, match="unknown=\"ignore\" is for categories, but 'x' is numeric"):
        infer([1, 2], FeatureOptions(unknown="ignore"))
    with pytest.raises(DesignError, match=r"options for \['y'\], which are not columns; the table has: x"):
        infer_features(Table.of({"x": [1, 2]}), ["x"], CostModel.of(None, ["x"]), {"y": FeatureOptions()})


def test_other_rows_are_held_to_the_training_rows() -> None:
    """A gap that training never saw is an error with the remedy, and so is a category unless the option allows it, as it does."""
    number, word = infer([1.0, 2.0]), infer(["a", "b"], FeatureOptions(unknown="fail"))
    with pytest.raises(DataError, match="column 'x', held-out row 1: the value is missing"):
        encode_table([number], Table.of({"x": [1.0, np.nan]}), "held-out")
    with pytest.raises(DataError, match="column 'x', held-out row 0: unknown category 'c'"):
        encode_table([word], Table.of({"x": ["c"]}), "held-out")
    lenient = infer(["a", "b"])
    assert encode_table([lenient], Table.of({"x": ["c", "b"]}), "held-out")[:, 0].tolist() == [-1.0, 1.0]


def test_rare_categories_are_not_listed() -> None:
    """Those with fewer train rows than asked for are one unknown category, and are neither fallback nor what fills a gap."""
    feature = infer(["a", "a", "b", "b", "c", "d", "e", None], FeatureOptions(min_category=2))
    assert (feature.categories, feature.unknown, feature.fallback) == (("a", "b"), "ignore", "a")
    codes = encode_table([feature], Table.of({"x": ["c", "b", "new", None]}), "held-out")
    assert codes[:3, 0].tolist() == [-1.0, 1.0, -1.0]
    rare = np.array([[-1.0], [-1.0], [-1.0], [1.0], [np.nan]])
    assert BlockEncoder.fit([feature], rare).transform(rare).tolist() == [[0, 0], [0, 0], [0, 0], [0, 1], [0, 1]]
    # A fold may have no listed category at all: its gaps are unknown, too.
    assert BlockEncoder.fit([feature], rare[:2]).transform(rare[4:]).tolist() == [[0, 0]]


def test_rare_categories_must_leave_some() -> None:
    """A number of rows that no category has, or one that is none, is refused with the remedy."""
    with pytest.raises(
        DataError, match="column 'x': no category has the 3 train rows that `min_category` asks for, the largest 2"
    ):
        infer(["a", "a", "b"], FeatureOptions(min_category=3))
    with pytest.raises(DesignError, match="min_category is 0: expected a whole number of rows, 1 or more"):
        FeatureOptions(min_category=0)
    with pytest.raises(DesignError, match='`min_category` makes rare categories unknown ones: use `unknown="ignore"`'):
        FeatureOptions(min_category=2, unknown="fail")
