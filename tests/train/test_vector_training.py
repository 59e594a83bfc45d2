"""Vector features in training: one gene and one price for a column of sequences, from tables and files to the bundle."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB

from emsco_runtime import Cascade
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.cli.run import main as run_rows
from emsco_train import CostGroup, CostModel, EmscoClassifier, FeatureOptions, Problem, export_design
from emsco_train.cli.train import main as train_command
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import infer_features
from emsco_train.data.fit_memory import check_fit_memory
from emsco_train.data.table import Table
from emsco_train.data.table_check import check_columns
from emsco_train.data.thresholds import StageThresholds
from emsco_train.errors import DataError, DesignError, OutlierWarning
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.runs.exporting import export_run
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns, read_source
from emsco_train.runs.training import train
from tests.train.sample_tables import write_rows

WIDTH = 4


def sample(rows: int = 200, *, gaps: bool = False, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """Return a table of two numbers and a vector, and labels that depend on all of them."""
    rng = np.random.default_rng(seed)
    numbers, words = rng.normal(size=(rows, 2)), rng.normal(size=(rows, WIDTH))
    score = numbers[:, 0] + words @ np.linspace(1.0, -1.0, WIDTH) + 0.3 * rng.normal(size=rows)
    if gaps:
        words[::9] = np.nan
    return {"a": numbers[:, 0], "words": words, "b": numbers[:, 1]}, np.where(score > 0, "spam", "ham")


def apart(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table with a column for each number of the vector, with names that are not those of a vector."""
    words = {f"w{position}": table["words"][:, position] for position in range(WIDTH)}
    return {"a": table["a"], **words, "b": table["b"]}


NAMES = [f"w{position}" for position in range(WIDTH)]
APART_COSTS = CostModel.from_mapping(
    {"a": 1.0, "b": 2.0, **dict.fromkeys(NAMES, 0.0)}, groups=[CostGroup("words", 5.0, tuple(NAMES))]
)
COSTS = {"a": 1.0, "b": 2.0, "words": 5.0}


# Tables


def test_all_forms_of_a_vector_are_one_table() -> None:
    """An array of two dimensions, lists, arrays in an object column, a frame, numbered columns in any order: the same column."""
    table, _ = sample(6, gaps=True)
    words = table["words"]
    lists: list[Any] = [None if np.isnan(row).all() else row.tolist() for row in words]
    objects = np.empty(6, dtype=object)
    objects[:] = [None if np.isnan(row).all() else row for row in words]
    numbered = {f"words[{position}]": words[:, position] for position in reversed(range(WIDTH))}
    with_text_gaps = {name: np.array([None if math.isnan(x) else x for x in column]) for name, column in numbered.items()}
    for given_words in ({"words": words}, {"words": lists}, {"words": objects}, numbered, with_text_gaps):
        made = Table.of({"a": table["a"], **given_words, "b": table["b"]})
        assert made.names == ("a", "words", "b")
        np.testing.assert_array_equal(made.columns["words"], words)
    assert Table.of({"words": lists}).take([1, 2]).item(0) == {"words": lists[1]}
    assert next(iter(Table.of({"words": words[1:]}).items())) == {"words": lists[1]}


def test_frames_and_arrow_tables() -> None:
    """List cells of a data frame, and lists of an Arrow table."""
    words = [[1.0, 2.0], [3.0, 4.0]]
    pd = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    for made in (pd.DataFrame({"words": words}), pa.table({"words": words})):
        np.testing.assert_array_equal(Table.of(made).columns["words"], words)
    fixed = pa.table({"words": pa.array(words, pa.list_(pa.float32(), 2))})
    np.testing.assert_array_equal(Table.of(fixed).columns["words"], words)


