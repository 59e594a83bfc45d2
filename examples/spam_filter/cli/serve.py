"""The command ``serve``: the SMTP service."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.service_command import model_opener, parse_endpoint, run_service
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
    from spam_filter.service.service import serve  # noqa: PLC0415 - heavy, and --help does not need it
    from spam_filter.service.supervisor import supervise  # noqa: PLC0415

    settings = Settings(
        model=options.model,
        maildir=options.maildir,
        next_hop=options.next_hop,
        listen=options.listen,
        metrics=options.metrics,
        audit=options.audit,
        allow=options.allow,
        block=options.block,
        max_bytes=options.max_bytes,
        max_connections=options.max_connections,
        deadline_s=options.deadline_s,
        idle_s=options.idle_s,
        hop_s=options.hop_s,
        grace_s=options.grace_s,
        threads=options.threads,
        dns=options.dns,
        processes=options.processes,
    )
    run = serve if settings.processes == 1 else supervise
    run(settings, open_model or model_opener(settings.model, settings.dns))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spam_filter serve", description="Accept mail by SMTP, mark it, and hand it on.")
    add = parser.add_argument
    default = {field.name: field.default for field in dataclasses.fields(Settings)}
    add("--model", type=Path, required=True, metavar="FOLDER", help="the trained model")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--maildir",
        type=Path,
        metavar="FOLDER",
        help="put messages into this Maildir; with {recipient}, {user} or {domain} in it, one for each; created where missing",
    )
    place.add_argument("--next-hop", type=parse_endpoint, metavar="HOST:PORT", help="pass messages on to this SMTP server")
    add(
        "--listen",
        type=parse_endpoint,
        default=default["listen"],
        metavar="HOST:PORT",
        help="accept mail here (default: %(default)s)",
    )
    add("--metrics", type=parse_endpoint, metavar="HOST:PORT", help="answer Prometheus here, on the loopback interface")
    add("--audit", type=Path, metavar="FILE", help="one line of JSON per decision, without anything of the message")
    add("--block", type=Path, metavar="FILE", help="addresses and domains whose mail is spam")
    add("--allow", type=Path, metavar="FILE", help="addresses and domains whose mail is unsure where it would be spam")
    add("--max-bytes", type=int, default=default["max_bytes"], help="largest message (default: %(default)s)")
    add(
        "--max-connections",
        type=int,
        default=default["max_connections"],
        help="clients of a process at the same time (default: %(default)s)",
    )
    add("--deadline-s", type=float, default=default["deadline_s"], help="time for one decision (default: %(default)s)")
    add(
        "--idle-s", type=float, default=default["idle_s"], help="time that a client may take for a message (default: %(default)s)"
    )
    add("--hop-s", type=float, default=default["hop_s"], help="time for each answer of the next hop (default: %(default)s)")
    add("--grace-s", type=float, default=default["grace_s"], help="time to finish after a stop signal (default: %(default)s)")
    add("--threads", type=int, default=default["threads"], help="messages decided at the same time (default: %(default)s)")
    add(
        "--dns",
        default=default["dns"],
        metavar="WHERE",
        help="whom a model with look-ups asks: HOST:PORT, a zone file, or system (default: %(default)s)",
    )
    add("--processes", type=int, default=default["processes"], help="processes that share the work (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
