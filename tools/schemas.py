"""Write `schemas/` from the Python definitions: ``make schemas``.

The manifest's schema comes from the pydantic models in `emsco_runtime.manifest`. The decision's comes from the named tuples in
`emsco_runtime.decision`, field by field with their own types, so that neither can drift; a test keeps the files equal to what is
generated here.
"""

from __future__ import annotations

import collections.abc
import inspect
import json
import re
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import GenerateJsonSchema

from emsco_runtime import Decision, Manifest
from emsco_runtime.manifest import Cost, Sha256

FOLDER = Path(__file__).parents[1] / "schemas"

# Bounds that the tuples' types do not tell.
_NARROWED: dict[str, Any] = {
    "bundle": Sha256,
    "cost": Cost,
    "elapsed_s": Annotated[float, Field(ge=0)],
    "stage": Annotated[int, Field(ge=1)],
    "stages": Annotated[int, Field(ge=0)],
}

# Accepted means: confident, and with a label. Rejected means: for another reason, and without one.
_ACCEPTED_OR_NOT: dict[str, Any] = {
    "if": {"properties": {"status": {"const": "accepted"}}},
    "then": {"properties": {"reason": {"const": "confident"}, "label": {"not": {"type": "null"}}}},
    "else": {"properties": {"reason": {"not": {"const": "confident"}}, "label": {"type": "null"}}},
}


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema of `manifest.json`."""
    schema = Manifest.model_json_schema()
    # They have a default for those who make a manifest in Python, but a file without them is not read.
    schema["required"] = ["format", "schema_version", *schema["required"]]
    return _headed(schema, "emsco:manifest.v1", "emsco bundle manifest, version 1")


def decision_schema() -> dict[str, Any]:
    """Return the JSON Schema of `Decision.to_dict()`."""
    schema = _model_of(Decision, {}).model_json_schema()
    return _headed(schema | _ACCEPTED_OR_NOT, "emsco:decision.v1", "emsco decision, version 1")


def files() -> dict[str, str]:
    """Return the name and the text of every schema file."""
    schemas = {"manifest.v1.schema.json": manifest_schema(), "decision.v1.schema.json": decision_schema()}
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


def _headed(schema: dict[str, Any], identifier: str, title: str) -> dict[str, Any]:
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": identifier, **schema, "title": title}


def _model_of(record: type, made: dict[type, type[BaseModel]]) -> type[BaseModel]:
    """Return the pydantic model of a named tuple as it looks in JSON."""
    if record not in made:
        described = _described(record)
        fields: dict[str, Any] = {
            name: (_NARROWED.get(name) or _json_type(hint, made), Field(description=described.get(name)))
            for name, hint in get_type_hints(record).items()
        }
        made[record] = create_model(record.__name__, __config__=ConfigDict(extra="forbid"), __doc__=_first_line(record), **fields)
    return made[record]


def _json_type(hint: Any, made: dict[type, type[BaseModel]]) -> Any:
    """Return a type as it is in JSON: records are objects, and the keys of mappings are text."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple[_json_type(arguments[0], made), ...]  # type: ignore[misc]
    if origin is collections.abc.Mapping:
        return dict[str, arguments[1]]  # type: ignore[valid-type]
    return _model_of(hint, made) if isinstance(hint, type) and hasattr(hint, "_fields") else hint


def _first_line(record: type) -> str:
    return (inspect.getdoc(record) or "").splitlines()[0]


def _described(record: type) -> dict[str, str]:
    """Return field -> text from the "Parameters" of a numpydoc docstring."""
    found = re.findall(r"^(\w+)\n((?:    .+\n?)+)", inspect.getdoc(record) or "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {FOLDER / name}")


if __name__ == "__main__":
    main()
