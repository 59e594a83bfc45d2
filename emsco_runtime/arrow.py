"""Decisions of Arrow batches, for Spark, Dask, Ray, polars and DuckDB. Public import path of `emsco_runtime.serving.batches`."""

from emsco_runtime.serving.batches import *  # noqa: F403
from emsco_runtime.serving.batches import __all__  # noqa: F401
