"""Errors and warnings of training: one class per kind of trouble.

::

    EmscoError                          root of everything of ours (emsco_runtime.errors)
    └── TrainError                      training, export or verification cannot go on
        ├── DataError (ValueError)      rows, columns, labels or weights are unusable
        ├── DesignError (ValueError)    stages, costs, thresholds or options do not fit the data
        ├── FitError                    a stage model did not converge, or its classifier failed
        ├── SelectionError              no design of a front meets the constraints
        ├── CertificationError          no design can be certified for what is to be promised
        └── ExportError                 a bundle cannot be made
            ├── ConversionError         a classifier cannot be converted to ONNX with equal probabilities
            └── VerificationError       runtime and training disagree about a row

    UserWarning
    ├── CertifyUseWarning               certify rows were used more often than planned, so a confidence is not held
    ├── ConfidenceWarning               class weights shift probabilities, so a threshold means something else
    ├── FewGroupsWarning                too few groups for some split, which stays empty
    ├── OutlierWarning                  a few values so far out that the other values of their column look equal
    ├── RareLabelWarning                a label without rows in some split: nothing is measured or certified about it there
    ├── RepeatedRowsWarning             equal rows in different folds or splits: models have seen what they are measured on
    ├── TableWarning                    a column that looks like an id, a date, free text, a constant, a code or a leak
    ├── ThresholdWarning                a threshold so low that every item leaves at stage 1
    ├── UnknownCategoryWarning          held-out rows have categories that no train row has
    └── VersionWarning                  a run is resumed with other versions of libraries than it was started with
"""

from __future__ import annotations

from emsco_runtime.errors import EmscoError

__all__ = [
    "CertificationError",
    "CertifyUseWarning",
    "ConfidenceWarning",
    "ConversionError",
    "DataError",
    "DesignError",
    "ExportError",
    "FewGroupsWarning",
    "FitError",
    "OutlierWarning",
    "RareLabelWarning",
    "RepeatedRowsWarning",
    "SelectionError",
    "TableWarning",
    "ThresholdWarning",
    "TrainError",
    "UnknownCategoryWarning",
    "VerificationError",
    "VersionWarning",
]


class TrainError(EmscoError):
    """Root of the errors of training."""


class DataError(TrainError, ValueError):
    """The rows, columns, labels or weights given are unusable; the message names the column, the row and the value."""


class DesignError(TrainError, ValueError):
    """Stages, costs, thresholds or options do not fit the data or each other; the message lists every fault."""


class FitError(TrainError):
    """A stage model did not converge, or its classifier failed to fit."""


class _ErrorWithDetails(TrainError):
    # All details go to `args`, so that the error survives pickling between processes; its text is the message alone.
    def __init__(self, message: str, *details: object) -> None:
        super().__init__(message, *details)
        self.message = message

    def __str__(self) -> str:
        return self.message


class SelectionError(_ErrorWithDetails):
    """No design of a front meets the constraints.

    Parameters
    ----------
    message
        The constraints, the nearest design, and how far it is from them.
    nearest
        Id of the nearest design; None when the front is empty.
    """

    def __init__(self, message: str, nearest: str | None = None) -> None:
        super().__init__(message, nearest)
        self.nearest = nearest


class CertificationError(_ErrorWithDetails):
    """No design can be certified for what is to be promised.

    Parameters
    ----------
    message
        What was asked for, the nearest design, its bounds, and about how many rows it would take.
    nearest
        Id of the nearest design; None when there is none.
    bound
        Upper bound on its error, from the certify rows; None when no design was tested, so that those rows stay unseen.
    rows_needed
        About how many rows it would take: accepted ones, if the true error is half of the one asked for; or rows of the limit
        that failed. 0 where more rows would not help.
    """

    def __init__(self, message: str, nearest: str | None, bound: float | None, rows_needed: int) -> None:
        super().__init__(message, nearest, bound, rows_needed)
        self.nearest = nearest
        self.bound = bound
        self.rows_needed = rows_needed


class ExportError(TrainError):
    """A bundle cannot be made of this design."""


class ConversionError(ExportError):
    """A classifier has no ONNX graph that gives its probabilities."""


class VerificationError(ExportError):
    """The runtime and the training evaluation disagree about some row; nothing was written."""


class CertifyUseWarning(UserWarning):
    """A certificate was made with certify rows that had been used as often as planned before: its confidence is not held."""


class ConfidenceWarning(UserWarning):
    """Class weights, or weights that are far too small, shift probabilities: a confidence is not that of being right any more."""


class FewGroupsWarning(UserWarning):
    """There are too few groups for all splits that have a share: no row is left to test, or to certify."""


class OutlierWarning(UserWarning):
    """A few values of a column are so far out that, standardised, the others are nearly equal: no model can use them."""


class RareLabelWarning(UserWarning):
    """A label has no row in some split that measures or certifies designs, so nothing is known about it there."""


class RepeatedRowsWarning(UserWarning):
    """Equal rows are in different folds or splits: models have seen what they are measured on, and figures are too good."""


class TableWarning(UserWarning):
    """A column is probably not what a model should learn from: an id, a date, free text, a constant, a code or a leak."""


class ThresholdWarning(UserWarning):
    """A threshold at or below 1 / labels: some label always reaches it, so every item leaves at stage 1."""


class UnknownCategoryWarning(UserWarning):
    """Held-out rows have categories that no train row has: the models take them as unknown, as they will in production."""


class VersionWarning(UserWarning):
    """A run is resumed with other versions of libraries than it was started with: results may differ in their last bits."""
