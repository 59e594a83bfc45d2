"""Batches of rows as other engines hold them, and decisions as Arrow columns; by pyarrow, an extra."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from emsco_runtime.decision import Label
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.errors import InputError
from emsco_runtime.support.arrays import Array, Ints
from emsco_runtime.support.arrow_tables import to_array

__all__ = ["ArrowBatch", "FrameBatch", "as_values", "check_kept", "make_schema", "wrap_batch"]

_FIELDS = ("label", "status", "reason", "confidence", "stages", "cost", "degraded", "error")


class ArrowBatch:
    """A batch of rows: a RecordBatch or a Table, answered in the same form.

    Parameters
    ----------
    table
        The rows.
    restore
        From a table to the form in which the batch was given.
    """

    def __init__(self, table: Any, restore: Callable[[Any], Any]) -> None:
        self._table = table
        self._restore = restore
        self.names: list[str] = table.schema.names
        self.rows: int = table.num_rows

    def read(self, name: str) -> Array:
        """Return a column."""
        import pyarrow as pa  # noqa: PLC0415

        try:
            return to_array(_combine(self._table.column(name)))
        except pa.ArrowException as error:
            kind = self._table.schema.field(name).type
            raise InputError(f"the column {name!r} of type {kind} cannot be read: {error}. Cast it first") from error

    def take(self, rows: Ints) -> Any:
        """Return some of the rows, in the form in which the batch was given; views of text become text."""
        return self._restore(_without_views(self._table).take(rows))

    def answer(self, keep: Sequence[str], labels: Sequence[Label], decisions: ColumnDecisions) -> Any:
        """Return some columns of the batch and the decisions, in the form in which the batch was given."""
        import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to load

        schema = make_schema(keep, self._table.schema, labels)
        kept = [self._table.column(name) for name in keep]
        return self._restore(pa.table([*kept, *_decision_columns(labels, decisions)], schema=schema))


class FrameBatch:
    """A batch of rows: a pandas DataFrame, answered by another one with its index. Only columns that are asked for are read."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.names: list[str] = frame.columns.tolist()
        self.rows: int = len(frame)

    def read(self, name: str) -> Array:
        """Return a column; one of objects as it is: Arrow would find a type for all, and each row has its own value and fault."""
        import pyarrow as pa  # noqa: PLC0415

        column = self._frame[name]
        if column.dtype != object:
            with contextlib.suppress(pa.ArrowException):
                values = pa.array(column, from_pandas=True)
                # What Arrow stores of a type of pandas' own may be numbers, such as the days of a period.
                if not isinstance(values.type, pa.BaseExtensionType):
                    return as_values(values)  # type: ignore[no-any-return]
        objects: Array = column.to_numpy(dtype=object)
        return objects

    def take(self, rows: Ints) -> Any:
        """Return some of the rows."""
        return self._frame.take(rows)

    def answer(self, keep: Sequence[str], labels: Sequence[Label], decisions: ColumnDecisions) -> Any:
        """Return some columns of the frame, as they are, and the decisions."""
        import pyarrow as pa  # noqa: PLC0415

        answer = pa.table(_decision_columns(labels, decisions), schema=pa.schema(_decision_fields(labels))).to_pandas()
        answer.index = self._frame.index
        for place, name in enumerate(keep):
            answer.insert(place, name, self._frame[name], allow_duplicates=True)
        return answer


def wrap_batch(batch: Any) -> ArrowBatch | FrameBatch:
    """Wrap a batch; `InputError` if it is none."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(batch, pa.Table):
        return ArrowBatch(batch, lambda table: table)
    if isinstance(batch, pa.RecordBatch):
        return ArrowBatch(pa.Table.from_batches([batch]), _to_record_batch)
    if hasattr(batch, "iloc") and hasattr(batch, "columns"):
        return FrameBatch(batch)
    # Other libraries have a DataFrame, too.
    library = type(batch).__module__.partition(".")[0]
    found = type(batch).__name__ if library == "builtins" else f"{library}.{type(batch).__name__}"
    advice = ". Give what its to_arrow() returns" if hasattr(batch, "to_arrow") else ""
    raise InputError(f"expected a pyarrow RecordBatch or Table, or a pandas DataFrame, got {found}{advice}")


def as_values(values: Any) -> Any:
    """Return an Arrow array as a column of values; anything else as it is."""
    import pyarrow as pa  # noqa: PLC0415

    if isinstance(values, pa.ChunkedArray):
        return to_array(_combine(values))
    return to_array(values) if isinstance(values, pa.Array) else values


def make_schema(keep: Sequence[str], batch_schema: Any, labels: Sequence[Label]) -> Any:
    """Return the Arrow schema of decisions, after the columns of the batches that are kept."""
    import pyarrow as pa  # noqa: PLC0415

    if keep and not isinstance(batch_schema, pa.Schema):
        message = f"keep: the Arrow schema of the batches is needed, of whose columns the result has {', '.join(map(str, keep))}"
        raise InputError(f"{message}; got {type(batch_schema).__name__}")
    if keep:
        check_kept(keep, batch_schema.names)
    return pa.schema([*(batch_schema.field(name) for name in keep), *_decision_fields(labels)])


def check_kept(keep: Sequence[str], names: Sequence[str]) -> None:
    """Raise `InputError` unless a batch with these columns has each column that is to be kept, once."""
    twice = [(name, times) for name in keep if (times := list(names).count(name)) > 1]
    if twice:
        raise InputError("the batch has the column {!r}, which is to be kept, {} times: leave one".format(*twice[0]))
    missing = [name for name in keep if name not in names]
    if missing:
        raise InputError(
            f"the column {missing[0]!r}, which is to be kept, is missing; the batch has {', '.join(map(str, names))}"
        )


def _decision_fields(labels: Sequence[Label]) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415

    label = pa.int64() if all(isinstance(one, int) for one in labels) else pa.string()
    types = (label, pa.string(), pa.string(), pa.float64(), pa.int32(), pa.float64(), pa.bool_(), pa.string())
    return [pa.field(name, one) for name, one in zip(_FIELDS, types, strict=True)]


def _decision_columns(labels: Sequence[Label], decisions: ColumnDecisions) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415

    fields = _decision_fields(labels)
    own = {field.name: getattr(decisions, field.name) for field in fields}
    if fields[0].type == pa.string():
        own["label"] = np.array([None if label is None else str(label) for label in own["label"].tolist()], dtype=object)
    # Of a row without a score the confidence is NaN, which becomes a gap.
    return [pa.array(own[field.name], field.type, from_pandas=True) for field in fields]


def _without_views(table: Any) -> Any:
    """Return a table with its views of text as text: pyarrow takes no rows of views, which polars hands over."""
    import pyarrow as pa  # noqa: PLC0415

    texts = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    for place, field in enumerate(table.schema):
        if field.type in texts:
            # By its values: older versions cast no views.
            values = pa.array(table.column(place).to_pylist(), texts[field.type])
            table = table.set_column(place, field.with_type(values.type), values)
    return table


def _combine(column: Any) -> Any:
    """Return a column in pieces as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _to_record_batch(table: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.RecordBatch.from_arrays([_combine(column) for column in table.columns], schema=table.schema)
