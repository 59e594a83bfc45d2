"""The feature sets that a search has met: each once, the newest last, kept in checkpoints, recombined at the end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_train import Problem, Settings
from emsco_train.designs.chromosome import compress
from emsco_train.search.genetic import visited_sets
from emsco_train.search.genetic.visited_sets import VisitedSets
from emsco_train.search.scoring.evaluator import cumulative_sets
from emsco_train.search.searches import run_evolve

GENES = 10


@given(st.lists(st.lists(st.lists(st.integers(-1, 3), min_size=GENES, max_size=GENES), min_size=1, max_size=5), max_size=4))
def test_every_set_is_there_once_in_the_order_of_its_first_design(batches: list[list[list[int]]]) -> None:
    """As a list that is searched for each set; text and back changes nothing."""
    met, wanted = VisitedSets.empty(GENES), []
    for batch in batches:
        population = compress(np.array([[0, *row[1:]] for row in batch], dtype=np.int8))
        met = met.union(population)
        sets, valid = cumulative_sets(population)
        for one in sets[valid].tolist():
            if one not in wanted:
                wanted.append(one)
    assert met.to_sets().tolist() == wanted
    assert VisitedSets.from_text(GENES, met.to_text()).to_sets().tolist() == wanted


def test_the_oldest_sets_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, however long a search takes."""
    monkeypatch.setattr(visited_sets, "_MAX_SETS", 2)
    met = VisitedSets.empty(3)
    for genes in ([0, -1, -1], [-1, 0, -1], [-1, -1, 0]):
        met = met.union(np.array([genes], dtype=np.int8))
    assert met.to_sets().astype(int).tolist() == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("text", ["%", "AAAA"])
def test_other_text_is_refused(text: str) -> None:
    """What is no base64, or no whole number of sets."""
    with pytest.raises(ValueError, match="expected sets of"):
        VisitedSets.from_text(GENES, text)


def test_the_front_has_designs_of_sets_that_earlier_generations_met() -> None:
    """With all sets recombined the volume is no smaller than with those of the last generation, and usually larger."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 9))
    y = x @ np.linspace(1.5, 0.2, 9) + rng.normal(size=400) > 0
    problem = Problem.of(x, y, costs=range(1, 10), threshold=0.85, stages="straight")
    settings = Settings(population=20, generations=15, seeded=False, max_stages=4)
    whole = run_evolve(problem, settings, seed=0, jobs=1).front.hypervolume()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("emsco_train.search.searches._MAX_RECOMBINED_BITS", 0)
        assert run_evolve(problem, settings, seed=0, jobs=1).front.hypervolume() < whole
