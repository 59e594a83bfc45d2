"""Boosted stages: what training says and what the runtime does are the same, on every split and one ulp beside it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from emsco_runtime import Cascade
from emsco_runtime.support.arrays import Floats
from emsco_train import FeatureOptions, Table, export_design, verify
from emsco_train.data.encoder import Block
from emsco_train.models.cascade_model import CascadeModel
from emsco_train.models.stage_model import ClassifierModel
from emsco_train.models.trees.float_boundary import largest_at_most

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def make_classifier(name: str, trees: int) -> Any:
    """Return a classifier of one of the libraries."""
    if name == "lightgbm":
        return pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=trees, verbose=-1, n_jobs=1)
    if name == "xgboost":
        return pytest.importorskip("xgboost").XGBClassifier(n_estimators=trees, n_jobs=1)
    return HistGradientBoostingClassifier(max_iter=trees)


def make_table(labels: int, rows: int = 300) -> tuple[dict[str, Any], Any]:
    """Return columns with gaps, with few values, and with text, and labels that depend on all of them."""
    rng = np.random.default_rng(labels)
    age, size, score = rng.normal(50, 20, rows).round(), rng.lognormal(size=rows), rng.integers(0, 5, rows).astype(float)
    kind = rng.choice(["red", "green", "blue"], rows)
    strength = np.column_stack([age / 20, 2 * np.log(size), score - (kind == "red") * 2])[:, :labels]
    y = (strength - strength.mean(axis=0) + rng.normal(size=strength.shape) / 2).argmax(axis=1)
    size[rng.random(rows) < 0.1] = np.nan
    score[rng.random(rows) < 0.1] = np.nan
    return {"age": age, "size": size, "score": score, "kind": kind}, y


def values_on_splits(model: CascadeModel) -> dict[str, Floats]:
    """Return, for each numeric feature, all raw values on a split of some stage, and one ulp on each side."""
    found: dict[str, list[Floats]] = {}
    for stage in model.stages:
        assert isinstance(stage.model, ClassifierModel)
        assert stage.model.trees is not None
        ensemble = stage.model.trees.ensemble
        encoder = model.encoder.select(stage.inputs)
        for block in encoder.blocks:
            if not block.categories:
                (column,) = encoder.columns([block.name])
                limits = np.unique(ensemble.threshold[ensemble.feature == column])
                found.setdefault(block.name, []).append(on_split(block, limits[np.isfinite(limits)]))
    values = {name: np.unique(np.concatenate(parts)) for name, parts in found.items()}
    return {
        name: np.concatenate([each, np.nextafter(each, np.inf), np.nextafter(each, -np.inf)]) for name, each in values.items()
    }


def on_split(block: Block, limits: Floats) -> Floats:
    """Return the largest raw value that the encoder takes to each limit or below."""
    return largest_at_most(lambda raw: (raw - block.mean) / block.scale, limits)


def add_splits(columns: dict[str, Any], values: dict[str, Floats]) -> dict[str, Any]:
    """Return rows of the table, one for each value on a split, in which that value replaces the row's own."""
    rng = np.random.default_rng(0)
    parts: list[dict[str, Any]] = [columns]
    for name, chosen in values.items():
        rows = rng.integers(0, len(columns[name]), len(chosen))
        parts.append({key: column[rows] for key, column in columns.items()} | {name: chosen})
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("name", ["sklearn", "lightgbm", "xgboost"])
def test_no_row_on_a_split_differs(name: str, labels: int, tmp_path: Path) -> None:
    """Three stages with gaps and categories: label, stage and cost equal, probabilities within 1e-12, alone and in columns."""
    columns, y = make_table(labels)
    done = export_design(
        tmp_path / "bundle",
        stages=[["age"], ["size", "kind"], ["score"]],
        X=columns,
        y=y,
        held_out=(columns, y),
        threshold=0.8,
        features={"kind": FeatureOptions(unknown="ignore")},
        classifier=make_classifier(name, 12),
    )
    rows = add_splits(columns, values_on_splits(done.model))
    rows["kind"][::7] = "never seen"
    found = verify(Cascade.load(tmp_path / "bundle"), done.model, Table.of(rows))
    assert found.agrees
    assert found.largest <= 1e-12
    assert found.rows > len(y)
    assert done.expected.accepted > 0


