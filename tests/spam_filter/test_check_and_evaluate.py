"""`check` says what a model thinks of a message and why; `evaluate` counts over labelled mail."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from spam_filter.cli.check import main as check
from spam_filter.cli.evaluate import main as evaluate_command
from spam_filter.cli.generate import write_corpus
from spam_filter.evaluation import Evaluation, evaluate
from spam_filter.explanation import explain
from spam_filter.message.mail import Mail
from spam_filter.model import Model
from spam_filter.service.classification import classify
from spam_filter.synthetic.generator import generate
from spam_filter.training.pipeline import TrainedModel

from emsco_runtime import Acquirers
from emsco_runtime.testing import make_bundle
from tests.spam_filter.service_under_test import TOP

WEIGHTS = [[[-2.0], [2.0]], [[-2.0, -1.0], [2.0, 1.0]]]


def test_contributions_of_a_straight_model_are_its_terms() -> None:
    """Log-odds of weights 4 and 2: each feature contributes its weight times the distance from common mail."""
    bundle = make_bundle([["a"], ["b"]], weights=WEIGHTS, labels=("ham", "spam"))
    usual = {feature.name: feature.fallback for feature in bundle.manifest.features}
    registry = Acquirers()
    registry.feature("a")(lambda _: 0.5)
    registry.features("b")(lambda _: {"b": -1.5})
    for stage, weights in ((1, {"a": 4.0}), (2, {"a": 4.0, "b": 2.0})):
        values = {"a": 0.5, "b": -1.5}
        found = {one.feature: one.contribution for one in explain(bundle, registry, Mail.parse(b""), stage)}
        expected = {name: weight * (values[name] - float(usual[name])) for name, weight in weights.items()}  # type: ignore[arg-type]
        assert found == {name: pytest.approx(value, abs=1e-5) for name, value in expected.items()}


def test_reasons_are_those_of_the_stage_that_decided(model: Model) -> None:
    """Strongest first, each from a feature of the stages so far; they are finite, and one of them says something."""
    for one in generate(10, seed=12):
        verdict = classify(model, one.raw, None, None)
        assert verdict.stage
        reasons = explain(model.cascade.bundle, model.acquirers, Mail.parse(one.raw), verdict.stage)
        acquired = {name for stage in model.cascade.manifest.stages[: verdict.stage] for name in stage.acquire}
        assert {reason.feature for reason in reasons} == acquired
        sizes = [abs(reason.contribution) for reason in reasons]
        assert sizes == sorted(sizes, reverse=True)
        assert all(map(math.isfinite, sizes))
        assert sizes[0] > 0


def test_check_prints_verdict_and_reasons(
    trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file and standard input, with as many reasons as asked for; a file that is not there is an error of one line."""
    raw = next(iter(generate(1, seed=4))).raw
    (tmp_path / "a.eml").write_bytes(raw)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(raw)))
    assert check(["--model", str(trained.folder), "--reasons", "2", str(tmp_path / "a.eml"), "-"]) == 0
    first, heading, *reasons = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{tmp_path / 'a.eml'}: ")
    assert "stage" in first
    assert heading.split() == ["value", "common", "mail", "for", "spam"]
    assert len(reasons) in (1 + 2 + 1 + 1, 2 + 4)
    assert check(["--model", str(trained.folder), str(tmp_path / "none.eml")]) == 1
    assert capsys.readouterr().err == f"spam_filter check: {tmp_path / 'none.eml'}: No such file or directory\n"


def test_check_prints_names_that_the_terminal_cannot_show(trained: TrainedModel, tmp_path: Path) -> None:
    """A file of a Maildir may be named by any bytes; and a reader that has gone is no error of ours."""
    raw = next(iter(generate(1, seed=4))).raw
    name = tmp_path / os.fsdecode(b"b\xffd.eml")
    name.write_bytes(raw)
    environment = {**os.environ, "PYTHONPATH": str(TOP / "examples"), "PYTHONIOENCODING": "utf-8:strict"}
    command = [sys.executable, "-m", "spam_filter", "check", "--model", str(trained.folder), name]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"b\\udcffd.eml: " in done.stdout
    piped = subprocess.run(["sh", "-c", '"$@" | true', "sh", *command], capture_output=True, env=environment, check=False)
    assert piped.stderr == b""


def test_check_reads_the_lists_of_senders(trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A blocked sender is spam, whatever the model thinks, and the line says why; a bad list is an error of one line."""
    (tmp_path / "a.eml").write_bytes(b"From: <a@bad.example>\n\nregards")
    (tmp_path / "block").write_text("bad.example\n", encoding="utf-8")
    arguments = ["--model", str(trained.folder), "--block", str(tmp_path / "block"), str(tmp_path / "a.eml")]
    assert check(arguments) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith(f"{tmp_path / 'a.eml'}: spam (")
    assert line.endswith("sender on the block list")
    (tmp_path / "block").write_text("a b\n", encoding="utf-8")
    assert check(arguments) == 1
    assert "line 1: expected an address or a domain" in capsys.readouterr().err


def test_evaluate_counts_what_the_service_would_say(
    model: Model, trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has every message once, under its label and its status."""
    mails = list(generate(60, seed=21))
    found = evaluate(model, mails)
    statuses = [(one.label, classify(model, one.raw, None, None).status) for one in mails]
    assert found.counts == {key: statuses.count(key) for key in statuses}
    assert found.messages == 60
    assert found.decided == sum(status in ("spam", "ham") for _, status in statuses)
    assert found.wrong == sum(status in ("spam", "ham") and status != label for label, status in statuses)
    write_corpus(tmp_path / "mail", 60, seed=21)
    assert evaluate_command([str(trained.folder), str(tmp_path / "mail")]) == 0
    shown = capsys.readouterr().out
    assert f"({found.decided} of 60)" in shown
    assert "called spam" in shown


def test_an_evaluation_of_nothing_divides_by_nothing() -> None:
    """No message, no cost, no error."""
    assert (Evaluation({}, 0.0, 0).messages, Evaluation({}, 0.0, 0).wrong) == (0, 0)


def test_evaluate_takes_spam_and_ham_in_two_places(
    trained: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As train does: what an empty folder advises can be done."""
    assert evaluate_command([str(trained.folder), str(tmp_path)]) == 1
    assert "or give --spam and --ham" in capsys.readouterr().err
    for mail in generate(30, seed=7):
        (tmp_path / mail.label).mkdir(exist_ok=True)
        (tmp_path / mail.label / mail.source).write_bytes(mail.raw)
    pair = [f"--spam={tmp_path / 'spam'}", f"--ham={tmp_path / 'ham'}"]
    assert evaluate_command([str(trained.folder), *pair]) == 0
    assert "of 30)" in capsys.readouterr().out
    for wrong in ([], pair[:1], [str(tmp_path), *pair]):
        with pytest.raises(SystemExit) as ended:
            evaluate_command([str(trained.folder), *wrong])
        assert ended.value.code == 2
