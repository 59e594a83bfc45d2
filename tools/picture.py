"""Write `docs/cascade.svg`, the picture of a cascade in the README: ``python tools/picture.py``.

A test keeps the file equal to what is drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "cascade.svg"

WIDTH, HEIGHT = 880, 236
BOX, BOX_HEIGHT, TOP, GAP, LEFT = 176, 92, 16, 56, 12

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2937; text-anchor: middle }
  .head { font-weight: 600; font-size: 15px } .soft { fill: #6b7280; font-size: 13px }
  .box { fill: #eef2ff; stroke: #6366f1 } .out { fill: #ecfdf5; stroke: #10b981 } .no { fill: #fef3c7; stroke: #d97706 }
  path { stroke: #6b7280; stroke-width: 1.5; fill: none } .tip { fill: #6b7280; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } .soft { fill: #9ca3af }
    .box { fill: #1e1b4b } .out { fill: #064e3b } .no { fill: #451a03 } path { stroke: #9ca3af } .tip { fill: #9ca3af }
  }
"""


@dataclass(frozen=True, slots=True)
class PictureStage:
    """One stage of the picture: what it acquires, what that adds to the cost, and how many of a hundred items leave there."""

    name: str
    acquires: str
    adds: str
    accepted: str


STAGES = (
    PictureStage("Stage 1", "what is there already", "adds 1 cent", "70 of 100 items"),
    PictureStage("Stage 2", "a DNS query", "adds 5 cents", "20 of 100 items"),
    PictureStage("Stage 3", "a reputation lookup", "adds 40 cents", "7 of 100 items"),
)


def picture() -> str:
    """Return the SVG."""
    label = "A cascade: each stage acquires more features, scores, and lets the items go that it is sure about"
    parts = [part for place, stage in enumerate(STAGES) for part in _stage(place, stage)]
    parts += _rejected(len(STAGES))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _left(place: int) -> int:
    return LEFT + place * (BOX + GAP)


def _stage(place: int, stage: PictureStage) -> Iterator[str]:
    left = _left(place)
    middle = left + BOX // 2
    yield f'<rect class="box" x="{left}" y="{TOP}" width="{BOX}" height="{BOX_HEIGHT}" rx="8"/>'
    yield f'<text class="head" x="{middle}" y="{TOP + 28}">{stage.name}</text>'
    yield f'<text x="{middle}" y="{TOP + 52}">{stage.acquires}</text>'
    yield f'<text class="soft" x="{middle}" y="{TOP + 76}">{stage.adds}</text>'
    foot = TOP + BOX_HEIGHT
    yield f'<path d="M{middle} {foot}V{foot + 38}"/><path class="tip" d="M{middle - 5} {foot + 36}h10l-5 9z"/>'
    yield f'<text class="soft" x="{middle + 30}" y="{foot + 25}">sure</text>'
    yield f'<rect class="out" x="{left}" y="{foot + 46}" width="{BOX}" height="58" rx="8"/>'
    yield f'<text class="head" x="{middle}" y="{foot + 70}">accepted: a label</text>'
    yield f'<text class="soft" x="{middle}" y="{foot + 91}">{stage.accepted}</text>'
    right, level = left + BOX, TOP + BOX_HEIGHT // 2
    yield f'<path d="M{right} {level}H{right + GAP - 8}"/><path class="tip" d="M{right + GAP - 9} {level - 5}v10l9 -5z"/>'
    yield f'<text class="soft" x="{right + GAP // 2 - 2}" y="{level - 9}">unsure</text>'


def _rejected(place: int) -> Iterator[str]:
    left = _left(place)
    width = WIDTH - left - LEFT
    middle = left + width // 2
    yield f'<rect class="no" x="{left}" y="{TOP}" width="{width}" height="{BOX_HEIGHT}" rx="8"/>'
    yield f'<text class="head" x="{middle}" y="{TOP + 28}">rejected,</text>'
    yield f'<text class="head" x="{middle}" y="{TOP + 48}">not guessed</text>'
    yield f'<text class="soft" x="{middle}" y="{TOP + 76}">3 of 100 items</text>'


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
