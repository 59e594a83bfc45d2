"""Features: kind, categories and defaults of each input, learned from the training columns, as the manifest's `Feature`.

Encoding uses the runtime's own functions, so that training and production cannot read a value differently.
"""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from pydantic import ValidationError

from emsco_runtime.bundle.encoding import ValueFault, category_name, encode_column, make_encoder
from emsco_runtime.bundle.manifest import Feature, RawValue
from emsco_runtime.support.arrays import Array, Floats, Mask
from emsco_runtime.support.missing_values import is_missing
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.table import Table
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import is_integer
from emsco_train.support.validation_errors import first_error

__all__ = ["AUTO", "Auto", "FeatureOptions", "Kind", "encode_table", "find_gaps", "first_codes", "infer_features", "most_common"]

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
            raise DesignError('min_category makes rare categories unknown ones: use unknown="ignore", or leave one of them out')


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
    unknown_names = [name for name in overrides if name not in table.columns]
    if unknown_names:
        raise DesignError(f"options for {unknown_names}, which are not columns; the table has: {', '.join(table.names)}")
    selected = table.select(names)
    return tuple(
        _infer_feature(name, selected.columns[name], name in table.categorical, overrides.get(name, FeatureOptions()), costs)
        for name in names
    )


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


def _infer_feature(name: str, values: Array, is_declared_categorical: bool, options: FeatureOptions, costs: CostModel) -> Feature:  # noqa: FBT001
    missing_mask = find_gaps(values)
    if missing_mask.all():
        raise DataError(f"column {name!r} has no value at all in the training rows: drop it, or fill it")
    kind = options.kind or ("categorical" if is_declared_categorical else _infer_kind(name, values, missing_mask))
    if (kind == "vector") != (values.ndim == 2):
        raise DesignError(
            f"the option kind={kind!r} does not fit {name!r}, a column of {'vectors' if values.ndim == 2 else 'values'}"
        )
    if options.missing == "forbid" and missing_mask.any():
        row = int(np.argmax(missing_mask))
        raise DataError(f'column {name!r}, row {row}: a gap, and its option is missing="forbid"; fill it, or choose "impute"')
    if options.unknown == "ignore" and kind != "categorical":
        raise DesignError(f'the option unknown="ignore" is for categories, but {name!r} is {kind}: leave it out')
    categories = _find_categories(name, values, missing_mask, options.min_category) if kind == "categorical" else ()
    try:
        feature = Feature(
            name=name,
            kind=kind,
            width=values.shape[1] if values.ndim == 2 else 1,
            categories=categories,
            cost=float(costs.features[name]),
            missing=options.missing or ("impute" if missing_mask.any() else "forbid"),
            unknown=options.unknown or ("ignore" if kind == "categorical" else "fail"),
        ).with_groups(costs.groups_of(name))
    except ValidationError as error:
        # Names and categories are the user's words, and the bundle format cannot hold all of them.
        fault = first_error(error)
        detail = f"{fault.path} is {fault.value!r}, which a bundle cannot hold: {fault.message}"
        raise DataError(f"column {name!r}: {detail}") from None
    codes = _encode_column(feature, values, "training")
    fallback = (
        _default_fallback(feature, codes[~missing_mask & (codes >= 0)] if kind == "categorical" else codes[~missing_mask])
        if isinstance(options.fallback, Auto)
        else _check_fallback(feature, options.fallback)
    )
    return feature.model_copy(update={"fallback": fallback})


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
            raise DataError(
                f"column {name!r} mixes kinds: row {row} is {values[row]!r} ({kind}), earlier ones are {first}; "
                f"use one kind, or `features={{{name!r}: FeatureOptions(kind='categorical')}}`"
            )
    return first


def _value_kind(value: object) -> Kind:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    return "categorical" if isinstance(value, str) else "numeric"


def _find_categories(name: str, values: Array, missing_mask: Mask, min_rows: int) -> tuple[str, ...]:
    # Text is counted at once: a long table has a million of them.
    if set(map(type, values.tolist())) <= {str, type(None)}:
        found = Counter(value for value in values.tolist() if value is not None)
    else:
        found = _count_categories(name, values, missing_mask)
    kept = sorted(category for category, rows in found.items() if rows >= min_rows)
    if not kept:
        most = max(found.values())
        raise DataError(
            f"column {name!r}: no category has the {min_rows} train rows that `min_category` asks for, the largest {most}; "
            "ask for fewer, or leave it out"
        )
    return tuple(kept)


def _count_categories(name: str, values: Array, missing_mask: Mask) -> Counter[str]:
    found: Counter[str] = Counter()
    for row, value in enumerate(values.tolist()):
        if not missing_mask[row]:
            try:
                found[category_name(value)] += 1
            except ValueFault as fault:
                raise DataError(f"column {name!r}, row {row}: {fault.message}") from None
    return found


def _encode_column(feature: Feature, values: Array, where: str) -> Floats:
    codes, faulty = encode_column(feature, values)
    if faulty is not None:
        row = int(np.argmax(faulty))
        try:
            # The mask shows that a value is refused; only the encoder of one value says why.
            make_encoder(feature)(values[row : row + 1].tolist()[0])
        except ValueFault as fault:
            raise DataError(f"column {feature.name!r}, {where} row {row}: {fault.message}") from None
    return codes


def _default_fallback(feature: Feature, codes: Floats) -> RawValue:
    if feature.kind == "vector":
        return tuple(np.median(codes, axis=0).tolist())
    if feature.kind == "numeric":
        return float(np.median(codes))
    mode = int(most_common(codes))
    return bool(mode) if feature.kind == "boolean" else feature.categories[mode]


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
