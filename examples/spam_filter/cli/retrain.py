"""The command ``retrain``: train again, and replace the model if the new one is certified and no worse on the same mail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from spam_filter.cli.console import run_command
from spam_filter.cli.train import make_parser, settings_of

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 also where the old model stays, since that is no fault."""
    options, others = _parser().parse_known_args(argv)
    training = make_parser().parse_args(["--out", str(options.model), *others])
    if training.mail is not None:
        options.mail.append(training.mail)
    return run_command("spam_filter retrain", lambda: _retrain(options, training))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spam_filter retrain",
        description="Train on all mail given, and replace the model if the new one is certified and, on test mail that the old "
        "one has not seen, neither wrong more often nor worse for ham nor much less decided.",
        epilog="All options of train but --out, --force and --keep may follow.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the model in place")
    parser.add_argument(
        "mail", type=Path, nargs="+", metavar="MAIL", help="labelled mail, as train takes it; what learn collected"
    )
    return parser


def _retrain(options: argparse.Namespace, training: argparse.Namespace) -> None:
    from spam_filter.cli.evaluate import format_evaluation  # noqa: PLC0415 - after the arguments
    from spam_filter.model import Model  # noqa: PLC0415
    from spam_filter.training.corpus import read_corpus  # noqa: PLC0415
    from spam_filter.training.retraining import retrain_model  # noqa: PLC0415

    mails = [mail for place in options.mail for mail in read_corpus(place, may_be_empty=True)]
    done = retrain_model(mails, options.model, settings_of(training), on_step=lambda line: print(line, flush=True))
    with Model.open(options.model) as model:
        for name, found in (("old model", done.old), ("new model", done.new)):
            if found is not None:
                print("\n".join([f"{name}:", *(f"  {line}" for line in format_evaluation(found, model.cascade.manifest)[:-1])]))
    print("the new model is in place: reload the service" if done.replaced else f"the old model stays: {done.objection}")


if __name__ == "__main__":
    sys.exit(main())
