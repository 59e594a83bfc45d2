"""The command ``generate``: synthetic mail in a folder, with its labels."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from spam_filter.cli.console import run_command

__all__ = ["main", "write_corpus"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter generate",
        description="Write synthetic mail, made up from word lists: good enough to try the commands, and for nothing else.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="MAIL", help="a new folder")
    parser.add_argument("--count", type=int, default=1500, metavar="N", help="number of messages (default: 1500)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="random seed: the same seed gives the same mail (default: 0)"
    )
    options = parser.parse_args(argv)
    return run_command("spam_filter generate", lambda: _generate(options.out, options.count, options.seed))


def _generate(out: Path, count: int, seed: int) -> None:
    from spam_filter.errors import CorpusError  # noqa: PLC0415 - after the arguments: --help must answer at once

    if count < 1:
        raise CorpusError(f"--count must be at least 1, got {count}")
    if out.exists():
        raise CorpusError(f"{out} already exists: name a new folder")
    counts = write_corpus(out, count, seed)
    print(f"synthetic    {counts['ham']} ham and {counts['spam']} spam messages in {out}")


def write_corpus(out: Path, count: int, seed: int) -> dict[str, int]:
    """Write synthetic messages and `labels.csv`, and return how many there are of each kind.

    Parameters
    ----------
    out
        A folder that does not exist yet.
    count, seed
        As in `generate`.
    """
    from spam_filter.synthetic.generator import generate  # noqa: PLC0415 - after the arguments: --help must answer at once

    out.mkdir(parents=True)
    counts = {"ham": 0, "spam": 0}
    with (out / "labels.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "received", "label"])
        for mail in generate(count, seed):
            (out / mail.source).write_bytes(mail.raw)
            writer.writerow([mail.source, mail.received.isoformat(), mail.label])
            counts[mail.label] += 1
    return counts
