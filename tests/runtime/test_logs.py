"""`DecisionLogger`: what a handler gets."""

from __future__ import annotations

import json
import logging
import pickle
from typing import Any

import pytest

from emsco_runtime import Cascade, InputError
from emsco_runtime.observing.logs import DecisionLogger
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.testing import RecordingAcquirers, sample_bundle

BUNDLE = sample_bundle()
SPAM = {"size": 2.0, "links": 1.0, "reputation": 0.5}
UNCLEAR = {"size": 0.0, "links": 0.0, "reputation": 0.0}


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return our attributes of a record."""
    return {name: value for name, value in vars(record).items() if name.startswith("emsco_")}


def test_one_record_per_decision(caplog: pytest.LogCaptureFixture) -> None:
    """A record has the decision's fields as attributes, all of them things that JSON has, and a line that can be read."""
    caplog.set_level(logging.INFO)
    cascade = Cascade(BUNDLE, observers=[DecisionLogger()])
    decision = cascade.decide(SPAM, known={"links": 1.0})
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("emsco.decisions", logging.INFO)
    assert record.getMessage().startswith("accepted (confident): label spam, 1 stages scored, cost 1, 0.")
    assert fields(record) == {
        "emsco_status": "accepted",
        "emsco_reason": "confident",
        "emsco_label": "spam",
        "emsco_confidence": decision.confidence,
        "emsco_stages": 1,
        "emsco_cost": 1.0,
        "emsco_elapsed_s": decision.elapsed_s,
        "emsco_acquired": ["size"],
        "emsco_known": [],
        "emsco_cached": [],
        "emsco_defaulted": [],
        "emsco_degraded": False,
        "emsco_failures": [],
        "emsco_bundle": cascade.manifest.id,
        "emsco_key": None,
    }
    assert json.loads(json.dumps(fields(record))) == fields(record)


def test_where_values_came_from(caplog: pytest.LogCaptureFixture) -> None:
    """Known, cached, defaulted and acquired features have fields of their own, over all stages."""
    caplog.set_level(logging.INFO)
    acquirers = RecordingAcquirers("reputation")
    acquirers.feature("size", cache=AcquirerCache(key=lambda item: 1, ttl_s=60.0))(lambda item: item["size"])
    acquirers.feature("links", on_failure="default")(lambda item: 1 / 0)
    cascade = Cascade(BUNDLE, acquirers, observers=[DecisionLogger("other")])
    cascade.decide(UNCLEAR)
    cascade.decide(UNCLEAR, known={"reputation": 0.0})
    first, second = map(fields, caplog.records)
    assert (first["emsco_acquired"], first["emsco_defaulted"], first["emsco_degraded"]) == (
        ["size", "reputation"],
        ["links"],
        True,
    )
    assert (second["emsco_acquired"], second["emsco_cached"], second["emsco_known"]) == ([], ["size"], ["reputation"])
    assert caplog.records[0].name == "other"


@pytest.mark.parametrize("messages", [False, True])
def test_values_are_left_out_unless_asked_for(messages: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The message of a failure, which may quote the item, is logged only on demand; feature, stage and kind always are."""
    caplog.set_level(logging.INFO)
    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="reject")
    cascade = Cascade(BUNDLE, acquirers, observers=[DecisionLogger(messages=messages)])
    cascade.decide({"size": ValueError("secret-4711")})
    (record,) = caplog.records
    (failure,) = fields(record)["emsco_failures"]
    message = {"message": "its acquirer raised ValueError: secret-4711"} if messages else {}
    assert failure == {"feature": "size", "stage": 1, "kind": "exception"} | message
    assert ("secret" in str(vars(record))) is messages


def test_levels(caplog: pytest.LogCaptureFixture) -> None:
    """Levels go by status, and by reason before that; below the logger's level nothing is logged."""
    caplog.set_level(logging.DEBUG)
    acquirers = RecordingAcquirers("size", "links", "reputation", on_failure="reject")
    items = [SPAM, UNCLEAR, {"size": "large"}]
    for levels in (None, {"accepted": logging.DEBUG, "rejected": 35, "inconclusive": logging.ERROR, "acquisition_failed": 34}):
        cascade = Cascade(BUNDLE, acquirers, observers=[DecisionLogger(logging.getLogger("one"), levels=levels)])
        for item in items:
            cascade.decide(item)
        cascade.decide(SPAM, budget=0.0)
    assert [record.levelno for record in caplog.records] == [20, 20, 30, 20, 10, 40, 34, 35]
    caplog.clear()
    logging.getLogger("one").setLevel(logging.WARNING)
    try:
        for item in items:
            cascade.decide(item)
    finally:
        logging.getLogger("one").setLevel(logging.NOTSET)
    assert [record.levelno for record in caplog.records] == [40, 34]


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"acepted": 10}, "levels: expected keys among accepted, rejected, confident, .*, got 'acepted'"),
        ({"accepted": "INFO"}, "levels: accepted: expected a number such as logging.INFO, got 'INFO'"),
        ({"accepted": True}, "levels: accepted: expected a number such as logging.INFO, got True"),
    ],
)
def test_wrong_levels_are_refused(levels: Any, message: str) -> None:
    """An unknown key, and a level that is not a number, raise at once."""
    with pytest.raises(InputError, match=message):
        DecisionLogger(levels=levels)


def test_it_can_be_pickled(caplog: pytest.LogCaptureFixture) -> None:
    """A cascade takes its logger to another process."""
    caplog.set_level(logging.INFO)
    pickle.loads(pickle.dumps(Cascade(BUNDLE, observers=[DecisionLogger("moved")]))).decide(SPAM)
    assert [record.name for record in caplog.records] == ["moved"]
