"""Rows with weights: figures, bounds, expected figures and certificates count them, exactly and the same everywhere."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from emsco_runtime.cascade import Cascade
from emsco_runtime.support.arrays import Floats, Ints, Mask
from emsco_train.costs.cost_model import CostModel
from emsco_train.costs.units import CostUnits
from emsco_train.data.problem import Problem
from emsco_train.data.row_units import MAX_UNITS, row_units
from emsco_train.data.splits import Shares
from emsco_train.data.stage_settings import check_sample_weight, row_weights
from emsco_train.designs.design import Design
from emsco_train.designs.genes import Genes
from emsco_train.designs.selection import Requirements
from emsco_train.errors import CertificationError, ConfidenceWarning, DataError, DesignError
from emsco_train.export.searched_design import check_counts, export_searched_design
from emsco_train.guarantee.choice import SelectionCriteria, choose_design
from emsco_train.guarantee.ledger import MemoryLedger
from emsco_train.guarantee.promise import Promise
from emsco_train.models.evaluation import evaluate_split, evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.models.importance import measure_importance
from emsco_train.models.logistic.regression import TopLabels
from emsco_train.runs.front_measurement import measure_designs, measure_fitted_design
from emsco_train.search.exact_search import is_affordable
from emsco_train.search.ladder import ladder_front
from emsco_train.search.scoring.bit_cache import BitCache
from emsco_train.search.scoring.evaluator import CachedEvaluator, cumulative_sets
from emsco_train.search.searches import exhaustive, run_search
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

SETTINGS = Settings(population=30, generations=8, max_stages=3)
# Several designs of four features.
POPULATION = np.array([[0, 0, 0, 0], [0, 1, 2, -1], [1, 0, 0, 2], [-1, 0, 1, 1]], dtype=np.int8)


def make_problem(weights: object = None, rows: int = 800, **options: object) -> Problem:
    """Return four features, with weights that are larger where the label is hard to tell."""
    rng = np.random.default_rng(3)
    table = rng.normal(size=(rows, 4))
    score = table @ [2.0, 1.2, 0.8, 0.0] + rng.normal(size=rows)
    if isinstance(weights, str):
        weights = {
            "decimal": np.round(rng.uniform(0.1, 1.0, rows) + 2.0 * (abs(score) < 1), 2),
            "real": rng.gamma(0.7, size=rows) * (1.0 + (abs(score) < 1)),
            "whole": rng.integers(0, 4, rows).astype(float),
        }[weights]
    settings = {"shares": Shares(0.4, 0.2, 0.2, 0.2), "threshold": 0.8} | options
    y = np.where(score > 0, "spam", "ham")
    return Problem.of(table, y, costs=[4, 2, 1, 1], sample_weight=weights, **settings)  # type: ignore[arg-type]


@given(npst.arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1e6)))
def test_units_are_proportional_to_weights(weights: Floats) -> None:
    """Each weight is rounded to at most half a unit, and the total stays within the limit of exact comparisons."""
    if not weights.any():
        with pytest.raises(DataError, match="sample_weight is 0 for every test row"):
            row_units(weights, "test")
        return
    units = row_units(weights, "test")
    assert 0 < units.sum() <= MAX_UNITS
    shares = weights / weights.max()
    assert np.all(np.abs(units - shares * units.max()) <= 1.0)


@given(npst.arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 5000)), st.integers(0, 3))
def test_whole_weights_and_short_decimals_are_exact(numbers: NDArray[np.int64], decimals: int) -> None:
    """Whole weights are their own units; a few decimals are kept without loss."""
    if not numbers.any():
        return
    units = row_units(numbers / 10**decimals, "test")
    ratio = numbers.sum() / units.sum()
    assert np.array_equal(units * ratio, numbers)
    if not decimals:
        assert np.array_equal(units, numbers)


def test_extreme_weights() -> None:
    """Weights that doubles cannot add, and the smallest there are, keep their proportions."""
    for scale in (1e308, 5e-324):
        units = row_units(np.array([1.0, 1.0, 0.0]) * scale, "certify")
        assert units[0] == units[1] > MAX_UNITS // 4
        assert units[2] == 0


@st.composite
def weighted_bits(draw: st.DrawFn) -> tuple[Ints, Mask, Mask, Ints]:
    """Return the labels that each set of two features gives, which items are confident, the targets, and units."""
    items = draw(st.integers(1, 150))
    confident = draw(npst.arrays(np.bool_, (4, items)))
    label = draw(npst.arrays(np.intp, (4, items), elements=st.integers(0, 1)))
    units = draw(npst.arrays(np.int64, items, elements=st.integers(0, 9)))
    units[draw(st.integers(0, items - 1))] += 1
    return label, confident, draw(npst.arrays(np.intp, items, elements=st.integers(0, 1))), units


@given(weighted_bits())
def test_objectives_are_weighted_sums(drawn: tuple[Ints, Mask, Mask, Ints]) -> None:
    """Accepted, right and cost of every design of two features are numpy's weighted sums over its items."""
    label, confident, target, units = drawn

    def score(sets: Mask) -> list[TopLabels]:
        at = sets @ [1, 2]
        return [TopLabels(label[at], np.where(confident[at], 0.9, 0.5))]

    costs = CostUnits.of(CostModel.of([3, 5], ["a", "b"]).meter(), ["a", "b"], int(units.sum()))
    bits = BitCache(lambda sets: iter(score(sets)), target, [(0.8, 0.8)])
    evaluator = CachedEvaluator(bits, costs, 0, units)
    population = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]], dtype=np.int8)
    found = evaluator(population)
    assert found.rows == units.sum()
    for index, genes in enumerate(population):
        sets, valid = cumulative_sets(genes[None, :])
        waiting = np.ones(len(target), dtype=np.bool_)
        accepted = right = cost = 0
        for chosen in sets[0][valid[0]]:
            at, price = chosen @ [1, 2], int(chosen @ [3, 5])
            leaving = waiting & confident[at]
            accepted += int(units[leaving].sum())
            right += int(units[leaving & (label[at] == target)].sum())
            cost += price * int(units[leaving].sum())
            waiting &= ~leaving
        cost += price * int(units[waiting].sum())
        assert (found.accepted[index], found.right[index], found.cost[index]) == (accepted, right, cost)
        stage, answer = evaluator.row_exits(genes, target)
        assert units[stage >= 0].sum() == accepted
        assert units[answer == target].sum() == right


