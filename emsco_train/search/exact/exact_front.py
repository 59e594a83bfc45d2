"""The exact search: the complete front of all designs, over the bits of all feature sets.

Every design is accounted for: scored, or provably dominated (the two rules are in `enumeration`). So the result does not
depend on the number of threads, nor on the order in which they work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from emsco_train.designs.chromosome import Population
from emsco_train.errors import DesignError
from emsco_train.search.exact.bit_counting import MAX_ENUMERATED_ROWS
from emsco_train.search.exact.known_front import KnownFront, chain_genes
from emsco_train.search.exact.set_bits import SetBits, SetLayout, Units
from emsco_train.search.exact.workers import Enumeration, PartResult, run_parts
from emsco_train.search.exact.workload import Part, estimate_workload, split_parts
from emsco_train.search.pace import OnStep, Step

__all__ = ["ExactFront", "enumerate_front"]


@dataclass(frozen=True, slots=True, eq=False)
class ExactFront:
    """Every non-dominated vector of a space of designs, cheapest first.

    Parameters
    ----------
    accepted, right, cost
        The vectors: items accepted, items accepted with the right label, cost units summed over all rows [vectors].
    chromosomes
        The design that represents each vector: fewest stages, then lexicographically least [vectors, features].
    ties
        Number of designs that have each vector [vectors].
    tied
        All of them, for each vector [ties, features], in the same order; None unless ties="all".
    rows
        Number of validation items.
    designs, scored
        Number of designs in the space, and of those scored one by one: something known dominates the others.
    """

    accepted: Units
    right: Units
    cost: Units
    chromosomes: Population
    ties: Units
    tied: tuple[Population, ...] | None
    rows: int
    designs: int
    scored: int


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
    prune: bool = True,
    on_progress: OnStep | None = None,
) -> ExactFront:
    """Return the complete front over all ordered partitions of n features into 1 to `max_stages` stages.

    `pinned` is a mask of features; `ties="all"` also lists every design of the front, at most `max_designs`. `prune=False`
    scores every design one by one, for checks. `on_progress` is called in this thread several times a second, and what it
    raises ends the search. How much it may take is the caller's to check, with `estimate_workload`.

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
        raise DesignError(f"jobs is {jobs}: expected a whole number, 1 or more")
    work = estimate_workload(n, max_stages, bits.rows, allow_exclusion=allow_exclusion, pinned=pinned, jobs=jobs)
    if len(bits.cost) != 2**n or bits.rows >= MAX_ENUMERATED_ROWS:
        expected = f"{n} features need {2**n} sets, and at most {MAX_ENUMERATED_ROWS - 1} rows are allowed"
        raise DesignError(f"bits: {len(bits.cost)} sets of {bits.rows} rows; {expected}")
    layout = SetLayout.of(bits, n, closed=not allow_exclusion)
    enumeration = Enumeration(layout, max_stages, pinned, prune=prune)
    table, scored = _count_front(enumeration, jobs, work.designs, on_progress)
    tied = None
    if ties == "all":
        if (count := sum(table.counts())) > max_designs:
            remedy = f'Ask for ties="count", or allow max_designs={count}'
            raise DesignError(f"ties: {count:,} designs are on the front, at most {max_designs:,} are listed. {remedy}")
        tied = _list_ties(replace(enumeration, listing=True), jobs, table)
    accepted, right, cost = table.vectors().T
    chromosomes, counts = _chromosomes(table.chains(), n), np.array(table.counts(), dtype=np.int64)
    return ExactFront(accepted, right, cost, chromosomes, counts, tied, layout.rows, work.designs, scored)


def _all_parts(enumeration: Enumeration) -> Iterable[Part]:
    """Yield all parts, fewer stages first: they are few, and set the limits for the many."""
    for stages in range(1, enumeration.max_stages + 1):
        yield from split_parts(enumeration.layout.features, stages, pinned=enumeration.pinned, closed=enumeration.layout.closed)


def _count_front(enumeration: Enumeration, jobs: int, designs: int, on_progress: OnStep | None) -> tuple[KnownFront, int]:
    """Find the front and count its ties; also return how many designs were scored one by one."""
    table, done, scored = KnownFront(enumeration.layout.features), 0, 0
    limits = table.limits(enumeration.layout)

    def take(result: PartResult) -> None:
        nonlocal limits, done, scored
        # The finds of a truncated part come again, and are counted then.
        counts = np.zeros_like(result.counts) if result.truncated else result.counts
        if table.merge(result.vectors, counts, result.chains):
            limits = table.limits(enumeration.layout)
        if result.truncated:
            return
        done, scored = done + result.designs, scored + result.scored
        if on_progress is not None:
            on_progress(Step("designs", done, designs, len(table.counts())))

    run_parts(enumeration, _all_parts(enumeration), jobs, lambda: limits, take)
    return table, scored


def _list_ties(enumeration: Enumeration, jobs: int, table: KnownFront) -> tuple[Population, ...]:
    """Return all designs of the front, vector by vector: under its own limits, no other design is found."""
    limits = table.limits(enumeration.layout)
    listed: dict[tuple[int, ...], list[Sequence[int]]] = {tuple(vector): [] for vector in table.vectors().tolist()}

    def take(result: PartResult) -> None:
        if result.truncated:
            return
        for vector, chain in zip(result.vectors.tolist(), result.chains.tolist(), strict=True):
            listed[tuple(vector)].append(chain)

    run_parts(enumeration, _all_parts(enumeration), jobs, lambda: limits, take)
    chromosomes = [_chromosomes(chains, enumeration.layout.features) for chains in listed.values()]
    # Fewer stages first, then in lexicographic order.
    return tuple(genes[np.lexsort((*genes.T[::-1], genes.max(axis=1)))] for genes in chromosomes)


def _chromosomes(chains: Iterable[Sequence[int]], features: int) -> Population:
    rows = [chain_genes(chain, features) for chain in chains]
    return np.array(rows, dtype=np.int8).reshape(len(rows), features)
