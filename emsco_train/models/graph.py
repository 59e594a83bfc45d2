"""Stage graphs: the home of onnx and skl2onnx, with `trees/onnx_node.py`.

A stage graph takes one float64 tensor ``features`` [rows, inputs] and gives one float64 tensor ``probabilities`` [rows, labels].
Imputing, standardising, one-hot encoding and curves are inside. Logistic stages and boosted trees are written directly; others
are converted by skl2onnx and inserted behind the same encoding.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from emsco_runtime.support.arrays import Array, Floats
from emsco_train.data.encoder import Block, BlockEncoder
from emsco_train.models.curve_trees import curve_ensemble
from emsco_train.models.logistic.regression import LogisticModel
from emsco_train.models.stage_model import ClassifierModel
from emsco_train.models.trees.onnx_node import OPSET_ML as _OPSET_ML_OF_TREES, tree_node
from emsco_train.models.trees.tree_classifier import TreeClassifier

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

__all__ = ["INPUT", "OUTPUT", "Precision", "classifier_graph", "logistic_graph", "tree_graph"]

INPUT = "features"
OUTPUT = "probabilities"
Precision: TypeAlias = Literal["double", "float"]

# Old enough for every onnxruntime that we support, new enough for float64 kernels of all the operators used here.
_OPSET = 17
_OPSET_ML = 3
_IR_VERSION = 8
_DOMAINS = ("", "ai.onnx.ml")


def _onnx() -> Any:
    """Import onnx, which takes a while: training writes graphs only where a row is near a threshold, and exports."""
    import onnx  # noqa: PLC0415

    return onnx


@dataclass(slots=True)
class _GraphBuilder:
    """Nodes and constants of a graph in the making; names are numbered, so that the same graph has the same bytes."""

    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    opset_ml: int = _OPSET_ML

    def constant(self, values: Array) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(_onnx().numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: int) -> str:
        name = output or f"value_{len(self.nodes)}"
        helper = _onnx().helper
        node = helper.make_node(operator, list(inputs), [name])
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.nodes.append(node)
        return name

    def serialize(self, inputs: int, labels: int) -> bytes:
        onnx = _onnx()
        source = onnx.helper.make_tensor_value_info(INPUT, onnx.TensorProto.DOUBLE, ["rows", inputs])
        target = onnx.helper.make_tensor_value_info(OUTPUT, onnx.TensorProto.DOUBLE, ["rows", labels])
        graph = onnx.helper.make_graph(self.nodes, "stage", [source], [target], self.constants)
        opsets = [onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid("ai.onnx.ml", self.opset_ml)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, producer_name="emsco", ir_version=_IR_VERSION)
        return bytes(model.SerializeToString(deterministic=True))


def logistic_graph(encoder: BlockEncoder, model: LogisticModel) -> bytes:
    """Return the ONNX graph of a logistic stage, whose model is fitted on the columns that `encoder` makes of its inputs."""
    numbers = [index for index, block in enumerate(encoder.blocks) if not block.categories and block.curve is None]
    curves = [index for index, block in enumerate(encoder.blocks) if not block.categories and block.curve is not None]
    categories = [index for index, block in enumerate(encoder.blocks) if block.categories]
    builder = _GraphBuilder(opset_ml=_OPSET_ML_OF_TREES if curves else _OPSET_ML)
    # Trees tell gaps from numbers themselves.
    filled = _impute(builder, encoder) if numbers or categories else INPUT
    logits = _number_logits(builder, filled, numbers, encoder, model) if numbers else ""
    if curves:
        logits = _curve_logits(builder, curves, encoder, model, logits or builder.constant(model.intercept))
    if categories:
        by_category = _category_logits(builder, filled, categories, encoder, model)
        logits = builder.add("Add", by_category, logits or builder.constant(model.intercept))
    builder.add("Softmax", logits, axis=1, output=OUTPUT)
    return builder.serialize(len(encoder.blocks), len(model.intercept))


def tree_graph(encoder: BlockEncoder, model: TreeClassifier) -> bytes:
    """Return the ONNX graph of a stage of boosted trees, in float64 throughout."""
    builder = _GraphBuilder(opset_ml=_OPSET_ML_OF_TREES)
    encoded = _encode(builder, _impute(builder, encoder), encoder)
    builder.nodes.append(tree_node(model.ensemble, encoded, "tree_sums"))
    base = model.ensemble.base
    if len(base) == 1:
        # The score of the first label is 0.
        weights, start = builder.constant(np.array([[0.0, 1.0]])), builder.constant(np.array([0.0, base[0]]))
        scores = builder.add("Gemm", "tree_sums", weights, start)
    else:
        scores = builder.add("Add", "tree_sums", builder.constant(base))
    builder.add("Softmax", scores, axis=1, output=OUTPUT)
    return builder.serialize(len(encoder.blocks), model.labels)


def classifier_graph(encoder: BlockEncoder, model: ClassifierModel, labels: int, precision: Precision) -> bytes:
    """Return the ONNX graph of a stage with any other classifier, which itself works in this precision; all else is float64.

    Raises whatever skl2onnx raises for a classifier that it cannot convert; `convert_stage` turns it into our own error.
    """
    builder = _GraphBuilder()
    encoded = _encode(builder, _impute(builder, encoder), encoder)
    if precision == "float":
        encoded = builder.add("Cast", encoded, to=_onnx().TensorProto.FLOAT)
    graph = _convert_classifier(model.estimator, encoder.width, precision)
    source = graph.input[0].name
    # The probabilities are the second output; the label before them is dropped, with all nodes that lead only to it.
    target = graph.output[1].name
    nodes = _nodes_leading_to(graph.node, target)
    builder.add("Identity", encoded, output=source)
    builder.nodes.extend(nodes)
    used = {name for node in nodes for name in _input_names(node)}
    builder.constants.extend(constant for constant in graph.initializer if constant.name in used)
    builder.add("Cast", target, to=_onnx().TensorProto.DOUBLE, output=OUTPUT)
    return builder.serialize(len(encoder.blocks), labels)


def _impute(builder: _GraphBuilder, encoder: BlockEncoder) -> str:
    if not any(block.impute for block in encoder.blocks):
        return INPUT
    # Where gaps are forbidden the runtime lets no NaN through, so one row of fill values serves all inputs.
    fills = builder.constant(np.array([[_fill_code(block) for block in encoder.blocks]]))
    return builder.add("Where", builder.add("IsNaN", INPUT), fills, INPUT)


def _fill_code(block: Block) -> float:
    """Return what stands for a gap: of a category with a curve, the place after its codes, where the level of a gap is."""
    return float(block.categories) if block.categories and block.curve is not None else block.fill


def _gather(builder: _GraphBuilder, values: str, positions: Sequence[int], encoder: BlockEncoder) -> str:
    if list(positions) == list(range(len(encoder.blocks))):
        return values
    return builder.add("Gather", values, builder.constant(np.array(positions, dtype=np.int64)), axis=1)


def _number_logits(
    builder: _GraphBuilder, filled: str, positions: Sequence[int], encoder: BlockEncoder, model: LogisticModel
) -> str:
    blocks = [encoder.blocks[index] for index in positions]
    columns = encoder.block_columns(positions)
    scales = np.array([block.scale for block in blocks])
    # The mean is subtracted, not folded into the intercept: with large means the difference of two large numbers would lose
    # the digits that matter.
    means = builder.constant(np.array([[block.mean for block in blocks]]))
    centred = builder.add("Sub", _gather(builder, filled, positions, encoder), means)
    weights = builder.constant((model.coef[:, columns] / scales).T)
    return builder.add("Gemm", centred, weights, builder.constant(model.intercept))


def _curve_logits(
    builder: _GraphBuilder, positions: Sequence[int], encoder: BlockEncoder, model: LogisticModel, others: str
) -> str:
    """Add what curves of numbers contribute to the logits of everything else."""
    has_halves = len(model.intercept) == 2
    # Of two labels, the logits are the halves of one number, with both signs: one tree per feature will do.
    ensemble = curve_ensemble(encoder, positions, model.coef[1:] if has_halves else model.coef)
    builder.nodes.append(tree_node(ensemble, INPUT, "curve_sums"))
    if has_halves:
        return builder.add("Gemm", "curve_sums", builder.constant(np.array([[-1.0, 1.0]])), others)
    return builder.add("Add", "curve_sums", others)


def _category_logits(
    builder: _GraphBuilder, filled: str, positions: Sequence[int], encoder: BlockEncoder, model: LogisticModel
) -> str:
    """Look weights up instead of multiplying by ones and zeros: one stacked table, a row of zeros before each feature's own."""
    parts: list[Floats] = []
    offsets: list[int] = []
    for index in positions:
        block = encoder.blocks[index]
        offsets.append(1 + sum(len(part) for part in parts))
        weights = model.coef[:, encoder.block_columns([index])]
        by_code = weights if block.curve is None else weights @ block.curve.column_levels
        parts.append(np.vstack([np.zeros(len(model.intercept)), by_code.T]))
    codes = builder.add("Cast", _gather(builder, filled, positions, encoder), to=_onnx().TensorProto.INT64)
    rows = builder.add("Add", codes, builder.constant(np.array([offsets], dtype=np.int64)))
    looked_up = builder.add("Gather", builder.constant(np.vstack(parts)), rows, axis=0)
    return builder.add("ReduceSum", looked_up, builder.constant(np.array([1], dtype=np.int64)), keepdims=0)


