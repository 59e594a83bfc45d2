"""The command ``retrain``: train again, and replace the model if the new one is certified and no worse on the same mail."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spam_filter.cli.console import run_command
from spam_filter.cli.train import add_training_options, check_options, settings_of

if TYPE_CHECKING:
    from spam_filter.training.corpus import LabelledMail

__all__ = ["main", "parse_options"]


_REFUSED: Final = {
    "--out": "the new model takes the place of MODEL",
    "--force": "MODEL is replaced if the new one is no worse",
    "--keep": "to look at a run, use train",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 also where the old model stays, since that is no fault."""
    options = parse_options(argv)
    return run_command("spam_filter retrain", lambda: _retrain(options))


def parse_options(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the checked options."""
    parser = _parser()
    # Mail may be named between options, too.
    options = parser.parse_intermixed_args(argv)
    for option, reason in _REFUSED.items():
        if getattr(options, option[2:]) is not None:
            parser.error(f"{option} is an option of train alone: {reason}")
    if not options.mail and options.spam is None and options.ham is None:
        parser.error("give folders of mail, or --spam and --ham, or all of them")
    check_options(parser, options)
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter retrain",
        description="Train on all mail given, and replace the model if the new one is certified and, on test mail that the old "
        "one has not seen, neither wrong more often nor worse for ham nor much less decided.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the model in place")
    parser.add_argument(
        "mail",
        type=Path,
        nargs="*",
        metavar="MAIL",
        help="labelled mail, as train takes it; unless --spam and --ham are given, the first has both kinds; the others may lack "
        "one, as what learn collected",
    )
    add_training_options(parser)
    # Known, so that what is said of them helps.
    parser.add_argument("--out", help=argparse.SUPPRESS)
    parser.add_argument("--force", action="store_true", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--keep", help=argparse.SUPPRESS)
    return parser


def _retrain(options: argparse.Namespace) -> None:
    from emsco_runtime import read_bundle  # noqa: PLC0415 - after the arguments
    from spam_filter.cli.evaluate import format_evaluation  # noqa: PLC0415
    from spam_filter.model import BUNDLE  # noqa: PLC0415
    from spam_filter.training.retraining import retrain_model  # noqa: PLC0415

    plan = settings_of(options)
    # As it is called from the root: the working directory may be the model itself, which is about to be renamed.
    folder = Path(os.path.realpath(options.model))
    done = retrain_model(_read_mail(options), folder, plan, on_step=lambda line: print(line, flush=True))
    manifest = read_bundle(folder / BUNDLE).manifest
    for name, found in (("old model", done.old), ("new model", done.new)):
        if found is not None:
            print("\n".join([f"{name}:", *(f"  {line}" for line in format_evaluation(found, manifest)[:-1])]))
    print("the new model is in place: reload the service" if done.replaced else f"the old model stays: {done.objection}")


def _read_mail(options: argparse.Namespace) -> list[LabelledMail]:
    """Return the mail of all places. The first is the corpus that others are added to: it must have both kinds of mail."""
    from spam_filter.errors import CorpusError  # noqa: PLC0415 - after the arguments
    from spam_filter.training.corpus import LABELS, read_corpus, read_pair  # noqa: PLC0415

    mails = [] if options.spam is None else read_pair(options.spam, options.ham)
    for folder in options.mail:
        found = read_corpus(folder, may_be_empty=True)
        for label in LABELS:
            if any(mail.label == label for mail in found):
                continue
            if not mails:
                # Emptied, or on a volume that is not mounted: what people moved cannot stand for it.
                raise CorpusError(f"{folder} holds no {label} message: the first folder must have both kinds, restore its mail")
            print(f"{folder} holds no {label} message: nothing is learned from it", file=sys.stderr)
        mails += found
    return mails


if __name__ == "__main__":
    sys.exit(main())
