"""How many rows a search takes: all, or a sample of a large table, on which designs are found much sooner.

Which designs are good is clear from far fewer rows than their figures: what a search on a sample finds is fitted and measured on
all rows afterwards (`sweep`). docs/experiments.md compares the two.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.search.settings import Method

__all__ = ["SearchRows", "choose_search_rows"]

# A number of rows, "auto", or None for all of them.
SearchRows: TypeAlias = int | Literal["auto"] | None

_SAMPLE_ROWS = 50_000
# At least this many rows of the rarest label, and at least this many for each column of the models.
_LEAST_ROWS_OF_LABEL = 1_000
_ROWS_PER_COLUMN = 50
# A sample of a table that is not this many times as large saves too little.
_LEAST_RATIO = 4


def choose_search_rows(problem: Problem, asked: SearchRows, method: Method = "auto") -> int | None:
    """Return how many train and how many validation rows to search on, at most; None: all.

    "auto" takes 50,000 of each where the two have more than 200,000 rows together; more where a label is rare, or where
    models have many columns. An exact search that was asked for is left all rows: on a sample it would not be exact.

    Examples
    --------
    >>> X = np.arange(400.0).reshape(100, 4)
    >>> choose_search_rows(Problem.of(X, X[:, 0] > 200), "auto"), choose_search_rows(Problem.of(X, X[:, 0] > 200), 30)
    (None, 30)
    """
    if asked is None or isinstance(asked, int):
        return asked
    if asked != "auto":
        raise DesignError(f"max_search_rows is {asked!r}: expected a whole number of rows, 'auto', or None for all rows")
    if method == "exhaustive":
        return None
    pool = len(problem.train) + (0 if problem.is_cross_fitted else len(problem.validation))
    rarest = int(np.bincount(problem.train.target).min()) / len(problem.train)
    rows = max(_SAMPLE_ROWS, int(_LEAST_ROWS_OF_LABEL / rarest), _ROWS_PER_COLUMN * problem.encoder.width)
    return rows if pool > _LEAST_RATIO * rows else None
