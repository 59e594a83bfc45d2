"""Costs files: three forms, one meaning; errors name the file and the place."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from emsco_train import CostGroup, CostModel, DesignError

TOML = """
unit = "CAD"
[features]
age = 1
"glucose, fasting" = 15.5
insulin = 20.5
[groups.blood]
cost = 2.1
features = ["glucose, fasting", "insulin"]
"""
MEANT = CostModel(
    {"age": 1, "glucose, fasting": 15.5, "insulin": 20.5}, (CostGroup("blood", 2.1, ("glucose, fasting", "insulin")),), "CAD"
)


def write_file(folder: Path, name: str, text: str) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def error_message(folder: Path, name: str, text: str, names: list[str] | None = None) -> str:
    """Return the one error that reading such a file gives; it always names the file."""
    path = write_file(folder, name, text)
    with pytest.raises(DesignError) as caught:
        CostModel.from_file(path, names)
    assert str(caught.value).startswith(f"costs file {path}")
    return str(caught.value)


@pytest.mark.parametrize("name", ["costs.toml", "costs.TOML", "costs", "costs.txt"])
def test_toml_by_ending_or_content(tmp_path: Path, name: str) -> None:
    """TOML is recognised by its suffix, and without one by its content."""
    assert CostModel.from_file(write_file(tmp_path, name, TOML)) == MEANT


@pytest.mark.parametrize("name", ["costs.json", "costs"])
def test_json_has_the_same_shape(tmp_path: Path, name: str) -> None:
    """The same document as JSON means the same."""
    assert CostModel.from_file(write_file(tmp_path, name, json.dumps(tomllib.loads(TOML)))) == MEANT


@pytest.mark.parametrize("name", ["costs.csv", "costs.txt", "costs"])
@pytest.mark.parametrize("text", ["1,2.5,0", " 1, 2.5 ,0\n\n", "\ufeff1,25e-1,0\r\n"])
def test_one_line_is_in_column_order(tmp_path: Path, name: str, text: str) -> None:
    """The authors' form: numbers in the order of the columns, whose names come from the caller."""
    model = CostModel.from_file(write_file(tmp_path, name, text), ["c", "a", "b"])
    assert model == CostModel({"c": 1.0, "a": 2.5, "b": 0.0})


def test_a_file_without_groups_and_unit(tmp_path: Path) -> None:
    """Only the features are needed; a path may be plain text."""
    assert CostModel.from_file(str(write_file(tmp_path, "c.toml", "[features]\na = 2"))) == CostModel({"a": 2})


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
COSTS = st.floats(0, 1e12) | st.integers(0, 10**9)


@st.composite
def cost_models(draw: st.DrawFn) -> CostModel:
    """Draw a cost model with names of any characters and up to three groups."""
    features = draw(st.dictionaries(NAMES, COSTS, min_size=1, max_size=6))
    features[next(iter(features))] = 1.25
    groups = draw(st.dictionaries(NAMES, COSTS, max_size=3))
    members = {group: tuple(name for name in features if draw(st.booleans())) for group in groups}
    unit = draw(NAMES.filter(lambda name: bool(name) and not any(one < " " or one == "\x7f" for one in name)))
    return CostModel(features, tuple(CostGroup(group, cost, members[group]) for group, cost in groups.items()), unit)


@settings(deadline=None)
@given(cost_models())
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, model: CostModel) -> None:
    """`to_toml` quotes whatever a name holds, and `from_file` gives the same model back, to the last bit of every price."""
    path = write_file(tmp_path_factory.getbasetemp(), "round.toml", "")
    path.write_bytes(model.to_toml().encode())
    assert CostModel.from_file(path) == model
    document = tomllib.loads(model.to_toml())
    path.with_suffix(".json").write_text(json.dumps(document), encoding="utf-8")
    assert CostModel.from_file(path.with_suffix(".json")) == model


SHARED = """
[features]
links = 1
entropy = {cost = 0.1, groups = ["body", "dns"]}
age = {groups = ["dns"]}
ratio = {from = ["links", "entropy"]}
[groups.body]
cost = 2
features = ["links"]
[groups.dns]
cost = 30
"""


@pytest.mark.parametrize("name", ["costs.toml", "costs.json"])
def test_several_groups_and_derived_features(tmp_path: Path, name: str) -> None:
    """A feature names the groups that it needs, or what it is derived from; groups may still list their features."""
    text = SHARED if name == "costs.toml" else json.dumps(tomllib.loads(SHARED))
    costs = CostModel.from_file(write_file(tmp_path, name, text))
    prices = [costs.meter().cost([feature]) for feature in ("links", "entropy", "age", "ratio")]
    assert prices == [3.0, 32.1, 30.0, 33.1]
    assert costs.meter().cost(costs.features) == 33.1
    assert costs.groups_of("entropy") == ("body", "dns", "entropy")
    assert CostModel.from_file(write_file(tmp_path, "written.toml", costs.to_toml())) == costs


