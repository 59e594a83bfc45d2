"""Compile what training compiles, and keep it on disk, before several processes run tests.

numba keeps its files without a lock: processes that all begin by compiling do the same work each, and one might read what another
has half replaced. Each compiled function has one signature, so that two small searches reach them all.
"""

from __future__ import annotations

import warnings

import numpy as np

from emsco_train import EmscoClassifier


def main() -> None:
    """Search a small table with both searches."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(120, 4))
    labels = (table[:, 0] + table[:, 1] > 0).astype(int)
    # Warnings of the search do not matter here.
    warnings.simplefilter("ignore")
    for search in ("evolve", "exhaustive"):
        EmscoClassifier(search=search, generations=2, population=10, max_stages=2, random_state=0).fit(table, labels)


if __name__ == "__main__":
    main()
