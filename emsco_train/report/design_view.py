"""One design in full: its figures, its stages, and how far their confidences can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from emsco_runtime.bundle.summary import percent, pluralize
from emsco_train.report.cascade_diagram import draw_cascade
from emsco_train.report.escaping import escape_html
from emsco_train.report.number_format import CostFormat, format_accuracy, format_coverage, format_threshold
from emsco_train.report.reliability_diagram import reliability_diagram
from emsco_train.report.report_data import DesignData, ReportData, StageData
from emsco_train.runs.calibration_file import ReliabilityEntry

__all__ = ["DesignView", "design_view"]


class DesignView(NamedTuple):
    """The parts of the page about one design, in their order: pieces of HTML.

    Parameters
    ----------
    figures
        Its name and its figures.
    stages
        The picture of its stages.
    calibration
        How honest its confidences are.
    """

    figures: str
    stages: str
    calibration: str

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(self)


def design_view(data: ReportData, design_data: DesignData) -> DesignView:
    """Return the parts of the page about one design.

    Parameters
    ----------
    data
        The run.
    design_data
        One of its designs.
    """
    costs_format = CostFormat(data.front.full_cost, data.front.unit)
    rows = pluralize(data.run.rows[data.held_out_split], f"{data.held_out_split} row")
    stages = (
        f'<h3>Stages</h3><div class="wide">{draw_cascade(design_data.stages, costs_format)}</div>'
        f'<p class="hint">Shares are of the {rows}. '
        f"Features of a stage are acquired only for items that get there.</p>{_excluded_features(design_data)}"
    )
    return DesignView(
        _title(data, design_data) + _counts_table(data, design_data, costs_format), stages, _calibration(data, design_data)
    )


def _title(data: ReportData, design_data: DesignData) -> str:
    design = design_data.design
    badge = ' <span class="badge">fittest at its threshold</span>' if design_data.is_fittest else ""
    if design_data is data.designs[0]:
        badge = ' <span class="badge">fittest</span>'
    facts = [
        f"threshold {escape_html(format_threshold(design.thresholds, data.run.labels))}",
        pluralize(len(design.stages), "stage"),
        f"{pluralize(sum(map(len, design.stages)), 'feature')}, {len(design.excluded)} left out",
        f"fitness {design.fitness:.4f}",
    ]
    if design.ties > 1:
        facts.append(f"{pluralize(design.ties, 'design')} have these same figures")
    return f'<h3 class="id"><code>{design.id}</code>{badge}</h3><p class="sub">{" &middot; ".join(facts)}</p>'


def _counts_table(data: ReportData, design_data: DesignData, costs_format: CostFormat) -> str:
    """Return the design's figures beside those of acquiring everything at once."""
    whole = data.threshold_of(design_data).everything
    own = [design_data.validation, *([] if design_data.test is None else [design_data.test])]
    columns = [*own, *whole[: len(own)]]
    names = "".join(f'<th scope="col">{figures.split}</th>' for figures in columns)
    lines = [
        ("accuracy", [format_accuracy(figures) for figures in columns]),
        ("coverage", [format_coverage(figures) for figures in columns]),
        (
            f"mean cost, {escape_html(costs_format.unit)}",
            [escape_html(costs_format.without_unit(figures.cost)) for figures in columns],
        ),
        ("share of full cost", [f"{100 * figures.cost / costs_format.full_cost:.1f} %" for figures in columns]),
        ("rows", [f"{figures.rows:,}" for figures in columns]),
    ]
    body = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(_cell(text, place >= len(own)) for place, text in enumerate(texts))}</tr>'
        for name, texts in lines
    )
    return (
        '<div class="wide"><table class="figures"><thead>'
        f'<tr><td></td><th colspan="{len(own)}" scope="colgroup">this design</th>'
        f'<th colspan="{len(columns) - len(own)}" scope="colgroup" class="other">everything at once</th></tr>'
        f"<tr><td></td>{names}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(text: str, other: bool) -> str:  # noqa: FBT001 - which half of the table, told by its place
    return f'<td class="other">{text}</td>' if other else f"<td>{text}</td>"


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
        "mean distance "
        f"from the line, over the bins of {data.held_out_split} rows.</p>"
    )


def _stage_calibration(data: ReportData, design_data: DesignData, stage: StageData) -> str:
    reached, accepted = stage.calibration.reached, stage.calibration.accepted
    if not reached.rows:
        shown = '<p class="empty">No row gets here.</p>'
    else:
        shown = reliability_diagram(reached, design_data.design.thresholds, len(data.run.labels))
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _calibration_facts(reached, accepted))
    warning = stage.calibration.warning
    warned = "" if warning is None else f'<p class="warning">{escape_html(_warning_sentence(warning))}</p>'
    return f"<figure><figcaption>Stage {stage.number}</figcaption>{shown}<dl>{facts}</dl>{warned}</figure>"


def _calibration_facts(reached: ReliabilityEntry, accepted: ReliabilityEntry) -> Iterator[tuple[str, str]]:
    if reached.error is not None:
        yield "ECE, rows that get here", f"{reached.error:.3f}"
    if accepted.error is not None and accepted.confidence is not None:
        yield "ECE, rows accepted", f"{accepted.error:.3f}"
        yield "mean confidence of these", f"{100 * accepted.confidence:.2f} %"
        yield "right of these", percent(accepted.right, accepted.rows)


def _warning_sentence(warning: str) -> str:
    """Return a warning without the number of its stage, which stands above it."""
    shown = warning.partition(": ")[2] if warning.startswith("stage ") else warning
    return f"{shown[:1].upper()}{shown[1:]}."
