"""`emsco-run`: decide every row of a CSV file, taking features lazily from its columns."""

from __future__ import annotations

import argparse
import contextlib
import csv
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from emsco_runtime.cli.console import CommandError, RowProgress, number, run_command

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Manifest
    from emsco_runtime.cascade import Cascade
    from emsco_runtime.cli.csv_items import CsvRow, CsvRows
    from emsco_runtime.decision import Decision

__all__ = ["main"]

_BATCH_ROWS = 4096
_COLUMNS = ("row", "status", "reason", "label", "confidence", "stages", "cost", "degraded", "error")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _build_parser()
    options = parser.parse_args(arguments)
    if (options.run is None) != (options.split is None):
        parser.error("--run and --split go together")
    return run_command("emsco-run", lambda: _run(options))


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="emsco-run",
        description="Decide every row of a CSV file with a bundle. A column is read only for rows that get as far as its stage. "
        "Prints coverage, cost, exits per stage, and accuracy where the label is there.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument("rows", metavar="ROWS.csv", help="the rows: a header, then one row per item; an empty field is a gap")
    parser.add_argument("--out", required=True, metavar="DECISIONS.csv", help="where the decisions go, one row each")
    parser.add_argument("--label", default=None, metavar="COL", help="column of the true label (default: label, if there is one)")
    parser.add_argument("--budget", type=_parse_budget, default=None, metavar="COST", help="most that a row may cost")
    parser.add_argument(
        "--on-failure",
        choices=("raise", "reject", "default"),
        default="raise",
        help="what a bad value does: stop with an error (the default), reject the row, or use the bundle's fallback value",
    )
    parser.add_argument("--run", metavar="RUN", help="a training run: take only the rows of one of its splits")
    parser.add_argument("--split", metavar="NAME", help="the split of --run to take (train, validation, test)")
    return parser


def _parse_budget(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"a number of at least 0 is due, got {text!r}")
    return value


@dataclass(slots=True)
class _DecisionCounts:
    """Counts over the rows decided so far."""

    accepted: int = 0
    labelled: int = 0
    right: int = 0
    exits: dict[int, int] = field(default_factory=dict)
    costs: list[float] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    degraded: int = 0

    def add(self, decision: Decision, truth: str | None) -> None:
        """Count one decision."""
        self.costs.append(decision.cost)
        self.degraded += decision.degraded
        if decision.status == "accepted":
            self.accepted += 1
            self.exits[decision.stages] = self.exits.get(decision.stages, 0) + 1
            self.labelled += truth is not None
            self.right += truth == str(decision.label)
        else:
            self.reasons[decision.reason] = self.reasons.get(decision.reason, 0) + 1


def _run(options: argparse.Namespace) -> None:
    from emsco_runtime.bundle.reading import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.cascade import Cascade  # noqa: PLC0415
    from emsco_runtime.cli.csv_items import make_column_acquirers, open_csv, read_split_rows  # noqa: PLC0415

    bundle = read_bundle(options.bundle)
    split_rows = read_split_rows(options.run, options.split) if options.run else None
    with open_csv(options.rows) as rows, _replace_file(options.out, options.rows) as file:
        cascade = Cascade(bundle, make_column_acquirers(bundle.manifest, rows), on_failure=options.on_failure)
        truth = _LabelColumn.find(rows, options.label, bundle.manifest)
        tally = _decide_rows(cascade, rows, split_rows, truth, options, file)
    print(_format_summary(bundle.manifest, tally, options.out))
    if tally.labelled and not truth.matched:
        detail = f"no value of the column {truth.column!r} is a label of the bundle ({', '.join(sorted(truth.labels))})"
        print(f"emsco-run: the accuracy means nothing: {detail}", file=sys.stderr)


@dataclass(slots=True)
class _LabelColumn:
    """The column of true labels, if there is one, and whether any of its values was a label of the bundle."""

    column: str | None
    column_index: int
    labels: frozenset[str]
    matched: bool = False

    @classmethod
    def find(cls, rows: CsvRows, requested: str | None, manifest: Manifest) -> _LabelColumn:
        """Find the column: the one asked for, or "label" if it is there."""
        if requested is not None and requested not in rows.header:
            raise CommandError(f"{rows.path}: the label column {requested!r} is missing; the file has {', '.join(rows.header)}")
        column = requested or ("label" if "label" in rows.header else None)
        column_index = -1 if column is None else rows.column_index(column)
        return cls(column, column_index, frozenset(map(str, manifest.labels)))

    def read_label(self, row: CsvRow) -> str | None:
        """Return the true label of a row as text; None where it is not told."""
        if self.column is None or not row.fields[self.column_index].strip():
            return None
        text = row.fields[self.column_index]
        from emsco_runtime.cli.csv_items import strip_decimal_zeros  # noqa: PLC0415 - as below

        label = text if text in self.labels else strip_decimal_zeros(text)
        self.matched = self.matched or label in self.labels
        return label


