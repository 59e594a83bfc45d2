"""`emsco-report`: one self-contained HTML page of a run, to choose a design by eye."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from emsco_train.cli.command import TrainingParser, run_training_command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = TrainingParser(
        prog="emsco-report",
        description="Write one HTML page about a run, to choose a design by eye: all designs in one picture, floors and a cap to "
        "choose by, the stages of a design, and how far its confidence can be trusted. The page needs no network.",
        epilog="example: emsco-report runs/mail",
    )
    parser.add_argument("run", metavar="RUN", help="folder that emsco-train wrote; the data are not needed")
    parser.add_argument("--out", metavar="FILE", help="the page (default: RUN/report.html); an existing one is replaced")
    options = parser.parse_args(arguments)
    return run_training_command("emsco-report", options, lambda: _report(options))


def _report(options: argparse.Namespace) -> None:
    # After the arguments: --help must answer at once.
    from emsco_train.cli.phase_progress import PhaseProgress  # noqa: PLC0415
    from emsco_train.report.report_file import write_report  # noqa: PLC0415

    with PhaseProgress() as shown:
        path = write_report(options.run, options.out, on_phase=shown.on_phase)
    print(f"written  {shlex.quote(str(path))}")
    print("next     open it in a browser; it shows the emsco-export command for the design that you choose")


if __name__ == "__main__":
    sys.exit(main())
