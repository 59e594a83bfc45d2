"""How the run was made: data, rows, labels, prices, thresholds, search, time and versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from emsco_runtime.summary import counted
from emsco_train.report.content import Content
from emsco_train.report.markup import escaped
from emsco_train.report.wording import CostWords, accuracy_words, coverage_words, threshold_words, time_words
from emsco_train.runs.run_file import ThresholdEntry

__all__ = ["head_facts", "notices", "run_details"]

_STOPPED = {
    "interrupted": "was interrupted: its front is what had been found by then",
    "time": "ran out of time: its front is what had been found by then",
}
_SHOWN_LABELS = 12


def head_facts(content: Content) -> str:
    """Return the head: what was searched, on what, and how."""
    run, words = content.run, CostWords(content.front.full_cost, content.front.unit)
    files = ", ".join(f'<span title="{escaped(file.path)}">{escaped(PurePath(file.path).name)}</span>' for file in run.data.files)
    rows = ", ".join(f"{split} {count:,}" for split, count in run.rows.items())
    labels = ", ".join(escaped(label) for label in run.labels[:_SHOWN_LABELS])
    more = f" and {len(run.labels) - _SHOWN_LABELS} more" if len(run.labels) > _SHOWN_LABELS else ""
    groups = len(content.costs.groups)
    paid = f", {counted(groups, 'group')} paid once" if groups else ""
    thresholds = "; ".join(escaped(threshold_words(entry.thresholds, run.labels)) for entry in run.thresholds)
    facts = [
        ("Data", f"{files}: {counted(sum(run.rows.values()), 'row')}, {counted(len(run.columns), 'feature')}"),
        ("Rows by split", rows),
        ("Labels", f"{labels}{more} <small>in column <code>{escaped(run.data.label)}</code></small>"),
        ("Costs", f"all features: {escaped(words.short(words.full))}{paid}"),
        ("Confidence needed", thresholds),
        ("Search", _search(content)),
        ("Made", f"{escaped(_moment(run.created))} <small>emsco {escaped(run.versions.get('emsco', '?'))}</small>"),
    ]
    return f'<dl class="facts">{"".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in facts)}</dl>'


def notices(content: Content) -> str:
    """Return what a reader must know before believing the page: searches that were cut short, rows that are missing."""
    run = content.run
    told = [
        f"The search at threshold {threshold_words(entry.thresholds, run.labels)} {_STOPPED[entry.stopped]}."
        for entry in run.thresholds
        if entry.stopped in _STOPPED
    ]
    if not content.tested:
        told.append("The run has no test rows: all figures are those that the search saw, and flatter the designs.")
    return "".join(f'<p class="warning">{escaped(text)}</p>' for text in told)


def run_details(content: Content) -> str:
    """Return the last part of the page: searches, features, settings and versions."""
    run = content.run
    settings = {"seed": run.search.seed, "method asked for": run.search.method, **_flat(run.search.settings)}
    settings |= {"C": run.C, "class weight": run.class_weight, "search rows at most": run.search.max_search_rows}
    settings |= {"seconds at most": run.search.time_limit}
    kept = {name: value for name, value in settings.items() if value not in (None, [], {})}
    return (
        f"<h3>Searches</h3>{_searches(content)}"
        f"<details><summary>Features and prices</summary>{_features(content)}</details>"
        f"<details><summary>Settings</summary>{_pairs(kept.items())}</details>"
        f"<details><summary>Versions and fingerprint</summary>{_pairs(_provenance(content))}</details>"
    )


def _search(content: Content) -> str:
    entries = content.run.thresholds
    named = ", ".join(dict.fromkeys(entry.method for entry in entries))
    looked, seconds = sum(entry.designs for entry in entries), sum(entry.elapsed_s for entry in entries)
    return f"{escaped(named)}: {counted(looked, 'design')} looked at in {time_words(seconds)}"


def _moment(created: str) -> str:
    return created.replace("T", " ").replace("Z", " UTC")


def _searches(content: Content) -> str:
    kept = [sum(one.level == level for one in content.designs) for level in range(len(content.run.thresholds))]
    rows = [_entry(content, entry, count) for entry, count in zip(content.run.thresholds, kept, strict=True)]
    splits = [figures.split for figures in content.run.thresholds[0].everything]
    whole = [f"{name}, {split}" for split in splits for name in ("accuracy", "coverage")]
    header = ["threshold", "method", "ended", "designs looked at", "fits", "time", "designs kept"]
    told = "The last columns are the yardstick: everything at once, that is all features in one stage."
    return f'{_table([*header, *whole], rows, left=3)}<p class="hint">{told}</p>'


def _entry(content: Content, entry: ThresholdEntry, kept: int) -> list[str]:
    whole = [text for figures in entry.everything for text in (accuracy_words(figures), coverage_words(figures))]
    named = [threshold_words(entry.thresholds, content.run.labels), entry.method, entry.stopped]
    return [*named, f"{entry.designs:,}", f"{entry.fits:,}", time_words(entry.elapsed_s), f"{kept:,}", *whole]


def _features(content: Content) -> str:
    costs = content.costs
    rows = []
    for column in content.run.columns:
        kind = f"{column.kind} ({column.categories})" if column.kind == "categorical" else column.kind
        group = costs.group_of(column.name)
        rows.append([column.name, kind, group or "", f"{costs.features[column.name]:.6g}", f"{column.gaps:,}"])
    shared = "".join(
        f"<li><code>{escaped(group.name)}</code>: {escaped(f'{group.cost:.6g} {costs.unit}')}</li>" for group in costs.groups
    )
    paid = f'<p class="hint">Groups, paid once per item, whichever of their features comes first:</p><ul>{shared}</ul>'
    return _table(["feature", "kind", "group", f"own cost, {costs.unit}", "gaps"], rows, left=3) + (paid if shared else "")


def _provenance(content: Content) -> list[tuple[str, str]]:
    run = content.run
    files = [(f"file{f' of {file.split} rows' if file.split else ''}", file.path) for file in run.data.files]
    hashes = [("sha256", file.sha256) for file in run.data.files]
    pairs = [pair for couple in zip(files, hashes, strict=True) for pair in couple]
    return [*run.versions.items(), *pairs, ("fingerprint of all values", run.data.fingerprint)]


def _flat(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings with their parts side by side, in words."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= _flat(value) if isinstance(value, dict) else {name.replace("_", " "): value}
    return flat


def _pairs(pairs: Iterable[tuple[str, object]]) -> str:
    told = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(_value(value))}</dd>" for name, value in pairs)
    return f'<dl class="pairs">{told}</dl>'


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Return a plain table; the first columns are words, the others numbers."""
    head = "".join(f'<th scope="col"{_side(place, left)}>{escaped(name)}</th>' for place, name in enumerate(header))
    body = "".join(
        f"<tr>{''.join(f'<td{_side(place, left)}>{escaped(text)}</td>' for place, text in enumerate(row))}</tr>" for row in rows
    )
    return f'<div class="wide"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _side(place: int, left: int) -> str:
    return "" if place < left else ' class="number"'
