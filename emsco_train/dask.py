"""Training on a Dask DataFrame: rows stay on the workers. Needs Dask: ``pip install 'emsco[dask]'``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar

from emsco_train.costs.cost_model import Costs
from emsco_train.data.features import FeatureOptions
from emsco_train.data.stage_settings import ClassWeight, StageKind
from emsco_train.data.thresholds import Threshold
from emsco_train.distributed.part_reading import FramePart, PartitionColumns
from emsco_train.distributed.partitioned_problem import PartitionedProblem, ProblemOptions
from emsco_train.errors import DataError, DesignError
from emsco_train.support.numbers import check_seed, is_number

__all__ = ["PartitionedProblem", "make_problem"]

Message = TypeVar("Message")
Result = TypeVar("Result")

# Results that are added in one task.
_FAN_IN = 8


def make_problem(
    frame: Any,
    label: str,
    *,
    costs: Costs = None,
    threshold: Threshold = 0.9,
    features: Mapping[str, FeatureOptions] | None = None,
    split: str | None = None,
    split_by: str | Sequence[str] = (),
    validation: float = 0.3,
    class_weight: ClassWeight = None,
    C: float = 1.0,  # noqa: N803 - scikit-learn's name
    stages: StageKind = "straight",
    increasing: Sequence[str] = (),
    decreasing: Sequence[str] = (),
    seed: int = 0,
    client: Any = None,
) -> PartitionedProblem:
    """Describe the rows of a Dask DataFrame as a search problem; its `search` finds designs, its `export` writes a bundle.

    The rows are read twice, a sample of about 100,000 once more, for the client; their codes then stay in the memory of the
    workers.

    Parameters
    ----------
    frame
        Such as `dask.dataframe.read_parquet` returns, of storage that all workers see: what a lost worker had is read again.
    label
        The column of the labels. All other columns are features, but for `split` and `split_by`.
    costs, threshold, features, class_weight, C, increasing, decreasing
        As in `Problem.of`. Vectors are refused.
    stages
        "straight" or "curved": see `Problem.of`. Curves are learned from the sample, as many rows as one process would take too;
        the models on them, from all train rows.
    split
        A column that says "train" or "validation" for each row; rows of "test" and "certify" are left out. None: rows are drawn.
    split_by
        Columns, such as a customer's number, whose hash says which split a row is drawn into: rows that share them stay together,
        however the table is partitioned. Without, rows are drawn by their place in their partition.
    validation
        Share of the validation rows where rows are drawn.
    seed
        Of the draw.
    client
        A `distributed.Client`; None: the one that this process has, or else one of a new local cluster, which `close` ends.

    Examples
    --------
    ::

        frame = dask.dataframe.read_parquet("mail/")
        with make_problem(frame, "label", costs={"size": 1, "links": 2, "reputation": 25}) as problem:
            front = problem.search(Settings(population=100)).front
            problem.export("bundle", front.select(min_accuracy=0.99))
    """
    if not hasattr(frame, "to_delayed") or not hasattr(frame, "columns"):
        raise DataError(
            f"frame is {type(frame).__name__}: expected a Dask DataFrame, such as dask.dataframe.read_parquet returns"
        )
    if not is_number(validation) or not 0 < validation < 1:
        raise DesignError(f"validation is {validation!r}: expected a share between 0 and 1")
    if split is not None and split_by:
        raise DesignError("split and split_by were given: the first says the split of each row, the second draws it")
    keys = (split_by,) if isinstance(split_by, str) else tuple(split_by)
    given = [str(name) for name in frame.columns]
    absent = [name for name in (label, split, *keys) if name is not None and name not in given]
    if absent:
        raise DataError(f"no column {', '.join(map(repr, absent))}; the frame has: {', '.join(given)}")
    names = tuple(name for name in given if name not in (label, split, *keys))
    if len(names) < 2:
        raise DataError(f"the frame has {len(names)} columns besides {label!r}: a search needs two features or more")
    columns = PartitionColumns(names, label, split, keys, float(validation), check_seed(seed), dict(features or {}))
    options = ProblemOptions(costs, threshold, class_weight, C, stages, increasing, decreasing)
    used, close = _find_client(client)
    wanted = [*names, *keys, *([] if split is None else [split]), label]
    try:
        return PartitionedProblem.of(_FramePartitions(used, frame[wanted]), columns, options, close)
    except BaseException:
        close()
        raise


class _KeptPartitions:
    """What the workers keep of each partition; the scheduler knows how to make it again."""

    def __init__(self, client: Any, parts: list[Any]) -> None:
        self._client = client
        self._parts = parts

    def total(self, function: Callable[[Any, Message], Result], message: Message) -> Result:
        """Return the sum of what a function returns for each partition."""
        result: Result = _add_up(self._client, self._submit(function, message))
        return result

    def transform(self, function: Callable[[Any, Message], Any], message: Message) -> _KeptPartitions:
        """Return what a function makes of each partition, kept on its worker."""
        return _KeptPartitions(self._client, self._submit(function, message))

    def release(self) -> None:
        """Let the workers forget the partitions."""
        for part in self._parts:
            part.release()

    def _submit(self, function: Callable[[Any, Message], Any], message: Message) -> list[Any]:
        # Dask makes a task of its own of a long message, which workers pass on to each other.
        futures: list[Any] = self._client.map(_call, self._parts, function=function, message=message, pure=False)
        return futures


class _FramePartitions(_KeptPartitions):
    """The partitions of a frame, read again for each function: none stays in memory."""

    def __init__(self, client: Any, frame: Any) -> None:
        import dask  # noqa: PLC0415 - an extra

        self._delay = dask.delayed
        number = dask.delayed(FramePart, pure=True)
        super().__init__(client, [number(place, part) for place, part in enumerate(frame.to_delayed())])

    def release(self) -> None:
        """Do nothing: no partition stays in memory."""

    def _submit(self, function: Callable[[FramePart, Message], Any], message: Message) -> list[Any]:
        task = self._delay(function, pure=False)
        futures: list[Any] = self._client.compute([task(part, message) for part in self._parts])
        return futures


def _add_up(client: Any, futures: list[Any]) -> Any:
    """Return the sum of results in a fixed order: added on the workers, until there are few."""
    while len(futures) > _FAN_IN:
        groups = [futures[start : start + _FAN_IN] for start in range(0, len(futures), _FAN_IN)]
        futures = client.map(_add, groups, pure=False)
    return _add(client.gather(futures))


def _call(part: Any, function: Callable[[Any, Message], Result], message: Message) -> Result:
    return function(part, message)


def _add(results: list[Any]) -> Any:
    return reduce(operator.add, results)


def _find_client(client: Any) -> tuple[Any, Callable[[], object]]:
    """Return the client to use, and how to end what was started for it."""
    if client is not None:
        return client, bool
    from distributed import Client, LocalCluster, default_client  # noqa: PLC0415 - an extra, and slow to load

    try:
        return default_client(), bool
    except ValueError:
        # There is none.
        cluster = LocalCluster(threads_per_worker=1, dashboard_address=":0")
        own = Client(cluster)

        def close() -> None:
            own.close()
            cluster.close()

        return own, close
