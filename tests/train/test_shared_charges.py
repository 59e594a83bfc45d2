"""Prices that features share: the costs file, the search, the manifest and the runtime's bill agree to the last digit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from emsco_runtime import Cascade, read_bundle
from emsco_runtime.bundle.manifest import Feature
from emsco_runtime.testing import make_bundle
from emsco_train import CostGroup, CostModel, Problem, Settings, export_design, run_search
from emsco_train.costs.units import CostUnits
from emsco_train.designs.genes import Genes
from emsco_train.export.searched_design import build_cascade
from emsco_train.search.workbench import Workbench

NAMES = ("a", "b", "c", "d")
prices = st.sampled_from([0.0, 0.0, 0.1, 0.2, 0.3, 1.1, 41.59])


@st.composite
def cost_models(draw: st.DrawFn) -> tuple[CostModel, dict[str, frozenset[str]], dict[str, float]]:
    """Draw a cost model, and its meaning by itself: the charges of each feature, and what each charge costs."""
    own = {name: draw(prices) for name in NAMES} | {"a": 0.7}
    shared = {group: (draw(prices), draw(st.sets(st.sampled_from(NAMES)))) for group in ("g", "h", "a")}
    derived = {name: draw(st.sets(st.sampled_from(NAMES[:place]), max_size=2)) for place, name in enumerate(NAMES) if place}
    charges = {
        name: {f"own {name}"} | {f"group {group}" for group, (_, members) in shared.items() if name in members} for name in NAMES
    }
    for name in NAMES[1:]:
        charges[name] = charges[name].union(*(charges[source] for source in derived[name]))
    costs = CostModel.from_mapping(
        own,
        groups=[CostGroup(group, cost, tuple(sorted(members))) for group, (cost, members) in shared.items()],
        derived={name: sorted(sources) for name, sources in derived.items()},
    )
    price_of = {f"own {name}": cost for name, cost in own.items()} | {f"group {name}": cost for name, (cost, _) in shared.items()}
    return costs, {name: frozenset(found) for name, found in charges.items()}, price_of


@st.composite
def cascades(draw: st.DrawFn, costs: CostModel) -> Cascade:
    """Draw a cascade of all features in up to four stages that accepts next to nothing, with the prices of a cost model."""
    order = draw(st.permutations(NAMES))
    cuts = sorted(draw(st.sets(st.integers(1, len(NAMES) - 1))))
    stages = [order[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    features = [
        Feature(name=name, kind="numeric", cost=costs.features[name]).with_groups(costs.groups_of(name)) for name in NAMES
    ]
    groups = {group.name: (group.cost, group.features) for group in costs.groups}
    return Cascade(make_bundle(stages, features=features, groups=groups, threshold=0.999))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(cost_models(), st.data())
def test_meter_search_manifest_and_bill_agree(
    drawn: tuple[CostModel, dict[str, frozenset[str]], dict[str, float]], data: st.DataObject
) -> None:
    """Every set costs the charges of its features, each once: by the meter, in the search's units, and on the runtime's bill."""
    costs, charges, price_of = drawn

    def exact(names: frozenset[str]) -> Fraction:
        needed = frozenset[str]().union(*(charges[name] for name in names))
        return sum((Fraction(str(price_of[charge])) for charge in needed), Fraction(0))

    meter, units = costs.meter(), CostUnits.of(costs.meter(), NAMES)
    for chosen in itertools.product([False, True], repeat=len(NAMES)):
        names = frozenset(itertools.compress(NAMES, chosen))
        assert meter.cost(names) == pytest.approx(float(exact(names)), rel=1e-15)
        assert Fraction(int(units.cost(np.array([chosen]))[0])) / Fraction(units.scale) == exact(names)
    cascade = data.draw(cascades(costs))
    known = data.draw(st.frozensets(st.sampled_from(NAMES), max_size=2))
    item = dict.fromkeys(NAMES, 0.0)
    decision = cascade.decide(item, known=dict.fromkeys(known, 0.0))
    assert decision.status == "rejected"
    assert decision.cost == meter.cost(frozenset(NAMES) - known)
    started = [name for stage in cascade.manifest.stages[:1] for name in stage.acquire]
    budget = cascade.manifest.stage_costs()[0].total
    bill = cascade.decide(item, budget=budget)
    assert bill.cost == meter.cost([name for record in bill.trace for name in record.acquired])
    assert set(started) <= {name for record in bill.trace for name in record.acquired}
    columns = cascade.decide_columns({name: np.zeros(3) for name in NAMES})
    assert np.asarray(columns.cost).tolist() == [meter.cost(NAMES)] * 3


@given(cost_models())
def test_units_are_what_is_paid_by_the_same_charges(
    drawn: tuple[CostModel, dict[str, frozenset[str]], dict[str, float]],
) -> None:
    """Two features of one gene have the same charges that cost anything, so that either pays for both."""
    costs, charges, price_of = drawn
    genes = Genes.of_units(costs.meter(), NAMES)
    for (one, first), (two, second) in itertools.combinations(zip(NAMES, genes.of_feature, strict=True), 2):
        paid = [{charge for charge in charges[name] if price_of[charge] > 0} for name in (one, two)]
        if first == second:
            assert paid[0] == paid[1]


COSTS = """
unit = "EUR"
[features]
links = 0
entropy = {groups = ["body", "dns"]}
age = {cost = 1.5, groups = ["dns"]}
size = 0.25
ratio = {from = ["size", "links"]}
[groups.body]
cost = 2
features = ["links"]
[groups.dns]
cost = 8
"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Return a problem whose features need one group, several, or what others need."""
    path = tmp_path_factory.mktemp("costs") / "costs.toml"
    path.write_text(COSTS, encoding="utf-8")
    rng = np.random.default_rng(4)
    names = ("links", "entropy", "age", "size", "ratio")
    table = rng.normal(size=(400, len(names)))
    y = table @ [0.5, 2.0, 1.0, 0.5, 1.0] + rng.normal(size=400) > 0
    columns = dict(zip(names, table.T, strict=True))
    return Problem.of(columns, y, costs=CostModel.from_file(path), threshold=0.85)


