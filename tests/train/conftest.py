"""Tables that several tests share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from emsco_train import FeatureOptions
from tests.processes import preload_modules


@dataclass(frozen=True, slots=True, eq=False)
class MixedTable:
    """A table with gaps, categories, booleans, and categories in the held-out rows that training never saw."""

    X: Any
    y: Any
    held_out: tuple[Any, Any]
    options: dict[str, FeatureOptions]
    stages: list[list[str]]


def _columns(rows: int, rng: np.random.Generator, colours: int) -> dict[str, np.ndarray]:
    size = rng.normal(1000.0, 3.0, rows)
    size[rng.random(rows) < 0.15] = np.nan
    return {
        "size": size,
        "count": rng.integers(0, 9, rows),
        "flag": rng.random(rows) < 0.4,
        "colour": rng.integers(0, colours, rows),
        "shape": rng.integers(0, 3, rows),
        "rate": rng.exponential(2.0, rows),
    }


def _labels(columns: dict[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    size = np.nan_to_num(columns["size"], nan=1001.0) - 1000.0
    score = 0.8 * size + 0.7 * columns["count"] - 2.0 * columns["flag"] + 1.5 * (columns["colour"] == 1) - columns["rate"]
    noisy = score + rng.normal(0.0, 1.5, len(score))
    return np.where(noisy > 2.5, "high", np.where(noisy > -0.5, "middle", "low"))


def _texts(codes: np.ndarray, names: list[str], rng: np.random.Generator) -> np.ndarray:
    values = np.array([names[code] for code in codes], dtype=object)
    values[rng.random(len(values)) < 0.1] = None
    return values


@pytest.fixture(params=["text", "codes", "frame"])
def mixed(request: pytest.FixtureRequest) -> MixedTable:
    """Return the same data as text, as integer codes, and as a data frame with its own types."""
    rng = np.random.default_rng(11)
    form = request.param
    options = {"colour": FeatureOptions(unknown="ignore"), "count": FeatureOptions(fallback=3)}
    if form == "codes":
        options["colour"] = FeatureOptions(kind="categorical", unknown="ignore")
        options["shape"] = FeatureOptions(kind="categorical")
    splits = []
    for rows, colours in ((300, 4), (150, 6)):
        columns = _columns(rows, rng, colours)
        y = _labels(columns, rng)
        splits.append((_convert_form(columns, form, rng), y))
    return MixedTable(*splits[0], splits[1], options, [["count", "colour"], ["flag", "size"], ["shape", "rate"]])


def _convert_form(columns: dict[str, np.ndarray], form: str, rng: np.random.Generator) -> Any:
    if form == "codes":
        # Codes as floats, with NaN for gaps, are what a CSV reader makes of them.
        return columns | {"shape": np.where(rng.random(len(columns["shape"])) < 0.1, np.nan, columns["shape"])}
    texts = {
        "colour": _texts(columns["colour"], ["red", "green", "blue", "black", "pink", "grey"], rng),
        "shape": _texts(columns["shape"], ["disc", "cube", "bar"], rng),
    }
    if form == "text":
        return columns | texts
    import pandas as pd

    frame = pd.DataFrame(columns | texts)
    return frame.astype({"colour": "category", "shape": "string", "count": "Int64", "flag": "boolean"})


preload_modules("tests.train.forkserver_preload", "tests.train.test_killed_searches")
