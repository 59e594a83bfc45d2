"""The benchmark of rare labels in its short form: one draw from NSL-KDD, in which 2 % of the rows are r2l attacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from emsco_train.designs.selection import Requirements
from emsco_train.export.tuned_choice import select_tuned_design

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
pytestmark = [
    pytest.mark.skipif(not (DATA / "nsl_kdd_train.csv.gz").exists(), reason="the shared data are not here"),
    pytest.mark.uncounted,
]


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the script as it is when it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import labels

    yield labels
    sys.modules.pop("labels", None)


@pytest.mark.proof
def test_a_floor_on_a_rare_attack_is_kept_on_other_rows(labels: ModuleType) -> None:
    """By accuracy alone hardly any r2l attack is found; with a floor on their recall it is kept, and so is the accuracy."""
    wish = Requirements.of(min_accuracy=labels.ACCURACY, min_recall={labels.RARE: labels.FLOOR})
    for division in labels.draw_divisions([0]):
        blind, design = division.front.knee, select_tuned_design(division.problem, division.front, wish)
        for chosen, is_found in ((blind, False), (design, True)):
            counts = labels.measure(division, chosen)
            assert [one.label for one in counts] == ["normal", "probe", "r2l"]
            assert (counts[2].recall >= labels.FLOOR) == is_found
            accepted, right = sum(one.accepted for one in counts), sum(one.right for one in counts)
            assert right / accepted >= labels.ACCURACY
