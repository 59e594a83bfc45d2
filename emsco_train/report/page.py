"""The page: all parts together, with its own style and script and no way out to a network."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from emsco_runtime.summary import counted
from emsco_train.report.choosing import controls, embedded_data, embedded_views, export_command
from emsco_train.report.content import Content
from emsco_train.report.design_table import design_table
from emsco_train.report.design_view import design_view
from emsco_train.report.markup import escaped
from emsco_train.report.reliability import reliability_frame
from emsco_train.report.run_facts import head_facts, notices, run_details
from emsco_train.report.scatter import legend, scatter
from emsco_train.runs.folder import PAGE_MARK

__all__ = ["report_page"]

_VALIDATION = (
    "<strong>Validation</strong> rows are what the search saw: the best of many designs looks a little better there than it is. "
)
_CERTIFY = (
    "<strong>Certify</strong> rows are not on this page at all: emsco-export looks at them once, for the certificate of the "
    "design that you choose."
)
_NO_CERTIFY = "There are no <strong>certify</strong> rows: bundles of this run carry no certificate."
_TEST = "<strong>Test</strong> rows are fresh: believe these, but choose by validation, or they are fresh no longer. "


def report_page(content: Content) -> str:
    """Return the text of the page.

    Parameters
    ----------
    content
        The run.
    """
    style, script = _asset("page.css"), _asset("page.js")
    name = escaped(content.folder.path.resolve().name)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{PAGE_MARK}
<title>{name}: emsco report</title>
<style>{style}</style>
</head>
<body>
{_header(content, name)}
{reliability_frame(len(content.run.labels))}
<main>
{_choice(content)}
<section id="selected" aria-labelledby="selected-title">
<h2 id="selected-title">The selected design</h2>
<div id="view">{design_view(content, content.designs[0]).text}</div>
</section>
<section aria-labelledby="all-title">
<h2 id="all-title">All designs <span class="count">{len(content.designs):,}</span></h2>
{design_table(content)}
<p class="hint">Stages read from left to right, | between stages, + between features. Ties: how many designs of the search have
the same figures. Misleading: stages whose confidence claims too much. Fitness compares designs of one threshold.</p>
</section>
<section aria-labelledby="run-title">
<h2 id="run-title">The run</h2>
{run_details(content)}
</section>
</main>
<script type="application/json" id="data">{embedded_data(content)}</script>
<script type="text/plain" id="views">{embedded_views(content)}</script>
<script>{script}</script>
</body>
</html>
"""


def _header(content: Content, name: str) -> str:
    designs = counted(len(content.designs), "design")
    return (
        f'<header><p class="kicker">emsco report</p><h1>{name}</h1>'
        f'<p class="lead">{designs}. Nothing found at the same threshold is better in coverage, accuracy and cost alike.</p>'
        f"{notices(content)}{head_facts(content)}</header>"
    )


def _choice(content: Content) -> str:
    command = escaped(export_command(content, content.designs[0]))
    certify = _CERTIFY if content.run.rows.get("certify") else _NO_CERTIFY
    meaning = _VALIDATION + (_TEST if content.tested else "") + certify
    return (
        '<section aria-labelledby="choose-title"><h2 id="choose-title">Choose</h2><div class="choose">'
        f'<figure class="chart"><div class="wide">{scatter(content)}</div>{legend(content)}</figure>'
        f'<aside>{controls(content)}<p id="verdict" class="verdict" role="status">The fittest design; no wish was made.</p>'
        '<noscript><p class="hint">Choosing by wishes needs JavaScript; pictures and tables do not.</p></noscript></aside></div>'
        '<div class="command"><p>To make the bundle of the selected design, type</p>'
        f'<div><pre><code id="command">{command}</code></pre><button type="button" id="copy">Copy</button></div>'
        f'<p id="other" hidden></p></div><p class="meaning">{meaning}</p></section>'
    )


def _policy(style: str, script: str) -> str:
    """Return a policy under which nothing but our own style and script does anything."""
    return (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


def _asset(name: str) -> str:
    return files("emsco_train.report").joinpath(name).read_text(encoding="utf-8")
