"""Rows at a threshold: search, figures, export and runtime accept the same ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from emsco_train import Problem
from emsco_train.bundling.design_export import fit_design
from emsco_train.designs.design import Design
from emsco_train.stages.evaluation import evaluate
from emsco_train.workbench import Workbench

CHAINS = [genes for genes in itertools.product(range(3), repeat=3) if set(genes) == set(range(max(genes) + 1))]


def few_valued(labels: int, *, kinds: str = "numbers", classifier: Any = None, seed: int = 0) -> Problem:
    """Return a problem of three features with three values each; every combination is a validation row."""
    rng = np.random.default_rng(seed)
    combinations = np.array(list(itertools.product(range(3), repeat=3)))

    def table(codes: np.ndarray) -> Any:
        columns = {f"f{index}": codes[:, index].astype(float) for index in range(3)}
        if kinds == "mixed":
            columns["f1"] = np.array(["low", "middle", "high"], dtype=object)[codes[:, 1]]
            columns["f2"] = np.where(codes[:, 2] == 2, np.nan, columns["f2"] * 0.1)
        return columns

    train = rng.integers(0, 3, size=(90, 3))
    drawn = train @ [1.3, 0.7, -0.9] + rng.normal(size=len(train))
    y = np.searchsorted(np.quantile(drawn, np.arange(1, labels) / labels), drawn)
    truth = rng.integers(0, labels, size=len(combinations))
    return Problem.from_splits(
        train=(table(train), y),
        validation=(table(combinations), truth),
        costs=[1, 2, 4],
        threshold=0.8,
        classifier=classifier,
    )


def probabilities_at_stages(problem: Problem) -> list[float]:
    """Return every top probability that some stage of some design gives some row: by numpy, and by the graph."""
    found: set[float] = set()
    for genes in CHAINS:
        model = fit_design(problem, design_of(problem, genes, (0.8,) * len(problem.labels)))
        codes = problem.validation.codes[:, problem.encoder.positions([feature.name for feature in model.features])]
        found.update(*(matrix.max(axis=1).tolist() for matrix in evaluate(model, codes).probabilities))
        scorer = model.scorer()
        for index, stage in enumerate(model.stages):
            part = problem.validation.codes[:, problem.encoder.positions(stage.inputs)]
            found.update(max(scorer.score(index, row)) for row in part.tolist())
    return sorted(found)


def design_of(problem: Problem, genes: tuple[int, ...], thresholds: tuple[float, ...]) -> Design:
    """Return a design without figures."""
    return Design.of(genes, problem.names, thresholds, coverage=0.0, accuracy=0.0, cost=0.0)


@pytest.mark.parametrize(
    ("labels", "kinds", "classifier"),
    [
        (2, "numbers", None),
        (2, "mixed", None),
        (3, "numbers", None),
        (3, "mixed", None),
        (2, "numbers", GaussianNB()),
        (3, "mixed", RandomForestClassifier(n_estimators=3, max_depth=3)),
    ],
    ids=str,
)
def test_search_and_cascade_accept_the_same_rows_at_every_threshold(labels: int, kinds: str, classifier: Any) -> None:
    """All designs, thresholds at every probability of any stage: the search counts what the fitted cascade accepts."""
    problem = few_valued(labels, kinds=kinds, classifier=classifier)
    levels = [level for level in probabilities_at_stages(problem) if level <= 1.0]
    if classifier is not None:
        levels = levels[:: max(1, len(levels) // 8)]
    bench = Workbench(problem, levels)
    models = {genes: fit_design(problem, design_of(problem, genes, (0.8,) * labels)) for genes in CHAINS}
    differing = 0
    for index, level in enumerate(levels):
        exits = bench.evaluator(index).exits(np.array(CHAINS, dtype=np.int8))
        for genes, left, right in zip(CHAINS, exits.left, exits.right, strict=True):
            model = models[genes]
            model = type(model)(model.features, model.labels, (level,) * labels, model.encoder, model.stages, model.meter)
            codes = problem.validation.codes[:, problem.encoder.positions([feature.name for feature in model.features])]
            stages = evaluate(model, codes).expected(problem.validation.target, "validation").stages
            counted = [(stage.accepted, stage.right) for stage in stages]
            differing += counted != list(zip(left.tolist(), right.tolist(), strict=True))[: len(counted)]
    assert (differing, len(levels) > 5) == (0, True)
