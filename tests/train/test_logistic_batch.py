"""Batched fits: equal to scikit-learn on many feature sets, steady from any start, the same in any company."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from emsco_train.data.stage_settings import row_weights
from emsco_train.models.logistic import regression as fits
from emsco_train.models.logistic.column_layout import ColumnLayout
from emsco_train.models.logistic.regression import LogisticBatch, LogisticProblem, top_labels
from emsco_train.models.logistic.row_blocks import RowBlocks
from emsco_train.models.logistic.set_kernels import fit_sets
from tests.train.single_fit import fit_logistic

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

SPAMBASE = Path(__file__).parents[3] / "shared" / "data" / "spambase.csv"


def standardise(x: np.ndarray) -> np.ndarray:
    """Return columns of mean 0 and deviation 1; constant ones as zeros."""
    scale = x.std(axis=0)
    return np.asarray((x - x.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0))


def spam_like(rows: int = 600, columns: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return sparse, heavy-tailed columns, one of them constant, two collinear, and labels that they nearly separate."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(0.0, 1.2, (rows, columns)) * (rng.random((rows, columns)) < rng.uniform(0.05, 0.6, columns))
    x[:, 3] = 0.0
    x[:, 7] = 2.0 * x[:, 6]
    y = standardise(x) @ rng.normal(0.0, 1.5, columns) + rng.normal(0.0, 1.0, rows) > 0.3
    return standardise(x), y.astype(np.intp)


def separable() -> tuple[np.ndarray, np.ndarray]:
    """Return rows that a plane separates but for two of them."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(500, 20))
    y = (x[:, 0] + x[:, 1] > 0.0).astype(np.intp)
    y[:2] = 1 - y[:2]
    return x, y