def repeated(problem: Problem) -> Problem:
    """Return the same fits with every scored row as often as it weighs; the repeats of a row are one group."""

    def repeat(rows: Ints, weights: Floats) -> Ints:
        return np.repeat(rows, weights.astype(int))

    parts, validation = [], problem.validation
    for part in problem.parts:
        weights = part.scored.weights
        assert weights is not None
        rows = repeat(np.arange(len(part.scored)), weights)
        parts.append(replace(part, scored=replace(part.scored.take(rows), weights=None)))
    assert validation.weights is not None
    rows = repeat(np.arange(len(validation)), validation.weights)
    return replace(problem, parts=tuple(parts), validation=replace(validation.take(rows), weights=None, groups=rows))


@pytest.mark.parametrize("folds", [0, 4])
def test_whole_weights_are_repeated_rows(folds: int) -> None:
    """Figures of designs by whole weights equal those of rows that are repeated so often, bit by bit, with folds too."""
    problem = make_problem("whole", folds=folds)
    by_weight = Workbench(problem).designs(POPULATION, [1] * len(POPULATION))
    by_rows = Workbench(repeated(problem)).designs(POPULATION, [1] * len(POPULATION))
    assert by_weight == by_rows
    for weighted, plain in zip(by_weight, by_rows, strict=True):
        assert weighted.units == plain.rows
        assert weighted.units is not None
        assert weighted.rows == len(problem.validation)
        assert weighted.precision is not None
        assert plain.precision is not None
        assert weighted.precision.cost_error == pytest.approx(plain.precision.cost_error)
        # Rows that weigh several can say no more than one row each; repeated ones are not known to be so few.
        assert weighted.precision.accepted <= plain.precision.accepted * (1 + 1e-9)
        assert weighted.precision.rows < len(problem.validation)


