"""Long and wide tables: memory is estimated first, fits end when asked to, and every part of the work is shown."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from emsco_runtime.support.interrupts import defer_interrupts
from emsco_train import DataError, DesignError, Problem, Settings
from emsco_train.cli.phase_progress import PhaseProgress
from emsco_train.cli.train import main as train_main
from emsco_train.data import fit_memory
from emsco_train.data.fit_memory import MAX_FIT_BYTES, check_fit_memory, fit_bytes
from emsco_train.designs.selection import Requirements
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.models.fit_cache import FitCache
from emsco_train.models.logistic.regression import LogisticProblem
from emsco_train.runs.exporting import export_open_run
from emsco_train.runs.opening import open_run
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import train
from emsco_train.search.searches import run_evolve, run_exhaustive
from emsco_train.search.sweep import search_thresholds
from emsco_train.search.workbench import Workbench
from emsco_train.support.phases import Phase
from emsco_train.support.stop_flag import FitStopped, StopFlag
from tests.train.sample_tables import write_wide


def id_table(rows: int = 2000) -> tuple[dict[str, Any], list[str]]:
    """Return three columns of ids and one of numbers, and four labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, rows)
    ids = {f"id{number}": np.array([f"u{row}" for row in rng.permutation(rows)], dtype=object) for number in (1, 2, 3)}
    return {**ids, "a": y + rng.normal(size=rows)}, [f"c{label}" for label in y]


def small_problem(**options: Any) -> Problem:
    """Return a problem of four features."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    return Problem.of(x, (x @ [2.0, 1.0, 0.5, 0.0] + rng.normal(size=300) > 0), threshold=0.8, **options)


# Memory


def test_ids_are_refused_before_memory_is_spent() -> None:
    """Three id columns and four labels would take gigabytes: the error names a column, how many categories, and the remedies."""
    with pytest.raises(
        DataError, match=r"column 'id1' has 800 categories.*would take [\d.]+ GB, 1 GB are allowed.*drop=\('id1',\)"
    ):
        Problem.of(*id_table(), features=ignoring())


def ignoring() -> dict[str, Any]:
    """Return options that ignore unknown ids, as the error about them advises."""
    from emsco_train import FeatureOptions

    return {f"id{number}": FeatureOptions(unknown="ignore") for number in (1, 2, 3)}


def test_the_command_names_its_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line the remedies are options."""
    table, y = id_table()
    path = tmp_path / "t.csv"
    rows = zip(*table.values(), y, strict=True)
    path.write_text("\n".join([",".join([*table, "label"]), *(",".join(map(str, row)) for row in rows)]), encoding="utf-8")
    kinds = [word for number in (1, 2, 3) for word in ("--kind", f"id{number}=categorical")]
    given = ["--data", str(path), "--threshold", "0.9", "--unknown", "ignore", "--out", str(tmp_path / "run"), *kinds]
    # With a curve, a feature of many categories is one column.
    given += ["--stages", "straight"]
    assert train_main(given) == 1
    error = capsys.readouterr().err
    assert re.search(r"column 'id1' has 1,200 categories.*--drop id1.*--min-category 10.*--kind", error), error


def test_rows_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoded rows beyond the machine's memory are refused, too, and so are too many columns of numbers."""
    blocks = small_problem().encoder.blocks
    check_fit_memory(blocks, 2, 10**6)
    with pytest.raises(DataError, match=r"1,000,000,000,000 rows of 4 columns would take .* GB"):
        check_fit_memory(blocks, 2, 10**12)
    monkeypatch.setattr(fit_memory, "MAX_FIT_BYTES", 100)
    with pytest.raises(DataError, match=r"a fit of 4 columns and 2 labels would take .*: give fewer columns, or fewer labels"):
        check_fit_memory(blocks, 2, 10)


def test_threads_share_the_memory_of_fits() -> None:
    """Wide sets are fitted by fewer threads at a time; at least by one."""
    rng = np.random.default_rng(0)
    problem = LogisticProblem(rng.normal(size=(40, 3)), np.arange(40) % 2, 2)
    assert problem._affordable_workers(np.ones((2, 3), dtype=np.bool_), 8) == 8
    wide = np.ones((1, 5000), dtype=np.bool_)
    assert fit_bytes(5000, 1) <= MAX_FIT_BYTES < 2 * fit_bytes(5000, 1)
    assert problem._affordable_workers(wide, 8) == 1


