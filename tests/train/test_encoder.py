"""The block encoder: equal to scikit-learn's, and the same for every set of features."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from emsco_runtime.bundle.manifest import Feature
from emsco_train.data.encoder import BlockEncoder
from emsco_train.errors import DataError

FEATURES = (
    Feature(name="size", kind="numeric", cost=1.0, missing="impute"),
    Feature(name="colour", kind="categorical", categories=("a", "b", "c"), cost=1.0, missing="impute", unknown="ignore"),
    Feature(name="flag", kind="boolean", cost=1.0, missing="impute"),
    Feature(name="rate", kind="numeric", cost=1.0),
)


def make_codes(seed: int, rows: int) -> np.ndarray:
    """Return random codes of `FEATURES`, gaps included, every category present."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack(
        [rng.normal(1e4, 3.0, rows), np.arange(rows) % 3, rng.integers(0, 2, rows), rng.exponential(1e-3, rows)]
    ).astype(np.float64)
    codes[3:, :3][rng.random((rows - 3, 3)) < 0.2] = np.nan
    return codes


def sklearn_twin() -> ColumnTransformer:
    """Return what a scikit-learn user would write; its columns: size, rate, flag, colour."""
    number = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    flag = make_pipeline(SimpleImputer(strategy="most_frequent"), StandardScaler())
    colour = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore", sparse_output=False))
    return ColumnTransformer([("number", number, [0, 3]), ("flag", flag, [2]), ("colour", colour, [1])])


@pytest.mark.parametrize("seed", range(5))
def test_equals_scikit_learn(seed: int) -> None:
    """Imputing, standardising and one-hot encoding agree with scikit-learn's to 1e-12, on new rows with unknowns too."""
    train, new = make_codes(seed, 200), make_codes(seed + 100, 50)
    new[:5, 1] = -1.0
    encoder = BlockEncoder.fit(FEATURES, train)
    twin = sklearn_twin().fit(train)
    order = encoder.columns(["size", "rate", "flag", "colour"])
    for codes in (train, new):
        np.testing.assert_allclose(encoder.transform(codes)[:, order], twin.transform(codes), rtol=0, atol=1e-12)


@given(st.permutations([feature.name for feature in FEATURES]), st.integers(1, 4), st.integers(0, 3))
def test_a_set_of_features_is_a_choice_of_columns(names: list[str], count: int, seed: int) -> None:
    """Encoding some features alone gives the very columns that they have in the whole: one encoder serves every set."""
    train = make_codes(seed, 40)
    encoder = BlockEncoder.fit(FEATURES, train)
    chosen = names[:count]
    part = encoder.select(chosen)
    alone = part.transform(train[:, encoder.positions(chosen)])
    assert np.array_equal(alone, encoder.transform(train)[:, encoder.columns(chosen)])
    assert part.width == alone.shape[1]


@pytest.mark.parametrize("value", [0.0, 5.0, 0.1, 1e9 / 3])
def test_constant_column_is_not_blown_up(value: float) -> None:
    """A column without variation gets scale 1, and zeros up to rounding."""
    feature = Feature(name="x", kind="numeric", cost=1.0)
    encoder = BlockEncoder.fit([feature], np.full((7, 1), value))
    assert encoder.blocks[0].scale == 1.0
    np.testing.assert_allclose(encoder.transform(np.full((7, 1), value)), 0.0, atol=1e-6)


def test_values_too_large_to_standardise_by_are_refused() -> None:
    """A few values whose squares overflow: an error with the column, how many, the largest and the remedy, not a dead column."""
    size = Feature(name="size", kind="numeric", cost=1.0, missing="impute")
    codes = np.arange(100.0)[:, None]
    codes[[3, 7], 0] = 1e200, -2e200
    codes[9, 0] = np.nan
    message = r"standardise it \(in 2 of \d+ train rows; the largest of these, in row 7, is -2e\+200\): correct them"
    with pytest.raises(DataError, match=message):
        BlockEncoder.fit([size], codes)


def test_the_largest_values_that_can_be_standardised() -> None:
    """Large values alone are not an error: their deviation is finite, and the rows keep their order."""
    size = Feature(name="size", kind="numeric", cost=1.0)
    codes = np.linspace(-1e152, 1e152, 50)[:, None]
    encoded = BlockEncoder.fit([size], codes).transform(codes)
    assert np.isfinite(encoded).all()
    assert encoded.std() == pytest.approx(1)
