"""From raw values to numbers."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime import Cascade
from emsco_runtime.bundle.encoding import ValueFault, are_finite_numbers, category_name, encode_column, make_encoder
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.testing import make_bundle

NUMBER = Feature(name="n", kind="numeric", cost=1.0)
GAPPY = Feature(name="n", kind="numeric", cost=1.0, missing="impute")
FLAG = Feature(name="b", kind="boolean", cost=1.0)
COLOUR = Feature(name="c", kind="categorical", cost=1.0, categories=("red", "3", "blue"))
LENIENT = Feature(name="c", kind="categorical", cost=1.0, categories=("red", "3"), unknown="ignore", missing="impute")


class NAType:
    """Stands in for pandas.NA, which the runtime knows by its type's name alone."""


class Colour(str, Enum):  # noqa: UP042 - a StrEnum prints its value
    """Texts with names, as pydantic models hold them; `str` of a member is "Colour.BLUE"."""

    BLUE = "blue"


class Looped:
    """An object that can be added to numbers but is not one."""

    def __radd__(self, other: float) -> Any:
        """Add up."""
        return self

    def __lt__(self, other: object) -> bool:
        """Be less."""
        return True

    def __gt__(self, other: object) -> bool:
        """Be more."""
        return True


class Broken:
    """A value of a class that answers nothing but errors."""

    def __float__(self) -> float:
        """Fail."""
        raise RuntimeError

    def __repr__(self) -> str:
        """Fail."""
        raise RuntimeError


@pytest.mark.parametrize(
    ("feature", "value", "number"),
    [
        (NUMBER, 1.5, 1.5),
        (NUMBER, 3, 3.0),
        (NUMBER, True, 1.0),
        (NUMBER, np.float32(0.5), 0.5),
        (NUMBER, np.int64(-2), -2.0),
        (NUMBER, np.bool_(True), 1.0),
        (NUMBER, Fraction(1, 4), 0.25),
        (NUMBER, Decimal("0.5"), 0.5),
        (NUMBER, np.array(2.5), 2.5),
        (FLAG, True, 1.0),
        (FLAG, np.bool_(False), 0.0),
        (FLAG, 1, 1.0),
        (FLAG, 0.0, 0.0),
        (COLOUR, "red", 0.0),
        (COLOUR, np.str_("blue"), 2.0),
        (COLOUR, Colour.BLUE, 2.0),
        (COLOUR, 3, 1.0),
        (COLOUR, 3.0, 1.0),
        (COLOUR, np.int8(3), 1.0),
        (LENIENT, "violet", -1.0),
        (LENIENT, 7, -1.0),
    ],
)
def test_values_that_are_meant(feature: Feature, value: object, number: float) -> None:
    """Numbers as they are, booleans as 0 and 1, categories by their position, codes as the text they stand for."""
    assert make_encoder(feature)(value) == number


@pytest.mark.parametrize("value", [None, math.nan, np.float32("nan"), NAType(), np.ma.masked])
@pytest.mark.parametrize("feature", [GAPPY, LENIENT])
def test_a_gap_reaches_the_graph_as_nan_where_it_is_imputed(feature: Feature, value: object) -> None:
    """None, NaN and pandas.NA are values for a feature whose `missing` is "impute"."""
    assert math.isnan(make_encoder(feature)(value))


