"""The command ``milter``: the filter inside of a mail server's own conversation."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.service_command import model_opener, parse_endpoint, run_service

if TYPE_CHECKING:
    from spam_filter.service.served_model import OpenModel

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, open_model: OpenModel | None = None) -> int:
    """Run the milter; return the exit status.

    Parameters
    ----------
    argv
        The arguments of the command.
    open_model
        Opens another model than the trained one of the folder; for tests.
    """
    options = _parser().parse_args(argv)
    return run_service("milter", options.model, lambda: _serve(options, open_model))


def _serve(options: argparse.Namespace, open_model: OpenModel | None) -> None:
    from spam_filter.service.milter_service import MilterSettings, serve_milter  # noqa: PLC0415 - heavy, and --help does not need it

    settings = MilterSettings(**{field.name: getattr(options, field.name) for field in dataclasses.fields(MilterSettings)})
    serve_milter(settings, open_model or model_opener(settings.model, settings.dns))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spam_filter milter", description="Mark mail inside of a mail server's own conversation, by the milter protocol."
    )
    add = parser.add_argument
    add("--model", type=Path, required=True, metavar="FOLDER", help="the trained model")
    add(
        "--listen",
        type=parse_endpoint,
        default="127.0.0.1:10027",
        metavar="HOST:PORT",
        help="mail servers connect here (%(default)s)",
    )
    add("--metrics", type=parse_endpoint, metavar="HOST:PORT", help="answer Prometheus here, on the loopback interface")
    add("--audit", type=Path, metavar="FILE", help="one line of JSON per decision, without anything of the message")
    add("--max-bytes", type=int, default=25 * 1024 * 1024, help="of a larger message the beginning is looked at (%(default)s)")
    add("--deadline-s", type=float, default=5.0, help="time for one decision (%(default)s)")
    add("--grace-s", type=float, default=20.0, help="time to finish after a stop signal (%(default)s)")
    add("--threads", type=int, default=4, help="messages decided at the same time (%(default)s)")
    add("--dns", default="system", metavar="WHERE", help="whom a model with look-ups asks: HOST:PORT, a zone file, or system")
    add(
        "--on-error",
        choices=("accept", "tempfail"),
        default="accept",
        help="what becomes of a message that cannot be decided: accepted and marked error, or tried again later (%(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