def test_names_with_brackets_that_are_no_vector() -> None:
    """Numbers with a gap between them, from another than 0, a single one, or together with a column of the vector's own name."""
    columns = {name: [1.0, 2.0] for name in ("x[0]", "x[2]", "y[1]", "y[2]", "z[0]", "v", "v[0]", "v[1]", "price[2020]", "u[00]")}
    assert Table.of(columns).names == tuple(columns)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"v": [[1.0, 2.0], [1.0]]}, "column 'v', row 1: expected a sequence of 2 numbers, as in training, got 1"),
        ({"v": [[1.0, 2.0], "x"]}, "column 'v', row 1: expected a sequence of 2 numbers, got 'x' (str)"),
        ({"v": [[1.0, 2.0], [1.0, "x"]]}, "row 1: number 1 of the vector, counted from 0: expected a number, got 'x' (str)"),
        ({"v": np.array([[1.0, 2.0], [1.0, np.nan]])}, "row 1: number 1 of the vector, counted from 0, is missing"),
        ({"v": np.array([[1.0, 2.0], [1.0, np.inf]])}, "row 1: number 1 of the vector, counted from 0: expected a finite"),
        ({"v": np.ones((2, 2, 2))}, "column 'v' has shape (2, 2, 2)"),
        ({"v": np.ones((2, 0))}, "vectors of 0 numbers: expected 1 to 65,536"),
        (
            {"v[0]": [1.0, 2.0], "v[1]": ["x", "y"]},
            "column 'v', row 0: number 1 of the vector, counted from 0: expected a number",
        ),
        ({"v[0]": [1.0, 2.0], "v[1]": [[1.0], [2.0]]}, "column 'v[1]' holds vectors, and is one number of a vector"),
    ],
)
def test_vectors_that_cannot_be_meant(columns: dict[str, Any], said: str) -> None:
    """The error names the column, the row, and the place in the vector."""
    with pytest.raises(DataError) as caught:
        Table.of(columns)
    assert said in str(caught.value)


# Features


def test_what_is_learned_of_a_vector() -> None:
    """Kind, width, whether gaps are allowed, and the medians as its fallback."""
    table = Table.of({"words": [[1.0, 8.0], [3.0, 9.0], None, [2.0, 7.0]]})
    costs = CostModel.of({"words": 3.0}, ["words"])
    (feature,) = infer_features(table, ["words"], costs)
    assert (feature.kind, feature.width, feature.missing, feature.cost) == ("vector", 2, "impute", 3.0)
    assert feature.fallback == (2.0, 8.0)
    (given_one,) = infer_features(table, ["words"], costs, {"words": FeatureOptions(fallback=(0, 1))})
    assert given_one.fallback == (0.0, 1.0)
    with pytest.raises(DesignError, match="expected a sequence of 2 numbers"):
        infer_features(table, ["words"], costs, {"words": FeatureOptions(fallback=1.0)})
    with pytest.raises(DesignError, match="kind='numeric' does not fit 'words', a column of vectors"):
        infer_features(table, ["words"], costs, {"words": FeatureOptions(kind="numeric")})
    with pytest.raises(DesignError, match="kind='vector' does not fit 'a', a column of values"):
        infer_features(Table.of({"a": [1.0]}), ["a"], CostModel.of(None, ["a"]), {"a": FeatureOptions(kind="vector")})
    with pytest.raises(DataError, match="a missing value"):
        infer_features(table, ["words"], costs, {"words": FeatureOptions(missing="forbid")})


def test_empty_and_constant_vectors_are_found() -> None:
    """No model can learn from them; other vectors are not looked into."""
    columns = {
        "empty": np.full((40, 2), np.nan),
        "constant": np.tile([1.0, 2.0], (40, 1)),
        "fine": np.random.default_rng(0).normal(size=(40, 2)),
    }
    assert [(one.kind, one.column) for one in check_columns(columns, [0, 1] * 20)] == [
        ("empty", "empty"),
        ("constant", "constant"),
    ]


def test_a_vector_that_is_too_wide_for_the_memory_is_named() -> None:
    """Each of its numbers is a column of a model."""
    narrow = Feature(name="words", kind="vector", width=2, cost=1.0)
    encoder = BlockEncoder.fit([narrow], np.arange(4.0).reshape(2, 2))
    check_fit_memory(encoder.blocks, 2, 1000)
    with pytest.raises(DataError, match="column 'words' is a vector of 60,000 numbers, a column each"):
        check_fit_memory(encoder.blocks * 30_000, 2, 1000)


def test_one_warning_of_outliers_for_a_vector() -> None:
    """Two numbers of it hold a value far out: once is enough."""
    table, labels = sample(100)
    table["words"][0, :2] = 1e12
    with pytest.warns(OutlierWarning) as caught:
        Problem.of(table, labels, shares=None, seed=1)
    assert len([one for one in caught if "'words'" in str(one.message)]) <= 1


# Models


