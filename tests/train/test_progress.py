"""What is shown during long work: how often, which text, and where."""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from emsco_train.designs.front import Front
from emsco_train.designs.genes import Genes
from emsco_train.search.genetic.evolution import Generation
from emsco_train.search.pace import Step
from emsco_train.search.progress import Progress, _duration
from emsco_train.search.searches import Outcome


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        """Start at a time that is not 0."""
        self.now = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class Terminal(io.StringIO):
    """Text that takes itself for a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def generation(number: int, *, front: int = 5) -> Generation:
    """Return a record of a run of a hundred generations."""
    return Generation(number, 100, 40, front, 1.0, 1.23456, (0, 1), 40 * number, 0.0)


def outcome(stopped: str, polished: str | None = None) -> Outcome:
    """Return an outcome without designs."""
    return Outcome(Front([], full_cost=1.0), "evolve", stopped, 1_234, 56, Genes((0, 1, 0)), polished)  # type: ignore[arg-type]


def test_plain_lines_are_rare_and_the_last_is_written() -> None:
    """A hundred generations in 20 s, a line every 5 s, and the last one; each with front, fitness and time left."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, what="0.9", every_s=5.0, clock=clock) as progress:
        for number in range(100):
            progress.on_generation(generation(number))
            clock.now += 0.2
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == [f"0.9: generation {number} of 100" for number in (25, 50, 75, 99)]
    assert lines[0] == "0.9: generation 25 of 100, 5 designs on the front, best fitness 1.2346, about 15 s left"
    assert lines[3].endswith("about 0.2 s left")


def test_a_quick_search_writes_its_last_line_only() -> None:
    """Less than every few seconds: one line for the last state, not one for each phase before it."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, clock=clock) as progress:
        progress.on_progress(Step("first", 40, 40))
        progress.on_generation(generation(0))
        progress.on_generation(generation(100, front=1))
    assert stream.getvalue() == "generation 100 of 100, 1 design on the front, best fitness 1.2346\n"


def test_nothing_reported_nothing_written() -> None:
    """No update, no line; nor is a line written twice when it is closed twice."""
    stream = io.StringIO()
    with Progress(stream) as progress:
        pass
    assert stream.getvalue() == ""
    progress.on_generation(generation(3))
    progress.close()
    progress.close()
    assert stream.getvalue().count("\n") == 1


def test_a_phase_that_was_shown_is_shown_to_its_end() -> None:
    """Fits that took a while end with 100 %; then come the designs, with a time left of their own."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, every_s=5.0, clock=clock) as progress:
        for done in (0, 1_000, 2_000, 4_000):
            progress.on_progress(Step("fits", done, 4_000))
            clock.now += 3.0
        progress.on_progress(Step("designs", 0, 1_000_000, 0))
        clock.now += 6.0
        progress.on_progress(Step("designs", 250_000, 1_000_000, 7))
    assert stream.getvalue().splitlines() == [
        "exact search, 50 % of 4,000 feature sets fitted, about 6.0 s left",
        "exact search, 100 % of 4,000 feature sets fitted",
        "exact search, 25 % of 1,000,000 designs visited, 7 designs on the front, about 18 s left",
    ]


def test_resumed_runs_are_timed_from_where_they_started() -> None:
    """A run that continues at generation 50 has a rate of its own; what was before is not counted as done now."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, clock=clock) as progress:
        progress.on_generation(generation(50))
        clock.now += 10.0
        progress.on_generation(generation(60))
    assert "about 40 s left" in stream.getvalue()


def test_no_more_time_is_announced_than_the_limit_leaves() -> None:
    """Ninety seconds by the rate, fifteen by the limit: fifteen; before there is a rate, the limit alone; then none."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, time_limit=25.0, every_s=0.0, clock=clock) as progress:
        progress.on_progress(Step("polish", 0, 100, 3))
        clock.now += 10.0
        progress.on_progress(Step("polish", 10, 100, 3))
        clock.now += 20.0
        progress.on_progress(Step("polish", 20, 100, 3))
    lines = stream.getvalue().splitlines()
    assert [line.rsplit(", ", 1)[1] for line in lines] == ["about 25 s left", "about 15 s left", "about 0.0 s left"]
    assert lines[0].startswith("polish, 0 % of 100 designs at most, 3 designs on the front")


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.integers(0, 100)), min_size=1, max_size=40), st.floats(0.1, 10.0))
def test_lines_are_never_closer_than_requested(moments: list[tuple[float, int]], every_s: float) -> None:
    """Whatever is reported whenever: two lines are at least `every_s` seconds apart, but for the last."""
    clock, written = Clock(), []

    class Timed(io.StringIO):
        def write(self, text: str) -> int:
            written.append(clock.now)
            return super().write(text)

    with Progress(Timed(), every_s=every_s, clock=clock) as progress:
        for wait, number in moments:
            clock.now += wait
            progress.on_generation(generation(number))
    assert all(two - one >= every_s for one, two in pairwise(written[:-1]))
    assert written


