"""Writing a bundle: whole or not at all, whatever happens meanwhile."""

from __future__ import annotations

import errno
import json
import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_runtime import BundleError, Cascade, read_bundle, write_bundle
from emsco_runtime.bundle import publish
from emsco_runtime.bundle.manifest import Model
from emsco_runtime.bundle.publish import build_bundle
from emsco_runtime.testing import logistic_model, make_bundle, sample_bundle

OLD = sample_bundle()
NEW = make_bundle([["size"], ["links", "age"]], seed=5, name="new")

# Runs in a process of its own, without threads: forks writers that replace the bundle as fast as they can, kills each at a random
# moment, and reads what is left. Prints what it found after every kill.
KILLER = """
import os, pathlib, pickle, random, signal, sys, time
from emsco_runtime import read_bundle, write_bundle

folder, seed, kills = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
bundles = pickle.loads(sys.stdin.buffer.read())
moments = random.Random(seed)
midway = 0
for _ in range(kills):
    child = os.fork()
    if child == 0:
        while True:
            for one in bundles:
                write_bundle(folder, one.manifest, one.models, force=True)
    time.sleep(moments.uniform(0.0, 0.04))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    found = read_bundle(folder)
    named = {folder / "manifest.json", *(folder / stage.model.path for stage in found.manifest.stages)}
    midway += {path for path in folder.rglob("*") if path.is_file()} != named
    print([(found.manifest, found.models) == (one.manifest, one.models) for one in bundles].index(True), flush=True)
print(midway)
"""

