"""What the commands that serve share: their options, how the model is opened, and what an error looks like."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spam_filter.cli.console import describe_failure
from spam_filter.service.endpoint import Endpoint
from spam_filter.service.settings import ServiceSettings

if TYPE_CHECKING:
    from spam_filter.service.served_model import OpenModel
    from spam_filter.service.service import MakeFront

__all__ = ["add_list_options", "add_service_options", "make_settings", "parse_endpoint", "run_service", "start_service"]

_S = TypeVar("_S", bound=ServiceSettings)


def run_service(name: str, model: Path, work: Callable[[], None]) -> int:
    """Run a service, logging to standard error, and return the exit status.

    0: stopped; 1: no such model; 2: wrong settings; 130: interrupted. Until the service handles signals itself, Ctrl-C interrupts
    its start. SIGHUP is ignored until the service notes it, which is before it reads the model.

    Parameters
    ----------
    name
        The command, for messages.
    model
        The folder of its model.
    work
        Makes the settings, and serves until a signal.
    """
    try:
        with _hangups_ignored():
            return _run(name, model, work)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130


@contextmanager
def _hangups_ignored() -> Iterator[None]:
    """Ignore SIGHUP in this block, until something else handles it; only the main thread may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def _run(name: str, model: Path, work: Callable[[], None]) -> int:
    # Heavy, and --help does not need them.
    from emsco_runtime.errors import EmscoError  # noqa: PLC0415
    from spam_filter.service.logs import set_up_logging  # noqa: PLC0415
    from spam_filter.service.settings import SettingsError  # noqa: PLC0415

    set_up_logging("%(asctime)s %(levelname)s %(message)s")
    try:
        work()
    except SettingsError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except (EmscoError, OSError) as error:
        print(f"{name}: {model} cannot be served: {describe_failure(error)}", file=sys.stderr)
        return 1
    return 0


def start_service(settings: ServiceSettings, open_model: OpenModel | None, make_front: MakeFront) -> None:
    """Serve in one process or several, until a signal.

    Parameters
    ----------
    settings
        Checked settings.
    open_model
        Opens another model than the trained one of the folder.
    make_front
        Makes the side that clients see.
    """
    # Heavy, and --help does not need them.
    from spam_filter.model import Model  # noqa: PLC0415
    from spam_filter.service.service import serve  # noqa: PLC0415
    from spam_filter.service.supervisor import supervise  # noqa: PLC0415

    run = serve if settings.processes == 1 else supervise
    run(settings, open_model or partial(Model.open, settings.model, dns=settings.dns), make_front)


def make_settings(kind: type[_S], options: argparse.Namespace) -> _S:
    """Return the settings that the options of a command say; each has the name of its setting."""
    given = vars(options)
    return kind(**{field.name: given[field.name] for field in dataclasses.fields(kind) if field.name in given})


def add_service_options(parser: argparse.ArgumentParser, kind: type[ServiceSettings], *, listen: str, max_bytes: str) -> None:
    """Add the options that every service has, with the defaults of its settings.

    Parameters
    ----------
    parser
        Of the command.
    kind
        Its settings.
    listen, max_bytes
        What these two mean there.
    """
    add = parser.add_argument
    default = {field.name: field.default for field in dataclasses.fields(kind)}

    def add_number(name: str, text: str) -> None:
        value = default[name]
        add(f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"{text} (default: %(default)s)")

    add("--model", type=Path, required=True, metavar="FOLDER", help="the trained model")
    shown = f"{listen} (default: %(default)s)"
    add("--listen", type=parse_endpoint, default=default["listen"], metavar="HOST:PORT", help=shown)
    add("--metrics", type=parse_endpoint, metavar="HOST:PORT", help="answer Prometheus here, on the loopback interface")
    add("--audit", type=Path, metavar="FILE", help="one line of JSON per decision, without anything of the message")
    add_list_options(parser)
    add_number("max_bytes", max_bytes)
    add_number("max_connections", "clients of a process at the same time")
    add_number("deadline_s", "time for one decision")
    add_number("grace_s", "time to finish after a stop signal")
    add_number("threads", "messages of a process that may take long at the same time")
    add_number("processes", "processes that share the work")
    add(
        "--dns",
        default=default["dns"],
        metavar="WHERE",
        help="name server for a model with lookups: HOST:PORT, a zone file, or system (default: %(default)s)",
    )


def add_list_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name lists of senders."""
    parser.add_argument("--block", type=Path, metavar="FILE", help="addresses and domains whose mail is spam")
    parser.add_argument(
        "--allow", type=Path, metavar="FILE", help="addresses and domains whose mail is unsure where it would be spam"
    )


def parse_endpoint(text: str) -> Endpoint:
    """Read an option such as 127.0.0.1:10025."""
    try:
        return Endpoint.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