def test_the_search_prices_designs_as_the_runtime_does(problem: Problem) -> None:
    """Designs of an exact front cost the same in the search's units, by the meter, and as cascades of the runtime."""
    bench = Workbench(problem)
    outcome = run_search(problem, Settings(max_stages=3), jobs=1, workbench=bench)
    objectives = bench.evaluator()(np.array([design.chromosome for design in outcome.front], dtype=np.int8))
    assert objectives.mean_cost.tolist() == pytest.approx([design.cost for design in outcome.front], rel=1e-12)
    for design in list(outcome.front)[:3]:
        expected = [problem.meter.cost(itertools.chain(*design.stages[:count])) for count in range(1, len(design.stages) + 1)]
        assert [cost.total for cost in build_cascade(problem, design).manifest.stage_costs()] == expected


def test_an_exported_bundle_bills_what_training_counted(problem: Problem, tmp_path: Path) -> None:
    """The bundle has version 2, the groups that its features need, and the runtime's mean cost is the expected one."""
    rows = np.random.default_rng(5).normal(size=(300, 5))
    columns = dict(zip(problem.names, rows.T, strict=True))
    y = rows @ [0.5, 2.0, 1.0, 0.5, 1.0] > 0
    export_design(
        tmp_path / "bundle",
        stages=[["ratio"], ["links", "entropy"], ["age", "size"]],
        X=columns,
        y=y,
        held_out=(columns, y),
        costs=problem.costs,
        threshold=0.85,
    )
    manifest = read_bundle(tmp_path / "bundle").manifest
    assert manifest.schema_version == 2
    assert {group.name for group in manifest.groups} == {"body", "dns", "size"}
    assert [cost.total for cost in manifest.stage_costs()] == [2.25, 10.25, 11.75]
    decisions = Cascade.load(tmp_path / "bundle").decide_many(
        [dict(zip(problem.names, row, strict=True)) for row in rows.tolist()]
    )
    assert {one.cost for one in decisions} <= {2.25, 10.25, 11.75}
    assert math.fsum(one.cost for one in decisions) / len(decisions) == pytest.approx(manifest.expected.cost.mean, rel=1e-12)


def test_a_bundle_that_needs_no_version_2_is_written_as_version_1(tmp_path: Path) -> None:
    """Older readers keep reading: no field of version 2 is in the file."""
    rng = np.random.default_rng(6)
    table = {"x": rng.normal(size=200), "z": rng.normal(size=200)}
    costs = CostModel.from_mapping({"x": 0, "z": 1}, groups=[CostGroup("g", 1, ("x", "z"))])
    y = table["x"] > 0
    export_design(tmp_path / "b", stages=[["x"], ["z"]], X=table, y=y, held_out=(table, y), costs=costs, threshold=0.9)
    assert read_bundle(tmp_path / "b").manifest.schema_version == 1
    assert "version 2" not in (text := (tmp_path / "b" / "manifest.json").read_text(encoding="utf-8"))
    assert text.count('"groups"') == 1
