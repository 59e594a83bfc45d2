"""A bundle is checked before anything of it is used: its manifest as text, and its models as bytes; nothing is executed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from itertools import islice
from typing import Any, NoReturn

from pydantic import ValidationError

from emsco_runtime.bundle.manifest import SCHEMA_VERSION, Manifest, manifest_id
from emsco_runtime.bundle.manifest_checks import ManifestFault, find_faults
from emsco_runtime.bundle.onnx_checks import DOUBLE, TensorSpec, find_model_fault
from emsco_runtime.errors import BundleError, BundleVersionError
from emsco_runtime.support.formatting import escape_controls, shorten

__all__ = ["check_models", "parse_manifest"]

# Faults listed in one message; the others are counted.
_MAX_LISTED = 20
# With more than that, listing them would only take memory.
_MAX_FAULTS = 200_000


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
            json_paths.append(f"{json_paths[-1]}.{escape_controls(str(part))}")
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
