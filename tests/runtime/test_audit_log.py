"""`AuditWriter`: lines in real files, from several processes, with files that are rotated meanwhile."""

from __future__ import annotations

import asyncio
import errno
import json
import multiprocessing
import os
import pickle
import resource
import signal
import stat
import threading
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from emsco_runtime import Cascade, Decision, InputError
from emsco_runtime.observing import audit_log as audit_module
from emsco_runtime.observing.audit_log import AuditWriter
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle

BUNDLE = sample_bundle()
SPAM = {"size": 2.0, "links": 1.0, "reputation": 0.5}
NOON = datetime(2026, 1, 1, 12, 0, 0, 250, tzinfo=UTC)


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a file, one per line; the file ends with a full line."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def failing(message: str) -> Decision:
    """Return a decision with a failure whose message quotes something."""
    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="reject")
    return Cascade(BUNDLE, acquirers).decide({"size": ValueError(message)})


def test_one_line_per_decision(tmp_path: Path) -> None:
    """A line holds the time in UTC and the whole decision; the file is made, and grows."""
    path = tmp_path / "audit.jsonl"
    east = NOON.astimezone(timezone(timedelta(hours=2)))
    with AuditWriter(path, clock=lambda: east) as writer:
        cascade = Cascade(BUNDLE, observers=[writer])
        made = [cascade.decide(SPAM), cascade.decide(SPAM, budget=0.0)]
        # Nothing waits in a buffer: the lines are there while the file is open.
        found = lines(path)
    expected = [{"time": "2026-01-01T12:00:00.000250Z", "item": None, "decision": one.to_dict()} for one in made]
    assert found == expected
    with AuditWriter(path) as writer:
        writer(made[0])
    assert lines(path)[:2] == expected
    assert len(lines(path)) == 3
    assert datetime.now(UTC) - datetime.fromisoformat(lines(path)[2]["time"]) < timedelta(minutes=1)


def test_a_decision_follows_its_schema(tmp_path: Path) -> None:
    """What is inside a line follows the schema of decisions, with messages kept, dropped and hashed."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schemas = pytest.importorskip("tools.schemas", reason="the tools are not here")
    path = tmp_path / "audit.jsonl"
    for options in ({}, {"values": "drop"}, {"values": "hash", "key": b"k"}):
        with AuditWriter(path, **options) as writer:
            writer(failing("secret"))
    for line in lines(path):
        jsonschema.Draft202012Validator(schemas.decision_schema()).validate(line["decision"])
    assert len(lines(path)) == 3


def test_permissions(tmp_path: Path) -> None:
    """A file that is made is not for everybody."""
    with AuditWriter(tmp_path / "one"), AuditWriter(tmp_path / "two", mode=0o600):
        assert stat.S_IMODE((tmp_path / "one").stat().st_mode) & 0o007 == 0
        assert stat.S_IMODE((tmp_path / "two").stat().st_mode) == 0o600


def test_values_are_kept_dropped_or_hashed(tmp_path: Path) -> None:
    """Messages of failures, which may quote the item, are as they were, empty, or a keyed hash that shows only equality."""
    path = tmp_path / "audit.jsonl"
    first, again, other = failing("secret-1"), failing("secret-1"), failing("secret-2")

    def messages(**options: Any) -> list[str]:
        path.unlink(missing_ok=True)
        with AuditWriter(path, **options) as writer:
            for decision in (first, again, other):
                writer(decision)
        assert ("secret" in path.read_text()) is (not options)
        failures = [line["decision"]["errors"][0] for line in lines(path)]
        assert {(one["feature"], one["kind"]) for one in failures} == {("size", "exception")}
        return [one["message"] for one in failures]

    assert messages() == [f"its acquirer raised ValueError: secret-{number}" for number in (1, 1, 2)]
    assert messages(values="drop") == ["", "", ""]
    one, two, three = messages(values="hash", key=b"a key")
    assert one == two != three
    assert one.startswith("hmac-sha256:")
    assert len(one) == len("hmac-sha256:") + 64
    assert one not in messages(values="hash", key=b"another key")
    # The decision itself is as it was.
    assert first.errors[0].message.endswith("secret-1")


def test_the_item_comes_from_the_context(tmp_path: Path) -> None:
    """A context variable holds the item, in threads and in tasks that run at the same time."""
    path = tmp_path / "audit.jsonl"
    current: ContextVar[int | None] = ContextVar("current", default=None)
    with AuditWriter(path, item=current.get) as writer:
        cascade = Cascade(BUNDLE, observers=[writer])

        async def serve(number: int) -> None:
            current.set(number)
            await asyncio.sleep(0)
            await cascade.decide_async({"size": float(number)})

        async def serve_all() -> None:
            await asyncio.gather(*map(serve, range(2, 6)))

        asyncio.run(serve_all())
        cascade.decide(SPAM)
    written = lines(path)
    assert sorted(line["item"] for line in written[:-1]) == [2, 3, 4, 5]
    assert written[-1]["item"] is None


def test_text_that_utf8_does_not_have(tmp_path: Path) -> None:
    """A lone surrogate in a message is written in JSON's own escape, and read back as it was."""
    path = tmp_path / "audit.jsonl"
    for options in ({}, {"values": "hash", "key": b"k"}):
        with AuditWriter(path, **options) as writer:
            writer(failing("half \ud83d, whole \U0001f600, line\nbreak"))
    assert lines(path)[0]["decision"]["errors"][0]["message"].endswith("half \ud83d, whole \U0001f600, line\nbreak")
    assert len(lines(path)) == 2


