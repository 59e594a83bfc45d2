"""`emsco-demo`: a cascade from data to decisions, with everything it does on show.

The data ships with scikit-learn: measurements of cell nuclei, benign or malignant. The costs are made up: looking once at a
slide is cheap, repeating the measurement is dearer, and searching the whole slide for the worst nuclei is dear.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emsco_runtime.cli._console import number, run_command, table

__all__ = ["main"]

STAGES = (
    ("mean radius", "mean texture", "mean concave points"),
    ("area error", "smoothness error", "compactness error", "fractal dimension error", "symmetry error"),
    ("worst radius", "worst texture", "worst smoothness", "worst concave points", "worst area", "worst symmetry"),
)
THRESHOLD = 0.9


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="emsco-demo",
        description="Export a three-stage cascade for breast-cancer screening, then decide patients one by one, showing every "
        "feature that is acquired and what it costs. Needs no network; takes a few seconds.",
    )
    parser.add_argument("--out", default="emsco-demo", metavar="DIR", help="where the bundle goes (default: ./emsco-demo)")
    options = parser.parse_args(arguments)
    return run_command("emsco-demo", lambda: _demo(Path(options.out)))


def _demo(folder: Path) -> None:
    from emsco_runtime import Cascade  # noqa: PLC0415 - after the arguments: --help must answer at once
    from emsco_train.bundling.export import export_design  # noqa: PLC0415

    train, held_out = _data()
    print("1. Export a design: three stages, each a model of its own, written as float64 ONNX graphs.\n")
    made = export_design(
        folder / "bundle",
        stages=STAGES,
        X=train[0],
        y=train[1],
        held_out=held_out,
        costs=_costs(list(train[0])),
        threshold=THRESHOLD,
        name="breast-cancer-demo",
        force=True,
    )
    print(_stages(made.bundle.manifest))
    print(f"\nEvery one of {made.rows} rows was replayed through the runtime: label, stage and bill equal, ", end="")
    print(f"probabilities within {made.largest:.0e}.\n")

    print("2. Decide some patients that training never saw. Acquirers speak when they are called.\n")
    cascade = Cascade.load(folder / "bundle", _acquirers(list(made.bundle.manifest.features)))
    for row in _interesting(made, held_out[0]):
        _show(cascade, row, {name: values[row] for name, values in held_out[0].items()}, held_out[1][row])

    _summary(made, folder)


def _data() -> tuple[tuple[dict[str, Any], list[str]], tuple[dict[str, Any], list[str]]]:
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415 - as above
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    data = load_breast_cancer()
    truth = [str(data.target_names[position]) for position in data.target]
    parts = train_test_split(data.data, truth, test_size=0.4, stratify=truth, random_state=0)
    rows, held_out = ({str(name): part[:, index].tolist() for index, name in enumerate(data.feature_names)} for part in parts[:2])
    return (rows, parts[2]), (held_out, parts[3])


def _costs(names: Sequence[str]) -> Any:
    from emsco_train.costs.model import CostGroup, CostModel  # noqa: PLC0415 - as above

    repeat = CostGroup("repeat the measurement", 5.0, tuple(name for name in names if name.endswith("error")))
    search = CostGroup("search the whole slide", 40.0, tuple(name for name in names if name.startswith("worst")))
    own = {name: 2.0 if name in search.features else 1.0 for name in names}
    return CostModel.from_mapping(own, groups=[repeat, search], unit="EUR")


def _stages(manifest: Any) -> str:
    meter = manifest.meter()
    rows = []
    listed: list[str] = []
    for index, stage in enumerate(manifest.stages):
        added = meter.increment(listed, stage.acquire)
        listed += stage.acquire
        rows.append([str(index + 1), f"{number(added)} {manifest.cost_unit}", ", ".join(stage.acquire)])
    return table(["stage", "adds", "acquires"], rows)


def _acquirers(features: Sequence[Any]) -> Any:
    from emsco_runtime import Acquirers  # noqa: PLC0415 - as above

    acquirers = Acquirers()
    for feature in features:
        acquirers.feature(feature.name)(_Speaking(feature.name))
    return acquirers


class _Speaking:
    """An acquirer that says when it is called: nothing is looked up before a stage needs it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, patient: Mapping[str, float]) -> float:
        print(f"      acquiring {self._name}: {number(patient[self._name])}")
        return patient[self._name]


def _interesting(made: Any, columns: Mapping[str, Any]) -> list[int]:
    """Choose patients that end in different ways: either label at stage 1, then each later stage, then rejected."""
    from emsco_runtime import Cascade  # noqa: PLC0415 - as above

    result = Cascade(made.bundle).decide_columns(columns)
    ways = [(result.stages == 1) & (result.label == label) for label in made.bundle.manifest.labels]
    ways += [(result.stages == stage) & (result.status == "accepted") for stage in range(2, len(STAGES) + 1)]
    ways.append(result.status == "rejected")
    return [int(way.argmax()) for way in ways if way.any()]


def _show(cascade: Any, row: int, patient: Mapping[str, float], truth: str) -> None:
    print(f"   patient {row}")
    decision = cascade.decide(patient)
    meter = cascade.manifest.meter()
    outcome = f"{decision.label} ({decision.confidence:.1%} sure)" if decision.label else f"rejected ({decision.reason})"
    bill = f"{number(decision.cost)} of {number(meter.cost(meter.features))} {cascade.manifest.cost_unit}"
    print(f"   -> {outcome} after {decision.stages} of {len(cascade.manifest.stages)} stages for {bill}; in truth: {truth}\n")


def _summary(made: Any, folder: Path) -> None:
    from emsco_runtime.summary import percent  # noqa: PLC0415 - as above

    manifest, expected = made.bundle.manifest, made.expected
    meter, unit = manifest.meter(), manifest.cost_unit
    full = meter.cost(meter.features)
    exits = [f"stage {index + 1}: {stage.accepted}" for index, stage in enumerate(expected.stages)]
    print(f"3. All {expected.rows} held-out patients:\n")
    print(f"   accuracy   {percent(expected.right, expected.accepted)} of those decided")
    print(f"   coverage   {percent(expected.accepted, expected.rows)} decided, the rest left to a person")
    print(f"   mean cost  {expected.cost.mean:.2f} {unit}; acquiring everything for everybody: {number(full)} {unit}")
    print(f"   saved      {1 - expected.cost.mean / full:.0%} of the cost")
    print(f"   exits      {', '.join(exits)}, rejected: {expected.rows - expected.accepted}")
    print(f"\nThe bundle lies in {folder / 'bundle'}. Look inside with: emsco-inspect {folder / 'bundle'}")


if __name__ == "__main__":
    sys.exit(main())
