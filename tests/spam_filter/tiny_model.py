"""A model without training for tests of the service: three features, one of them from an SQLite file that may be locked.

Run as a program, it serves: ``python tiny_model.py --model FOLDER --maildir ...``; with ``--milter``, as a milter; with
``--hang-up``, it gets SIGHUP twice when it has read the model.
A message that holds ``!hang!`` makes its
source hang, ``!raise!`` makes it raise, ``!slow!`` makes it take 0.2 s;
``!client!`` is spam from client.example, and ham from everybody else.
"""

from __future__ import annotations

import signal
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from emsco_runtime import Acquirers, ReloadingCascade, write_bundle
from emsco_runtime.testing import make_bundle

STORE_WAIT_S = 0.1


def write_tiny_model(folder: Path, *, spam_threshold: float = 0.9) -> Path:
    """Write the model's folder; another threshold makes another bundle."""
    bundle = make_bundle(
        [["shouts"], ["links"], ["reputation"]],
        costs={"shouts": 1.0, "links": 2.0, "reputation": 20.0},
        weights=[[[-2.0], [2.0]], [[-2.0, -1.0], [2.0, 1.0]], [[-2.0, -1.0, -3.0], [2.0, 1.0, 3.0]]],
        threshold={"ham": 0.9, "spam": spam_threshold},
        name="tiny",
    )
    write_bundle(folder / "bundle", bundle.manifest, bundle.models, force=True)
    with closing(sqlite3.connect(folder / "stores.sqlite")) as store, store:
        store.execute("CREATE TABLE IF NOT EXISTS senders (name TEXT PRIMARY KEY, score REAL)")
        store.execute("INSERT OR REPLACE INTO senders VALUES ('known@example.org', -2.0)")
    return folder


class TinyModel:
    """The model of such a folder."""

    def __init__(self, folder: Path, observers: Sequence[Any] = ()) -> None:
        self._store = folder / "stores.sqlite"
        acquirers = Acquirers()
        acquirers.feature("shouts")(_shouts)
        acquirers.feature("links")(_links)
        acquirers.feature("reputation", timeout_s=1.0, on_failure="default")(self._reputation)
        self.cascade = ReloadingCascade(folder / "bundle", acquirers, observers=observers)

    @classmethod
    def open(cls, folder: Path, *, observers: Sequence[Any] = ()) -> TinyModel:
        """Open it."""
        return cls(folder, observers)

    def reload(self) -> None:
        """Take up a new bundle."""
        error = self.cascade.refresh().error
        if error is not None:
            raise error

    def find_change(self) -> str | None:
        """Return None: nobody looks at its files."""
        return None

    def close(self) -> None:
        """Let go of it."""
        self.cascade.close()

    def _reputation(self, mail: Any) -> float:
        with closing(sqlite3.connect(f"file:{self._store}?mode=ro", uri=True, timeout=STORE_WAIT_S)) as store:
            row = store.execute("SELECT score FROM senders WHERE name = ?", (mail.envelope.sender,)).fetchone()
        return 0.0 if row is None else float(row[0])


def _shouts(mail: Any) -> float:
    if b"!hang!" in mail.raw:
        time.sleep(3600)
    if b"!raise!" in mail.raw:
        raise RuntimeError("asked to")
    if b"!slow!" in mail.raw:
        time.sleep(0.2)
    if b"!client!" in mail.raw:
        return 9.0 if mail.envelope.helo == "client.example" else -9.0
    return float(mail.raw.count(b"BUY") - mail.raw.count(b"regards"))


def _links(mail: Any) -> float:
    return float(mail.raw.count(b"http:")) - 0.5


def main() -> int:
    """Serve as the command does, with this model."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from spam_filter.cli.milter import main as milter_main
    from spam_filter.cli.serve import main as serve_main

    folder = Path(sys.argv[sys.argv.index("--model") + 1])
    arguments = [one for one in sys.argv[1:] if one not in ("--milter", "--hang-up")]
    open_model = partial(_open_and_hang_up if "--hang-up" in sys.argv else TinyModel.open, folder)
    return (milter_main if "--milter" in sys.argv else serve_main)(arguments, open_model)


def _open_and_hang_up(folder: Path, *, observers: Sequence[Any] = ()) -> TinyModel:
    model = TinyModel.open(folder, observers=observers)
    for _ in range(2):
        signal.raise_signal(signal.SIGHUP)
    return model


if __name__ == "__main__":
    sys.exit(main())
