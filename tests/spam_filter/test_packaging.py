"""What is shipped with the code: rules and queries that Prometheus accepts, names of metrics that exist, options that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry
from spam_filter.cli.learn import _parser as learn_parser
from spam_filter.cli.retrain import parse_options as parse_retrain
from spam_filter.cli.serve import _parser
from spam_filter.service.metrics import ServiceMetrics

PACKAGING = Path(__file__).parents[2] / "examples" / "spam_filter" / "packaging"
PROMTOOL = shutil.which("promtool")


def queries() -> list[str]:
    """Return the expressions of rules and dashboard."""
    rules = yaml.safe_load((PACKAGING / "alerts.yml").read_text(encoding="utf-8"))
    panels = json.loads((PACKAGING / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    found = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return found + [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_metric_that_is_asked_for_exists() -> None:
    """No rule and no panel asks for a metric that the service does not have."""
    registry = CollectorRegistry()
    ServiceMetrics(registry)
    ours = {name for family in registry.collect() for name in (family.name, f"{family.name}_total", f"{family.name}_bucket")}
    ours.add("spam_filter_restarts_total")
    asked = {name for query in queries() for name in re.findall(r"\bspam_filter_\w+", query)}
    assert asked <= ours
    assert len(asked) >= 8


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)")
def test_prometheus_accepts_rules_and_queries(tmp_path: Path) -> None:
    """promtool checks the rules; the queries of the dashboard are checked as rules of their own."""
    made = {"groups": [{"name": "all", "rules": [{"record": f"q{n}", "expr": query} for n, query in enumerate(queries())]}]}
    (tmp_path / "queries.yml").write_text(yaml.safe_dump(made), encoding="utf-8")
    for path in (PACKAGING / "alerts.yml", tmp_path / "queries.yml"):
        done = subprocess.run([str(PROMTOOL), "check", "rules", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_starts_what_there_is() -> None:
    """Its example of options is understood by the command; what runs is the command that the package installs."""
    text = (PACKAGING / "spam-filter.service").read_text(encoding="utf-8")
    options = re.search(r"SPAM_FILTER_OPTIONS=(.*)", text)
    assert options is not None
    assert _parser().parse_args(options[1].split()).processes == 2
    assert re.search(r"^ExecStart=\S+/spam-filter serve \$SPAM_FILTER_OPTIONS$", text, re.MULTILINE)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    """No setting of a unit is unknown to systemd."""
    for name in ("spam-filter.service", "spam-filter-retrain.service", "spam-filter-retrain.timer"):
        text = (PACKAGING / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace("/opt/spam-filter/bin/spam-filter", "/bin/true"), encoding="utf-8")
    for unit in tmp_path.iterdir():
        done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
        assert "Unknown" not in done.stderr, done.stderr


@pytest.mark.parametrize("command", ["learn", "retrain"])
def test_the_retraining_uses_options_that_there_are(command: str) -> None:
    """Its lines are understood by the commands, with the options of its example."""
    text = (PACKAGING / "spam-filter-retrain.service").read_text(encoding="utf-8")
    given = dict(re.findall(r"#   (\w+)=(.*)", text))
    line = next(line for line in text.splitlines() if line.startswith(f"ExecStart=/opt/spam-filter/bin/spam-filter {command} "))
    arguments = re.sub(r"\$(\w+)", lambda found: given[found[1]], line).split()[2:]
    if command == "learn":
        assert len(learn_parser().parse_args(arguments).spam) == 1
    else:
        options = parse_retrain(arguments)
        assert len(options.mail) == 2
        assert options.own_domain == ["example.org"]
