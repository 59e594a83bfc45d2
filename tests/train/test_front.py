"""Designs and fronts: ids, fitness, order, selection, and what survives a file."""

from __future__ import annotations

import builtins
import json
import math
import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_train.data.labels import plain_labels
from emsco_train.data.problem import Problem
from emsco_train.data.table import Table
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.counts import Counts
from emsco_train.designs.design import Design, format_stages
from emsco_train.designs.front import Front
from emsco_train.designs.precision import Precision
from emsco_train.designs.selection import Requirements
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.errors import DataError, DesignError, SelectionError, TrainError
from emsco_train.search.settings import Settings
from emsco_train.support.binomial import lower_bound

NAMES = ("a", "b", "c")


def design(genes: tuple[int, ...], coverage: float, accuracy: float, cost: float, **more: Any) -> Design:
    """Return a design of three features with these figures."""
    thresholds = more.pop("thresholds", (0.9, 0.9))
    return Design.of(genes, NAMES, thresholds, coverage=coverage, accuracy=accuracy, cost=cost, **more)


CHEAP = design((0, 1, 2), 0.60, 0.90, 2.0)
MIDDLE = design((0, 0, 1), 0.80, 0.95, 4.0, ties=3)
EXPENSIVE = design((0, 0, 0), 0.90, 0.97, 10.0)
FRONT = Front([EXPENSIVE, CHEAP, MIDDLE], full_cost=10.0, unit="EUR")


def counted(rows: int) -> Front:
    """Return the same front, counted on `rows` independent rows whose costs differ by 1."""
    known = [replace(one, rows=rows, precision=Precision(rows, one.coverage * rows, 1.0 / math.sqrt(rows))) for one in FRONT]
    return Front(known, full_cost=10.0, unit="EUR")


def test_stages_come_from_the_chromosome() -> None:
    """Genes say which stage acquires which feature, in column order; -1 leaves a feature out."""
    made = Design.of(np.array([1, -1, 0], dtype=np.int8), NAMES, (0.9,), coverage=0.5, accuracy=1.0, cost=1.0)
    assert (made.stages, made.excluded, made.chromosome) == ((("c",), ("a",)), ("b",), (1, -1, 0))
    assert [type(gene) for gene in made.chromosome] == [int] * 3


def test_id_is_of_stages_and_thresholds_alone() -> None:
    """Figures and the order of columns do not change an id; stages, their order and thresholds do."""
    same = Design.of((1, 0, 0), ("c", "b", "a"), (0.9, 0.9), coverage=0.1, accuracy=0.1, cost=99, ties=7)
    assert same.id == MIDDLE.id
    others = [
        design((1, 1, 0), 0.8, 0.95, 4),
        design((0, 0, -1), 0.8, 0.95, 4),
        design((0, 0, 1), 0.8, 0.9, 4, thresholds=(0.9, 0.8)),
    ]
    assert len({MIDDLE.id, *(other.id for other in others)}) == 4
    assert len(MIDDLE.id) == 12
    assert int(MIDDLE.id, 16) >= 0


@pytest.mark.parametrize(
    ("genes", "message"),
    [
        ((0, 1), "has 2 genes for 3 features"),
        ((0, 2, 2), "is not compressed"),
        ((1, 1, 1), "is not compressed"),
        ((-1, -1, -1), "is not compressed"),
        ((0, -2, 1), "is not compressed"),
    ],
)
def test_bad_chromosomes(genes: tuple[int, ...], message: str) -> None:
    """A chromosome has one gene per feature and no empty stage."""
    with pytest.raises(DesignError, match=message):
        design(genes, 0.5, 0.5, 1)


@pytest.mark.parametrize(
    "figures", [(1.1, 0.5, 1, 1), (0.5, math.nan, 1, 1), (0.5, 0.5, -1, 1), (0.5, 0.5, math.inf, 1), (0.5, 0.5, 1, 0)]
)
def test_bad_figures(figures: tuple[float, float, float, int]) -> None:
    """Shares lie between 0 and 1, costs are finite, and a design ties at least with itself."""
    with pytest.raises(DesignError, match=r"coverage .*, accuracy .*, cost .*, ties"):
        design((0, 0, 0), *figures[:3], ties=figures[3])


def test_names_that_hold_separators_are_quoted() -> None:
    """The one-line form keeps apart what the names would run together."""
    assert format_stages([["a", "b"], ["c"]]) == "a+b|c"
    assert format_stages([["x+y"], ['say "hi"', "p|q"]]) == '"x+y"|"say ""hi"""+"p|q"'


