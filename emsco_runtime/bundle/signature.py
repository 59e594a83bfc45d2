"""Signatures of bundles, by OpenSSF model-signing: who made a bundle, and that none of its files has changed since.

The signature is a file inside the bundle and covers every other file of the folder. The hashes of a manifest show accidents; a
signature shows that somebody without the private key has written to the folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from emsco_runtime.errors import BundleError, InputError
from emsco_runtime.support.formatting import shorten

__all__ = ["MAX_SIGNATURE_BYTES", "SIGNATURE_FILE", "check_signature", "make_signature"]

# The name that model-signing's own command gives it.
SIGNATURE_FILE = "model.sig"
MAX_SIGNATURE_BYTES = 16 * 2**20


def check_signature(folder: Path, signature: bytes, manifest: bytes, key: str | os.PathLike[str]) -> None:
    """Raise `BundleError` unless this signature, by the owner of a public key, covers the folder and these bytes of its manifest.

    The manifest holds the hashes of the models. So what was read is what was signed, even if files are replaced meanwhile.
    """
    model_signing = _import_model_signing()
    try:
        config = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=key)
    except Exception as error:
        raise _key_error("verify", "public", key, error) from error
    config.set_hashing_config(_make_hashing(model_signing))
    try:
        # It reads signatures from files, and this one must not change between two readings.
        with tempfile.NamedTemporaryFile() as file:
            file.write(signature)
            file.flush()
            config.verify(folder, file.name)
        signed = _signed_manifest_hash(signature)
    except Exception as error:
        detail = f"the signature does not fit the folder and the key {os.fspath(key)}: {_describe(error)}"
        raise BundleError(f"{detail}. Get the bundle again from its signer, or check the key", str(folder)) from error
    if signed != hashlib.sha256(manifest).hexdigest():
        message = "the manifest that was read is not the one that was signed: it was replaced meanwhile. Load it again"
        raise BundleError(message, str(folder))


def make_signature(folder: Path, key: str | os.PathLike[str]) -> bytes:
    """Return the signature of all files of a folder, but for an older signature, by a private key."""
    model_signing = _import_model_signing()
    try:
        config = model_signing.signing.Config().use_elliptic_key_signer(private_key=key)
    except Exception as error:
        raise _key_error("key", "private", key, error) from error
    config.set_hashing_config(_make_hashing(model_signing))
    with tempfile.NamedTemporaryFile() as file:
        try:
            config.sign(folder, file.name)
        except ValueError as error:
            raise BundleError(f"cannot be signed: {_describe(error)}", str(folder)) from error
        return Path(file.name).read_bytes()


def _import_model_signing() -> Any:
    try:
        import model_signing  # noqa: PLC0415 - an extra, and slow to load
    except ImportError as error:
        raise InputError(f"signatures need model-signing: pip install 'emsco[signing]' ({error})") from None
    return model_signing


def _make_hashing(model_signing: Any) -> Any:
    return model_signing.hashing.Config().set_ignored_paths(paths=[SIGNATURE_FILE], ignore_git_paths=False)


def _signed_manifest_hash(signature: bytes) -> str:
    """Return the hash of the manifest in a signature that was found to be genuine."""
    statement = json.loads(base64.b64decode(json.loads(signature)["dsseEnvelope"]["payload"]))
    hashes = {one["name"]: one["digest"] for one in statement["predicate"]["resources"] if one["algorithm"] == "sha256"}
    return str(hashes["manifest.json"])


def _key_error(argument: str, kind: str, key: str | os.PathLike[str], error: Exception) -> InputError:
    expected = f"expected a PEM file with the {kind} key of an elliptic curve, without a password"
    return InputError(f"{argument}: {expected}, got {os.fspath(key)}: {_describe(error)}")


def _describe(error: Exception) -> str:
    """Return what another library says, in one line; some of its errors have no text."""
    return shorten(" ".join(str(error).split()) or type(error).__name__, 300).rstrip(". ")
