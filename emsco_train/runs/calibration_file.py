"""calibration.json: for each design and stage, how far its confidence can be trusted."""

from __future__ import annotations

import json
from collections.abc import Sequence

from emsco_train.guarantee.calibration import Reliability, StageCalibration
from emsco_train.runs.figures import Measured

__all__ = ["calibration_text"]

# More digits than rows could ever justify; full ones would double the file.
_DIGITS = 6


def calibration_text(split: str, measured: Sequence[Measured]) -> str:
    """Return the text of the file.

    Parameters
    ----------
    split
        Name of the rows that everything was counted on.
    measured
        The designs.
    """
    document = {
        "format": "emsco-calibration",
        "version": 1,
        "split": split,
        "bins": ["lowest", "highest", "rows", "right", "confidence"],
        "designs": {one.design.id: [_stage(stage) for stage in one.calibration] for one in measured},
    }
    return json.dumps(document, allow_nan=False) + "\n"


def _stage(stage: StageCalibration) -> dict[str, object]:
    return {
        "stage": stage.stage,
        "reached": _reliability(stage.reached),
        "accepted": _reliability(stage.accepted),
        "warning": stage.warning,
    }


def _reliability(given: Reliability) -> dict[str, object]:
    bins = [
        [_rounded(part.lowest), _rounded(part.highest), part.rows, part.right, _rounded(part.confidence)] for part in given.bins
    ]
    return {
        "rows": given.rows,
        "right": given.right,
        "confidence": _rounded(given.confidence),
        "error": _rounded(given.error),
        "bins": bins,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DIGITS)
