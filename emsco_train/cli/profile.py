"""`emsco-profile`: measure what acquirers cost on sample items, and write a costs file."""

from __future__ import annotations

import argparse
import copy
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from emsco_train.cli.command import TrainingParser, run_training_command
from emsco_train.errors import DesignError
from emsco_train.support.numbers import check_seed

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    groups = _parse_groups(parser, options.group)
    with parser.usage_errors(options):
        check_seed(options.seed)
    if ":" not in options.acquirers:
        parser.error(f"{options.acquirers!r}: expected MODULE:NAME of the acquirers, such as mail.features:acquirers")
    return run_training_command("emsco-profile", options, lambda: _profile(options, groups))


def _parser() -> TrainingParser:
    parser = TrainingParser(
        prog="emsco-profile",
        description="Call every acquirer on sample items, measure what each takes, and write a costs file for emsco-train. "
        "A price is the median over the items of the fastest repeat (for wall time: of the median repeat).",
        epilog="example: emsco-profile mail.features:acquirers --items mail.samples:messages --make mail.parse:parse "
        "--group html=links,forms,images --out costs.toml",
    )
    parser.add_argument("acquirers", metavar="MODULE:ACQUIRERS", help="an Acquirers object, or a function that returns one")
    parser.add_argument(
        "--items",
        required=True,
        metavar="ITEMS",
        help="MODULE:NAME of a list, or of a function that returns one; or a .jsonl file of values, or a .json file of a list",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the costs file, TOML")
    parser.add_argument("--force", action="store_true", help="replace an existing costs file")
    parser.add_argument(
        "--make", metavar="MODULE:NAME", help="makes a fresh item from one of ITEMS before each call (default: copy it)"
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=F1,F2",
        help="features of separate acquirers that share work on the item; can be given more than once",
    )
    parser.add_argument("--repeats", type=_parse_count, default=5, metavar="N", help="calls per acquirer and item (default: 5)")
    parser.add_argument(
        "--limit", type=_parse_count, default=200, metavar="N", help="maximum number of items, drawn by the seed (default: 200)"
    )
    parser.add_argument(
        "--clock",
        choices=("cpu", "wall"),
        default="cpu",
        help="cpu: CPU time (default); wall: wall time, for acquirers that wait",
    )
    parser.add_argument(
        "--statistic",
        choices=("median", "mean"),
        default="median",
        help="statistic over the items (default: median); mean for heavy tails",
    )
    parser.add_argument("--unit", choices=("us", "ms", "s"), default="us", help="unit of the prices (default: us)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of items and their order (default: 0)")
    return parser


def _parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _parse_groups(parser: TrainingParser, given: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in given:
        name, equals, members = text.partition("=")
        # As in a CSV file: a name with a comma is in quotes.
        features = [member.strip() for member in next(csv.reader([members], skipinitialspace=True), [])]
        if not (name and equals) or len(features) < 2 or not all(features):
            parser.error(f"--group {text!r}: expected NAME=F1,F2, with at least two features")
        if name in groups:
            parser.error(f"--group {name!r} is given twice: give it once, with all its features")
        groups[name] = features
    return groups


def _profile(options: argparse.Namespace, groups: dict[str, list[str]]) -> None:
    # After the arguments: --help must answer at once.
    import numpy as np  # noqa: PLC0415

    from emsco_train.cli.profile_output import format_profile  # noqa: PLC0415
    from emsco_train.cli.progress_bar import ProgressBar  # noqa: PLC0415
    from emsco_train.cli.user_objects import load_acquirers, load_items, load_object  # noqa: PLC0415
    from emsco_train.costs.profiling import profile  # noqa: PLC0415

    out = Path(options.out)
    if out.exists() and not options.force:
        raise DesignError(f"{out} already exists: choose another name, or use --force to replace it")
    if not out.absolute().parent.is_dir():
        raise DesignError(f"{out}: the folder {out.parent} does not exist: create it first")
    with ProgressBar("items") as bar:
        acquirers = load_acquirers(options.acquirers)
        make = load_object(options.make) if options.make else copy.deepcopy
        items = chosen = load_items(options.items)
        rng = np.random.default_rng(options.seed)
        if len(items) > options.limit:
            chosen = [items[place] for place in sorted(rng.choice(len(items), options.limit, replace=False).tolist())]
        measured = profile(
            acquirers,
            chosen,
            rng=rng,
            make=make,
            groups=groups,
            repeats=options.repeats,
            clock=options.clock,
            statistic=options.statistic,
            on_progress=bar.show,
        )
    measured.write(out, options.unit)
    print("\n".join(format_profile(measured, len(items), out, options.unit)))


if __name__ == "__main__":
    sys.exit(main())
