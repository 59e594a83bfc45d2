"""Folds: every row of a pool is scored by models that have not seen it, and the search counts just that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from emsco_train import DataError, DesignError, EmscoClassifier, Problem, Settings, Shares
from emsco_train.data.folds import AUTO_FOLDS, MAX_AUTO_ROWS, make_folds, resolve_folds
from emsco_train.data.split_keys import group_codes
from emsco_train.data.splits import Splits
from emsco_train.designs.design import Design
from emsco_train.designs.genes import Genes
from emsco_train.errors import RareLabelWarning, RepeatedRowsWarning
from emsco_train.export.searched_design import check_counts, export_searched_design, fit_design
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters
from emsco_train.runs.front_measurement import measure_designs, measure_fitted_design
from emsco_train.search.exact_search import is_affordable
from emsco_train.search.other_folds import make_divisions
from emsco_train.search.searches import run_evolve, run_exhaustive
from emsco_train.search.sweep import search_thresholds, sweep_thresholds
from tests.train.sample_tables import mixed_rows

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

ALL_POOL = Shares(0.6, 0.4, 0.0, 0.0)


def rng(seed: int = 0) -> np.random.Generator:
    """Return a source of randomness."""
    return np.random.default_rng(seed)


def make_table(rows: int = 300, labels: int = 2) -> tuple[dict[str, Any], np.ndarray]:
    """Return numbers with gaps, a column of text, and labels that depend on them."""
    draw = rng(5)
    x = draw.normal(size=(rows, 3))
    kind = draw.choice(["mail", "news", "shop"], size=rows)
    score = x @ [2.0, 1.0, 0.5] + (kind == "shop") + draw.normal(size=rows)
    y = np.digitize(score, [0.0] if labels == 2 else [-1.0, 1.0])
    x[draw.uniform(size=x.shape) < 0.05] = np.nan
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "kind": kind}, y


def make_problem(rows: int = 300, labels: int = 2, **options: Any) -> Problem:
    """Return a cross-fitted problem of the table; a small one for other classifiers, which are fitted one by one."""
    table, y = make_table(120 if "classifier" in options else rows, labels)
    chosen: dict[str, Any] = {"costs": [3, 1, 1, 5], "threshold": 0.75, "folds": 5, "shares": ALL_POOL} | options
    if "classifier" in options:
        table, chosen = {"a": table["a"], "kind": table["kind"]}, chosen | {"costs": [3, 5], "folds": 3}
    return Problem.of(table, y, **chosen)


# Who is in which fold


targets = st.lists(st.integers(0, 2), min_size=12, max_size=60).map(lambda labels: np.array([0, 0, 1, 1, 2, 2, *labels]))


@given(target=targets, folds=st.integers(2, 7), seed=st.integers(0, 5))
def test_plain_folds(target: np.ndarray, folds: int, seed: int) -> None:
    """Each row is scored once, by a fit of all others but its fold; folds differ by at most one row, in each label and in all."""
    made = make_folds(target, folds, rng=rng(seed), labels="abc")
    assert np.sort(np.concatenate([fold.scored for fold in made])).tolist() == list(range(len(target)))
    for fold in made:
        assert sorted([*fold.fitted, *fold.scored]) == list(range(len(target)))
        assert set(target[fold.fitted]) == {0, 1, 2}
    sizes = [np.bincount(target[fold.scored], minlength=3) for fold in made]
    assert len(made) == min(folds, len(target))
    assert np.ptp(sizes, axis=0).max() <= 1
    assert np.ptp(np.sum(sizes, axis=1)) <= 1
    again = make_folds(target, folds, rng=rng(seed), labels="abc")
    assert all(np.array_equal(one.scored, other.scored) for one, other in zip(made, again, strict=True))


@given(
    target=st.lists(st.integers(0, 2), min_size=20, max_size=60).map(lambda labels: np.array([0, 1, 2, *labels])),
    groups=st.integers(3, 12),
    folds=st.integers(2, 3),
    seed=st.integers(0, 5),
)
def test_folds_of_groups(target: np.ndarray, groups: int, folds: int, seed: int) -> None:
    """A group is scored whole or not at all; who is not scored fits everywhere; every fit knows every label."""
    codes = group_codes(np.arange(len(target)) % groups, rows=len(target))
    try:
        made = make_folds(target, folds, groups=codes, rng=rng(seed), labels="abc")
    except DataError:
        # Nothing can be scored; other tests prove that this is right.
        reject()
    scored = np.concatenate([fold.scored for fold in made])
    assert len(set(scored)) == len(scored)
    unscored = np.setdiff1d(np.arange(len(target)), scored)
    assert not set(codes[unscored]) & set(codes[scored])
    for fold in made:
        assert sorted([*fold.fitted, *fold.scored]) == list(range(len(target)))
        assert not set(codes[fold.fitted]) & set(codes[fold.scored])
        assert set(target[fold.fitted]) == {0, 1, 2}
    if len(unscored):
        assert any(len({number for number, fold in enumerate(made) if label in target[fold.scored]}) < 2 for label in range(3))


@given(
    target=st.lists(st.integers(0, 1), min_size=20, max_size=60).map(lambda labels: np.array([0, 1, *labels])),
    moments=st.integers(6, 22),
    folds=st.integers(2, 5),
)
def test_folds_of_time(target: np.ndarray, moments: int, folds: int) -> None:
    """Forward chaining: all rows that are strictly earlier fit, and no others; the first block is not scored."""
    time = np.arange(len(target)) * moments // len(target)
    time = rng(len(target)).permutation(moments)[time]
    try:
        made = make_folds(target, folds, time=time, rng=rng(), labels="ab")
    except DataError:
        reject()
    first = np.setdiff1d(np.arange(len(target)), np.concatenate([fold.scored for fold in made]))
    assert len(first)
    assert time[first].max() < min(time[fold.scored].min() for fold in made)
    assert set(target[first]) == {0, 1}
    for fold in made:
        assert time[fold.fitted].max() < time[fold.scored].min()
        assert set(np.flatnonzero(time < time[fold.scored].min())) == set(fold.fitted)
    assert len(made) <= folds


def test_blocks_of_time_are_equal() -> None:
    """Sixty moments in five folds: six blocks of ten, of which the first only fits."""
    made = make_folds(np.array([0, 1] * 30), 5, time=np.arange(60), rng=rng(), labels="ab")
    assert [len(fold.fitted) for fold in made] == [10, 20, 30, 40, 50]
    assert [len(fold.scored) for fold in made] == [10] * 5
    # A label that first occurs at row 24: the first block ends there, and two folds are gone or shorter.
    late = make_folds(np.where(np.arange(60) < 24, 0, np.arange(60) % 2), 5, time=np.arange(60), rng=rng(), labels="ab")
    assert [len(fold.fitted) for fold in late] == [26, 30, 40, 50]


def test_labels_that_are_too_rare_to_score() -> None:
    """A label with one row fits in every fold and is scored by none; with two, each is scored by a fit that knows the other."""
    one = make_folds(np.array([0] * 9 + [1] * 9 + [2]), 3, rng=rng(), labels="abc")
    assert all(18 in fold.fitted for fold in one)
    assert sorted(np.concatenate([fold.scored for fold in one])) == list(range(18))
    two = make_folds(np.array([0] * 9 + [1] * 9 + [2] * 2), 3, rng=rng(), labels="abc")
    assert sorted(np.concatenate([fold.scored for fold in two])) == list(range(20))
    with pytest.raises(DataError, match=r"no row can be cross-fitted: .* Give more rows of each label, or use `folds=0`"):
        make_folds(np.array([0, 1]), 2, rng=rng(), labels="ab")


def test_folds_that_cannot_be_made() -> None:
    """Too few groups or times for the folds asked for are named with their number."""
    target = np.array([0, 1] * 6)
    with pytest.raises(DataError, match="1 group for 2 folds: give more groups, or a share to validation rows"):
        make_folds(np.array([0, 1] * 3), 2, groups=np.zeros(6, dtype=np.intp), rng=rng(), labels="ab")
    with pytest.raises(DataError, match="2 groups for 3 folds: use fewer folds, or `folds=0`"):
        make_folds(target, 3, groups=np.arange(12) // 6, rng=rng(), labels="ab")
    with pytest.raises(DataError, match="time has 3 different values for 4 blocks: use fewer folds"):
        make_folds(target, 3, time=np.arange(12) // 4, rng=rng(), labels="ab")
    with pytest.raises(DataError, match="label 'b' first occurs at the end of the pool"):
        make_folds(np.array([0] * 11 + [1]), 3, time=np.arange(12), rng=rng(), labels="ab")


def test_how_many_folds() -> None:
    """By default five where rows are few, fewer where groups or times are; what was asked for is not changed."""
    assert resolve_folds(None, MAX_AUTO_ROWS) == AUTO_FOLDS
    assert resolve_folds(None, MAX_AUTO_ROWS + 1) == 0
    assert [resolve_folds(None, 9, groups=np.arange(9) % count) for count in (1, 2, 4, 9)] == [0, 2, 4, 5]
    assert [resolve_folds(None, 9, time=np.arange(9) % count) for count in (1, 2, 3, 5, 9)] == [0, 0, 2, 4, 5]
    assert resolve_folds(7, 10**6, groups=np.zeros(1, dtype=np.intp)) == 7


# What a cross-fitted problem holds


def test_a_pool_of_train_and_validation_rows() -> None:
    """The pool is what train and validation rows would be; test and certify rows are the same; statistics are each fold's own."""
    table, y = make_table()
    plain, folded = (Problem.of(table, y, folds=folds) for folds in (0, 5))
    assert sorted([*plain.train.rows, *plain.validation.rows]) == folded.train.rows.tolist()
    assert plain.test is not None
    assert folded.test is not None
    assert plain.test.rows.tolist() == folded.test.rows.tolist()
    assert [split.name for split in folded.splits()] == ["train", "test", "certify"]
    assert (folded.validation.name, folded.folds, plain.folds) == ("cross-fitted", 5, 0)
    assert folded.validation.rows.tolist() == [row for part in folded.parts for row in part.scored.rows]
    for part in folded.parts:
        assert not set(part.fitted.rows) & set(part.scored.rows)
        assert part.fitted.encoder is part.scored.encoder
        np.testing.assert_allclose(part.fitted.encoded[:, :3].mean(axis=0), 0, atol=1e-12)
        assert abs(part.scored.encoded[:, :3].mean(axis=0)).min() > 1e-6
    assert plain.data_digest() != folded.data_digest() != Problem.of(table, y, folds=4).data_digest()
    assert Problem.of(table, y).folds == 0
    assert Problem.of(table, y, folds=None).folds == AUTO_FOLDS


