"""Checks of an ONNX file without running it, and without the onnx package.

onnxruntime opens whatever a model asks for: files next to it ("external data"), operators from other libraries. Both are looked
for here, in the bytes, before a session is made. Only the few parts of the protobuf format that this needs are read; the field
numbers are those of the public `onnx.proto`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["DOUBLE", "TensorSpec", "find_model_fault"]

# Newest IR version that the oldest supported onnxruntime reads (1.21).
MAX_IR_VERSION = 10
# A forest of a million nodes has about as many; runs of numbers do not count.
MAX_FIELDS = 3_000_000
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
DOUBLE = 11
_TYPE_NAMES = {1: "float", 6: "int32", 7: "int64", 8: "string", 10: "float16", DOUBLE: "double"}

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Runs of numbers in an attribute (a forest has millions): skipped at the speed of the regex engine.
# Possessive, since the engine would otherwise remember every number it passed.
_NUMBER_RUN = re.compile(rb"(?:\x40[\x80-\xff]{0,9}+[\x00-\x7f]|\x3d.{4})++", re.DOTALL)


class _MalformedModel(Exception):
    """The bytes are not a protobuf message of the expected shape."""


class _ForbiddenModel(Exception):
    """The model asks for something that a bundle must not hold."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, element type and shape of an input or output; a dimension without a number is None."""

    name: str
    element_type: int
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        """Return the form used in messages: ``features: double[rows, 4]``."""
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {_TYPE_NAMES.get(self.element_type, f'type {self.element_type}')}[{sizes}]"


@dataclass(frozen=True, slots=True)
class _ProtoField:
    number: int
    value: int
    content: memoryview | None
    # Counts all fields of the file: it bounds the time that a hostile file can take.
    counter: Iterator[int]

    def parts(self) -> Iterator[_ProtoField]:
        if self.content is None:
            raise _MalformedModel
        return _read_fields(self.content, self.counter)

    def text(self) -> str:
        if self.content is None:
            raise _MalformedModel
        return bytes(self.content).decode()


def find_model_fault(content: bytes, *, expected_input: TensorSpec, expected_output: TensorSpec) -> str | None:
    """Return what is wrong with the bytes of a stage model, which must have this one input and this one output; or None."""
    try:
        inputs, outputs = _read_model(content)
    except _ForbiddenModel as refused:
        return str(refused)
    except (_MalformedModel, UnicodeDecodeError, RecursionError):
        return "not an ONNX model, or a damaged one. Export the bundle again"
    for name, expected, found in (("input", expected_input, inputs), ("output", expected_output, outputs)):
        if found != [expected]:
            listed = "; ".join(map(str, found)) or "none"
            return f"the model's {name} must be {expected}, it has {listed}. Export the bundle again"
    return None


def _read_model(content: bytes) -> tuple[list[TensorSpec], list[TensorSpec]]:
    # onnxruntime takes these four bytes for its own format, whatever the rest says, and would read another model than we do.
    if content[4:8] == b"ORTM":
        raise _ForbiddenModel("the model is in onnxruntime's own format, which a bundle must not hold. Export it as ONNX")
    graph: _ProtoField | None = None
    version = opsets = 0
    for field in _read_fields(memoryview(content), itertools.count(1)):
        if field.number == 1:
            version = field.value
        elif field.number == 7:
            # A second graph would be merged into the first by a protobuf parser: two readers, two meanings.
            if graph is not None:
                raise _MalformedModel
            graph = field
        elif field.number == 8:
            opsets += 1
            # Every one, not just the first: a protobuf parser takes the last.
            for part in field.parts():
                if part.number == 1:
                    _check_domain(part.text())
        elif field.number in (20, 25):
            raise _ForbiddenModel(
                "the model holds training information or functions of its own, which a bundle must not. Export it again"
            )
    if graph is None or not opsets:
        raise _MalformedModel
    if not 3 <= version <= MAX_IR_VERSION:
        raise _ForbiddenModel(f"ONNX IR version {version} is not between 3 and {MAX_IR_VERSION}. Export with an older IR version")
    return _check_message("graph", graph)


# What is looked into, by the field numbers of the parts.
_PARTS: dict[str, dict[int, str]] = {
    "graph": {1: "node", 5: "tensor", 15: "sparse tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse tensor", 23: "sparse tensor"},
    "sparse tensor": {1: "tensor", 2: "tensor"},
    "tensor": {},
}


def _check_message(kind: str, message: _ProtoField) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Check a part of the model and everything inside it; return the inputs and outputs if it is a graph."""
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    parts = _PARTS[kind]
    for field in message.parts():
        if field.number in parts:
            _check_message(parts[field.number], field)
        elif kind == "graph" and field.number in (11, 12):
            (inputs if field.number == 11 else outputs).append(_read_tensor_info(field))
        elif kind == "node" and field.number == 7:
            _check_domain(field.text())
        elif kind == "tensor" and (field.number == 13 or (field.number == 14 and field.value != 0)):
            raise _ForbiddenModel(
                "the model keeps tensors in external data; a bundle's models hold everything themselves. Export it again"
            )
    return inputs, outputs


def _check_domain(domain: str) -> None:
    if domain not in _DOMAINS:
        raise _ForbiddenModel(
            f"operators of the domain {domain!r} are not allowed, only standard ONNX ones. Use another classifier"
        )


def _read_tensor_info(info: _ProtoField) -> TensorSpec:
    name, element_type = "", 0
    shape: list[int | None] = []
    for field in info.parts():
        if field.number == 1:
            name = field.text()
        elif field.number == 2:
            tensor = [part for kind in field.parts() if kind.number == 1 for part in kind.parts()]
            element_type = next((part.value for part in reversed(tensor) if part.number == 1), 0)
            sizes = [size for part in tensor if part.number == 2 for size in part.parts() if size.number == 1]
            shape = [next((part.value for part in size.parts() if part.number == 1), None) for size in sizes]
    return TensorSpec(name, element_type, tuple(shape))


def _read_fields(content: memoryview, counter: Iterator[int]) -> Iterator[_ProtoField]:
    """Yield the fields of a message; a group, or a length beyond the end, is refused."""
    position, end = 0, len(content)
    while position < end:
        number_run = _NUMBER_RUN.match(content, position)
        if number_run:
            position = number_run.end()
            continue
        key, position = _read_varint(content, position)
        number, wire_type = key >> 3, key & 7
        value, part = 0, None
        if wire_type == _VARINT:
            value, position = _read_varint(content, position)
        elif wire_type == _BYTES:
            length, position = _read_varint(content, position)
            part = content[position : position + length]
            position += length
        elif wire_type in (_FIXED64, _FIXED32):
            position += 8 if wire_type == _FIXED64 else 4
        else:
            raise _MalformedModel
        # A protobuf parser cuts a key down to 32 bits: a larger one is another field to it than to us.
        if position > end or not 0 < number < 2**29:
            raise _MalformedModel
        if next(counter) > MAX_FIELDS:
            raise _ForbiddenModel(f"the model has more than {MAX_FIELDS:,} parts. Use a smaller classifier")
        yield _ProtoField(number, value, part, counter)


def _read_varint(content: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(content) or shift > 63:
            raise _MalformedModel
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
