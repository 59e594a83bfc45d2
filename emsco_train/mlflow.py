"""Bundles and runs in MLflow: logged, registered, loaded, served. Needs MLflow: ``pip install 'emsco[mlflow]'``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import emsco_runtime
from emsco_runtime.bundle.manifest import Feature, Manifest
from emsco_runtime.bundle.reading import read_bundle
from emsco_train.designs.front import Front
from emsco_train.runs.folder import RunFolder

__all__ = ["log_model", "log_run", "make_signature"]

# By MLflow's names.
_TYPES: Final = {"numeric": "double", "boolean": "boolean", "categorical": "string"}
_OUTPUTS: Final = {
    "status": "string",
    "reason": "string",
    "confidence": "double",
    "stages": "integer",
    "cost": "double",
    "degraded": "boolean",
    "error": "string",
}
_OPTIONAL: Final = ("label", "confidence", "error")


def log_model(bundle: str | os.PathLike[str], name: str = "model", *, registered_model_name: str | None = None) -> Any:
    """Log a bundle, as it is, to the active MLflow run, as a "python function" that takes a frame and returns decisions.

    `mlflow.pyfunc.load_model`, `spark_udf` and `mlflow models serve` then decide as the runtime does; the environment that they
    make holds the runtime, not training. With ``model_config={"verify": "public.pem"}`` they refuse a bundle that is not signed
    with this key, or was changed since (`emsco_runtime.publish.sign_bundle`).

    Parameters
    ----------
    bundle
        The bundle's folder, which is checked.
    name
        Name of the model.
    registered_model_name
        Register it under this name, too.

    Raises
    ------
    BundleError
        If the bundle cannot be read.
    """
    import mlflow  # noqa: PLC0415 - an extra, and slow to load

    manifest = read_bundle(bundle).manifest
    return mlflow.pyfunc.log_model(
        name=name,
        loader_module="emsco_runtime.mlflow",
        data_path=os.fspath(bundle),
        signature=make_signature(manifest),
        registered_model_name=registered_model_name,
        # What is not logged here cannot be given at load.
        model_config={"verify": None},
        pip_requirements=[f"emsco[parquet]=={emsco_runtime.__version__}", "pandas"],
        metadata={"emsco_bundle_id": manifest.id, "emsco_bundle_version": manifest.version},
    )


def log_run(run: str | os.PathLike[str], *, report: str | os.PathLike[str] | None = None) -> None:
    """Log a training run to the active MLflow run: its settings as parameters, the front's figures, its files as artefacts.

    Parameters
    ----------
    run
        The run's folder, which is checked.
    report
        The page that `emsco-report` wrote.
    """
    import mlflow  # noqa: PLC0415 - an extra, and slow to load

    folder = RunFolder(run)
    record = folder.read()
    front = Front.from_json(folder.text("front.json"), rows=record.measured.rows)
    settings = record.search.model_dump()
    mlflow.log_params(
        {"stages": record.stages, "rows": sum(one.rows for one in record.data.files), **settings.pop("settings"), **settings}
    )
    figures = {"accuracy": max, "coverage": max, "cost": min}
    mlflow.log_metric("front_designs", len(front))
    mlflow.log_metrics({f"front_best_{name}": best(getattr(one, name) for one in front) for name, best in figures.items()})
    for path in sorted(Path(run).iterdir()):
        if path.is_file():
            mlflow.log_artifact(str(path), "run")
    if report is not None:
        mlflow.log_artifact(os.fspath(report))


def make_signature(manifest: Manifest) -> Any:
    """Return the signature of a bundle: the features that its stages acquire, and the columns of a decision.

    Optional columns may hold gaps; the model refuses a frame that is without one of them.
    """
    import mlflow  # noqa: PLC0415

    schema = mlflow.types.schema
    acquired = {name for stage in manifest.stages for name in stage.acquire}
    inputs = [_make_column(schema, feature) for feature in manifest.features if feature.name in acquired]
    label = "long" if all(isinstance(one, int) for one in manifest.labels) else "string"
    outputs = [schema.ColSpec(kind, name, name not in _OPTIONAL) for name, kind in {"label": label, **_OUTPUTS}.items()]
    return mlflow.models.ModelSignature(schema.Schema(inputs), schema.Schema(outputs))


def _make_column(schema: Any, feature: Feature) -> Any:
    kind = schema.Array(schema.DataType.double) if feature.kind == "vector" else _TYPES[feature.kind]
    return schema.ColSpec(kind, feature.name, feature.missing == "forbid")
