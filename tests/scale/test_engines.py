"""Scoring on other engines: the decisions of one process, and the expensive column only for the rows that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from emsco_runtime.arrow import BatchDecider

if TYPE_CHECKING:
    from tests.scale.conftest import Work

pytestmark = [
    pytest.mark.uncounted,
    # The engines' own.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::UserWarning"
    ),
]


def make_decider(work: Work) -> BatchDecider:
    """Make the decider that all engines are given."""
    return BatchDecider(work.bundle, keep=["key"], compute={"e": work.make_look_up()})


@pytest.mark.parametrize("way", ["mapInArrow", "mapInPandas"])
def test_spark(work: Work, spark: Any, way: str) -> None:
    """`mapInArrow` and `mapInPandas` of a Spark frame."""
    from pyspark.sql.pandas.types import from_arrow_schema

    frame = spark.read.parquet(work.rows)
    decider = make_decider(work)
    schema = from_arrow_schema(decider.schema(pa.schema([("key", pa.int64())])))
    decided = getattr(frame, way)(decider.map, schema)
    work.assert_equal(pa.Table.from_pandas(decided.toPandas()))
    assert work.looked_up() == work.needed()


def test_spark_predict_batch_udf(work: Work, spark: Any) -> None:
    """`predict_batch_udf`: a column of structs from arrays of columns; without `degraded`, since it knows no booleans."""
    import pandas as pd
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    decider = make_decider(work)
    schema = from_arrow_schema(decider.schema(pa.schema([("key", pa.int64())])))
    wanted = StructType([field for field in schema if field.name != "degraded"])
    names = wanted.names

    def make_predict() -> Any:
        def predict(key: Any, a: Any, b: Any, c: Any, d: Any) -> dict[str, Any]:
            decided = decider(pd.DataFrame({"key": key, "a": a, "b": b, "c": c, "d": d}))
            return {name: decided[name].to_numpy() for name in names}

        return predict

    decide = predict_batch_udf(make_predict, return_type=wanted, batch_size=10_000)
    frame = spark.read.parquet(work.rows).select(decide("key", "a", "b", "c", "d").alias("decision")).select("decision.*")
    work.assert_equal(pa.Table.from_pandas(frame.toPandas()))
    assert work.looked_up() == work.needed()


def test_dask(work: Work) -> None:
    """`map_partitions` of a Dask frame, in two worker processes."""
    dd = pytest.importorskip("dask.dataframe", reason="the extra `scale` is not installed")
    distributed = pytest.importorskip("distributed", reason="the extra `scale` is not installed")

    decider = make_decider(work)
    meta = decider.schema(pa.schema([("key", pa.int64())])).empty_table().to_pandas()
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, cluster.get_client():
        decided = dd.read_parquet(work.rows).map_partitions(decider, meta=meta).compute()
    work.assert_equal(pa.Table.from_pandas(decided, preserve_index=False))
    assert work.looked_up() == work.needed()


def test_ray(work: Work) -> None:
    """`map_batches` of Ray Data with an actor class: each actor makes its decider once."""
    ray = pytest.importorskip("ray", reason="the extra `scale` is not installed")
    data = pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        decided = data.read_parquet(work.rows).map_batches(
            BatchDecider,
            fn_constructor_args=(work.bundle,),
            fn_constructor_kwargs={"keep": ["key"], "compute": {"e": work.make_look_up()}},
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(size=1),
        )
        answer = pa.concat_tables([ray.get(one) for one in decided.to_arrow_refs()])
    finally:
        ray.shutdown()
    work.assert_equal(answer)
    assert work.looked_up() == work.needed()


def test_polars(work: Work) -> None:
    """A polars frame goes through Arrow, and back."""
    pl = pytest.importorskip("polars")
    frame = pl.read_parquet(f"{work.rows}/*.parquet")
    decided = pl.from_arrow(make_decider(work)(frame.to_arrow()))
    work.assert_equal(decided.to_arrow())
    assert work.looked_up() == work.needed()


def test_duckdb(work: Work) -> None:
    """The result of a query is decided batch by batch, and is a table for the next query."""
    duckdb = pytest.importorskip("duckdb", reason="the extra `scale` is not installed")
    decider = make_decider(work)
    with duckdb.connect() as connection:
        # A connection has one result at a time; a cursor is a second one to the same database.
        found = connection.cursor().sql(f"select * from '{work.rows}/*.parquet'").fetch_arrow_reader(10_000)
        connection.register("decisions", pa.RecordBatchReader.from_batches(decider.schema(found.schema), decider.map(found)))
        work.assert_equal(connection.sql("select * from decisions").fetch_arrow_table())
    assert work.looked_up() == work.needed()
