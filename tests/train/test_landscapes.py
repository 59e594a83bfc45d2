"""The paper's landscapes on real data: what share of the exact front the search finds; and the script that measures it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from emsco_train.designs.design import Design
from emsco_train.designs.front import Front
from emsco_train.search.settings import Settings
from emsco_train.search.workbench import Workbench

# Much of it repeats what other tests have counted.
pytestmark = pytest.mark.uncounted

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not (DATA / "pima.csv").exists(), reason="the shared data are not here")


@pytest.fixture
def landscapes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import the script as it is when it runs."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import landscapes

    yield landscapes
    for name in ("landscapes", "_shared_data"):
        sys.modules.pop(name, None)


def front(*figures: tuple[float, float, float]) -> Front:
    """Return a front of designs with these figures: coverage, accuracy, cost."""
    genes = [(0, 0), (0, 1), (1, 0)]
    designs = [
        Design.of(chromosome, ["a", "b"], (0.9, 0.9), coverage=coverage, accuracy=accuracy, cost=cost)
        for chromosome, (coverage, accuracy, cost) in zip(genes, figures, strict=False)
    ]
    return Front(designs, full_cost=3.0)


def test_share_is_counted_in_vectors(landscapes: ModuleType) -> None:
    """Two designs on one vector count once, whatever their genes; a vector that is not of the exact front counts nothing."""
    exact = front((0.5, 0.8, 1.0), (1.0, 0.7, 2.0))
    assert landscapes.share(exact, exact, 10) == 1.0
    assert landscapes.share(front((1.0, 0.7, 2.0), (1.0, 0.7, 2.0)), exact, 10) == 0.5
    assert landscapes.share(front((1.0, 0.7, 2.5), (0.9, 7 / 9, 2.0)), exact, 10) == 0.0


@needs_data
def test_costs_are_those_written_down(landscapes: ModuleType) -> None:
    """The paper's two examples, its scales, and for credit: the more important a feature, the more expensive."""
    pima, heart, credit = (landscapes.LANDSCAPES[name].costs() for name in ("pima", "heart", "credit"))
    assert (pima["age"], pima["plasma_glucose"]) == (100, 300)
    assert set(pima.values()) == {100, 200, 300}
    assert sorted(heart.values()) == [10] * 6 + [100] * 6
    assert sorted(credit.values()) == [10] * 5 + [100] * 5 + [1000] * 4
    # A8 alone predicts most of the approvals.
    assert credit["A8"] == 1000


@needs_data
@pytest.mark.parametrize(
    ("data", "stages"),
    [("pima", 2), *(pytest.param(*case, marks=pytest.mark.proof) for case in (("pima", 3), ("heart", 2)))],
)
def test_polish_finds_the_exact_front(landscapes: ModuleType, data: str, stages: int) -> None:
    """Short form: one seed; polish finds all that the exact search does, and never less than the plain algorithm."""
    result = measured(landscapes, data, stages, seeds=1)
    assert result.vectors > 5
    assert result.polish == (1.0,)
    assert 0.7 <= result.plain[0] <= 1.0
    assert result.stopped == ("generations",)


@needs_data
@pytest.mark.proof
@pytest.mark.parametrize("data", ["pima", "heart", "credit"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_ten_seeds(landscapes: ModuleType, data: str, stages: int) -> None:
    """All nine landscapes with ten seeds: plain finds what is wanted at k = 2 and 3, polish nearly everything, at every k."""
    result = measured(landscapes, data, stages, seeds=10)
    assert sum(result.plain) / 10 >= landscapes.WANTED.get(stages, 0)
    assert sum(result.polish) / 10 >= (0.95 if (data, stages) == ("credit", 4) else 0.99)
    assert all(polished >= plain for plain, polished in zip(result.plain, result.polish, strict=True))


def measured(landscapes: ModuleType, data: str, stages: int, seeds: int) -> object:
    """Return the result of the script for one landscape."""
    problem = landscapes.LANDSCAPES[data].problem(0)
    bench = Workbench(problem, jobs=1)
    return landscapes.measure(problem, bench, data, 0, Settings(max_stages=stages, keep_all=True), seeds, polish=True)
