"""`RunLedger`: certify.json, which records every use of a run's certify rows, before it looks at them.

The training writes it without entries, and it belongs to the run from then on: a run with certify rows and without it is
damaged, so that removing it is not a way to start over. It changes while the other files do not, so run.json has no hash of it.
Exports at the same time take turns: each adds its use to what the file holds at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from emsco_runtime.bundle.manifest import PromisedLimits
from emsco_runtime.support.files import locked_folder, replace_file, sync_folder
from emsco_train.errors import DataError, DesignError
from emsco_train.guarantee.ledger import CertifyQuestion, RecordedUse, UseResult, add_use, set_result
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.run_file import FileModel, RunFile

__all__ = ["LEDGER_NAME", "LedgerFile", "RunLedger", "UseEntry"]

LEDGER_NAME = "certify.json"


class UseEntry(FileModel):
    """One use: when, what was asked at which confidence, and how it ended ("unknown": it was cut short)."""

    time: str
    promise: PromisedLimits | None
    designs: tuple[str, ...]
    confidence: float
    result: UseResult
    design: str | None
    drawn: int | None = None

    @classmethod
    def of(cls, use: RecordedUse) -> UseEntry:
        """Return what the file holds of a use."""
        asked = use.question
        return cls(
            time=use.time,
            promise=asked.promise,
            designs=asked.designs,
            confidence=asked.confidence,
            result=use.result,
            design=use.design,
            drawn=asked.drawn,
        )

    def to_use(self) -> RecordedUse:
        """Return the use."""
        question = CertifyQuestion(self.designs, self.promise, self.confidence, self.drawn)
        return RecordedUse(self.time, question, self.result, self.design)


class LedgerFile(FileModel):
    """The document: the uses in their order."""

    format: Literal["emsco-certify"] = "emsco-certify"
    version: Literal[1] = 1
    uses: tuple[UseEntry, ...] = ()


class RunLedger:
    """The ledger of a run; see `CertifyLedger`.

    Parameters
    ----------
    folder
        Of the run.
    run
        Its record, as it was read when the export began.
    """

    def __init__(self, folder: RunFolder, run: RunFile) -> None:
        self._folder, self._run = folder, run
        self._path = folder.path / LEDGER_NAME

    @property
    def planned(self) -> int:
        """How many uses share the level."""
        return self._run.certify_uses

    def read(self) -> tuple[RecordedUse, ...]:
        """Return the uses so far.

        Raises
        ------
        DataError
            If the file is missing or damaged: then nobody knows how often the rows were used.
        """
        hint = "Restore it, or train again with other certify rows: without it, nobody knows how often these were used"
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise DataError(f"{self._path} cannot be read: {error.strerror or error}. {hint}") from None
        return tuple(entry.to_use() for entry in LedgerFile.parse(content, str(self._path), hint).uses)

    def begin(self, question: CertifyQuestion) -> int:
        """Record a use; it is on the disk when this returns."""
        with self._locked():
            if self._folder.read() != self._run:
                raise DataError(f"{self._folder.path} was replaced by another run meanwhile: export again")
            before = self.read()
            uses, number = add_use(before, question)
            if uses != before:
                self._write(uses)
        return number

    def finish(self, question: CertifyQuestion, design: str | None) -> None:
        """Record how a use ended."""
        with self._locked():
            self._write(set_result(self.read(), question, design))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let exports at the same time take turns; errors of the file system are those of the user."""
        try:
            with locked_folder(self._folder.path):
                yield
        except OSError as error:
            raise DesignError(
                f"{self._path} cannot be written: {error.strerror or error}. A use of the certify rows must be recorded there: "
                "check the permissions"
            ) from None

    def _write(self, uses: tuple[RecordedUse, ...]) -> None:
        with replace_file(self._path, sync=True) as file:
            file.write(LedgerFile(uses=tuple(map(UseEntry.of, uses))).text().encode())
        sync_folder(self._folder.path)
