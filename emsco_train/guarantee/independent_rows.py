"""Which certify rows are independent evidence: all of them, or one of each group where rows come in groups."""

from __future__ import annotations

import numpy as np

from emsco_train.data.labelled_rows import Split
from emsco_train.guarantee.betting import row_order

__all__ = ["draw_independent_rows"]


def draw_independent_rows(rows: Split) -> Split:
    """Return the rows that a test may count: where they come in groups, one of each, drawn without looking at any of them.

    Ten rows of one patient are not ten pieces of evidence: a test that counted all of them would find too much.
    """
    if rows.groups is None:
        return rows
    order = row_order(len(rows))
    _, first = np.unique(rows.groups[order], return_index=True)
    return rows.take(np.sort(order[first]))