def _decide_rows(
    cascade: Cascade,
    rows: CsvRows,
    split_rows: frozenset[int] | None,
    truth: _LabelColumn,
    options: argparse.Namespace,
    file: TextIO,
) -> _DecisionCounts:
    tally, progress = _DecisionCounts(), RowProgress()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    rows_done = 0
    selected = (row for row in rows if split_rows is None or row.number in split_rows)
    for batch in _batches(selected):
        decisions = _decide_batch(cascade, batch, options)
        for row, decision in zip(batch, decisions, strict=True):
            tally.add(decision, truth.read_label(row))
            writer.writerow(_decision_row(row.number, decision))
        rows_done += len(batch)
        progress.show(rows_done)
    progress.close()
    if split_rows is not None and rows_done != len(split_rows):
        from emsco_runtime.bundle.summary import pluralize  # noqa: PLC0415 - as above

        detail = f"the split names {pluralize(len(split_rows), 'row')}, the file has {rows_done} of them"
        raise CommandError(f"{options.rows}: {detail}. Give the table that the run was trained on")
    if not rows_done:
        raise CommandError(f"{options.rows}: there are no rows below the header")
    return tally


def _decide_batch(cascade: Cascade, batch: Sequence[CsvRow], options: argparse.Namespace) -> list[Decision]:
    from emsco_runtime.errors import AcquisitionError  # noqa: PLC0415 - as above

    try:
        return cascade.decide_many(batch, budget=options.budget)
    except AcquisitionError as error:
        line = batch[error.index or 0].line
        advice = "Mend it, or use --on-failure reject or default"
        raise CommandError(f"{options.rows}: line {line}: {error.message}. {advice}") from None


def _batches(rows: Iterator[CsvRow]) -> Iterator[list[CsvRow]]:
    while batch := list(itertools.islice(rows, _BATCH_ROWS)):
        yield batch


def _decision_row(index: int, decision: Decision) -> list[Any]:
    error = decision.errors[0] if decision.errors else None
    return [
        index,
        decision.status,
        decision.reason,
        "" if decision.label is None else decision.label,
        "" if decision.confidence is None else repr(decision.confidence),
        decision.stages,
        repr(decision.cost),
        str(decision.degraded).lower(),
        "" if error is None else f"{error.feature}: {error.message}",
    ]


@contextlib.contextmanager
def _replace_file(path: str, rows: str) -> Iterator[TextIO]:
    """Write aside and move into place at the end: an error leaves no half-written file, and an older one as it was.

    What is there and is no plain file (a pipe, a terminal, a device) is written to directly: it cannot be replaced.
    """
    target = Path(path).resolve()
    if not path or target.is_dir():
        raise CommandError(f"--out {path}: a file is due, {'this is a folder' if path else 'its name is empty'}")
    if target.exists() and target.samefile(rows):
        raise CommandError(f"--out {path}: that is the table itself, which would be overwritten. Choose another file")
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    if not target.parent.is_dir():
        raise CommandError(f"--out {path}: the folder {target.parent} does not exist. Make it first")
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        # mkstemp makes files for its owner alone; results are ordinary files.
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _format_summary(manifest: Manifest, tally: _DecisionCounts, out: str) -> str:
    from emsco_runtime.bundle.summary import percent, pluralize, summarise_costs  # noqa: PLC0415 - as above

    rows, unit = len(tally.costs), manifest.cost_unit
    cost = summarise_costs(tally.costs)
    tail = f"p50 {number(cost.p50)}, p95 {number(cost.p95)}, max {number(cost.max)}"
    meter = manifest.meter()
    exits = [f"stage {stage}: {count} ({percent(count, rows)})" for stage, count in sorted(tally.exits.items())]
    rejected = [f"{reason.replace('_', ' ')}: {count}" for reason, count in sorted(tally.reasons.items())]
    lines = [
        f"bundle     {manifest.name} {manifest.version} ({manifest.id[:12]})",
        f"rows       {rows}",
        f"coverage   {percent(tally.accepted, rows)} ({tally.accepted} accepted, {rows - tally.accepted} rejected)",
    ]
    if tally.labelled:
        lines.append(f"accuracy   {percent(tally.right, tally.labelled)} ({tally.right} of {tally.labelled} accepted are right)")
    lines += [
        f"mean cost  {number(cost.mean)} {unit} ({tail}; all features: {number(meter.cost(meter.features))})",
        f"exits      {', '.join(exits) or 'none'}",
    ]
    if rejected:
        lines.append(f"rejected   {', '.join(rejected)}")
    if tally.degraded:
        lines.append(f"degraded   {pluralize(tally.degraded, 'row')} decided with a fallback value")
    return "\n".join([*lines, f"written    {out}"])


if __name__ == "__main__":
    sys.exit(main())
