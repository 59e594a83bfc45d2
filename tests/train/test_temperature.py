"""Temperature scaling: the mathematics against brute force, and calibrated stages from the search to the bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar
from sklearn.naive_bayes import GaussianNB

from emsco_runtime import read_bundle
from emsco_train import EmscoClassifier, Problem, exhaustive
from emsco_train.data.splits import Shares
from emsco_train.errors import DesignError
from emsco_train.export.searched_design import check_counts, export_searched_design, fit_design
from emsco_train.models.evaluation import evaluate_validation
from emsco_train.models.fitted_set import ProblemFitters, SetFitter
from emsco_train.models.logistic.regression import softmax
from emsco_train.models.temperature import LIMITS, LogitMargins, compute_margins, cross_fit_temperature, fit_temperature
from emsco_train.report.report_file import write_report
from emsco_train.runs.front_measurement import measure_designs
from tests.processes import run_expecting_error, run_successfully
from tests.train.sample_tables import MixedTable, write_mixed

POOL_ONLY = Shares(train=0.8, validation=0.2, test=0.0, certify=0.0)


def drawn_rows(rows: int, labels: int, temperature: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits [labels, rows], too large by the factor `temperature`, and labels drawn from the true probabilities."""
    rng = np.random.default_rng(seed)
    true = rng.normal(scale=2.0, size=(labels, rows))
    target = np.array([rng.choice(labels, p=row) for row in softmax(true.T)])
    return true * temperature, target


def brute_force(rows: LogitMargins) -> float:
    """Return the temperature of least log loss, by a search that knows nothing of slopes."""
    found = minimize_scalar(lambda x: rows.log_loss(np.exp(x)), bounds=np.log(LIMITS), method="bounded", options={"xatol": 1e-9})
    return float(np.exp(found.x))


# The mathematics


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_log_loss_is_that_of_the_probabilities(labels: int) -> None:
    """The loss of margins is minus the log of the true label's probability, at any temperature; weights count as repeats."""
    logits, target = drawn_rows(200, labels, 1.0)
    rows = LogitMargins(compute_margins(logits, target))
    for temperature in (0.3, 1.0, 4.0):
        probabilities = softmax(logits.T / temperature)
        assert rows.log_loss(temperature) == pytest.approx(-np.log(probabilities[np.arange(200), target]).mean())
    weights = np.arange(200) % 3
    repeated = LogitMargins(np.repeat(rows.margins, weights, axis=1))
    weighted = LogitMargins(rows.margins, weights.astype(float))
    assert weighted.log_loss() == pytest.approx(repeated.log_loss())
    assert fit_temperature(weighted) == pytest.approx(fit_temperature(repeated), rel=2e-4)


@given(
    st.integers(1, 3).flatmap(
        lambda wrong: arrays(np.float64, st.tuples(st.just(wrong), st.integers(1, 30)), elements=st.floats(-60, 60, width=16))
    )
)
def test_the_temperature_has_the_least_log_loss(margins: np.ndarray) -> None:
    """No temperature within the limits has a lower log loss, whatever the rows, but for the rounding to four digits."""
    rows = LogitMargins(margins)
    temperature = fit_temperature(rows)
    assert LIMITS[0] <= temperature <= LIMITS[1]
    assert rows.log_loss(temperature) <= rows.log_loss(brute_force(rows)) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_true_temperature_is_found(labels: int, factor: float) -> None:
    """Log-odds that are too large by a factor get that factor as their temperature, calibrated ones 1; scaling is equivariant."""
    logits, target = drawn_rows(20_000, labels, factor)
    rows = LogitMargins(compute_margins(logits, target))
    assert fit_temperature(rows) == pytest.approx(factor, rel=0.05) == pytest.approx(brute_force(rows), rel=0.05)
    assert fit_temperature(LogitMargins(rows.margins * 2)) == pytest.approx(2 * fit_temperature(rows), rel=2e-4)
    # Steps that shrink too slowly are halved: any start margins there.
    assert {fit_temperature(rows, start) for start in (0.05, 0.4, 7.0, 20.0)} == {fit_temperature(rows)}


def test_rows_that_say_nothing_have_no_temperature() -> None:
    """Equal log-odds, no weight, or rows that no temperature could tell apart: 1. All right or all wrong: a limit."""
    assert fit_temperature(LogitMargins(np.zeros((1, 5)))) == 1.0
    assert fit_temperature(LogitMargins(np.ones((2, 5)), np.zeros(5)), start=3.0) == 1.0
    assert LogitMargins(np.ones((2, 5)), np.zeros(5)).log_loss() == 0.0
    assert fit_temperature(LogitMargins(np.full((1, 5), -1e6))) == 1.0
    assert fit_temperature(LogitMargins(np.full((1, 5), -2.0))) == LIMITS[0]
    assert fit_temperature(LogitMargins(np.full((1, 5), 1e6))) == LIMITS[1]


