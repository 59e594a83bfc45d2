"""Attacked copies: spam as its senders disguise it, made for training, and kept out of everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from spam_filter.errors import ModelError
from spam_filter.features import GROUPS
from spam_filter.learned.stores import Stores
from spam_filter.message.mail import Mail
from spam_filter.synthetic.generator import generate
from spam_filter.training.attacks import AttackedCopy, make_attacked_copies
from spam_filter.training.extraction import extract
from spam_filter.training.pipeline import TrainedModel, TrainingSettings, train_model
from spam_filter.training.splitting import SplitName

MAILS = list(generate(80, seed=3))
PLACES = [place for place in range(80) if place % 2]
SPAM = [place for place in PLACES if MAILS[place].label == "spam"]


def test_spam_alone_is_copied_in_the_share_that_was_asked_for() -> None:
    """As many copies per spam message as asked for, of the messages named, spread evenly; the same seed makes the same copies."""
    for share in (0.5, 1.0, 2.5):
        copies = make_attacked_copies(MAILS, PLACES, share, 7)
        assert len(copies) == round(share * len(SPAM))
        counts = [sum(copy.original == place for copy in copies) for place in SPAM]
        assert max(counts) - min(counts) <= 1
        assert {copy.original for copy in copies} <= set(SPAM)
        assert copies == make_attacked_copies(MAILS, PLACES, share, 7) != make_attacked_copies(MAILS, PLACES, share, 8)
    assert make_attacked_copies(MAILS, PLACES, 0.0, 7) == []
    assert make_attacked_copies(MAILS, SPAM, 1.0, 7) == [], "without ham there is nothing to borrow"


def test_copies_borrow_from_ham_and_are_still_readable() -> None:
    """Among many copies there are senders, subjects and words of ham; each is spam, differs from its original, and has text."""
    copies = make_attacked_copies(MAILS, PLACES, 6.0, 1)
    ham = [Mail.parse(MAILS[place].raw) for place in PLACES if MAILS[place].label == "ham"]
    senders, subjects = {str(mail.sender) for mail in ham}, {mail.subject for mail in ham}
    mails = [Mail.parse(copy.mail.raw) for copy in copies]
    assert all(copy.mail.label == "spam" and copy.mail.raw != MAILS[copy.original].raw for copy in copies)
    assert all(mail.text.strip() and mail.subject is not None for mail in mails)
    assert 0.1 < sum(str(mail.sender) in senders for mail in mails) / len(mails) < 0.9
    assert sum(mail.subject in subjects for mail in mails) > 0
    assert sum(mail.words.disguised > 0 for mail in mails) > 0
    assert (
        sum(
            len(mail.text) > 1.2 * len(Mail.parse(MAILS[copy.original].raw).text)
            for mail, copy in zip(mails, copies, strict=True)
        )
        > 0
    )
    assert sum(bool(mail.page.hidden.strip()) for mail in mails) > 0


def test_nothing_is_learned_from_a_copy_and_it_sees_the_stores_of_its_original(tmp_path: Path) -> None:
    """Stores and rows of the mail are the same with and without copies; a copy that changes nothing has its original's row."""
    splits: list[SplitName] = ["train" if place in PLACES else "test" for place in range(80)]
    families = list(range(80))
    same = [AttackedCopy(place, MAILS[place]) for place in (*SPAM[:5], 0)]
    attacked = make_attacked_copies(MAILS, PLACES, 1.0, 2)
    plain = extract(MAILS, splits, families, tmp_path / "a.sqlite")
    both = extract(MAILS, splits, families, tmp_path / "b.sqlite", copies=[*same, *attacked])
    assert (plain.stores_id, plain.rows, plain.copies) == (both.stores_id, both.rows, ())
    assert [both.rows[copy.original] for copy in same] == list(both.copies[: len(same)])
    assert len(both.copies) == len(same) + len(attacked)
    with Stores.open(tmp_path / "b.sqlite") as stores:
        assert sum(stores.messages) == len(PLACES)


def test_every_message_has_words_of_its_body_looked_up_first(trained: TrainedModel) -> None:
    """No verdict comes from the header alone: the first stage has the sampled words."""
    assert set(GROUPS["sampled_words"]) <= set(trained.exported.export.bundle.manifest.stages[0].acquire)


def test_thresholds_are_those_that_were_given(trained: TrainedModel) -> None:
    """The choice with a certificate does not move them."""
    plan = TrainingSettings()
    for stage in trained.exported.export.bundle.manifest.stages:
        assert stage.thresholds == {"ham": plan.ham_threshold, "spam": plan.spam_threshold}


def test_test_and_certify_mail_stay_as_they_were_sent(trained: TrainedModel) -> None:
    """The figures count each test message once, and the certificate each certify message."""
    problem = trained.exported.opened.problem
    assert problem.test is not None
    assert problem.certify is not None
    assert len(problem.test) == trained.splits.count("test")
    assert len(problem.certify) == trained.splits.count("certify")
    assert len(problem.train) > trained.splits.count("train") + trained.splits.count("validation")


def test_a_share_out_of_range_is_refused(tmp_path: Path) -> None:
    """Before any work is done."""
    for share in (-0.1, 11.0):
        with pytest.raises(ModelError, match="expected 0 to 10 attacked copies per spam message"):
            train_model(MAILS, tmp_path / "model", TrainingSettings(attacked_share=share))