def test_fitness_and_order() -> None:
    """Fitness is the length of (coverage, accuracy, cheapest / cost); the fittest comes first."""
    assert [found.id for found in FRONT] == [CHEAP.id, MIDDLE.id, EXPENSIVE.id]
    assert FRONT[1].fitness == math.sqrt(0.8**2 + 0.95**2 + 0.5**2)
    assert FRONT[0].fitness == math.sqrt(0.6**2 + 0.9**2 + 1)
    assert FRONT[-1].ties == 1
    assert FRONT[:2] == (FRONT[0], FRONT[1])


def test_equal_fitness_in_the_order_of_chromosomes() -> None:
    """Equals stand in lexicographic order, whatever order they came in."""
    twins = [design(genes, 0.5, 0.9, 3) for genes in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, -1, 0)]]
    orders = [twins, twins[::-1]]
    assert {tuple(found.chromosome for found in Front(order, full_cost=9)) for order in orders} == {
        ((0, -1, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0))
    }


def test_the_cheapest_is_that_of_the_same_threshold() -> None:
    """In a front of several thresholds, each has its own cheapest design."""
    other = design((0, 0, 1), 0.8, 0.95, 4.0, thresholds=(0.8, 0.8))
    assert Front([CHEAP, other], full_cost=10)[0].fitness == math.sqrt(0.8**2 + 0.95**2 + 1)


def test_free_designs() -> None:
    """Where some feature is free, an offset keeps a design that costs nothing from making all others worthless."""
    free, paid = design((0, 1, 1), 0.5, 0.9, 0.0), design((0, 0, 1), 0.9, 0.9, 4.9)
    rated = {found.id: found.fitness for found in Front([free, paid], full_cost=10, offset=0.1)}
    assert rated[free.id] == math.sqrt(0.5**2 + 0.9**2 + 1)
    assert rated[paid.id] == pytest.approx(math.sqrt(0.81 + 0.81 + 0.02**2))
    assert Front([free], full_cost=10)[0].fitness == math.sqrt(0.5**2 + 0.9**2 + 1)


@pytest.mark.parametrize("full_cost", [0, -1, math.nan, "3"])
def test_full_cost_is_needed(full_cost: Any) -> None:
    """Costs are measured against that of all features."""
    with pytest.raises(DesignError, match="full_cost is"):
        Front([], full_cost=full_cost)


def test_selection_by_the_kind_of_requirement() -> None:
    """Floors: the cheapest; a cap: the most accurate; no requirement: the knee; `by` overrides."""
    assert FRONT.select().id == FRONT.knee.id == FRONT.find("knee").id == MIDDLE.id
    assert FRONT.select(by="fitness").id == FRONT.fittest.id == FRONT.find("fittest").id == CHEAP.id
    assert FRONT.select(min_accuracy=0.95, sure=None).id == MIDDLE.id
    assert FRONT.select(min_coverage=0.6, min_accuracy=0.96, sure=None).id == EXPENSIVE.id
    assert FRONT.select(max_cost=5, sure=None).id == MIDDLE.id
    assert FRONT.select(max_cost=5, min_coverage=0.5, sure=None).id == CHEAP.id
    assert FRONT.select(by="coverage").id == FRONT.select(by="accuracy").id == EXPENSIVE.id
    assert FRONT.select(by="coverage", max_cost=9, sure=None).id == MIDDLE.id
    assert FRONT.select(min_accuracy=0.9, by="fitness", sure=None).id == CHEAP.id


def test_selection_by_bounds() -> None:
    """By default floors and caps must hold by bounds: with 500 rows a design just above them does not, with 50,000 it does."""
    assert counted(500).select(min_accuracy=0.94).id == EXPENSIVE.id
    assert counted(50_000).select(min_accuracy=0.94).id == MIDDLE.id
    assert counted(500).select(min_accuracy=0.94, sure=0.5).id == MIDDLE.id
    assert counted(500).select(min_accuracy=0.94, sure=None).id == MIDDLE.id
    assert counted(500).select(max_cost=4.02).id == CHEAP.id
    assert counted(50_000).select(max_cost=4.02).id == MIDDLE.id
    assert counted(1).select(by="fitness").id == CHEAP.id
    # A handful of rows that are all right are the most accurate, and show next to nothing.
    lucky = replace(design((0, 2, 1), 0.01, 1.0, 1.0), rows=500, precision=Precision(500, 5, 0.01))
    front = Front([*counted(500), lucky], full_cost=10.0)
    assert front.select(max_cost=5).id == front.select(by="accuracy", max_cost=5).id == MIDDLE.id
    assert front.select(by="accuracy").id == EXPENSIVE.id
    assert front.select(max_cost=5, sure=None).id == front.select(by="accuracy", sure=None).id == lucky.id
    again = Front.from_json(counted(500).to_json())
    assert again.select(min_accuracy=0.94).id == EXPENSIVE.id
    assert again.select(max_cost=4.02).id == CHEAP.id


