"""Warnings about settings that work but mislead, at the line of the user's own code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emsco_runtime.bundle.label_figures import describe_missed_labels
from emsco_runtime.bundle.manifest import Feature, LabelCounts
from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.encoder import Block
from emsco_train.data.features import FeatureOptions, check_options, first_codes
from emsco_train.data.labelled_rows import LabelledRows, Split
from emsco_train.data.provenance import versions
from emsco_train.data.repeated_rows import MIN_REPEATED_SHARE, count_repeated_rows
from emsco_train.data.splits import Shares, Splits
from emsco_train.data.stage_settings import ClassWeight, label_weights
from emsco_train.data.table import Table
from emsco_train.data.table_check import check_columns
from emsco_train.errors import (
    ConfidenceWarning,
    FewGroupsWarning,
    OutlierWarning,
    RareLabelWarning,
    RepeatedRowsWarning,
    TableWarning,
    ThresholdWarning,
    UnknownCategoryWarning,
    VersionWarning,
)

__all__ = [
    "warn_class_weight",
    "warn_few_groups",
    "warn_low_thresholds",
    "warn_missed_labels",
    "warn_outliers",
    "warn_rare_labels",
    "warn_repeated_rows",
    "warn_small_weights",
    "warn_table",
    "warn_unknown_categories",
    "warn_version_change",
]

# Weights must differ this much: the odd row of a nearly balanced table is not worth a warning.
_MIN_WEIGHT_RATIO = 1.05
# Below, the penalty of a logistic regression is felt as in a tenth of the rows.
_MIN_MEAN_WEIGHT = 0.1
# Values within this part of a deviation are equal to a penalised model; at most this share of others are outliers.
_EQUAL_WITHIN, _MAX_OUTLIER_SHARE = 1e-4, 0.1
_MAX_SHOWN_LABELS, _MAX_SHOWN_COLUMNS = 5, 5
_PACKAGE = __name__.partition(".")[0]


def warn_low_thresholds(thresholds: Sequence[float], labels: Sequence[Label]) -> None:
    """Warn of thresholds that some label always reaches."""
    low = [label for label, number in zip(labels, thresholds, strict=True) if number <= 1 / len(labels)]
    if low:
        text = f"the threshold of {low} is at or below 1 / {len(labels)} labels: the most probable label always reaches that"
        warnings.warn(f"{text}, so such items leave at stage 1. Raise it", ThresholdWarning, stacklevel=_caller_stacklevel())


def warn_rare_labels(labels: Sequence[Label], splits: Sequence[Split]) -> None:
    """Warn of labels without rows in some of the splits that measure or certify designs."""
    found: dict[Label, list[str]] = {}
    for split in splits:
        for position in np.flatnonzero(np.bincount(split.target, minlength=len(labels)) == 0).tolist():
            found.setdefault(labels[position], []).append(split.name)
    if not found:
        return
    shown = [f"{label!r} has no {' and no '.join(names)} rows" for label, names in list(found.items())[:_MAX_SHOWN_LABELS]]
    more = f" (and {pluralize(len(found) - len(shown), 'more label')})" if len(found) > len(shown) else ""
    text = f"label {', label '.join(shown)}{more}, so nothing is known about it there"
    if any("certify" in names for names in found.values()):
        text += ", and nothing is certified about a label without certify rows"
    advice = "give more rows of it, join it with another label, or leave it out"
    warnings.warn(f"{text}: {advice}", RareLabelWarning, stacklevel=_caller_stacklevel())


def warn_few_groups(groups: Ints, shares: Shares, splits: Splits) -> None:
    """Warn of splits that have a share, but of so few groups got no row; `groups` are the codes of all rows."""
    asked = zip(splits.items(), shares.values(), strict=True)
    empty = [name for (name, rows), share in asked if share and not len(rows)]
    if empty:
        count, names = pluralize(int(groups.max()) + 1, "group"), " and ".join(empty)
        advice = "give more groups, or give those splits no share with `shares`"
        text = f"{count}: too few for {names} rows, of which there are none, since a group stays in one split: {advice}"
        warnings.warn(text, FewGroupsWarning, stacklevel=_caller_stacklevel())


def warn_missed_labels(labels: Sequence[LabelCounts], weighted_rows: int | None) -> None:
    """Warn of labels that a design never gives rightly; `weighted_rows` are the rows, where they are counted by weight."""
    missed = describe_missed_labels(labels, weighted_rows)
    if missed:
        advice = "ask for it with `min_recall`, or search with `objective='balanced'`"
        warnings.warn(f"{'; '.join(missed)}: {advice}", RareLabelWarning, stacklevel=_caller_stacklevel())


def warn_repeated_rows(parts: Sequence[Split]) -> None:
    """Warn of rows that are repeated in another fold or split, so that a model has seen what it is measured on."""
    repeated, rows = count_repeated_rows([part.codes for part in parts], [part.target for part in parts]), sum(map(len, parts))
    if repeated < MIN_REPEATED_SHARE * rows:
        return
    text = f"{repeated:,} of {rows:,} rows occur again, with equal features and label, in another fold or split"
    result = "models have then seen what they are measured on, and figures and certificates are too good"
    advice = "keep rows of one origin together with `groups`, or drop the repeats"
    warnings.warn(f"{text}: {result}; {advice}", RepeatedRowsWarning, stacklevel=_caller_stacklevel())


def warn_unknown_categories(train: LabelledRows, splits: Sequence[Split], features: Sequence[Feature]) -> None:
    """Warn of categories of held-out rows that no train row has; those that are too rare to be listed are not meant."""
    for position, feature in zip(first_codes(features), features, strict=True):
        if feature.kind != "categorical" or feature.unknown != "ignore":
            continue
        found = {split.name: split.table.columns[feature.name][split.codes[:, position] < 0].tolist() for split in splits}
        if not any(found.values()):
            continue
        trained = set(train.table.columns[feature.name].tolist())
        unknown = {name: rows for name, values in found.items() if (rows := [value for value in values if value not in trained])}
        if unknown:
            counts = " and ".join(pluralize(len(values), f"{name} row") for name, values in unknown.items())
            example = next(iter(unknown.values()))[0]
            text = f"column {feature.name!r}: {counts} with a category that no train row has, such as {example!r}"
            refuse = f"`features={{{feature.name!r}: FeatureOptions(unknown='fail')}}`"
            advice = f"models take it as unknown, as they will in production; {refuse} refuses it"
            warnings.warn(f"{text}: {advice}", UnknownCategoryWarning, stacklevel=_caller_stacklevel())


def warn_table(table: Table, row_labels: Any, options: Mapping[str, FeatureOptions] | None) -> None:
    """Warn of columns that models should probably not learn from, unless the options say what kind they are."""
    check_options(options or {}, table.names)
    said = {name for name, option in (options or {}).items() if option.kind is not None}
    found = [one for one in check_columns(table.columns, row_labels) if one.column not in said]
    if found:
        shown = "; ".join(f"{one.column!r}: {one.what}" for one in found[:_MAX_SHOWN_COLUMNS])
        more = f"; and {pluralize(len(found) - _MAX_SHOWN_COLUMNS, 'more column')}" if len(found) > _MAX_SHOWN_COLUMNS else ""
        advice = "leave such columns out, or say what kind they are with `features`"
        if any(one.kind == "missing number" for one in found):
            advice += "; replace numbers that mean missing by None or NaN"
        text = f"columns that models should probably not learn from as they are: {shown}{more}. All are used: {advice}"
        warnings.warn(text, TableWarning, stacklevel=_caller_stacklevel())


def warn_class_weight(rows: Ints | Floats, labels: tuple[Label, ...], class_weight: ClassWeight) -> None:
    """Warn when class weights differ: the confidence of a model is then not the probability of being right.

    `rows` are the train rows of each label, by sample weight.
    """
    weights = label_weights(class_weight, labels, np.asarray(rows, dtype=np.float64))
    if weights.max() <= _MIN_WEIGHT_RATIO * weights.min():
        return
    shown = [f"{label!r}: {weight:.3g}" for label, weight in zip(labels[:10], weights.tolist(), strict=False)]
    what = f"`class_weight` ({', '.join(shown)}) shifts the probabilities"
    advice = "check the accuracy of what is accepted, or leave the weights out and give each label its own threshold"
    text = f"{what}, so a confidence is no longer the probability of being right and a threshold means something else: {advice}"
    warnings.warn(text, ConfidenceWarning, stacklevel=_caller_stacklevel())


def warn_small_weights(rows: int, total: float, C: float) -> None:  # noqa: N803
    """Warn when the train rows weigh so little together that the penalty of a logistic regression outweighs them.

    `total` is the sum of what `sample_weight` and `class_weight` make of them.
    """
    if total >= _MIN_MEAN_WEIGHT * rows:
        return
    what = f"{pluralize(rows, 'train row')} weigh {total:.3g} together (`sample_weight` and `class_weight`)"
    advice = f"multiply the weights, to a mean of 1, or raise `C` from {C:g}"
    text = f"{what}, so little that the penalty `C` dominates: models stay near the base rate, and accept little: {advice}"
    warnings.warn(text, ConfidenceWarning, stacklevel=_caller_stacklevel())


def warn_outliers(blocks: Sequence[Block], codes: Floats) -> None:
    """Warn of columns of the train rows in which a few values are so far out that, standardised, all others look equal."""
    said = set()
    for position, block in enumerate(blocks):
        # Of a vector, one warning is enough.
        if block.categories or block.curve is not None or block.name in said:
            continue
        values = codes[:, position][~np.isnan(codes[:, position])]
        is_outlier = np.abs(values - block.fill) > _EQUAL_WITHIN * block.scale
        others = values[~is_outlier]
        if not 0 < is_outlier.sum() <= _MAX_OUTLIER_SHARE * len(values) or others.min() == others.max():
            continue
        said.add(block.name)
        largest = values[np.argmax(np.abs(values))]
        outliers = pluralize(int(is_outlier.sum()), "value")
        text = f"column {block.name!r} holds {outliers} so far out (up to {largest:g}) that the others"
        advice = "correct them, make them missing values (None or NaN), or transform the column, such as by its logarithm"
        warnings.warn(f"{text} are nearly equal: {advice}", OutlierWarning, stacklevel=_caller_stacklevel())


def warn_version_change(previous: Mapping[str, str], where: str) -> None:
    """Warn when something that was started with the previous `versions` continues with others; `where` names it."""
    # Another Python computes the same; other libraries may not.
    now = {name: version for name, version in versions().items() if name != "python"}
    changed = [f"{name} {previous[name]}, now {now[name]}" for name in now if name in previous and previous[name] != now[name]]
    if changed:
        text = f"{where} was started with other versions ({'; '.join(changed)}), so results may differ in their last bits from"
        advice = "install the same versions, or start over"
        warnings.warn(f"{text} those of an uninterrupted run: {advice}", VersionWarning, stacklevel=_caller_stacklevel())


def _caller_stacklevel() -> int:
    """Return the stack level, for a warning of the calling function, of the nearest frame outside of this package."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - as `warnings` itself does
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level
