"""`emsco-run`: decide every row of a CSV file, taking features lazily from its columns."""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from emsco_runtime.cli.console import RowProgress, format_costs, format_number, format_table, run_command
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.support.csv_file import CsvRow, CsvRows, open_csv
from emsco_runtime.support.files import open_output
from emsco_runtime.support.formatting import percent, pluralize
from emsco_runtime.support.missing_words import MISSING_WORDS, parse_missing_words

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Manifest
    from emsco_runtime.cascade import Cascade
    from emsco_runtime.cli.csv_items import LabelColumn
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
        description="Decide every row of a CSV file with a bundle. A column is read only for rows that reach its stage. "
        "Prints coverage, cost, exits per stage, and accuracy where the label is there.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument("rows", metavar="ROWS.csv", help="the rows: a header, then one row per item")
    parser.add_argument("--out", required=True, metavar="DECISIONS.csv", help="where the decisions go, one row each")
    parser.add_argument("--label", default=None, metavar="COL", help="column of the true label (default: label, if there is one)")
    parser.add_argument(
        "--missing",
        type=parse_missing_words,
        default=MISSING_WORDS,
        metavar="WORDS",
        help="what else than an empty field is missing: words with commas between them, in any case, as in emsco-train "
        f"(default: {','.join(sorted(MISSING_WORDS))})",
    )
    parser.add_argument("--budget", type=_parse_budget, default=None, metavar="COST", help="most that a row may cost")
    parser.add_argument(
        "--on-failure",
        choices=("raise", "reject", "default"),
        default="raise",
        help="what a bad value does: stop with an error (the default), reject the row, or use the bundle's fallback value",
    )
    parser.add_argument("--run", metavar="RUN", help="a training run: take only the rows of one of its splits")
    parser.add_argument(
        "--split",
        metavar="NAME",
        help="the split of --run to take, as its splits.csv names it: train, validation, test or certify",
    )
    return parser


def _parse_budget(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


@dataclass(slots=True)
class _DecisionCounts:
    """Counts over the rows decided so far; exits are accepted rows by stage, reasons are those of rejected rows.

    `answers` are the rows whose true label is known, by this label and the one they got, None for a rejected row.
    """

    degraded: int = 0
    costs: list[float] = field(default_factory=list)
    exits: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str | None, str | None]] = field(default_factory=Counter)

    @property
    def labelled(self) -> int:
        """Accepted rows whose true label is known."""
        return sum(number for (_, answer), number in self.answers.items() if answer is not None)

    @property
    def right(self) -> int:
        """Those of them that got it."""
        return sum(number for (truth, answer), number in self.answers.items() if answer == truth)

    def add(self, decision: Decision, truth: str | None) -> None:
        """Count one decision."""
        self.costs.append(decision.cost)
        self.degraded += decision.degraded
        if decision.status == "accepted":
            self.exits[decision.stages] += 1
        else:
            self.reasons[decision.reason] += 1
        if truth is not None:
            self.answers[truth, None if decision.label is None else str(decision.label)] += 1


def _run(options: argparse.Namespace) -> None:
    from emsco_runtime.bundle.reading import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.cascade import Cascade  # noqa: PLC0415
    from emsco_runtime.cli.csv_items import LabelColumn, make_column_acquirers, read_split_rows  # noqa: PLC0415

    bundle = read_bundle(options.bundle)
    split_rows = read_split_rows(options.run, options.split) if options.run else None
    with open_csv(options.rows) as rows, _open_decisions(options.out, options.rows) as file:
        cascade = Cascade(bundle, make_column_acquirers(bundle.manifest, rows, options.missing), on_failure=options.on_failure)
        truth = LabelColumn.find(rows, options.label, bundle.manifest)
        counts = _decide_rows(cascade, rows, split_rows, truth, options, file)
    print(_format_summary(bundle.manifest, counts, options.out))
    if counts.labelled and not truth.matched:
        detail = f"no value of the column {truth.column!r} is a label of the bundle ({', '.join(sorted(truth.labels))})"
        print(f"emsco-run: the accuracy means nothing: {detail}", file=sys.stderr)