@pytest.mark.parametrize("kind", ["decimal", "real", "whole"])
@pytest.mark.parametrize("folds", [0, 3])
def test_figures_are_weighted_means(kind: str, folds: int) -> None:
    """Search, measurement and expected figures are the same weighted means, those of numpy but for the rounding to units."""
    problem = make_problem(kind, folds=folds)
    designs = Workbench(problem).designs(POPULATION, [1] * len(POPULATION))
    measured = list(measure_designs(problem, problem.validation, designs, ProblemFitters(problem)))
    for design, other in zip(designs, measured, strict=True):
        made = evaluate_validation(problem, design.stages, design.stage_thresholds)
        weights = problem.validation.weights
        assert weights is not None
        accepted, right = made.accepted, made.accepted & (made.label == problem.validation.target)
        exact = 1e-12 if kind != "real" else 1e-5
        assert design.coverage == pytest.approx(np.average(accepted, weights=weights), rel=exact)
        assert design.accuracy == pytest.approx(np.average(right[accepted], weights=weights[accepted]), rel=exact)
        assert design.cost == pytest.approx(np.average(made.cost, weights=weights), rel=exact)
        assert (design.coverage, design.accuracy) != (accepted.mean(), right.sum() / accepted.sum())
        assert other.figures.units == design.units
        assert (other.figures.coverage, other.figures.accuracy) == (design.coverage, design.accuracy)
        assert other.figures.cost == pytest.approx(design.cost, rel=1e-12)
        check_counts(problem, design)


def test_equal_weights_are_none() -> None:
    """Rows that all weigh the same count as rows without weights: the same objectives, exact search, and certificate."""
    plain, equal = make_problem(), make_problem(np.full(800, 2.0))
    assert equal.validation.weights is None
    assert equal.weights is not None
    assert is_affordable(plain, SETTINGS, Genes.of_features(len(plain.names)))
    assert is_affordable(equal, SETTINGS, Genes.of_features(len(equal.names)))
    designs = [Workbench(problem).designs(POPULATION[:1], [1]) for problem in (plain, make_problem(np.ones(800)))]
    assert designs[0] == designs[1]


def test_the_exact_search_is_refused() -> None:
    """Weighted rows go to the genetic search; asking for the exact one is refused with the remedy."""
    problem = make_problem("decimal")
    outcome = run_search(problem, SETTINGS)
    assert outcome.method == "evolve"
    assert all(design.units is not None for design in outcome.front)
    with pytest.raises(DesignError, match=r"exact search counts rows and cannot count their weights: use `search='evolve'`"):
        exhaustive(problem)


def test_a_search_finds_the_front_of_repeated_rows() -> None:
    """The genetic search over weights visits and keeps the designs that it keeps where rows are repeated."""
    problem = make_problem("whole")
    by_weight, by_rows = (run_search(one, SETTINGS, method="evolve", jobs=1).front for one in (problem, repeated(problem)))
    assert by_weight == by_rows
    assert ladder_front(problem, by_weight) == ladder_front(repeated(problem), by_rows)


def test_samples_keep_weights() -> None:
    """A sample of the rows takes rows that have weight, with their weights."""
    sampled = make_problem("whole").sampled(60)
    assert sampled.validation.weights is not None
    assert sampled.validation.weights.min() > 0
    assert len(sampled.validation) == 60


