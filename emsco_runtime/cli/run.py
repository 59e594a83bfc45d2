"""`emsco-run`: decide every row of a table, chunk by chunk, on all cores."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

from emsco_runtime.cli.console import (
    OneLineParser,
    RowProgress,
    add_verify_option,
    format_costs,
    format_number,
    format_table,
    run_command,
)
from emsco_runtime.errors import AcquisitionError, InputError
from emsco_runtime.support.files import open_output
from emsco_runtime.support.formatting import percent, pluralize
from emsco_runtime.support.missing_words import MISSING_WORDS, parse_missing_words

if TYPE_CHECKING:
    from emsco_runtime.bundle.manifest import Manifest
    from emsco_runtime.cascade import Cascade
    from emsco_runtime.cli.decision_rows import DecisionCounts
    from emsco_runtime.cli.table_rows import LabelColumn
    from emsco_runtime.support.arrays import Ints
    from emsco_runtime.support.table_file import TableChunk, TableFile
    from emsco_runtime.support.text_column import FieldReader

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _build_parser()
    options = parser.parse_args(arguments)
    if (options.run is None) != (options.split is None):
        parser.error("--run and --split go together")
    return run_command("emsco-run", lambda: _run(options))


def _build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="emsco-run",
        description="Decide every row of a CSV or Parquet file with a bundle. A value counts only in rows that reach its stage. "
        "Prints coverage, cost, exits per stage, and accuracy where the label is there.",
    )
    parser.add_argument("bundle", metavar="BUNDLE", help="the bundle folder")
    parser.add_argument(
        "rows",
        metavar="ROWS",
        help="the rows: a CSV file with a header, a Parquet file, or a folder of Parquet files; one row per item",
    )
    parser.add_argument(
        "--out", required=True, metavar="DECISIONS.csv", help="where the decisions go, one row each; replaced if it exists"
    )
    parser.add_argument("--label", default=None, metavar="COL", help="column of the true label (default: label, if there is one)")
    parser.add_argument(
        "--missing",
        type=parse_missing_words,
        metavar="WORDS",
        help="comma-separated words that mean a missing value, in any case, besides an empty field "
        f"(default: those of the training, or {','.join(sorted(MISSING_WORDS))})",
    )
    parser.add_argument("--budget", type=_parse_budget, default=None, metavar="COST", help="largest cost of a row")
    parser.add_argument(
        "--on-failure",
        choices=("raise", "reject", "default"),
        default="raise",
        help="what to do with a bad value: stop with an error (default), reject the row, or use the bundle's fallback value",
    )
    add_verify_option(parser)
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


class _Answer(NamedTuple):
    """What came of a chunk: lines of decisions, and their counts."""

    text: str
    counts: DecisionCounts


def _run(options: argparse.Namespace) -> None:
    from emsco_runtime.bundle.reading import read_bundle  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_runtime.cascade import Cascade  # noqa: PLC0415
    from emsco_runtime.cli.table_rows import LabelColumn, find_other_table, make_field_readers, read_split_rows  # noqa: PLC0415
    from emsco_runtime.support.table_file import open_table  # noqa: PLC0415

    bundle = read_bundle(options.bundle, verify=options.verify)
    split_rows = read_split_rows(options.run, options.split) if options.run else None
    with open_table(options.rows) as table, _open_decisions(options.out, _list_inputs(options, bundle.manifest)) as file:
        doubt = find_other_table(options.run, options.split, options.rows) if options.run else None
        decider = _ChunkDecider(
            Cascade(bundle, on_failure=options.on_failure),
            make_field_readers(bundle.manifest, table, options.missing),
            LabelColumn.find(table, options.label, bundle.manifest),
            split_rows,
            options,
        )
        counts = _decide_rows(decider, table, file)
    unknown = counts.take_unknown(decider.truth.labels)
    print(_format_summary(bundle.manifest, counts, options.out))
    if doubt:
        print(f"emsco-run: {doubt}", file=sys.stderr)
    if unknown:
        print(f"emsco-run: {_describe_unknown(decider.truth, unknown, any_known=bool(counts.answers))}", file=sys.stderr)


def _describe_unknown(truth: LabelColumn, unknown: Counter[str], *, any_known: bool) -> str:
    """Return what the rows whose true label the bundle does not know mean for the accuracy."""
    shown = ", ".join(repr(label) for label, _ in unknown.most_common(3)) + (", ..." if len(unknown) > 3 else "")
    what = f"column {truth.column!r}: {pluralize(unknown.total(), 'row')} with labels that the bundle does not know ({shown})"
    if any_known:
        return f"{what}: they are decided, and left out of the accuracy and of the figures by label"
    return f"{what}, none with one that it knows ({', '.join(sorted(truth.labels))}): there is no accuracy"


def _decide_rows(decider: _ChunkDecider, table: TableFile, file: TextIO) -> DecisionCounts:
    from emsco_runtime.cli.decision_rows import HEADER, DecisionCounts  # noqa: PLC0415 - as above
    from emsco_runtime.support.ordered_work import available_cores, run_ordered  # noqa: PLC0415 - as above

    counts, progress = DecisionCounts(), RowProgress()
    file.write(",".join(HEADER) + "\n")
    try:
        for answer in run_ordered(decider.decide, table.read(decider.columns()), workers=available_cores()):
            file.write(answer.text)
            counts.add(answer.counts)
            progress.show(counts.rows)
    finally:
        progress.close()
    asked = decider.split_rows
    if asked is not None and counts.rows != len(asked):
        raise InputError(
            f"{table.path}: the split has {pluralize(len(asked), 'row')}, and the file only {counts.rows} of them."
            " Give the table that the run was trained on"
        )
    if not counts.rows:
        raise InputError(f"{table.path}: there are no rows below the header. Give a table with at least one row")
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class _ChunkDecider:
    """Decides chunks of a table, in several threads at a time."""

    cascade: Cascade
    readers: Mapping[str, FieldReader]
    truth: LabelColumn
    split_rows: Ints | None
    options: argparse.Namespace

    def columns(self) -> list[str]:
        """Return the columns that are needed of the table."""
        own = [*self.readers] if self.truth.column is None else [*self.readers, self.truth.column]
        return list(dict.fromkeys(own))

    def decide(self, chunk: TableChunk) -> _Answer:
        """Decide the rows of a chunk that are asked for."""
        from emsco_runtime.cli.decision_rows import DecisionCounts, GroupedDecisions, format_decisions  # noqa: PLC0415 - as above
        from emsco_runtime.cli.table_rows import count_ignored, take_rows  # noqa: PLC0415

        rows, columns = take_rows(chunk, self.split_rows)
        values = {name: reader.read_column(columns[name]) for name, reader in self.readers.items()}
        try:
            decisions = self.cascade.decide_columns(values, budget=self.options.budget)
        except AcquisitionError as error:
            place = chunk.place(int(rows[error.index or 0]))
            detail = f"{place}: {error.message}. Fix it, or use --on-failure reject or default"
            raise InputError(f"{self.options.rows}: {detail}") from None
        grouped = GroupedDecisions.of(decisions, self.truth.read_labels(columns, len(rows)))
        features = [feature for feature in self.cascade.manifest.features if feature.name in values]
        unknown = Counter({one.name: count for one in features if (count := count_ignored(one, values[one.name]))})
        return _Answer(format_decisions(chunk.start + rows, grouped), DecisionCounts.of(grouped, unknown))


def _list_inputs(options: argparse.Namespace, manifest: Manifest) -> Iterator[tuple[Path, str]]:
    """Yield the files that are read, each with what it is: decisions written over one of the bundle would be the end of it."""
    from emsco_runtime.bundle.reading import MANIFEST_FILE  # noqa: PLC0415 - as above

    yield Path(options.rows), "the table itself"
    for name in (MANIFEST_FILE, *(stage.model.path for stage in manifest.stages)):
        yield Path(options.bundle, name), "a file of the bundle"
    if options.run:
        for name in ("run.json", "splits.csv"):
            yield Path(options.run, name), "a file of the run"


def _open_decisions(path: str, inputs: Iterable[tuple[Path, str]]) -> AbstractContextManager[TextIO]:
    """Open the file of decisions, which may be none of `inputs`: an error leaves it as it was, not half-written."""
    # A stream such as /dev/stdout is no file once it is resolved.
    given, target = Path(path), Path(path).resolve()
    if not path or target.is_dir():
        raise InputError(f"--out {path}: expected a file, this is a folder" if path else "--out: expected a file name, got ''")
    for used, what in inputs:
        if given.exists() and used.exists() and given.samefile(used):
            raise InputError(f"--out {path}: that is {what}, which would be overwritten. Choose another file")
    if not target.parent.is_dir():
        raise InputError(f"--out {path}: the folder {target.parent} does not exist. Make it first")
    return open_output(given)


def _format_summary(manifest: Manifest, counts: DecisionCounts, out: str) -> str:
    rows, accepted, cost = counts.rows, counts.exits.total(), counts.summarise_costs()
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
    figures = f"{format_costs(cost)}; all features of the design: {format_number(manifest.meter().total)}"
    lines += [
        f"mean cost  {format_number(cost.mean)} {manifest.cost_unit} ({figures})",
        f"exits      {', '.join(exits) or 'none'}",
    ]
    if rejected:
        lines.append(f"rejected   {', '.join(rejected)}")
    if counts.degraded:
        lines.append(f"degraded   {pluralize(counts.degraded, 'row')} decided with a fallback value")
    if counts.unknown_categories:
        features = ", ".join(f"{name} ({pluralize(count, 'row')})" for name, count in counts.unknown_categories.most_common(8))
        lines.append(f"unknown    categories that the bundle does not know, in {features}: they are ignored")
    return "\n".join([*lines, *_format_labels(manifest, counts), f"written    {out}"])


def _format_labels(manifest: Manifest, counts: DecisionCounts) -> list[str]:
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