def test_selection_by_bounds_that_fails_says_what_helps() -> None:
    """Which bound is short and by how much; how many rows would do, or that none would; and how to go without bounds."""
    front = counted(500)
    with pytest.raises(SelectionError) as caught:
        front.select(min_accuracy=0.965, min_coverage=0.85)
    text = str(caught.value)
    assert caught.value.nearest == EXPENSIVE.id
    bound = lower_bound(0.97 * 450, 450, 0.85)
    assert "none of 3 designs satisfies `min_accuracy=0.965`, `min_coverage=0.85` with bounds at `sure=0.85`" in text
    assert f"accuracy 0.97 (bound {bound:.4g}, {0.965 - bound:.2g} short), coverage 0.9 (bound " in text
    assert text.endswith("Give more rows, ask for less, or choose by the figures alone with `sure=None`")
    rows = int(text.partition("stayed the same, about ")[2].partition(" rows instead of 500 would do")[0].replace(",", ""))
    assert counted(rows).select(min_accuracy=0.965, min_coverage=0.85).id == EXPENSIVE.id
    with pytest.raises(SelectionError):
        counted(int(0.85 * rows)).select(min_accuracy=0.965, min_coverage=0.85)
    with pytest.raises(SelectionError, match="if its figures stayed the same, no number of rows would be enough"):
        front.select(min_accuracy=0.97)
    with pytest.raises(
        SelectionError, match=r"satisfies this without bounds either, so more rows alone would not help\. Ask for less"
    ):
        front.select(min_accuracy=0.98)
    # Other thresholds are tried where both have a floor.
    for floor, other in (("min_accuracy", "coverage"), ("min_coverage", "accuracy")):
        with pytest.raises(SelectionError, match=f"add a floor on {other}, with which exports try other thresholds, too, or"):
            front.select(**{floor: 0.9999})
    with pytest.raises(SelectionError, match="Ask for less, or search with other thresholds"):
        front.select(min_accuracy=0.9999, min_coverage=0.9999)
    with pytest.raises(SelectionError, match=r"cost 2 \(bound 2.046\d+, 0.0064 over\)"):
        front.select(max_cost=2.04)


def test_bounds_need_to_know_the_rows() -> None:
    """A design without its number of rows is not judged by bounds: an error says how to give it, or to do without."""
    with pytest.raises(DesignError, match=r"no bounds, since the number of rows behind them is unknown.*`sure=None`"):
        FRONT.select(min_accuracy=0.9)
    assert FRONT.select() == FRONT.select(sure=0.9)


TENTHS = st.integers(0, 10).map(lambda number: number / 10)
FIGURES = st.tuples(TENTHS, TENTHS, st.integers(1, 20))
MERITS: dict[str, Any] = {
    "cost": lambda found: (-found.cost, found.accuracy, found.coverage),
    "accuracy": lambda found: (found.accuracy, found.coverage, -found.cost),
    "coverage": lambda found: (found.coverage, found.accuracy, -found.cost),
    "fitness": lambda found: found.fitness,
    "knee": lambda found: -sum(part**2 for part in distance_from_ideal(found)),
}


def distance_from_ideal(found: Design) -> tuple[float, float, float]:
    """Return the parts of a design's distance from accepting all, all right, at no cost, as the knee has them."""
    bounds = found.bounds(DEFAULT_SURE)
    return 1 - bounds.coverage, 1 - bounds.accuracy, bounds.cost / 20


