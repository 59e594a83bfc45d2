"""`emsco-profile`: measure what acquirers cost on sample items, and write a costs file."""

from __future__ import annotations

import argparse
import csv
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from emsco_train.cli.argument_parser import OneLineParser
from emsco_train.cli.option_names import OptionNames

if TYPE_CHECKING:
    from emsco_runtime.acquirers import Acquirers
    from emsco_train.costs.profiling import Profile, TimeUnit
    from emsco_train.costs.profiling.spread import Spread

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    groups = _parse_groups(parser, options.group)
    if ":" not in options.acquirers:
        parser.error(f"{options.acquirers!r}: MODULE:NAME of the acquirers is due, such as mail.features:acquirers")
    from emsco_runtime.cli.console import run_command  # noqa: PLC0415 - after the arguments: --help must answer at once

    def work() -> None:
        with OptionNames(options).translate_errors():
            _profile(options, groups)

    return run_command("emsco-profile", work)


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="emsco-profile",
        description="Call every acquirer on sample items, measure what each takes, and write a costs file for emsco-train. "
        "A price is the median over the items of the least of the repeats (for wall time: of the middle one).",
        epilog="example: emsco-profile mail.features:acquirers --items mail.samples:messages --make mail.parse:parse "
        "--group html=links,forms,images --out costs.toml",
    )
    parser.add_argument("acquirers", metavar="MODULE:ACQUIRERS", help="an Acquirers object, or a function that returns one")
    parser.add_argument(
        "--items",
        required=True,
        metavar="ITEMS",
        help="MODULE:NAME of a list, or of a function that returns one; or a .jsonl file",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the costs file, TOML")
    parser.add_argument("--force", action="store_true", help="replace a costs file that is there")
    parser.add_argument(
        "--make", metavar="MODULE:NAME", help="makes a fresh item from one of ITEMS before each call (default: copy it)"
    )
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=F1,F2",
        help="features of separate acquirers that share work on the item; repeat it for more groups",
    )
    parser.add_argument("--repeats", type=_parse_count, default=5, metavar="N", help="calls per acquirer and item (5)")
    parser.add_argument("--limit", type=_parse_count, default=200, metavar="N", help="items at most, drawn by the seed (200)")
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu", help="CPU time (default), or wall time for what waits")
    parser.add_argument(
        "--statistic", choices=("median", "mean"), default="median", help="figure over the items (median); mean, for heavy tails"
    )
    parser.add_argument("--unit", choices=("us", "ms", "s"), default="us", help="what the prices count (us)")
    parser.add_argument("--seed", type=int, default=0, help="draws items and order (0)")
    return parser


def _parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: a whole number, 1 or more, is due")
    return int(text)


def _parse_groups(parser: OneLineParser, given: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for text in given:
        name, equals, members = text.partition("=")
        # As in a CSV file: a name that holds a comma stands in quotes.
        features = [member.strip() for member in next(csv.reader([members], skipinitialspace=True), [])]
        if not (name and equals) or len(features) < 2 or not all(features):
            parser.error(f"--group {text!r}: NAME=F1,F2 is due, with two features or more")
        if name in groups:
            parser.error(f"--group {name!r} stands twice: give all its features at once")
        groups[name] = features
    return groups


def _profile(options: argparse.Namespace, groups: dict[str, list[str]]) -> None:
    # After the arguments: --help must answer at once.
    import copy  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    from emsco_train.cli.progress_bar import ProgressBar  # noqa: PLC0415
    from emsco_train.cli.sample_items import load_items  # noqa: PLC0415
    from emsco_train.cli.user_objects import load_object  # noqa: PLC0415
    from emsco_train.cli.warning_lines import print_warnings  # noqa: PLC0415
    from emsco_train.costs.profiling import profile  # noqa: PLC0415
    from emsco_train.errors import DesignError  # noqa: PLC0415

    out = Path(options.out)
    if out.exists() and not options.force:
        raise DesignError(f"{out} is there already: choose another name, or say --force to replace it")
    if not out.absolute().parent.is_dir():
        raise DesignError(f"{out}: there is no folder {out.parent}: make it first")
    with print_warnings("emsco-profile", OptionNames(options)), ProgressBar("items") as bar:
        acquirers = _load_acquirers(options.acquirers)
        make = load_object(options.make) if options.make else copy.deepcopy
        items = load_items(options.items)
        rng = np.random.default_rng(options.seed)
        chosen = items
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
    print("\n".join(_format_profile(measured, len(items), out, options.unit)))


def _load_acquirers(target: str) -> Acquirers:
    from emsco_runtime.acquirers import Acquirers  # noqa: PLC0415 - after the arguments
    from emsco_train.cli.user_objects import load_object  # noqa: PLC0415
    from emsco_train.errors import DesignError  # noqa: PLC0415

    found = load_object(target)
    made = found if isinstance(found, Acquirers) or not callable(found) else found()
    if not isinstance(made, Acquirers):
        raise DesignError(f"{target} is {type(made).__name__}: an Acquirers object is due, or a function that returns one")
    return made


def _format_profile(measured: Profile, items: int, out: Path, unit: TimeUnit) -> list[str]:
    from emsco_runtime.bundle.summary import pluralize  # noqa: PLC0415
    from emsco_runtime.cli.console import format_number, format_table  # noqa: PLC0415 - after the arguments
    from emsco_train.costs.profiling.cost_profile import convert_seconds  # noqa: PLC0415

    costs = measured.cost_model(unit)
    cells = [
        [
            name,
            call.group or "-",
            *_format_spread(call.own, unit),
            format_number(convert_seconds(call.first.value, unit)),
            str(call.calls),
            str(call.failures),
        ]
        for name, call in measured.prices()
    ]
    calls = f"{measured.items:,} of {pluralize(items, 'item')}, {pluralize(measured.repeats, 'repeat')}"
    lines = [
        f"measured  {calls}; prices in {costs.unit}",
        "",
        format_table(["feature", "group", "price", "quartile 1", "quartile 3", "on a fresh item", "calls", "failed"], cells),
        "",
    ]
    if measured.groups:
        shared = [[group.name, *_format_spread(group.shared, unit), ", ".join(group.features)] for group in measured.groups]
        lines += [format_table(["group", "price", "quartile 1", "quartile 3", "features"], shared), ""]
    everything = format_number(costs.meter().cost(costs.features))
    together = (
        ""
        if measured.together is None
        else f"; measured together: {format_number(convert_seconds(measured.together.value, unit))}"
    )
    lines.append(f"total     all features: {everything} {costs.unit}{together}")
    lines += [f"caution   {text}" for text in measured.cautions]
    path = shlex.quote(str(out))
    return [*lines, f"written   {path}", f"next      emsco-train --data TABLE --label COL --costs {path} --threshold P --out RUN"]


def _format_spread(spread: Spread, unit: TimeUnit) -> list[str]:
    from emsco_runtime.cli.console import format_number  # noqa: PLC0415 - after the arguments
    from emsco_train.costs.profiling.cost_profile import convert_seconds  # noqa: PLC0415

    return [format_number(convert_seconds(seconds, unit)) for seconds in (spread.value, spread.low, spread.high)]


if __name__ == "__main__":
    sys.exit(main())
