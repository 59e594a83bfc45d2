"""Boosted trees in all stages of the designs that a search found, or in their last stage alone: what each of them adds.

Searches with curved stages (one validation split), then fits designs of the front again both ways. `volume` is what the searched
designs, together with those of one kind or of both, dominate on the validation rows (see `Front.hypervolume`). Of each of these
fronts the cheapest design that keeps a pair of floors by its validation figures is chosen; its figures are those of test rows.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import moocore
import numpy as np
from stages import CASES, Case, draw_problem

from emsco_runtime.cli.console import format_table
from emsco_train import Settings
from emsco_train.data.labelled_rows import Split
from emsco_train.designs.design import Design
from emsco_train.models.evaluation import run_stages
from emsco_train.models.fitted_set import ProblemFitters, StageDecisions
from emsco_train.search.sweep import search_thresholds

SETTINGS = Settings(population=60, generations=25, max_stages=4)
MAX_DESIGNS = 20
FRONTS = {
    "searched": ("searched",),
    "+ all": ("searched", "all"),
    "+ last": ("searched", "last"),
    "+ both": ("searched", "all", "last"),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """Coverage, accuracy and mean cost on the rows of a split."""

    coverage: float
    accuracy: float
    cost: float


class DesignFigures:
    """Measures designs with stages of two kinds on the rows of a split; each feature set of a kind is fitted and scored once."""

    def __init__(self, fitters: ProblemFitters, split: Split) -> None:
        self._makers = {"fast": fitters.exported, "boosted": fitters.upgraded("boosted").exported}
        self._problem = fitters.problem
        self._split = split
        self._decided: dict[tuple[str, frozenset[str]], StageDecisions] = {}

    def _decide(self, kind: str, names: Sequence[str]) -> StageDecisions:
        key = (kind, frozenset(names))
        if key not in self._decided:
            fitted = self._makers[kind].fit(names)
            self._decided[key] = fitted.decide_rows(self._split.codes[:, fitted.positions], self._problem.thresholds)
        return self._decided[key]

    def measure(self, design: Design, way: str) -> Figures:
        """Return the figures of a design as it was searched, or with boosted trees in all stages or in the last."""
        sets = list(itertools.accumulate(design.stages))
        boosted = {"searched": 0, "all": len(sets), "last": 1}[way]
        kinds = ["fast"] * (len(sets) - boosted) + ["boosted"] * boosted
        costs = [stage.total for stage in self._problem.meter.stage_costs(design.stages)]
        found = run_stages([self._decide(*pair) for pair in zip(kinds, sets, strict=True)], costs)
        right = int((found.label[found.accepted] == self._split.target[found.accepted]).sum())
        accepted = int(found.accepted.sum())
        return Figures(accepted / len(self._split), right / max(1, accepted), float(found.cost.mean()))


def measure_division(case: Case, division: int) -> dict[tuple[str, str], list[float]]:
    """Return the figures of each front, and of the designs that are chosen from it."""
    problem = draw_problem(replace(case, folds=0), division, "curved")
    assert problem.test is not None
    fitters = ProblemFitters(problem)
    front = next(search_thresholds(problem, None, SETTINGS, method="evolve", seed=division, jobs=1, fitters=fitters)).front
    places = np.linspace(0, len(front) - 1, min(MAX_DESIGNS, len(front))).astype(int)
    designs = [sorted(front, key=lambda design: design.cost)[place] for place in places]
    seen, unseen = (DesignFigures(fitters, split) for split in (problem.validation, problem.test))
    measured = {(way, number): seen.measure(design, way) for way in FRONTS["+ both"] for number, design in enumerate(designs)}
    found: dict[tuple[str, str], list[float]] = {}
    for name, ways in FRONTS.items():
        own = {key: figures for key, figures in measured.items() if key[0] in ways}
        points = [[one.coverage, one.accuracy, one.cost / problem.full_cost] for one in own.values()]
        volume = moocore.hypervolume(points, ref=[0.0, 0.0, 1.0], maximise=[True, True, False])
        found[name, "volume"] = [float(volume)]
        for accuracy, coverage in case.floors:
            kept = {key: one for key, one in own.items() if one.accuracy >= accuracy and one.coverage >= coverage}
            if not kept:
                continue
            way, number = min(kept, key=lambda key: kept[key].cost)
            chosen = unseen.measure(designs[number], way)
            found[name, f"{accuracy:g} / {coverage:g}"] = [chosen.accuracy, chosen.coverage, chosen.cost]
    return found


def main() -> None:
    """Measure, and print means over the divisions in which every front has a design for the floors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", choices=CASES, default="spambase")
    parser.add_argument("--divisions", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results = [measure_division(CASES[options.table], division) for division in range(options.divisions)]
    rows = []
    for what in dict.fromkeys(key[1] for result in results for key in result):
        shared = [result for result in results if all((name, what) in result for name in FRONTS)]
        cells = [
            " / ".join(f"{number:.4g}" for number in np.mean([result[name, what] for result in shared], axis=0))
            if shared
            else "-"
            for name in FRONTS
        ]
        rows.append([what, str(len(shared)), *cells])
    print(format_table(["accuracy, coverage, cost at", "divisions", *FRONTS], rows))


if __name__ == "__main__":
    main()
