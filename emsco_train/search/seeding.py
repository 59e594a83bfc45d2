"""The first designs of a genetic search that are not drawn at random: chains of sets along greedy paths, and single acquisitions.

In a wide table almost every random draw is a bad design. A few hundred fits along paths find the features that matter, and the
recombination makes the best designs of these sets.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import numpy as np

from emsco_runtime.support.arrays import Mask
from emsco_train.designs.chromosome import DesignSpace, Population, unique_rows
from emsco_train.designs.genes import Genes
from emsco_train.search.design_bench import DesignBench
from emsco_train.search.genetic.pareto import spread_over_front
from emsco_train.search.greedy import PathRule
from emsco_train.search.pace import AdaptiveBatches, OnStep, Step
from emsco_train.search.recombination import recombine_sets
from emsco_train.search.scoring.evaluator import GeneEvaluator
from emsco_train.support.stop_flag import FitStopped

__all__ = ["fit_start", "seed_designs"]

# Steps of a path, single acquisitions, and the share of the first population that is seeded.
_MAX_STEPS = 50
_MAX_SINGLES = 100
_SEEDED_SHARE = 1 / 3


def seed_designs(
    bench: DesignBench,
    threshold: int,
    genes: Genes,
    space: DesignSpace,
    population: int,
    *,
    deadline: float | None,
    on_step: OnStep | None,
) -> Population:
    """Return designs for the first generation of a search with `population` designs.

    They depend on the problem and the space alone, unless the deadline, on `time.monotonic`, comes before they are complete:
    then they are those of the sets until then.
    """
    sets = _collect_sets(bench, threshold, genes, space, deadline, on_step)
    evaluator = GeneEvaluator(bench.evaluator(threshold), genes)
    found = recombine_sets(evaluator, sets, max_stages=space.max_stages, keep_all=not space.allow_exclusion, deadline=deadline)
    found = found[unique_rows(found)]
    return found[spread_over_front(evaluator(found), max(1, int(_SEEDED_SHARE * population)))]


def fit_start(designs: Population, space: DesignSpace) -> Population:
    """Return designs of an earlier run as this space allows them: in no more stages, with the pinned features first."""
    fitting = np.minimum(designs, space.max_stages - 1)
    if not space.allow_exclusion:
        last = np.minimum(fitting.max(axis=1, keepdims=True) + 1, space.max_stages - 1)
        fitting = np.where(fitting < 0, last, fitting)
    repaired = space.repair(fitting.astype(np.int8))
    return repaired[unique_rows(repaired)]


def _collect_sets(
    bench: DesignBench, threshold: int, genes: Genes, space: DesignSpace, deadline: float | None, on_step: OnStep | None
) -> Mask:
    """Return the sets of genes along the paths, of single acquisitions, and of all genes, as far as time allows; fitted."""
    paths = bench.greedy_paths()
    pinned = np.zeros((1, space.n), dtype=np.bool_)
    pinned[:, list(space.pinned)] = True
    start = genes.expand_sets(pinned)[0]
    rules = list(itertools.starmap(PathRule, itertools.product((None, bench.thresholds[threshold].last), (1.0, 0.0))))
    n = len(start)
    steps = min(n, _MAX_STEPS)
    walks = itertools.islice(paths.walk(start, rules), len(rules) * steps)
    singles = paths.rank_acquisitions()[:_MAX_SINGLES] | start
    # A path alone is no design: half of the time is for the fits of its sets on all folds.
    halfway = None if deadline is None else (time.monotonic() + deadline) / 2
    walked = list(_until(halfway, walks, len(rules) * steps, on_step))
    sets = _by_size(genes.cover_sets(np.array([*walked, *singles, np.ones(n, dtype=np.bool_)])))
    # The last ones may be left out: small ones are quick, and only those along a path make chains.
    on_paths = {present.tobytes() for present in genes.cover_sets(np.array(walked))} if walked else set()
    sets = sets[np.argsort([present.tobytes() not in on_paths for present in sets], kind="stable")]
    done = 0
    try:
        # Alone, the first is fitted as soon as can be: with it there is a front.
        batches = AdaptiveBatches(seconds=bench.evaluator(threshold).batch_seconds, first=1, least=bench.jobs)
        for part, _ in batches.run(len(sets), lambda part: bench.fit_sets(genes.expand_sets(sets[part]))):
            done = part.stop
            if deadline is not None and time.monotonic() >= deadline and space.allow_exclusion:
                break
    except FitStopped:
        if not done or not space.allow_exclusion:
            raise
    return _by_size(sets[:done])


def _by_size(sets: Mask) -> Mask:
    """Return distinct sets, the smallest first."""
    distinct = np.unique(sets, axis=0)
    return distinct[np.argsort(distinct.sum(axis=1), kind="stable")]


def _until(deadline: float | None, walks: Iterator[Mask], total: int, on_step: OnStep | None) -> Iterator[Mask]:
    for done, present in enumerate(walks, start=1):
        yield present
        if on_step is not None:
            on_step(Step("seeds", done, total))
        if deadline is not None and time.monotonic() >= deadline:
            return
