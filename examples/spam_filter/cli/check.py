"""The command ``check``: what a model thinks of messages, and why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spam_filter.cli.console import columns, run_command
from spam_filter.cli.service_command import add_list_options

if TYPE_CHECKING:
    from spam_filter.explanation import Reason
    from spam_filter.model import Model
    from spam_filter.service.sender_lists import SenderLists

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(argv)
    return run_command("spam_filter check", lambda: _check(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spam_filter check",
        description="Decide messages as the service does, and say which features spoke for spam (above 0) and which for ham, in "
        "nats against common mail.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a message; - is standard input")
    parser.add_argument("--model", type=Path, required=True, metavar="FOLDER", help="the trained model")
    add_list_options(parser)
    parser.add_argument("--reasons", type=int, default=6, metavar="N", help="features to show for each message (default: 6)")
    return parser


def _check(options: argparse.Namespace) -> None:
    from spam_filter.model import Model  # noqa: PLC0415 - after the arguments: --help must answer at once
    from spam_filter.service.sender_lists import SenderLists  # noqa: PLC0415

    lists = SenderLists.read(options.allow, options.block)
    with Model.open(options.model) as model:
        for name in options.files:
            raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
            print("\n".join(_lines(model, lists, name, raw, options.reasons)), flush=True)


def _lines(model: Model, lists: SenderLists, name: str, raw: bytes, most: int) -> Iterator[str]:
    from spam_filter.explanation import explain  # noqa: PLC0415 - as above
    from spam_filter.message.mail import Mail  # noqa: PLC0415
    from spam_filter.service.classification import classify  # noqa: PLC0415

    mail = Mail.parse(raw)
    verdict = lists.apply(classify(model, raw, None, None), mail)
    listed = f", sender on the {verdict.listed} list" if verdict.listed else ""
    if verdict.confidence is None or not verdict.stage:
        yield f"{name}: {verdict.status} ({verdict.note or 'not decided'}){listed}"
        return
    stages = len(model.cascade.manifest.stages)
    degraded = f", degraded: {', '.join(verdict.failed_sources)}" if verdict.degraded else ""
    degraded += ", not read whole" if verdict.unread else ""
    sure = f"{int(verdict.confidence * 10_000) / 10_000:.4f}"
    cost = f"cost {verdict.cost:.4g} {verdict.unit}"
    yield f"{name}: {verdict.status} ({sure}), stage {verdict.stage} of {stages}, {cost}{degraded}{listed}"
    reasons = explain(model.cascade.bundle, model.acquirers, mail, verdict.stage)[:most]
    yield from (f"  {line}" for line in columns([["", "value", "common mail", "for spam"], *map(_row, reasons)]))


def _row(reason: Reason) -> list[str]:
    return [reason.feature, _short(reason.value), _short(reason.usual), f"{reason.contribution:+.2f}"]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
