"""`retrain_model`: a new model takes the place of the old one only if it is certified, and no worse on mail new to both.

The new model is trained as usual, in a folder of its own. Its test mail, without what the old model was made from, is decided by
both. The old one stays if the new one is wrong more often, calls more ham spam, or decides noticeably less.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from emsco_runtime import EmscoError
from spam_filter.evaluation import Evaluation, evaluate
from spam_filter.model import Model
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.pipeline import TrainingSettings, divide_mail, install_model, train_model
from spam_filter.training.seen_mail import hash_message, read_seen
from spam_filter.training.splitting import SHARES

__all__ = ["Retraining", "find_regression", "retrain_model"]

_FEWEST: Final = 20
_COVERAGE_MARGIN: Final = 0.02


@dataclass(frozen=True, slots=True)
class Retraining:
    """What became of it.

    Parameters
    ----------
    objection
        Why the old model stays; empty if the new one is in place.
    old, new
        What both made of the mail that they were compared on; None if it did not come to that.
    """

    objection: str
    old: Evaluation | None = None
    new: Evaluation | None = None

    @property
    def replaced(self) -> bool:
        """Return whether the new model is in place."""
        return not self.objection


def retrain_model(
    mails: Sequence[LabelledMail], folder: Path, plan: TrainingSettings, *, on_step: Callable[[str], object] = lambda _: None
) -> Retraining:
    """Train a model, and replace the old one with it if nothing speaks against that.

    Parameters
    ----------
    mails
        The corpus, new mail included.
    folder
        The model in place; a service that has it open takes up the new one at a reload.
    plan
        How to train.
    on_step
        As in `train_model`.

    Raises
    ------
    EmscoError
        If the old model cannot be opened.
    """
    seen = read_seen(folder)
    new_mails = sum(hash_message(mail.raw) not in seen for mail in mails)
    if new_mails < _FEWEST:
        return Retraining(
            f"{new_mails} messages to compare on that the old model has not seen: expected at least {_FEWEST}, add new mail"
        )
    dns = "system" if plan.lookups is None else plan.lookups.dns
    # As in `train_model`.
    target = Path(os.path.realpath(folder))
    with Model.open(folder, dns=dns) as old, tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
        try:
            division = divide_mail(mails, plan)
            tests = [mail for mail, split in zip(mails, division.splits, strict=True) if split == "test"]
            unseen = [mail for mail in tests if hash_message(mail.raw) not in seen]
            if len(unseen) < _FEWEST:
                return Retraining(_too_few_tests(len(unseen), new_mails, plan))
            trained = train_model(mails, Path(place) / "new", plan, division=division, on_step=on_step)
        except EmscoError as error:
            return Retraining(f"no new model: {error}")
        with Model.open(trained.folder, dns=dns) as new:
            before, after = evaluate(old, unseen), evaluate(new, unseen)
        objection = find_regression(before, after)
        if not objection:
            install_model(trained.folder, target, Path(place) / "old")
    return Retraining(objection, before, after)


def find_regression(old: Evaluation, new: Evaluation) -> str:
    """Return in what the new model is worse than the old one, and so must not replace it; an empty string if in nothing."""
    if new.wrong > old.wrong:
        return f"the new model is wrong about {new.wrong} of {new.messages} messages, the old one about {old.wrong}"
    lost, lost_before = new.count("ham", "spam"), old.count("ham", "spam")
    if lost > lost_before:
        return f"the new model calls {lost} ham messages spam, the old one {lost_before}"
    if new.decided < old.decided - _COVERAGE_MARGIN * new.messages:
        return f"the new model decides {new.decided} of {new.messages} messages, the old one {old.decided}"
    return ""


def _too_few_tests(messages: int, new_mails: int, plan: TrainingSettings) -> str:
    shares = dict(SHARES)
    detail = f"{new_mails} messages are new, and {messages} of them would be test mail, which both models are compared on"
    # Half as many again, since the draw may be unlucky.
    remedy = f"add new mail, some {math.ceil(1.5 * _FEWEST / shares['test'])} messages in all"
    if plan.split == "time":
        remedy = f"add new mail, of which the latest {shares['certify']:.1%} of all certifies, or split by families"
    return f"{detail}: expected at least {_FEWEST}, so {remedy}"
