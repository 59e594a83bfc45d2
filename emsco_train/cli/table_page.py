"""The page about the table: what `emsco-train` prints first, and keeps in the run folder."""

from __future__ import annotations

import warnings

from emsco_train.cli.option_names import translate_quoted
from emsco_train.errors import TableWarning
from emsco_train.runs.preparation import PreparedRun, prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.table_findings import TABLE_WARNINGS, format_findings
from emsco_train.support.phases import OnPhase

__all__ = ["prepare_with_page"]


def prepare_with_page(request: TrainRequest, on_phase: OnPhase) -> tuple[PreparedRun, list[str]]:
    """Prepare a run, and return it with the lines of its page, in the words of the command."""
    with warnings.catch_warnings():
        for category in (*TABLE_WARNINGS, TableWarning):
            # The page says the same.
            warnings.simplefilter("ignore", category)
        prepared = prepare(request, on_phase)
    page = format_findings(prepared.problem, prepared.findings, translate_quoted)
    return prepared, page
