"""A bundle as MLflow's "python function" loads it. MLflow itself is not imported: it calls `_load_pyfunc` by this name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emsco_runtime.serving.batches import BatchDecider

__all__ = ["BundleModel"]


class BundleModel:
    """What MLflow calls to predict: a frame of features in, a frame of decisions out.

    Parameters
    ----------
    path
        The bundle's folder.
    verify
        A public key with whose private key the bundle must be signed, as in `read_bundle`.
    """

    def __init__(self, path: str, verify: str | None = None) -> None:
        self._decide = BatchDecider(path, on_failure="reject", verify=verify)

    def predict(self, frame: Any, params: Any = None) -> Any:
        """Decide the rows of a pandas DataFrame; a row with a bad value is rejected. There are no parameters."""
        del params
        return self._decide(frame)


def _load_pyfunc(path: str, model_config: Mapping[str, Any] | None = None) -> BundleModel:
    return BundleModel(path, verify=(model_config or {}).get("verify"))
