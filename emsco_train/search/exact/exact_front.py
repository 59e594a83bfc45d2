"""The exact search: the complete front of all designs, over the bits of all feature sets.

Every design is accounted for: scored, or provably dominated (the two rules are in `kernel`). So the result does not
depend on the number of threads, nor on the order in which they work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from emsco_train.errors import DesignError
from emsco_train.search.exact.bit_counting import MAX_ENUMERATED_ROWS
from emsco_train.search.exact.known_front import KnownFront
from emsco_train.search.exact.set_bits import SetBits, SetLayout, Units
from emsco_train.search.exact.workers import Enumeration, PartResult, run_parts
from emsco_train.search.exact.workload import Part, check_affordable, estimate_workload, split_parts

__all__ = ["EnumerationProgress", "ExactFront", "enumerate_front"]

Chromosomes = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class ExactFront:
    """Every non-dominated vector of a space of designs, cheapest first.

    Parameters
    ----------
    accepted, right, cost
        The vectors: items accepted, items accepted with the right label, cost units summed over all rows [vectors].
    chromosomes
        The design that stands for each vector: fewest stages, then lexicographically least [vectors, features].
    ties
        Number of designs that have each vector [vectors].
    tied
        All of them, for each vector [ties, features], in the same order; None if they were not asked for.
    rows
        Number of validation items.
    designs
        Number of designs in the space.
    """

    accepted: Units
    right: Units
    cost: Units
    chromosomes: Chromosomes
    ties: Units
    tied: tuple[Chromosomes, ...] | None
    rows: int
    designs: int


@dataclass(frozen=True, slots=True)
class EnumerationProgress:
    """How far an exact search is.

    Parameters
    ----------
    done, designs
        Designs accounted for, and to account for in all.
    scored
        Designs scored one by one; the others are done because something known dominates them.
    vectors
        Non-dominated vectors known so far.
    """

    done: int
    designs: int
    scored: int
    vectors: int


def enumerate_front(
    bits: SetBits,
    n: int,
    *,
    max_stages: int,
    allow_exclusion: bool = False,
    pinned: int = 0,
    jobs: int = 2,
    ties: Literal["count", "all"] = "count",
    max_designs: int = 100_000,
    max_seconds: float = 3600.0,
    max_bytes: int = 2**30,
    prune: bool = True,
    on_progress: Callable[[EnumerationProgress], None] | None = None,
) -> ExactFront:
    """Return the complete front over all ordered partitions of n features into 1 to `max_stages` stages.

    Parameters
    ----------
    bits
        What every feature set says about every validation item.
    n
        Number of features, at most 20.
    max_stages
        Most stages of a design.
    allow_exclusion
        Whether features may be left out.
    pinned
        Mask of features that have to be in the first stage.
    jobs
        Number of threads. The result is the same for any.
    ties
        "all" lists every design of the front, "count" gives their number and the one that stands for them.
    max_designs
        Most designs to list.
    max_seconds, max_bytes
        Refuse a search that may take more; see `estimate_workload`.
    prune
        False scores every design one by one, for checks: the result is the same.
    on_progress
        Called in the calling thread, several times a second. What it raises ends the search, and its threads.

    Raises
    ------
    DesignError
        When the search would not finish or not fit, when there are too many ties to list, or when arguments do not fit.

    Examples
    --------
    Feature 0 is cheap and settles item 0; feature 1 settles all three items, item 2 wrongly.

    >>> words = np.array([[0], [0b001], [0b111], [0b111]], dtype=np.uint64)
    >>> right = np.array([[0], [0b001], [0b011], [0b011]], dtype=np.uint64)
    >>> bits = SetBits(words, right, np.array([0, 1, 10, 11]), rows=3)
    >>> front = enumerate_front(bits, 2, max_stages=2)
    >>> [array.tolist() for array in (front.accepted, front.right, front.cost, front.chromosomes, front.ties)]
    [[3], [2], [23], [[0, 1]], [1]]
    """
    if jobs < 1:
        raise DesignError(f"jobs: {jobs} is not at least 1")
    work = estimate_workload(n, max_stages, bits.rows, allow_exclusion=allow_exclusion, pinned=pinned, jobs=jobs)
    if len(bits.cost) != 2**n or bits.rows >= MAX_ENUMERATED_ROWS:
        detail = f"{len(bits.cost)} sets of {bits.rows} rows"
        raise DesignError(f"bits: {detail}; {n} features need {2**n} sets, and at most {MAX_ENUMERATED_ROWS - 1} rows are taken")
    check_affordable(work, max_seconds=max_seconds, max_bytes=max_bytes)
    layout = SetLayout.of(bits, n, closed=not allow_exclusion)
    enumeration = Enumeration(layout, max_stages, pinned, prune=prune)
    table = _count_front(enumeration, jobs, _ProgressCounter(work.designs, on_progress))
    listed = None
    if ties == "all":
        _check_ties(sum(table.counts()), max_designs)
        listed = _list_ties(Enumeration(layout, max_stages, pinned, listing=True, prune=prune), jobs, table)
    return _build_front(table, layout, work.designs, listed)


class _ProgressCounter:
    """Adds up what the parts have done, and tells it."""

    def __init__(self, designs: int, report: Callable[[EnumerationProgress], None] | None) -> None:
        self._designs = designs
        self._report = report
        self._done = self._scored = 0

    def add(self, result: PartResult, vectors: int) -> None:
        """Add a finished part."""
        self._done += result.designs
        self._scored += result.scored
        if self._report:
            self._report(EnumerationProgress(self._done, self._designs, self._scored, vectors))


def _all_parts(enumeration: Enumeration) -> Iterable[Part]:
    """Yield all parts, fewer stages first: they are few, and set the limits for the many."""
    for stages in range(1, enumeration.max_stages + 1):
        yield from split_parts(enumeration.layout.features, stages, pinned=enumeration.pinned, closed=enumeration.layout.closed)


def _count_front(enumeration: Enumeration, jobs: int, counter: _ProgressCounter) -> KnownFront:
    """Find the front and count its ties."""
    table = KnownFront()
    latest = [table.limits(enumeration.layout)]

    def take(result: PartResult) -> None:
        changed = table.merge_uncounted(result.found) if result.truncated else table.merge(result.found)
        if changed:
            latest[0] = table.limits(enumeration.layout)
        if not result.truncated:
            counter.add(result, len(table.vectors()))

    run_parts(enumeration, _all_parts(enumeration), jobs, lambda: latest[0], take)
    return table


def _check_ties(count: int, max_designs: int) -> None:
    if count > max_designs:
        remedy = f'Ask for ties="count", or allow max_designs={count}'
        raise DesignError(f"ties: {count:,} designs are on the front, at most {max_designs:,} are listed. {remedy}")


def _list_ties(enumeration: Enumeration, jobs: int, table: KnownFront) -> dict[tuple[int, ...], list[Sequence[int]]]:
    """Return the chains of all designs of the front by vector: under its own limits, nothing else passes."""
    limits = table.limits(enumeration.layout)
    listed: dict[tuple[int, ...], list[Sequence[int]]] = {tuple(vector): [] for vector in table.vectors().tolist()}

    def take(result: PartResult) -> None:
        if result.truncated:
            return
        for vector, chain in zip(result.found.vectors.tolist(), result.found.chains.tolist(), strict=True):
            listed[tuple(vector)].append(chain)

    run_parts(enumeration, _all_parts(enumeration), jobs, lambda: limits, take)
    return listed


def _build_front(
    table: KnownFront, layout: SetLayout, designs: int, listed: dict[tuple[int, ...], list[Sequence[int]]] | None
) -> ExactFront:
    vectors = table.vectors()
    tied = None
    if listed is not None:
        tied = tuple(_sorted_chromosomes(chains, layout.features) for chains in listed.values())
    return ExactFront(
        accepted=vectors[:, 0],
        right=vectors[:, 1],
        cost=vectors[:, 2],
        chromosomes=_chromosomes(table.chains(), layout.features),
        ties=np.array(table.counts(), dtype=np.int64),
        tied=tied,
        rows=layout.rows,
        designs=designs,
    )


def _chromosomes(chains: Iterable[Sequence[int]], features: int) -> Chromosomes:
    """Return the stage of each feature in each chain of sets, -1 where no set has it."""
    rows = []
    for chain in chains:
        having = [sum(members >> feature & 1 for members in chain) for feature in range(features)]
        rows.append([len(chain) - count if count else -1 for count in having])
    return np.array(rows, dtype=np.int8).reshape(len(rows), features)


def _sorted_chromosomes(chains: Sequence[Sequence[int]], features: int) -> Chromosomes:
    """Return chromosomes with fewer stages first, then in lexicographic order."""
    table = _chromosomes(chains, features)
    return table[np.lexsort((*table.T[::-1], table.max(axis=1)))]
