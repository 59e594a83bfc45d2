"""From a table to decisions against plain scikit-learn: pipelines that it fits on raw columns, run row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from emsco_runtime import Cascade
from emsco_train import FeatureOptions, export_design

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

pandas = pytest.importorskip("pandas")


def plain_pipeline(frame: Any, names: list[str]) -> Any:
    """Return the pipeline that a user of scikit-learn would write for these columns."""
    text = [name for name in names if frame[name].dtype.kind not in "fiub"]
    numbers = [name for name in names if name not in text]
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), text),
    )
    return make_pipeline(columns, LogisticRegression(solver="newton-cholesky", tol=1e-13, max_iter=500))


def run_rows(pipelines: list[Any], stages: list[list[str]], frame: Any, threshold: float) -> tuple[list[Any], list[int], Any]:
    """Run all rows with `predict_proba` and return labels, stages and the probabilities of every stage."""
    labels: list[Any] = [None] * len(frame)
    exits = [len(stages)] * len(frame)
    scores = []
    for number, pipeline in enumerate(pipelines, start=1):
        names = [name for stage in stages[:number] for name in stage]
        probabilities = pipeline.predict_proba(frame[names])
        scores.append(probabilities)
        for row, values in enumerate(probabilities):
            if labels[row] is None and exits[row] == len(stages) and values.max() >= threshold:
                labels[row], exits[row] = pipeline.classes_[values.argmax()], number
    return labels, exits, scores


def compare(tmp_path: Path, frame: Any, y: Any, stages: list[list[str]], threshold: float, options: Any = None) -> None:
    """Export, decide every held-out row through the runtime, and compare with plain scikit-learn."""
    train, test, y_train, y_test = train_test_split(frame, y, stratify=y, test_size=0.4, random_state=0)
    costs = {name: 0.1 * (index + 1) for index, name in enumerate(frame.columns)}
    export_design(
        tmp_path, stages=stages, X=train, y=y_train, held_out=(test, y_test), costs=costs, threshold=threshold, features=options
    )
    cascade = Cascade.load(tmp_path)
    names = [[name for stage in stages[:number] for name in stage] for number in range(1, len(stages) + 1)]
    pipelines = [plain_pipeline(train, listed).fit(train[listed], y_train) for listed in names]
    labels, exits, scores = run_rows(pipelines, stages, test, threshold)
    meter = cascade.manifest.meter()
    worst = 0.0
    for row, item in enumerate(test.to_dict("records")):
        decision = cascade.decide(item)
        assert (decision.label, decision.stages) == (labels[row], exits[row])
        assert decision.cost == meter.cost(names[exits[row] - 1])
        for record in decision.trace:
            worst = max(worst, np.abs(scores[record.stage - 1][row] - list(record.probabilities.values())).max())
    assert worst < 1e-9
    assert len(set(exits)) > 1


@pytest.mark.parametrize(("name", "threshold"), [("breast_cancer", 0.9), ("wine", 0.9), ("digits", 0.8)])
def test_real_tables_decide_as_plain_scikit_learn_does(name: str, threshold: float, tmp_path: Path) -> None:
    """Binary, three and ten classes: zero rows differ in label, stage or cost; probabilities within 1e-9."""
    data = getattr(datasets, f"load_{name}")(as_frame=True)
    names = list(data.data.columns)
    cuts = (len(names) // 5, len(names) // 2)
    stages = [names[: cuts[0]], names[cuts[0] : cuts[1]], names[cuts[1] :]]
    # Ten classes of 64 columns take long: 600 rows of them will do.
    compare(tmp_path, data.data[:600], data.target.to_numpy()[:600], stages, threshold)


def test_a_table_with_gaps_categories_and_unknown_categories(tmp_path: Path) -> None:
    """Gaps and text, and categories in the held-out rows that training never saw: as scikit-learn's pipeline decides."""
    rng = np.random.default_rng(7)
    rows = 600
    colour = rng.choice(["red", "green", "blue", "violet"], rows, p=[0.45, 0.3, 0.2495, 0.0005]).astype(object)
    frame = pandas.DataFrame(
        {
            "size": np.where(rng.random(rows) < 0.1, np.nan, rng.lognormal(size=rows)),
            "colour": np.where(rng.random(rows) < 0.05, None, colour),
            "weight": rng.normal(50.0, 5.0, rows),
            "shape": rng.choice(["round", "square"], rows).astype(object),
        }
    )
    logit = np.nan_to_num(frame["size"]) - 1.5 * (colour == "red") + 0.2 * (frame["weight"] - 50) + rng.normal(size=rows)
    y = np.where(logit > 0, "yes", "no")
    train, test = train_test_split(np.arange(rows), stratify=y, test_size=0.4, random_state=0)
    # Two held-out rows get a category that no training row has.
    frame.loc[train, "colour"] = frame.loc[train, "colour"].replace("violet", "red")
    frame.loc[test[:2], "colour"] = "violet"
    frame["colour"] = frame["colour"].where(frame["colour"].notna(), np.nan).astype(object)
    stages = [["shape", "weight"], ["colour"], ["size"]]
    compare(tmp_path, frame, y, stages, 0.85, {"colour": FeatureOptions(unknown="ignore")})
