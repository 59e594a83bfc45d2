"""Signatures with a stand-in for model-signing, which the lowest versions of other packages do not allow; see test_signature."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from emsco_runtime import BundleError, InputError, read_bundle, sign_bundle, write_bundle
from emsco_runtime.cli import sign
from emsco_runtime.testing import sample_bundle

SAMPLE = sample_bundle()


class Config:
    """Hashes the files of a folder; a "key" is a file whose text must be the same for both sides."""

    def use_elliptic_key_signer(self, *, private_key: str | os.PathLike[str]) -> Config:
        """Take the key."""
        self.key = Path(private_key).read_text()
        return self

    def use_elliptic_key_verifier(self, *, public_key: str | os.PathLike[str]) -> Config:
        """Take the key."""
        return self.use_elliptic_key_signer(private_key=public_key)

    def set_ignored_paths(self, *, paths: list[str], ignore_git_paths: bool) -> Config:
        """Set what is not signed."""
        assert (paths, ignore_git_paths) == (["model.sig"], False)
        return self

    def set_hashing_config(self, _: Config) -> None:
        """Set how files are hashed."""

    def sign(self, folder: Path, path: str) -> None:
        """Write the key and the hashes of all files, in the form that model-signing has."""
        if (folder / "unsignable").exists():
            raise ValueError("it holds something\nunsignable.")
        Path(path).write_text(json.dumps({"key": self.key, "dsseEnvelope": {"payload": self._payload(folder)}}))

    def verify(self, folder: Path, path: str) -> None:
        """Compare."""
        found = json.loads(Path(path).read_text())
        if (found["key"], found["dsseEnvelope"]["payload"]) != (self.key, self._payload(folder)):
            raise ValueError

    def _payload(self, folder: Path) -> str:
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "model.sig")
        resources = [
            {
                "name": str(path.relative_to(folder)),
                "algorithm": "sha256",
                "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for path in files
        ]
        return base64.b64encode(json.dumps({"predicate": {"resources": resources}}).encode()).decode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a bundle next to two keys, with the stand-in instead of the library."""
    room = SimpleNamespace(Config=Config)
    stand_in: Any = SimpleNamespace(hashing=room, signing=room, verifying=room)
    monkeypatch.setitem(sys.modules, "model_signing", stand_in)
    (tmp_path / "ours").write_text("ours")
    (tmp_path / "theirs").write_text("theirs")
    write_bundle(tmp_path / "spam", SAMPLE.manifest, SAMPLE.models)
    return tmp_path / "spam"


def test_signed_and_read(folder: Path, tmp_path: Path) -> None:
    """A bundle that was signed is read with the key; unsigned, changed, or with another key it is refused."""
    with pytest.raises(BundleError, match="the bundle is not signed"):
        read_bundle(folder, verify=tmp_path / "ours")
    assert sign.main([str(folder), "--key", str(tmp_path / "ours")]) == 0
    assert read_bundle(folder, verify=tmp_path / "ours").manifest == SAMPLE.manifest
    for key in ("theirs", "ours"):
        with pytest.raises(BundleError, match=f"the signature does not fit the folder and the key .*{key}: ValueError. Get the"):
            read_bundle(folder, verify=tmp_path / key)
        (folder / "another").write_text("file")


def test_keys_that_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    """A missing key is the caller's error, for both sides."""
    with pytest.raises(InputError, match=r"key: expected a PEM file .*nowhere: .*No such file"):
        sign_bundle(folder, tmp_path / "nowhere")
    sign_bundle(folder, tmp_path / "ours")
    with pytest.raises(InputError, match=r"verify: expected a PEM file .*nowhere: .*No such file"):
        read_bundle(folder, verify=tmp_path / "nowhere")


def test_what_cannot_be_signed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's reason is given in one line; a missing library is an error with the remedy."""
    (folder / "unsignable").write_text("")
    with pytest.raises(BundleError, match=r"cannot be signed: it holds something unsignable$"):
        sign_bundle(folder, tmp_path / "ours")
    monkeypatch.setitem(sys.modules, "model_signing", None)
    with pytest.raises(InputError, match=r"pip install 'emsco\[signing\]'"):
        sign_bundle(folder, tmp_path / "ours")


def test_a_manifest_that_changes_meanwhile(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that were read before the files were put back are not those that were signed."""
    sign_bundle(folder, tmp_path / "ours")
    sound = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(sound + b" ")
    verify = Config.verify

    def put_back(self: Config, path: Path, signature: str) -> None:
        (folder / "manifest.json").write_bytes(sound)
        verify(self, path, signature)

    monkeypatch.setattr(Config, "verify", put_back)
    with pytest.raises(BundleError, match="the manifest that was read is not the one that was signed"):
        read_bundle(folder, verify=tmp_path / "ours")
