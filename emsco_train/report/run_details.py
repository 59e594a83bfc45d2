"""How the run was made: data, rows, labels, prices, thresholds, search, time and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.curves.additive_fit import STRAIGHT
from emsco_train.data.directions import Directions
from emsco_train.report.escaping import escape_html
from emsco_train.report.number_format import format_accuracy, format_coverage, format_duration
from emsco_train.report.report_data import ReportData
from emsco_train.runs.curves_file import describe_stages
from emsco_train.runs.run_file import RunFile

__all__ = ["run_details", "summary_facts", "warnings_html"]

_STOP_REASONS = {
    "interrupted": "was interrupted: its front is what had been found by then",
    "time": "ran out of time: its front is what had been found by then",
}
_MAX_SHOWN_LABELS = 12


def summary_facts(data: ReportData) -> str:
    """Return the summary at the top: what was searched, on what, and how."""
    run = data.run
    files = ", ".join(
        f'<span title="{escape_html(file.path)}">{escape_html(PurePath(file.path).name)}</span>' for file in run.data.files
    )
    labels = ", ".join(escape_html(label) for label in run.labels[:_MAX_SHOWN_LABELS])
    more = f" and {len(run.labels) - _MAX_SHOWN_LABELS} more" if len(run.labels) > _MAX_SHOWN_LABELS else ""
    paid = f", {pluralize(len(data.costs.groups), 'group')} paid once" if data.costs.groups else ""
    thresholds = "; ".join(escape_html(data.format_threshold(entry.thresholds)) for entry in run.thresholds)
    weight = run.data.weight_column
    directions = Directions(run.increasing, run.decreasing)
    stages = describe_stages(run.stages, STRAIGHT if data.curves is None else data.curves.strength)
    created = run.created.replace("T", " ").replace("Z", " UTC")
    facts = [
        ("Data", f"{files}: {pluralize(sum(run.rows.values()), 'row')}, {pluralize(len(run.columns), 'feature')}"),
        *([("Left out", _describe_dropped(run))] if run.data.dropped else []),
        ("Rows by split", ", ".join(f"{split} {count:,}" for split, count in run.rows.items())),
        *([("Weights", f"column <code>{escape_html(weight)}</code>: figures are by weight")] if weight is not None else []),
        *([("Cross-fitted", _describe_folds(run))] if data.is_cross_fitted else []),
        ("Labels", f"{labels}{more} <small>in column <code>{escape_html(run.data.label)}</code></small>"),
        ("Costs", f"all features: {escape_html(data.cost_format.compact(data.front.full_cost))}{paid}"),
        ("Confidence needed", thresholds),
        *([("Stages", stages)] if stages is not None else []),
        *([("Directions", escape_html(directions.describe(run.labels[1])))] if directions else []),
        ("Search", _search_summary(data)),
        ("Made", f"{escape_html(created)} <small>emsco {escape_html(run.versions.get('emsco', '?'))}</small>"),
    ]
    return f'<dl class="facts">{"".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts)}</dl>'


def _describe_dropped(run: RunFile) -> str:
    """Return the columns that were left out by the table check, each with the reason as its title."""
    dropped = run.data.dropped
    shown = [f'<code title="{escape_html(one.why)}">{escape_html(one.column)}</code>' for one in dropped[:_MAX_SHOWN_LABELS]]
    more = f" and {len(dropped) - _MAX_SHOWN_LABELS} more" if len(dropped) > _MAX_SHOWN_LABELS else ""
    return f"{', '.join(shown)}{more} <small>see check.txt</small>"


def warnings_html(data: ReportData) -> str:
    """Return what a reader must know first: searches that were cut short, rows that are missing."""
    run = data.run
    shown = [
        f"The search at threshold {data.format_threshold(entry.thresholds)} {_STOP_REASONS[entry.stopped]}."
        for entry in run.thresholds
        if entry.stopped in _STOP_REASONS
    ]
    if not data.has_test_rows:
        shown.append("The run has no test rows: all figures are those that the search saw, and too optimistic.")
    return "".join(f'<p class="warning">{escape_html(text)}</p>' for text in shown)


def run_details(data: ReportData) -> str:
    """Return the last part of the page: searches, features, settings and versions."""
    run = data.run
    settings = {"seed": run.search.seed, "method asked for": run.search.method, **_flatten_settings(run.search.settings)}
    settings |= {"C": run.C, "class weight": run.class_weight, "search rows at most": run.search.max_search_rows}
    settings |= {"seconds at most": run.search.time_limit, "folds": run.data.folds}
    kept = {name: value for name, value in settings.items() if value not in (None, [], {})}
    return (
        f"<h3>Searches</h3>{_search_table(data)}"
        f"<details><summary>Features and prices</summary>{_feature_table(data)}</details>"
        f"<details><summary>Settings</summary>{_definition_list(kept.items())}</details>"
        f"<details><summary>Versions and fingerprint</summary>{_definition_list(_provenance(data))}</details>"
    )


def _describe_folds(run: RunFile) -> str:
    """Return how many folds scored how many rows, and which rows only fitted."""
    unscored = run.rows["train"] - run.measured.rows
    text = f"{pluralize(run.data.folds, 'fold')} of {pluralize(run.measured.rows, 'train row')}"
    if run.data.time_column is not None:
        return f"{text} <small>in order of time; the first {unscored:,} rows only fit, and are not counted</small>"
    return (
        f"{text} <small>{pluralize(unscored, 'row')} of rare labels only fit, and are not counted</small>" if unscored else text
    )


def _search_summary(data: ReportData) -> str:
    entries = data.run.thresholds
    named = ", ".join(dict.fromkeys(entry.method for entry in entries))
    looked, seconds = sum(entry.designs for entry in entries), sum(entry.elapsed_s for entry in entries)
    return f"{escape_html(named)}: {pluralize(looked, 'design')} looked at in {format_duration(seconds)}"


def _search_table(data: ReportData) -> str:
    entries = data.run.thresholds
    kept = Counter(design_data.threshold_index for design_data in data.designs)
    rows = [
        [
            *(data.format_threshold(entry.thresholds), entry.method, entry.stopped),
            *(f"{entry.designs:,}", f"{entry.fits:,}", format_duration(entry.elapsed_s), f"{kept[index]:,}"),
            *(text for counts in entry.everything for text in (format_accuracy(counts), format_coverage(counts))),
        ]
        for index, entry in enumerate(entries)
    ]
    baseline = [f"{name}, {counts.split}" for counts in entries[0].everything for name in ("accuracy", "coverage")]
    header = ["threshold", "method", "ended", "designs looked at", "fits", "time", "designs kept", *baseline]
    shown = "The last columns are the baseline: all features at once, in one stage."
    return f'{_html_table(header, rows, left=3)}<p class="hint">{shown}</p>'


def _feature_table(data: ReportData) -> str:
    costs = data.costs
    rows = []
    for column in data.run.columns:
        kind = f"{column.kind} ({column.categories})" if column.kind == "categorical" else column.kind
        rows.append(
            [column.name, kind, ", ".join(costs.groups_of(column.name)), f"{costs.features[column.name]:.6g}", f"{column.gaps:,}"]
        )
    shared = "".join(
        f"<li><code>{escape_html(group.name)}</code>: {escape_html(f'{group.cost:.6g} {costs.unit}')}</li>"
        for group in costs.groups
    )
    paid = f'<p class="hint">Groups, paid once per item, whichever of their features comes first:</p><ul>{shared}</ul>'
    return _html_table(["feature", "kind", "group", f"own cost, {costs.unit}", "missing"], rows, left=3) + (
        paid if shared else ""
    )


def _provenance(data: ReportData) -> list[tuple[str, str]]:
    pairs = list(data.run.versions.items())
    for file in data.run.data.files:
        pairs += [(f"file of {file.split} rows" if file.split else "file", file.path), ("sha256", file.sha256)]
    return [*pairs, ("fingerprint of all values", data.run.data.fingerprint)]


def _flatten_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings without nesting, under readable names."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= _flatten_settings(value) if isinstance(value, dict) else {name.replace("_", " "): value}
    return flat


def _definition_list(pairs: Iterable[tuple[str, object]]) -> str:
    shown = "".join(f"<dt>{escape_html(name)}</dt><dd>{escape_html(_format_value(value))}</dd>" for name, value in pairs)
    return f'<dl class="pairs">{shown}</dl>'


def _format_value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return a plain table; the first columns are text, the others numbers."""
    head = "".join(f'<th scope="col"{_alignment(place, left)}>{escape_html(name)}</th>' for place, name in enumerate(header))
    body = "".join(
        f"<tr>{''.join(f'<td{_alignment(place, left)}>{escape_html(text)}</td>' for place, text in enumerate(row))}</tr>"
        for row in rows
    )
    return f'<div class="wide"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _alignment(place: int, left: int) -> str:
    return "" if place < left else ' class="number"'