# Ending early


def test_a_fit_that_was_stopped_leaves_no_trace() -> None:
    """Stopped at once, nothing is returned; afterwards the same problem gives the models of one that was never stopped."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 6)), rng.integers(0, 3, 400)
    flag, sets = StopFlag(), np.eye(6, dtype=np.bool_)
    problem = LogisticProblem(x, y, 3, stop=flag)
    for workers in (1, 2):
        flag.array[0] = 1
        with pytest.raises(FitStopped):
            problem.fit(sets, workers=workers)
        flag.array[0] = 0
        assert problem.fit(sets, workers=workers).coef.tolist() == LogisticProblem(x, y, 3).fit(sets).coef.tolist()


@contextmanager
def set_at_once(self: StopFlag, seconds: float | None) -> Iterator[None]:
    """Behave as if the time were over."""
    self.array[0] = 1
    try:
        yield
    finally:
        self.array[0] = 0


@pytest.mark.parametrize("search", [run_evolve, run_exhaustive])
def test_time_over_before_there_is_a_front_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, search: Any) -> None:
    """Where not even the first designs are fitted in time, the error says so, and how wide the models are."""
    problem = small_problem()
    bench = Workbench(problem)
    monkeypatch.setattr(StopFlag, "set_after", set_at_once)
    with pytest.raises(
        DesignError, match=r"time_limit is 5 s, which was over before there was a front: .* 120 rows have 4 columns"
    ):
        search(problem, time_limit=5.0, workbench=bench)
    with pytest.raises(DesignError, match="time_limit is 5 s"):
        list(search_thresholds(problem, [0.8], Settings(), method="auto", seed=0, jobs=1, time_limit=5.0))


def test_time_over_with_slow_stages_names_the_faster_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where boosted trees are not fitted in time, wide columns are not the reason: the error says which stages are faster."""
    rng = np.random.default_rng(0)
    problem = Problem.of(rng.normal(size=(120, 4)), rng.integers(0, 2, 120), threshold=0.8, stages="boosted")
    bench = Workbench(problem)
    monkeypatch.setattr(StopFlag, "set_after", set_at_once)
    with pytest.raises(DesignError, match=r"Raise it, or search with logistic stages, .*upgrade='boosted'"):
        run_evolve(problem, time_limit=5.0, workbench=bench)


