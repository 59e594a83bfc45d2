"""Cautions: settings that work but mislead, told as warnings at the line of the user's own code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats, Ints
from emsco_train.data.encoder import Block
from emsco_train.data.provenance import versions
from emsco_train.data.stage_settings import ClassWeight, row_weights
from emsco_train.data.thresholds import warn_low_thresholds
from emsco_train.errors import ConfidenceWarning, OutlierWarning, VersionWarning

__all__ = ["warn_class_weight", "warn_outliers", "warn_thresholds", "warn_version_change"]

# Weights this much apart are told: the odd row of a nearly balanced table is not worth a warning.
_MIN_WEIGHT_RATIO = 1.05
# Values within so little of a deviation are equal to a penalised model; at most so many others are outliers.
_EQUAL_WITHIN, _MAX_OUTLIER_SHARE = 1e-4, 0.1
_PACKAGE = __name__.partition(".")[0]


def warn_thresholds(thresholds: Sequence[float], labels: Sequence[Label]) -> None:
    """Warn of thresholds that some label always reaches; see `warn_low_thresholds`.

    Parameters
    ----------
    thresholds
        One per label.
    labels
        The labels in order.
    """
    warn_low_thresholds(thresholds, labels, stacklevel=_caller_stacklevel())


def warn_class_weight(target: Ints, labels: tuple[Label, ...], class_weight: ClassWeight) -> None:
    """Warn when class weights pull labels apart: what a model then calls its confidence is not the chance of being right.

    Parameters
    ----------
    target
        Position of each train row's label.
    labels
        The labels in order.
    class_weight
        As the user gave it, already checked.
    """
    weights = row_weights(target, labels, class_weight=class_weight, sample_weight=None)
    if weights is None or weights.max() <= _MIN_WEIGHT_RATIO * weights.min():
        return
    shown = [f"{label!r}: {weights[np.argmax(target == position)]:.3g}" for position, label in enumerate(labels[:10])]
    text = f"class_weight ({', '.join(shown)}) shifts the probabilities, so a confidence is no longer the chance of being right"
    advice = "check the accuracy of what is accepted, or leave the weights out and give each label its own threshold"
    warnings.warn(f"{text} and a threshold means something else: {advice}", ConfidenceWarning, stacklevel=_caller_stacklevel())


def warn_outliers(blocks: Sequence[Block], codes: Floats) -> None:
    """Warn of columns in which a few values are so far out that, standardised, all others are as good as equal.

    Parameters
    ----------
    blocks
        How the columns are standardised.
    codes
        Train rows [rows, features], in the order of the blocks.
    """
    for position, block in enumerate(blocks):
        if block.categories:
            continue
        values = codes[:, position][~np.isnan(codes[:, position])]
        is_outlier = np.abs(values - block.fill) > _EQUAL_WITHIN * block.scale
        others = values[~is_outlier]
        if not 0 < is_outlier.sum() <= _MAX_OUTLIER_SHARE * len(values) or others.min() == others.max():
            continue
        largest = values[np.argmax(np.abs(values))]
        outliers = pluralize(int(is_outlier.sum()), "value")
        text = f"column {block.name!r} holds {outliers} so far out (up to {largest:g}) that the others"
        advice = "correct them, make them gaps (None or NaN), or transform the column, such as by its logarithm"
        warnings.warn(f"{text} cannot be told apart: {advice}", OutlierWarning, stacklevel=_caller_stacklevel())


def warn_version_change(previous: Mapping[str, str], where: str) -> None:
    """Warn when what was begun with some versions of the libraries goes on with others.

    Parameters
    ----------
    previous
        Versions by name, as `versions` gave them; names that it does not hold are not compared.
    where
        What was begun with them, for the message.
    """
    # Another Python computes the same; it is what it runs that may not.
    now = {name: version for name, version in versions().items() if name != "python"}
    changed = [f"{name} {previous[name]}, now {now[name]}" for name in now if name in previous and previous[name] != now[name]]
    if changed:
        text = f"{where} was begun with other versions ({'; '.join(changed)}), so results may differ in their last bits from"
        advice = "install the same versions, or start over"
        warnings.warn(f"{text} those of a run without a break: {advice}", VersionWarning, stacklevel=_caller_stacklevel())


def _caller_stacklevel() -> int:
    """Return the stack level, for the function that asks, of the nearest caller that is not ours."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - what `warnings` itself walks
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level
