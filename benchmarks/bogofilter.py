"""CPU time per message and errors compared with bogofilter, on the same test mail of the SpamAssassin sample.

Both learn from the same train mail and decide the same test mail. bogofilter runs once for all messages (``-B``), so that its
start does not count; its three answers are those of its default settings. The filter decides in one process, parsing included.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from _spam_sample import ARCHIVE, ARTEFACTS, COLLECTORS, read_sample
from spam_filter.evaluation import Evaluation, evaluate
from spam_filter.model import Model
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.pipeline import TrainingSettings, train_model

from emsco_runtime.cli.console import format_table

_STATUS: Mapping[str, str] = {"S": "spam", "H": "ham", "U": "unsure"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="splits by families (3)")
    parser.add_argument("--max-error", type=float, default=0.03, help="of the certificate (0.03)")
    options = parser.parse_args(arguments)
    if not ARCHIVE.is_file() or shutil.which("bogofilter") is None:
        print("the sample is not beside the project, or bogofilter is not installed: nothing to measure")
        return 0
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as place:
        mails = read_sample(Path(place))
        for seed in range(options.seeds):
            rows += measure(mails, Path(place) / str(seed), seed, options.max_error)
            print(f"seed {seed} done", file=sys.stderr, flush=True)
    print(format_table(["seed", "filter", "CPU ms/message", "decided", "wrong", "ham called spam", "spam called ham"], rows))
    return 0


def measure(mails: Sequence[LabelledMail], folder: Path, seed: int, max_error: float) -> list[list[str]]:
    """Train both on a split, and decide its test mail."""
    plan = TrainingSettings(seed=seed, own_domains=COLLECTORS, without=ARTEFACTS, max_error=max_error)
    trained = train_model(mails, folder / "model", plan)
    by_split = {
        name: [mail for mail, its in zip(mails, trained.splits, strict=True) if its == name] for name in ("train", "test")
    }
    with Model.open(trained.folder) as model:
        evaluate(model, by_split["test"][:50])
        began = time.thread_time()
        ours = evaluate(model, by_split["test"])
        ours_s = time.thread_time() - began
    theirs, theirs_s = _bogofilter(by_split["train"], by_split["test"], folder / "bogofilter")
    return [_row(seed, "cascade", ours, ours_s), _row(seed, "bogofilter", theirs, theirs_s)]


def _bogofilter(train: Sequence[LabelledMail], test: Sequence[LabelledMail], folder: Path) -> tuple[Evaluation, float]:
    for label, option in (("spam", "-s"), ("ham", "-n")):
        _run([option, "-B", *_write(folder / label, [mail for mail in train if mail.label == label])], folder)
    files = _write(folder / "test", test)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = _run(["-T", "-B", *files], folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    counts: dict[tuple[str, str], int] = {}
    for line, mail in zip(shown.splitlines(), test, strict=True):
        key = (mail.label, _STATUS[line.split()[-2]])
        counts[key] = counts.get(key, 0) + 1
    return Evaluation(counts, 0.0, 0), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write(folder: Path, mails: Sequence[LabelledMail]) -> list[str]:
    folder.mkdir(parents=True)
    paths = [folder / f"{number:05}" for number in range(len(mails))]
    for path, mail in zip(paths, mails, strict=True):
        path.write_bytes(mail.raw)
    return [str(path) for path in paths]


def _run(arguments: Sequence[str], folder: Path) -> str:
    command = ["bogofilter", "-d", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _row(seed: int, name: str, found: Evaluation, seconds: float) -> list[str]:
    return [
        str(seed),
        name,
        f"{1000 * seconds / found.messages:.2f}",
        f"{found.decided / found.messages:.1%}",
        f"{found.wrong / max(found.decided, 1):.2%}",
        f"{found.count('ham', 'spam')} of {found.count('ham')}",
        f"{found.count('spam', 'ham')} of {found.count('spam')}",
    ]


if __name__ == "__main__":
    sys.exit(main())
