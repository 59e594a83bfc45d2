"""`PartitionedProblem`: a search problem whose rows stay in the partitions of a table, from the table to a bundle.

One division of the rows: the train rows fit models, the validation rows measure designs. With as many rows as need partitions,
folds would cost several fits for little.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from types import TracebackType
from typing import Any, Self

import numpy as np

from emsco_runtime.bundle.manifest import CostSummary, Expected, Feature, StageExits
from emsco_runtime.support.arrays import Floats
from emsco_train.costs.cost_model import CostModel, Costs
from emsco_train.data.curves.encoder_learner import EncoderLearner
from emsco_train.data.directions import Directions
from emsco_train.data.encoder import BlockEncoder
from emsco_train.data.features import FeatureOptions, check_options, encode_table
from emsco_train.data.fit_memory import check_fit_memory
from emsco_train.data.labelled_rows import Split
from emsco_train.data.labels import label_positions, plain_labels, unique_labels
from emsco_train.data.problem import Problem, ScoredPart
from emsco_train.data.problem_warnings import warn_class_weight, warn_low_thresholds, warn_small_weights
from emsco_train.data.provenance import timestamp
from emsco_train.data.row_units import MAX_UNITS
from emsco_train.data.stage_settings import ClassWeight, StageKind, StageSettings, label_weights
from emsco_train.data.table import Table
from emsco_train.data.thresholds import Threshold, resolve_thresholds
from emsco_train.designs.design import Design
from emsco_train.distributed.fits import PartitionedLogistic
from emsco_train.distributed.part_reading import (
    Encoding,
    FramePart,
    PartitionColumns,
    PartSummary,
    code_part,
    sample_part,
    summarise_part,
)
from emsco_train.distributed.part_rows import PartRows, RowLayout
from emsco_train.distributed.partitioned_bench import PartitionedBench, PartitionedStages
from emsco_train.distributed.partitions import Partitions
from emsco_train.distributed.statistics import LearnedColumns, find_reach, learn_columns
from emsco_train.errors import DataError, DesignError, VerificationError
from emsco_train.export.manifest_draft import BundleInfo, ExportRows, build_manifest, describe_training_settings
from emsco_train.export.publication import Export, verify_and_write
from emsco_train.export.searched_design import check_design
from emsco_train.models.cascade_model import CascadeFitter
from emsco_train.models.fitted_set import SetFitter
from emsco_train.search.genetic.checkpoint import Checkpoints
from emsco_train.search.genetic.evolution import OnGeneration
from emsco_train.search.pace import OnStep
from emsco_train.search.searches import Outcome, run_evolve
from emsco_train.search.settings import Settings
from emsco_train.support.numbers import check_seed
from emsco_train.support.stop_flag import StopFlag

__all__ = ["PartitionedProblem", "ProblemOptions"]

# Rows that come to the client, about: curves are learned from them, and an export is verified on them.
_SAMPLE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """What to search with rows in partitions; all of it is described in `emsco_train.dask.make_problem`."""

    costs: Costs = None
    threshold: Threshold = 0.9
    class_weight: ClassWeight = None
    C: float = 1.0
    stages: StageKind = "straight"
    increasing: Sequence[str] = ()
    decreasing: Sequence[str] = ()


class PartitionedProblem:
    """A search problem whose rows are in partitions; `emsco_train.dask.make_problem` makes one.

    Parameters
    ----------
    problem
        The same problem on a sample of the rows, with the features, encoder and prices of all.
    bench
        What searches work with.
    close
        Ends what was started for it.
    """

    def __init__(self, problem: Problem, bench: PartitionedBench, stages: PartitionedStages, close: Callable[[], object]) -> None:
        self.problem = problem
        self.bench = bench
        self._stages = stages
        self._closing = ExitStack()
        self._closing.callback(close)

    @classmethod
    def of(
        cls, frames: Partitions[FramePart], columns: PartitionColumns, options: ProblemOptions, close: Callable[[], object] = bool
    ) -> PartitionedProblem:
        """Read the partitions of a table, and learn its features, labels and encoder."""
        directions = Directions.make(options.increasing, options.decreasing)
        settings = StageSettings(None, options.C, check_seed(columns.seed), kind=options.stages, directions=directions)
        if not settings.is_logistic:
            raise DesignError(f"stages is {options.stages!r}: rows in partitions can have 'straight' or 'curved' ones")
        cost_model = CostModel.of(options.costs, columns.names)
        cost_model.check(columns.names, columns.names)
        check_options(columns.options, columns.names)
        summary = frames.total(summarise_part, columns)
        labels = _check_labels(summary.labels)
        counts = {split: np.array([rows[label] for label in labels]) for split, rows in summary.labels.items()}
        described = _describe_features(summary, columns, cost_model)
        directions.check(described, labels)
        thresholds = resolve_thresholds(options.threshold, labels)
        warn_low_thresholds(thresholds, labels)
        warn_class_weight(counts["train"], labels, options.class_weight)
        train_rows, label_rows = int(counts["train"].sum()), counts["validation"].tolist()
        coded = frames.transform(code_part, Encoding(columns, described, labels))
        learned = learn_columns(coded, described, columns.options, train_rows)
        share = min(1.0, _SAMPLE_ROWS / (train_rows + sum(label_rows)))
        sample = _read_sample(frames.total(sample_part, (columns, share)).frames, columns, learned, labels)
        weights = label_weights(options.class_weight, labels, counts["train"].astype(np.float64))
        warn_small_weights(train_rows, float(weights @ counts["train"]), options.C)
        learner, encoder = _learn_curves(learned, sample["train"], labels, weights, settings)
        sample = {name: replace(split, encoder=encoder) for name, split in sample.items()}
        check_fit_memory(encoder.blocks, len(labels), 0)
        reach = find_reach(coded, encoder)
        rows = coded.transform(PartRows, RowLayout(encoder, weights))
        problem = Problem(
            names=columns.names,
            features=learned.features,
            labels=labels,
            thresholds=thresholds,
            costs=cost_model,
            meter=cost_model.meter(),
            settings=settings,
            class_weight=options.class_weight,
            weights=None,
            encoder=encoder,
            learner=learner,
            train=sample["train"],
            validation=sample["validation"],
            folds=0,
            parts=(ScoredPart(sample["train"], None, sample["validation"]),),
            test=None,
            certify=None,
        )
        stop = StopFlag()
        logistic = PartitionedLogistic(
            rows,
            label_weight=weights * counts["train"],
            reach=reach,
            C=float(options.C),
            signs=encoder.signs(directions),
            stop=stop,
            rows=train_rows,
        )
        stages = PartitionedStages(logistic)
        bench = PartitionedBench(problem, rows, stages, label_rows=label_rows, train_rows=train_rows, stop=stop)
        made = cls(problem, bench, stages, close)
        # Callbacks are called in reverse order: the rows go first.
        made._closing.callback(rows.release)
        return made

    def search(
        self,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        on_generation: OnGeneration | None = None,
        on_progress: OnStep | None = None,
        checkpoints: Checkpoints | None = None,
        time_limit: float | None = None,
    ) -> Outcome:
        """Search designs with the genetic algorithm; the parameters are those of `run_evolve`.

        The front is that of `run_evolve` on the same rows in one process, unless a row is so near a threshold that the last
        bits of a sum decide.
        """
        return run_evolve(
            self.problem,
            settings,
            seed=seed,
            on_generation=on_generation,
            on_progress=on_progress,
            checkpoints=checkpoints,
            time_limit=time_limit,
            workbench=self.bench,
        )

    def export(
        self,
        path: str | os.PathLike[str],
        design: Design,
        *,
        name: str = "cascade",
        version: str = "1",
        force: bool = False,
    ) -> Export:
        """Write the bundle of a design: fitted on all train rows, with its figures on all validation rows.

        Runtime and training are compared on the sample of the rows that the client has, not on all of them.

        Parameters
        ----------
        path
            Folder of the bundle.
        design
            Of a front of this problem.
        name, version, force
            As in `export_design`.

        Raises
        ------
        VerificationError
            If the design has other figures now than its search found, or if runtime and training disagree about a row.
        """
        problem, sample = self.problem, self.problem.train
        chosen = check_design(design, problem.names, problem.thresholds)
        expected = self._expected_figures(chosen)
        sets = SetFitter(problem.encoder, sample.codes, self._stages, len(problem.labels))
        fitter = CascadeFitter(problem.features, sets, labels=problem.labels, meter=problem.meter)
        model = fitter.fit(chosen.stages, chosen.stage_thresholds)
        positions = problem.encoder.positions([feature.name for feature in model.features])
        record = describe_training_settings(problem.settings, problem.class_weight, weighted=False)
        manifest = build_manifest(
            BundleInfo(name, version, timestamp(), problem.settings.seed),
            model,
            problem.costs,
            ExportRows(sample.codes[:, positions], sample.target),
            expected,
            {**record, "partitioned": True, "fingerprint": "of a sample of the train rows"},
        )
        tables = [(f"{split.name} sample", split.table) for split in (problem.train, problem.validation)]
        return verify_and_write(path, manifest, model, tables, force=force)

    def close(self) -> None:
        """Let the rows on the workers go, and a cluster that was started for them."""
        self._closing.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def _expected_figures(self, design: Design) -> Expected:
        """Return the counts of the manifest; raise unless they are those that the search found."""
        population = np.array([design.chromosome], dtype=np.int8)
        now = self.bench.designs(population, [1])[0]
        if (now.coverage, now.accuracy, now.cost) != (design.coverage, design.accuracy, design.cost):
            raise VerificationError(
                f"design {design.id} has other figures on the {self.bench.items} validation rows than its search found: coverage "
                f"{design.coverage:.6g}, accuracy {design.accuracy:.6g}, cost {design.cost:.6g} then, {now.coverage:.6g}, "
                f"{now.accuracy:.6g}, {now.cost:.6g} now. Nothing was written; search again, and choose a design of that front"
            )
        exits = self.bench.evaluator().exits(population)
        stages = tuple(
            StageExits(accepted=accepted, right=right)
            for accepted, right in zip(exits.accepted[0].tolist(), exits.right[0].tolist(), strict=True)
        )
        costs = [cost.total for cost in self.problem.meter.stage_costs(design.stages)]
        accepted = sum(stage.accepted for stage in stages)
        leaving = [stage.accepted for stage in stages]
        leaving[-1] += self.bench.items - accepted
        return Expected(
            split="validation",
            rows=self.bench.items,
            accepted=accepted,
            right=sum(stage.right for stage in stages),
            stages=stages,
            cost=_summarise_counts(costs, leaving, now.cost),
            labels=now.labels,
        )


def _check_labels(counts: Mapping[str, Mapping[Any, int]]) -> tuple[Any, ...]:
    """Return the labels in order; raise unless every label has train rows, and there are validation rows, not too many."""
    if not counts["train"] or not counts["validation"]:
        empty = next(split for split, rows in counts.items() if not rows)
        raise DataError(f"there are no {empty} rows: check the split column, or `validation`, the share of these rows")
    labels = unique_labels(list(counts["train"]), "the label column")
    unknown = [label for label in counts["validation"] if label not in labels]
    if unknown:
        raise DataError(f"label {unknown[0]!r} of the validation rows is in no train row: add train rows of it, or drop it")
    rows = sum(counts["validation"].values())
    if rows > MAX_UNITS:
        raise DataError(f"there are {rows:,} validation rows: expected {MAX_UNITS:,} at most. Give them a smaller share")
    return labels


def _describe_features(summary: PartSummary, columns: PartitionColumns, costs: CostModel) -> tuple[Feature, ...]:
    """Return the features of all columns, still without fallbacks."""
    described = tuple(column.describe(columns.options.get(column.name, FeatureOptions()), costs) for column in summary.columns)
    vector = next((feature.name for feature in described if feature.kind == "vector"), None)
    if vector is not None:
        raise DesignError(f"column {vector!r} holds vectors, which rows in partitions cannot have yet: give single columns")
    return described


def _read_sample(
    frames: Sequence[Any], columns: PartitionColumns, learned: LearnedColumns, labels: tuple[Any, ...]
) -> dict[str, Split]:
    """Return the sample of the rows that the client has, by split."""
    splits = {}
    for name in ("train", "validation"):
        parts = [part for frame in frames if len(part := frame[frame["_split"] == name])]
        if not parts:
            raise DataError(f"there are too few {name} rows to draw any for the sample: give them a larger share")
        tables = [Table.of(part[list(columns.names)]) for part in parts]
        true_labels = list(
            chain.from_iterable(plain_labels(part[columns.label], rows=len(part), where=columns.label) for part in parts)
        )
        table = Table(
            {column: np.concatenate([each.columns[column] for each in tables]) for column in columns.names},
            len(true_labels),
            frozenset[str]().union(*(each.categorical for each in tables)),
        )
        codes = encode_table(learned.features, table, f"{name} sample")
        target = label_positions(true_labels, labels)
        splits[name] = Split(name, np.arange(table.rows), table, codes, target, learned.encoder)
    return splits


def _learn_curves(
    learned: LearnedColumns, train: Split, labels: tuple[Any, ...], label_weight: Floats, settings: StageSettings
) -> tuple[EncoderLearner, BlockEncoder]:
    """Return how curves are learned from a sample of the train rows, and the encoder with them, where they were asked for."""
    weights = label_weight[train.target]
    learner = EncoderLearner.choose(
        *(learned.encoder, learned.features, train.codes, train.target),
        labels=labels,
        groups=None,
        weights=weights,
        settings=settings,
    )
    return learner, learner.refine(learned.encoder, train.codes, train.target, weights)


def _summarise_counts(costs: Sequence[float], rows: Sequence[int], mean: float) -> CostSummary:
    """Return mean, median, 95 % quantile and maximum of the costs of rows, given how many have each cost, in rising order."""
    paid = [(cost, count) for cost, count in zip(costs, rows, strict=True) if count]
    ends = np.cumsum([count for _, count in paid])
    p50, p95 = (paid[int(np.searchsorted(ends, share * ends[-1]))][0] for share in (0.5, 0.95))
    low, high = paid[0][0], paid[-1][0]
    # Rounding can put the mean of equal numbers a hair outside them.
    return CostSummary(mean=min(max(mean, low), high), p50=p50, p95=p95, max=high)
