"""What MLflow loads for a bundle logged by `emsco_train.mlflow`. Public import path of `emsco_runtime.serving.mlflow_model`."""

from emsco_runtime.serving.mlflow_model import *  # noqa: F403
from emsco_runtime.serving.mlflow_model import __all__, _load_pyfunc  # noqa: F401
