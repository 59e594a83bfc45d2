"""Labels that are rare: what designs do with the rows of each, floors on it, the knee of a front, and the balanced objective."""

from __future__ import annotations

import itertools
import math
import shlex
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from emsco_runtime.bundle.manifest import LabelCounts
from emsco_train.data.label_counts import count_by_label
from emsco_train.data.problem import Problem
from emsco_train.designs.chromosome import compress
from emsco_train.designs.design import Design
from emsco_train.designs.effective_size import measure_label_sizes, measure_precision
from emsco_train.designs.front import Front
from emsco_train.designs.knee import find_knee
from emsco_train.designs.label_floors import make_label_floors
from emsco_train.designs.selection import Requirements
from emsco_train.errors import DesignError, RareLabelWarning, SelectionError
from emsco_train.estimator.classifier import EmscoClassifier
from emsco_train.export.tuned_choice import select_tuned_design
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.search.ladder import ladder_front, ladder_thresholds
from emsco_train.search.searches import run_evolve, run_exhaustive, run_search
from emsco_train.search.settings import Constraints, Settings
from emsco_train.search.workbench import Workbench
from emsco_train.support.binomial import lower_bound
from tests.processes import run_successfully
from tests.train.sample_tables import write_rows

LABELS = ("common", "rare", "rarest")


