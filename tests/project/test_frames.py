"""Data frames: accepted wherever columns are, though the runtime never imports pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from emsco_runtime import Cascade
from emsco_runtime.manifest import Feature
from emsco_runtime.testing import make_bundle

FEATURES = [
    Feature(name="size", kind="numeric", cost=1.0, missing="impute"),
    Feature(name="count", kind="numeric", cost=1.0, missing="impute"),
    Feature(name="flag", kind="boolean", cost=1.0, missing="impute"),
    Feature(name="code", kind="categorical", cost=1.0, categories=("1", "2"), missing="impute"),
    Feature(name="colour", kind="categorical", cost=1.0, categories=("red", "blue"), unknown="ignore", missing="impute"),
]
NAMES = [feature.name for feature in FEATURES]
PLAIN = {
    "size": [0.5, None, -2.0, 3.0],
    "count": [1, 2, None, 4],
    "flag": [True, False, None, True],
    "code": [1, 2, 1, None],
    "colour": ["red", None, "green", "blue"],
}


@pytest.mark.parametrize(
    "dtypes",
    [
        {},
        {"size": "Float64", "count": "Int64", "flag": "boolean", "code": "Int64", "colour": "string"},
        {"colour": "category", "code": "category"},
        {"flag": object, "colour": object, "count": np.float32},
    ],
    ids=["inferred", "nullable", "category", "objects"],
)
def test_frames_of_any_dtype_decide_as_plain_values(dtypes: dict[str, object]) -> None:
    """Gaps as None, NaN or pandas.NA, categories as text, codes or categoricals: the same decisions as plain Python values."""
    cascade = Cascade(make_bundle([NAMES[:2], NAMES[2:]], features=FEATURES, threshold=0.7))
    frame = pd.DataFrame(PLAIN).astype(dtypes)
    table = cascade.decide_columns(frame)
    plain = [cascade.decide({name: PLAIN[name][row] for name in NAMES}) for row in range(4)]
    assert table.label.tolist() == [decision.label for decision in plain]
    assert table.cost.tolist() == [decision.cost for decision in plain]
    assert table.confidence == pytest.approx([decision.confidence for decision in plain], abs=1e-12)
    records = [cascade.decide(record) for record in frame.to_dict("records")]
    assert [decision.probabilities for decision in records] == [decision.probabilities for decision in plain]


def test_a_frame_of_results() -> None:
    """The arrays of a table's decisions make a frame as they are."""
    cascade = Cascade(make_bundle([["a"]], threshold=0.9))
    result = cascade.decide_columns(pd.DataFrame({"a": np.linspace(-5, 5, 7)}))
    frame = pd.DataFrame({"label": result.label, "status": result.status, "cost": result.cost, "stages": result.stages})
    assert (frame["status"] == "accepted").sum() == frame["label"].notna().sum()
