"""Features: kind, categories and defaults of each input, learned from the training columns, as the manifest's `Feature`.

Encoding uses the runtime's own functions, so that training and production cannot read a value differently.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from pydantic import ValidationError

from emsco_runtime.bundle.encoding import ValueFault, category_name, encode_column, make_encoder
from emsco_runtime.bundle.manifest import Feature, RawValue
from emsco_runtime.support.arrays import Array, Floats, Mask
from emsco_runtime.support.formatting import shorten
from emsco_runtime.support.missing_values import is_missing
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.row_error import RowError
from emsco_train.data.table import Table
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_integer
from emsco_train.support.validation_errors import first_error

__all__ = [
    "AUTO",
    "Auto",
    "ColumnSummary",
    "FeatureOptions",
    "Kind",
    "allow_gaps",
    "check_options",
    "declared_kind",
    "encode_table",
    "find_gaps",
    "first_codes",
    "infer_features",
    "most_common",
    "typical_code",
    "with_fallback",
]

Kind: TypeAlias = Literal["numeric", "boolean", "categorical", "vector"]


class Auto(enum.Enum):
    """The value is to be inferred from the training data."""

    AUTO = "auto"


AUTO = Auto.AUTO


@dataclass(frozen=True, slots=True)
class FeatureOptions:
    """Overrides of what the training columns say about a feature.

    Parameters
    ----------
    kind
        "numeric", "boolean" or "categorical"; None: by the type of the column. A column of vectors is "vector".
    missing
        "impute" allows gaps, which are filled inside the model; "forbid" makes them failures. None: "impute" where the
        training column has gaps.
    unknown
        What to do with a category that training never saw: "ignore" (None means this) gives the model none of its categories,
        "fail" makes it a failure.
    min_category
        Categories with fewer train rows are not listed, so that all of them together are one: an unknown category.
    fallback
        Replaces a failed acquisition under ``on_failure="default"``: a value, or None for no fallback. By default, the training
        median (numeric, each number of a vector) or the most common value.
    """

    kind: Kind | None = None
    missing: Literal["forbid", "impute"] | None = None
    unknown: Literal["fail", "ignore"] | None = None
    fallback: RawValue | Auto = AUTO
    min_category: int = 1

    def __post_init__(self) -> None:
        """Check what can be checked without the column."""
        if not is_integer(self.min_category) or self.min_category < 1:
            raise DesignError(f"min_category is {self.min_category!r}: expected a whole number of rows, 1 or more")
        if self.min_category > 1 and self.unknown == "fail":
            raise DesignError(
                '`min_category` makes rare categories unknown ones: use `unknown="ignore"`, or leave one of them out'
            )


def infer_features(
    table: Table, names: Sequence[str], costs: CostModel, options: Mapping[str, FeatureOptions] | None = None
) -> tuple[Feature, ...]:
    """Describe the named columns of a training table as manifest features, in this order.

    Examples
    --------
    >>> table = Table.of({"size": [1, 2, 9], "kind": ["b", "a", "b"]})
    >>> size, kind = infer_features(table, ["size", "kind"], CostModel.of(None, ["size", "kind"]))
    >>> size.kind, size.fallback, kind.categories, kind.fallback
    ('numeric', 2.0, ('a', 'b'), 'b')
    """
    overrides = {} if options is None else options
    check_options(overrides, table.names)
    selected = table.select(names)
    return tuple(_infer_feature(name, selected, overrides.get(name, FeatureOptions()), costs) for name in names)


def check_options(options: Mapping[str, FeatureOptions], names: Sequence[str]) -> None:
    """Raise if there are options for a feature that is not among these, or if they are none."""
    unknown_names = [name for name in options if name not in names]
    if unknown_names:
        raise DesignError(f"options for {unknown_names}, which are not columns; the table has: {', '.join(names)}")
    for name, option in options.items():
        if not isinstance(option, FeatureOptions):
            expected = "expected FeatureOptions, such as FeatureOptions(kind='categorical')"
            raise DesignError(f"options for {name!r} are {option!r}: {expected}")


def allow_gaps(columns: Mapping[str, Array], options: Mapping[str, FeatureOptions] | None) -> dict[str, FeatureOptions]:
    """Return options by which a column may have gaps in any row where it has one in some, unless they say otherwise.

    The train rows alone would allow the gaps that they happen to have.

    Examples
    --------
    >>> allow_gaps({"size": np.array([1.0, np.nan]), "rate": np.array([1.0, 2.0])}, None)["size"].missing
    'impute'
    """
    found = dict(options or {})
    for name, column in columns.items():
        own = found.get(name, FeatureOptions())
        if own.missing is None and find_gaps(column).any():
            found[name] = replace(own, missing="impute")
    return found


def encode_table(features: Sequence[Feature], table: Table, where: str) -> Floats:
    """Encode the columns of these features: codes [rows, codes], one for each feature, and for each number of a vector.

    Errors call the rows `where`, such as "held-out".
    """
    columns = table.select([feature.name for feature in features]).columns
    codes = np.empty((table.rows, sum(feature.width for feature in features)))
    stop = 0
    for feature in features:
        start, stop = stop, stop + feature.width
        codes[:, start:stop] = _encode_column(feature, columns[feature.name], where).reshape(table.rows, feature.width)
    return codes


def first_codes(features: Sequence[Feature]) -> list[int]:
    """Return where the code of each feature is among those of all, or the first code of a vector."""
    return [0, *itertools.accumulate(feature.width for feature in features)][:-1]


def most_common(codes: Floats) -> float:
    """Return the most common number; the smallest of several."""
    values, counts = np.unique(codes, return_counts=True)
    return float(values[np.argmax(counts)])


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """What is to be known of a column to describe its feature; the summaries of the parts of a column add up.

    Parameters
    ----------
    kind
        Of its values; None: all are gaps.
    width
        Numbers of each value.
    first_gap
        The first row with a gap, counted within its part; None: there is no gap.
    categories
        How many rows have each, where they are categories.
    """

    name: str
    kind: Kind | None
    width: int
    first_gap: int | None
    categories: Counter[str]

    @classmethod
    def of(cls, name: str, values: Array, kind: Kind | None) -> ColumnSummary:
        """Summarise values; `kind` is what the user or the source says that they are, None to find it out."""
        missing_mask = find_gaps(values)
        is_empty = bool(missing_mask.all())
        found = kind or (None if is_empty else _infer_kind(name, values, missing_mask))
        if found is not None and (found == "vector") != (values.ndim == 2):
            raise DesignError(
                f"the option kind={found!r} does not fit {name!r}, a column of {'vectors' if values.ndim == 2 else 'values'}"
            )
        return cls(
            name,
            None if is_empty else found,
            values.shape[1] if values.ndim == 2 else 1,
            int(np.argmax(missing_mask)) if missing_mask.any() else None,
            _count_categories(name, values, missing_mask) if found == "categorical" else Counter(),
        )

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        """Return the summary of both parts together."""
        kinds = {part.kind: part for part in (other, self) if part.kind is not None}
        if len(kinds) > 1 or (kinds and self.width != other.width):
            raise DataError(
                f"column {self.name!r} mixes kinds: some parts are {self.kind}, others {other.kind}, of {self.width} and "
                f"{other.width} numbers; use one kind, or `features={{{self.name!r}: FeatureOptions(kind='categorical')}}`"
            )
        kind = next(iter(kinds), None)
        first_gap = other.first_gap if self.first_gap is None else self.first_gap
        return ColumnSummary(self.name, kind, self.width, first_gap, self.categories + other.categories)

    def describe(self, options: FeatureOptions, costs: CostModel) -> Feature:
        """Return the feature, still without a fallback."""
        name, kind = self.name, self.kind
        if kind is None:
            raise DataError(f"column {name!r} has no value at all in the training rows: drop it, or fill it")
        if options.missing == "forbid" and self.first_gap is not None:
            gap = ': a missing value, and its option is missing="forbid"; fill it, or choose "impute"'
            raise RowError(f"column {name!r}, ", f"row {self.first_gap}", gap, self.first_gap)
        if options.unknown == "ignore" and kind != "categorical":
            raise DesignError(f'the option unknown="ignore" is for categories, but {name!r} is {kind}: leave it out')
        try:
            return Feature(
                name=name,
                kind=kind,
                width=self.width,
                categories=_common_categories(name, self.categories, options.min_category) if kind == "categorical" else (),
                cost=float(costs.features[name]),
                missing=options.missing or ("forbid" if self.first_gap is None else "impute"),
                unknown=options.unknown or ("ignore" if kind == "categorical" else "fail"),
            ).with_groups(costs.groups_of(name))
        except ValidationError as error:
            # Names and categories are the user's words, and the bundle format cannot hold all of them.
            fault = first_error(error)
            # Whole pages may stand in a table.
            shown = shorten(repr(fault.value))
            detail = f"{fault.path} is {shown}, which a bundle cannot hold: {fault.message}"
            if isinstance(fault.value, str) and not fault.value.isprintable():
                detail = f"{shown} holds a line break or another control character, which a bundle cannot hold"
            raise DataError(f"column {name!r}: {detail}; change the text, or leave the column out") from None


def declared_kind(name: str, table: Table, options: FeatureOptions) -> Kind | None:
    """Return the kind of a column that the user or the source of the table says; None: neither does."""
    return options.kind or ("categorical" if name in table.categorical else None)


def with_fallback(feature: Feature, options: FeatureOptions, fill: Floats) -> Feature:
    """Return the feature with its fallback; by default `fill` [width], the median or the most common code."""
    given = options.fallback
    fallback = _as_raw_value(feature, fill) if isinstance(given, Auto) else _check_fallback(feature, given)
    return feature.model_copy(update={"fallback": fallback})


def typical_code(feature: Feature, codes: Floats) -> float:
    """Return the median of the numbers of a column, or its most common other code: what fills gaps; gaps are left out."""
    present = codes[~np.isnan(codes)]
    if feature.kind in ("numeric", "vector"):
        return float(np.median(present))
    if feature.kind == "categorical" and (present >= 0).any():
        # One that is not listed (-1) is no category to fill a gap with, however common.
        present = present[present >= 0]
    return most_common(present)


def _infer_feature(name: str, table: Table, options: FeatureOptions, costs: CostModel) -> Feature:
    values = table.columns[name]
    feature = ColumnSummary.of(name, values, declared_kind(name, table, options)).describe(options, costs)
    codes = _encode_column(feature, values, "training").reshape(len(values), feature.width)
    return with_fallback(feature, options, np.array([typical_code(feature, column) for column in codes.T]))


def find_gaps(values: Array) -> Mask:
    """Return which values of a column are missing."""
    if values.ndim == 2:
        return np.asarray(np.isnan(values).all(axis=1))
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.fromiter(map(is_missing, values.tolist()), dtype=np.bool_, count=len(values))
    return np.zeros(len(values), dtype=np.bool_)


def _infer_kind(name: str, values: Array, missing_mask: Mask) -> Kind:
    by_type: dict[str, Kind] = {"b": "boolean", "i": "numeric", "u": "numeric", "f": "numeric", "U": "categorical"}
    if values.ndim == 2:
        return "vector"
    if values.dtype.kind in by_type:
        return by_type[values.dtype.kind]
    if set(map(type, values.tolist())) <= {str, type(None)}:
        return "categorical"
    kinds = [None if gap else _value_kind(value) for value, gap in zip(values, missing_mask, strict=True)]
    first = next(kind for kind in kinds if kind is not None)
    for row, kind in enumerate(kinds):
        if kind not in (None, first):
            fault = (
                f" is {values[row]!r} ({kind}), earlier ones are {first}; "
                f"use one kind, or `features={{{name!r}: FeatureOptions(kind='categorical')}}`"
            )
            raise RowError(f"column {name!r} mixes kinds: ", f"row {row}", fault, row)
    return first


def _value_kind(value: object) -> Kind:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    return "categorical" if isinstance(value, str) else "numeric"


def _common_categories(name: str, found: Counter[str], min_rows: int) -> tuple[str, ...]:
    kept = sorted(category for category, rows in found.items() if rows >= min_rows)
    if not kept:
        most = max(found.values())
        raise DataError(
            f"column {name!r}: no category has the {min_rows} train rows that `min_category` asks for, the largest {most}; "
            "ask for fewer, or leave it out"
        )
    return tuple(kept)


def _count_categories(name: str, values: Array, missing_mask: Mask) -> Counter[str]:
    # Text is counted at once: a long table has a million of them.
    if set(map(type, values.tolist())) <= {str, type(None)}:
        return Counter(value for value in values.tolist() if value is not None)
    found: Counter[str] = Counter()
    for row, value in enumerate(values.tolist()):
        if not missing_mask[row]:
            try:
                found[category_name(value)] += 1
            except ValueFault as fault:
                raise RowError(f"column {name!r}, ", f"row {row}", f": {fault.message}", row, fault.kind) from None
    return found


def _encode_column(feature: Feature, values: Array, where: str) -> Floats:
    codes, faulty = encode_column(feature, values)
    if faulty is not None:
        row = int(np.argmax(faulty))
        try:
            # The mask shows that a value is refused; only the encoder of one value says why.
            make_encoder(feature)(values[row : row + 1].tolist()[0])
        except ValueFault as fault:
            place = f"{where} row {row}"
            raise RowError(f"column {feature.name!r}, ", place, f": {fault.message}", row, fault.kind) from None
    return codes


def _as_raw_value(feature: Feature, codes: Floats) -> RawValue:
    if feature.kind == "vector":
        return tuple(codes.tolist())
    code = float(codes[0])
    if feature.kind == "numeric":
        return code
    return bool(code) if feature.kind == "boolean" else feature.categories[int(code)]


def _check_fallback(feature: Feature, fallback: RawValue) -> RawValue:
    if fallback is None:
        return None
    try:
        code = make_encoder(feature)(fallback)
    except ValueFault as fault:
        raise DesignError(f"the fallback of {feature.name!r}: {fault.message}") from None
    if isinstance(code, np.ndarray):
        return tuple(code.tolist())
    if feature.kind == "categorical":
        # An unknown category that is ignored stays the text that it is.
        return feature.categories[int(code)] if code >= 0 else str(fallback)
    return bool(code) if feature.kind == "boolean" else code
