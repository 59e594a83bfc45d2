"""The spam filter under attack, on the SpamAssassin sample: what is called ham, on many splits, each with its own training.

Trains a model per split as the command does, decides its test mail, and then its test spam once more after each of several
attacks. What attackers borrow comes from test ham, and their code is not that of the attacked copies in the training. `--share 0`
measures models that were trained without copies.

Every split is a line in a file, written when it is done: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from _spam_attacks import ATTACKS, LIMITS, Borrowed
from _spam_sample import ARCHIVE, ARTEFACTS, COLLECTORS, read_sample
from spam_filter.message.mail import Mail
from spam_filter.model import Model
from spam_filter.service.classification import classify
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.pipeline import TrainingSettings, train_model

from emsco_runtime.cli.console import format_table
from emsco_train.errors import CertificationError, SelectionError

# Wanted of the clean test mail, all splits together.
DECIDED, WRONG, HAM_LOST, HARD_HAM_LOST, COST = 0.91, 0.005, 0.003, 0.025, 0.33


@dataclass(frozen=True, slots=True)
class SplitFigures:
    """Counts of one split.

    Parameters
    ----------
    seed
        Of split and training.
    refused
        Whether nothing could be certified; the counts are then empty.
    messages, decided, wrong, ham, ham_as_spam, hard_ham, hard_ham_as_spam, spam, spam_as_ham
        Of clean test mail.
    cost
        Mean cost as charged, over that of all features.
    attacks
        Attack -> of the test spam, how many were called ham, and how many spam.
    seconds
        What it took.
    """

    seed: int
    refused: bool
    messages: int = 0
    decided: int = 0
    wrong: int = 0
    ham: int = 0
    ham_as_spam: int = 0
    hard_ham: int = 0
    hard_ham_as_spam: int = 0
    spam: int = 0
    spam_as_ham: int = 0
    cost: float = 0.0
    attacks: dict[str, tuple[int, int]] | None = None
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 0 if all that is wanted was met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="splits (10)")
    parser.add_argument("--first-seed", type=int, default=140, help="of the first of them (140)")
    parser.add_argument("--share", type=float, default=None, help="attacked copies per spam message (as the command has it)")
    parser.add_argument("--out", type=Path, default=None, help="file of figures (build/bench-attacks-SHARE.jsonl)")
    options = parser.parse_args(arguments)
    if not ARCHIVE.is_file():
        print(f"{ARCHIVE.name} is not beside the project: nothing to measure")
        return 0
    share = TrainingSettings().attacked_share if options.share is None else options.share
    out = options.out or Path(f"build/bench-attacks-{share:g}.jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    found = _read(out)
    with tempfile.TemporaryDirectory() as place:
        mails = read_sample(Path(place))
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            if seed not in found:
                found[seed] = measure(mails, Path(place) / str(seed), seed, share)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(found[seed])) + "\n")
                print(found[seed], file=sys.stderr, flush=True)
    wanted = [found[seed] for seed in range(options.first_seed, options.first_seed + options.seeds)]
    return _report(wanted)


def _read(path: Path) -> dict[int, SplitFigures]:
    if not path.is_file():
        return {}
    lines = [SplitFigures(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {figures.seed: figures for figures in lines}


def measure(mails: Sequence[LabelledMail], folder: Path, seed: int, share: float) -> SplitFigures:
    """Train on a split, decide its test mail, then attack its spam."""
    began = time.monotonic()
    plan = TrainingSettings(seed=seed, own_domains=COLLECTORS, without=ARTEFACTS, attacked_share=share)
    try:
        trained = train_model(mails, folder, plan)
    except (CertificationError, SelectionError) as error:
        print(f"{seed}: REFUSED: {error}", file=sys.stderr, flush=True)
        return SplitFigures(seed, refused=True)
    tests = [mail for mail, its in zip(mails, trained.splits, strict=True) if its == "test"]
    ham, spam = ([mail for mail in tests if mail.label == label] for label in ("ham", "spam"))
    hard = [mail for mail in ham if mail.source.startswith("hard-ham")]
    with Model.open(folder) as model:

        def decide(raws: Sequence[bytes]) -> list[str | None]:
            found = [classify(model, raw, None, None).status for raw in raws]
            return [status if status in ("ham", "spam") else None for status in found]

        lost, missed = (decide([mail.raw for mail in kind]) for kind in (ham, spam))
        borrowed = Borrowed.of([mail.raw for mail in ham])
        attacks: dict[str, tuple[int, int]] = {}
        for name, attack in ATTACKS.items():
            rng = random.Random(f"{name} {seed}")  # noqa: S311 - mail to measure with
            labels = decide([attack(mail.raw, borrowed, rng) for mail in spam])
            attacks[name] = (labels.count("ham"), labels.count("spam"))
        cost = sum(model.cascade.decide(Mail.parse(mail.raw)).cost for mail in tests) / len(tests)
    ham_as_spam, spam_as_ham = lost.count("spam"), missed.count("ham")
    return SplitFigures(
        seed=seed,
        refused=False,
        messages=len(tests),
        decided=sum(label is not None for label in [*lost, *missed]),
        wrong=ham_as_spam + spam_as_ham,
        ham=len(ham),
        ham_as_spam=ham_as_spam,
        hard_ham=len(hard),
        hard_ham_as_spam=sum(label == "spam" for label, mail in zip(lost, ham, strict=True) if mail in hard),
        spam=len(spam),
        spam_as_ham=spam_as_ham,
        cost=cost / trained.exported.opened.problem.full_cost,
        attacks=attacks,
        seconds=round(time.monotonic() - began, 1),
    )


def _report(found: Sequence[SplitFigures]) -> int:
    refused = [figures.seed for figures in found if figures.refused]
    kept = [figures for figures in found if not figures.refused]
    if not kept:
        print("no split could be certified")
        return 1
    rows, met = [], not refused
    for name, count, whole, limit, at_least in (
        ("decided", "decided", "messages", DECIDED, True),
        ("wrong, of the decided", "wrong", "decided", WRONG, False),
        ("ham called spam", "ham_as_spam", "ham", HAM_LOST, False),
        ("hard ham called spam", "hard_ham_as_spam", "hard_ham", HARD_HAM_LOST, False),
        ("spam called ham", "spam_as_ham", "spam", 1.0, False),
    ):
        counts, wholes = [getattr(one, count) for one in kept], [getattr(one, whole) for one in kept]
        share = sum(counts) / sum(wholes)
        met &= share >= limit if at_least else share <= limit
        rows.append(_row(name, counts, wholes, limit))
    costs = [one.cost for one in kept]
    met &= sum(costs) / len(costs) <= COST
    rows.append(["cost", f"{sum(costs) / len(costs):.1%}", "", f"{min(costs):.1%} to {max(costs):.1%}", f"{COST:.0%}"])
    print(format_table(["clean test mail", "share", "count", "each split", "wanted"], rows))
    rows = []
    for name, limit in LIMITS.items():
        counts, wholes = [(one.attacks or {})[name][0] for one in kept], [one.spam for one in kept]
        met &= sum(counts) <= limit * sum(wholes)
        spam = sum((one.attacks or {})[name][1] for one in kept) / sum(wholes)
        rows.append([*_row(name, counts, wholes, limit), f"{spam:.1%}"])
    print()
    print(format_table(["attack", "called ham", "count", "each split", "at most", "called spam"], rows))
    print(f"\nnothing could be certified on: {', '.join(map(str, refused)) or 'no split'}")
    return 0 if met else 1


def _row(name: str, counts: Sequence[int], wholes: Sequence[int], limit: float) -> list[str]:
    shares = [count / whole for count, whole in zip(counts, wholes, strict=True)]
    whole = f"{sum(counts)} of {sum(wholes)}"
    return [name, f"{sum(counts) / sum(wholes):.2%}", whole, f"{min(shares):.1%} to {max(shares):.1%}", f"{limit:.1%}"]


if __name__ == "__main__":
    sys.exit(main())
