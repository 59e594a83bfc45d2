"""`BegunRequest`: what an unfinished run was asked for, so that a resume that asks for something else can be told what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from emsco_runtime.support.files import replace_file
from emsco_train.data.splits import Shares
from emsco_train.runs.request import TrainRequest

__all__ = ["REQUEST_NAME", "BegunRequest"]

REQUEST_NAME: Final = "request.json"
# Where the arguments have other names than the fields.
_ARGUMENTS: Final = {"group": "groups", "weight": "sample_weight"}
# A resumed run may have others of these; data are compared by their content.
_FREE: Final = frozenset({"paths", "thresholds", "jobs", "time_limit", "certify_uses"})


@dataclass(frozen=True, slots=True)
class BegunRequest:
    """The request that a run was begun with.

    Parameters
    ----------
    values
        Argument -> its value, as Python writes it.
    """

    values: Mapping[str, str]

    @classmethod
    def keep(cls, request: TrainRequest, work: Path) -> BegunRequest:
        """Return what the run in a work folder was begun with: what is there, or this request, which is written there then."""
        path = work / REQUEST_NAME
        if not path.exists():
            with replace_file(path) as file:
                file.write(json.dumps(dict(_values(request))).encode())
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def differences(self, request: TrainRequest) -> list[str]:
        """Return the arguments of the begun run that another request has not, in backticks."""
        asked = dict(_values(request))
        return [f"`{name}={value}`" for name, value in self.values.items() if asked.get(name) != value]


def _values(record: Any) -> Iterator[tuple[str, str]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Shares):
            yield field.name, repr(",".join(f"{share:g}" for share in astuple(value)))
        elif isinstance(value, frozenset):
            yield field.name, repr(",".join(sorted(value)))
        elif is_dataclass(value):
            yield from _values(value)
        elif field.name not in _FREE:
            yield _ARGUMENTS.get(field.name, field.name), repr(None if value in ((), {}) else value)