@settings(deadline=None)
@given(
    st.lists(FIGURES, min_size=1, max_size=12),
    st.none() | TENTHS,
    st.none() | TENTHS,
    st.none() | st.integers(0, 20),
    st.none() | st.sampled_from(sorted(MERITS)),
    st.sampled_from([None, 0.5, 0.85, 0.99]),
)
def test_selection_by_brute_force(
    figures: list[tuple[float, float, int]],
    accuracy: float | None,
    coverage: float | None,
    cost: float | None,
    by: Any,
    sure: float | None,
) -> None:
    """What is chosen meets the requirements and nothing that does is better; when nothing is chosen, nothing satisfies."""
    known = [replace(design((0, 0, 1), *found), rows=100, precision=Precision(100, 100 * found[0], 0.4)) for found in figures]
    front = Front(known, full_cost=20)
    allowed = [
        found
        for found, bounds in ((found, found.bounds(sure)) for found in front)
        if bounds.accuracy >= (accuracy or 0) and bounds.coverage >= (coverage or 0) and (cost is None or bounds.cost <= cost)
    ]
    requirements: dict[str, Any] = {"min_accuracy": accuracy, "min_coverage": coverage, "max_cost": cost, "by": by, "sure": sure}
    if not allowed:
        with pytest.raises(SelectionError) as caught:
            front.select(**requirements)
        assert caught.value.nearest == front[0].id
        return
    floors = bool(accuracy or coverage)
    objective = by or ("cost" if floors else "knee" if cost is None else "accuracy")
    if objective == "knee":
        widest = max(found.bounds(DEFAULT_SURE).coverage for found in allowed)
        allowed = [found for found in allowed if found.bounds(DEFAULT_SURE).coverage >= widest / 2]

    def merit(found: Design) -> Any:
        return (found.bounds(sure).accuracy if objective == "accuracy" else 0.0, MERITS[objective](found))

    best = max(merit(found) for found in allowed)
    assert front.select(**requirements) == next(found for found in allowed if merit(found) == best)


