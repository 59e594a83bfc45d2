"""`Settings`: every choice of the genetic algorithm, checked once, and a hash that identifies them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias

from emsco_runtime.bundle.summary import pluralize
from emsco_train.data.splits import is_small_table
from emsco_train.designs.chromosome import DesignSpace
from emsco_train.designs.genes import Genes
from emsco_train.designs.selection import Constraints
from emsco_train.errors import DesignError
from emsco_train.support.numbers import is_integer, is_number

__all__ = [
    "MAX_STAGES",
    "SMALL_TABLE_STAGES",
    "Constraints",
    "Method",
    "Objective",
    "SearchUnits",
    "Settings",
    "limit_stages",
    "pinned_positions",
    "round_half_up",
]

# Which search: exact where that is affordable, genetic, or exact.
Method: TypeAlias = Literal["auto", "evolve", "exhaustive"]
# What moves from stage to stage: each feature, or features that are paid together as one.
SearchUnits: TypeAlias = Literal["auto", "features", "groups"]
# How rows count in the coverage and accuracy of a search.
Objective: TypeAlias = Literal["plain", "balanced"]

# Chromosomes are int8, and the local search numbers the stages and the gaps between them.
MAX_STAGES = 60
# Unless asked for more: in a small table, each further stage is chosen by the luck of a few rows.
SMALL_TABLE_STAGES = 3


def round_half_up(value: float) -> int:
    """Round to the nearest integer, halves upwards: the one rounding of the whole algorithm.

    Examples
    --------
    >>> round_half_up(2.5), round_half_up(3.5), round_half_up(2.4)
    (3, 4, 2)
    """
    return math.floor(value + 0.5)


def limit_stages(settings: Settings, features: int, rows: int) -> Settings:
    """Return settings whose most stages suit so few rows, unless they say how many.

    Examples
    --------
    >>> limit_stages(Settings(), 20, 155).max_stages, limit_stages(Settings(), 20, 1000).max_stages
    (3, None)
    """
    if settings.max_stages is not None or not is_small_table(rows):
        return settings
    most = settings.resolved(features).max_stages
    return replace(settings, max_stages=SMALL_TABLE_STAGES) if most is not None and most > SMALL_TABLE_STAGES else settings


def pinned_positions(pinned: object, names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions of features given by name or by position.

    Parameters
    ----------
    pinned
        A sequence of names, positions, or both.
    names
        The features in column order.

    Examples
    --------
    >>> pinned_positions(["size", 0], ["age", "size"])
    (1, 0)
    """
    if isinstance(pinned, str) or not hasattr(pinned, "__iter__"):
        raise DesignError(f"pinned is {pinned!r}: expected a list of feature names or positions")
    found = []
    for one in pinned:
        if is_integer(one):
            found.append(int(one))
        elif one in names:
            found.append(list(names).index(one))
        else:
            raise DesignError(f"pinned holds {one!r}, which is not a feature (features: {', '.join(names)})")
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the genetic algorithm and of its polish; the defaults are the paper's where the paper has one.

    Parameters
    ----------
    max_stages
        Most stages of a design (k); None for n / 2 rounded half up, but at least 2 (for a single feature: 1) and at most 10.
    population
        Chromosomes in a generation (|G|).
    generations
        Generations at most (max_iter).
    patience
        Stop when the fittest chromosome has not changed for this many generations (g); None never stops for that.
    mutation
        Chance of each gene to be redrawn (m); None for 1 / n.
    crossover
        Chance of a child to mix two parents (r).
    elite
        Share of the distinct chromosomes that pass unchanged (b).
    beta
        Bias of mutation against later stages; the larger, the fewer stages.
    growth
        Children that a generation has at least: the population grows for them where the elite fills it (inc). 0 ends the search
        there, as in the paper; None for a third of the population, with `keep_all` 0.
    epsilon
        Added to the ratio of best to worst performance in the fitness: the room between two ranks.
    distinct
        What counts once in the elite and in the result: "objectives" (ours: ties are one) or "chromosomes" (the paper's).
    share_ties
        Tied chromosomes share one place on the roulette wheel (ours), so that a large tie does not make all the children. Needs
        distinct="objectives".
    revisit
        Whether a child may be a design that was met before, as the paper has it; otherwise it is drawn again (ours), so that a
        run spends its generations on new designs.
    seeded
        Begin with designs along greedy paths of gain per cost (ours), in addition to random ones.
    recombine
        End with the best designs that can be made of the feature sets that were met, of very many the newest (ours): chains of
        nested sets, without a new fit.
    keep_all
        Every design acquires all features in the end, as the paper has it; otherwise (ours) features may be left out.
    units
        What moves from stage to stage: "features", each by itself; "groups", features that cost nothing beyond the groups
        they share move as one; "auto", groups unless all designs by features can be searched exactly.
    pinned
        Positions of features that stay in the first stage.
    constraints
        What a design must satisfy to be returned.
    objective
        How rows count in the coverage and accuracy that the search trades off: "plain", all the same; "balanced" (ours): each
        label as much as any other, however rare. Coverage is then the mean over the labels of the share of their rows that is
        accepted, and coverage times accuracy the mean of their recalls: balanced accuracy, where a label that is never accepted
        counts 0. So the design with the highest balanced accuracy at any cost is on the front. The figures of designs stay those
        of all rows. Never searched exactly, and without floors on coverage and accuracy.
    polish
        Follow the last generation with a local search (ours, not the paper's).
    polish_evaluations
        Most designs that the local search evaluates; None for a million up to 16 features, where every feature set is soon
        fitted and evaluations are quick, and 50,000 beyond.
    polish_seconds
        Most seconds that it takes; None for no limit. With a limit, results depend on the machine.

    Examples
    --------
    >>> Settings(population=100).resolved(9).max_stages
    5
    """

    max_stages: int | None = None
    population: int = 300
    generations: int = 150
    patience: int | None = None
    mutation: float | None = None
    crossover: float = 0.8
    elite: float = 0.2
    beta: float = 2.0
    growth: int | None = None
    epsilon: float = 0.01
    distinct: Literal["objectives", "chromosomes"] = "objectives"
    share_ties: bool = False
    revisit: bool = False
    seeded: bool = True
    recombine: bool = True
    keep_all: bool = False
    units: SearchUnits = "auto"
    pinned: tuple[int, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = "plain"
    polish: bool = False
    polish_evaluations: int | None = None
    polish_seconds: float | None = None

    def __post_init__(self) -> None:
        """Check every setting, list all faults in one error, and make numbers plain ones (so that hashes agree)."""
        faults = [*_number_faults(self), *_choice_faults(self)]
        if faults:
            raise DesignError("settings: " + "; ".join(faults))
        for name in (*_MINIMUMS, *_INTERVALS):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, int(value) if name in _MINIMUMS else float(value))
        object.__setattr__(self, "pinned", tuple(sorted(int(position) for position in self.pinned)))

    def space(self, n: int) -> DesignSpace:
        """Return the designs of n features that these settings allow."""
        full = self.resolved(n)
        assert full.max_stages is not None  # noqa: S101 - resolved
        return DesignSpace(n, full.max_stages, not full.keep_all, full.pinned)

    def resolved(self, n: int) -> Settings:
        """Return these settings with every default that depends on the number of features filled in.

        Parameters
        ----------
        n
            Number of features.

        Raises
        ------
        DesignError
            If there are more stages than features, or a pinned position beyond the last feature.
        """
        stages = min(max(round_half_up(n / 2), 2), 10, n) if self.max_stages is None else self.max_stages
        if stages > n:
            raise DesignError(
                f"max_stages is {stages}: expected an integer in [1, {n}], since the data have {pluralize(n, 'feature')}"
            )
        beyond = [position for position in self.pinned if position >= n]
        if beyond:
            raise DesignError(
                f"pinned holds {beyond}: expected positions in [0, {n - 1}], since the data have {pluralize(n, 'feature')}"
            )
        return replace(
            self,
            max_stages=stages,
            mutation=1 / n if self.mutation is None else self.mutation,
            growth=self.growth if self.growth is not None else 0 if self.keep_all else self.population // 3,
            polish_evaluations=self.polish_evaluations or (1_000_000 if n <= 16 else 50_000),
        )

    def for_genes(self, genes: Genes) -> Settings:
        """Return these settings for a search of genes: pins by gene, and no more stages than there are genes."""
        self.resolved(len(genes.of_feature))
        stages = self.max_stages if self.max_stages is None else min(self.max_stages, genes.n)
        units: SearchUnits = "features" if genes.n == len(genes.of_feature) else "groups"
        return replace(self, max_stages=stages, pinned=genes.positions(self.pinned), units=units)

    def digest(self) -> str:
        """Return a hash of all settings: the same in every process and on every machine.

        Examples
        --------
        >>> Settings(beta=2).digest() == Settings(beta=2.0).digest() != Settings(beta=2.5).digest()
        True
        """
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


# Integers, with the least that each may be.
_MINIMUMS = {"max_stages": 1, "population": 2, "generations": 1, "patience": 1, "growth": 0, "polish_evaluations": 1}
# Numbers, with their intervals: from, to, and whether the lower end is left out.
_INTERVALS = {
    "mutation": (0.0, 1.0, True),
    "crossover": (0.0, 1.0, False),
    "elite": (0.0, 1.0, False),
    "beta": (1.0, math.inf, True),
    "epsilon": (0.0, math.inf, True),
    "polish_seconds": (0.0, math.inf, True),
}
_OPTIONAL = ("max_stages", "patience", "mutation", "growth", "polish_evaluations", "polish_seconds")


def _number_faults(settings: Settings) -> Iterator[str]:
    for name in (*_MINIMUMS, *_INTERVALS):
        value = getattr(settings, name)
        if value is None and name in _OPTIONAL:
            continue
        if name in _MINIMUMS:
            least, most = _MINIMUMS[name], MAX_STAGES if name == "max_stages" else math.inf
            valid = is_integer(value) and least <= value <= most
            expected = f"an integer in [{least}, {most}]" if most < math.inf else f"an integer of {least} or more"
        else:
            low, high, exclusive = _INTERVALS[name]
            valid = _in_interval(value, low, high, exclusive=exclusive)
            expected = f"a number in {'(' if exclusive else '['}{low:g}, {f'{high:g}]' if high < math.inf else 'infinity)'}"
        if not valid:
            yield _describe_fault(name, value, expected)


def _choice_faults(settings: Settings) -> Iterator[str]:
    if settings.distinct not in {"objectives", "chromosomes"}:
        yield _describe_fault("distinct", settings.distinct, "'objectives' or 'chromosomes'")
    if settings.units not in {"auto", "features", "groups"}:
        yield _describe_fault("units", settings.units, "'auto', 'features' or 'groups'")
    for name in ("share_ties", "revisit", "seeded", "recombine", "keep_all", "polish"):
        if not isinstance(getattr(settings, name), bool):
            yield _describe_fault(name, getattr(settings, name), "True or False")
    if settings.share_ties is True and settings.distinct == "chromosomes":
        yield _describe_fault("share_ties", settings.share_ties, "False with distinct='chromosomes', where there are no ties")
    if settings.objective not in {"plain", "balanced"}:
        yield _describe_fault("objective", settings.objective, "'plain' or 'balanced'")
    if not isinstance(settings.constraints, Constraints):
        yield _describe_fault("constraints", settings.constraints, "a Constraints record")
    elif settings.objective == "balanced" and (settings.constraints.min_accuracy or settings.constraints.min_coverage):
        # They would limit balanced figures, which nobody asked for.
        yield _describe_fault("objective", settings.objective, "'plain' with a floor on accuracy or coverage; choose by it later")
    pinned: object = settings.pinned
    if not isinstance(pinned, tuple) or not all(is_integer(position) and position >= 0 for position in pinned):
        yield _describe_fault("pinned", pinned, "a tuple of feature positions, 0 or more")
    elif len(set(pinned)) < len(pinned):
        yield _describe_fault("pinned", pinned, "a tuple without repeats")


def _in_interval(value: object, low: float, high: float, *, exclusive: bool) -> bool:
    return is_number(value) and (low < value if exclusive else low <= value) and value <= high


def _describe_fault(name: str, value: object, expected: str) -> str:
    return f"{name} is {value!r}: expected {expected}"
