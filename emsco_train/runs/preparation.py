"""From a request to a problem: read the files, understand the columns, divide the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from emsco_train.costs.cost_model import CostModel
from emsco_train.data.features import FeatureOptions, allow_gaps
from emsco_train.data.finding import Finding
from emsco_train.data.problem import Problem
from emsco_train.data.row_error import RowError
from emsco_train.data.splits import default_shares, is_small_table
from emsco_train.errors import DataError, DesignError, TableWarning
from emsco_train.runs.request import TrainRequest, UnknownCategoryPolicy
from emsco_train.runs.source import Columns, Source, read_source
from emsco_train.runs.table_findings import drop_useless_columns, find_label_faults, find_table_faults, record_warnings
from emsco_train.search.missed_limits import check_pinned_cost
from emsco_train.search.search_rows import choose_search_rows
from emsco_train.search.settings import Settings, limit_stages, pinned_positions
from emsco_train.support.label_numbers import name_labels
from emsco_train.support.phases import OnPhase, Phase, ignore_phase

__all__ = ["PreparedRun", "prepare", "resolve_settings"]


@dataclass(frozen=True, slots=True, eq=False)
class PreparedRun:
    """A request whose files were read: what will be searched."""

    request: TrainRequest  # with the defaults of a small table, where it is one
    source: Source
    problem: Problem  # at the first threshold
    findings: tuple[Finding, ...] = ()
    search_rows: int | None = None  # train and validation rows to search on, at most; None: all


def prepare(request: TrainRequest, on_phase: OnPhase = ignore_phase) -> PreparedRun:
    """Read the files of a request, check the table, and describe the problem; nothing is searched or written yet.

    Columns that no model can learn from are left out, unless the request names them; a `TableWarning` says so.
    `on_phase` is called with each `Phase` of it.
    """
    read = read_source(request.paths, request.columns, on_phase)
    on_phase(Phase("looking at the table"))
    # Columns whose kind or place the user gives are wanted.
    wanted = {*request.pinned, *request.unknown, *request.increasing, *request.decreasing}
    columns = request.columns
    findings = list(find_table_faults(read, columns.kinds or {}, wanted, columns.missing, min_category=request.min_category))
    source = drop_useless_columns(read, findings)
    _check_names(source)
    request, adapted = _adapt_to_small_table(_name_labels(request, source), source)
    findings += adapted
    # Before the rows are encoded, which may take long.
    resolve_settings(request, source.table.names)
    on_phase(Phase("dividing and encoding the rows"))
    with record_warnings(findings), _name_rows(source):
        problem = _make_problem(request, source, names=[name for name in read.table.names if name.strip()])
        # Checks the others before anything is searched, and warns of those that are low.
        levels = [problem.thresholds, *(problem.with_threshold(threshold).thresholds for threshold in request.thresholds[1:])]
    check_pinned_cost(resolve_settings(request, problem.names), problem)
    for position, level in enumerate(levels):
        if level in levels[:position]:
            raise DesignError(f"threshold {request.thresholds[position]} is given twice: give it once")
    findings += find_label_faults(problem)
    for one in findings:
        if one.is_dropped:
            warnings.warn(
                f"column {one.column!r} was left out: {one.what}{one.remedy and f'; {one.remedy}'}", TableWarning, stacklevel=2
            )
    search_rows = choose_search_rows(problem, request.max_search_rows, request.method)
    return PreparedRun(request, source, problem, tuple(findings), search_rows)


def resolve_settings(request: TrainRequest, names: Sequence[str]) -> Settings:
    """Return the settings of the search for these features; raise for pins that are none of them, and for too many stages."""
    settings = replace(request.settings, pinned=pinned_positions(request.pinned, names))
    settings.resolved(len(names))
    return settings


def _check_names(source: Source) -> None:
    """Raise if a feature has no name; the index of a data frame, which has none either, was left out as a counter before."""
    if not all(name.strip() for name in source.table.names):
        raise DataError(
            f"{source.files[0].path}: a column of the header has no name (the index of a data frame?): "
            "name it, or leave it out with `drop=('',)`"
        )


@contextmanager
def _name_rows(source: Source) -> Iterator[None]:
    """Let errors about a value name its row as the user's files count it, also where rows were left out."""
    try:
        yield
    except RowError as error:
        raise error.at(source.row_place(error.row), error.row) from None