WRITER = """
import pathlib, pickle, sys
from emsco_runtime import write_bundle

one = pickle.loads(sys.stdin.buffer.read())
for _ in range(40):
    write_bundle(sys.argv[1], one.manifest, one.models, force=True)
"""


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by its path inside it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the old bundle on disk."""
    write_bundle(tmp_path / "b", OLD.manifest, OLD.models)
    return tmp_path / "b"


def replace(folder: Path) -> None:
    """Write the new bundle over the old one."""
    write_bundle(folder, NEW.manifest, NEW.models, force=True)


def is_whole(folder: Path) -> bool:
    """Return whether the folder holds the old or the new bundle, and can be loaded."""
    found = Cascade.load(folder).bundle
    return (found.manifest, found.models) in [(OLD.manifest, OLD.models), (NEW.manifest, NEW.models)]


@pytest.mark.parametrize("state", ["new", "new, parents too", "empty", "after an interrupted first export"])
def test_folders_that_are_free(tmp_path: Path, state: str) -> None:
    """A new folder is made, an empty one is used, and so is one that an interrupted first export left behind."""
    folder = tmp_path / "a" / "b" if "parents" in state else tmp_path / "b"
    if "new" not in state:
        folder.mkdir()
    if "interrupted" in state:
        (folder / "stages").mkdir()
        (folder / "stages" / ".emsco-0123456789abcdef.tmp").write_bytes(b"half")
        (folder / "stages" / "1-0123456789ab.onnx").write_bytes(b"whole, but of another bundle")
        (folder / ".emsco-fedcba9876543210.tmp").write_bytes(b"{")
    written = write_bundle(folder, OLD.manifest, OLD.models)
    assert written == read_bundle(folder)
    assert set(contents(folder)) == {"manifest.json", *(stage.model.path for stage in OLD.manifest.stages)}


def test_the_files(folder: Path) -> None:
    """The layout is the documented one, and the manifest is readable text that ends with a line break."""
    text = (folder / "manifest.json").read_text()
    assert json.loads(text) == OLD.manifest.model_dump(mode="json")
    assert text.endswith("}\n")
    assert len(text.splitlines()) > 20
    for stage, model in zip(OLD.manifest.stages, OLD.models, strict=True):
        assert (folder / stage.model.path).read_bytes() == model


def test_the_id_is_computed_here(tmp_path: Path) -> None:
    """Whatever id the draft has, the bundle gets the one of its content, and writing again gives the same bytes."""
    draft = OLD.manifest.model_copy(update={"id": "0" * 64})
    assert write_bundle(tmp_path / "b", draft, OLD.models).manifest == OLD.manifest
    before = contents(tmp_path / "b")
    write_bundle(tmp_path / "b", draft, OLD.models, force=True)
    assert contents(tmp_path / "b") == before


@pytest.mark.parametrize("force", [False, True])
def test_a_foreign_folder_is_refused(tmp_path: Path, force: bool) -> None:
    """A folder with other things in it is never written to, not even with force."""
    (tmp_path / "holiday.jpg").write_bytes(b"beach")
    with pytest.raises(BundleError, match=r"the folder is not empty and holds no bundle\. Choose a new or empty folder"):
        write_bundle(tmp_path, OLD.manifest, OLD.models, force=force)
    assert contents(tmp_path) == {"holiday.jpg": b"beach"}


def test_an_existing_bundle_needs_force(folder: Path) -> None:
    """Without force the old bundle stays, and the message says how to replace it."""
    before = contents(folder)
    with pytest.raises(BundleError, match=r"a bundle already exists here. Use force to replace it"):
        write_bundle(folder, NEW.manifest, NEW.models)
    assert contents(folder) == before
    replace(folder)
    assert read_bundle(folder).manifest == NEW.manifest


def test_what_is_removed_afterwards(folder: Path) -> None:
    """Old models and temporary files of ours go; files of others stay, even where ours are kept."""
    ours = [folder / ".emsco-00ff.tmp", folder / "stages" / ".emsco-12ab.tmp", folder / "stages" / "7-0123456789ab.onnx"]
    theirs = [
        folder / "README.md",
        folder / "stages" / "notes.onnx",
        folder / "stages" / "1-0123456789AB.onnx",
        folder / "stages" / "0-0123456789ab.onnx",
        folder / "stages" / "1-0123456789ab.onnx.bak",
        folder / ".emsco-00ff.tmp.keep",
        folder / "1-0123456789ab.onnx",
    ]
    for path in (*ours, *theirs):
        path.write_bytes(b"x")
    replace(folder)
    names = {"manifest.json", *(stage.model.path for stage in NEW.manifest.stages)}
    assert set(contents(folder)) == names | {str(path.relative_to(folder)) for path in theirs}


def test_what_cannot_be_removed_is_left(folder: Path) -> None:
    """Once the new manifest is in place the export has succeeded: a file that cannot be removed is not an error."""
    (folder / "stages" / "9-0123456789ab.onnx").mkdir()
    replace(folder)
    assert read_bundle(folder).manifest == NEW.manifest
    assert (folder / "stages" / "9-0123456789ab.onnx").is_dir()


def test_a_model_shared_by_old_and_new_stays(folder: Path) -> None:
    """Models are named by content: one that both bundles use is not removed."""
    renamed = OLD.manifest.model_copy(update={"name": "renamed"})
    write_bundle(folder, renamed, OLD.models, force=True)
    assert read_bundle(folder).manifest.name == "renamed"


@pytest.mark.parametrize("place", ["stages", "manifest.json"])
def test_a_link_in_the_way(folder: Path, place: str) -> None:
    """A linked folder of models is refused; a linked manifest is replaced, and its target is not touched."""
    (folder / place).rename(folder.parent / "target")
    (folder / place).symlink_to(folder.parent / "target")
    if place == "stages":
        before = contents(folder.parent / "target")
        with pytest.raises(BundleError, match="a symbolic link is not followed"):
            replace(folder)
        assert contents(folder.parent / "target") == before
    else:
        before = (folder.parent / "target").read_bytes()
        replace(folder)
        assert (folder.parent / "target").read_bytes() == before
        assert read_bundle(folder).manifest == NEW.manifest


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    """A path that is a file, or goes through one, is one clear error."""
    (tmp_path / "file").write_text("here")
    for path, reason in ((tmp_path / "file", "File exists"), (tmp_path / "file" / "b", "Not a directory")):
        with pytest.raises(BundleError, match=f"cannot be written: {reason}. Check the path and its permissions") as caught:
            write_bundle(path, OLD.manifest, OLD.models)
        assert caught.value.path == str(path)
        assert isinstance(caught.value.__cause__, OSError)


def test_a_file_in_the_place_of_the_stages(folder: Path) -> None:
    """A file called `stages` stops the export before the manifest is touched."""
    (folder / "stages").rename(folder.parent / "kept")
    (folder / "stages").write_text("in the way")
    before = contents(folder)
    with pytest.raises(BundleError, match="cannot be written: File exists"):
        replace(folder)
    assert contents(folder) == before


def test_a_target_that_may_not_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing permission (simulated: root may write everywhere) is one error, and the old bundle stays."""
    before = contents(folder)

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    with pytest.raises(BundleError, match=r"cannot be written: Permission denied\. Check the path and its permissions"):
        replace(folder)
    monkeypatch.undo()
    assert contents(folder) == before


def failing(call: Callable[..., Any], at: int, number: int) -> Callable[..., Any]:
    """Return a function that does as another one does, but fails at its n-th call."""
    calls = iter(range(10_000))

    def wrapped(*arguments: Any) -> Any:
        if next(calls) == at:
            raise OSError(number, os.strerror(number))
        return call(*arguments)

    return wrapped


