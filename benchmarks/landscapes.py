"""The paper's three landscapes: the exact front, and the share of it that the genetic algorithm finds, plain and with `polish`.

A share is counted in objective vectors (accepted, right, cost): those of the exact front that the search's front holds, of all.
Costs and splits are in `_shared_data.py`; docs/experiments.md has the results.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from _shared_data import LANDSCAPES

from emsco_train.data.problem import Problem
from emsco_train.designs.front import Front
from emsco_train.search.searches import run_evolve, run_exhaustive
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

# Wanted of the plain algorithm, by number of stages.
WANTED = {2: 0.95, 3: 0.80}


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one data set at one number of stages.

    Parameters
    ----------
    data
        The data set.
    split
        Seed of its split.
    stages
        Most stages of a design (k).
    vectors
        Size of the exact front: objective vectors.
    designs
        Designs tied on them.
    exact_s
        Seconds of the exact search, fits included where it is the first.
    plain, polish
        Share found by each seed.
    plain_evaluations, polish_evaluations
        Mean number of designs evaluated by a run.
    plain_s, polish_s
        Mean seconds of a run.
    stopped
        Why each plain run ended.
    """

    data: str
    split: int
    stages: int
    vectors: int
    designs: int
    exact_s: float
    plain: tuple[float, ...]
    polish: tuple[float, ...]
    plain_evaluations: float
    polish_evaluations: float
    plain_s: float
    polish_s: float
    stopped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Runs:
    shares: tuple[float, ...]
    evaluations: float
    seconds: float
    stopped: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=sorted(LANDSCAPES), default=list(LANDSCAPES), help="data sets (all)")
    parser.add_argument("--stages", nargs="+", type=int, default=[2, 3, 4], help="numbers of stages (2 3 4)")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each kind (10)")
    parser.add_argument("--splits", nargs="+", type=int, default=[0], help="seeds of the split (0)")
    parser.add_argument("--no-polish", action="store_true", help="the plain algorithm only")
    parser.add_argument("--tuned", action="store_true", help="the rates that the paper lists for each data set, not its defaults")
    parser.add_argument("--share-ties", action="store_true", help="tied designs share one place on the roulette wheel")
    parser.add_argument("--revisit", action="store_true", help="children may be designs met before, as in the paper")
    parser.add_argument("--papers-ties", action="store_true", help="count chromosomes, not objective vectors, as the paper does")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="threads for the fits and the exact search")
    options = parser.parse_args(arguments)
    absent = [name for name in options.data if not LANDSCAPES[name].path.exists()]
    if absent:
        sys.exit(f"the data of {', '.join(absent)} are not beside the project: nothing is measured")
    results: list[Result] = []
    print(_HEADER)
    for name in options.data:
        settings = replace(
            LANDSCAPES[name].tuned if options.tuned else Settings(),
            keep_all=True,
            share_ties=options.share_ties,
            revisit=options.revisit,
            distinct="chromosomes" if options.papers_ties else "objectives",
        )
        for split in options.splits:
            problem = LANDSCAPES[name].problem(split)
            bench = Workbench(problem, jobs=options.jobs)
            for stages in options.stages:
                chosen = replace(settings, max_stages=stages)
                result = measure(problem, bench, name, split, chosen, options.seeds, polish=not options.no_polish)
                print(format_result(result), flush=True)
                results.append(result)
    target = Path("build/bench-landscapes.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    print(f"\nwritten to {target}")


def measure(problem: Problem, bench: Workbench, data: str, split: int, settings: Settings, seeds: int, *, polish: bool) -> Result:
    """Search one landscape exactly and with every seed.

    Parameters
    ----------
    problem
        The problem.
    bench
        Its workbench: all searches share the fits.
    data, split
        What the problem is called.
    settings
        Of the plain algorithm, with the number of stages.
    seeds
        How many runs of each kind.
    polish
        Whether to run with polish as well.
    """
    started = time.perf_counter()
    exact = run_exhaustive(problem, settings, workbench=bench, jobs=bench.jobs).front
    exact_s = time.perf_counter() - started
    plain = _runs(problem, bench, settings, exact, seeds)
    polished = _runs(problem, bench, replace(settings, polish=True), exact, seeds if polish else 0)
    assert settings.max_stages is not None
    return Result(
        data=data,
        split=split,
        stages=settings.max_stages,
        vectors=len(exact),
        designs=sum(design.ties for design in exact),
        exact_s=exact_s,
        plain=plain.shares,
        polish=polished.shares,
        plain_evaluations=plain.evaluations,
        polish_evaluations=polished.evaluations,
        plain_s=plain.seconds,
        polish_s=polished.seconds,
        stopped=plain.stopped,
    )


def vectors(front: Front, rows: int) -> set[tuple[int, int, float]]:
    """Return the objective vectors of a front: accepted, right, mean cost."""
    found = set()
    for design in front:
        counts = design.with_rows(rows).counts
        # The cost is one correctly rounded quotient of exact numbers, so equal vectors have equal floats.
        found.add((counts.accepted, counts.right, counts.cost))
    return found


def share(front: Front, exact: Front, rows: int) -> float:
    """Return which share of the exact front's objective vectors a front holds."""
    wanted = vectors(exact, rows)
    return len(vectors(front, rows) & wanted) / len(wanted)


def _runs(problem: Problem, bench: Workbench, settings: Settings, exact: Front, seeds: int) -> _Runs:
    started = time.perf_counter()
    found = [run_evolve(problem, settings, seed=seed, workbench=bench) for seed in range(seeds)]
    seconds = (time.perf_counter() - started) / max(seeds, 1)
    return _Runs(
        tuple(share(outcome.front, exact, len(problem.validation)) for outcome in found),
        statistics.fmean(outcome.designs for outcome in found) if found else 0.0,
        seconds,
        tuple(outcome.stopped for outcome in found),
    )


_HEADER = (
    "data    split  k  vectors  designs  exact s |  plain mean   min  evaluations     s  stopped"
    "                  | polish mean   min  evaluations     s"
)


def format_result(result: Result) -> str:
    """Return one line of the table."""
    stopped = ", ".join(f"{rule} {result.stopped.count(rule)}" for rule in sorted(set(result.stopped)))
    wanted = WANTED.get(result.stages)
    mark = " " if wanted is None else "+" if statistics.fmean(result.plain) >= wanted else "-"
    front = f"{result.data:7} {result.split:5} {result.stages:2} {result.vectors:8} {result.designs:8} {result.exact_s:8.1f}"
    plain = f"{_percent(result.plain)} {result.plain_evaluations:12,.0f} {result.plain_s:5.1f}  {mark} {stopped:22}"
    polish = f"{_percent(result.polish)} {result.polish_evaluations:12,.0f} {result.polish_s:5.1f}" if result.polish else ""
    return f"{front} | {plain} | {polish}".rstrip()


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * statistics.fmean(shares):11.1f} {100 * min(shares):5.1f}"


if __name__ == "__main__":
    main()
