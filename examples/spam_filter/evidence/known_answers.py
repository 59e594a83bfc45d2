"""`evaluate`: code that asks DNS questions in the middle of its work, run without waiting in it.

Libraries that check SPF and DKIM call a function that returns an answer at once. So the check is run with what is known so far;
the first question that is not known ends it, is asked, and the check is run again. These checks take well under a millisecond,
and ask a dozen questions at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar, cast

from spam_filter.errors import LookupFailed
from spam_filter.evidence.resolver import Records, Resolver

__all__ = ["KnownAnswers", "evaluate"]

_Result = TypeVar("_Result")
# SPF allows ten, and ten addresses for each of them; a policy that needs more is somebody's trap.
_MOST_QUESTIONS: Final = 30
# Characters of answers; their publisher decides how many, and every one is read again after each question.
_SMALL: Final = 1_000


class _NotKnown(BaseException):
    """A question that has to be asked first; no `Exception`, which the libraries catch."""


class KnownAnswers:
    """Answers so far.

    Parameters
    ----------
    answers
        (Name, type) -> records, or the failure to get them.
    """

    def __init__(self, answers: dict[tuple[str, str], Records | LookupFailed]) -> None:
        self._answers = answers
        self.missing: tuple[str, str] | None = None

    def get(self, name: str, kind: str) -> Records:
        """Return the records of a name; raise `LookupFailed` if there was no answer."""
        key = (name.rstrip(".").lower(), kind)
        found = self._answers.get(key)
        if found is None:
            # Noted too: a library may catch everything.
            self.missing = self.missing or key
            raise _NotKnown
        if isinstance(found, LookupFailed):
            raise found
        return found


async def evaluate(check: Callable[[KnownAnswers], _Result], resolver: Resolver, *, in_thread: bool = False) -> _Result:
    """Run a check, again for each answer that it needs, and return its result.

    Parameters
    ----------
    check
        The check; it must ask the same questions again.
    resolver
        Answers them.
    in_thread
        It takes its time, and must not hold up the event loop. In any case it is run in a thread once the answers are long.

    Raises
    ------
    LookupFailed
        If it asks too many questions.
    """
    answers: dict[tuple[str, str], Records | LookupFailed] = {}
    size = 0
    while len(answers) <= _MOST_QUESTIONS:
        known = KnownAnswers(answers)
        result = await asyncio.to_thread(_run, check, known) if in_thread or size > _SMALL else _run(check, known)
        if known.missing is None:
            return cast(tuple[_Result], result)[0]
        try:
            found = answers[known.missing] = await resolver.resolve(*known.missing)
            size += sum(map(len, found))
        except LookupFailed as error:
            answers[known.missing] = error
    raise LookupFailed(f"more than {_MOST_QUESTIONS} questions for one check")


def _run(check: Callable[[KnownAnswers], _Result], known: KnownAnswers) -> tuple[_Result] | None:
    try:
        return (check(known),)
    except _NotKnown:
        return None
