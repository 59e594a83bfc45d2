"""Shared syncs: each caller is covered by a sync that began after it asked, and many callers share few of them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from spam_filter.service.folder_sync import FolderSync


def test_every_name_is_synced_after_it_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen threads write and sync 20 files each: when `sync` returns, a sync that began after the file was there has ended."""
    lock = threading.Lock()
    synced: set[str] = set()
    calls = 0

    def slow(_: int) -> None:
        nonlocal calls
        there = {path.name for path in tmp_path.iterdir()}
        time.sleep(0.002)
        with lock:
            synced.update(there)
            calls += 1

    monkeypatch.setattr(os, "fsync", slow)
    folder = FolderSync(tmp_path)
    missing: list[str] = []

    def work(number: int) -> None:
        for turn in range(20):
            path = tmp_path / f"{number}-{turn}"
            path.write_bytes(b"")
            folder.sync()
            with lock:
                if path.name not in synced:
                    missing.append(path.name)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missing
    assert calls < 16 * 20 / 2


def test_a_sync_that_fails_fails_for_everyone_it_was_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody takes the failure of another for success; when the disk is well again, so is the next sync."""
    folder = FolderSync(tmp_path)
    sync = os.fsync

    def broken(_: int) -> None:
        time.sleep(0.01)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    failures: list[OSError] = []

    def work() -> None:
        try:
            folder.sync()
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 6
    monkeypatch.setattr(os, "fsync", sync)
    folder.sync()
