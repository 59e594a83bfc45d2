"""Independent searches in the processes of Dask, Ray and Spark, by joblib: the results of one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
import pytest

from emsco_train import Problem, Settings, sweep_seeds, sweep_thresholds

pytestmark = [
    pytest.mark.uncounted,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::UserWarning"
    ),
]


@contextmanager
def dask_backend() -> Iterator[str]:
    """Start two worker processes of Dask."""
    distributed = pytest.importorskip("distributed", reason="the extra `scale` is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, cluster.get_client():
        yield "dask"


@contextmanager
def ray_backend() -> Iterator[str]:
    """Start Ray."""
    ray = pytest.importorskip("ray", reason="the extra `scale` is not installed")
    pytest.importorskip("ray.util.joblib").register_ray()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield "ray"
    finally:
        ray.shutdown()


@contextmanager
def spark_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Use the Spark of these tests."""
    joblibspark = pytest.importorskip("joblibspark", reason="the extra `scale` is not installed")
    request.getfixturevalue("spark")
    joblibspark.register_spark()
    yield "spark"


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_the_engine_changes_nothing(engine: str, request: pytest.FixtureRequest) -> None:
    """Seeds and thresholds that are searched on an engine have the fronts of searches in this process."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5))
    problem = Problem.of(rows, rows @ rng.normal(size=5) + rng.normal(size=200) > 0, costs=[1, 2, 3, 4, 5], threshold=0.8)
    settings = Settings(population=10, generations=3)
    backends: dict[str, Any] = {"dask": dask_backend, "ray": ray_backend, "spark": lambda: spark_backend(request)}
    with backends[engine]() as backend, joblib.parallel_config(backend=backend, n_jobs=2):
        seeds = sweep_seeds(problem, [0, 1], settings, method="evolve", workers=2)
        swept = sweep_thresholds(problem, [0.6, 0.8], settings, method="evolve", workers=2)
    here = sweep_seeds(problem, [0, 1], settings, method="evolve")
    assert [outcome.front for outcome in seeds] == [outcome.front for outcome in here]
    assert swept.front == sweep_thresholds(problem, [0.6, 0.8], settings, method="evolve").front
