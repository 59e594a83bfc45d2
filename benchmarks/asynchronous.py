"""Deciding in an event loop and in threads, each as a ratio to the bare alternative in the same run: `make bench`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _measure import Measurement, report, time_in_turns

from emsco_runtime import AcquirerPool, Acquirers, Cascade
from emsco_runtime.testing import make_bundle

NAMES = [f"f{index}" for index in range(15)]
FEW = [NAMES[:1], NAMES[1:2], NAMES[2:3]]
STAGES = [NAMES[:4], NAMES[4:9], NAMES[9:]]
ITEMS = 200
ROUNDS = 41
SLOW_S = 0.01
WAIT_S = 0.005
CONCURRENT = 1000


def main() -> None:
    """Measure all lines and print them."""
    lines = [
        instant_sources("3 stages, 1 async acquirer each", FEW, "<= 2.5"),
        instant_sources("3 stages, 15 async acquirers side by side", STAGES, "<= 7"),
        *slow_sources(),
        *concurrent_items(FEW, "<= 1.8"),
        # Not guaranteed, but what to expect: every acquirer is a task, and the garbage collector walks over all of them.
        *concurrent_items(STAGES, "<= 3"),
    ]
    report(lines, "build/bench-asynchronous.json")


def plain_acquirers(names: Sequence[str]) -> Acquirers:
    """Return one trivial acquirer per feature."""
    acquirers = Acquirers()
    for index, name in enumerate(names):
        acquirers.feature(name)(lambda item, index=index: item[index])
    return acquirers


def async_source(index: int) -> Callable[[Any], Awaitable[float]]:
    """Return an async acquirer that answers at once."""

    async def source(item: Any) -> float:
        return float(item[index])

    return source


def rows(count: int) -> list[tuple[float, ...]]:
    """Return items that no stage is sure about."""
    return [tuple(row) for row in np.random.default_rng(0).normal(scale=0.1, size=(count, 15)).tolist()]


def instant_sources(what: str, stages: Sequence[Sequence[str]], target: str) -> Measurement:
    """`decide_async` with async acquirers that answer at once, against `decide` with plain ones."""
    bundle = make_bundle(stages, threshold=1.0)
    names = [name for stage in stages for name in stage]
    acquirers = Acquirers()
    for index, name in enumerate(names):
        acquirers.feature(name)(async_source(index))
    plain, awaited = Cascade(bundle, plain_acquirers(names)), Cascade(bundle, acquirers)
    items = rows(ITEMS)

    async def each() -> int:
        return sum([(await awaited.decide_async(item)).stages for item in items])

    def one_by_one() -> int:
        return sum([plain.decide(item).stages for item in items])

    with asyncio.Runner() as runner:
        assert runner.run(each()) == one_by_one() == len(stages) * ITEMS
        least = time_in_turns({"async": lambda: runner.run(each()), "plain": one_by_one}, rounds=ROUNDS)
    micro = {name: seconds / ITEMS * 1e6 for name, seconds in least.items()}
    return Measurement(
        f"decide_async, {what}",
        micro["async"],
        "decide, plain acquirers",
        micro["plain"],
        "us/item",
        least["async"] / least["plain"],
        target,
    )


def slow_sources() -> list[Measurement]:
    """Ten acquirers of 10 ms in one stage, as coroutines and in threads, against one of them alone."""
    bundle = make_bundle([NAMES[:10]], threshold=1.0)
    threads, coroutines = Acquirers(), Acquirers()
    for index, name in enumerate(NAMES[:10]):

        def waits(item: Any, index: int = index) -> float:
            time.sleep(SLOW_S)
            return float(item[index])

        async def awaits(item: Any, index: int = index) -> float:
            await asyncio.sleep(SLOW_S)
            return float(item[index])

        threads.feature(name)(waits)
        coroutines.feature(name)(awaits)
    pooled, awaited = Cascade(bundle, threads, pool=AcquirerPool(10)), Cascade(bundle, coroutines)
    (item,) = rows(1)
    with asyncio.Runner() as runner:
        works: dict[str, Callable[[], object]] = {
            "async": lambda: runner.run(awaited.decide_async(item)),
            "one coroutine": lambda: runner.run(asyncio.sleep(SLOW_S)),
            "pool": lambda: pooled.decide(item),
            "one thread": lambda: time.sleep(SLOW_S),
        }
        least = time_in_turns(works, rounds=ROUNDS)
    return [
        Measurement(
            f"decide{way}, 10 acquirers of 10 ms in one stage",
            least[name] * 1e3,
            "the slowest acquirer alone",
            least[alone] * 1e3,
            "ms",
            least[name] / least[alone],
            "<= 1.3",
        )
        for way, name, alone in (("_async", "async", "one coroutine"), (" with a pool", "pool", "one thread"))
    ]


def concurrent_items(stages: Sequence[Sequence[str]], target: str) -> list[Measurement]:
    """Measure a thousand decisions at once whose sources wait 5 ms: the bare sources, and what deciding costs, are the base."""
    bundle = make_bundle(stages, threshold=1.0)
    names = [name for stage in stages for name in stage]
    acquirers = Acquirers()
    for index, name in enumerate(names):

        async def source(item: Any, index: int = index) -> float:
            await asyncio.sleep(WAIT_S)
            return float(item[index])

        acquirers.feature(name)(source)
    sources = {entry.names[0]: entry.function for entry in acquirers.entries}
    by_stage = [[sources[name] for name in stage] for stage in stages]
    awaited, plain = Cascade(bundle, acquirers), Cascade(bundle, plain_acquirers(names))
    items = rows(CONCURRENT)

    async def bare(item: Any) -> None:
        for calls in by_stage:
            if len(calls) == 1:
                await calls[0](item)
            else:
                await asyncio.gather(*[source(item) for source in calls])

    async def gather(work: Callable[[Any], Awaitable[Any]]) -> None:
        await asyncio.gather(*[work(item) for item in items])

    with asyncio.Runner() as runner:
        works: dict[str, Callable[[], object]] = {
            "decide_async": lambda: runner.run(gather(awaited.decide_async)),
            "decide_many_async": lambda: runner.run(awaited.decide_many_async(items, concurrency=CONCURRENT)),
            "bare": lambda: runner.run(gather(bare)),
            "plain": lambda: [plain.decide(item) for item in items],
        }
        least = time_in_turns(works, rounds=25)
    return [
        Measurement(
            f"{CONCURRENT:,} at once, {len(names)} sources of 5 ms: {way}, without bare gather",
            (least[way] - least["bare"]) * 1e3,
            f"{CONCURRENT:,} bare decide",
            least["plain"] * 1e3,
            "ms",
            (least[way] - least["bare"]) / least["plain"],
            target,
        )
        for way in ("decide_async", "decide_many_async")
    ]


if __name__ == "__main__":
    Path("build").mkdir(exist_ok=True)
    main()