def test_the_digest_holds_the_weights_of_all_rows() -> None:
    """Another weight of a validation row is another problem; no weights leave the digest as it was."""
    weights = np.ones(800)
    weights[5] = 2.0
    problem = make_problem(weights)
    others = weights.copy()
    others[problem.validation.rows[0]] += 1.0
    assert make_problem(others).data_digest() != problem.data_digest()
    assert make_problem(weights.copy()).data_digest() == problem.data_digest()


def test_ready_splits_have_weights_of_their_own() -> None:
    """`from_splits` takes weights by split; a fault names the split and the row, and other names are refused."""
    rng = np.random.default_rng(0)
    pairs = {name: (rng.normal(size=(40, 2)), np.arange(40) % 2) for name in ("train", "validation", "test")}
    weights = {"validation": rng.uniform(1, 2, 40), "test": None}
    problem = Problem.from_splits(**pairs, sample_weight=weights)  # type: ignore[arg-type]
    assert problem.weights is None
    assert problem.train.weights is None
    assert np.array_equal(problem.validation.weights, weights["validation"])
    with pytest.raises(DataError, match=r"validation rows: `sample_weight`, row 3: -1.0 is not a weight"):
        Problem.from_splits(**pairs, sample_weight={"validation": [1, 1, 1, -1, *[1] * 36]})  # type: ignore[arg-type]
    with pytest.raises(DesignError, match="`sample_weight` names 'certify': expected some of train, validation, test"):
        Problem.from_splits(**pairs, sample_weight={"certify": [1]})  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [1e305, 1e200, 1e-200, 5e-324])
def test_weights_that_cannot_be_computed_with_are_refused(weight: float) -> None:
    """Sums and squares of them are infinite or 0: an IndexError or an OverflowError out of the fits. 0 is a weight."""
    weights = np.full(800, weight)
    with pytest.raises(DataError, match=re.escape(f"row 0: {weight:g} cannot be computed with, expected 1e-150 to 1e+150")):
        make_problem(weights)
    with pytest.raises(DesignError, match="for label 'a' cannot be computed with, expected 1e-150 to"):
        row_weights(np.array([0, 1]), ("a", "b"), class_weight={"a": weight, "b": weight}, sample_weight=None)
    assert check_sample_weight([0.0, 1e150, 2e149], 3).tolist() == [0.0, 1e150, 2e149]


def test_weights_of_rows_that_are_never_fitted_are_checked() -> None:
    """A fault in any row is found, by its place in the table, and a split without weight before the search."""
    weights = np.ones(800)
    problem = make_problem()
    assert problem.test is not None
    weights[problem.test.rows[0]] = np.nan
    with pytest.raises(DataError, match=rf"`sample_weight`, row {problem.test.rows[0]}: nan is not a weight"):
        make_problem(weights)
    weights[problem.test.rows] = 0.0
    with pytest.raises(DataError, match="sample_weight is 0 for every test row"):
        make_problem(weights)


def chosen_design(problem: Problem) -> Design:
    """Return one design of a problem."""
    return Workbench(problem).designs(POPULATION[1:2], [1])[0]


def test_a_bundle_holds_both_kinds_of_figures(tmp_path: Path) -> None:
    """Expected figures are counts of rows and, in addition, by weight; the bundle is read back with both."""
    problem = make_problem("decimal")
    design = chosen_design(problem)
    exported = export_searched_design(tmp_path / "bundle", problem, design)
    expected = Cascade.load(tmp_path / "bundle").manifest.expected
    assert expected == exported.expected
    assert problem.test is not None
    assert problem.test.units is not None
    measured = measure_fitted_design(problem, problem.test, design, exported.model)
    assert expected.weighted is not None
    assert expected.weighted.units == problem.test.units.sum()
    assert expected.weighted.accepted / expected.weighted.units == measured.figures.coverage
    assert expected.accepted == evaluate_split(problem, exported.model, problem.test).accepted.sum()
    plain = export_searched_design(tmp_path / "plain", make_problem(), chosen_design(make_problem()))
    assert plain.expected.weighted is None