def rare_table(rows: int = 900, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Return a table of three labels, 90, 7 and 3 % of the rows; each rare label has a column that tells it, one is noise."""
    rng = np.random.default_rng(seed)
    label = rng.choice(3, rows, p=[0.9, 0.07, 0.03])
    columns = {
        "a": (label == 1) * 2.5 + rng.normal(size=rows),
        "b": (label == 2) * 2.5 + rng.normal(size=rows),
        "c": (label > 0) * 1.5 + rng.normal(size=rows),
        "d": rng.normal(size=rows),
    }
    return columns, np.array(LABELS)[label]


def rare_problem(*, weighted: bool = False, grouped: bool = False, folds: int = 0, labels: int = 3, rows: int = 900) -> Problem:
    """Return the problem of the table, or of two of its labels."""
    columns, truth = rare_table(rows)
    if labels == 2:
        truth = np.where(truth == "rarest", "rare", truth)
    rng = np.random.default_rng(1)
    weights = rng.integers(1, 4, rows).astype(float) if weighted else None
    groups = np.arange(rows) // 3 if grouped else None
    costs = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 1.0}
    return Problem.of(columns, truth, costs=costs, threshold=0.8, sample_weight=weights, groups=groups, folds=folds)


def all_designs() -> Any:
    """Return every chromosome of four features in at most two stages, features left out included."""
    genes = np.array([chosen for chosen in itertools.product((-1, 0, 1), repeat=4) if max(chosen) >= 0], dtype=np.int8)
    return np.unique(compress(genes), axis=0)


# Counts


@pytest.mark.parametrize(
    "kind", [{}, {"labels": 2}, {"weighted": True}, {"weighted": True, "labels": 2}, {"grouped": True}, {"folds": 3}]
)
def test_the_search_counts_what_the_models_decide(kind: dict[str, Any]) -> None:
    """The counts per label of designs, from packed bits, are those of their decisions row by row, weights included."""
    problem = rare_problem(**kind)
    population = all_designs()[::7]
    validation = problem.validation
    for design in Workbench(problem).designs(population, [1] * len(population)):
        made = evaluate_validation(problem, design.stages, design.stage_thresholds)
        assert design.labels == count_by_label(made.label, validation.target, problem.labels, validation.units)
        assert sum(counts.right for counts in design.labels) == design.counts.right
        assert sum(counts.accepted_as for counts in design.labels) == design.counts.accepted
        if kind.get("grouped") or kind.get("weighted"):
            assert design.precision is not None
            assert design.precision.labels == measure_label_sizes(
                made.label, validation.target, len(problem.labels), validation.groups, validation.weights
            )


def test_sizes_of_labels_are_those_of_the_rows_by_themselves() -> None:
    """How much rows say about a label's recall is how much its rows say about the accuracy if all of them were accepted."""
    rng = np.random.default_rng(0)
    answer, target, groups = rng.integers(-1, 3, 200), rng.integers(0, 3, 200), rng.integers(0, 50, 200)
    for weights in (None, rng.random(200) * (rng.random(200) < 0.9)):
        sizes = measure_label_sizes(answer, target, 3, groups, weights)
        for label in range(3):
            has, got = target == label, answer == label
            for among, size in ((has, sizes[label].rows), (got, sizes[label].accepted_as)):
                of_rows = None if weights is None else weights[among]
                right = (answer == target)[among]
                alone = measure_precision(np.ones(len(right), bool), right, np.ones(len(right)), groups[among], of_rows)
                assert size == pytest.approx(alone.accepted)


def test_bounds_of_labels() -> None:
    """Lower bounds are exact for independent rows; those of grouped rows are lower; unknown labels and counts are refused."""
    labels = (
        LabelCounts(label="ham", rows=80, accepted=60, accepted_as=62, right=58),
        LabelCounts(label=1, rows=20, accepted=10, accepted_as=8, right=8),
    )
    design = replace(Design.of((0,), ["a"], (0.9, 0.9), coverage=0.7, accuracy=66 / 70, cost=1.0), rows=100, labels=labels)
    bounds = design.label_bounds("1", 0.85)
    assert bounds.recall == lower_bound(8, 20, 0.85)
    assert bounds.accuracy == lower_bound(8, 8, 0.85)
    assert (design.label_bounds("ham", None).recall, design.label_bounds(1, None).accuracy) == (58 / 80, 1.0)
    assert design.with_more_rows(4).label_bounds(1, 0.85).recall == pytest.approx(lower_bound(32, 80, 0.85))
    with pytest.raises(DesignError, match=r"there is no label 'eggs' \(labels: 'ham', 1\)"):
        design.label_bounds("eggs", None)
    with pytest.raises(DesignError, match="its figures per label are unknown: train again"):
        replace(design, labels=()).label_bounds("ham", None)


# Floors


def made_design(place: int, cost: float, *counts: tuple[int, int, int, int]) -> Design:
    """Return a design with these counts of two labels, in 1,000 rows."""
    labels = tuple(
        LabelCounts(label=label, rows=rows, accepted=accepted, accepted_as=accepted_as, right=right)
        for label, (rows, accepted, accepted_as, right) in zip(("ham", "fraud"), counts, strict=True)
    )
    accepted, right = sum(part.accepted for part in labels), sum(part.right for part in labels)
    names = [f"f{number}" for number in range(5)]
    genes = [0 if number == place else -1 for number in range(5)]
    design = Design.of(genes, names, (0.9, 0.9), coverage=accepted / 1000, accuracy=right / accepted, cost=cost)
    return replace(design, rows=1000, labels=labels)


BLIND = made_design(0, 1.0, (900, 900, 1000, 900), (100, 100, 0, 0))
CAREFUL = made_design(1, 3.0, (900, 850, 860, 845), (100, 60, 50, 45))
EAGER = made_design(2, 4.0, (900, 850, 840, 820), (100, 95, 105, 75))
FRONT = Front([BLIND, CAREFUL, EAGER], full_cost=10)


def test_floors_on_labels() -> None:
    """The cheapest design that keeps the floor of each label, by bounds unless the figures are asked for."""
    assert FRONT.select(min_recall={"fraud": 0.35}) == FRONT.find(CAREFUL.id)
    assert FRONT.select(min_recall={"fraud": 0.44}) == FRONT.find(EAGER.id)
    assert FRONT.select(min_recall={"fraud": 0.44}, sure=None) == FRONT.find(CAREFUL.id)
    assert FRONT.select(min_recall={"fraud": 0.3}, min_accuracy_of={"fraud": 0.8}) == FRONT.find(CAREFUL.id)
    assert FRONT.select(min_recall={"ham": 0.9}, max_cost=3.5) == FRONT.find(BLIND.id)
    assert FRONT.select(min_recall={"fraud": 0}) == FRONT.select() == FRONT.knee
    again = Front.from_json(FRONT.to_json())
    assert again.select(min_recall={"fraud": 0.44}) == again.find(EAGER.id)
    assert [design.labels for design in again] == [design.labels for design in FRONT]


def test_floors_that_no_design_keeps() -> None:
    """The error names the nearest design, its figure and bound, what is in reach, and what would help."""
    with pytest.raises(SelectionError) as caught:
        FRONT.select(min_recall={"fraud": 0.9}, min_accuracy=0.5)
    text = str(caught.value)
    assert caught.value.nearest == EAGER.id
    for expected in (
        "none of 3 designs satisfies `min_accuracy=0.5`, recall of fraud >= 0.9",
        "recall of fraud 0.75 (bound 0.6975, 0.2 short)",
        "Within reach alone: accuracy 0.9718, recall of fraud 0.6975",
        "search with a lower threshold of that label, with `objective='balanced'`",
    ):
        assert expected in text
    with pytest.raises(SelectionError, match="can be met alone, but not together") as caught:
        FRONT.select(min_recall={"fraud": 0.6}, min_accuracy_of={"fraud": 0.8}, sure=None)
    assert "Ask for less, or search" in str(caught.value)
    with pytest.raises(SelectionError, match="add a floor on accuracy, with which exports try other thresholds, too"):
        FRONT.select(min_recall={"fraud": 0.9}, sure=None)
    with pytest.raises(SelectionError, match="add a floor on coverage, with which exports try other thresholds, too"):
        FRONT.select(min_accuracy_of={"fraud": 0.999}, sure=None)
    with pytest.raises(SelectionError, match=r"about [\d,]+ rows instead of 1,000 would do"):
        FRONT.select(min_recall={"fraud": 0.74})


@pytest.mark.parametrize(
    ("floors", "message"),
    [
        ({"min_recall": {"fraud": 1.2}}, "`min_recall` of 'fraud' is 1.2: expected a number from 0 to 1"),
        ({"min_recall": {"fraud": "x"}}, "`min_recall` of 'fraud' is 'x': expected a number from 0 to 1"),
        ({"min_accuracy_of": {"fraud": math.nan}}, "`min_accuracy_of` of 'fraud' is nan: expected a number from 0 to 1"),
        ({"min_recall": 0.8}, r"min_recall is 0.8: expected a mapping from label to number, such as \{'fraud': 0.8\}"),
        ({"min_recall": {"eggs": 0.8}}, "there is no label 'eggs'"),
    ],
)
def test_floors_that_cannot_be(floors: dict[str, Any], message: str) -> None:
    """Shares of labels lie between 0 and 1, each label is named, and it is one of the front's."""
    with pytest.raises(DesignError, match=message):
        FRONT.select(**floors)


SHARES = st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


@settings(deadline=None, max_examples=60)
@given(st.none() | SHARES, SHARES, SHARES, st.sampled_from([None, 0.6, 0.9]))
def test_floors_by_brute_force(accuracy: float | None, recall: float, accuracy_of: float, sure: float | None) -> None:
    """What is chosen keeps every floor and nothing cheaper does; where nothing is chosen, nothing keeps them."""
    floors = make_label_floors({"fraud": recall}, {"fraud": accuracy_of})
    kept = [
        design
        for design in FRONT
        if design.bounds(sure).accuracy >= (accuracy or 0.0) and all(floor.shortfall(design, sure) == 0 for floor in floors)
    ]
    wish: dict[str, Any] = {"min_accuracy": accuracy, "min_recall": {"fraud": recall}, "min_accuracy_of": {"fraud": accuracy_of}}
    if not kept:
        with pytest.raises(SelectionError):
            FRONT.select(**wish, sure=sure)
    elif accuracy or floors:
        assert FRONT.select(**wish, sure=sure) == min(kept, key=lambda design: design.cost)


def test_what_to_type_next_finds_rare_labels(tmp_path: Path) -> None:
    """The command that training suggests has a floor on the recall of each rare label, and a design satisfies it."""
    columns, label = rare_table(3_000)
    write_rows(tmp_path / "rows.csv", [*columns, "kind"], zip(*columns.values(), label, strict=True))
    shown = run_successfully(
        "emsco-train", "--data", tmp_path / "rows.csv", "--label", "kind", "--threshold", "0.8", "--out", tmp_path / "run"
    )
    command = shlex.split(shown.splitlines()[-1].removeprefix("next "))
    floors = [command[place + 1].split("=") for place, word in enumerate(command) if word == "--min-recall"]
    assert {name for name, _ in floors} == {"rare", "rarest"}
    exported = run_successfully(*(str(tmp_path / "bundle") if word == "BUNDLE" else word for word in command))
    assert all(f"recall of {name} >= {floor}" in exported for name, floor in floors)


def test_the_ladder_lowers_the_threshold_of_a_rare_label() -> None:
    """With a floor on the recall of a label, its threshold is tried lower by itself; others move together, as without one."""
    levels = ladder_thresholds((0.9, 0.9, 0.9), [2])
    assert {level for level in levels if len(set(level)) == 1} >= set(ladder_thresholds((0.9, 0.9, 0.9)))
    assert all(level[0] == level[1] >= level[2] for level in levels)
    assert (0.9, 0.9, 0.8096) in levels


def test_a_floor_on_recall_and_accuracy_is_met_at_other_thresholds() -> None:
    """No design of the front finds half of the rarest label; at other thresholds of that label some do, accurately enough."""
    problem = rare_problem(rows=3000)
    front = run_search(problem, Settings(max_stages=2)).front
    wanted = Requirements.of(min_accuracy=0.9, min_recall={"rarest": 0.45})
    with pytest.raises(SelectionError):
        wanted.choose(tuple(front), front.full_cost)
    design = select_tuned_design(problem, front, wanted)
    assert design.label_bounds("rarest", 0.85).recall >= 0.45
    assert design.bounds(0.85).accuracy >= 0.9
    assert design.thresholds[2] < design.thresholds[0]
    assert len(ladder_front(problem, front, wanted)) > len(ladder_front(problem, front))


# The knee


# No subnormal ones: no count of rows has such a share, and the bounds of old versions of scipy are NaN there.
SHARE_FIGURES = st.floats(0.0, 1.0, allow_subnormal=False)
FIGURES = st.tuples(SHARE_FIGURES, SHARE_FIGURES, st.floats(0.1, 10.0))


@settings(deadline=None)
@given(st.lists(FIGURES, min_size=1, max_size=15), st.booleans())
def test_the_knee_is_useful_and_not_dominated(figures: list[tuple[float, float, float]], counted: bool) -> None:
    """It accepts at least half as much as any design, by the figures it is chosen by, and none is better in all of them."""
    designs = [Design.of((0,), ["a"], (0.9,), coverage=one, accuracy=two, cost=three) for one, two, three in figures]
    if counted:
        designs = [design.with_rows(200) for design in designs]
    sure = 0.85 if counted else None
    knee = find_knee(designs, 10.0).bounds(sure)
    for design in designs:
        bounds = design.bounds(sure)
        assert knee.coverage >= bounds.coverage / 2
        better = (bounds.coverage > knee.coverage, bounds.accuracy > knee.accuracy, bounds.cost < knee.cost)
        assert not all(better)


def test_the_knee_measures_errors_by_the_base_rate() -> None:
    """Among rows of which 90 % have one label, always giving that one is no achievement: the knee does better."""
    assert FRONT.fittest == FRONT.find(BLIND.id)
    assert FRONT.knee == FRONT.find(CAREFUL.id)
    unknown = Front([replace(design, labels=()) for design in FRONT], full_cost=10)
    assert unknown.knee.id == BLIND.id


@pytest.mark.parametrize("seed", range(3))
def test_the_knee_of_imbalanced_tables_answers_often(seed: int) -> None:
    """The knee accepts at least half as much as any design, where the fittest may accept next to nothing."""
    columns, truth = rare_table(600, seed)
    problem = Problem.of(columns, truth, costs={"a": 1.0, "b": 20.0, "c": 10.0, "d": 5.0}, threshold=0.97)
    front = run_search(problem, Settings(max_stages=3)).front
    widest = max(design.bounds(0.85).coverage for design in front)
    assert front.knee.bounds(0.85).coverage >= widest / 2


# The balanced objective


@pytest.mark.parametrize("weighted", [False, True])
def test_balanced_objectives_are_means_over_labels(weighted: bool) -> None:
    """Balanced coverage is the mean accepted share over labels, its product with accuracy the mean recall; the cost stays."""
    problem = rare_problem(weighted=weighted)
    bench, population = Workbench(problem), all_designs()
    plain, balanced = bench.evaluator()(population), bench.evaluator(objective="balanced")(population)
    for place, design in enumerate(bench.designs(population, [1] * len(population))):
        coverages = [counts.coverage for counts in design.labels]
        recalls = [counts.recall for counts in design.labels]
        assert balanced.coverage[place] == pytest.approx(np.mean(coverages), abs=1e-4)
        assert balanced.coverage[place] * balanced.accuracy[place] == pytest.approx(np.mean(recalls), abs=1e-4)
    assert balanced.mean_cost == pytest.approx(plain.mean_cost)
    assert (balanced.cost == plain.cost).all()


def test_the_balanced_front_holds_the_best_balanced_accuracy() -> None:
    """For any cost, the design with the highest mean recall of all is on the balanced front; the figures are plain ones."""
    problem = rare_problem()
    chosen = Settings(max_stages=2, objective="balanced", population=60, generations=30)
    outcome = run_search(problem, chosen)
    assert outcome.method == "evolve"
    everything = Workbench(problem).designs(all_designs(), [1] * len(all_designs()))

    def mean_recall(design: Design) -> float:
        return sum(counts.recall for counts in design.labels) / 3

    by_id = {design.id: design for design in everything}
    assert all(by_id[design.id].coverage == design.coverage for design in outcome.front)
    for cap in (1.5, 2.5, 4.0, 7.0):
        best = max(mean_recall(design) for design in everything if design.cost <= cap)
        found = max(mean_recall(design) for design in outcome.front if design.cost <= cap)
        assert found == pytest.approx(best, abs=1e-3)


def test_the_balanced_objective_serves_rare_labels() -> None:
    """Its front finds more of the rare labels than the plain one does."""
    problem = rare_problem()
    common = {"max_stages": 2, "population": 60, "generations": 20}
    plain = run_evolve(problem, Settings(**common)).front
    balanced = run_evolve(problem, Settings(**common, objective="balanced")).front

    def lowest(front: Front) -> float:
        return max(min(counts.recall for counts in design.labels) for design in front)

    assert lowest(balanced) >= lowest(plain)


def test_what_the_balanced_objective_cannot_do() -> None:
    """It is not searched exactly, and floors of the search would be on balanced figures: both are refused."""
    with pytest.raises(DesignError, match="the exact search counts all rows the same"):
        run_exhaustive(rare_problem(), Settings(objective="balanced"))
    for floor in ({"min_accuracy": 0.9}, {"min_coverage": 0.5}):
        with pytest.raises(DesignError, match="objective is 'balanced': expected 'plain' with a floor on accuracy or coverage"):
            Settings(objective="balanced", constraints=Constraints(**floor))
    assert Settings(objective="balanced", constraints=Constraints(max_cost=3)).objective == "balanced"
    with pytest.raises(DesignError, match="objective is 'recall': expected 'plain' or 'balanced'"):
        Settings(objective="recall")  # type: ignore[arg-type]


# The estimator


def test_the_estimator_chooses_by_labels_and_warns() -> None:
    """Floors per label in `select`; a balanced search; and a warning where the design in use never gives a label."""
    columns, truth = rare_table(1500)
    with pytest.warns(RareLabelWarning, match="no row of the label 'rarest' is accepted as it .*`objective='balanced'`"):
        model = EmscoClassifier(threshold=0.99, max_stages=1, random_state=0).fit({"a": columns["a"], "d": columns["d"]}, truth)
    assert model.design_ == model.front_.knee
    model = EmscoClassifier(threshold=0.8, max_stages=2, objective="balanced", population=30, generations=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RareLabelWarning)
        model.fit(columns, truth)
        design = model.select(min_recall={"rare": 0.3}, min_accuracy=0.85)
        assert design.label_bounds("rare", 0.85).recall >= 0.3
        assert model.use(design).design_ == design
    assert model.outcome_.method == "evolve"


def test_frames_have_figures_of_labels() -> None:
    """`Front.to_frame` ends with the recall and the accuracy of each label."""
    pytest.importorskip("pandas")
    frame = FRONT.to_frame()
    assert frame.columns[-4:].tolist() == ["recall_of_ham", "accuracy_of_ham", "recall_of_fraud", "accuracy_of_fraud"]
    assert frame["recall_of_fraud"].tolist() == [design.label_bounds("fraud", None).recall for design in FRONT]