def test_rotation_by_rename(tmp_path: Path) -> None:
    """When the file is moved away, the next line goes to a new one; when it is deleted, too; when it is replaced, to that."""
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    decision = failing("x")
    with AuditWriter(path) as writer:
        writer(decision)
        path.rename(moved)
        writer(decision)
        writer(decision)
        assert (len(lines(moved)), len(lines(path))) == (1, 2)
        path.unlink()
        writer(decision)
        assert len(lines(path)) == 1
        (tmp_path / "new").write_text("")
        (tmp_path / "new").replace(path)
        writer(decision)
        assert len(lines(path)) == 1


def test_rotation_while_threads_write(tmp_path: Path) -> None:
    """Four threads write while the file is renamed again and again: every line is in one of the files, whole."""
    path = tmp_path / "audit.jsonl"
    decision = failing("x" * 500)
    with AuditWriter(path) as writer:
        threads = [threading.Thread(target=lambda: [writer(decision) for _ in range(250)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        turn = 0
        while any(thread.is_alive() for thread in threads):
            if path.exists():
                path.rename(tmp_path / f"old-{turn}")
                turn += 1
        for thread in threads:
            thread.join()
        writer(decision)
    assert turn > 0
    assert sum(len(lines(file)) for file in tmp_path.iterdir()) == 1001


class _Slow:
    """A file whose write waits, and that records whether it was closed meanwhile."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.writing, self.go = threading.Event(), threading.Event()
        self.events: list[str] = []

    def fileno(self) -> int:
        return int(self._file.fileno())

    def write(self, line: bytes) -> int:
        self.writing.set()
        self.go.wait(60)
        self.events.append("written")
        return int(self._file.write(line))

    def close(self) -> None:
        self.events.append("closed")
        self._file.close()


def test_a_file_is_not_closed_while_a_thread_writes_to_it(tmp_path: Path) -> None:
    """A thread that meets a new file at the path waits for the one that still writes to the old one."""
    path = tmp_path / "audit.jsonl"
    with AuditWriter(path) as writer:
        slow = _Slow(writer._file)
        writer._file = slow  # type: ignore[assignment]
        first = threading.Thread(target=writer, args=(failing("x"),))
        first.start()
        assert slow.writing.wait(60)
        path.rename(tmp_path / "old")
        second = threading.Thread(target=writer, args=(failing("x"),))
        second.start()
        # Time enough for it to interfere; if it is slower, it cannot.
        second.join(0.2)
        slow.go.set()
        first.join()
        second.join()
    assert slow.events == ["written", "closed"]
    assert [len(lines(file)) for file in (path, tmp_path / "old")] == [1, 1]


def _write(writer: AuditWriter, number: int, count: int) -> None:
    names = [f"{number}-{index:03}-{'x' * 20}" for index in range(300)]
    # Lines of more than 10,000 bytes: longer than any pipe would keep whole.
    decision = Cascade(make_bundle([names])).decide(dict.fromkeys(names, 0.0))
    for _ in range(count):
        writer(decision)


@pytest.mark.parametrize(("method", "count"), [("fork", 4), pytest.param("spawn", 2, marks=pytest.mark.uncounted)])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_lines_of_several_processes_do_not_mix(method: str, count: int, tmp_path: Path) -> None:
    """Several processes write long lines to one file: all are there, and each is whole."""
    path = tmp_path / "audit.jsonl"
    context = multiprocessing.get_context(method)
    with AuditWriter(path) as writer:
        children = [context.Process(target=_write, args=(writer, number, 50)) for number in range(count)]
        for child in children:
            child.start()
        for child in children:
            child.join(120)
    assert [child.exitcode for child in children] == [0] * count
    found = lines(path)
    owners = [line["decision"]["trace"][0]["acquired"][0].split("-")[0] for line in found]
    assert sorted(owners) == sorted("0123"[:count] * 50)
    assert min(len(json.dumps(line)) for line in found) > 8192


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_is_not_held_by_a_lock(tmp_path: Path) -> None:
    """A child that was forked while a thread was writing can write."""
    path = tmp_path / "audit.jsonl"
    decision = failing("x")
    with AuditWriter(path) as writer:
        with writer._lock:
            child = os.fork()
            if child == 0:  # pragma: no cover - the child leaves without telling coverage
                signal.alarm(60)
                writer(decision)
                os._exit(0)
            _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        writer(decision)
    assert len(lines(path)) == 2


def test_a_pickled_writer_opens_the_file_again(tmp_path: Path) -> None:
    """The settings travel, the path as it was when the writer was made."""
    path = tmp_path / "audit.jsonl"
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        writer = AuditWriter("audit.jsonl", values="drop")
    finally:
        os.chdir(here)
    with writer, pickle.loads(pickle.dumps(writer)) as copy:
        copy(failing("secret"))
    assert lines(path)[0]["decision"]["errors"][0]["message"] == ""


def test_closed_and_opened_again(tmp_path: Path) -> None:
    """Closing twice does no harm, and a decision that comes later is not lost."""
    writer = AuditWriter(tmp_path / "audit.jsonl")
    writer.close()
    writer.close()
    writer(failing("x"))
    writer.close()
    assert len(lines(tmp_path / "audit.jsonl")) == 1


def test_waiting_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `sync` every line is handed to the disk, without it none."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for sync, expected in ((False, 0), (True, 2)):
        with AuditWriter(tmp_path / "audit.jsonl", sync=sync) as writer:
            writer(failing("x"))
            writer(failing("x"))
        assert len(synced) == expected


class _Disk:
    """A file on a disk that takes `room` bytes of the next line, and no more."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self.room = file, room

    def fileno(self) -> int:
        return int(self._file.fileno())

    def write(self, line: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "no space")
        return int(self._file.write(line[: self.room]))

    def close(self) -> None:
        self._file.close()


def test_a_full_disk_spoils_one_line_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Half a line is reported as a failure and ended before the next one; a decision never sees any of it."""
    path = tmp_path / "audit.jsonl"
    with AuditWriter(path) as writer:
        cascade = Cascade(BUNDLE, observers=[writer])
        cascade.decide(SPAM)
        disk = _Disk(writer._file, 20)
        writer._file = disk  # type: ignore[assignment]
        assert cascade.decide(SPAM).label == "spam"
        disk.room = 0
        assert cascade.decide(SPAM).label == "spam"
        disk.room = 1_000_000
        cascade.decide(SPAM)
        cascade.decide(SPAM)
    whole, half, *rest = path.read_text().splitlines()
    assert [json.loads(line)["decision"]["label"] for line in (whole, *rest)] == ["spam"] * 3
    assert len(half) == 20
    assert cascade.observer_failures == 2
    assert "20 of" in caplog.text


def test_a_torn_last_line_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A process was killed while it wrote: the next writer starts on a new line, loses no record, and says so."""
    path = tmp_path / "audit.jsonl"
    path.write_text('{"time": "2026-01-01T12:00:00.000000Z"}\n{"time": "2026-01-0', encoding="utf-8")
    with AuditWriter(path) as writer:
        writer(failing("first"))
        writer(failing("second"))
    _, torn, *whole = path.read_text(encoding="utf-8").splitlines()
    assert torn == '{"time": "2026-01-0'
    assert [json.loads(line)["decision"]["status"] for line in whole] == ["rejected", "rejected"]
    assert f"{path}: the last line is incomplete; the next one starts on a new line" in caplog.text


def test_a_torn_file_that_is_rotated_in(tmp_path: Path) -> None:
    """A file that comes to the path while the writer works is looked at in the same way."""
    path = tmp_path / "audit.jsonl"
    with AuditWriter(path) as writer:
        writer(failing("first"))
        (tmp_path / "other").write_text("half")
        (tmp_path / "other").replace(path)
        writer(failing("second"))
    torn, line = path.read_text(encoding="utf-8").splitlines()
    assert torn == "half"
    assert json.loads(line)["decision"]["status"] == "rejected"


def _decide_on_a_full_disk(cascade: Cascade, limit: int) -> None:
    """Decide where the file may not grow beyond a limit, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    cascade.decide(SPAM, key="worker")
    # What counts the lines of tests writes its own file when the process ends.
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_half_a_line_of_another_process_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A forked worker meets a full disk: the process that has the file open as well loses no record of its own."""
    path = tmp_path / "audit.jsonl"
    with AuditWriter(path) as writer:
        cascade = Cascade(BUNDLE, observers=[writer])
        cascade.decide(SPAM, key="first")
        limit = path.stat().st_size + 20
        worker = multiprocessing.get_context("fork").Process(target=_decide_on_a_full_disk, args=(cascade, limit))
        worker.start()
        worker.join(60)
        assert path.stat().st_size == limit
        cascade.decide(SPAM, key="second")
        cascade.decide(SPAM, key="third")
    first, half, *rest = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["item"] for line in (first, *rest)] == ["first", "second", "third"]
    assert len(half) == 20
    assert cascade.observer_failures == 0
    assert caplog.text.count("the last line is incomplete") == 1


def test_the_end_is_read_only_if_another_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers of one file: whole lines of the other are looked at once, one's own never; a device has no end to look at."""
    looks: list[str] = []
    really = audit_module._ends_with_partial_line

    def look(descriptor: int, path: str) -> bool:
        looks.append(path)
        return really(descriptor, path)

    monkeypatch.setattr(audit_module, "_ends_with_partial_line", look)
    path = tmp_path / "audit.jsonl"
    with AuditWriter(path) as one, AuditWriter(path) as other:
        for writer, seen in ((one, 0), (one, 0), (other, 1), (other, 1), (one, 2), (one, 2)):
            writer(failing("x"))
            assert len(looks) == seen
        os.truncate(path, 0)
        one(failing("x"))
    assert len(lines(path)) == 1
    with AuditWriter("/dev/null") as nowhere:
        nowhere(failing("x"))
        nowhere(failing("x"))
    assert len(looks) == 3


def test_half_a_line_is_waited_for_once_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found at the end is kept although the write fails: the next decision does not wait for it again."""
    waits: list[float] = []
    monkeypatch.setattr(audit_module.time, "sleep", waits.append)
    path = tmp_path / "audit.jsonl"
    path.write_text("half", encoding="utf-8")
    with AuditWriter(path) as writer:
        disk = _Disk(writer._file, 0)
        writer._file = disk  # type: ignore[assignment]
        for _ in range(3):
            with pytest.raises(OSError, match="no space"):
                writer(failing("x"))
        disk.room = 1_000_000
        writer(failing("x"))
    assert len(waits) == 1
    assert path.read_text(encoding="utf-8").startswith('half\n{"time"')


def test_a_line_that_another_process_is_writing_is_not_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows while it is looked at ends with a line under way: no empty line is put after it."""
    path = tmp_path / "audit.jsonl"
    path.write_text('{"a": ', encoding="utf-8")

    def finish(seconds: float) -> None:
        with path.open("a", encoding="utf-8") as other:
            other.write("1}\n")

    monkeypatch.setattr(audit_module.time, "sleep", finish)
    with AuditWriter(path) as writer:
        writer(failing("x"))
    assert len(lines(path)) == 2


def test_what_cannot_be_read_is_only_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may be appended to and not read, and one that is not a regular file, are opened without reading their end."""
    path = tmp_path / "audit.jsonl"
    path.write_text("half", encoding="utf-8")
    really = os.open

    def refuse(name: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_ACCMODE == os.O_RDONLY:
            raise PermissionError(errno.EACCES, "not for you")
        return really(name, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with AuditWriter(path) as writer, AuditWriter("/dev/null") as nowhere:
        writer(failing("x"))
        nowhere(failing("x"))
    assert path.read_text(encoding="utf-8").startswith('half{"time"')


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": "hide"}, 'values: expected "keep", "drop" or "hash", got \'hide\''),
        ({"values": "hash"}, 'key: a secret must be given with values="hash", and only then; got None'),
        ({"values": "drop", "key": b"k"}, 'and only then; got values="drop"'),
        ({"values": "hash", "key": "k"}, "key: expected bytes, at least one, got str"),
        ({"values": "hash", "key": b""}, "key: expected bytes, at least one, got bytes"),
        ({"item": "id"}, "item: expected a function without arguments, got 'id'"),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str, tmp_path: Path) -> None:
    """Invalid options raise at once, and no file is created."""
    with pytest.raises(InputError, match=message):
        AuditWriter(tmp_path / "audit.jsonl", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A missing folder raises when the writer is created, not with the first decision."""
    with pytest.raises(InputError, match=r"path: '.*none/audit.jsonl' cannot be opened for appending: No such file") as caught:
        AuditWriter(tmp_path / "none" / "audit.jsonl")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
