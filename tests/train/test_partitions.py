"""Rows in partitions: the same features, fits, counts and fronts as on the same rows in one table."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from emsco_runtime import Cascade
from emsco_runtime.bundle.summary import summarise_costs
from emsco_train.dask import make_problem
from emsco_train.data.features import FeatureOptions
from emsco_train.data.problem import Problem
from emsco_train.designs.front import Front
from emsco_train.distributed import fits, partitioned_problem
from emsco_train.distributed.medians import find_medians
from emsco_train.distributed.part_reading import CodedRows, FramePart, PartitionColumns, summarise_part
from emsco_train.distributed.part_rows import PartRows
from emsco_train.distributed.partitioned_problem import PartitionedProblem, ProblemOptions, _summarise_counts
from emsco_train.distributed.partitions import LocalPartitions
from emsco_train.errors import ConfidenceWarning, DataError, DesignError, FitError, VerificationError
from emsco_train.models.fitted_set import SetFitter
from emsco_train.search.searches import run_evolve
from emsco_train.search.settings import Settings
from emsco_train.support.stop_flag import FitStopped

NAMES = ("a", "b", "c", "kind", "flag")
COSTS = {"a": 5.0, "b": 1.0, "c": 1.0, "kind": 2.0, "flag": 1.0}
# numpy's own median overflows beyond half the largest number.
NUMBERS = st.floats(-1e300, 1e300) | st.just(np.nan)
SHORT = Settings(population=20, generations=4, max_stages=3)


def make_frame(rows: int = 900, labels: int = 2, seed: int = 0, *, bent: bool = False) -> pd.DataFrame:
    """Return a table with numbers, gaps, categories and booleans; bent: both ends of a column speak for the same label."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["x", "y", "z"], rows)
    frame["flag"] = rng.random(rows) < 0.3
    slope = 4 * frame["a"].abs() if bent else 2 * frame["a"]
    score = slope + frame["b"] + (frame["kind"] == "x") + frame["flag"] + rng.normal(size=rows)
    frame["y"] = np.digitize(score, np.quantile(score, np.arange(1, labels) / labels))
    frame.loc[rng.random(rows) < 0.1, "b"] = np.nan
    frame.loc[rng.random(rows) < 0.05, "kind"] = None
    frame["split"] = np.where(rng.random(rows) < 0.4, "validation", "train")
    return frame


def divide(frame: pd.DataFrame, parts: int = 3) -> LocalPartitions[FramePart]:
    """Return a table in parts of different sizes, the last one empty."""
    ends = [0, *sorted(np.random.default_rng(1).choice(len(frame), parts - 1, replace=False)), len(frame), len(frame)]
    return LocalPartitions(
        [FramePart(number, frame.iloc[one:other]) for number, (one, other) in enumerate(itertools.pairwise(ends))]
    )


def columns(**changes: Any) -> PartitionColumns:
    """Return what the columns of the table are for."""
    given = {"names": NAMES, "label": "y", "split": "split", "keys": (), "share": 0.3, "seed": 0, "options": {}}
    return PartitionColumns(**{**given, **changes})


def partitioned(frame: pd.DataFrame, **options: Any) -> PartitionedProblem:
    """Return the problem of a table in partitions."""
    return PartitionedProblem.of(divide(frame), columns(), ProblemOptions(**{"costs": COSTS, "threshold": 0.8, **options}))


def in_one_table(frame: pd.DataFrame, **options: Any) -> Problem:
    """Return the problem of the same rows in one table."""
    splits = {name: frame[frame["split"] == name] for name in ("train", "validation")}
    pairs = {name: (rows[list(NAMES)], rows["y"]) for name, rows in splits.items()}
    return Problem.from_splits(**pairs, **{"costs": COSTS, "threshold": 0.8, **options})


def assert_equal_fronts(one: Front, other: Front) -> None:
    """Compare the designs of two fronts, and their counts."""
    assert [design.id for design in one] == [design.id for design in other]
    for mine, theirs in zip(one, other, strict=True):
        assert (mine.counts, mine.labels, mine.ties) == (theirs.counts, theirs.labels, theirs.ties)


