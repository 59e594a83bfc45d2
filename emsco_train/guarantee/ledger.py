"""The uses of certify rows: each one is recorded before it looks at them, and shares the confidence with those that were planned.

A certificate holds at its confidence for rows that nothing has seen. Asking the same rows again, for something that the
first answer led to, is a choice by these rows, and no confidence is held. Uses that were planned before the first one can share
the level instead: each is made at confidence 1 - (1 - confidence) / planned, so that all of them are true at once with the
confidence asked for, if what is asked was planned, too: then the chances of the single certificates to be wrong add up
(Bonferroni).

To ask for exactly the same again is no further use: the answer is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from emsco_runtime.bundle.manifest import PromisedLimits
from emsco_train.data.provenance import timestamp
from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_integer

__all__ = [
    "CertifyLedger",
    "CertifyQuestion",
    "MemoryLedger",
    "RecordedUse",
    "UseResult",
    "add_use",
    "check_certify_uses",
    "set_result",
    "share_confidence",
]

_MOST_USES = 1_000

UseResult: TypeAlias = Literal["unknown", "certified", "refused"]


@dataclass(frozen=True, slots=True)
class CertifyQuestion:
    """What is asked of the certify rows; the same question has the same answer.

    Parameters
    ----------
    designs
        Ids in the order of testing; a single one where the design was fixed in advance.
    promise
        The limits that are tested; None: bounds of the one design are asked for.
    confidence
        Of the tests.
    drawn
        How many rows are tested, where one of each group is drawn; None: all of them are.
    """

    designs: tuple[str, ...]
    promise: PromisedLimits | None
    confidence: float
    drawn: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedUse:
    """A use: when, for what, and how it ended. "unknown": it was cut short, and the rows may have been seen."""

    time: str
    question: CertifyQuestion
    result: UseResult = "unknown"
    design: str | None = None


class CertifyLedger(Protocol):
    """The uses of some certify rows, in their order."""

    @property
    def planned(self) -> int:
        """How many uses share the level; fixed before the first."""
        ...

    def begin(self, question: CertifyQuestion) -> int:
        """Record a use, before any certify row is looked at; return its number, from 1: for a repetition, the number it had."""
        ...

    def finish(self, question: CertifyQuestion, design: str | None) -> None:
        """Record the design that a use certified; None: it certified none."""
        ...


class MemoryLedger:
    """A ledger that is kept in memory, as long as the rows themselves are.

    Examples
    --------
    >>> ledger, question = MemoryLedger(), CertifyQuestion(("a1",), None, 0.95)
    >>> ledger.begin(question), ledger.begin(replace(question, confidence=0.9)), ledger.begin(question), len(ledger)
    (1, 2, 1, 2)
    """

    def __init__(self, planned: int = 1) -> None:
        self._planned = check_certify_uses(planned)
        self._uses: tuple[RecordedUse, ...] = ()

    @property
    def planned(self) -> int:
        """How many uses share the level."""
        return self._planned

    @property
    def uses(self) -> tuple[RecordedUse, ...]:
        """The uses so far."""
        return self._uses

    def __len__(self) -> int:
        """Return how many uses there were."""
        return len(self._uses)

    def __repr__(self) -> str:
        """Show the number of uses, made and planned."""
        return f"MemoryLedger({len(self)} used, {self.planned} planned)"

    def begin(self, question: CertifyQuestion) -> int:
        """Record a use; see `CertifyLedger`."""
        self._uses, number = add_use(self._uses, question)
        return number

    def finish(self, question: CertifyQuestion, design: str | None) -> None:
        """Record how a use ended; see `CertifyLedger`."""
        self._uses = set_result(self._uses, question, design)


def add_use(uses: tuple[RecordedUse, ...], question: CertifyQuestion) -> tuple[tuple[RecordedUse, ...], int]:
    """Return the uses with one more, and its number; a question that was asked before keeps its number, and adds none."""
    for number, use in enumerate(uses, start=1):
        if use.question == question:
            return uses, number
    return (*uses, RecordedUse(timestamp(), question)), len(uses) + 1


def set_result(uses: tuple[RecordedUse, ...], question: CertifyQuestion, design: str | None) -> tuple[RecordedUse, ...]:
    """Return the uses with the result of one of them."""
    result: UseResult = "refused" if design is None else "certified"
    return tuple(replace(use, result=result, design=design) if use.question == question else use for use in uses)


def share_confidence(confidence: float, planned: int) -> float:
    """Return the confidence of each of some planned uses, with which all of them hold together at the confidence given.

    Examples
    --------
    >>> share_confidence(0.95, 1), share_confidence(0.95, 2)
    (0.95, 0.975)
    """
    return confidence if planned == 1 else 1.0 - (1.0 - confidence) / planned


def check_certify_uses(number: object) -> int:
    """Return a number of planned uses, or raise."""
    if not is_integer(number) or not 1 <= number <= _MOST_USES:
        raise DesignError(f"certify_uses is {number!r}: expected a whole number from 1 to {_MOST_USES:,}")
    return int(number)
