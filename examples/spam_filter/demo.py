"""The tour: synthetic mail, training, the service, messages by SMTP, their headers, and the cost."""

from __future__ import annotations

import shutil
import smtplib
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from emsco_runtime import read_bundle
from spam_filter.cli.console import columns
from spam_filter.cli.generate import write_corpus
from spam_filter.cli.train import format_model
from spam_filter.load.service_process import ServiceProcess
from spam_filter.message.mail import Mail
from spam_filter.model import BUNDLE
from spam_filter.synthetic.generator import generate
from spam_filter.training.corpus import LabelledMail, read_corpus
from spam_filter.training.pipeline import TrainedModel, TrainingSettings, train_model

__all__ = ["DEMO_SETTINGS", "run_tour"]

# Synthetic mail is few and easy: a short search finds what there is, and few messages certify little.
DEMO_SETTINGS: Final = TrainingSettings(max_error=0.1, max_cost_share=0.4, population=60, generations=25, cost_messages=60)
_MESSAGE_COUNT: Final = 200
_MARK: Final = "X-Demo-Number"


def run_tour(folder: Path, count: int) -> None:
    """Go from mail to a running service in a folder, and print each step.

    Parameters
    ----------
    folder
        Where mail, model and Maildir go; those of an earlier tour are replaced.
    count
        Synthetic messages to learn from.
    """
    for name in ("mail", "model", "Maildir"):
        shutil.rmtree(folder / name, ignore_errors=True)

    _title(1, "Synthetic mail: made up from word lists, to show how it works. Figures on it say nothing about real spam")
    counts = write_corpus(folder / "mail", count, seed=0)
    print(f"   {counts['ham']} ham and {counts['spam']} spam messages in {folder / 'mail'}")

    _title(2, "Train: stores, features, their measured costs, a cascade, a certificate")
    print(
        f"   $ python -m spam_filter train {folder / 'mail'} --out {folder / 'model'} --max-error {DEMO_SETTINGS.max_error:g}\n",
        flush=True,
    )
    trained = train_model(
        read_corpus(folder / "mail"), folder / "model", DEMO_SETTINGS, on_step=lambda line: print(f"   {line}", flush=True)
    )
    print("\n".join(f"   {line}" for line in format_model(trained)))

    _title(3, f"Serve, and send {_MESSAGE_COUNT} messages that the filter has never seen by SMTP")
    fresh = list(islice(generate(_MESSAGE_COUNT, seed=1), _MESSAGE_COUNT))
    print(f"   $ python -m spam_filter serve --model {folder / 'model'} --maildir {folder / 'Maildir'}\n", flush=True)
    with ServiceProcess(folder / "model", folder / "Maildir") as service:
        _send(service, fresh)
    delivered = _read_delivered(folder / "Maildir", fresh)
    _print_headers(fresh, delivered)

    _title(4, "The cost")
    _print_costs(trained, fresh, delivered)
    print(f"\n   Maildir   {folder / 'Maildir'} (read a message: its first lines are ours)")
    print(f"   model     {folder / 'model'} (look inside: emsco-inspect {folder / 'model' / BUNDLE})")


def _title(step: int, text: str) -> None:
    print(f"\n{step}. {text}\n", flush=True)


def _send(service: ServiceProcess, mails: Sequence[LabelledMail]) -> None:
    with smtplib.SMTP(service.smtp.host, service.smtp.port) as client:
        for number, mail in enumerate(mails):
            client.sendmail("demo@example.org", ["you@example.org"], f"{_MARK}: {number}\r\n".encode() + mail.raw)


def _read_delivered(maildir: Path, mails: Sequence[LabelledMail]) -> list[Mail]:
    """Return the messages as they were delivered, in the order in which they were sent."""
    found = [Mail.parse(path.read_bytes()) for path in (maildir / "new").iterdir()]
    by_number = {int(mail.headers.get(_MARK.lower())): mail for mail in found}
    return [by_number[number] for number in range(len(mails))]


def _print_headers(mails: Sequence[LabelledMail], delivered: Sequence[Mail]) -> None:
    """Show one message for each status and stage."""
    shown: dict[tuple[str, str], int] = {}
    for number, mail in enumerate(delivered):
        shown.setdefault((mail.headers.get("x-emsco-status"), mail.headers.get("x-emsco-stage")), number)
    for number in sorted(shown.values())[:6]:
        print(f"   Subject: {delivered[number].subject[:60]}   (in truth: {mails[number].label})")
        lines = (
            f"{name.title()}: {value[:64]}" for name, value in delivered[number].headers.fields if name.startswith("x-emsco-")
        )
        print("\n".join(f"      {line}" for line in lines) + "\n", flush=True)


def _print_costs(trained: TrainedModel, mails: Sequence[LabelledMail], delivered: Sequence[Mail]) -> None:
    manifest = read_bundle(trained.folder / BUNDLE).manifest
    full = trained.exported.opened.problem.full_cost
    costs = [float(mail.headers.get("x-emsco-cost").split()[0] or 0) for mail in delivered]
    seen = Counter((mail.label, message.headers.get("x-emsco-status")) for mail, message in zip(mails, delivered, strict=True))
    statuses = [status for status in ("ham", "spam", "unsure", "error") if any(found == status for _, found in seen)]
    rows = [[f"in truth {label}", *(str(seen[label, status]) for status in statuses)] for label in ("ham", "spam")]
    print("\n".join(f"   {line}" for line in columns([["", *(f"marked {status}" for status in statuses)], *rows])))
    mean = sum(costs) / len(costs)
    print(f"\n   mean cost of a message     {mean:.0f} {manifest.cost_unit}")
    print(f"   all features, each message {full:.0f} {manifest.cost_unit}")
    print(f"   saved                      {1 - mean / full:.0%}")
