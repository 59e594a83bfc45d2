"""One design in full: its figures, its stages, and how far their confidences can be trusted."""

from __future__ import annotations

from collections.abc import Iterator

from emsco_runtime.bundle.label_figures import COLUMNS, describe_base_rate, describe_missed_labels, label_rows
from emsco_runtime.bundle.summary import percent, percent_at_least, pluralize
from emsco_train.designs.sure_level import DEFAULT_SURE
from emsco_train.report.cascade_diagram import draw_cascade
from emsco_train.report.escaping import escape_html
from emsco_train.report.number_format import format_accuracy, format_coverage
from emsco_train.report.reliability_diagram import reliability_diagram
from emsco_train.report.report_data import DesignData, ReportData, StageData
from emsco_train.runs.calibration_file import StageEntry

__all__ = ["design_view"]


def design_view(data: ReportData, design_data: DesignData) -> tuple[str, str, str]:
    """Return the parts of the page about one design, in their order, as HTML: its figures, its stages, their calibration."""
    rows = pluralize(data.held_out_rows, f"{data.held_out_split} row") + _by_rows(design_data)
    stages = (
        f'<h3>Stages</h3><div class="wide">{draw_cascade(design_data.stages, data.cost_format)}</div>'
        f'<p class="hint">Shares are of the {rows}. '
        f"Features of a stage are acquired only for items that reach it.</p>{_excluded_features(design_data)}"
    )
    figures = _title(data, design_data) + _counts_table(data, design_data) + _labels_table(data, design_data)
    return figures, stages, _calibration(data, design_data)


def _title(data: ReportData, design_data: DesignData) -> str:
    design = design_data.design
    badge = ' <span class="badge">fittest at its threshold</span>' if design_data.is_fittest else ""
    if design_data is data.designs[0]:
        badge = ' <span class="badge">fittest</span>'
    if design_data.design.id == data.knee.design.id:
        badge = f' <span class="badge">knee of the front</span>{badge}'
    facts = [
        f"threshold {escape_html(data.format_threshold(design.thresholds))}",
        pluralize(len(design.stages), "stage"),
        f"{pluralize(sum(map(len, design.stages)), 'feature')}, {len(design.excluded)} left out",
        f"fitness {design.fitness:.4f}",
    ]
    if design.ties > 1:
        facts.append(f"{pluralize(design.ties, 'design')} have these same figures")
    return f'<h3 class="id"><code>{design.id}</code>{badge}</h3><p class="sub">{" &middot; ".join(facts)}</p>'


def _counts_table(data: ReportData, design_data: DesignData) -> str:
    """Return the design's figures next to those of the baseline: acquiring all features at once."""
    own, cost_format = design_data.counts, data.cost_format
    baseline = data.run.thresholds[design_data.threshold_index]
    columns = [*own, *baseline.everything[: len(own)]]
    names = "".join(f'<th scope="col">{counts.split}</th>' for counts in columns)
    lines = [
        ("accuracy", map(format_accuracy, columns)),
        ("coverage", map(format_coverage, columns)),
        (f"mean cost, {cost_format.unit}", [cost_format.without_unit(counts.cost) for counts in columns]),
        ("share of full cost", [f"{100 * counts.cost / cost_format.full_cost:.1f} %" for counts in columns]),
        ("rows", [f"{counts.rows:,}" for counts in columns]),
    ]
    kinds = [""] * len(own) + [' class="other"'] * (len(columns) - len(own))
    body = ""
    for name, texts in lines:
        cells = "".join(f"<td{kind}>{escape_html(text)}</td>" for kind, text in zip(kinds, texts, strict=True))
        body += f'<tr><th scope="row">{escape_html(name)}</th>{cells}</tr>'
    return (
        '<div class="wide"><table class="figures counts"><thead>'
        f'<tr><td></td><th colspan="{len(own)}" scope="colgroup">this design</th>'
        f'<th colspan="{len(columns) - len(own)}" scope="colgroup" class="other">'
        f"all features at once{baseline.kind_note}</th></tr>"
        f"<tr><td></td>{names}</tr></thead><tbody>{body}</tbody></table></div>{_bounds_sentence(data, design_data)}"
    )


