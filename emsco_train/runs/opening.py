"""Opening a finished run again: its front, and its problem rebuilt from the data, held to the fingerprint of the training."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass

from emsco_runtime.bundle.summary import pluralize
from emsco_runtime.decision import Label
from emsco_train.costs.cost_model import CostModel
from emsco_train.data.features import FeatureOptions
from emsco_train.data.labels import plain_labels
from emsco_train.data.problem import Problem
from emsco_train.data.row_error import RowError
from emsco_train.data.splits import Splits
from emsco_train.data.stage_settings import ClassWeight
from emsco_train.designs.front import Front
from emsco_train.errors import (
    ConfidenceWarning,
    DataError,
    OutlierWarning,
    RareLabelWarning,
    RepeatedRowsWarning,
    ThresholdWarning,
    UnknownCategoryWarning,
)
from emsco_train.runs.folder import RunFolder
from emsco_train.runs.run_file import RunFile
from emsco_train.runs.source import Columns, Source, read_source
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["OpenRun", "open_run"]

_HINT = "Give the data that it was trained on with `data`, or train again"
# Row, split, and what follows.
_SPLIT_OF_LINE = re.compile(r"^[^,\n]*,([^,\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class OpenRun:
    """A finished run with its data."""

    folder: RunFolder
    run: RunFile
    front: Front  # designs of all thresholds
    problem: Problem  # at the first threshold


def open_run(
    path: str | os.PathLike[str], data: Mapping[str | None, str] | None = None, on_phase: OnPhase = ignore_phase
) -> OpenRun:
    """Open a run and its data.

    Parameters
    ----------
    path
        The folder.
    data
        Where the files are now, by split (None for one table), if not where they were.
    on_phase
        Called with each `Phase` of it.

    Raises
    ------
    DataError
        If the run is unfinished, of another version or damaged, or if the data are not those that it was trained on.
    """
    folder = RunFolder(path)
    run = folder.read()
    front = Front.from_json(folder.text("front.json"), rows=run.measured.rows)
    paths = {file.split: file.path for file in run.data.files}
    if any(split not in paths for split in data or {}):
        known = "one table" if None in paths else f"the files of {', '.join(map(str, paths))}"
        raise DataError(f"{folder.path} was trained on {known}: give `data` for one table, or the same splits")
    kinds = {column.name: column.kind for column in run.columns}
    columns = Columns(
        run.data.label,
        run.data.group_column,
        run.data.time_column,
        (*run.data.drop, *(entry.column for entry in run.data.dropped)),
        kinds,
        weight=run.data.weight_column,
        missing=frozenset(run.data.missing),
        drop_labels=run.data.drop_labels,
    )
    source = read_source(paths | dict(data or {}), columns, on_phase)
    on_phase(Phase("encoding the rows"))
    return OpenRun(folder, run, front, _rebuild_problem(folder, run, source))


def _rebuild_problem(folder: RunFolder, run: RunFile, source: Source) -> Problem:
    for trained, current in zip(run.data.files, source.files, strict=True):
        if trained.rows != current.rows:
            raise DataError(
                f"{current.path} has {pluralize(current.rows, 'row')}, it had {trained.rows} when the run was trained. {_HINT}"
            )
    paths = ", ".join(file.path for file in source.files)
    changed = f"{paths}: values have changed since the run was trained"
    # As we wrote it, whose hash was compared: numbers and our own words, without quotes.
    names = _SPLIT_OF_LINE.findall(folder.text("splits.csv"))[1:]
    labels = plain_labels(source.labels, rows=len(source.labels), where=paths)
    # Before the thresholds, which would not fit other labels, and would say so as if the user had given them.
    known = {label for label, split in zip(labels, names, strict=False) if split == "train"}
    if known != set(run.labels):
        raise DataError(f"{changed}: {_describe_other_labels(run.labels, known)}. {_HINT}")
    weights = run.class_weight
    class_weight: ClassWeight = (
        {label: weights[str(label)] for label in run.labels if str(label) in weights} if isinstance(weights, dict) else weights
    )
    try:
        with warnings.catch_warnings():
            # Training has given these warnings already.
            for category in (
                ConfidenceWarning,
                OutlierWarning,
                RareLabelWarning,
                RepeatedRowsWarning,
                ThresholdWarning,
                UnknownCategoryWarning,
            ):
                warnings.simplefilter("ignore", category)
            problem = Problem.of(
                # In the order of the training, whatever it is now; columns that have come since are left out.
                source.table.select([column.name for column in run.columns]),
                labels,
                costs=CostModel.from_file(folder.path / "costs.toml"),
                threshold=dict(zip(run.labels, run.thresholds[0].thresholds, strict=True)),
                features={
                    column.name: FeatureOptions(
                        kind=column.kind,
                        missing=column.missing,
                        unknown=column.unknown,
                        min_category=run.data.min_category if column.kind == "categorical" and column.unknown == "ignore" else 1,
                    )
                    for column in run.columns
                },
                splits=Splits.from_names(names),
                sample_weight=source.weight,
                folds=run.data.folds,
                groups=source.group,
                time=source.time,
                class_weight=class_weight,
                C=run.C,
                calibrate=run.calibrate,
                stages=run.stages,
                increasing=run.increasing,
                decreasing=run.decreasing,
                seed=run.search.seed,
            )
    except RowError:
        raise
    except DataError as error:
        raise DataError(f"{changed}: {error}. {_HINT}") from None
    if problem.data_digest() != run.data.fingerprint:
        raise DataError(f"{changed}. {_HINT}")
    return problem


def _describe_other_labels(trained: Sequence[Label], current: AbstractSet[Label]) -> str:
    """Return a label that is new in the train rows, or that is gone from them."""
    new = sorted(current - set(trained), key=str)
    return f"the label {new[0]!r} is new" if new else f"the label {min(set(trained) - current, key=str)!r} is gone"