@given(
    rows=st.integers(40, 4000),
    coverage=st.floats(0.05, 1.0),
    accuracy=st.floats(0.05, 1.0),
    cost_error=st.floats(0.001, 1.0),
    limit=st.sampled_from(["min_accuracy", "min_coverage", "max_cost", "min_recall", "min_accuracy_of"]),
    off=st.floats(0.0, 0.1),
)
def test_confidence_is_the_highest_level_of_a_bound(
    rows: int, coverage: float, accuracy: float, cost_error: float, limit: str, off: float
) -> None:
    """With one limit, bounds on half of the rows satisfy at every level below the confidence, and at none above it."""
    labels = (LabelCounts(label="ham", rows=rows, accepted=rows, right=rows - rows // 7, accepted_as=rows),)
    precision = Precision(rows=rows, accepted=coverage * rows, cost_error=cost_error)
    one = design((0, 1, 2), coverage, accuracy, 2.0, rows=rows, precision=precision, labels=labels)
    share = {"min_accuracy": accuracy, "min_coverage": coverage, "max_cost": 2.0}.get(limit, labels[0].recall)
    if limit == "max_cost":
        wanted = Requirements(max_cost=share + off)
    elif limit in ("min_recall", "min_accuracy_of"):
        wanted = Requirements.of(**{limit: {"ham": max(0.0, share - off)}})
    else:
        wanted = Requirements(**{limit: max(0.0, share - off)})  # type: ignore[arg-type]
    confidence, half = wanted.confidence(one), one.with_more_rows(0.5)
    for level in (0.5, 0.6, 0.75, 0.9, 0.99):
        if abs(level - confidence) > 1e-6:
            assert replace(wanted, sure=level).meets(half) == (level < confidence)


def test_confidence_in_several_limits_is_the_product() -> None:
    """Each limit may be missed apart from the others."""
    one = design((0, 1, 2), 0.8, 0.95, 2.0, rows=500)
    apart = [Requirements(min_accuracy=0.94), Requirements(min_coverage=0.79)]
    together = Requirements(min_accuracy=0.94, min_coverage=0.79)
    assert together.confidence(one) == math.prod(wanted.confidence(one) for wanted in apart)
    assert Requirements().confidence(one) == 1.0


def test_a_choice_pays_for_confidence() -> None:
    """A design that costs little more is taken where it is much surer, and not where it is hardly so; the cheapest without."""
    cheap = design((0, 1, 2), 0.8, 0.953, 2.0, rows=2000)
    surer = design((0, 0, 1), 0.8, 0.965, 2.2, rows=2000)
    expensive = design((0, 1, 0), 0.8, 0.966, 4.0, rows=2000)
    wanted = Requirements(min_accuracy=0.945, min_coverage=0.7)
    confidence = [wanted.confidence(one) for one in (cheap, surer, expensive)]
    assert confidence == sorted(confidence)
    assert wanted.choose((cheap, surer, expensive), 4.0) is cheap
    assert replace(wanted, cost_weight=0.5).choose((cheap, surer, expensive), 4.0) is surer
    assert replace(wanted, cost_weight=10.0).choose((cheap, surer, expensive), 4.0) is cheap
    assert replace(wanted, cost_weight=0.0).choose((cheap, surer, expensive), 4.0) is expensive
    assert replace(wanted, cost_weight=0.5, sure=None).choose((cheap, surer, expensive), 4.0) is cheap


@given(
    figures=st.lists(st.tuples(st.floats(0.5, 1.0), st.floats(0.9, 1.0), st.sampled_from([0.0, 1.0, 1.5, 2.0, 4.0])), min_size=1),
    cost_weight=st.floats(0.0, 3.0),
)
def test_designs_that_are_not_looked_at_are_worth_less(figures: list[tuple[float, float, float]], cost_weight: float) -> None:
    """Where cost is weighed, the choice in the order of costs is that of all which meet the floors, in any order."""
    designs = [design((0, 1, 2), coverage, accuracy, cost, rows=500) for coverage, accuracy, cost in figures]
    wanted = Requirements(min_accuracy=0.93, min_coverage=0.6, cost_weight=cost_weight)
    meeting = [one for one in designs if wanted.meets(one)]
    offset = 0.04 if any(one.cost == 0 for one in meeting) else 0.0

    def worth(one: Design) -> tuple[float, ...]:
        value = wanted.confidence(one) - cost_weight * math.log(one.cost + offset)
        return value, -one.cost, one.accuracy, one.coverage

    best = max(meeting, key=worth, default=None)
    assert wanted.find_best(sorted(designs, key=lambda one: one.cost), 4.0) == best


def test_what_is_free_is_not_infinitely_cheaper() -> None:
    """Next to a design that costs nothing, another one is still chosen if it is surer for a little money."""
    free = design((0, 1, 2), 0.8, 0.951, 0.0, rows=2000)
    surer = design((0, 0, 1), 0.8, 0.98, 0.002, rows=2000)
    wanted = Requirements(min_accuracy=0.94, min_coverage=0.7, cost_weight=0.5)
    assert wanted.choose((free, surer), 4.0) is surer
    assert wanted.choose((free, replace(surer, cost=2.0)), 4.0) is free


def test_nothing_satisfies() -> None:
    """The error names the requirements, the nearest design, how far each figure is, and what can be reached."""
    with pytest.raises(SelectionError) as caught:
        FRONT.select(min_accuracy=0.99, min_coverage=0.85, sure=None)
    text = str(caught.value)
    assert caught.value.nearest == EXPENSIVE.id
    assert text.startswith(f"none of 3 designs satisfies `min_accuracy=0.99`, `min_coverage=0.85`; nearest is {EXPENSIVE.id}: ")
    assert "accuracy 0.97 (0.02 short), coverage 0.9, cost 10. Within reach alone: accuracy 0.97, coverage 0.9." in text
    with pytest.raises(SelectionError, match=rf"{CHEAP.id}: .*cost 2 \(0.5 over\)\. Within reach alone: cost 2\."):
        FRONT.select(max_cost=1.5, sure=None)
    with pytest.raises(SelectionError, match=r"\(0.0\d+ short\).*Each of the requirements can be met alone, but not together"):
        FRONT.select(min_accuracy=0.96, max_cost=5, sure=None)
    with pytest.raises(SelectionError, match=r"coverage 0.8 \(0.1 short\)"):
        FRONT.select(min_coverage=0.9, max_cost=5, sure=None)


def test_selection_error_is_ours_and_travels() -> None:
    """It has the common root and survives pickling between processes with its data."""
    again = pickle.loads(pickle.dumps(SelectionError("none", "abc")))
    assert (str(again), again.nearest, isinstance(again, TrainError)) == ("none", "abc", True)


def test_empty_front() -> None:
    """A search whose constraints nothing met has an empty front, and says so when asked."""
    empty = Front([], full_cost=1)
    with pytest.raises(SelectionError, match="the front is empty") as caught:
        empty.select()
    assert caught.value.nearest is None
    assert (len(empty), empty.hypervolume(), len(empty.to_frame())) == (0, 0.0, 0)
    assert repr(empty) == "<Front: 0 designs, costs in units>"
    assert Front.from_json(empty.to_json()) == empty


@pytest.mark.parametrize(
    ("requirements", "message"),
    [
        ({"min_accuracy": 1.1}, "min_accuracy is 1.1: expected a number from 0 to 1"),
        ({"min_coverage": -0.1}, "min_coverage is -0.1"),
        ({"min_accuracy": math.nan, "max_cost": -1}, "min_accuracy is nan.*; max_cost is -1"),
        ({"min_accuracy": 97, "min_coverage": "90"}, "min_accuracy is 97.*; min_coverage is '90'"),
        ({"max_cost": math.inf}, "max_cost is inf"),
        ({"by": "price"}, "by is 'price': expected one of cost, accuracy, coverage, fitness"),
        ({"sure": 1}, "sure is 1: expected a number from 0.5 to below 1, or none"),
        ({"sure": 0.4, "min_accuracy": 2}, "min_accuracy is 2.*; sure is 0.4"),
        ({"sure": "0.9"}, "sure is '0.9'"),
    ],
)
def test_impossible_requirements(requirements: dict[str, Any], message: str) -> None:
    """What no design could ever meet or mean is refused, all faults at once."""
    with pytest.raises(DesignError, match=message):
        FRONT.select(**requirements)


@given(st.lists(FIGURES, max_size=6), TENTHS, TENTHS)
def test_coverage_near_the_widest_by_brute_force(figures: list[tuple[float, float, int]], cost: float, accuracy: float) -> None:
    """The margin below the widest of those within the limits, never below 0; a design that has it is among them."""
    front = Front([design((0, 1, 2), *one) for one in figures], full_cost=20.0)
    floor = front.coverage_near_widest(max_cost=20 * cost, min_accuracy=accuracy, margin=0.1)
    within = [one for one in front if one.cost <= 20 * cost and one.accuracy >= accuracy]
    assert floor == max([0.0, *(one.coverage - 0.1 for one in within)])
    if within:
        chosen = front.select(min_coverage=floor, max_cost=20 * cost, min_accuracy=accuracy, by="accuracy", sure=None)
        assert chosen.accuracy == max(one.accuracy for one in within if one.coverage >= floor)


def test_coverage_near_the_widest() -> None:
    """One percent unless another margin is given; all designs count where there are no limits."""
    assert FRONT.coverage_near_widest() == pytest.approx(0.89)
    assert FRONT.coverage_near_widest(max_cost=5, margin=0.3) == pytest.approx(0.5)
    with pytest.raises(DesignError, match=r"margin is 2: expected a number from 0 to 1"):
        FRONT.coverage_near_widest(margin=2)


def test_find_by_id() -> None:
    """A design is found by its id or by a beginning that is its alone."""
    assert FRONT.find(MIDDLE.id) == FRONT.find(MIDDLE.id[:8]) == FRONT[1]
    with pytest.raises(SelectionError, match=rf"0 designs have an id that begins with 'zz': give one of {FRONT[0].id}"):
        FRONT.find("zz")
    with pytest.raises(SelectionError, match="0 designs"):
        FRONT.find("")
    many = Front([design((0, 0, 1), 0.5, 0.5, 1, thresholds=(0.5 + step / 100,)) for step in range(40)], full_cost=1)
    first = next(digit for digit in "0123456789abcdef" if sum(found.id[0] == digit for found in many) > 1)
    with pytest.raises(SelectionError, match=rf"designs have an id that begins with '{first}'"):
        many.find(first)


def test_hypervolume_by_hand() -> None:
    """One design dominates the box between it and (0, 0, cost of everything); a second adds what is new."""
    assert Front([MIDDLE], full_cost=10).hypervolume() == pytest.approx(0.8 * 0.95 * 0.6)
    joint = 0.8 * 0.95 * 0.6 + 0.6 * 0.9 * 0.2  # CHEAP adds only what lies below MIDDLE's cost
    assert Front([MIDDLE, CHEAP, EXPENSIVE], full_cost=10).hypervolume() == pytest.approx(joint)


@settings(deadline=None)
@given(st.lists(FIGURES, min_size=1, max_size=6))
def test_hypervolume_by_counting(figures: list[tuple[float, float, int]]) -> None:
    """On a grid, the volume is the share of cells that some design dominates."""
    front = Front([design((0, 0, 1), *found) for found in figures], full_cost=20)
    axes = np.meshgrid(np.arange(10) + 0.5, np.arange(10) + 0.5, np.arange(20) + 0.5, indexing="ij")
    covered = np.zeros((10, 10, 20), dtype=bool)
    for coverage, accuracy, cost in figures:
        covered |= (axes[0] < coverage * 10) & (axes[1] < accuracy * 10) & (axes[2] > cost)
    assert front.hypervolume() == pytest.approx(covered.mean(), abs=1e-12)


def test_frame() -> None:
    """One row per design, fittest first, stages as text, a shared threshold as one number."""
    left_out = design((0, -1, 1), 0.7, 0.92, 3.0, thresholds=(0.9, 0.99))
    frame = Front([CHEAP, left_out], full_cost=10).to_frame()
    bounds = ["coverage_bound", "accuracy_bound", "cost_bound"]
    assert list(frame.columns) == [
        "id",
        "threshold",
        "stages",
        "excluded",
        "fitness",
        "coverage",
        "accuracy",
        "cost",
        "ties",
        *bounds,
        "upgrade",
    ]
    row = frame.set_index("id").loc[left_out.id]
    assert (row["threshold"], row["stages"], row["excluded"], row["cost"]) == ("0.9,0.99", "a|c", "b", 3.0)
    assert frame.set_index("id").loc[CHEAP.id, "threshold"] == "0.9"
    assert frame[bounds].isna().all(axis=None)
    known = counted(500)
    expected = [(one.coverage, one.accuracy, one.cost) for one in (design.bounds(0.85) for design in known)]
    assert list(known.to_frame()[bounds].itertuples(index=False, name=None)) == expected


def test_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pandas one line says what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="to_frame needs pandas: pip install pandas"):
        FRONT.to_frame()


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1e6)), max_size=8))
def test_json_round_trip(figures: list[tuple[float, float, float]]) -> None:
    """Every number, name and order comes back as it was."""
    front = Front([design((0, 1, -1), *found, ties=2) for found in figures], full_cost=1e6, offset=0.5, unit="EUR")
    again = Front.from_json(front.to_json())
    assert again == front
    assert hash(again) == hash(front)
    assert again != Front([], full_cost=1)
    assert again != 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "front: format: Input should be 'emsco-front'"),
        ({"version": 4}, "front: version"),
        ({"extra": 1}, "front: extra: Extra inputs are not permitted"),
        ({"full_cost": "10"}, "front: full_cost"),
        ({"designs": [{"id": "x"}]}, "front: designs.0.stages: Field required"),
    ],
)
def test_foreign_json(change: dict[str, Any], message: str) -> None:
    """What `to_json` did not write is refused with the place of the fault."""
    with pytest.raises(DataError, match=message):
        Front.from_json(json.dumps(json.loads(FRONT.to_json()) | change))


