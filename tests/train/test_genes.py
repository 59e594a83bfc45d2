"""Units: features that are paid together move as one gene, in every search."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from emsco_runtime import Meter
from emsco_train import CostGroup, CostModel, EmscoClassifier, Problem, Settings
from emsco_train.designs.chromosome import compress
from emsco_train.designs.genes import Genes
from emsco_train.errors import DesignError
from emsco_train.search.gene_choice import choose_exact_genes, choose_genes
from emsco_train.search.genetic.checkpoint import CheckpointError, Checkpoints, read_checkpoint
from emsco_train.search.genetic.pareto import non_dominated
from emsco_train.search.searches import exhaustive, run_evolve, run_exhaustive, run_search
from emsco_train.search.workbench import Workbench

NAMES = tuple(f"f{index}" for index in range(8))
# Two groups, one of them with a member that has a price of its own; a free feature; and one alone.
GROUPS = (CostGroup("a", 4.0, ("f0", "f3", "f6")), CostGroup("b", 2.5, ("f1", "f2", "f4")))
PRICES = {**dict.fromkeys(NAMES, 0.0), "f4": 1.25, "f5": 3.0}


def grouped_problem(seed: int = 0, rows: int = 240) -> Problem:
    """Return a problem of eight features that make five units: f0+f3+f6, f1+f2, f4, f5, f7."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rows, len(NAMES)))
    y = table @ rng.normal(size=len(NAMES)) + rng.normal(size=rows) > 0
    columns = {name: table[:, index] for index, name in enumerate(NAMES)}
    return Problem.of(columns, y, costs=CostModel.from_mapping(PRICES, groups=GROUPS), threshold=0.75, seed=seed)


def wide_problem(groups: int = 6, members: int = 4) -> Problem:
    """Return a problem of too many features for an exact search, in a few groups."""
    rng = np.random.default_rng(1)
    names = [f"g{group}_{member}" for group in range(groups) for member in range(members)]
    table = rng.normal(size=(200, len(names)))
    y = table[:, ::members].sum(axis=1) + rng.normal(size=200) > 0
    shared = [
        CostGroup(f"g{group}", 1.0 + group, tuple(names[group * members : (group + 1) * members])) for group in range(groups)
    ]
    costs = CostModel.from_mapping(dict.fromkeys(names, 0.0), groups=shared)
    return Problem.of(dict(zip(names, table.T, strict=True)), y, costs=costs, threshold=0.7)


@st.composite
def meters(draw: st.DrawFn) -> Meter:
    """Draw prices of six features, many of them zero, in up to three groups."""
    own = {name: draw(st.sampled_from([0.0, 0.0, 1.5])) for name in NAMES[:6]}
    chosen = {name: draw(st.sampled_from([None, "x", "y", "z"])) for name in own}
    return Meter(own, {name: group for name, group in chosen.items() if group is not None}, {"x": 1.0, "y": 2.0, "z": 0.0})


@given(meters())
def test_a_whole_unit_costs_what_any_part_of_it_costs(meter: Meter) -> None:
    """The features of a gene are free once one of them is paid for, whatever else was; so a unit loses no cheaper set."""
    names = list(meter.features)
    genes = Genes.of_units(meter, names)
    for gene in range(genes.n):
        unit = [name for name, its in zip(names, genes.of_feature, strict=True) if its == gene]
        others = [name for name in names if name not in unit]
        for size in range(1, len(unit) + 1):
            for part in itertools.combinations(unit, size):
                assert meter.cost(part) == meter.cost(unit)
                assert meter.cost([*others, *part]) == meter.cost(names)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
def test_expanding_keeps_chromosomes_compressed(drawn: list[int], seed: int) -> None:
    """Every feature has the stage of its gene, and no stage becomes empty."""
    order = list(dict.fromkeys(drawn))
    genes = Genes(tuple(order.index(gene) for gene in drawn))
    assert genes.n == len(order)
    population = compress(np.random.default_rng(seed).integers(-1, 4, size=(20, genes.n)).astype(np.int8))
    expanded = genes.expand(population)
    assert np.array_equal(compress(expanded), expanded)
    for position, gene in enumerate(genes.of_feature):
        assert np.array_equal(expanded[:, position], population[:, gene])
    assert genes.positions(range(len(drawn))) == tuple(range(genes.n))


def test_single_features_are_the_genes_without_groups() -> None:
    """With a price for every feature, units are features; free features without a group are one unit."""
    assert Genes.of_units(Meter({"a": 1.0, "b": 2.0}, {"a": "g"}, {"g": 1.0}), ["a", "b"]) == Genes.of_features(2)
    assert Genes.of_units(Meter({"a": 0.0, "b": 2.0, "c": 0.0}, {}, {}), ["a", "b", "c"]) == Genes((0, 1, 0))


