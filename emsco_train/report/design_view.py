"""One design in full: its figures, its stages, and how far their confidences can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from emsco_runtime.summary import counted, percent
from emsco_train.report.cascade import cascade
from emsco_train.report.content import Content, DesignContent, StageContent
from emsco_train.report.markup import escaped
from emsco_train.report.reliability import reliability_diagram
from emsco_train.report.wording import CostWords, accuracy_words, coverage_words, threshold_words
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


def design_view(content: Content, one: DesignContent) -> DesignView:
    """Return the parts of the page about one design.

    Parameters
    ----------
    content
        The run.
    one
        One of its designs.
    """
    words = CostWords(content.front.full_cost, content.front.unit)
    rows = counted(content.run.rows[content.held], f"{content.held} row")
    stages = (
        f'<h3>Stages</h3><div class="wide">{cascade(one.stages, words)}</div><p class="hint">Shares are of the {rows}. '
        f"Features of a stage are acquired only for items that get there.</p>{_left_out(one)}"
    )
    return DesignView(_title(content, one) + _figures(content, one, words), stages, _calibration(content, one))


def _title(content: Content, one: DesignContent) -> str:
    design = one.design
    badge = ' <span class="badge">fittest at its threshold</span>' if one.is_fittest else ""
    if one is content.designs[0]:
        badge = ' <span class="badge">fittest</span>'
    facts = [
        f"threshold {escaped(threshold_words(design.thresholds, content.run.labels))}",
        counted(len(design.stages), "stage"),
        f"{counted(sum(map(len, design.stages)), 'feature')}, {len(design.excluded)} left out",
        f"fitness {design.fitness:.4f}",
    ]
    if design.ties > 1:
        facts.append(f"{counted(design.ties, 'design')} have these same figures")
    return f'<h3 class="id"><code>{design.id}</code>{badge}</h3><p class="sub">{" &middot; ".join(facts)}</p>'


def _figures(content: Content, one: DesignContent, words: CostWords) -> str:
    """Return the design's figures beside those of acquiring everything at once."""
    whole = content.threshold_of(one).everything
    own = [one.validation, *([] if one.test is None else [one.test])]
    columns = [*own, *whole[: len(own)]]
    names = "".join(f'<th scope="col">{figures.split}</th>' for figures in columns)
    lines = [
        ("accuracy", [accuracy_words(figures) for figures in columns]),
        ("coverage", [coverage_words(figures) for figures in columns]),
        (f"mean cost, {escaped(words.unit)}", [escaped(words.bare(figures.cost)) for figures in columns]),
        ("share of full cost", [f"{100 * figures.cost / words.full:.1f} %" for figures in columns]),
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


def _left_out(one: DesignContent) -> str:
    if not one.design.excluded:
        return ""
    names = ", ".join(f"<code>{escaped(name)}</code>" for name in one.design.excluded)
    return f'<p class="hint">Never acquired: {names}</p>'


def _calibration(content: Content, one: DesignContent) -> str:
    parts = "".join(_stage(content, one, stage) for stage in one.stages)
    return (
        f'<h3>Can its confidence be trusted?</h3><div class="stages">{parts}</div>'
        '<p class="hint">Each dot is a tenth of the rows that reach the stage, by confidence; bars are 95 % intervals. On the '
        "dashed line, confidence is honest; dots below it claim too much. Rows right of the threshold are accepted. ECE is the "
        "mean distance "
        f"from the line, over the bins of {content.held} rows.</p>"
    )


def _stage(content: Content, one: DesignContent, stage: StageContent) -> str:
    reached, accepted = stage.calibration.reached, stage.calibration.accepted
    if not reached.rows:
        told = '<p class="empty">No row gets here.</p>'
    else:
        told = reliability_diagram(reached, one.design.thresholds, len(content.run.labels))
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _facts(reached, accepted))
    warning = stage.calibration.warning
    warned = "" if warning is None else f'<p class="warning">{escaped(_sentence(warning))}</p>'
    return f"<figure><figcaption>Stage {stage.number}</figcaption>{told}<dl>{facts}</dl>{warned}</figure>"


def _facts(reached: ReliabilityEntry, accepted: ReliabilityEntry) -> Iterator[tuple[str, str]]:
    if reached.error is not None:
        yield "ECE, rows that get here", f"{reached.error:.3f}"
    if accepted.error is not None and accepted.confidence is not None:
        yield "ECE, rows accepted", f"{accepted.error:.3f}"
        yield "mean confidence of these", f"{100 * accepted.confidence:.2f} %"
        yield "right of these", percent(accepted.right, accepted.rows)


def _sentence(warning: str) -> str:
    """Return a warning without the number of its stage, which stands above it."""
    told = warning.partition(": ")[2] if warning.startswith("stage ") else warning
    return f"{told[:1].upper()}{told[1:]}."