def test_damaged_json() -> None:
    """Text that is no JSON, and a design whose id is not its own, are refused."""
    with pytest.raises(DataError, match="front: the text: Invalid JSON"):
        Front.from_json("{")
    with pytest.raises(DataError, match=r"designs\.0\.id is '.*', not that of its stages"):
        Front.from_json(FRONT.to_json().replace(FRONT[0].id, "0" * 12))
    with pytest.raises(DataError, match=r"front: designs\.1.*ties 0"):
        Front.from_json(FRONT.to_json().replace('"ties": 3', '"ties": 0').replace('"ties":3', '"ties":0'))
    for rows in (-1, -500):
        with pytest.raises(DataError, match=rf"front: designs\.0.*rows {rows}, units None: expected at least 0 rows"):
            Front.from_json(re.sub(r'"rows": ?500,', f'"rows":{rows},', counted(500).to_json(), count=1))
    with pytest.raises(DataError, match=r"front: designs\.0.*units 0: expected at least 0 rows, and None or at least 1 unit"):
        Front.from_json(re.sub(r'"units": ?null', '"units":0', counted(500).to_json(), count=1))
    with pytest.raises(DataError, match=r"front: designs\.0\.rows is not part of version 1"):
        Front.from_json(counted(9).to_json().replace('"version": 3', '"version": 1').replace('"version":3', '"version":1'))
    with pytest.raises(DataError, match=r"front: designs\.0\.precision.*expected finite numbers of at least 0"):
        Front.from_json(counted(500).to_json().replace('"accepted": ', '"accepted": -', 1))


