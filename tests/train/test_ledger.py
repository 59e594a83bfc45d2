"""The ledger of certify rows: in memory and in a run's folder, by several at the same time, and damaged."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from emsco_runtime.bundle.manifest import PromisedLimits
from emsco_train.errors import DataError, DesignError
from emsco_train.guarantee.ledger import CertifyQuestion, MemoryLedger, check_certify_uses, share_confidence
from emsco_train.guarantee.promise import Promise
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.ledger_file import LEDGER_NAME, LedgerFile, RunLedger
from emsco_train.runs.run_file import RunFile
from tests.train.test_runs_folder import record

FIXED = CertifyQuestion(("0123456789ab",), None, 0.95)
LIMITS = Promise(max_error=0.03, max_error_of={1: 0.1, "spam": 0.1 + 0.2}, min_coverage=0.8, max_cost=2.5).to_limits()
PROMISED = CertifyQuestion(("0123456789ab", "ba9876543210"), LIMITS, 0.975)


def make_ledger(folder: Path, planned: int = 1, *, force: bool = False) -> RunLedger:
    """Write a run with an empty ledger; return the ledger."""
    run = RunFolder(folder)
    run.begin(resume=False, force=force)
    document = record("now").model_copy(update={"certify_uses": planned})
    run.finish({"front.csv": "front"}, document, initial_files={LEDGER_NAME: LedgerFile().text()})
    return RunLedger(run, run.read())


# What counts


def test_a_repetition_is_no_further_use(tmp_path: Path) -> None:
    """The same question has the number that it had; anything else about it is a further use."""
    others = [
        replace(PROMISED, confidence=0.95),
        replace(PROMISED, designs=PROMISED.designs[:1]),
        replace(PROMISED, promise=PromisedLimits(max_error=0.04, max_error_of=(), min_coverage=None, max_cost=None)),
        replace(FIXED, designs=("ffffffffffff",)),
    ]
    for ledger in (MemoryLedger(), make_ledger(tmp_path / "run")):
        assert [ledger.begin(question) for question in (FIXED, PROMISED, FIXED, PROMISED)] == [1, 2, 1, 2]
        assert [ledger.begin(question) for question in others] == [3, 4, 5, 6]
        assert ledger.begin(others[0]) == 3


def test_results_are_filled_in(tmp_path: Path) -> None:
    """A use that was cut short stays a use, without a result, until the same is asked again."""
    memory, file = MemoryLedger(), make_ledger(tmp_path / "run")
    for ledger in (memory, file):
        for question in (FIXED, PROMISED):
            ledger.begin(question)
        ledger.finish(PROMISED, None)
        uses = ledger.uses if isinstance(ledger, MemoryLedger) else ledger.read()
        assert [(use.question, use.result, use.design) for use in uses] == [(FIXED, "unknown", None), (PROMISED, "refused", None)]
        ledger.finish(FIXED, "0123456789ab")
        uses = ledger.uses if isinstance(ledger, MemoryLedger) else ledger.read()
        assert [(use.result, use.design) for use in uses] == [("certified", "0123456789ab"), ("refused", None)]


@given(st.floats(0.5, 0.999), st.integers(1, 1000))
def test_planned_uses_share_the_level(confidence: float, planned: int) -> None:
    """The chances to be wrong add up to the one asked for; a single use has all of it, to the last bit."""
    shared = share_confidence(confidence, planned)
    assert confidence <= shared < 1
    assert planned * (1.0 - shared) == pytest.approx(1.0 - confidence, rel=1e-9)
    assert share_confidence(confidence, 1) == confidence


@pytest.mark.parametrize("number", [0, -1, 1001, 1.0, True, "2", None])
def test_numbers_of_uses_that_are_none(number: object) -> None:
    """A whole number from 1 on, and not so many that nothing could be shown."""
    with pytest.raises(DesignError, match=r"certify_uses is .*: expected a whole number from 1 to 1,000"):
        check_certify_uses(number)


# The file


def test_the_file_is_plain(tmp_path: Path) -> None:
    """Time, what was asked, confidence and result, for people and programs; the run's own check does not mind it."""
    ledger = make_ledger(tmp_path, planned=2)
    assert (ledger.planned, ledger.read()) == (2, ())
    ledger.begin(PROMISED)
    ledger.finish(PROMISED, "ba9876543210")
    document = json.loads((tmp_path / "certify.json").read_text(encoding="utf-8"))
    (use,) = document.pop("uses")
    assert document == {"format": "emsco-certify", "version": 1}
    assert use.pop("time").endswith("Z")
    assert use == {
        "promise": {
            "max_error": 0.03,
            "max_error_of": [{"label": 1, "max_error": 0.1}, {"label": "spam", "max_error": 0.1 + 0.2}],
            "min_coverage": 0.8,
            "max_cost": 2.5,
            "min_recall": [],
        },
        "designs": ["0123456789ab", "ba9876543210"],
        "confidence": 0.975,
        "result": "certified",
        "design": "ba9876543210",
        "drawn": None,
    }
    assert "certify.json" not in RunFolder(tmp_path).read().files
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["certify.json", "front.csv", "run.json"]


