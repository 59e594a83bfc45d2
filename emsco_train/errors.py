"""Errors and warnings of training: one class per kind of trouble.

::

    EmscoError                          root of everything of ours (emsco_runtime.errors)
    └── TrainError                      training, export or verification cannot go on
        ├── DataError (ValueError)      rows, columns, labels or weights are unusable
        ├── DesignError (ValueError)    stages, costs, thresholds or options do not fit the data
        ├── FitError                    a stage model did not converge, or its classifier failed
        ├── SelectionError              no design of a front satisfies the wish
        ├── CertificationError          no design can be promised to have an error as small as wished
        └── ExportError                 a bundle cannot be made
            ├── ConversionError         a classifier has no faithful ONNX graph
            └── VerificationError       runtime and training disagree about a row

    UserWarning
    ├── ConfidenceWarning               class weights shift probabilities, so a threshold means something else
    ├── OutlierWarning                  a few values so far out that the others of their column cannot be told apart
    ├── ThresholdWarning                a threshold so low that every item leaves at stage 1
    └── VersionWarning                  a run is resumed with other versions of the libraries that it was begun with
"""

from __future__ import annotations

from emsco_runtime.errors import EmscoError

__all__ = [
    "CertificationError",
    "ConfidenceWarning",
    "ConversionError",
    "DataError",
    "DesignError",
    "ExportError",
    "FitError",
    "OutlierWarning",
    "SelectionError",
    "ThresholdWarning",
    "TrainError",
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


class SelectionError(TrainError):
    """No design of a front satisfies the wish.

    Parameters
    ----------
    message
        The wish, the nearest design, and how far it is.
    nearest
        Id of the nearest design; None when the front is empty.
    """

    def __init__(self, message: str, nearest: str | None = None) -> None:
        # Both go to `args`, so that the error survives pickling between processes.
        super().__init__(message, nearest)
        self.message = message
        self.nearest = nearest

    def __str__(self) -> str:
        """Return the message alone."""
        return self.message


class CertificationError(TrainError):
    """No design can be promised to have an error as small as wished.

    Parameters
    ----------
    message
        The wish, the nearest design, its bound, and about how many rows it would take.
    nearest
        Id of the nearest design; None when there is none.
    bound
        Upper bound on its error, from the certify rows; None when no design was tested, so that those rows stay unseen.
    rows_needed
        About how many accepted rows it would take, if the true error is half of the wished one.
    """

    def __init__(self, message: str, nearest: str | None, bound: float | None, rows_needed: int) -> None:
        super().__init__(message, nearest, bound, rows_needed)
        self.message = message
        self.nearest = nearest
        self.bound = bound
        self.rows_needed = rows_needed

    def __str__(self) -> str:
        """Return the message alone."""
        return self.message


class ExportError(TrainError):
    """A bundle cannot be made of this design."""


class ConversionError(ExportError):
    """A classifier has no ONNX graph that gives its probabilities."""


class VerificationError(ExportError):
    """The runtime and the training evaluation disagree about some row; nothing was written."""


class ConfidenceWarning(UserWarning):
    """Class weights shift the probabilities: a confidence is no longer the chance of being right."""


class OutlierWarning(UserWarning):
    """A few values of a column are so far out that, standardised, the others are all but equal: no model can use them."""


class ThresholdWarning(UserWarning):
    """A threshold at or below 1 / labels: some label always reaches it, so every item leaves at stage 1."""


class VersionWarning(UserWarning):
    """A run is resumed with other versions of libraries than it was begun with: results may differ in their last bits."""