def test_equal_probabilities_at_the_threshold(tmp_path: Path) -> None:
    """A threshold that is the probability of whole groups of rows: training settles them as the runtime does."""
    columns, y = make_table(2)
    classifier = HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=3)
    options: dict[str, Any] = {"stages": [["age"], ["score"]], "X": columns, "y": y, "held_out": (columns, y)}
    first = export_design(tmp_path / "first", threshold=0.7, classifier=classifier, **options).model.stages[0].fitted
    levels = np.unique(first.reference_scores(np.array(columns["age"])[:, None]).max(axis=1))
    for number, threshold in enumerate(levels[-3:].tolist()):
        done = export_design(tmp_path / str(number), threshold=threshold, classifier=classifier, **options)
        assert all(each.verification.agrees for each in done.verified)


def test_classifiers_that_score_many_rows_at_a_time() -> None:
    """A forest's graph gives the same for rows alone and among others; where it would not, each row is scored alone."""
    from emsco_runtime.bundle.manifest import Feature
    from emsco_train.data.stage_settings import StageSettings
    from emsco_train.models.fitted_set import SetFitter

    columns, y = make_table(2)
    codes = np.array(columns["age"])[:, None]
    features = [Feature(name="age", kind="numeric", cost=1.0)]
    settings = StageSettings(RandomForestClassifier(5))
    fitted = SetFitter.learn(features, codes, y, labels=2, weights=None, settings=settings).fit(["age"])
    assert not fitted.scores_one_by_one
    assert (fitted.probabilities(codes) == fitted.reference_scores(codes)).all()
    again = SetFitter.learn(features, codes, y, labels=2, weights=None, settings=settings).fit(["age"])
    score_rows = again._scorer.score_rows
    again._scorer.score_rows = lambda stage, matrix: score_rows(stage, matrix) + 1e-7  # type: ignore[method-assign]
    assert again.scores_one_by_one
    assert (again.probabilities(codes) == again.reference_scores(codes)).all()


@pytest.mark.proof
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not beside the project")
@pytest.mark.parametrize(
    "table",
    [
        "spambase.csv",
        "pima.csv",
        "heart_failure.csv",
        "heart_disease_cleveland.csv",
        "australian_credit.csv",
        "nsl_kdd_train.csv.gz",
    ],
)
@pytest.mark.parametrize("name", ["sklearn", "lightgbm", "xgboost"])
def test_no_row_of_real_tables_differs(name: str, table: str, tmp_path: Path) -> None:
    """All rows, and all splits of 100 trees a stage: label, stage and cost equal, probabilities within 1e-12."""
    from emsco_train.runs.source import Columns, read_source

    path = DATA / table
    if path.suffix == ".gz":
        path = tmp_path / path.stem
        path.write_bytes(gzip.decompress((DATA / table).read_bytes()))
    source = read_source({None: path}, Columns())
    kept = np.sort(np.random.default_rng(0).permutation(source.table.rows)[:10_000])
    columns = {key: column[kept] for key, column in source.table.columns.items()}
    y = np.asarray(source.labels)[kept]
    names = list(columns)
    third = len(names) // 3
    done = export_design(
        tmp_path / "bundle",
        stages=[names[:third], names[third : 2 * third], names[2 * third :]],
        X=columns,
        y=y,
        held_out=(columns, y),
        threshold=0.9,
        features={key: FeatureOptions(unknown="ignore") for key, column in columns.items() if column.dtype == object},
        classifier=make_classifier(name, 100),
    )
    rows = add_splits(columns, values_on_splits(done.model))
    found = verify(Cascade.load(tmp_path / "bundle"), done.model, Table.of(rows))
    assert found.agrees
    assert found.largest <= 1e-12
