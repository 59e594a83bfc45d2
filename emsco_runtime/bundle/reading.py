"""Reading a bundle: read, audit, build.

1. **Read**: bytes from plain files inside the folder, never through a symbolic link, never more than the limits. A
   signature, where it is required, is checked before the manifest is parsed.
2. **Audit**: JSON, shape, id, names, hashes, and what the models ask for; all in bytes and text, nothing is executed.
3. **Build**: only now may `engine.scorer` make sessions from the model bytes returned here.

Writing lives in `publish`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from emsco_runtime.bundle.manifest import SCHEMA_VERSION, Manifest, manifest_id
from emsco_runtime.bundle.manifest_checks import ManifestFault, find_faults
from emsco_runtime.bundle.onnx_checks import DOUBLE, TensorSpec, find_model_fault
from emsco_runtime.bundle.signature import MAX_SIGNATURE_BYTES, SIGNATURE_FILE, check_signature
from emsco_runtime.errors import BundleError, BundleVersionError
from emsco_runtime.support.formatting import shorten

__all__ = [
    "MANIFEST_FILE",
    "MAX_MANIFEST_BYTES",
    "MAX_MODEL_BYTES",
    "Bundle",
    "check_models",
    "parse_manifest",
    "read_bundle",
    "read_manifest",
]

MANIFEST_FILE = "manifest.json"
MAX_MANIFEST_BYTES = 64 * 2**20
MAX_MODEL_BYTES = 512 * 2**20

# A writer may replace the bundle between our reading of the manifest and of its models; then we start over.
_MAX_ATTEMPTS = 5
# Faults listed in one message; the others are counted.
_MAX_LISTED = 20
# With more than that, listing them would only take memory.
_MAX_FAULTS = 200_000


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
    models: tuple[bytes, ...]
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


def parse_manifest(text: bytes, path: str) -> Manifest:
    """Turn the bytes of a `manifest.json` into an audited manifest."""
    document = _load_json(text, path)
    if document.get("format") != "emsco-bundle":
        found = shorten(repr(document.get("format")), 80)
        raise BundleError(f'not an emsco bundle: expected "emsco-bundle", got {found}', path, "$.format")
    _check_version(document.get("schema_version"), path)
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        _raise_faults(*_validation_faults(error, document), path)
    if manifest.id != manifest_id(document):
        detail = f"got {manifest.id}, the content has {manifest_id(document)}"
        raise BundleError(
            f"the manifest was changed after it was written: {detail}. Copy or export the bundle again", path, "$.id"
        )
    faults = find_faults(manifest)
    listed = list(islice(faults, _MAX_LISTED))
    if listed:
        _raise_faults(listed, len(listed) + sum(1 for _ in faults), path)
    return manifest


def check_models(manifest: Manifest, models: tuple[bytes, ...], path: str) -> None:
    """Check every model's bytes against the manifest: hash, input, output, nothing that reaches outside."""
    stages = zip(manifest.stages, models, manifest.input_widths(), strict=True)
    for index, (stage, content, width) in enumerate(stages):
        json_path = f"$.stages[{index}].model"
        found = hashlib.sha256(content).hexdigest()
        if found != stage.model.sha256:
            message = f"the file hashes to {found}, the manifest says {stage.model.sha256}. Copy or export the bundle again"
            raise BundleError(message, f"{path}/{stage.model.path}", f"{json_path}.sha256")
        expected_input = TensorSpec(stage.model.input, DOUBLE, (None, width))
        expected_output = TensorSpec(stage.model.output, DOUBLE, (None, len(manifest.labels)))
        fault = find_model_fault(content, expected_input=expected_input, expected_output=expected_output)
        if fault is not None:
            raise BundleError(fault, f"{path}/{stage.model.path}", json_path)


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


def _load_json(text: bytes, path: str) -> dict[str, Any]:
    try:
        document = json.loads(
            text.decode(), object_pairs_hook=_refuse_duplicate_keys, parse_constant=_refuse_nan, parse_float=_parse_finite_float
        )
        # Lone surrogates pass the parser but cannot be written again, so they have no id.
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BundleError(f"not valid JSON: {error}. Copy or export the bundle again", path) from None
    if not isinstance(document, dict):
        raise BundleError(f"expected a JSON object, got {type(document).__name__}", path, "$")
    return document


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        duplicate = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {duplicate!r} occurs twice in one object")
    return result


def _refuse_nan(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number that a bundle may hold")


def _parse_finite_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text} is too large")
    return number


def _check_version(version: object, path: str) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        found = shorten(repr(version), 80)
        raise BundleError(f"expected a whole number of at least 1, got {found}", path, "$.schema_version")
    if version > SCHEMA_VERSION:
        detail = f"the bundle has schema version {version}, this library reads up to {SCHEMA_VERSION}"
        raise BundleVersionError(f"{detail}. Upgrade with: pip install --upgrade emsco", path, "$.schema_version")


def _validation_faults(error: ValidationError, document: dict[str, Any]) -> tuple[list[ManifestFault], int]:
    """Return the first faults that pydantic found, and how many there are.

    There is one fault per place, although a value that may have several types has an error for each of them.
    """
    if error.error_count() > _MAX_FAULTS:
        message = f"{error.error_count():,} values are not allowed. Copy or export the bundle again"
        return [ManifestFault("$", message)], 1
    messages: dict[str, list[str]] = {}
    values: dict[str, object] = {}
    parents: set[str] = set()
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        json_paths, value = _locate(problem["loc"], document, is_missing=problem["type"] == "missing")
        json_path = json_paths[-1]
        # A faulty entry makes its list too short as well, or not one of the types that a value may have; the entry is what has
        # to be fixed.
        if json_path not in parents:
            # A whole number is refused as a float only if it is too large; pydantic says so from version 2.12 on.
            is_too_large = problem["type"] == "float_type" and type(value) is int
            messages.setdefault(json_path, []).append("Input should be a finite number" if is_too_large else problem["msg"])
            values[json_path] = value
            parents.update(json_paths[:-1])
    messages = {json_path: texts for json_path, texts in messages.items() if json_path not in parents}
    listed = [
        ManifestFault(json_path, f"{', or: '.join(texts)}, got {shorten(repr(values[json_path]), 80)}")
        for json_path, texts in islice(messages.items(), _MAX_LISTED)
    ]
    return listed, len(messages)


def _locate(location: tuple[int | str, ...], document: object, *, is_missing: bool) -> tuple[list[str], object]:
    """Return the JSON paths from the root to a fault, and the wrong value.

    Pydantic mixes the names of types into its own path, which are not in the document. The value is the object around it where a
    field is missing, and the key where the key itself is wrong.
    """
    json_paths, value = ["$"], document
    before: int | str = ""
    for part in location:
        if isinstance(value, list) and isinstance(part, int):
            json_paths.append(f"{json_paths[-1]}[{part}]")
            value = value[part]
        elif isinstance(value, dict) and part in value:
            json_paths.append(f"{json_paths[-1]}.{part}")
            value = value[part]
        elif isinstance(value, dict) and is_missing:
            json_paths.append(f"{json_paths[-1]}.{part}")
        elif part == "[key]":
            value = before
        before = part
    return json_paths, value


def _raise_faults(listed: list[ManifestFault], total: int, path: str) -> NoReturn:
    """Raise the first fault with others in its message, so that they can be fixed at once; of many, the rest is counted."""
    first, *others = listed
    more = [f"; also {fault.json_path}: {fault.message}" for fault in others]
    more += [f"; and {total - len(listed):,} more"] if total > len(listed) else []
    raise BundleError("".join([first.message, *more]), path, first.json_path)
