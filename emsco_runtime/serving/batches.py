"""`BatchDecider`: one callable over batches of rows, which the workers of any engine build from a bundle's path.

Spark, Dask and Ray send a function to their workers and call it with many batches. This one is small to send, and each process
loads the bundle once, whatever the number of batches and of copies of the function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, get_args

from emsco_runtime.acquirers import OnFailure
from emsco_runtime.bundle.manifest import Manifest
from emsco_runtime.bundle.reading import read_bundle
from emsco_runtime.cascade import Cascade
from emsco_runtime.driving.item_inputs import check_budget
from emsco_runtime.errors import BundleError, InputError
from emsco_runtime.serving.arrow_batches import ArrowBatch, FrameBatch, as_values, check_kept, make_schema, wrap_batch
from emsco_runtime.support.arrays import Ints
from emsco_runtime.support.arrow_tables import has_pyarrow
from emsco_runtime.support.vector_names import column_names

__all__ = ["BatchDecider"]


class BatchDecider:
    """Decides batches of rows with a bundle: Arrow in, Arrow out; pandas in, pandas out. It can be pickled.

    A batch is a `pyarrow.RecordBatch`, a `pyarrow.Table` or a pandas DataFrame. The result has the same form and a row for each
    row: the columns to keep, then label, status, reason, confidence, stages, cost, degraded and error, as in `ColumnDecisions`.
    The result for a DataFrame has its index, and the kept columns as they are.

    Parameters
    ----------
    path
        The bundle's folder, where every worker can read it; a relative one is looked for in the working directory of each.
    keep
        Columns of the batches that the result has too, such as keys.
    compute
        Feature -> function from a batch to a value for each of its rows. It is called with the rows that reach the feature's
        stage, and so an expensive one is computed for these alone. Other features are columns.
    budget
        Most that a row may cost; None for no limit.
    on_failure
        What a bad value does, and a function that raises: "raise", "reject" the row, or use the bundle's "default".
    verify
        A public key, as in `read_bundle`: the bundle must be signed with its private key. It is checked where the decider is
        made; workers, which need no key, take that very bundle and no other.

    Raises
    ------
    BundleError
        If the bundle cannot be read; in a worker also if it is another one than where the decider was made.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> from emsco_runtime.publish import write_bundle
    >>> from emsco_runtime.testing import sample_bundle
    >>> path = tempfile.mkdtemp() + "/bundle"
    >>> _ = write_bundle(path, sample_bundle().manifest, sample_bundle().models)
    >>> def look_up(batch):
    ...     print("looking up", batch.column("key").to_pylist())
    ...     return [0.5] * batch.num_rows
    >>> decider = BatchDecider(path, keep=["key"], compute={"reputation": look_up})
    >>> batch = pa.table({"key": ["a", "b"], "size": [2.0, 0.1], "links": [1.0, 0.0]})
    >>> decider(batch).select(["key", "label", "stages", "cost"]).to_pylist()
    looking up ['b']
    [{'key': 'a', 'label': 'spam', 'stages': 1, 'cost': 1.0}, {'key': 'b', 'label': 'spam', 'stages': 3, 'cost': 28.0}]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep: Sequence[str] = (),
        compute: Mapping[str, Callable[[Any], Any]] | None = None,
        budget: float | None = None,
        on_failure: OnFailure = "raise",
        verify: str | os.PathLike[str] | None = None,
    ) -> None:
        if not has_pyarrow():
            raise InputError("deciding batches needs pyarrow: pip install 'emsco[parquet]'")
        if isinstance(keep, str):
            raise InputError(f"keep: expected a list of columns, got the text {keep!r}. Put a single one into a list")
        for name, function in dict(compute or {}).items():
            # As a failure of its rows, with on_failure="reject" it would only show in their errors.
            if not callable(function):
                raise InputError(f"compute: expected a function for {name!r}, got {type(function).__name__}")
        if on_failure not in get_args(OnFailure):
            raise InputError(f"on_failure: expected one of {', '.join(get_args(OnFailure))}, got {on_failure!r}")
        self._path = os.fspath(path)
        self._keep = tuple(keep)
        self._compute = dict(compute or {})
        self._budget = check_budget(budget)
        self._on_failure = on_failure
        manifest = read_bundle(self._path, verify=verify).manifest
        self._bundle_id = manifest.id
        self._labels = manifest.labels
        self._columns = _list_columns(manifest, self._compute)

    def __call__(self, batch: Any) -> Any:
        """Decide a batch."""
        rows = wrap_batch(batch)
        # Before anything expensive is computed.
        check_kept(self._keep, rows.names)
        names = [name for name in rows.names if name in self._columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"the batch has the column {twice!r} {names.count(twice)} times: leave one")
        columns: dict[str, Any] = {name: rows.read(name) for name in names}
        columns.update((name, _compute_rows(function, rows)) for name, function in self._compute.items())
        # Where everything is computed, no column of values would say how many rows there are; no feature has this name.
        columns[""] = range(rows.rows)
        cascade = _load_cascade(self._path, self._bundle_id, self._on_failure)
        return rows.answer(self._keep, self._labels, cascade.decide_columns(columns, budget=self._budget))

    def map(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Decide batches one after the other, as `mapInArrow` and `mapInPandas` of Spark want it."""
        return map(self, batches)

    def schema(self, batch_schema: Any = None) -> Any:
        """Return the Arrow schema of the results; that of the batches is needed where columns are kept."""
        return make_schema(self._keep, batch_schema, self._labels)


def _list_columns(manifest: Manifest, computed: Mapping[str, object]) -> frozenset[str]:
    """Return the columns of a batch that may be needed: of features that stages acquire and that are not computed."""
    features = {feature.name: feature for feature in manifest.features}
    unknown = sorted(computed.keys() - features.keys())
    if unknown:
        raise InputError(f"compute: {unknown[0]!r} is not a feature of the bundle; it has {', '.join(features)}")
    acquired = [features[name] for stage in manifest.stages for name in stage.acquire if name not in computed]
    numbers = [name for feature in acquired if feature.kind == "vector" for name in column_names(feature.name, feature.width)]
    return frozenset([*(feature.name for feature in acquired), *numbers])


def _compute_rows(function: Callable[[Any], Any], batch: ArrowBatch | FrameBatch) -> Callable[[Ints], Any]:
    """Return a function from row numbers to their values."""
    return lambda rows: as_values(function(batch.take(rows)))


@lru_cache(maxsize=16)
def _load_cascade(path: str, bundle_id: str, on_failure: OnFailure) -> Cascade:
    """Load a bundle once per process: engines unpickle a function again for every task."""
    bundle = read_bundle(path)
    if bundle.manifest.id != bundle_id:
        found, expected = bundle.manifest.id[:12], bundle_id[:12]
        detail = "Make the decider again, or keep each bundle in a folder of its own"
        raise BundleError(f"expected the bundle {expected}, from which the decider was made, got {found}. {detail}", path)
    return Cascade(bundle, on_failure=on_failure)
