"""Provenance: what a bundle was made from, so that it can be made again."""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata

from pydantic import JsonValue

import emsco_runtime
from emsco_runtime.bundle.manifest import Data, Feature, Provenance
from emsco_runtime.decision import Label
from emsco_runtime.support.arrays import Floats
from emsco_train.errors import DesignError

__all__ = ["fingerprint", "provenance", "timestamp", "versions"]

# The libraries that fits, ranks, bounds, graphs and scores depend on.
_PACKAGES = ("moocore", "numba", "numpy", "onnx", "onnxruntime", "scikit-learn", "scipy", "skl2onnx")


def fingerprint(features: Sequence[Feature], codes: Floats, labels: Sequence[Label]) -> Data:
    """Return the number of rows and a hash of their features, codes [rows, codes] and labels."""
    content, stop = hashlib.sha256(), 0
    for feature in features:
        start, stop = stop, stop + feature.width
        column = codes[:, start:stop].astype("<f8")
        # Every NaN has the same meaning, but not always the same bits.
        column[column != column] = float("nan")  # noqa: PLR0124 - the test for NaN
        _update_hash(content, feature.name.encode())
        _update_hash(content, "\0".join(feature.categories).encode())
        _update_hash(content, column.tobytes())
    # The same bytes as one label after the other, at once.
    parts = {label: _with_length(f"{type(label).__name__} {label}".encode()) for label in set(labels)}
    content.update(b"".join(map(parts.__getitem__, labels)))
    return Data(rows=len(codes), sha256=content.hexdigest())


def timestamp(created: datetime | None = None) -> str:
    """Return a time as the manifest holds it; now, unless given."""
    time = datetime.now(UTC) if created is None else created
    if time.tzinfo is None:
        raise DesignError(f"created is {time.isoformat()} without a time zone: give it one, such as datetime.now(UTC)")
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def provenance(settings: Mapping[str, JsonValue], seed: int, data: Data) -> Provenance:
    """Return the record for the manifest, with the fingerprint of the training rows and the installed versions."""
    return Provenance(settings=dict(settings), seed=seed, versions=versions(), data=data)


def versions() -> dict[str, str]:
    """Return the installed versions of what results depend on, by name."""
    own = {"emsco": emsco_runtime.__version__, "python": platform.python_version()}
    return own | {package: _installed_version(package) for package in _PACKAGES}


@functools.cache
def _installed_version(package: str) -> str:
    # Reading it takes milliseconds, and what a process has loaded does not change.
    return metadata.version(package)


def _update_hash(content: hashlib._Hash, part: bytes) -> None:
    content.update(_with_length(part))


def _with_length(part: bytes) -> bytes:
    # The length goes first, so that two different lists of parts never give the same bytes.
    return len(part).to_bytes(8, "little") + part