def _decide_rows(
    cascade: Cascade,
    rows: CsvRows,
    split_rows: frozenset[int] | None,
    truth: LabelColumn,
    options: argparse.Namespace,
    file: TextIO,
) -> _DecisionCounts:
    counts, progress = _DecisionCounts(), RowProgress()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    selected = (row for row in rows if split_rows is None or row.number in split_rows)
    while batch := list(itertools.islice(selected, _BATCH_ROWS)):
        for row, decision in zip(batch, _decide_batch(cascade, batch, options), strict=True):
            counts.add(decision, truth.read_label(row))
            writer.writerow(_decision_row(row.number, decision))
        progress.show(len(counts.costs))
    progress.close()
    rows_done = len(counts.costs)
    if split_rows is not None and rows_done != len(split_rows):
        raise InputError(
            f"{options.rows}: the split names {pluralize(len(split_rows), 'row')}, the file has {rows_done} of them."
            " Give the table that the run was trained on"
        )
    if not rows_done:
        raise InputError(f"{options.rows}: there are no rows below the header")
    return counts


def _decide_batch(cascade: Cascade, batch: Sequence[CsvRow], options: argparse.Namespace) -> list[Decision]:
    try:
        return cascade.decide_many(batch, budget=options.budget)
    except AcquisitionError as error:
        line = batch[error.index or 0].line
        raise InputError(f"{options.rows}: line {line}: {error.message}. Fix it, or use --on-failure reject or default") from None


def _decision_row(number: int, decision: Decision) -> list[Any]:
    return [
        number,
        decision.status,
        decision.reason,
        "" if decision.label is None else decision.label,
        "" if decision.confidence is None else repr(decision.confidence),
        decision.stages,
        repr(decision.cost),
        str(decision.degraded).lower(),
        "".join(f"{error.feature}: {error.message}" for error in decision.errors[:1]),
    ]


def _open_decisions(path: str, rows: str) -> AbstractContextManager[TextIO]:
    """Open the file of decisions: an error leaves no half-written file, and an older one as it was."""
    target = Path(path).resolve()
    if not path or target.is_dir():
        raise InputError(f"--out {path}: expected a file, {'this is a folder' if path else 'its name is empty'}")
    if target.exists() and target.samefile(rows):
        raise InputError(f"--out {path}: that is the table itself, which would be overwritten. Choose another file")
    if not target.parent.is_dir():
        raise InputError(f"--out {path}: the folder {target.parent} does not exist. Make it first")
    return open_output(target)


def _format_summary(manifest: Manifest, counts: _DecisionCounts, out: str) -> str:
    from emsco_runtime.bundle.summary import summarise_costs  # noqa: PLC0415 - loads numpy; --help must answer at once

    rows, accepted, cost = len(counts.costs), counts.exits.total(), summarise_costs(counts.costs)
    exits = [f"stage {stage}: {count} ({percent(count, rows)})" for stage, count in sorted(counts.exits.items())]
    rejected = [f"{reason.replace('_', ' ')}: {count}" for reason, count in sorted(counts.reasons.items())]
    lines = [
        f"bundle     {manifest.name} {manifest.version} ({manifest.id[:12]})",
        f"rows       {rows}",
        f"coverage   {percent(accepted, rows)} ({accepted} accepted, {rows - accepted} rejected)",
    ]
    if counts.labelled:
        accuracy = percent(counts.right, counts.labelled)
        lines.append(f"accuracy   {accuracy} ({counts.right} of {counts.labelled} accepted are right)")
    figures = f"{format_costs(cost)}; all features: {format_number(manifest.meter().total)}"
    lines += [
        f"mean cost  {format_number(cost.mean)} {manifest.cost_unit} ({figures})",
        f"exits      {', '.join(exits) or 'none'}",
    ]
    if rejected:
        lines.append(f"rejected   {', '.join(rejected)}")
    if counts.degraded:
        lines.append(f"degraded   {pluralize(counts.degraded, 'row')} decided with a fallback value")
    return "\n".join([*lines, *_format_labels(manifest, counts), f"written    {out}"])


def _format_labels(manifest: Manifest, counts: _DecisionCounts) -> list[str]:
    """Return the figures per label, where some rows have a label that the bundle knows."""
    from emsco_runtime.bundle.label_figures import (  # noqa: PLC0415 - loads pydantic; --help must answer at once
        COLUMNS,
        count_labels,
        describe_base_rate,
        describe_missed_labels,
        label_rows,
    )

    labels = count_labels(counts.answers, manifest.labels)
    if not any(one.rows for one in labels):
        return []
    cautions = [f"caution    {text}" for text in describe_missed_labels(labels)]
    return [f"base rate  {describe_base_rate(labels)}", *cautions, "", format_table(COLUMNS, label_rows(labels)), ""]


if __name__ == "__main__":
    sys.exit(main())
