"""The examples, each run as a script."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@cache
def ran(script: Path) -> subprocess.CompletedProcess[str]:
    """Run a copy of a script in an empty folder, once for all tests."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / script.name
        copy.write_text(script.read_text())
        return subprocess.run([sys.executable, copy], capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(script: Path) -> None:
    """A copy of the script anywhere runs and says nothing on standard error."""
    done = ran(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_tickets_are_looked_up_only_where_needed() -> None:
    """The example shows what it promises: fewer lookups than tickets, and most tickets routed."""
    (script,) = [path for path in EXAMPLES if path.name == "support_tickets.py"]
    shown = ran(script).stdout
    routed, tickets, looked_up = map(int, re.findall(r"routed (\d+) of (\d+).*\n.*looked up (\d+)", shown)[0])
    assert looked_up < tickets / 2 < routed


def test_the_slow_source_is_asked_seldom_and_never_waited_for() -> None:
    """Fewer requests than orders that need them, thanks to the cache; while it hangs, all are answered after three requests."""
    (script,) = [path for path in EXAMPLES if path.name == "slow_lookup.py"]
    shown = ran(script).stdout
    needed, asked = map(int, re.findall(r"needed the risk of (\d+) orders, and asked for it (\d+) times", shown)[0])
    answered, orders, degraded = map(
        int, re.findall(r"it hangs: (\d+) of (\d+) orders got an answer, (\d+) by a fallback", shown)[0]
    )
    assert asked < needed < orders == answered
    assert 0 < degraded < orders
    assert "it was asked 3 times, then the breaker was open" in shown
    assert len(script.read_text().splitlines()) <= 150