def _make_problem(request: TrainRequest, source: Source, names: Sequence[str]) -> Problem:
    """Return the problem; `names` are the features before any was left out, as a line of costs counts them."""
    splits = source.splits()
    return Problem.of(
        source.table,
        source.labels,
        costs=None if request.costs is None else _read_costs(request.costs, request.columns, names, source.table.names),
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
        stages=request.stages,
        increasing=request.increasing,
        decreasing=request.decreasing,
        seed=request.seed,
    )


def _name_labels(request: TrainRequest, source: Source) -> TrainRequest:
    """Return the request with the labels of thresholds and class weights as the table writes them."""
    labels, weight = set(map(str, set(source.labels))), request.class_weight
    return replace(
        request,
        thresholds=tuple(name_labels(one, labels) if isinstance(one, Mapping) else one for one in request.thresholds),
        class_weight=name_labels(weight, labels) if isinstance(weight, Mapping) else weight,
    )


def _adapt_to_small_table(request: TrainRequest, source: Source) -> tuple[TrainRequest, list[Finding]]:
    """Return the request with the defaults for few rows, where it leaves them open, and what to say about it."""
    rows = source.table.rows
    if not is_small_table(rows):
        return request, []
    changes = []
    if request.shares is None and source.splits() is None:
        request = replace(request, shares=default_shares(rows))
        changes.append("no test rows (`shares`)")
    limited = limit_stages(request.settings, len(source.table.names), rows)
    if limited != request.settings:
        request = replace(request, settings=limited)
        changes.append(f"at most {limited.max_stages} stages (`max_stages`)")
    if not changes:
        return request, []
    what = f"a small table: unless you say otherwise, {' and '.join(changes)}"
    return request, [Finding("rows", None, what, "figures of so few rows are rough: go by their bounds, which export uses, too")]


def _read_costs(path: str, columns: Columns, read_names: Sequence[str], names: Sequence[str]) -> CostModel:
    """Return the costs of the features; those of other columns, such as dropped ones, are ignored."""
    read, others = CostModel.from_file(path, read_names), {*columns.non_feature_columns(), *read_names}
    own = {name: cost for name, cost in read.features.items() if name in names or name not in others}
    groups = [replace(group, features=tuple(name for name in group.features if name in own)) for group in read.groups]
    costs = CostModel.from_mapping(own, groups=[group for group in groups if group.features], unit=read.unit)
    try:
        costs.check(names, names)
    except DesignError as error:
        raise DesignError(f"costs file {path}: {str(error).removeprefix('costs: ')}{_describe_remedy(costs, names)}") from None
    return costs


def _describe_remedy(costs: CostModel, names: Sequence[str]) -> str:
    """Return what to do with a column that has no price because it is no feature; empty where each has one."""
    missing = next((name for name in names if name not in costs.features), None)
    if missing is None:
        return ""
    named = "one of weights, groups or times is named with `sample_weight`, `groups` or `time`"
    return f". Leave a column out with `drop={(missing,)!r}`; {named}"


def _feature_options(request: TrainRequest, source: Source) -> dict[str, FeatureOptions]:
    """Return the options of each feature."""
    names, kinds = source.table.names, request.columns.kinds or {}
    for name in request.unknown:
        if name and name not in names:
            raise DesignError(f"`unknown` names {name!r}, which is not a feature (features: {', '.join(names)})")
    # A word for all columns is meant for those that hold categories: "ignore" is their default.
    for_all: UnknownCategoryPolicy | None = "fail" if request.unknown.get("") == "fail" else None
    options = {
        name: FeatureOptions(kind=kinds.get(name), unknown=request.unknown.get(name, for_all), min_category=request.min_category)
        for name in names
    }
    return allow_gaps(source.table.columns, options)
