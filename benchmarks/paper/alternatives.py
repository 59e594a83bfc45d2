"""(d) EMSCO with straight, curved and upgraded stages at the operating points of today's alternatives, on all seven data sets.

An operating point is a peer at a threshold (CEGB: and a trade-off). Its accuracy and coverage on the validation rows are the
floors for EMSCO, which takes the cheapest design, over the designs of its front and a ladder of thresholds, that reaches both
on the same validation rows. Then both are measured on the test rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from emsco_train import Front, Problem, Settings
from emsco_train.baselines import BoostedTrees, CostEffectiveTrees, FittedMethod, GreedyOrder, StaticSelection, TwoStage
from emsco_train.data.stage_settings import Upgrade
from emsco_train.designs.counts import Counts
from emsco_train.designs.selection import Requirements
from emsco_train.errors import SelectionError
from emsco_train.export.tuned_choice import COST_WEIGHT
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search.ladder import ladder_front
from emsco_train.search.sweep import search_thresholds
from paper.datasets import ALL_DATA, QUICK_ROWS, load
from paper.figures import count_test, fit_emsco
from paper.tasks import Plan, measure_missing

KINDS = ("straight", "curved", "upgraded")
THRESHOLDS = (0.6, 0.7, 0.8, 0.9, 0.95)
TRADE_OFFS = (10.0, 100.0)
STATIC_SHARES = (0.1, 0.25, 0.5)
SETTINGS = Settings(population=100, generations=40)
QUICK_SETTINGS = Settings(population=50, generations=12)
FRONTS = Path(__file__).resolve().parents[2] / "build" / "paper-fronts"


@dataclass(frozen=True, slots=True)
class PointRow:
    """One operating point: figures of the peer, or of EMSCO at the peer's floors, on validation and test rows.

    `reached` is 0 where no design of EMSCO reaches the floors on the validation rows: its figures are those of the nearest.
    """

    data: str
    run: int
    kind: str
    peer: str
    threshold: float
    reached: int
    validation_accuracy: float
    validation_coverage: float
    accuracy: float
    coverage: float
    cost: float
    full_cost: float


def measure(plan: Plan) -> None:
    """Measure the peers, and then EMSCO at their points, run by run."""
    tasks = [(name, run) for run in range(plan.runs) for name in plan.choose(ALL_DATA)]

    def measure_one(data: str, run: int) -> Iterator[PointRow]:
        return measure_run(data, run, is_quick=plan.is_quick)

    measure_missing(plan.folder / "alternatives.csv", PointRow, tasks, measure_one, "alternatives")


def measure_run(data: str, run: int, *, is_quick: bool) -> Iterator[PointRow]:
    """Measure all points of one division."""
    problem = make_problem(data, run, "straight", is_quick=is_quick)
    peers = list(_measure_peers(problem, data, run))
    yield from peers
    for kind in KINDS:
        own, found = search(data, run, kind, is_quick=is_quick)
        fitters = ProblemFitters(own)
        front = ladder_front(own, found, fitters=fitters)
        measured: dict[str, Counts] = {}
        for point in peers:
            floors = {"min_accuracy": point.validation_accuracy, "min_coverage": point.validation_coverage}
            # As `emsco-export` chooses, but by the figures themselves, as the peers' floors are.
            wanted, reached = Requirements(**floors, sure=0.5, cost_weight=COST_WEIGHT), 1
            try:
                design = wanted.choose(tuple(front), front.full_cost)
            except SelectionError as error:
                design, reached = front.find(error.nearest or ""), 0
            if design.id not in measured:
                measured[design.id] = count_test(own, fit_emsco(design, fitters))
            counts = measured[design.id]
            figures = (design.accuracy, design.coverage, counts.accuracy, counts.coverage, counts.cost, own.full_cost)
            yield PointRow(data, run, kind, point.peer, point.threshold, reached, *figures)


def peer_family(peer: str) -> str:
    """Return the family of a peer: its name without a trade-off or a share."""
    return next((family for family in ("LightGBM CEGB", "static") if peer.startswith(family)), peer)


def make_problem(data: str, run: int, kind: str, *, is_quick: bool) -> Problem:
    """Return the problem of a division, with the stages that are searched with."""
    found = load(data)
    return found.problem(run, stages="straight" if kind == "straight" else "curved", max_rows=QUICK_ROWS if is_quick else None)


def search(data: str, run: int, kind: str, *, is_quick: bool) -> tuple[Problem, Front]:
    """Return the problem, and the front of one search; it is kept in the folder build, for the other experiments."""
    problem = make_problem(data, run, kind, is_quick=is_quick)
    path = FRONTS / f"{data}-{run}-{kind}-{'quick' if is_quick else 'full'}.json"
    if path.exists():
        return problem, Front.from_json(path.read_text())
    upgrade: Upgrade | None = "boosted" if kind == "upgraded" else None
    settings = QUICK_SETTINGS if is_quick else SETTINGS
    front = next(search_thresholds(problem, None, settings, method="evolve", seed=run, jobs=1, upgrade=upgrade)).front
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(front.to_json())
    return problem, front


def _measure_peers(problem: Problem, data: str, run: int) -> Iterator[PointRow]:
    assert problem.test is not None
    for name, fitted in _fit_peers(problem):
        for threshold in THRESHOLDS:
            levels = [threshold] * len(problem.labels)
            before, after = (
                fitted.decide(split.codes, levels).count(split.target) for split in (problem.validation, problem.test)
            )
            figures = (before.accuracy, before.coverage, after.accuracy, after.coverage, after.cost)
            yield PointRow(data, run, "peer", name, threshold, 1, *figures, problem.full_cost)


def _fit_peers(problem: Problem) -> Iterator[tuple[str, FittedMethod]]:
    yield "LightGBM", BoostedTrees("lightgbm").fit(problem)
    yield "HistGradientBoosting", BoostedTrees("sklearn").fit(problem)
    for trade_off, fitted in zip(TRADE_OFFS, CostEffectiveTrees(TRADE_OFFS).fit_each(problem), strict=True):
        if fitted.used:
            yield f"LightGBM CEGB {trade_off:g}", fitted
    yield "two-stage", TwoStage().fit(problem)
    yield "greedy order", GreedyOrder().fit(problem)
    for share in STATIC_SHARES:
        yield f"static {share:g}", StaticSelection(share * problem.full_cost).fit(problem)