@pytest.mark.parametrize("exclusion", [False, True])
@pytest.mark.parametrize("pinned", [(), (3,)])
def test_the_exact_search_by_units_tries_all_designs_that_keep_units_together(
    exclusion: bool,
    pinned: tuple[int, ...],
) -> None:
    """Its front is that of all designs by features in which no unit is divided; a pin of one member pins its unit."""
    problem = grouped_problem()
    bench, genes = Workbench(problem), Genes.of_units(problem.meter, problem.names)
    assert genes == Genes((0, 1, 1, 0, 2, 3, 0, 4))
    settings = Settings(max_stages=3, keep_all=not exclusion, pinned=pinned, units="groups")
    outcome = run_exhaustive(problem, settings, workbench=bench, jobs=1)
    assert outcome.genes == genes
    drawn = itertools.product(range(-1 if exclusion else 0, 3), repeat=genes.n)
    every = np.unique(compress(np.array([one for one in drawn if max(one) >= 0], dtype=np.int8)), axis=0)
    every = every[(every[:, list(genes.positions(pinned))] == 0).all(axis=1)]
    assert outcome.designs == len(every)
    objectives = bench.evaluator()(genes.expand(every))
    expected = {tuple(vector) for vector in objectives.take(non_dominated(objectives)).vectors().tolist()}
    found = bench.evaluator()(np.array([design.chromosome for design in outcome.front], dtype=np.int8))
    assert {tuple(vector) for vector in found.vectors().tolist()} == expected
    assert len(outcome.front) == len(expected)


def test_all_searches_keep_units_together() -> None:
    """Generations and polish move whole units, find the exact front by units, and fit no set that divides one."""
    problem = grouped_problem(3)
    bench, exact = Workbench(problem), exhaustive(problem, max_stages=3, units="groups", jobs=1)
    settings = Settings(max_stages=3, population=60, generations=20, polish=True, units="groups")
    outcome = run_evolve(problem, settings, workbench=bench)
    assert bench.bits.fits <= 2**5 - 1
    for design in outcome.front:
        first, *others = (design.chromosome[position] for position in (0, 3, 6))
        assert others == [first, first]
    assert {(design.counts, design.cost) for design in outcome.front} == {(design.counts, design.cost) for design in exact}


def test_more_stages_than_units_are_as_many_as_there_are_units() -> None:
    """A bound on stages that suits the features is no error for their units; one beyond the features is."""
    problem = grouped_problem()
    outcome = run_search(problem, Settings(max_stages=8, units="groups"), jobs=1)
    assert max(len(design.stages) for design in outcome.front) <= 5
    with pytest.raises(DesignError, match="max_stages is 9"):
        run_search(problem, Settings(max_stages=9, units="groups"), jobs=1)


def test_auto_takes_units_where_features_are_too_many() -> None:
    """Few features are searched exactly one by one; many in few groups exactly by units; never in one group."""
    few, many = grouped_problem(), wide_problem()
    assert choose_genes(few, Settings()) == Genes.of_features(8)
    assert choose_genes(many, Settings()).n == 6
    assert choose_genes(many, Settings(units="features")).n == 24
    assert choose_genes(few, Settings(units="groups")).n == 5
    assert choose_genes(wide_problem(groups=1, members=24), Settings()).n == 24
    outcome = run_search(many, jobs=1)
    assert (outcome.method, outcome.genes.n, outcome.fits) == ("exhaustive", 6, 63)
    outcome = run_search(many, Settings(units="features", population=20, generations=1), jobs=1)
    assert (outcome.method, outcome.genes.n) == ("evolve", 24)


def test_an_exact_search_that_was_asked_for_takes_features_while_it_can() -> None:
    """By features within the seconds allowed, by units beyond; `exhaustive` means features by default."""
    problem = grouped_problem()
    assert choose_exact_genes(problem, Settings(), 60.0).n == 8
    assert choose_exact_genes(problem, Settings(), 1e-9).n == 5
    assert choose_exact_genes(wide_problem(), Settings(), 3600.0).n == 6
    assert run_search(wide_problem(), method="exhaustive", jobs=1).genes.n == 6
    with pytest.raises(DesignError, match="24"):
        exhaustive(wide_problem(), jobs=1)


def test_a_resumed_search_by_units_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    """The checkpoint holds chromosomes by genes; other units are other settings."""
    problem = wide_problem(groups=6)
    settings = Settings(population=30, generations=8, units="groups")
    whole = run_evolve(problem, settings)
    kept = Checkpoints(tmp_path / "checkpoint.json", every=1)

    def stop(generation: Any) -> None:
        if generation.number == 4:
            raise KeyboardInterrupt

    run_evolve(problem, settings, checkpoints=kept, on_generation=stop)
    assert len(read_checkpoint(kept.path).population[0]) == 6
    resumed = run_evolve(problem, settings, checkpoints=Checkpoints(kept.path, resume=True))
    assert [design.id for design in resumed.front] == [design.id for design in whole.front]
    with pytest.raises(CheckpointError, match="other settings"):
        run_evolve(problem, replace(settings, units="features"), checkpoints=Checkpoints(kept.path, resume=True))


def test_the_estimator_searches_by_units() -> None:
    """`units` is a parameter like any other."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 4))
    costs = CostModel.from_mapping(
        dict.fromkeys(("x0", "x1", "x2", "x3"), 0.0),
        groups=[CostGroup("g", 1.0, ("x0", "x2")), CostGroup("h", 2.0, ("x1", "x3"))],
    )
    model = EmscoClassifier(costs=costs, threshold=0.7, units="groups", random_state=0).fit(table, table.sum(axis=1) > 0)
    assert {design.chromosome[0] == design.chromosome[2] for design in model.front_} == {True}
    assert model.get_params()["units"] == "groups"
