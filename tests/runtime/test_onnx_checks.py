"""Checks of ONNX files: what reaches outside, or is not what the manifest says, is found in the bytes alone."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, strategies as st

from emsco_runtime.bundle.onnx_checks import MAX_IR_VERSION, TensorSpec, find_model_fault
from emsco_runtime.testing import _bytes_field, _int_field, _node_proto, _tensor_proto, _value_info, _write_varint, logistic_model

SOURCE = TensorSpec("features", 11, (None, 2))
TARGET = TensorSpec("probabilities", 11, (None, 3))
WEIGHTS = _tensor_proto("weights", np.ones((2, 3)))
GEMM = _node_proto("Gemm", ["features", "weights"], "logits")
SOFTMAX = _node_proto("Softmax", ["logits"], "probabilities")
INPUT = _bytes_field(11, _value_info("features", 2))
OUTPUT = _bytes_field(12, _value_info("probabilities", 3))
GRAPH = _bytes_field(1, GEMM) + _bytes_field(1, SOFTMAX) + _bytes_field(2, b"graph") + _bytes_field(5, WEIGHTS) + INPUT + OUTPUT
OPSET = _bytes_field(8, _bytes_field(1, b"") + _int_field(2, 17))
DAMAGED = "not an ONNX model, or a damaged one. Export the bundle again"
# A tensor whose content lies in another file: its place, and the mark that says so.
PLACE = _bytes_field(13, _bytes_field(1, b"location") + _bytes_field(2, b"../../etc/passwd"))
MARK = _int_field(14, 1)
OUTSIDE = _int_field(1, 2) + _int_field(2, 11) + _bytes_field(8, b"outside")


def model(graph: bytes = GRAPH, *, version: int = 8, rest: bytes = OPSET) -> bytes:
    """Return a model around a graph."""
    return _int_field(1, version) + _bytes_field(7, graph) + rest


def fault(content: bytes) -> str | None:
    """Return what is wrong with a model of two inputs and three labels."""
    return find_model_fault(content, expected_input=SOURCE, expected_output=TARGET)


def attribute(field: int, content: bytes) -> bytes:
    """Return a graph with one more node, which has one attribute with this content."""
    return GRAPH + _bytes_field(1, SOFTMAX + _bytes_field(5, _bytes_field(1, b"value") + _bytes_field(field, content)))


def port(name: str, element_type: int, *sizes: int | str) -> bytes:
    """Describe an input or output of any type and shape."""
    shape = b"".join(
        _bytes_field(1, _int_field(1, size) if isinstance(size, int) else _bytes_field(2, size.encode())) for size in sizes
    )
    return _bytes_field(1, name.encode()) + _bytes_field(2, _bytes_field(1, _int_field(1, element_type) + _bytes_field(2, shape)))


def test_sound_models() -> None:
    """The models that these tests start from are accepted, and are models to onnxruntime too."""
    for content in (
        model(),
        logistic_model(np.ones((3, 2)), np.zeros(3)),
        logistic_model(np.ones((3, 2)), np.zeros(3), imputed=[0, 0]),
    ):
        assert fault(content) is None
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        assert session.run(None, {"features": np.zeros((4, 2))})[0].shape == (4, 3)


EXTERNAL = {
    "initializer, place": GRAPH + _bytes_field(5, OUTSIDE + PLACE),
    "initializer, mark": GRAPH + _bytes_field(5, OUTSIDE + MARK),
    "initializer, both": GRAPH + _bytes_field(5, OUTSIDE + PLACE + MARK),
    "initializer, unknown mark": GRAPH + _bytes_field(5, OUTSIDE + _int_field(14, 2)),
    "sparse initializer, values": GRAPH + _bytes_field(15, _bytes_field(1, OUTSIDE + PLACE)),
    "sparse initializer, indices": GRAPH + _bytes_field(15, _bytes_field(1, WEIGHTS) + _bytes_field(2, OUTSIDE + MARK)),
    "attribute, tensor": attribute(5, OUTSIDE + PLACE),
    "attribute, one of several tensors": attribute(10, WEIGHTS)
    + _bytes_field(1, _bytes_field(5, _bytes_field(10, OUTSIDE + MARK))),
    "attribute, sparse tensor": attribute(22, _bytes_field(1, OUTSIDE + PLACE)),
    "attribute, one of several sparse tensors": attribute(23, _bytes_field(2, OUTSIDE + MARK)),
    "subgraph, initializer": attribute(6, _bytes_field(5, OUTSIDE + PLACE)),
    "subgraph, one of several": attribute(11, _bytes_field(5, OUTSIDE + MARK)),
    "subgraph in a subgraph": attribute(6, _bytes_field(1, _bytes_field(5, _bytes_field(6, _bytes_field(5, OUTSIDE + PLACE))))),
    "subgraph, attribute": attribute(6, _bytes_field(1, _bytes_field(5, _bytes_field(5, OUTSIDE + MARK)))),
    "behind a run of numbers": GRAPH
    + _bytes_field(1, _bytes_field(5, _int_field(8, 300) * 5 + _bytes_field(5, OUTSIDE + PLACE))),
}


@pytest.mark.parametrize("graph", EXTERNAL.values(), ids=EXTERNAL)
def test_external_data(graph: bytes) -> None:
    """A tensor that lies in another file is found wherever tensors can be, by its place as well as by its mark."""
    message = fault(model(graph))
    assert message is not None
    assert message.startswith("the model keeps tensors in external data")


def test_data_said_to_be_inside_is_accepted() -> None:
    """The mark may be there with the value "in this file"."""
    assert fault(model(GRAPH + _bytes_field(5, OUTSIDE + _int_field(14, 0)))) is None


DOMAINS = {
    "opset": model(rest=OPSET + _bytes_field(8, _bytes_field(1, b"com.evil") + _int_field(2, 1))),
    "opset, behind a harmless one": model(
        rest=OPSET + _bytes_field(8, _bytes_field(1, b"") + _bytes_field(1, b"com.evil") + _int_field(2, 1))
    ),
    "node": model(GRAPH + _bytes_field(1, SOFTMAX + _bytes_field(7, b"com.evil"))),
    "node in a subgraph": model(attribute(6, _bytes_field(1, SOFTMAX + _bytes_field(7, b"com.evil")))),
}


@pytest.mark.parametrize("content", DOMAINS.values(), ids=DOMAINS)
def test_foreign_operators(content: bytes) -> None:
    """An operator set from elsewhere is refused by name, where it is imported and where it is used."""
    message = fault(content)
    assert message is not None
    assert "operators of the domain 'com.evil' are not allowed" in message


@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml"])
def test_standard_operators(domain: str) -> None:
    """The standard operator sets are accepted."""
    rest = OPSET + _bytes_field(8, _bytes_field(1, domain.encode()) + _int_field(2, 3))
    assert fault(model(GRAPH + _bytes_field(1, SOFTMAX + _bytes_field(7, domain.encode())), rest=rest)) is None


@pytest.mark.parametrize("field", [20, 25], ids=["training information", "functions"])
def test_functions_and_training(field: int) -> None:
    """Functions could hide operators, and training information holds graphs of its own."""
    message = fault(model(rest=OPSET + _bytes_field(field, b"")))
    assert message is not None
    assert "training information or functions" in message


@pytest.mark.parametrize("version", [0, 2, MAX_IR_VERSION + 1, 2**63])
def test_ir_version_outside(version: int) -> None:
    """A file format that the oldest supported onnxruntime cannot read is refused with its number."""
    message = fault(model(version=version))
    assert message is not None
    assert f"ONNX IR version {version} is not between 3 and {MAX_IR_VERSION}" in message


@pytest.mark.parametrize("version", [3, MAX_IR_VERSION])
def test_ir_version_inside(version: int) -> None:
    """The bounds are allowed."""
    assert fault(model(version=version)) is None


PORTS = {
    "wrong width": (port("features", 11, "rows", 5), OUTPUT, "input", "features: double[?, 5]"),
    "float instead of double": (port("features", 1, "rows", 2), OUTPUT, "input", "features: float[?, 2]"),
    "a type without a name here": (port("features", 16, "rows", 2), OUTPUT, "input", "features: type 16[?, 2]"),
    "another name": (port("x", 11, "rows", 2), OUTPUT, "input", "x: double[?, 2]"),
    "fixed number of rows": (port("features", 11, 1, 2), OUTPUT, "input", "features: double[1, 2]"),
    "open width": (port("features", 11, "rows", "width"), OUTPUT, "input", "features: double[?, ?]"),
    "three dimensions": (port("features", 11, "rows", 2, 1), OUTPUT, "input", "features: double[?, 2, 1]"),
    "no shape": (
        _bytes_field(1, b"features") + _bytes_field(2, _bytes_field(1, _int_field(1, 11))),
        OUTPUT,
        "input",
        "features: double[]",
    ),
    "no type": (_bytes_field(1, b"features"), OUTPUT, "input", "features: type 0[]"),
    "a sequence, not a tensor": (
        _bytes_field(1, b"features") + _bytes_field(2, _bytes_field(4, b"")),
        OUTPUT,
        "input",
        "features: type 0[]",
    ),
    "type written twice": (
        _bytes_field(1, b"features")
        + _bytes_field(2, _bytes_field(1, _int_field(1, 11) + _int_field(1, 1) + _bytes_field(2, b""))),
        OUTPUT,
        "input",
        "features: float[]",
    ),
    "too many labels": (
        _value_info("features", 2),
        _bytes_field(12, port("probabilities", 11, "rows", 4)),
        "output",
        "double[?, 4]",
    ),
    "output of floats": (
        _value_info("features", 2),
        _bytes_field(12, port("probabilities", 1, "rows", 3)),
        "output",
        "float[?, 3]",
    ),
    "two outputs": (
        _value_info("features", 2),
        OUTPUT + _bytes_field(12, _value_info("label", 1)),
        "output",
        "double[?, 3]; label: double[?, 1]",
    ),
    "no output": (_value_info("features", 2), b"", "output", "none"),
}


@pytest.mark.parametrize(("expected_input", "outputs", "which", "expected"), PORTS.values(), ids=PORTS)
def test_input_and_output(expected_input: bytes, outputs: bytes, which: str, expected: str) -> None:
    """One input and one output of the expected name, type and width: anything else is shown next to them."""
    message = fault(model(_bytes_field(5, WEIGHTS) + _bytes_field(11, expected_input) + outputs))
    spec = SOURCE if which == "input" else TARGET
    assert message == f"the model's {which} must be {spec}, it has {message_part(message)}. Export the bundle again"
    assert message_part(message).endswith(expected)


def message_part(message: str | None) -> str:
    """Return what a message says the model has."""
    assert message is not None
    return message.split("it has ")[1].removesuffix(". Export the bundle again")


def test_two_inputs_and_none() -> None:
    """A second input, or none, is refused; an initializer listed as input counts as one."""
    for inputs, expected in (
        (INPUT + _bytes_field(11, _value_info("weights", 3)), "features: double[?, 2]; weights: double[?, 3]"),
        (b"", "none"),
    ):
        assert message_part(fault(model(_bytes_field(5, WEIGHTS) + inputs + OUTPUT))) == expected


DAMAGES = {
    "nothing": b"",
    "text": b"not a model at all",
    "a pickle": b"\x80\x04\x95\x10\x00\x00\x00",
    "an HTML page": b"<!DOCTYPE html><html>",
    "no graph": _int_field(1, 8) + OPSET,
    "no operator set": _int_field(1, 8) + _bytes_field(7, GRAPH),
    "two graphs": model() + _bytes_field(7, GRAPH),
    "a number for a graph": _int_field(1, 8) + _int_field(7, 3) + OPSET,
    "a number for a node": model(_int_field(1, 3) + GRAPH),
    "a number for a name": model(_bytes_field(11, _int_field(1, 3)) + OUTPUT),
    "a name that is not UTF-8": model(_bytes_field(11, _bytes_field(1, b"\xff")) + OUTPUT),
    "a start of a group": model() + _write_varint(9 << 3 | 3),
    "an end of a group": model() + _write_varint(9 << 3 | 4),
    "field number 0": model() + _int_field(0, 1),
    "an unknown wire type": model() + _write_varint(9 << 3 | 7),
    "a number without end": model() + _write_varint(9 << 3) + b"\x80" * 20,
    "a number that breaks off": model() + _write_varint(9 << 3) + b"\x80",
    "eight bytes that break off": model() + _write_varint(9 << 3 | 1) + b"1234567",
    "four bytes that break off": model() + _write_varint(9 << 3 | 5) + b"123",
    "text that breaks off": model() + _write_varint(9 << 3 | 2) + b"\x05abc",
    "a run of numbers that breaks off": model() + _int_field(8, 5) * 3 + b"\x40\x80",
    "graphs in graphs, 5,000 deep": b"",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(name: str) -> None:
    """Bytes that are not a protobuf message of a model are refused as such."""
    content = DAMAGES[name]
    if "deep" in name:
        graph = GRAPH
        for _ in range(5_000):
            graph = _bytes_field(1, _bytes_field(5, _bytes_field(6, graph)))
        content = model(graph)
    assert fault(content) == DAMAGED


def test_unknown_fields_are_ignored() -> None:
    """Names, notes and numbers that the audit does not need do no harm, whatever their wire type."""
    known = _bytes_field(2, b"producer") + _bytes_field(14, _bytes_field(1, b"key") + _bytes_field(2, b"value"))
    fixed = _write_varint(99 << 3 | 1) + b"12345678" + _write_varint(99 << 3 | 5) + b"1234"
    sparse = _bytes_field(15, _bytes_field(1, WEIGHTS) + _bytes_field(2, WEIGHTS) + _int_field(3, 4))
    noted = GRAPH.replace(INPUT, _bytes_field(11, _value_info("features", 2) + _bytes_field(3, b"a note")))
    assert fault(model(noted + sparse + _bytes_field(13, _value_info("logits", 3)), rest=OPSET + known + fixed)) is None


def test_a_key_that_a_parser_would_cut_down() -> None:
    """Protobuf reads a key as 32 bits: one with a bit above them is external data to onnxruntime and must not pass here."""
    above = 1 << 32
    place = _write_varint(13 << 3 | 2 | above) + _write_varint(len(PLACE) - 2) + PLACE[2:]
    content = model(GRAPH + _bytes_field(5, OUTSIDE + place + _write_varint(14 << 3 | above) + _write_varint(1)))
    assert fault(content) == DAMAGED


@pytest.mark.parametrize("producer", [b"..ORTM", b"..ORTM" + b"." * 80])
def test_a_file_with_two_meanings(producer: bytes) -> None:
    """Four letters at the right place make onnxruntime read its own format, whatever the audit saw: refused."""
    message = fault(_bytes_field(2, producer) + model())
    assert message is not None
    assert "onnxruntime's own format" in message


def test_truncated_at_every_byte() -> None:
    """However much of the end is cut off, the rest is refused."""
    content = logistic_model(np.ones((3, 2)), np.zeros(3), imputed=[0, 0])
    assert fault(content) is None
    for length in range(len(content)):
        assert fault(content[:length]) is not None, length


@given(content=st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    """Whatever the bytes are, the answer is a sentence, never an exception."""
    message = fault(content)
    assert isinstance(message, str)
    assert message


@given(data=st.data())
def test_random_damage(data: st.DataObject) -> None:
    """Bytes replaced anywhere in a sound model give a sentence or a sound model, never an exception."""
    content = bytearray(model(attribute(22, _bytes_field(1, WEIGHTS))))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    message = fault(bytes(content))
    assert message is None or message


@given(start=st.sampled_from([_int_field(1, 8), _int_field(1, 8) + b"\x3a", model()]), content=st.binary(max_size=60))
def test_random_ends(start: bytes, content: bytes) -> None:
    """Random bytes behind a sound beginning reach deeper into the reader, and give no exception either."""
    message = fault(start + content)
    assert message is None or message


@pytest.mark.parametrize(
    "one",
    [_int_field(8, 2**63), _int_field(8, 5), _write_varint(7 << 3 | 5) + b"\x00\x00\x80\x3f"],
    ids=["long", "short", "float"],
)
def test_a_forest(one: bytes) -> None:
    """An attribute with a million numbers, as tree ensembles have, is skipped; what follows it is still checked."""
    numbers = _bytes_field(5, _bytes_field(1, b"nodes_nodeids") + one * 1_000_000)
    assert fault(model(GRAPH + _bytes_field(1, SOFTMAX + numbers))) is None
    message = fault(model(GRAPH + _bytes_field(1, SOFTMAX + numbers + _bytes_field(7, b"com.evil"))))
    assert message is not None
    assert "com.evil" in message


def test_a_file_of_countless_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of parts is bounded, and so is the time that a hostile file can take."""
    monkeypatch.setattr("emsco_runtime.bundle.onnx_checks.MAX_FIELDS", 1000)
    content = b"\x28\x00" * 2000
    fault = find_model_fault(
        content, expected_input=TensorSpec("features", 11, (None, 1)), expected_output=TensorSpec("probabilities", 11, (None, 2))
    )
    assert fault is not None
    assert "more than 1,000 parts" in fault
