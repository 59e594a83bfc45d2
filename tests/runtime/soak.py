"""The soak: very many decisions in threads and in an event loop, while sources fail and bundles are replaced.

`python -m tests.runtime.soak --items 300000` runs it and prints its figures as JSON; `test_soak` asserts on them. What is
guaranteed for each decision is in `soak_checker`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import json
import logging
import math
import os
import random
import sys
import tempfile
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from emsco_runtime import Decision
from emsco_runtime.drift.monitor import DriftMonitor
from emsco_runtime.observing.audit_log import AuditWriter
from emsco_runtime.observing.logs import DecisionLogger
from emsco_runtime.serving.reloading import ReloadingCascade
from emsco_runtime.sources import pool as pool_module
from emsco_runtime.sources.pool import AcquirerPool
from tests.runtime.soak_bundles import Version, damage, damaged_copy, link_bundle, versions, write_version
from tests.runtime.soak_checker import LOAD_FAILURES, DecisionChecker, ItemRequest, Model, WrongDecision, check_reference
from tests.runtime.soak_sources import Calls, registry
from tests.runtime.soak_world import World, chunks
from tests.runtime.waiting import our_threads, wait_until

_THREADS = 3
_CORRUPT_EVERY = 4
_MAX_MESSAGES = 20
_KINDS = (*LOAD_FAILURES, "exception", "missing", "wrong_type", "missing_key", "unknown_category")
# Which item is being decided, for the audit lines; of many at once, minus the first item, minus 1.
_ITEM: ContextVar[int | None] = ContextVar("item", default=None)


@dataclass(slots=True)
class Figures:
    """What the soak came to."""

    items: int = 0
    seconds: float = 0.0
    decided: int = 0
    not_decided_once: int = 0
    wrong: int = 0
    messages: list[str] = field(default_factory=list)
    compared_with_reference: int = 0
    calls: int = 0
    sources_called_twice: int = 0
    reloads: int = 0
    corrupt: int = 0
    bundles_seen: int = 0
    audit_lines: int = 0
    audit_wrong: int = 0
    metrics_wrong: list[str] = field(default_factory=list)
    observer_failures: int = 0
    expected_observer_failures: int = 0
    warm_mib: float = 0.0
    most_mib: float = 0.0
    last_mib: float = 0.0
    files_before: int = 0
    files_after: int = 0
    threads_left: list[str] = field(default_factory=list)
    tasks_left: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    injected: dict[str, float] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)


class FailingObserver:
    """An observer that raises now and then."""

    def __init__(self) -> None:
        self.received = self.raised = 0
        self._lock = threading.Lock()

    def __call__(self, _: Decision) -> None:
        """Count, and raise at every thousandth."""
        with self._lock:
            self.received += 1
            if self.received % 1000:
                return
            self.raised += 1
        raise ValueError("I do not like this one")


class CountingHandler(logging.Handler):
    """Counts records instead of writing them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record by its logger."""
        self.counts[record.name] += 1


class BundleHistory:
    """Which bundles may decide: those in service from the beginning of a call to its end.

    Parameters
    ----------
    first
        The id of the first one.
    """

    def __init__(self, first: str) -> None:
        self.history = [first]
        self.least = 0

    def announce(self, number: str) -> None:
        """Note that a bundle may be seen from now on."""
        self.history.append(number)

    def activate(self) -> None:
        """Note that the last one is in service: calls that begin now are decided by it."""
        self.least = len(self.history) - 1

    def allows(self, least: int, bundle: str) -> bool:
        """Return whether a bundle was in service since a call began."""
        return bundle in self.history[least:]


class Soak:
    """One run.

    Parameters
    ----------
    items
        Decisions to be made, one for each item.
    seed
        Of values, faults, options and bundles.
    period_s
        Seconds between reloads.
    folder
        For bundles and audit files.
    """

    def __init__(self, items: int, seed: int, period_s: float, folder: Path) -> None:
        self.world = World(items, seed)
        self.calls = Calls(items, until_refused=True)
        self.versions = versions(seed)
        self.models = {version.id: Model(version) for version in self.versions}
        self.figures = Figures(items=items, injected=self.world.injected())
        self.folder = folder
        self._period_s = period_s
        self._rng = random.Random(seed)
        self._decided = bytearray(b"\1") * items
        self._decided[:] = bytes(items)
        self._costs = array("d", [math.nan]) * items
        self._audited, self._audited_many = bytearray(self._decided), bytearray(self._decided)
        self._audited_costs = array("d", [math.nan]) * items
        self._rotated: list[Path] = []
        self._bundles: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._memory: list[tuple[int, float]] = []
        self._open()

    def _open(self) -> None:
        first = self.versions[0]
        write_version(self.folder / "place", first)
        write_version(self.folder / "version 0", first)
        (self.folder / "link").symlink_to(self.folder / "version 0")
        for number, version in enumerate(self.versions):
            write_version(self.folder / f"version {number}", version)
        self.histories = {True: BundleHistory(first.id), False: BundleHistory(first.id)}
        self.audit = AuditWriter(self.folder / "audit.jsonl", values="hash", key=b"soak", item=_ITEM.get)
        # One stays with the first version, since it is not notified of reloads; the other follows.
        self.drift, self.following = DriftMonitor(first.bundle.manifest), DriftMonitor(first.bundle.manifest)
        self.raising_observer = FailingObserver()
        watching = [self.drift.__call__, self.following, self.raising_observer]
        self.observers: list[Any] = [self.audit, *watching, DecisionLogger("soak.decisions", messages=True)]
        self.registry = _with_extras(self.observers)
        self.pool = AcquirerPool(16, max_abandoned=12)
        # One is asked to look and has a pool for all its calls; the other looks by itself and has one for what needs it.
        self.sync = ReloadingCascade(
            self.folder / "place", registry(self.world, self.calls, asynchronous=False), pool=self.pool, observers=self.observers
        )
        self.asynchronous = ReloadingCascade(
            self.folder / "link",
            registry(self.world, self.calls, asynchronous=True),
            concurrency=4,
            observers=self.observers,
            period_s=min(0.1, self._period_s / 4),
        )

    # Deciding

    def run(self) -> Figures:
        """Decide all items, and return the figures."""
        figures = self.figures
        before, figures.files_before = set(threading.enumerate()), _open_files()
        started = time.perf_counter()
        workers = [
            threading.Thread(target=self._run_worker, args=(work, part), name=f"soak {part}") for part, work in self._workers()
        ]
        publisher = threading.Thread(target=self._run_worker, args=(self._publish, None), name="soak publisher")
        for thread in [*workers, publisher]:
            thread.start()
        for thread in workers:
            thread.join()
        self._done.set()
        publisher.join()
        figures.seconds = time.perf_counter() - started
        self._close(before)
        return figures

    def _workers(self) -> Iterator[tuple[int, Callable[[Iterator[range]], None]]]:
        for part in range(_THREADS):
            yield part, self._decide
        yield _THREADS, self._decide_many
        yield _THREADS + 1, lambda parts: asyncio.run(self._decide_async(parts))

    def _chunks_of(self, part: int | None) -> Iterator[range]:
        """Yield the chunks of a worker: every sixth for each thread, two of six for the loop."""
        for place, chunk in enumerate(chunks(self.world.items)):
            if min(place % (_THREADS + 3), _THREADS + 1) == part:
                yield chunk

    def _run_worker(self, work: Callable[[Iterator[range]], None], part: int | None) -> None:
        try:
            work(self._chunks_of(part))
        except BaseException as error:  # noqa: BLE001 - reported in the figures
            self._record_mismatch(f"{threading.current_thread().name}: {error!r}")

    def _decide(self, parts: Iterator[range]) -> None:
        for chunk in parts:
            for item in chunk:
                request, least = ItemRequest(item, self.world.options(item)), self.histories[False].least
                _ITEM.set(item)
                options = request.options
                decision = self.sync.decide(item, budget=options.budget, deadline_s=options.deadline_s, known=options.known)
                self._check(request, decision, least, by_loop=False)

    def _decide_many(self, parts: Iterator[range]) -> None:
        for chunk in parts:
            each = [self.world.options(item) for item in chunk]
            least = self.histories[False].least
            _ITEM.set(-1 - chunk.start)
            budget, deadline_s, _ = each[0]
            known = [one.known for one in each]
            decisions = self.sync.decide_many(chunk, budget=budget, deadline_s=deadline_s, known=known)
            self._check_many(chunk, decisions, least, by_loop=False)

    async def _decide_async(self, parts: Iterator[range]) -> None:
        async def serve() -> None:
            for chunk in parts:
                if chunk.start // len(chunk) % 2:
                    await self._decide_concurrently(chunk)
                else:
                    await asyncio.gather(*(self._decide_item_async(item) for item in chunk))

        await asyncio.gather(*(serve() for _ in range(3)))
        self.figures.tasks_left = len(asyncio.all_tasks()) - 1

    async def _decide_item_async(self, item: int) -> None:
        request, least = ItemRequest(item, self.world.options(item)), self.histories[True].least
        _ITEM.set(item)
        options = request.options
        decision = await self.asynchronous.decide_async(
            item, budget=options.budget, deadline_s=options.deadline_s, known=options.known
        )
        self._check(request, decision, least, by_loop=True)

    async def _decide_concurrently(self, chunk: range) -> None:
        each = [self.world.options(item) for item in chunk]
        least = self.histories[True].least
        _ITEM.set(-1 - chunk.start)
        budget, deadline_s, _ = each[0]
        decisions = await self.asynchronous.decide_many_async(
            chunk, concurrency=10, budget=budget, deadline_s=deadline_s, known=[one.known for one in each]
        )
        self._check_many(chunk, decisions, least, by_loop=True)

    # Checking

    def _check_many(self, chunk: range, decisions: Sequence[Decision], least: int, *, by_loop: bool) -> None:
        budget, deadline_s, _ = self.world.options(chunk.start)
        for item, decision in zip(chunk, decisions, strict=True):
            options = self.world.options(item)._replace(budget=budget, deadline_s=deadline_s)
            self._check(ItemRequest(item, options, many=not by_loop), decision, least, by_loop=by_loop)

    def _check(self, request: ItemRequest, decision: Decision, least: int, *, by_loop: bool) -> None:
        seen: Counter[str] = Counter()
        compared = False
        model = self.models.get(decision.bundle)
        if model is None or not self.histories[by_loop].allows(least, decision.bundle):
            self._record_mismatch(f"item {request.item}: decided by {decision.bundle[:12]}, which was not in service")
        else:
            try:
                DecisionChecker(model, self.world, self.calls, request, decision, seen).check()
                compared = check_reference(model, self.world, request, decision)
            except WrongDecision as wrong:
                self._record_mismatch(f"item {request.item} by {decision.bundle[:12]}, {request.options}: {wrong}; {decision}")
        if seen["refused"]:
            self.calls.note_refusal()
        with self._lock:
            self._decided[request.item] += 1
            self._costs[request.item] = decision.cost
            self._bundles[decision.bundle] += 1
            self._reasons[decision.reason] += 1
            self._seen.update(seen)
            self._seen["degraded"] += decision.degraded
            self.figures.decided += 1
            self.figures.compared_with_reference += compared

    def _record_mismatch(self, detail: str) -> None:
        with self._lock:
            self.figures.wrong += 1
            if len(self.figures.messages) < _MAX_MESSAGES:
                self.figures.messages.append(detail)

    # Replacing bundles

    def _publish(self, _: Iterator[range]) -> None:
        turn = 0
        current = 0
        rotated = self._rotated
        while not self._done.wait(self._period_s):
            turn += 1
            number = self._rng.choice([one for one in range(len(self.versions)) if one != current])
            if turn % _CORRUPT_EVERY == 0:
                self._publish_corrupt(self.versions[number])
            else:
                self._publish_good(self.versions[number], number)
                current = number
            self._memory.append((self.figures.decided, _resident_mib()))
            rotated += self._rotate(turn)
            # Not the last ones: a line may be on its way to them.
            while len(rotated) > 2:
                self._read_audit(rotated.pop(0))

    def _publish_good(self, version: Version, number: int) -> None:
        self.histories[False].announce(version.id)
        write_version(self.folder / "place", version)
        if self.sync.refresh().after != version.id:
            raise WrongDecision(f"a good bundle was not taken up: {self.sync.last}")
        self.histories[False].activate()
        self.histories[True].announce(version.id)
        link_bundle(self.folder / "link", self.folder / f"version {number}")
        wait_until(lambda: self.asynchronous.manifest.id == version.id, "the watching thread takes up a good bundle")
        self.histories[True].activate()
        self.figures.reloads += 1

    def _publish_corrupt(self, version: Version) -> None:
        write_version(self.folder / "place", version)
        damage(self.folder / "place", self._rng)
        before = self.sync.manifest.id
        detail = self.sync.refresh()
        if detail.outcome != "failed" or self.sync.manifest.id != before:
            raise WrongDecision(f"a damaged bundle was taken up: {detail}")
        damaged_copy(self.folder / "damaged", version, self._rng)
        before, looked = self.asynchronous.manifest.id, self.asynchronous.last
        link_bundle(self.folder / "link", self.folder / "damaged")

        def failed() -> bool:
            last = self.asynchronous.last
            return last is not looked and last is not None and last.outcome == "failed"

        wait_until(failed, "the watching thread refuses a damaged bundle")
        if self.asynchronous.manifest.id != before:
            raise WrongDecision("the watching thread took up a damaged bundle")
        self.figures.corrupt += 1

    # Afterwards

    def _rotate(self, turn: int) -> list[Path]:
        """Move the audit file away, as the platform would; there may be none yet since the last time."""
        found, aside = self.folder / "audit.jsonl", self.folder / f"audit.{turn}"
        if not found.exists():
            return []
        found.rename(aside)
        return [aside]

    def _read_audit(self, path: Path) -> None:
        """Count the lines of an audit file, and take it away."""
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                detail = json.loads(line)
                self.figures.audit_lines += 1
                item = detail["item"]
                if item < 0:
                    self._audited_many[-1 - item] += 1
                else:
                    self._audited[item] += 1
                    self._audited_costs[item] = detail["decision"]["cost"]
        path.unlink()

    def _close(self, before: set[threading.Thread]) -> None:
        figures = self.figures
        self.sync.close()
        self.asynchronous.close()
        wait_until(lambda: not self.pool.counts.abandoned, "abandoned calls end")
        wait_until(lambda: not our_threads(), "the runtime's threads end")
        self.audit.close()
        for path in [*self._rotated, self.folder / "audit.jsonl"]:
            if path.exists():
                self._read_audit(path)
        gc.collect()
        figures.threads_left = [thread.name for thread in threading.enumerate() if thread not in before]
        figures.files_after = _open_files()
        figures.not_decided_once = sum(count != 1 for count in self._decided)
        figures.calls, figures.sources_called_twice = self.calls.total(), self.calls.repeated()
        figures.bundles_seen = len(self._bundles)
        figures.reasons, figures.seen = dict(self._reasons), dict(self._seen)
        figures.audit_wrong = sum(map(self._is_audited_wrongly, chunks(figures.items)))
        figures.observer_failures = self.sync.current._observers.failures + self.asynchronous.current._observers.failures
        figures.expected_observer_failures = self.raising_observer.raised
        figures.metrics_wrong = self._metrics_wrong()
        self._record_memory()

    def _is_audited_wrongly(self, chunk: range) -> bool:
        """Return whether a chunk's lines are not one for each item, with its bill."""
        if self._audited_many[chunk.start]:
            return self._audited_many[chunk.start] != len(chunk) or any(self._audited[item] for item in chunk)
        return any(self._audited[item] != 1 or self._audited_costs[item] != self._costs[item] for item in chunk)

    def _metrics_wrong(self) -> list[str]:
        """Return where the metrics and the monitor differ from the decisions."""
        wrong = []
        mine = self._bundles[self.versions[0].id]
        if self.drift.status.items != mine:
            wrong.append(f"drift: {self.drift.status.items} items, expected {mine}")
        if self.following.manifest.id != self.sync.manifest.id:
            wrong.append(f"drift: {self.following.manifest.id} is followed, {self.sync.manifest.id} is in service")
        if self.registry is None:
            return wrong
        expected = {
            "emsco_decisions_total": self.figures.decided,
            "emsco_decision_cost_count": self.figures.decided,
            "emsco_decision_seconds_count": self.figures.decided,
            "emsco_degraded_decisions_total": self._seen["degraded"],
            "emsco_acquirer_cached_total": self._seen["values from caches"],
            "emsco_acquirer_failures_total": sum(self._seen[kind] for kind in _KINDS),
            "emsco_observer_failures_total": self.raising_observer.raised,
        }
        got: Counter[str] = Counter()
        for family in self.registry.collect():
            for sample in family.samples:
                got[sample.name] += sample.value
        wrong += [f"{name}: {got[name]}, expected {value}" for name, value in expected.items() if got[name] != value]
        bill, billed = math.fsum(self._costs), got["emsco_decision_cost_sum"]
        if not math.isclose(bill, billed, rel_tol=1e-9):
            wrong.append(f"emsco_decision_cost_sum: {billed}, expected {bill}")
        return wrong

    def _record_memory(self) -> None:
        """Tell the resident memory at the end of the warm-up, the first fifth, and the most and the last after it."""
        after = [mib for decided, mib in self._memory if decided >= self.figures.items / 5]
        if after:
            self.figures.warm_mib, self.figures.most_mib, self.figures.last_mib = after[0], max(after), after[-1]


