"""Learning from what people move, and a new model that replaces the old one only if it is no worse."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from spam_filter.cli.generate import write_corpus
from spam_filter.cli.learn import main as learn
from spam_filter.cli.retrain import main as retrain
from spam_filter.errors import CorpusError
from spam_filter.evaluation import Evaluation
from spam_filter.model import Model
from spam_filter.synthetic.generator import generate
from spam_filter.training import retraining
from spam_filter.training.corpus import LabelledMail, read_corpus
from spam_filter.training.lookups import LookupPlan
from spam_filter.training.pipeline import Division, TrainedModel, TrainingSettings
from spam_filter.training.retraining import find_regression
from spam_filter.training.seen_mail import hash_message, read_seen

from emsco_runtime.model_folder import MODEL_FILE

QUICK = ("--max-error", "0.2", "--generations", "4", "--cost-messages", "15", "--max-cost-share", "0.6")


def counts(right: int, wrong_ham: int, wrong_spam: int, unsure: int) -> Evaluation:
    """Return an evaluation with such counts."""
    found = {("ham", "ham"): right, ("ham", "spam"): wrong_ham, ("spam", "ham"): wrong_spam, ("spam", "unsure"): unsure}
    return Evaluation(found, 1.0, 0)


@pytest.mark.parametrize(
    ("old", "new", "objection"),
    [
        (counts(95, 1, 1, 3), counts(96, 1, 0, 3), ""),
        (counts(95, 1, 1, 3), counts(95, 1, 1, 3), ""),
        (counts(95, 1, 1, 3), counts(94, 1, 1, 4), ""),
        (counts(95, 1, 1, 3), counts(92, 1, 1, 6), "decides 94 of 100 messages, the old one 97"),
        (counts(95, 1, 1, 3), counts(95, 1, 2, 2), "wrong about 3 of 100 messages, the old one about 2"),
        (counts(95, 0, 2, 3), counts(95, 1, 1, 3), "calls 1 ham messages spam, the old one 0"),
    ],
)
def test_a_new_model_must_not_be_worse(old: Evaluation, new: Evaluation, objection: str) -> None:
    """More errors, more lost ham, or much less decided keeps the old one."""
    found = find_regression(old, new)
    assert bool(found) == bool(objection)
    if objection:
        assert re.search(objection, found)


def test_a_model_knows_what_it_was_made_from(trained: TrainedModel) -> None:
    """Every message of its training, whatever its line ends, and no other."""
    seen = read_seen(trained.folder)
    mails = [one.raw for one in generate(500, seed=5)]
    assert {hash_message(raw) for raw in mails} == seen
    assert hash_message(mails[0].replace(b"\r\n", b"\n")) in seen
    assert hash_message(b"other") not in seen
    assert read_seen(trained.folder / "bundle") == frozenset()


def test_the_old_model_stays_unless_there_is_new_mail(
    trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the mail that it was made from nothing can be compared; with new mail both are, and what is in place can be served."""
    folder = shutil.copytree(trained.folder, tmp_path / "model")
    before = (folder / MODEL_FILE).read_bytes()
    write_corpus(tmp_path / "mail", 500, seed=5)
    assert retrain([str(folder), str(tmp_path / "mail"), *QUICK]) == 0
    assert "the old model stays: 0 messages to compare on" in capsys.readouterr().out
    assert (folder / MODEL_FILE).read_bytes() == before
    write_corpus(tmp_path / "fresh", 450, seed=6)
    assert retrain([str(folder), str(tmp_path / "mail"), str(tmp_path / "fresh"), *QUICK]) == 0
    shown = capsys.readouterr().out
    replaced = "the new model is in place" in shown
    assert replaced != ("the old model stays" in shown)
    assert replaced == ((folder / MODEL_FILE).read_bytes() != before)
    assert "old model:" in shown
    Model.open(folder).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "mail", "model"]


