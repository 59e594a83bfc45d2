"""Extraction: the features of a train message come from stores that have never seen its label."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from spam_filter.features import acquirers
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail
from spam_filter.synthetic.generator import generate
from spam_filter.training.corpus import LabelledMail
from spam_filter.training.extraction import extract, extract_row
from spam_filter.training.splitting import SplitName

MAILS = list(generate(60, seed=11))
SPLITS: list[SplitName] = ["train" if place % 4 else "test" for place in range(60)]
FAMILIES = [place // 2 for place in range(60)]


def swap_labels(mail: LabelledMail) -> LabelledMail:
    """Return a message with the other label."""
    return dataclasses.replace(mail, label="ham" if mail.label == "spam" else "spam")


def test_no_train_message_sees_the_labels_of_its_own_family(tmp_path: Path) -> None:
    """Turning the labels of a whole family changes rows of other messages, and none of its own."""
    family = FAMILIES[5]
    changed = [swap_labels(mail) if its == family else mail for mail, its in zip(MAILS, FAMILIES, strict=True)]
    before = extract(MAILS, SPLITS, FAMILIES, tmp_path / "a.sqlite").rows
    after = extract(changed, SPLITS, FAMILIES, tmp_path / "b.sqlite").rows
    places = [place for place, its in enumerate(FAMILIES) if its == family and SPLITS[place] == "train"]
    assert places
    for place in places:
        mine = {name: value for name, value in before[place].items() if name != "text_surprise"}
        assert mine == {name: value for name, value in after[place].items() if name != "text_surprise"}
    assert any(one != two for place, (one, two) in enumerate(zip(before, after, strict=True)) if place not in places)


def test_other_messages_get_the_stores_that_the_service_will_have(tmp_path: Path) -> None:
    """The rows of test mail are those that the acquirers give with the stores that were written."""
    progress: list[int] = []
    path = tmp_path / "stores.sqlite"
    found = extract(MAILS, SPLITS, FAMILIES, path, on_progress=progress.append)
    assert progress == list(range(1, 61))
    with Stores.open(path) as stores:
        assert stores.id == found.stores_id
        assert sum(stores.messages) == SPLITS.count("train")
        registry = acquirers(stores)
        for place, split in enumerate(SPLITS):
            if split == "test":
                assert found.rows[place] == extract_row(registry, Mail.parse(MAILS[place].raw))


def test_footers_of_train_mail_are_looked_up_as_in_service(tmp_path: Path) -> None:
    """Stores learn no footer; a train message with spam words in one is still scored by what other messages taught."""
    spam = next(Mail.parse(mail.raw).text for mail in MAILS if mail.label == "spam")
    footer = b"\n" + b"_" * 40 + b"\n" + spam[:400].encode()
    ham = next(
        place
        for place, mail in enumerate(MAILS)
        if mail.label == "ham" and SPLITS[place] == "train" and Mail.parse(mail.raw + footer).footer
    )
    changed = [dataclasses.replace(mail, raw=mail.raw + footer) if place == ham else mail for place, mail in enumerate(MAILS)]
    plain, listed = (
        extract(mails, SPLITS, FAMILIES, tmp_path / name).rows[ham] for name, mails in (("a", MAILS), ("b", changed))
    )
    assert listed["words_spam"] > plain["words_spam"]
    assert listed["words_score"] == plain["words_score"]
