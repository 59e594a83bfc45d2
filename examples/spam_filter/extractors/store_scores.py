"""What the stores think of a message: lookups in SQLite, several features from each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

from spam_filter.learned.clues import (
    footer_host_clues,
    footer_sample_words,
    footer_word_clues,
    host_clues,
    sample_words,
    sender_clues,
    subject_clues,
    word_clues,
)
from spam_filter.learned.stores import Stores
from spam_filter.message.characters import share
from spam_filter.message.mail import Mail

__all__ = [
    "HOST_SCORES",
    "SAMPLE_SCORES",
    "SENDER_SCORES",
    "SUBJECT_SCORES",
    "WORD_SCORES",
    "combine_scores",
    "host_scores",
    "sample_scores",
    "sender_scores",
    "subject_scores",
    "word_scores",
]

SENDER_SCORES: Final = ("sender_reputation", "sender_known")
SUBJECT_SCORES: Final = ("subject_score",)
SAMPLE_SCORES: Final = ("sample_score", "sample_worst", "sample_spam")
WORD_SCORES: Final = ("words_score", "words_mean", "words_worst", "words_spam")
HOST_SCORES: Final = ("hosts_reputation", "hosts_worst")

# A number, or a word that stands for its number.
_Clue = TypeVar("_Clue", int, str)
_STRONGEST: Final = 40
_SAMPLE_STRONGEST: Final = 12


def combine_scores(clue_scores: Iterable[float], strongest: int = _STRONGEST) -> float:
    """Return the sum of the strongest opinions, over the root of their number: the sum of many weak ones does not drown all else.

    Examples
    --------
    >>> combine_scores([2.0, 0.1, -0.1, 2.0], strongest=2) > combine_scores([2.0, -2.0]) == combine_scores([])
    True
    """
    chosen = list(clue_scores)
    if len(chosen) > strongest:
        chosen = sorted(chosen, key=abs)[-strongest:]
    return math.fsum(chosen) / math.sqrt(len(chosen)) if chosen else 0.0


def sender_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what is known of the sender's address and domain."""
    clue_scores = stores.clue_scores(sender_clues(mail))
    return {"sender_reputation": math.fsum(clue_scores.values()), "sender_known": float(len(clue_scores))}


def subject_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what the words of subject and sender's name suggest."""
    return {"subject_score": combine_scores(stores.clue_scores(subject_clues(mail)).values())}


def sample_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what a few words at each of several places suggest: all of them, those of the worst place, and the worst words."""
    found = _look_up(sample_words(mail), footer_sample_words(mail), stores.word_scores)
    return {
        "sample_score": combine_scores(found.body.values()),
        "sample_worst": found.worst,
        "sample_spam": _spam_evidence(found.all, _SAMPLE_STRONGEST),
    }


def word_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what all words and pairs suggest: the strongest, all, those of the worst piece of the text, and the worst of all."""
    found = _look_up(word_clues(mail), footer_word_clues(mail), stores.clue_scores)
    return {
        "words_score": combine_scores(found.body.values()),
        "words_mean": share(math.fsum(found.body.values()), len(found.body)),
        "words_worst": found.worst,
        "words_spam": _spam_evidence(found.all, _STRONGEST),
    }


class _Scores(NamedTuple, Generic[_Clue]):
    """Scores of clues: those of the text, those of text and footer, and the score of the worst piece of either."""

    body: Mapping[_Clue, float]
    all: Mapping[_Clue, float]
    worst: float


def _look_up(
    pieces: Sequence[Sequence[_Clue]],
    footer: Sequence[Sequence[_Clue]],
    find_scores: Callable[[Sequence[_Clue]], Mapping[_Clue, float]],
) -> _Scores[_Clue]:
    """Return what the stores know; the footer speaks for spam alone, as the worst piece and by the worst words."""
    scores = find_scores(list(dict.fromkeys(chain.from_iterable(chain(pieces, footer)))))
    if not footer:
        return _Scores(scores, scores, _worst(pieces, scores))
    body = set(chain.from_iterable(pieces))
    of_body = {clue: score for clue, score in scores.items() if clue in body}
    in_text, in_footer = _worst(pieces, scores), _worst(footer, scores)
    return _Scores(of_body, scores, max(in_text, in_footer) if in_footer > 0 else in_text)


def _worst(pieces: Sequence[Sequence[_Clue]], scores: Mapping[_Clue, float]) -> float:
    """Return the score of the piece that looks most like spam: ham around it does not make it better."""
    return max((combine_scores(scores[one] for one in piece if one in scores) for piece in pieces), default=0.0)


def _spam_evidence(scores: Mapping[Any, float], strongest: int) -> float:
    """Return what the words that speak most for spam say: words that speak for ham take nothing from it."""
    worst = sorted(scores.values())[-strongest:]
    return math.fsum(score for score in worst if score > 0) / math.sqrt(strongest)


def host_scores(mail: Mail, stores: Stores) -> Mapping[str, float]:
    """Return what is known of the hosts that links point at: of all, and of the worst; an unknown one is neither good nor bad.

    Spam has to lead somewhere: links to good hosts in addition to that one do not help it.
    """
    clues, footer = host_clues(mail), footer_host_clues(mail)
    scores = stores.clue_scores(list(dict.fromkeys([*clues, *footer])))
    bad = [score for clue in footer if (score := scores.get(clue, 0.0)) > 0]
    worst = max([*(scores.get(clue, 0.0) for clue in clues), *bad], default=0.0)
    return {"hosts_reputation": combine_scores(scores[clue] for clue in clues if clue in scores), "hosts_worst": worst}
