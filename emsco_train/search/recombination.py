"""Recombination: new designs from feature sets that are fitted already.

A fit takes milliseconds and a design nanoseconds, so chains of nested sets are tried by the million. Beginning with every set as
a design of one stage, a design is *expanded*: any of its stages are left out, and any of the sets is put between
what remains, wherever it is nested. What nothing dominates joins the front. Each round expands some members, spread over the
front: with thousands of rows, fronts have thousands of members that hardly differ.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from emsco_runtime.support.arrays import Ints, Mask
from emsco_train.designs.chromosome import Population, compress
from emsco_train.search.genetic.pareto import first_minima, objective_points, spread_over_front
from emsco_train.search.scoring.chain_splicing import keep_uncovered
from emsco_train.search.scoring.evaluator import DesignEvaluator, GeneEvaluator, cumulative_sets
from emsco_train.search.scoring.objectives import Counts, Objectives

__all__ = ["distinct_sets", "drop_idle_stages", "recombine_sets"]

# Sets of which all pairs are tried; rounds of expansion, members of the front that one of them expands, and chains that it finds.
_MAX_PAIRED = 2_000
_MAX_ROUNDS = 6
_MAX_EXPANDED = 200
_MAX_FOUND = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class _Chains:
    """Designs as chains: rows of sets, ended by -1, and their vectors (accepted, right, cost)."""

    rows: Ints
    vectors: Counts

    def front(self, like: Objectives) -> _Chains:
        """Return those that none dominates; of equal vectors, the one with the fewest stages."""
        order = np.argsort((self.rows >= 0).sum(axis=1), kind="stable")
        kept = order[first_minima(objective_points(self.objectives(like).take(order)))]
        return _Chains(self.rows[kept], self.vectors[kept])

    def objectives(self, like: Objectives) -> Objectives:
        accepted, right, cost = self.vectors.T
        return replace(like, accepted=accepted, right=right, cost=cost)


def recombine_sets(
    evaluator: DesignEvaluator | GeneEvaluator, sets: Mask, *, max_stages: int, keep_all: bool, deadline: float | None = None
) -> Population:
    """Return the front of the chains of some sets of features, or of genes [sets, genes], as chromosomes.

    With `keep_all`, chains end in the set of all features, which must be there. The deadline is on `time.monotonic`; later than
    that, the front so far is returned.
    """
    if not len(sets):
        return np.zeros((0, evaluator.n), dtype=np.int8)
    singles = np.full((len(sets), max_stages), -1, dtype=np.int64)
    singles[:, 0] = np.arange(len(sets))
    like = evaluator(np.where(sets, 0, -1).astype(np.int8))
    chains = _Chains(singles, like.vectors())
    if keep_all:
        full = sets.all(axis=1)
        chains = _Chains(singles[full], chains.vectors[full])
        if max_stages > 2:
            singles[~full, 1] = np.argmax(full)
    # Two sets that are bad designs by themselves may be a good one together: so every pair is tried, with all features after it
    # where these are kept. Of two stages, then, one is free, and to expand the other is enough.
    waiting = list((chains.rows if keep_all and max_stages <= 2 else singles)[:_MAX_PAIRED])
    chains = chains.front(like)
    expanded = set[bytes]()
    for _ in range(_MAX_ROUNDS):
        found = np.empty((_MAX_FOUND, max_stages), dtype=np.int64)
        known = np.concatenate([chains.vectors, np.empty((_MAX_FOUND, 3), dtype=np.int64)])
        size = count = len(chains.rows)
        started = [np.ascontiguousarray(row[row >= 0]) for row in waiting]
        counted = evaluator.count_splices(sets, started, max_stages, keep_all=keep_all)
        for row, chain in zip(waiting, started, strict=True):
            if deadline is not None and time.monotonic() >= deadline:
                return _chromosomes(chains.rows, sets)
            expanded.add(row.tobytes())
            count += keep_uncovered(chain, *next(counted), known, count, found[count - size :])
        rows = np.concatenate([chains.rows, found[: count - size]])
        chains = _Chains(rows, known[:count]).front(like)
        chosen = chains.rows[spread_over_front(chains.objectives(like), _MAX_EXPANDED)]
        waiting = [row for row in chosen if row.tobytes() not in expanded]
        if not waiting:
            break
    return _chromosomes(chains.rows, sets)


def distinct_sets(population: Population) -> Mask:
    """Return the different feature sets that the stages of some designs have."""
    sets, valid = cumulative_sets(population)
    return np.unique(sets[valid], axis=0)


def drop_idle_stages(population: Population, evaluator: DesignEvaluator | GeneEvaluator, *, keep_all: bool) -> Population:
    """Return designs without the stages that accept no item: their features are acquired by the next stage.

    What a last such stage acquires is left out, unless all features are kept. No objective gets worse.
    """
    if not len(population):
        return population
    accepted = evaluator.exits(population).accepted
    last = population.max(axis=1)
    stages = np.arange(accepted.shape[1])
    busy = accepted > 0
    busy[np.arange(len(busy)), last] |= keep_all
    # A design that accepts nothing keeps its first stage.
    busy[:, 0] |= ~busy.any(axis=1)
    # The next stage that accepts something; -1 where there is none.
    following = np.where(busy, stages, accepted.shape[1])
    following = np.minimum.accumulate(following[:, ::-1], axis=1)[:, ::-1]
    moved = np.where(following == accepted.shape[1], -1, following).astype(np.int8)
    merged = np.where(population < 0, np.int8(-1), np.take_along_axis(moved, np.maximum(population, 0).astype(np.int64), axis=1))
    return compress(merged.astype(np.int8))


def _chromosomes(chains: Ints, sets: Mask) -> Population:
    """Return chains of sets as chromosomes: a feature's stage is that of the first set that has it."""
    present = sets[chains] & (chains >= 0)[:, :, None]
    return np.where(present.any(axis=1), present.argmax(axis=1), -1).astype(np.int8)