def _encode(builder: _GraphBuilder, filled: str, encoder: BlockEncoder) -> str:
    """Write the columns of the encoded matrix: the operations of `BlockEncoder.transform`, in the same order.

    Every column is computed both as a number and as a category and the right one is taken, so that the number of nodes does not
    grow with the number of features.
    """
    encoded_columns = [(block, index, code) for index, block in enumerate(encoder.blocks) for code in range(block.width)]
    values = _gather(builder, filled, [index for _, index, _ in encoded_columns], encoder)
    is_category = np.array([[bool(block.categories) for block, _, _ in encoded_columns]])
    standardised = ""
    if not is_category.all():
        means = builder.constant(np.array([[block.mean for block, _, _ in encoded_columns]]))
        scales = builder.constant(np.array([[block.scale for block, _, _ in encoded_columns]]))
        standardised = builder.add("Div", builder.add("Sub", values, means), scales)
    if not is_category.any():
        return standardised
    codes = builder.constant(np.array([[float(code) for _, _, code in encoded_columns]]))
    one_hot = builder.add("Cast", builder.add("Equal", values, codes), to=_onnx().TensorProto.DOUBLE)
    return builder.add("Where", builder.constant(is_category), one_hot, standardised) if standardised else one_hot


def _convert_classifier(estimator: Any, width: int, precision: Precision) -> GraphProto:
    # Imported here: skl2onnx loads much of scikit-learn, and logistic stages never need it.
    from skl2onnx import convert_sklearn  # noqa: PLC0415
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType  # noqa: PLC0415

    tensor = DoubleTensorType if precision == "double" else FloatTensorType
    with warnings.catch_warnings():
        # Converters read deprecated attributes of the estimators; that is between the two libraries.
        warnings.simplefilter("ignore")
        model: ModelProto = convert_sklearn(
            estimator,
            initial_types=[("encoded", tensor([None, width]))],
            options={"zipmap": False},
            target_opset={"": _OPSET, "ai.onnx.ml": _OPSET_ML},
        )
    unknown_domains = {opset.domain for opset in model.opset_import} - set(_DOMAINS)
    if unknown_domains:
        raise NotImplementedError(
            f"its graph needs operators of {sorted(unknown_domains)}, which plain onnxruntime does not have"
        )
    if precision == "double" and any(node.op_type.startswith("TreeEnsemble") for node in model.graph.node):
        # The operator has float32 thresholds: float64 values would fall on the other side of some, which the training rows
        # alone may not show. scikit-learn's trees work in float32 themselves.
        raise NotImplementedError("trees compare in float32")
    _renumber_names(model.graph, {})
    return model.graph


def _nodes_leading_to(nodes: Iterable[NodeProto], target: str) -> list[NodeProto]:
    """Return the nodes that lead to `target`, in their order."""
    wanted = {target}
    kept: list[NodeProto] = []
    for node in reversed(list(nodes)):
        if wanted.intersection(node.output):
            wanted.update(_input_names(node))
            kept.append(node)
    return kept[::-1]


def _input_names(node: NodeProto) -> list[str]:
    """Return the names that a node reads, those inside its subgraphs included."""
    inner = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [*node.input, *(name for graph in inner for child in graph.node for name in _input_names(child))]


def _renumber_names(graph: GraphProto, names: dict[str, str]) -> None:
    """Rename everything by its order of appearance: converters number names across the process, which would change the bytes."""
    graph.name = "classifier"
    del graph.value_info[:]

    def new(name: str) -> str:
        # The empty name means an input that is left out.
        return names.setdefault(name, f"classifier_{len(names)}") if name else ""

    for entry in (*graph.input, *graph.initializer, *graph.output):
        entry.name = new(entry.name)
    for node in graph.node:
        node.name = node.doc_string = ""
        node.input[:] = [new(name) for name in node.input]
        node.output[:] = [new(name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _renumber_names(attribute.g, names)
