"""Features that are paid together as one gene: exact fronts by units, and how far the genetic search by features is from them.

Two problems with groups whose features cost nothing besides: the spam filter's own features (the SpamAssassin sample; prices are
measured CPU time, and the header features are one group here, at the sum of their prices), and Spambase in blocks of words that
are counted together. For each split: the exact search by units, the genetic search by features and by units, with the default
settings. Designs are chosen at floors on the validation rows; test figures are those of the designs chosen.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from _shared_data import DATA, read_columns
from _spam_sample import ARCHIVE, ARTEFACTS, COLLECTORS, read_sample
from spam_filter.features import HEADER_FEATURES, feature_names
from spam_filter.message.mail import Mail
from spam_filter.model import STORES
from spam_filter.training.costs import measure_costs
from spam_filter.training.extraction import extract
from spam_filter.training.pipeline import TrainingSettings
from spam_filter.training.splitting import find_families, split_mail

from emsco_runtime.cli.console import format_table
from emsco_train import CostGroup, CostModel, Front, Outcome, Problem, Settings
from emsco_train.data.splits import Shares, Splits
from emsco_train.designs.design import Design
from emsco_train.errors import SelectionError
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.runs.front_measurement import measure_designs
from emsco_train.search.searches import run_evolve, run_exhaustive

SPAMBASE = DATA / "spambase.csv"
SPAMBASE_FLOORS = ((0.93, 0.9), (0.94, 0.9), (0.95, 0.9))
SPAM_FLOORS = ((0.97, 0.85), (0.98, 0.85), (0.99, 0.85))
MAX_STAGES = 4
JOBS = 2


@dataclass(frozen=True, slots=True)
class Found:
    """What one search of one split found.

    Parameters
    ----------
    data, split, way
        Which.
    genes, fits, designs, seconds
        What the search moved, fitted and evaluated, and how long it took.
    front, hypervolume
        Designs on the front, and the volume that they dominate on the validation rows.
    costs
        Mean cost, as a share of that of all features, of the cheapest design at each floor; None where none satisfies it.
    test
        Accuracy, coverage and cost of the same designs on the test rows.
    """

    data: str
    split: int
    way: str
    genes: int
    fits: int
    designs: int
    seconds: float
    front: int
    hypervolume: float
    costs: tuple[float | None, ...]
    test: tuple[tuple[float, float, float] | None, ...]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all splits, print medians, and write every search."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3, help="divisions of each table (3)")
    parser.add_argument("--keep-all", action="store_true", help="no feature is left out, as in the paper")
    parser.add_argument("--out", default="build/bench-units.json", help="where the figures go")
    options = parser.parse_args(arguments)
    found: list[Found] = []
    for data, make, floors in _cases():
        for split in range(options.splits):
            problem = make(split)
            for way, search in _ways(exclusion=not options.keep_all):
                found.append(_measure(data, split, way, problem, search, floors))
                print(_line(found[-1]), file=sys.stderr, flush=True)
    if found:
        print(_table(found))
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")


def _cases() -> Iterator[tuple[str, Callable[[int], Problem], tuple[tuple[float, float], ...]]]:
    """Yield the tables that are there."""
    if ARCHIVE.is_file():
        yield "spam filter", spam_filter_problem, SPAM_FLOORS
    if SPAMBASE.is_file():
        yield "Spambase", spambase_problem, SPAMBASE_FLOORS


def _ways(*, exclusion: bool) -> list[tuple[str, Callable[[Problem, int], Outcome]]]:
    settings = Settings(max_stages=MAX_STAGES, keep_all=not exclusion)

    def by(units: str, *, exact: bool) -> Callable[[Problem, int], Outcome]:
        chosen = replace(settings, units=units)
        if exact:
            return lambda problem, _: run_exhaustive(problem, chosen, jobs=JOBS)
        return lambda problem, seed: run_evolve(problem, chosen, seed=seed, jobs=JOBS)

    return [
        ("exact, units", by("groups", exact=True)),
        ("genetic, units", by("groups", exact=False)),
        ("genetic, features", by("features", exact=False)),
    ]


def spambase_problem(split: int) -> Problem:
    """Return Spambase in blocks of ten words, and characters and capitals as one block each, at a price by their number."""
    columns = read_columns(SPAMBASE)
    names = list(columns.features)
    words = [name for name in names if name.startswith("word_freq")]
    blocks = [words[start : start + 10] for start in range(0, len(words), 10)]
    blocks += [[name for name in names if name.startswith(prefix)] for prefix in ("char_freq", "capital_run")]
    groups = [CostGroup(f"block{number}", float(len(block)), tuple(block)) for number, block in enumerate(blocks, start=1)]
    costs = CostModel.from_mapping(dict.fromkeys(names, 0.0), groups=groups)
    shares = Shares(0.4, 0.4, 0.2, 0.0)
    return Problem.of(columns.features, columns.label, costs=costs, threshold=0.75, shares=shares, folds=0, seed=split)


def spam_filter_problem(split: int) -> Problem:
    """Return the spam filter's table of one split by families, with its measured prices."""
    plan = TrainingSettings()
    names = [name for name in feature_names() if name not in ARTEFACTS]
    with tempfile.TemporaryDirectory() as place:
        mails, stores = read_sample(Path(place)), Path(place) / STORES
        families = find_families([Mail.parse(mail.raw) for mail in mails])
        splits = split_mail(mails, families, "families", split)
        rows = extract(mails, splits, families, stores, own_domains=COLLECTORS).rows
        raws = [mail.raw for mail, name in zip(mails, splits, strict=True) if name == "train"]
        profile = measure_costs(stores, raws[:: len(raws) // plan.cost_messages], seed=split)
    return Problem.of(
        {name: np.array([row[name] for row in rows], dtype=float) for name in names},
        [mail.label for mail in mails],
        costs=_with_header_group(profile.cost_model(), names),
        threshold={"ham": plan.ham_threshold, "spam": plan.spam_threshold},
        splits=Splits.from_names(splits),
        folds=0,
        seed=split,
    )


def _with_header_group(measured: CostModel, names: Sequence[str]) -> CostModel:
    """Return measured costs of some features, with those of the header in one group that costs as much as all of them."""
    header = tuple(name for name in names if name in HEADER_FEATURES)
    shared = CostGroup("header", math.fsum(measured.features[name] for name in header), header)
    own = {name: 0.0 if name in header else measured.features[name] for name in names}
    # What is in no group is the only feature of its acquirer.
    return CostModel.from_mapping(own, groups=[shared, *measured.groups], unit=measured.unit)


def _measure(
    data: str,
    split: int,
    way: str,
    problem: Problem,
    search: Callable[[Problem, int], Outcome],
    floors: Sequence[tuple[float, float]],
) -> Found:
    started = time.perf_counter()
    outcome = search(problem, split)
    seconds = time.perf_counter() - started
    chosen = [_cheapest(outcome.front, *floor) for floor in floors]
    there = [design for design in chosen if design is not None]
    measured = iter(list(measure_designs(problem, problem.held_out, there, ProblemFitters(problem))))
    test = [None if design is None else next(measured).figures for design in chosen]
    return Found(
        data,
        split,
        way,
        outcome.genes.n,
        outcome.fits,
        outcome.designs,
        seconds,
        len(outcome.front),
        outcome.front.hypervolume(),
        tuple(None if design is None else design.cost / problem.full_cost for design in chosen),
        tuple(
            None
            if counts is None
            else (counts.right / max(counts.accepted, 1), counts.accepted / counts.rows, counts.cost / problem.full_cost)
            for counts in test
        ),
    )


def _cheapest(front: Front, accuracy: float, coverage: float) -> Design | None:
    try:
        return front.select(min_accuracy=accuracy, min_coverage=coverage, sure=None)
    except SelectionError:
        return None


def _line(one: Found) -> str:
    costs = " ".join("-" if cost is None else f"{cost:.2%}" for cost in one.costs)
    test = " ".join("-" if figures is None else "/".join(f"{figure:.3f}" for figure in figures) for figures in one.test)
    return (
        f"{one.data} {one.split} {one.way}: {one.genes} genes, {one.fits} fits, {one.designs:,} designs, {one.seconds:.1f} s, "
        f"{one.front} on the front, hypervolume {one.hypervolume:.4f}, costs {costs}, test {test}"
    )


def _table(found: Sequence[Found]) -> str:
    """Return medians over the splits; costs are those of the splits on which every way satisfies the floor."""
    rows = []
    for data in dict.fromkeys(one.data for one in found):
        ways = {
            way: [one for one in found if (one.data, one.way) == (data, way)] for way in dict.fromkeys(one.way for one in found)
        }
        floors = range(len(next(iter(ways.values()))[0].costs))
        common = [
            [
                place
                for place in range(len(next(iter(ways.values()))))
                if all(ones[place].costs[floor] is not None for ones in ways.values())
            ]
            for floor in floors
        ]
        for way, ones in ways.items():
            costs = [_median([ones[place].costs[floor] or 0.0 for place in common[floor]], "{:.2%}") for floor in floors]
            rows.append(
                [
                    data,
                    way,
                    str(ones[0].genes),
                    _median([one.fits for one in ones], "{:.0f}"),
                    _median([one.seconds for one in ones], "{:.1f}"),
                    _median([one.hypervolume for one in ones], "{:.4f}"),
                    *costs,
                ]
            )
    return format_table(["data", "search", "genes", "fits", "seconds", "hypervolume", "cost at floor 1", "2", "3"], rows)


def _median(values: Sequence[float], form: str) -> str:
    return form.format(statistics.median(values)) if values else "-"


if __name__ == "__main__":
    main()
