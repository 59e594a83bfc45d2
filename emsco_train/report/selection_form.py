"""Choosing a design: the form for requirements, the command to type, and the data that the page's script works on."""

from __future__ import annotations

import base64
import gzip
import json
import math
import shlex

from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.report.design_view import design_view
from emsco_train.report.escaping import escape_html, to_script_json
from emsco_train.report.report_data import DesignData, ReportData
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["compressed_views", "design_data_json", "export_command", "selection_form"]


def selection_form(data: ReportData) -> str:
    """Return the form; it stays hidden without the script, which it needs."""
    bounds, unit = [design_data.design.bounds(DEFAULT_SURE) for design_data in data.designs], data.front.unit
    top = max(one.cost for one in bounds) or data.front.full_cost
    step = 10.0 ** (math.floor(math.log10(top)) - 3)
    accuracy, coverage = min(one.accuracy for one in bounds), min(one.coverage for one in bounds)
    controls = (
        _control_html("accuracy", "Accuracy at least", "%", int(100 * accuracy), 100.0, 0.1),
        _control_html("coverage", "Coverage at least", "%", int(100 * coverage), 100.0, 0.1),
        _control_html("cost", "Mean cost at most", unit, 0.0, math.ceil(top / step) * step, step),
    )
    hint = f"By bounds on the {data.run.measured.split} figures, as emsco-export chooses: --sure {DEFAULT_SURE:g}"
    return (
        f'<form id="requirements" class="requirements" autocomplete="off">{"".join(controls)}'
        f'<p class="hint">{hint}</p>'
        '<p class="buttons"><button type="reset">No requirements</button></p></form>'
    )


def export_command(data: ReportData, design_data: DesignData) -> str:
    """Return the command that makes the bundle of a design."""
    return f"emsco-export {_quoted_run_path(data)} --out BUNDLE --design {design_data.design.id}"


def design_data_json(data: ReportData) -> str:
    """Return the figures of all designs as JSON columns, in the order of the front."""
    designs = [design_data.design for design_data in data.designs]
    bounds = [design.bounds(DEFAULT_SURE) for design in designs]
    columns: dict[str, list[object]] = {
        **{name: [getattr(design, name) for design in designs] for name in ("id", "fitness", "ties")},
        **{f"validation_{name}": [getattr(design, name) for design in designs] for name in ("accuracy", "coverage", "cost")},
        # What requirements are compared with.
        **{f"bound_{name}": [getattr(one, name) for one in bounds] for name in ("accuracy", "coverage", "cost")},
        **{name: [len(getattr(design, name)) for design in designs] for name in ("stages", "excluded")},
        "threshold": [design_data.threshold_index for design_data in data.designs],
        "warnings": [len(design_data.warnings) for design_data in data.designs],
        "recall": [design_data.lowest_recall for design_data in data.designs],
    }
    tested = [design_data.test for design_data in data.designs if design_data.test is not None]
    if tested:
        columns["test_accuracy"] = [counts.right / counts.accepted if counts.accepted else 0.0 for counts in tested]
        columns["test_coverage"] = [counts.accepted / counts.total for counts in tested]
        columns["test_cost"] = [counts.cost for counts in tested]
    document = {
        "run": _quoted_run_path(data),
        "unit": data.front.unit,
        "full_cost": data.front.full_cost,
        "knee": data.knee_index,
        "designs": columns,
    }
    return to_script_json(document)


def compressed_views(data: ReportData, on_phase: OnPhase = ignore_phase) -> str:
    """Return the views of all designs as compressed JSON, in base64.

    A list for each part of the views, with that part of every design: similar parts side by side compress best.
    `on_phase` is called with each `Phase` of it.
    """
    views_of_designs = []
    for done, design_data in enumerate(data.designs):
        on_phase(Phase("drawing the designs", done, len(data.designs)))
        views_of_designs.append(design_view(data, design_data))
    on_phase(Phase("compressing the page"))
    views = json.dumps(list(zip(*views_of_designs, strict=True)), ensure_ascii=False)
    # Without a time in it, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(views.encode(), compresslevel=9, mtime=0)).decode("ascii")


def _quoted_run_path(data: ReportData) -> str:
    return shlex.quote(str(data.folder.path))


def _control_html(name: str, label: str, unit: str, low: float, high: float, step: float) -> str:
    """Return the field and the slider of a floor or a cap, by its name in the script."""
    start = high if name == "cost" else low
    return (
        f'<div class="requirement"><label for="requirement-{name}">{label}</label>'
        f'<span><input id="requirement-{name}" name="{name}" type="text" inputmode="decimal" placeholder="any"> '
        f"{escape_html(unit)}</span>"
        f'<input type="range" data-for="{name}" min="{low:g}" max="{high:g}" step="{step:g}" value="{start:g}" '
        f'aria-label="{label}"></div>'
    )