def _with_extras(observers: list[Any]) -> Any:
    """Add the observers whose extras are installed; return the registry of the metrics, or None."""
    if importlib.util.find_spec("opentelemetry") is not None:
        from emsco_runtime.observing.tracing import DecisionTracer

        observers.append(DecisionTracer())
    if importlib.util.find_spec("prometheus_client") is None:
        return None
    from prometheus_client import CollectorRegistry

    from emsco_runtime.observing.prometheus import Metrics

    made = CollectorRegistry()
    observers.append(Metrics(registry=made))
    return made


def _resident_mib() -> float:
    """Return the resident memory; 0 where the system does not report it this way."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _open_files() -> int:
    found = Path("/proc/self/fd")
    return len(list(found.iterdir())) if found.exists() else 0


def main() -> int:
    """Run the soak and print its figures."""
    parser = argparse.ArgumentParser(description="Decide very many items while sources fail and bundles are replaced.")
    parser.add_argument("--items", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--period", type=float, default=1.0, help="seconds between reloads")
    request = parser.parse_args()
    # So that the end need not be waited for half a minute.
    pool_module._IDLE_S = 1.0
    handler = CountingHandler()
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        figures = Soak(request.items, request.seed, request.period, Path(folder)).run()
    sys.stdout.write(json.dumps({**asdict(figures), "logged": handler.counts}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