def test_early_thresholds_are_part_of_a_design() -> None:
    """They are in its id, its text and its JSON; where all stages need the same, or there is one, they are left out."""
    names, figures = ["a", "b"], {"coverage": 0.5, "accuracy": 0.9, "cost": 2.0}
    plain = Design.of((0, 1), names, (0.9, 0.9), **figures)
    early = Design.of((0, 1), names, StageThresholds(last=(0.9, 0.9), early=(0.99, 0.95)), **figures)
    assert (early.thresholds, early.early_thresholds, early.threshold_text) == ((0.9, 0.9), (0.99, 0.95), "0.99,0.95|0.9")
    assert early.id != plain.id
    assert early.stage_thresholds == StageThresholds(last=(0.9, 0.9), early=(0.99, 0.95))
    front = Front([early, plain], full_cost=3.0)
    assert Front.from_json(front.to_json()) == front
    with pytest.raises(DataError, match=r"designs\.\d\.early_thresholds is not part of version 2"):
        Front.from_json(json.dumps({**json.loads(front.to_json()), "version": 2}))
    assert Design.of((0, 1), names, StageThresholds.constant((0.9, 0.9)), **figures) == plain
    one = Design.of((0, 0), names, StageThresholds(last=(0.9, 0.9), early=(0.99, 0.95)), **figures)
    assert one.early_thresholds is None
    with pytest.raises(DataError, match=r"designs\.\d\.id is '.*', not that of its stages"):
        Front.from_json(front.to_json().replace("0.95", "0.96"))