def _labels_table(data: ReportData, design_data: DesignData) -> str:
    """Return the design's figures per label, with the base rate, and a warning about labels that it never gives."""
    labels = design_data.labels
    if not labels:
        return ""
    counted = design_data.test or design_data.validation
    weighted_rows, by_weight = (None, "") if counted.units is None else (counted.rows, ", by weight")
    header = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS[1:])
    body = "".join(
        f'<tr><th scope="row">{escape_html(label)}</th>{"".join(f"<td>{text}</td>" for text in texts)}</tr>'
        for label, *texts in label_rows(labels, weighted_rows)
    )
    missed = "".join(f'<p class="warning">{escape_html(text)}</p>' for text in describe_missed_labels(labels, weighted_rows))
    return (
        f'<h3>Labels</h3><div class="wide"><table class="figures"><thead><tr><td></td>{header}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{missed}"
        f'<p class="hint">On the {data.held_out_split} rows{by_weight}. Base rate: {escape_html(describe_base_rate(labels))}. '
        "Accuracy: right among the rows accepted as the label. Recall: right among the rows that have it.</p>"
    )


def _bounds_sentence(data: ReportData, design_data: DesignData) -> str:
    bounds = design_data.design.bounds(DEFAULT_SURE)
    return (
        f'<p class="hint">Bounds from the {data.run.measured.split} rows at level {DEFAULT_SURE:g}: accuracy at least '
        f"{percent_at_least(bounds.accuracy)}, coverage at least {percent_at_least(bounds.coverage)}, mean cost at most "
        f"{escape_html(data.cost_format.with_unit(bounds.cost))}. Requirements are compared with these.</p>"
    )


def _excluded_features(design_data: DesignData) -> str:
    if not design_data.design.excluded:
        return ""
    names = ", ".join(f"<code>{escape_html(name)}</code>" for name in design_data.design.excluded)
    return f'<p class="hint">Never acquired: {names}</p>'


def _calibration(data: ReportData, design_data: DesignData) -> str:
    parts = "".join(_stage_calibration(data, design_data, stage) for stage in design_data.stages)
    return (
        f'<h3>Can its confidence be trusted?</h3><div class="stages">{parts}</div>'
        '<p class="hint">Each dot is a tenth of the rows that reach the stage, by confidence; bars are 95 % intervals. On the '
        "dashed line, confidence is honest; dots below it claim too much. Rows right of the threshold are accepted. ECE is the "
        f"mean distance from the line, over the bins of {data.held_out_split} rows{_by_rows(design_data)}.</p>"
    )


def _by_rows(design_data: DesignData) -> str:
    """Return how stages and calibration are counted, where the other figures are by weight."""
    counted = design_data.test or design_data.validation
    return "" if counted.units is None else " (by rows, not by weight)"


def _stage_calibration(data: ReportData, design_data: DesignData, stage: StageData) -> str:
    reached = stage.calibration.reached
    if not reached.rows:
        shown = '<p class="empty">No row reaches this stage.</p>'
    else:
        shown = reliability_diagram(reached, design_data.design.thresholds, len(data.run.labels))
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _calibration_facts(stage.calibration))
    warning = stage.calibration.warning
    warned = "" if warning is None else f'<p class="warning">{escape_html(_warning_sentence(warning))}</p>'
    return f"<figure><figcaption>Stage {stage.number}</figcaption>{shown}<dl>{facts}</dl>{warned}</figure>"


def _calibration_facts(entry: StageEntry) -> Iterator[tuple[str, str]]:
    reached, accepted, temperature = entry.reached, entry.accepted, entry.temperature
    if reached.error is not None:
        yield "ECE, rows that reach it", f"{reached.error:.3f}"
    if accepted.error is not None and accepted.confidence is not None:
        yield "ECE, rows accepted", f"{accepted.error:.3f}"
        yield "mean confidence of these", f"{100 * accepted.confidence:.2f} %"
        yield "right of these", percent(accepted.right, accepted.rows)
    if temperature is not None:
        yield "temperature", f"{temperature.temperature:g}{'' if temperature.kept else ' (not used)'}"
        yield "log loss before, after", f"{temperature.before:.4f}, {temperature.after:.4f}"


def _warning_sentence(warning: str) -> str:
    """Return a warning without the number of its stage, which is shown above it."""
    shown = warning.partition(": ")[2] if warning.startswith("stage ") else warning
    return f"{shown[:1].upper()}{shown[1:]}."
