"""Golden items: made up, far from thresholds, varied, and repeatable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emsco_train import CascadeModel, ExportError, Table, export_design
from emsco_train.data.features import encode_table
from emsco_train.data.thresholds import StageThresholds
from emsco_train.export.golden_items import _unused_category, _value_range, make_golden_items
from emsco_train.models.fitted_set import FittedSet
from emsco_train.models.logistic.regression import LogisticModel


@pytest.fixture
def fit_model(mixed: Any, tmp_path: Path) -> tuple[CascadeModel, np.ndarray]:
    """Return a fitted design on the mixed table, and its training codes."""
    export = export_design(
        tmp_path / "b",
        stages=mixed.stages,
        X=mixed.X,
        y=mixed.y,
        held_out=mixed.held_out,
        threshold=0.7,
        features=mixed.options,
    )
    return export.model, encode_table(export.model.features, Table.of(mixed.X), "training")


def test_items_are_varied_and_clear(fit_model: tuple[CascadeModel, np.ndarray]) -> None:
    """All outcomes, missing values and unknown categories are there, and no probability is near its threshold."""
    model, codes = fit_model
    items = make_golden_items(model, codes, count=30, rng=np.random.default_rng(0))
    assert len(items) == 30
    assert {(item.decision.stages, item.decision.status) for item in items} == {
        (1, "accepted"),
        (2, "accepted"),
        (3, "accepted"),
        (3, "rejected"),
    }
    assert {item.values["size"] is None for item in items} == {True, False}
    assert any(str(item.values["colour"]).startswith("never seen") for item in items)
    for item in items:
        for row in item.probabilities:
            top, second = sorted(row, reverse=True)[:2]
            assert abs(top - 0.7) >= 1e-4
            assert top - second >= 1e-4


def test_values_are_rounded_and_whole_where_training_is(fit_model: tuple[CascadeModel, np.ndarray]) -> None:
    """No training value of a continuous feature is repeated; counts stay whole numbers."""
    model, codes = fit_model
    items = make_golden_items(model, codes, count=30, rng=np.random.default_rng(1))
    names = [feature.name for feature in model.features]
    real = set(codes[:, names.index("size")].tolist())
    assert real.isdisjoint(item.values["size"] for item in items)
    assert all(float(item.values["count"]).is_integer() for item in items)  # type: ignore[arg-type]


def test_seed_decides(fit_model: tuple[CascadeModel, np.ndarray]) -> None:
    """The same seed gives the same items, another seed others; fewer are the first of the variety."""
    model, codes = fit_model
    first, again, other = (make_golden_items(model, codes, count=5, rng=np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert len(make_golden_items(model, codes, count=1, rng=np.random.default_rng(3))) == 1


def test_crowded_thresholds(fit_model: tuple[CascadeModel, np.ndarray]) -> None:
    """Where everything lies on a threshold, a narrower margin is tried, and then the error says so."""
    model, codes = fit_model
    flat = LogisticModel(np.zeros((3, model.encoder.width)), np.log([0.2, 0.3, 0.5]))
    names = tuple(block.name for block in model.encoder.blocks)
    stage = replace(model.stages[-1], fitted=FittedSet(model.encoder, names, flat, 3, codes))
    crowded = replace(model, stages=(stage,), thresholds=StageThresholds.constant((0.5, 0.5, 0.5)))
    with pytest.raises(ExportError, match="all items get the same probabilities, since no feature has any weight"):
        make_golden_items(crowded, codes, count=3, rng=np.random.default_rng(0))
    steep = replace(flat, coef=np.full((3, model.encoder.width), 1e-9) * [[1.0], [-1.0], [1.0]])
    sloped = replace(crowded, stages=(replace(stage, fitted=FittedSet(model.encoder, names, steep, 3, codes)),))
    with pytest.raises(ExportError, match="no golden item could be made: in 400 draws"):
        make_golden_items(sloped, codes, count=3, rng=np.random.default_rng(0))
    near = replace(crowded, thresholds=StageThresholds.constant((0.50005,) * 3))
    items = make_golden_items(near, codes, count=3, rng=np.random.default_rng(0))
    assert {item.decision.status for item in items} == {"rejected"}


def test_odd_columns() -> None:
    """Constant and tiny columns have a range too, and an unknown category is unknown for certain."""
    assert _value_range(np.full(5, 0.25)).low == _value_range(np.full(5, 0.25)).high == 0.25
    assert _value_range(np.zeros(3)).digits == 0
    assert _value_range(np.array([1e-9, 9e-9, 5.5e-9])).digits >= 10
    assert _unused_category(["never seen in training"]) == "never seen in training?"
