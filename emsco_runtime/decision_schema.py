"""The records of a decision for pydantic: JSON objects, with their fields, types and descriptions.

pydantic treats a named tuple as an array. Here each record gets a model with the same fields, made from its annotations and its
docstring, so that there is one definition: records are written and read through it, and ``schemas/decision.v1.schema.json`` is
generated from it (``make schemas``).
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pydantic
from pydantic import BaseModel, Field
from pydantic_core import CoreSchema, core_schema

__all__ = ["record_schema"]

# Bounds that the types of the records do not express.
_CONSTRAINTS: dict[str, Any] = {
    "bundle": Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{64}$")],
    "cost": Annotated[float, Field(ge=0)],
    "elapsed_s": Annotated[float, Field(ge=0)],
    "stage": Annotated[int, Field(ge=1)],
    "stages": Annotated[int, Field(ge=0)],
}


def record_schema(record: type, handler: pydantic.GetCoreSchemaHandler, check: Callable[[Any], None] | None = None) -> CoreSchema:
    """Return the schema by which pydantic writes and reads a named tuple as a JSON object; a record itself is read as it is.

    A `check` raises `ValueError` for a record, read from an object, whose fields contradict each other.
    """
    model = _model(record)
    shape = handler.generate_schema(model)

    def read(value: Any, validate: pydantic.ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, record):
            return value
        made = _to_record(record, validate(value))
        if check is not None:
            check(made)
        return made

    def write(value: Any, serialize: pydantic.SerializerFunctionWrapHandler) -> Any:
        return serialize(model.model_construct(**{name: _to_json(getattr(value, name)) for name in model.model_fields}))

    serialization = core_schema.wrap_serializer_function_ser_schema(write, schema=shape)
    return core_schema.no_info_wrap_validator_function(read, shape, serialization=serialization)


@functools.cache
def _model(record: type) -> type[BaseModel]:
    descriptions = _field_descriptions(record)
    defaults = record._field_defaults  # type: ignore[attr-defined]
    fields: dict[str, Any] = {
        name: (
            _CONSTRAINTS.get(name) or _json_type(hint),
            Field(_to_json(defaults.get(name, ...)), description=descriptions.get(name)),
        )
        for name, hint in get_type_hints(record).items()
    }
    config = pydantic.ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return pydantic.create_model(
        record.__name__, __config__=config, __doc__=(inspect.getdoc(record) or "").partition("\n")[0], **fields
    )


def _json_type(hint: Any) -> Any:
    """Return a type as it is in JSON: tuples are arrays, and the keys of mappings are text."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        return list[arguments[0]]  # type: ignore[valid-type]
    if origin is collections.abc.Mapping:
        return dict[str, arguments[1]]  # type: ignore[valid-type]
    return hint


def _to_json(value: Any) -> Any:
    """Return the value of a field as its type in JSON; records inside it are left to their own schema."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, collections.abc.Mapping):
        return {str(label): probability for label, probability in value.items()}
    return value


def _to_record(record: type, document: BaseModel) -> Any:
    values = {name: getattr(document, name) for name in type(document).model_fields}
    return record(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def _field_descriptions(record: type) -> dict[str, str]:
    """Return field -> text from the "Parameters" of a numpydoc docstring."""
    found = re.findall(r"^(\w+)\n((?:    .+\n?)+)", inspect.getdoc(record) or "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
