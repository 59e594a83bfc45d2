"""Objects of the user's own that a command is told by name: MODULE:NAME, looked up as `python -m` would."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from emsco_train.errors import DesignError

__all__ = ["load_object"]

_MAX_SHOWN = 20


def load_object(target: str) -> Any:
    """Import a module and return what it calls by that name.

    Parameters
    ----------
    target
        MODULE:NAME, such as ``mail.features:acquirers``; dots in the name lead into the object. Modules in the working folder are
        found first.

    Examples
    --------
    >>> load_object("math:tau")
    6.283185307179586
    """
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise DesignError(f"{target!r}: MODULE:NAME is due, such as mail.features:acquirers")
    folder = str(Path.cwd())
    if folder not in sys.path:
        # An installed command does not look into the working folder by itself, as `python -m` does.
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except Exception as error:
        detail = " ".join(f"{type(error).__name__}: {error}".split())
        raise DesignError(f"{target}: module {module} cannot be imported: {detail}. Correct its name, or mend it") from error
    for part in name.split("."):
        if not hasattr(found, part):
            names = (
                [known for known in vars(found) if not known.startswith("_")][:_MAX_SHOWN] if hasattr(found, "__dict__") else []
            )
            raise DesignError(f"{target}: there is no {part!r}. There is: {', '.join(names) or 'nothing'}")
        found = getattr(found, part)
    return found
