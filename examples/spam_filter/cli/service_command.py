"""What the commands that serve share: their endpoints, how the model is opened, and what an error looks like."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.service.endpoint import Endpoint

if TYPE_CHECKING:
    from spam_filter.service.served_model import OpenModel

__all__ = ["model_opener", "parse_endpoint", "run_service"]


def run_service(name: str, model: Path, work: Callable[[], None]) -> int:
    """Run a service, logging to standard error, and return the exit status: 0 stopped, 1 no such model, 2 wrong settings.

    Parameters
    ----------
    name
        The command, for messages.
    model
        The folder of its model.
    work
        Makes the settings, and serves until a signal.
    """
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
        print(f"{name}: {model} cannot be served: {error}", file=sys.stderr)
        return 1
    return 0


def model_opener(model: Path, dns: str) -> OpenModel:
    """Return what opens the trained model of a folder."""
    from spam_filter.model import Model  # noqa: PLC0415 - heavy

    return partial(Model.open, model, dns=dns)


def parse_endpoint(text: str) -> Endpoint:
    """Read an option such as 127.0.0.1:10025."""
    try:
        return Endpoint.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
