"""Write `schemas/` from the Python definitions: ``make schemas``.

The manifest's schema comes from the pydantic models in `emsco_runtime.manifest`. The decision's is what pydantic says of the
named tuples in `emsco_runtime.decision`, so that neither can drift; a test keeps the files equal to what is generated here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from emsco_runtime import Decision, Manifest
from emsco_runtime.bundle.manifest import NEW_FIELDS, SCHEMA_VERSION

FOLDER = Path(__file__).parents[1] / "schemas"

# Accepted means: confident, and with a label. Rejected means: for another reason, and without one.
_ACCEPTED_OR_NOT: dict[str, Any] = {
    "if": {"properties": {"status": {"const": "accepted"}}},
    "then": {"properties": {"reason": {"const": "confident"}, "label": {"not": {"type": "null"}}}},
    "else": {"properties": {"reason": {"not": {"const": "confident"}}, "label": {"type": "null"}}},
}


def manifest_schema(version: int) -> dict[str, Any]:
    """Return the JSON Schema of a `manifest.json` of one version: without the fields that later versions added."""
    schema = Manifest.model_json_schema()
    for model, field in (added for later, fields in NEW_FIELDS.items() if later > version for added in fields):
        del schema["$defs"][model]["properties"][field]
    if version == 1:
        _remove_vectors(schema["$defs"])
    schema["properties"]["schema_version"] = {"const": version, "default": version, "title": "Schema Version", "type": "integer"}
    # They have a default for those who make a manifest in Python, but a file without them is not read.
    schema["required"] = ["format", "schema_version", *schema["required"]]
    return _with_header(schema, f"emsco:manifest.v{version}", f"emsco bundle manifest, version {version}")


def _remove_vectors(models: dict[str, Any]) -> None:
    """Remove what version 2 added to fields of version 1: the kind "vector", and lists of numbers as values."""
    feature, golden = models["Feature"]["properties"], models["Golden"]["properties"]
    feature["kind"]["enum"].remove("vector")
    for value in (feature["fallback"], *golden["values"]["patternProperties"].values()):
        value["anyOf"] = [kind for kind in value["anyOf"] if kind["type"] != "array"]


def decision_schema() -> dict[str, Any]:
    """Return the JSON Schema of `Decision.to_dict()`."""
    schema = TypeAdapter(Decision).json_schema(mode="serialization")
    return _with_header(schema | _ACCEPTED_OR_NOT, "emsco:decision.v1", "emsco decision, version 1")


def files() -> dict[str, str]:
    """Return the name and the text of every schema file."""
    schemas = {f"manifest.v{version}.schema.json": manifest_schema(version) for version in range(1, SCHEMA_VERSION + 1)}
    schemas["decision.v1.schema.json"] = decision_schema()
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


def _with_header(schema: dict[str, Any], identifier: str, title: str) -> dict[str, Any]:
    return {"$schema": GenerateJsonSchema.schema_dialect, "$id": identifier, **schema, "title": title}


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {FOLDER / name}")


if __name__ == "__main__":
    main()
