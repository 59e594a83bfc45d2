"""The figures of the page, drawn from the CSV files."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

from paper.alternatives import KINDS, PointRow, peer_family
from paper.budgets import BudgetRow
from paper.comparison import ComparisonRow
from paper.fronts import FrontRow
from paper.grouping import group_rows
from paper.hypervolume import SEARCHES, VolumeRow
from paper.published import GDFS
from paper.sweeps import SweepRow
from paper.wishes import MATCHING, OWN, WishRow

# Marker of each family of methods; EMSCO is filled.
MARKERS = {"straight": "o", "curved": "s", "upgraded": "D"}
PEER_MARKERS = {
    "LightGBM": "v",
    "HistGradientBoosting": "^",
    "LightGBM CEGB": "<",
    "two-stage": ">",
    "greedy order": "x",
    "static": "+",
}


def draw_fronts(rows: Sequence[FrontRow], path: Path) -> None:
    """Draw the mean share of the exact front in each generation."""
    figure, panels = _data_panels(rows)
    for name, rows_of_data, panel in panels:
        for stages, own in sorted(group_rows(rows_of_data, "stages").items()):
            generations = sorted({row.generation for row in own})
            means = [statistics.fmean(row.found for row in own if row.generation == number) for number in generations]
            panel.plot(generations, means, marker=".", label=f"k = {stages}, of {own[0].front}")
        panel.set(title=name, xlabel="generation", ylabel="optima in the generation, mean")
        panel.legend(fontsize=7)
    _save(figure, path)


def draw_comparison(rows: Sequence[ComparisonRow], path: Path) -> None:
    """Draw the mean accuracy against the mean cost of each method, coloured by coverage."""
    figure, panels = _data_panels(rows)
    for name, rows_of_data, panel in panels:
        for method, own in group_rows(rows_of_data, "method").items():
            if not any(row.coverage for row in own):
                continue
            cost = statistics.fmean(row.cost / row.full_cost for row in own)
            accuracy, coverage = (statistics.fmean(getattr(row, figure) for row in own) for figure in ("accuracy", "coverage"))
            marker = "o" if method.startswith("EMSCO") else "s"
            points = panel.scatter(cost, accuracy, c=[coverage], vmin=0.4, vmax=1, cmap="viridis", marker=marker, edgecolors="k")
            side = {"ha": "right", "xytext": (-4, 3)} if cost > 0.7 else {"ha": "left", "xytext": (4, 3)}
            panel.annotate(method, (cost, accuracy), fontsize=5, textcoords="offset points", **side)
        panel.set(title=name, xlabel="cost, share of all features", ylabel="accuracy of the accepted")
        figure.colorbar(points, ax=panel, label="coverage")
    _save(figure, path)


def draw_sweeps(rows: Sequence[SweepRow], path: Path) -> None:
    """Draw cost and accuracy of the designs of all thresholds, coloured by coverage."""
    figure, panels = _data_panels([row for row in rows if row.coverage > 0])
    for name, own, panel in panels:
        costs, accuracies, coverages = zip(*((row.cost, row.accuracy, row.coverage) for row in own), strict=True)
        points = panel.scatter(costs, accuracies, c=coverages, vmin=0, vmax=1, cmap="viridis", s=10)
        panel.set(title=name, xlabel="mean cost", ylabel="accuracy of the accepted")
        figure.colorbar(points, ax=panel, label="coverage")
    _save(figure, path)


def draw_alternatives(rows: Sequence[PointRow], path: Path) -> None:
    """Draw error against cost at the operating points of the peers, and of EMSCO at the same floors; larger is more coverage."""
    figure, panels = _data_panels([row for row in rows if row.coverage > 0])
    for name, own, panel in panels:
        for family, marker in PEER_MARKERS.items():
            peers = [row for row in own if row.kind == "peer" and peer_family(row.peer) == family]
            if peers:
                _scatter(panel, peers, marker, "tab:gray" if family not in ("LightGBM", "LightGBM CEGB") else "tab:red", family)
        for kind in KINDS:
            _scatter(panel, [row for row in own if row.kind == kind], MARKERS[kind], "tab:blue", f"EMSCO, {kind}")
        panel.set(title=name, xlabel="cost, share of all features", ylabel="errors among the accepted", xscale="log")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.legend(fontsize=5)
    _save(figure, path)


def draw_wishes(rows: Sequence[WishRow], path: Path) -> None:
    """Draw accuracy against coverage, by means over runs: curves of the peers, and EMSCO's points with their cost."""
    figure, panels = _data_panels(rows)
    for name, own, panel in panels:
        runs = len({row.run for row in own})
        for method, of_method in group_rows(own, "method").items():
            points = []
            for group in group_rows(of_method, "level", "cap").values():
                means = [statistics.fmean(getattr(row, field) for row in group) for field in ("coverage", "accuracy", "cost")]
                if len(group) == runs and means[0] >= 0.4:
                    points.append(means)
            if not points:
                continue
            coverage, accuracy, cost = zip(*sorted(points), strict=True)
            if method not in (OWN, MATCHING):
                panel.plot(coverage, accuracy, label=f"{method}, cost {cost[0]:.2f}")
                continue
            colours = {"vmin": 0, "vmax": 1, "cmap": "viridis", "edgecolors": "k", "zorder": 3}
            found = panel.scatter(coverage, accuracy, c=cost, marker="o" if method == OWN else "s", label=method, **colours)
            if method == OWN:
                figure.colorbar(found, ax=panel, label="cost, share of all features")
        panel.set(title=name, xlabel="coverage", ylabel="accuracy of the accepted")
        panel.legend(fontsize=5)
    _save(figure, path)


