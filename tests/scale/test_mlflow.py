"""MLflow: a logged bundle, loaded, served and called by Spark, decides as the runtime does; runs are logged with their files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from emsco_train import Settings
from emsco_train.runs.preparation import prepare
from emsco_train.runs.request import TrainRequest
from emsco_train.runs.source import Columns
from emsco_train.runs.training import train

if TYPE_CHECKING:
    from tests.scale.conftest import Work

mlflow = pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")

pytestmark = [
    pytest.mark.uncounted,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::UserWarning"
    ),
]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Use an SQLite store of this test's own."""
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    mlflow.create_experiment("tests", artifact_location=(tmp_path / "artefacts").as_uri())
    mlflow.set_experiment("tests")
    return str(mlflow.get_tracking_uri())


@pytest.fixture
def frame(work: Work) -> Any:
    """Return some rows with all features."""
    rows = pq.read_table(work.rows).slice(0, 500).to_pandas()
    rows["e"] = rows["key"] % 7 - 3.0
    return rows


def test_a_loaded_model_decides_as_the_runtime(work: Work, store: str, frame: Any) -> None:
    """Logged with a signature, registered, and loaded by its name: the decisions of the runtime."""
    from emsco_train.mlflow import log_model

    with mlflow.start_run():
        info = log_model(work.bundle, registered_model_name="mail")
    assert [column.name for column in info.signature.inputs.inputs] == ["a", "b", "c", "d", "e"]
    answer = mlflow.pyfunc.load_model("models:/mail/1").predict(frame.drop(columns="key"))
    assert answer["label"].fillna("").tolist() == [label or "" for label in work.expected.column("label").to_pylist()[:500]]
    assert answer["cost"].tolist() == work.expected.column("cost").to_pylist()[:500]
    with pytest.raises(mlflow.exceptions.MlflowException, match="missing inputs"):
        mlflow.pyfunc.load_model(info.model_uri).predict(frame[["a", "b"]])


def test_a_served_model_decides_as_the_runtime(work: Work, store: str, frame: Any) -> None:
    """`mlflow models serve` answers over HTTP with the decisions of the runtime."""
    from emsco_train.mlflow import log_model

    with mlflow.start_run():
        info = log_model(work.bundle)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", info.model_uri, "-p", str(port), "--env-manager", "local"]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": store, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as serving:
        try:
            body = json.dumps({"dataframe_split": frame.drop(columns="key").head(20).to_dict("split")}).encode()
            answer = json.loads(_post(f"http://127.0.0.1:{port}/invocations", body, serving))
        finally:
            os.killpg(serving.pid, 15)
    assert [row["cost"] for row in answer["predictions"]] == work.expected.column("cost").to_pylist()[:20]


def test_a_spark_function_decides_as_the_runtime(work: Work, store: str, frame: Any, spark: Any) -> None:
    """`spark_udf` of the logged model: a struct of each decision; MLflow makes text of the missing labels of rejected rows."""
    from emsco_train.mlflow import log_model

    with mlflow.start_run():
        info = log_model(work.bundle)
    decide = mlflow.pyfunc.spark_udf(
        spark, info.model_uri, result_type="label string, status string, cost double", env_manager="local"
    )
    columns = ["a", "b", "c", "d", "e"]
    rows = spark.createDataFrame(frame).select("key", decide(*columns).alias("decision")).orderBy("key").collect()
    assert [row.decision.cost for row in rows] == work.expected.column("cost").to_pylist()[:500]
    assert [row.decision.status for row in rows] == work.expected.column("status").to_pylist()[:500]
    labels = [row.decision.label if row.decision.status == "accepted" else None for row in rows]
    assert labels == work.expected.column("label").to_pylist()[:500]


def test_a_signature_can_be_required(work: Work, store: str, frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signed bundle is logged with its signature and decides; an unsigned or tampered one is refused."""
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec", reason="the extra `signing` is not installed")
    form = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    from emsco_runtime import BundleError, sign_bundle
    from emsco_train.mlflow import log_model

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (tmp_path / "private.pem").write_bytes(private)
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public.pem").write_bytes(public)
    required = {"verify": str(tmp_path / "public.pem")}
    with mlflow.start_run():
        unsigned = log_model(work.bundle)
        sign_bundle(work.bundle, tmp_path / "private.pem")
        signed = log_model(work.bundle)
    answer = mlflow.pyfunc.load_model(signed.model_uri, model_config=required).predict(frame.drop(columns="key"))
    assert answer["cost"].tolist() == work.expected.column("cost").to_pylist()[:500]
    with pytest.raises(BundleError, match="the bundle is not signed"):
        mlflow.pyfunc.load_model(unsigned.model_uri, model_config=required)
    monkeypatch.setenv("MLFLOW_PYFUNC_INFERENCE_CONFIG", json.dumps(required))
    downloaded = Path(mlflow.artifacts.download_artifacts(signed.model_uri, dst_path=str(tmp_path / "copy")))
    mlflow.pyfunc.load_model(str(downloaded))
    (downloaded / "data" / "bundle" / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BundleError, match=r"Hash mismatch for .manifest\.json."):
        mlflow.pyfunc.load_model(str(downloaded))


def _post(url: str, body: bytes, serving: subprocess.Popen[bytes]) -> bytes:
    """Post until the server answers."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request) as response:
                return bytes(response.read())
        except ConnectionError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
        assert serving.poll() is None, "the server ended"
        time.sleep(0.5)


def test_a_run_is_logged_with_settings_figures_and_files(tmp_path: Path, store: str) -> None:
    """Parameters are the settings, metrics the front's figures, artefacts the files of the run."""
    from emsco_train.mlflow import log_run

    rng = np.random.default_rng(0)
    lines = [f"{a},{b},{'yes' if a + b > 0 else 'no'}" for a, b in rng.normal(size=(300, 2)).round(3)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,label", *lines]), encoding="utf-8")
    request = TrainRequest(
        paths={None: str(tmp_path / "rows.csv")},
        columns=Columns(label="label"),
        thresholds=(0.9,),
        settings=Settings(population=10, generations=2),
    )
    train(prepare(request), tmp_path / "run")
    with mlflow.start_run() as active:
        log_run(tmp_path / "run")
    logged = mlflow.get_run(active.info.run_id).data
    assert logged.params["population"] == "10"
    assert logged.metrics["front_designs"] >= 1
    assert 0 < logged.metrics["front_best_coverage"] <= 1
    names = {one.path for one in mlflow.artifacts.list_artifacts(run_id=active.info.run_id, artifact_path="run")}
    assert {"run/run.json", "run/front.csv", "run/splits.csv"} <= names