def test_certificates_bet_on_weighted_rows() -> None:
    """With weights a certificate is by betting, up to the largest weight of the pool; without, it is what it was."""
    problem = make_problem("decimal", rows=3000)
    front = run_search(problem, SETTINGS).front
    certificate = choose_design(problem, front, SelectionCriteria(), MemoryLedger()).certificate
    assert certificate is not None
    assert certificate.method == "betting"
    assert certificate.weights is not None
    assert problem.train.weights is not None
    assert problem.validation.weights is not None
    largest = max(problem.train.weights.max(), problem.validation.weights.max())
    assert certificate.weights.max_weight == largest
    assert certificate.weights.error <= certificate.max_error


def test_promises_with_weights() -> None:
    """A promise on the error, one label's error, coverage and cost is kept by weight, or refused by validation already."""
    problem = make_problem("decimal", rows=6000, threshold=0.9)
    front = run_search(problem, SETTINGS).front
    promise = Promise(max_error=0.2, max_error_of={"spam": 0.25}, min_coverage=0.2, max_cost=7.9)
    choice = choose_design(problem, front, SelectionCriteria(Requirements(sure=None), None, promise), MemoryLedger())
    assert choice.certificate is not None
    assert choice.certificate.weights is not None
    assert choice.certificate.choice is not None
    assert choice.certificate.weights.error < 0.2
    strict = SelectionCriteria(Requirements(sure=None), None, Promise(max_error=0.0001))
    with pytest.raises(CertificationError, match=r"\(\d.*% wrong of the accepted validation rows, by weight\)"):
        choose_design(problem, front, strict, MemoryLedger())


def test_a_heavier_certify_row_refuses_the_certificate() -> None:
    """A certify row that weighs more than every row of the pool breaks what the test assumes: no certificate."""
    weights = np.round(np.random.default_rng(0).uniform(0.5, 1.0, 800), 2)
    plain = make_problem()
    assert plain.certify is not None
    weights[plain.certify.rows[3]] = 7.0
    problem = make_problem(weights)
    front = Workbench(problem).front([chosen_design(problem)])
    with pytest.raises(CertificationError, match=r"1 certify row weigh more than 1, the largest weight .*row 3: 7"):
        choose_design(problem, front, SelectionCriteria(), MemoryLedger())


def test_importance_is_by_weight() -> None:
    """What features are worth is measured on rows by their weight: rows that count for next to nothing change next to nothing."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    labels = rows[:, 0] > 0
    problem = Problem.of(rows, labels, sample_weight=np.ones(400), shares=Shares(0.5, 0.5, 0.0, 0.0), folds=0)
    full = ProblemFitters(problem).parts[0].fit(problem.names)
    few = np.where(np.arange(len(problem.validation)) < 20, 1.0, 1e-9)
    weighted = replace(problem.validation, weights=few)
    wrong = replace(weighted, target=np.where(few < 1, 1 - weighted.target, weighted.target))
    first, second = (measure_importance(full, split, np.random.default_rng(0)) for split in (weighted, wrong))
    np.testing.assert_allclose(first, second, atol=1e-6)
    assert first[0] > 0.1 > first[1]


def test_weights_that_sum_to_one_are_warned_of() -> None:
    """The penalty takes the sum of the weights for the number of rows: weights that sum to 1 would accept nothing, silently."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 800)
    with pytest.warns(ConfidenceWarning, match=r"^320 train rows weigh 0\.4 together .* multiply the weights, to a mean of 1"):
        make_problem(weights / weights.sum())
    with pytest.warns(ConfidenceWarning, match="train rows weigh .* together"):
        make_problem(None, class_weight={"ham": 0.01, "spam": 0.01})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_problem(weights)
        make_problem(0.05 * weights, class_weight={"ham": 20.0, "spam": 20.0})