@pytest.mark.parametrize(
    ("feature", "value", "kind", "expected"),
    [
        (NUMBER, None, "missing", "missing"),
        (NUMBER, math.nan, "missing", "missing"),
        (NUMBER, "12", "wrong_type", "'12' (str)"),
        (NUMBER, b"12", "wrong_type", "b'12' (bytes)"),
        (NUMBER, Decimal("Infinity"), "infinite", "Infinity"),
        (NUMBER, Decimal("NaN"), "missing", "missing"),
        (NUMBER, np.array(math.nan), "missing", "missing"),
        (NUMBER, np.str_("1.5"), "wrong_type", "1.5"),
        (NUMBER, np.bytes_(b"1.5"), "wrong_type", "1.5"),
        (NUMBER, np.complex128(1 + 2j), "wrong_type", "1+2j"),
        (NUMBER, np.datetime64("2026-01-01", "ns"), "wrong_type", "2026"),
        (NUMBER, np.timedelta64(5, "ns"), "wrong_type", "5"),
        (NUMBER, Broken(), "wrong_type", "cannot be printed (Broken)"),
        (NUMBER, [1.0], "wrong_type", "[1.0] (list)"),
        (NUMBER, np.array([1.0, 2.0]), "wrong_type", "ndarray"),
        (NUMBER, math.inf, "infinite", "inf"),
        (NUMBER, -math.inf, "infinite", "-inf"),
        (NUMBER, 10**400, "infinite", "1000"),
        (GAPPY, math.inf, "infinite", "inf"),
        (FLAG, 2, "wrong_type", "2 (int)"),
        (FLAG, "yes", "wrong_type", "'yes' (str)"),
        (FLAG, None, "missing", "missing"),
        (COLOUR, "violet", "unknown_category", "'violet' (str); known categories: red, 3, blue"),
        (COLOUR, 3.5, "wrong_type", "3.5 (float)"),
        (COLOUR, True, "wrong_type", "True (bool)"),
        (COLOUR, math.inf, "wrong_type", "inf"),
        (COLOUR, None, "missing", "missing"),
        (COLOUR, -(10**300), "unknown_category", "-1000"),
        (LENIENT, b"red", "wrong_type", "bytes"),
        (LENIENT, dt.date(2026, 1, 1), "wrong_type", "date"),
    ],
)
def test_values_that_fail(feature: Feature, value: object, kind: str, expected: str) -> None:
    """Every other value is refused with the kind of failure and the value got."""
    with pytest.raises(ValueFault) as caught:
        make_encoder(feature)(value)
    assert caught.value.kind == kind
    assert expected in caught.value.message


class BrokenNumber(int):
    """A number that raises when it is compared or converted."""

    def __eq__(self, other: object) -> bool:
        """Raise."""
        raise OSError("connection lost")

    def __int__(self) -> int:
        """Raise."""
        raise OSError("connection lost")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("feature", [FLAG, COLOUR, LENIENT])
def test_a_number_of_the_users_that_raises_is_no_value(feature: Feature) -> None:
    """Whatever it raises when it is looked at is a fault of the value, as for numeric features: it does not escape."""
    with pytest.raises(ValueFault) as caught:
        make_encoder(feature)(BrokenNumber(3))
    assert caught.value.kind == "wrong_type"
    assert caught.value.message.startswith("expected ")
    assert caught.value.message.endswith(", got 3 (BrokenNumber); convert it first")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("feature", "kind"), [(NUMBER, "infinite"), (FLAG, "wrong_type"), (COLOUR, "unknown_category")], ids=lambda one: str(one)[:20]
)
def test_a_number_that_cannot_be_printed_is_a_failure_like_any_other(feature: Feature, kind: str, sign: int) -> None:
    """Python refuses to write 10**5000 as text: the failure has its kind, and says how long the number is."""
    with pytest.raises(ValueFault) as caught:
        make_encoder(feature)(sign * 10**5000)
    assert caught.value.kind == kind
    assert "got a whole number of about 5000 digits (int)" in caught.value.message.replace("unknown category a", "got a")


def test_a_number_that_cannot_be_printed_is_an_unknown_category() -> None:
    """Where unknown categories are ignored it is one of them; for training it is not a name."""
    assert make_encoder(LENIENT)(10**5000) == -1.0
    with pytest.raises(
        ValueFault, match="expected a category of at most 256 characters, got a whole number of about 5000 digits"
    ):
        category_name(10**5000)


def test_a_long_value_is_shortened_in_the_message() -> None:
    """A megabyte of text does not become a megabyte of error message."""
    with pytest.raises(ValueFault) as caught:
        make_encoder(NUMBER)("x" * 10**6)
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    "values",
    [
        *([np.str_("1")], [np.datetime64("2026-01-01", "ns")], [Broken()], [Decimal(1)], [np.array(1.0)]),
        *(["1"], [b"1"], [None], [1.0, "x"], [math.nan], [math.inf, 1.0], [math.inf, -math.inf]),
        *([np.array([1.0, 2.0])], [10**400, 1.0], [10**400, -(10**400)], [1e308, 1e308], [Looped()], [[1.0]], [{}]),
    ],
)
def test_the_quick_look_never_passes_what_is_not_plain(values: list[object]) -> None:
    """`are_finite_numbers` may say no too often, never yes too often."""
    assert not are_finite_numbers(values)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-(2**60), 2**60) | st.booleans()))