def count_syncs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a replacement syncs, by doing one in a copy."""
    calls: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", calls.append)
        write_bundle(folder.parent / "copy", OLD.manifest, OLD.models)
        calls.clear()
        write_bundle(folder.parent / "copy", NEW.manifest, NEW.models, force=True)
    return len(calls)


def test_a_sync_that_fails_midway(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at any sync is one error that leaves a whole bundle (the old one until the last step), no temporary file."""
    before = contents(folder)
    syncs = count_syncs(folder, monkeypatch)
    assert syncs >= 2 * len(NEW.models) + 2
    for at in range(syncs):
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(os.fsync, at, errno.ENOSPC))
            with pytest.raises(BundleError, match="cannot be written: No space left on device"):
                replace(folder)
        assert is_whole(folder)
        assert not list(folder.rglob("*.tmp"))
        if at < syncs - 1:
            assert before.items() <= contents(folder).items()
    # The last sync comes after the manifest was replaced: the new bundle is in force, it is just not known to be on the disk.
    assert read_bundle(folder).manifest == NEW.manifest


def test_a_move_that_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename that fails, at a model or at the manifest, leaves the old bundle and no temporary files."""
    before = contents(folder)
    for at in range(len(NEW.models) + 1):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", failing(Path.replace, at, errno.EIO))
            with pytest.raises(BundleError, match="cannot be written: Input/output error"):
                replace(folder)
        assert before.items() <= contents(folder).items()
        assert not list(folder.rglob("*.tmp"))
    assert read_bundle(folder).manifest == OLD.manifest


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_file_systems_that_cannot_sync_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Some network file systems refuse to sync a folder; that does not prevent writing there."""
    sync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    write_bundle(tmp_path / "b", OLD.manifest, OLD.models)
    assert read_bundle(tmp_path / "b").manifest == OLD.manifest