@given(st.integers(0, 50), st.booleans(), st.sampled_from([[["a"], ["words"]], [["words"], ["a", "b"]], [["b", "words"], ["a"]]]))
@settings(max_examples=8, deadline=None)
def test_a_vector_is_so_many_numbers_in_a_group(seed: int, gaps: bool, stages: list[list[str]]) -> None:
    """Width numbers of one price: the same probabilities, and the same decisions and bills, where they have the same penalty."""
    table, labels = sample(gaps=gaps, seed=seed)
    whole = Problem.of(table, labels, costs=COSTS, threshold=0.8, seed=seed)
    assume(whole.learner.vector_penalties == {"words": 1.0})
    parts = Problem.of(apart(table), labels, costs=APART_COSTS, threshold=0.8, seed=seed)
    np.testing.assert_array_equal(whole.train.encoded, parts.train.encoded)
    split_stages = [tuple(part for name in stage for part in (NAMES if name == "words" else [name])) for stage in stages]
    one = CascadeFitter.of(whole).fit([tuple(stage) for stage in stages], StageThresholds.constant(whole.thresholds))
    other = CascadeFitter.of(parts).fit(split_stages, StageThresholds.constant(parts.thresholds))
    assert one.stage_costs() == other.stage_costs()
    codes = whole.held_out.codes
    for mine, its in zip(one.stages, other.stages, strict=True):
        found = mine.fitted.probabilities(codes[:, whole.encoder.positions(mine.inputs)])
        expected = its.fitted.probabilities(parts.held_out.codes[:, parts.encoder.positions(its.inputs)])
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        assert mine.graph == its.graph


@pytest.mark.parametrize(
    "classifier", [None, GaussianNB(), HistGradientBoostingClassifier(max_iter=5)], ids=["logistic", "bayes", "trees"]
)
@pytest.mark.parametrize("gaps", [False, True])
def test_a_design_with_a_vector_is_exported_and_verified(tmp_path: Path, classifier: Any, gaps: bool) -> None:
    """Every row is replayed through the runtime, whatever the classifier; the golden items hold vectors."""
    table, labels = sample(gaps=gaps)
    # A number that is 0 in nearly all rows, as with hashed words.
    table["words"][:-3, 0] *= 0.0
    made = export_design(
        tmp_path / "b",
        stages=[["a"], ["words", "b"]],
        X=table,
        y=labels,
        held_out=(table, labels),
        costs=COSTS,
        threshold=0.8,
        classifier=classifier,
    )
    manifest = made.bundle.manifest
    assert manifest.schema_version == 2
    assert {feature.name: feature.width for feature in manifest.features} == {"a": 1, "words": WIDTH, "b": 1}
    assert all(len(golden.values["words"] or NAMES) == WIDTH for golden in manifest.golden)
    cascade = Cascade.load(tmp_path / "b")
    assert cascade.decide({"a": 0.0, "words": [0.5] * WIDTH, "b": 0.1}).cost == 8.0


def test_a_search_over_a_vector(tmp_path: Path) -> None:
    """It is one gene with one price; the estimator takes frames with list cells, and what it exports decides as it does."""
    pd = pytest.importorskip("pandas")
    table, labels = sample(300, gaps=True)
    rows = pd.DataFrame({"a": table["a"], "words": list(table["words"]), "b": table["b"]})
    model = EmscoClassifier(costs=COSTS, random_state=0, stages="curved").fit(rows, labels)
    assert model.problem_.names == ("a", "words", "b")
    assert model.problem_.full_cost == 8.0
    model.export(tmp_path / "b")
    decided = Cascade.load(tmp_path / "b").decide_columns(rows)
    assert [label or "" for label in decided.label] == model.predict(rows).tolist()


def test_the_numbers_of_a_vector_stay_straight() -> None:
    """Curved stages: other features get a curve, the numbers of a vector none; a table of vectors alone has no curves."""
    rng = np.random.default_rng(0)
    bent = rng.normal(size=2000)
    labels = np.where(np.abs(bent) + 0.2 * rng.normal(size=2000) > 0.7, 1, 0)
    table = {"words": rng.normal(size=(2000, 3)), "bent": bent}
    problem = Problem.of(table, labels, stages="curved", folds=3)
    assert [block.curve is not None for block in problem.encoder.blocks] == [False, False, False, True]
    alone = {"words": table["words"], "others": rng.normal(size=(2000, 2))}
    assert not any(block.curve for block in Problem.of(alone, labels, stages="curved").encoder.blocks)