@pytest.mark.parametrize(
    ("stopped", "polished", "message"),
    [
        ("generations", None, "done"),
        ("complete", None, "done"),
        ("generations", "time", "done"),
        ("time", None, "time limit reached, the front so far is kept"),
        ("interrupted", None, "interrupted, the front so far is kept"),
        ("time", "time", "time limit reached during the polish, the front so far is kept"),
        ("interrupted", "interrupted", "interrupted during the polish, the front so far is kept"),
        ("interrupted", "skipped", "interrupted before the polish, the front so far is kept"),
    ],
)
def test_the_end(stopped: str, polished: str | None, message: str) -> None:
    """One line says why it ended, whether all was done, and what was found."""
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, what="ham=0.9", clock=clock)
    clock.now += 75.0
    progress.ended(outcome(stopped, polished))
    assert stream.getvalue() == (
        f"ham=0.9: {message}: 0 designs on the front, 1,234 evaluated, 56 feature sets fitted (3 features in 2 units), "
        "1 min 15 s\n"
    )


def test_a_bar_on_a_terminal() -> None:
    """The same text after a bar that is updated ten times a second; it is full at the end, and the end has its own line."""
    clock, stream = Clock(), Terminal()
    with Progress(stream, what="{0.9}", clock=clock) as progress:
        for number in range(0, 101, 2):
            progress.on_generation(generation(number))
            clock.now += 0.0625
        progress.ended(outcome("generations"))
    shown = stream.getvalue()
    drawn = [part for part in shown.split("\r") if "generation" in part]
    assert 25 <= len(drawn) <= 28
    assert drawn[-1].startswith("{0.9}: 100%|####################| generation 100 of 100, 5 designs on the front, best fitness")
    assert "left" in drawn[len(drawn) // 2]
    assert shown.splitlines()[-1].startswith("{0.9}: done: ")


def test_each_phase_has_a_bar_of_its_own() -> None:
    """Fits, then designs: two bars, one under the other."""
    clock, stream = Clock(), Terminal()
    with Progress(stream, clock=clock) as progress:
        for phase in ("fits", "designs"):
            for done in range(11):
                clock.now += 0.2
                progress.on_progress(Step(phase, done, 10))  # type: ignore[arg-type]
    whole = [line.rsplit("| ", 1)[1].strip() for line in stream.getvalue().splitlines() if "100%" in line]
    assert list(dict.fromkeys(whole)) == [
        "exact search, 100 % of 10 feature sets fitted",
        "exact search, 100 % of 10 designs visited",
    ]


def test_the_last_state_is_shown_when_work_fails() -> None:
    """An error in the work closes the progress, with its last state, and is raised."""
    stream = io.StringIO()

    def fail() -> None:
        with Progress(stream) as progress:
            progress.on_generation(generation(7))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert stream.getvalue().startswith("generation 7 of 100")


def test_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing on standard output, which may be piped on."""
    with Progress() as progress:
        progress.on_generation(generation(1))
    assert capsys.readouterr() == ("", "generation 1 of 100, 5 designs on the front, best fitness 1.2346\n")


def test_durations() -> None:
    """Rounded as people write it: no 60 s, no 60 min."""
    assert [_duration(seconds) for seconds in (9.96, 59.4, 59.6, 3_599.6)] == ["10.0 s", "59 s", "1 min 00 s", "1 h 00 min"]


def test_tqdm_is_loaded_for_terminals_only() -> None:
    """Importing the module, and plain lines, do without it."""
    code = "import sys, io, emsco_train.search.progress as p; p.Progress(io.StringIO()).close(); print('tqdm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
