"""The command ``train``: labelled mail in, a model's folder out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.console import run_command

if TYPE_CHECKING:
    from spam_filter.training.corpus import LabelledMail
    from spam_filter.training.lookups import LookupPlan
    from spam_filter.training.pipeline import TrainedModel, TrainingSettings

__all__ = [
    "add_pair_options",
    "add_training_options",
    "check_options",
    "check_pair",
    "format_model",
    "main",
    "make_parser",
    "read_mail",
    "settings_of",
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if (options.mail is None) == (options.spam is None and options.ham is None):
        parser.error("give a folder of mail, or --spam and --ham")
    check_options(parser, options)
    return run_command("spam_filter train", lambda: _train(options))


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter train",
        description="Learn from labelled mail: find near-duplicates, split, learn the stores, extract features, measure what "
        "they cost, search for a cascade, certify it, and write a model's folder.",
    )
    add = parser.add_argument
    add("mail", nargs="?", type=Path, metavar="MAIL", help="a folder with labels.csv, or with spam and ham in it")
    add("--out", type=Path, required=True, metavar="MODEL", help="the model's folder")
    add("--force", action="store_true", help="replace a model; it stays in place until the new one is complete")
    add("--keep", type=Path, metavar="FOLDER", help="keep the tables and the run here, for emsco-report FOLDER/run")
    add_training_options(parser)
    return parser


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `retrain` has too: where more mail is, and how to train."""
    add_pair_options(parser)
    add = parser.add_argument
    add(
        "--split", choices=("families", "time"), default="families", help="draw the splits, or divide by time (default: families)"
    )
    add(
        "--own-domain",
        action="append",
        default=[],
        metavar="D",
        help="a domain of yours, to be ignored: it shows who receives the mail, not what it is; can be given more than once",
    )
    add("--without", action="append", default=[], metavar="FEATURE", help="leave a feature out; can be given more than once")
    add(
        "--attacked-share",
        type=float,
        default=1.0,
        metavar="N",
        help="attacked copies per spam message in training: forged senders, ham text, words in disguise; 0 for none (default: 1)",
    )
    add("--ham-threshold", type=float, default=0.95, metavar="P", help="confidence needed to call a message ham (default: 0.95)")
    add("--spam-threshold", type=float, default=0.9985, metavar="P", help="confidence needed to call it spam (default: 0.9985)")
    add(
        "--max-error",
        type=float,
        default=0.03,
        metavar="E",
        help="certify that at most this share of the decided mail is wrong (default: 0.03)",
    )
    add(
        "--min-coverage",
        type=float,
        default=0.0,
        metavar="C",
        help="share of the mail that must be decided (default: as much as possible)",
    )
    add(
        "--max-cost-share",
        type=float,
        default=0.37,
        metavar="X",
        help="mean cost, as a share of the cost of all features (default: 0.37)",
    )
    add("--dns", metavar="WHERE", help="learn from lookups too, and ask here: HOST:PORT, a zone file, or system")
    add(
        "--client-list",
        action="append",
        default=[],
        metavar="ZONE",
        help="a block list of client addresses; can be given more than once",
    )
    add(
        "--domain-list",
        action="append",
        default=[],
        metavar="ZONE",
        help="a block list of domains in links; can be given more than once",
    )
    add("--query-ms", type=float, default=20.0, metavar="MS", help="what one DNS question costs, in time (default: 20)")
    add("--cost-messages", type=int, default=200, metavar="N", help="messages that costs are measured on (default: 200)")
    add("--generations", type=int, default=60, metavar="N", help="generations of the search (default: 60)")
    add("--seed", type=int, default=0, metavar="N", help="random seed of splits and search (default: 0)")


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name spam and ham in two places."""
    add = parser.add_argument
    add("--spam", type=Path, metavar="PLACE", help="spam: a folder of messages, a Maildir, or an mbox file")
    add("--ham", type=Path, metavar="PLACE", help="ham: the same")


def check_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the command if options lack what belongs to them."""
    check_pair(parser, options)
    if options.dns is None and (options.client_list or options.domain_list):
        parser.error("block lists are asked by DNS: give --dns too")


def check_pair(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the command if spam or ham is given without the other."""
    if (options.spam is None) != (options.ham is None):
        parser.error("give both --spam and --ham")


def settings_of(options: argparse.Namespace) -> TrainingSettings:
    """Return how to train, as the arguments say."""
    from spam_filter.training.pipeline import TrainingSettings  # noqa: PLC0415 - after the arguments: --help must answer at once

    return TrainingSettings(
        ham_threshold=options.ham_threshold,
        spam_threshold=options.spam_threshold,
        max_error=options.max_error,
        min_coverage=options.min_coverage,
        max_cost_share=options.max_cost_share,
        split=options.split,
        own_domains=frozenset(options.own_domain),
        without=frozenset(options.without),
        attacked_share=options.attacked_share,
        cost_messages=options.cost_messages,
        lookups=_lookup_plan(options),
        generations=options.generations,
        seed=options.seed,
    )


def _train(options: argparse.Namespace) -> None:
    from spam_filter.training.pipeline import train_model  # noqa: PLC0415 - as above

    plan = settings_of(options)
    mails = read_mail(options)
    trained = train_model(
        mails, options.out, plan, force=options.force, keep=options.keep, on_step=lambda line: print(line, flush=True)
    )
    print("\n".join(format_model(trained)))


def _lookup_plan(options: argparse.Namespace) -> LookupPlan | None:
    from spam_filter.training.lookups import LookupPlan  # noqa: PLC0415 - after the arguments

    if options.dns is None:
        return None
    from spam_filter.evidence.resolver import open_resolver  # noqa: PLC0415 - its libraries are optional

    # For its errors: a place that cannot be asked is to be known before any work.
    open_resolver(options.dns)
    return LookupPlan(options.dns, tuple(options.client_list), tuple(options.domain_list), options.query_ms)


def read_mail(options: argparse.Namespace) -> list[LabelledMail]:
    """Return the mail of the folder, or of --spam and --ham."""
    from spam_filter.training.corpus import read_corpus, read_pair  # noqa: PLC0415 - after the arguments

    return read_corpus(options.mail) if options.spam is None else read_pair(options.spam, options.ham)


def format_model(trained: TrainedModel) -> list[str]:
    """Return what an administrator wants to know of a new model, line by line."""
    from emsco_runtime.summary import describe_certificate, percent  # noqa: PLC0415 - after the arguments

    exported = trained.exported
    expected, full = exported.export.expected, exported.opened.problem.full_cost
    unit = exported.export.bundle.manifest.cost_unit
    exits = [percent(stage.accepted, expected.rows) for stage in expected.stages]
    decided, right = percent(expected.accepted, expected.rows), percent(expected.right, expected.accepted)
    stages = [
        f"stage {place}      {', '.join(stage.acquire)}"
        for place, stage in enumerate(exported.export.bundle.manifest.stages, start=1)
    ]
    return [
        *stages,
        f"test mail    {decided} decided, {right} of it right",
        f"exits        {', '.join(exits)}; unsure: {percent(expected.rows - expected.accepted, expected.rows)}",
        f"cost         {expected.cost.mean:.0f} {unit} on average; all features for every message: {full:.0f}",
        *describe_certificate(exported.choice.certificate)[:1],
        f"written      {trained.folder}",
    ]
