"""Keys: the caller's own names of items, in decisions, in errors and in what observers write; checked before anything else."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from emsco_runtime import (
    AcquirerPool,
    AcquisitionError,
    AuditWriter,
    Cascade,
    Decider,
    Decision,
    DecisionLogger,
    InputError,
    ReloadingCascade,
    Shadow,
    write_bundle,
)
from emsco_runtime.testing import RecordingAcquirers, make_bundle, sample_bundle

ITEM = {"size": 2.0, "links": 0.0, "reputation": 0.0}
UNSURE = {"size": 0.0, "links": 0.0, "reputation": 0.0}
ITEMS = [ITEM, UNSURE, ITEM]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the sample bundle."""
    bundle = sample_bundle()
    write_bundle(tmp_path / "bundle", bundle.manifest, bundle.models)
    return tmp_path / "bundle"


@pytest.fixture(params=["cascade", "reloading", "with a pool", "recorded"])
def decider(request: pytest.FixtureRequest, folder: Path) -> Decider:
    """Return each kind of thing that decides, on each of its ways through the drivers."""
    if request.param == "reloading":
        return ReloadingCascade(folder)
    if request.param == "with a pool":
        return Cascade.load(folder, pool=AcquirerPool(2))
    if request.param == "recorded":
        return Cascade.load(folder, listener=Shadow(folder, background=False))
    return Cascade.load(folder)


def test_a_decision_has_its_key(decider: Decider) -> None:
    """The key that a call was given is in its decision, as text of the user's; without one it is None."""
    assert decider.decide(ITEM, key="message-17").key == "message-17"
    assert decider.decide(UNSURE, key="", deadline_s=60).key == ""
    assert decider.decide(ITEM).key is None
    assert asyncio.run(decider.decide_async(ITEM, key="message-17")).key == "message-17"
    assert asyncio.run(decider.decide_async(ITEM)).key is None


def test_many_decisions_have_their_keys(decider: Decider) -> None:
    """Each decision has the key of its own item, and None where the item has none."""
    keys = ["a", None, "c"]
    assert [one.key for one in decider.decide_many(ITEMS, keys=keys)] == keys
    assert [one.key for one in asyncio.run(decider.decide_many_async(ITEMS, keys=tuple(keys), concurrency=2))] == keys
    assert [one.key for one in decider.decide_many(iter(ITEMS))] == [None] * 3
    assert decider.decide_many([], keys=[]) == []


def test_a_key_changes_nothing_else() -> None:
    """But for its key and its time, a decision is the same with a key and without."""
    cascade = Cascade(sample_bundle())
    with_key, without = (cascade.decide(UNSURE, key=key)._replace(elapsed_s=0.0) for key in ("k", None))
    assert with_key._replace(key=None) == without


def calls() -> dict[str, tuple[str, Callable[[Cascade], Any]]]:
    """Return wrong uses of keys, with the beginning of the message."""

    def many(keys: Any) -> Callable[[Cascade], Any]:
        return lambda cascade: cascade.decide_many(ITEMS, keys=keys)

    return {
        "number": (r"key: expected a string, got 17 \(int\)", lambda cascade: cascade.decide(ITEM, key=17)),  # type: ignore[arg-type]
        "bytes": (r"key: expected a string, got b'a' \(bytes\)", lambda cascade: cascade.decide(ITEM, key=b"a")),  # type: ignore[arg-type]
        "number, async": (
            r"key: expected a string, got 17 \(int\)",
            lambda cascade: asyncio.run(cascade.decide_async(ITEM, key=17)),  # type: ignore[arg-type]
        ),
        "too few": (r"keys: expected one per item, got 2 keys for 3 items", many(["a", "b"])),
        "too many": (r"keys: expected one per item, got 4 keys for 3 items", many(["a", "b", "c", "d"])),
        "text": (r"keys: expected a sequence with one string \(or None\) per item, got str", many("abc")),
        "iterator": (
            r"keys: expected a sequence with one string \(or None\) per item, got list_iterator",
            many(iter(["a", "b", "c"])),
        ),
        "number among them": (r"keys\[1\]: expected a string or None, got 17 \(int\)", many(["a", 17, "c"])),
        "too few, async": (
            r"keys: expected one per item, got 1 keys for 3 items",
            lambda cascade: asyncio.run(cascade.decide_many_async(ITEMS, keys=["a"])),
        ),
    }


