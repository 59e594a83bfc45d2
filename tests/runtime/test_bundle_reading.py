"""Reading a bundle: only plain files inside the folder, all of them checked, nothing executed before that."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnxruntime
import pytest

from emsco_runtime import Bundle, BundleError, BundleVersionError, Cascade, EmscoError, read_bundle, write_bundle
from emsco_runtime.bundle import reading
from emsco_runtime.bundle.manifest import Model, manifest_id
from emsco_runtime.testing import _bytes_field, _int_field, logistic_model, make_bundle, sample_bundle

SAMPLE = sample_bundle()
OTHER = make_bundle([["size"], ["links"]], seed=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a bundle on disk."""
    write_bundle(tmp_path / "spam", SAMPLE.manifest, SAMPLE.models)
    return tmp_path / "spam"


@pytest.fixture
def sessions() -> None:
    """Let onnxruntime run in a test that asks for this."""


@pytest.fixture(autouse=True)
def _nothing_is_executed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a session be made only where a test says so: a refused bundle must never get that far."""
    if "sessions" not in request.fixturenames:

        def refuse(*_: object, **__: object) -> NoReturn:
            pytest.fail("a model of a refused bundle was handed to onnxruntime")

        monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)


def load_error(folder: str | Path) -> BundleError:
    """Load what must be refused, through the front door, and return the error."""
    with pytest.raises(BundleError) as caught:
        Cascade.load(folder)
    return caught.value


def open_files() -> int:
    """Return how many files this process has open."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


def model_file(folder: Path, index: int = 0) -> Path:
    """Return the file of a stage's model."""
    return folder / SAMPLE.manifest.stages[index].model.path


def rewrite(folder: Path, edit: Any) -> None:
    """Edit the manifest on disk and give it the id that it then has."""
    document = json.loads((folder / "manifest.json").read_text())
    edit(document)
    (folder / "manifest.json").write_text(json.dumps(document | {"id": manifest_id(document)}))


def test_the_guard_of_these_tests_works(folder: Path) -> None:
    """A sound bundle does reach onnxruntime, so that the absence of a session below means something."""
    with pytest.raises(pytest.fail.Exception, match="handed to onnxruntime"):
        Cascade(read_bundle(folder))


def test_read_back(folder: Path) -> None:
    """What was written is read back: manifest, models, place; from path-likes and from text."""
    found = read_bundle(folder)
    assert found == Bundle(SAMPLE.manifest, SAMPLE.models, str(folder))
    assert read_bundle(str(folder)) == found


def test_a_bundle_is_shown_without_the_bytes_of_its_models() -> None:
    """What a notebook shows of a bundle, or of an export, is its manifest: the models of trees have megabytes."""
    assert "b'" not in repr(SAMPLE)
    assert repr(SAMPLE.manifest) in repr(SAMPLE)


def test_no_folder(tmp_path: Path) -> None:
    """A path that does not exist is reported as such."""
    error = load_error(tmp_path / "nowhere")
    assert str(error) == f"{tmp_path / 'nowhere'}: the bundle does not exist. Give the folder that holds manifest.json"


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    """The manifest itself is not the bundle, and the message says what to give."""
    error = load_error(folder / "manifest.json")
    assert error.message == "the bundle is not a folder. Give the folder that holds manifest.json"


def test_no_manifest(tmp_path: Path) -> None:
    """A folder without a manifest is not a bundle."""
    error = load_error(tmp_path)
    assert error.path == str(tmp_path)
    assert error.message == "there is no manifest.json in the folder, so it is not a bundle"


def test_an_impossible_path() -> None:
    """A path that the system refuses is a `BundleError` too."""
    assert "File name too long" in load_error("x" * 300).message


def test_foreign_json(tmp_path: Path) -> None:
    """The manifest of a web page is not ours."""
    (tmp_path / "manifest.json").write_text('{"name": "web app", "icons": []}')
    error = load_error(tmp_path)
    assert (error.path, error.json_path) == (str(tmp_path / "manifest.json"), "$.format")


