"""`emsco-train`: search the designs of a table and write a run."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from emsco_runtime.support.missing_words import MISSING_WORDS
from emsco_train.cli.command import TrainingParser, run_training_command

if TYPE_CHECKING:
    from emsco_train.cli.phase_progress import PhaseProgress
    from emsco_train.runs.request import TrainRequest
    from emsco_train.runs.training import TrainedRun

__all__ = ["main"]

_INTERRUPTED = 130
_SPLITS = ("train", "validation", "test", "certify")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        is_table = options.data is None and not unknown[0].startswith("-")
        hint = f": give a table as --data {shlex.quote(unknown[0])}" if is_table else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    _check_usage(parser, options)
    finished: list[TrainedRun] = []
    status = run_training_command(
        "emsco-train", options, lambda: finished.extend(_train(parser, options)), own_process=arguments is None
    )
    return _INTERRUPTED if status == 0 and any(trained.interrupted for trained in finished) else status


def _parser() -> TrainingParser:
    parser = TrainingParser(
        prog="emsco-train",
        description="Search for the stage designs that trade coverage, accuracy and cost best, and write them to a run folder. "
        "Choose one of them with emsco-report, and deploy it with emsco-export.",
        epilog="example: emsco-train --data mail.csv --label spam --costs costs.toml --threshold 0.9 --out runs/mail",
    )
    _add_data(parser.add_argument_group("data", "one table, or ready splits; CSV (UTF-8, a header row) or Parquet"))
    _add_search(parser.add_argument_group("search"))
    _add_genetic(parser.add_argument_group("genetic algorithm", "defaults are the paper's"))
    _add_run(parser.add_argument_group("run"))
    return parser


def _add_data(group: Any) -> None:
    group.add_argument("--data", metavar="TABLE", help="one table, to be divided into train, validation, test and certify rows")
    for split in _SPLITS:
        group.add_argument(f"--{split}", metavar="TABLE", help=f"ready {split} rows, instead of --data")
    group.add_argument("--label", default="label", metavar="COL", help="column of the true label (default: label)")
    group.add_argument("--costs", metavar="FILE", help="what features cost: TOML, JSON, or one line of numbers (default: 1 each)")
    group.add_argument(
        "--kind", action="append", default=[], metavar="COL=KIND", help="kind of a column: numeric, boolean or categorical"
    )
    group.add_argument("--drop", action="append", default=[], metavar="COL", help="leave a column out")
    group.add_argument("--drop-label", action="append", default=[], metavar="L", help="leave the rows of a label out")
    group.add_argument(
        "--missing",
        metavar="WORDS",
        help="comma-separated words that mean a missing value, in any case, besides an empty field; '' for none "
        f"(default: {','.join(sorted(MISSING_WORDS))})",
    )
    group.add_argument(
        "--min-category", type=int, default=1, metavar="N", help="join categories with fewer train rows into one (default: 1)"
    )
    group.add_argument(
        "--unknown",
        action="append",
        default=[],
        metavar="[COL=]WORD",
        help="what to do with a category that training never saw: ignore (default) or fail; for all columns, or for one",
    )
    group.add_argument("--shares", metavar="T,V,T,C", help="shares of the four splits (default: 0.4,0.2,0.2,0.2)")
    group.add_argument(
        "--folds",
        type=int,
        metavar="K",
        help="measure designs on train and validation rows together, each row by models of the other K - 1 folds; 0: on the "
        "validation rows alone, as in the paper (default: 5 for at most 10,000 such rows of one table, else 0)",
    )
    group.add_argument("--group-column", metavar="COL", help="rows with equal values stay in one split and fold; not a feature")
    group.add_argument(
        "--time-column", metavar="COL", help="divide by time: the earliest rows train, the latest certify; not a feature"
    )
    group.add_argument(
        "--weight-column", metavar="COL", help="how much each row counts in fits, figures and certificates; not a feature"
    )


def _add_search(group: Any) -> None:
    group.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="P",
        help="confidence needed to accept: 0.9, or one per label as ham=0.9,spam=0.99; can be given more than once for a sweep",
    )
    group.add_argument(
        "--search",
        choices=("auto", "evolve", "exhaustive"),
        default="auto",
        help="auto (default): exhaustive where that is affordable, else evolve; evolve: the genetic algorithm; exhaustive: every "
        "design, exact",
    )
    group.add_argument("--max-stages", type=int, metavar="K", help="most stages (default: half the features, 2 to 10)")
    group.add_argument(
        "--keep-all", action="store_true", help="designs must acquire every feature by the last stage, as in the paper"
    )
    # Accepted from before it was the default.
    group.add_argument("--allow-exclusion", action="store_true", help=argparse.SUPPRESS)
    group.add_argument(
        "--units",
        choices=("auto", "features", "groups"),
        default="auto",
        help="what moves from stage to stage: each feature, or features without a cost of their own together with their group; "
        "auto (default): groups unless all designs by features can be searched exactly",
    )
    group.add_argument(
        "--pin", action="append", default=[], metavar="COL", help="keep a feature in the first stage; can be given more than once"
    )
    group.add_argument("--max-cost", type=float, metavar="X", help="search only designs with at most this mean cost")
    group.add_argument("--min-coverage", type=float, metavar="C", help="search only designs that accept at least this share")
    group.add_argument("--min-accuracy", type=float, metavar="A", help="search only designs with at least this accuracy")
    group.add_argument(
        "--objective",
        choices=("plain", "balanced"),
        default="plain",
        help="balanced: in the search, each label counts as much as any other, however rare (default: plain, by rows)",
    )
    group.add_argument("--start", metavar="RUN", help="begin the genetic search with the designs of an earlier run, too")
    group.add_argument("--polish", action="store_true", help="after the genetic algorithm, improve its designs by a local search")
    group.add_argument(
        "--max-search-rows",
        default="auto",
        metavar="N",
        help="search on a sample of N train and N validation rows, or on all; what is found is measured on all rows "
        "(default: 50,000 of each where that is less than half of them, more for rare labels or wide models)",
    )
    group.add_argument(
        "--stages",
        choices=("straight", "curved", "boosted"),
        default="curved",
        help="what a stage model sees of a feature: a curve learned for it, where that predicts better (curved, the default), or "
        "its value (straight, as in the paper); or boosted trees instead (boosted; slower to search with)",
    )
    group.add_argument(
        "--upgrade",
        choices=("boosted",),
        help="after the search, fit its designs again with boosted trees, and keep the best of both",
    )
    group.add_argument(
        "--increasing",
        action="append",
        default=[],
        metavar="COL",
        help="the second of two labels never gets less probable as this number rises, at any stage; can be given more than once",
    )
    group.add_argument(
        "--decreasing", action="append", default=[], metavar="COL", help="likewise, but the second label never gets more probable"
    )
    group.add_argument(
        "--C", type=float, default=1.0, metavar="C", help="inverse penalty of the logistic regressions (default: 1)"
    )
    group.add_argument(
        "--class-weight", metavar="W", help="weights of the labels in fits: balanced, or one per label as ham=1,spam=2"
    )
    group.add_argument(
        "--calibrate",
        choices=("temperature",),
        help="scale the confidences of each stage by cross-fitted scores, where that lowers their log loss; needs folds",
    )


def _add_genetic(group: Any) -> None:
    group.add_argument(
        "--population", type=int, default=300, metavar="N", help="number of designs in a generation (default: 300)"
    )
    group.add_argument("--generations", type=int, default=150, metavar="N", help="maximum number of generations (default: 150)")
    group.add_argument(
        "--patience", type=int, metavar="N", help="stop after N generations without a fitter design (default: never)"
    )
    group.add_argument(
        "--mutation", type=float, metavar="M", help="probability that a gene is drawn again (default: 1 / features)"
    )
    group.add_argument(
        "--crossover", type=float, default=0.8, metavar="R", help="probability that a child mixes two parents (default: 0.8)"
    )
    group.add_argument(
        "--elite", type=float, default=0.2, metavar="SHARE", help="share of designs that are kept unchanged (default: 0.2)"
    )
    group.add_argument(
        "--beta",
        type=float,
        default=2.0,
        metavar="BIAS",
        help="bias of mutation towards early stages, above 1: a larger one gives fewer stages (default: 2)",
    )
    group.add_argument(
        "--growth",
        type=int,
        metavar="N",
        help="least number of children in a generation: the population grows where the elite leaves fewer; 0 ends the search "
        "there (default: a third of the population; 0 with --keep-all)",
    )


def _add_run(group: Any) -> None:
    group.add_argument("--out", metavar="RUN", help="folder of the run")
    group.add_argument("--check", action="store_true", help="check the table and stop: nothing is searched or written")
    group.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="random seed of splits and search: the same seed gives the same run (default: 0)",
    )
    group.add_argument(
        "--jobs", type=int, metavar="N", help="number of threads (default: all cores); results do not depend on it"
    )
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="S",
        help="stop the search at each threshold after S seconds and keep the front so far",
    )
    group.add_argument(
        "--certify-uses",
        type=int,
        default=1,
        metavar="N",
        help="how many certificates will be made from this run's certify rows; they share the confidence level and hold jointly "
        "(default: 1)",
    )
    group.add_argument("--resume", action="store_true", help="continue an unfinished run with the same data and settings")
    group.add_argument("--force", action="store_true", help="replace a finished run; it stays until the new one is complete")


def _check_usage(parser: TrainingParser, options: argparse.Namespace) -> None:
    """Exit with status 2 where no data could make the options right."""
    ready = [name for name in _SPLITS if getattr(options, name) is not None]
    if options.data is None and not {"train", "validation"} <= set(ready):
        parser.error("give --data TABLE, or at least --train and --validation")
    if options.data is not None and ready:
        parser.error(f"--data and --{ready[0]} were both given: give one table, or ready splits")
    if not options.threshold and not options.check:
        parser.error("give --threshold, such as 0.9")
    if options.out is None and not options.check:
        parser.error("give --out RUN, the folder to write to")


def _train(parser: TrainingParser, options: argparse.Namespace) -> list[TrainedRun]:
    """Return the run that was made; none if the table was only to be checked."""
    # After the arguments: --help must answer at once.
    from emsco_train.cli.phase_progress import PhaseProgress  # noqa: PLC0415
    from emsco_train.cli.train_request import make_request  # noqa: PLC0415

    with parser.usage_errors(options):
        request = make_request(options)
    _check_folders(options)
    with PhaseProgress() as shown:
        return _prepare_and_train(request, options, shown)


def _check_folders(options: argparse.Namespace) -> None:
    """Refuse at once what training would refuse after the table was read and prepared, which may take long."""
    from emsco_train.runs.folder import RunFolder  # noqa: PLC0415

    if options.check:
        return
    folder = RunFolder(options.out)
    folder.check_free(resume=options.resume, force=options.force)
    if options.resume and not folder.work.is_dir():
        print(f"resume   {folder.path} holds no unfinished run, so there is nothing to resume: a new one is started", flush=True)
    if options.start is not None:
        RunFolder(options.start).check_finished()


def _prepare_and_train(request: TrainRequest, options: argparse.Namespace, shown: PhaseProgress) -> list[TrainedRun]:
    from emsco_train.cli.table_page import prepare_with_page  # noqa: PLC0415

    prepared, page = prepare_with_page(request, shown.on_phase)
    # The searches load compiled code: after the data, whose errors are reported at once, too.
    from emsco_train.cli.training_output import format_columns, format_data, format_front  # noqa: PLC0415
    from emsco_train.runs.training import train  # noqa: PLC0415
    from emsco_train.search.progress import Progress  # noqa: PLC0415

    print("\n".join([*format_data(prepared), *page]), flush=True)
    print(f"\n{format_columns(prepared)}\n", flush=True)
    if options.check:
        return []
    trained = train(
        prepared,
        options.out,
        resume=options.resume,
        force=options.force,
        watch=lambda what: Progress(shown.stream, what=what, time_limit=options.time_limit),
        on_phase=shown.on_phase,
        page=page,
    )
    print("\n".join(["", *format_front(trained)]))
    return [trained]


if __name__ == "__main__":
    sys.exit(main())