@pytest.mark.parametrize("labels", [2, 3])
def test_one_outlying_row_does_not_decide(labels: int) -> None:
    """A row that is wrong with log-odds of a million counts as one of 36, the log of the rounding error of 1."""
    logits, target = drawn_rows(500, labels, 1.0)
    plain = fit_temperature(LogitMargins(compute_margins(logits, target)))
    outlying = np.zeros((labels, 1))
    outlying[-1] = 1e6
    margins = compute_margins(np.hstack([logits, outlying]), np.r_[target, 0])
    assert margins.max() == pytest.approx(36.04, abs=0.01)
    assert plain < fit_temperature(LogitMargins(margins)) < 2 * plain
    single = compute_margins((outlying[-1:] - outlying[:1]), np.array([0]))
    assert single.max() == margins.max()


def test_a_temperature_is_kept_only_where_other_rows_gain() -> None:
    """Each part's temperature comes from the others; if the loss of its rows is not lower, nothing is scaled."""
    sharp = [LogitMargins(compute_margins(*drawn_rows(400, 2, 3.0, seed))) for seed in range(3)]
    sources = [[1, 2], [0, 2], [0, 1]]
    kept = cross_fit_temperature(sharp, sources)
    assert kept.parts[0] == fit_temperature(LogitMargins.join(sharp[1:]))
    assert kept.is_kept
    assert (kept.applied(None), kept.applied(1)) == (kept.temperature, kept.parts[1])
    assert kept.before == pytest.approx(LogitMargins.join(sharp).log_loss())
    losses = [part.log_loss(temperature) for part, temperature in zip(sharp, kept.parts, strict=True)]
    assert kept.after == pytest.approx(np.mean(losses))
    # Each fold asks for what harms the other.
    opposed = cross_fit_temperature([LogitMargins(np.full((1, 9), -1.0)), LogitMargins(np.full((1, 9), 1.0))], [[1], [0]])
    assert not opposed.is_kept
    assert (opposed.applied(None), opposed.applied(0)) == (1.0, 1.0)
    assert "not lower, so not used" in opposed.describe()
    # Nothing that the only part could learn from.
    assert not cross_fit_temperature(sharp[:1], [[]]).is_kept


def test_calibrated_scores_mostly_keep_their_confidences() -> None:
    """Where the probabilities are true already, temperatures are near 1, and a good part of them is not used at all."""
    made = []
    for seed in range(40):
        parts = [LogitMargins(compute_margins(*drawn_rows(200, 2, 1.0, 10 * seed + part))) for part in range(3)]
        made.append(cross_fit_temperature(parts, [[1, 2], [0, 2], [0, 1]]))
    assert np.mean([scaling.is_kept for scaling in made]) < 0.6
    assert np.median([abs(np.log(scaling.applied(None))) for scaling in made]) < 0.05


# Calibrated problems


