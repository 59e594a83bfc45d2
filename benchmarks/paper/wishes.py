"""(d) EMSCO as this project is used by default, beside LightGBM and CEGB fitted on the same rows.

Three quarters of the rows are one pool. EMSCO cross-fits on it (five folds; two in the quick form), with curved stages upgraded
to boosted ones and a ladder of thresholds. A wish is a floor for the accuracy and a cap for the cost, as a share of the cost of
all features: the design that covers most is taken, by bounds at the default level. Another wish is to match all features at
once: the cheapest design that decides differently from one stage of all features, at some threshold, in at most a quarter or a
tenth as many rows as that one gets wrong where it answers all; and that one itself if none does. The peers are fitted on the
whole pool, and measured at every threshold. Nothing is tuned on the peers' results: the wishes were written down before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from emsco_train import Design, Problem, Settings
from emsco_train.baselines import BoostedTrees, CostEffectiveTrees, FittedMethod
from emsco_train.data.problem import ScoredPart
from emsco_train.designs.counts import Counts
from emsco_train.designs.selection import MatchEverything, Requirements
from emsco_train.errors import SelectionError
from emsco_train.export.matching_choice import evaluate_all_features, find_matching_design
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_front
from emsco_train.search.sweep import search_thresholds
from paper.alternatives import QUICK_SETTINGS, SETTINGS, TRADE_OFFS
from paper.datasets import ALL_DATA, QUICK_ROWS, load
from paper.figures import count_test, fit_emsco
from paper.tasks import Plan, measure_missing

OWN = "EMSCO"
MATCHING = "EMSCO, matching"
FOLDS = 5
QUICK_FOLDS = 2
FLOORS = {
    "pima": (0.74, 0.78, 0.82),
    "credit": (0.88, 0.9, 0.92, 0.94),
    "heart": (0.84, 0.88, 0.92),
    "synthetic50": (0.93, 0.95, 0.97, 0.98),
    "synthetic15": (0.93, 0.95, 0.97, 0.98),
    "spambase": (0.95, 0.96, 0.97, 0.98),
    "nsl_kdd": (0.99, 0.995, 0.997, 0.998),
}
CAPS = (0.25, 0.5, 0.75)
MATCH_THRESHOLDS = (0.7, 0.8, 0.9, 0.95)
QUICK_MATCH_THRESHOLDS = (0.9,)
# Of the rows that all features at once get wrong: in how many, by number, a design may decide differently.
MATCH_SHARES = (0.25, 0.1)
# As if it were wrong in so many at least.
LEAST_ERROR = 0.001
# In small steps of the log-odds, up to 0.999: a peer is to stand where it covers as much as EMSCO.
THRESHOLDS = tuple(round(1 / (1 + math.exp(-step / 8)), 4) for step in range(57))


@dataclass(frozen=True, slots=True)
class WishRow:
    """Test figures: of EMSCO for a wish, whose floor is `level`, or of a peer at the threshold `level`, which has no cap.

    Where EMSCO is to match all features at once, `level` is the threshold of that, and `cap` one of `MATCH_SHARES`.
    """

    data: str
    run: int
    method: str
    level: float
    cap: float
    accuracy: float
    coverage: float
    cost: float


def measure(plan: Plan) -> None:
    """Measure the peers and EMSCO, run by run."""
    tasks = [(name, run) for run in range(plan.runs) for name in plan.choose(ALL_DATA)]

    def measure_one(data: str, run: int) -> Iterator[WishRow]:
        return measure_run(data, run, is_quick=plan.is_quick)

    measure_missing(plan.folder / "wishes.csv", WishRow, tasks, measure_one, "wishes")


def measure_run(data: str, run: int, *, is_quick: bool) -> Iterator[WishRow]:
    """Measure one division."""
    max_rows, folds = (QUICK_ROWS, QUICK_FOLDS) if is_quick else (None, FOLDS)
    found = load(data)
    straight, curved = (found.problem(run, stages=stages, max_rows=max_rows, folds=folds) for stages in ("straight", "curved"))
    yield from measure_peers(straight, data, run)
    settings, thresholds = (QUICK_SETTINGS, QUICK_MATCH_THRESHOLDS) if is_quick else (SETTINGS, MATCH_THRESHOLDS)
    yield from measure_own(curved, data, run, settings, thresholds)


def measure_peers(problem: Problem, data: str, run: int) -> Iterator[WishRow]:
    """Measure the peers at all thresholds."""
    assert problem.test is not None
    for name, fitted in _fit_peers(problem):
        for threshold in THRESHOLDS:
            found = fitted.decide(problem.test.codes, [threshold] * len(problem.labels))
            yield _row(data, run, name, threshold, 0.0, found.count(problem.test.target), problem)


def measure_own(
    problem: Problem, data: str, run: int, settings: Settings, match_thresholds: Sequence[float]
) -> Iterator[WishRow]:
    """Measure EMSCO for all wishes that can be granted; `match_thresholds` are those of all features at once."""
    fitters = ProblemFitters(problem)
    [searched] = search_thresholds(problem, None, settings, method="evolve", seed=run, jobs=1, upgrade="boosted", fitters=fitters)
    found = searched.front
    designs = tuple(ladder_front(problem, found, fitters=fitters))

    def measure_design(method: str, level: float, cap: float, design: Design) -> WishRow:
        return _row(data, run, method, level, cap, count_test(problem, fit_emsco(design, fitters)), problem)

    for floor, cap in itertools.product(FLOORS[data], CAPS):
        wish = Requirements(min_accuracy=floor, max_cost=cap * problem.full_cost, by="coverage")
        with suppress(SelectionError):
            yield measure_design(OWN, floor, cap, wish.choose(designs, problem.full_cost))
    answering_all = evaluate_all_features(problem.with_threshold(1 / len(problem.labels)), found, fitters=fitters).design
    for threshold, share in itertools.product(match_thresholds, MATCH_SHARES):
        own, match = problem.with_threshold(threshold), MatchEverything(share * max(LEAST_ERROR, 1 - answering_all.accuracy))
        try:
            design = find_matching_design(own, found, match, fitters=fitters).design
        except SelectionError:
            design = evaluate_all_features(own, found, fitters=fitters).design
        yield measure_design(MATCHING, threshold, share, design)


def _fit_peers(problem: Problem) -> Iterator[tuple[str, FittedMethod]]:
    # Neither chooses anything by validation rows: all rows of the pool are there to be fitted on.
    pool = replace(problem, folds=0, parts=(ScoredPart(problem.train, None, problem.validation),))
    yield "LightGBM", BoostedTrees("lightgbm").fit(pool)
    for trade_off, fitted in zip(TRADE_OFFS, CostEffectiveTrees(TRADE_OFFS).fit_each(pool), strict=True):
        if fitted.used:
            yield f"LightGBM CEGB {trade_off:g}", fitted


def _row(data: str, run: int, method: str, level: float, cap: float, counts: Counts, problem: Problem) -> WishRow:
    """Return a row; its cost is a share of the cost of all features."""
    return WishRow(data, run, method, level, cap, counts.accuracy, counts.coverage, counts.cost / problem.full_cost)


@dataclass(frozen=True, slots=True)
class Verdict:
    """EMSCO for one wish beside a peer at one threshold: the differences of each run, and the ratio of the mean costs."""

    wish: tuple[float, float]
    threshold: float
    accuracy: tuple[float, ...]
    coverage: tuple[float, ...]
    saved: tuple[float, ...]
    cost_ratio: float


def compare(rows: Sequence[WishRow], peer: str, method: str = OWN) -> Iterator[Verdict]:
    """Yield one verdict for each wish whose design answers something in every run; of one data set and one kind of wishes.

    The peer's threshold is the lowest at which, by means, it covers no more than EMSCO does.
    """
    runs = sorted({row.run for row in rows})
    # Where nothing is answered, an accuracy says nothing.
    own = {(row.level, row.cap, row.run): row for row in rows if row.method == method and row.coverage}
    others = {(row.level, row.run): row for row in rows if row.method == peer}
    thresholds = sorted({threshold for threshold, _ in others})
    for wish in sorted({key[:2] for key in own}):
        mine = [own[*wish, run] for run in runs if (*wish, run) in own]
        covered = sum(row.coverage for row in mine)
        for threshold in thresholds if len(mine) == len(runs) else ():
            theirs = [others[threshold, run] for run in runs]
            if sum(row.coverage for row in theirs) <= covered:
                pairs = list(zip(mine, theirs, strict=True))
                yield Verdict(
                    wish,
                    threshold,
                    accuracy=tuple(ours.accuracy - other.accuracy for ours, other in pairs),
                    coverage=tuple(ours.coverage - other.coverage for ours, other in pairs),
                    saved=tuple(other.cost - ours.cost for ours, other in pairs),
                    cost_ratio=sum(row.cost for row in mine) / sum(row.cost for row in theirs),
                )
                break
