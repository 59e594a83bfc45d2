"""DNS questions of the spam filter on the SpamAssassin sample, with **synthetic** zones on a real name server on loopback.

The sample has no live DNS: SPF records, policies and block lists are made up from its labels, at the rates that are printed. So
error and coverage say nothing of real lists. What is measured is how many questions a cascade asks compared with asking
all features for every message, at the same decisions; and what happens when the name server is silent. One question costs 20 ms
in training.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from _spam_sample import ARCHIVE, ARTEFACTS, COLLECTORS, read_sample
from spam_filter.evidence.names import dns_feature_names
from spam_filter.features import feature_names
from spam_filter.load.lookup_counts import count_lookups, decide_without_answers
from spam_filter.synthetic.name_server import NSD, nsd
from spam_filter.synthetic.zones import CLIENT_LIST, DOMAIN_LIST, ZoneRates, make_zone
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.lookups import LookupPlan
from spam_filter.training.pipeline import TrainingSettings, train_model
from spam_filter.training.tables import LABEL_COLUMN

from emsco_runtime.cli.console import format_table
from emsco_runtime.manifest import Expected
from emsco_train import export_design
from emsco_train.errors import CertificationError, SelectionError

# Wanted: questions of everything over those of the cascade.
TIMES = 3.0
DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one split.

    Parameters
    ----------
    seed
        Of the split.
    messages, decided, wrong
        Counts of test mail.
    one_stage_decided, one_stage_wrong
        Of one model on all features, lookups included, with the thresholds that training was given.
    cascade, everything
        Questions for each message.
    cost_share
        Mean cost of the cascade over that of everything.
    dead_degraded, dead_ham, dead_error, dead_longest_s
        With a silent name server: messages marked degraded, those of them called ham, those undecided at the deadline, and the
        longest time for one.
    train_s
        Seconds of training.
    """

    seed: int
    messages: int
    decided: int
    wrong: int
    one_stage_decided: int
    one_stage_wrong: int
    cascade: float
    everything: float
    cost_share: float
    dead_degraded: int
    dead_ham: int
    dead_error: int
    dead_longest_s: float
    train_s: float

    def passes(self) -> bool:
        """Return whether all that is wanted was met."""
        return self.everything >= TIMES * self.cascade and self.dead_ham == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 0 if every split meets what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="splits by families (3)")
    parser.add_argument("--first-seed", type=int, default=0, help="of the first of them (0)")
    parser.add_argument("--messages", type=int, default=0, help="a random part of the sample, to try it (all)")
    parser.add_argument("--generations", type=int, default=60, help="of the search (%(default)s)")
    parser.add_argument("--out", default="build/bench-dns-lookups.json", help="where the figures go")
    options = parser.parse_args(arguments)
    if not ARCHIVE.is_file() or NSD is None:
        print(f"nothing to measure: {ARCHIVE.name} is not beside the project, or nsd is not installed")
        return 0
    print(f"synthetic zones: {ZoneRates()}")
    found: list[Figures] = []
    with tempfile.TemporaryDirectory() as place:
        mails = read_sample(Path(place))
        mails = mails[:: max(1, len(mails) // options.messages)] if options.messages else mails
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            folder = Path(place) / str(seed)
            folder.mkdir()
            try:
                found.append(measure(mails, folder, seed, options.generations))
            except (CertificationError, SelectionError) as error:
                print(f"seed {seed}: REFUSED: {error}", file=sys.stderr, flush=True)
                continue
            print(f"seed {seed}: {asdict(found[-1])}", file=sys.stderr, flush=True)
    print(_table(found) if found else "no split could be certified")
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")
    return 0 if len(found) == options.seeds and all(one.passes() for one in found) else 1


def measure(mails: Sequence[LabelledMail], folder: Path, seed: int, generations: int) -> Figures:
    """Train on a split and decide its test mail, with and without answers."""
    with nsd(folder, make_zone(mails, seed=seed)) as server:
        plan = TrainingSettings(
            seed=seed,
            own_domains=COLLECTORS,
            without=ARTEFACTS,
            generations=generations,
            # Nearly all of the cost is lookups: so this limits the questions.
            max_cost_share=0.12,
            lookups=LookupPlan(server.where, (CLIENT_LIST,), (DOMAIN_LIST,)),
        )
        began = time.perf_counter()
        trained = train_model(mails, folder / "model", plan, keep=folder / "work")
        train_s = time.perf_counter() - began
        tests = [mail for mail, split in zip(mails, trained.splits, strict=True) if split == "test"]
        raws = [mail.raw for mail in tests]
        counts = count_lookups(folder / "model", server.where, raws)
    made = [(one.label, mail.label) for one, mail in zip(counts.decisions, tests, strict=True) if one.label is not None]
    one_stage = _fit_one_stage(folder, plan)
    dead = decide_without_answers(folder / "model", raws, deadline_s=DEADLINE_S)
    assert len(dead.verdicts) == len(tests)
    return Figures(
        seed=seed,
        messages=len(tests),
        decided=len(made),
        wrong=sum(label != truth for label, truth in made),
        one_stage_decided=one_stage.accepted,
        one_stage_wrong=one_stage.accepted - one_stage.right,
        cascade=counts.cascade / len(tests),
        everything=counts.everything / len(tests),
        cost_share=sum(one.cost for one in counts.decisions) / len(tests) / trained.exported.opened.problem.full_cost,
        dead_degraded=sum(one.degraded for one in dead.verdicts),
        dead_ham=sum(one.degraded and one.status == "ham" for one in dead.verdicts),
        dead_error=sum(one.status == "error" for one in dead.verdicts),
        dead_longest_s=max(dead.seconds),
        train_s=train_s,
    )


def _fit_one_stage(folder: Path, plan: TrainingSettings) -> Expected:
    """Return what a single model on all features does with the test mail."""
    train, test = (pd.read_csv(folder / "work" / f"{name}.csv") for name in ("train", "test"))
    learned = [name for name in (*feature_names(), *dns_feature_names()) if name not in plan.left_out]
    names = [name for name in learned if train[name].min() < train[name].max()]
    return export_design(
        folder / "one-stage",
        stages=[names],
        X=train[names],
        y=train[LABEL_COLUMN],
        held_out=(test[names], test[LABEL_COLUMN]),
        threshold={"ham": plan.ham_threshold, "spam": plan.spam_threshold},
    ).expected


def _table(found: Sequence[Figures]) -> str:
    header = [
        "seed",
        "decided",
        "wrong",
        "one stage decided",
        "wrong",
        "questions",
        "everything",
        "times fewer",
        "cost",
        "silent: degraded",
        "ham",
        "error",
        "longest s",
    ]
    rows = [
        [
            str(one.seed),
            f"{one.decided / one.messages:.1%}",
            f"{one.wrong / max(one.decided, 1):.2%}",
            f"{one.one_stage_decided / one.messages:.1%}",
            f"{one.one_stage_wrong / max(one.one_stage_decided, 1):.2%}",
            f"{one.cascade:.2f}",
            f"{one.everything:.2f}",
            f"{one.everything / max(one.cascade, 1e-9):.1f}",
            f"{one.cost_share:.1%}",
            f"{one.dead_degraded} of {one.messages}",
            str(one.dead_ham),
            str(one.dead_error),
            f"{one.dead_longest_s:.2f}",
        ]
        for one in found
    ]
    return format_table(header, rows)


if __name__ == "__main__":
    sys.exit(main())
