"""`emsco-export`: choose a design of a run, fit, verify, certify, and write its bundle."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from emsco_train.cli.command import TrainingParser, run_training_command
from emsco_train.designs.sure_level import DEFAULT_SURE

__all__ = ["main"]

_SPLITS = ("train", "validation", "test", "certify")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    return run_training_command("emsco-export", options, lambda: _export(parser, options), own_process=arguments is None)


def _parser() -> TrainingParser:
    parser = TrainingParser(
        prog="emsco-export",
        description="Choose a design of a run, fit its stages, replay every row through the runtime, certify it, and write the "
        "bundle. Without requirements, the knee of the front is taken: near to accepting all, all right, at no cost.",
        epilog="example: emsco-export runs/mail --out bundles/mail --min-accuracy 0.97 --min-coverage 0.9",
    )
    parser.add_argument("run", metavar="RUN", help="folder that emsco-train wrote")
    parser.add_argument("--out", required=True, metavar="BUNDLE", help="folder of the bundle")
    requirements = parser.add_argument_group(
        "requirements",
        "for the figures on the validation rows, compared with bounds on them; of the designs that satisfy all, "
        "the cheapest is taken, or one that is surer for little more",
    )
    requirements.add_argument(
        "--min-accuracy",
        action="append",
        default=[],
        metavar="[LABEL=]A",
        help="least share of accepted rows that are right; with a label, of the rows accepted as it; can be given more than once",
    )
    requirements.add_argument("--min-coverage", type=float, metavar="C", help="least share of rows that are accepted")
    requirements.add_argument(
        "--min-recall",
        action="append",
        default=[],
        metavar="LABEL=R",
        help="least share of the rows of a label that are accepted as it; can be given more than once",
    )
    requirements.add_argument("--max-cost", type=float, metavar="X", help="largest mean cost of a row")
    requirements.add_argument(
        "--sure",
        type=_level_or_none,
        default=DEFAULT_SURE,
        metavar="P",
        help=f"level of the bounds, from 0.5 to below 1, or none for the figures as they are (default: {DEFAULT_SURE:g})",
    )
    requirements.add_argument(
        "--match-everything",
        type=float,
        metavar="SHARE",
        help="choose the cheapest design that decides at most this share of the answered items differently from one stage with "
        "all features at the (first) threshold of the run; instead of floors",
    )
    requirements.add_argument(
        "--design",
        metavar="ID",
        help="a design of front.csv, by its id or the beginning of it; knee; or fittest, the paper's choice",
    )
    certificate = parser.add_argument_group("certificate", "from the certify rows; the run records each use of them")
    certificate.add_argument(
        "--max-error",
        type=float,
        metavar="E",
        help="guarantee that at most this share of accepted items is wrong; --min-coverage, --min-recall and --max-cost are then "
        "guaranteed too, all of them together",
    )
    certificate.add_argument(
        "--max-error-of",
        action="append",
        default=[],
        metavar="LABEL=E",
        help="guarantee that at most this share of the items accepted as a label is wrong; can be given more than once",
    )
    certificate.add_argument(
        "--confidence", type=float, default=0.95, metavar="L", help="confidence of the certificate (default: 0.95)"
    )
    parser.add_argument("--name", help="name of the bundle (default: that of the run's folder)")
    parser.add_argument("--bundle-version", default="1", metavar="V", help="version of the bundle (default: 1)")
    parser.add_argument("--data", metavar="TABLE", help="where the table is now, if it was moved since training")
    for split in _SPLITS:
        parser.add_argument(f"--{split}", metavar="TABLE", help=f"where the {split} rows are now")
    parser.add_argument("--force", action="store_true", help="replace a bundle; it stays until the new one is complete")
    return parser


def _export(parser: TrainingParser, options: argparse.Namespace) -> None:
    # After the arguments: --help must answer at once.
    from emsco_train.cli.export_output import format_export  # noqa: PLC0415
    from emsco_train.cli.label_options import parse_floors, parse_numbers  # noqa: PLC0415
    from emsco_train.cli.phase_progress import PhaseProgress  # noqa: PLC0415
    from emsco_train.designs.selection import MatchEverything, Requirements  # noqa: PLC0415
    from emsco_train.export.manifest_draft import check_bundle_name  # noqa: PLC0415
    from emsco_train.guarantee.choice import SelectionCriteria  # noqa: PLC0415
    from emsco_train.runs.exporting import export_open_run  # noqa: PLC0415
    from emsco_train.runs.opening import open_run  # noqa: PLC0415

    with parser.usage_errors(options):
        check_bundle_name(options.name or "run", options.bundle_version)
        min_accuracy, min_accuracy_of = parse_floors(options.min_accuracy, "--min-accuracy")
        requirements = Requirements.of(
            min_accuracy=min_accuracy,
            min_coverage=options.min_coverage,
            max_cost=options.max_cost,
            min_recall=parse_numbers(options.min_recall, "--min-recall"),
            min_accuracy_of=min_accuracy_of,
            sure=options.sure,
        )
        criteria = SelectionCriteria.of(
            requirements,
            options.design,
            max_error=options.max_error,
            max_error_of=parse_numbers(options.max_error_of, "--max-error-of"),
            confidence=options.confidence,
            match=None if options.match_everything is None else MatchEverything(options.match_everything, options.sure),
        )
    tables = {None: options.data} | {split: getattr(options, split) for split in _SPLITS}
    with PhaseProgress() as shown:
        opened = open_run(options.run, {split: path for split, path in tables.items() if path is not None}, shown.on_phase)
        exported = export_open_run(
            opened,
            options.out,
            criteria,
            name=options.name,
            version=options.bundle_version,
            force=options.force,
            on_phase=shown.on_phase,
        )
    print("\n".join(format_export(exported, options.out, requirements, options.sure)))


def _level_or_none(text: str) -> float | None:
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number or none, got {text!r}") from None


if __name__ == "__main__":
    sys.exit(main())
