"""Verification: real tables agree in every row, and a planted difference is found."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from emsco_runtime import Cascade
from emsco_train import Export, Table, VerificationError, export_design, verify
from emsco_train.data.features import encode_table
from emsco_train.data.thresholds import StageThresholds

pytestmark = pytest.mark.uncounted

LOADERS = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}


def export(name: str, folder: Path, **options: Any) -> tuple[Export, Any]:
    """Export a three-stage design of a real table; return it with the held-out frame."""
    data = LOADERS[name](as_frame=True)
    frame, y = data.data, data.target
    names = list(frame.columns)
    third = len(names) // 3
    train = np.arange(len(frame)) % 3 != 0
    done = export_design(
        folder / "bundle",
        stages=[names[:third], names[third : 2 * third], names[2 * third :]],
        X=frame[train],
        y=y[train],
        held_out=(frame[~train], y[~train]),
        threshold=0.9,
        costs=[0.1 * (index + 1) for index in range(len(names))],
        **options,
    )
    return done, frame[~train]


@pytest.mark.parametrize("name", ["breast_cancer", "wine", "digits"])
def test_logistic_stages_agree_on_real_tables(name: str, tmp_path: Path) -> None:
    """Two, three and ten labels: no row differs in label, stage or cost; probabilities agree within 1e-9 (in fact 1e-14)."""
    done, held_out = export(name, tmp_path)
    for verification in (
        done.verified[0].verification,
        done.verified[1].verification,
        verify(Cascade.load(tmp_path / "bundle"), done.model, Table.of(held_out)),
    ):
        assert verification.agrees
        assert (verification.labels, verification.stages, verification.costs, verification.probabilities) == (0, 0, 0, 0)
        assert verification.largest < 1e-14
    assert done.verified[1].verification.rows == len(held_out)
    assert all(exits.accepted for exits in done.expected.stages)


@pytest.mark.parametrize(
    ("name", "classifier"),
    [("breast_cancer", RandomForestClassifier(20)), ("wine", GradientBoostingClassifier(n_estimators=15))],
)
def test_tree_stages_agree(name: str, classifier: Any, tmp_path: Path) -> None:
    """Trees: the runtime gives exactly what training got from the graph, and both are within 1e-5 of `predict_proba`."""
    done, held_out = export(name, tmp_path, classifier=classifier)
    assert done.verified[1].verification.agrees
    assert done.verified[1].verification.largest == 0.0
    codes = encode_table(done.model.features, Table.of(held_out), "held-out")
    cascade = Cascade.load(tmp_path / "bundle")
    for row, item in enumerate(Table.of(held_out).items()):
        for record in cascade.decide(item).trace:
            stage = done.model.stages[record.stage - 1]
            encoded = done.model.encoder.select(stage.inputs).transform(codes[row : row + 1, : len(stage.inputs)])
            wanted = stage.model.probabilities(encoded)[0]
            assert np.abs(np.array(list(record.probabilities.values())) - wanted).max() < 1e-5


@pytest.mark.parametrize("classifier", [None, RandomForestClassifier(10), GradientBoostingClassifier(n_estimators=8)])
def test_gaps_categories_and_unknowns_agree(mixed: Any, classifier: Any, tmp_path: Path) -> None:
    """Text, integer codes and a frame's own types, with missing values and categories that training never saw: no row differs."""
    done = export_design(
        tmp_path / "bundle",
        stages=mixed.stages,
        X=mixed.X,
        y=mixed.y,
        held_out=mixed.held_out,
        threshold={"low": 0.8, "middle": 0.6, "high": 0.75},
        features=mixed.options,
        classifier=classifier,
    )
    assert done.verified[1].verification.agrees
    assert done.verified[0].verification.agrees
    assert done.verified[1].verification.largest < 1e-14
    codes = encode_table(done.model.features, Table.of(mixed.held_out[0]), "held-out")
    assert (codes == -1.0).any()
    assert np.isnan(codes).any()


def test_columns_agree_with_verified_rows(tmp_path: Path) -> None:
    """The columnar path decides as the verified row path does."""
    done, held_out = export("wine", tmp_path)
    cascade = Cascade(done.bundle)
    table = Table.of(held_out)
    columns = cascade.decide_columns(dict(table.columns))
    rows = [cascade.decide(item) for item in table.items()]
    assert columns.cost.tolist() == [decision.cost for decision in rows]
    assert columns.stages.tolist() == [decision.stages for decision in rows]


def test_a_planted_difference_is_found(tmp_path: Path) -> None:
    """A model that is not the bundle's is detected, with counts and the first rows; `require` raises."""
    done, held_out = export("breast_cancer", tmp_path)
    table = Table.of(held_out)
    stricter = replace(done.model, thresholds=StageThresholds.constant((0.99, 0.99)))
    found = verify(done.bundle, stricter, table)
    assert not found.agrees
    assert found.stages > 0
    assert found.costs > 0
    assert found.probabilities == 0
    assert len(found.differences) == 5
    assert "stage" in found.differences[0].what
    with pytest.raises(VerificationError, match=r"disagree on test rows \(190 replayed; .*Row \d+: training says"):
        found.require("test")


def test_other_probabilities_are_found(tmp_path: Path) -> None:
    """Weights that are off by a millionth change no decision, but are noticed."""
    done, held_out = export("breast_cancer", tmp_path)
    first = done.model.stages[0]
    fitted = copy.copy(first.fitted)
    fitted.model = replace(first.model, intercept=first.model.intercept + np.array([0.0, 1e-6]))
    shifted = replace(first, fitted=fitted)
    found = verify(done.bundle, replace(done.model, stages=(shifted, *done.model.stages[1:])), Table.of(held_out))
    assert found.probabilities > 0
    assert 1e-9 < found.largest < 1e-6
