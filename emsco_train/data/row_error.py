"""`RowError`: a value that cannot be used. A caller that knows more about the rows than the reader of a column names the row."""

from __future__ import annotations

from emsco_runtime.decision import FailureKind
from emsco_train.errors import DataError

__all__ = ["RowError"]


class RowError(DataError):
    """A value that cannot be used: what is wrong, around the name of its row.

    Parameters
    ----------
    before, after
        The message before the name of the row, and after it.
    place
        What the message calls the row.
    row
        Its position among the rows that were read.
    kind
        What is wrong with the value, if the feature's encoder refused it.

    Examples
    --------
    >>> error = RowError("column 'a', ", "test row 2", ": unknown category 'x'", 2)
    >>> print(error)
    column 'a', test row 2: unknown category 'x'
    >>> print(error.at("row 17 of the table", 17))
    column 'a', row 17 of the table: unknown category 'x'
    """

    def __init__(self, before: str, place: str, after: str, row: int, kind: FailureKind | None = None) -> None:
        # All of them are `args`, so that the error survives pickling between processes.
        super().__init__(before, place, after, row, kind)
        self.before, self.place, self.after, self.row, self.kind = before, place, after, row, kind

    def __str__(self) -> str:
        """Return the message."""
        return f"{self.before}{self.place}{self.after}"

    def at(self, place: str, row: int) -> RowError:
        """Return the same error, of a row that is called otherwise, at its position in another table."""
        return RowError(self.before, place, self.after, row, self.kind)

    def with_hint(self, hint: str) -> RowError:
        """Return the same error with a hint at the end."""
        return RowError(self.before, self.place, f"{self.after} ({hint})", self.row, self.kind)
