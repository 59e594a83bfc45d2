"""From a request to a problem: read the files, understand the columns, divide the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from emsco_train.costs.cost_model import CostModel
from emsco_train.data.features import FeatureOptions, find_gaps, infer_features
from emsco_train.data.problem import Problem
from emsco_train.errors import DesignError
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns, Source, read_source
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["PreparedRun", "prepare"]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """A request whose files were read: what will be searched."""

    request: TrainRequest
    source: Source
    problem: Problem  # at the first threshold


def prepare(request: TrainRequest, on_phase: OnPhase = ignore_phase) -> PreparedRun:
    """Read the files of a request and describe the problem; nothing is searched or written yet.

    `on_phase` is called with each `Phase` of it.
    """
    source = read_source(request.paths, request.columns, on_phase)
    on_phase(Phase("dividing and encoding the rows"))
    splits = source.splits()
    problem = Problem.of(
        source.table,
        source.labels,
        costs=None if request.costs is None else _read_costs(request.costs, request.columns, source.table.names),
        threshold=request.thresholds[0],
        features=_feature_options(request, source),
        shares=request.shares,
        splits=splits,
        folds=0 if splits is not None and request.folds is None else request.folds,
        groups=source.group,
        time=source.time,
        sample_weight=source.weight,
        class_weight=request.class_weight,
        C=request.C,
        calibrate=request.calibrate,
        seed=request.seed,
    )
    # Checks the others before anything is searched, and warns of those that are low.
    levels = [problem.thresholds, *(problem.with_threshold(threshold).thresholds for threshold in request.thresholds[1:])]
    for position, level in enumerate(levels):
        if level in levels[:position]:
            raise DesignError(f"threshold {request.thresholds[position]} is given twice: once is enough")
    return PreparedRun(request, source, problem)


def _read_costs(path: str, columns: Columns, names: Sequence[str]) -> CostModel:
    """Return the costs of the features; those of other columns, such as dropped ones, are ignored."""
    read, others = CostModel.from_file(path, names), columns.non_feature_columns()
    own = {name: cost for name, cost in read.features.items() if name in names or name not in others}
    groups = [replace(group, features=tuple(name for name in group.features if name in own)) for group in read.groups]
    costs = CostModel.from_mapping(own, groups=[group for group in groups if group.features], unit=read.unit)
    try:
        costs.check(names, names)
    except DesignError as error:
        raise DesignError(f"costs file {path}: {str(error).removeprefix('costs: ')}") from None
    return costs


def _feature_options(request: TrainRequest, source: Source) -> dict[str, FeatureOptions]:
    """Return the options of each feature; "ignore" for all applies only to those that hold categories."""
    names = source.table.names
    unknown = {name: policy for name, policy in request.unknown.items() if name}
    for name in unknown:
        if name not in names:
            raise DesignError(f"`unknown` names {name!r}, which is not a feature (features: {', '.join(names)})")
    kinds = request.columns.kinds or {}
    # A missing value in any row is allowed, even where the train rows happen to have none.
    options = {
        name: FeatureOptions(kind=kinds.get(name), missing="impute" if find_gaps(column).any() else None)
        for name, column in source.table.columns.items()
    }
    if request.unknown.get("") == "ignore":
        features = infer_features(source.table, names, CostModel.of(None, names), options)
        for feature in features:
            if feature.kind == "categorical":
                unknown.setdefault(feature.name, "ignore")
    return options | {name: replace(options[name], unknown=policy) for name, policy in unknown.items()}
