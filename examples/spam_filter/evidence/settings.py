"""`LookupSettings`: which lookups a model was trained with; it keeps them in its folder, since other lists say other things."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from spam_filter.errors import ModelError

__all__ = ["LOOKUPS", "LookupSettings"]

LOOKUPS: Final = "lookups.json"


@dataclass(frozen=True, slots=True)
class LookupSettings:
    """Block lists by name, and how long one lookup may take.

    Parameters
    ----------
    client_lists
        Lists of client addresses (DNSBL).
    domain_lists
        Lists of domains in links (URI-BL).
    timeout_s
        For each kind of evidence; then its features get fallbacks, and the message is marked degraded.
    """

    client_lists: tuple[str, ...] = ()
    domain_lists: tuple[str, ...] = ()
    timeout_s: float = 1.0

    def write(self, folder: Path) -> None:
        """Write them into a model's folder."""
        (folder / LOOKUPS).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> LookupSettings | None:
        """Return those of a model's folder; None for a model without lookups.

        Raises
        ------
        ModelError
            If the file cannot be read.
        """
        path = folder / LOOKUPS
        if not path.exists():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(tuple(map(str, found["client_lists"])), tuple(map(str, found["domain_lists"])), float(found["timeout_s"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(
                f"{path}: not readable ({error}): copy the folder of one training as a whole, or train again"
            ) from None
