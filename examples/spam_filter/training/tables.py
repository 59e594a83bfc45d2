"""Rows of features as CSV files, one for each split, as `emsco-train` reads them."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from spam_filter.training.corpus import LabelledMail
from spam_filter.training.extraction import Row
from spam_filter.training.splitting import SHARES, SplitName

__all__ = ["FAMILY_COLUMN", "LABEL_COLUMN", "write_tables"]

LABEL_COLUMN: Final = "label"
FAMILY_COLUMN: Final = "family"


def write_tables(
    folder: Path,
    mails: Sequence[LabelledMail],
    splits: Sequence[SplitName],
    families: Sequence[int],
    rows: Sequence[Row],
    names: Sequence[str],
) -> Mapping[str | None, str]:
    """Write a table for each split, and return where each is.

    Parameters
    ----------
    folder
        Where they go.
    mails, splits, families, rows
        The corpus, with a split, a family and the features of each message.
    names
        The features to write, in order.
    """
    paths: dict[str | None, str] = {}
    for split, _ in SHARES:
        path = folder / f"{split}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*names, FAMILY_COLUMN, LABEL_COLUMN])
            for mail, its, family, row in zip(mails, splits, families, rows, strict=True):
                if its == split:
                    writer.writerow([*(_format_value(row[name]) for name in names), family, mail.label])
        paths[split] = str(path)
    return paths


def _format_value(value: float | bool) -> str:  # noqa: FBT001 - a value, no switch
    return str(value).lower() if isinstance(value, bool) else repr(float(value))
