"""Which messages train, validate, test and certify: 60 / 15 / 7.5 / 17.5 %, families together, each label in proportion.

By time, the families of each label are put in the order of their first message: the earliest train, the latest certify, as in
production, where a filter always meets mail that is newer than what it has learned. By families, a seed draws them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from spam_filter.errors import CorpusError
from spam_filter.message.mail import Mail
from spam_filter.training.corpus import LABELS, LabelledMail

__all__ = ["SHARES", "SplitBy", "SplitName", "find_families", "split_mail"]

SplitName: TypeAlias = Literal["train", "validation", "test", "certify"]
SplitBy: TypeAlias = Literal["time", "families"]
SHARES: Final[tuple[tuple[SplitName, float], ...]] = (("train", 0.6), ("validation", 0.15), ("test", 0.075), ("certify", 0.175))


def find_families(mails: Sequence[Mail]) -> list[int]:
    """Return a number for each message; near-duplicates have the same. Messages without words are compared by their bytes."""
    from emsco_train import group_near_duplicates  # noqa: PLC0415 - training only

    return group_near_duplicates([_text(mail) for mail in mails])


def _text(mail: Mail) -> str:
    if any(map(str.isalpha, mail.text)):
        return mail.text
    # Digits alone, which are no words: equal bodies are copies, similar ones are not.
    return str(int.from_bytes(hashlib.sha256(mail.raw[mail.headers.body :]).digest()))


def split_mail(mails: Sequence[LabelledMail], families: Sequence[int], by: SplitBy, seed: int = 0) -> list[SplitName]:
    """Return the split of each message.

    Parameters
    ----------
    mails
        The corpus.
    families
        A number for each message; those with equal numbers stay together.
    by
        "time" or "families".
    seed
        Of the draw of families.

    Raises
    ------
    CorpusError
        If a label has too few families for four splits.
    """
    if by not in get_args(SplitBy):
        raise CorpusError(f"split must be time or families, got {by!r}")
    members: dict[int, list[int]] = {}
    for index, family in enumerate(families):
        members.setdefault(family, []).append(index)
    found: list[SplitName] = ["train"] * len(mails)
    for label in LABELS:
        # A family goes with the label of its first message: copies with two labels are a mistake in the corpus, or a bait.
        groups = [group for group in members.values() if mails[group[0]].label == label]
        if len(groups) < len(SHARES):
            detail = f"{len(groups)} different messages are {label}"
            raise CorpusError(f"{detail}: expected at least {len(SHARES)}, and some hundreds to learn anything: add mail")
        if by == "time":
            groups.sort(key=lambda group: min((mails[index].received, index) for index in group))
        else:
            random.Random(f"{seed} {label}").shuffle(groups)
        for group, split in zip(groups, _assign_splits([len(group) for group in groups]), strict=True):
            for index in group:
                found[index] = split
    return found


def _assign_splits(sizes: Sequence[int]) -> list[SplitName]:
    """Return a split for each family, in order: each split gets its share of the messages, and one family at least."""
    total, count = sum(sizes), len(sizes)
    bounds: list[tuple[SplitName, float]] = []
    reached = 0.0
    for name, share in SHARES:
        reached += share
        bounds.append((name, reached * total))
    found: list[SplitName] = []
    place = before = 0
    for position, family in enumerate(sizes):
        left = count - position
        started = bool(found) and found[-1] == bounds[place][0]
        # On to the next split when the middle of the family is beyond the bound, or when families run short.
        while place < len(bounds) - 1 and (before + family / 2 > bounds[place][1] or left < len(bounds) - place) and started:
            place += 1
            started = False
        found.append(bounds[place][0])
        before += family
    return found
