"""Writing a bundle so that a reader, or a crash, never sees half of one.

Models carry their hash in their name, so new ones never overwrite old ones. They are written and synced first; `manifest.json`
is replaced last, in one step; files that no manifest names any more are removed after that. Until the replacement readers get
the previous bundle, and then the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from emsco_runtime.bundle.bundle_checks import check_models, parse_manifest
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    MAX_MODEL_BYTES,
    Bundle,
    read_bundle,
)
from emsco_runtime.bundle.signature import SIGNATURE_FILE, make_signature
from emsco_runtime.errors import BundleError
from emsco_runtime.support.files import locked_folder, replace_file, sync_folder

__all__ = ["build_bundle", "check_writable", "sign_bundle", "write_bundle"]

# Only names that we give are ever removed: a finished model, or a temporary file of an interrupted export.
_MODEL_NAME = re.compile(r"[1-9][0-9]{0,2}-[0-9a-f]{12}\.onnx")
_TEMPORARY_NAME = re.compile(r"\.emsco-[0-9a-f]+\.tmp")


def build_bundle(manifest: Manifest, models: Sequence[bytes], path: str = "(in memory)") -> Bundle:
    """Give a manifest its id and audit the whole as if it had been read: what is published can be loaded."""
    text = _to_json(manifest.with_id())
    if len(text) > MAX_MANIFEST_BYTES:
        raise BundleError(f"the manifest is too large: {len(text)} bytes, at most {MAX_MANIFEST_BYTES} are read", path)
    sealed = parse_manifest(text, f"{path}/{MANIFEST_FILE}")
    if len(models) != len(sealed.stages):
        message = f"expected one model per stage, got {len(models)} models for {len(sealed.stages)} stages"
        raise BundleError(message, path, "$.stages")
    for index, content in enumerate(models):
        if len(content) > MAX_MODEL_BYTES:
            message = (
                f"the model is too large: {len(content)} bytes, at most {MAX_MODEL_BYTES} are read. Use a smaller classifier"
            )
            raise BundleError(message, path, f"$.stages[{index}].model")
    check_models(sealed, tuple(models), path)
    return Bundle(sealed, tuple(models), path)


def write_bundle(path: str | os.PathLike[str], manifest: Manifest, models: Sequence[bytes], *, force: bool = False) -> Bundle:
    """Write a bundle folder atomically.

    Parameters
    ----------
    path
        The folder; made if it does not exist.
    manifest
        The manifest; its `id` is computed here.
    models
        Content of each stage's model, in order.
    force
        Replace a bundle that is already there. Without it, only a new or empty folder is written to.

    Raises
    ------
    BundleError
        If the bundle is inconsistent, or the folder is not empty or cannot be written. A previous bundle then stays as it is.

    Examples
    --------
    >>> import tempfile
    >>> from emsco_runtime import read_bundle
    >>> from emsco_runtime.testing import sample_bundle
    >>> sample = sample_bundle()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_bundle(folder, sample.manifest, sample.models)
    ...     read_bundle(folder).manifest.id == written.manifest.id
    True
    """
    folder = Path(path)
    bundle = build_bundle(manifest, models, str(folder))
    with _report_write_errors(folder), _lock_folder(folder):
        check_writable(folder, force=force)
        _write_models(folder, bundle)
        _write_file(folder / MANIFEST_FILE, _to_json(bundle.manifest))
        _remove_unused_files(folder, bundle.manifest)
    return bundle


def sign_bundle(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> Bundle:
    """Check a bundle folder and write its signature, `model.sig`, which covers all other files there; an older one is replaced.

    Parameters
    ----------
    path
        The bundle's folder.
    key
        The private key: a PEM file of an elliptic curve (P-256, P-384 or P-521), without a password.

    Returns
    -------
    Bundle
        What was signed.

    Raises
    ------
    BundleError
        If the bundle is not sound, or the signature cannot be written.
    InputError
        If the key cannot be read, or model-signing is not installed (extra ``signing``).
    """
    # model-signing refuses a link, also one to the folder.
    folder = Path(os.path.realpath(path))
    bundle = read_bundle(folder)
    with _report_write_errors(folder), locked_folder(folder):
        _write_file(folder / SIGNATURE_FILE, make_signature(folder, key))
    return bundle


@contextlib.contextmanager
def _report_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}. Check the path and its permissions"
        raise BundleError(message, str(folder)) from error


def _to_json(manifest: Manifest) -> bytes:
    return (json.dumps(manifest.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let one writer at a time use the folder: the clean-up of another would remove our models."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if is_new:
        sync_folder(folder.parent)
    with locked_folder(folder):
        yield


def check_writable(folder: Path, *, force: bool) -> None:
    """Raise if a folder that exists may not be written to: it holds a bundle (without `force`), or other files."""
    if (folder / MANIFEST_FILE).exists():
        if not force:
            raise BundleError("a bundle already exists here. Use force to replace it, or choose another folder", str(folder))
        # Other programs have manifests too; only one of ours, sound or damaged, may be replaced.
        if b'"emsco-bundle"' not in (folder / MANIFEST_FILE).read_bytes():
            message = "not an emsco bundle, and not replaced. Choose another folder"
            raise BundleError(message, str(folder / MANIFEST_FILE))
    elif any(not _is_left_by_export(entry) for entry in folder.iterdir()):
        raise BundleError("the folder is not empty and holds no bundle. Choose a new or empty folder", str(folder))


def _is_left_by_export(entry: Path) -> bool:
    """Return whether an entry is what an interrupted first export leaves behind."""
    if entry.name == "stages" and entry.is_dir() and not entry.is_symlink():
        return all(_MODEL_NAME.fullmatch(inner.name) or _TEMPORARY_NAME.fullmatch(inner.name) for inner in entry.iterdir())
    return bool(_TEMPORARY_NAME.fullmatch(entry.name))


def _write_models(folder: Path, bundle: Bundle) -> None:
    stages = folder / "stages"
    if stages.is_symlink():
        raise BundleError("a symbolic link is not followed. Remove it, or choose another folder", str(stages))
    stages.mkdir(exist_ok=True)
    for stage, content in zip(bundle.manifest.stages, bundle.models, strict=True):
        _write_file(folder / stage.model.path, content)
    sync_folder(folder)


def _write_file(path: Path, content: bytes) -> None:
    with replace_file(path, sync=True) as file:
        file.write(content)
    sync_folder(path.parent)


def _remove_unused_files(folder: Path, manifest: Manifest) -> None:
    in_use = {folder / stage.model.path for stage in manifest.stages}
    stages = list((folder / "stages").iterdir())
    models = [entry for entry in stages if _MODEL_NAME.fullmatch(entry.name) and entry not in in_use]
    temporaries = [entry for entry in (*folder.iterdir(), *stages) if _TEMPORARY_NAME.fullmatch(entry.name)]
    for unused in (*models, *temporaries):
        # The new bundle is complete already: readers ignore what cannot be removed, and that is no failure to write.
        with contextlib.suppress(OSError):
            unused.unlink()