@pytest.mark.parametrize("options", [{}, {"increasing": ["c"], "decreasing": ["a"]}], ids=["plain", "directions"])
def test_the_front_is_that_of_one_table(options: dict[str, Any]) -> None:
    """Features, encoder and the whole front are those of one process."""
    frame = make_frame()
    mine, theirs = partitioned(frame, **options), in_one_table(frame, **options)
    assert mine.problem.features == theirs.features
    for block, own in zip(mine.problem.encoder.blocks, theirs.encoder.blocks, strict=True):
        assert (block.mean, block.scale, block.fill) == pytest.approx((own.mean, own.scale, own.fill), abs=1e-12)
    found = mine.search(SHORT, seed=1)
    expected = run_evolve(theirs, SHORT, seed=1, jobs=1)
    assert found.fits == expected.fits
    assert_equal_fronts(found.front, expected.front)


@pytest.mark.parametrize("stages", ["straight", "curved"])
def test_the_front_of_three_labels_with_weights(stages: str) -> None:
    """Each label has a logit of its own, and class weights count in fits; the front is that of one table."""
    frame, options = make_frame(labels=3, bent=True), {"class_weight": {0: 1.0, 1: 2.0, 2: 1.0}, "stages": stages}
    with pytest.warns(ConfidenceWarning):
        mine = partitioned(frame, **options)
    with pytest.warns(ConfidenceWarning):
        theirs = in_one_table(frame, **options)
    assert_equal_fronts(mine.search(SHORT).front, run_evolve(theirs, SHORT, jobs=1).front)


def test_curves_are_those_of_one_table() -> None:
    """A table that the sample holds whole: its curves, models and front are those of one process."""
    frame = make_frame(bent=True)
    mine, theirs = partitioned(frame, stages="curved"), in_one_table(frame, stages="curved")
    curves = [block.curve for block in mine.problem.encoder.blocks]
    assert None not in curves
    assert curves == [block.curve for block in theirs.encoder.blocks]
    assert_equal_fronts(mine.search(SHORT).front, run_evolve(theirs, SHORT, jobs=1).front)


