"""Choosing: floors and a cap, the command to type, and the data that the page's script works on."""

from __future__ import annotations

import base64
import gzip
import json
import math
import shlex
from dataclasses import dataclass

from emsco_train.report.design_view import design_view
from emsco_train.report.escaping import escape_html, to_script_json
from emsco_train.report.report_data import DesignData, ReportData

__all__ = ["compressed_views", "design_data_json", "export_command", "selection_form"]


@dataclass(frozen=True, slots=True)
class _ConstraintControl:
    """A floor or a cap: its name in the script, its words, its unit and the ends of its slider."""

    name: str
    label: str
    unit: str
    low: float
    high: float
    step: float


def selection_form(data: ReportData) -> str:
    """Return the fields; without the script there is nothing to choose with, and they stay hidden."""
    designs, unit = [design_data.design for design_data in data.designs], data.front.unit
    top = max(design.cost for design in designs) or data.front.full_cost
    step = 10.0 ** (math.floor(math.log10(top)) - 3)
    cap = math.ceil(top / step) * step
    fields = [
        _ConstraintControl("accuracy", "Accuracy at least", "%", _whole_percent(min(d.accuracy for d in designs)), 100.0, 0.1),
        _ConstraintControl("coverage", "Coverage at least", "%", _whole_percent(min(d.coverage for d in designs)), 100.0, 0.1),
        _ConstraintControl("cost", "Mean cost at most", unit, 0.0, cap, step),
    ]
    return (
        f'<form id="wishes" class="wishes" autocomplete="off">{"".join(map(_control_html, fields))}'
        '<p class="buttons"><button type="reset">No wishes</button></p></form>'
    )


def export_command(data: ReportData, design_data: DesignData) -> str:
    """Return what to type for the bundle of a design."""
    return f"emsco-export {_quoted_run_path(data)} --out BUNDLE --design {design_data.design.id}"


def design_data_json(data: ReportData) -> str:
    """Return the figures of all designs as JSON columns, in the order of the front."""
    designs = [design_data.design for design_data in data.designs]
    columns: dict[str, list[object]] = {
        "id": [design.id for design in designs],
        "threshold": [design_data.threshold_index for design_data in data.designs],
        "validation_accuracy": [design.accuracy for design in designs],
        "validation_coverage": [design.coverage for design in designs],
        "validation_cost": [design.cost for design in designs],
        "fitness": [design.fitness for design in designs],
        "ties": [design.ties for design in designs],
        "warnings": [len(design_data.warnings) for design_data in data.designs],
        "stages": [len(design.stages) for design in designs],
        "excluded": [len(design.excluded) for design in designs],
    }
    tested = [design_data.test for design_data in data.designs if design_data.test is not None]
    if tested:
        columns["test_accuracy"] = [figures.right / figures.accepted if figures.accepted else 0.0 for figures in tested]
        columns["test_coverage"] = [figures.accepted / figures.rows for figures in tested]
        columns["test_cost"] = [figures.cost for figures in tested]
    document = {"run": _quoted_run_path(data), "unit": data.front.unit, "full_cost": data.front.full_cost, "designs": columns}
    return to_script_json(document)


def compressed_views(data: ReportData) -> str:
    """Return the views of all designs as JSON, compressed, since they are much alike, as base64.

    A list for each part of the views, with that part of every design: like beside like compresses best.
    """
    views = json.dumps(
        list(zip(*(design_view(data, design_data) for design_data in data.designs), strict=True)), ensure_ascii=False
    )
    # Without a time in it, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(views.encode(), compresslevel=9, mtime=0)).decode("ascii")


def _quoted_run_path(data: ReportData) -> str:
    return shlex.quote(str(data.folder.path))


def _whole_percent(share: float) -> float:
    return float(int(100 * share))


def _control_html(control: _ConstraintControl) -> str:
    start = control.high if control.name == "cost" else control.low
    bounds = f'min="{control.low:g}" max="{control.high:g}" step="{control.step:g}"'
    name = control.name
    return (
        f'<div class="wish"><label for="wish-{name}">{control.label}</label>'
        f'<span><input id="wish-{name}" name="{name}" type="text" inputmode="decimal" placeholder="any"> '
        f"{escape_html(control.unit)}</span>"
        f'<input type="range" data-for="{name}" {bounds} value="{start:g}" aria-label="{control.label}"></div>'
    )
