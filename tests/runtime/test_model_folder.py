"""A bundle with side files is one unit: what was changed, is missing or is mixed is refused, and noticed later."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from emsco_runtime import BundleError, ModelFolder, read_bundle, write_bundle, write_model_index
from emsco_runtime.model_folder import MODEL_FILE
from emsco_runtime.testing import sample_bundle

STORE = "store.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a bundle, a store and an index of both."""
    sample = sample_bundle()
    write_bundle(tmp_path / "bundle", sample.manifest, sample.models)
    (tmp_path / STORE).write_bytes(b"store")
    (tmp_path / ".half-written").write_bytes(b"x")
    write_model_index(tmp_path)
    return tmp_path


def append(path: Path) -> None:
    """Add one byte."""
    path.write_bytes(path.read_bytes() + b"\n")


def test_every_file_is_named_but_temporary_ones(folder: Path) -> None:
    """All of the bundle and the store; the index itself is not in it, and nothing else is left behind."""
    named = set(json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))["files"])
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert named == found - {MODEL_FILE, ".half-written"}
    files = ModelFolder(folder)
    files.check()
    files.check_unchanged()
    assert files.read(STORE) == b"store"
    assert read_bundle(folder / "bundle").manifest.id


@pytest.mark.parametrize("name", [STORE, "bundle/manifest.json"])
@pytest.mark.parametrize("spoil", [append, Path.unlink])
def test_a_file_that_was_changed_or_is_missing_is_refused(folder: Path, name: str, spoil: Callable[[Path], None]) -> None:
    """One line names the file and the remedy."""
    spoil(folder / name)
    with pytest.raises(BundleError, match="copy the folder of one training as a whole") as refused:
        ModelFolder(folder).check()
    assert str(refused.value).startswith(str(folder / name))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "is not JSON"),
        ("[]", "expected the format"),
        pytest.param("[" * 100_000, "is not JSON", id="too deep"),
        ('{"format": "emsco-model 1", "files": {"a\\u0000b": ""}}', "cannot be the name of a file"),
        ('{"format": "emsco-model 1", "files": {"\\ud800": ""}}', "cannot be the name of a file"),
        ('{"format": "emsco-model 1", "files": [1]}', "expected files with their SHA-256"),
        ('{"format": "emsco-model 1", "files": {"x": 1}}', "expected files with their SHA-256"),
        ('{"format": "emsco-model 1", "files": {"../x": ""}}', "'../x' is outside the folder"),
        ('{"format": "emsco-model 1", "files": {"/x": ""}}', "'/x' is outside the folder"),
        ('{"format": "emsco-model 1", "files": {}}', "does not name store.sqlite"),
    ],
)
def test_an_index_that_is_none_is_refused(folder: Path, text: str, message: str) -> None:
    """Each fault has one line."""
    (folder / MODEL_FILE).write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=message):
        ModelFolder(folder).read(STORE)


def test_a_folder_that_is_none_is_refused(folder: Path) -> None:
    """No folder, and a folder without an index."""
    with pytest.raises(BundleError, match=r"none: the folder does not exist: give that of a trained model"):
        ModelFolder(folder / "none")
    with pytest.raises(BundleError, match=r"model.json: cannot be read \(No such file or directory\)"):
        ModelFolder(folder / "bundle")


def test_a_change_is_found_by_content(folder: Path) -> None:
    """The same bytes under another time are no change; other bytes, and a missing file, are; the old ones again are none."""
    files = ModelFolder(folder)
    (folder / STORE).write_bytes(b"store")
    assert files.find_change() is None
    append(folder / STORE)
    assert files.find_change() == STORE
    with pytest.raises(BundleError, match=r"store.sqlite: was changed while the model was read: try again"):
        files.check_unchanged()
    (folder / STORE).unlink()
    assert files.find_change() == STORE
    (folder / STORE).write_bytes(b"store")
    assert files.find_change() is None
    write_model_index(folder)
    assert files.find_change() is None
