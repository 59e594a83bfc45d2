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

from emsco_runtime.cli._console import CommandError, Progress, number, run_command

if TYPE_CHECKING:
    from emsco_runtime.cascade import Cascade
    from emsco_runtime.cli._rows import CsvRow, CsvRows
    from emsco_runtime.decision import Decision
    from emsco_runtime.manifest import Manifest

__all__ = ["main"]

_BATCH = 4096
_COLUMNS = ("row", "status", "reason", "label", "confidence", "stages", "cost", "degraded", "error")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if (options.run is None) != (options.split is None):
        parser.error("--run and --split go together")
    return run_command("emsco-run", lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="emsco-run",
        description="Decide every row of a CSV file with a bundle. A column is read only for rows that get as far as its stage. "
        "Prints coverage, cost, exits per stage, and accuracy where the label is there.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument("rows", metavar="ROWS.csv", help="the rows: a header, then one row per item; an empty field is a gap")
    parser.add_argument("--out", required=True, metavar="DECISIONS.csv", help="where the decisions go, one row each")
    parser.add_argument("--label", default=None, metavar="COL", help="column of the true label (default: label, if there is one)")
    parser.add_argument("--budget", type=_budget, default=None, metavar="COST", help="most that a row may cost")
    parser.add_argument(
        "--on-failure",
        choices=("raise", "reject", "default"),
        default="raise",
        help="what a bad value does: stop with an error (the default), reject the row, or use the bundle's fallback value",
    )
    parser.add_argument("--run", metavar="RUN", help="a training run: take only the rows of one of its splits")
    parser.add_argument("--split", metavar="NAME", help="the split of --run to take (train, validation, test)")
    return parser


def _budget(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"a number of at least 0 is due, got {text!r}")
    return value


@dataclass(slots=True)
class _Tally:
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
    from emsco_runtime.bundle import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.cascade import Cascade  # noqa: PLC0415
    from emsco_runtime.cli._rows import column_acquirers, csv_rows, read_splits  # noqa: PLC0415

    bundle = read_bundle(options.bundle)
    chosen = read_splits(options.run, options.split) if options.run else None
    with csv_rows(options.rows) as rows, _written(options.out, options.rows) as file:
        cascade = Cascade(bundle, column_acquirers(bundle.manifest, rows), on_failure=options.on_failure)
        truth = _Truth.of(rows, options.label, bundle.manifest)
        tally = _decide_all(cascade, rows, chosen, truth, options, file)
    print(_summary(bundle.manifest, tally, options.out))
    if tally.labelled and not truth.met:
        told = f"no value of the column {truth.column!r} is a label of the bundle ({', '.join(sorted(truth.labels))})"
        print(f"emsco-run: the accuracy means nothing: {told}", file=sys.stderr)


@dataclass(slots=True)
class _Truth:
    """The column of true labels, if there is one, and whether any of its values was a label of the bundle."""

    column: str | None
    position: int
    labels: frozenset[str]
    met: bool = False

    @classmethod
    def of(cls, rows: CsvRows, asked: str | None, manifest: Manifest) -> _Truth:
        """Find the column: the one asked for, or "label" if it is there."""
        if asked is not None and asked not in rows.header:
            raise CommandError(f"{rows.path}: the label column {asked!r} is missing; the file has {', '.join(rows.header)}")
        column = asked or ("label" if "label" in rows.header else None)
        position = -1 if column is None else rows.position(column)
        return cls(column, position, frozenset(map(str, manifest.labels)))

    def of_row(self, row: CsvRow) -> str | None:
        """Return the true label of a row as text; None where it is not told."""
        if self.column is None or not row.fields[self.position].strip():
            return None
        text = row.fields[self.position]
        from emsco_runtime.cli._rows import whole_number  # noqa: PLC0415 - as below

        label = text if text in self.labels else whole_number(text)
        self.met = self.met or label in self.labels
        return label


def _decide_all(
    cascade: Cascade,
    rows: CsvRows,
    chosen: frozenset[int] | None,
    truth: _Truth,
    options: argparse.Namespace,
    file: TextIO,
) -> _Tally:
    tally, progress = _Tally(), Progress()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    taken = 0
    wanted = (row for row in rows if chosen is None or row.number in chosen)
    for batch in _batches(wanted):
        decisions = _decide_batch(cascade, batch, options)
        for row, decision in zip(batch, decisions, strict=True):
            tally.add(decision, truth.of_row(row))
            writer.writerow(_record(row.number, decision))
        taken += len(batch)
        progress.show(taken)
    progress.close()
    if chosen is not None and taken != len(chosen):
        from emsco_runtime.summary import counted  # noqa: PLC0415 - as above

        told = f"the split names {counted(len(chosen), 'row')}, the file has {taken} of them"
        raise CommandError(f"{options.rows}: {told}. Give the table that the run was trained on")
    if not taken:
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
    while batch := list(itertools.islice(rows, _BATCH)):
        yield batch


def _record(index: int, decision: Decision) -> list[Any]:
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
def _written(path: str, rows: str) -> Iterator[TextIO]:
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


def _summary(manifest: Manifest, tally: _Tally, out: str) -> str:
    from emsco_runtime.summary import counted, percent, summarise_costs  # noqa: PLC0415 - as above

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
        lines.append(f"degraded   {counted(tally.degraded, 'row')} decided with a fallback value")
    return "\n".join([*lines, f"written    {out}"])


if __name__ == "__main__":
    sys.exit(main())
