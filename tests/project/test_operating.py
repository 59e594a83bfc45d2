"""The operator's page and the alert rules: every metric, label, kind and setting that they name is one that exists."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client import CollectorRegistry

from emsco_runtime import Acquirers, AcquisitionError, Cascade
from emsco_runtime.decision import FailureKind, Reason, Status
from emsco_runtime.drift.gauges import DriftGauges
from emsco_runtime.drift.monitor import DriftMonitor
from emsco_runtime.observing.prometheus import Metrics, SourceGauges
from emsco_runtime.sources.breaker import CircuitBreaker
from emsco_runtime.sources.cache import AcquirerCache
from emsco_runtime.sources.pool import AcquirerPool
from emsco_runtime.testing import sample_bundle

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
RULES = (ROOT / "docs" / "alerts.yml").read_text(encoding="utf-8")
EXPRESSIONS = re.findall(r"^ +expr: (.+)$", RULES, flags=re.MULTILINE)
_WORDS = ["by", "on", "ignoring", "group_left", "sum", "rate", "max", "count", "offset", "histogram_quantile"]
# Labels whose values are ours, and those values; "raised" stands for an item without a decision.
VALUES = {"status": {*get_args(Status), "raised"}, "reason": set(get_args(Reason)), "kind": set(get_args(FailureKind))}


def _broken(item: object) -> float:
    raise ConnectionError("dead")


@cache
def series() -> dict[str, set[str]]:
    """Return the name of each sample that the metrics of a service show, and its labels."""
    registry = CollectorRegistry()
    bundle, monitor = sample_bundle(), DriftMonitor(sample_bundle().manifest)
    pool, breaker = AcquirerPool(1), CircuitBreaker()
    cached = AcquirerCache(key=lambda item: 1, ttl_s=60.0)
    SourceGauges(pools={"a": pool}, breakers={"a": breaker}, caches={"a": cached}, registry=registry)
    observers = [monitor, DriftGauges(monitor, registry=registry), Metrics(registry=registry)]
    for policy in ("default", "raise"):
        acquirers = Acquirers()
        acquirers.feature("size", cache=cached)(lambda item: 0.0)
        acquirers.feature("links", on_failure=policy)(_broken)  # type: ignore[arg-type]
        acquirers.feature("reputation")(lambda item: 3.0)
        cascade = Cascade(bundle, acquirers, observers=observers)
        if policy == "raise":
            with pytest.raises(AcquisitionError):
                cascade.decide({})
        else:
            # The second time a value comes out of the cache.
            assert all(cascade.decide({}).degraded for _ in range(2))
    found: dict[str, set[str]] = defaultdict(set)
    for family in registry.collect():
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return dict(found)


def named(text: str) -> set[str]:
    """Return the metrics that a text names; those of a family by a star."""
    return set(re.findall(r"(?<![\w.`/])`?(emsco_(?!runtime|train)\w+\*?)", text))


def is_metric(name: str) -> bool:
    """Return whether the metrics show such a sample, or family."""
    if name.endswith("*"):
        return any(one.startswith(name[:-1]) for one in series())
    return any(one in series() for one in (name, f"{name}_count", f"{name}_total"))


def test_the_page_names_metrics_that_exist() -> None:
    """Every metric on the page is one that a scrape shows."""
    found = named(PAGE)
    assert len(found) > 8
    assert [name for name in sorted(found) if not is_metric(name)] == []


def test_the_rules_name_metrics_that_exist() -> None:
    """Every metric in an expression is a sample of a scrape, by its exact name; unknown names are found."""
    alerts = re.findall(r"alert: (\w+)", RULES)
    assert len(EXPRESSIONS) == len(alerts) > 10
    assert set(re.findall(r"`(Emsco(?!Error)\w+)`", PAGE)) <= set(alerts)
    assert [name for line in EXPRESSIONS for name in named(line) if name not in series()] == []
    assert [name for name in named(RULES) if not is_metric(name)] == []
    assert not is_metric("emsco_decision_total")


@pytest.mark.parametrize("line", EXPRESSIONS)
def test_the_labels_of_a_rule_exist(line: str) -> None:
    """Labels that are asked for or summed by belong to every metric of the expression; values of labels are ones that occur."""
    shared = set.intersection(*(series()[name] for name in named(line)))
    asked = re.findall(r'(\w+)="(\w+)"', line)
    by = [label for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", line) for label in group.split(", ")]
    assert {label for label, _ in asked} | set(by) <= shared | ({"feature"} if "group_left" in line else set())
    assert [value for label, value in asked if value not in VALUES[label]] == []
    assert line.count("(") == line.count(")")
    # Nothing else is there: a misspelt function would be a word that nobody knows.
    words = set(re.findall(r"[a-z_]{2,}(?![\w\"])", re.sub(r"\[\w+\]|offset \w+|\"\w+\"", "", line)))
    assert words <= {*_WORDS, *by, *(label for label, _ in asked)} | named(line)


def test_the_rules_are_a_file_of_prometheus() -> None:
    """It is YAML, with groups of rules that each have a name of their own, an expression, a severity and what to do."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    (group,) = yaml.safe_load(RULES)["groups"]
    rules = group["rules"]
    assert [rule["expr"] for rule in rules] == EXPRESSIONS
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "action"}


def test_every_kind_of_failure_is_told() -> None:
    """The table of failures has a row for each kind, and no other."""
    table = PAGE.split("## What every failure does\n")[1].split("\n- ")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, flags=re.MULTILINE)) == set(get_args(FailureKind))


def test_the_settings_of_gunicorn_are_those_that_are_tested() -> None:
    """The function on the page is the one with which the tests of servers run."""
    (block,) = (one for one in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL) if "child_exit" in one)
    tested = ast.parse((ROOT / "tests" / "runtime" / "gunicorn_conf.py").read_text(encoding="utf-8"))
    shown, run = (next(one for one in tree.body if isinstance(one, ast.FunctionDef)) for tree in (ast.parse(block), tested))
    # The page leaves the docstring and the types out.
    assert [ast.dump(one) for one in shown.body] == [ast.dump(one) for one in run.body[1:]]
    assert [one.arg for one in shown.args.args] == [one.arg for one in run.args.args]
