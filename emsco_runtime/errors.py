"""Errors of the runtime: one base class, one class per kind of problem.

::

    EmscoError                      catch this to catch everything of ours
    ├── BundleError                 a bundle is damaged, not ours, too new or unsafe
    │   └── BundleVersionError      its schema_version is newer than this library
    ├── BindError                   acquirers and bundle do not fit; lists every fault
    ├── AcquisitionError            a feature could not be obtained (on_failure="raise")
    ├── ClosedError (RuntimeError)  a cascade was used after it was closed
    └── InputError (ValueError)     an argument of a call is wrong

Every message says what is wrong, where, the value got and what to do next; the same facts are attributes of the instance.
"""

from __future__ import annotations

from collections.abc import Sequence

from emsco_runtime.decision import Failure, StageRecord

__all__ = ["AcquisitionError", "BindError", "BundleError", "BundleVersionError", "ClosedError", "EmscoError", "InputError"]


class EmscoError(Exception):
    """Base class of every error that emsco raises on purpose."""


class BundleError(EmscoError):
    """A bundle cannot be trusted, or cannot be written.

    Nothing of a bundle is executed before it has passed every check of its files; only golden items run its models.

    Parameters
    ----------
    message
        What is wrong, with the value got and the next step.
    path
        The file or folder at fault.
    json_path
        The place inside `manifest.json`, such as ``$.stages[1].model.sha256``; None when the fault is not inside it.
    """

    def __init__(self, message: str, path: str, json_path: str | None = None) -> None:
        # All parts go to `args`, so that the error survives pickling between processes.
        super().__init__(message, path, json_path)
        self.message = message
        self.path = path
        self.json_path = json_path

    def __str__(self) -> str:
        """Return one line: file, place inside it, message."""
        place = f"{self.path}: {self.json_path}" if self.json_path else self.path
        return f"{place}: {self.message}"


class BundleVersionError(BundleError):
    """The bundle was written by a newer emsco than this one."""


class BindError(EmscoError):
    """Acquirers do not fit the bundle.

    Parameters
    ----------
    faults
        Every fault found, one sentence each.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        """Return all faults; one fault stays on one line."""
        if len(self.faults) == 1:
            return self.faults[0]
        return f"{len(self.faults)} faults:" + "".join(f"\n  - {fault}" for fault in self.faults)


class AcquisitionError(EmscoError):
    """A feature could not be obtained and its policy is ``on_failure="raise"``.

    Parameters
    ----------
    message
        What went wrong, naming the feature and the stage.
    feature
        The feature at fault.
    stage
        The stage that needed it, counted from 1.
    kind
        The kind of failure, as in `Failure.kind`.
    cost
        The bill so far, the stage at fault included.
    trace
        The stages started so far.
    index
        Position of the item in the call (`decide_many`, `decide_columns`); None for `decide`.
    key
        The caller's own name of the item; None when none was given.
    errors
        Every failure of the item, as in `Decision.errors`: this one, and those before it that fell back to another value.
    """

    def __init__(
        self,
        message: str,
        feature: str,
        stage: int,
        kind: str,
        cost: float,
        trace: tuple[StageRecord, ...],
        index: int | None = None,
        key: str | None = None,
        errors: tuple[Failure, ...] = (),
    ) -> None:
        super().__init__(message, feature, stage, kind, cost, trace, index, key, errors)
        self.message = message
        self.feature = feature
        self.stage = stage
        self.kind = kind
        self.cost = cost
        self.trace = trace
        self.index = index
        self.key = key
        self.errors = errors

    def __str__(self) -> str:
        """Return the message, with the item's position and key where it has them."""
        parts = [str(self.index)] if self.index is not None else []
        parts += [repr(self.key)] if self.key is not None else []
        return f"item {', '.join(parts)}: {self.message}" if parts else self.message

    def with_index(self, index: int) -> AcquisitionError:
        """Return the same error with the position of its item; the cause is kept."""
        details = self.feature, self.stage, self.kind, self.cost, self.trace, index, self.key, self.errors
        error = AcquisitionError(self.message, *details)
        error.__cause__ = self.__cause__
        return error

    at = with_index  # the public name


class ClosedError(EmscoError, RuntimeError):
    """A cascade was used after `close`, or after the end of its ``with`` block."""


class InputError(EmscoError, ValueError):
    """An argument is wrong: a negative budget, an unknown feature in `known`, a missing column."""