def test_the_quick_look_passes_numbers(values: list[float]) -> None:
    """Finite numbers that add up to a finite sum are plain, and the encoder makes the same floats of them."""
    assert are_finite_numbers(values)
    assert [make_encoder(NUMBER)(value) for value in values] == [float(value) for value in values]


raw = st.one_of(
    st.none(),
    st.floats(),
    st.integers(-4, 4),
    st.booleans(),
    st.sampled_from(["red", "3", "blue", "violet", ""]),
    st.just(10**400),
    st.just(10**5000),
)


@given(st.sampled_from([NUMBER, GAPPY, FLAG, COLOUR, LENIENT]), st.lists(raw, max_size=8))
def test_columns_are_encoded_as_values_are(feature: Feature, values: list[object]) -> None:
    """`encode_column` agrees with the encoder of one value, for any mix of values; what fails there is marked here."""
    column, faulty = encode_column(feature, np.array([*values, None], dtype=object)[:-1])
    check_column(feature, values, column, faulty)


@pytest.mark.parametrize("method", ["__hash__", "__eq__"])
def test_a_value_that_cannot_be_compared_is_the_fault_of_its_row(method: str) -> None:
    """A category of the user's own class that raises, whatever it raises, does not end the rows beside it."""

    def broken(*_: object) -> Any:
        raise OSError("mine")

    # The hash of a category, so that it is compared with it.
    methods = {"__hash__": lambda _: hash("red"), "__eq__": lambda *_: False, method: broken}
    value = type("Odd", (), methods)()
    made = make_bundle([["c"]], features=[Feature(name="c", kind="categorical", cost=1.0, categories=("red", "blue"))])
    cascade = Cascade(made, on_failure="reject")
    column = np.array(["red", value, "blue"], dtype=object)
    reasons = cascade.decide_columns({"c": column}).reason.tolist()
    assert reasons == [cascade.decide({"c": one}).reason for one in column]
    assert [reason == "acquisition_failed" for reason in reasons] == [False, True, False]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8, np.bool_, np.float16])
@pytest.mark.parametrize("feature", [NUMBER, GAPPY, FLAG, COLOUR])
def test_arrays_of_numbers_are_encoded_as_values_are(feature: Feature, dtype: type) -> None:
    """The quick path for numeric arrays gives the same numbers and marks the same faults."""
    values = np.array([0, 1, 3, 0], dtype=dtype)
    check_column(feature, list(values), *encode_column(feature, values))


@pytest.mark.parametrize("feature", [NUMBER, GAPPY])
def test_gaps_and_infinities_in_float_arrays(feature: Feature) -> None:
    """NaN is a value or a fault, as the feature says; infinity is always a fault; sums that overflow change nothing."""
    for values in ([1.0, np.nan, 2.0], [np.inf, 1.0], [-np.inf, np.inf], [1e308, 1e308], [1.0, 2.0]):
        check_column(feature, values, *encode_column(feature, np.array(values)))


def check_column(feature: Feature, values: list[Any], column: Any, faulty: Any) -> None:
    """Compare an encoded column with the encoder, value by value."""
    encode = make_encoder(feature)
    for index, value in enumerate(values):
        try:
            number = encode(value)
        except ValueFault:
            assert faulty is not None
            assert faulty[index]
        else:
            assert faulty is None or not faulty[index]
            assert column[index] == number or (math.isnan(column[index]) and math.isnan(number))


def test_values_that_cannot_be_keys_are_faults_of_their_rows() -> None:
    """A list among categories: its row is faulty, the others are encoded."""
    feature = Feature(name="c", kind="categorical", cost=1.0, categories=("a", "b"))
    values = np.empty(3, dtype=object)
    values[:] = ["b", ["a"], "a"]
    codes, faulty = encode_column(feature, values)
    assert faulty is not None
    assert faulty.tolist() == [False, True, False]
    assert codes[[0, 2]].tolist() == [1.0, 0.0]