def test_it_is_on_the_disk_before_begin_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The content is synced before the file takes its place, and the folder after that."""
    ledger, steps, own = make_ledger(tmp_path), [], (os.fsync, Path.replace)

    def sync(descriptor: int) -> None:
        steps.append("folder" if os.path.samestat(os.fstat(descriptor), tmp_path.stat()) else "file")
        own[0](descriptor)

    def move(given: Path, target: Path) -> Path:
        steps.append("move")
        return own[1](given, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", sync)
        patched.setattr(Path, "replace", move)
        ledger.begin(FIXED)
    assert steps == ["file", "move", "folder"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (None, "No such file or directory"),
        ("", "certify.json: "),
        ('{"format": "emsco-certify", "version": 1, "uses": [{}]}', "uses"),
        ('{"format": "emsco-certify", "version": 2, "uses": []}', "version"),
        ('{"format": "other", "version": 1, "uses": []}', "format"),
        ('{"format": "emsco-certify", "version": 1, "uses": [], "more": 1}', "more"),
    ],
)
def test_a_damaged_file_is_never_reset(tmp_path: Path, damage: str | None, message: str) -> None:
    """Missing, cut off or changed: an error with the file and the remedy, and the file stays as it is."""
    ledger = make_ledger(tmp_path)
    ledger.begin(FIXED)
    path = tmp_path / "certify.json"
    path.unlink() if damage is None else path.write_text(damage, encoding="utf-8")
    for use in (lambda: ledger.begin(PROMISED), lambda: ledger.finish(FIXED, None), ledger.read):
        with pytest.raises(DataError, match=message) as caught:
            use()
        assert str(path) in str(caught.value)
        assert "Restore it, or train again with other certify rows: without it, nobody knows how" in str(caught.value)
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == damage


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a record the certify rows are not used."""
    ledger = make_ledger(tmp_path)

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(
        DesignError, match=r"certify.json cannot be written: Permission denied. A use of the certify rows must be"
    ):
        ledger.begin(FIXED)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["certify.json", "front.csv", "run.json"]


def test_a_new_run_has_a_new_ledger(tmp_path: Path) -> None:
    """A run that takes the place of another begins again; an export that had opened the old one counts in neither."""
    old = make_ledger(tmp_path)
    old.begin(FIXED)
    before = RunFolder(tmp_path).read()
    new = make_ledger(tmp_path, planned=3, force=True)
    assert new.read() == ()
    with pytest.raises(DataError, match="was replaced by another run meanwhile: export again"):
        RunLedger(RunFolder(tmp_path), before).begin(PROMISED)
    # Its result has no entry to go to.
    old.finish(FIXED, None)
    assert new.read() == ()


def use_many(folder: str, run: RunFile, worker: int) -> None:
    """Record some uses of a worker's own, and one that all workers ask for."""
    ledger = RunLedger(RunFolder(folder), run)
    for number in range(10):
        question = CertifyQuestion((f"{worker}-{number}",), None, 0.95)
        ledger.begin(question)
        ledger.begin(FIXED)
        ledger.finish(question, question.designs[0])


def test_exports_at_the_same_time_take_turns(tmp_path: Path) -> None:
    """Four processes at once: every use is there once, with its result, and what all of them ask for once."""
    ledger = make_ledger(tmp_path)
    run = RunFolder(tmp_path).read()
    context = multiprocessing.get_context("forkserver")
    workers = [context.Process(target=use_many, args=(str(tmp_path), run, worker)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    uses = ledger.read()
    names = [use.question.designs[0] for use in uses]
    assert sorted(names) == sorted([*(f"{worker}-{number}" for worker in range(4) for number in range(10)), "0123456789ab"])
    assert all(use.design == use.question.designs[0] for use in uses if use.question != FIXED)
