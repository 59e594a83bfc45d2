"""The command ``serve``: the SMTP service."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.service_command import add_service_options, make_settings, parse_endpoint, run_service, start_service
from spam_filter.service.settings import Settings

if TYPE_CHECKING:
    from spam_filter.service.served_model import OpenModel

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, open_model: OpenModel | None = None) -> int:
    """Run the service; return the exit status.

    Parameters
    ----------
    argv
        The arguments of the command.
    open_model
        Opens another model than the trained one of the folder; for tests.
    """
    options = _parser().parse_args(argv)
    return run_service("serve", options.model, lambda: _serve(options, open_model))


def _serve(options: argparse.Namespace, open_model: OpenModel | None) -> None:
    from spam_filter.service.smtp_front import SmtpFront  # noqa: PLC0415 - heavy, and --help does not need it

    settings = make_settings(Settings, options)
    start_service(settings, open_model, partial(SmtpFront, settings))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter serve", description="Accept mail by SMTP, mark it, and hand it on."
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--maildir",
        type=Path,
        metavar="FOLDER",
        help="put messages into this Maildir; with {recipient}, {user} or {domain} in it, one for each; created where missing",
    )
    place.add_argument("--next-hop", type=parse_endpoint, metavar="HOST:PORT", help="pass messages on to this SMTP server")
    add_service_options(parser, Settings, listen="accept mail here", max_bytes="largest message")
    add = parser.add_argument
    add("--idle-s", type=float, default=300.0, help="time that a client may take for a message (default: %(default)s)")
    add("--hop-s", type=float, default=60.0, help="time for each answer of the next hop (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
