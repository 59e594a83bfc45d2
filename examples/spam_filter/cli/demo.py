"""The command ``demo``: everything on synthetic mail, step by step."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spam_filter.cli.console import run_command

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter demo",
        description="Make synthetic mail, train a filter on it, start the SMTP service, send it messages, and show their headers "
        "and the cost. Needs no network and no corpus; takes about a minute.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("spam-demo"), metavar="FOLDER", help="folder for all files (default: ./spam-demo)"
    )
    parser.add_argument("--count", type=int, default=1500, metavar="N", help="synthetic messages to learn from (default: 1500)")
    options = parser.parse_args(argv)
    return run_command("spam_filter demo", lambda: _demo(options.out, options.count))


def _demo(out: Path, count: int) -> None:
    from spam_filter.demo import run_tour  # noqa: PLC0415 - after the arguments: --help must answer at once

    run_tour(out, count)