def test_curves_are_learned_from_a_sample(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The client has about `_SAMPLE_ROWS` rows; all rows fit the models on their curves, which decide more than straight ones."""
    frame = make_frame(rows=4000, bent=True)
    straight = partitioned(frame).search(SHORT).front
    monkeypatch.setattr(partitioned_problem, "_SAMPLE_ROWS", 1000)
    with partitioned(frame, stages="curved") as problem:
        assert 900 < problem.problem.train.table.rows + problem.problem.validation.table.rows < 1100
        front = problem.search(SHORT).front
        assert max(design.coverage for design in front) > max(design.coverage for design in straight) + 0.1
        assert problem.export(tmp_path / "bundle", front.knee).expected.rows == (frame["split"] == "validation").sum()


@pytest.mark.parametrize("strength", [0.01, 1.0, 1e5])
@pytest.mark.parametrize("labels", [2, 3])
def test_models_are_those_of_one_table(labels: int, strength: float) -> None:
    """The log-odds of all rows, to eight decimals, also where labels are nearly separable and steps go too far."""
    frame = make_frame(rows=300, labels=labels)
    frame["c"] = frame["y"] + 0.1 * frame["c"]
    problem = in_one_table(frame, C=strength)
    mine, theirs = partitioned(frame, C=strength), SetFitter.of(problem)
    sets = np.random.default_rng(0).random((12, len(NAMES))) < 0.5
    sets[:, 0] |= ~sets.any(axis=1)
    batch = mine.bench.models(sets).batch
    expected = theirs.fit_batch(batch.columns, 1)
    rows = problem.train.encoded
    logits, wanted = (rows @ each.coef.swapaxes(1, 2) + each.intercept[:, None] for each in (batch, expected))
    np.testing.assert_allclose(logits, wanted, rtol=0, atol=1e-8)


def test_a_fit_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few steps: an error, never a model; and a stop flag ends fits between two messages."""
    mine = partitioned(make_frame(rows=200))
    mine.bench.stop.array[0] = 1
    with pytest.raises(FitStopped):
        mine.bench.fit_sets(np.ones((1, len(NAMES)), dtype=bool))
    mine.bench.stop.array[0] = 0
    monkeypatch.setattr(fits, "_MAX_STEPS", 1)
    with pytest.raises(FitError, match="did not converge"):
        mine.bench.fit_sets(np.ones((1, len(NAMES)), dtype=bool))


def test_many_sets_are_fitted_in_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are bounded: with a small bound there are more messages, and the same models."""
    frame, sets = make_frame(rows=200), np.eye(len(NAMES), dtype=bool)
    expected = partitioned(frame).bench.models(sets).batch
    monkeypatch.setattr(fits, "_MAX_BYTES", 100)
    np.testing.assert_allclose(partitioned(frame).bench.models(sets).batch.coef, expected.coef, atol=1e-12)


def test_a_partition_moves_without_its_bits() -> None:
    """Pickled, a partition has its rows alone, says how large it is, and gives the same counts."""
    frame = make_frame(rows=300)
    mine, moved = partitioned(frame), partitioned(frame)
    population = np.array([[0, 1, 1, -1, 0], [0, 0, 0, 0, 0]], dtype=np.int8)
    before = mine.bench.evaluator()(population)
    parts = mine.bench._partitions.parts  # type: ignore[attr-defined]
    copies = [pickle.loads(pickle.dumps(part)) for part in parts]
    assert all(isinstance(copy, PartRows) and not copy._caches for copy in copies)
    assert [part.__sizeof__() for part in parts] == [copy.__sizeof__() for copy in copies]
    moved.bench._partitions = LocalPartitions(copies)
    assert (moved.bench.evaluator()(population).vectors() == before.vectors()).all()


def test_a_design_becomes_a_bundle(tmp_path: Path) -> None:
    """The bundle has the counts of all validation rows; a design with other figures is refused, as is another problem's."""
    with partitioned(make_frame()) as problem:
        front = problem.search(SHORT).front
        design = front.knee
        export = problem.export(tmp_path / "bundle", design, name="mail", version="7")
        assert (export.expected.accepted, export.expected.right) == (design.counts.accepted, design.counts.right)
        assert export.expected.cost.mean == pytest.approx(design.cost)
        assert export.expected.labels == design.labels
        with Cascade.load(tmp_path / "bundle") as cascade:
            assert cascade.manifest.name == "mail"
        with pytest.raises(VerificationError, match="other figures"):
            problem.export(tmp_path / "other", replace(design, coverage=0.5))
        assert not (tmp_path / "other").exists()


@given(st.lists(st.tuples(st.sampled_from([1.0, 2.5, 7.0]), st.integers(1, 9)), min_size=1, max_size=3))
def test_costs_are_summarised_from_counts(entries: list[tuple[float, int]]) -> None:
    """Quantiles of costs by their counts are those of the costs of all rows."""
    costs, counts = zip(*sorted(entries), strict=True)
    every = np.repeat(costs, counts).tolist()
    assert _summarise_counts(costs, counts, float(np.mean(every))) == pytest.approx(summarise_costs(every))


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=NUMBERS),
    st.data(),
)
def test_medians_are_exact(codes: np.ndarray, data: st.DataObject) -> None:
    """Of any finite numbers, with gaps, in any partitions: the median that numpy finds in all of them together."""
    codes[0] = np.nan_to_num(codes[0])
    cut = data.draw(st.integers(0, len(codes)))
    parts = LocalPartitions([CodedRows({"train": part}, {}) for part in (codes[:cut], codes[cut:])])
    present = (~np.isnan(codes)).sum(axis=0)
    found = find_medians(parts, np.arange(codes.shape[1]), present)
    np.testing.assert_array_equal(found, np.nanmedian(codes, axis=0))


def test_rows_are_drawn_into_splits() -> None:
    """By keys, rows that share them stay together, however the table is cut; without, each row is drawn by itself."""
    frame = make_frame(rows=2000)
    frame["customer"] = np.random.default_rng(0).integers(0, 500, len(frame))
    by_key = columns(split=None, keys=("customer",))
    counts = [divide(frame, parts).total(summarise_part, by_key).labels for parts in (2, 5)]
    assert counts[0] == counts[1]
    customers = [summarise_part(FramePart(0, rows), by_key).labels for _, rows in frame.groupby("customer")]
    assert all(not (split["train"] and split["validation"]) for split in customers)
    drawn = divide(frame).total(summarise_part, columns(split=None)).labels
    for labels in (counts[0], drawn):
        assert 0.2 < sum(labels["validation"].values()) / len(frame) < 0.4
    other = divide(frame).total(summarise_part, columns(split=None, keys=("customer",), seed=1)).labels
    assert other != counts[0]


