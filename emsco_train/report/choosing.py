"""Choosing: floors and a cap, the command to type, and the data that the page's script works on."""

from __future__ import annotations

import base64
import gzip
import json
import math
import shlex
from dataclasses import dataclass

from emsco_train.report.content import Content, DesignContent
from emsco_train.report.design_view import design_view
from emsco_train.report.markup import embedded_json, escaped

__all__ = ["controls", "embedded_data", "embedded_views", "export_command"]


@dataclass(frozen=True, slots=True)
class _Control:
    """A floor or a cap: its name in the script, its words, its unit and the ends of its slider."""

    name: str
    words: str
    unit: str
    low: float
    high: float
    step: float


def controls(content: Content) -> str:
    """Return the fields; without the script there is nothing to choose with, and they stay hidden."""
    designs, unit = [one.design for one in content.designs], content.front.unit
    top = max(design.cost for design in designs) or content.front.full_cost
    step = 10.0 ** (math.floor(math.log10(top)) - 3)
    cap = math.ceil(top / step) * step
    fields = [
        _Control("accuracy", "Accuracy at least", "%", _floor(min(d.accuracy for d in designs)), 100.0, 0.1),
        _Control("coverage", "Coverage at least", "%", _floor(min(d.coverage for d in designs)), 100.0, 0.1),
        _Control("cost", "Mean cost at most", unit, 0.0, cap, step),
    ]
    return (
        f'<form id="wishes" class="wishes" autocomplete="off">{"".join(map(_field, fields))}'
        '<p class="buttons"><button type="reset">No wishes</button></p></form>'
    )


def export_command(content: Content, one: DesignContent) -> str:
    """Return what to type for the bundle of a design."""
    return f"emsco-export {_run(content)} --out BUNDLE --design {one.design.id}"


def embedded_data(content: Content) -> str:
    """Return the figures of all designs as JSON columns, in the order of the front."""
    designs = [one.design for one in content.designs]
    columns: dict[str, list[object]] = {
        "id": [design.id for design in designs],
        "threshold": [one.level for one in content.designs],
        "validation_accuracy": [design.accuracy for design in designs],
        "validation_coverage": [design.coverage for design in designs],
        "validation_cost": [design.cost for design in designs],
        "fitness": [design.fitness for design in designs],
        "ties": [design.ties for design in designs],
        "warnings": [len(one.warnings) for one in content.designs],
        "stages": [len(design.stages) for design in designs],
        "excluded": [len(design.excluded) for design in designs],
    }
    tested = [one.test for one in content.designs if one.test is not None]
    if tested:
        columns["test_accuracy"] = [figures.right / figures.accepted if figures.accepted else 0.0 for figures in tested]
        columns["test_coverage"] = [figures.accepted / figures.rows for figures in tested]
        columns["test_cost"] = [figures.cost for figures in tested]
    document = {"run": _run(content), "unit": content.front.unit, "full_cost": content.front.full_cost, "designs": columns}
    return embedded_json(document)


def embedded_views(content: Content) -> str:
    """Return the views of all designs as JSON, compressed, since they are much alike, as base64.

    A list for each part of the views, with that part of every design: like beside like compresses best.
    """
    views = json.dumps(list(zip(*(design_view(content, one) for one in content.designs), strict=True)), ensure_ascii=False)
    # Without a time in it, so that the same run gives the same page.
    return base64.b64encode(gzip.compress(views.encode(), compresslevel=9, mtime=0)).decode("ascii")


def _run(content: Content) -> str:
    return shlex.quote(str(content.folder.path))


def _floor(share: float) -> float:
    return float(int(100 * share))


def _field(control: _Control) -> str:
    start = control.high if control.name == "cost" else control.low
    bounds = f'min="{control.low:g}" max="{control.high:g}" step="{control.step:g}"'
    name = control.name
    return (
        f'<div class="wish"><label for="wish-{name}">{control.words}</label>'
        f'<span><input id="wish-{name}" name="{name}" type="text" inputmode="decimal" placeholder="any"> '
        f"{escaped(control.unit)}</span>"
        f'<input type="range" data-for="{name}" {bounds} value="{start:g}" aria-label="{control.words}"></div>'
    )
