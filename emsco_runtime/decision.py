"""What happened to one item: `Decision`, and the records inside it.

The JSON form (`Decision.to_dict`, `Decision.to_json`) follows ``schemas/decision.v1.schema.json``.

The records are named tuples: as immutable as a frozen dataclass, but made six times as fast, and a decision takes about four.
Their probabilities are read-only dictionaries, so that no observer can change what others and the caller see.
For pydantic (and so for FastAPI) each of them is the JSON object of its schema, not the array that a tuple would be.

How to change the JSON form
---------------------------
1. A field may be added to version 1 if it has a default in its class: it is then optional in the schema, and documents that were
   written before stay valid.
2. Nothing is ever removed, renamed, made required or given another meaning: that is a ``schemas/decision.v2.schema.json`` next
   to the old file.
3. The schema allows no other fields, so a document is checked with the schema of the emsco that wrote it, or of a newer one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["Decision", "Failure", "FailureKind", "Label", "Reason", "StageRecord", "Status"]

Label: TypeAlias = str | int
Status: TypeAlias = Literal["accepted", "rejected"]
Reason: TypeAlias = Literal["confident", "inconclusive", "budget", "deadline", "acquisition_failed"]
FailureKind: TypeAlias = Literal[
    "exception",  # the acquirer raised
    "timeout",  # it did not answer in time
    "breaker_open",  # its source failed too often in a row and is not called for a while
    "refused",  # the pool has too many abandoned calls and takes no more
    "missing_key",  # its mapping has no key for a feature, or its sequence has another length
    "wrong_type",  # text instead of a number, a number that is not a boolean, ...
    "infinite",  # plus or minus infinity
    "unknown_category",  # a category that training never saw, for a feature whose `unknown` is "fail"
    "missing",  # None or NaN for a feature whose `missing` is "forbid"
    "not_scorable",  # the model gave no probabilities: a finite value so large that it overflowed inside
]


class Failure(NamedTuple):
    """One feature that could not be obtained.

    Parameters
    ----------
    feature
        Its name.
    stage
        The stage that needed it, counted from 1.
    kind
        What happened, in one word: one of `FailureKind`; docs/operating.md says what each one does.
    message
        What was wrong, for people. It may quote a value of the item.
    """

    feature: str
    stage: int
    kind: FailureKind
    message: str


class StageRecord(NamedTuple):
    """One stage that was started.

    Parameters
    ----------
    stage
        Its number, counted from 1.
    acquired
        Features obtained for it from acquirers, in the order of the manifest.
    known
        Features that the caller already had: free.
    defaulted
        Features that fell back to the manifest's value because their acquirer failed.
    cost
        What this stage added to the bill: its features, and the groups that it was the first to touch.
    probabilities
        Label -> probability; empty when the stage was not scored.
    cached
        Features whose values were kept from an earlier item.
    """

    stage: int
    acquired: tuple[str, ...]
    known: tuple[str, ...]
    defaulted: tuple[str, ...]
    cost: float
    probabilities: Mapping[Label, float]
    cached: tuple[str, ...] = ()


class Decision(NamedTuple):
    """The outcome for one item, with its bill.

    Parameters
    ----------
    status
        "accepted" or "rejected".
    reason
        "confident" when accepted; otherwise why not: "inconclusive" (no stage was confident enough), "budget" (the next stage
        would cost more than allowed), "deadline" (time was up), "acquisition_failed" (a source failed and its policy is to
        reject).
    label
        The accepted label; None when rejected.
    confidence
        Probability of the most probable label at the last stage scored; None when none was.
    probabilities
        Label -> probability at the last stage scored; empty when none was.
    stages
        How many stages were scored.
    cost
        The bill: the cost function of the features listed by the stages started, known ones left out.
    elapsed_s
        Wall time in seconds; never part of the cost.
    trace
        One record per stage started.
    degraded
        A fallback value was used: the certificate does not cover this decision.
    errors
        Every failure met on the way.
    bundle
        The id of the bundle that decided.
    key
        The caller's own name of the item, as it was given to `decide`; None when none was.
    """

    status: Status
    reason: Reason
    label: Label | None
    confidence: float | None
    probabilities: Mapping[Label, float]
    stages: int
    cost: float
    elapsed_s: float
    trace: tuple[StageRecord, ...]
    degraded: bool
    errors: tuple[Failure, ...]
    bundle: str
    key: str | None = None

    @property
    def accepted(self) -> bool:
        """Return whether the item was accepted, and so has a label."""
        return self.status == "accepted"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types, as `schemas/decision.v1.schema.json` describes them."""
        return self._asdict() | {
            "probabilities": _with_text_keys(self.probabilities),
            "trace": [_record_to_dict(record) for record in self.trace],
            "errors": [failure._asdict() for failure in self.errors],
        }

    def to_json(self) -> str:
        """Return `to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)


def _record_to_dict(record: StageRecord) -> dict[str, Any]:
    lists = {name: list(names) for name, names in record._asdict().items() if isinstance(names, tuple)}
    return record._asdict() | lists | {"probabilities": _with_text_keys(record.probabilities)}


def _with_text_keys(probabilities: Mapping[Label, float]) -> dict[str, float]:
    # JSON keys are text; labels are unique as text (the manifest is checked for it).
    return {str(label): probability for label, probability in probabilities.items()}


def _pydantic_schema(record: type, _: Any, handler: Any) -> Any:
    """Return the schema of the object that `to_dict` returns; read back from one, the labels in `probabilities` are text."""
    from emsco_runtime.decision_schema import record_schema  # noqa: PLC0415 - pydantic, for those who use it

    return record_schema(record, handler, _check_outcome if record is Decision else None)


for _record in (Failure, StageRecord, Decision):
    # Assigned here, since named tuples cannot share it through a base class.
    _record.__get_pydantic_core_schema__ = classmethod(_pydantic_schema)  # type: ignore[union-attr]


def _check_outcome(decision: Decision) -> None:
    if not decision.accepted == (decision.reason == "confident") == (decision.label is not None):
        got = f"status {decision.status!r}, reason {decision.reason!r} and label {decision.label!r}"
        raise ValueError(f"expected the reason 'confident' and a label if accepted, neither of them if rejected; got {got}")
