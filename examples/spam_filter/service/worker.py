"""One process of several: a service that accepts from sockets it was given, and ends with the process that watches over it."""

from __future__ import annotations

import asyncio
import signal
import socket
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Literal

from prometheus_client import CollectorRegistry

from emsco_runtime.errors import EmscoError
from spam_filter.service.logs import set_up_logging
from spam_filter.service.served_model import OpenModel
from spam_filter.service.service import MakeFront, open_service
from spam_filter.service.settings import ServiceSettings, SettingsError

__all__ = ["WorkerReport", "run_worker"]


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker says of its start.

    Parameters
    ----------
    kind
        "ready", or what is at fault.
    text
        The error, in one line.
    """

    kind: Literal["ready", "settings", "model"]
    text: str = ""


def run_worker(
    settings: ServiceSettings, open_model: OpenModel, make_front: MakeFront, listeners: list[socket.socket], pipe: Pipe
) -> None:
    """Serve until told to stop; what a new process runs.

    Parameters
    ----------
    settings, open_model, make_front
        As in `serve`.
    listeners
        Shared with the other workers.
    pipe
        To the supervisor; it closes when the supervisor ends.
    """
    # At a terminal every process of the group gets it; the supervisor alone says stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_up_logging("%(asctime)s %(levelname)s [%(process)d] %(message)s")
    try:
        with open_service(settings, open_model, make_front, CollectorRegistry()) as service:
            asyncio.run(service.run(listeners, lambda: pipe.send(WorkerReport("ready")), pipe.fileno()))
    except SettingsError as error:
        pipe.send(WorkerReport("settings", str(error)))
    except (EmscoError, OSError) as error:
        pipe.send(WorkerReport("model", str(error)))