def test_unreadable_files(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are not text have different messages."""
    with pytest.raises(DesignError, match=r"costs file .*none\.toml: there is no such file"):
        CostModel.from_file(tmp_path / "none.toml")
    with pytest.raises(DesignError, match="cannot be read: Is a directory"):
        CostModel.from_file(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'unit = "\xa3"')
    with pytest.raises(DesignError, match="byte 8: not UTF-8 text"):
        CostModel.from_file(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.toml", "[features]\na = = 1", "is not TOML: Invalid value (at line 2, column 5)"),
        ("c.toml", "[features]\na = 1\na = 2", "is not TOML: Cannot overwrite a value (at "),
        ("c.json", '{"features": {"a" 1}}', "is not JSON: Expecting ':' delimiter: line 1 column 19"),
        ("c.json", '{"features": {"a": 1, "a": 2}}', "'a' occurs twice in one object"),
        ("c.json", "[1, 2]", "holds [1, 2]: expected an object with unit, features and groups"),
        ("c.json", "[" * 100_000, "is nested too deeply"),
        ("c.toml", "a = 1", "'a' is unknown here: known are unit, features, groups; there are no [features]"),
        ("c.toml", "unit = 3\n[features]\na = 1", "unit is 3: expected text"),
        ("c.toml", 'unit = ""\n[features]\na = 1', "unit is '': name what the costs count"),
        ("c.toml", "features = 3", "'features' is 3: expected a table"),
        ("c.toml", "groups = []\n[features]\na = 1", "'groups' is []: expected a table"),
        ("c.toml", "[features]\nsize.mean = 1", "features.size is a table: expected a number, or a table with cost"),
        ("c.toml", '[features]\na = "1"', "the cost of feature 'a' is '1': expected a finite number"),
        ("c.toml", "[features]\na = true", "the cost of feature 'a' is True"),
        ("c.toml", "[features]\na = -1\nb = nan\nc = inf", "'a' is -1"),
        ("c.json", '{"features": {"a": NaN}}', "the cost of feature 'a' is nan"),
        ("c.json", '{"features": {"a": 1' + "0" * 400 + "}}", "the cost of feature 'a' is inf"),
        ("c.toml", "[features]\na = 0", "all costs are 0"),
        ("c.toml", "[features]\n", "all costs are 0"),
        ("c.toml", "[features]\na = 1\n[groups]\ng = 3", "groups.g is 3: expected a table with cost and features"),
        ("c.toml", '[features]\na = 1\n[groups.g]\nfeatures = ["a"]', "groups.g has no cost: add it"),
        ("c.toml", "[features]\na = 1\n[groups.g]\ncost = 1", "groups.g.features is None: expected a list of feature names"),
        ("c.toml", "[features]\na = 1\n[groups.g]\ncost = 1\nfeatures = [1]", "groups.g.features is [1]"),
        ("c.toml", '[features]\na = 1\n[groups.g]\ncost = 1\nfeatures = ["a", "a"]', "groups.g.features names 'a' twice"),
        (
            "c.toml",
            '[features]\na = 1\n[groups.g]\ncost = 1\nfeatures = ["b"]\nx = 1',
            "'groups.g.x' is unknown here: known are cost",
        ),
        (
            "c.toml",
            '[features]\na = 1\n[groups.g]\ncost = 1\nfeatures = ["b"]',
            "'b', which has no cost of its own: add one (it may be 0",
        ),
        (
            "c.toml",
            '[features]\na = {cost = 1, groups = ["g"]}',
            "features.a.groups names 'g', which is not there: add [groups.g]",
        ),
        ("c.toml", "[features]\na = {cost = 1, groups = 3}", "features.a.groups is 3: expected a list of group names"),
        ("c.toml", "[features]\na = {cost = 1, from = [1]}", "features.a.from is [1]: expected a list of feature names"),
        ("c.toml", '[features]\na = {from = ["b", "b"]}\nb = 1', "features.a.from names 'b' twice"),
        ("c.toml", "[features]\na = {cost = 1, price = 2}", "'features.a.price' is unknown here: known are cost, groups, from"),
        ("c.toml", '[features]\na = {cost = "1"}', "the cost of feature 'a' is '1'"),
        ("c.toml", '[features]\na = {from = ["c"]}\nb = 1', "feature 'a' is derived from 'c', which has no cost"),
        ("c.toml", '[features]\na = {from = ["b"]}\nb = {cost = 1, from = ["a"]}', "feature 'a' is derived from itself"),
    ],
)
def test_faults_of_documents(tmp_path: Path, name: str, text: str, message: str) -> None:
    """The error names the file, the place inside it, and the value that was found."""
    assert message in error_message(tmp_path, name, text)


def test_every_fault_of_the_shape_at_once(tmp_path: Path) -> None:
    """One error lists every fault."""
    message = error_message(tmp_path, "c.toml", "unit = 1\nx = 2\n[features]\na.b = 1\n[groups.g]\nz = 1")
    for part in ("'x' is unknown", "unit is 1", "features.a is a table", "'groups.g.z' is unknown", "groups.g has no cost"):
        assert part in message


@pytest.mark.parametrize(
    ("text", "names", "message"),
    [
        ("1,2", None, "give the column names they belong to, from_file(path, names=[...])"),
        ("1,2,3", ["a", "b"], "has 3 numbers for 2 columns"),
        ("1,2,", ["a", "b", "c"], "number 3 (c) is '': expected a number"),
        ("1;2\n", ["a"], "number 1 (a) is '1;2'"),
        ("1,2\n3,4", ["a", "b"], "has 2 lines that are not empty"),
        ("", ["a"], "has 0 lines that are not empty"),
        ("1,-2", ["a", "b"], "the cost of feature 'b' is -2.0"),
        ("1,nan", ["a", "b"], "the cost of feature 'b' is nan"),
        ("0,0", ["a", "b"], "all costs are 0"),
        ("x" * 200, ["a"], "is '" + "x" * 79 + "...: expected a number"),
    ],
)
def test_faults_of_one_line(tmp_path: Path, text: str, names: list[str] | None, message: str) -> None:
    """One line that does not fit the columns is refused with its place."""
    assert message in error_message(tmp_path, "c.csv", text, names)