def noisy_table(rows: int, seed: int = 0, columns: int = 12, labels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of which three columns matter, and labels that are drawn, not determined."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    scores = x[:, :3].sum(axis=1)
    return x, np.clip(np.round((scores + rng.logistic(size=rows)) / 2 + (labels - 1) / 2), 0, labels - 1).astype(int)


def sharp_problem(calibrate: str | None = "temperature", labels: int = 2, **options: object) -> Problem:
    """Return a problem whose stages are far too sure: few rows, much noise, no penalty."""
    x, y = noisy_table(160, labels=labels)
    names = [f"x{column}" for column in range(12)]
    costs = {"x0": 1, "x1": 2} | dict.fromkeys(names[2:], 4)
    table = dict(zip(names, x.T, strict=True))
    given = {"folds": 4, "shares": POOL_ONLY, "costs": costs, "threshold": 0.8, "C": 1e4, **options}
    return Problem.of(table, y, calibrate=calibrate, **given)


NAMES = tuple(f"x{column}" for column in range(12))


def fresh_log_loss(problem: Problem, labels: int = 2) -> float:
    """Return the mean log loss of the exported model of all features, on many rows that nothing has seen."""
    x, y = noisy_table(5000, seed=9, labels=labels)
    fitted = SetFitter.of(problem).fit(NAMES)
    return float(-np.log(fitted.probabilities(x)[np.arange(len(y)), y]).mean())


@pytest.mark.parametrize("labels", [2, 3])
def test_overconfident_stages_are_cooled(labels: int) -> None:
    """On fresh rows, the log loss of the exported model is lower with its temperature, and every top label is the same."""
    plain, calibrated = sharp_problem(None, labels), sharp_problem(labels=labels)
    fitted, raw = SetFitter.of(calibrated).fit(NAMES), SetFitter.of(plain).fit(NAMES)
    assert raw.scaling is None
    assert fitted.scaling is not None
    assert fitted.scaling.is_kept
    assert fitted.scaling.temperature > 1.2
    assert fresh_log_loss(calibrated, labels) < fresh_log_loss(plain, labels) - 0.02
    rows = noisy_table(500, seed=4)[0]
    assert np.array_equal(fitted.probabilities(rows).argmax(axis=1), raw.probabilities(rows).argmax(axis=1))
    # The graph has the temperature inside, and no more to compute.
    assert len(fitted.graph) == len(raw.graph)
    np.testing.assert_allclose(fitted.reference_scores(rows[:50]), fitted.probabilities(rows[:50]), atol=1e-12)


def test_the_temperature_of_a_part_comes_from_the_others() -> None:
    """Models of a part are those of the plain problem, divided by a temperature that the part's own rows have no say in."""
    problem, plain = sharp_problem(), sharp_problem(None)
    inputs = NAMES[:6]
    fitted = [fitter.fit(inputs) for fitter in SetFitter.of_parts(problem)]
    raw = [fitter.fit(inputs) for fitter in SetFitter.of_parts(plain)]
    scored = [
        LogitMargins(compute_margins(np.log(one.probabilities(part.scored.codes[:, :6])).T, part.scored.target))
        for one, part in zip(raw, plain.parts, strict=True)
    ]
    for position, (one, other) in enumerate(zip(fitted, raw, strict=True)):
        assert one.scaling == fitted[0].scaling
        expected = fit_temperature(LogitMargins.join([rows for index, rows in enumerate(scored) if index != position]))
        assert one.scaling.parts[position] == pytest.approx(expected, rel=2e-4)
        np.testing.assert_allclose(one.model.coef, other.model.coef / one.scaling.applied(position), rtol=1e-12)


def test_folds_in_order_of_time_learn_from_earlier_ones() -> None:
    """The first fold has no earlier scores, so no temperature; the second has those of the first alone."""
    problem = sharp_problem(time=np.arange(160), folds=3)
    scaling = SetFitter.of(problem).fit(NAMES).scaling
    assert scaling is not None
    assert scaling.parts[0] == 1.0
    first = SetFitter.of_parts(sharp_problem(None, time=np.arange(160), folds=3))[0].fit(NAMES)
    rows = problem.parts[0].scored
    margins = compute_margins(np.log(first.probabilities(rows.codes)).T, rows.target)
    assert scaling.parts[1] == pytest.approx(fit_temperature(LogitMargins(margins)), rel=1e-3)


def test_weights_of_rows_count_and_those_of_classes_do_not() -> None:
    """A row of weight 0 has no say in the temperature; class weights change fits, not what comes true."""
    problem = sharp_problem(sample_weight=np.r_[np.zeros(40), np.ones(120)], folds=2)
    scaling = SetFitter.of(problem).fit(NAMES[:5]).scaling
    raw = SetFitter.of_parts(sharp_problem(None, sample_weight=np.r_[np.zeros(40), np.ones(120)], folds=2))
    margins = []
    for fitter, part in zip(raw, problem.parts, strict=True):
        assert (part.scored.rows >= 40).all()
        scores = fitter.fit(NAMES[:5]).probabilities(part.scored.codes[:, :5])
        margins.append(LogitMargins(compute_margins(np.log(scores).T, part.scored.target)))
    assert scaling is not None
    assert scaling.temperature == pytest.approx(fit_temperature(LogitMargins.join(margins)), rel=1e-3)
    with pytest.warns(UserWarning, match="class"):
        weighted = sharp_problem(class_weight={1: 3.0})
    assert all(part.scored.weights is None for part in weighted.parts)


def test_jobs_and_batches_change_nothing() -> None:
    """Sets fitted one by one, together, and by two threads have the same models to the last bit."""
    problem = sharp_problem()
    sets = [NAMES[:count] for count in range(1, 12)]
    for fitter in (SetFitter.of(problem), *SetFitter.of_parts(problem)):
        alone = [fitter.fit(names) for names in sets]
        for jobs in (1, 2):
            for one, other in zip(alone, fitter.fit_many(sets, jobs), strict=True):
                assert one.scaling == other.scaling
                assert one.model.coef.tobytes() == other.model.coef.tobytes()
                assert one.model.intercept.tobytes() == other.model.intercept.tobytes()


def test_the_whole_way_is_calibrated(tmp_path: Path) -> None:
    """Search, figures and export have one meaning of a calibrated design: counts are found again, and the bundle verifies."""
    x, y = noisy_table(400, columns=5)
    shares = Shares(train=0.3, validation=0.2, test=0.3, certify=0.2)
    given = {"folds": 4, "shares": shares, "threshold": 0.8, "C": 1e4, "class_weight": {0: 1.0, 1: 6.0}}
    with pytest.warns(UserWarning, match="class"):
        problem, plain = (Problem.of(x, y, calibrate=calibrate, **given) for calibrate in ("temperature", None))
    assert problem.data_digest() != plain.data_digest()
    front, jobs = exhaustive(problem, max_stages=2, jobs=1), exhaustive(problem, max_stages=2, jobs=2)
    assert front.to_json() == jobs.to_json() != exhaustive(plain, max_stages=2).to_json()
    design = front.select()
    check_counts(problem, design)
    exported = export_searched_design(tmp_path / "bundle", problem, design)
    assert exported.rows == 400
    assert read_bundle(tmp_path / "bundle").manifest.provenance.settings["calibrate"] == "temperature"
    model = fit_design(problem, design)
    assert [stage.graph for stage in exported.model.stages] == [stage.graph for stage in model.stages]
    # Reliability is measured on the calibrated scores.
    (measured,) = measure_designs(problem, problem.validation, [design], ProblemFitters(problem))
    confidence = evaluate_validation(problem, design.stages, design.stage_thresholds).probabilities[0].max(axis=1)
    assert measured.calibration[0].reached.confidence == pytest.approx(confidence.mean())
    assert measured.scalings == tuple(stage.fitted.scaling for stage in model.stages)


def test_what_cannot_be_calibrated_is_refused() -> None:
    """Without folds, with another classifier, or with an unknown method: one line that says what to do."""
    with pytest.raises(DesignError, match=r"`calibrate` needs cross-fitted scores.*use `folds=5`"):
        sharp_problem(folds=0)
    with pytest.raises(DesignError, match=r"calibrate is for logistic regression.*CalibratedClassifierCV"):
        sharp_problem(classifier=GaussianNB())
    with pytest.raises(DesignError, match="calibrate is 'isotonic': expected 'temperature' or None"):
        sharp_problem("isotonic")


# The faces


@pytest.mark.uncounted
def test_the_estimator_calibrates() -> None:
    """`predict_proba` has the lower log loss on fresh rows, with the same design of one stage."""
    x, y = noisy_table(250)
    fresh, truth = noisy_table(3000, seed=5)
    losses = []
    for calibrate in (None, "temperature"):
        # With all features in one stage there is one design, which the exact search would find last.
        options = {"C": 1e4, "threshold": 0.7, "max_stages": 1, "keep_all": True, "search": "evolve", "generations": 1}
        model = EmscoClassifier(**options, calibrate=calibrate, random_state=0, n_jobs=1).fit(x, y)
        losses.append(-np.log(model.predict_proba(fresh)[np.arange(3000), truth]).mean())
    assert losses[1] < losses[0]
    with pytest.raises(DesignError, match="folds"):
        EmscoClassifier(calibrate="temperature", folds=0, random_state=0).fit(x, y)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> MixedTable:
    """Write the mixed table."""
    return write_mixed(tmp_path_factory.mktemp("table"))


def test_the_commands_calibrate(mixed: MixedTable, tmp_path: Path) -> None:
    """--calibrate is kept in run.json; export says temperature and log loss of each stage, and the report shows them."""
    run, bundle = tmp_path / "run", tmp_path / "bundle"
    small = ["--search", "evolve", "--population", 10, "--generations", 2]
    run_successfully("emsco-train", *mixed.options(), *small, "--calibrate", "temperature", "--C", 1e4, "--out", run)
    assert json.loads((run / "run.json").read_text())["calibrate"] == "temperature"
    stages = next(iter(json.loads((run / "calibration.json").read_text())["designs"].values()))
    assert stages[0]["temperature"].keys() == {"temperature", "before", "after", "kept"}
    shown = run_successfully("emsco-export", run, "--out", bundle)
    assert "calibrated   stage 1: temperature " in shown
    assert " before, " in shown
    assert "log loss before, after" in write_report(run).read_text()
    refused = run_expecting_error(
        1, "emsco-train", *mixed.options(), "--folds", 0, "--calibrate", "temperature", "--out", tmp_path / "none"
    )
    assert "--calibrate needs cross-fitted scores" in refused
    assert "--folds 5" in refused