def test_version_1_stays_readable() -> None:
    """A file without rows and precision: the rows are given, all of them count as independent, and costs as exact."""
    document = json.loads(counted(500).to_json())
    document["version"] = 1
    for entry in document["designs"]:
        del entry["rows"], entry["precision"]
    old = Front.from_json(json.dumps(document), rows=500)
    assert old == counted(500)
    assert [one.precision for one in old] == [Precision(500.0, round(500 * one.coverage), 0.0) for one in old]
    assert old.select(min_accuracy=0.94).id == EXPENSIVE.id
    unknown = Front.from_json(json.dumps(document))
    assert [(one.rows, one.precision) for one in unknown] == [(0, None)] * 3


def test_version_2_stays_readable() -> None:
    """A file of before there were thresholds for early stages."""
    document = json.loads(counted(500).to_json())
    document["version"] = 2
    for entry in document["designs"]:
        entry.pop("early_thresholds", None)
    assert Front.from_json(json.dumps(document)) == counted(500)


def test_counts_of_a_design() -> None:
    """A design counts on the rows that it was measured on; its file holds them, and its equals need not know them."""
    counts = Counts(rows=30, accepted=20, right=19, cost=1.5)
    made = Design.from_counts((0, 0, 1), NAMES, (0.9,), counts, ties=2)
    assert (made.coverage, made.accuracy, made.cost, made.ties, made.rows) == (20 / 30, 0.95, 1.5, 2, 30)
    assert (made.counts, made.counts.wrong) == (counts, 1)
    assert made == made.with_rows(0)
    front = Front([made], full_cost=3.0)
    again = Front.from_json(front.to_json(), rows=99)[0]
    assert again.counts == front[0].counts == counts
    assert again.precision == made.precision == Precision(30.0, 20.0)


@given(st.integers(1, 10_000), st.data())
def test_counts_come_back_from_shares(rows: int, data: st.DataObject) -> None:
    """Shares of counts give the same counts again."""
    accepted = data.draw(st.integers(0, rows))
    counts = Counts(rows, accepted, data.draw(st.integers(0, accepted)), 1.0)
    assert Counts.from_shares(rows, counts.coverage, counts.accuracy, 1.0) == counts


def test_text() -> None:
    """The table shows the first twenty and says how many more there are; repr is one line."""
    lines = str(FRONT).splitlines()
    assert lines[0].split() == ["id", "coverage", "accuracy", "cost", "fitness", "ties", "stages"]
    assert lines[2].split() == [MIDDLE.id, "0.800", "0.950", "4", f"{FRONT[1].fitness:.4f}", "3", "a+b|c"]
    assert repr(FRONT) == f"<Front: 3 designs, knee {MIDDLE.id}, costs in EUR>"
    many = Front([design((0, 0, 1), step / 50, 0.5, 1) for step in range(25)], full_cost=1)
    assert str(many).endswith("\n... and 5 more")


def test_a_floor_of_zero_chooses_as_no_floor() -> None:
    """Alone, it leaves the knee; together with another requirement, it changes nothing."""
    assert FRONT.select(min_coverage=0) == FRONT.select(min_accuracy=0, min_coverage=0.0) == FRONT.select()
    front = counted(50_000)
    assert front.select(min_accuracy=0.96, min_coverage=0) == front.select(min_accuracy=0.96)
    assert front.select(max_cost=5, min_coverage=0) == front.select(max_cost=5)
    assert Requirements(min_coverage=0) == Requirements() == Requirements(sure=None) == Requirements(sure=0.9)
    assert Requirements(max_cost=5) != Requirements(max_cost=5, sure=None)


def test_one_of_a_thing_is_in_the_singular() -> None:
    """Counts of one, wherever they are shown: a front, a choice, a problem that is too small, a table."""
    one = Front([CHEAP], full_cost=9.0)
    assert repr(one).startswith("<Front: 1 design,")
    assert repr(FRONT).startswith("<Front: 3 designs,")
    for message, call in (
        ("none of 1 design satisfies", lambda: one.select(min_accuracy=1, sure=None)),
        ("since the data have 1 feature", lambda: Settings(max_stages=2).resolved(1)),
        ("has 1 gene for 2 features", lambda: Design.of([0], ["a", "b"], (0.9,), coverage=1.0, accuracy=1.0, cost=1.0)),
        ("1 column but 2 names", lambda: Table.of([[1.0]], ["a", "b"])),
        ("y has 2 labels for 1 row:", lambda: plain_labels([1, 2], rows=1, where="y")),
        ("time has 1 different value for 4 splits", lambda: Problem.of(np.eye(8), [0, 1] * 4, time=[1] * 8)),
    ):
        with pytest.raises(TrainError, match=message):
            call()
