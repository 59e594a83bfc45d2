"""From a run's folder to the file of its page: complete, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from emsco_train.errors import DesignError
from emsco_train.report.page import render_page
from emsco_train.report.report_data import read_report_data
from emsco_train.runs.folder import REPORT_NAME, is_report
from emsco_train.runs.ledger_file import LEDGER_NAME
from emsco_train.support.phases import OnPhase, Phase, ignore_phase
from emsco_train.support.text_files import write_text

__all__ = ["write_report"]


def write_report(
    run: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, *, on_phase: OnPhase = ignore_phase
) -> Path:
    """Write the page of a run and return its path.

    Parameters
    ----------
    run
        Folder of a finished run.
    out
        The file; ``report.html`` in the folder unless given. A file that you name is replaced; in the folder, only an
        earlier page is.
    on_phase
        Called with each `Phase` of it.

    Raises
    ------
    DataError
        If the run is unfinished, of another version or damaged.
    DesignError
        If the page cannot be written there.
    """
    on_phase(Phase("reading the run"))
    data = read_report_data(run)
    path = data.folder.path / REPORT_NAME if out is None else Path(out)
    if path.is_dir():
        raise DesignError(f"{path} is a folder: name a file for the page")
    if not path.parent.is_dir():
        raise DesignError(f"{path.parent} is not a folder: create it first, or name another file for the page")
    own = [data.folder.path / name for name in ("run.json", LEDGER_NAME, *data.run.files)]
    if path.exists() and any(file.exists() and path.samefile(file) for file in own):
        raise DesignError(f"{path} is a file of the run itself: name another file for the page")
    if out is None and path.exists() and not is_report(path):
        # A file that the user names may be replaced; this name is our choice.
        raise DesignError(f"{path} is not a page of emsco-report: move it away, or name another file for the page")
    write_text(path, render_page(data, on_phase))
    return path
