"""How the run was made: data, rows, labels, prices, thresholds, search, time and versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from emsco_runtime.bundle.summary import pluralize
from emsco_train.report.escaping import escape_html
from emsco_train.report.number_format import CostFormat, format_accuracy, format_coverage, format_duration, format_threshold
from emsco_train.report.report_data import ReportData
from emsco_train.runs.run_file import ThresholdEntry

__all__ = ["run_details", "summary_facts", "warnings_html"]

_STOP_REASONS = {
    "interrupted": "was interrupted: its front is what had been found by then",
    "time": "ran out of time: its front is what had been found by then",
}
_MAX_SHOWN_LABELS = 12


def summary_facts(data: ReportData) -> str:
    """Return the head: what was searched, on what, and how."""
    run, costs_format = data.run, CostFormat(data.front.full_cost, data.front.unit)
    files = ", ".join(
        f'<span title="{escape_html(file.path)}">{escape_html(PurePath(file.path).name)}</span>' for file in run.data.files
    )
    rows = ", ".join(f"{split} {count:,}" for split, count in run.rows.items())
    labels = ", ".join(escape_html(label) for label in run.labels[:_MAX_SHOWN_LABELS])
    more = f" and {len(run.labels) - _MAX_SHOWN_LABELS} more" if len(run.labels) > _MAX_SHOWN_LABELS else ""
    groups = len(data.costs.groups)
    paid = f", {pluralize(groups, 'group')} paid once" if groups else ""
    thresholds = "; ".join(escape_html(format_threshold(entry.thresholds, run.labels)) for entry in run.thresholds)
    facts = [
        ("Data", f"{files}: {pluralize(sum(run.rows.values()), 'row')}, {pluralize(len(run.columns), 'feature')}"),
        ("Rows by split", rows),
        ("Labels", f"{labels}{more} <small>in column <code>{escape_html(run.data.label)}</code></small>"),
        ("Costs", f"all features: {escape_html(costs_format.compact(costs_format.full_cost))}{paid}"),
        ("Confidence needed", thresholds),
        ("Search", _search_summary(data)),
        ("Made", f"{escape_html(_format_time(run.created))} <small>emsco {escape_html(run.versions.get('emsco', '?'))}</small>"),
    ]
    return f'<dl class="facts">{"".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts)}</dl>'


def warnings_html(data: ReportData) -> str:
    """Return what a reader must know before believing the page: searches that were cut short, rows that are missing."""
    run = data.run
    shown = [
        f"The search at threshold {format_threshold(entry.thresholds, run.labels)} {_STOP_REASONS[entry.stopped]}."
        for entry in run.thresholds
        if entry.stopped in _STOP_REASONS
    ]
    if not data.has_test_rows:
        shown.append("The run has no test rows: all figures are those that the search saw, and flatter the designs.")
    return "".join(f'<p class="warning">{escape_html(text)}</p>' for text in shown)


def run_details(data: ReportData) -> str:
    """Return the last part of the page: searches, features, settings and versions."""
    run = data.run
    settings = {"seed": run.search.seed, "method asked for": run.search.method, **_flatten_settings(run.search.settings)}
    settings |= {"C": run.C, "class weight": run.class_weight, "search rows at most": run.search.max_search_rows}
    settings |= {"seconds at most": run.search.time_limit}
    kept = {name: value for name, value in settings.items() if value not in (None, [], {})}
    return (
        f"<h3>Searches</h3>{_search_table(data)}"
        f"<details><summary>Features and prices</summary>{_feature_table(data)}</details>"
        f"<details><summary>Settings</summary>{_definition_list(kept.items())}</details>"
        f"<details><summary>Versions and fingerprint</summary>{_definition_list(_provenance(data))}</details>"
    )


def _search_summary(data: ReportData) -> str:
    entries = data.run.thresholds
    named = ", ".join(dict.fromkeys(entry.method for entry in entries))
    looked, seconds = sum(entry.designs for entry in entries), sum(entry.elapsed_s for entry in entries)
    return f"{escape_html(named)}: {pluralize(looked, 'design')} looked at in {format_duration(seconds)}"


def _format_time(created: str) -> str:
    return created.replace("T", " ").replace("Z", " UTC")


def _search_table(data: ReportData) -> str:
    kept = [
        sum(design_data.threshold_index == threshold_index for design_data in data.designs)
        for threshold_index in range(len(data.run.thresholds))
    ]
    rows = [_search_row(data, entry, count) for entry, count in zip(data.run.thresholds, kept, strict=True)]
    splits = [figures.split for figures in data.run.thresholds[0].everything]
    whole = [f"{name}, {split}" for split in splits for name in ("accuracy", "coverage")]
    header = ["threshold", "method", "ended", "designs looked at", "fits", "time", "designs kept"]
    shown = "The last columns are the yardstick: everything at once, that is all features in one stage."
    return f'{_html_table([*header, *whole], rows, left=3)}<p class="hint">{shown}</p>'


def _search_row(data: ReportData, entry: ThresholdEntry, kept: int) -> list[str]:
    whole = [text for figures in entry.everything for text in (format_accuracy(figures), format_coverage(figures))]
    named = [format_threshold(entry.thresholds, data.run.labels), entry.method, entry.stopped]
    return [*named, f"{entry.designs:,}", f"{entry.fits:,}", format_duration(entry.elapsed_s), f"{kept:,}", *whole]


def _feature_table(data: ReportData) -> str:
    costs = data.costs
    rows = []
    for column in data.run.columns:
        kind = f"{column.kind} ({column.categories})" if column.kind == "categorical" else column.kind
        group = costs.group_of(column.name)
        rows.append([column.name, kind, group or "", f"{costs.features[column.name]:.6g}", f"{column.gaps:,}"])
    shared = "".join(
        f"<li><code>{escape_html(group.name)}</code>: {escape_html(f'{group.cost:.6g} {costs.unit}')}</li>"
        for group in costs.groups
    )
    paid = f'<p class="hint">Groups, paid once per item, whichever of their features comes first:</p><ul>{shared}</ul>'
    return _html_table(["feature", "kind", "group", f"own cost, {costs.unit}", "gaps"], rows, left=3) + (paid if shared else "")


def _provenance(data: ReportData) -> list[tuple[str, str]]:
    run = data.run
    files = [(f"file{f' of {file.split} rows' if file.split else ''}", file.path) for file in run.data.files]
    hashes = [("sha256", file.sha256) for file in run.data.files]
    pairs = [pair for couple in zip(files, hashes, strict=True) for pair in couple]
    return [*run.versions.items(), *pairs, ("fingerprint of all values", run.data.fingerprint)]


def _flatten_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings with their parts side by side, in words."""
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
    """Return a plain table; the first columns are words, the others numbers."""
    head = "".join(f'<th scope="col"{_alignment(place, left)}>{escape_html(name)}</th>' for place, name in enumerate(header))
    body = "".join(
        f"<tr>{''.join(f'<td{_alignment(place, left)}>{escape_html(text)}</td>' for place, text in enumerate(row))}</tr>"
        for row in rows
    )
    return f'<div class="wide"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _alignment(place: int, left: int) -> str:
    return "" if place < left else ' class="number"'
