"""From labelled mail to rows of features, honestly.

What the stores say of a message must not come from the message itself: a word that was seen once, in this very spam, would look
like a sure sign, and the stage models would trust the stores far more than new mail deserves. So the messages that are learned
from, those of train and validation, are cross-fitted: their families are dealt into ten folds, and the features of a fold come
from stores that were learned from the other nine. All other messages, and later the live ones, get the stores that were learned
from all of these.

An attacked copy of a message goes with its original: the same fold, so the same stores, and nothing is learned from it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from emsco_runtime import Acquirers
from spam_filter.features import acquirers
from spam_filter.learned.clue_counts import ClueCounts
from spam_filter.learned.clues import all_clues, footer_clues
from spam_filter.learned.stores import Stores, write_stores
from spam_filter.message.mail import Mail
from spam_filter.training.attacks import AttackedCopy
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.splitting import SplitName

__all__ = ["FOLDS", "ExtractedRows", "Row", "extract", "extract_row"]

Row: TypeAlias = Mapping[str, float | bool]
FOLDS: Final = 10
_LEARNED: Final = ("train", "validation")


@dataclass(frozen=True, slots=True)
class ExtractedRows:
    """Features of a corpus.

    Parameters
    ----------
    rows
        Feature -> value, for each message in order.
    copies
        The same for each attacked copy.
    stores_id
        Of the stores that were written.
    """

    rows: tuple[Row, ...]
    copies: tuple[Row, ...]
    stores_id: str


def extract_row(registry: Acquirers, mail: Mail) -> dict[str, float | bool]:
    """Return every feature of a message."""
    row: dict[str, float | bool] = {}
    for entry in registry.entries:
        value = entry.function(mail)
        row.update(value if entry.shape == "features" else {entry.names[0]: value})
    return row


def extract(
    mails: Sequence[LabelledMail],
    splits: Sequence[SplitName],
    families: Sequence[int],
    stores_path: Path,
    *,
    copies: Sequence[AttackedCopy] = (),
    own_domains: AbstractSet[str] = frozenset(),
    on_progress: Callable[[int], object] = lambda _: None,
) -> ExtractedRows:
    """Learn the stores from the train and validation messages, write them, and return the features of all messages.

    Parameters
    ----------
    mails, splits, families
        The corpus, with a split and a family for each message.
    stores_path
        Where the stores go.
    copies
        Attacked copies of some of the messages.
    own_domains
        As in `all_clues`.
    on_progress
        Called with the number of messages and copies done so far.
    """
    from emsco_train import cross_fit, deal_folds  # noqa: PLC0415 - training only

    groups = [family if split in _LEARNED else None for split, family in zip(splits, families, strict=True)]
    folds = deal_folds(groups, FOLDS)
    parts = {fold: ClueCounts() for fold in range(FOLDS)}
    parsed = [Mail.parse(one.raw) for one in mails]
    for mail, one, fold in zip(parsed, mails, folds, strict=True):
        if fold is not None:
            parts[fold].learn(mail, one.label, own_domains)
    whole = ClueCounts.union(parts.values())
    stores_id = write_stores(stores_path, whole)
    groups += [groups[copy.original] for copy in copies]
    folds += [folds[copy.original] for copy in copies]
    parsed += [Mail.parse(copy.mail.raw) for copy in copies]
    done = 0

    def learn(left_out: Sequence[int]) -> Path:
        fold = folds[left_out[0]] if left_out else None
        if fold is None:
            return stores_path
        # What is looked up and was not learned from these messages: borrowed text, and footers.
        others = {clue for index in left_out for clue in footer_clues(parsed[index])}
        others.update(clue for index in left_out if index >= len(mails) for clue in all_clues(parsed[index]))
        path = Path(folder) / f"{fold}.sqlite"
        write_stores(path, whole.excluding(parts[fold], others))
        return path

    def read(path: Path, places: Sequence[int]) -> list[Row]:
        nonlocal done
        found: list[Row] = []
        with Stores.open(path) as stores:
            registry = acquirers(stores)
            for index in places:
                found.append(extract_row(registry, parsed[index]))
                done += 1
                on_progress(done)
        return found

    with tempfile.TemporaryDirectory() as folder:
        rows = cross_fit(groups, learn, read, folds=FOLDS)
    return ExtractedRows(tuple(rows[: len(mails)]), tuple(rows[len(mails) :]), stores_id)
