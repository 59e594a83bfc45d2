"""`emsco-export`: choose a design of a run, fit, verify, certify, and write its bundle."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emsco_train.cli.argument_parser import OneLineParser
from emsco_train.cli.garbage_collection import infrequent_collections
from emsco_train.cli.option_names import OptionNames

if TYPE_CHECKING:
    from emsco_train.guarantee.choice import SelectionCriteria
    from emsco_train.runs.exporting import RunExport

__all__ = ["main"]

_SPLITS = ("train", "validation", "test", "certify")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    from emsco_runtime.cli.console import run_command  # noqa: PLC0415 - after the arguments: --help must answer at once

    def run_export() -> None:
        with OptionNames(options).translate_errors():
            _export(parser, options)

    with infrequent_collections(enabled=arguments is None):
        return run_command("emsco-export", run_export)


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="emsco-export",
        description="Choose a design of a run, fit its stages, replay every row through the runtime, certify it, and write the "
        "bundle. Without a wish, the fittest design is taken.",
        epilog="example: emsco-export runs/mail --out bundles/mail --min-accuracy 0.97 --min-coverage 0.9",
    )
    parser.add_argument("run", metavar="RUN", help="folder that emsco-train wrote")
    parser.add_argument("--out", required=True, metavar="BUNDLE", help="folder of the bundle")
    requirements = parser.add_argument_group(
        "wish", "figures on the validation rows; the cheapest design that satisfies them is taken"
    )
    requirements.add_argument("--min-accuracy", type=float, metavar="A", help="share of accepted rows that are right, at least")
    requirements.add_argument("--min-coverage", type=float, metavar="C", help="share of rows that are accepted, at least")
    requirements.add_argument("--max-cost", type=float, metavar="X", help="mean cost of a row, at most")
    requirements.add_argument("--design", metavar="ID", help="a design of front.csv, by its id or the beginning of it")
    promise = parser.add_argument_group("certificate", "from the certify rows, which nothing has seen before")
    promise.add_argument(
        "--max-error", type=float, metavar="E", help="promise that at most this share of accepted items is wrong"
    )
    promise.add_argument("--confidence", type=float, default=0.95, metavar="L", help="confidence of the certificate (0.95)")
    parser.add_argument("--name", help="name of the bundle (default: that of the run's folder)")
    parser.add_argument("--bundle-version", default="1", metavar="V", help="version of the bundle (1)")
    parser.add_argument("--data", metavar="TABLE", help="where the table is now, if it was moved since training")
    for split in _SPLITS:
        parser.add_argument(f"--{split}", metavar="TABLE", help=f"where the {split} rows are now")
    parser.add_argument("--force", action="store_true", help="replace a bundle; it stays until the new one is complete")
    return parser


def _export(parser: OneLineParser, options: argparse.Namespace) -> None:
    # After the arguments: --help must answer at once.
    from emsco_train.cli.warning_lines import print_warnings  # noqa: PLC0415
    from emsco_train.runs.exporting import export_open_run  # noqa: PLC0415
    from emsco_train.runs.opening import open_run  # noqa: PLC0415

    enabled = _selection_criteria(parser, options)
    moved: dict[str | None, str | None] = {None: options.data}
    moved.update({split: getattr(options, split) for split in _SPLITS})
    with print_warnings("emsco-export", OptionNames(options)):
        opened = open_run(options.run, {split: path for split, path in moved.items() if path is not None})
        exported = export_open_run(
            opened, options.out, enabled, name=options.name, version=options.bundle_version, force=options.force
        )
    print("\n".join(_format_export(exported, options.out)))


def _selection_criteria(parser: OneLineParser, options: argparse.Namespace) -> SelectionCriteria:
    from emsco_train.designs.selection import Requirements  # noqa: PLC0415 - after the arguments
    from emsco_train.errors import DesignError  # noqa: PLC0415
    from emsco_train.guarantee.choice import SelectionCriteria  # noqa: PLC0415

    try:
        requirements = Requirements(options.min_accuracy, options.min_coverage, options.max_cost)
        return SelectionCriteria(requirements, options.design, options.max_error, options.confidence)
    except DesignError as error:
        # No run could satisfy these: wrong use.
        parser.error(OptionNames(options).translate(str(error)))


def _format_export(exported: RunExport, out: str) -> list[str]:
    from emsco_runtime.bundle.summary import describe_certificate, percent, pluralize  # noqa: PLC0415
    from emsco_runtime.cli.console import format_costs, format_number  # noqa: PLC0415 - after the arguments
    from emsco_train.cli.training_output import calibration_warnings, format_counts  # noqa: PLC0415
    from emsco_train.designs.design import format_stages  # noqa: PLC0415
    from emsco_train.runs.front_measurement import Counts  # noqa: PLC0415

    problem, design, expected = exported.opened.problem, exported.choice.design, exported.export.expected
    unit, full = problem.costs.unit, problem.full_cost
    own = Counts.of_design(design, len(problem.validation))
    exits = [f"stage {place}: {percent(stage.accepted, expected.rows)}" for place, stage in enumerate(expected.stages, start=1)]
    rejected = percent(expected.rows - expected.accepted, expected.rows)
    cost, splits = expected.cost, ", ".join(split.name for split in exported.export.verified)
    everything = f"everything for everyone: {format_number(full)} {unit}"
    lines = [
        f"design       {design.id}: {exported.choice.reason}",
        f"stages       {format_stages(design.stages)}",
        f"threshold    {design.threshold_text}",
    ]
    for name, figures in (("validation", own), (expected.split, Counts.of_expected(expected))):
        coverage, accuracy, mean = format_counts(figures)
        lines.append(f"{name:<12} coverage {coverage}, accuracy {accuracy}, mean cost {mean} {unit}")
    lines += [
        f"bill         {format_costs(cost)}; {everything}, of which {100 * cost.mean / full:.1f} % is spent",
        f"exits        {', '.join(exits)}, rejected: {rejected}",
        *describe_certificate(exported.choice.certificate),
        f"verified     {pluralize(exported.export.rows, 'row')} of {splits}: label, stage and cost equal in training and runtime",
        f"             probabilities within {exported.export.largest:.0e}",
    ]
    lines += [f"warning      {text}" for text in calibration_warnings(exported.measured)]
    lines += _suggest_floors(exported)
    quoted = shlex.quote(out)
    return [
        *lines,
        f"written      {quoted} ({exported.export.bundle.manifest.id[:12]})",
        f"next         emsco-run {quoted} ROWS.csv --out DECISIONS.csv",
    ]


def _suggest_floors(exported: RunExport) -> list[str]:
    """Return a word about floors where none was given: the fittest is often cheap and inaccurate."""
    from emsco_train.cli.training_output import accuracy_floors, minimum_coverage  # noqa: PLC0415 - after the arguments

    if not exported.choice.is_default:
        return []
    front = exported.opened.front
    detail = ", ".join(f"{floor:g}" for floor in accuracy_floors(front))
    reach = f"--min-accuracy {detail}, with --min-coverage {minimum_coverage(front):g}"
    return [f"suggestion   the fittest is often cheap and inaccurate; floors in reach: {reach}"]


if __name__ == "__main__":
    sys.exit(main())
