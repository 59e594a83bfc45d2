"""Export: what goes into the bundle, what is refused, and that nothing is published unverified."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import emsco_runtime
from emsco_runtime import BundleError, Cascade, read_bundle
from emsco_train import (
    CostGroup,
    CostModel,
    DataError,
    DesignError,
    Export,
    FeatureOptions,
    ThresholdWarning,
    VerificationError,
    export_design,
)
from emsco_train.data.provenance import fingerprint

X, Y = load_wine(return_X_y=True)
NAMES = [f"x{index}" for index in range(13)]
MOMENT = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def export(path: Path, **changes: Any) -> Export:
    """Export a two-stage design of the wine table, with some arguments changed."""
    arguments: dict[str, Any] = {
        "stages": [["x1", "x0"], ["x6"]],
        "X": X[::2],
        "y": Y[::2],
        "held_out": (X[1::2], Y[1::2]),
        "threshold": 0.8,
        "created": MOMENT,
    }
    return export_design(path, **(arguments | changes))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Export the design once, for tests that only look at it or copy it."""
    return export(tmp_path_factory.mktemp("exported") / "b")


def copy_bundle(exported: Export, folder: Path) -> str:
    """Copy the bundle to a folder, and return its id."""
    shutil.copytree(exported.bundle.path, folder)
    return exported.bundle.manifest.id


def test_manifest(tmp_path: Path) -> None:
    """The bundle says what was asked: stages, prefixes, thresholds, costs of used features only, figures, provenance."""
    costs = CostModel.from_mapping(
        dict.fromkeys(NAMES, 2), groups=[CostGroup("lab", 5, ("x0", "x6")), CostGroup("spare", 1, ("x9",))], unit="EUR"
    )
    done = export(tmp_path / "b", costs=costs, name="wine", version="7", split="odd rows", class_weight={0: 2.0})
    manifest = read_bundle(tmp_path / "b").manifest
    assert manifest == done.bundle.manifest
    assert (manifest.name, manifest.version, manifest.cost_unit, manifest.labels) == ("wine", "7", "EUR", (0, 1, 2))
    assert manifest.created == "2024-05-06T07:08:09Z"
    assert [(feature.name, feature.cost, feature.group) for feature in manifest.features] == [
        ("x1", 2.0, None),
        ("x0", 2.0, "lab"),
        ("x6", 2.0, "lab"),
    ]
    assert [group.name for group in manifest.groups] == ["lab"]
    assert [stage.inputs for stage in manifest.stages] == [("x1", "x0"), ("x1", "x0", "x6")]
    assert manifest.stages[0].thresholds == {"0": 0.8, "1": 0.8, "2": 0.8}
    assert (manifest.expected.split, manifest.expected.rows) == ("odd rows", 89)
    assert manifest.expected == done.expected
    assert len(manifest.golden) == 5
    made = manifest.provenance
    assert made.settings == {"classifier": None, "C": 1.0, "class_weight": {"0": 2.0}, "sample_weight": False}
    assert made.versions["emsco"] == emsco_runtime.__version__
    libraries = {"moocore", "numba", "numpy", "onnx", "onnxruntime", "scikit-learn", "scipy", "skl2onnx"}
    assert set(made.versions) == {"emsco", "python"} | libraries
    assert made.data is not None
    assert made.data.rows == 89


def test_expected_figures_are_what_the_runtime_does(tmp_path: Path) -> None:
    """Deciding the held-out rows gives the very counts and costs that the manifest states."""
    done = export(tmp_path / "b", costs=[0.1] * 13)
    decisions = Cascade.load(tmp_path / "b").decide_many([dict(zip(NAMES, row, strict=True)) for row in X[1::2].tolist()])
    accepted = [decision.label is not None for decision in decisions]
    right = [decision.label == truth for decision, truth in zip(decisions, Y[1::2].tolist(), strict=True)]
    assert (sum(accepted), sum(right)) == (done.expected.accepted, done.expected.right)
    assert max(decision.cost for decision in decisions) == done.expected.cost.max


@pytest.mark.parametrize("classifier", [None, RandomForestClassifier(2)])
def test_same_arguments_same_bytes(classifier: Any, tmp_path: Path) -> None:
    """Two exports of the same data, seed and time are equal byte for byte; another seed makes other golden items."""
    first, _ = (export(tmp_path / folder, classifier=classifier) for folder in ("one", "two"))
    files = [
        {file.relative_to(tmp_path / folder): file.read_bytes() for file in (tmp_path / folder).rglob("*") if file.is_file()}
        for folder in ("one", "two")
    ]
    assert files[0] == files[1]
    other = export(tmp_path / "three", classifier=classifier, seed=1)
    assert other.bundle.manifest.golden not in ((), first.bundle.manifest.golden)


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (np.array(["a", "b", "c"]), ("a", "b", "c")),
        (np.array([10, 20, 30], dtype=np.int8), (10, 20, 30)),
        (np.array([1.0, 2.0, 3.0]), (1, 2, 3)),
        (np.array([True, False, True]), (0, 1)),
    ],
)
def test_labels_keep_their_type(labels: np.ndarray, kept: tuple[Any, ...], tmp_path: Path) -> None:
    """Decisions carry the user's labels: text as text, numbers as integers, booleans as 0 and 1."""
    done = export(tmp_path / "b", y=labels[Y[::2]], held_out=(X[1::2], labels[Y[1::2]]))
    assert done.bundle.manifest.labels == kept
    cascade = Cascade(done.bundle)
    found = {cascade.decide(dict(zip(NAMES, row, strict=True))).label for row in X.tolist()}
    assert found <= {*kept, None}
    assert all(type(label) in (int, str) for label in found - {None})