@pytest.mark.parametrize("kind", ["float64", "float32", "Int64", "UInt64", "Float64", "int64[pyarrow]", "double[pyarrow]"])
def test_keys_are_drawn_alike_beside_gaps(kind: str) -> None:
    """Where some keys of a partition are missing, the others are floats, or so pandas hashes them: their splits are the same."""
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    by_key = columns(split=None, keys=("customer", "share"), names=("share",))
    whole = pd.DataFrame({"customer": range(300), "share": 0.5, "y": [f"row {number}" for number in range(300)]})
    expected = summarise_part(FramePart(0, whole), by_key).labels
    # An index such as that of files one after the other.
    gaps = pd.concat([whole, whole[:1].assign(y="gap")])
    gaps["customer"] = pd.array([*range(300), None], dtype=kind)
    found = summarise_part(FramePart(1, gaps), by_key).labels
    assert {split: labels - Counter(["gap"]) for split, labels in found.items()} == expected
    assert all(len(labels) > 50 for labels in expected.values())


def test_a_table_of_numbers_alone_needs_no_split_column() -> None:
    """No categories, rows drawn: there is a problem, and a front."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    frame["y"] = frame["a"] + 0.5 * rng.normal(size=400) > 0
    problem = PartitionedProblem.of(divide(frame), columns(names=("a", "b"), split=None), ProblemOptions(threshold=0.8))
    assert len(problem.search(Settings(population=6, generations=1)).front) > 0
    with pytest.raises(DesignError, match="objective is 'balanced'"):
        problem.bench.evaluator(objective="balanced")


def test_what_cannot_be_searched_is_refused() -> None:
    """One clear line each."""
    frame = make_frame(rows=200)

    def refused(message: str, changed: pd.DataFrame, kind: type[Exception] = DataError, **changes: Any) -> None:
        with pytest.raises(kind, match=message):
            PartitionedProblem.of(divide(changed), columns(**changes), ProblemOptions())

    refused("expected 'train', 'validation', 'test', 'certify', got 'later'", frame.assign(split="later"))
    refused("there are no validation rows", frame.assign(split="train"))
    odd = np.where(frame["split"] == "validation", 9, frame["y"])
    refused("label 9 of the validation rows is in no train row", frame.assign(y=odd))
    refused("'b' has no value at all", frame.assign(b=np.nan))
    refused("mixes kinds", frame.assign(a=[*(["text"] * 100), *range(100)]))
    refused("too large to standardise", frame.assign(a=frame["a"] * 1e300))
    refused("which are not columns", frame, DesignError, options={"z": FeatureOptions()})
    refused("holds vectors", frame.assign(a=[[1.0, 2.0]] * 200), DesignError)
    with pytest.raises(DesignError, match="stages is 'boosted': rows in partitions can have 'straight' or 'curved' ones"):
        partitioned(make_frame(rows=100), stages="boosted")


def test_a_frame_of_partitions_is_not_read_into_one_process() -> None:
    """`Problem.of` says where such frames go."""
    frame = type("Frame", (), {"npartitions": 2, "columns": ["a"]})()
    with pytest.raises(DataError, match=r"use `emsco_train\.dask\.make_problem`"):
        Problem.of(frame, [0, 1])


def test_arguments_that_do_not_fit_are_refused_before_anything_is_read() -> None:
    """One clear line each; Dask itself is not needed for that."""

    def frame(*names: str) -> Any:
        return type("Frame", (), {"columns": list(names), "to_delayed": list})()

    table = frame("a", "b", "label", "split")
    with pytest.raises(DataError, match="frame is list: expected a Dask DataFrame"):
        make_problem([[1, 2]], "label")
    with pytest.raises(DataError, match="no column 'spam'; the frame has: a, b, label, split"):
        make_problem(table, "spam")
    with pytest.raises(DesignError, match="validation is 1: expected a share between 0 and 1"):
        make_problem(table, "label", validation=1)
    with pytest.raises(DesignError, match="split and split_by were given"):
        make_problem(table, "label", split="split", split_by="a")
    with pytest.raises(DataError, match="a search needs two features or more"):
        make_problem(frame("a", "label"), "label")