def one_hot(rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Return three numeric columns and three blocks of one-hot columns, each summing to 1, with a category that never occurs."""
    rng = np.random.default_rng(6)
    codes = [rng.integers(0, width, rows) for width in (3, 5, 6)]
    blocks = [
        (code[:, None] == np.arange(width + (width == 6))).astype(float) for code, width in zip(codes, (3, 5, 6), strict=True)
    ]
    x = np.column_stack([rng.normal(size=(rows, 3)), *blocks])
    return x, (x @ rng.normal(0.0, 1.0, x.shape[1]) + rng.logistic(size=rows) > 0.5).astype(np.intp)


# The blocks of `one_hot`.
CHOICES = (slice(3, 6), slice(6, 11), slice(11, 18))


def three_labels() -> tuple[np.ndarray, np.ndarray]:
    """Return heavy-tailed columns and three labels."""
    x, _ = spam_like(600, 15, 3)
    rng = np.random.default_rng(7)
    return x, np.argmax(x @ rng.normal(0.0, 1.0, (15, 3)) + rng.gumbel(size=(600, 3)), axis=1)


def random_sets(count: int, columns: int, seed: int = 1) -> np.ndarray:
    """Return feature sets of very different sizes, none empty."""
    rng = np.random.default_rng(seed)
    sets = rng.random((count, columns)) < rng.uniform(0.1, 1.0, (count, 1))
    sets[np.arange(count), rng.integers(0, columns, count)] = True
    return sets


def assert_equals_scikit_learn(
    x: np.ndarray,
    y: np.ndarray,
    sets: np.ndarray,
    weights: np.ndarray | None,
    C: float,  # noqa: N803
    choices: Sequence[slice] = (),
) -> None:
    """Hold each set to scikit-learn's best: coefficients within 1e-6 relative, probabilities within 1e-8."""
    labels = y.max() + 1
    batch = LogisticProblem(x, y, labels, weights=weights, C=C, one_hot_groups=choices).fit(sets)
    for index, columns in enumerate(sets):
        part = x[:, columns]
        twin = LogisticRegression(C=C, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        with warnings.catch_warnings(), threadpool_limits(1):
            # It warns where it cannot get any closer to 1e-12; how close it is, is seen below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            twin.fit(part, y, sample_weight=weights)
        coef = batch.coef[index][:, columns]
        assert np.abs(coef - twin.coef_).max() <= 1e-6 * np.abs(twin.coef_).max()
        assert np.abs(batch.model(index).probabilities(part) - twin.predict_proba(part)).max() < 1e-8
        assert not batch.coef[index][:, ~columns].any()


def test_spam_like_sets_equal_scikit_learn() -> None:
    """On 80 feature sets of heavy-tailed, collinear and constant columns."""
    x, y = spam_like()
    assert_equals_scikit_learn(x, y, random_sets(80, x.shape[1]), None, 1.0)


def test_nearly_separable_sets_equal_scikit_learn() -> None:
    """On 80 feature sets whose rows are all but separated, under a weak penalty."""
    x, y = separable()
    assert_equals_scikit_learn(x, y, random_sets(80, x.shape[1]), None, 100.0)


@pytest.mark.skipif(not SPAMBASE.exists(), reason="the shared data are not here")
def test_spambase_sets_equal_scikit_learn() -> None:
    """On feature sets of Spambase itself, where bare Newton steps diverge."""
    table = np.genfromtxt(SPAMBASE, delimiter=",", skip_header=1)[::3]
    x, y = standardise(table[:, :-1]), table[:, -1].astype(np.intp)
    assert_equals_scikit_learn(x, y, random_sets(40, x.shape[1]), None, 1.0)


@pytest.mark.parametrize(
    "name", ["sample weights", "class weights", "one-hot", "choices", "choices, weights", "three labels", "three labels, weights"]
)
def test_other_sets_equal_scikit_learn(name: str) -> None:
    """With sample and class weights, one-hot blocks (singular with the intercept), known as choices or not, and three labels."""
    hot = name == "one-hot" or name.startswith("choices")
    x, y = one_hot() if hot else three_labels() if name.startswith("three") else spam_like()
    choices = CHOICES if name.startswith("choices") else ()
    weights = None
    if name == "class weights":
        weights = row_weights(y, ("a", "b"), class_weight="balanced", sample_weight=None)
    elif name.endswith("weights"):
        weights = np.random.default_rng(2).exponential(1.0, len(y)) * (np.arange(len(y)) % 10 > 0)
    assert_equals_scikit_learn(x, y, random_sets(40, x.shape[1]), weights, 1.0, choices)


def fit_from(problem: LogisticProblem, sets: np.ndarray, start: LogisticBatch) -> LogisticBatch:
    """Fit sets from starts of ours, which the kernel takes, instead of its own."""
    order = problem._order
    table = np.concatenate([start.intercept[:, :, None], start.coef[:, :, order]], axis=2)
    passes = np.zeros(len(sets), dtype=np.intp)
    ordered, warm = np.ascontiguousarray(sets[:, order]), True
    fit_sets(problem._rows, problem._anchor, ordered, warm, 1e-10, table, passes)
    fits.check_converged(sets, passes, problem.rows)
    return LogisticBatch(sets, table[:, :, 1:][:, :, np.argsort(order)], table[:, :, 0], passes)


def walk(count: int, x: np.ndarray, y: np.ndarray) -> float:
    """Fit `count` sets, each from the model of one that differs in up to five columns; return the farthest from a cold fit."""
    rng = np.random.default_rng(11)
    problem = LogisticProblem(x, y, y.max() + 1)
    batch = problem.fit(random_sets(100, x.shape[1]))
    worst = 0.0
    for _ in range(count // 100):
        flips = rng.random(batch.columns.shape) < rng.uniform(0.0, 5.0, (100, 1)) / x.shape[1]
        batch = fit_from(problem, batch.columns ^ flips, batch)
        cold = problem.fit(batch.columns)
        worst = max(worst, float(np.abs(cold.coef - batch.coef).max()), float(np.abs(cold.intercept - batch.intercept).max()))
    return worst


def test_warm_starts_never_diverge() -> None:
    """1,000 warm-started fits end where cold ones end."""
    assert walk(800, *spam_like()) < 1e-9
    assert walk(200, *three_labels()) < 1e-9


@pytest.mark.proof
def test_warm_starts_never_diverge_long() -> None:
    """10,000 warm-started fits end where cold ones end."""
    assert walk(10_000, *spam_like(1800, 57)) < 1e-9


def test_far_starts() -> None:
    """Even from starts that are far off, where full steps overshoot, the guarded steps find the optimum."""
    for x, y in (spam_like(), three_labels()):
        sets = random_sets(20, x.shape[1])
        problem = LogisticProblem(x, y, y.max() + 1)
        wanted = problem.fit(sets)
        rng = np.random.default_rng(0)
        far = [
            LogisticBatch(sets, size * rng.normal(size=wanted.coef.shape), wanted.intercept, wanted.passes) for size in (1, 100)
        ]
        for start in far:
            assert np.abs(fit_from(problem, sets, start).coef - wanted.coef).max() < 1e-9


def test_two_slow_sets_keep_two_threads_busy() -> None:
    """Each waits for the other: were they given to one thread, the barrier would break."""
    meeting = Barrier(2, timeout=30)
    done: list[slice] = []

    def work(part: slice) -> None:
        meeting.wait()
        done.append(part)

    fits._run_in_parallel(work, 2, 2, np.zeros(1, dtype=np.int64))
    assert sorted(part.start for part in done) == [0, 1]


@pytest.mark.parametrize(("count", "workers"), [(0, 2), (1, 1), (5, 2), (40, 3), (1000, 2)])
def test_every_set_is_given_out_once(count: int, workers: int) -> None:
    """Whatever the numbers of sets and threads."""
    done: list[int] = []
    fits._run_in_parallel(lambda part: done.extend(range(count)[part]), count, workers, np.zeros(1, dtype=np.int64))
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("data", [spam_like, three_labels])
def test_company_does_not_matter(data: object) -> None:
    """The same to the last bit: again, alone, in another order, on two threads; and near enough as a problem of its own."""
    x, y = data()  # type: ignore[operator]
    problem = LogisticProblem(x, y, y.max() + 1)
    sets = random_sets(30, x.shape[1])
    batch = problem.fit(sets)
    others = [problem.fit(sets), problem.fit(sets, workers=2), problem.fit(sets[::-1]).take(slice(None, None, -1))]
    for other in others:
        assert np.array_equal(batch.coef, other.coef)
        assert np.array_equal(batch.intercept, other.intercept)
    for index in (0, 13, 29):
        assert np.array_equal(problem.fit(sets[index : index + 1]).coef[0], batch.coef[index])
        alone, model = fit_logistic(x[:, sets[index]], y, y.max() + 1), batch.model(index)
        assert np.abs(alone.coef - model.coef).max() < 1e-10
        assert np.abs(alone.intercept - model.intercept).max() < 1e-10


@pytest.mark.parametrize("rows", [300, 2000])
@pytest.mark.parametrize("labels", [2, 4])
def test_choices_change_nothing_but_the_work(labels: int, rows: int) -> None:
    """Models and scores are the same whether columns are known as choices or multiplied out, also in sets with parts of a block.

    Some rows choose nothing, in training and in scoring, and score combinations that training has not seen. With few rows some
    blocks are looked up, with many all of them.
    """
    x, _ = one_hot(2 * rows)
    rng = np.random.default_rng(8)
    x[rng.random(2 * rows) < 0.1, 6:11] = 0.0
    y = np.argmax(x @ rng.normal(size=(x.shape[1], labels)) + rng.gumbel(size=(2 * rows, labels)), axis=1)[:rows]
    train, other = x[:rows], x[rows:]
    sets = random_sets(30, x.shape[1])
    assert ColumnLayout.of(train, CHOICES).n_categories == (15 if rows == 2000 else 12)
    wanted = LogisticProblem(train, y, labels).fit(sets)
    found = LogisticProblem(train, y, labels, one_hot_groups=CHOICES).fit(sets)
    assert np.abs(found.coef - wanted.coef).max() < 1e-9
    assert np.abs(found.intercept - wanted.intercept).max() < 1e-9
    plain, quick = top_labels(wanted, RowBlocks.of(other)), top_labels(wanted, RowBlocks.of(other, CHOICES))
    assert np.array_equal(plain.label, quick.label)
    assert np.abs(plain.confidence - quick.confidence).max() < 1e-14
    again = fit_from(LogisticProblem(train, y, labels, one_hot_groups=CHOICES), sets, wanted)
    assert np.abs(again.coef - wanted.coef).max() < 1e-9


@pytest.mark.parametrize("data", [spam_like, three_labels])
def test_top_labels(data: object) -> None:
    """Labels and confidences of other rows are those of the models, whatever the threads; the first of equals wins."""
    x, y = data()  # type: ignore[operator]
    problem = LogisticProblem(x[::2], y[::2], y.max() + 1)
    batch = problem.fit(random_sets(20, x.shape[1]))
    rows = RowBlocks.of(x[1::2])
    found, again = top_labels(batch, rows), top_labels(batch, rows, workers=2)
    assert np.array_equal(found.confidence, again.confidence)
    for index in range(20):
        chances = batch.model(index).probabilities(x[1::2][:, batch.columns[index]])
        assert np.abs(found.confidence[index] - chances.max(axis=1)).max() < 1e-14
        assert np.array_equal(found.label[index], chances.argmax(axis=1))
    equal = LogisticBatch(batch.columns, 0.0 * batch.coef, 0.0 * batch.intercept, batch.passes)
    assert not top_labels(equal, rows).label.any()


def test_columns_in_another_order() -> None:
    """A model can be had in the order of acquisition, and an empty set is the model without columns."""
    x, y = spam_like()
    sets = np.isin(np.arange(x.shape[1]), [2, 5, 9]) & np.array([[True], [False]])
    batch = LogisticProblem(x, y, 2).fit(sets)
    model = batch.model(0, np.array([9, 2, 5]))
    assert np.array_equal(model.coef, batch.model(0).coef[:, [2, 0, 1]])
    assert batch.model(1).intercept[1] * 2 == pytest.approx(np.log(y.mean() / (1 - y.mean())), abs=1e-12)


def test_outliers_do_not_keep_a_fit_from_its_end() -> None:
    """Labels that depend on small values among huge ones: a dozen passes or so, and the same model from another start."""
    rng = np.random.default_rng(3)
    normal, lean = rng.normal(size=(3000, 12)), rng.normal(size=12)
    y = (2.0 * normal @ lean + rng.logistic(size=3000) > 0.0).astype(np.intp)
    x = 0.02 * normal
    far, column, size = rng.permutation(3000)[:40], rng.integers(0, 12, 40), rng.choice([5.0, 20.0, 80.0, 300.0], 40)
    x[far, column] = np.where((y[far] == 1) ^ (rng.random(40) < 0.3), size, -size) * np.sign(lean[column])
    sets = rng.random((40, 12)) < 0.6
    problem = LogisticProblem(x, y, 2)
    wanted = problem.fit(sets)
    found = fit_from(problem, sets, LogisticBatch(sets, 0.0 * wanted.coef, wanted.intercept, wanted.passes))
    assert np.abs(found.coef - wanted.coef).max() < 1e-9
    assert found.passes.mean() < 20.0
