"""A store that fails: the message says so, and no fallback makes it ham."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from spam_filter.model import Model
from spam_filter.service.classification import classify
from spam_filter.service.headers import mark_message
from spam_filter.service.verdict import Verdict
from spam_filter.synthetic.generator import generate
from spam_filter.training.pipeline import TrainedModel

DEGRADED = b"\r\nX-Emsco-Degraded: store\r\n"


def verdicts(model: Model, messages: list[bytes]) -> list[Verdict]:
    """Classify in a new thread, as the service does: it connects to the store for itself."""
    with ThreadPoolExecutor(1) as thread:
        return list(thread.map(lambda raw: classify(model, raw, None, None), messages))


def test_no_spam_is_ham_by_a_fallback_and_every_message_tells(trained: TrainedModel) -> None:
    """A store that fails every lookup: spam is never stamped ham by fallbacks; they are named in a header."""
    sample = list(generate(80, seed=77))
    spam = [one.raw for one in sample if one.label == "spam"]
    with Model.open(trained.folder) as model:
        healthy = verdicts(model, [one.raw for one in sample])
        model.close()
        broken = verdicts(model, spam)
    assert {"spam", "ham"} <= {verdict.status for verdict in healthy}
    assert not any(verdict.degraded or b"X-Emsco-Degraded" in mark_message(b"", verdict).content for verdict in healthy)
    assert any(verdict.degraded for verdict in broken)
    for verdict in broken:
        # A training may find a stage without lookups: what that one decides is no fallback's work.
        assert verdict.status in ("spam", "unsure") or not verdict.degraded
        assert (DEGRADED in mark_message(b"", verdict).content) == verdict.degraded
