"""Reading a bundle: read, audit, build.

1. **Read**: bytes from plain files inside the folder, never through a symbolic link, never more than the limits. A
   signature, where it is required, is checked before the manifest is parsed.
2. **Audit** (`bundle_checks`): JSON, shape, id, names, hashes, and what the models ask for; all in bytes and text, nothing is
   executed.
3. **Build**: only now may `engine.scorer` make sessions from the model bytes returned here.

Writing lives in `publish`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from emsco_runtime.bundle.bundle_checks import check_models, parse_manifest
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.signature import MAX_SIGNATURE_BYTES, SIGNATURE_FILE, check_signature
from emsco_runtime.errors import BundleError

__all__ = [
    "MANIFEST_FILE",
    "MAX_MANIFEST_BYTES",
    "MAX_MODEL_BYTES",
    "Bundle",
    "read_bundle",
    "read_manifest",
]

MANIFEST_FILE = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_MODEL_BYTES = 512 * 2**20

# A writer may replace the bundle between our reading of the manifest and of its models; then we start over.
_MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Bundle:
    """An audited bundle in memory: its manifest and the bytes of its models.

    Parameters
    ----------
    manifest
        The parsed manifest.
    models
        Content of each stage's model, in order.
    path
        Where it was read from, for messages.
    """

    manifest: Manifest
    models: tuple[bytes, ...] = field(repr=False)  # megabytes, where stages are trees
    path: str


class _ModelMissing(Exception):
    """A model that the manifest names is not there: perhaps the bundle has just been replaced."""


def read_bundle(path: str | os.PathLike[str], *, verify: str | os.PathLike[str] | None = None) -> Bundle:
    """Read and audit a bundle folder; nothing of it is executed.

    Parameters
    ----------
    path
        The folder that holds `manifest.json`.
    verify
        A public key (PEM file): the bundle must be signed with its private key (`sign_bundle`), and no file of the folder may
        have been changed, added or removed since. Needs the extra ``signing``. None: a signature is not looked at.

    Raises
    ------
    BundleError
        With the file, the place inside it, the value got and the remedy.
    InputError
        If the key cannot be read, or model-signing is not installed.
    """
    # A link to the folder may point to another one a moment later.
    folder = Path(path if verify is None else os.path.realpath(path))
    missing_path = ""
    for _ in range(_MAX_ATTEMPTS):
        text = _read_manifest(folder)
        if verify is not None:
            check_signature(folder, _read_signature(folder), text, verify)
        manifest = parse_manifest(text, str(folder / MANIFEST_FILE))
        try:
            models = tuple(_read_model(folder, manifest, index) for index in range(len(manifest.stages)))
        except _ModelMissing as vanished:
            missing_path = str(vanished)
            continue
        check_models(manifest, models, str(folder))
        return Bundle(manifest, models, str(folder))
    raise BundleError("the file is missing although the manifest names it. Copy or export the bundle again", missing_path)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Read and audit the manifest of a bundle folder, without its models: enough to see which bundle it is."""
    folder = Path(path)
    return parse_manifest(_read_manifest(folder), str(folder / MANIFEST_FILE))


def _read_manifest(folder: Path) -> bytes:
    missing = BundleError(f"there is no {MANIFEST_FILE} in the folder, so it is not a bundle", str(folder))
    with _report_read_errors(folder, missing):
        if not folder.is_dir():
            detail = "is not a folder" if folder.exists() else "does not exist"
            raise BundleError(f"the bundle {detail}. Give the folder that holds {MANIFEST_FILE}", str(folder))
        return _read_file(folder / MANIFEST_FILE, MAX_MANIFEST_BYTES)


def _read_signature(folder: Path) -> bytes:
    message = f"the bundle is not signed: there is no {SIGNATURE_FILE} in the folder. Sign it with emsco-sign"
    with _report_read_errors(folder / SIGNATURE_FILE, BundleError(message, str(folder))):
        return _read_file(folder / SIGNATURE_FILE, MAX_SIGNATURE_BYTES)


def _read_model(folder: Path, manifest: Manifest, index: int) -> bytes:
    path = folder / manifest.stages[index].model.path
    with _report_read_errors(path, _ModelMissing(str(path))):
        if path.parent.is_symlink():
            raise BundleError("a symbolic link is not followed. Put the models themselves into the bundle", str(path.parent))
        return _read_file(path, MAX_MODEL_BYTES)


@contextlib.contextmanager
def _report_read_errors(path: Path, missing: Exception) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise missing from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}. Check the path and its permissions"
        raise BundleError(message, str(path)) from error


def _read_file(path: Path, limit: int) -> bytes:
    """Read a plain file; a link, a device, a pipe or an oversized file is refused before its content is touched."""
    try:
        # O_NONBLOCK: opening a pipe must not wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BundleError("a symbolic link is not followed. Put the file itself into the bundle", str(path)) from None
        raise
    try:
        # Before a file object is made, which Python refuses for a folder.
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BundleError("is not a plain file. Copy or export the bundle again", str(path))
        if status.st_size > limit:
            raise BundleError(f"the file is too large: {status.st_size} bytes, at most {limit} are read", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)