def embedding(rows: int, labels: int = 2) -> tuple[dict[str, Any], Any]:
    """Return a vector of 100 noisy numbers behind which there are a few hidden ones, which say something about the label."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(rows, 4))
    vector = hidden @ rng.normal(size=(4, 100)) / 2 + rng.normal(size=(rows, 100))
    target = np.digitize(hidden[:, 0] + rng.normal(size=rows), np.linspace(-0.5, 0.5, labels - 1))
    return {"a": rng.normal(size=rows), "words": vector}, target


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("stages", ["straight", "curved"])
def test_the_numbers_of_an_embedding_are_shrunk_more(labels: int, stages: Any) -> None:
    """Cross-validation says how much; a column that is divided by the root of a penalty has it. All folds share it."""
    table, target = embedding(400, labels)
    problem = Problem.of(table, target, folds=2, stages=stages)
    penalty = problem.learner.vector_penalties["words"]
    assert penalty > 1.0
    for rows in (problem.train, *(part.fitted for part in problem.parts)):
        assert rows.encoded[:, -100:].std(axis=0) == pytest.approx(1 / math.sqrt(penalty))
    again = problem.with_other_folds()
    assert again.parts[0].fitted.encoded[:, -1].std() == pytest.approx(1 / math.sqrt(penalty))


def test_a_vector_that_says_much_is_not_shrunk() -> None:
    """Few numbers that decide the label keep the penalty of other columns; so do vectors of too few rows to tell."""
    table, labels = sample(600)
    assert Problem.of(table, labels, folds=2).learner.vector_penalties == {"words": 1.0}
    few, target = embedding(80)
    assert Problem.of(few, target).learner.vector_penalties == {"words": 1.0}


def test_trees_need_no_penalty() -> None:
    """With boosted stages there is nothing to choose."""
    table, target = embedding(100)
    assert Problem.of(table, target, stages="boosted").learner.vector_penalties == {}


def test_an_empty_vector_of_a_fold_is_scaled_once() -> None:
    """A fold in which the vector is missing in every row has the block of all rows, as it is."""
    table, target = embedding(400)
    problem = Problem.of(table, target, folds=2)
    codes = problem.train.codes.copy()
    codes[:, 1:] = np.nan
    learned = problem.learner.learn(codes, problem.train.target, None, default=problem.encoder)
    assert learned.blocks[1:] == problem.encoder.blocks[1:]


# Files


def write_table(folder: Path) -> tuple[Path, dict[str, Any], Any]:
    """Write a table with a vector in numbered columns, in which every ninth is missing, and return it too."""
    table, labels = sample(240, gaps=True)
    header = ["a", *(f"words[{position}]" for position in range(WIDTH)), "b", "label"]
    rows = [
        [a, *("" if math.isnan(number) else number for number in words), b, label]
        for a, words, b, label in zip(table["a"], table["words"].tolist(), table["b"], labels, strict=True)
    ]
    return write_rows(folder / "table.csv", header, rows), table, labels


def test_numbered_columns_of_a_csv_file(tmp_path: Path) -> None:
    """From a CSV file to the bundle, and its rows decided by `emsco-run` as by `decide`; the run can be opened again."""
    path, table, labels = write_table(tmp_path)
    costs = tmp_path / "costs.toml"
    costs.write_text("[features]\na = 1\nb = 2\nwords = 5\n")
    prepared = prepare(TrainRequest({None: str(path)}, Columns(), (0.8,), costs=str(costs)))
    assert prepared.problem.names == ("a", "words", "b")
    trained = train(prepared, tmp_path / "run")
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    entry = next(column for column in run["columns"] if column["name"] == "words")
    assert (entry["kind"], entry["gaps"]) == ("vector", int(np.isnan(table["words"][:, 0]).sum()))
    design = next(design.id for design in trained.front if any("words" in stage for stage in design.stages))
    export_run(tmp_path / "run", tmp_path / "bundle", design=design)
    assert run_rows([str(tmp_path / "bundle"), str(path), "--out", str(tmp_path / "out.csv")]) == 0
    with (tmp_path / "out.csv").open() as file:
        decided = list(csv.DictReader(file))
    cascade = Cascade.load(tmp_path / "bundle")
    for row, item in zip(decided, Table.of(table).items(), strict=True):
        found = cascade.decide(item)
        assert (row["label"], float(row["cost"])) == (found.label or "", found.cost)
    assert len(decided) == len(labels)
    run_rows(
        [
            str(tmp_path / "bundle"),
            str(path),
            "--out",
            str(tmp_path / "t.csv"),
            "--run",
            str(tmp_path / "run"),
            "--split",
            "certify",
        ]
    )
    assert len((tmp_path / "t.csv").read_text().splitlines()) > 1


def test_a_vector_is_dropped_by_its_name(tmp_path: Path) -> None:
    """All its columns are; a column of it with a gap among numbers is an error that says where."""
    path, _, _ = write_table(tmp_path)
    assert read_source({None: str(path)}, Columns(drop=("words",))).table.names == ("a", "b")
    lines = path.read_text().splitlines()
    fields = lines[2].split(",")
    path.write_text("\n".join([*lines[:2], ",".join([fields[0], "", *fields[2:]]), *lines[3:]]))
    fault = r"\.csv line 3: column 'words': number 0 of the vector, counted from 0, is missing .*leave all of it out \(None\)$"
    with pytest.raises(DataError, match=fault):
        read_source({None: str(path)}, Columns())


@pytest.mark.parametrize("is_fixed", [False, True])
def test_lists_of_a_parquet_file(tmp_path: Path, *, is_fixed: bool) -> None:
    """Lists of any or of a fixed size, with missing ones: the same table as the CSV file, and the rows are decided alike."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    csv_path, table, labels = write_table(tmp_path)
    labels = np.where(np.arange(len(labels)) < 6, "other", labels)
    words = [None if np.isnan(row).all() else row.tolist() for row in table["words"]]
    kind = pa.list_(pa.float64(), WIDTH) if is_fixed else pa.list_(pa.float64())
    path = tmp_path / "table.parquet"
    columns = {"a": table["a"], "words": pa.array(words, kind), "b": table["b"], "label": labels}
    try:
        pq.write_table(pa.table(columns), path, row_group_size=50)
    except pa.ArrowNotImplementedError:
        pytest.skip("this pyarrow cannot write missing lists of a fixed size")
    source, other = (read_source({None: str(one)}, Columns()) for one in (path, csv_path))
    np.testing.assert_array_equal(source.table.columns["words"], other.table.columns["words"])
    kept = read_source({None: str(path)}, Columns(drop_labels=("other",)))
    np.testing.assert_array_equal(kept.table.columns["words"], source.table.columns["words"][6:])
    export_design(tmp_path / "b", stages=[["a"], ["words"]], X=table, y=labels, held_out=(table, labels), threshold=0.8)
    for given_path in (path, csv_path):
        assert run_rows([str(tmp_path / "b"), str(given_path), "--out", str(tmp_path / f"{given_path.name}.out")]) == 0
    assert (tmp_path / "table.parquet.out").read_bytes() == (tmp_path / "table.csv.out").read_bytes()