def test_fits_that_are_stopped_end_a_search_with_its_front(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that is over during the fits of a generation ends the search as a time limit does: the front so far is kept."""
    fit, calls = FitCache.fit, []

    def stopped_later(self: FitCache, sets: Any, workers: int) -> Any:
        calls.append(len(sets))
        if len(calls) > 2:
            raise FitStopped
        return fit(self, sets, workers)

    monkeypatch.setattr(FitCache, "fit", stopped_later)
    outcome = run_evolve(small_problem(), Settings(population=40, generations=10, max_stages=3, seeded=False), time_limit=60.0)
    assert outcome.stopped == "time"
    assert len(outcome.front) > 0


@njit(nogil=True)
def spin(stop: Any, written: Any, most: int) -> int:  # pragma: no cover - compiled
    """Wait for a number to change, in compiled code that writes to another array meanwhile, for some time at most."""
    rounds = 0
    while stop[0] == 0 and rounds < most:
        written[rounds % 8] += 1
        rounds += 1
    return rounds


@pytest.mark.uncounted
def test_an_interrupt_reaches_compiled_code() -> None:
    """Ctrl-C while the main thread is in compiled code sets the flag that this polls; it is raised afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        stop, written, most = np.zeros(1, dtype=np.int64), np.zeros(8, dtype=np.int64), 10**11
        spin(stop, written, 1)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt), defer_interrupts(stop):
            spin(stop, written, most)
        assert stop[0] == 1
        assert written.sum() < most
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_signals_do_not_stop_the_work() -> None:
    """A signal that is not Ctrl-C wakes the one who watches, and changes nothing."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    other = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        stop = np.zeros(1, dtype=np.int64)
        with defer_interrupts(stop):
            signal.raise_signal(signal.SIGUSR1)
        assert stop[0] == 0
    finally:
        signal.signal(signal.SIGUSR1, other)
        signal.signal(signal.SIGINT, before)


# What is shown


def test_every_part_of_the_work_is_reported(tmp_path: Path) -> None:
    """Reading, dividing, searching, measuring and writing; then, for an export, reading, choosing, fitting and replaying."""
    phases: list[Phase] = []
    data = write_wide(tmp_path / "t.csv", 300, 4)
    trained = train(
        prepare(TrainRequest({None: str(data)}, Columns(), (0.8,)), phases.append), tmp_path / "run", on_phase=phases.append
    )
    names = list(dict.fromkeys(phase.name for phase in phases))
    wanted = [
        "reading t.csv",
        "reading t.csv: 300 rows",
        "looking",
        "dividing and encoding",
        "searching",
        "measuring",
        "writing the run",
    ]
    assert all(name.startswith(word) for name, word in zip(names, wanted, strict=True)), names
    measured = [phase for phase in phases if phase.name.startswith("measuring")]
    assert [phase.done for phase in measured] == list(range(measured[0].total))
    assert measured[0].total <= sum(len(design.stages) for design in trained.front)
    phases.clear()
    opened = open_run(tmp_path / "run", on_phase=phases.append)
    criteria = SelectionCriteria.of(Requirements(), None, max_error=None, max_error_of=None, confidence=0.95)
    export_open_run(opened, tmp_path / "b", criteria, name=None, version="1", force=False, on_phase=phases.append)
    names = list(dict.fromkeys(phase.name for phase in phases))
    assert [name for name in names if name.startswith("replaying")] == [
        f"replaying {part.name} rows" for part in opened.problem.splits()
    ]
    assert {"encoding the rows", "choosing and certifying a design", "fitting the design", "measuring the design"} <= set(names)


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Terminal(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def test_silence_is_filled() -> None:
    """Nothing before there is a phase, or soon after other text; then a line with share and seconds, again after a while."""
    clock, stream = Clock(), io.StringIO()
    shown = PhaseProgress(stream, clock=clock)
    shown.show_if_silent(since=-9.0)
    shown.on_phase(Phase("reading"))
    clock.now = 1.0
    shown.show_if_silent()
    assert stream.getvalue() == ""
    clock.now = 1.9
    shown.show_if_silent()
    shown.show_if_silent()
    shown.on_phase(Phase("measuring", 3, 4))
    shown.stream.write("other\n")
    clock.now = 3.0
    shown.show_if_silent()
    clock.now = 4.0
    shown.on_phase(Phase("measuring", 4, 4))
    shown.show_if_silent()
    assert stream.getvalue() == "reading, 2 s\nother\nmeasuring: 100 % of 4, 2 s\n"


def test_a_terminal_has_one_line() -> None:
    """It is written over, and cleared at the end."""
    clock, stream = Clock(), Terminal()
    with PhaseProgress(stream, clock=clock) as shown:
        shown.on_phase(Phase("reading"))
        clock.now = 1.0
        shown.show_if_silent()
    text = stream.getvalue()
    assert text.startswith("\r\x1b[Kreading, 1 s")
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text
    with pytest.raises(io.UnsupportedOperation):
        shown.stream.fileno()


# Fits that are kept


def test_models_are_kept_until_memory_is_full() -> None:
    """Known sets are not fitted again; the models are the same, whether kept or not."""
    rng = np.random.default_rng(0)
    problem = LogisticProblem(rng.normal(size=(100, 5)), np.arange(100) % 2, 2)
    sets = np.eye(5, dtype=np.bool_)
    wanted = problem.fit(sets)
    for most in (2**20, 1500, 0):
        cache = FitCache(problem, max_bytes=most)
        cache.fit(sets[:2], 1)
        for chosen in (sets, sets[::-1], sets[:1]):
            found = cache.fit(chosen, 1)
            order = [int(np.flatnonzero(row)[0]) for row in chosen]
            assert found.coef.tolist() == wanted.coef[order].tolist()
            assert found.intercept.tolist() == wanted.intercept[order].tolist()
            assert found.passes.tolist() == wanted.passes[order].tolist()