def test_newer_schema(folder: Path) -> None:
    """A bundle of a newer emsco gives the upgrade advice, whatever else has changed in it."""
    rewrite(folder, lambda document: document.update(schema_version=3, stages="now somewhere else"))
    error = load_error(folder)
    assert isinstance(error, BundleVersionError)
    assert "pip install --upgrade emsco" in str(error)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_wrong_hash(folder: Path, index: int) -> None:
    """A model with one changed bit is refused with both hashes."""
    content = bytearray(model_file(folder, index).read_bytes())
    content[len(content) // 2] ^= 1
    model_file(folder, index).write_bytes(content)
    error = load_error(folder)
    assert (error.path, error.json_path) == (str(model_file(folder, index)), f"$.stages[{index}].model.sha256")
    assert SAMPLE.manifest.stages[index].model.sha256 in error.message


def test_swapped_models(folder: Path) -> None:
    """Two models under each other's names do not pass."""
    one, other = model_file(folder, 0), model_file(folder, 1)
    one.write_bytes(SAMPLE.models[1])
    other.write_bytes(SAMPLE.models[0])
    assert load_error(folder).json_path == "$.stages[0].model.sha256"


def test_missing_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that stays away is an error after a few looks, since a writer may just be replacing the bundle."""
    model_file(folder, 1).unlink()
    looks = []
    look = reading._read_manifest
    monkeypatch.setattr(reading, "_read_manifest", lambda place: looks.append(place) or look(place))
    error = load_error(folder)
    assert error.path == str(model_file(folder, 1))
    assert "the file is missing although the manifest names it" in error.message
    assert len(looks) == reading._MAX_ATTEMPTS > 1


@pytest.mark.parametrize("kind", ["nothing", "file"])
def test_missing_stages_folder(folder: Path, kind: str) -> None:
    """Without a folder for the models, they are missing."""
    shutil.rmtree(folder / "stages")
    if kind == "file":
        (folder / "stages").write_text("in the way")
    assert "is missing although" in load_error(folder).message


def test_a_bundle_replaced_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that vanish between manifest and models make the reader start again, and it gets the new bundle whole."""
    look = reading._read_manifest

    def replace_then_hand_out(place: Path) -> bytes:
        text = look(place)
        monkeypatch.setattr(reading, "_read_manifest", look)
        write_bundle(folder, OTHER.manifest, OTHER.models, force=True)
        return text

    monkeypatch.setattr(reading, "_read_manifest", replace_then_hand_out)
    assert read_bundle(folder).manifest == OTHER.manifest


def test_reader_races_writer(folder: Path) -> None:
    """While one thread replaces the bundle again and again, every read succeeds and is wholly one or the other."""
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            for one in (OTHER, SAMPLE):
                write_bundle(folder, one.manifest, one.models, force=True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [read_bundle(folder) for _ in range(200)]
    finally:
        done.set()
        writer.join()
    whole = [(one.manifest, one.models) for one in (SAMPLE, OTHER)]
    assert all((one.manifest, one.models) in whole for one in found)
    assert {one.manifest.id for one in found} == {SAMPLE.manifest.id, OTHER.manifest.id}


@pytest.mark.parametrize("limit", ["MAX_MANIFEST_BYTES", "MAX_MODEL_BYTES"])
def test_oversized(folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """A file beyond the limit is refused by its size, before it is read; at the limit it is read."""
    path = (
        folder / "manifest.json"
        if limit == "MAX_MANIFEST_BYTES"
        else max(folder.rglob("*.onnx"), key=lambda file: file.stat().st_size)
    )
    size = path.stat().st_size
    monkeypatch.setattr(reading, limit, size)
    assert read_bundle(folder).manifest == SAMPLE.manifest
    monkeypatch.setattr(reading, limit, size - 1)
    error = load_error(folder)
    assert error.path == str(path)
    assert error.message == f"the file is too large: {size} bytes, at most {size - 1} are read"


def test_a_sparse_giant(folder: Path) -> None:
    """A manifest of a terabyte (that takes no room on the disk) is refused at once."""
    os.truncate(folder / "manifest.json", 2**40)
    assert "too large: 1099511627776 bytes" in load_error(folder).message


@pytest.mark.parametrize("inside", [True, False], ids=["to a file inside", "to a file outside"])
@pytest.mark.parametrize("which", ["manifest", "model"])
def test_symbolic_links(folder: Path, which: str, inside: bool) -> None:
    """Neither the manifest nor a model may be a link, wherever it points."""
    path = folder / "manifest.json" if which == "manifest" else model_file(folder)
    target = (folder if inside else folder.parent) / "target"
    path.rename(target)
    path.symlink_to(target)
    error = load_error(folder)
    assert error.path == str(path)
    assert error.message == "a symbolic link is not followed. Put the file itself into the bundle"


def test_symbolic_link_for_the_stages_folder(folder: Path) -> None:
    """The folder of the models may not be a link either."""
    (folder / "stages").rename(folder.parent / "elsewhere")
    (folder / "stages").symlink_to(folder.parent / "elsewhere")
    error = load_error(folder)
    assert error.path == str(folder / "stages")
    assert "a symbolic link is not followed" in error.message


def test_broken_symbolic_link(folder: Path) -> None:
    """A link to nowhere is a link, not a missing file."""
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").symlink_to("nowhere")
    assert "a symbolic link is not followed" in load_error(folder).message


def test_symbolic_link_to_the_bundle_itself(folder: Path) -> None:
    """A link to the whole folder is how deployments switch versions: allowed."""
    (folder.parent / "current").symlink_to(folder)
    assert read_bundle(folder.parent / "current").manifest == SAMPLE.manifest


@pytest.mark.parametrize("which", ["manifest", "model"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_not_a_plain_file(folder: Path, which: str, kind: str) -> None:
    """A folder, a pipe (which would block the reader) or a device instead of a file is refused."""
    path = folder / "manifest.json" if which == "manifest" else model_file(folder)
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        try:
            os.mknod(path, 0o20666, os.makedev(1, 3))
            path.read_bytes()
        except PermissionError:
            pytest.skip("making a device takes rights that this machine does not give")
    before = open_files()
    error = load_error(folder)
    assert (error.path, error.message) == (str(path), "is not a plain file. Copy or export the bundle again")
    assert open_files() == before


@pytest.mark.parametrize("which", ["manifest", "model"])
def test_unreadable_file(folder: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """A file that may not be opened is reported with the system's reason (simulated: root may open everything)."""
    path = folder / "manifest.json" if which == "manifest" else model_file(folder)
    open_file = os.open

    def deny(place: Any, *arguments: Any) -> int:
        if place == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return open_file(place, *arguments)

    monkeypatch.setattr(os, "open", deny)
    error = load_error(folder)
    assert error.message == "cannot be read: Permission denied. Check the path and its permissions"
    assert isinstance(error.__cause__, PermissionError)


def test_a_disk_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while reading is reported too, and the file is closed."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    before = open_files()
    monkeypatch.setattr(os, "fdopen", fail)
    assert "cannot be read: Input/output error" in load_error(folder).message
    assert open_files() == before


@pytest.mark.parametrize("path", ["../x.onnx", "/etc/passwd", "stages/../../spam/stages/1-000000000000.onnx"])
def test_a_path_out_of_the_bundle(folder: Path, path: str) -> None:
    """A manifest that names a file elsewhere is refused even with a right id; the file is never opened."""
    rewrite(folder, lambda document: document["stages"][0]["model"].update(path=path))
    error = load_error(folder)
    assert error.json_path == "$.stages[0].model.path"
    assert repr(path) in error.message


def replace_model(folder: Path, content: bytes) -> Path:
    """Put another model into stage 1, with hash and id made right, as an attacker would."""
    model = Model.of(1, content, input="features", output="probabilities")
    (folder / model.path).write_bytes(content)
    rewrite(folder, lambda document: document["stages"][0].update(model=model.model_dump(mode="json")))
    return folder / model.path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"MZ\x90\x00", "not an ONNX model", id="foreign file"),
        pytest.param(SAMPLE.models[0][:-9], "not an ONNX model", id="truncated"),
        pytest.param(SAMPLE.models[1], "must be features: double[?, 1], it has features: double[?, 2]", id="wrong width"),
        pytest.param(
            logistic_model(np.ones((3, 1)), np.zeros(3)), "output must be probabilities: double[?, 2]", id="wrong labels"
        ),
        pytest.param(
            SAMPLE.models[0] + _bytes_field(8, _bytes_field(1, b"evil") + _int_field(2, 1)),
            "operators of the domain 'evil'",
            id="custom operators",
        ),
    ],
)
def test_a_bad_model_with_right_hashes(folder: Path, content: bytes, expected: str) -> None:
    """Hashes and id that fit do not help a model that is not what the manifest says."""
    path = replace_model(folder, content)
    error = load_error(folder)
    assert (error.path, error.json_path) == (str(path), "$.stages[0].model")
    assert expected in error.message


@pytest.mark.usefixtures("sessions")
def test_a_good_model_with_right_hashes_still_has_to_keep_the_promise(folder: Path) -> None:
    """A sound but different model is let in by the audit, and refused by the golden items."""
    replace_model(folder, logistic_model([[3.0], [-3.0]], np.zeros(2)))
    assert read_bundle(folder).manifest.id != SAMPLE.manifest.id
    assert load_error(folder).json_path == "$.golden[0]"


@pytest.mark.parametrize("spoil", ["id", "version", "hash"])
def test_errors_pickle(folder: Path, spoil: str) -> None:
    """An error crosses processes whole: type, text and attributes."""
    if spoil == "hash":
        model_file(folder).write_bytes(b"")
    else:
        document = json.loads((folder / "manifest.json").read_text())
        document["schema_version" if spoil == "version" else "name"] = 7 if spoil == "version" else "x"
        (folder / "manifest.json").write_text(json.dumps(document))
    error = load_error(folder)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert isinstance(copy, EmscoError)
    assert (str(copy), copy.message, copy.path, copy.json_path) == (str(error), error.message, error.path, error.json_path)


def test_strangers_in_the_folder_are_ignored(folder: Path) -> None:
    """Files that the manifest does not name do not matter to a reader."""
    (folder / "README").write_text("notes")
    (folder / "stages" / "9-000000000000.onnx").write_bytes(b"left over")
    (folder / "stages" / ".emsco-0123456789abcdef.tmp").write_bytes(b"half")
    assert read_bundle(folder).manifest == SAMPLE.manifest
