"""Near-duplicates: copies of a text are one family, other texts are not, in whatever order they come."""

from __future__ import annotations

import random

from hypothesis import given, settings, strategies as st

from emsco_train import group_near_duplicates

WORDS = [f"{first}{second}{third}" for first in "bcdfglmnprst" for second in "aeiou" for third in ("la", "ne", "to", "shi", "ve")]


def write_text(seed: int, words: int = 120) -> list[str]:
    """Return the words of a made-up text."""
    return random.Random(seed).choices(WORDS, k=words)


def change(words: list[str], seed: int) -> str:
    """Return a copy: another name, other numbers, other case and line ends, one more line."""
    rng = random.Random(f"copy {seed}")
    copy = list(words)
    copy[rng.randrange(len(copy))] = "Somebody"
    return "\r\n".join([" ".join(copy).upper(), str(rng.random()), *rng.choices(WORDS, k=4)])


def test_copies_are_one_family_and_other_texts_are_not() -> None:
    """Twenty texts with three changed copies each: twenty families, each with the number of its first text."""
    texts = [write_text(seed) for seed in range(20)]
    rows = [" ".join(words) for words in texts] + [change(words, copy) for copy in range(3) for words in texts]
    assert group_near_duplicates(rows) == list(range(20)) * 4


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_changes_no_family(order: list[int]) -> None:
    """The same texts in another order: the same families."""
    rows = [change(write_text(number % 4), number) for number in range(12)]
    found = group_near_duplicates([rows[place] for place in order])
    assert all((found[a] == found[b]) == (order[a] % 4 == order[b] % 4) for a in range(12) for b in range(12))


@given(st.lists(st.text(max_size=40), max_size=6))
def test_equal_texts_are_one_family_whatever_they_hold(texts: list[str]) -> None:
    """No words, no letters, half a surrogate pair: a number for each, and equal ones have the same."""
    found = group_near_duplicates([*texts, *texts, "\ud800"])
    assert found[: len(texts)] == found[len(texts) : 2 * len(texts)]
    assert all(number <= place for place, number in enumerate(found))


def test_texts_without_words_are_compared_as_they_are() -> None:
    """Numbers are not words: "1" and "2" are different texts, though they have the same words."""
    assert group_near_duplicates(["1", "2", "1", "", ""]) == [0, 1, 0, 3, 3]