def test_too_little_new_test_mail_is_known_before_the_training(
    trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 60 new messages a few are test mail: nothing is trained, and the remedy is named, by how the mail is divided."""

    def fail(*_arguments: object, **_options: object) -> None:
        raise AssertionError("nothing must be trained")

    monkeypatch.setattr(retraining, "train_model", fail)
    folder = shutil.copytree(trained.folder, tmp_path / "model")
    write_corpus(tmp_path / "mail", 500, seed=5)
    write_corpus(tmp_path / "fresh", 60, seed=6)
    arguments = [str(folder), str(tmp_path / "mail"), str(tmp_path / "fresh"), *QUICK]
    for more, remedy in (((), "some 400 messages in all"), (("--split", "time"), "or split by families")):
        assert retrain([*arguments, *more]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"stays: 60 messages are new, and \d+ of them would be test mail.*: expected at least 20", shown)
        assert remedy in shown
        assert shown.count("\n") == 1


def test_retrain_takes_what_its_help_says(
    trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders between options, and spam and ham in two places, are mail; places that do not exist are an error."""
    write_corpus(tmp_path / "mail", 30, seed=7)
    for mail in read_corpus(tmp_path / "mail"):
        (tmp_path / mail.label).mkdir(exist_ok=True)
        (tmp_path / mail.label / mail.source).write_bytes(mail.raw)
    counts: list[int] = []

    def count(mails: list[LabelledMail], *_arguments: object, **_options: object) -> retraining.Retraining:
        counts.append(len(mails))
        return retraining.Retraining("not tried")

    monkeypatch.setattr(retraining, "retrain_model", count)
    model, mail, pair = str(trained.folder), str(tmp_path / "mail"), [f"--{one}={tmp_path / one}" for one in ("spam", "ham")]
    for arguments in ([model, mail], [model, mail, "--seed", "3", mail], [model, *pair], [model, *pair, mail]):
        assert retrain(arguments) == 0
    assert counts == [30, 60, 30, 60]
    capsys.readouterr()
    assert retrain([model, mail, "--spam", str(tmp_path / "none"), "--ham", str(tmp_path / "ham")]) == 1
    assert "none: no such file or folder" in capsys.readouterr().err


def write_folders(place: Path, *, spam: int, ham: int) -> Path:
    """Write folders with so many messages, and return the folder that both are in."""
    for label, count in (("spam", spam), ("ham", ham)):
        (place / label).mkdir(parents=True)
        for number in range(count):
            (place / label / str(number)).write_bytes(f"Subject: {label} {number}\r\n\r\n".encode())
    return place


@pytest.mark.parametrize("labels", ["folders", "file"])
def test_the_first_folder_must_have_both_kinds_of_mail(
    trained: TrainedModel,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    labels: str,
) -> None:
    """A corpus without its ham is an error, though what people moved has some; what they moved may lack a kind, which is told."""
    monkeypatch.setattr(retraining, "retrain_model", lambda *_arguments, **_options: retraining.Retraining("not tried"))
    mail, learned = write_folders(tmp_path / "mail", spam=3, ham=0), write_folders(tmp_path / "learned", spam=0, ham=2)
    if labels == "file":
        (mail / "labels.csv").write_text("file,label\nspam/0,spam\n", encoding="utf-8")
    model, pair = str(trained.folder), [f"--spam={mail / 'spam'}", f"--ham={learned / 'ham'}"]
    assert retrain([model, str(mail), str(learned)]) == 1
    assert f"{mail} holds no ham message: the first folder must have both kinds" in capsys.readouterr().err
    assert retrain([model, str(learned), *pair]) == 0
    assert capsys.readouterr().err == f"{learned} holds no spam message: nothing is learned from it\n"
    both = write_folders(tmp_path / "both", spam=1, ham=1)
    assert retrain([model, str(both), str(write_folders(tmp_path / "empty", spam=0, ham=0))]) == 0
    assert [line.split(" holds ")[1] for line in capsys.readouterr().err.splitlines()] == [
        f"no {label} message: nothing is learned from it" for label in ("ham", "spam")
    ]


def test_both_models_ask_whom_the_training_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With lookups, the comparison asks the same place, not the resolver of the system."""
    asked: list[str] = []

    def open_model(_folder: Path, *, dns: str) -> AbstractContextManager[None]:
        asked.append(dns)
        return nullcontext()

    monkeypatch.setattr(retraining.Model, "open", open_model)
    monkeypatch.setattr(
        retraining, "divide_mail", lambda mails, _plan: Division(tuple(range(len(mails))), ("test",) * len(mails))
    )
    monkeypatch.setattr(retraining, "train_model", lambda *_arguments, **_options: SimpleNamespace(folder=tmp_path))
    monkeypatch.setattr(retraining, "evaluate", lambda _model, _mails: counts(1, 0, 0, 0))
    monkeypatch.setattr(retraining, "install_model", lambda *_: None)
    mails = list(generate(30, seed=1))
    retraining.retrain_model(mails, tmp_path / "model", TrainingSettings(lookups=LookupPlan("192.0.2.1:53")))
    retraining.retrain_model(mails, tmp_path / "model", TrainingSettings())
    assert asked == ["192.0.2.1:53", "192.0.2.1:53", "system", "system"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model"], "give folders of mail, or --spam and --ham"),
        (["model", "mail", "--spam", "x"], "give both --spam and --ham"),
        (["model", "mail", "--out", "x"], "--out is an option of train alone"),
        (["model", "mail", "--force"], "--force is an option of train alone"),
        (["model", "mail", "--keep", "x"], "--keep is an option of train alone"),
        (["model", "mail", "--client-list", "bl.example"], "block lists are asked by DNS: give --dns too"),
        (["model", "mail", "--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_retrain_refuses_wrong_use(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What train alone takes, and what train refuses, too."""
    with pytest.raises(SystemExit) as ended:
        retrain(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def deliver(maildir: Path, name: str, status: str) -> None:
    """Put a message with a mark into a Maildir folder."""
    for folder in ("cur", "new", "tmp"):
        (maildir / folder).mkdir(parents=True, exist_ok=True)
    head = (
        f"Return-Path: <a@x.org>\r\nDelivered-To: b@x.org\r\nX-Emsco-Status: {status}\r\nX-Emsco-Cost: 1 us\r\n" if status else ""
    )
    (maildir / "cur" / f"{name}:2,S").write_bytes(f"{head}Subject: {name}\r\n\r\n{name}\r\n".encode())


def test_what_people_move_becomes_training_mail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what contradicts the filter or what it left open, without our headers; twice changes nothing; a move back relabels."""
    junk, good, out = tmp_path / ".Junk", tmp_path / ".NotJunk", tmp_path / "mail"
    for name, status in (("missed", "ham"), ("open", "unsure"), ("own", "spam"), ("unmarked", "")):
        deliver(junk, name, status)
    deliver(good, "rescued", "spam")
    arguments = ["--spam", str(junk), "--ham", str(good), "--out", str(out)]
    for expected in ("3 spam and 1 ham", "0 spam and 0 ham"):
        assert learn(arguments) == 0
        assert f"learned: {expected} messages are new" in capsys.readouterr().out
    found = {(mail.label, mail.raw) for mail in read_corpus(out)}
    spam = [f"Subject: {name}\r\n\r\n{name}\r\n".encode() for name in ("missed", "open", "unmarked")]
    assert found == {("ham", b"Subject: rescued\r\n\r\nrescued\r\n"), *(("spam", raw) for raw in spam)}
    (junk / "cur" / "open:2,S").rename(good / "cur" / "open:2,S")
    learn(arguments)
    assert {mail.label for mail in read_corpus(out) if b"open" in mail.raw} == {"ham"}
    assert learn(["--spam", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert "none: there is no such Maildir, with cur and new in it: give a folder" in capsys.readouterr().err
    (junk / "cur" / "a folder").mkdir()
    assert learn(["--spam", str(junk), "--ham", str(tmp_path / "none"), "--out", str(tmp_path / "half")]) == 0
    assert "none: there is no such Maildir, with cur and new in it: nothing is learned from it\n" in capsys.readouterr().err
    # Nobody has moved ham yet: that is no fault of what is to be added to other mail.
    assert {mail.label for mail in read_corpus(tmp_path / "half", may_be_empty=True)} == {"spam"}
    with pytest.raises(CorpusError, match="ham: found no message"):
        read_corpus(tmp_path / "half")
    with pytest.raises(SystemExit):
        learn(["--out", str(out)])


def test_only_files_are_learnt_from_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    """A pipe would hang for ever, and a link may lead to anything; people's mail is for nobody else."""
    junk, out = tmp_path / ".Junk", tmp_path / "mail"
    deliver(junk, "missed", "ham")
    (tmp_path / "secret").write_text("secret")
    (junk / "cur" / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(junk / "cur" / "pipe")
    assert learn(["--spam", str(junk), "--out", str(out)]) == 0
    (path,) = (out / "spam").iterdir()
    assert b"missed" in path.read_bytes()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (out, out / "spam", out / "ham", path)] == [0o700, 0o700, 0o700, 0o600]


def test_a_copy_that_a_crash_left_with_the_other_label_goes(tmp_path: Path) -> None:
    """Between the new copy and the removal of the old one: the next run ends it."""
    junk, out = tmp_path / ".Junk", tmp_path / "mail"
    deliver(junk, "missed", "ham")
    arguments = ["--spam", str(junk), "--out", str(out)]
    assert learn(arguments) == 0
    (path,) = (out / "spam").iterdir()
    (out / "ham" / path.name).write_bytes(path.read_bytes())
    assert learn(arguments) == 0
    assert [mail.label for mail in read_corpus(out, may_be_empty=True)] == ["spam"]


def test_half_a_maildir_is_known_before_anything_is_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without new/ it is no Maildir: the others are learned from, and without others nothing is written."""
    deliver(tmp_path / "half", "moved", "")
    shutil.rmtree(tmp_path / "half" / "new")
    assert learn(["--ham", str(tmp_path / "half"), "--out", str(tmp_path / "mail")]) == 1
    assert "half: there is no such Maildir, with cur and new in it: give a folder" in capsys.readouterr().err
    assert not (tmp_path / "mail").exists()
    deliver(tmp_path / "junk", "missed", "ham")
    assert learn(["--spam", str(tmp_path / "junk"), "--ham", str(tmp_path / "half"), "--out", str(tmp_path / "mail")]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("learned: 1 spam and 0 ham messages")
    assert shown.err.endswith("half: there is no such Maildir, with cur and new in it: nothing is learned from it\n")
