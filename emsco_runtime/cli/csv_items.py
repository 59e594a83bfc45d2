"""Rows of a CSV file as items: acquirers that read a field only when its feature is needed, true labels, splits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from emsco_runtime.acquirers import Acquirers
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.errors import InputError
from emsco_runtime.support.csv_file import CsvRow, CsvRows, match_category, open_csv, parse_boolean
from emsco_runtime.support.missing_words import MISSING_WORDS, is_missing_text

__all__ = ["ColumnReader", "LabelColumn", "make_column_acquirers", "read_split_rows"]


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reads one feature from its column; text that does not parse is returned as it is, and the runtime reports it."""

    column_index: int
    kind: str
    categories: frozenset[str]
    missing: frozenset[str] = MISSING_WORDS

    def __call__(self, row: CsvRow) -> object:
        """Return the value of a row; None where it is missing: the field is empty, or a word that means so."""
        text = row.fields[self.column_index]
        # A known category is never missing: the bundle was trained on a table in which the word meant something.
        if text not in self.categories and is_missing_text(text, self.missing):
            return None
        if self.kind == "categorical":
            return match_category(text, self.categories)
        if self.kind == "boolean":
            value = parse_boolean(text)
            return text if value is None else value
        try:
            return float(text)
        except ValueError:
            return text


def make_column_acquirers(manifest: Manifest, rows: CsvRows, missing_words: frozenset[str] = MISSING_WORDS) -> Acquirers:
    """Return acquirers that take every feature of the bundle's stages from the column of that name."""
    needed = [name for stage in manifest.stages for name in stage.acquire]
    missing = [name for name in needed if name not in rows.header]
    if missing:
        raise InputError(
            f"{rows.path}: columns are missing: {', '.join(missing)}; the file has {', '.join(rows.header)}."
            " Every feature of a stage needs one"
        )
    features = {feature.name: feature for feature in manifest.features}
    acquirers = Acquirers()
    for name in needed:
        reader = ColumnReader(rows.header.index(name), features[name].kind, frozenset(features[name].categories), missing_words)
        acquirers.feature(name)(reader)
    return acquirers


@dataclass(slots=True)
class LabelColumn:
    """The column of true labels, if there is one, and whether any of its values was a label of the bundle."""

    column: str | None
    column_index: int
    labels: frozenset[str]
    matched: bool = False

    @classmethod
    def find(cls, rows: CsvRows, requested: str | None, manifest: Manifest) -> LabelColumn:
        """Find the column: the requested one, or "label" if there is one."""
        if requested is not None and requested not in rows.header:
            raise InputError(f"{rows.path}: the label column {requested!r} is missing; the file has {', '.join(rows.header)}")
        column = requested or ("label" if "label" in rows.header else None)
        return cls(column, -1 if column is None else rows.header.index(column), frozenset(map(str, manifest.labels)))

    def read_label(self, row: CsvRow) -> str | None:
        """Return the true label of a row as text; None where there is none."""
        if self.column is None or not row.fields[self.column_index].strip():
            return None
        label = match_category(row.fields[self.column_index], self.labels)
        self.matched = self.matched or label in self.labels
        return label


def read_split_rows(run: str, split: str) -> frozenset[int]:
    """Return the rows of a named split of a training run, counted from 0, from its `splits.csv` (columns row, split)."""
    path = str(Path(run) / "splits.csv")
    found: set[int] = set()
    names: set[str] = set()
    with open_csv(path) as rows:
        for column in ("row", "split"):
            if column not in rows.header:
                raise InputError(f"{path}: the column {column!r} is missing, expected the columns row and split")
        for row in rows:
            fields = dict(zip(rows.header, row.fields, strict=True))
            names.add(fields["split"])
            if fields["split"] == split:
                if not fields["row"].isdigit():
                    raise InputError(f"{path}: line {row.line}: expected a row number, got {fields['row']!r}")
                found.add(int(fields["row"]))
    if not found:
        raise InputError(f"{path}: there is no split {split!r}; it has {', '.join(sorted(names)) or 'no rows'}")
    return frozenset(found)
