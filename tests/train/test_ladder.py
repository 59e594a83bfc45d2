"""The threshold ladder: the designs of a front at other thresholds, with the figures that these really have."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train.data.problem import Problem
from emsco_train.data.splits import Shares
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.front import Front
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, SelectionError
from emsco_train.export.searched_design import check_counts
from emsco_train.export.tuned_choice import COST_WEIGHT, choose_tuned_design, select_tuned_design
from emsco_train.guarantee.choice import SelectionCriteria
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.search import ladder
from emsco_train.search.completion import completed_populations
from emsco_train.search.ladder import ladder_front, ladder_thresholds
from emsco_train.search.recombination import distinct_sets
from emsco_train.search.searches import run_search
from emsco_train.search.settings import Settings

SETTINGS = Settings(max_stages=2, keep_all=True)


def make_problem(threshold: float | dict[str, float] = 0.9, **options: object) -> Problem:
    """Return three features of falling worth, and noise."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(900, 4))
    y = np.where(rows @ [2.0, 1.2, 0.8, 0.0] + rng.normal(size=900) > 0, "spam", "ham")
    shares = Shares(0.7, 0.0, 0.0, 0.3)
    return Problem.of(rows, y, costs=[4, 2, 1, 1], threshold=threshold, shares=shares, folds=4, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Return one problem for all tests of this file."""
    return make_problem()


@pytest.fixture(scope="module")
def front(problem: Problem) -> Front:
    """Return its front."""
    return run_search(problem, SETTINGS, jobs=1).front


@given(st.lists(st.floats(0.5, 0.999), min_size=2, max_size=4))
def test_a_ladder_climbs_in_log_odds(thresholds: list[float]) -> None:
    """Steps ascend, hold the design's own thresholds, stay within limits, and shift the log-odds of all labels alike."""
    levels = ladder_thresholds(thresholds)
    assert levels == sorted(set(levels))
    assert tuple(thresholds) in levels
    for level in levels:
        if level != tuple(thresholds):
            assert 1 / len(thresholds) <= min(level) <= max(level) <= 0.999
        shifts = [math.log(new / (1 - new)) - math.log(old / (1 - old)) for new, old in zip(level, thresholds, strict=True)]
        # Thresholds are rounded to four digits, which near 0 and 1 is a coarser step in log-odds.
        rounding = max(5e-5 / (threshold * (1 - threshold)) for threshold in level)
        assert max(shifts) - min(shifts) <= 2 * 1.05 * rounding


@pytest.mark.filterwarnings("ignore::emsco_train.errors.ThresholdWarning")
def test_a_threshold_near_zero() -> None:
    """Higher by two in log-odds it is rounded to 0: the early stages keep it, and no threshold of the ladder is lower."""
    problem = make_problem({"ham": 1e-6, "spam": 0.9})
    front = run_search(problem, SETTINGS, jobs=1).front
    for design in ladder_front(problem, front):
        assert all(early >= last > 0 for early, last in zip(design.stage_thresholds.early, design.thresholds, strict=True))


def test_a_threshold_of_one_stays() -> None:
    """Certainty has no log-odds to shift: the ladder of such a design is itself alone, since 0.999 is the highest step."""
    assert ladder_thresholds((1.0, 1.0)) == [(1.0, 1.0)]


@pytest.mark.parametrize("high", [0.9992, 0.9999, 1.0])
def test_a_label_that_is_answered_next_to_never_holds_no_other_back(high: float) -> None:
    """The others climb as far as without it; it is lowered with them, but for a threshold of 1, and never raised."""
    others = {level[0] for level in ladder_thresholds((0.7, 0.7))}
    levels = ladder_thresholds((0.7, high))
    assert others <= {level[0] for level in levels}
    assert max(level[1] for level in levels) == high
    assert (min(level[1] for level in levels) < high) == (high < 1.0)


@given(st.floats(0.5, 0.9999999), st.sampled_from([(), (1,)]))
def test_a_ladder_reaches_down_from_every_threshold(threshold: float, rare: tuple[int, ...]) -> None:
    """However high the search's threshold is, some step is near 0.6 or lower, or no further below it than 1.75 in log-odds."""
    levels = ladder_thresholds((threshold, threshold), rare)
    lowest = min(level[0] for level in levels)
    assert lowest <= 0.8001
    if threshold > 0.97:
        assert lowest <= 0.63
    assert all(level[1] <= level[0] for level in levels)


def test_a_ladder_that_reaches_down_keeps_its_steps() -> None:
    """Up to thresholds of 0.95 there are the usual twenty steps alone; above, they are all there, and coarser ones follow."""
    for threshold in (0.7, 0.9, 0.95):
        assert len(ladder_thresholds((threshold,) * 2)) <= 20
    usual = {round(1 / (1 + math.exp(-(math.log(0.995 / 0.005) + step / 4))), 4) for step in range(-7, 13)}
    levels = {level[0] for level in ladder_thresholds((0.995, 0.995))}
    assert {step for step in usual if step <= 0.999} <= levels
    assert sorted(levels - usual) == [0.5108, 0.6326, 0.7395, 0.8239, 0.8853, 0.9271, 0.9545]


def test_a_ladder_of_many_labels_goes_lower() -> None:
    """Of eight labels, one that has 0.3 may well be the most probable: thresholds below 0.5 select there."""
    levels = [level[0] for level in ladder_thresholds((0.6,) * 8)]
    assert levels[0] == pytest.approx(0.2068)
    assert sum(level < 0.5 for level in levels) == 6
    assert min(ladder_thresholds((0.4,) * 5))[0] == pytest.approx(0.2395)


def test_figures_are_those_of_the_thresholds(problem: Problem, front: Front) -> None:
    """Every tuned design, fitted and counted by itself, has the figures that the ladder gave it."""
    ladder = ladder_front(problem, front)
    assert {design.id for design in front} <= {design.id for design in ladder}
    tuned = [design for design in ladder if design.id not in {one.id for one in front}]
    assert len({design.id for design in ladder}) == len(ladder)
    assert {design.stages for design in tuned} <= {design.stages for design in front}
    assert len({design.thresholds for design in tuned}) > 3
    early = [design for design in tuned if design.early_thresholds is not None]
    assert early
    assert all(len(design.stages) > 1 and min(design.early_thresholds or ()) > max(design.thresholds) for design in early)
    for design in [*tuned[::7], *early[::7]]:
        check_counts(problem, design)


def test_no_tuned_design_is_dominated(problem: Problem, front: Front) -> None:
    """Of the tuned designs, none is matched by another one in every figure and beaten in one."""
    known = {design.id for design in front}
    tuned = [design for design in ladder_front(problem, front) if design.id not in known]
    points = np.array([[-design.coverage, -design.accuracy, design.cost] for design in tuned])
    for point in points:
        assert not ((points <= point).all(axis=1) & (points < point).any(axis=1)).any()


@pytest.mark.parametrize("rooms", [1, 3])
def test_little_memory_changes_no_figure(rooms: int, problem: Problem, front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for the front's sets at every threshold is enough for one workbench; with a third, three find the same designs."""
    fitters, levels = ProblemFitters(problem), [StageThresholds.constant(one) for one in ladder_thresholds(problem.thresholds)]
    sets = len(distinct_sets(np.array([design.chromosome for design in front], dtype=np.int8)))
    expected = [design.id for design in ladder_front(problem, front)]
    needed_per_level = sets * 16 * -(-len(problem.validation) // 64)
    monkeypatch.setattr(ladder, "_MAX_BYTES", needed_per_level * -(-len(levels) // rooms))
    assert len(list(ladder.make_workbenches(problem, levels, sets, 1, fitters))) == rooms
    assert [design.id for design in ladder_front(problem, front)] == expected


def test_both_floors_move_the_threshold(problem: Problem, front: Front) -> None:
    """At 0.9 no design covers so much; the ladder has some that do, and the one is chosen whose confidence is worth its cost."""
    wanted = Requirements(min_accuracy=0.8, min_coverage=0.85)
    with pytest.raises(SelectionError):
        wanted.choose(tuple(front), front.full_cost)
    design = select_tuned_design(problem, front, wanted)
    assert max(design.thresholds) < 0.9
    meeting = [one for one in ladder_front(problem, front) if wanted.meets(one)]
    worth = [wanted.confidence(one) - COST_WEIGHT * math.log(one.cost) for one in meeting]
    assert worth[meeting.index(design)] == max(worth)


@pytest.mark.parametrize("floors", [{"min_accuracy": 0.9}, {"min_coverage": 0.4}, {"max_cost": 7.5}, {}])
def test_one_floor_alone_leaves_the_threshold(problem: Problem, front: Front, floors: dict[str, float]) -> None:
    """Nothing would hold the other figure: the choice is that of the front itself."""
    wanted = Requirements(**floors)  # type: ignore[arg-type]
    assert select_tuned_design(problem, front, wanted) == wanted.choose(tuple(front), front.full_cost)


def test_a_guarantee_climbs_the_ladder() -> None:
    """At a threshold of 0.6 every design errs too often for the guarantee; higher up the ladder one passes."""
    problem = make_problem(threshold=0.6)
    front = run_search(problem, SETTINGS, jobs=1).front
    criteria = SelectionCriteria.of(Requirements(), max_error=0.07)
    assert all(design.accuracy < 0.93 for design in front)
    choice = choose_tuned_design(problem, front, criteria, MemoryLedger())
    assert choice.certificate is not None
    assert choice.certificate.max_error == 0.07
    assert min(choice.design.thresholds) > 0.6


def test_thresholds_stay_where_they_must() -> None:
    """Where thresholds are not to be tuned, a guarantee that needs higher ones is refused, and one that does not keeps them."""
    problem = make_problem(threshold=0.6)
    front = run_search(problem, SETTINGS, jobs=1).front
    strict = replace(SelectionCriteria.of(Requirements(), max_error=0.07), tune_thresholds=False)
    with pytest.raises(CertificationError):
        choose_tuned_design(problem, front, strict, MemoryLedger())
    easy = replace(SelectionCriteria.of(Requirements(), max_error=0.5), tune_thresholds=False)
    assert choose_tuned_design(problem, front, easy, MemoryLedger()).design in tuple(front)
    both = Requirements(min_coverage=0.5, min_accuracy=0.7)
    chosen = choose_tuned_design(problem, front, SelectionCriteria(both, tune_thresholds=False), MemoryLedger()).design
    assert chosen == both.choose(tuple(front), front.full_cost)


def test_a_further_floor_is_advised_where_it_would_help(problem: Problem, front: Front) -> None:
    """It leads to other thresholds; under a promise these have been tried already, and where they must stay they never are."""
    floor, advice = Requirements(min_coverage=0.9999, sure=None), "add a floor on accuracy"
    with pytest.raises(SelectionError, match=advice):
        choose_tuned_design(problem, front, SelectionCriteria(floor), MemoryLedger())
    for criteria in (SelectionCriteria.of(floor, max_error=0.4), SelectionCriteria(floor, tune_thresholds=False)):
        with pytest.raises(SelectionError, match="Ask for less, or search with other thresholds") as caught:
            choose_tuned_design(problem, front, criteria, MemoryLedger())
        assert advice not in str(caught.value)


def test_no_early_stage_accepts_nobody(problem: Problem, front: Front) -> None:
    """A stage that answers no row at its thresholds is a model for nothing: the next one acquires its features, for the same."""
    own = {design.id for design in front}
    tuned = [design for design in ladder_front(problem, front) if design.id not in own]
    idle = 0
    fitters = ProblemFitters(problem)
    for bench, place, population in completed_populations(problem, front, fitters=fitters):
        accepted = bench.evaluator(place).exits(population).accepted
        before_last = np.arange(accepted.shape[1]) < population.max(axis=1, keepdims=True)
        having = population[((accepted == 0) & before_last).any(axis=1)]
        idle += len(having)
        for chromosome in having:
            (before,) = bench.designs(chromosome[None], [1], place)
            (after,) = ladder.make_designs(bench, place, chromosome[None])
            assert len(after.stages) < len(before.stages)
            assert (after.counts, after.cost) == (before.counts, pytest.approx(before.cost))
            check_counts(problem, after)
    assert idle
    assert tuned
    for design in tuned:
        found = evaluate_validation(problem, design.stages, design.stage_thresholds)
        assert {*range(1, len(design.stages))} <= set(found.stage[found.accepted].tolist())


def test_an_empty_front_has_no_ladder(problem: Problem) -> None:
    """A search whose constraints nothing satisfies leaves an empty front, and so does its ladder."""
    empty = Front([], full_cost=problem.full_cost)
    assert len(ladder_front(problem, empty)) == 0
