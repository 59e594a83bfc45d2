"""The command ``evaluate``: labelled mail through a model, counted."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.console import columns, run_command
from spam_filter.cli.train import add_pair_options, check_pair, read_mail

if TYPE_CHECKING:
    from emsco_runtime.manifest import Manifest
    from spam_filter.evaluation import Evaluation

__all__ = ["format_evaluation", "main"]

_STATUSES = ("spam", "ham", "unsure", "error")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if (options.mail is None) == (options.spam is None and options.ham is None):
        parser.error("give a folder of mail, or --spam and --ham")
    check_pair(parser, options)
    return run_command("spam_filter evaluate", lambda: _evaluate(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter evaluate",
        description="Decide labelled mail, and count what is right, wrong and unsure. Give mail that the model was not trained "
        "on: figures on its own training mail are too good.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the trained model")
    parser.add_argument("mail", nargs="?", type=Path, metavar="MAIL", help="a folder with labels.csv, or with spam and ham in it")
    add_pair_options(parser)
    return parser


def _evaluate(options: argparse.Namespace) -> None:
    from spam_filter.evaluation import evaluate  # noqa: PLC0415 - after the arguments: --help must answer at once
    from spam_filter.model import Model  # noqa: PLC0415

    with Model.open(options.model) as model:
        found = evaluate(model, read_mail(options))
        print("\n".join(format_evaluation(found, model.cascade.manifest)))


def format_evaluation(found: Evaluation, manifest: Manifest) -> list[str]:
    """Return the counts as a table, and what follows from them."""
    from emsco_runtime.summary import percent  # noqa: PLC0415 - after the arguments

    statuses = [status for status in _STATUSES if status != "error" or any(key[1] == "error" for key in found.counts)]
    rows = [[f"in truth {label}", *(str(found.count(label, status)) for status in statuses)] for label in ("spam", "ham")]
    spam, ham = found.count("spam"), found.count("ham")
    full = manifest.meter().cost([feature.name for feature in manifest.features])
    return [
        *columns([["", *(f"called {status}" if status in ("spam", "ham") else status for status in statuses)], *rows]),
        f"decided          {percent(found.decided, found.messages)} ({found.decided} of {found.messages})",
        f"wrong            {percent(found.wrong, found.decided)} of the decided ({found.wrong})",
        f"ham called spam  {percent(found.count('ham', 'spam'), ham)} of the ham ({found.count('ham', 'spam')} of {ham})",
        f"spam called ham  {percent(found.count('spam', 'ham'), spam)} of the spam ({found.count('spam', 'ham')} of {spam})",
        f"mean cost        {found.mean_cost:.4g} {manifest.cost_unit}; all features of the design: {full:.4g}",
        *([f"degraded         {found.degraded} messages"] if found.degraded else []),
    ]


if __name__ == "__main__":
    sys.exit(main())