WRONG = calls()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_key_is_refused_before_anything_is_acquired(name: str) -> None:
    """One clear error, and no acquirer was called."""
    message, use = WRONG[name]
    acquirers = RecordingAcquirers("size", "links", "reputation")
    with pytest.raises(InputError, match=message):
        use(Cascade(sample_bundle(), acquirers))
    assert acquirers.calls == []


def test_an_error_has_the_key_of_its_item() -> None:
    """An item that ends in an `AcquisitionError` is named by it, alone and among many, and observers are notified."""
    received: list[str | None] = []

    class Watching:
        def __call__(self, decision: Decision) -> None:
            pass

        def on_error(self, error: AcquisitionError, bundle: str) -> None:
            received.append(error.key)

    cascade = Cascade(sample_bundle(), observers=[Watching()])
    with pytest.raises(AcquisitionError, match=r"^item 'm-1': feature 'size'") as alone:
        cascade.decide({}, key="m-1")
    assert alone.value.key == "m-1"
    with pytest.raises(AcquisitionError, match=r"^item 1, 'm-2': feature 'size'") as among:
        cascade.decide_many([ITEM, {}], keys=["m-1", "m-2"])
    assert (among.value.index, among.value.key) == (1, "m-2")
    with pytest.raises(AcquisitionError, match=r"^item 1: feature 'size'"):
        cascade.decide_many([ITEM, {}])
    with pytest.raises(AcquisitionError, match=r"^feature 'size'"):
        cascade.decide({})
    assert received == ["m-1", "m-2", None, None]


def test_an_item_whose_model_overflows_is_named() -> None:
    """The other way to an error, values that cannot be scored, has the key too."""
    cascade = Cascade(make_bundle([["a"]], weights=[[[-3.0], [3.0]]]))
    with pytest.raises(AcquisitionError) as caught:
        cascade.decide({"a": 1e308}, key="m-1")
    assert (caught.value.kind, caught.value.key) == ("not_scorable", "m-1")


def test_audit_lines_have_the_key(tmp_path: Path) -> None:
    """The key is in the decision of a line, and is its item unless the writer has another way to know that."""
    path = tmp_path / "audit.jsonl"

    def lines(keys: Sequence[str | None], **options: Any) -> list[tuple[Any, Any]]:
        path.unlink(missing_ok=True)
        with AuditWriter(path, **options) as writer:
            Cascade(sample_bundle(), observers=[writer]).decide_many(ITEMS, keys=keys)
        read = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return [(line["item"], line["decision"]["key"]) for line in read]

    assert lines(["a", None, "c"]) == [("a", "a"), (None, None), ("c", "c")]
    assert lines(["a", None, "c"], item=lambda: "batch 5") == [("batch 5", "a"), ("batch 5", None), ("batch 5", "c")]


def test_log_records_have_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """The key is a field of the record; the item is not."""
    with caplog.at_level(logging.INFO):
        Cascade(sample_bundle(), observers=[DecisionLogger()]).decide(ITEM, key="message-17")
    (record,) = caplog.records
    assert record.__dict__["emsco_key"] == "message-17"
    assert not any(value is ITEM for value in record.__dict__.values())


def test_spans_have_the_key() -> None:
    """A span has the key of its decision, if there is one."""
    pytest.importorskip("opentelemetry.sdk", reason="no OpenTelemetry SDK is installed")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from emsco_runtime.observing.tracing import DecisionTracer

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    cascade = Cascade(sample_bundle(), observers=[DecisionTracer(tracer_provider=provider)])
    cascade.decide(ITEM, key="message-17")
    cascade.decide(ITEM)
    found = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert [one.get("emsco.key") for one in found] == ["message-17", None]
    assert "emsco.key" not in found[1]


def test_a_shadow_that_fails_tells_the_key(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks into a shadow's trouble learns at which item it was."""
    shadow = Shadow(sample_bundle(), background=False)
    monkeypatch.setattr(shadow._scorer, "score", lambda stage, values: 1 / 0)
    Cascade(sample_bundle(), listener=shadow).decide(ITEM, key="message-17")
    assert shadow.summary.errors == 1
    assert "failed at an item (key 'message-17')" in caplog.text
