"""`emsco-demo`: a cascade from a table to decisions, step by step."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from emsco_runtime.cli.console import OneLineParser, run_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = OneLineParser(
        prog="emsco-demo",
        description="Train a cascade for breast-cancer screening, export, verify and certify it, then decide patients one by one "
        "through a database, showing what is queried and what it costs. Needs no network; takes less than a minute.",
    )
    parser.add_argument("--out", default="emsco-demo", metavar="DIR", help="where everything goes (default: ./emsco-demo)")
    options = parser.parse_args(arguments)
    return run_command("emsco-demo", lambda: _demo(Path(options.out)))


def _demo(folder: Path) -> None:
    from emsco_train.cli.demonstration.tour import run_tour  # noqa: PLC0415 - after the arguments: --help must answer at once

    run_tour(folder)


if __name__ == "__main__":
    sys.exit(main())
