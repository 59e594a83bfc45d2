"""`SavedRequest`: what an unfinished run was asked for, so that a resume that asks for something else can be told what it is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from emsco_runtime.support.files import replace_file
from emsco_train.data.splits import Shares
from emsco_train.data.thresholds import Threshold
from emsco_train.errors import DesignError
from emsco_train.runs.request import TrainRequest

__all__ = ["REQUEST_NAME", "SavedRequest"]

REQUEST_NAME: Final = "request.json"
# Where the arguments have other names than the fields.
_ARGUMENTS: Final = {"group": "groups", "thresholds": "threshold", "weight": "sample_weight"}
# A resumed run may have others of these; data are compared by their content.
_FREE: Final = frozenset({"paths", "jobs", "time_limit", "certify_uses"})


@dataclass(frozen=True, slots=True)
class SavedRequest:
    """The request that a run was started with.

    Parameters
    ----------
    values
        Argument -> its value, as JSON has it; nothing if that is not known.
    """

    values: Mapping[str, Any]

    @classmethod
    def load_or_save(cls, request: TrainRequest, work: Path) -> SavedRequest:
        """Return the request that the run in a work folder was started with; without checkpoints, this one, which is saved."""
        path = work / REQUEST_NAME
        if any(work.glob("checkpoint-*.json")):
            return cls(_read(path))
        try:
            with replace_file(path, sync=True) as file:
                file.write(json.dumps(dict(_values(request))).encode())
        except OSError as error:
            raise DesignError(f"{path} cannot be written: {error.strerror or error}. Check the space that is left") from error
        return cls(_read(path))

    def differences(self, request: TrainRequest) -> list[str]:
        """Return the arguments of the saved request that another one has not, in backticks."""
        requested = json.loads(json.dumps(dict(_values(request))))
        return [
            # What is off is left out.
            f"`{name}={None if value is False else value!r}`"
            for name, value in self.values.items()
            if not _agree(name, value, requested.get(name))
        ]


def _read(path: Path) -> Mapping[str, Any]:
    """Return what is saved in a file; nothing if it is damaged or of an earlier emsco: it only serves a message."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _values(record: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(record):
        value = getattr(record, field.name)
        name = _ARGUMENTS.get(field.name, field.name)
        if field.name == "thresholds":
            yield name, [_threshold_text(threshold) for threshold in value]
        elif isinstance(value, Shares):
            yield name, ",".join(map(_number_text, astuple(value)))
        elif isinstance(value, frozenset):
            yield name, ",".join(sorted(value))
        elif is_dataclass(value):
            yield from _values(value)
        elif field.name == "class_weight" and isinstance(value, Mapping):
            yield name, _threshold_text(value)
        elif field.name not in _FREE:
            yield name, _plain_value(value)


def _plain_value(value: Any) -> Any:
    """Return a value as JSON can hold it, and None for one that is empty."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): _plain_value(one) for key, one in value.items()} or None
    if isinstance(value, tuple):
        return [_plain_value(one) for one in value] or None
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _threshold_text(threshold: Threshold) -> str:
    if isinstance(threshold, Mapping):
        return ",".join(f"{label}={_number_text(number)}" for label, number in threshold.items())
    return _number_text(threshold)


def _number_text(number: float) -> str:
    return f"{float(number):.15g}"


def _agree(name: str, saved: Any, requested: Any) -> bool:
    if name == "threshold" and isinstance(saved, list) and isinstance(requested, list):
        # More of them, or fewer, do not change the searches that both have.
        return all(one == other for one, other in zip(saved, requested, strict=False))
    return bool(saved == requested)
