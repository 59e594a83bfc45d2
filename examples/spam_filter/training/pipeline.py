"""Training: labelled mail in, a model's folder out.

Read, find families, split, learn the stores, extract, measure costs, search, choose with a certificate, export, put in place.
"""

from __future__ import annotations

import math
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from emsco_runtime import write_model_index
from spam_filter.errors import CorpusError, ModelError
from spam_filter.evidence.names import dns_feature_names
from spam_filter.extractors.store_scores import SENDER_SCORES
from spam_filter.features import GROUPS, feature_names
from spam_filter.message.mail import Mail
from spam_filter.model import BUNDLE, COSTS, STORES, bundle_version
from spam_filter.training.attacks import make_attacked_copies
from spam_filter.training.corpus import LABELS, LabelledMail
from spam_filter.training.costs import measure_costs
from spam_filter.training.extraction import extract
from spam_filter.training.lookups import LookupPlan, add_lookups, count_queries, price_lookups
from spam_filter.training.seen_mail import write_seen
from spam_filter.training.splitting import SplitBy, SplitName, find_families, split_mail
from spam_filter.training.tables import FAMILY_COLUMN, LABEL_COLUMN, write_tables

if TYPE_CHECKING:
    from emsco_train import Front, RunExport
    from emsco_train.designs.selection import Requirements

__all__ = ["Division", "TrainedModel", "TrainingSettings", "divide_mail", "install_model", "train_model"]