def test_sample_weights_change_the_model(exported: Export, tmp_path: Path) -> None:
    """Weights reach the fit, and the bundle says that there were some."""
    plain = exported.bundle.manifest
    weighted = export(tmp_path / "b", sample_weight=np.linspace(0.5, 2.0, 89), class_weight="balanced").bundle.manifest
    assert plain.stages[0].model.sha256 != weighted.stages[0].model.sha256
    assert weighted.provenance.settings["sample_weight"] is True
    assert weighted.provenance.settings["class_weight"] == "balanced"


def test_unseen_held_out_label_is_never_right(tmp_path: Path) -> None:
    """Held-out rows of a class that training lacks count as wrong when accepted; they are not an error."""
    keep = Y[::2] != 2
    done = export(tmp_path / "b", X=X[::2][keep], y=Y[::2][keep])
    assert done.expected.right <= int((Y[1::2] != 2).sum())


def test_fallback_from_options_reaches_the_runtime(tmp_path: Path) -> None:
    """A failing source falls back on what the options said."""
    done = export(tmp_path / "b", features={"x1": FeatureOptions(fallback=2.5)})
    assert done.bundle.manifest.features[0].fallback == 2.5
    decision = Cascade(done.bundle, on_failure="default").decide({"x0": 13.0, "x6": 2.0})
    assert decision.degraded


def test_existing_bundle_needs_force(exported: Export, tmp_path: Path) -> None:
    """Without force a bundle that is there stays; with it, the new one takes its place."""
    first = copy_bundle(exported, tmp_path / "b")
    with pytest.raises(BundleError, match="force"):
        export(tmp_path / "b", threshold=0.9)
    assert read_bundle(tmp_path / "b").manifest.id == first
    second = export(tmp_path / "b", threshold=0.9, force=True).bundle.manifest.id
    assert read_bundle(tmp_path / "b").manifest.id == second != first


def test_nothing_unverified_is_published(exported: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If runtime and training decide differently, the error comes before anything is written, and the old bundle stays."""
    first = copy_bundle(exported, tmp_path / "b")
    monkeypatch.setattr("emsco_train.export.verification._TOLERANCE", -1.0)
    with pytest.raises(VerificationError, match=r"disagree on training rows .*Nothing was written"):
        export(tmp_path / "b", threshold=0.9, force=True)
    with pytest.raises(VerificationError):
        export(tmp_path / "new")
    assert read_bundle(tmp_path / "b").manifest.id == first
    assert not (tmp_path / "new").exists()


def test_low_threshold_warns_here(tmp_path: Path) -> None:
    """The warning points at the line that called the export."""
    with pytest.warns(ThresholdWarning, match="1 / 3 labels") as caught:
        export_design(
            tmp_path / "b", stages=[["x0"]], X=X[::2], y=Y[::2], held_out=(X[1::2], Y[1::2]), threshold={0: 0.3, 1: 0.9, 2: 0.9}
        )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"stages": [["nope"]]}, DesignError, "stage 1 names 'nope'"),
        ({"costs": {"x1": 1, "x0": 1}}, DesignError, "no cost for feature 'x6'"),
        ({"threshold": 1.5}, DesignError, "1.5 for label '0'"),
        ({"y": Y[::2][:-1]}, DataError, "y has 88 labels for 89 rows"),
        ({"y": Y[::2] + 0.5}, DataError, "y, row 0: 0.5"),
        ({"held_out": X}, DesignError, r"held_out (?=.*ndarray).*pair \(rows, labels\)"),
        ({"held_out": (X[1::2], Y)}, DataError, "held_out y has 178 labels for 89 rows"),
        ({"held_out": (X[:, :5], Y)}, DataError, "no column 'x6'"),
        ({"golden": 0}, DesignError, "golden is 0"),
        ({"golden": 101}, DesignError, "golden is 101"),
        ({"created": datetime(2024, 1, 1)}, DesignError, "without a time zone"),  # noqa: DTZ001
        ({"name": ""}, DesignError, "name is '', which a bundle cannot hold"),
        ({"C": 0}, DesignError, "C is 0"),
        ({"features": {"zz": FeatureOptions()}}, DesignError, r"options for \['zz'\]"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], kind: type[Exception], message: str, tmp_path: Path) -> None:
    """Each mistake gets one error of our own, and nothing is written."""
    with pytest.raises(kind, match=message):
        export(tmp_path / "b", **changes)
    assert not (tmp_path / "b").exists()


def test_created_now_by_default(tmp_path: Path) -> None:
    """Without a time, the bundle carries the present one, in UTC."""
    created = export(tmp_path / "b", created=None).bundle.manifest.created
    assert abs((datetime.now(UTC) - datetime.fromisoformat(created)).total_seconds()) < 60


def test_fingerprint_notices_any_change(exported: Export) -> None:
    """A value, a label, a name or the order of rows changes the fingerprint; the bits of a NaN do not."""
    features = exported.model.features
    codes = X[:, [1, 0, 6]].copy()
    labels = Y.tolist()
    base = fingerprint(features, codes, labels)
    other = codes.copy()
    other[5, 1] += 1e-12
    assert fingerprint(features, other, labels) != base
    assert fingerprint(features, codes[::-1], labels) != base
    assert fingerprint(features, codes, [*labels[:-1], "2"]) != base
    assert fingerprint(features[::-1], codes, labels) != base
    codes[0, 0] = np.nan
    negative = codes.copy()
    negative[0, 0] = -np.nan
    assert fingerprint(features, codes, labels) == fingerprint(features, negative, labels)
