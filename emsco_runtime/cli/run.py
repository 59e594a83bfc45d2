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
    from emsco_runtime.cli._rows import CsvRows
    from emsco_runtime.decision import Decision
    from emsco_runtime.manifest import Manifest

__all__ = ["main"]

_BATCH = 4096
_COLUMNS = ("row", "status", "reason", "label", "confidence", "stages", "cost", "degraded", "error")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
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
    parser.set_defaults(check=_check_pair(parser))
    return parser


def _check_pair(parser: argparse.ArgumentParser) -> Any:
    def check(options: argparse.Namespace) -> None:
        if (options.run is None) != (options.split is None):
            parser.error("--run and --split go together")

    return check


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
    options.check(options)
    from emsco_runtime.bundle import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.cascade import Cascade  # noqa: PLC0415
    from emsco_runtime.cli._rows import CsvRows, column_acquirers, read_splits  # noqa: PLC0415

    bundle = read_bundle(options.bundle)
    rows = CsvRows(options.rows)
    cascade = Cascade(bundle, column_acquirers(bundle.manifest, rows), on_failure=options.on_failure)
    chosen = read_splits(options.run, options.split) if options.run else None
    truth = _truth_column(rows, options.label)
    with _written(options.out) as file:
        tally = _decide_all(cascade, rows, chosen, truth, options, file)
    print(_summary(bundle.manifest, tally, options.out))


def _truth_column(rows: CsvRows, asked: str | None) -> int | None:
    if asked is None:
        return rows.position("label") if "label" in rows.header else None
    if asked not in rows.header:
        raise CommandError(f"the label column {asked!r} is missing; the file has {', '.join(rows.header)}")
    return rows.position(asked)


def _decide_all(
    cascade: Cascade,
    rows: CsvRows,
    chosen: frozenset[int] | None,
    truth: int | None,
    options: argparse.Namespace,
    file: TextIO,
) -> _Tally:
    tally, progress = _Tally(), Progress()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    taken = 0
    wanted = (pair for pair in rows if chosen is None or pair[0] in chosen)
    for batch in _batches(wanted):
        decisions = _decide_batch(cascade, batch, options)
        for (index, fields), decision in zip(batch, decisions, strict=True):
            tally.add(decision, None if truth is None else fields[truth])
            writer.writerow(_record(index, decision))
        taken += len(batch)
        progress.show(taken)
    progress.close()
    if chosen is not None and taken != len(chosen):
        told = f"the split names {len(chosen)} rows, the file has {taken} of them"
        raise CommandError(f"{options.rows}: {told}. Give the table that the run was trained on")
    if not taken:
        raise CommandError(f"{options.rows}: there are no rows below the header")
    return tally


def _decide_batch(cascade: Cascade, batch: Sequence[tuple[int, list[str]]], options: argparse.Namespace) -> list[Decision]:
    from emsco_runtime.errors import AcquisitionError  # noqa: PLC0415 - as above

    try:
        return cascade.decide_many([fields for _, fields in batch], budget=options.budget)
    except AcquisitionError as error:
        row = batch[error.index or 0][0]
        advice = "Mend it, or use --on-failure reject or default"
        raise CommandError(f"{options.rows}: data row {row}: {error.message}. {advice}") from None


def _batches(pairs: Iterator[tuple[int, list[str]]]) -> Iterator[list[tuple[int, list[str]]]]:
    while batch := list(itertools.islice(pairs, _BATCH)):
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
def _written(path: str) -> Iterator[TextIO]:
    """Write aside and move into place at the end: an error leaves no half-written file, and an older one as it was."""
    target = Path(path)
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
    from emsco_runtime.summary import percent, summarise_costs  # noqa: PLC0415 - as above

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
        lines.append(f"degraded   {tally.degraded} rows were decided with a fallback value")
    return "\n".join([*lines, f"written    {out}"])


if __name__ == "__main__":
    sys.exit(main())
