"""What observers add to `decide`, each as a ratio to the same cascade without any: `make bench`."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from _measure import Measurement, report, time_in_turns
from prometheus_client import CollectorRegistry

from emsco_runtime import Acquirers, Bundle, Cascade
from emsco_runtime.observing.audit_log import AuditWriter
from emsco_runtime.observing.logs import DecisionLogger
from emsco_runtime.observing.observers import Observer
from emsco_runtime.observing.prometheus import Metrics
from emsco_runtime.observing.tracing import DecisionTracer
from emsco_runtime.testing import make_bundle

NAMES = [f"f{index}" for index in range(15)]
STAGES = [NAMES[:4], NAMES[4:9], NAMES[9:]]
ITEMS = 200
ROUNDS = 41
OFF = "no observer"
# The first two are guaranteed, and the third shows the noise of the machine; the rest is what to expect, with room.
TARGETS = {
    "metrics, acquirers not timed": "<= 1.3",
    "metrics": "<= 2.2",
    "no observer, measured again": "<= 1.05",
    "an observer that does nothing": "<= 1.1",
    "logging, level off": "<= 1.1",
    "tracing, no SDK": "<= 1.3",
    "audit": "<= 5",
}
# In prometheus_client's multi-process mode, which is chosen when it is imported: measured in a separate process. The guarantees
# are missed there: each number is written through to a shared file by that library, which has no way to add several at once.
SEVERAL = {
    "metrics of several processes, acquirers not timed": "<= 1.3",
    "metrics of several processes": "<= 2.2",
}


def main() -> None:
    """Measure all lines and print them."""
    bundle = make_bundle(STAGES, threshold=1.0)
    silent = logging.getLogger("benchmark.silent")
    silent.setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, AuditWriter(f"{folder}/audit.jsonl") as audit:
        observers: dict[str, Sequence[Observer]] = {
            OFF: (),
            "metrics, acquirers not timed": [Metrics(registry=CollectorRegistry(), acquirers=False)],
            "metrics": [Metrics(registry=CollectorRegistry())],
            "no observer, measured again": (),
            "an observer that does nothing": [bool],
            "logging, level off": [DecisionLogger(silent)],
            "tracing, no SDK": [DecisionTracer()],
            "audit": [audit],
        }
        least = time_in_turns({name: work(bundle, chosen) for name, chosen in observers.items()}, rounds=ROUNDS)
    report([*table(least, TARGETS), *several_processes()], "build/bench-observers.json")


def table(least: Mapping[str, float], targets: Mapping[str, str]) -> list[Measurement]:
    """Return the lines of some observers."""
    micro = {name: seconds / ITEMS * 1e6 for name, seconds in least.items()}
    return [
        Measurement(name, micro[name], OFF, micro[OFF], "us/item", least[name] / least[OFF], target)
        for name, target in targets.items()
    ]


def several_processes() -> list[Measurement]:
    """Return the lines of metrics in the multi-process mode."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": folder}
        command = [sys.executable, __file__, "--several"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return table(json.loads(done.stdout), SEVERAL)


def measure_several() -> None:
    """Measure them, and print the seconds."""
    bundle = make_bundle(STAGES, threshold=1.0)
    without, timed = SEVERAL
    works = {
        OFF: work(bundle, ()),
        without: work(bundle, [Metrics(registry=CollectorRegistry(), acquirers=False)]),
        timed: work(bundle, [Metrics(registry=CollectorRegistry(), prefix="timed")]),
    }
    print(json.dumps(time_in_turns(works, rounds=ROUNDS)))


def work(bundle: Bundle, observers: Sequence[Observer]) -> Callable[[], None]:
    """Return the work of deciding all items, which walk three stages and call fifteen trivial acquirers."""
    acquirers = Acquirers()
    for index, name in enumerate(NAMES):
        acquirers.feature(name)(lambda item, index=index: item[index])
    cascade = Cascade(bundle, acquirers, observers=observers)
    items = [tuple(row) for row in np.random.default_rng(0).normal(scale=0.1, size=(ITEMS, 15)).tolist()]
    assert all(cascade.decide(item).stages == 3 for item in items)

    def run() -> None:
        for item in items:
            cascade.decide(item)

    return run


if __name__ == "__main__":
    Path("build").mkdir(exist_ok=True)
    if "--several" in sys.argv:
        measure_several()
    else:
        main()
