"""Rows at a threshold: search, figures, export and runtime accept the same ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from emsco_train import Problem, Settings, sweep_thresholds
from emsco_train.data.thresholds import StageThresholds
from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.export.searched_design import build_cascade, fit_design
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.evaluation import evaluate
from emsco_train.search.searches import run_search
from emsco_train.search.workbench import Workbench

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

Kinds = Literal["numbers", "mixed", "mirrored"]

CHAINS = [genes for genes in itertools.product(range(3), repeat=3) if set(genes) == set(range(max(genes) + 1))]
# Other classifiers take long to convert: designs that acquire in three different orders.
FEW_CHAINS = [(0, 1, 2), (2, 1, 0), (1, 0, 1)]
FOREST = RandomForestClassifier(n_estimators=2, max_depth=3)


def make_few_valued_problem(labels: int, kinds: Kinds = "numbers", classifier: Any = None) -> Problem:
    """Return a problem of three features with three values each; every combination is a validation row.

    "mixed" has a text column and gaps. In "mirrored" the last two labels are each other's mirror image: they are tied in the
    middle, and in about as many rows the last bits decide which is on top.
    """
    rng = np.random.default_rng(0)
    combinations = np.array(list(itertools.product(range(3), repeat=3)))
    train = rng.integers(0, 3, size=(90, 3))
    drawn = train @ [1.3, 0.7, -0.9] + rng.normal(size=len(train))
    y = np.searchsorted(np.quantile(drawn, np.arange(1, labels) / labels), drawn)
    if kinds == "mirrored":
        train, mirrored = np.concatenate([train, 2 - train]), np.where(y == labels - 1, labels - 2, labels - 1)
        y = np.concatenate([y, np.where(y >= labels - 2, mirrored, y)])

    def table(codes: np.ndarray) -> dict[str, np.ndarray]:
        columns: dict[str, np.ndarray] = {f"f{index}": codes[:, index] * 0.1 for index in range(3)}
        if kinds == "mixed":
            columns["f1"] = np.array(["low", "middle", "high"], dtype=object)[codes[:, 1]]
            columns["f2"] = np.where(codes[:, 2] == 2, np.nan, columns["f2"])
        return columns

    truth = rng.integers(0, labels, size=len(combinations))
    held_out = (table(combinations), truth)
    return Problem.from_splits(
        train=(table(train), y), validation=held_out, costs=[1, 2, 4], threshold=0.8, classifier=classifier
    )


def list_chains(problem: Problem) -> list[tuple[int, ...]]:
    """Return the designs to look at: all of them where that is quick."""
    return CHAINS if problem.settings.classifier is None else FEW_CHAINS


def fitted_designs(problem: Problem) -> dict[tuple[int, ...], CascadeModel]:
    """Return designs of all three features, fitted."""
    levels = (0.8,) * len(problem.labels)
    designs = [Design.of(genes, problem.names, levels, coverage=0.0, accuracy=0.0, cost=0.0) for genes in list_chains(problem)]
    return {design.chromosome: fit_design(problem, design) for design in designs}


def encode_rows(problem: Problem, model: CascadeModel) -> np.ndarray:
    """Return the validation rows as a fitted design sees them."""
    return problem.validation.codes[:, problem.encoder.positions([feature.name for feature in model.features])]


def top_probabilities(problem: Problem, models: dict[tuple[int, ...], CascadeModel]) -> list[float]:
    """Return every top probability that any stage of any design gives to any row: by numpy, and by the graph."""
    found: set[float] = set()
    for model in models.values():
        found.update(*(matrix.max(axis=1).tolist() for matrix in evaluate(model, encode_rows(problem, model)).probabilities))
        scorer = model.scorer()
        for index, stage in enumerate(model.stages):
            part = problem.validation.codes[:, problem.encoder.positions(stage.inputs)]
            found.update(max(scorer.score(index, row)) for row in part.tolist())
    return sorted(level for level in found if level <= 1.0)


@pytest.mark.parametrize(
    ("labels", "kinds", "classifier"),
    [
        (2, "numbers", None),
        (2, "mixed", None),
        (2, "mirrored", None),
        (3, "numbers", None),
        (3, "mixed", None),
        (3, "mirrored", None),
        (2, "numbers", GaussianNB()),
        (3, "mixed", FOREST),
    ],
    ids=str,
)
def test_search_and_cascade_accept_the_same_rows_at_every_threshold(labels: int, kinds: Kinds, classifier: Any) -> None:
    """All designs, a threshold at every probability of any stage: the search counts what the fitted cascade accepts."""
    problem = make_few_valued_problem(labels, kinds, classifier)
    models = fitted_designs(problem)
    levels = [*top_probabilities(problem, models), 0.2]
    bench = Workbench(problem, levels)
    differing = []
    for index, level in enumerate(levels):
        exits = bench.evaluator(index).exits(np.array(list(models), dtype=np.int8))
        for genes, left, right in zip(models, exits.accepted.tolist(), exits.right.tolist(), strict=True):
            model = replace(models[genes], thresholds=StageThresholds.constant((level,) * labels))
            found = evaluate(model, encode_rows(problem, model)).expected(problem.validation.target, "validation")
            counts = [(stage.accepted, stage.right) for stage in found.stages]
            if counts != list(zip(left, right, strict=True))[: len(counts)]:
                differing.append((level, genes))
    assert len(levels) > 10
    assert differing == []


@pytest.mark.parametrize(
    ("search", "labels", "classifier"),
    [("evolve", 2, None), ("exhaustive", 2, None), ("sweep", 3, None), ("exhaustive", 3, None), ("sweep", 2, FOREST)],
    ids=str,
)
def test_the_figures_of_a_front_are_those_of_the_runtime(search: str, labels: int, classifier: Any) -> None:
    """Thresholds at model probabilities: each design of a front covers, hits and costs what its cascade decides row by row."""
    problem = make_few_valued_problem(labels, classifier=classifier)
    levels = top_probabilities(problem, fitted_designs(problem))
    levels = levels[len(levels) // 2 :: max(1, len(levels) // 4)]
    settings = Settings(max_stages=3, population=20, generations=3)
    fronts: list[Front] = []
    if search == "sweep":
        fronts.append(sweep_thresholds(problem, levels, settings).front)
    else:
        method: Any = search
        fronts += [run_search(problem.with_threshold(level), settings, method=method).front for level in levels]
    designs = [design for front in fronts for design in front]
    assert {design.thresholds[0] for design in designs} == set(levels)
    for design in designs[:: max(1, len(designs) // 6)]:
        cascade = build_cascade(problem, design)
        decisions = [cascade.decide(item) for item in problem.validation.table.items()]
        truth = [problem.labels[position] for position in problem.validation.target]
        accepted = [made.label == true for made, true in zip(decisions, truth, strict=True) if made.status == "accepted"]
        assert design.coverage == len(accepted) / len(decisions)
        assert design.accuracy == (sum(accepted) / len(accepted) if accepted else 0.0)
        assert design.cost == pytest.approx(sum(made.cost for made in decisions) / len(decisions))


def test_a_feature_set_has_one_graph_whatever_the_order_of_acquisition() -> None:
    """The stages of all designs that have acquired the same features have the same inputs and the same bytes."""
    for problem in (
        make_few_valued_problem(2),
        make_few_valued_problem(3, "mixed"),
        make_few_valued_problem(2, classifier=FOREST),
    ):
        last = [model.stages[-1] for model in fitted_designs(problem).values()]
        assert {stage.inputs for stage in last} == {("f0", "f1", "f2")}
        assert len({stage.graph for stage in last}) == 1
