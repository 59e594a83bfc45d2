"""What all tests share: no property is a matter of time, and processes do not get into each other's way."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, and not wrong: how long an example takes, or takes to draw, says nothing about what is tested. The same
# commit draws the same examples and so has one verdict; `make properties` draws many others.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("quick", settings.get_profile("full"), max_examples=25)
settings.register_profile("random", settings.get_profile("full"), max_examples=1000, derandomize=False)
settings.load_profile("quick")


def _open_the_lock_of_coverage() -> None:
    """Give coverage a new lock in a forked child: it takes it at every call, and another thread may have held it at the fork."""
    coverage = sys.modules.get("coverage")
    measuring = coverage.Coverage.current() if coverage else None
    if measuring is not None and measuring._collector is not None and measuring._collector.data_lock is not None:
        measuring._collector.data_lock = threading.Lock()


# Before ours: hooks run in the order in which they were registered, and ours are measured.
os.register_at_fork(after_in_child=_open_the_lock_of_coverage)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave all that is imported before the first test out of later garbage collections.

    It is most of what there is, takes long to look at, and many tests collect garbage to see that nothing is left over.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


# Files that take long, longest first: the one that is started last must not keep a core busy when all others are done.
_LONGEST = (
    "test_readme.py",
    "test_example_readme.py",
    "test_estimator.py",
    "test_resumed_runs.py",
    "test_faults.py",
    "test_folds.py",
    "test_killed_searches.py",
    "test_killed_export.py",
    "test_guarantee_joint_proof.py",
    "test_borderline.py",
    "test_soak.py",
    "test_cli_certify_uses.py",
    "test_cli_train.py",
    "test_cli_export.py",
    "test_upgrade.py",
    "test_directions.py",
    "test_vector_training.py",
    "test_report.py",
    "test_commands.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long forms to `make proofs`; begin with the files that take long: `make unit` hands out whole files in this order."""
    if "EMSCO_PROOFS" not in os.environ:
        long_forms = [item for item in items if item.get_closest_marker("proof")]
        config.hook.pytest_deselected(items=long_forms)
        items[:] = [item for item in items if item not in long_forms]
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is about the project and its example: their lines are not counted."""
    if item.path.relative_to(Path(__file__).parent).parts[0] in ("project", "spam_filter"):
        item.add_marker("uncounted")