_MOST_COPIES: Final = 10
_MOST_STAGES: Final = 60
# Train and validation mail together fit and measure designs, each message by models that have not seen it.
_FOLDS: Final = 4
_EXPECTED: Final[Mapping[str, tuple[Callable[[float], bool], str]]] = {
    "ham_threshold": (lambda value: 0 < value <= 1, "a confidence above 0 and up to 1, such as 0.95"),
    "spam_threshold": (lambda value: 0 < value <= 1, "a confidence above 0 and up to 1, such as 0.9985"),
    "max_error": (lambda value: 0 < value < 1, "a share above 0 and below 1, such as 0.03"),
    "confidence": (lambda value: 0.5 <= value < 1, "a number of at least 0.5 and below 1, such as 0.95"),
    "min_coverage": (lambda value: 0 <= value <= 1, "a share from 0 to 1, such as 0.8"),
    "max_cost_share": (lambda value: 0 < value < math.inf, "a share above 0, such as 0.37, or 1 for no limit"),
    "attacked_share": (lambda value: 0 <= value <= _MOST_COPIES, f"0 to {_MOST_COPIES} attacked copies per spam message"),
    "max_stages": (lambda value: 1 <= value <= _MOST_STAGES, f"1 to {_MOST_STAGES} stages"),
    "population": (lambda value: value >= 2, "at least 2 designs"),
    "generations": (lambda value: value >= 1, "at least 1 generation"),
    "cost_messages": (lambda value: value >= 1, "at least 1 message to measure costs on"),
    "seed": (lambda value: value >= 0, "a whole number, 0 or more"),
}
"""Whether a setting is right, and what is expected of it."""
_EVIDENCE: Final = GROUPS["sampled_words"]
"""What every message is asked first: no verdict comes from the header alone, all of which a sender can choose."""


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How to train.

    Parameters
    ----------
    ham_threshold, spam_threshold
        Confidence needed to call a message ham, or spam. Spam needs more: a lost message is worse than one to look at. Attacked
        copies make spam frequent in training, so on honest mail the confidence in ham is too low rather than too high.
    max_error, confidence
        The certificate: of the messages that are decided, at most this share is wrong, at this confidence.
    min_coverage, max_cost_share
        Share of the messages that are decided, at least, and mean cost of a message, at most, as a share of what all features
        cost; both on validation. Of the designs within these that decide nearly as much as the widest, and can be certified, the
        one that is wrong least is chosen: the widest itself is the luckiest, and other mail then shows it.
    split
        "families" or "time".
    own_domains
        Domains of those who received the mail; they teach nothing.
    without
        Features to leave out.
    attacked_share
        Attacked copies per spam message that are added to the train and validation mail; 0 for none. Test mail and certify mail
        stay as they were sent, so figures and certificate are those of honest mail.
    max_stages, population, generations
        Of the search.
    cost_messages
        Messages on which costs are measured.
    lookups
        Where to ask for features from the network; None for a model without them. A model that can tell who sent a message takes
        a reputation for nothing unless its sender is authenticated: what is known of a bare name is left out.
    seed
        Of splits, costs and search.
    """

    ham_threshold: float = 0.95
    spam_threshold: float = 0.9985
    max_error: float = 0.03
    confidence: float = 0.95
    min_coverage: float = 0.0
    max_cost_share: float = 0.37
    split: SplitBy = "families"
    own_domains: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    attacked_share: float = 1.0
    max_stages: int = 4
    population: int = 120
    generations: int = 60
    cost_messages: int = 200
    lookups: LookupPlan | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `ModelError` for what no training could use: after hours of one it would be too late."""
        for name, (is_right, expected) in _EXPECTED.items():
            value = getattr(self, name)
            # Not a number is in no range.
            if not is_right(value):
                raise ModelError(f"{name} is {value!r}: expected {expected}")
        names = _names(self)
        unknown = sorted(self.without - set(names))
        if unknown:
            raise ModelError(f"{unknown[0]!r} is not a feature, so it cannot be left out (features: {', '.join(names)})")

    @property
    def left_out(self) -> frozenset[str]:
        """The features that are not learned from."""
        return self.without if self.lookups is None else self.without.union(SENDER_SCORES)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """What training made.

    Parameters
    ----------
    folder
        The model.
    exported
        The design, its figures and its certificate.
    splits
        The split of each message, in the order given.
    """

    folder: Path
    exported: RunExport
    splits: tuple[SplitName, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """What each message is for, in the order given.

    Parameters
    ----------
    families
        A number for each message; near-duplicates have the same.
    splits
        The split of each message.
    """

    families: tuple[int, ...]
    splits: tuple[SplitName, ...]


def divide_mail(mails: Sequence[LabelledMail], plan: TrainingSettings) -> Division:
    """Find near-duplicates, and divide the mail as training does.

    Parameters
    ----------
    mails
        The corpus.
    plan
        How to split.

    Raises
    ------
    CorpusError
        If the mail is too little, or of one kind.
    """
    counts = _count_labels(mails)
    if min(counts.values()) == 0:
        raise CorpusError(f"there are {counts['ham']} ham and {counts['spam']} spam messages: expected both kinds")
    families = find_families([Mail.parse(mail.raw) for mail in mails])
    return Division(tuple(families), tuple(split_mail(mails, families, plan.split, plan.seed)))


def _count_labels(mails: Sequence[LabelledMail]) -> dict[str, int]:
    return {label: sum(mail.label == label for mail in mails) for label in LABELS}


def train_model(
    mails: Sequence[LabelledMail],
    out: Path,
    plan: TrainingSettings,
    *,
    force: bool = False,
    keep: Path | None = None,
    division: Division | None = None,
    on_step: Callable[[str], object] = lambda _: None,
) -> TrainedModel:
    """Train a model and put it in place.

    Parameters
    ----------
    mails
        The corpus.
    out
        The model's folder.
    plan
        How.
    force
        Replace a model that is there; it stays in place until the new one is complete.
    keep
        A new folder for the tables and the run, for `emsco-report`. None: they are thrown away.
    division
        What `divide_mail` says of this mail and plan, where that was asked before.
    on_step
        Called with a line before each step.

    Raises
    ------
    EmscoError
        If the mail is too little, or nothing can be certified.
    """
    _check(out, keep, force=force)
    # Where a link leads, and what "." is called: that folder is renamed.
    target = Path(os.path.realpath(out))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
        work = keep or Path(place) / "work"
        work.mkdir(parents=True)
        new = Path(place) / "model"
        new.mkdir()
        trained = _train(mails, division or divide_mail(mails, plan), new, work, plan, on_step)
        write_seen(new, (mail.raw for mail in mails))
        write_model_index(new)
        install_model(new, target, Path(place) / "old")
    return TrainedModel(target, trained.exported, trained.splits)


def _check(out: Path, keep: Path | None, *, force: bool) -> None:
    if out.exists() and not force:
        raise ModelError(f"{out} already exists: choose another folder, or use --force to replace it")
    if out.exists() and not (out / BUNDLE).is_dir():
        raise ModelError(f"{out} exists and is not a model: choose another folder")
    if keep is not None and keep.exists():
        raise ModelError(f"{keep} already exists: choose another folder to keep the run in")


def _names(plan: TrainingSettings) -> tuple[str, ...]:
    """Return the features to learn from."""
    return feature_names() if plan.lookups is None else (*feature_names(), *dns_feature_names())


def _train(
    mails: Sequence[LabelledMail],
    division: Division,
    new: Path,
    work: Path,
    plan: TrainingSettings,
    on_step: Callable[[str], object],
) -> TrainedModel:
    counts, groups, splits = _count_labels(mails), division.families, division.splits
    detail = f"{counts['ham']} ham and {counts['spam']} spam messages, {len(set(groups))} of them different"
    on_step(f"mail         {detail}; near-duplicates stay together")
    learned = [place for place, split in enumerate(splits) if split in ("train", "validation")]
    copies = make_attacked_copies(mails, learned, plan.attacked_share, plan.seed)
    extracted = extract(mails, splits, groups, new / STORES, copies=copies, own_domains=plan.own_domains)
    # Each copy follows its original, into the same split and the same family.
    everything, rows = [*mails, *(copy.mail for copy in copies)], [*extracted.rows, *extracted.copies]
    if plan.lookups is not None:
        rows = add_lookups([mail.raw for mail in everything], rows, plan.lookups)
    originals = [copy.original for copy in copies]
    tables = write_tables(
        work,
        everything,
        [*splits, *(splits[place] for place in originals)],
        [*groups, *(groups[place] for place in originals)],
        rows,
        _names(plan),
    )
    if copies:
        on_step(f"attacks      {len(copies)} attacked copies of spam added to the train and validation mail, none to the rest")
    count = len(_names(plan)) - len(plan.left_out)
    on_step(f"features     {count} of each message; scores of the stores are cross-fitted on the mail that they learn from")
    raws = [mail.raw for mail, split in zip(mails, splits, strict=True) if split == "train"]
    sample = random.Random(plan.seed).sample(raws, min(plan.cost_messages, len(raws)))
    profile = measure_costs(new / STORES, sample, seed=plan.seed)
    profile.write(new / COSTS)
    together = "" if profile.together is None else f"; all for one message: {profile.together.value * 1e6:.0f} us of CPU time"
    on_step(f"costs        measured on {len(sample)} messages{together}")
    if plan.lookups is not None:
        queries = count_queries(sample, plan.lookups)
        costs = price_lookups(profile.cost_model(), queries, plan.lookups.query_ms)
        (new / COSTS).write_text(costs.to_toml(), encoding="utf-8")
        plan.lookups.settings.write(new)
        on_step(f"lookups      {sum(queries.values()):.1f} questions for each message, {plan.lookups.query_ms:g} ms each")
    exported = _search_and_export(tables, new, work, plan, extracted.stores_id)
    return TrainedModel(new, exported, splits)


def _search_and_export(
    tables: Mapping[str | None, str], new: Path, work: Path, plan: TrainingSettings, stores_id: str
) -> RunExport:
    """Search for designs, choose one with a certificate, and write its bundle."""
    # Here, not above: the commands must answer --help at once.
    from emsco_train import Progress, Settings, TableWarning  # noqa: PLC0415
    from emsco_train.guarantee.choice import SelectionCriteria  # noqa: PLC0415
    from emsco_train.guarantee.promise import Promise  # noqa: PLC0415
    from emsco_train.runs.exporting import export_open_run  # noqa: PLC0415
    from emsco_train.runs.opening import open_run  # noqa: PLC0415
    from emsco_train.runs.preparation import prepare  # noqa: PLC0415
    from emsco_train.runs.request import TrainRequest  # noqa: PLC0415
    from emsco_train.runs.source import Columns  # noqa: PLC0415
    from emsco_train.runs.training import train  # noqa: PLC0415

    request = TrainRequest(
        paths=tables,
        columns=Columns(label=LABEL_COLUMN, group=FAMILY_COLUMN, drop=tuple(sorted(plan.left_out))),
        folds=_FOLDS,
        thresholds=({"ham": plan.ham_threshold, "spam": plan.spam_threshold},),
        costs=str(new / COSTS),
        method="evolve",
        settings=Settings(
            max_stages=plan.max_stages,
            population=plan.population,
            generations=plan.generations,
            # What one lookup gives is used together: fewer designs to be lucky with, and the search is quicker.
            units="groups",
        ),
        pinned=tuple(name for name in _EVIDENCE if name not in plan.left_out),
        seed=plan.seed,
    )
    with warnings.catch_warnings():
        # A feature that is the same in all of this mail is left out, and no model changes.
        warnings.simplefilter("ignore", TableWarning)
        prepared = prepare(request)
    train(prepared, work / "run", watch=lambda what: Progress(sys.stderr, what=what))
    opened = open_run(work / "run")
    promise = Promise(max_error=plan.max_error, confidence=plan.confidence)
    # The thresholds stay as they were given: a lower one for spam would lose mail for the sake of coverage.
    criteria = SelectionCriteria(_make_constraints(opened.front, plan), promise=promise, tune_thresholds=False)
    return export_open_run(opened, new / BUNDLE, criteria, name="spam-filter", version=bundle_version(stores_id), force=False)


def _make_constraints(front: Front, plan: TrainingSettings) -> Requirements:
    """Return what is wanted of the design, by validation figures alone."""
    from emsco_train.designs.selection import Requirements  # noqa: PLC0415 - as above

    cap = plan.max_cost_share * front.full_cost
    # To guarantee an error of 3 %, aim at 1 %.
    near_widest = front.coverage_near_widest(max_cost=cap, min_accuracy=1 - plan.max_error / 3)
    floor = max(plan.min_coverage, near_widest)
    # By the figures as they are, which the floor comes from; what the design promises, the certificate shows.
    return Requirements(min_coverage=floor, max_cost=cap, by="accuracy", sure=None)


def install_model(new: Path, out: Path, old: Path) -> None:
    """Rename the new folder to its name; a service that has the old one open keeps using it until it reloads.

    It may be read by whom the old one may be read by.
    """
    try:
        if out.exists():
            shutil.copymode(out, new)
            out.rename(old)
        new.rename(out)
    except BaseException:
        # An error, or a signal between the two: the caller is about to remove the old one where it is now.
        if old.exists() and not out.exists():
            old.rename(out)
        raise
