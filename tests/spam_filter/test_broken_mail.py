"""Whatever comes, it is parsed and decided without an exception, within the deadline."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from spam_filter.message.mail import Mail
from spam_filter.model import Model
from spam_filter.service.classification import classify
from spam_filter.synthetic.generator import generate
from spam_filter.training.extraction import extract_row

from tests.spam_filter.mutations import MUTATIONS, mutate
from tests.spam_filter.real_mail import needs_sample, read_sample

# The service's own.
DEADLINE_S = 5.0


def decide_all(model: Model, raws: Iterable[bytes]) -> float:
    """Decide each message with its deadline, acquire all its features too, and return the longest time that either took."""
    longest = 0.0
    for raw in raws:
        began = time.perf_counter()
        row = extract_row(model.acquirers, Mail.parse(raw))
        longest = max(longest, time.perf_counter() - began)
        assert all(math.isfinite(value) for value in row.values())
        decision = model.cascade.decide(Mail.parse(raw), deadline_s=DEADLINE_S)
        assert decision.reason in ("confident", "inconclusive"), (decision.reason, decision.errors, raw[:200])
        assert not decision.errors, (decision.errors, raw[:200])
        longest = max(longest, decision.elapsed_s)
    return longest


def test_synthetic_mail_and_what_becomes_of_it_is_decided(model: Model) -> None:
    """60 synthetic messages and 30 mutations of each kind get a decision in time, none of them degraded."""
    raws = [one.raw for one in generate(60, seed=12)]
    decide_all(model, raws)
    decide_all(model, mutate(raws, 10 * len(MUTATIONS), seed=1))


def test_the_filter_has_a_verdict_for_broken_mail(model: Model) -> None:
    """What the service calls gives ham, spam or unsure for each mutation, and never an error."""
    raws = [one.raw for one in generate(20, seed=13)]
    for raw in mutate(raws, 3 * len(MUTATIONS), seed=2):
        assert classify(model, raw, None, DEADLINE_S).status in ("ham", "spam", "unsure")


@pytest.mark.proof
@needs_sample
def test_all_real_messages_and_five_thousand_mutations_are_decided(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The 3,000 messages of the sample and 5,000 mutated ones: no exception, no failed feature, every one within the deadline."""
    raws = [mail.raw for mail in read_sample(tmp_path)]
    assert len(raws) == 3000
    longest = decide_all(model, raws)
    longest_mutated = decide_all(model, mutate(raws, 5000, seed=3))
    assert max(longest, longest_mutated) < DEADLINE_S
    with capsys.disabled():
        sys.stdout.write(f"longest: {1000 * longest:.0f} ms; of a mutated message: {1000 * longest_mutated:.0f} ms\n")
