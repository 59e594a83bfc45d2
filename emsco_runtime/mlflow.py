"""What MLflow loads for a logged bundle (`emsco_train.mlflow` logs one). Its home is `emsco_runtime.serving.mlflow_model`."""

from emsco_runtime.serving.mlflow_model import *  # noqa: F403
from emsco_runtime.serving.mlflow_model import __all__, _load_pyfunc  # noqa: F401