def test_ready_splits_get_the_same_folds() -> None:
    """Folds depend on seed, labels, groups and time, and on which rows are in the pool; not on how these were divided."""
    table, y = make_table()
    for keys in ({}, {"groups": np.arange(300) // 2}, {"time": np.arange(300)}):
        made = Problem.of(table, y, folds=4, seed=3, **keys)
        names = np.full(300, "train", dtype=object)
        for split in (made.test, made.certify):
            assert split is not None
            names[split.rows] = split.name
        again = Problem.of(table, y, folds=4, seed=3, splits=Splits.from_names(names), **keys)
        assert made.digest() == again.digest()
    assert make_problem(seed=1).digest() != make_problem(seed=2).digest()


def test_columns_that_a_fold_has_no_value_of() -> None:
    """A column with values in one fold alone: the others use the statistics of the pool, and the search goes through."""
    table, y = make_table()
    table["c"] = np.where(np.arange(300) == 7, 1.5, np.nan)
    problem = Problem.of(table, y, folds=5, shares=ALL_POOL)
    assert len(run_exhaustive(problem, Settings(max_stages=1), jobs=1).front)


# What the search counts


class IndependentFits:
    """scikit-learn's own fits of each fold, one for each set of features: the designs of a front share them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._scores: dict[tuple[int, frozenset[str]], np.ndarray] = {}

    def scores(self, fold: int, used: frozenset[str]) -> np.ndarray:
        """Return the scores of all scored rows of a fold."""
        if (fold, used) not in self._scores:
            part, columns = self._problem.parts[fold], self._problem.encoder.positions(sorted(used))
            scaler = StandardScaler().fit(part.fitted.codes[:, columns])
            model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000)
            model.fit(scaler.transform(part.fitted.codes[:, columns]), part.fitted.target)
            self._scores[fold, used] = model.predict_proba(scaler.transform(part.scored.codes[:, columns]))
        return self._scores[fold, used]

    def run(self, design: Design) -> tuple[int, int, float]:
        """Return accepted rows, right ones and the mean cost of a design."""
        accepted = right = 0
        costs = []
        for fold, part in enumerate(self._problem.parts):
            left = np.arange(len(part.scored))
            used: list[str] = []
            for number, stage in enumerate(design.stages, start=1):
                used += stage
                scores = self.scores(fold, frozenset(used))[left]
                confident = scores.max(axis=1) >= 0.75
                accepted += int(confident.sum())
                right += int((scores.argmax(axis=1) == part.scored.target[left])[confident].sum())
                leaving = confident | (number == len(design.stages))
                costs += [self._problem.meter.cost(used)] * int(leaving.sum())
                left = left[~confident]
        return accepted, right, float(np.mean(costs))


@pytest.mark.parametrize("options", [{}, {"time": np.arange(240)}, {"groups": np.arange(240) // 3}])
def test_counts_are_those_of_independent_fits(options: dict[str, Any]) -> None:
    """Accepted rows, right rows and cost of every design of a front are what scikit-learn's fits of each fold give."""
    draw = rng(2)
    x = draw.normal(size=(240, 3)) * [1.0, 5.0, 0.2]
    y = np.digitize(x @ [1.5, 0.2, 4.0] + draw.normal(size=240), [-0.7, 0.7])
    table = dict(zip("abc", x.T, strict=True))
    problem = Problem.of(table, y, costs=[3, 1, 2], threshold=0.75, folds=4, shares=ALL_POOL, **options)
    front = run_exhaustive(problem, Settings(max_stages=3), jobs=1).front
    assert len(front) > 3
    fits = IndependentFits(problem)
    for design in front:
        counts = design.with_rows(len(problem.validation)).counts
        accepted, right, cost = fits.run(design)
        assert (counts.accepted, counts.right) == (accepted, right)
        assert counts.cost == pytest.approx(cost, rel=1e-12)


FOREST = RandomForestClassifier(n_estimators=2, max_depth=2)
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "three labels": {"labels": 3, "threshold": 0.6},
    "classifier": {"classifier": FOREST},
    "classifier, three labels": {"classifier": FOREST, "labels": 3, "threshold": 0.55},
    # Weights of rows have tests of their own, with folds and without: test_weights.py.
    "class weights": {"class_weight": {0: 1.0, 1: 2.5}},
    "balanced": {"class_weight": "balanced", "labels": 3},
    "time": {"time": np.arange(300)},
    "groups": {"groups": np.arange(300) // 4},
}


@pytest.mark.filterwarnings("ignore::emsco_train.ConfidenceWarning")
@pytest.mark.parametrize("case", CASES)
def test_the_search_counts_what_the_models_do(case: str, tmp_path: Path) -> None:
    """Both searches: every design has the figures of its fitted models; so has what front.csv and an export count."""
    problem = make_problem(**CASES[case])
    exact = run_exhaustive(problem, Settings(max_stages=2), jobs=1)
    genetic = run_evolve(problem, Settings(population=20, generations=4, max_stages=2), seed=1, jobs=1)
    designs = tuple(exact.front)
    by_id = {design.id: design for design in designs}
    # Each evaluation fits its own models again: a few are enough, since all of them are measured below.
    few = 1 if "classifier" in case else 2
    for design in (*designs[:few], *tuple(genetic.front)[-few:]):
        evaluation = evaluate_validation(problem, design.stages, design.stage_thresholds)
        expected = evaluation.expected(problem.validation.target, "cross-fitted")
        assert (expected.accepted / expected.rows, expected.right / max(expected.accepted, 1)) == (
            design.coverage,
            design.accuracy,
        )
        assert expected.cost.mean == pytest.approx(design.cost, rel=1e-12)
    for design in genetic.front:
        if design.id in by_id:
            assert (by_id[design.id].coverage, by_id[design.id].accuracy) == (design.coverage, design.accuracy)
    check_counts(problem, designs[0])
    measured = list(measure_designs(problem, problem.validation, designs, ProblemFitters(problem)))
    assert [(one.figures.coverage, one.figures.accuracy) for one in measured] == [(one.coverage, one.accuracy) for one in designs]
    single = measure_fitted_design(problem, problem.validation, designs[0], fit_design(problem, designs[0]))
    assert single.figures == measured[0].figures
    if "classifier" not in case:
        exported = export_searched_design(tmp_path / "bundle", problem, designs[0])
        again = problem.with_other_folds().validation
        assert (exported.expected.split, exported.expected.rows) == (again.name, len(again))
        assert exported.expected.accepted / exported.expected.rows == pytest.approx(designs[0].coverage, abs=0.1)
        # All rows of the pool fit, and are replayed.
        assert (exported.rows, exported.bundle.manifest.provenance.data.rows) == (300, 300)


def test_workers_change_nothing() -> None:
    """One thread and three: the same front, for logistic regressions and for other classifiers."""
    for options in ({}, {"classifier": FOREST}):
        problem = make_problem(**options)
        fronts = [run_evolve(problem, Settings(population=20, generations=3), seed=1, jobs=jobs).front for jobs in (1, 3)]
        assert fronts[0] == fronts[1]
        assert run_exhaustive(problem, jobs=1).front == run_exhaustive(problem, jobs=3).front


def test_a_sweep_over_thresholds_shares_the_fits() -> None:
    """Each threshold of a sweep has the front of its own search."""
    problem = make_problem()
    swept = sweep_thresholds(problem, [0.7, 0.85], method="exhaustive", jobs=1)
    for threshold, outcome in zip((0.7, 0.85), swept.outcomes, strict=True):
        alone = run_exhaustive(problem.with_threshold(threshold), jobs=1)
        assert outcome.front == alone.front
    assert swept.fits == run_exhaustive(problem, jobs=1).fits


def test_a_sample_keeps_the_folds() -> None:
    """Sampled rows stay in their folds, with the folds' own statistics; what is found is measured on the whole pool."""
    problem = make_problem(rows=400, labels=3, threshold=0.6)
    part = problem.sampled(90, seed=2)
    assert len(part.train) == len(part.validation) == 90
    where = {row: number for number, one in enumerate(problem.parts) for row in one.scored.rows}
    for number, one in enumerate(part.parts):
        assert {where[row] for row in one.scored.rows} == {number}
        assert sorted([*one.fitted.rows, *one.scored.rows]) == sorted(part.train.rows)
    assert problem.sampled(400) is problem
    (outcome,) = search_thresholds(problem, None, Settings(max_stages=2), method="exhaustive", seed=2, jobs=1, max_rows=90)
    for design in outcome.front:
        check_counts(problem, design)


def test_a_sample_of_rare_labels() -> None:
    """A fold whose others lack a label in the sample is left out; where that is every fold, it is refused with the remedy."""
    table, _ = make_table(200)
    y = np.array(["common"] * 194 + ["rare"] * 6)
    problem = Problem.of(table, y, folds=5, shares=ALL_POOL)
    part = problem.sampled(20)
    assert len(part.parts) == 4
    assert all(set(one.fitted.target) == {0, 1} for one in part.parts)
    many = np.array([f"label {row % 40}" for row in range(200)])
    with pytest.raises(DesignError, match="sample of 80: no fold has every label in the others: use more rows"):
        Problem.of(table, many, folds=2, shares=ALL_POOL).sampled(80)


def test_the_time_of_an_exact_search_counts_every_fold() -> None:
    """Under some time limits one split is searched exactly and five folds are not; never the other way round."""
    table, y = make_table()
    plain, folded = (Problem.of(table, y, folds=folds, shares=ALL_POOL) for folds in (0, 5))
    limits = np.geomspace(1e-4, 10, 60)
    genes = Genes.of_features(len(plain.names))
    affordable = [[is_affordable(problem, Settings(), genes, float(limit)) for limit in limits] for problem in (plain, folded)]
    assert sum(affordable[0]) > sum(affordable[1]) > 0
    assert all(one or not other for one, other in zip(*affordable, strict=True))


# Cautions


def test_repeated_rows_are_warned_of() -> None:
    """Copies of a table's rows are counted, but not rows of few values, few copies, or rows that groups or time order."""
    draw = rng(4)
    x = draw.normal(size=(400, 3))
    x[draw.uniform(size=x.shape) < 0.05] = np.nan
    y = (np.nan_to_num(x) @ [1.0, 1.0, 0.0] > 0).astype(int)
    copied, labels = np.vstack([x, x[:40]]), np.concatenate([y, y[:40]])
    for folds in (0, 5):
        with pytest.warns(RepeatedRowsWarning, match=r"of 440 rows occur again, .* keep rows of one origin together") as caught:
            Problem.of(copied, labels, folds=folds)
        assert caught[0].filename == __file__
        assert 40 <= int(str(caught[0].message).split()[0]) <= 80
        Problem.of(np.vstack([x, x[:1]]), np.concatenate([y, y[:1]]), folds=folds)
        Problem.of(copied, labels, folds=folds, groups=np.arange(440) % 400)
        Problem.of(copied, labels, folds=folds, time=np.arange(440))
        # Rows of three features with three values each are equal by chance.
        few = draw.integers(0, 3, size=(400, 3)).astype(float)
        Problem.of(few, (few.sum(axis=1) > 3).astype(int), folds=folds)
    other = np.where(np.arange(440) < 400, labels, 1 - labels)
    Problem.of(copied, other, folds=5)
    with pytest.warns(RepeatedRowsWarning, match="200 of 300 rows"):
        Problem.from_splits(train=(x[:100], y[:100]), validation=(x[:100], y[:100]), test=(x[100:200], y[100:200]))


def test_a_label_of_one_row_is_searched_and_exported(tmp_path: Path) -> None:
    """It is warned of; every model knows it; no figure counts it."""
    table, y = make_table()
    rare = np.where(np.arange(300) == 5, 9, y)
    with pytest.warns(RareLabelWarning, match="label 9 has no cross-fitted and no test and no certify rows"):
        problem = Problem.of(table, rare, folds=5, threshold=0.7)
    assert len(problem.validation) == len(problem.train) - 1
    design = run_exhaustive(problem, Settings(max_stages=2), jobs=1).front[0]
    exported = export_searched_design(tmp_path / "bundle", problem, design)
    assert exported.bundle.manifest.labels == (0, 1, 9)


def test_a_mixed_table_of_text() -> None:
    """Categories that a fold does not have are known to its models all the same: features are learned from the pool."""
    rows = mixed_rows()
    table = {"colour": [row[3] or None for row in rows], "rate": [float(row[1]) for row in rows]}
    table["colour"][0] = "violet"
    problem = Problem.of(table, [row[-1] for row in rows], folds=3, shares=ALL_POOL)
    assert problem.features[0].categories == ("blue", "green", "red", "violet")
    assert len(run_exhaustive(problem, jobs=1).front)


@pytest.mark.parametrize("case", ["plain", "three labels", "groups"])
def test_other_folds_are_another_division(case: str) -> None:
    """Every row is scored once again, by models that have not seen it, most rows together with others than before."""
    problem = make_problem(**CASES[case])
    other = problem.with_other_folds()
    assert np.array_equal(np.sort(other.validation.rows), np.sort(problem.validation.rows))
    assert [part.fold is not None for part in other.parts] == [True] * len(problem.parts)
    for part in other.parts:
        assert not set(part.fitted.rows.tolist()) & set(part.scored.rows.tolist())
        assert part.fitted.groups is None or not set(part.fitted.groups.tolist()) & set(part.scored.groups.tolist())
    before = {row: number for number, part in enumerate(problem.parts) for row in part.scored.rows.tolist()}
    moved = [before[row] != number for number, part in enumerate(other.parts) for row in part.scored.rows.tolist()]
    assert np.mean(moved) > 0.5
    assert other.data_digest() != problem.data_digest()


@pytest.mark.parametrize("sizes", [(150, 150), (20, 30, 40, 50, 60, 100)])
def test_groups_that_are_divided_in_one_way_have_no_other_folds(sizes: tuple[int, ...]) -> None:
    """As many groups as folds, or groups of different sizes, which are dealt in their order: the same folds are not "again"."""
    problem = make_problem(folds=2, groups=np.repeat(np.arange(len(sizes)), sizes))
    assert not problem.has_other_folds
    assert problem.with_other_folds() is problem


@pytest.mark.parametrize("rows", range(4, 8))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_few_rows_may_have_no_other_folds(rows: int, tmp_path: Path) -> None:
    """A row of each label in each fold, or one row in each, is one way alone: nothing is measured again, and all works."""
    values = np.random.default_rng(0).normal(size=(rows, 3))
    model = EmscoClassifier(random_state=0).fit(values, [0, 1, 0, 1, 0, 1, 0][:rows])
    problem = model.problem_
    assert problem.is_cross_fitted
    for number in range(3):
        if not problem.has_other_folds:
            assert problem.with_other_folds(number) is problem
    assert rows > 6 or make_divisions(problem) == ()
    model.export(tmp_path / "bundle", name="few", version="1")


def test_few_groups_have_other_folds_where_they_can() -> None:
    """Three groups of one size are divided in two in three ways: no number gives the present one again."""
    problem = make_problem(folds=2, groups=np.repeat(np.arange(3), 100))
    present = {tuple(part.scored.rows.tolist()) for part in problem.parts}
    for number in range(10):
        other = problem.with_other_folds(number)
        assert {tuple(part.scored.rows.tolist()) for part in other.parts} != present


@pytest.mark.parametrize(("groups", "expected"), [(None, 6), (40, 6), (5, 5)])
def test_finer_folds_are_twice_as_many(groups: int | None, expected: int) -> None:
    """Their models are fitted on more rows than those of the search; groups are not divided."""
    codes = None if groups is None else np.arange(300) % groups
    problem = make_problem(folds=3, groups=codes)
    finer = problem.with_other_folds(1, finer=True)
    assert (len(problem.parts), len(finer.parts)) == (3, expected)
    assert np.array_equal(np.sort(finer.validation.rows), np.sort(problem.validation.rows))
    for part in finer.parts:
        assert not set(part.fitted.rows.tolist()) & set(part.scored.rows.tolist())
        assert part.fitted.groups is None or not set(part.fitted.groups.tolist()) & set(part.scored.groups.tolist())


def test_time_and_one_split_have_no_other_folds() -> None:
    """Time orders the rows in one way, and a validation split is as it is: such a problem is unchanged."""
    for problem in (make_problem(time=np.arange(300)), make_problem(folds=0, shares=Shares(0.7, 0.3, 0.0, 0.0))):
        assert problem.with_other_folds() is problem
