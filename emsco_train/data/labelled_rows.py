"""Labelled rows: `LabelledRows` are raw values with their labels; a `Split` also has them as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import FeatureOptions, encode_table, infer_features
from emsco_train.data.labels import label_positions, plain_labels, unique_labels
from emsco_train.data.row_error import RowError
from emsco_train.data.row_units import row_units
from emsco_train.data.splits import stratified_counts
from emsco_train.data.table import Table
from emsco_train.errors import DataError, DesignError

__all__ = ["LabelledRows", "Split", "check_splits", "encode_split", "learn_features", "stratified_sample"]

# What to do about values that are refused because no train row has such a one, by what is wrong with them.
_OTHERWISE_IN_TRAINING = {
    "unknown_category": 'FeatureOptions(unknown="ignore") allows unknown categories',
    "missing": 'FeatureOptions(missing="impute") allows missing values',
}


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Raw rows with their labels."""

    table: Table
    true_labels: tuple[Label, ...]
    rows: Ints  # positions in the user's table
    groups: Ints | None = None  # equal for rows of a group, if they come in groups
    weights: Floats | None = None  # how much each row counts, if not all the same

    @classmethod
    def of(cls, data: Any, true_labels: Any, where: str) -> LabelledRows:
        """Read a table and its labels, which errors call `where`."""
        table = Table.of(data)
        row_labels = plain_labels(true_labels, rows=table.rows, where=where)
        return cls(table, tuple(row_labels), np.arange(table.rows))

    @classmethod
    def from_pair(cls, pair: object, name: str) -> LabelledRows:
        """Read a pair (rows, labels) given for the split of this name."""
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DesignError(f"{name} is {type(pair).__name__}: expected a pair (rows, labels)")
        return cls.of(pair[0], pair[1], f"{name} y")

    def take(self, rows: Ints) -> LabelledRows:
        """Return these rows."""
        true_labels = tuple(map(self.true_labels.__getitem__, rows.tolist()))
        return LabelledRows(
            self.table.take(rows), true_labels, self.rows[rows], _take(self.groups, rows), _take(self.weights, rows)
        )

    def counting(self, rows: Ints) -> Ints:
        """Return which of these rows count: those that have weight. Of a label without any all do: it is refused by name."""
        if self.weights is None:
            return rows
        has_weight = self.weights[rows] > 0
        row_labels = [self.true_labels[row] for row in rows.tolist()]
        weighted = {label for label, has in zip(row_labels, has_weight.tolist(), strict=True) if has}
        return rows[has_weight | np.array([label not in weighted for label in row_labels], dtype=np.bool_)]


# No slots: `cached_property` keeps the encoded matrix in the instance.
@dataclass(frozen=True, eq=False)
class Split:
    """The rows of one split: "train", "validation", "test", "certify", or "cross-fitted": the train rows that folds score."""

    name: str
    rows: Ints  # positions in the user's table
    table: Table  # raw values
    codes: Floats  # the same as numbers [rows, features]
    target: Ints  # position of each row's label
    encoder: BlockEncoder  # turns codes into the columns of stage models
    groups: Ints | None = None  # as in `LabelledRows`
    weights: Floats | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    @cached_property
    def encoded(self) -> Floats:
        """Columns of stage models [rows, encoder.width]; computed at the first use."""
        return self.encoder.transform(self.codes)

    @cached_property
    def units(self) -> Ints | None:
        """How much each row counts in figures, in whole units; None: all rows count the same."""
        return None if self.weights is None else row_units(self.weights, self.name)

    def take(self, positions: Ints) -> Split:
        """Return these rows of the split, counted within it."""
        part = replace(self, rows=self.rows[positions], table=self.table.take(positions), codes=self.codes[positions])
        keys = {"groups": _take(self.groups, positions), "weights": _take(self.weights, positions)}
        return replace(part, target=self.target[positions], **keys)


def check_splits(parts: Mapping[str, LabelledRows]) -> tuple[Label, ...]:
    """Return the labels in order; raise unless every split has the train rows' columns (two or more) and labels."""
    names, labels = parts["train"].table.names, unique_labels(parts["train"].true_labels, "train y")
    if len(names) < 2:
        raise DataError(f"the rows have one column, {names[0]!r}: a search needs two features or more")
    for name, part in parts.items():
        absent = [column for column in names if column not in part.table.columns]
        extra = [column for column in part.table.names if column not in names]
        if absent or extra:
            detail = f"has no {absent}" if absent else f"has {extra}, which the train rows do not have"
            raise DataError(f"the columns of the {name} rows differ from those of the train rows: it {detail}")
        unknown_labels = [label for label in set(part.true_labels) if label not in labels]
        if unknown_labels:
            raise DataError(
                f"label {unknown_labels[0]!r} of the {name} rows is in no train row: add train rows of it, or drop it"
            )
    return labels


def learn_features(
    part: LabelledRows, costs: CostModel, options: Mapping[str, FeatureOptions] | None
) -> tuple[tuple[Feature, ...], BlockEncoder]:
    """Learn features and their encoder from the train rows; options are by feature name.

    Raises
    ------
    RowError
        With the position in the user's table of a row whose value cannot be used.
    """
    try:
        features = infer_features(part.table, part.table.names, costs, options)
        codes = encode_table(features, part.table, "train")
        return features, BlockEncoder.fit(features, codes)
    except RowError as error:
        raise error.at(f"train row {error.row}", int(part.rows[error.row])) from None


def encode_split(
    name: str, part: LabelledRows, features: Sequence[Feature], labels: Sequence[Label], encoder: BlockEncoder
) -> Split:
    """Encode the rows of a split by the features, labels and encoder of the train rows; raise as `learn_features` does."""
    table = part.table.select([feature.name for feature in features])
    try:
        codes = encode_table(features, table, name)
    except RowError as error:
        found = error.at(f"{name} row {error.row}", int(part.rows[error.row]))
        advice = _OTHERWISE_IN_TRAINING.get(error.kind or "")
        raise found.with_hint(f"features are learned from the train rows alone; {advice}") if advice else found from None
    return Split(name, part.rows, table, codes, label_positions(part.true_labels, labels), encoder, part.groups, part.weights)


def stratified_sample(target: Ints, rows: int, rng: np.random.Generator) -> Ints:
    """Return at most `rows` positions, ascending, each label in its share and with at least one row.

    There are rows of every label, and `rows` is at least two for each label.
    """
    if len(target) <= rows:
        return np.arange(len(target))
    shares = np.bincount(target) / len(target)
    # Dividing the sample among labels is the same problem as dividing a label among splits.
    counts = stratified_counts([rows], shares)[0]
    chosen = [rng.permutation(np.flatnonzero(target == label))[:count] for label, count in enumerate(counts)]
    return np.asarray(np.sort(np.concatenate(chosen)))


def _take(values: Any, positions: Ints) -> Any:
    return None if values is None else values[positions]
