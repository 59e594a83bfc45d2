"""The report: one self-contained HTML page of a run, to choose a design by eye."""

from emsco_train.report.report_file import write_report

__all__ = ["write_report"]
