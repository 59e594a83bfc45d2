"""The command ``learn``: what people moved to Junk, or out of it, becomes training mail."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.console import run_command

if TYPE_CHECKING:
    from spam_filter.training.corpus import Label

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if not options.spam and not options.ham:
        parser.error("give a Maildir folder with --spam or --ham")
    return run_command("spam_filter learn", lambda: _learn(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter learn",
        description="Copy messages of Maildir folders into a training set: those that the filter called something else, or "
        "nothing. Run it now and then; what is there already stays.",
    )
    add = parser.add_argument
    add(
        "--spam",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="such as Maildir/.Junk; can be given more than once",
    )
    add(
        "--ham",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="such as Maildir/.NotJunk; can be given more than once",
    )
    add("--out", type=Path, required=True, metavar="MAIL", help="the training set; train and retrain read it")
    add("--everything", action="store_true", help="also what the filter itself gave this label")
    return parser


def _learn(options: argparse.Namespace) -> None:
    from spam_filter.errors import CorpusError  # noqa: PLC0415 - after the arguments
    from spam_filter.training.learning import learn_from_moves  # noqa: PLC0415

    given: list[tuple[Label, Path]] = [("spam", folder) for folder in options.spam] + [("ham", folder) for folder in options.ham]
    there = [(label, folder) for label, folder in given if _is_maildir(folder)]
    missing = [str(folder) for _, folder in given if not _is_maildir(folder)]
    if missing:
        message = f"{', '.join(missing)}: there is no such Maildir, with cur and new in it"
        if not there:
            raise CorpusError(f"{message}: give a folder that people move mail to")
        # Nobody may have moved anything there yet: the others are learned from.
        print(f"{message}: nothing is learned from it", file=sys.stderr)
    counts: Counter[Label] = Counter()
    for label, folder in there:
        counts[label] += learn_from_moves(label, folder, options.out, everything=options.everything)
    print(f"learned: {counts['spam']} spam and {counts['ham']} ham messages are new in {options.out}")


def _is_maildir(folder: Path) -> bool:
    return (folder / "cur").is_dir() and (folder / "new").is_dir()


if __name__ == "__main__":
    sys.exit(main())
