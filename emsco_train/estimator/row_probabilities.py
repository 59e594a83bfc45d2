"""What a cascade in memory says about whole tables, for the scikit-learn face."""

from __future__ import annotations

import numpy as np

from emsco_runtime.cascade import Cascade
from emsco_runtime.driving.columns import ColumnDecisions
from emsco_runtime.engine.scorer import Scorer
from emsco_runtime.support.arrays import Floats
from emsco_train.data.features import encode_table
from emsco_train.data.table import Table

__all__ = ["last_stage_probabilities"]


def last_stage_probabilities(cascade: Cascade, table: Table, decisions: ColumnDecisions) -> Floats:
    """Return each row's probabilities [rows, labels] at the last stage that scored it.

    Parameters
    ----------
    cascade
        What decided.
    table
        The rows.
    decisions
        The decisions about them.
    """
    manifest = cascade.manifest
    scorer = Scorer.from_bundle(cascade.bundle)
    feature = {feature.name: feature for feature in manifest.features}
    scores = np.empty((table.rows, len(manifest.labels)))
    for number, stage in enumerate(manifest.stages, start=1):
        rows = np.flatnonzero(decisions.stages == number)
        if len(rows):
            codes = encode_table([feature[name] for name in stage.inputs], table.take(rows), "given")
            scores[rows] = scorer.score_rows(number - 1, codes)
    return scores
