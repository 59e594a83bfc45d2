"""One generation of the genetic algorithm, and the way from it to the next: elite, growth, children.

Everything that the next generation needs is in `GenerationState`, the state of the random generator included; no more is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from emsco_runtime.support.arrays import Floats
from emsco_train.designs.chromosome import DesignSpace, Population, row_keys
from emsco_train.search.genetic.operators import crossover, initial_population, mutate, select, stage_probabilities
from emsco_train.search.genetic.pareto import Ranking, rank_population
from emsco_train.search.genetic.visited_designs import VisitedDesigns
from emsco_train.search.genetic.visited_sets import VisitedSets
from emsco_train.search.scoring.objectives import Evaluator, Objectives
from emsco_train.search.settings import Settings, round_half_up

__all__ = ["GenerationState", "GeneticAlgorithm", "HaltingRule"]

HaltingRule: TypeAlias = Literal["generations", "patience", "elite"]

# Children made for each one that is still missing, round after round, where those met before do not count; until a round in which
# hardly any is new: then nearly all designs near the parents were met, and some are met again.
_CHILDREN_PER_MISSING = (1.5, 4, 8)
_MIN_NEW_SHARE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class GenerationState:
    """A generation, evaluated and ranked, before its children are made.

    Parameters
    ----------
    number
        0 is the first population.
    population, objectives, ranking
        The chromosomes, the objectives of each, and how they rank.
    random_state
        Of the random generator, before the children are drawn.
    stale
        For how many generations the fittest chromosome has been the same.
    evaluations, visited
        Chromosomes evaluated so far, and which they were; none where designs may be visited again.
    sets
        The newest of their feature sets.
    """

    number: int
    population: Population
    objectives: Objectives
    ranking: Ranking
    random_state: Mapping[str, Any]
    stale: int
    evaluations: int
    visited: VisitedDesigns
    sets: VisitedSets

    @property
    def best(self) -> Population:
        """The fittest chromosome."""
        fittest: Population = self.population[self.ranking.order[0]]
        return fittest


@dataclass(frozen=True, slots=True, eq=False)
class GeneticAlgorithm:
    """Makes generations; what stays the same from one to the next.

    `settings` are resolved for the number of features, `table` is that of `stage_probabilities`, and `rng` is set to a state's
    own before it is used.
    """

    evaluator: Callable[[Population], Objectives]
    settings: Settings
    space: DesignSpace
    table: Floats
    rng: np.random.Generator

    @classmethod
    def of(cls, evaluator: Evaluator, settings: Settings, seed: int) -> GeneticAlgorithm:
        """Return the algorithm of a run."""
        resolved = settings.resolved(evaluator.n)
        space = resolved.space(evaluator.n)
        return cls(evaluator, resolved, space, stage_probabilities(space.max_stages, resolved.beta), np.random.default_rng(seed))

    def first_generation(self, seeds: Population | None = None) -> GenerationState:
        """Return the first generation: the seeds, as far as there is room, and random designs; or the only design there is."""
        if self.space.is_single:
            population = np.zeros((1, self.space.n), dtype=np.int8)
        else:
            size = self.settings.population
            given = np.zeros((0, self.space.n), dtype=np.int8) if seeds is None else seeds[:size]
            drawn = initial_population(size - len(given), self.space, self.table, self.rng)
            population = np.concatenate([given, drawn])
        objectives, evaluations = self._evaluate(population)
        visited = self._remember(VisitedDesigns.empty(), population)
        sets = VisitedSets.empty(self.space.n).union(population)
        return self._state(0, population, objectives, stale=0, evaluations=evaluations, visited=visited, sets=sets)

    def restore_generation(
        self,
        number: int,
        population: Population,
        *,
        evaluations: int,
        random_state: Mapping[str, Any] | None = None,
        stale: int = 0,
        visited: VisitedDesigns | None = None,
        sets: VisitedSets | None = None,
    ) -> GenerationState:
        """Return a generation again whose plain data was kept; its evaluations are not counted twice."""
        if random_state is not None:
            self.rng.bit_generator.state = dict(random_state)
        objectives, _ = self._evaluate(population)
        visited = visited or VisitedDesigns.empty()
        sets = (sets or VisitedSets.empty(self.space.n)).union(population)
        return self._state(number, population, objectives, stale=stale, evaluations=evaluations, visited=visited, sets=sets)

    def next_generation(self, state: GenerationState) -> GenerationState:
        """Return the next generation: the elite, and children for the rest."""
        # An interrupted call may have drawn already: every call begins with the state's own numbers.
        self.rng.bit_generator.state = dict(state.random_state)
        elite = self.elite_size(state)
        kept = state.ranking.order[:elite]
        children = self._unvisited_children(state, self._next_size(len(state.population), elite) - elite)
        scored, evaluated = self._evaluate(children)
        successor = self._state(
            state.number + 1,
            np.concatenate([state.population[kept], children]),
            state.objectives.take(kept).join([scored]),
            stale=0,
            evaluations=state.evaluations + evaluated,
            visited=self._remember(state.visited, children),
            sets=state.sets.union(children),
        )
        return replace(successor, stale=state.stale + 1) if np.array_equal(successor.best, state.best) else successor

    def halting_rule(self, state: GenerationState) -> HaltingRule | None:
        """Return the halting rule that ends the run here, if any."""
        if state.number >= self.settings.generations:
            return "generations"
        if self.settings.patience is not None and state.stale >= self.settings.patience:
            return "patience"
        if self.settings.growth == 0 and self.elite_size(state) == len(state.population):
            return "elite"
        return None

    def elite_size(self, state: GenerationState) -> int:
        """Return M: how many of the fittest distinct chromosomes pass unchanged."""
        return max(round_half_up(self.settings.elite * len(state.ranking.order)), state.ranking.front)

    def _next_size(self, size: int, elite: int) -> int:
        growth = self.settings.growth or 0
        if elite > size - growth:
            return elite + growth
        if elite < size - growth and size > self.settings.population:
            return max(size - growth, self.settings.population)
        return size

    def _unvisited_children(self, state: GenerationState, count: int) -> Population:
        """Return `count` children; unless the settings allow it, none that was met before, as far as others can be made."""
        if self.settings.revisit:
            return self._children(state, count)
        kept = state.population[:0]
        for tries in _CHILDREN_PER_MISSING:
            offspring = self._children(state, math.ceil(tries * (count - len(kept))))
            candidates = np.concatenate([kept, offspring])
            before, kept = len(kept), candidates[state.visited.is_new(candidates)][:count]
            if len(kept) == count:
                return kept
            if len(kept) - before < _MIN_NEW_SHARE * len(offspring):
                break
        return np.concatenate([kept, self._children(state, count - len(kept))])

    def _remember(self, visited: VisitedDesigns, population: Population) -> VisitedDesigns:
        return visited if self.settings.revisit else visited.union(population)

    def _children(self, state: GenerationState, count: int) -> Population:
        assert self.settings.mutation is not None  # noqa: S101 - resolved
        parents = select(state.ranking.log_fitness, 2 * count, self.rng)
        first, second = state.population[parents[:count]], state.population[parents[count:]]
        mixed = crossover(first, second, self.space, self.settings.crossover, self.rng)
        return mutate(mixed, self.space, self.settings.mutation, self.table, self.rng)

    def _evaluate(self, population: Population) -> tuple[Objectives, int]:
        """Evaluate every different chromosome once; return the objectives of all, and how many were evaluated."""
        _, first, inverse = np.unique(row_keys(population), return_index=True, return_inverse=True)
        scored = self.evaluator(population[first])
        return scored.take(inverse.reshape(-1).astype(np.int64)), len(first)

    def _state(
        self,
        number: int,
        population: Population,
        objectives: Objectives,
        *,
        stale: int,
        evaluations: int,
        visited: VisitedDesigns,
        sets: VisitedSets,
    ) -> GenerationState:
        chosen = self.settings
        ranking = rank_population(
            population,
            objectives,
            constraints=chosen.constraints,
            epsilon=chosen.epsilon,
            distinct=chosen.distinct,
            share_ties=chosen.share_ties,
        )
        random_state = self.rng.bit_generator.state
        return GenerationState(number, population, objectives, ranking, random_state, stale, evaluations, visited, sets)
