"""How many rows a search takes by default: a sample of a large table, larger for rare labels and wide models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emsco_train import Problem, Settings
from emsco_train.search import search_rows
from emsco_train.search.search_rows import choose_search_rows
from emsco_train.search.sweep import search_thresholds


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables of 400 rows be large ones."""
    monkeypatch.setattr(search_rows, "_SAMPLE_ROWS", 50)
    monkeypatch.setattr(search_rows, "_LEAST_ROWS_OF_LABEL", 10)
    monkeypatch.setattr(search_rows, "_ROWS_PER_COLUMN", 2)


def make_problem(rows: int = 600, share: float = 0.5, columns: int = 4, **options: Any) -> Problem:
    """Return a problem in which so large a share of the rows has the second label."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns))
    score = x[:, 0] + x[:, 1] + rng.normal(size=rows)
    return Problem.of(x, score > np.quantile(score, 1 - share), threshold=0.8, **options)


def test_a_large_table_is_searched_on_a_sample() -> None:
    """Of 240 + 120 rows, 50 each; of 200 rows in all, and for an exact search, none is left out."""
    problem = make_problem()
    assert choose_search_rows(problem, "auto") == choose_search_rows(problem, "auto", "evolve") == 50
    assert choose_search_rows(problem, "auto", "exhaustive") is None
    assert choose_search_rows(make_problem(rows=333), "auto") is None
    assert (choose_search_rows(problem, None), choose_search_rows(problem, 30)) == (None, 30)


def test_cross_fitted_rows_count_once() -> None:
    """The rows that fit and those that measure designs are the same ones there."""
    assert choose_search_rows(make_problem(folds=3), "auto") == 50
    assert choose_search_rows(make_problem(rows=333, folds=3), "auto") is None


def test_rare_labels_and_wide_models_need_more_rows() -> None:
    """A sample has enough rows of the rarest label and for each column; where that is most of the table, all rows are taken."""
    assert choose_search_rows(make_problem(share=0.125), "auto") == 80
    assert choose_search_rows(make_problem(share=0.05), "auto") is None
    assert choose_search_rows(make_problem(columns=30), "auto") == 60


def test_what_a_sample_finds_has_the_figures_of_all_rows() -> None:
    """The designs of a search on the default sample are measured on every validation row."""
    problem = make_problem()
    rows = choose_search_rows(problem, "auto")
    settings = Settings(population=20, generations=3)
    (outcome,) = search_thresholds(problem, None, settings, method="evolve", seed=0, jobs=1, max_rows=rows)
    assert len(outcome.front)
    for design in outcome.front:
        accepted = design.coverage * len(problem.validation)
        assert accepted == pytest.approx(round(accepted))
        assert sum(counts.rows for counts in design.labels) == len(problem.validation)