def draw_volumes(rows: Sequence[VolumeRow], path: Path) -> None:
    """Draw the mean missing share of the exact volume, by landscape and search."""
    names = list(group_rows(rows, "data", "stages"))
    figure, panel = plt.subplots(figsize=(9, 3.5))
    for place, search in enumerate(SEARCHES):
        missing = [
            1 - statistics.fmean(row.volume for row in rows if (row.data, row.stages, row.search) == (*name, search))
            for name in names
        ]
        positions = [number + 0.16 * (place - 2) for number in range(len(names))]
        panel.bar(positions, [100 * share for share in missing], width=0.16, label=search)
    panel.set_xticks(range(len(names)), [f"{data}, k = {stages}" for data, stages in names], rotation=30, ha="right")
    panel.set(ylabel="volume missing, %", title="at equal evaluations")
    panel.legend(fontsize=7)
    _save(figure, path)


def draw_budgets(rows: Sequence[BudgetRow], path: Path) -> None:
    """Draw accuracy without reject against the mean number of features."""
    figure, panel = plt.subplots(figsize=(5, 3.5))
    for method, own in group_rows(rows, "method").items():
        budgets = sorted({row.budget for row in own})
        features = [statistics.fmean(row.features for row in own if row.budget == budget) for budget in budgets]
        accuracy = [100 * statistics.fmean(row.accuracy for row in own if row.budget == budget) for budget in budgets]
        panel.plot(features, accuracy, marker="o" if method.startswith("EMSCO") else "s", label=method)
    panel.plot(list(GDFS), list(GDFS.values()), "k*--", label="GDFS, published, one run")
    panel.set(xlabel="mean number of features", ylabel="accuracy of all rows, %")
    panel.legend(fontsize=7)
    _save(figure, path)


def _scatter(panel: Any, rows: Sequence[PointRow], marker: str, colour: str, label: str) -> None:
    costs = [max(row.cost / row.full_cost, 1e-3) for row in rows]
    errors = [1 - row.accuracy for row in rows]
    sizes = [2 + 28 * row.coverage**2 for row in rows]
    filled = {"facecolors": "none", "edgecolors": colour} if label.startswith("EMSCO") else {"c": colour}
    panel.scatter(costs, errors, marker=marker, s=sizes, label=label, linewidths=0.7, **filled)


def _data_panels(rows: Sequence[Any]) -> tuple[Any, list[tuple[str, list[Any], Any]]]:
    """Return a figure, and each data set with its rows and its panel."""
    groups = group_rows(rows, "data")
    count = len(groups)
    columns = min(3, count)
    lines = -(-count // columns)
    figure, panels = plt.subplots(lines, columns, figsize=(4.6 * columns, 3.6 * lines), squeeze=False)
    flat = list(panels.ravel())
    for panel in flat[count:]:
        panel.set_visible(False)
    return figure, [(name, own, panel) for (name, own), panel in zip(groups.items(), flat, strict=False)]


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=80, metadata={"Software": None})
    plt.close(figure)
