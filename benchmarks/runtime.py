"""The runtime's speed and size, each as a ratio to the bare alternative in the same run: `make bench`."""

from __future__ import annotations

import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # scikit-learn must not gain or lose by using threads

import numpy as np
import onnxruntime
from _measure import Measurement, report, time_in_turns
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import emsco_runtime
from emsco_runtime import Acquirers, Bundle, Cascade, CircuitBreaker
from emsco_runtime.manifest import Feature
from emsco_runtime.testing import make_bundle
from emsco_train import export_design
from emsco_train.data.stage_settings import StageKind

NAMES = [f"f{index}" for index in range(15)]
STAGES = [NAMES[:4], NAMES[4:9], NAMES[9:]]
WIDTHS = (4, 9, 15)
ITEMS = 400
ROWS = 100_000


def main() -> None:
    """Measure all lines and print them."""
    X, y = make_classification(2000, 15, n_informative=8, class_sep=0.5, flip_y=0.2, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        walk = export_bundle(folder + "/walk", X, y, threshold=1.0)
        curved = export_bundle(folder + "/curved", X, y, threshold=1.0, kind="curved")
        boosted = export_bundle(folder + "/boosted", X, y, threshold=1.0, kind="boosted")
        table = export_bundle(folder + "/table", X, y, threshold=0.85)
        lines = [
            *single_items(walk, X, y),
            *other_stages(walk, curved, boosted, X),
            whole_tables(table),
            *start_up(folder + "/table"),
            many_features(),
            one_guarded(),
            *wide_acquirers(),
            *vectors(),
        ]
    report(lines, "build/bench-runtime.json")


def export_bundle(path: str, X: Any, y: Any, threshold: float, kind: StageKind = "straight") -> Bundle:  # noqa: N803
    """Export the three-stage design."""
    columns = {name: X[:, index] for index, name in enumerate(NAMES)}
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    options = {"stages": STAGES, "X": columns, "y": y, "held_out": (columns, y), "threshold": threshold, "created": moment}
    return export_design(path, kind=kind, **options).bundle


def sessions(bundle: Bundle) -> list[Any]:
    """Make bare sessions of the bundle's models, with one thread each, as the runtime has them."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return [onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]) for content in bundle.models]


def trivial_acquirers() -> Acquirers:
    """Return one trivial acquirer per feature."""
    acquirers = Acquirers()
    for index, name in enumerate(NAMES):
        acquirers.feature(name)(lambda item, index=index: item[index])
    return acquirers


def single_items(bundle: Bundle, X: Any, y: Any) -> list[Measurement]:  # noqa: N803
    """`decide` on items that walk all three stages, against bare sessions and against scikit-learn."""
    cascade = Cascade(bundle, trivial_acquirers())
    items = [tuple(row) for row in X[:ITEMS].tolist()]
    assert all(cascade.decide(item).stages == 3 for item in items)
    bare = sessions(bundle)
    ready = [[X[row : row + 1, :width].copy() for width in WIDTHS] for row in range(ITEMS)]
    fitted = [make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:, :width], y) for width in WIDTHS]
    scaled = [[model[0].transform(matrix) for model, matrix in zip(fitted, matrices, strict=True)] for matrices in ready]

    def ours() -> None:
        for item in items:
            cascade.decide(item)

    def onnx() -> None:
        for matrices in ready:
            for session, matrix in zip(bare, matrices, strict=True):
                session.run(["probabilities"], {"features": matrix})

    def sklearn(models: list[Any], rows: list[Any]) -> None:
        for matrices in rows:
            for model, matrix in zip(models, matrices, strict=True):
                if model.predict_proba(matrix)[0].max() >= 1.0:
                    break

    bare_models = [model[1] for model in fitted]
    least = time_in_turns({"decide": ours, "onnx": onnx}, rounds=25)
    slow = time_in_turns(
        {"decide": ours, "raw": lambda: sklearn(fitted, ready), "scaled": lambda: sklearn(bare_models, scaled)}, rounds=5
    )
    micro = {name: seconds / ITEMS * 1e6 for name, seconds in {**slow, **least}.items()}
    return [
        Measurement(
            "decide, 3 stages (4, 9, 15 inputs)",
            micro["decide"],
            "3 bare InferenceSession.run",
            micro["onnx"],
            "us/item",
            least["decide"] / least["onnx"],
            "<= 1.25",
        ),
        *(
            Measurement(
                "decide, speed-up", micro["decide"], against, micro[name], "us/item", slow[name] / slow["decide"], ">= 12"
            )
            for name, against in (("raw", "3 predict_proba, scaling included"), ("scaled", "3 predict_proba, rows scaled before"))
        ),
    ]


def other_stages(straight: Bundle, curved: Bundle, boosted: Bundle, X: Any) -> list[Measurement]:  # noqa: N803
    """`decide` with three curved stages, and with three boosted ones, against the same with straight stages."""
    bundles = {"straight": straight, "curved": curved, "boosted": boosted}
    cascades = {name: Cascade(bundle, trivial_acquirers()) for name, bundle in bundles.items()}
    items = [tuple(row) for row in X[:ITEMS].tolist()]
    assert all(cascade.decide(item).stages == 3 for cascade in cascades.values() for item in items)
    assert all(b"TreeEnsemble" in content for content in (*curved.models, *boosted.models))

    def decide(cascade: Cascade) -> None:
        for item in items:
            cascade.decide(item)

    least = time_in_turns({name: partial(decide, cascade) for name, cascade in cascades.items()}, rounds=25)
    micro = {name: seconds / ITEMS * 1e6 for name, seconds in least.items()}
    named = (("curved", "decide, 3 curved stages", "<= 1.15"), ("boosted", "decide, 3 boosted stages", "<= 3"))
    return [
        Measurement(
            text, micro[name], "decide, 3 straight stages", micro["straight"], "us/item", least[name] / least["straight"], wanted
        )
        for name, text, wanted in named
    ]


def whole_tables(bundle: Bundle) -> Measurement:
    """`decide_columns` against onnxruntime alone on ready matrices of the same rows at the same stages."""
    cascade = Cascade(bundle)
    X = make_classification(ROWS, 15, n_informative=8, class_sep=0.5, flip_y=0.2, random_state=0)[0]
    columns = {name: np.ascontiguousarray(X[:, index]) for index, name in enumerate(NAMES)}
    stages = cascade.decide_columns(columns).stages
    matrices = [np.ascontiguousarray(X[stages >= stage, :width]) for stage, width in enumerate(WIDTHS, start=1)]
    print("rows scored at each stage:", *(len(matrix) for matrix in matrices))
    bare = sessions(bundle)

    def onnx() -> None:
        for session, matrix in zip(bare, matrices, strict=True):
            session.run(["probabilities"], {"features": matrix})

    least = time_in_turns({"columns": lambda: cascade.decide_columns(columns), "onnx": onnx}, rounds=15)
    ratio = least["columns"] / least["onnx"]
    what = f"decide_columns, {ROWS:,} rows"
    return Measurement(what, least["columns"] * 1e3, "onnxruntime, ready matrices", least["onnx"] * 1e3, "ms", ratio, "<= 3")


_START_OURS = """
import time; start = time.perf_counter()
from emsco_runtime import Cascade
cascade = Cascade.load({path!r})
"""
_START_BARE = """
import time; start = time.perf_counter()
import numpy, onnxruntime, pydantic
from pathlib import Path
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
sessions = [
    onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
    for path in sorted(Path({path!r}, "stages").iterdir())
]
"""
# `import pydantic` loads almost nothing: its parts come with the first model. This is the least that any user of it pays.
_START_USED = (
    _START_BARE
    + """
class Used(pydantic.BaseModel):
    name: str
Used.model_validate_json('{{"name": "x"}}')
"""
)
_START_END = """
seconds = time.perf_counter() - start
import json, psutil
print(json.dumps([seconds, psutil.Process().memory_info().rss / 2**20]))
"""


def start_up(path: str) -> list[Measurement]:
    """Import and load in fresh processes, against importing the three libraries and making three bare sessions."""
    # An installed package is compiled; a checkout may not be.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    compileall.compile_dir(str(Path(emsco_runtime.__file__).parent), quiet=1)
    measured: dict[str, list[tuple[float, float]]] = {"ours": [], "bare": [], "used": []}
    for _ in range(9):
        for name, code in (("ours", _START_OURS), ("bare", _START_BARE), ("used", _START_USED)):
            script = code.format(path=path) + _START_END
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
            measured[name].append(tuple(json.loads(done.stdout)))
    lines = []
    for name, against in (
        ("bare", "import numpy, onnxruntime, pydantic + 3 sessions"),
        ("used", "the same + a pydantic model of one field"),
    ):
        (ours, ours_mb), (base, base_mb) = (
            [statistics.median(figures) for figures in zip(*measured[key], strict=True)] for key in ("ours", name)
        )
        lines += [
            Measurement("import and load, 3 stages", ours * 1e3, against, base * 1e3, "ms", ours / base, "<= 1.3"),
            Measurement("resident memory, more by", ours_mb, against, base_mb, "MB", ours_mb - base_mb, "<= 10"),
        ]
    return lines


def many_features() -> Measurement:
    """Decide items that leave at stage 1, in a bundle of 500 features and in one of 20."""
    works = {}
    for count in (500, 20):
        names = [f"f{index}" for index in range(count)]
        weights = [np.vstack([-np.ones(width), np.ones(width)]) for width in (4, count)]
        cascade = Cascade(make_bundle([names[:4], names[4:]], weights=weights, threshold=0.9))
        item = dict.fromkeys(names, 1.0)
        assert cascade.decide(item).stages == 1
        works[str(count)] = lambda cascade=cascade, item=item: [cascade.decide(item) for _ in range(500)]
    least = time_in_turns(works, rounds=15)
    micro = {name: seconds / 500 * 1e6 for name, seconds in least.items()}
    ratio = least["500"] / least["20"]
    return Measurement(
        "decide, exit at stage 1, 500 features", micro["500"], "20 features", micro["20"], "us/item", ratio, "<= 1.2"
    )


def one_guarded() -> Measurement:
    """Decide items of twenty acquirers, of which one has a breaker: the others must not pay for it."""
    names = [f"f{index}" for index in range(20)]
    bundle = make_bundle([names], threshold=0.6)
    works = {}
    for name, breaker in (("guarded", CircuitBreaker()), ("plain", None)):
        acquirers = Acquirers()
        for place, feature in enumerate(names):
            acquirers.feature(feature, breaker=None if place else breaker)(lambda _: 0.5)
        cascade = Cascade(bundle, acquirers)
        works[name] = lambda cascade=cascade: [cascade.decide(None) for _ in range(500)]
    least = time_in_turns(works, rounds=15)
    micro = {name: seconds / 500 * 1e6 for name, seconds in least.items()}
    ratio = least["guarded"] / least["plain"]
    return Measurement("decide, 20 acquirers, one guarded", micro["guarded"], "none", micro["plain"], "us/item", ratio, "<= 2")


def vectors() -> list[Measurement]:
    """Decide items with a vector of 384 numbers: what it takes more than one number, the time of the model itself left out."""
    numbers = np.random.default_rng(0).normal(size=384)
    values: dict[str, Any] = {"one number": 0.1, "a list": numbers.tolist(), "an array": numbers}
    works: dict[str, Any] = {}
    for name, value in values.items():
        kind: Any = {"kind": "numeric"} if name == "one number" else {"kind": "vector", "width": 384}
        bundle = make_bundle([["v"]], features=[Feature(name="v", cost=1.0, **kind)], threshold=0.999)
        cascade, item = Cascade(bundle), {"v": value}
        (session,) = sessions(bundle)
        given = {"features": np.atleast_2d(value)}
        works[name] = lambda cascade=cascade, item=item: [cascade.decide(item) for _ in range(20)]
        works[f"model of {name}"] = lambda session=session, given=given: [session.run(None, given) for _ in range(20)]
    least = {name: seconds / 20 * 1e6 for name, seconds in time_in_turns(works, rounds=400).items()}
    own = {name: least[name] - least[f"model of {name}"] for name in values}
    unit = "us/item (difference)"
    return [
        Measurement(
            f"decide less the model, 384 numbers in {name}",
            own[name],
            "one number",
            own["one number"],
            unit,
            own[name] - own["one number"],
            "<= 20",
        )
        for name in ("a list", "an array")
    ]


def wide_acquirers() -> list[Measurement]:
    """Decide items whose features all come from one acquirer: the time for a feature must not grow with their number."""
    lines = []
    for kind in ("a sequence", "a mapping"):
        works = {}
        for count in (3072, 192):
            names = [f"f{index}" for index in range(count)]
            result: Any = [0.001] * count if kind == "a sequence" else dict.fromkeys(names, 0.001)
            acquirers = Acquirers()
            acquirers.features(*names)(lambda _, result=result: result)
            weights = [np.vstack([-np.ones(count), np.ones(count)]) / count]
            cascade = Cascade(make_bundle([names], weights=weights, threshold=0.9), acquirers)
            works[str(count)] = lambda cascade=cascade, count=count: [cascade.decide(None) for _ in range(3072 // count)]
        least = time_in_turns(works, rounds=15)
        # Both decide 3,072 features in all.
        micro = {name: seconds / 3072 * 1e6 for name, seconds in least.items()}
        what = f"decide, 3,072 features from {kind}"
        lines.append(Measurement(what, micro["3072"], "192", micro["192"], "us/feature", least["3072"] / least["192"], "<= 2"))
    return lines


if __name__ == "__main__":
    Path("build").mkdir(exist_ok=True)
    main()
