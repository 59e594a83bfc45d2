"""The page: all parts together, with its own style and script and no access to a network."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from emsco_runtime.bundle.summary import pluralize
from emsco_train.report.curve_plots import curves_section
from emsco_train.report.design_table import design_table
from emsco_train.report.design_view import design_view
from emsco_train.report.escaping import escape_html
from emsco_train.report.reliability_diagram import reliability_frame
from emsco_train.report.report_data import ReportData
from emsco_train.report.run_details import run_details, summary_facts, warnings_html
from emsco_train.report.scatter_plot import draw_legend, draw_scatter
from emsco_train.report.selection_form import compressed_views, design_data_json, export_command, selection_form
from emsco_train.runs.folder import REPORT_MARK
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["render_page"]

_VALIDATION = (
    "<strong>Validation</strong> rows are what the search saw: the best of many designs looks a little better there than it is. "
)
_CROSS_FITTED = (
    "<strong>Cross-fitted</strong> figures are what the search saw: each train row is scored by models that have not seen it. "
    "The best of many designs looks a little better there than it is. "
)
_CERTIFY = (
    "<strong>Certify</strong> rows are not on this page at all: emsco-export uses them once, for the certificate of the "
    "design that you choose."
)
_NO_CERTIFY = "There are no <strong>certify</strong> rows: bundles of this run carry no certificate."
_TEST = "<strong>Test</strong> rows are fresh: trust these, but choose by the others, or they are no longer fresh. "


def render_page(data: ReportData, on_phase: OnPhase = ignore_phase) -> str:
    """Return the text of the page; `on_phase` is called with each `Phase` of it."""
    on_phase(Phase("drawing the page"))
    style, script = _read_asset("page.css"), _read_asset("page.js")
    name = escape_html(data.folder.path.resolve().name)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_security_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{REPORT_MARK}
<title>{name}: emsco report</title>
<style>{style}</style>
</head>
<body>
{_header(data, name)}
{reliability_frame(len(data.run.labels))}
<main>
{_selection_section(data)}
<section id="selected" aria-labelledby="selected-title">
<h2 id="selected-title">The selected design</h2>
<div id="view">{"".join(design_view(data, data.knee))}</div>
</section>
<section aria-labelledby="all-title">
<h2 id="all-title">All designs <span class="count">{len(data.designs):,}</span></h2>
{design_table(data)}
<p class="hint">Stages read from left to right, | between stages, + between features. Ties: how many designs of the search have
the same figures. Lowest recall: of the held-out rows of a label, the smallest share that is accepted as it. Misleading: stages
whose confidence claims too much. Fitness compares designs of one threshold. The knee is the nearest to accepting all, all right,
at no cost, among the designs that accept at least half as much as any.</p>
</section>
{curves_section(data)}
<section aria-labelledby="run-title">
<h2 id="run-title">The run</h2>
{run_details(data)}
</section>
</main>
<script type="application/json" id="data">{design_data_json(data)}</script>
<script type="text/plain" id="views">{compressed_views(data, on_phase)}</script>
<script>{script}</script>
</body>
</html>
"""


def _header(data: ReportData, name: str) -> str:
    designs = pluralize(len(data.designs), "design")
    return (
        f'<header><p class="kicker">emsco report</p><h1>{name}</h1>'
        f'<p class="lead">{designs}. Nothing found at the same threshold is better in all of coverage, accuracy and cost.</p>'
        f"{warnings_html(data)}{summary_facts(data)}</header>"
    )


def _selection_section(data: ReportData) -> str:
    command = escape_html(export_command(data, data.knee))
    no_script = "Choosing by requirements needs JavaScript; pictures and tables do not."
    certify = _CERTIFY if data.run.rows.get("certify") else _NO_CERTIFY
    meaning = (_CROSS_FITTED if data.is_cross_fitted else _VALIDATION) + (_TEST if data.has_test_rows else "") + certify
    return (
        '<section aria-labelledby="choose-title"><h2 id="choose-title">Choose</h2><div class="choose">'
        f'<figure class="chart"><div class="wide">{draw_scatter(data)}</div>{draw_legend(data)}</figure>'
        f"<aside>{selection_form(data)}"
        '<p id="verdict" class="verdict" role="status">The knee of the front; no requirement was set.</p>'
        f'<noscript><p class="hint">{no_script}</p></noscript></aside></div>'
        '<div class="command"><p>To make the bundle of the selected design, type</p>'
        f'<div><pre><code id="command">{command}</code></pre><button type="button" id="copy">Copy</button></div>'
        f'<p id="other" hidden></p></div><p class="meaning">{meaning}</p></section>'
    )


def _security_policy(style: str, script: str) -> str:
    """Return a policy that allows our own style and script, and nothing else."""
    styles, scripts = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") for text in (style, script))
    own = f"style-src 'sha256-{styles}'; script-src 'sha256-{scripts}'"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _read_asset(name: str) -> str:
    return files("emsco_train.report").joinpath(name).read_text(encoding="utf-8")
