"""What is checked of an export before the certify rows are used: they prove less each time."""

from __future__ import annotations

import os
from pathlib import Path

from emsco_runtime.bundle.publish import check_writable
from emsco_runtime.bundle.reading import MANIFEST_FILE
from emsco_train.errors import DesignError
from emsco_train.export.manifest_draft import check_bundle_name

__all__ = ["check_target"]


def check_target(path: str | os.PathLike[str], *, name: str, version: str, force: bool) -> None:
    """Raise if a bundle could not be written: to this folder, or by this name and version.

    Parameters
    ----------
    path
        Folder of the bundle; it may be missing.
    name, version, force
        As in `export_design`.
    """
    check_bundle_name(name, version)
    folder = Path(path)
    if not force and (folder / MANIFEST_FILE).exists():
        raise DesignError(f"{folder} already holds a bundle: choose another folder, or use `force=True` to replace it")
    nearest = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
    if not nearest.is_dir():
        raise DesignError(f"{folder} cannot be written: {nearest} is not a folder. Choose another place")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise DesignError(f"{folder} cannot be written: no permission to write to {nearest}. Choose another place")
    if nearest == folder:
        check_writable(folder, force=force)