def test_models_come_before_the_manifest(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is synced before it gets its name, the manifest gets its name last, and only then old models go."""
    events: list[str] = []
    sync, move, remove = os.fsync, Path.replace, Path.unlink

    def moved(path: Path, target: Path) -> Path:
        events.append(f"move {Path(target).name}")
        return move(path, target)

    def removed(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".onnx":
            events.append("remove")
        remove(path, missing_ok=missing_ok)

    monkeypatch.setattr(os, "fsync", lambda descriptor: events.append("sync") or sync(descriptor))
    monkeypatch.setattr(Path, "replace", moved)
    monkeypatch.setattr(Path, "unlink", removed)
    replace(folder)
    names = [Path(stage.model.path).name for stage in NEW.manifest.stages]
    moves = [event for event in events if event.startswith("move")]
    assert moves == [*(f"move {name}" for name in names), "move manifest.json"]
    for move_event in moves:
        position = events.index(move_event)
        assert events[position - 1] == events[position + 1] == "sync"
    assert events.index("remove") > events.index("move manifest.json")


def run(code: str, *arguments: object, give: object) -> subprocess.Popen[bytes]:
    """Start Python on a piece of code and hand it a pickled object."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(give))
    process.stdin.close()
    process.stdin = None
    return process


def kill_writers(folder: Path, kills: int, seed: int) -> int:
    """Kill writers at random moments, check what each of them left behind, and return how many were midway."""
    process = run(KILLER, folder, seed, kills, give=[NEW, OLD])
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()
    *found, midway = out.decode().splitlines()
    assert len(found) == kills
    assert set(found) <= {"0", "1"}
    assert is_whole(folder)
    replace(folder)
    assert set(contents(folder)) == {"manifest.json", *(stage.model.path for stage in NEW.manifest.stages)}
    return int(midway)


def test_a_killed_writer_leaves_a_whole_bundle(folder: Path) -> None:
    """After each of 20 kills the folder is wholly the old or the new bundle; the next export removes the temporary files."""
    kill_writers(folder, 20, seed=1)


@pytest.mark.proof
def test_a_hundred_killed_writers(folder: Path) -> None:
    """The same with 100 kills, many of them midway: between two models, or between a model and the manifest."""
    assert kill_writers(folder, 100, seed=2) > 5


@pytest.mark.uncounted
def test_two_writers_at_once(folder: Path) -> None:
    """Two processes that write to one folder take turns: both succeed, readers always see a whole bundle, one of them stays."""
    writers = [run(WRITER, folder, give=one) for one in (OLD, NEW)]
    while any(writer.poll() is None for writer in writers):
        assert read_bundle(folder).manifest.id in (OLD.manifest.id, NEW.manifest.id)
    for writer in writers:
        _, err = writer.communicate()
        assert writer.returncode == 0, err.decode()
    assert is_whole(folder)
    assert set(contents(folder)) == {"manifest.json", *(stage.model.path for stage in read_bundle(folder).manifest.stages)}


@pytest.mark.parametrize("count", [0, 2, 4])
def test_seal_wants_a_model_per_stage(count: int) -> None:
    """Too few or too many models are refused with both numbers."""
    with pytest.raises(BundleError, match=f"expected one model per stage, got {count} models for 3 stages") as caught:
        build_bundle(OLD.manifest, (*OLD.models, b"")[:count])
    assert caught.value.json_path == "$.stages"


def test_seal_refuses_what_could_not_be_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond the reader's limits is not written in the first place."""
    monkeypatch.setattr(publish, "MAX_MODEL_BYTES", len(OLD.models[2]) - 1)
    with pytest.raises(
        BundleError, match=f"the model is too large: {len(OLD.models[2])} bytes.*Use a smaller classifier"
    ) as caught:
        build_bundle(OLD.manifest, OLD.models)
    assert caught.value.json_path == "$.stages[2].model"
    monkeypatch.setattr(publish, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(BundleError, match=r"the manifest is too large: .* at most 100 are read"):
        build_bundle(OLD.manifest, OLD.models)


def test_seal_audits(tmp_path: Path) -> None:
    """A wrong model is refused before anything is written."""
    other = logistic_model(np.ones((2, 7)), np.zeros(2))
    with pytest.raises(BundleError, match="the file hashes to"):
        write_bundle(tmp_path / "b", OLD.manifest, (other, *OLD.models[1:]))
    stage = OLD.manifest.stages[0]
    wide = stage.model_copy(update={"model": Model.of(1, other, input="features", output="probabilities")})
    with pytest.raises(BundleError, match=r"must be features: double\[\?, 1\], it has features: double\[\?, 7\]"):
        write_bundle(
            tmp_path / "b", OLD.manifest.model_copy(update={"stages": (wide, *OLD.manifest.stages[1:])}), (other, *OLD.models[1:])
        )
    assert not (tmp_path / "b").exists()


def test_a_foreign_manifest_is_never_replaced(tmp_path: Path) -> None:
    """Other programs have a manifest.json too: force replaces bundles, sound or damaged, and nothing else."""
    made = sample_bundle()
    (tmp_path / "manifest.json").write_text('{"name": "web app"}')
    with pytest.raises(BundleError, match="not an emsco bundle, and not replaced"):
        write_bundle(tmp_path, made.manifest, made.models, force=True)
    assert (tmp_path / "manifest.json").read_text() == '{"name": "web app"}'
    (tmp_path / "manifest.json").write_text('{"format": "emsco-bundle", "damaged": ')
    write_bundle(tmp_path, made.manifest, made.models, force=True)
    assert read_bundle(tmp_path).manifest.id == made.manifest.id


def test_a_foreign_folder_of_stages_is_left_alone(tmp_path: Path) -> None:
    """A folder that only happens to have `stages` in it is not ours to write to."""
    made = sample_bundle()
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "backstage.txt").write_text("mine")
    with pytest.raises(BundleError, match="not empty and holds no bundle"):
        write_bundle(tmp_path, made.manifest, made.models)
    assert (tmp_path / "stages" / "backstage.txt").read_text() == "mine"


def test_several_groups_are_written_as_version_2_and_nothing_else_is(tmp_path: Path) -> None:
    """A feature that needs several groups makes the file version 2, and reads back; without one, older readers can read it."""
    shared = {"dns": (8.0, ["a", "b"]), "body": (2.0, ["b"])}
    made = make_bundle([["a"], ["b"]], groups=shared)
    written = write_bundle(tmp_path / "several", made.manifest, made.models)
    read = read_bundle(tmp_path / "several").manifest
    assert read == written.manifest
    assert read.schema_version == 2
    assert [feature.all_groups for feature in read.features] == [("dns",), ("dns", "body")]
    assert [cost.total for cost in read.stage_costs()] == [9.0, 12.0]
    plain = make_bundle([["a"], ["b"]], groups={"dns": (8.0, ["a", "b"])})
    write_bundle(tmp_path / "one", plain.manifest, plain.models)
    document = json.loads((tmp_path / "one" / "manifest.json").read_bytes())
    assert document["schema_version"] == 1
    assert not any("groups" in feature for feature in document["features"])
    assert plain.manifest.features[0].with_groups([]).all_groups == ()