def test_a_file_without_the_numbers_of_a_vector(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`emsco-run` names the columns that it misses."""
    _, table, labels = write_table(tmp_path)
    export_design(tmp_path / "b", stages=[["a"], ["words"]], X=table, y=labels, held_out=(table, labels), threshold=0.8)
    rows = write_rows(tmp_path / "rows.csv", ["a", "words[0]"], [[1, 2]])
    assert run_rows([str(tmp_path / "b"), str(rows), "--out", str(tmp_path / "out.csv")]) != 0
    assert "columns are missing: words[1], words[2], words[3]" in capsys.readouterr().err


@pytest.mark.parametrize(("bare", "options"), [("e", ("--drop", "e")), ("label", ())])
def test_a_vector_that_is_called_as_another_column_is_refused(
    bare: str, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A text beside its embedding, left out here: production would take it for the vector."""
    header = ",".join(dict.fromkeys([bare, f"{bare}[0]", f"{bare}[1]", "a", "label"]))
    width = header.count(",")
    rows = "".join(f"{row % 2}{f',{row}' * width}\n" for row in range(60))
    (tmp_path / "t.csv").write_text(f"{header}\n{rows}")
    assert train_command(["--data", str(tmp_path / "t.csv"), "--label", "label", "--threshold", "0.8", "--check", *options]) == 1
    expected = f"the columns '{bare}[0]' to '{bare}[1]' are a vector '{bare}', and there is another column of that name"
    assert expected in capsys.readouterr().err


def test_a_number_of_a_vector_has_no_kind_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was ignored."""
    (tmp_path / "t.csv").write_text("e[0],e[1],a,label\n" + "".join(f"{row},1,2,{row % 2}\n" for row in range(60)))
    options = [
        "--data",
        str(tmp_path / "t.csv"),
        "--label",
        "label",
        "--threshold",
        "0.8",
        "--check",
        "--kind",
        "e[0]=categorical",
    ]
    assert train_command(options) == 1
    assert "--kind names 'e[0]', which is one of the numbers of the vector 'e'" in capsys.readouterr().err
