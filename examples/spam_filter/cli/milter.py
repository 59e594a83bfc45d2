"""The command ``milter``: the filter inside a mail server's own conversation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from spam_filter.cli.service_command import add_service_options, make_settings, run_service, start_service
from spam_filter.service.settings import MilterSettings

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
    from spam_filter.service.milter_front import MilterFront  # noqa: PLC0415 - heavy, and --help does not need it

    settings = make_settings(MilterSettings, options)
    start_service(settings, open_model, partial(MilterFront, settings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter milter",
        description="Mark mail inside a mail server's own conversation, by the milter protocol.",
    )
    large = "of a larger message the beginning is looked at"
    add_service_options(parser, MilterSettings, listen="mail servers connect here", max_bytes=large)
    parser.add_argument(
        "--on-error",
        choices=("accept", "tempfail"),
        default="accept",
        help="a message that cannot be decided is accepted and marked error, or tried again later (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
